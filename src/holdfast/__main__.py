"""``python -m holdfast``: the command, where only the interpreter is at hand."""

from __future__ import annotations

from holdfast.apps.cli import main

if __name__ == "__main__":
    main()
