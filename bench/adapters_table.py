"""The measurements of other stores as a page: `bench/ADAPTERS.md`, and a chart."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import holdfast
from bench import charts
from bench.adapters import CASES
from bench.child import ROOT
from bench.figures import exponent, median
from bench.rivals.stores import STORES

__all__ = ["PAGES", "PATH", "condensed", "page_with", "summary", "whole", "write"]

PATH = os.path.join(ROOT, "bench", "ADAPTERS.md")
_BEGIN = "<!-- figures: written by make bench-peers -->"
_END = "<!-- end of figures -->"
_SHOWN = (
    *("holdfast-files", "strands", "openai-sqlite", "adk-sqlite", "agno", "llm"),
    *("langchain-file", "harness-sqlite", "langgraph-sqlite"),
)
_SUMMARY = (
    "| one message after another | syncs each | code of one append, against writing a JSON line"
    " | bytes written, against the text | bytes grow as |\n|---|--:|--:|--:|--:|\n"
)
_BESIDE = (
    "| framework | its store | its time against ours | its bytes a step | ours | its bytes grow as"
    " | ours |\n|---|---|--:|--:|--:|--:|--:|\n"
)
_BETWEEN = """\
The same frameworks, with their own store and through [our adapter](../howto/frameworks/index.md), in
alternating steps of a prompt and an answer. Ours has the durability of theirs, which on files means
no syncs. Above 1x ours is faster."""
_KINDS = ("files", "sqlite", "postgres")
_FROM = 100
_SIDES = ("theirs", "ours", "ours-os")
_BYTES_GROW = 1.1

_HEAD = """\
# Adapters and the stores of others

Written by `make bench-peers`; do not edit. Holdfast {version}. Each store is used as its documentation
shows (`bench/rivals/stores.py`, `bench/adapters.py`), in a separate process, with the versions in
`requirements-frameworks.lock` and `bench/requirements-peers.txt`. Files are compared with
files, SQLite with SQLite, PostgreSQL with PostgreSQL.

## Frameworks on their own store and on ours

A step is a turn: a prompt of 200 bytes and an answer of 1,000. Steps of both sides alternate.
Milliseconds are medians of a step. Bytes are those on disk at the end, for each step (without the
catalogue, which can be rebuilt at any time). Syncs are counted by `strace`, on PostgreSQL by the
server. The exponent describes the growth of the bytes with the number of steps, from 100 on. The
frameworks' stores on files do not wait for the disk; ours is shown at the same level
(`durability="os"`) and with its default, where a step is on the medium when the call returns.

"""
_ADAPTERS = (
    "| framework | store | theirs | ms: theirs | ours | times ahead | bytes: theirs | ours | times"
    " ahead | syncs: theirs | ours | exponent: theirs | ours |\n"
    "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)
_STORES_HEAD = """

## One message after another

Messages of 200, 1,024, 300 and 4,096 bytes in turn. Microseconds are medians of one append: as the
store is shipped, and without any syncs (`synchronous=off` under SQLite), which no store offers, but
which shows the cost of the code itself. The floor is a line of JSON, written (and synced) by the
same process just before and after. Bytes are relative to those of the texts, after up to 1,000
messages. Exponents are those of one append and of all bytes written, from 100 messages on. "ms to
begin" is the time to import the library and open a new store, in a process that has imported
nothing of it.

"""
_STORES = (
    "| store | on | us, as shipped | against write + sync | syncs | us, without syncs | against a"
    " write | bytes on disk | bytes written | exponent: append | bytes written | ms to begin |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)


def condensed(found: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a measurement that is stored."""
    if "failed" in found:
        return {"failed": found["failed"]}
    if "shipped" in found:
        row = {name: _store(found[name]) for name in ("shipped", "unsynced") if name in found}
        counted = found["counted"]
        return {**row, "syncs": counted[0] if counted else None}
    return {name: _side(found[name]) for name in _SIDES if name in found}


def _store(answer: dict[str, Any]) -> dict[str, Any]:
    spent, sizes = answer["spent"], {int(n): size for n, size in answer["sizes"].items()}
    written, disk, payload = sizes[len(spent)]
    return {
        "us": round(median(spent) / 1e3, 2),
        "floor_us": round(median(answer["floor"]) / 1e3, 2),
        "n": len(spent),
        "begun_ms": round(answer.get("begun_ms", 0)),
        "written": round(written / payload, 2),
        "disk": round(disk / payload, 2),
        "growth": _growth(spent),
        "bytes_growth": _slope({n: size[0] for n, size in sizes.items()}),
        "points": [[n, round(median(spent[max(0, n - 20) : n]) / 1e3, 2)] for n in sorted(sizes)],
    }


def _side(side: dict[str, Any]) -> dict[str, Any]:
    spent, sizes = side["spent"], {int(n): size for n, size in side["sizes"].items()}
    return {
        "ms": round(median(spent) / 1e6, 3),
        "n": len(spent),
        "bytes": round(sizes[len(spent)] / len(spent)),
        "written": None if side.get("written") is None else round(side["written"] / len(spent)),
        "exponent": _slope(sizes),
        "syncs": side.get("syncs"),
    }


def _growth(spent: list[int]) -> float | None:
    """Return the growth of the time of one append with the existing content."""
    if len(spent) < 2 * _FROM:
        return None
    ends = [(_FROM, median(spent[_FROM - 20 : _FROM])), (len(spent), median(spent[-20:]))]
    return round(exponent(ends), 2)


def _slope(sizes: Mapping[int, float]) -> float | None:
    points = [(n, float(size)) for n, size in sizes.items() if n >= _FROM and size > 0]
    return round(exponent(points), 2) if len(points) > 1 else None


def write(table: str, kept: dict[str, Any]) -> None:
    """Write the page, and some rows to other pages; draw the growth of one append."""
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(table)
    for page, made in PAGES.items():
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            before = file.read()
        with open(os.path.join(ROOT, page), "w", encoding="utf-8") as file:
            file.write(page_with(before, made(kept)))
    series = {
        STORES[name].name: [(float(n), us) for n, us in row["unsynced"]["points"]]
        for name in (
            "holdfast-files",
            "openai-sqlite",
            "openai-advanced",
            "langgraph-sqlite",
            "whole-file",
            "agno",
            "strands",
        )
        if len((row := kept.get(f"stores/{name}", {})).get("unsynced", {}).get("points", [])) > 1
    }
    if series:
        title = "One append as a session grows, without syncs"
        picture = charts.curves(title, series, "messages", "microseconds")
        charts.save("bench-peers.svg", picture)


def summary(kept: dict[str, Any]) -> str:
    """Return the few rows for the first page of the project; unmeasured ones are left out."""
    rows = []
    for name in _SHOWN:
        row = kept.get(f"stores/{name}", {})
        bare = row.get("unsynced")
        if bare is None:
            continue
        title = f"**{STORES[name].name}**" if name.startswith("holdfast") else STORES[name].name
        syncs = f"{row['syncs']:.0f}" if STORES[name].syncs else "never"
        grows = _grows(bare["bytes_growth"])
        against = bare["us"] / bare["floor_us"]
        rows.append(_cells([title, syncs, f"{against:,.1f}x", f"{bare['written']:,.1f}x", grows]))
    return _SUMMARY + "\n".join(rows)


def beside(kept: dict[str, Any]) -> str:
    """Return the comparison of frameworks on their own store and on ours, at the durability of theirs."""
    rows = []
    for kind in _KINDS:
        for name, case in CASES.items():
            row = kept.get(f"adapters/{name}", {})
            ours, theirs = row.get("ours-os", row.get("ours")), row.get("theirs")
            if case.kind != kind or ours is None or theirs is None:
                continue
            cells = [case.framework, f"{case.kind}, `{case.rival}`"]
            cells += [f"{theirs['ms'] / ours['ms']:.1f}x", f"{theirs['bytes']:,}"]
            cells += [f"{ours['bytes']:,}", _grows(theirs["exponent"]), _grows(ours["exponent"])]
            rows.append(_cells(cells))
    return _BESIDE + "\n".join(rows)


def page_with(text: str, figures: str) -> str:
    """Return the page with these figures between its two marks."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{figures}\n\n{_END}{after}"


PAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "README.md": summary,
    "docs/explanation/comparison.md": lambda kept: f"{summary(kept)}\n\n{_BETWEEN}\n\n{beside(kept)}",
}
"""The pages of the project that show a part of the results, and the part."""


def whole(kept: dict[str, Any]) -> str:
    """Return the page."""
    parts = [_HEAD.format(version=holdfast.__version__), _ADAPTERS]
    for kind in _KINDS:
        for name, case in CASES.items():
            if case.kind == kind and (row := kept.get(f"adapters/{name}")):
                parts.extend(f"{line}\n" for line in _adapter_rows(name, row))
    parts += [_judged(kept), _STORES_HEAD, _STORES]
    for kind in _KINDS:
        for name, store in STORES.items():
            if store.kind == kind and (row := kept.get(f"stores/{name}")):
                parts.append(_store_row(name, row) + "\n")
    picture = "../docs/internals/pictures/bench-peers.svg"
    parts.append(f"\n![One append as a session grows]({picture})\n")
    return "".join(parts)


def _adapter_rows(name: str, row: dict[str, Any]) -> list[str]:
    case = CASES[name]
    head = [case.framework, case.kind, f"`{case.rival}`"]
    if "failed" in row:
        return [_cells([*head, f"failed: {row['failed'].replace('|', ' ')}", *[""] * 9])]
    theirs = row["theirs"]
    found = []
    for side, said in (("ours-os", ", not synced"), ("ours", "" if case.syncs else ", synced")):
        if side not in row:
            continue
        ours = row[side]
        cells = [head[0], f"{case.kind}{said}", head[2], f"{theirs['ms']:.2f}", f"{ours['ms']:.2f}"]
        cells += [f"{theirs['ms'] / ours['ms']:.2f}", f"{theirs['bytes']:,}", f"{ours['bytes']:,}"]
        cells += [f"{theirs['bytes'] / max(1, ours['bytes']):.2f}"]
        cells += [_said(theirs["syncs"]), _said(ours["syncs"])]
        found.append(_cells([*cells, _said(theirs["exponent"]), _said(ours["exponent"])]))
    return found


def _judged(kept: dict[str, Any]) -> str:
    """Return where ours is slower, by name, at the durability of the framework's own store."""
    behind, grown = [], []
    for name, case in CASES.items():
        row = kept.get(f"adapters/{name}", {})
        ours, theirs = row.get("ours-os", row.get("ours")), row.get("theirs")
        if ours is None or theirs is None:
            continue
        behind += [f"{case.framework} on {case.kind} ({what})" for what in ("ms", "bytes") if ours[what] > theirs[what]]
        if "LangGraph" in case.framework and (ours["exponent"] or 0) > _BYTES_GROW:
            grown.append(f"{case.kind} {ours['exponent']}")
    said = "ahead in all of them" if not behind else f"behind in {', '.join(behind)}"
    slope = "at most 1.1 everywhere" if not grown else f"above 1.1 on {', '.join(grown)}"
    return f"\nOurs is {said}. The exponent of bytes on LangGraph is {slope}.\n"


def _store_row(name: str, row: dict[str, Any]) -> str:
    store = STORES[name]
    if "failed" in row:
        said = f"failed: {row['failed'].replace('|', ' ')}"
        return _cells([store.name, store.kind, said, *[""] * 9])
    shipped, bare = row["shipped"], row.get("unsynced")
    cells = [store.name, store.kind, f"{shipped['us']:,.0f}"]
    if store.kind == "postgres":
        cells += [f"{shipped['us'] / shipped['floor_us']:,.2f}x", _said(row["syncs"]), "", "", "", ""]
        return _cells([*cells, _said(shipped["growth"]), "", f"{shipped['begun_ms']:,}"])
    against = f"{shipped['us'] / shipped['floor_us']:,.2f}x" if store.syncs else "does not sync"
    cells += [against, _said(row["syncs"]), f"{bare['us']:,.1f}"]
    cells += [f"{bare['us'] / bare['floor_us']:,.1f}x", f"{bare['disk']:.2f}", f"{bare['written']:,.1f}"]
    cells += [_said(bare["growth"]), _said(bare["bytes_growth"])]
    return _cells([*cells, f"{shipped['begun_ms']:,}"])


def _cells(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _grows(slope: float | None) -> str:
    return "" if slope is None else f"n^{slope:.2f}"


def _said(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
