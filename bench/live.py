"""What is measured in this process: appends, flushes, growth."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

import holdfast
from bench.figures import Line, exponent, line_of, median, micros
from bench.floor import append_floor, open_plain
from bench.workload import record, step, typed_event

__all__ = ["Append", "Flush", "Growth"]


class Append:
    """One event through the public surface, default settings; the floor before and after it."""

    MARK = 3.0

    def __init__(self, *, quick: bool) -> None:
        self._count = 800 if quick else 4_000
        self._ratios: list[float] = []
        self._ours: list[float] = []
        self._floor: list[float] = []

    def measure(self, folder: str) -> None:
        """One round."""
        before = append_floor(folder, self._count)
        ours = median(self._append(folder))
        floor = median(before + append_floor(folder, self._count))
        self._ours.append(ours)
        self._floor.append(floor)
        self._ratios.append(ours / floor)

    def _append(self, folder: str) -> list[int]:
        clock = time.perf_counter_ns
        spent = []
        call: Any = None
        with holdfast.open(os.path.join(folder, "append")) as hf, hf.session() as session:
            session.user("the first event opens the file")
            for index in range(self._count):
                event = step(index)
                begin = clock()
                call = record(session, event, call)
                spent.append(clock() - begin)
        return spent

    def lines(self) -> list[Line]:
        """The table's lines."""
        ours, floor = micros(median(self._ours)), micros(median(self._floor))
        what = "append p50 (encode + one write)"
        return [line_of(what, self._ratios, self.MARK, ours=ours, floor=floor)]


class Flush:
    """Append and flush against write and fdatasync, in turn, so that both see the same disk."""

    MARK = 1.3

    def __init__(self, *, quick: bool) -> None:
        self._count = 40 if quick else 200
        self._ratios: list[float] = []
        self._ours: list[float] = []
        self._floor: list[float] = []

    def measure(self, folder: str) -> None:
        """One round."""
        ours, floor = self._flush(folder)
        self._ours.append(median(ours))
        self._floor.append(median(floor))
        self._ratios.append(self._ours[-1] / self._floor[-1])

    def _flush(self, folder: str) -> tuple[list[int], list[int]]:
        clock, encode = time.perf_counter_ns, msgspec.json.Encoder().encode
        descriptor = open_plain(folder)
        ours, floor = [], []
        with holdfast.open(os.path.join(folder, "flush")) as hf, hf.session() as session:
            session.user("the first flush makes the directories safe as well")
            session.flush()
            for index in range(0, self._count * 4, 4):
                event = step(index)
                line = typed_event(event)
                begin = clock()
                os.write(descriptor, encode(line) + b"\n")
                os.fdatasync(descriptor)
                between = clock()
                session.user(event.text)
                session.flush()
                ours.append(clock() - between)
                floor.append(between - begin)
        os.close(descriptor)
        return ours, floor

    def lines(self) -> list[Line]:
        """The table's lines."""
        ours, floor = micros(median(self._ours)), micros(median(self._floor))
        what = "append and flush p50 (write + fdatasync)"
        return [line_of(what, self._ratios, self.MARK, ours=ours, floor=floor)]


class Growth:
    """One append, and one append with the messages after it, in a session that grows."""

    MARK = 0.05
    _WINDOW = 400

    def __init__(self, *, quick: bool) -> None:
        self._sizes = (100, 1_000, 10_000) if quick else (100, 1_000, 10_000, 100_000)
        self._append: list[dict[int, float]] = []
        self._both: list[dict[int, float]] = []

    def measure(self, folder: str) -> None:
        """One round."""
        append: dict[int, float] = {}
        both: dict[int, float] = {}
        limits = holdfast.Limits(session_bytes_max=1 << 40)
        with (
            holdfast.open(os.path.join(folder, "growth"), limits=limits) as hf,
            hf.session() as session,
        ):
            session.user("a conversation that is asked for")
            session.messages("anthropic")
            for size in self._sizes:
                _grow(session, size)
                hf.list(
                    1
                )  # so that the catalogue has caught up: what it costs has lines of its own
                append[size], both[size] = self._window(session, size)
        self._append.append(append)
        self._both.append(both)

    def _window(self, session: Any, size: int) -> tuple[float, float]:
        clock = time.perf_counter_ns
        appends, wholes = [], []
        call, messages = None, session.messages("anthropic")
        for index in range(size, size + self._WINDOW):
            event = step(index)
            begin = clock()
            call = record(session, event, call)
            between = clock()
            messages = session.messages("anthropic")
            wholes.append(clock() - begin)
            appends.append(between - begin)
        assert messages
        return median(appends), median(wholes)

    def lines(self) -> list[Line]:
        """The table's lines: the ratios are exponents here."""
        return [
            self._line("append", self._append),
            self._line('append and messages("anthropic")', self._both),
        ]

    def _line(self, what: str, rounds: list[dict[int, float]]) -> Line:
        last = self._sizes[-1]
        costs = {n: median([one[n] for one in rounds]) for n in self._sizes}
        return line_of(
            f"exponent of one {what}, n = 100 to {last:,}",
            [exponent(list(one.items())) for one in rounds],
            self.MARK,
            ours=f"{micros(costs[last])} at {last:,}",
            floor=f"{micros(costs[100])} at 100",
        )


def _grow(session: Any, size: int) -> None:
    call = None
    for index in range(session.seq & ~3, size):
        call = record(session, step(index), call)
