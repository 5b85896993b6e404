"""The store contract on a space of a store: it is a store of its own, and knows no other."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidId
from holdfast.storage import FileStore, MemoryStore, SpaceStore
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sqlite.store import SQLiteStore
from holdfast.testing import StoreContract

NESTED = "spaces/one/sessions/a"


class SpaceContract(StoreContract):
    """The contracts on spaces inside a store say of a space that there are none inside it."""

    def make_outer(self):
        """The store in which the space is, with something of the same names in it."""
        raise NotImplementedError

    def make_store(self):
        """A space beside another one, and beside what is in no space."""
        outer = self.make_outer()
        self.write(outer, "sessions/outside", b"outside\n")
        self.write(outer, "spaces/other/sessions/elsewhere", b"elsewhere\n")
        return SpaceStore(outer, "one")

    def test_c12_keys_are_apart(self):
        """The logs of two keys have nothing in common; a space has no spaces."""
        store = self.fresh()
        keys = ("sessions/a", "sessions/b", "agents/a", "shared/a")
        for key in keys:
            self.write(store, key, key.encode() + b"\n")
        for key in keys:
            assert b"".join(store.log(key).read()) == key.encode() + b"\n"
        with pytest.raises(InvalidId):
            store.log(NESTED)

    def test_c27_leases_are_apart(self):
        """The leases of different keys do not touch each other; a space has no spaces."""
        store = self.fresh()
        for key in ("sessions/a", "sessions/b", "agents/a"):
            assert store.lease(key).acquire("me", 60_000) > 0
        with pytest.raises(InvalidId):
            store.lease(NESTED)

    def test_c38_keys_are_apart(self):
        """The documents of two keys have nothing in common; a space has no spaces."""
        store = self.fresh()
        store.documents("agents/a").put("memory.json", b"a")
        store.documents("agents/b").put("memory.json", b"b")
        found = [store.documents(f"agents/{name}").get("memory.json")[0] for name in "ab"]
        assert found == [b"a", b"b"]
        with pytest.raises(InvalidId):
            store.documents("spaces/one/agents/a")

    def test_c43_exists(self):
        """A key exists when it has a log here; what is elsewhere cannot even be named."""
        store = self.fresh()
        store.lease("sessions/leased").acquire("me", 60_000)
        store.documents("sessions/noted").put("a", b"1")
        self.write(store, self.KEY, b"line\n")
        assert store.exists(self.KEY)
        for key in ("leased", "noted", "outside", "elsewhere"):
            assert not store.exists(f"sessions/{key}")
        with pytest.raises(InvalidId):
            store.exists("spaces/other/sessions/elsewhere")

    def test_c45_entries(self):
        """The keys with a log are listed with their size, each folder by itself."""
        store = self.fresh()
        self.write(store, "sessions/a", b"1\n")
        self.write(store, "sessions/b", b"22\n", b"3\n")
        self.write(store, "trash/c", b"4\n")
        assert {entry.key: entry.size for entry in store.entries()} == {"sessions/a": 2, "sessions/b": 5}
        assert set(store.folders()) == {"sessions/a", "sessions/b"}
        assert [entry.key for entry in store.entries("trash/")] == ["trash/c"]
        with pytest.raises(InvalidId):
            list(store.entries("spaces/other/sessions/"))


@pytest.mark.contract("C01-C78")
class TestSpaceInMemory(SpaceContract):
    """A space of a store in memory."""

    def make_outer(self):
        """A new one."""
        return MemoryStore()


@pytest.mark.contract("C01-C78")
class TestSpaceInFiles(SpaceContract):
    """A space of a store in files."""

    @pytest.fixture(autouse=True)
    def _root(self, store_root):
        self.root = store_root

    def make_outer(self):
        """A private directory."""
        return FileStore(self.root)

    def reopen(self, store):
        """The same directory, as another process would open it."""
        return SpaceStore(FileStore(self.root), "one")


@pytest.mark.contract("C01-C78")
class TestSpaceInSQLite(SpaceContract):
    """A space of a store in one file."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self.path = str(tmp_path / "sessions.db")

    def make_outer(self):
        """A file that is not there yet."""
        return SQLiteStore(self.path)

    def reopen(self, store):
        """The same file, as another process would open it."""
        return SpaceStore(SQLiteStore(self.path), "one")


@pytest.mark.slow
@pytest.mark.contract("C01-C78")
class TestSpaceInPostgres(SpaceContract):
    """A space of a schema in PostgreSQL."""

    @pytest.fixture(autouse=True)
    def _schema(self, postgres_url):
        self.url = postgres_url

    def make_outer(self):
        """A schema that is made with the first connection."""
        return PostgresStore(self.url)

    def reopen(self, store):
        """The same schema, as another machine would open it."""
        return SpaceStore(PostgresStore(self.url), "one")
