"""Workloads, what they were promised, and what must be true after a crash in the middle of them.

A workload is a sequence of operations on a disk that records. Whenever the library returns from a
call that promises something, the run notes the promise. Every state that a crash can leave is then
opened like any other store, and must keep what had been promised by that moment.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

from kept_logs import is_of_a_log, log_content, read_log

from holdfast import Holdfast, library
from holdfast._config import configuration
from holdfast.errors import HoldfastError, Locked
from holdfast.model import Event, Limits, read_events
from holdfast.replay import Fold
from holdfast.storage import FileStore
from holdfast.testing import FaultyDisk, SimDisk
from holdfast.testing._effects import Acknowledged, Image

LIMITS = Limits(blob_bytes_min=200)
ROOT = "/home/store"
PAYLOAD = "a picture " * 30
SETTLED = ("lock", ".documents-lock", ".unsynced")


def identity(event):
    """What makes two events the same."""
    return event.seq, event.type, bytes(event.raw)


@contextmanager
def repeatable():
    """No chance in what is recorded, so that equal workloads leave equal bytes.

    And the configuration is read once, not for each of many thousand openings.
    """
    found = configuration()
    with (
        patch("holdfast.session._opening.random_hex", lambda size: f"{next(_salts):0{size}x}"),
        patch("holdfast._config._settling.configuration", lambda given: found),
    ):
        yield


_salts = itertools.count()


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
        library._holdfast._live.clear()
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
    run.session().extend(
        [("user", {"role": "user", "content": str(n)}) for n in range(3)],
    )
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
    """A branch, which then goes its own way; the second one is a branch of the first."""
    store = run.world.hf.store
    parent, child = ("c", "d") if store.exists("sessions/c") else ("a", "c")
    run.session(parent).user("before they part")
    run.appended(parent)
    run.begin(child, run.lives[parent])  # a crash may leave it before anyone was told
    size = store.log(f"sessions/{parent}").size()
    store.branch(f"sessions/{parent}", f"sessions/{child}", size)
    run.flushed(child)
    for id in (parent, child):
        run.session(id).user("on its own")
        run.appended(id)


def change_form(run, id, change):
    run.world.close_session(id)
    if run.world.hf.store.exists(f"sessions/{id}"):
        getattr(run.world.hf.store, change)(f"sessions/{id}")
        run.flushed(id)


def archive(run):
    """The newest branch, or the session itself, is archived."""
    found = [id for id in ("d", "c", "a") if run.world.hf.exists(id)]
    change_form(run, (found or ["a"])[0], "archive")


def unarchive(run):
    for id in ("a", "c", "d"):
        change_form(run, id, "unarchive")


def detach(run):
    for id in ("c", "d"):
        change_form(run, id, "detach")


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


FORMS = {operation.__name__: operation for operation in (fork, archive, unarchive, detach, go_on)}


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
    turned = {
        inode: content.replace(b"the first words", b"the fIrst words")
        for inode, content in contents.items()
    }
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


class Findings:
    """What opening one state of the disk showed, whatever had been promised."""

    def __init__(self):
        self.problems = []
        self.missing_blobs = {}
        """By id and first event of a log."""


class Checker:
    """Opens crash states and says what is wrong with them.

    Every state is read, at every byte. A state is opened, appended to and opened again unless its
    last write is cut at one of the many bytes in the middle of a line; every ``stride``-th is.
    """

    def __init__(self, *, stride=16):
        self.stride = stride
        self.states = 0
        self.opened = 0
        self._findings = {}
        self._parsed = {}

    def check(self, run, mode="power", *, skip=0, **options):
        """The violations of all states of a run, each with the state that shows it."""
        for state in run.disk.crash_states(mode, settled=SETTLED, **options):
            if skip and state.after <= skip:
                continue
            self.states += 1
            for text in self.violations(run, state, all_blobs=mode == "kill"):
                yield text, state

    def violations(self, run, state, *, all_blobs=False):
        """What one state breaks of what was promised; an empty list is what we want."""
        logs = dict(self._logs(state))
        texts = list(self._broken_promises(run, state, logs))
        if self._is_telling(state):
            found = self._findings_of(run, state)
            texts += found.problems
            texts += self._lost_payloads(run, state, logs, all_blobs=all_blobs)
        return texts

    def _logs(self, state):
        """Every log of the state, read: by id and first event, where it is and what it has."""
        folders = {path.rpartition("/")[0] for path in state.paths if is_of_a_log(path)}
        for folder in folders:
            events = self._parse(log_content(state.content, folder))
            if events:
                id = folder.rpartition("/")[2].rpartition(".")[2]
                yield (id, events[0]), (folder, events)

    def _broken_promises(self, run, state, logs):
        kept = {}
        for promise in state.acknowledged:
            kept.setdefault(promise.first, []).append(promise)
        for first, promises in kept.items():
            if promises[-1].dropped:
                continue
            path, events = logs.get(first, (None, []))
            promised = frozenset().union(*(promise.events for promise in promises))
            if path is None:
                yield "a session is lost"
            elif not promised.issubset(events):
                yield f"{len(promised.difference(events))} promised events are lost"
            elif promises[-1].deleted and "/trash/" not in path:
                yield "a deleted session is back"
        for first, (_, events) in logs.items():
            histories = run.histories.get(first, ())
            if run.repair == "auto":
                written = {event for history in histories for event in history}
                written.update(event for event in events if event[1] == "repaired")
                if not written.issuperset(events):
                    yield "what is read was never written"
            elif not any(events == history[: len(events)] for history in histories):
                yield "what is read is not a prefix of what was written"

    def _lost_payloads(self, run, state, logs, *, all_blobs):
        for first, names in self._findings_of(run, state).missing_blobs.items():
            promised = {
                event
                for promise in state.acknowledged
                if promise.first == first
                for event in promise.events
            }
            if all_blobs:
                promised.update(logs[first][1])
            lost = [name.encode() for name in names if name not in run.lost]
            if any(name in raw for name in lost for _, _, raw in promised):
                yield "a promised payload is lost"

    def _is_telling(self, state):
        if state.cut is None:
            return True
        at, size = state.cut
        return at in (1, size - 1) or at % self.stride == 0

    def _parse(self, content):
        found = self._parsed.get(content)
        if found is None:
            found = self._parsed[content] = [identity(event) for event in read_events([content])]
        return found

    def _findings_of(self, run, state):
        key = hash((run.repair, state.key))
        found = self._findings.get(key)
        if found is None:
            self.opened += 1
            found = self._findings[key] = Findings()
            disk = state.disk()
            try:
                self._open(World(disk), run, found)
            except HoldfastError as error:
                found.problems.append(f"{type(error).__name__}: {error}")
            else:
                if disk.open_count:
                    found.problems.append("descriptors are left open")
        return found

    def _open(self, world, run, found):
        for entry in world.hf.store.entries("trash/"):
            id = entry.key.rpartition(".")[2]
            if not world.hf.exists(id):
                world.hf.undelete(id)
        for entry in world.hf.store.entries():
            id = entry.key.rpartition("/")[2]
            events = world.events(id)
            found.problems += self._report_problems(world, run, id, events, found)
            found.problems += self._state_problems(world, run, id)
            found.problems += self._going_on_problems(world, run, id, events)
        world.close()

    def _report_problems(self, world, run, id, events, found):
        report = world.hf.verify(id)
        if report.missing_blobs:
            found.missing_blobs[id, events[0]] = report.missing_blobs
        if report.events != len(events):
            yield f"verify counts {report.events} events of {len(events)}"
        if events != self._parse(read_log(world.disk, f"{ROOT}/sessions/{id}")):
            yield "the library reads other events than the log holds"
        if report.gaps and run.repair == "raise":
            yield f"verify finds damage: {report.gaps}"
        if not all(report.snapshots.values()) and run.repair == "raise":
            yield "a snapshot that is not whole can be seen"

    def _state_problems(self, world, run, id):
        """The state from a snapshot and the events after it is that of all events."""
        if run.repair == "raise" and world.hf.snapshots(id):
            fold = Fold()
            fold.fold(list(world.hf.events(id)))
            if world.hf.state(id) != fold.state:
                yield "a snapshot changes the state"

    def _going_on_problems(self, world, run, id, events):
        session = world.session(id, repair=run.repair)
        before = world.events(id)
        if run.repair == "raise" and before != events:
            yield "opening a session changes its events"
        last = identity(session.user("after the crash"))
        session.flush()
        world.close_session(id)
        after = world.events(id)
        if after[: len(before)] != before or last not in after:
            yield "an append after the crash is not readable"
        report = world.hf.verify(id)
        if report.gaps or report.torn_bytes:
            yield "the log is not whole after an append"
        content = read_log(world.disk, f"{ROOT}/sessions/{id}")
        world.session(id)
        world.close_session(id)
        if read_log(world.disk, f"{ROOT}/sessions/{id}") != content:
            yield "opening a session again changes its log"


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
