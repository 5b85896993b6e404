"""The promises about speed: each with its mark, in the order of the report."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CAUSES", "GOALS", "Goal"]


class Goal(NamedTuple):
    """One promise: a figure of the bench that is at most, or at least, its mark."""

    what: str
    mark: float
    hard: bool = False
    """Not negotiable: a figure that misses it stops a release."""
    at_least: bool = False
    unit: str = "x"


def _least(what: str, mark: float, *, hard: bool = False, unit: str = "x") -> Goal:
    return Goal(what, mark, hard, at_least=True, unit=unit)


GOALS: dict[str, Goal] = {
    "append": Goal("append p50 against encode + one write", 2.0, hard=True),
    "append-loop": Goal("append p50 in an event loop, against the same", 2.0, hard=True),
    "append-rival": _least("append p50, the fastest rival against ours", 30.0, hard=True),
    "flush": Goal("append and flush against write + fdatasync", 1.25, hard=True),
    "flush-syncs": Goal("syncs per flush, counted", 1.0, hard=True, unit=""),
    "flush-rival": _least("append and flush, the fastest rival that syncs against ours", 1.0, hard=True),
    "many-syncs": Goal("64 sessions on sqlite: syncs per append, counted", 0.05, unit=""),
    "many-rate": _least("64 sessions on sqlite: events per second against a sync each", 10.0),
    "many-rate-slow": _least("the same where a sync takes 5 ms more", 10.0),
    "stall": Goal("aflush: p99.9 stall of the event loop", 2.0, unit=" ms"),
    "stall-slow": Goal("the same on a slow disk (20 ms for a sync)", 2.0, unit=" ms"),
    "growth": Goal("exponent of one append, n = 100 to 100,000", 0.03, hard=True, unit=""),
    "disk": Goal("bytes on disk against plain lines", 1.05, hard=True),
    "archived": Goal("bytes archived against plain lines", 0.35, hard=True),
    "written": Goal("bytes written against plain lines", 1.1, hard=True),
    "save": Goal("one save at 10,000 events", 50.0, unit=" ms"),
    "load-ms": Goal("one load at 10,000 events", 100.0, hard=True, unit=" ms"),
    "load": Goal("verified typed load of 10,000 events against decode_lines", 1.2, hard=True),
    "load-data": Goal("the same with the data of each event looked at", 1.2, hard=True),
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
    "processes-slow": _least("the same where a sync takes 5 ms more", 0.9),
    "postgres-many": _least("PostgreSQL, 64 sessions: events against a commit each", 10.0),
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
    "append": "what is above the floor is Python: the check of the data, the checksum, the lock"
    " and the fold take a few calls each. A compiled encoder that checks while it encodes would"
    " take part of it; how much was not tried.",
    "append-loop": "the same as of an append; nothing is added by the loop.",
    "append-rival": "it follows the line of an append: at twice the floor it is more than 30.",
    "flush": "one sync and one append; what is above the floor is the append, so the share is the"
    " larger the quicker the disk is.",
    "flush-rival": "both wait for one sync of the same disk, which is nearly all of either.",
    "many-rate": "on a disk that syncs in 0.15 ms nearly all of either side is processor time, and"
    " one sync for 35 appends saves little of it: an append writes four pages of the database, and"
    " a flush goes to a thread and back, where the floor writes once. What the sharing of syncs"
    " gives is told by the next line.",
    "many-rate-slow": "what is left is processor time, which on a machine with other work is more"
    " than the syncs that are saved.",
    "stall": "met on a quiet machine (0.2 ms). What is more is other work on the same processors:"
    " the floor beside it is delayed as well, since a thread that syncs has to be let in first.",
    "stall-slow": "met on a quiet machine (0.5 ms); the same.",
    "load-ms": "milliseconds of a machine whose floor, bare decoding, takes as long: see the ratio.",
    "load-data": "two passes: the envelopes, each with the bytes of its data as recorded, then the"
    " data, of all events of a piece together once someone looks at it. One pass would be as quick"
    " as the floor, but could not keep those bytes, which every event has for moving it elsewhere.",
    "resume-tail": "opening takes the configuration, the lease, the snapshot and two threads,"
    " about as much as reading; and what is read is verified and decoded in two passes, the"
    " floor's in one.",
    "recover": "each event is routed to its run, read, put into its turn and checked against the"
    " provider's rules, in some ninety calls of Python.",
    "memory": "blocks and messages are maps of the interpreter, around texts that are there once.",
    "import": "not traced.",
    "command": "a plain list of an index that is of now loads neither msgspec nor click; an"
    " interpreter with SQLite is at 1.65, and 30 small modules of ours are most of the rest. A list"
    " that goes the long way, since the store has changed or something else is asked for, takes ten"
    " bare starts.",
    "search": "each hit is read from its log and verified, ten files for ten hits, where the floor"
    " keeps the text in its own table.",
    "save": "not traced; it has a handful of syncs in it, so it follows the disk.",
    "resume": "not traced.",
    "lag": "met on a quiet machine (13 ms). The index is fed by a thread of its own, which other"
    " work on the same processors keeps from running; appends are not delayed for it.",
    "processes": "processor time, with four writers to a processor: a flush is one write and one"
    " sync as the floor has them, counted, but an append is Python. Where a sync takes longer"
    " that is the smaller part, as the next line tells.",
    "processes-slow": "processor time, and how soon a process that was woken is let in: each waits"
    " for its own sync, as the floor does.",
    "step-files": "one sync as the floor has it, counted; what is above it is the second event and some thirty calls of"
    " Python, 0.03 ms in a loop and four times that after each wait for a disk. Met where a sync takes more than half a"
    " millisecond.",
    "step-sqlite": "the same.",
    "step-always": "two syncs against one, counted, and the same processor time as of a step on files.",
    "step-known-sqlite": "half of it is opening the store and the session; 10,000 steps take 0.1 s of processor time.",
    "step-known-postgres": "the same.",
    "postgres-many": "processor time of both sides on one machine, where the server has as much to do as we have.",
}
"""Why a promise is missed and by what it could be met; told only where it is missed."""
