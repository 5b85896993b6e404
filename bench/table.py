"""The presentation of the results: on the terminal, in RESULTS.md, and on the page about performance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from bench import charts
from bench.child import ROOT
from bench.figures import Line
from bench.goals import CAUSES, GOALS, Goal
from bench.kept import Section

__all__ = ["PAGE", "PATH", "page_with", "promises", "show", "whole", "write"]

PATH = os.path.join(ROOT, "bench", "RESULTS.md")
PAGE = os.path.join(ROOT, "docs", "internals", "performance.md")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

_HEAD = """\
# Results

Written by `make bench`; do not edit. {machine}; {rounds}.

Each figure is a ratio to a floor: the minimum of work that any store must do on the same machine. The
floor is named in parentheses and measured before, between and after ours in the same run. The ratio
is the median of the rounds, with the lowest and the highest round beside it; times are medians, for
information. Some lines have a limit, both ends of an exponent, or another tool with the same work in
place of a floor. Workload: user 200 B, assistant 1 KB, tool call 300 B, tool result 4 KB in turn,
1.56 KB per plain line on average; see `bench/workload.py`. The figures of each section are stored in
`bench/results.json`; `python -m bench --only NAME` measures one of them again.

## Targets

"""
_PICTURES = """

![Every figure as a share of its mark](../docs/internals/pictures/bench-marks.svg)

![One append, ours and others](../docs/internals/pictures/bench-rivals.svg)

![One append in a session that grows](../docs/internals/pictures/bench-growth.svg)

"""


def show(lines: Sequence[Line]) -> str:
    """Return the lines as text."""
    width = max((len(line.what) for line in lines), default=0)
    rows = [
        f"{line.what:{width}}  {line.ratio:9.3f}  {_spread(line):19} {_mark(line):>7}"
        f" {_verdict(line):6} {line.ours:>20} {line.floor:>20}"
        for line in lines
    ]
    return "\n".join(rows)


def write(sections: Mapping[str, Section]) -> None:
    """Write the table into RESULTS.md and the targets onto the page, and draw the charts."""
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(whole(sections))
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page_with(page, promises(sections)))
    charts.draw(sections)


def page_with(page: str, figures: str) -> str:
    """Return the page with new figures between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def whole(sections: Mapping[str, Section]) -> str:
    """Return the page of all results."""
    rounds = sorted({one.rounds for one in sections.values() if one.rounds}) or [0]
    said = f"{rounds[0]} to {rounds[-1]} rounds" if len(rounds) > 1 else f"{rounds[0]} rounds"
    machines = [one.machine for one in sections.values()] or [""]
    head = _HEAD.format(machine=max(set(machines), key=machines.count), rounds=said)
    parts = [_section(name, one) for name, one in sections.items()]
    return head + promises(sections) + _PICTURES + "\n\n".join(parts) + "\n"


def promises(sections: Mapping[str, Section]) -> str:
    """Return each target with its figure, and the cause for each that is missed."""
    found = {line.goal: line for one in sections.values() for line in one.lines if line.goal}
    rows = [_promise(goal, found.get(name)) for name, goal in GOALS.items()]
    head = "| target | mark | figure | rounds | | ours | floor |\n|---|--:|--:|---|---|--:|--:|\n"
    missed = [name for name, line in found.items() if line.met is False]
    gaps = "".join(f"- **{GOALS[name].what}**: {CAUSES[name]}\n" for name in missed if name in CAUSES)
    table = head + "\n".join(rows)
    if not gaps:
        return table
    return f"{table}\n\nMissed targets and their causes:\n\n{gaps.rstrip()}"


def _promise(goal: Goal, line: Line | None) -> str:
    what = f"**{goal.what}**" if goal.hard else goal.what
    mark = f"{'≥' if goal.at_least else '≤'} {goal.mark:g}{goal.unit}"
    if line is None:
        return f"| {what} | {mark} | not measured | | | | |"
    figure = f"{_figure(line.ratio)}{goal.unit}"
    spread = " - ".join(map(_figure, line.spread))
    cells = [what, mark, figure, spread, _verdict(line), line.ours, line.floor]
    return f"| {' | '.join(cells)} |"


def _figure(value: float) -> str:
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.1f}"


def _section(name: str, one: Section) -> str:
    rows = list(_rows(one))
    return f"## {name}\n\n" + "\n".join(rows)


def _rows(one: Section) -> Iterator[str]:
    if one.failed:
        yield f"It failed: {one.failed.replace('|', ' ')}"
        yield ""
    if one.lines:
        yield "| what (floor) | figure | rounds | mark | | ours | floor |"
        yield "|---|--:|---|--:|---|--:|--:|"
    for line in one.lines:
        yield (
            f"| {line.what} | {_figure(line.ratio)} | {_spread(line)} | {_mark(line)}"
            f" | {_verdict(line)} | {line.ours} | {line.floor} |"
        )


def _spread(line: Line) -> str:
    return " - ".join(map(_figure, line.spread))


def _mark(line: Line) -> str:
    if line.mark is None:
        return ""
    return f"≥ {line.mark:g}" if line.at_least else f"{line.mark:g}"


def _verdict(line: Line) -> str:
    return {None: "", True: "met", False: "missed"}[line.met]
