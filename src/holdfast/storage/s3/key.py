"""What one key has in a bucket: its log, its documents, its lease."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from holdfast.errors import Conflict, Damaged, Fenced, HoldfastError
from holdfast.storage._deferred import Sender, SendingLog
from holdfast.storage._leases import Holder, locked, stale, this_holder
from holdfast.storage.base import Documents, Lease, check_document_name, etag_of
from holdfast.storage.disk import forks
from holdfast.storage.s3.log import LogObjects, Sealed
from holdfast.storage.s3.objects import Objects

if TYPE_CHECKING:
    from holdfast.storage.s3.store import ObjectStore

# A lease's age is known to the second: that is how fine a server's times are.
_GRAIN_MS = 1000
_TRIES = 10


class HeldKey(msgspec.Struct, omit_defaults=True):
    """Who has a key, and since which epoch."""

    epoch: int = 0
    ttl_ms: int = 0
    holder: Holder | None = None
    beat: int = 0
    """Another one with each renewal: the etag of the same bytes would be the same."""


def held(objects: Objects, folder: str) -> tuple[HeldKey, str, int]:
    """The lease of a folder, its etag, and when it was written. Raises Damaged."""
    found = objects.get(f"{folder}/lease")
    if found is None:
        return HeldKey(), "", 0
    try:
        return msgspec.json.decode(found.data, type=HeldKey), found.etag, found.modified
    except msgspec.MsgspecError as error:
        raise Damaged(f"the lease of {folder} cannot be read: {error}") from error


def check_free(objects: Objects, key: str, folder: str) -> None:
    """Raise Locked while a holder has the key that lives and whose time has not run out."""
    found, _, since = held(objects, folder)
    if found.holder is None or found.holder.is_gone():
        return
    now = objects.now(f"clock/{uuid4().hex[:2]}")
    if now > since + found.ttl_ms + _GRAIN_MS:
        return
    raise locked(key, found.holder)


def renew_one(objects: Objects, folder: str, epoch: int, ttl_ms: int) -> bool:
    """Put off the end of a lease; False if it is lost."""
    for _ in range(_TRIES):
        found, etag, _ = held(objects, folder)
        if found.epoch != epoch or found.holder is None:
            return False
        new = HeldKey(epoch, ttl_ms, found.holder, found.beat + 1)
        if objects.swap(f"{folder}/lease", msgspec.json.encode(new), etag):
            return True
    return False


class ObjectLog(SendingLog):
    """The objects of one key."""

    def __init__(self, store: ObjectStore, sender: Sender, key: str) -> None:
        super().__init__(sender, key)
        self._store = store
        self._reading: LogObjects | None = None

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
        name = f"quarantine/torn-{offset}-{etag_of(torn)[:8]}"
        self._set_aside(name, torn)
        self._rewrite([whole[:offset]], epoch, another=False)

    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """A new generation; the old bytes are set aside first."""
        new = list(chunks)
        pieces = self._pieces()
        if pieces is not None and pieces.exists():
            name = f"quarantine/generation-{pieces.head().generation}"
            self._set_aside(name, b"".join(pieces.read(0)))
        self._rewrite(new, epoch)

    def generation(self) -> str:
        """The id of the log and how often it was replaced."""
        pieces = self._pieces()
        if pieces is None or not pieces.exists():
            return ""
        return f"{pieces.folder}-{pieces.head().replaced}"

    def _pieces(self) -> LogObjects | None:
        named = self._store.names.get(self._key)
        if named is None:
            return None
        if self._reading is None or self._reading.folder != named.name.folder:
            self._reading = LogObjects(self._store.objects, named.name.folder)
        return self._reading

    def _set_aside(self, name: str, data: bytes) -> None:
        ObjectDocuments(self._store, self._key).put(name, data)

    def _rewrite(self, chunks: Iterable[bytes], epoch: int, *, another: bool = True) -> None:
        pieces = LogObjects(self._store.objects, self._store.names.made(self._key).folder)
        pieces.replace(chunks, epoch, self._key, another=another)
        self._store.forget_writing(self._key)


class ObjectDocuments(Documents):
    """Objects of one key."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._objects = store.objects
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Replace one object, by compare and swap where it matters."""
        check_document_name(name)
        path = f"{self._store.names.made(self._key).folder}/doc/{name}"
        etag = etag_of(data)
        if if_match is None:
            self._objects.put(path, bytes(data))
            return etag
        found = self._objects.get(path)
        old = "" if found is None else etag_of(found.data)
        if if_match != old:
            raise Conflict(f"{name} is not what it was", etag=old)
        done = (
            self._objects.create(path, bytes(data))
            if found is None
            else self._objects.swap(path, bytes(data), found.etag)
        )
        if not done:
            now = self._objects.get(path)
            raise Conflict(f"{name} is not what it was", etag=etag_of(now.data) if now else "")
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        """One object."""
        check_document_name(name)
        above = self._above()
        found = None if above is None else self._objects.get(above + name)
        return None if found is None else (found.data, etag_of(found.data))

    def names(self, prefix: str = "") -> list[str]:
        """The names, sorted."""
        above = self._above()
        if above is None:
            return []
        names = (one.path.removeprefix(above) for one in self._objects.list(above))
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        """Remove one object."""
        check_document_name(name)
        above = self._above()
        if above is None or self._objects.get(above + name) is None:
            return False
        self._objects.delete(above + name)
        return True

    def _above(self) -> str | None:
        named = self._store.names.get(self._key)
        return None if named is None else f"{named.name.folder}/doc/"


class ObjectLease(Lease):
    """An object with the holder, replaced by compare and swap; its age is by the server's clock."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self.folder = ""
        self._held: HeldKey | None = None
        self._forks = forks.count

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, and put a fence at the end of the log before anything else."""
        if self._held is not None and self._forks == forks.count:
            self.renew(ttl_ms)
            return self._held.epoch
        while True:
            folder = self._store.names.made(self._key).folder
            new = self._take(folder, owner, ttl_ms)
            if new is None:
                continue
            try:
                LogObjects(self._store.objects, folder).fence(new.epoch, self._key)
            except Sealed:
                self._store.bury(self._key, folder)
            except Fenced:
                continue  # a later one was quicker
            else:
                break
        self._store.forget_writing(self._key)
        self.folder, self._held, self._forks = folder, new, forks.count
        if ttl_ms > 0:
            self._store.renewer.keep(self, self._key, new.epoch, ttl_ms)
        return new.epoch

    def _take(self, folder: str, owner: str, ttl_ms: int) -> HeldKey | None:
        objects = self._store.objects
        found, etag, _ = held(objects, folder)
        check_free(objects, self._key, folder)
        # Not below the time: a key of this name may have been dropped or moved away, and whoever
        # wrote that one must not be taken for the writer of this one.
        epoch = max(found.epoch + 1, time.time_ns() // 1000)
        new = HeldKey(epoch, ttl_ms, this_holder(f"{owner[:60]} {uuid4().hex}"))
        path, data = f"{folder}/lease", msgspec.json.encode(new)
        done = objects.swap(path, data, etag) if etag else objects.create(path, data)
        return new if done else None

    def renew(self, ttl_ms: int) -> None:
        """Put off its end."""
        mine = self._held
        named = self._store.names.get(self._key)
        if (
            mine is None
            or named is None
            or named.name.folder != self.folder
            or not renew_one(self._store.objects, self.folder, mine.epoch, ttl_ms)
        ):
            raise stale(self._key)

    def release(self) -> None:
        """Give it back; nothing happens if another one has it by now."""
        mine, self._held = self._held, None
        # In a forked child it is the parent's, which goes on writing.
        if mine is None or self._forks != forks.count:
            return
        self._store.renewer.let_go(self)
        self._store.forget_writing(self._key)
        objects = self._store.objects
        with contextlib.suppress(HoldfastError):  # out of reach, it runs out by itself
            for _ in range(_TRIES):
                found, etag, _ = held(objects, self.folder)
                if found.epoch != mine.epoch or found.holder is None:
                    break
                data = msgspec.json.encode(HeldKey(found.epoch))
                if objects.swap(f"{self.folder}/lease", data, etag):
                    break
        # Whoever comes next need not wait for it.
        with contextlib.suppress(HoldfastError):  # small objects cost time, nothing else
            LogObjects(objects, self.folder).compact()

    def abandon(self) -> None:
        """Keep it for ever: what it is for is about to go."""
        self._held = None
        self._store.renewer.let_go(self)
