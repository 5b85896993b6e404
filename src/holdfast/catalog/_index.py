"""The contract of an index of sessions; and one that is a plain dictionary."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from holdfast.catalog._filter import NEWEST, OPEN, Filter, Order, Page, Place, arranged, liveness
from holdfast.model import START, Event, Position, SessionMetadata, fold_id

if TYPE_CHECKING:
    from holdfast.catalog._catch_up import Hear
    from holdfast.catalog._prices import Prices
    from holdfast.catalog._search import Asked, Hit
    from holdfast.storage import Store

PREFIX = "sessions/"
NEVER_READ = ""


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The index's record of a session's log."""

    etag: str = NEVER_READ  # of the log when it was read to its end; empty while there is more to read
    folder: str = ""
    generation: str = ""
    position: Position = START  # after the last event in the row: its seq, length and checksum
    chained: bool = False
    damaged: bool = False
    lost: int = 0  # the number of indexed events that the log has lost since
    cut_short: bool = False  # whether the log ends in mid-turn
    asks: bool = False  # whether it has questions that are open, or answered but not processed
    closed: bool = True
    pid: int | None = None
    host: str | None = None

    @property
    def is_settled(self) -> bool:
        """True if nothing but a change of the log can change how the session is listed."""
        return self.closed and not self.cut_short


class Row(msgspec.Struct, frozen=True):
    """Everything that the index knows about a session."""

    meta: SessionMetadata
    """According to the log alone: whether it has a writer is determined at query time."""
    trace: Trace


class Kept(msgspec.Struct, frozen=True):
    """A row with the state needed to continue from there."""

    row: Row
    state: bytes = b""
    tally: bytes = b""
    number: int = 0
    version: int = 0  # changes whenever the row is written


class IndexUpdate(Kept, frozen=True, kw_only=True):
    """The result of one look at a log; ``version`` is that of the row from which the look continued."""

    events: Sequence[Event] = ()
    whole: bool = False  # whether the events are all there are, so that earlier data is discarded


class Index(ABC):
    """One row for each session. Not thread-safe: the owner locks.

    Every call may raise IndexDamaged or an error of the database; the index is then unusable
    until it is cleared or another one is created.
    """

    prices: Prices | None = None  # used to compute costs; None for the prices of this version
    place: str | None = None  # the place to show, if it is not in a file; None if it is
    note: str | None = None  # a remark about it, such as a missing feature

    @property
    def price_mark(self) -> str:
        """The mark of its prices, which distinguishes them from others."""
        return "" if self.prices is None else self.prices.mark

    @abstractmethod
    def mark(self) -> str:
        """Return the mark of the store up to which the index is complete; empty if unknown."""

    @abstractmethod
    def get(self, id: str) -> Kept | None:
        """Return the stored row of a session."""

    @abstractmethod
    def known(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the etag and the folder of these sessions, as far as it has them, by id. Each row is verified."""

    def verify(self) -> None:  # noqa: B027 - not where others see to that
        """Raise IndexDamaged unless every row that was written is there, as it was written."""

    @abstractmethod
    def folders(self) -> dict[str, str]:
        """Return the folder of every session, by id: cheaper than ``known``, and less verified."""

    @abstractmethod
    def write(self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None) -> list[str]:
        """Write all at once, or nothing; return the ids whose row others changed since, which stay.

        Then no mark is set.
        """

    @abstractmethod
    def page(self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST) -> Page:
        """Return sessions, in order. Without a limit every row is verified."""

    @abstractmethod
    def ids(self, prefix: str) -> list[str]:
        """Return the ids that begin with ``prefix``, case aside, in no order."""

    @abstractmethod
    def asking(self) -> list[str]:
        """Return the ids of sessions that have questions, in no order."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of sessions."""

    @abstractmethod
    def search(self, store: Store, asked: Asked) -> list[Hit]:
        """Return the matching events, best first; each is verified against its log."""

    @abstractmethod
    def tallies(self, block: int | None = None) -> Iterable[tuple[SessionMetadata, bytes]]:
        """Yield every session with its tally, or those of a block, in no order. All are verified."""

    def figures(
        self, variant: str, make: Callable[[int], bytes]
    ) -> AbstractContextManager[Iterable[tuple[int, bytes]] | None]:
        """Return every block of sessions with the kept result of ``make``; None where none are kept.

        Later writes are not included while the context lasts. ``variant`` distinguishes one ``make``
        from another.
        """
        return nullcontext()

    def check_unmoved(self) -> None:  # noqa: B027 - nobody else has what is in a file or in memory
        """Raise IndexMoved if others rebuilt the index since its mark was read."""

    def audited(self) -> int:
        """Return when an audit of it began last, or when it was created: in ms since 1970."""
        return 0

    def note_audit(self, time_ms: int) -> None:  # noqa: B027 - in memory none is due
        """Note when an audit begins, so that others need not do the same."""

    def audit(self, hear: Hear | None) -> Iterator[None]:
        """Compare the index with itself and, with ``hear``, with logs, a little between yields. Raises IndexDamaged."""
        return iter(())

    def is_worn(self) -> bool:
        """Return whether so much of it belongs to deleted sessions that it should be rebuilt."""
        return False

    @abstractmethod
    def clear(self) -> None:
        """Remove everything."""

    @abstractmethod
    def close(self) -> None:
        """Release open resources."""


def shown(row: Row) -> SessionMetadata:
    """Return a row as a list shows it now, on this machine."""
    meta, trace = row.meta, row.trace
    if trace.is_settled:
        return meta
    now = liveness(closed=trace.closed, cut_short=trace.cut_short, pid=trace.pid, host=trace.host)
    if now == OPEN:
        return msgspec.structs.replace(meta, open=True)
    return meta if now is None else msgspec.structs.replace(meta, status="interrupted")


def make_page(rows: Sequence[SessionMetadata], limit: int | None, order: Order = NEWEST) -> Page:
    """Return one page of rows, of which there may be one more than fit on it."""
    page = Page(rows if limit is None else rows[:limit])
    page.has_more = len(rows) > len(page)
    page.order = order
    return page


# The index as a plain dictionary, for a Python without SQLite.
class PlainIndex(Index):
    """Rows by id, for the life of the process."""

    def __init__(self) -> None:
        self._rows: dict[str, Kept] = {}
        self._mark = ""
        self._versions = itertools.count(1)

    def mark(self) -> str:
        return self._mark

    def get(self, id: str) -> Kept | None:
        return self._rows.get(id)

    def known(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        found = {id: self._rows[id].row.trace for id in ids if id in self._rows}
        return {id: (trace.etag, trace.folder) for id, trace in found.items()}

    def folders(self) -> dict[str, str]:
        return {id: kept.row.trace.folder for id, kept in self._rows.items()}

    def write(self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None) -> list[str]:
        for update in updates:
            version = next(self._versions)
            kept = Kept(update.row, update.state, update.tally, version=version)
            self._rows[update.row.meta.session_id] = kept
        for id in gone:
            self._rows.pop(id, None)
        self._mark = self._mark if mark is None else mark
        return []

    def page(self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST) -> Page:
        found = [shown(kept.row) for kept in self._rows.values()]
        return make_page(arranged(filter(wanted.admits, found), order, after), limit, order)

    def ids(self, prefix: str) -> list[str]:
        return [id for id in self._rows if fold_id(id).startswith(fold_id(prefix))]

    def asking(self) -> list[str]:
        return [id for id, kept in self._rows.items() if kept.row.trace.asks]

    def count(self) -> int:
        return len(self._rows)

    def search(self, store: Store, asked: Asked) -> list[Hit]:
        from holdfast.catalog._search import scan_logs

        return scan_logs(store, self.page(asked.sessions, None, None), asked)

    def tallies(self, block: int | None = None) -> Iterable[tuple[SessionMetadata, bytes]]:
        return [(kept.row.meta, kept.tally) for kept in self._rows.values()]

    def clear(self) -> None:
        self._rows.clear()
        self._mark = ""

    def close(self) -> None:
        """Nothing is open."""
