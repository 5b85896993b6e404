"""``python -m holdfast``: the command, where only the interpreter is at hand."""

from __future__ import annotations

from holdfast.apps.cli import run_program

if __name__ == "__main__":
    run_program()
