"""Who lives around a simulated bucket: writers whose leases run out, and those who tidy up."""

from __future__ import annotations

from simulated_bucket import Buckets, BucketWorld, Link
from simulated_ledger import Ledger, Violation, key_of, tokens_of
from simulated_life import IDS, LIMITS, Life, Surroundings

from holdfast import Holdfast
from holdfast.errors import Fenced, HoldfastError
from holdfast.storage.s3.store import ObjectStore

LEASE_MS = 5_000
HOUR_NS = 3_600_000_000_000


class BucketLedger(Ledger):
    """What was promised of logs in a bucket, to which several write whose times overlap."""

    def __init__(self, world) -> None:
        super().__init__(world)
        self.begun = {}
        """By token: how many appends had returned when its own began."""

    def next_token(self):
        token = super().next_token()
        self.begun[token] = len(self.order)
        return token

    def is_in_order(self, tokens):
        """Whether none is before one that had returned already when it began.

        Who is overtaken while it sends may hear of it after the other one.
        """
        latest = 0
        for token in tokens:
            if self.order.get(token, latest) < latest:
                return False
            latest = max(latest, self.begun[token])
        return True


class SimulatedBucket(ObjectStore):
    """The store of one process."""

    def __init__(self, world, process) -> None:
        super().__init__("s3://simulated")
        self._simulated = f"simulated-{process.pid}"
        link = Link(world, process)
        self.objects._bucket = link
        link.renewer = self.renewer

    @property
    def identity(self):
        return self._simulated

    def catalog_place(self):
        return None

    def space_catalog_place(self, space):
        return None


class LeaseLife(Life):
    """The same processes, each on a machine of its own, around one bucket.

    What an append returned for may wait in the process: only a flush promises anything.
    """

    expected_in_calm = Life.expected_in_calm | {"Fenced"}

    def __init__(self, seed) -> None:
        self.prepare(BucketWorld(seed))
        self.ledger = BucketLedger(self.world)
        self.accepted = {}
        self.fenced = 0

    def run(self):
        bodies = [(f"writer {n}", self.writer) for n in range(3)]
        bodies += [("reader", self.reader), ("archiver", self.archiver), ("mover", self.mover)]
        with Surroundings(), Buckets(self.world):
            self.world.run(bodies)
            self.world.calm = True
            self.world.server.deliver(all_of_them=True)
            self.world.clock.pass_by(HOUR_NS)  # whoever had a lease has it no more
            self.world.run([("survivor", self.survivor)])
        return self

    def library(self, process):
        return Holdfast(SimulatedBucket(self.world, process), timers=False, limits=LIMITS)

    def note(self, error):
        self.fenced += isinstance(error, Fenced)
        super().note(error)

    # -- writers --------------------------------------------------------------------------------

    def open(self, hf, id):
        return hf.session(id, lease_ms=LEASE_MS)

    def key(self, session):
        """Which log it writes: by what it has folded, not by what is in its place by now."""
        is_known = session.seq >= 0 and session.id in IDS
        return (session.id, session._journal.fold.state.log) if is_known else None

    def close(self, session, kind, *_):
        tokens = self.accepted.pop(id(session), [])
        key = self.key(session)
        try:
            session.close()
        except HoldfastError as error:
            self.note(error)
        else:
            if kind is None:
                self.promise(key, tokens)

    def record(self, session, count, append):
        tokens = [self.ledger.next_token() for _ in range(count)]
        try:
            append([f"<{token}>" for token in tokens])
        except HoldfastError as error:
            if getattr(error, "outcome", None) != "unknown":
                self.ledger.refused.update(tokens)
            raise
        self.ledger.returned(tokens)
        self.accepted.setdefault(id(session), []).extend(tokens)

    def flush(self, session):
        session.flush()
        self.promise(self.key(session), self.accepted.get(id(session), ()))

    def promise(self, key, tokens):
        if key is not None:
            self.ledger.flushed.setdefault(key, set()).update(tokens)

    # -- those who move things about ------------------------------------------------------------

    def mover(self, process):
        self.attempts(process, self.delete, self.undelete, self.index, self.fork)

    # -- afterwards -----------------------------------------------------------------------------

    def survivor(self, process):
        self.check_promises(process)
        super().survivor(process)
        self.check_promises(process)

    def check_promises(self, process):
        """Every flushed token is in its log, in place or in the trash."""
        with self.library(process) as hf:
            found = {}
            for prefix in ("sessions/", "trash/"):
                for entry in hf.store.entries(prefix):
                    id = entry.key.rpartition("/")[2].rpartition(".")[2]
                    events = list(hf.events(id)) if prefix == "sessions/" else trashed(hf, entry)
                    found[key_of(id, events)] = tokens_of(events)
        for key, tokens in self.ledger.flushed.items():
            lost = tokens.difference(found.get(key, ()))
            if lost:
                raise Violation(f"at the end {key} lost {sorted(lost)}: {found.get(key)}")


def trashed(hf, entry):
    """The events of a log in the trash."""
    from holdfast.model import read_events

    return list(read_events([b"".join(hf.store.log(entry.key).read())]))
