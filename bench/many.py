"""Concurrency: 64 sessions in one event loop, and 8 processes with a session each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, ClassVar

import msgspec

import holdfast
from bench.child import ROOT
from bench.figures import Line, line_of, median, ratios_of
from bench.floor import SlowDisk, open_plain
from bench.stores import SESSIONS, many_rate
from bench.workload import Step, record, step, typed_event
from holdfast.storage import Disk, FileStore
from holdfast.storage.sqlite.store import SQLiteStore

__all__ = ["Processes", "Together"]

_TEXT = step(1).text.encode()
_SECONDS_MAX = 120
_SLOW_S = 0.005
_SLOW_SAID = ", 5 ms more for a sync"


class Together:
    """64 sessions that wait for each event, on SQLite and on files, against a sync each.

    On this disk as it is, and where a sync takes 5 ms more, on both sides: with a quick disk all of
    it is processor time, which no sharing of syncs saves.
    """

    def __init__(self, *, quick: bool) -> None:
        self._each = 6 if quick else 20
        self._rates: dict[str, list[float]] = {}

    def measure(self, folder: str) -> None:
        """Run one round: the floor before, between and after."""
        for how, disk, each in (("", Disk(), self._each // 2), ("slow ", SlowDisk(_SLOW_S), 1)):
            floors = [_floor_rate(folder, disk, each)]
            for name, store in (
                ("sqlite", _sqlite_on(disk, os.path.join(folder, f"{how}db"))),
                ("files", FileStore(os.path.join(folder, f"{how}files"), disk=disk)),
            ):
                with holdfast.open(store) as hf:
                    self._note(how + name, many_rate(hf, self._each, flush=True))
                floors.append(_floor_rate(folder, disk, each))
            self._note(f"{how}floor", median(floors))

    def _note(self, name: str, rate: float) -> None:
        self._rates.setdefault(name, []).append(rate)

    def lines(self) -> list[Line]:
        """Return the table's lines: more is better."""
        return [
            _rates_line(
                f"{name}: {SESSIONS} sessions, each event flushed{said}, events per second"
                " (a write and a sync each, on files)",
                self._rates[how + name],
                self._rates[f"{how}floor"],
                goal if name == "sqlite" else "",
            )
            for how, said, goal in (("", "", "many-rate"), ("slow ", _SLOW_SAID, "many-rate-slow"))
            for name in ("sqlite", "files")
        ]


def _sqlite_on(disk: Disk, path: str) -> SQLiteStore:
    store = SQLiteStore(path)
    store.database._disk = disk  # noqa: SLF001 - which syncs, and is nobody's choice but the bench's
    return store


def _floor_rate(folder: str, disk: Disk, each: int) -> float:
    """Return the events per second of as many plain files, each written and synced in turn."""
    files = [open_plain(folder) for _ in range(SESSIONS)]
    begin = time.perf_counter()
    for _ in range(each):
        for descriptor in files:
            os.write(descriptor, _TEXT)
            disk.sync(descriptor)
    seconds = time.perf_counter() - begin
    for descriptor in files:
        os.close(descriptor)
    return SESSIONS * each / seconds


def _rates_line(what: str, ours: list[float], floor: list[float], goal: str) -> Line:
    times = {"ours": f"{median(ours):,.0f} /s", "floor": f"{median(floor):,.0f} /s"}
    line = line_of(what, ratios_of(ours, floor), None, **times)
    return line.shows(goal) if goal else line


class Processes:
    """8 processes, each with its own session, against the same that write a plain file each."""

    PROCESSES = 8
    _SAID: ClassVar = {
        "synced": ("each event flushed, ", "bare files, written and synced", "processes"),
        "slow": (f"each event flushed{_SLOW_SAID}, ", "bare files, the same", "processes-slow"),
        "written": ("", "bare files, written", ""),
    }

    def __init__(self, *, quick: bool) -> None:
        self._counts = {
            "synced": 40 if quick else 150,
            "slow": 10 if quick else 60,
            "written": 2_000 if quick else 8_000,
        }
        self._ours: dict[str, list[float]] = {how: [] for how in self._counts}
        self._floor: dict[str, list[float]] = {how: [] for how in self._counts}
        self._started: list[_Worker] = []

    def prepare(self, folder: str) -> None:
        """Start the processes, which wait for work."""
        self._started = [_Worker(folder, number) for number in range(self.PROCESSES)]

    def finish(self) -> None:
        """Stop them."""
        for worker in self._started:
            worker.end()

    def measure(self, folder: str) -> None:
        """Run one round: the floor before and after ours."""
        for how, count in self._counts.items():
            before = self._rate(f"plain {how} {count}")
            self._ours[how].append(self._rate(f"ours {how} {count}"))
            after = self._rate(f"plain {how} {count}")
            self._floor[how].append((before + after) / 2)

    def lines(self) -> list[Line]:
        """Return the table's lines: more is better."""
        return [
            _rates_line(
                f"{self.PROCESSES} processes, {what}events per second ({bare})", self._ours[how], self._floor[how], goal
            )
            for how, (what, bare, goal) in self._SAID.items()
        ]

    def _rate(self, work: str) -> float:
        """Return the events per second of all processes together, from one signal to the end of the last."""
        begin = time.perf_counter()
        for worker in self._started:
            worker.tell(work)
        for worker in self._started:
            worker.hear()
        return self.PROCESSES * int(work.rsplit(maxsplit=1)[-1]) / (time.perf_counter() - begin)


class _Worker:
    """One of the processes, as seen by its parent."""

    def __init__(self, folder: str, number: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.many", folder, str(number)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.hear()

    def tell(self, work: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{work}\n".encode())
        self._process.stdin.flush()

    def hear(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"done\n"

    def end(self) -> None:
        self._process.communicate(timeout=_SECONDS_MAX)


def _work(folder: str, number: int) -> None:
    """Run one of the processes: each line of input is a task, which it answers when done."""
    steps = [step(index) for index in range(400)]
    descriptor = open_plain(folder)
    disk = SlowDisk(0.0)
    store = FileStore(os.path.join(folder, "store"), disk=disk)
    with holdfast.open(store) as hf, hf.session(f"s{number}") as session:
        session.user("the first flush makes the directories safe as well")
        session.flush()
        _told()
        for line in sys.stdin:
            whose, how, count = line.split()
            disk.seconds = _SLOW_S if how == "slow" else 0.0
            events = [steps[index % len(steps)] for index in range(int(count))]
            if whose == "plain":
                _write_plain(descriptor, events, None if how == "written" else disk)
            else:
                _write_ours(session, events, is_synced=how != "written")
            _told()


def _write_plain(descriptor: int, events: list[Step], disk: Disk | None) -> None:
    encode = msgspec.json.Encoder().encode
    for event in events:
        os.write(descriptor, encode(typed_event(event)) + b"\n")
        if disk is not None:
            disk.sync(descriptor)


def _write_ours(session: Any, events: list[Step], *, is_synced: bool) -> None:
    call: Any = None
    for event in events:
        call = record(session, event, call)
        if is_synced:
            session.flush()


def _told() -> None:
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]))
