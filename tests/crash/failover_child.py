"""A writer that goes on while its database fails over, and writes down what was acknowledged.

Run as a program: failover_child.py URL ID STOP OUT. It goes on until there is a file STOP.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import holdfast


def main(url: str, id: str, stop: str, out: str) -> None:
    with (
        open(out, "w", buffering=1, encoding="utf-8") as notes,
        holdfast.open(url) as hf,
        hf.session(id, autosave_ms=0, snapshot_ms=0) as s,
    ):
        for number in count():
            if Path(stop).exists():
                break
            s.user(str(number))
            s.flush()
            notes.write(f"{number}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
