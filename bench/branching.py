"""Forks of long and of short sessions, and the savings of an archive."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import holdfast
from bench.figures import Line, line_of, median, millis
from bench.workload import record, step

__all__ = ["Archive", "Fork", "ManyForks"]

_MB = 1e6


class Fork:
    """A fork of a long session against a fork of a short one; both at their last event."""

    ROUNDS = 3
    MARK = 2.0

    def __init__(self, *, quick: bool) -> None:
        self._short, self._long = 100, 2_000 if quick else 10_000
        self._forks = 5 if quick else 15
        self._folder = ""
        self._spent: dict[int, list[float]] = {self._short: [], self._long: []}

    def prepare(self, folder: str) -> None:
        """Create both sessions in one store."""
        self._folder = os.path.join(folder, "forks")
        with holdfast.open(self._folder) as hf:
            for count in self._spent:
                _fill(hf, f"of-{count}", count)

    def measure(self, folder: str) -> None:
        """Run one round: one of each in turn, since the speed of the disk changes."""
        spent: dict[int, list[int]] = {count: [] for count in self._spent}
        with holdfast.open(self._folder) as hf:
            for _ in range(self._forks):
                for count, times in spent.items():
                    begin = time.perf_counter_ns()
                    id = hf.fork(f"of-{count}")
                    times.append(time.perf_counter_ns() - begin)
                    hf.delete(id)
        for count, times in spent.items():
            self._spent[count].append(median(times))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        short, long = self._spent[self._short], self._spent[self._long]
        return [
            line_of(
                f"fork of a session of {self._long:,} events (of {self._short} events)",
                [one / least for one, least in zip(long, short, strict=True)],
                self.MARK,
                ours=millis(median(long)),
                floor=millis(median(short)),
            )
        ]


class Archive:
    """An archived log against the plain log, and the time of both conversions."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 1_000 if quick else 10_000
        self._ratios: list[float] = []
        self._sizes = (0, 0)
        self._packed: list[float] = []
        self._unpacked: list[float] = []
        self._read: list[float] = []
        self._read_plain: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round."""
        store = os.path.join(folder, "archive")
        with holdfast.open(store) as hf:
            _fill(hf, "old", self._count, said=_prose())
            before = _bytes(store)
            plain, _ = _timed(lambda: list(hf.events("old")))
            packing, _ = _timed(lambda: hf.archive("old"))
            after = _bytes(store)
            reading, _ = _timed(lambda: list(hf.events("old")))
            unpacking, _ = _timed(lambda: hf.unarchive("old"))
        self._sizes = (before, after)
        self._ratios.append(after / before)
        self._packed.append(before / _MB / packing)
        self._unpacked.append(before / _MB / unpacking)
        self._read.append(reading)
        self._read_plain.append(plain)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        before, after = self._sizes
        read = zip(self._read, self._read_plain, strict=True)
        ours, floor = f"{after / _MB:.1f} MB", f"{before / _MB:.1f} MB"
        return [
            line_of("archive: bytes (the plain log)", self._ratios, None, ours=ours, floor=floor).shows("archived"),
            line_of(
                "archive: list(hf.events(id)) (of the plain log)",
                [one / least for one, least in read],
                None,
                ours=f"{median(self._read) * 1e3:.1f} ms",
                floor=f"{median(self._read_plain) * 1e3:.1f} ms",
            ),
            line_of(
                "archive: writing it (taking the log out of it again)",
                [out / into for into, out in zip(self._packed, self._unpacked, strict=True)],
                None,
                ours=f"{median(self._packed):.0f} MB/s",
                floor=f"{median(self._unpacked):.0f} MB/s",
            ),
        ]


class ManyForks:
    """Redaction and erasure of a session with many forks: the cost of one of many against one of few."""

    ROUNDS = 1
    SECRET = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"

    def __init__(self, *, quick: bool) -> None:
        self._few, self._many = (20, 100) if quick else (100, 10_000)
        self._spent: dict[str, dict[int, float]] = {"redact": {}, "erase": {}}

    def measure(self, folder: str) -> None:
        """Run one round: a store of few forks, and one of many."""
        for count in (self._few, self._many):
            with holdfast.open(os.path.join(folder, f"forks-{count}")) as hf:
                with hf.session("p") as session:
                    for number in range(200):
                        session.user(f"word{number} {self.SECRET if number == 5 else ''}")
                for _ in range(count):
                    hf.fork("p", at=100)
                self._spent["redact"][count] = _timed(lambda: hf.redact("p"))[0]
                self._spent["erase"][count] = _timed(lambda: hf.erase("p"))[0]

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [
            line_of(
                f"hf.{verb} with {self._many:,} forks: each (with {self._few})",
                [spent[self._many] / self._many / (spent[self._few] / self._few)],
                None,
                ours=f"{spent[self._many]:.1f} s in all",
                floor=f"{spent[self._few] / self._few * 1e3:.1f} ms each",
            )
            for verb, spent in self._spent.items()
        ]


def _fill(hf: Any, id: str, count: int, said: Iterator[str] | None = None) -> None:
    call: Any = None
    with hf.session(id) as session:
        for index in range(count):
            event = step(index)
            if said is not None:
                event = event._replace(text=_cut(said, len(event.text)))
            call = record(session, event, call)


def _prose() -> Iterator[str]:
    """Yield words with the frequencies of a language, in random order, and never the same passage twice.

    The texts of the workload overlap, from which a compression would profit as with no real log.
    """
    source = random.Random(15)
    letters = "etaoinshrdlucmfwypvbgkq"
    words = ["".join(source.choices(letters, k=source.randint(2, 11))) for _ in range(20_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    while True:
        yield from source.choices(words, weights, k=10_000)


def _cut(said: Iterator[str], size: int) -> str:
    found: list[str] = []
    length = 0
    while length < size:
        found.append(next(said))
        length += len(found[-1]) + 1
    return " ".join(found)[:size]


def _bytes(store: str) -> int:
    folder = os.path.join(store, "sessions", "old")
    names = [name for name in os.listdir(folder) if name.startswith("events")]
    return sum(os.path.getsize(os.path.join(folder, name)) for name in names)


def _timed(work: Any) -> tuple[float, Any]:
    begin = time.perf_counter()
    found = work()
    return time.perf_counter() - begin, found
