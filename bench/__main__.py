"""``python -m bench [--quick] [--rounds N] [--only NAME…] [--check]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench import table
from bench.acp import Loaded, Proxied
from bench.ahead import Ahead
from bench.away import Away
from bench.branching import Archive, Fork, ManyForks
from bench.catalogue import Feeding, Lists, Search
from bench.chat import ChatStart
from bench.child import SCRATCH
from bench.command import Command
from bench.fresh import Bytes, Imports, Load, Memory, Syncs
from bench.kept import Section, keep, section
from bench.lag import Lag
from bench.live import Append, Flush, Growth
from bench.many import Processes, Together
from bench.recovery import peers
from bench.redaction import Redaction
from bench.resuming import Resume
from bench.sealing import Sealing
from bench.server import end_on_request
from bench.service import Service
from bench.steps import Steps
from bench.stores import Postgres, SQLite
from bench.tui import Painted, Pressed
from bench.web import Pages

CASES = (
    Append,
    Ahead,
    Flush,
    Syncs,
    SQLite,
    Together,
    Away,
    Growth,
    Bytes,
    Archive,
    Load,
    Resume,
    Memory,
    Imports,
    Command,
    ChatStart,
    Lists,
    Search,
    Feeding,
    Lag,
    Processes,
    Postgres,
    Fork,
    ManyForks,
    Steps,
    Sealing,
    Proxied,
    Loaded,
    Painted,
    Pressed,
    Pages,
    Redaction,
    Service,
)
_EXIT_MISSED = 1
_EXIT_FAILED = 2


def main() -> int:
    """Measure, print, store, and write the table; return 1 with ``--check`` if a mark is missed.

    2 if a section failed: the others are kept all the same.
    """
    names = {case.__name__.lower(): case for case in CASES}
    parser = argparse.ArgumentParser(prog="bench", description="Ratios to the machine's floor.")
    parser.add_argument(
        "--quick", action="store_true", help="less of everything, about three minutes; nothing is written"
    )
    parser.add_argument("--rounds", type=int, default=0, help="5, or 3 with --quick")
    parser.add_argument("--only", nargs="+", choices=names, help="some sections; the others stay as they were")
    parser.add_argument("--check", action="store_true", help="fail if a mark is missed")
    parser.add_argument("--table", action="store_true", help="write the table from what is kept; measure nothing")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    chosen = parser.parse_args()
    if chosen.table:
        table.write(keep({}))
        return 0
    rounds = chosen.rounds or (3 if chosen.quick else 5)
    if not chosen.only and not chosen.quick:
        peers.install()
    end_on_request()
    cases = {name: names[name](quick=chosen.quick) for name in chosen.only or names}
    found = run(cases, rounds)
    print(table.show([line for one in found.values() for line in one.lines]))
    if not chosen.quick and not chosen.dry:
        table.write(keep(found))
    return _judged(found, is_checked=chosen.check)


def _judged(found: dict[str, Section], *, is_checked: bool) -> int:
    failed = {name: one.failed for name, one in found.items() if one.failed}
    for name, why in failed.items():
        print(f"{name} failed: {why}", file=sys.stderr)
    if failed:
        return _EXIT_FAILED
    is_missed = any(line.met is False for one in found.values() for line in one.lines)
    return _EXIT_MISSED if is_checked and is_missed else 0


class _Run:
    """The state of a section: its time so far, and the error that stopped it."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.failed = ""
        self.rounds = 0
        self._seconds = 0.0

    def do(self, work: Callable[[str], None], folder: str) -> None:
        """Run a part, unless an earlier one failed."""
        if self.failed:
            return
        begin = time.monotonic()
        try:
            work(folder)
        except Exception as error:  # noqa: BLE001 - it takes no other section with it
            traceback.print_exc()
            self.failed = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        self._seconds += time.monotonic() - begin

    def section(self) -> Section:
        """Return the results of the rounds in which it took part."""
        try:
            lines = self.case.lines() if self.rounds else []
        except Exception as error:  # noqa: BLE001 - the same
            traceback.print_exc()
            lines, self.failed = [], self.failed or f"{type(error).__name__}: {error}"
        return section(lines, self.rounds, self._seconds, self.failed)


def run(cases: dict[str, Any], rounds: int) -> dict[str, Section]:
    """Run every case in every round, so that a slow minute of the machine affects all of them.

    Interrupted, it gives what there is.
    """
    os.makedirs(SCRATCH, exist_ok=True)
    runs = {name: _Run(case) for name, case in cases.items()}
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=SCRATCH, ignore_cleanup_errors=True) as folder,
        ExitStack() as after,
    ):
        try:
            for name, one in runs.items():
                _prepare(name, one, folder, after)
            for number in range(rounds):
                print(f"round {number + 1} of {rounds}", file=sys.stderr)
                for name, one in runs.items():
                    # Long cases without a target are measured less often.
                    if number < getattr(one.case, "ROUNDS", rounds):
                        print(f"  {name}", file=sys.stderr, end="", flush=True)
                        _measure(one, folder)
                print(file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted: what was measured is kept", file=sys.stderr)
    found = {name: one.section() for name, one in runs.items()}
    for name, one in sorted(found.items(), key=lambda item: -item[1].seconds)[:8]:
        print(f"{one.seconds:6.1f} s {name}", file=sys.stderr)
    return {name: one for name, one in found.items() if one.rounds or one.failed}


def _measure(one: _Run, folder: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as scratch:
        one.do(one.case.measure, scratch)
    one.rounds += not one.failed


def _prepare(name: str, one: _Run, folder: str, after: ExitStack) -> None:
    """Set up each case once for all rounds, and clean up at the end of the run."""
    if hasattr(one.case, "finish"):
        after.callback(_finish, one.case)
    if hasattr(one.case, "prepare"):
        print(f"preparing {name}", file=sys.stderr)
        place = os.path.join(folder, name)
        os.mkdir(place)
        one.do(one.case.prepare, place)


def _finish(case: Any) -> None:
    try:
        case.finish()
    except Exception:  # noqa: BLE001 - the figures are there by now
        traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())
