"""The command ``holdfast``: a module per subject, loaded when one of its verbs is asked for."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False  # loading `typing` takes longer than what the quick start needs
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from holdfast.apps.cli._app import App, cli

__all__ = ["App", "cli", "main"]

# They run until somebody ends them, so their garbage is collected as in any other program.
_LONG = frozenset(["chat", "run", "tui", "web", "acp", "bridge", "mcp", "serve"])
_COLLECT_AFTER = 100_000  # new objects; most verbs are over before they have made so many


def main() -> NoReturn:
    """Run the command line, and exit."""
    arguments = sys.argv[1:]
    # Collecting garbage, once more at the exit, took a quarter of the time of a short verb.
    if arguments and _LONG.isdisjoint(arguments):
        gc.set_threshold(_COLLECT_AFTER)
    try:
        _run(arguments)
    finally:
        gc.freeze()


def _run(arguments: list[str]) -> NoReturn:
    """The quick way for a plain list, else the whole command."""
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
