"""The targets for speed, each with its mark, in the order of the report."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CAUSES", "GOALS", "Goal"]


class Goal(NamedTuple):
    """One target: a figure of the bench that must be at most, or at least, its mark."""

    what: str
    mark: float
    hard: bool = False
    """True if it is not negotiable: a missed one blocks a release."""
    at_least: bool = False
    unit: str = "x"


def _least(what: str, mark: float, *, hard: bool = False, unit: str = "x") -> Goal:
    return Goal(what, mark, hard, at_least=True, unit=unit)


GOALS: dict[str, Goal] = {
    "append": Goal("append p50 against encode + one write", 2.0, hard=True),
    "append-loop": Goal("append p50 in an event loop, against the same", 2.0, hard=True),
    "append-rival": _least("append p50 of the fastest rival against ours", 30.0, hard=True),
    "flush": Goal("append and flush against write + fdatasync", 1.25, hard=True),
    "flush-syncs": Goal("syncs per flush, counted", 1.0, hard=True, unit=""),
    "flush-rival": _least("append and flush of the fastest syncing rival against ours", 1.0, hard=True),
    "many-syncs": Goal("64 sessions on sqlite: syncs per append, counted", 0.05, unit=""),
    "many-rate": _least("64 sessions on sqlite: events/s against a sync for each", 10.0),
    "many-rate-slow": _least("the same if a sync takes 5 ms longer", 10.0),
    "stall": Goal("aflush: p99.9 stall of the event loop", 2.0, unit=" ms"),
    "stall-slow": Goal("the same on a slow disk (20 ms for a sync)", 2.0, unit=" ms"),
    "growth": Goal("exponent of one append, n = 100 to 100,000", 0.03, hard=True, unit=""),
    "disk": Goal("bytes on disk against plain lines", 1.05, hard=True),
    "archived": Goal("bytes archived against plain lines", 0.35, hard=True),
    "written": Goal("bytes written against plain lines", 1.1, hard=True),
    "save": Goal("one save at 10,000 events, with a snapshot", 50.0, unit=" ms"),
    "load-ms": Goal("one load at 10,000 events", 100.0, hard=True, unit=" ms"),
    "load": Goal("verified typed load of 10,000 events against decode_lines", 1.2, hard=True),
    "load-data": Goal("the same with the data of each event accessed", 1.2, hard=True),
    "load-snapshot": Goal("a session opened through a snapshot, against the same", 0.8, hard=True),
    "resume": Goal("resume to the last 50 turns, 100,000 events against 10,000", 1.2),
    "resume-tail": Goal("the same against reading and decoding the bare tail", 4.0),
    "messages": Goal("exponent of messages() after one append, n = 100 to 100,000", 0.03, unit=""),
    "recover": Goal("recover to a provider dialect against the typed load", 2.0),
    "memory": Goal("memory of a loaded session against its payload", 1.3),
    "import": Goal("import holdfast against msgspec and orjson", 1.2),
    "command": Goal("`holdfast list` against a bare start of Python", 3.0),
    "chat-line": Goal("`holdfast chat` to its first line", 200.0, unit=" ms"),
    "chat-prompt": Goal("`holdfast chat` to the prompt", 400.0, unit=" ms"),
    "list": Goal("list newest 50 of 10,000 against a bare indexed SELECT", 2.0, hard=True),
    "search": Goal("search, tool results included, against bare FTS5", 2.0),
    "lag": Goal("index lag in a burst", 200.0, unit=" ms"),
    "processes": _least("8 processes against bare separate files", 0.9),
    "processes-slow": _least("the same if a sync takes 5 ms longer", 0.9),
    "postgres-many": _least("PostgreSQL, 64 sessions: events/s against a commit for each", 10.0),
    "step-files": Goal("a durable step against append and flush, files", 1.3),
    "step-sqlite": Goal("the same, SQLite", 1.3),
    "step-postgres": Goal("the same, PostgreSQL, its result synced too", 2.5),
    "step-always": Goal('the same, files with durability="always", its result synced too', 2.5),
    "step-known-files": Goal("10,000 known steps in a new process against one second, files", 1.0),
    "step-known-sqlite": Goal("the same, SQLite", 1.0),
    "step-known-postgres": Goal("the same, PostgreSQL", 1.0),
    "postgres-langgraph": _least("the same against LangGraph's PostgresSaver at n = 1,000", 50.0),
}

CAUSES: dict[str, str] = {
    "append": "the part above the floor is Python: checking the data, the checksum, the lock and the fold take a few"
    " calls each.",
    "append-loop": "the same as for an append; the event loop adds nothing.",
    "append-rival": "it depends on the figure of an append: at twice the floor it is more than 30.",
    "flush": "one sync and one append. The part above the floor is the append, so its share grows with the speed of"
    " the disk.",
    "flush-rival": "both wait for one sync of the same disk, which is nearly all of their time.",
    "many-rate": "on a disk that syncs in 0.15 ms nearly all of the time of both is processor time, and one sync for"
    " 35 appends saves little of it: an append writes four pages of the database, and a flush goes to a thread and"
    " back, where the floor writes once. The next line shows the benefit of shared syncs.",
    "many-rate-slow": "the rest is processor time, which on a busy machine is more than the saved syncs.",
    "stall": "met on a quiet machine (0.2 ms). The rest is other work on the same processors, which also delays the"
    " floor, since a thread that syncs has to be scheduled first.",
    "stall-slow": "met on a quiet machine (0.5 ms); the same.",
    "load-ms": "the figure is in milliseconds, and bare decoding takes as long on this machine: see the ratio.",
    "load-data": "two passes: first the envelopes, each with the recorded bytes of its data, then the data, in bulk"
    " when it is accessed. One pass would be as fast as the floor, but could not keep those bytes, which every event"
    " has so that it can be copied unchanged.",
    "resume-tail": "opening takes the configuration, the lease, the snapshot and two threads, about as much as"
    " reading; and the tail is verified and decoded in two passes, that of the floor in one.",
    "recover": "each event is assigned to its run, read, added to its turn and checked against the provider's rules,"
    " in some ninety calls of Python.",
    "memory": "blocks and messages are Python dicts around texts that are stored once.",
    "import": "not investigated.",
    "command": "a plain list of an up-to-date index loads neither msgspec nor click. An interpreter with SQLite is at"
    " 1.65, and 30 small modules of ours are most of the rest. A list that takes the general path, because the store"
    " has changed or other options are given, takes ten bare starts.",
    "search": "each hit is read from its log and verified, ten files for ten hits; the floor has the text in its own"
    " table.",
    "save": "not investigated; it includes a handful of syncs, so it depends on the disk.",
    "resume": "not investigated.",
    "lag": "met on a quiet machine (13 ms). The index is fed by a separate thread, which other work on the same"
    " processors delays; appends are not delayed by it.",
    "processes": "processor time, with four writers for each processor: a flush is one write and one sync like that"
    " of the floor, counted, but an append is Python. With longer syncs this is the smaller part, as the next line"
    " shows.",
    "processes-slow": "processor time, and the delay until a woken process is scheduled: each waits for its own sync,"
    " as does the floor.",
    "step-files": "one sync, like the floor, counted. The rest is the second event and some thirty calls of Python,"
    " 0.03 ms in a loop and four times that after each wait for a disk. Met if a sync takes more than half a"
    " millisecond.",
    "step-sqlite": "the same.",
    "step-always": "two syncs against one, counted, and the same processor time as for a step on files.",
    "step-known-sqlite": "half of it is opening the store and the session; 10,000 steps take 0.1 s of processor time.",
    "step-known-postgres": "the same.",
    "postgres-many": "processor time of both sides on one machine, where the server has as much work as the client.",
}
"""The cause of each missed target; shown only where the target is missed."""
