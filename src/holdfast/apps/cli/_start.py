"""Where the command starts: the quick way for a plain list, the whole command for all else."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # loading `typing` would take longer than this module
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """The entry point of the command."""
    arguments = sys.argv[1:]
    if "list" in arguments:
        from holdfast.apps.cli._quick_list import quick_list

        code = quick_list(arguments)
        if code is not None:
            sys.exit(code)
    from holdfast.apps.cli._app import cli

    cli()
    raise AssertionError  # cli leaves with an exit code
