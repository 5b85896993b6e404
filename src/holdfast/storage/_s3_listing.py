"""What a list of a bucket says of its keys: what was seen before is not asked for again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.errors import HoldfastError, StoreError
from holdfast.storage._s3_head import Head
from holdfast.storage._s3_log import Pieces
from holdfast.storage._s3_names import Name, Named, Names
from holdfast.storage._s3_objects import Listed, Objects
from holdfast.storage._s3_pieces import end_of
from holdfast.storage.base import Entry
from holdfast.storage.disk import forks

__all__ = ["AtOnce", "Listing"]

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
        listed: dict[str, list[Listed]] = {name.folder: [] for name in keys.values()}
        for one in self._objects.list("data/"):
            objects = listed.get("/".join(one.path.split("/", 2)[:2]))
            if objects is not None:
                objects.append(one)
        everything = [(key, name, listed[name.folder]) for key, name in keys.items()]
        yield from filter(None, self._at_once.map(lambda one: self.entry(*one), everything))

    def entry(self, key: str, name: Name, listed: list[Listed] | None = None) -> Entry | None:
        """The entry of one key, of what is listed of its folder; None if it has no log."""
        folder = name.folder
        objects = list(self._objects.list(f"{folder}/")) if listed is None else listed
        pieces = Pieces(self._objects, folder)
        etag = next((one.etag for one in objects if one.path == f"{folder}/head"), "")
        head = self._head(pieces, etag)
        found = pieces.pieces_of(head, objects)
        if head.sealed or not (head.generation or any(one.size for one in found)):
            return None
        modified = pieces.changed_ms(head, objects)
        size, last = end_of(found), found[-1].last if found else 0
        return Entry(key, size, modified, f"{folder}-{head.mark}-{last}-{size}")

    def _named(self, found: tuple[str, Listed]) -> Named | None:
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

    def _head(self, pieces: Pieces, etag: str) -> Head:
        known = self._heads.get(pieces.folder)
        if known is None or known[0] != etag:
            known = (etag, pieces.head() if etag else Head())
            if len(self._heads) >= _KEPT_MAX:
                self._heads.clear()
            self._heads[pieces.folder] = known
        return known[1]
