"""Who lives in a simulated world: writers, readers, an indexer, an archiver, and retention."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import cache, partial
from unittest.mock import patch

from crash_campaign import copied_index
from simulated_ledger import Ledger, Violation, key_of
from simulated_world import DAY_NS, World

from holdfast import Holdfast
from holdfast._config import configuration
from holdfast.catalog import Policy
from holdfast.errors import HoldfastError
from holdfast.model import Limits
from holdfast.storage import FileStore

ROOT = "/home/store"
LIMITS = Limits(blob_bytes_min=200)
IDS = ("a", "b", "c")
STEPS = (3, 6, 9)
"""How many things each process does; small worlds come to their ends, and are checked, more often.
"""


class SimulatedStore(FileStore):
    """A store of one process; a process that is started again shares nothing with the first."""

    def __init__(self, process) -> None:
        super().__init__(ROOT, disk=process.disk)
        self._simulated = f"simulated-{process.pid}"

    @property
    def identity(self):
        return self._simulated


class Life:
    """What the processes do, and what they were promised."""

    expected_in_calm = frozenset(("Locked", "NotFound", "UsageError", "Conflict"))
    """What may be answered when nothing fails: somebody has it, or it was moved away meanwhile."""

    def __init__(self, seed) -> None:
        self.prepare(World(seed))
        self.ledger = Ledger(self.world)
        self.world.on_power_loss = self.ledger.after_power_loss
        home = self.world.disk.open_root()
        self.world.disk.make_directory("home", home)
        self.world.disk.sync_directory(home)
        self.world.disk.close(home)

    def prepare(self, world):
        self.world = world
        self.chance = world.chance
        self.steps = self.chance.choice(STEPS)
        self.keys = {}
        self.errors = []
        self.forks = 0

    def run(self):
        bodies = [(f"writer {n}", self.writer) for n in range(3)]
        bodies += [(f"reader {n}", self.reader) for n in range(2)]
        bodies += [("indexer", self.indexer), ("archiver", self.archiver)]
        bodies += [("retention", self.retention)]
        with Surroundings():
            self.world.run(bodies)
            self.world.calm = True
            self.ledger.check_end()
            self.world.run([("survivor", self.survivor)])
            self.ledger.check_end()
        return self

    @property
    def digest(self):
        return self.world.trace.hexdigest()

    # -- how a process lives --------------------------------------------------------------------

    def library(self, process):
        return Holdfast(SimulatedStore(process), timers=False, limits=LIMITS)

    def attempts(self, process, *choices):
        """Go on with one thing after the other, as a program would that tells its errors."""
        hf = None
        while process.begun < self.steps:  # by all its lives together, so that there is an end
            process.begun += 1
            try:
                hf = hf or self.library(process)
                self.chance.choice(choices)(process, hf)
            except HoldfastError as error:
                self.note(error)
        with suppress(HoldfastError):
            if hf is not None:
                hf.close()

    def note(self, error):
        name = type(error).__name__
        self.world.trace.update(name.encode())
        self.errors.append(name)
        if not self.world.faults and name not in self.expected_in_calm:
            raise Violation(f"{name} though nothing failed: {error}") from error

    # -- writers --------------------------------------------------------------------------------

    def writer(self, process):
        self.attempts(process, self.write)

    def write(self, process, hf):
        id = self.chance.choice(IDS)
        with ExitStack() as stack:
            session = self.open(hf, id)
            stack.push(partial(self.close, session))
            for _ in range(self.chance.randrange(1, 5)):
                self.chance.choice((self.say, self.say, self.say_more, self.use, self.flush))(session)
            if self.chance.random() < 0.2:
                session.snapshot()
            if self.chance.random() < 0.2:
                session.title = "another title"

    def open(self, hf, id):
        return hf.session(id)

    def close(self, session, kind, *_):
        """What is closed is flushed, unless an error said before that it cannot be."""
        key = self.keys.pop(id(session), None)
        try:
            session.close()
        except HoldfastError as error:
            self.note(error)
        else:
            if kind is None:
                self.ledger.promise_flush(key)

    def key(self, session):
        """Which log it has written to: before that another one may yet take its place."""
        known = self.keys.get(id(session))
        if known is None:
            known = self.keys[id(session)] = key_of(session.id, [next(session.events())])
        return known

    def record(self, session, count, append):
        tokens = [self.ledger.next_token() for _ in range(count)]
        try:
            append([f"<{token}>" for token in tokens])
        except HoldfastError:
            self.ledger.refused.update(tokens)
            raise
        self.ledger.returned(tokens)
        self.ledger.promise_append(self.key(session), tokens)

    def say(self, session):
        self.record(session, 1, lambda texts: session.user(texts[0]))

    def say_more(self, session):
        def append(texts):
            session.extend([("user", {"role": "user", "content": text}) for text in texts])

        self.record(session, 3, append)

    def use(self, session):
        def append(texts):
            result = {"toolCallId": texts[0], "result": "x" * 300}
            session.append("tool_result", result)

        self.record(session, 1, append)

    def flush(self, session):
        session.flush()
        self.ledger.promise_flush(self.keys.get(id(session)))

    # -- those who look -------------------------------------------------------------------------

    def reader(self, process):
        self.attempts(process, self.read, self.read, self.verify)

    def read(self, _, hf):
        id = self.chance.choice(IDS)
        before = self.ledger.before_read()
        losses = self.world.losses
        events = list(hf.events(id)) if hf.exists(id) else []
        if events and losses == self.world.losses:
            self.ledger.check_read(id, events, before)

    def verify(self, _, hf):
        id = self.chance.choice(IDS)
        if hf.exists(id):
            report = hf.verify(id)
            if report.gaps:
                raise Violation(f"verify finds damage in {id}: {report.gaps}")

    def indexer(self, process):
        self.attempts(process, self.index, self.index, self.search)

    def index(self, _, hf):
        for row in hf.list(limit=None):
            if row.session_id not in IDS and not row.session_id.startswith("fork-"):
                raise Violation(f"the catalogue has {row.session_id}")

    def search(self, _, hf):
        hf.search("title")

    # -- those who tidy up ----------------------------------------------------------------------

    def archiver(self, process):
        self.attempts(process, self.archive, self.archive, self.unarchive, self.fork)

    def archive(self, _, hf):
        hf.archive(self.chance.choice(IDS))

    def unarchive(self, _, hf):
        hf.unarchive(self.chance.choice(IDS))

    def fork(self, _, hf):
        id = self.chance.choice(IDS)
        self.forks += 1
        child = f"fork-{self.forks}"
        before = self.ledger.before_read()
        hf.fork(id, new_id=child)
        events = list(hf.events(child))
        inherited = {(child, key[1]): tokens for key, tokens in before.items() if key[0] == id}
        self.ledger.check_read(child, events, inherited)
        key = key_of(child, events)
        self.ledger.promise_append(key, sorted(inherited.get(key, ())))
        self.ledger.promise_flush(key)

    def retention(self, process):
        self.attempts(process, self.delete, self.undelete, self.prune)

    def delete(self, _, hf):
        hf.delete(self.chance.choice(IDS))

    def undelete(self, _, hf):
        hf.undelete(self.chance.choice(IDS))

    def prune(self, _, hf):
        """A policy lets go what is old; what was in the trash for a month goes for good."""
        if self.chance.random() < 0.3:
            self.world.clock.suspend(31 * DAY_NS)
        # Whatever is in the trash when it begins may be gone from now on.
        self.let_go_what_is_in_the_trash()
        hf.prune(policies=[Policy(older_than_ms=86_400_000, action="archive")])

    def let_go_what_is_in_the_trash(self):
        self.ledger.let_go.update(self.ledger.logs_in_trash())

    # -- afterwards -----------------------------------------------------------------------------

    def survivor(self, process):
        """After everything: each session is whole, goes on, and is the same when opened again."""
        hf = self.library(process)
        listed = {row.session_id for row in hf.list(limit=None)}
        ids = set(hf.session_ids())
        if listed != ids:
            raise Violation(f"the list has {sorted(listed)}, the store {sorted(ids)}")
        for id in sorted(ids):
            self.go_on(hf, id)
        hf.close()
        if self.world.disk.open_count:
            raise Violation("descriptors are left open")

    def go_on(self, hf, id):
        before = list(hf.events(id))
        with hf.session(id) as session:
            self.say(session)
        self.ledger.promise_flush(key_of(id, before))
        report = hf.verify(id)
        lost = report.missing_blobs and not self.world.losses
        if report.gaps or report.torn_bytes or lost:
            raise Violation(f"{id} is not whole at the end: {report}")
        after = list(hf.events(id))
        if [bytes(e.raw) for e in after[: len(before)]] != [bytes(e.raw) for e in before]:
            raise Violation(f"opening {id} changed it")
        self.ledger.check_read(id, after, self.ledger.before_read())


@cache
def found_configuration():
    return configuration()


class Surroundings(ExitStack):
    """The configuration is read once, and the tables of catalogues are made once."""

    def __enter__(self):
        super().__enter__()
        found = found_configuration()
        self.enter_context(patch("holdfast._config._settings.configuration", lambda given: found))
        self.enter_context(patch("holdfast.catalog._catalog.open_in_memory", copied_index))
        return self
