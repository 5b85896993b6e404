"""Branches: what every store asks before it makes one, and one as a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdfast.errors import Conflict, NotFound, UsageError
from holdfast.storage._names import check_key
from holdfast.storage.base import BLOBS, Store

_LEASE_MS = 60_000


def check_branch(store: Store, key: str, to: str, size: int) -> None:
    """Raise what ``Store.branch`` raises before it does anything."""
    check_key(to)
    if size < 1:
        raise UsageError("a branch begins with at least one line")
    if not store.exists(key):
        raise NotFound(f"there is no log at {key}")
    found = store.log(key).size()
    if size > found:
        raise Conflict(f"the log of {key} has {found:,} bytes, fewer than {size:,}")
    if store.exists(to):
        raise Conflict(f"{to} is taken")


def copy_branch(store: Store, key: str, to: str, size: int, documents: Mapping[str, bytes]) -> None:
    """A branch as a copy, for stores that have no better way.

    It is right on every store, and as slow as the log is long.
    """
    check_branch(store, key, to, size)
    lease = store.lease(to)
    epoch = lease.acquire("store", _LEASE_MS)
    try:
        if store.exists(to):
            raise Conflict(f"{to} is taken")
        source, target = store.documents(key), store.documents(to)
        for name in source.names(BLOBS):
            found = source.get(name)
            if found is not None:
                target.put(name, found[0])
        for name, data in documents.items():
            target.put(name, data)
        log = store.log(to)
        log.replace(first_bytes(store.log(key).read(), size), epoch)
        log.close()
    finally:
        lease.release()


def first_bytes(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """At most the first ``size`` bytes of what comes in chunks."""
    for chunk in chunks:
        yield chunk[:size]
        size -= len(chunk)
        if size <= 0:
            return
