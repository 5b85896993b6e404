"""The catalogue: lists, search, indexing beside a session, and rebuilding the index."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, ClassVar

import holdfast
from bench import rivals
from bench.child import ask
from bench.crowd import RARE, Crowd, common_words, paths, phrases, rare_words, shared_crowd
from bench.figures import Line, alternated, exponent, line_of, median, micros, millis
from bench.workload import record, step

__all__ = ["Feeding", "Lists", "Search"]

_PAGE = 50
_TURNS = 5
_COLUMNS = (
    "session_id TEXT PRIMARY KEY, title TEXT, tags TEXT, auto_tags TEXT, created_at INTEGER,"
    " updated_at INTEGER, message_count INTEGER, total_tokens INTEGER, event_count INTEGER,"
    " size_bytes INTEGER, agent_id TEXT, model TEXT, cost REAL, parent TEXT, pinned INTEGER,"
    " held INTEGER, archived INTEGER, open INTEGER, status TEXT, state TEXT"
)


class Lists:
    """The newest 50 of many sessions against a bare SELECT; and the cost of 100,000 sessions."""

    FLAT_MARK = 0.1
    # The query, and milliseconds for the first call after opening and for later ones.
    LIMITS: ClassVar = {
        "list": ("list", 50.0, 50.0),
        "by_tag": ("list by tag", 50.0, 50.0),
        "sorted": ("list by tokens", 100.0, 50.0),
        "titles": ("list by title", 200.0, 50.0),
        "narrowed": ("list by cost, narrowed by a rare text", 200.0, 50.0),
        "lineage": ("lineage", 50.0, 50.0),
        "stats": ("statistics of everything", 200.0, 100.0),
        "search": ("search of a rare word", 50.0, 50.0),
        "prune": ("prune, dry run", 2_000.0, 2_000.0),
    }
    MEMORY_LIMIT_MB = 150.0

    def __init__(self, *, quick: bool) -> None:
        self._sizes = (200, 1_000, 5_000) if quick else (1_000, 10_000, 100_000)
        self._calls = 40 if quick else 200
        self._folder = ""
        self._ours: list[dict[int, float]] = []
        self._sorted: list[dict[int, float]] = []
        self._floor: list[float] = []
        self._plain: list[float] = []
        self._crowded: list[dict[str, float]] = []
        self._rivals: dict[str, float] = {}

    def prepare(self, folder: str) -> None:
        """Create the stores, and a bare table for the middle one; measure the rivals' lists once."""
        self._folder = folder
        crowd = Crowd(6, chars_max=400)
        for size in self._sizes:
            store = shared_crowd(folder, size)
            if size == self._sizes[1]:
                with holdfast.open(store) as hf:
                    self._make_floor(hf.list(None))
        self._ask(self._sizes[0])  # which compiles what it imports
        task = {"sessions": _turns(crowd, 1_000), "page": _PAGE}
        for name in ("agno", "adk", "llm"):
            found = rivals.ask(name, folder, task)
            if found is not None:
                self._rivals[name] = found["list_ns"]

    def measure(self, folder: str) -> None:
        """Run one round: every size, the floor between; then a fresh process over the largest."""
        costs: dict[int, float] = {}
        in_order: dict[int, float] = {}
        with closing(sqlite3.connect(os.path.join(self._folder, "floor.db"))) as floor:
            select = "SELECT * FROM sessions ORDER BY updated_at DESC LIMIT 50"
            undecoded = "SELECT data FROM plain ORDER BY updated_at DESC LIMIT 50"
            for size in self._sizes:
                with holdfast.open(self._store(size)) as hf:
                    assert len(hf.list(_PAGE)) == len(hf.list(_PAGE, sort="tokens")) == _PAGE
                    ours, in_order[size], bare, plain = alternated(
                        self._calls,
                        lambda hf=hf: hf.list(_PAGE),
                        lambda hf=hf: hf.list(_PAGE, sort="tokens"),
                        lambda: floor.execute(select).fetchall(),
                        lambda: floor.execute(undecoded).fetchall(),
                    )
                costs[size] = ours
                if size == self._sizes[1]:
                    self._floor.append(bare)
                    self._plain.append(plain)
        self._ours.append(costs)
        self._sorted.append(in_order)
        self._crowded.append(self._ask(self._sizes[-1]))

    def _ask(self, size: int) -> dict[str, float]:
        found: dict[str, float] = ask("crowded", self._store(size), compiled=os.path.join(self._folder, "compiled"))
        return found

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [*self._ratio_lines(), *self._rival_lines(), *self._crowded_lines()]

    def _ratio_lines(self) -> list[Line]:
        middle = self._sizes[1]
        ours = micros(median([one[middle] for one in self._ours]))
        floors = (("a bare indexed SELECT", self._floor), ("the same rows as one undecoded text each", self._plain))
        found = [
            line_of(
                f"list newest 50 of {middle:,} sessions ({what})",
                [one[middle] / floor for one, floor in zip(self._ours, spent, strict=True)],
                None,
                ours=ours,
                floor=micros(median(spent)),
            )
            for what, spent in floors
        ]
        found[0] = found[0].shows("list")
        flat = self._flat_line("a list of 50", self._ours)
        return [*found, flat, self._flat_line("a list of 50 by tokens", self._sorted)]

    def _flat_line(self, what: str, found: list[dict[int, float]]) -> Line:
        first, last = self._sizes[0], self._sizes[-1]
        costs = {size: median([one[size] for one in found]) for size in (first, last)}
        return line_of(
            f"exponent of {what}, n = {first:,} to {last:,}",
            [exponent(list(one.items())) for one in found],
            self.FLAT_MARK,
            ours=f"{micros(costs[last])} at {last:,}",
            floor=f"{micros(costs[first])} at {first:,}",
        )

    def _rival_lines(self) -> list[Line]:
        small = min(self._sizes, key=lambda size: abs(size - 1_000))
        return [
            line_of(
                f"list 50 of 1,000 sessions ({rivals.NAMES[name]})",
                [one[small] / theirs for one in self._ours],
                None,
                ours=micros(median([one[small] for one in self._ours])),
                floor=millis(theirs),
            )
            for name, theirs in self._rivals.items()
        ]

    def _crowded_lines(self) -> list[Line]:
        size = self._sizes[-1]
        found = []
        for name, (what, first, later) in self.LIMITS.items():
            for turn, said, limit in (("first", "first call after opening", first), ("later", "later calls", later)):
                spent = [one.get(f"{name}_{turn}", 0) for one in self._crowded]
                if all(spent):
                    what_said = f"{size:,} sessions: {what}, {said} ({limit:,.0f} ms)"
                    found.append(_limit_line(what_said, spent, limit, "ms"))
        memory = [one["memory"] for one in self._crowded]
        what = f"{size:,} sessions: memory of the process after all that"
        limit = self.MEMORY_LIMIT_MB
        return [*found, _limit_line(f"{what} ({limit:.0f} MB)", memory, limit, "MB")]

    def _store(self, size: int) -> str:
        return shared_crowd(self._folder, size)

    def _make_floor(self, rows: list[Any]) -> None:
        with closing(sqlite3.connect(os.path.join(self._folder, "floor.db"))) as floor:
            floor.execute("PRAGMA journal_mode=WAL")
            floor.execute(f"CREATE TABLE sessions ({_COLUMNS})")
            floor.execute("CREATE INDEX by_time ON sessions (updated_at)")
            floor.execute("CREATE TABLE plain (updated_at INTEGER, data TEXT)")
            floor.execute("CREATE INDEX plain_by_time ON plain (updated_at)")
            for row in rows:
                members = {name: getattr(row, name) for name in row.__struct_fields__}
                data = json.dumps(members)
                values = [_flat(members[word.split()[0]]) for word in _COLUMNS.split(", ")]
                marks = ", ".join("?" * len(values))
                floor.execute(f"INSERT INTO sessions VALUES ({marks})", values)
                floor.execute("INSERT INTO plain VALUES (?, ?)", (row.updated_at, data))
            floor.commit()


def _turns(crowd: Crowd, count: int) -> list[list[tuple[str, str]]]:
    """Return the questions and answers, session by session, for the rivals."""
    said: list[dict[str, list[str]]] = [{"user": [], "assistant": []} for _ in range(count)]
    for number, type, text in crowd.texts(count):
        said[number].setdefault(type, []).append(text)
    return [list(zip(one["user"], one["assistant"], strict=False)) for one in said]


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, tuple) else value


def _limit_line(what: str, spent: list[float], limit: float, unit: str) -> Line:
    ratios = [one / limit for one in spent]
    return line_of(what, ratios, 1.0, ours=f"{median(spent):,.1f} {unit}", floor=f"{limit:,.0f} {unit}")


class Search:
    """Searches in 1,000 sessions of 50 events against a bare full-text query; and the rebuild."""

    REBUILD_MARK = 1.0
    REBUILD_MB_S = 20.0

    def __init__(self, *, quick: bool) -> None:
        self._sessions = 100 if quick else 1_000
        self._events = 50
        self._folder = ""
        self._bytes = 0
        rare, words = rare_words(self._sessions), 10 if quick else 30
        self._queries = {
            "rare": rare,
            "again": rare,
            "common": common_words(words),
            "phrase": [f'"{phrase}"' for phrase in phrases(words)],
            "path": paths(words),
        }
        self._ours: dict[str, list[float]] = {name: [] for name in self._queries}
        self._bare: dict[str, list[float]] = {name: [] for name in self._queries}
        self._whole: dict[str, list[float]] = {name: [] for name in self._queries}
        self._same: dict[str, list[float]] = {name: [] for name in self._queries}
        self._rebuilt: list[float] = []
        self._rivals: dict[str, float] = {}

    def prepare(self, folder: str) -> None:
        """Create the store, and the same texts in full-text tables, with all columns of a hit and with fewer."""
        self._folder = folder
        crowd = Crowd(self._events)
        self._bytes = crowd.fill(os.path.join(folder, "words"), self._sessions)
        with closing(sqlite3.connect(os.path.join(folder, "words.db"))) as bare:
            bare.execute("PRAGMA journal_mode=WAL")
            bare.execute("CREATE VIRTUAL TABLE bare USING fts5 (text, content='')")
            bare.execute("CREATE VIRTUAL TABLE whole USING fts5 (text)")
            for statement in _TABLES_OF_SAME:
                bare.execute(statement)
            for id, (number, type, text) in enumerate(crowd.texts(self._sessions), 1):
                bare.execute("INSERT INTO bare (rowid, text) VALUES (?, ?)", (id, text))
                bare.execute("INSERT INTO whole (rowid, text) VALUES (?, ?)", (id, text))
                _insert_same(bare, id, number, type, text)
            bare.commit()
        # Turns of text only, since llm stores no others; and fewer, because writing them takes long.
        task = {"sessions": _turns(Crowd(12), self._sessions), "query": RARE}
        found = rivals.ask("llm", folder, task)
        if found is not None:
            self._rivals["llm"] = found["search_ns"]

    def measure(self, folder: str) -> None:
        """Run one round: rebuild the index, then every query, ours and bare in turn."""
        store = os.path.join(self._folder, "words")
        with holdfast.open(store) as hf:
            begin = time.perf_counter()
            hf.reindex()
            self._rebuilt.append(self._bytes / 1e6 / (time.perf_counter() - begin))
        with closing(sqlite3.connect(os.path.join(self._folder, "words.db"))) as bare, holdfast.open(store) as hf:
            hf.search("nobody said so")  # which loads the code
            for query in _bare_queries(bare, '"nobody said so"'):
                query()
            for name, queries in self._queries.items():
                # Different words in every round, so that cached results do not help.
                turn = queries[len(self._rebuilt) % _TURNS :: _TURNS]
                spent = [_asked_once(hf, bare, query) for query in turn]
                kept = (self._ours, self._bare, self._whole, self._same)
                for found, times in zip(kept, zip(*spent, strict=True), strict=True):
                    found[name].append(median(times))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        where = f"{self._sessions:,} x {self._events} events"
        kinds = {
            "rare": "a rare word",
            "again": "a rare word that was asked for before",
            "common": "a common word",
            "phrase": "a phrase",
            "path": "a path",
        }
        floors = (
            ("FTS5 that tells the same of a hit", self._same),
            ("FTS5 with its content, snippet()", self._whole),
            ("FTS5, row numbers only", self._bare),
        )
        found = [
            self._line(f"search of {what}, {where} ({said})", self._ours[name], spent[name])
            for name, what in kinds.items()
            for said, spent in floors
        ]
        # The mark is for the first: the same answer from a table that has the text itself.
        found[0] = found[0].shows("search")
        for name, theirs in self._rivals.items():
            ratios = [one / theirs for one in self._ours["rare"]]
            ours = millis(median(self._ours["rare"]))
            what = f"search of a rare word, {self._sessions:,} sessions ({rivals.NAMES[name]})"
            found.append(line_of(what, ratios, None, ours=ours, floor=millis(theirs)))
        rebuilt = line_of(
            f"rebuild of the catalogue, {where} ({self.REBUILD_MB_S:.0f} MB/s of logs)",
            [self.REBUILD_MB_S / one for one in self._rebuilt],
            self.REBUILD_MARK,
            ours=f"{median(self._rebuilt):.1f} MB/s",
            floor=f"{self.REBUILD_MB_S:.0f} MB/s",
        )
        return [*found, rebuilt]

    def _line(self, what: str, ours: list[float], floors: list[float]) -> Line:
        ratios = [one / floor for one, floor in zip(ours, floors, strict=True)]
        spent = [f"{median(times) / 1e6:.2f} ms" for times in (ours, floors)]
        return line_of(what, ratios, None, ours=spent[0], floor=spent[1])


# Tables that one would make by hand to find events and to show their places.
_TABLES_OF_SAME = (
    "CREATE TABLE session (id INTEGER PRIMARY KEY, session_id TEXT, title TEXT)",
    """
    CREATE TABLE event (id INTEGER PRIMARY KEY, session INTEGER, seq INTEGER, role TEXT,
        tool TEXT, time INTEGER, text TEXT)
    """,
    "CREATE VIRTUAL TABLE same USING fts5 (text, content='event', content_rowid='id')",
)
_SAME = (
    "SELECT session.session_id, event.seq, event.role, event.tool, event.time, session.title,"
    " snippet(same, 0, '[', ']', '…', 24), rank FROM same JOIN event ON event.id = same.rowid"
    " JOIN session ON session.id = event.session WHERE same MATCH ? ORDER BY rank LIMIT 20"
)


def _insert_same(bare: sqlite3.Connection, id: int, number: int, type: str, text: str) -> None:
    title = (number, f"session-{number:07d}", text[:60])
    bare.execute("INSERT OR IGNORE INTO session VALUES (?, ?, ?)", title)
    event = (id, number, id, type, "Read" if type.startswith("tool") else None, id, text)
    bare.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", event)
    bare.execute("INSERT INTO same (rowid, text) VALUES (?, ?)", (id, text))


def _asked_once(hf: Any, bare: sqlite3.Connection, query: str) -> list[float]:
    """Return the times of a new query, ours and bare."""
    match = query if query.startswith('"') else f'"{query}"'
    hits: list[Any] = []
    spent = alternated(1, lambda: hits.extend(hf.search(query)), *_bare_queries(bare, match))
    assert hits, query
    return spent


def _bare_queries(bare: sqlite3.Connection, match: str) -> tuple[Callable[[], Any], ...]:
    numbers = "SELECT rowid, rank FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT 20"
    snippets = (
        "SELECT rowid, rank, snippet(whole, 0, '[', ']', '…', 24) FROM whole WHERE whole MATCH ? ORDER BY rank LIMIT 20"
    )
    return (
        lambda: bare.execute(numbers, (match,)).fetchall(),
        lambda: bare.execute(snippets, (match,)).fetchall(),
        lambda: bare.execute(_SAME, (match,)).fetchall(),
    )


class Feeding:
    """Appends while the index is fed beside them against the same appends without an index."""

    MARK = 1.3
    _BURST = 50
    _PAUSE_S = 0.002

    def __init__(self, *, quick: bool) -> None:
        self._seconds = 0.6 if quick else 1.2
        self._found: dict[str, list[float]] = {"fed": [], "restless": [], "alone": [], "slow": []}
        self._slow_alone: list[float] = []

    def measure(self, folder: str) -> None:
        """Run one round: without indexing, with it, with indexing that never pauses, without."""
        before = self._append(os.path.join(folder, "before"), "alone")
        fed = self._append(os.path.join(folder, "fed"), "fed")
        restless = self._append(os.path.join(folder, "restless"), "restless")
        alone = sorted(before + self._append(os.path.join(folder, "after"), "alone"))
        self._found["alone"].append(median(alone))
        self._found["fed"].append(median(fed))
        self._found["restless"].append(median(restless))
        self._found["slow"].append(sorted(fed)[len(fed) * 99 // 100])
        self._slow_alone.append(alone[len(alone) * 99 // 100])

    def _append(self, store: str, how: str) -> list[int]:
        clock = time.perf_counter_ns
        spent: list[int] = []
        call: Any = None
        with holdfast.open(store) as hf:
            feeder = hf._core.feeder  # noqa: SLF001 - there is no switch: it is always on
            feeder._tick_s = 0.02  # noqa: SLF001 - at work as often as it ever is, from the start
            if how != "fed":
                feeder.watch = lambda _session: None
            with hf.session("fed") as session:
                session.user("the first event opens the file")
                stop = _restless(hf, session.id) if how == "restless" else None
                until = time.monotonic() + self._seconds
                index = 0
                while time.monotonic() < until:
                    for _ in range(self._BURST):
                        event = step(index)
                        index += 1
                        begin = clock()
                        call = record(session, event, call)
                        spent.append(clock() - begin)
                    time.sleep(self._PAUSE_S)
                if stop is not None:
                    stop()
        return spent

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        found, alone = self._found, self._found["alone"]
        slow = zip(found["slow"], self._slow_alone, strict=True)
        return (
            [
                self._line("append p50, background index at work", found["fed"], self.MARK),
                self._line("append p50, index fed without a rest", found["restless"], None),
                line_of(
                    "append p99, background index at work (without the index)",
                    [ours / floor for ours, floor in slow],
                    None,
                    ours=micros(median(found["slow"])),
                    floor=micros(median(self._slow_alone)),
                ),
            ]
            if alone
            else []
        )

    def _line(self, what: str, ours: list[float], mark: float | None) -> Line:
        alone = self._found["alone"]
        return line_of(
            f"{what} (without the index)",
            [one / floor for one, floor in zip(ours, alone, strict=True)],
            mark,
            ours=micros(median(ours)),
            floor=micros(median(alone)),
        )


def _restless(hf: Any, id: str) -> Callable[[], None]:
    """Feed the index in a loop, without a pause, until the returned function is called."""
    ended = threading.Event()

    def feed() -> None:
        while not ended.is_set():
            hf._core.catalog.feed([id])  # noqa: SLF001 - what the background thread calls

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()

    def stop() -> None:
        ended.set()
        thread.join()

    return stop
