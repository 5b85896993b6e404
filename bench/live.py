"""Measurements in this process: appends, flushes, growth."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import msgspec

import holdfast
from bench.figures import Line, exponent, line_of, median, micros, ratios_of
from bench.floor import append_floor, open_plain
from bench.workload import record, step, typed_event, verb_of

__all__ = ["Append", "Flush", "Growth"]

_LONG = 10_000


class Append:
    """One event through the public API with default settings; the floor before, between, after."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 800 if quick else 4_000
        self._floor: list[float] = []
        self._spent: dict[str, list[float]] = {"append": [], "append-loop": []}

    def measure(self, folder: str) -> None:
        """Run one round: as a program calls it, and as a coroutine of a running loop does."""
        floors = append_floor(folder, self._count)
        for name, store, run in (("append", "append", _appended), ("append-loop", "loop", _appended_in_loop)):
            with holdfast.open(os.path.join(folder, store)) as hf, hf.session() as session:
                session.user("the first event opens the file")
                self._spent[name].append(median(run(session, self._count)))
            floors += append_floor(folder, self._count)
        self._floor.append(median(floors))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        said = {
            "append": "append p50 (encode + one write)",
            "append-loop": "append p50 in an event loop (encode + one write)",
        }
        return [
            line_of(
                what,
                ratios_of(self._spent[name], self._floor),
                None,
                ours=micros(median(self._spent[name])),
                floor=micros(median(self._floor)),
            ).shows(name)
            for name, what in said.items()
        ]


def _appended(session: Any, count: int) -> list[int]:
    """Return the nanoseconds of each of ``count`` appends."""
    clock = time.perf_counter_ns
    spent = []
    call: Any = None
    for index in range(count):
        # Looking up the method is the bench's work, and not measured, just as making the floor's struct.
        verb, given = verb_of(session, step(index), call)
        begin = clock()
        call = verb(*given)
        spent.append(clock() - begin)
    return spent


def _appended_in_loop(session: Any, count: int) -> list[int]:
    """Measure the same in a task that yields after each append, beside one that does nothing else."""
    clock = time.perf_counter_ns
    spent: list[int] = []

    async def idle() -> None:
        while len(spent) < count:  # noqa: ASYNC110 - a loop that has something else to do
            await asyncio.sleep(0)

    async def append() -> None:
        call: Any = None
        for index in range(count):
            verb, given = verb_of(session, step(index), call)
            begin = clock()
            call = verb(*given)
            spent.append(clock() - begin)
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(append(), idle())

    asyncio.run(both())
    return spent


class Flush:
    """Append and flush against write and fdatasync, in turn, under the same conditions of the disk."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 40 if quick else 200
        self._ratios: list[float] = []
        self._ours: list[float] = []
        self._floor: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round."""
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
        """Return the table's lines."""
        ours, floor = micros(median(self._ours)), micros(median(self._floor))
        what = "append and flush p50 (write + fdatasync)"
        return [line_of(what, self._ratios, None, ours=ours, floor=floor).shows("flush")]


class Growth:
    """One append, and the messages after it, in a session that grows."""

    _WINDOW = 400

    def __init__(self, *, quick: bool) -> None:
        self._sizes = (100, 1_000, 10_000) if quick else (100, 1_000, 10_000, 100_000)
        self._store = ""
        self._append: list[dict[int, float]] = []
        self._messages: list[dict[int, float]] = []

    def prepare(self, folder: str) -> None:
        """Create the long sessions, to which a few hundred more events in each round make no difference."""
        self._store = os.path.join(folder, "growth")
        with self._open() as hf:
            for size in self._sizes:
                if size >= _LONG:
                    with hf.session(f"of-{size}") as session:
                        _grow(session, size)
            hf.list(1)  # the catalogue catches up

    def measure(self, folder: str) -> None:
        """Run one round: with new short sessions, and the same long ones."""
        append: dict[int, float] = {}
        messages: dict[int, float] = {}
        with self._open() as hf:
            for size in self._sizes:
                id = f"of-{size}" if size >= _LONG else f"of-{size}-{len(self._append)}"
                with hf.session(id) as session:
                    _grow(session, size)
                    # The catalogue catches up first: what it costs has lines of its own.
                    hf.list(1)
                    append[size], messages[size] = self._window(session, size)
        self._append.append(append)
        self._messages.append(messages)

    def _open(self) -> holdfast.Holdfast:
        return holdfast.open(self._store, limits=holdfast.Limits(session_bytes_max=1 << 40))

    def _window(self, session: Any, size: int) -> tuple[float, float]:
        clock = time.perf_counter_ns
        appends, afters = [], []
        call, messages = None, session.messages("anthropic")
        for index in range(size, size + self._WINDOW):
            event = step(index)
            begin = clock()
            call = record(session, event, call)
            between = clock()
            messages = session.messages("anthropic")
            afters.append(clock() - between)
            appends.append(between - begin)
        assert messages
        return median(appends), median(afters)

    def lines(self) -> list[Line]:
        """Return the table's lines: the ratios are exponents here."""
        return [
            self._line("append", self._append).shows("growth"),
            self._line('messages("anthropic") after one append', self._messages).shows("messages"),
        ]

    def _line(self, what: str, rounds: list[dict[int, float]]) -> Line:
        last = self._sizes[-1]
        costs = {n: median([one[n] for one in rounds]) for n in self._sizes}
        line = line_of(
            f"exponent of one {what}, n = 100 to {last:,}",
            [exponent(list(one.items())) for one in rounds],
            None,
            ours=f"{micros(costs[last])} at {last:,}",
            floor=f"{micros(costs[100])} at 100",
        )
        return line._replace(chart=tuple((str(n), cost / 1e3) for n, cost in costs.items()))


def _grow(session: Any, size: int) -> None:
    call = None
    for index in range(session.seq & ~3, size):
        call = record(session, step(index), call)
