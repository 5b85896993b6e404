"""A space: a store inside a store, that of one user among many.

Everything in a space is below ``spaces/<name>/``. The holder of a space can name nothing else: a key is
checked before the prefix is added, and a checked key has no dots, no slashes and no space in its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.errors import InvalidId
from holdfast.model import check_id, fold_id
from holdfast.storage.base import Changes, Entry, Log, Pieces, Store, check_key, check_prefix

if TYPE_CHECKING:
    from concurrent.futures import Future


def check_space(name: object) -> str:
    """Return ``name`` if it is valid for a space: an id in small letters. Raises InvalidId."""
    checked = check_id(name, what="space")
    if checked != fold_id(checked):
        # On some systems two names that differ only by case would be the same folder.
        raise InvalidId(f"{checked!a} is not a space: only small letters", id=checked)
    return checked


F = TypeVar("F", bound=Callable[..., Any])


def _of_key(method: F) -> F:
    """Return the method applied to a key of the space."""

    @wraps(method, updated=())  # without its being abstract
    def of_key(self: SpaceStore, key: str, *args: Any, **options: Any) -> Any:
        return getattr(self._store, method.__name__)(self._key(key), *args, **options)

    return of_key  # type: ignore[return-value]  # it takes and gives what the method does


class SpaceStore(Store):
    """The keys below ``spaces/<name>/`` of another store, as a store of their own; it closes a store that it owns."""

    def __init__(self, store: Store, name: str, *, owns: bool = True) -> None:
        if isinstance(store, SpaceStore):
            raise InvalidId("there are no spaces in a space", id=name)
        self.space = self._name = check_space(name)
        self._store = store
        self._owns = owns
        self._prefix = f"spaces/{self._name}/"
        self.url = store.url
        self.capabilities = store.capabilities

    @property
    def identity(self) -> str:
        """The store's identity and the name, which no other store can have."""
        return f"{self._store.identity}#{self._prefix}"

    log = _of_key(Store.log)
    documents = _of_key(Store.documents)
    lease = _of_key(Store.lease)
    exists = _of_key(Store.exists)
    stamp = _of_key(Store.stamp)
    kept_open = _of_key(Store.kept_open)
    may_hold = _of_key(Store.may_hold)
    drop = _of_key(Store.drop)
    forget = _of_key(Store.forget)
    base_size = _of_key(Store.base_size)
    detach = _of_key(Store.detach)
    archive = _of_key(Store.archive)
    unarchive = _of_key(Store.unarchive)
    is_archived = _of_key(Store.is_archived)
    wait = _of_key(Store.wait)
    location = _of_key(Store.location)

    def clash(self, key: str) -> str | None:
        found = self._store.clash(self._key(key))
        return None if found is None else self._own(found)

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Sync on the thread of the store, together with other spaces."""
        return self._store.sync({self._key(key): log for key, log in logs.items()})

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        for entry in self._store.entries(self._folder(prefix)):
            yield msgspec.structs.replace(entry, key=self._own(entry.key))

    def entry(self, key: str) -> Entry | None:
        found = self._store.entry(self._key(key))
        return None if found is None else msgspec.structs.replace(found, key=key)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        found = self._store.folders(self._folder(prefix))
        return {self._own(key): mark for key, mark in found.items()}

    def read_pieces(self, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
        asked = {self._key(key): places for key, places in starts.items()}
        found = self._store.read_pieces(asked, size)
        return {self._own(key): pieces for key, pieces in found.items()}

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        found = self._store.changes(mark, self._folder(prefix))
        if found.keys is None:
            return found
        return msgspec.structs.replace(found, keys=frozenset(map(self._own, found.keys)))

    def catalog_place(self) -> str | None:
        """Return a file for this space alone, so that queries cannot find anything of another."""
        return self._store.space_catalog_place(self._name)

    def move(self, key: str, to: str) -> None:
        self._store.move(self._key(key), self._key(to))

    def drop_all(self, keys: Sequence[str]) -> None:
        self._store.drop_all([self._key(key) for key in keys])

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        self._store.branch(self._key(key), self._key(to), size, documents=documents)

    def scrub(self) -> list[str]:
        return self._store.scrub()

    def check(self) -> None:
        self._store.check()

    def close(self) -> None:
        """Close the store, if it is this space's own."""
        if self._owns:
            self._store.close()

    def _key(self, key: str) -> str:
        if check_key(key).startswith("spaces/"):
            raise InvalidId(f"{key[:80]!a} is not a key of a space", id=key)
        return self._prefix + key

    def _folder(self, prefix: str) -> str:
        if check_prefix(prefix)[0] == "spaces":
            raise InvalidId(f"{prefix[:80]!a} is not a folder of a space", id=prefix)
        return self._prefix + prefix

    def _own(self, key: str) -> str:
        assert key.startswith(self._prefix), "a store gave a key that was not asked for"
        return key[len(self._prefix) :]
