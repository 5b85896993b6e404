"""Many at once: 64 sessions of one event loop, and 8 processes with a session each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import msgspec

import holdfast
from bench.child import ROOT
from bench.figures import Line, line_of, median, ratios_of
from bench.floor import open_plain
from bench.stores import SESSIONS, many_rate
from bench.workload import Step, record, step, typed_event

__all__ = ["Processes", "Together"]

_TEXT = step(1).text.encode()
_SECONDS_MAX = 120


class Together:
    """64 sessions that wait for each event, on SQLite and on files, against a sync each."""

    def __init__(self, *, quick: bool) -> None:
        self._each = 6 if quick else 20
        self._rates: dict[str, list[float]] = {"sqlite": [], "files": [], "floor": []}

    def measure(self, folder: str) -> None:
        """One round: the floor before, between and after."""
        floors = [self._floor(folder)]
        for name, where in (("sqlite", f"sqlite:///{folder}/db"), ("files", f"{folder}/files")):
            with holdfast.open(where) as hf:
                self._rates[name].append(many_rate(hf, self._each, flush=True))
            floors.append(self._floor(folder))
        self._rates["floor"].append(median(floors))

    def _floor(self, folder: str) -> float:
        """Events per second of as many plain files, each written and synced in turn."""
        files = [open_plain(folder) for _ in range(SESSIONS)]
        begin = time.perf_counter()
        for _ in range(self._each // 2):
            for descriptor in files:
                os.write(descriptor, _TEXT)
                os.fdatasync(descriptor)
        seconds = time.perf_counter() - begin
        for descriptor in files:
            os.close(descriptor)
        return SESSIONS * (self._each // 2) / seconds

    def lines(self) -> list[Line]:
        """The table's lines: more is better."""
        found = []
        for name in ("sqlite", "files"):
            line = line_of(
                f"{name}: {SESSIONS} sessions, each event flushed, events per second"
                " (a write and a sync each, on files)",
                ratios_of(self._rates[name], self._rates["floor"]),
                None,
                ours=f"{median(self._rates[name]):,.0f} /s",
                floor=f"{median(self._rates['floor']):,.0f} /s",
            )
            found.append(line.shows("many-rate") if name == "sqlite" else line)
        return found


class Processes:
    """8 processes, each with its own session, against the same that write a plain file each."""

    PROCESSES = 8

    def __init__(self, *, quick: bool) -> None:
        self._counts = {"synced": 40 if quick else 150, "written": 2_000 if quick else 8_000}
        self._ours: dict[str, list[float]] = {how: [] for how in self._counts}
        self._floor: dict[str, list[float]] = {how: [] for how in self._counts}
        self._started: list[_Worker] = []

    def prepare(self, folder: str) -> None:
        """The processes, which wait for work."""
        self._started = [_Worker(folder, number) for number in range(self.PROCESSES)]

    def finish(self) -> None:
        """End them."""
        for worker in self._started:
            worker.end()

    def measure(self, folder: str) -> None:
        """One round: the floor before and after ours."""
        for how, count in self._counts.items():
            before = self._rate(f"plain {how} {count}")
            self._ours[how].append(self._rate(f"ours {how} {count}"))
            after = self._rate(f"plain {how} {count}")
            self._floor[how].append((before + after) / 2)

    def lines(self) -> list[Line]:
        """The table's lines: more is better."""
        said = {
            "synced": "each event flushed, events per second (bare files, written and synced)",
            "written": "events per second (bare files, written)",
        }
        found = [
            line_of(
                f"{self.PROCESSES} processes, {what}",
                ratios_of(self._ours[how], self._floor[how]),
                None,
                ours=f"{median(self._ours[how]):,.0f} /s",
                floor=f"{median(self._floor[how]):,.0f} /s",
            )
            for how, what in said.items()
        ]
        return [found[0].shows("processes"), found[1]]

    def _rate(self, work: str) -> float:
        """Events per second of all processes together, from one sign to the end of the last."""
        begin = time.perf_counter()
        for worker in self._started:
            worker.tell(work)
        for worker in self._started:
            worker.hear()
        return self.PROCESSES * int(work.rsplit(maxsplit=1)[-1]) / (time.perf_counter() - begin)


class _Worker:
    """One of the processes, seen from outside."""

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
    """What one of the processes does: a line of input says what, and it answers when it is done."""
    steps = [step(index) for index in range(400)]
    descriptor = open_plain(folder)
    with (
        holdfast.open(os.path.join(folder, "store")) as hf,
        hf.session(f"s{number}") as session,
    ):
        session.user("the first flush makes the directories safe as well")
        session.flush()
        _told()
        for line in sys.stdin:
            whose, how, count = line.split()
            events = [steps[index % len(steps)] for index in range(int(count))]
            if whose == "plain":
                _write_plain(descriptor, events, is_synced=how == "synced")
            else:
                _write_ours(session, events, is_synced=how == "synced")
            _told()


def _write_plain(descriptor: int, events: list[Step], *, is_synced: bool) -> None:
    encode = msgspec.json.Encoder().encode
    for event in events:
        os.write(descriptor, encode(typed_event(event)) + b"\n")
        if is_synced:
            os.fdatasync(descriptor)


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
