"""Custom storage: sessions in an object store of your own.

`Bucket` stands for the client of such a service: named objects, and a put that fails if the object
has changed meanwhile. `BucketStore` is all that Holdfast needs. The contract suite that Holdfast
ships shows that it keeps the promises of a store:

    from holdfast.testing import StoreContract

    class TestBucketStore(StoreContract):
        def make_store(self):
            return BucketStore(Bucket(), prefix="sessions-of-my-app")
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future

import holdfast
from holdfast.errors import Conflict, Fenced, Locked, NotFound
from holdfast.model import fold_id
from holdfast.storage import Capabilities, Documents, Entry, Lease, Log, Store
from holdfast.storage.base import check_document_name, check_key, check_prefix, needs_log


class Bucket:
    """An object store in miniature. A real one is reached over the network."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        """The bytes of an object."""
        return self._objects.get(name, (None, 0))[0]

    def modified(self, name: str) -> int:
        """When an object was put, in Unix milliseconds."""
        return self._objects.get(name, (b"", 0))[1]

    def put(self, name: str, data: bytes, *, only_if: bytes | bool | None = False) -> bool:
        """Store an object; with ``only_if`` only if it is what it was (None: not there)."""
        with self._lock:
            if only_if is not False and self.get(name) != only_if:
                return False
            self._objects[name] = (data, time.time_ns() // 1_000_000)
            return True

    def delete(self, name: str) -> bool:
        """Remove an object; whether there was one."""
        return self._objects.pop(name, None) is not None

    def names(self, prefix: str) -> list[str]:
        """The objects whose names begin like this."""
        return sorted(name for name in [*self._objects] if name.startswith(prefix))


class BucketStore(Store):
    """Every key is a folder of objects: ``log``, ``lease``, and ``documents/…``."""

    capabilities = Capabilities()

    def __init__(self, bucket: Bucket, prefix: str = "holdfast") -> None:
        self.url = f"bucket:{prefix}"
        self.bucket = bucket
        self.prefix = prefix

    def log(self, key: str) -> Log:
        """The key's log."""
        return BucketLog(self.bucket, self._place(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        return BucketDocuments(self.bucket, self._place(key))

    def lease(self, key: str) -> Lease:
        """The key's lease."""
        return BucketLease(self.bucket, self._place(key))

    def exists(self, key: str) -> bool:
        """Whether the key has a log."""
        return self.bucket.get(f"{self._place(key)}/log") is not None

    def clash(self, key: str) -> str | None:
        """A key that differs only by case."""
        folder = check_key(key).rpartition("/")[0] + "/"
        others = (entry.key for entry in self.entries(folder) if entry.key != key)
        return next((other for other in others if fold_id(other) == fold_id(key)), None)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Done at once: a put that returned is stored."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log in a folder."""
        check_prefix(prefix)
        start = f"{self.prefix}/{prefix}"
        for name in self.bucket.names(start):
            inside = name[len(start) :].split("/")
            data = self.bucket.get(name)
            if len(inside) == 2 and inside[1] == "log" and data is not None:
                modified = self.bucket.modified(name)
                yield Entry(prefix + inside[0], len(data), modified, f"{len(data)}-{_etag(data)}")

    def move(self, key: str, to: str) -> None:
        """Give every object of a key another name."""
        target = self._place(to)
        self._check_free(key)
        if self.exists(to) or (self._content(to) and not needs_log(to)):
            raise Conflict(f"{to} is taken")
        BucketLease(self.bucket, target).check_free()
        for name in self._content(to):
            self.bucket.delete(name)
        for name in self._content(key):
            self.bucket.put(target + name[len(self._place(key)) :], self.bucket.get(name) or b"")
        self.drop(key)

    def drop(self, key: str) -> None:
        """Remove every object of a key, its log first."""
        self._check_free(key)
        for name in sorted(self._content(key), key=lambda name: not name.endswith("/log")):
            self.bucket.delete(name)
        self.bucket.delete(f"{self._place(key)}/generation")

    def location(self, key: str) -> str:
        """The folder of the key."""
        return f"bucket:{self._place(key)}"

    def check(self) -> None:
        """A real store would see here whether the bucket can be reached."""

    def close(self) -> None:
        """Nothing is held open."""

    def _place(self, key: str) -> str:
        return f"{self.prefix}/{check_key(key)}"

    def _content(self, key: str) -> list[str]:
        place = self._place(key)
        kept = [f"{place}/log", *self.bucket.names(f"{place}/documents/")]
        return [name for name in kept if self.bucket.get(name) is not None]

    def _check_free(self, key: str) -> None:
        if not self._content(key):
            raise NotFound(f"no such file or directory: {key}")
        BucketLease(self.bucket, self._place(key)).check_free()


class BucketLog(Log):
    """One object. A real backend would put each append as a part of its own."""

    def __init__(self, bucket: Bucket, place: str) -> None:
        self._bucket = bucket
        self._place = place

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Put the log with the new lines, unless another writer has the lease by now."""
        self._check_epoch(epoch)
        before = self._bucket.get(f"{self._place}/log")
        if not self._bucket.put(f"{self._place}/log", (before or b"") + data, only_if=before):
            raise Fenced("another writer has added to the log")

    def sync(self) -> None:
        """A put that returned is stored."""

    def read(self, start: int = 0) -> Iterator[bytes]:
        """What is there now."""
        data = self._bytes()[start:]
        if data:
            yield data

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes."""
        data = self._bytes()
        start = max(0, len(data) - max_bytes)
        return start, data[start:]

    def size(self) -> int:
        """How many bytes there are."""
        return len(self._bytes())

    def cut(self, offset: int, epoch: int) -> None:
        """Set a torn end aside, then remove it."""
        self._check_epoch(epoch)
        data = self._bytes()
        if data[offset:]:
            self._set_aside(f"torn-{offset}-{_etag(data[offset:])}", data[offset:])
            self._bucket.put(f"{self._place}/log", data[:offset])

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Another log in the place of the old one, which is set aside."""
        self._check_epoch(epoch)
        new, old = b"".join(chunks), self._bucket.get(f"{self._place}/log")
        if old is not None:
            self._set_aside(f"generation-{self.generation()}", old)
        self._bucket.put(f"{self._place}/log", new)
        count = int(self._bucket.get(f"{self._place}/generation") or b"0") + 1
        self._bucket.put(f"{self._place}/generation", str(count).encode())

    def generation(self) -> str:
        """How often the log was replaced."""
        if self._bucket.get(f"{self._place}/log") is None:
            return ""
        return (self._bucket.get(f"{self._place}/generation") or b"0").decode()

    def unsaved(self) -> bytes:
        """Nothing waits: a put that returned is stored."""
        return b""

    def close(self) -> None:
        """Nothing is held open."""

    def _bytes(self) -> bytes:
        return self._bucket.get(f"{self._place}/log") or b""

    def _set_aside(self, name: str, data: bytes) -> None:
        self._bucket.put(f"{self._place}/documents/quarantine/{name}", data)

    def _check_epoch(self, epoch: int) -> None:
        if BucketLease(self._bucket, self._place).epoch() > epoch:
            raise Fenced("another writer has taken the session over")


class BucketDocuments(Documents):
    """Each document one object."""

    def __init__(self, bucket: Bucket, place: str) -> None:
        self._bucket = bucket
        self._place = f"{place}/documents/"

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Put the object, if it is still what it was."""
        check_document_name(name)
        while True:
            before = self._bucket.get(self._place + name)
            etag = "" if before is None else _etag(before)
            if if_match is not None and if_match != etag:
                raise Conflict(f"{name} is not what it was", etag=etag)
            if self._bucket.put(self._place + name, bytes(data), only_if=before):
                return _etag(data)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """The bytes and their mark."""
        data = self._bucket.get(self._place + check_document_name(name))
        return None if data is None else (data, _etag(data))

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        start = len(self._place)
        return [name[start:] for name in self._bucket.names(self._place + prefix)]

    def delete(self, name: str) -> bool:
        """Remove the object."""
        return self._bucket.delete(self._place + check_document_name(name))


class BucketLease(Lease):
    """One object, ``<epoch> <holder>``, changed only by a put that compares.

    For brevity it has no end: a holder that dies keeps it. A real one would carry a time.
    """

    def __init__(self, bucket: Bucket, place: str) -> None:
        self._bucket = bucket
        self._name = f"{place}/lease"
        self._mark = ""

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, or say that it is held."""
        before = self._bucket.get(self._name)
        if self._mark and before is not None and before.endswith(self._mark.encode()):
            return self.epoch()
        self.check_free()
        epoch = self.epoch() + 1
        mark = f" {owner}-{id(self)}-{time.monotonic_ns()}"
        if not self._bucket.put(self._name, f"{epoch}{mark}".encode(), only_if=before):
            raise self._locked()
        self._mark = mark
        return epoch

    def renew(self, ttl_ms: int) -> None:
        """It does not run out."""

    def release(self) -> None:
        """Give it back; the epoch stays."""
        if self._mark:
            held = f"{self.epoch()}{self._mark}".encode()
            self._bucket.put(self._name, str(self.epoch()).encode(), only_if=held)
            self._mark = ""

    def epoch(self) -> int:
        """The epoch of whoever took it last."""
        return int((self._bucket.get(self._name) or b"0").partition(b" ")[0])

    def check_free(self) -> None:
        """Raise Locked while someone has it."""
        if b" " in (self._bucket.get(self._name) or b""):
            raise self._locked()

    def _locked(self) -> Locked:
        session_id = self._name.split("/")[-2]
        return Locked(f"{session_id} is held by another writer", session_id=session_id)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def main() -> None:
    """Record a conversation in a bucket, and go on with it."""
    bucket = Bucket()
    with holdfast.open(BucketStore(bucket, "my-app")) as hf, hf.session("trip-planner") as s:
        s.user("My name is Alice")
        s.assistant("Hello Alice")
    with holdfast.open(BucketStore(bucket, "my-app")) as hf, hf.session("trip-planner") as s:
        print("restored:", s.restored, [turn["content"] for turn in s.history])
    print("objects:", *bucket.names("my-app/"))


if __name__ == "__main__":
    main()
