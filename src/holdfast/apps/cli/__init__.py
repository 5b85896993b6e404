"""The command ``holdfast``: a module per subject, loaded when one of its verbs is asked for."""

from __future__ import annotations

import atexit
import gc
import os
import sys

TYPE_CHECKING = False  # loading `typing` takes longer than what the quick start needs
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

    from holdfast.apps.cli._app import App, cli

__all__ = ["App", "cli", "main", "run_program"]

# They run until somebody ends them.
_ENDLESS = frozenset(["chat", "tui", "web", "acp", "bridge", "mcp", "serve"])
_LONG = _ENDLESS | {"run"}  # their garbage is collected as in any other program
_COLLECT_AFTER = 100_000  # new objects; most verbs end before they have made that many


def run_program() -> NoReturn:
    """Run the command line as a process of its own, which ends here."""
    try:
        main()
    except SystemExit as leaving:
        ends = len(sys.argv) > 1 and _ENDLESS.isdisjoint(sys.argv)
        if ends and isinstance(leaving.code, int) and _is_whole_program(sys._getframe(1)):  # noqa: SLF001 - nothing else tells who waits
            _exit_at_once(leaving.code)
        raise


def main() -> NoReturn:
    """Run the command line, and leave with SystemExit."""
    arguments = sys.argv[1:]
    _fill_streams()
    # Collecting garbage, once more at the exit, took a quarter of the time of a short verb.
    if arguments and _LONG.isdisjoint(arguments):
        gc.set_threshold(_COLLECT_AFTER)
    try:
        _run(arguments)
    finally:
        gc.freeze()


def _fill_streams() -> None:
    """Give the null device to standard streams that are closed: else files that are opened later get their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            from holdfast.storage import open_nowhere

            setattr(sys, name, os.fdopen(open_nowhere(), mode, encoding="utf-8", closefd=False))


def _is_whole_program(caller: FrameType) -> bool:
    """Return whether nobody waits for the caller, a module: no debugger, no profiler, no program around it."""
    if sys.flags.inspect or sys.warnoptions:  # whoever asks for warnings gets those of the very end, too
        return False
    beneath = caller.f_back
    while beneath is not None and beneath.f_globals.get("__name__") == "runpy":  # of `python -m`
        beneath = beneath.f_back
    return beneath is None


def _exit_at_once(code: int) -> None:
    """End the process without taking the interpreter apart, which takes a tenth of a short verb's time.

    What Python promises at an exit is done: other threads are waited for, exit functions run, output is written.
    Where that fails it returns, and Python says so in its usual way.
    """
    try:
        if threading := sys.modules.get("threading"):
            threading._shutdown()  # noqa: SLF001 - as the interpreter itself calls it
        atexit._run_exitfuncs()  # noqa: SLF001 - the public functions only register them
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException:  # noqa: BLE001 - a usual exit tries again, and tells of it
        return
    os._exit(code)


def _run(arguments: list[str]) -> NoReturn:
    """Run the fast path for a plain list, or else the whole command."""
    if _may_be_a_list(arguments):
        from holdfast.apps.cli._quick_list import quick_list

        code = quick_list(arguments)
        if code is not None:
            sys.exit(code)
    from holdfast.apps.cli._app import cli

    cli()
    raise AssertionError  # cli leaves with an exit code


def _may_be_a_list(arguments: list[str]) -> bool:
    """Return whether the verb is ``list``: options and a value may stand before it, but no other verb."""
    at = next((at for at, word in enumerate(arguments) if word in ("list", "ls")), None)
    return at is not None and (not at or any(word[:1] == "-" for word in arguments[max(at - 2, 0) : at]))


def __getattr__(name: str) -> Any:
    if name not in ("App", "cli"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.apps.cli import _app

    value = globals()[name] = getattr(_app, name)
    return value
