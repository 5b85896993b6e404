"""The store in a bucket: S3 and what speaks like it, by conditional writes alone.

A name is an object that says which id it stands for; everything of a key lies below that id, so a
move writes two small objects whatever the key has. The bucket must honour preconditions: that is
tried when the store is first used, and one that ignores them is refused, since it would lose data.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec

from holdfast.errors import Conflict, Damaged, Locked, NotFound, StoreError, Unavailable
from holdfast.model import fold_id
from holdfast.storage._branch_copy import first_bytes
from holdfast.storage._cache_place import cache_place
from holdfast.storage._flusher import Flusher
from holdfast.storage._holders import Holder, Renewer, this_holder
from holdfast.storage._s3_log import HEAD_BYTES, Pieces, stale
from holdfast.storage._s3_objects import Objects, open_objects
from holdfast.storage._sending import Packet, Sender, SendingLog
from holdfast.storage.base import (
    Capabilities,
    Documents,
    Entry,
    Lease,
    Log,
    Store,
    check_branch,
    check_document_name,
    check_key,
    check_prefix,
    needs_log,
)
from holdfast.storage.disk import forks

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["ObjectStore"]

_AT_ONCE = 8
# A lease's age is known to the second: that is how fine a server's times are.
_GRAIN_MS = 1000


class _Name(msgspec.Struct, omit_defaults=True):
    id: str
    to: str = ""
    """Where it is being moved to; the key is gone once the new name is there."""


class _Held(msgspec.Struct, omit_defaults=True):
    epoch: int = 0
    ttl_ms: int = 0
    holder: Holder | None = None


class ObjectStore(Store):
    """Everything below one prefix of one bucket."""

    capabilities = Capabilities(syncs=True, shared=True, can_steal=True, defers=True, archives=True)

    def __init__(self, url: str) -> None:
        self.url = url
        self.objects = open_objects(url)
        self._pool: ThreadPoolExecutor | None = None
        self._sender = Sender(self._send, "holdfast-sender")
        self.renewer = Renewer(self._renew_all)
        self._flusher = Flusher()
        self._writing: dict[str, Pieces] = {}
        self._forks = forks.count
        self._checked = False

    def log(self, key: str) -> Log:
        """The key's log."""
        self.check()
        return ObjectLog(self, self._sender, check_key(key))

    def documents(self, key: str) -> Documents:
        """The key's documents."""
        self.check()
        return ObjectDocuments(self, check_key(key))

    def lease(self, key: str) -> Lease:
        """The key's lease."""
        self.check()
        return ObjectLease(self, check_key(key))

    def exists(self, key: str) -> bool:
        """Whether the key has a log."""
        folder = self.folder(check_key(key))
        return folder is not None and Pieces(self.objects, folder).exists()

    def clash(self, key: str) -> str | None:
        """A key that differs only by case."""
        above, _, _ = check_key(key).rpartition("/")
        folded = fold_id(key)
        for one in self.objects.list(f"names/{above}/"):
            other = one.path.removeprefix("names/")
            if other != key and fold_id(other) == folded and self.exists(other):
                return other
        return None

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Done once all of them are stored."""
        return self._flusher.sync(logs)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log."""
        check_prefix(prefix)
        for one in list(self.objects.list(f"names/{prefix}")):
            key = one.path.removeprefix("names/")
            entry = self.entry(key) if "/" not in key.removeprefix(prefix) else None
            if entry is not None:
                yield entry

    def entry(self, key: str) -> Entry | None:
        """The entry of one key."""
        folder = self.folder(check_key(key))
        if folder is None:
            return None
        pieces = Pieces(self.objects, folder)
        head = pieces.head()
        found = pieces.pieces(head.generation)
        if not head.generation and not any(one.size for one in found):
            return None
        newest = list(self.objects.list(f"{folder}/log/{head.generation:08d}/"))
        packs = list(self.objects.list(f"{folder}/pack/{head.generation:08d}/"))
        data = [one for one in (*newest, *packs) if one.size > HEAD_BYTES] or newest or packs
        modified = max((one.modified for one in data), default=0)
        size = found[-1].start + found[-1].size if found else 0
        last = found[-1].last if found else 0
        return Entry(key, size, modified, f"{folder}-{head.generation}-{last}-{size}")

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Every key that has a name."""
        check_prefix(prefix)
        found = {}
        for one in self.objects.list(f"names/{prefix}"):
            key = one.path.removeprefix("names/")
            if "/" not in key.removeprefix(prefix):
                found[key] = one.etag
        return found

    def catalog_place(self) -> str | None:
        """In the user's cache directory: nothing in a bucket can be an index for many."""
        return cache_place(self.url.partition("?")[0])

    def move(self, key: str, to: str) -> None:
        """Under another name: two small objects are written, whatever the key has."""
        check_key(to)
        name, etag = self._has_something(key)
        lease = ObjectLease(self, key)
        lease.acquire("move", 30_000)
        try:
            self._clear_the_way(to)
            note = msgspec.json.encode(_Name(name.id, to))
            if not self.objects.swap(f"names/{key}", note, etag):
                raise Conflict(f"{key} changed while it was being moved")
            if not self.objects.create(f"names/{to}", msgspec.json.encode(_Name(name.id))):
                self.objects.put(f"names/{key}", msgspec.json.encode(_Name(name.id)))
                raise Conflict(f"{to} is taken")
            self.objects.delete(f"names/{key}")
        finally:
            lease.release()

    def drop(self, key: str) -> None:
        """The name first, then what it stood for; fences stay, so that no one writes there."""
        name, _ = self._has_something(key)
        lease = ObjectLease(self, key)
        lease.acquire("drop", 30_000)
        lease.abandon()
        self.objects.delete(f"names/{key}")
        self._remove(name.id)

    def branch(self, key: str, to: str, size: int) -> None:
        """A copy below an id of its own, which is there once it has its name."""
        check_branch(self, key, to, size)
        folder = self.folder(key)
        assert folder is not None
        self._clear_the_way(to)
        name = _Name(uuid4().hex)
        copy = Pieces(self.objects, f"data/{name.id}")
        copy.replace(first_bytes(Pieces(self.objects, folder).read(0), size), 0, to)
        for one in list(self.objects.list(f"{folder}/doc/blobs/")):
            found = self.objects.get(one.path)
            if found is not None:
                self.objects.put(one.path.replace(folder, copy.folder, 1), found.data)
        if not self.objects.create(f"names/{to}", msgspec.json.encode(name)):
            self._remove(name.id)
            raise Conflict(f"{to} is taken")

    def archive(self, key: str) -> None:
        """All objects of the log as compressed packs."""
        with self._free_log(key) as pieces:
            if not pieces.head().archived:
                pieces.compact(archive=True)

    def unarchive(self, key: str) -> None:
        """Packs are read as they are; only the mark goes."""
        with self._free_log(key) as pieces:
            pieces.unarchive()

    def is_archived(self, key: str) -> bool:
        """Whether it is packed now."""
        folder = self.folder(check_key(key))
        return folder is not None and Pieces(self.objects, folder).head().archived

    def location(self, key: str) -> str:
        """The bucket, the prefix, and the key in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}#{check_key(key)}"

    def check(self) -> None:
        """Try out once whether the bucket honours preconditions. Raises Unavailable if not."""
        if self._checked:
            return
        path = f"probe/{uuid4().hex}"
        objects = self.objects
        first = objects.create(path, b"1")
        twice = objects.create(path, b"2")
        etag = (objects.get(path) or (b"", "", 0))[1]
        objects.put(path, b"3")
        swapped = objects.swap(path, b"4", etag)
        objects.delete(path)
        if not first or twice or swapped:
            raise Unavailable(
                "this bucket ignores preconditions: two writers would overwrite each other",
                remedy="Use a server that honours If-None-Match and If-Match.",
            )
        self._checked = True

    def close(self) -> None:
        """Send what is waiting, then stop the threads."""
        self._sender.close()
        self._flusher.close()
        self.renewer.close()
        if self._pool is not None and self._forks == forks.count:
            self._pool.shutdown()
        self._pool = None

    # -- names -------------------------------------------------------------------------------

    def folder(self, key: str) -> str | None:
        """Where the things of a key lie; None if it has no name."""
        found = self._name(key)
        return None if found is None else f"data/{found[0].id}"

    def made_folder(self, key: str) -> str:
        """The same, with a name that is made if there is none."""
        while True:
            folder = self.folder(key)
            if folder is not None:
                return folder
            self.objects.create(f"names/{key}", msgspec.json.encode(_Name(uuid4().hex)))

    def held(self, folder: str) -> tuple[_Held, str, int]:
        """The lease of a folder, its etag, and when it was written."""
        found = self.objects.get(f"{folder}/lease")
        if found is None:
            return _Held(), "", 0
        return msgspec.json.decode(found.data, type=_Held), found.etag, found.modified

    def check_free(self, key: str, folder: str) -> None:
        """Raise Locked while a holder has the key that lives and whose time has not run out."""
        held, _, since = self.held(folder)
        if held.holder is None or held.holder.is_gone():
            return
        now = self.objects.now(f"clock/{uuid4().hex[:2]}")
        if now > since + held.ttl_ms + _GRAIN_MS:
            return
        session_id = key.rpartition("/")[2]
        raise Locked(
            f"session {session_id} is open for writing in process {held.holder.pid}"
            f" on {held.holder.host}",
            session_id=session_id,
            pid=held.holder.pid,
            host=held.holder.host,
        )

    def pieces_for_writing(self, key: str) -> Pieces:
        """The objects of a log as its writer knows them."""
        pieces = self._writing.get(key)
        if pieces is None:
            pieces = self._writing[key] = Pieces(self.objects, self.made_folder(key))
        return pieces

    def forget_writing(self, key: str) -> None:
        """Look everything up anew the next time this key is written."""
        self._writing.pop(key, None)

    def _name(self, key: str) -> tuple[_Name, str] | None:
        found = self.objects.get(f"names/{key}")
        if found is None:
            return None
        name = msgspec.json.decode(found.data, type=_Name)
        if name.to:
            moved = self.objects.get(f"names/{name.to}")
            if moved is not None and msgspec.json.decode(moved.data, type=_Name).id == name.id:
                self.objects.delete(f"names/{key}")  # a move that a crash kept from its end
                return None
        return name, found.etag

    def _has_something(self, key: str) -> tuple[_Name, str]:
        found = self._name(check_key(key))
        if found is not None:
            folder = f"data/{found[0].id}"
            documents = next(iter(self.objects.list(f"{folder}/doc/")), None)
            if documents is not None or Pieces(self.objects, folder).exists():
                self.check_free(key, folder)
                return found
        raise NotFound(f"there is nothing at {key}")

    def _clear_the_way(self, to: str) -> None:
        """Remove what a key has that is not taken. Raises Conflict and Locked."""
        folder = self.folder(to)
        if folder is None:
            return
        noted = next(iter(self.objects.list(f"{folder}/doc/")), None) is not None
        if Pieces(self.objects, folder).exists() or (noted and not needs_log(to)):
            raise Conflict(f"{to} is taken")
        self.check_free(to, folder)
        self.objects.delete(f"names/{to}")
        self._remove(folder.removeprefix("data/"))
        self.forget_writing(to)

    def _remove(self, id: str) -> None:
        """Remove everything of an id but its fences and its lease."""
        gone = [
            one.path
            for one in self.objects.list(f"data/{id}/")
            if "/log/" not in one.path and not one.path.endswith("/lease")
        ]
        gone += [one.path for one in self.objects.list(f"data/{id}/log/") if one.size > HEAD_BYTES]
        self.objects.delete(*gone)

    def _free_log(self, key: str) -> _FreeLog:
        return _FreeLog(self, check_key(key))

    # -- sending -----------------------------------------------------------------------------

    def _send(self, packets: Sequence[Packet]) -> list[StoreError | None]:
        by_log: dict[tuple[str, int], list[Packet]] = {}
        for packet in packets:
            by_log.setdefault((packet.key, packet.epoch), []).append(packet)
        if self._pool is None or self._forks != forks.count:
            self._forks = forks.count
            self._pool = ThreadPoolExecutor(_AT_ONCE, "holdfast-bucket")
        found = dict(zip(by_log, self._pool.map(self._send_one, by_log.values()), strict=True))
        return [found[packet.key, packet.epoch] for packet in packets]

    def _send_one(self, packets: list[Packet]) -> StoreError | None:
        first = packets[0]
        whole = first._replace(data=b"".join(packet.data for packet in packets))
        try:
            error = self.pieces_for_writing(first.key).append(whole)
        except StoreError as failure:
            error = failure
        if error is not None:
            self.forget_writing(first.key)
        return error

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        return {
            key for key, (epoch, ttl_ms) in held.items() if not self.renew_one(key, epoch, ttl_ms)
        }

    def renew_one(self, key: str, epoch: int, ttl_ms: int) -> bool:
        """Put off the end of a lease; False if it is lost."""
        folder = self.folder(key)
        if folder is None:
            return False
        held, etag, _ = self.held(folder)
        if held.epoch != epoch or held.holder is None:
            return False
        new = _Held(epoch, ttl_ms, held.holder)
        return self.objects.swap(f"{folder}/lease", msgspec.json.encode(new), etag)


class _FreeLog:
    """A log that nobody writes, held while it is packed."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._lease = ObjectLease(store, key)

    def __enter__(self) -> Pieces:
        if not self._store.exists(self._key):
            raise NotFound(f"there is no log at {self._key}")
        folder = self._store.folder(self._key)
        assert folder is not None
        self._store.check_free(self._key, folder)
        self._lease.acquire("archive", 30_000)
        return Pieces(self._store.objects, folder)

    def __exit__(self, *_: object) -> None:
        self._lease.release()


class ObjectLog(SendingLog):
    """The objects of one key."""

    def __init__(self, store: ObjectStore, sender: Sender, key: str) -> None:
        super().__init__(sender, key)
        self._store = store
        self._reading: Pieces | None = None

    def stored(self, start: int) -> Iterator[bytes]:
        """Object by object."""
        pieces = self._pieces()
        return iter(()) if pieces is None else pieces.read(start)

    def stored_size(self) -> int:
        """The sum of all objects."""
        pieces = self._pieces()
        return 0 if pieces is None else pieces.size()

    def cut_stored(self, offset: int, epoch: int) -> None:
        """A new generation without what is cut; that is set aside first."""
        whole = b"".join(self.stored(0))
        if len(whole) <= offset:
            return
        torn = whole[offset:]
        name = f"quarantine/torn-{offset}-{_etag(torn)[:8]}"
        self._store.documents(self._key).put(name, torn)
        self._rewrite([whole[:offset]], epoch, another=False)

    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """A new generation; the old bytes are set aside first."""
        new = list(chunks)
        pieces = self._pieces()
        if pieces is not None and pieces.exists():
            name = f"quarantine/generation-{pieces.head().generation}"
            self._store.documents(self._key).put(name, b"".join(pieces.read(0)))
        self._rewrite(new, epoch)

    def generation(self) -> str:
        """The id of the log and how often it was replaced."""
        pieces = self._pieces()
        if pieces is None or not pieces.exists():
            return ""
        return f"{pieces.folder}-{pieces.head().replaced}"

    def _pieces(self) -> Pieces | None:
        folder = self._store.folder(self._key)
        if folder is None:
            return None
        if self._reading is None or self._reading.folder != folder:
            self._reading = Pieces(self._store.objects, folder)
        return self._reading

    def _rewrite(self, chunks: Iterable[bytes], epoch: int, *, another: bool = True) -> None:
        pieces = Pieces(self._store.objects, self._store.made_folder(self._key))
        old = pieces.head().generation
        pieces.replace(chunks, epoch, self._key, another=another)
        pieces.drop_old(old)
        self._store.forget_writing(self._key)


class ObjectDocuments(Documents):
    """Objects of one key."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._objects: Objects = store.objects
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Replace one object, by compare and swap where it matters."""
        check_document_name(name)
        path = f"{self._store.made_folder(self._key)}/doc/{name}"
        etag = _etag(data)
        if if_match is None:
            self._objects.put(path, bytes(data))
            return etag
        found = self._objects.get(path)
        old = "" if found is None else _etag(found.data)
        if if_match != old:
            raise Conflict(f"{name} is not what it was", etag=old)
        done = (
            self._objects.create(path, bytes(data))
            if found is None
            else self._objects.swap(path, bytes(data), found.etag)
        )
        if not done:
            now = self._objects.get(path)
            raise Conflict(f"{name} is not what it was", etag=_etag(now.data) if now else "")
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        """One object."""
        check_document_name(name)
        folder = self._store.folder(self._key)
        found = None if folder is None else self._objects.get(f"{folder}/doc/{name}")
        return None if found is None else (found.data, _etag(found.data))

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        folder = self._store.folder(self._key)
        if folder is None:
            return []
        above = f"{folder}/doc/"
        names = (one.path.removeprefix(above) for one in self._objects.list(above))
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Remove one object."""
        if self.get(name) is None:
            return False
        self._objects.delete(f"{self._store.folder(self._key)}/doc/{name}")
        return True


class ObjectLease(Lease):
    """An object with the holder, replaced by compare and swap; its age is by the server's clock."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._folder = ""
        self._held: _Held | None = None
        self._forks = forks.count

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, and put a fence at the end of the log before anything else."""
        if self._held is not None and self._forks == forks.count:
            self.renew(ttl_ms)
            return self._held.epoch
        while True:
            folder = self._store.made_folder(self._key)
            held, etag, _ = self._store.held(folder)
            self._store.check_free(self._key, folder)
            mark = this_holder(f"{owner[:60]} {uuid4().hex}")
            new = _Held(held.epoch + 1, ttl_ms, mark)
            path, data = f"{folder}/lease", msgspec.json.encode(new)
            objects = self._store.objects
            done = objects.swap(path, data, etag) if etag else objects.create(path, data)
            if done or self._store.held(folder)[0] == new:
                break
        Pieces(objects, folder).fence(new.epoch)
        self._store.forget_writing(self._key)
        self._folder, self._held, self._forks = folder, new, forks.count
        if ttl_ms > 0:
            self._store.renewer.keep(self, self._key, new.epoch, ttl_ms)
        return new.epoch

    def renew(self, ttl_ms: int) -> None:
        """Put off its end."""
        lost = self._held is None or not self._store.renew_one(self._key, self._held.epoch, ttl_ms)
        if lost:
            raise stale(self._key)

    def release(self) -> None:
        """Give it back; nothing happens if another one has it by now."""
        mine, self._held = self._held, None
        # In a forked child it is the parent's, which goes on writing.
        if mine is None or self._forks != forks.count:
            return
        self._store.renewer.let_go(self)
        with contextlib.suppress(StoreError, Damaged):  # small objects cost time, nothing else
            Pieces(self._store.objects, self._folder).compact()
        with contextlib.suppress(StoreError):  # out of reach, it runs out by itself
            held, etag, _ = self._store.held(self._folder)
            if held.epoch == mine.epoch and held.holder is not None:
                data = msgspec.json.encode(_Held(held.epoch))
                self._store.objects.swap(f"{self._folder}/lease", data, etag)

    def abandon(self) -> None:
        """Keep it for ever: what it is for is about to go."""
        self._held = None
        self._store.renewer.let_go(self)


def _etag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
