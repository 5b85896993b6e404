"""``python -m bench.multitude [--on files sqlite postgres] [--sessions N]``: very many sessions, made one by one.

Makes two stores of each kind by a loop of ``hf.session``, one of 1,000 sessions and one of N, and asks both the same,
each question in a process of its own. ``--write`` keeps the figures (bench/multitude.json) and puts the table onto
docs/internals/performance.md; ``--kept`` writes the table from the figures that are kept and measures nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import holdfast
from bench import server
from bench.child import ROOT, SCRATCH
from bench.figures import median

__all__ = ["main", "page_with", "table"]

KEPT = os.path.join(ROOT, "bench", "multitude.json")
PAGE = os.path.join(ROOT, "docs", "internals", "performance.md")
BEGIN, END = "<!-- multitude: begin -->", "<!-- multitude: end -->"
_FEW = 1_000
_WINDOW = 200  # sessions, whose median is the cost of one
_EARLY = 100
_RARE = "quetzalcoatlus"
_HITS = 20
_ASKED = 20
_STORES = ("files", "sqlite", "postgres")


def _make(url: str, count: int) -> dict[str, Any]:
    """Create the sessions; return the median time and processor time of an early one and of a late one.

    What is done in the background now and then is in the sums, and hardly in the medians.
    """
    wall, own = array("d"), array("d")
    with holdfast.open(url) as hf:
        begin, used = time.perf_counter(), time.process_time()
        for number in range(count):
            started, spent = time.perf_counter(), time.process_time()
            with hf.session(f"session-{number:07d}") as session:
                session.user(f"What is number {number}? {_RARE if number % (count // _HITS) == 0 else ''}")
                session.assistant(f"Number {number} is one of very many.")
            wall.append(time.perf_counter() - started)
            own.append(time.process_time() - spent)
        seconds, processor = time.perf_counter() - begin, time.process_time() - used
    windows = {"early": slice(_EARLY, _EARLY + _WINDOW), "late": slice(-_WINDOW, None)}
    costs = {name: [1e3 * median(one[window]) for one in (wall, own)] for name, window in windows.items()}
    return {"seconds": seconds, "processor": processor, "peak": _peak(), **costs}


def _listed(hf: holdfast.Holdfast) -> object:
    return hf.list(50)


def _searched(hf: holdfast.Holdfast) -> object:
    return hf.search(_RARE)


_QUICK: dict[str, Callable[[holdfast.Holdfast], object]] = {"list": _listed, "list after": _listed, "search": _searched}
"""Repeated by a program that has the store open; the median counts."""
_AFTER = "list after"  # each one just after another session was made
_VERBS = {
    "first list": ["list"],
    "stats": ["stats"],
    "verify": ["verify", "--all"],
    "prune": ["prune", "--dry-run"],
    "reindex": ["reindex"],
    "copy": ["copy", "--to"],
}
"""Run once as a command."""


def _asked(url: str, job: str) -> dict[str, Any]:
    with holdfast.open(url) as hf:
        assert _QUICK[job](hf)
        wall, used = [], []
        for number in range(_ASKED):
            if job == _AFTER:
                with hf.session(f"after-{os.getpid()}-{number}") as session:
                    session.user("What is one more?")
            begin, spent = time.perf_counter(), time.process_time()
            _QUICK[job](hf)
            wall.append(time.perf_counter() - begin)
            used.append(time.process_time() - spent)
    return {"seconds": median(wall), "processor": median(used), "peak": _peak()}


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _job(url: str, job: str, count: int) -> dict[str, Any]:
    """Run a job in a separate process and return its findings."""
    command = [sys.executable, "-m", "bench.multitude", "--job", job, "--url", url, "--sessions", str(count)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _verb(url: str, words: list[str]) -> dict[str, Any]:
    """Run the command once; return its time, its processor time and its highest memory."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "holdfast", *words, "--store", url]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return {"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}


@contextlib.contextmanager
def _place(kind: str) -> Iterator[Callable[[str], str]]:
    """Yield a function that returns the address of a new store of a kind by its name."""
    os.makedirs(SCRATCH, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        if kind == "files":
            yield lambda name: os.path.join(folder, name)
        elif kind == "sqlite":
            yield lambda name: f"sqlite://{folder}/{name}.db"
        else:
            running = server.Server()
            try:
                running.start()
                yield lambda name: f"{running.url}?schema={name}"
            finally:
                running.stop()


def _measure(kind: str, sessions: int, skipped: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the figures so far after each measurement, so that an interrupted run has results."""
    found: dict[str, Any] = {}
    with _place(kind) as address, tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        for count in (_FEW, sessions):
            url = address(f"of_{count}")
            rows = found[str(count)] = {}
            for name, measure in _works(url, count, folder, skipped if count != _FEW else []):
                rows[name] = {**measure(), "load": os.getloadavg()[0]}
                print(f"{kind:9} {count:8,} {name:11} {json.dumps(rows[name])}", flush=True)
                yield found


def _works(url: str, count: int, folder: str, skipped: list[str]) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Yield the measurements with one store, in order."""
    yield "make", partial(_job, url, "make", count)
    for name, words in _VERBS.items():
        if name not in skipped:
            to = [f"sqlite://{folder}/copy-{count}.db"] if name == "copy" else []
            yield name, partial(_verb, url, [*words, *to])
        for job in _QUICK if name == "first list" else ():
            yield job, partial(_job, url, job, count)


def table(figures: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    head = ["| | " + " | ".join(figures) + " |", "|---|" + "--:|" * len(figures)]
    few = str(_FEW)
    lines = []

    def line(what: str, tell: Callable[[dict[str, Any], dict[str, Any]], str]) -> None:
        cells = []
        for one in figures.values():
            many = max((name for name in one if name.isdecimal()), key=int)
            try:
                cells.append(tell(one[few], one[many]))
            except KeyError:
                cells.append("not measured")
        lines.append(f"| {what} | {' | '.join(cells)} |")

    line("sessions", lambda _, many: f"{many['make']['count']:,}")
    line("made in", lambda _, many: _seconds(many["make"]["seconds"]))
    line("processor time of all, with catalogue and archive", lambda _, many: _seconds(many["make"]["processor"]))
    line("processor time of one, about the 100th and the last", lambda _, many: _own(many["make"]))
    for name in ("list", "search"):
        line(f"`{name}`, of 1,000 and of all", lambda few, many, name=name: _both(few[name], many[name]))
    line("`list` just after a new session, of 1,000 and of all", lambda few, many: _both(few[_AFTER], many[_AFTER]))
    for name, words in _VERBS.items():
        said = f"first `{words[0]}` of all" if name == "first list" else f"`{' '.join(words)}`"
        line(f"{said}, of 1,000 and of all", lambda few, many, name=name: _both(few[name], many[name]))
    line("load of the machine, two processors", lambda few, many: _loads([*few.values(), *many.values()]))
    line("most memory while making", lambda few, many: f"{_mb(few['make'])} and {_mb(many['make'])}")
    return "\n".join([*head, *lines])


def _own(made: dict[str, Any]) -> str:
    return f"{made['early'][1]:.2f} and {made['late'][1]:.2f} ms"


def _both(few: dict[str, Any], many: dict[str, Any]) -> str:
    return " and ".join(f"{_seconds(one.get('processor', one['seconds']))}, {_mb(one)}" for one in (few, many))


def _loads(rows: list[dict[str, Any]]) -> str:
    loads = [row["load"] for row in rows if "load" in row]
    return f"{min(loads):.0f} to {max(loads):.0f}"


def _mb(row: dict[str, Any]) -> str:
    return f"{row['peak'] / 1e6:.0f} MB"


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 10 else f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


def page_with(page: str, figures: str) -> str:
    """Return the page with new figures between its two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Measure and print; ``--job`` is for the measuring processes."""
    parser = argparse.ArgumentParser(prog="bench.multitude", description="Very many sessions.")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--on", nargs="+", choices=_STORES, default=_STORES)
    parser.add_argument("--skip", nargs="+", choices=_VERBS, default=[], help="what is not done with all of them")
    parser.add_argument("--write", action="store_true", help="keep the figures and put them onto the page")
    parser.add_argument("--kept", action="store_true", help="write the table of the figures that are kept")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.job == "make":
        print(json.dumps({"count": chosen.sessions, **_make(chosen.url, chosen.sessions)}))
        return
    if chosen.job:
        print(json.dumps(_asked(chosen.url, chosen.job)))
        return
    figures: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError), open(KEPT, encoding="utf-8") as file:
        figures = json.load(file)
    server.end_on_request()
    for kind in () if chosen.kept else chosen.on:
        for found in _measure(kind, chosen.sessions, chosen.skip):
            figures[kind] = found
            if chosen.write:
                with open(KEPT, "w", encoding="utf-8") as file:
                    file.write(json.dumps(figures, indent=2) + "\n")
    print(table(figures))
    if chosen.write or chosen.kept:
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page_with(page, table(figures)))


if __name__ == "__main__":
    main()
