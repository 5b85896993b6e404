"""The parts of one key in a bucket: its name, its log, its documents, its lease."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from holdfast.errors import Conflict, Damaged, Fenced, HoldfastError, InvalidId, Locked, StoreError
from holdfast.model import fold_id
from holdfast.storage._deferred import Sender, SendingLog
from holdfast.storage._leases import Holder, RenewedLease, locked, stale
from holdfast.storage.base import (
    Documents,
    Entry,
    check_document_name,
    clashing,
    etag_of,
    folder_of,
    is_key,
    is_session,
)
from holdfast.storage.disk import forks
from holdfast.storage.s3.log import Head, LogObjects, Sealed, end_of
from holdfast.storage.s3.objects import ListedObject, Objects

if TYPE_CHECKING:
    from holdfast.storage.s3.store import ObjectStore

# A lease's age is known to the second, the resolution of a server's times.
_GRAIN_MS = 1000
_TRIES = 10


class HeldKey(msgspec.Struct, omit_defaults=True):
    """The holder of a key, and its epoch."""

    epoch: int = 0
    ttl_ms: int = 0
    holder: Holder | None = None
    beat: int = 0  # changes with each renewal: equal bytes would have an equal etag


def held(objects: Objects, folder: str) -> tuple[HeldKey, str, int]:
    """Return the lease of a folder, its etag, and when it was written. Raises Damaged."""
    found, etag, since = objects.get_value(f"{folder}/lease", HeldKey, f"the lease of {folder}")
    return found or HeldKey(), etag, since


def check_free(objects: Objects, key: str, folder: str) -> None:
    """Raise Locked while the key has a living holder whose term has not expired."""
    found, _, since = held(objects, folder)
    if found.holder is None or found.holder.is_gone():
        return
    if objects.now(f"clock/{uuid4().hex[:2]}") <= since + found.ttl_ms + _GRAIN_MS:
        raise locked(key, found.holder)


def renew_one(objects: Objects, folder: str, epoch: int, ttl_ms: int) -> bool:
    """Extend a lease; return False if it is lost."""
    return _change_held(objects, folder, epoch, lambda old: HeldKey(epoch, ttl_ms, old.holder, old.beat + 1))


def _change_held(objects: Objects, folder: str, epoch: int, change: Callable[[HeldKey], HeldKey]) -> bool:
    """Change the lease of an epoch, if it still belongs to that; return whether it did."""
    for _ in range(_TRIES):
        found, etag, _ = held(objects, folder)
        if found.epoch != epoch or found.holder is None:
            return False
        if objects.put_value(f"{folder}/lease", change(found), etag):
            return True
    return False


class ObjectLog(SendingLog):
    """The objects of one key."""

    def __init__(self, store: ObjectStore, sender: Sender, key: str) -> None:
        super().__init__(sender, key)
        self._store = store
        self._reading: LogObjects | None = None

    def stored(self, start: int) -> Iterator[bytes]:
        pieces = self._pieces()
        return iter(()) if pieces is None else pieces.read(start)

    def stored_size(self) -> int:
        pieces = self._pieces()
        return 0 if pieces is None else pieces.size()

    def cut_stored(self, offset: int, epoch: int) -> None:
        """Write a new generation without the cut part, which is copied to quarantine first."""
        whole = b"".join(self.stored(0))
        if len(whole) <= offset:
            return
        torn = whole[offset:]
        self._set_aside(f"quarantine/torn-{offset}-{etag_of(torn)[:8]}", torn)
        self._rewrite([whole[:offset]], epoch, another=False)

    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Write a new generation; the old bytes are copied to quarantine first."""
        new = list(chunks)
        pieces = self._pieces()
        if pieces is not None and pieces.exists():
            self._set_aside(f"quarantine/generation-{pieces.head().generation}", b"".join(pieces.read(0)))
        self._rewrite(new, epoch)

    def generation(self) -> str:
        """Return the id of the log and the number of its replacements."""
        pieces = self._pieces()
        if pieces is None or not pieces.exists():
            return ""
        return f"{pieces.folder}-{pieces.head().replaced}"

    def _pieces(self) -> LogObjects | None:
        named = self._store.names.get(self.key)
        if named is None:
            return None
        if self._reading is None or self._reading.folder != named.name.folder:
            self._reading = LogObjects(self._store.objects, named.name.folder)
        return self._reading

    def _set_aside(self, name: str, data: bytes) -> None:
        ObjectDocuments(self._store, self.key).put(name, data)

    def _rewrite(self, chunks: Iterable[bytes], epoch: int, *, another: bool = True) -> None:
        pieces = LogObjects(self._store.objects, self._store.names.made(self.key).folder)
        pieces.replace(chunks, epoch, self.key, another=another)
        self._store.forget_writing(self.key)


class ObjectDocuments(Documents):
    """Objects of one key."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._objects = store.objects
        self._key = key

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Replace one object, by compare-and-swap where it matters."""
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
        create, swap = self._objects.create, self._objects.swap
        if not (create(path, bytes(data)) if found is None else swap(path, bytes(data), found.etag)):
            now = self._objects.get(path)
            raise Conflict(f"{name} is not what it was", etag=etag_of(now.data) if now else "")
        return etag

    def get(self, name: str) -> tuple[bytes, str] | None:
        check_document_name(name)
        above = self._above()
        found = None if above is None else self._objects.get(above + name)
        return None if found is None else (found.data, etag_of(found.data))

    def names(self, prefix: str = "") -> list[str]:
        above = self._above()
        if above is None:
            return []
        names = (one.path.removeprefix(above) for one in self._objects.list(above))
        return sorted(name for name in names if name.startswith(prefix))

    def delete(self, name: str) -> bool:
        check_document_name(name)
        above = self._above()
        if above is None or self._objects.get(above + name) is None:
            return False
        self._objects.delete(above + name)
        return True

    def _above(self) -> str | None:
        named = self._store.names.get(self._key)
        return None if named is None else f"{named.name.folder}/doc/"


class ObjectLease(RenewedLease):
    """An object with the holder, replaced by compare-and-swap; its age is by the server's clock."""

    def __init__(self, store: ObjectStore, key: str, *, claims: bool = False) -> None:
        """``claims`` is for a holder that may create the key's log, for which no namesake may exist."""
        super().__init__(store.renewer, key)
        self._store = store
        self._claims = claims
        self.folder = ""

    def _take(self, holder: Holder, ttl_ms: int) -> int:
        """Take it, and put a fence at the end of the log before anything else."""
        objects = self._store.objects
        while True:
            folder = self._store.names.made(self._key).folder
            found, etag, _ = held(objects, folder)
            if found.holder != holder:
                check_free(objects, self._key, folder)
            # At least the time: a key of this name may have been dropped or moved away, and its writer must not be
            # taken for the writer of this one.
            epoch = max(found.epoch + 1, time.time_ns() // 1000)
            if not objects.put_value(f"{folder}/lease", HeldKey(epoch, ttl_ms, holder), etag):
                continue
            try:
                if not LogObjects(objects, folder).fence(epoch, self._key) and self._claims:
                    self._store.spellings.check(self._key)
            except Sealed:
                self._store.bury(self._key, folder)
            except Fenced:
                continue  # a later one was quicker
            except InvalidId:
                _change_held(objects, folder, epoch, lambda old: HeldKey(old.epoch))
                raise
            else:
                self._store.forget_writing(self._key)
                self.folder = folder
                return epoch

    def renew(self, ttl_ms: int) -> None:
        named = self._store.names.get(self._key)
        is_there = self._holder is not None and named is not None and named.name.folder == self.folder
        if not is_there or not renew_one(self._store.objects, self.folder, self._epoch, ttl_ms):
            raise stale(self._key)

    def _give_back(self) -> None:
        objects = self._store.objects
        self._store.forget_writing(self._key)
        with contextlib.suppress(HoldfastError):  # out of reach, it expires
            _change_held(objects, self.folder, self._epoch, lambda old: HeldKey(old.epoch))
        # After the release: the next holder need not wait for this.
        with contextlib.suppress(HoldfastError):  # small objects only cost time
            LogObjects(objects, self.folder).compact()

    def abandon(self) -> None:
        """Keep it for good: the key is about to be removed."""
        self._holder = None
        self._renewer.let_go(self)


# The names of a bucket's keys: small objects that map a key to a folder.
# Every change of a name is by compare-and-swap, also its end: a name is never deleted, since between a check and the
# deletion another process could have created the key anew. A removed name leaves an empty object, which a list shows as
# such without a request for it.
_GONE = b""
_ID = re.compile(r"[0-9a-f]{32}")


class Name(msgspec.Struct, omit_defaults=True, frozen=True):
    """The id that a key refers to."""

    id: str
    to: str = ""  # where it is being moved to; the key is gone once the new name exists
    gone: bool = False  # the key is gone, and its data is being removed

    @property
    def folder(self) -> str:
        """The folder of the key's objects."""
        return f"data/{self.id}"


class Named(NamedTuple):
    """A name, and the etag of this version of it."""

    name: Name
    etag: str


class Names:
    """All names below one prefix."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def get(self, key: str) -> Named | None:
        """Return the name of an existing key. Raises Damaged."""
        named = self.raw(key)[0]
        if named is None or named.name.gone:
            return None
        if named.name.to:
            moved = self.raw(named.name.to)[0]
            if moved is not None and moved.name.id == named.name.id and not moved.name.gone:
                self.swap(key, named.etag, None)  # a move that a crash interrupted
                return None
        return named

    def raw(self, key: str) -> tuple[Named | None, str]:
        """Return the name in an object, with its etag; None and the etag of a removed one."""
        found = self._objects.get(f"names/{key}")
        if found is None or found.data == _GONE:
            return None, "" if found is None else found.etag
        try:
            name = msgspec.json.decode(found.data, type=Name)
        except msgspec.MsgspecError as error:
            raise Damaged(f"the name of {key} cannot be read: {error}") from error
        if not _ID.fullmatch(name.id):
            raise Damaged(f"the name of {key} stands for no folder")
        return Named(name, found.etag), found.etag

    def claim(self, key: str, name: Name) -> bool:
        """Give a key without a name one; return False if it has one by now."""
        named, etag = self.raw(key)
        if named is not None and not named.name.gone:
            return named.name == name
        return self._objects.put_value(f"names/{key}", name, etag)

    def swap(self, key: str, etag: str, name: Name | None) -> bool:
        """Replace this version of a name; with None the key has no name any more."""
        data = _GONE if name is None else msgspec.json.encode(name)
        return self._objects.swap(f"names/{key}", data, etag)

    def made(self, key: str) -> Name:
        """Return the name of a key, created if there is none."""
        while True:
            named = self.get(key)
            if named is not None:
                return named.name
            self.claim(key, Name(uuid4().hex))

    def listed(self, prefix: str) -> Iterator[tuple[str, ListedObject]]:
        """Yield the keys of a folder that may have a name."""
        for one in self._objects.list(f"names/{prefix}"):
            key = one.path.removeprefix("names/")
            if one.size and "/" not in key.removeprefix(prefix) and is_key(key):
                yield key, one


class Spellings:
    """The keys with capitals, by their folded form: another key can clash by case alone only with one of those.

    An object for each folded name, written before the session exists and never removed: a check looks
    whether such a session exists now. A bucket that has none is listed once.
    """

    def __init__(self, objects: Objects, names: Names) -> None:
        self._objects = objects
        self._names = names
        self._listed: set[str] = set()

    def others(self, key: str) -> list[str]:
        """Return the keys that differ from this one only by case and may exist. Writes nothing."""
        folded = _folded(key)
        if self._is_listed(folder := folder_of(key)):
            found = self._recorded(folded)[0]
        else:
            found = [one for one, _ in self._names.listed(folder) if _folded(one) == folded]
        return [one for one in dict.fromkeys((folded, *found)) if one != key]

    def check(self, key: str, besides: str = "") -> None:
        """Record a session being created, which has its lease or log; raise InvalidId if a namesake has one."""
        if not is_session(key):
            return
        if not self._is_listed(folder := folder_of(key)):
            for one, _ in self._names.listed(folder):
                self._record(one)
            self._objects.put(f"spellings/{folder}.listed", b"listed")
        self._record(key)
        for other in self.others(key):
            named = self._names.get(other)
            if other != besides and named is not None and self._is_made(other, named.name.folder):
                raise clashing(key, other)

    def _is_made(self, key: str, folder: str) -> bool:
        """Return whether a key has a log, or a holder about to create it; one long silent is fenced off."""
        found = held(self._objects, folder)[0]
        try:
            if LogObjects(self._objects, folder).exists():
                return True
            check_free(self._objects, key, folder)
            return found.holder is not None and LogObjects(self._objects, folder).fence(found.epoch + 1, key)
        except (Locked, Fenced):
            return True
        except Sealed:
            return False

    def _record(self, key: str) -> None:
        folded = _folded(key)
        while folded != key:
            found, etag = self._recorded(folded)
            if key in found or self._objects.put_value(f"spellings/{folded}", [*found, key], etag):
                return

    def _recorded(self, folded: str) -> tuple[list[str], str]:
        found, etag, _ = self._objects.get_value(f"spellings/{folded}", list[str], f"the spellings of {folded}")
        return found or [], etag

    def _is_listed(self, folder: str) -> bool:
        if folder not in self._listed and self._objects.get(f"spellings/{folder}.listed") is not None:
            self._listed.add(folder)
        return folder in self._listed


def _folded(key: str) -> str:
    return folder_of(key) + fold_id(key.rpartition("/")[2])


# The lists of a bucket's keys: what was seen before is not requested again.
S = TypeVar("S")
T = TypeVar("T")
_AT_ONCE = 16
# Up to this number of keys are looked up one by one; for more the whole bucket is listed once.
_FEW_KEYS = 32
_KEPT_MAX = 100_000


class AtOnce:
    """Runs several requests at a time, on threads that are created when first needed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._forks = forks.count

    def map(self, work: Callable[[S], T], values: Iterable[S]) -> Iterable[T]:
        """Return the results of ``work`` for each value, in their order."""
        with self._lock:
            if self._pool is None or self._forks != forks.count:
                self._forks = forks.count
                self._pool = ThreadPoolExecutor(_AT_ONCE, "holdfast-bucket")
            return self._pool.map(work, values)

    def close(self) -> None:
        """End the threads; it can be used again."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._forks == forks.count:
            pool.shutdown()


class Listing:
    """The entries of a bucket's keys, as lists show them."""

    def __init__(self, objects: Objects, names: Names, at_once: AtOnce) -> None:
        self._objects = objects
        self._names = names
        self._at_once = at_once
        self._heads: dict[str, tuple[str, Head]] = {}
        self._ids: dict[str, tuple[str, Named | None]] = {}

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield every key of a folder that has a log."""
        found = list(self._names.listed(prefix))
        marks = {key: one.etag for key, one in found}
        yield from (msgspec.structs.replace(entry, folder=marks[entry.key]) for entry in self._of_names(found))

    def _of_names(self, found: list[tuple[str, ListedObject]]) -> Iterator[Entry]:
        named = self._at_once.map(self._named, found)
        keys = {key: one.name for (key, _), one in zip(found, named, strict=True) if one}
        if len(keys) <= _FEW_KEYS:
            yield from filter(None, self._at_once.map(lambda one: self.entry(*one), keys.items()))
            return
        listed: dict[str, list[ListedObject]] = {name.folder: [] for name in keys.values()}
        for one in self._objects.list("data/"):
            objects = listed.get("/".join(one.path.split("/", 2)[:2]))
            if objects is not None:
                objects.append(one)
        everything = [(key, name, listed[name.folder]) for key, name in keys.items()]
        yield from filter(None, self._at_once.map(lambda one: self.entry(*one), everything))

    def entry(self, key: str, name: Name, listed: list[ListedObject] | None = None) -> Entry | None:
        """Return the entry of one key, by a list of its folder; None if it has no log."""
        folder = name.folder
        objects = list(self._objects.list(f"{folder}/")) if listed is None else listed
        pieces = LogObjects(self._objects, folder)
        etag = next((one.etag for one in objects if one.path == f"{folder}/head"), "")
        known = self._heads.get(pieces.folder)
        if known is None or known[0] != etag:
            known = (etag, pieces.head() if etag else Head())
            if len(self._heads) >= _KEPT_MAX:
                self._heads.clear()
            self._heads[pieces.folder] = known
        head = known[1]
        found = pieces.pieces_of(head, objects)
        if head.sealed or not (head.generation or any(one.size for one in found)):
            return None
        modified = pieces.changed_ms(head, objects)
        size, last = end_of(found), found[-1].last if found else 0
        return Entry(key, size, modified, f"{folder}-{head.mark}-{last}-{size}")

    def _named(self, found: tuple[str, ListedObject]) -> Named | None:
        """Return the name of a key as a list shows it; None if it is not one of ours."""
        key, one = found
        known = self._ids.get(key)
        if known is None or known[0] != one.etag or (known[1] and known[1].name.to):
            try:
                known = (one.etag, self._names.get(key))
            except StoreError:
                raise
            except HoldfastError:  # it is damaged
                known = (one.etag, None)
            if len(self._ids) >= _KEPT_MAX:
                self._ids.clear()
            self._ids[key] = known
        return known[1]
