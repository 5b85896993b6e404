"""The store contract: documents."""

from __future__ import annotations

import threading

from holdfast.errors import Conflict, InvalidId
from holdfast.storage import MUST_NOT_EXIST
from holdfast.testing.contract.base import ContractBase, refused, run_together

__all__ = ["BAD_DOCUMENT_NAMES", "DocumentContract"]

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
        """A document is read back byte for byte, with the etag that putting it gave."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        data = bytes(range(256))
        etag = documents.put("agent.json", data)
        assert documents.get("agent.json") == (data, etag)
        documents.put("empty", b"")
        found = store.documents(self.KEY).get("empty")
        assert (found and found[0]) == b""

    def test_c30_missing(self) -> None:
        """A document that is not there is None, deleting it is False, and neither makes it."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        assert documents.get("nothing") is None
        assert documents.get("folder/nothing") is None
        assert documents.delete("nothing") is False
        assert documents.delete("folder/nothing") is False
        assert documents.names() == []

    def test_c31_names(self) -> None:
        """Names are sorted, can be asked for by prefix, and are those of documents only."""
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
        """Putting again replaces; the etag is another exactly when the bytes are."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        first = documents.put("a", b"1")
        second = documents.put("a", b"2")
        assert first != second
        assert documents.get("a") == (b"2", second)
        assert documents.put("a", b"1") == first
        assert documents.names() == ["a"]

    def test_c33_delete(self) -> None:
        """A deleted document is gone, also after opening again."""
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
        """With an etag a document is replaced only if it is still that one."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        first = documents.put("a", b"1")
        second = documents.put("a", b"2", if_match=first)
        with refused(Conflict, etag=second):
            documents.put("a", b"3", if_match=first)
        assert documents.get("a") == (b"2", second)
        documents.delete("a")
        with refused(Conflict, etag=""):
            documents.put("a", b"3", if_match=second)
        assert documents.get("a") is None

    def test_c35_must_not_exist(self) -> None:
        """A document can be put only if there is none."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        etag = documents.put("a", b"1", if_match=MUST_NOT_EXIST)
        with refused(Conflict, etag=etag):
            documents.put("a", b"2", if_match=MUST_NOT_EXIST)
        assert documents.get("a") == (b"1", etag)

    def test_c36_without_sync(self) -> None:
        """A document put without a sync is there at once, and stays after the log's sync."""
        store = self.fresh()
        log = store.log(self.KEY)
        documents = store.documents(self.KEY)
        documents.put("blobs/a", b"1", sync=False)
        assert documents.names() == ["blobs/a"]
        log.append(b"names a\n", 0, 1, store.lease(self.KEY).acquire("me", 60_000))
        log.sync()
        found = self.again(store).documents(self.KEY).get("blobs/a")
        assert (found and found[0]) == b"1"

    def test_c37_without_sync_again(self) -> None:
        """Putting without a sync replaces too."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        documents.put("a", b"1")
        documents.put("a", b"1", sync=False)
        assert (documents.get("a") or [None])[0] == b"1"
        documents.put("a", b"2", sync=False)
        assert (documents.get("a") or [None])[0] == b"2"

    def test_c38_keys_are_apart(self) -> None:
        """The documents of two keys have nothing in common."""
        store = self.fresh()
        store.documents("agents/a").put("memory.json", b"a")
        store.documents("agents/b").put("memory.json", b"b")
        found = [store.documents(f"agents/{name}").get("memory.json") for name in "ab"]
        assert [one and one[0] for one in found] == [b"a", b"b"]
        assert store.documents("spaces/x/agents/a").names() == []

    def test_c39_big_document(self) -> None:
        """A document of several chunks is read whole."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        big = b"0123456789abcdef" * (_BIG // 16) + b"end"
        etag = documents.put("blobs/big", big)
        assert documents.get("blobs/big") == (big, etag)

    def test_c40_bad_names(self) -> None:
        """A name that is not safe everywhere is refused by every call, and nothing is written."""
        store = self.fresh()
        documents = store.documents(self.KEY)
        for name in BAD_DOCUMENT_NAMES:
            with refused(InvalidId):
                documents.put(name, b"1")
            with refused(InvalidId):
                documents.put(name, b"1", sync=False)
            with refused(InvalidId):
                documents.get(name)
            with refused(InvalidId):
                documents.delete(name)
        assert documents.names() == []
        assert not store.exists(self.KEY)

    def test_c41_compare_and_swap(self) -> None:
        """Of many who change a document by compare and swap, none loses a change."""
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
        found = store.documents(self.KEY).get("count")
        assert (found and found[0]) == b"%d" % (_THREADS * _ROUNDS)

    def test_c42_whole_or_not_at_all(self) -> None:
        """However many put one document at once, a reader sees one of theirs, whole."""
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
        found = store.documents(self.KEY).get("a")
        assert found is not None
        assert found[0] in values
