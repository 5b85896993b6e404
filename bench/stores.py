"""The stores for many sessions: SQLite and PostgreSQL, each against bare inserts of the same."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from typing import Any
from uuid import uuid4

import holdfast
from bench import rivals, server
from bench.child import ask
from bench.figures import Line, alternated, exponent, line_of, median, micros, ratios_of
from bench.workload import record, step
from holdfast.library import Holdfast

__all__ = ["SESSIONS", "Postgres", "SQLite", "many_rate"]

SESSIONS = 64
_TEXT = step(1).text
_FLAT_MARK = 0.1
_COUNTED = 20  # flushes of each session, also in a quick run: the first ones find no crowd yet


class SQLite:
    """One file for many sessions against a bare insert with the same settings."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 200 if quick else 1_000
        self._flushes = 40 if quick else 200
        self._sizes = (100, 1_000) if quick else (100, 1_000, 10_000)
        self._each = 4 if quick else 20
        self._spent: dict[str, list[float]] = {name: [] for name in ("append", "bare", "flush", "bare_flush", "many")}
        self._growth: list[dict[int, float]] = []
        self._syncs: dict[str, list[float]] = {"loop": [], "threads": []}
        self._rival: list[Any] = []

    def measure(self, folder: str) -> None:
        """Run one round, including the rival, since the speed of disks varies; count syncs once."""
        task = {"texts": [_TEXT] * self._flushes, "sessions": SESSIONS, "each": self._each}
        self._rival.append(rivals.ask("openai_agents", folder, task))
        with (
            closing(_bare(os.path.join(folder, "bare.db"), "NORMAL")) as bare,
            closing(_bare(os.path.join(folder, "safe.db"), "FULL")) as safe,
            holdfast.open(f"sqlite:///{folder}/ours.db") as hf,
        ):
            self._measure_one(hf, bare, safe)
            self._growth.append(_growth(hf, self._sizes, flush=False))
            self._spent["many"].append(many_rate(hf, self._each, flush=True))
        if not self._syncs["loop"] and shutil.which("strace"):
            for how, found in self._syncs.items():
                found.append(_count_syncs(folder, how))

    def _measure_one(self, hf: Any, bare: sqlite3.Connection, safe: sqlite3.Connection) -> None:
        with hf.session("one") as session:
            session.assistant("the first event makes the tables")
            session.flush()
            ours, floor = alternated(self._count, lambda: session.assistant(_TEXT), lambda: _insert(bare))

            def said_and_safe() -> None:
                session.assistant(_TEXT)
                session.flush()

            ours_safe, floor_safe = alternated(self._flushes, said_and_safe, lambda: _insert(safe))
        values = {"append": ours, "bare": floor, "flush": ours_safe, "bare_flush": floor_safe}
        for name, value in values.items():
            self._spent[name].append(value)

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        spent = self._spent
        found = [
            _ratio("sqlite: append p50 (a bare insert, WAL)", spent["append"], spent["bare"]),
            _ratio(
                "sqlite: append and flush p50 (a bare insert that waits for the disk)",
                spent["flush"],
                spent["bare_flush"],
            ),
            _flat("sqlite: exponent of one append", self._growth),
        ]
        said = {"loop": f"{SESSIONS} sessions of one event loop", "threads": f"{SESSIONS} sessions, a thread each"}
        for how, what in said.items():
            if self._syncs[how]:
                line = line_of(
                    f"sqlite: syncs while they append and flush, for each append, {what} (counted)",
                    self._syncs[how],
                    None,
                )
                found.append(line.shows("many-syncs") if how == "loop" else line)
        return [*found, *self._rival_lines()]

    def _rival_lines(self) -> list[Line]:
        if None in self._rival or not self._rival:
            return []
        name, rates = rivals.NAMES["openai_agents"], self._spent["many"]
        theirs = [float(one["append_ns"]) for one in self._rival]
        their_rates = [one["many_per_s"] for one in self._rival]
        return [
            _ratio(f"sqlite: append p50 ({name})", self._spent["append"], theirs),
            _ratio(f"sqlite: append and flush p50 ({name})", self._spent["flush"], theirs),
            line_of(
                f"sqlite: {SESSIONS} sessions, each event flushed, time for an event ({name})",
                [least / rate for rate, least in zip(rates, their_rates, strict=True)],
                None,
                ours=f"{median(rates):,.0f} events/s",
                floor=f"{median(their_rates):,.0f} events/s",
            ),
        ]


def _bare(path: str, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("CREATE TABLE said (id INTEGER PRIMARY KEY, session TEXT, data BLOB)")
    return connection


def _insert(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO said (session, data) VALUES (?, ?)", ("one", b'{"text":"%b"}' % _TEXT.encode()))


def _count_syncs(folder: str, how: str) -> float:
    """Return the syncs for each append, counted by strace, without those of opening."""
    with tempfile.NamedTemporaryFile("r", dir=folder) as trace:
        calls = "trace=fsync,fdatasync,sync_file_range,sync,msync,getppid"
        # Only these calls are traced: tracing every call would change the behaviour of the process.
        strace = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", trace.name, "-e", calls)
        store = f"sqlite:///{folder}/syncs-{how}.db"
        count = ask("flush_many", store, str(SESSIONS), str(_COUNTED), how, prefix=strace)
        # Interleaved calls of threads are printed on two lines: only the beginnings are counted.
        inside = trace.read().split("getppid(")[1]
    return inside.count("sync(") / count


class Postgres:
    """A server for many machines against one bare insert and commit."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 60 if quick else 200
        self._before = 100 if quick else 1_000
        self._sizes = (100, 1_000) if quick else (100, 1_000, 10_000)
        self._each = 20 if quick else 100
        self._server: server.Server | None = None
        self._number = 0
        names = ("append", "flush", "bare", "many", "many_flushed", "many_indexed")
        names += ("bare_rate", "bare_many")
        self._spent: dict[str, list[float]] = {name: [] for name in names}
        self._growth: list[dict[int, float]] = []
        self._rival: list[Any] = []

    def prepare(self, _folder: str) -> None:
        """Start the server."""
        why = server.missing()
        if why is not None:
            print(f"without PostgreSQL: {why}", file=sys.stderr)
            return
        self._server = server.Server()
        self._server.start()

    def finish(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.stop()

    def measure(self, folder: str) -> None:
        """Run one round, in a separate schema, including the rival."""
        if self._server is None:
            return
        # A thread of 1,000 messages is so slow that a few more messages are enough.
        before, texts = [_TEXT] * self._before, [_TEXT] * 20
        task = {"url": self._server.url, "before": before, "texts": texts}
        self._rival.append(rivals.ask("langgraph", folder, task))
        self._number += 1
        spent = self._spent
        url = f"{self._server.url}?schema=round{self._number}"
        with Holdfast(url, timers=False) as hf:  # the store alone: nothing is indexed meanwhile
            found = _in_turn(hf, self._server.url, self._count)
            self._growth.append(_growth(hf, self._sizes, flush=True))
            spent["many"].append(many_rate(hf, self._each, flush=False))
            spent["many_flushed"].append(many_rate(hf, self._each, flush=True))
        with holdfast.open(f"{url}indexed") as hf:
            spent["many_indexed"].append(many_rate(hf, self._each, flush=False))
        for name, value in zip(("append", "flush", "bare"), found, strict=True):
            spent[name].append(value)
        spent["bare_rate"].append(asyncio.run(_bare_rate(self._server.url, self._count, 1)))
        spent["bare_many"].append(asyncio.run(_bare_rate(self._server.url, self._each, SESSIONS)))

    def lines(self) -> list[Line]:
        """Return the table's lines; none without a server."""
        spent = self._spent
        if not spent["append"]:
            return []
        bare = "a bare insert and commit, asyncpg"
        found = [
            _ratio(f"postgres: append p50, accepted ({bare})", spent["append"], spent["bare"]),
            _ratio(f"postgres: append and flush p50 ({bare})", spent["flush"], spent["bare"]),
            _flat("postgres: exponent of one append and flush", self._growth),
            self._many("stored at the end", "many", "bare_rate", "a commit for each").shows("postgres-many"),
            self._many("stored at the end, the catalogue at work", *("many_indexed", "bare_rate", "a commit for each")),
            self._many("each flushed", "many_flushed", "bare_rate", "a commit for each"),
            self._many("stored at the end", "many", "bare_many", f"on {SESSIONS} connections"),
        ]
        return [*found, *self._rival_lines()]

    def _rival_lines(self) -> list[Line]:
        if None in self._rival or not self._rival:
            return []
        spent = self._spent
        theirs = [float(one["append_ns"]) for one in self._rival]
        name = f"{rivals.NAMES['langgraph']}, a thread of {self._before:,} messages"
        rates = spent["many_flushed"]
        together = line_of(
            f"postgres: {SESSIONS} sessions, each flushed, events per second ({name})",
            [rate * one / 1e9 for rate, one in zip(rates, theirs, strict=True)],
            None,
            ours=f"{median(rates):,.0f} events/s",
            floor=f"{1e9 / median(theirs):,.0f} events/s",
        )
        return [
            together.shows("postgres-langgraph"),
            _ratio(f"postgres: append p50, accepted ({name})", spent["append"], theirs),
            _ratio(f"postgres: append and flush p50 ({name})", spent["flush"], theirs),
        ]

    def _many(self, how: str, ours: str, floor: str, said: str) -> Line:
        rates, bare = self._spent[ours], self._spent[floor]
        return line_of(
            f"postgres: {SESSIONS} sessions, {how}, events per second ({said})",
            ratios_of(rates, bare),
            None,
            ours=f"{median(rates):,.0f} events/s",
            floor=f"{median(bare):,.0f} events/s",
        )


_TABLE = "CREATE TABLE IF NOT EXISTS bare (id uuid, seq bigint, data bytea, PRIMARY KEY (id, seq))"
_ROW = "INSERT INTO bare VALUES ($1, $2, $3)"


async def _bare_rate(url: str, each: int, connections: int) -> float:
    """Return the rows per second, each committed separately, on a number of connections at once."""
    import asyncpg

    opened = [await asyncpg.connect(url) for _ in range(connections)]
    await opened[0].execute(_TABLE)

    async def insert(connection: Any) -> None:
        id, statement = uuid4(), await connection.prepare(_ROW)
        for seq in range(each):
            await statement.fetch(id, seq, _TEXT.encode())

    begin = time.perf_counter()
    await asyncio.gather(*map(insert, opened))
    seconds = time.perf_counter() - begin
    for connection in opened:
        await connection.close()
    return connections * each / seconds


def _in_turn(hf: Any, url: str, count: int) -> tuple[float, float, float]:
    """Return the nanoseconds of an append, the same with its flush, and a bare insert, call by call."""
    import asyncpg

    clock, id = time.perf_counter_ns, uuid4()
    accepted, stored, bare = [], [], []
    with closing(asyncio.new_event_loop()) as loop, hf.session("one") as session:
        session.assistant("the first event makes the session")
        session.flush()
        connection = loop.run_until_complete(asyncpg.connect(url))
        loop.run_until_complete(connection.execute(_TABLE))
        statement = loop.run_until_complete(connection.prepare(_ROW))
        for seq in range(count):
            begin = clock()
            session.assistant(_TEXT)
            accepted.append(clock() - begin)
            session.flush()
            stored.append(clock() - begin)
            begin = clock()
            loop.run_until_complete(statement.fetch(id, seq, _TEXT.encode()))
            bare.append(clock() - begin)
        loop.run_until_complete(connection.close())
    return median(accepted), median(stored), median(bare)


def _growth(hf: Any, sizes: tuple[int, ...], *, flush: bool) -> dict[int, float]:
    """Return the median cost of an append in a session of each size."""
    costs: dict[int, float] = {}
    call: Any = None
    with hf.session("growing") as session:
        for size in sizes:
            for index in range(session.seq & ~3, size):
                call = record(session, step(index), call)
            session.flush()
            spent = []
            for _ in range(100):
                begin = time.perf_counter_ns()
                session.assistant(_TEXT)
                if flush:
                    session.flush()
                spent.append(time.perf_counter_ns() - begin)
            costs[size] = median(spent)
    return costs


def many_rate(hf: Any, each: int, *, flush: bool) -> float:
    """Return the events per second of many sessions in one event loop, until all are stored."""
    # No text twice in a session: compression must not make the stored data unrealistically small.
    texts = [step(number * 4 + 1).text for number in range(each)]

    async def talk(session: Any) -> None:
        for text in texts:
            session.assistant(text)
            await (session.aflush() if flush else asyncio.sleep(0))
        await session.aflush()

    async def everyone(sessions: list[Any]) -> float:
        begin = time.perf_counter()
        await asyncio.gather(*map(talk, sessions))
        return len(sessions) * each / (time.perf_counter() - begin)

    sessions = [hf.session(f"many-{flush}-{number}") for number in range(SESSIONS)]
    for session in sessions:
        session.assistant("the first event makes the session")
        session.flush()
    rate = asyncio.run(everyone(sessions))
    for session in sessions:
        session.close()
    return rate


def _ratio(what: str, ours: list[float], floor: list[float]) -> Line:
    """Return a line without a mark."""
    ratios = ratios_of(ours, floor)
    return line_of(what, ratios, None, ours=micros(median(ours)), floor=micros(median(floor)))


def _flat(what: str, rounds: list[dict[int, float]]) -> Line:
    first, last = min(rounds[0]), max(rounds[0])
    costs = {n: median([one[n] for one in rounds]) for n in (first, last)}
    return line_of(
        f"{what}, n = {first} to {last:,}",
        [exponent(list(one.items())) for one in rounds],
        _FLAT_MARK,
        ours=f"{micros(costs[last])} at {last:,}",
        floor=f"{micros(costs[first])} at {first}",
    )
