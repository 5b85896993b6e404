"""The index as a plain dictionary, for a Python without SQLite."""

# Loaded late: only a Python without SQLite needs it.
from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from holdfast.catalog._filter import Filter, Page
from holdfast.catalog._index import Index, IndexUpdate, Kept, make_page, shown
from holdfast.catalog._orders import NEWEST, Order, Place, arranged
from holdfast.model import SessionMetadata, fold_id

if TYPE_CHECKING:
    from holdfast.catalog._search import Asked, Hit
    from holdfast.storage import Store


class PlainIndex(Index):
    """Rows by id, for as long as the process lives."""

    def __init__(self) -> None:
        self._rows: dict[str, Kept] = {}
        self._mark = ""
        self._versions = itertools.count(1)

    def mark(self) -> str:
        """The mark that was set."""
        return self._mark

    def get(self, id: str) -> Kept | None:
        """One entry."""
        return self._rows.get(id)

    def known(self) -> dict[str, tuple[str, str]]:
        """Of every entry."""
        return {id: (kept.row.trace.etag, kept.row.trace.folder) for id, kept in self._rows.items()}

    def folders(self) -> dict[str, str]:
        """Of every entry."""
        return {id: kept.row.trace.folder for id, kept in self._rows.items()}

    def write(
        self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None
    ) -> list[str]:
        """Nobody else writes here."""
        for update in updates:
            version = next(self._versions)
            kept = Kept(update.row, update.state, update.tally, version=version)
            self._rows[update.row.meta.session_id] = kept
        for id in gone:
            self._rows.pop(id, None)
        self._mark = self._mark if mark is None else mark
        return []

    def page(
        self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST
    ) -> Page:
        """By looking at every entry."""
        found = [shown(kept.row) for kept in self._rows.values()]
        return make_page(arranged(filter(wanted.admits, found), order, after), limit, order)

    def ids(self, prefix: str) -> list[str]:
        """By looking at every id."""
        return [id for id in self._rows if fold_id(id).startswith(fold_id(prefix))]

    def count(self) -> int:
        """How many entries."""
        return len(self._rows)

    def search(self, store: Store, asked: Asked) -> list[Hit]:
        """By reading every log."""
        from holdfast.catalog._search import scan_logs

        return scan_logs(store, self.page(asked.sessions, None, None), asked)

    def tallies(self, block: int | None = None) -> Iterable[tuple[SessionMetadata, bytes]]:
        """Of every entry."""
        return [(kept.row.meta, kept.tally) for kept in self._rows.values()]

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()
        self._mark = ""

    def close(self) -> None:
        """Nothing is open."""
