"""The contract of an index: what is kept of each session; and one that is a plain dictionary."""

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
    from holdfast.catalog._search import Asked, Hit
    from holdfast.catalog._usage import Prices
    from holdfast.storage import Store

PREFIX = "sessions/"
NEVER_READ = ""


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the index knows of the log from which it knows a session."""

    etag: str = NEVER_READ  # of the log when it was read to its end; empty as long as there is more to read
    folder: str = ""
    generation: str = ""
    position: Position = START  # after the last event that the row knows: its seq, length and checksum
    chained: bool = False
    damaged: bool = False
    lost: int = 0  # how many events the index knew that the log has lost since
    cut_short: bool = False  # whether the log ends in mid-turn
    asks: bool = False  # whether there are questions that it waits for, or that were answered and not gone on with
    closed: bool = True
    pid: int | None = None
    host: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether no process can change what is shown of the session without changing its log."""
        return self.closed and not self.cut_short


class Row(msgspec.Struct, frozen=True):
    """All that the index knows of a session."""

    meta: SessionMetadata
    """As the log alone tells it: whether a writer lives is for the moment of asking."""
    trace: Trace


class Kept(msgspec.Struct, frozen=True):
    """A row with what is needed to go on from there."""

    row: Row
    state: bytes = b""
    tally: bytes = b""
    number: int = 0
    version: int = 0  # changes whenever the row is written


class IndexUpdate(Kept, frozen=True, kw_only=True):
    """What one look at a log found out; ``version`` is of the row from which the look went on."""

    events: Sequence[Event] = ()
    whole: bool = False  # whether the events are all there are, so that what was known before is forgotten


class Index(ABC):
    """One row for each session. Not safe for threads: whoever has it sees to that.

    Every call may raise IndexDamaged or an error of the database; the index is then of no further
    use until it is cleared or another one is made.
    """

    prices: Prices | None = None  # by which costs are computed; None for those that come with this version
    place: str | None = None  # where it is, to be shown, if it is in no file; None if it is
    note: str | None = None  # what should be known about it, such as what it has to do without

    @property
    def price_mark(self) -> str:
        """What tells its prices from others."""
        return "" if self.prices is None else self.prices.mark

    @abstractmethod
    def mark(self) -> str:
        """The mark of the store up to which the index is complete; empty if it is not known."""

    @abstractmethod
    def get(self, id: str) -> Kept | None:
        """What is kept of a session."""

    @abstractmethod
    def known(self, ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """The etag and the folder of those of these sessions that it has, by id. Each row is verified."""

    def verify(self) -> None:  # noqa: B027 - not where others see to that
        """Raise IndexDamaged unless every row that was written is there, as it was written."""

    @abstractmethod
    def folders(self) -> dict[str, str]:
        """The folder of every session, by id: cheaper than ``known``, and not verified as that."""

    @abstractmethod
    def write(self, updates: Sequence[IndexUpdate], gone: Collection[str] = (), mark: str | None = None) -> list[str]:
        """Put in all at once, or nothing; the ids whose row others changed since, which stay. Then no mark is set."""

    @abstractmethod
    def page(self, wanted: Filter, limit: int | None, after: Place | None, order: Order = NEWEST) -> Page:
        """Sessions, in order. Without a limit every row is verified."""

    @abstractmethod
    def ids(self, prefix: str) -> list[str]:
        """The ids that begin with ``prefix``, case aside, in no order."""

    @abstractmethod
    def asking(self) -> list[str]:
        """The ids of sessions that have questions, in no order."""

    @abstractmethod
    def count(self) -> int:
        """How many sessions there are."""

    @abstractmethod
    def search(self, store: Store, asked: Asked) -> list[Hit]:
        """The events that fit, best first; each is verified against its log."""

    @abstractmethod
    def tallies(self, block: int | None = None) -> Iterable[tuple[SessionMetadata, bytes]]:
        """Every session with its tally, or those of a block, in no order. All are verified."""

    def figures(
        self, variant: str, make: Callable[[int], bytes]
    ) -> AbstractContextManager[Iterable[tuple[int, bytes]] | None]:
        """Every block of sessions with what ``make`` once said of it; None where none are kept.

        What was written since is not told as long as the context lasts. ``variant`` tells one way
        of making from another.
        """
        return nullcontext()

    def check_unmoved(self) -> None:  # noqa: B027 - nobody else has what is in a file or in memory
        """Raise IndexMoved if others made the index anew since its mark was asked for."""

    def audited(self) -> int:
        """When an audit of it began last, or when it was made: in ms since 1970."""
        return 0

    def note_audit(self, time_ms: int) -> None:  # noqa: B027 - in memory none is due
        """Keep when an audit begins, so that others need not do the same."""

    def audit(self, hear: Hear | None) -> Iterator[None]:
        """Compare all with itself and, with ``hear``, with logs, a little between yields. Raises IndexDamaged."""
        return iter(())

    def is_worn(self) -> bool:
        """Whether so much of it is of sessions that are gone that it should be made anew."""
        return False

    @abstractmethod
    def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


def shown(row: Row) -> SessionMetadata:
    """A row as a list shows it now, on this machine."""
    meta, trace = row.meta, row.trace
    if trace.is_settled:
        return meta
    now = liveness(closed=trace.closed, cut_short=trace.cut_short, pid=trace.pid, host=trace.host)
    if now == OPEN:
        return msgspec.structs.replace(meta, open=True)
    return meta if now is None else msgspec.structs.replace(meta, status="interrupted")


def make_page(rows: Sequence[SessionMetadata], limit: int | None, order: Order = NEWEST) -> Page:
    """One page of rows, of which there may be one more than fit on it."""
    page = Page(rows if limit is None else rows[:limit])
    page.has_more = len(rows) > len(page)
    page.order = order
    return page


# The index as a plain dictionary, for a Python without SQLite.
class PlainIndex(Index):
    """Rows by id, for as long as the process lives."""

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
