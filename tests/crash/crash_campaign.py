"""Workloads, what they were promised, and what must be true after a crash in the middle of them.

A workload is a sequence of operations on a disk that records. Whenever the library returns from a
call that promises something, the run notes the promise. Every state that a crash can leave is then
opened like any other store, and must keep what had been promised by that moment.
"""

from __future__ import annotations

import itertools
from contextlib import closing, contextmanager
from functools import cache
from itertools import pairwise
from unittest.mock import patch

from holdfast import Holdfast, library
from holdfast._config import configuration
from holdfast.catalog.sqlite.index import SqliteIndex
from holdfast.errors import Locked
from holdfast.model import Event, Limits
from holdfast.storage import FileStore
from holdfast.storage.sqlite.connection import connect
from holdfast.testing import FaultyDisk, SimDisk
from holdfast.testing._crash_states import Acknowledged, Image

LIMITS = Limits(blob_bytes_min=200)
ROOT = "/home/store"
PAYLOAD = "a picture " * 30
LINE = ("a", "c", "d", "e")
"""The session that workloads are about, its branch, the branch of that, and so on."""
MERGED = ("m", "n", "o")


def identity(event):
    """What makes two events the same."""
    return event.seq, event.type, bytes(event.raw)


@contextmanager
def repeatable():
    """No chance in what is recorded, so that equal workloads leave equal bytes.

    And the configuration is read once, not for each of many thousand openings, and the tables of
    the catalogue in memory are made once.
    """
    found = configuration()
    with (
        patch("holdfast.session._opening.random_hex", lambda size: f"{next(_salts):0{size}x}"),
        patch("holdfast._config._settings.configuration", lambda given: found),
        patch("holdfast.catalog._catalog.open_in_memory", copied_index),
    ):
        yield


_salts = itertools.count()


def copied_index(_store):
    """An empty catalogue in memory, as the library makes it; nobody else sees whose it is."""
    connection = connect(None)
    connection.deserialize(_empty_index())
    return SqliteIndex(connection, "simulated")


@cache
def _empty_index():
    with closing(connect(None)) as connection:
        SqliteIndex(connection, "simulated")
        return connection.serialize()


class Promise:
    """The events of one log that were promised to survive, and whether it is to be in the trash."""

    def __init__(self, id, events, *, deleted=False, dropped=False):
        self.first = (id, events[0])
        self.events = frozenset(() if dropped else events)
        self.deleted = deleted
        self.dropped = dropped


class World:
    """A process that uses a store on a disk."""

    def __init__(self, disk, listener=None):
        self.disk = disk
        self.hf = Holdfast(FileStore(ROOT, disk=disk), timers=False, limits=LIMITS)
        self.sessions = {}
        self.ticks = itertools.count(1_700_000_000_000)
        if listener is not None:
            self.hf.subscribe(listener)

    def session(self, id="a", **options):
        if id not in self.sessions:
            options.setdefault("clock", lambda: next(self.ticks))
            self.sessions[id] = self.hf.session(id, **options)
        return self.sessions[id]

    def ids(self):
        return [entry.key.rpartition("/")[2] for entry in self.hf.store.entries()]

    def events(self, id="a"):
        return [identity(event) for event in self.hf.events(id)] if self.hf.exists(id) else []

    def close_session(self, id="a"):
        if id in self.sessions:
            self.sessions.pop(id).close()

    def close(self):
        for id in list(self.sessions):
            self.close_session(id)
        self.hf.close()


class Run:
    """One workload on one disk: what was done, and what was promised when.

    What was written is what the library said it recorded, never what is read back.
    """

    def __init__(self, disk, told=(), *, known=None, repair="raise"):
        global _salts  # noqa: PLW0603 - the same workload gets the same salts each time
        _salts = itertools.count(len(told) * 1000)
        self.disk = disk
        self.repair = repair
        self.world = World(disk, self.heard)
        self.lives = {}
        """By id: the events of the session that has it now."""
        self.histories = {}
        """By id and first event: what a log's events are, and what they were before a repair."""
        self.lost = set()
        """Payloads that were not there at the start: no flush can promise them."""
        dropped = {promise.first for promise in told if promise.dropped}
        for promise in told:
            if promise.dropped or promise.first not in dropped:
                disk.acknowledge(promise, survives_power_loss=True)
        for id in self.world.ids():
            events = self.world.events(id)
            # Of a damaged log only what was there before the damage, and is still read, counts.
            self.begin(id, [event for event in events if known is None or event in known])
            self.lost.update(self.world.hf.verify(id).missing_blobs)
            self.flushed(id)

    def begin(self, id, events):
        self.lives[id] = list(events)
        if events:
            self.histories.setdefault((id, events[0]), []).append(self.lives[id])

    def heard(self, id, item):
        """The library records an event."""
        if isinstance(item, Event):
            if item.seq == 0:
                self.begin(id, [identity(item)])
            else:
                self.lives[id].append(identity(item))

    def session(self, id="a"):
        return self.world.session(id, repair=self.repair)

    def appended(self, id="a"):
        """The library returned from an append: a kill must not undo it."""
        self.disk.acknowledge(Promise(id, self.lives[id]))

    def flushed(self, id="a", *, deleted=False):
        """The library returned from a flush or more: power loss must not undo it."""
        if self.lives.get(id):
            promise = Promise(id, self.lives[id], deleted=deleted)
            self.disk.acknowledge(promise, survives_power_loss=True)

    def kill(self):
        """End the process; another one begins."""
        self.disk.kill()
        library._core.live.sessions.clear()
        self.world = World(self.disk, self.heard)

    def do(self, name):
        (OPERATIONS | FORMS)[name](self)
        return self

    def end(self):
        self.world.close()
        assert self.disk.open_count == 0, "descriptors are left open"


def create(run):
    run.session("b").user("a new session")
    run.appended("b")


def append(run):
    run.session().user("one more")
    run.appended()


def batch(run):
    run.session().extend([("user", {"role": "user", "content": str(n)}) for n in range(3)])
    run.appended()


def blob(run):
    run.session().append("tool_result", {"toolCallId": "c1", "result": PAYLOAD})
    run.appended()


def snapshot(run):
    run.session().snapshot()
    run.flushed()


def title(run):
    run.session().title = "another title"
    run.appended()


def tool(run):
    with run.session().tool("Read", {"path": "a.txt"}) as call:
        run.flushed()
        call.result = {"content": "text"}
    run.appended()


def delete(run):
    run.world.close_session()
    if run.world.hf.exists("a"):
        run.flushed()
        run.world.hf.delete("a")
        run.flushed(deleted=True)


def undelete(run):
    if any(run.world.hf.store.entries("trash/")) and not run.world.hf.exists("a"):
        run.flushed()  # from now on it may be in either place
        run.world.hf.undelete("a")
        run.flushed()


def repair(run):
    run.world.close_session()
    if run.world.hf.exists("a") and run.world.hf.repair("a"):
        run.begin("a", run.world.events("a"))
    run.flushed()


def reopen(run):
    run.session().append("metadata", {"step": "before closing"})
    run.world.close_session()
    run.flushed()
    run.session()


def flush(run):
    run.session().flush()
    run.flushed()


def killed(run):
    """The process is killed, another one goes on: its flush covers what the first one left."""
    run.kill()
    run.session().flush()
    run.flushed()
    run.session().user("after the kill")
    run.session().flush()
    run.flushed()


def rival(run):
    """Another process tries to write the same session while this one has it."""
    run.session().user("mine")
    run.appended()
    other = World(FaultyDisk(run.disk))
    try:
        other.session("a", repair=run.repair).user("theirs")
        other.close()
    except Locked:
        other.hf.close()
    run.session().user("mine again")
    run.session().flush()
    run.flushed()


def drop(run):
    """A session goes for good: from the moment it is asked for, nothing is promised of it."""
    run.session("b").user("not for long")
    run.world.close_session("b")
    run.flushed("b")
    run.disk.acknowledge(Promise("b", run.lives["b"], dropped=True), survives_power_loss=True)
    run.world.hf.store.drop("sessions/b")


def fork(run):
    """A branch, which then goes its own way; the next one is a branch of that."""
    store = run.world.hf.store
    parent, child = next(pair for pair in pairwise(LINE) if not store.exists(f"sessions/{pair[1]}"))
    run.session(parent).user("before they part")
    run.appended(parent)
    run.begin(child, run.lives[parent])  # a crash may leave it before anyone was told
    size = store.log(f"sessions/{parent}").size()
    store.branch(f"sessions/{parent}", f"sessions/{child}", size)
    run.flushed(child)
    for id in (parent, child):
        run.session(id).user("on its own")
        run.appended(id)


def merge(run):
    """The session and a branch of it become a third one."""
    hf = run.world.hf
    if not hf.exists("c"):
        fork(run)
    made = next(id for id in MERGED if not hf.exists(id))
    hf.merge("a" if hf.exists("a") else "c", "c", new_id=made)
    run.begin(made, run.world.events(made))
    run.flushed(made)


def change_form(run, id, change):
    run.world.close_session(id)
    if run.world.hf.store.exists(f"sessions/{id}"):
        getattr(run.world.hf.store, change)(f"sessions/{id}")
        run.flushed(id)


def archive(run):
    """The newest branch, or the session itself, is archived."""
    found = [id for id in reversed(LINE) if run.world.hf.exists(id)]
    change_form(run, (found or ["a"])[0], "archive")


def unarchive(run):
    for id in LINE:
        change_form(run, id, "unarchive")


def detach(run):
    for id in LINE[1:]:
        change_form(run, id, "detach")


def overwrite(run):
    """Every log is written anew, and nothing of its old files is to stay: the same lines, for the checker's sake."""
    store = run.world.hf.store
    for id in LINE:
        run.world.close_session(id)
        if store.exists(f"sessions/{id}"):
            log = store.log(f"sessions/{id}")
            with store.lease(f"sessions/{id}").held("redact", 1000) as epoch:
                log.overwrite(log.read(), epoch)
            run.flushed(id)


def go_on(run):
    """Every session there is gets another line."""
    for id in run.world.ids():
        run.session(id).user("it goes on")
        run.session(id).flush()
        run.flushed(id)


def tear(run):
    """A crash left half a line at the end of the log."""
    run.world.close_session()
    if run.world.hf.exists("a"):
        disk = run.disk
        descriptor = disk.open_root()
        for name in (*ROOT.strip("/").split("/"), "sessions", "a"):
            descriptor = disk.open_directory(name, descriptor)
        disk.write(disk.open_log("events.jsonl", descriptor, create=False), b'{"seq":99,"type":"us')


OPERATIONS = {
    operation.__name__: operation
    for operation in (
        *(create, append, batch, blob, snapshot, title, tool),
        *(delete, undelete, repair, reopen, flush, killed, rival, drop),
    )
}


FORMS = {operation.__name__: operation for operation in (fork, archive, merge, unarchive, detach, overwrite, go_on)}


TWELVE = (
    *("create", "append", "batch", "blob", "snapshot", "archive"),
    *("fork", "merge", "title", "delete", "repair", "reopen"),
)
"""The operations of the campaign, of which every workload of one, two and (in full) three is run;
the others above are shown with each of them in pairs."""


@cache
def empty_image():
    """A disk with a home directory that was there before."""
    disk = SimDisk()
    root = disk.open_root()
    disk.make_directory("home", root)
    return disk.image()


@cache
def existing_image():
    """A disk with one session that was flushed and closed."""
    global _salts  # noqa: PLW0603 - other salts than those of the workload
    _salts = itertools.count(1_000_000)
    disk = SimDisk(empty_image())
    world = World(disk)
    session = world.session()
    session.user("the first words")
    session.append("tool_result", {"toolCallId": "c0", "result": PAYLOAD})
    session.snapshot()
    session.assistant("the second")
    world.close()
    return disk.image()


@cache
def damaged_image():
    """The same with a byte of the first words turned."""
    entries, contents = existing_image()
    turned = {inode: content.replace(b"the first words", b"the fIrst words") for inode, content in contents.items()}
    return Image(entries, turned)


@cache
def events_before_damage():
    """What the damaged session had."""
    return World(SimDisk(existing_image())).events()


BASES = {"empty": empty_image, "existing": existing_image}


def run_workload(base, operations, disk_type=SimDisk):
    """A run of the operations on a copy of a base, and how many effects all but the last had."""
    with repeatable():
        if base == "damaged":
            known = events_before_damage()
            run = Run(disk_type(damaged_image()), known=known, repair="auto")
        else:
            run = Run(disk_type(BASES[base]()))
        for name in operations[:-1]:
            run.do(name)
        skip = run.disk.effects_count()
        run.do(operations[-1])
    return run, skip if len(operations) > 1 else 0


def changes_count(disk):
    """How many effects are changes of the disk, and not what was said about it."""
    return sum(not isinstance(effect, Acknowledged) for effect in disk.effects())


def recovery(run, state):
    """Recovery of a crash state, recorded like any workload, to be crashed in its turn."""
    again = Run(state.disk(), state.acknowledged, repair=run.repair)
    for first, seen in run.histories.items():
        again.histories.setdefault(first, []).extend(seen)
    for id in again.world.ids():
        again.session(id).user("recovered")
        again.appended(id)
        again.session(id).flush()
        again.flushed(id)
    return again
