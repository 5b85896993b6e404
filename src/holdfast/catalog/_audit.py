"""An audit of an index: whether it tells all that the logs tell, and nothing else.

Rows have checksums, which are verified whenever one is read. What leads to them has none: the
orders of lists, the labels, what was said where and its words. A bit that flips there can hide a
session or a hit, and SQLite need not notice. So an index is compared with the logs from time to
time, a little at a time; what does not fit makes it damaged, and it is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from holdfast.catalog._search_texts import Heard, Listener
from holdfast.errors import HoldfastError
from holdfast.session import read_range, resolve_blobs

if TYPE_CHECKING:
    from holdfast.catalog._index import Index, Row
    from holdfast.storage import Store

_PREFIX = "sessions/"
# What a longer log says is not compared: all of it would be in memory at once.
_LOG_BYTES_MAX = 64 << 20


class Told(NamedTuple):
    """What a log says that can be searched."""

    said: list[Heard]
    streaming: list[Heard]
    """What no final event covers yet."""


Hear = Callable[["Row"], "Told | None"]
"""Gives what the log of a row says; None unless it could be read whole, and is the same still."""


def audit(store: Store, index: Index, *, words: bool = True) -> Iterator[None]:
    """Compare an index with the logs, a little between two yields. Raises IndexDamaged.

    Without ``words`` no log is read: what fits together inside of the index is compared, and which
    sessions there are.
    """

    def hear(row: Row) -> Told | None:
        if row.meta.state != "ok" or row.trace.damaged or row.trace.lost:
            return None
        return _told(store, _PREFIX + row.meta.session_id, row.trace.etag)

    yield
    # The index first: what comes while the store is listed is then no surprise.
    known = index.known()
    yield
    there = {entry.key.removeprefix(_PREFIX) for entry in store.entries(_PREFIX)}
    strange = [id for id in known.keys() ^ there if _is_strange(store, index, id)]
    if strange:
        index.write([], mark="")  # whoever asks next compares everything, and reads what is missing
    yield
    yield from index.audit(hear if words else None)


def _is_strange(store: Store, index: Index, id: str) -> bool:
    """Whether only one of both knows a session, also when it is asked again."""
    return (store.entry(_PREFIX + id) is None) != (index.get(id) is None)


def _told(store: Store, key: str, etag: str) -> Told | None:
    if not _is_at(store, key, etag):
        return None
    listener = Listener()
    try:
        events = list(resolve_blobs(read_range(store.log(key)), store.documents(key)))
    except HoldfastError:
        return None  # what it cannot tell now it may tell the next time
    told = Told(listener.hear(events).heard, listener.shown_streams())
    return told if _is_at(store, key, etag) else None


def _is_at(store: Store, key: str, etag: str) -> bool:
    entry = store.entry(key)
    return entry is not None and entry.etag == etag and entry.size <= _LOG_BYTES_MAX
