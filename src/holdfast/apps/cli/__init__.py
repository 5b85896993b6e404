"""The command ``holdfast``: a module per subject, loaded when one of its verbs is asked for."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # loading `typing` takes longer than what the quick start needs
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from holdfast.apps.cli._app import App, cli

__all__ = ["App", "cli", "main"]


def main() -> NoReturn:
    """The entry point of the command: the quick way for a plain list, else the whole command."""
    arguments = sys.argv[1:]
    if "list" in arguments or "ls" in arguments:
        from holdfast.apps.cli._quick_list import quick_list

        code = quick_list(arguments)
        if code is not None:
            sys.exit(code)
    from holdfast.apps.cli._app import cli

    cli()
    raise AssertionError  # cli leaves with an exit code


def __getattr__(name: str) -> Any:
    if name not in ("App", "cli"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.apps.cli import _app

    value = globals()[name] = getattr(_app, name)
    return value
