"""Sealed sessions in lists and searches: read with their key, kept in memory, never in the index.

To the catalogue a sealed session is a name and a size. Whoever has the key reads its log here when
it is asked for, and again only when it has changed.
"""

# Loaded late: only a store with sealed sessions needs it.
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import DataError, SecurityError

if TYPE_CHECKING:
    from holdfast.catalog import Asked, Feeder, Filter, Hit, Order, Page, Row
    from holdfast.model import SessionMetadata
    from holdfast.storage import Store

_PREFIX = "sessions/"
_KEPT_MAX = 10_000


class _Read(NamedTuple):
    etag: str
    row: Row


class SealedBooks:
    """What the sealed sessions of a store say to whoever has their keys."""

    def __init__(self, store: Store, feeder: Feeder) -> None:
        self._store = store
        self._feeder = feeder
        self._read: dict[str, _Read] = {}
        self._lock = threading.Lock()

    def page(self, wanted: Filter, limit: int | None, after: str | None, order: Order) -> Page:
        """A page of the catalogue with the sealed sessions in their places."""
        from holdfast.catalog import arranged, make_page, read_cursor

        catalog = self._feeder.catalog
        opened = self._opened()
        page = catalog.page(wanted, limit, after, order)
        if not opened:
            return page
        rows = [row for row in page if row.session_id not in opened]
        while limit is not None and len(rows) < limit and page.has_more:
            # To the catalogue a sealed session is a name: those are shown elsewhere.
            page = catalog.page(wanted, limit, page.next, order)
            rows += [row for row in page if row.session_id not in opened]
        place = None if after is None else read_cursor(after, order)
        mine = arranged(filter(wanted.admits, opened.values()), order, place)
        rows += mine if catalog.auto_tags else map(_without_auto_tags, mine)
        found = make_page(arranged(rows, order), limit, order)
        found.has_more = found.has_more or page.has_more
        return found

    def info(self, id: str, sealed: SessionMetadata) -> SessionMetadata:
        """One session; as the catalogue has it if it does not open."""
        return self._row(id) or sealed

    def search(self, hits: list[Hit], asked: Asked) -> list[Hit]:
        """What the index found, and what is in the sealed sessions."""
        from holdfast.catalog import scan_logs

        rows = [row for row in self._opened().values() if asked.sessions.admits(row)]
        if not rows:
            return hits
        more = scan_logs(self._store, rows, asked)
        found = sorted([*hits, *more], key=lambda hit: (-hit.score, -hit.timestamp))
        return found if asked.limit is None else found[: asked.limit]

    def _opened(self) -> dict[str, SessionMetadata]:
        """The sealed sessions that open with the keys at hand."""
        from holdfast.catalog import Filter

        # A row that tells nothing but its size has no time, so it stands at the end of all.
        closed = self._feeder.catalog.pages(Filter(until=0))
        found = {row.session_id: self._row(row.session_id) for row in closed if _is_sealed(row)}
        return {id: row for id, row in found.items() if row is not None}

    def _row(self, id: str) -> SessionMetadata | None:
        from holdfast.catalog import look, shown

        entry = self._store.entry(_PREFIX + id)
        if entry is None:
            return None
        with self._lock:
            known = self._read.get(id)
        if known is None or known.etag != entry.etag:
            try:
                row = look(self._store, entry, None, step_bytes=entry.size + 1).row
            except (SecurityError, DataError):
                return None  # one that does not open, or is damaged, stops no list
            if _is_sealed(row.meta):
                return None
            known = _Read(entry.etag, row)
            with self._lock:
                if len(self._read) >= _KEPT_MAX:
                    self._read.clear()
                self._read[id] = known
        return shown(known.row)  # whether its writer lives is seen each time


def _is_sealed(row: SessionMetadata) -> bool:
    return row.state == "sealed"


def _without_auto_tags(row: SessionMetadata) -> SessionMetadata:
    import msgspec

    return msgspec.structs.replace(row, auto_tags=())
