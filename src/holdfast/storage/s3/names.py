"""The names of a bucket's keys: small objects that say which folder a key stands for.

Every change of a name is by compare and swap, also its end: a name is never deleted, since between
looking and deleting another one could have made the key anew. What is left of a name that went is
an empty object, which a list shows as such without being asked for it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from holdfast.errors import Damaged, HoldfastError, StoreError
from holdfast.storage.base import Entry, check_key
from holdfast.storage.disk import forks
from holdfast.storage.s3.log import Head, LogObjects, end_of
from holdfast.storage.s3.objects import ListedObject, Objects

_GONE = b""
_ID = re.compile(r"[0-9a-f]{32}")


class Name(msgspec.Struct, omit_defaults=True, frozen=True):
    """Which id a key stands for."""

    id: str
    to: str = ""
    """Where it is being moved to; the key is gone once the new name is there."""
    gone: bool = False
    """The key is gone, and what it had is being removed."""

    @property
    def folder(self) -> str:
        """Where the things of the key lie."""
        return f"data/{self.id}"


class Named(NamedTuple):
    """A name, and the mark of this version of it."""

    name: Name
    etag: str


class Names:
    """All names below one prefix."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def get(self, key: str) -> Named | None:
        """The name of a key that has one. Raises Damaged."""
        named = self.raw(key)[0]
        if named is None or named.name.gone:
            return None
        if named.name.to:
            moved = self.raw(named.name.to)[0]
            if moved is not None and moved.name.id == named.name.id and not moved.name.gone:
                self.swap(key, named.etag, None)  # a move that a crash kept from its end
                return None
        return named

    def raw(self, key: str) -> tuple[Named | None, str]:
        """What the object of a name says, with its etag; None and the etag of one that went."""
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
        """Give a key a name that has none; False if it has one by now."""
        named, etag = self.raw(key)
        if named is not None and not named.name.gone:
            return named.name == name
        path, data = f"names/{key}", msgspec.json.encode(name)
        if etag:
            return self._objects.swap(path, data, etag)
        return self._objects.create(path, data)

    def swap(self, key: str, etag: str, name: Name | None) -> bool:
        """Replace this version of a name; with None the key has no name any more."""
        data = _GONE if name is None else msgspec.json.encode(name)
        return self._objects.swap(f"names/{key}", data, etag)

    def made(self, key: str) -> Name:
        """The name of a key, which is made if there is none."""
        while True:
            named = self.get(key)
            if named is not None:
                return named.name
            self.claim(key, Name(uuid4().hex))

    def listed(self, prefix: str) -> Iterator[tuple[str, ListedObject]]:
        """The keys of a folder that may have a name."""
        for one in self._objects.list(f"names/{prefix}"):
            key = one.path.removeprefix("names/")
            if one.size and "/" not in key.removeprefix(prefix) and _is_key(key):
                yield key, one


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except HoldfastError:
        return False
    return True


# What a list of a bucket says of its keys: what was seen before is not asked for again.


S = TypeVar("S")
T = TypeVar("T")
_AT_ONCE = 16
# So many keys are looked up one by one; for more the whole bucket is listed once.
_FEW_KEYS = 32
_KEPT_MAX = 100_000


class AtOnce:
    """Several requests at a time, on threads that are made when they are first needed."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._forks = forks.count

    def map(self, work: Callable[[S], T], values: Iterable[S]) -> Iterable[T]:
        """What ``work`` gives for each value, in their order."""
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
        """Every key of a folder that has a log."""
        found = list(self._names.listed(prefix))
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
        """The entry of one key, of what is listed of its folder; None if it has no log."""
        folder = name.folder
        objects = list(self._objects.list(f"{folder}/")) if listed is None else listed
        pieces = LogObjects(self._objects, folder)
        etag = next((one.etag for one in objects if one.path == f"{folder}/head"), "")
        head = self._head(pieces, etag)
        found = pieces.pieces_of(head, objects)
        if head.sealed or not (head.generation or any(one.size for one in found)):
            return None
        modified = pieces.changed_ms(head, objects)
        size, last = end_of(found), found[-1].last if found else 0
        return Entry(key, size, modified, f"{folder}-{head.mark}-{last}-{size}")

    def _named(self, found: tuple[str, ListedObject]) -> Named | None:
        """The name of a key as a list shows it; None for what is no name of ours."""
        key, one = found
        known = self._ids.get(key)
        if known is None or known[0] != one.etag or (known[1] and known[1].name.to):
            try:
                known = (one.etag, self._names.get(key))
            except StoreError:
                raise
            except HoldfastError:  # what stands there is damaged
                known = (one.etag, None)
            if len(self._ids) >= _KEPT_MAX:
                self._ids.clear()
            self._ids[key] = known
        return known[1]

    def _head(self, pieces: LogObjects, etag: str) -> Head:
        known = self._heads.get(pieces.folder)
        if known is None or known[0] != etag:
            known = (etag, pieces.head() if etag else Head())
            if len(self._heads) >= _KEPT_MAX:
                self._heads.clear()
            self._heads[pieces.folder] = known
        return known[1]
