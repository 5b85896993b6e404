"""The store contract: the store as a whole."""

from __future__ import annotations

import threading

from holdfast.errors import Conflict, InvalidId, Locked, NotFound
from holdfast.storage import MUST_NOT_EXIST, Store
from holdfast.testing.contract.forms import FormContract
from holdfast.testing.contract.log import ContractBase, LeaseContract, LogContract, read_all, refused, run_together

# The store contract: documents.
BAD_DOCUMENT_NAMES = (
    *("", ".", "..", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a/.b", "-a", "a b", "ä"),
    *("a\0b", "a\nb", "a\\b", "c:d", "a/b/c/d", "x" * 201, "a..b", "$a", "a*", "\ud800"),
    *("events.jsonl", "EVENTS.jsonl", "events.jsonl.new", "lock", "Lock", "lock/a"),
)
_BIG = 3 * (1 << 20) + 7
_THREADS = 8
_ROUNDS = 10


class DocumentContract(ContractBase):
    """Contracts 29 to 42."""

    def test_c29_put_and_get(self) -> None:
        """A document is read back byte for byte, with the etag that put returned."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        data = bytes(range(256))
        etag = documents.put("agent.json", data)
        assert documents.get("agent.json") == (data, etag)
        documents.put("empty", b"")
        assert self.content(store, "empty") == b""

    def test_c30_missing(self) -> None:
        """A missing document is None, deleting it is False, and neither creates it."""
        documents = self.fresh().documents(self.KEY)
        assert documents.get("nothing") is None
        assert documents.get("folder/nothing") is None
        assert documents.delete("nothing") is False
        assert documents.delete("folder/nothing") is False
        assert documents.names() == []

    def test_c31_names(self) -> None:
        """Names are sorted, can be filtered by prefix, and are those of documents only."""
        store = self.fresh()
        names = ["a", "b.json", "blobs/x", "blobs/y", "plugins/a/b"]
        self.write(store, self.KEY, b"line\n")
        documents = store.documents(self.KEY)
        for name in reversed(names):
            documents.put(name, b"1")
        assert documents.names() == names
        assert documents.names("blobs/") == ["blobs/x", "blobs/y"]
        assert documents.names("b") == ["b.json", "blobs/x", "blobs/y"]
        assert documents.names("zzz") == []

    def test_c32_replace(self) -> None:
        """A second put replaces; the etag differs exactly when the bytes do."""
        documents = self.fresh().documents(self.KEY)
        first = documents.put("a", b"1")
        second = documents.put("a", b"2")
        assert first != second
        assert documents.get("a") == (b"2", second)
        assert documents.put("a", b"1") == first
        assert documents.names() == ["a"]

    def test_c33_delete(self) -> None:
        """A deleted document is gone, even after opening the store again."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        documents.put("f/a", b"1")
        documents.put("f/b", b"2")
        assert documents.delete("f/a") is True
        assert documents.delete("f/a") is False
        documents = self.again(store).documents(self.KEY)
        assert documents.get("f/a") is None
        assert documents.names() == ["f/b"]

    def test_c34_if_match(self) -> None:
        """With an etag a document is replaced only if it still has that etag."""
        documents = self.fresh().documents(self.KEY)
        first = documents.put("a", b"1")
        second = documents.put("a", b"2", if_match=first)
        assert refused(Conflict, documents.put, "a", b"3", if_match=first).etag == second
        assert documents.get("a") == (b"2", second)
        documents.delete("a")
        assert refused(Conflict, documents.put, "a", b"3", if_match=second).etag == ""
        assert documents.get("a") is None

    def test_c35_must_not_exist(self) -> None:
        """A document can be put only if there is none."""
        documents = self.fresh().documents(self.KEY)
        etag = documents.put("a", b"1", if_match=MUST_NOT_EXIST)
        assert refused(Conflict, documents.put, "a", b"2", if_match=MUST_NOT_EXIST).etag == etag
        assert documents.get("a") == (b"1", etag)

    def test_c36_without_sync(self) -> None:
        """A document put without a sync is there at once, and stays after the log's sync."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        documents.put("blobs/a", b"1", sync=False)
        assert documents.names() == ["blobs/a"]
        log, epoch = self.writer(store)
        log.append(b"names a\n", 0, 1, epoch)
        log.sync()
        assert self.content(self.again(store), "blobs/a") == b"1"

    def test_c37_without_sync_again(self) -> None:
        """Putting without a sync replaces too."""
        documents = self.fresh().documents(self.KEY)
        documents.put("a", b"1")
        documents.put("a", b"1", sync=False)
        assert (documents.get("a") or [None])[0] == b"1"
        documents.put("a", b"2", sync=False)
        assert (documents.get("a") or [None])[0] == b"2"

    def test_c38_keys_are_apart(self) -> None:
        """The documents of two keys are independent."""
        store = self.fresh()
        store.documents("agents/a").put("memory.json", b"a")
        store.documents("agents/b").put("memory.json", b"b")
        assert [self.content(store, "memory.json", f"agents/{name}") for name in "ab"] == [b"a", b"b"]
        assert store.documents("spaces/x/agents/a").names() == []

    def test_c39_big_document(self) -> None:
        """A document of several chunks is read whole."""
        documents = self.fresh().documents(self.KEY)
        big = b"0123456789abcdef" * (_BIG // 16) + b"end"
        etag = documents.put("blobs/big", big)
        assert documents.get("blobs/big") == (big, etag)

    def test_c40_bad_names(self) -> None:
        """A name that is not safe on every system is refused by every call, and nothing is written."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        for name in BAD_DOCUMENT_NAMES:
            refused(InvalidId, documents.put, name, b"1")
            refused(InvalidId, documents.put, name, b"1", sync=False)
            refused(InvalidId, documents.get, name)
            refused(InvalidId, documents.delete, name)
        assert documents.names() == []
        assert not store.exists(self.KEY)

    def test_c41_compare_and_swap(self) -> None:
        """Concurrent changes of a document by compare-and-swap lose no change."""
        store = self.fresh()
        store.documents(self.KEY).put("count", b"0")

        def work(_: int) -> None:
            documents = store.documents(self.KEY)
            for _turn in range(_ROUNDS):
                while True:
                    found = documents.get("count")
                    if found is None:
                        return
                    try:
                        documents.put("count", b"%d" % (int(found[0]) + 1), if_match=found[1])
                        break
                    except Conflict:
                        continue

        run_together(_THREADS, work)
        assert self.content(store, "count") == b"%d" % (_THREADS * _ROUNDS)

    def test_c42_whole_or_not_at_all(self) -> None:
        """During concurrent puts of one document, a reader sees one of them, complete."""
        store = self.fresh()
        values = [bytes([65 + number]) * 50_000 for number in range(4)]
        done = threading.Event()

        def work(number: int) -> None:
            documents = store.documents(self.KEY)
            if number == len(values):
                while not done.is_set():
                    found = documents.get("a")
                    assert found is None or found[0] in values
                return
            try:
                for turn in range(_ROUNDS):
                    documents.put("a", values[number], sync=turn % 2 == 0)
            finally:
                done.set()

        run_together(len(values) + 1, work)
        assert self.content(store, "a") in values


BAD_KEYS = (
    *("", "sessions", "sessions/", "/sessions/a", "sessions/a/b", "other/a", "Sessions/a", "a"),
    *("sessions/..", "sessions/.", "sessions/../x", "sessions/a..b", "sessions/a.", "sessions/-a"),
    *("sessions/CON", "sessions/nul.txt", "sessions/a b", "sessions/ä", "sessions/a\0", "sessions/a\n"),
    *("sessions/" + "x" * 129, "spaces/a", "spaces/../sessions/a", "spaces//sessions/a"),
    *("spaces/a/b/c", "sessions/.hidden", "sessions/\ud800", "spaces/a/spaces/b/sessions/c"),
)


class StoreContract(LogContract, LeaseContract, DocumentContract, FormContract):
    """The contract of every store. Subclass it, implement the creation of a store, and run pytest.

    ``make_store`` gives a new and empty store; ``reopen`` gives the same place opened again (the
    default returns the same object, which is right for what lives in memory only). Contracts
    43 to 57 are here, the others in the parents.
    """

    def test_c43_exists(self) -> None:
        """A key exists when it has a log; a lease or a document alone is not enough."""
        store = self.fresh()
        store.lease("sessions/leased").acquire("me", 60_000)
        store.documents("sessions/noted").put("a", b"1")
        self.write(store, self.KEY, b"line\n")
        assert store.exists(self.KEY) == self.kept(store, True, False)
        assert not store.exists("sessions/leased")
        assert not store.exists("sessions/noted")
        assert not store.exists("spaces/one/sessions/alpha")

    def test_c44_clash(self) -> None:
        """A key that differs from a key with a log only by case clashes with it."""
        store = self.fresh()
        self.write(store, "sessions/Alpha", b"line\n")
        store.lease("sessions/Beta").acquire("me", 60_000)
        store.documents("sessions/Gamma").put("a", b"1")
        assert store.clash("sessions/aLPHA") == self.kept(store, "sessions/Alpha", None)
        assert store.clash("sessions/Alpha") is None
        assert store.clash("sessions/beta") is None
        assert store.clash("sessions/gamma") is None
        assert store.clash("agents/alpha") is None
        self.write(store, "sessions/delta", b"line\n")
        assert store.clash("sessions/Delta") == self.kept(store, "sessions/delta", None)

    def test_c77_sessions_are_unique_by_case(self) -> None:
        """No call creates a session whose name differs from another only in case; the existing one stays usable."""
        store = self.fresh()
        if not store.capabilities.unique:
            return
        for old, new in (("Alpha", "aLPHA"), ("beta", "Beta"), ("Gamma", "gamma"), ("spaces", "Spaces")):
            key, other = f"sessions/{old}", f"sessions/{new}"
            lease = store.lease(key)
            epoch = lease.acquire("me", 60_000)
            # A session that is about to be created counts as well.
            refused(InvalidId, store.lease(other).acquire, "me", 60_000)
            log = store.log(key)
            log.append(b"line\n", 0, 1, epoch)
            log.sync()
            refused(InvalidId, store.lease(other).acquire, "me", 60_000)
            lease.release()
            if not store.capabilities.stores:
                continue
            refused(InvalidId, store.lease(other).acquire, "me", 60_000)
            self.write(store, f"trash/0.{new}", b"old\n")
            refused(InvalidId, store.move, f"trash/0.{new}", other)
            refused(InvalidId, store.branch, key, other, 5)
            assert not store.exists(other)
            assert read_all(store.log(f"trash/0.{new}")) == b"old\n"
            self.write(store, f"trash/{new}", b"both\n")
            # Its own spelling can be changed, and then the old one is free.
            store.move(key, other)
            store.move(other, f"trash/1.{new}")
            self.write(store, key, b"again\n")
            assert store.clash(other) == key
            assert self.again(store).clash(other) == key

    def test_c78_namesakes_at_the_same_moment(self) -> None:
        """Of several concurrent creations under names that differ only in case, no two succeed."""
        store = self.fresh()
        if not store.capabilities.unique:
            return
        for turn in range(_ROUNDS):
            made: list[str] = []

            def make(number: int, turn: int = turn, made: list[str] = made) -> None:
                key = f"sessions/{('name', 'Name', 'nAme', 'NAME')[number % 4]}{turn}"
                lease = store.lease(key)
                try:
                    epoch = lease.acquire("me", 60_000)
                except (InvalidId, Locked):
                    return
                log = store.log(key)
                log.append(b"line\n", 0, 1, epoch)
                log.sync()
                made.append(key)
                if store.capabilities.stores:
                    lease.release()

            run_together(4, make)
            assert len(set(made)) <= 1

    def test_c45_entries(self) -> None:
        """The keys with a log are listed with their size, each folder by itself."""
        store = self.fresh()
        self.write(store, "sessions/a", b"1\n")
        self.write(store, "sessions/b", b"22\n", b"3\n")
        self.write(store, "trash/c", b"4\n")
        self.write(store, "spaces/one/sessions/d", b"5\n")
        store.documents("sessions/noted").put("a", b"1")
        store.lease("sessions/leased").acquire("me", 60_000)
        sizes = {entry.key: entry.size for entry in store.entries()}
        assert sizes == self.kept(store, {"sessions/a": 2, "sessions/b": 5}, {})
        assert [entry.key for entry in store.entries("trash/")] == self.kept(store, ["trash/c"], [])
        inside = [entry.key for entry in store.entries("spaces/one/sessions/")]
        assert inside == self.kept(store, ["spaces/one/sessions/d"], [])
        assert list(store.entries("agents/")) == []
        marks = {entry.key: entry.folder for entry in store.entries()}
        assert marks.items() <= store.folders().items()

    def test_c46_entry_changes(self) -> None:
        """An append and a replace change the etag of an entry; its time is that of the last change."""
        store = self.fresh(b"1\n")
        etags = [entry.etag for entry in store.entries()]
        log = self.write(store, self.KEY, b"2\n")
        etags += [entry.etag for entry in store.entries()]
        log.replace([b"3\n4\n"], store.lease(self.KEY).acquire("me", 60_000))
        etags += [entry.etag for entry in store.entries()]
        assert len(set(etags)) == self.kept(store, 3, 1)
        assert all(entry.modified > 1_500_000_000_000 for entry in store.entries())

    def test_c47_bad_prefixes(self) -> None:
        """Only a folder of keys can be listed."""
        store = self.fresh()
        for prefix in ("", "sessions", "/", "../", "other/", "sessions/a", "spaces/../sessions/"):
            refused(InvalidId, lambda folder: list(store.entries(folder)), prefix)

    def test_c48_move(self) -> None:
        """A moved key has its log and documents under the new name, and nothing under the old one."""
        store = self.fresh(b"1\n")
        if not store.capabilities.stores:
            refused(NotFound, store.move, self.KEY, "trash/alpha")
            return
        store.documents(self.KEY).put("blobs/a", b"a")
        store.move(self.KEY, "trash/alpha")
        store = self.again(store)
        assert not store.exists(self.KEY)
        assert store.documents(self.KEY).names() == []
        assert read_all(store.log("trash/alpha")) == b"1\n"
        assert self.content(store, "blobs/a", "trash/alpha") == b"a"
        store.move("trash/alpha", self.KEY)
        self.write(store, self.KEY, b"2\n")
        assert read_all(store.log(self.KEY)) == b"1\n2\n"

    def test_c49_move_refused(self) -> None:
        """A move is refused if there is nothing to move, if the target is taken, or while there is a writer."""
        store = self.fresh()
        refused(NotFound, store.move, self.KEY, "trash/alpha")
        if not store.capabilities.stores:
            return
        self.write(store, self.KEY, b"1\n")
        self.write(store, "trash/log", b"2\n")
        store.documents("agents/noted").put("a", b"1")
        for taken in ("trash/log", "agents/noted"):
            refused(Conflict, store.move, self.KEY, taken)
        for busy, key, to in ((self.KEY, self.KEY, "trash/alpha"), ("trash/alpha", self.KEY, "trash/alpha")):
            lease = store.lease(busy)
            lease.acquire("me", 60_000)
            refused(Locked, store.move, key, to)
            lease.release()
        assert read_all(store.log(self.KEY)) == b"1\n"
        # Neither a released lease nor the documents of a session without a log prevent a move, nor are they
        # mixed with the documents that are moved.
        store.documents("trash/alpha").put("blobs/old", b"1")
        store.move(self.KEY, "trash/alpha")
        assert read_all(store.log("trash/alpha")) == b"1\n"
        assert store.documents("trash/alpha").names() == []

    def test_c50_drop(self) -> None:
        """A dropped key is gone with all its contents, and can be created again."""
        store = self.fresh(b"1\n")
        store.documents(self.KEY).put("deep/down/a", b"a")
        store.drop(self.KEY)
        store = self.again(store)
        assert not store.exists(self.KEY)
        assert store.documents(self.KEY).names() == []
        assert list(store.entries()) == []
        refused(NotFound, store.drop, self.KEY)
        log = self.write(store, self.KEY, b"new\n")
        assert read_all(log) == self.kept(store, b"new\n", b"")
        assert store.documents(self.KEY).names() == []

    def test_c51_drop_refused(self) -> None:
        """A key is not dropped while a writer has it, nor if it has nothing but a lease."""
        store = self.fresh()
        lease = store.lease(self.KEY)
        lease.acquire("me", 60_000)
        lease.release()
        refused(NotFound, store.drop, self.KEY)
        if not store.capabilities.stores:
            return
        self.write(store, self.KEY, b"1\n")
        lease.acquire("me", 60_000)
        refused(Locked, store.drop, self.KEY)
        lease.release()
        assert read_all(store.log(self.KEY)) == b"1\n"
        store.drop(self.KEY)
        assert not store.exists(self.KEY)

    def test_c52_location(self) -> None:
        """The location of a key is a text that is different for each key, even for one that does not exist."""
        store = self.fresh()
        places = {store.location(key) for key in ("sessions/a", "sessions/b", "agents/a")}
        assert len(places) == self.kept(store, 3, 1)
        assert all(isinstance(place, str) and place for place in places)

    def test_c53_bad_keys(self) -> None:
        """A key that is not well-formed is refused by every call, and nothing is written."""
        store = self.fresh()
        calls = (store.log, store.documents, store.lease, store.exists, store.clash, store.drop, store.location)
        for key in BAD_KEYS:
            for call in calls:
                refused(InvalidId, call, key)
            refused(InvalidId, store.move, key, "trash/x")
            refused(InvalidId, store.move, self.KEY, key)
        assert list(store.entries()) == []
        assert list(store.entries("trash/")) == []

    def test_c54_sync_of_many(self) -> None:
        """One call syncs several logs; the future is done when all are."""
        store = self.fresh()
        logs = {f"sessions/s{number}": store.log(f"sessions/s{number}") for number in range(5)}
        for key, log in logs.items():
            log.append(b"line\n", 0, 1, store.lease(key).acquire("me", 60_000))
        futures = [store.sync(logs), store.sync({}), store.sync(dict(list(logs.items())[:2]))]
        for future in futures:
            assert future.result(timeout=30) is None
        assert [log.unsaved() for log in logs.values()] == [b""] * 5

    def test_c55_threads(self) -> None:
        """Any thread may use the store: eight at once, each with its own keys."""
        store = self.fresh()

        def work(number: int) -> None:
            key = f"sessions/thread-{number}"
            log, documents = store.log(key), store.documents(key)
            epoch = store.lease(key).acquire("me", 60_000)
            for seq in range(25):
                log.append(b"%d\n" % seq, seq, 1, epoch)
                documents.put(f"blobs/{seq}", b"%d" % seq, sync=False)
                if seq % 10 == 0:
                    store.sync({key: log}).result(timeout=30)
            log.sync()

        run_together(8, work)
        whole = b"".join(b"%d\n" % seq for seq in range(25))
        for number in range(8):
            key = f"sessions/thread-{number}"
            assert read_all(store.log(key)) == whole
            assert len(store.documents(key).names("blobs/")) == 25
        assert len(list(store.entries())) == 8

    def test_c56_close(self) -> None:
        """A store can be closed twice, and opened again with its contents."""
        store = self.fresh(b"1\n")
        store.check()
        store.close()
        store.close()
        store = self.again(store)
        store.check()
        assert store.exists(self.KEY) == self.kept(store, True, False)
        assert store.url

    def test_c57_capabilities(self) -> None:
        """The capabilities that a store declares are consistent, and it can be used."""
        store: Store = self.fresh()
        can = store.capabilities
        promises = (can.survives_kill, can.syncs, can.shared, can.can_steal)
        assert can.stores or not any(promises)
        assert not (can.defers and can.survives_kill)
        self.write(store, self.KEY, b"1\n")
        assert store.exists(self.KEY) == can.stores
        if can.shared:
            other = self.again(store)
            assert read_all(other.log(self.KEY)) == b"1\n"
