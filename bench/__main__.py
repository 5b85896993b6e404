"""``python -m bench [--quick] [--rounds N] [--only NAME…] [--check]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from typing import Any

from bench.acp import Loaded, Proxied
from bench.branching import Archive, Fork
from bench.catalogue import Feeding, Lists, Search
from bench.child import SCRATCH
from bench.fresh import Bytes, Imports, Load, Memory, Syncs
from bench.live import Append, Flush, Growth
from bench.recovery import peers
from bench.redaction import Redaction
from bench.sealing import Sealing
from bench.service import Service
from bench.stores import Postgres, SQLite
from bench.table import show, write
from bench.tui import Painted, Pressed
from bench.web import Pages

CASES = (
    Append,
    Flush,
    Syncs,
    Growth,
    Bytes,
    Load,
    Memory,
    Imports,
    Lists,
    Search,
    Feeding,
    Fork,
    Archive,
    Sealing,
    SQLite,
    Postgres,
    Proxied,
    Loaded,
    Painted,
    Pressed,
    Pages,
    Redaction,
    Service,
)


def main() -> int:
    """Measure, print, and write the table of a whole run; 1 with ``--check`` and a missed mark."""
    names = {case.__name__.lower(): case for case in CASES}
    parser = argparse.ArgumentParser(prog="bench", description="Ratios to the machine's floor.")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="less of everything, about three minutes; nothing is written",
    )
    parser.add_argument("--rounds", type=int, default=0, help="5, or 3 with --quick")
    parser.add_argument("--only", nargs="+", choices=names, help="some lines; nothing is written")
    parser.add_argument("--check", action="store_true", help="fail if a mark is missed")
    chosen = parser.parse_args()
    rounds = chosen.rounds or (3 if chosen.quick else 5)
    cases = [names[name](quick=chosen.quick) for name in chosen.only or names]
    if not chosen.only and not chosen.quick:
        peers.install()
    run(cases, rounds)
    lines = [line for case in cases for line in case.lines()]
    print(show(lines))
    if not chosen.only and not chosen.quick:
        write(lines, rounds)
    return int(chosen.check and any(line.met is False for line in lines))


def run(cases: list, rounds: int) -> None:
    """Every case in every round, so that a slow minute of the machine hits all of them."""
    os.makedirs(SCRATCH, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH) as folder,
        ExitStack() as after,
    ):
        for case in cases:
            _prepare(case, folder, after)
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
            for case in cases:
                with tempfile.TemporaryDirectory(dir=folder) as scratch:
                    case.measure(scratch)


def _prepare(case: Any, folder: str, after: ExitStack) -> None:
    """What a case needs in every round is made once; what it started is ended with the run."""
    if hasattr(case, "finish"):
        after.callback(case.finish)
    if hasattr(case, "prepare"):
        name = type(case).__name__.lower()
        print(f"preparing {name}", file=sys.stderr)
        place = os.path.join(folder, name)
        os.mkdir(place)
        case.prepare(place)


if __name__ == "__main__":
    sys.exit(main())
