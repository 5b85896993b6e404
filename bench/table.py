"""The results for people: on the terminal and in a file."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence

import msgspec

import holdfast
from bench.figures import Line

__all__ = ["show", "write"]

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "RESULTS.md")

_HEAD = """\
# Results

Written by `make bench`; do not edit. Holdfast {version}, Python {python}, msgspec {msgspec},
{system}, {rounds} rounds.

Each figure is a ratio to the least that any store must do on the same machine, named in parentheses
and measured before, between and after ours in the same run. The ratio is the median of the rounds,
with the lowest and the highest round beside it; times are medians and only say where it comes
from. In place of a floor some lines name a limit, both ends of an exponent, or another tool at the
same work, which is only told. Marks are at-most values. Workload: user 200 B, assistant 1 KB, tool
call 300 B, tool result 4 KB in turn, 1.56 KB per plain line on average; see `bench/workload.py`.

| what (floor) | ratio | rounds | mark | | ours | floor |
|---|--:|---|--:|---|--:|--:|
"""


def show(lines: Sequence[Line]) -> str:
    """The lines as text."""
    width = max((len(line.what) for line in lines), default=0)
    rows = [
        f"{line.what:{width}}  {line.ratio:7.3f}  {_spread(line):15} {_mark(line):>6}"
        f" {_verdict(line):6} {line.ours:>20} {line.floor:>20}"
        for line in lines
    ]
    return "\n".join(rows)


def write(lines: Sequence[Line], rounds: int) -> None:
    """Put the table into RESULTS.md."""
    head = _HEAD.format(
        version=holdfast.__version__,
        python=platform.python_version(),
        msgspec=msgspec.__version__,
        system=sys.platform,
        rounds=rounds,
    )
    rows = [
        f"| {line.what} | {line.ratio:.3f} | {_spread(line)} | {_mark(line)} | {_verdict(line)}"
        f" | {line.ours} | {line.floor} |"
        for line in lines
    ]
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(head + "\n".join(rows) + "\n")


def _spread(line: Line) -> str:
    low, high = line.spread
    return f"{low:.3f} - {high:.3f}"


def _mark(line: Line) -> str:
    return "" if line.mark is None else f"{line.mark:g}"


def _verdict(line: Line) -> str:
    return {None: "", True: "met", False: "missed"}[line.met]
