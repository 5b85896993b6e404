"""Each backend, driven at random, beside a model that is a few dicts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.errors import Conflict, Locked, NotFound, UsageError
from holdfast.storage import MUST_NOT_EXIST, FileStore, MemoryStore, NoStore, open_store
from holdfast.storage.sqlite.store import SQLiteStore
from holdfast.testing import DeferredStore, SimDisk

pytestmark = pytest.mark.unmeasured

KEYS = ("sessions/a", "sessions/b", "trash/a")
NAMES = ("memory.json", "blobs/x", "snapshots/1.json")
keys = st.sampled_from(KEYS)
names = st.sampled_from(NAMES)
payloads = st.binary(max_size=40)
lines = st.binary(min_size=1, max_size=30).map(lambda data: data + b"\n")


class Shelf:
    """What the model knows of one key."""

    def __init__(self):
        self.log = None
        self.documents = {}
        self.quarantined = 0


class Machine(RuleBasedStateMachine):
    """Every operation of a store, and after each the store must look like the model."""

    clears_beginnings = False
    """Whether documents without a log go when a branch takes their key, rather than stay."""

    def make(self):
        raise NotImplementedError

    def reopened(self):
        return self.store

    @initialize()
    def start(self):
        self.store = self.make()
        self.shelves = {key: Shelf() for key in KEYS}
        self.leases = {}
        self.logs = {}
        self.epochs = dict.fromkeys(KEYS, 0)

    def teardown(self):
        if hasattr(self, "store"):
            self.let_go()
            self.store.close()

    def let_go(self):
        for log in self.logs.values():
            log.close()
        for key, lease in self.leases.items():
            lease.release()
            if not self.stores:
                self.shelves[key], self.epochs[key] = Shelf(), 0
        self.leases, self.logs = {}, {}

    def hold(self, key):
        if key not in self.leases:
            lease = self.store.lease(key)
            epoch = lease.acquire("machine", 60_000)
            assert epoch > self.epochs[key]
            self.epochs[key] = epoch
            self.leases[key] = lease
            self.logs[key] = self.store.log(key)
        return self.logs[key]

    @property
    def stores(self):
        return self.store.capabilities.stores

    def put_aside(self, key, data):
        if data:
            self.shelves[key].quarantined += 1

    @rule(key=keys, batch=st.lists(lines, min_size=1, max_size=4))
    def append(self, key, batch):
        shelf = self.shelves[key]
        self.hold(key).append(b"".join(batch), 0, len(batch), self.epochs[key])
        shelf.log = (shelf.log or b"") + b"".join(batch)

    @rule(key=keys)
    def sync(self, key):
        self.hold(key).sync()
        assert self.logs[key].unsaved() == b""

    @rule()
    def sync_all(self):
        self.store.sync(dict(self.logs)).result(timeout=120)

    @rule(key=keys, part=st.floats(0, 1))
    def cut(self, key, part):
        shelf, log = self.shelves[key], self.hold(key)
        if shelf.log is None:
            return
        offset = int(len(shelf.log) * part)
        self.put_aside(key, shelf.log[offset:])
        log.cut(offset, self.epochs[key])
        shelf.log = shelf.log[:offset]

    @rule(key=keys, chunks=st.lists(payloads, max_size=3))
    def replace(self, key, chunks):
        shelf, log = self.shelves[key], self.hold(key)
        before = log.generation()
        log.replace(iter(chunks), self.epochs[key])
        assert log.generation() != before
        if shelf.log is not None:
            shelf.quarantined += 1
        shelf.log = b"".join(chunks)

    @rule(key=keys)
    def close_log(self, key):
        if key in self.logs:
            self.logs[key].close()

    @rule(key=keys, name=names, data=payloads, sync=st.booleans())
    def put(self, key, name, data, sync):
        self.store.documents(key).put(name, data, sync=sync)
        self.shelves[key].documents[name] = data

    @rule(key=keys, name=names, data=payloads, right=st.booleans())
    def swap(self, key, name, data, right):
        documents, model = self.store.documents(key), self.shelves[key].documents
        found = documents.get(name)
        etag = found[1] if found else MUST_NOT_EXIST
        if right:
            documents.put(name, data, if_match=etag)
            model[name] = data
        else:
            with pytest.raises(Conflict):
                documents.put(name, data, if_match=etag + "x")

    @rule(key=keys, name=names)
    def delete(self, key, name):
        there = self.shelves[key].documents.pop(name, None) is not None
        assert self.store.documents(key).delete(name) == there

    @rule(key=keys, to=keys)
    def move(self, key, to):
        source, target = self.shelves[key], self.shelves[to]
        if key == to:
            return
        if not self.has_content(source):
            with pytest.raises(NotFound):
                self.store.move(key, to)
        elif key in self.leases:
            with pytest.raises(Locked):
                self.store.move(key, to)
        elif target.log is not None:
            with pytest.raises(Conflict):
                self.store.move(key, to)
        elif to in self.leases:
            with pytest.raises(Locked):
                self.store.move(key, to)
        else:
            self.store.move(key, to)
            self.shelves[key], self.shelves[to] = Shelf(), source
            self.epochs[to], self.epochs[key] = self.epochs[key], 0

    @rule(key=keys, to=keys, part=st.floats(0, 1))
    def branch(self, key, to, part):
        source, target = self.shelves[key], self.shelves[to]
        size = int(len(source.log or b"") * part)
        if key in self.logs:
            self.logs[key].sync()  # what a deferring store has not sent is not there to others
        if not self.stores:
            with pytest.raises(NotFound):
                self.store.branch(key, to, size)
        elif size < 1:
            with pytest.raises(UsageError):
                self.store.branch(key, to, size)
        elif target.log is not None:
            with pytest.raises(Conflict):
                self.store.branch(key, to, size)
        elif to in self.leases:
            with pytest.raises(Locked):
                self.store.branch(key, to, size)
        else:
            self.store.branch(key, to, size)
            blobs = {n: data for n, data in source.documents.items() if n.startswith("blobs/")}
            kept = {} if self.clears_beginnings else target.documents
            self.shelves[to] = Shelf()
            self.shelves[to].log = source.log[:size]
            self.shelves[to].documents = {**kept, **blobs}
            if not self.clears_beginnings:
                self.shelves[to].quarantined = target.quarantined
            self.epochs[to] = 0

    @rule(key=keys, change=st.sampled_from(["archive", "unarchive", "detach"]))
    def change_form(self, key, change):
        shelf = self.shelves[key]
        if shelf.log is None:
            with pytest.raises(NotFound):
                getattr(self.store, change)(key)
            return
        try:
            getattr(self.store, change)(key)
        except Locked:
            assert key in self.leases
            return
        assert key not in self.leases or change == "detach"
        if change != "detach":
            assert self.store.is_archived(key) == (change == "archive")
        assert change == "unarchive" or self.store.base_size(key) == 0

    @rule(key=keys)
    def drop(self, key):
        shelf = self.shelves[key]
        if not self.has_content(shelf):
            with pytest.raises(NotFound):
                self.store.drop(key)
        elif key in self.leases:
            with pytest.raises(Locked):
                self.store.drop(key)
        else:
            self.store.drop(key)
            self.shelves[key] = Shelf()
            self.epochs[key] = 0

    @rule(key=keys)
    def second_lease(self, key):
        if key in self.leases:
            with pytest.raises(Locked):
                self.store.lease(key).acquire("other", 60_000)

    @precondition(lambda self: self.leases)
    @rule()
    def release_all(self):
        for log in self.logs.values():
            log.sync()
        self.let_go()

    @rule()
    def reopen(self):
        self.release_all()
        self.store = self.reopened()

    def has_content(self, shelf):
        return shelf.log is not None or bool(shelf.documents) or bool(shelf.quarantined)

    @invariant()
    def logs_are_the_same(self):
        for key, shelf in getattr(self, "shelves", {}).items():
            log = self.logs.get(key) or self.store.log(key)
            expected = shelf.log or b""
            assert b"".join(log.read()) == expected
            assert log.size() == len(expected)
            middle = len(expected) // 2
            assert log.read_tail(len(expected) - middle) == (middle, expected[middle:])

    @invariant()
    def documents_are_the_same(self):
        for key, shelf in getattr(self, "shelves", {}).items():
            documents = self.store.documents(key)
            found = documents.names()
            asides = [name for name in found if name.startswith("quarantine/")]
            kept = [name for name in found if name not in asides]
            assert kept == sorted(shelf.documents)
            for name in kept:
                assert documents.get(name)[0] == shelf.documents[name]
            assert bool(asides) == (shelf.quarantined > 0)

    @invariant()
    def lists_are_the_same(self):
        if not hasattr(self, "shelves"):
            return
        for key in self.logs:
            if self.store.capabilities.defers:
                self.logs[key].sync()
        expected = {k: len(s.log) for k, s in self.shelves.items() if s.log is not None}
        for folder in ("sessions/", "trash/"):
            found = {entry.key: entry.size for entry in self.store.entries(folder)}
            inside = {k: size for k, size in expected.items() if k.startswith(folder)}
            assert found == inside
        for key, shelf in self.shelves.items():
            assert self.store.exists(key) == (shelf.log is not None)


class NoMachine(Machine):
    make = staticmethod(NoStore)


class MemoryMachine(Machine):
    make = staticmethod(MemoryStore)


class DeferredMachine(Machine):
    make = staticmethod(DeferredStore)


class RecordingDiskMachine(Machine):
    clears_beginnings = True

    def make(self):
        self.disk = SimDisk()
        return FileStore("/store", disk=self.disk)

    def reopened(self):
        self.store.close()
        assert self.disk.open_count == 0
        return FileStore("/store", disk=self.disk)


class FilesMachine(Machine):
    clears_beginnings = True

    def make(self):
        self.place = tempfile.mkdtemp()
        return FileStore(Path(self.place) / "store")

    def reopened(self):
        self.store.close()
        return FileStore(self.store.path)

    def teardown(self):
        super().teardown()
        shutil.rmtree(getattr(self, "place", ""), ignore_errors=True)


class TestNone(NoMachine.TestCase):
    """The store that stores nothing behaves as nothing, whatever is done to it."""

    settings = settings(max_examples=15, stateful_step_count=25)


@pytest.mark.slow
class TestMemory(MemoryMachine.TestCase):
    """The memory store behaves as the model, whatever is done to it."""

    settings = settings(max_examples=60, stateful_step_count=50)


@pytest.mark.slow
class TestDeferred(DeferredMachine.TestCase):
    """The deferring store behaves as the model, whatever is done to it."""

    settings = settings(max_examples=60, stateful_step_count=50)


@pytest.mark.slow
class TestRecordingDisk(RecordingDiskMachine.TestCase):
    """The file store behaves as the model on the recording disk and leaves no descriptor open."""

    settings = settings(max_examples=60, stateful_step_count=50)


class TestFiles(FilesMachine.TestCase):
    """The file store behaves as the model, whatever is done to it."""

    settings = settings(max_examples=30, stateful_step_count=40)


class SQLiteMachine(Machine):
    clears_beginnings = True

    def make(self):
        self.place = tempfile.mkdtemp()
        return SQLiteStore(f"{self.place}/store.db")

    def reopened(self):
        self.store.close()
        return SQLiteStore(self.store.path)

    def teardown(self):
        super().teardown()
        shutil.rmtree(getattr(self, "place", ""), ignore_errors=True)


class TestSQLite(SQLiteMachine.TestCase):
    """The SQLite store behaves as the model, whatever is done to it."""

    settings = settings(max_examples=30, stateful_step_count=40)


class RemoteMachine(Machine):
    clears_beginnings = True

    def reopened(self):
        self.store.close()
        return open_store(self.store.url)


def test_postgres_behaves_as_the_model(postgres_server):
    """The PostgreSQL store behaves as the model, whatever is done to it."""

    class PostgresMachine(RemoteMachine):
        def make(self):
            return open_store(f"{postgres_server.url}?schema=m{uuid4().hex}")

    run_state_machine_as_test(PostgresMachine, settings=settings(max_examples=8, stateful_step_count=30))


@pytest.mark.parametrize(("kind", "examples"), [("moto", 4), pytest.param("seaweed", 2, marks=pytest.mark.slow)])
def test_a_bucket_behaves_as_the_model(request, kind, examples):
    """The store in a bucket behaves as the model, whatever is done to it, on either server."""
    server = request.getfixturevalue(f"{kind}_server")

    class BucketMachine(RemoteMachine):
        def make(self):
            return open_store(server.url(uuid4().hex))

    run_state_machine_as_test(BucketMachine, settings=settings(max_examples=examples, stateful_step_count=20))
