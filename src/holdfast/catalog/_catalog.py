"""The catalogue of one store: an index that stays correct, whatever happens to its file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.catalog._catch_up import Lag, Progress, catch_up, lag, read_on
from holdfast.catalog._faults import IndexDamaged, IndexMoved, IndexRefused
from holdfast.catalog._filter import EVERYTHING, NEWEST, Filter, Order, Page, read_cursor
from holdfast.catalog._index import NEVER_READ, PREFIX, Index, Kept, shown
from holdfast.catalog.sqlite.schema import mark_of_store
from holdfast.errors import HoldfastError, NotFound, Unavailable
from holdfast.model import Gap, SessionMetadata
from holdfast.storage import Store, forks
from holdfast.storage.sqlite import connect, discard, failures, file_mark, is_busy, sqlite_errors

if TYPE_CHECKING:
    from holdfast.catalog._prices import Prices
    from holdfast.replay import AskState
    from holdfast.storage.postgres import ServerLink

T = TypeVar("T")
_TRIES_MAX = 3
_PAGE = 1000
_TWINS_MAX = 100
_OLDEST = Order("created", descending=False)
# Seconds for which a catalogue whose file could not be used stays in memory.
_PATIENCE_S = 10.0
# Seconds for which a catalogue that is refused by the store's database is kept elsewhere.
_REFUSED_S = 60.0
# The interval of comparing an index with the logs, and of checking whether that is due.
_AUDIT_EVERY_MS = 3_600_000
_AUDIT_LOOK_S = 60.0
# The most bytes of logs whose text is compared while a caller waits.
_CHECK_BYTES_MAX = 16 << 20
# Connections of the process that forked this one: closing them here would harm it.
_left_to_the_parent: list[object] = []


class Reindexed(msgspec.Struct, frozen=True):
    """The result of a rebuild of the catalogue."""

    sessions: int
    events: int
    bytes: int
    seconds: float


class Health(msgspec.Struct, frozen=True):
    """The health of the catalogue."""

    place: str | None
    """Its file, or the database it is in; None if it is in memory."""
    sessions: int
    mended: int
    """The number of rebuilds since this object was created."""
    trouble: str | None
    """The last problem."""
    lag_sessions: int = 0
    """The number of sessions whose newest events it had not read before it was asked."""
    lag_bytes: int = 0
    """The number of unread bytes of their logs."""


class Catalog:
    """Queries over all sessions. Safe to use from any thread.

    Every answer is what the logs say at the time of asking. Problems of the index do not reach the
    caller: a file that is damaged, foreign or of another version is removed and rebuilt; where there
    can be none, or another process keeps it locked, the index is in memory.
    """

    def __init__(self, store: Store, prices: Callable[[], Prices] | None = None) -> None:
        """``prices`` returns the prices for the costs in lists, when they are needed."""
        self._prices = prices
        self.auto_tags = True
        """True if automatic tags are shown and searched. This affects queries only, not the index."""
        self._store = store
        self._link = store.lend_catalog()
        self._lent: Index | None = None
        self._lent_from = 0.0
        self._place = store.catalog_place()
        self._lock = threading.RLock()
        self._forks = forks.count
        self._index: Index | None = None
        self._file: tuple[int, int] | None = None
        self._spare: Index | None = None
        self._spare_until = 0.0
        self._auditor: Iterator[None] | None = None
        self._audit_from = 0.0
        self._mended = 0
        self._trouble: str | None = None

    # -- queries -------------------------------------------------------------------------------
    def page(self, wanted: Filter, limit: int | None = None, after: str | None = None, order: Order = NEWEST) -> Page:
        """Return a page of the matching sessions. Raises UsageError for an invalid cursor."""
        place = None if after is None else read_cursor(after, order)
        if self.auto_tags:
            return self.answer(lambda index: index.page(wanted, limit, place, order))
        own = msgspec.structs.replace(wanted, auto_tags=False)
        page = self.answer(lambda index: index.page(own, limit, place, order))
        page[:] = map(_without_auto_tags, page)
        return page

    def pages(self, wanted: Filter) -> Iterator[SessionMetadata]:
        """Yield all matching sessions, newest first, reading a page at a time."""
        after = None
        while True:
            page = self.page(wanted, _PAGE, after)
            yield from page
            after = page.next
            if after is None:
                return

    def ids(self, prefix: str = "") -> list[str]:
        """Return the ids that begin with ``prefix``, case aside."""
        return self.answer(lambda index: index.ids(prefix))

    def ids_by(self, prefixes: Iterable[str]) -> dict[str, list[str]]:
        """Return what ``ids`` does for each of several prefixes, by one question."""
        return self.answer(lambda index: {prefix: index.ids(prefix) for prefix in prefixes})

    def created_at(self, time: int) -> list[str]:
        """Return the ids of sessions that began in this millisecond; a hundred at most."""
        page = self.answer(lambda index: index.page(EVERYTHING, _TWINS_MAX, (time, ""), _OLDEST))
        return [row.session_id for row in page if row.created_at == time]

    def count(self) -> int:
        return self.answer(lambda index: index.count())

    def info(self, id: str) -> SessionMetadata:
        """Return one session, as its log is now. Raises NotFound."""
        found = shown(self._looked_at(id).row)
        return found if self.auto_tags else _without_auto_tags(found)

    def asking(self) -> list[str]:
        """Return the ids of sessions that have questions, whether open or answered."""
        return self.answer(lambda index: index.asking())

    def asks(self, id: str) -> dict[str, AskState]:
        """Return the questions of a session, as its log is now; none if the log does not open here. Raises NotFound."""
        from holdfast.replay import State

        kept = self._looked_at(id)
        return State.from_json(kept.state).asks if kept.state else {}

    def vanished(self, id: str) -> int:
        """Return how many events the index has seen that the session's log has lost. Raises NotFound."""
        return self._looked_at(id).row.trace.lost

    def lost_whole(self, id: str) -> Gap | None:
        """Return what the index has seen of a log that has no events any more; None if it saw nothing.

        The number of bytes is known until the index itself has noticed. A missing index, or one that
        never met the session, does not read anything for this.
        """
        kept = self._kept(id)
        if kept is None:
            return None
        try:
            self.catch_up()  # it knows whether power loss explains it
            lost = self.vanished(id)
        except HoldfastError:
            return None  # it is only a witness
        size = max(kept.row.trace.position.offset, lost)
        return Gap(0, size, 0, lost - 1, at_end=True) if lost else None

    def _looked_at(self, id: str) -> Kept:
        entry = self._store.entry(PREFIX + id)
        if entry is None:
            raise NotFound(f"there is no session {id}", session_id=id)
        kept = self._kept(id)
        if kept is not None and kept.row.trace.etag == entry.etag:
            return kept
        from holdfast.catalog._look import look

        while True:
            kept = look(self._store, entry, kept, prices=self._prices and self._prices())
            if kept.row.trace.etag != NEVER_READ:
                return kept

    def catch_up(self) -> None:
        """Make sure that the index has everything that the logs have now."""
        self.answer(lambda _: None)

    def reindex(self, progress: Progress | None = None) -> Reindexed:
        """Discard the index and read every log. Raises StoreFull if there is no space for it."""
        started = time.monotonic()
        with self._guard(), failures("making the catalogue anew"):
            self._spare_until = self._lent_from = 0.0
            index, done = self._emptied(), None
            while done is None:
                try:
                    done = catch_up(self._store, index, progress)
                except IndexMoved:  # other threads want the same: do it once
                    continue
                except IndexRefused as error:
                    self._give_up_lent(error)
                    index = self._emptied()
        return Reindexed(done.sessions, done.events, done.bytes, time.monotonic() - started)

    def forget(self) -> None:
        """Discard the index with all its text: deleted rows leave it in the pages. The next query reads the logs."""
        with self._guard(), failures("emptying the catalogue"):
            self._spare_until = self._lent_from = 0.0
            self._emptied()

    def _emptied(self) -> Index:
        try:
            index = self._opened()
            if index is self._lent:
                index.clear()
                return index
        except IndexRefused as error:
            self._give_up_lent(error)
        except _troubles():
            pass  # whatever is wrong with it: it is about to be removed
        self._remake()
        self._mended -= 1  # it was asked for
        return self._opened()

    def audit_some(self, seconds: float) -> None:
        """Continue the comparison of the index with the logs for about so long, an hour after the last one began."""
        if self._auditor is None:
            if not self._is_audit_due():
                return
            self._auditor = self._audit(words=True)
        until = time.monotonic() + seconds
        for _ in self._auditor:
            if time.monotonic() >= until:
                return
        self._auditor = None

    def _is_audit_due(self) -> bool:
        now = time.time_ns() // 1_000_000
        if time.monotonic() < self._audit_from:
            return False
        self._audit_from = time.monotonic() + _AUDIT_LOOK_S
        try:
            with self._guard():
                index = self._opened()
                if index is self._spare or 0 <= now - index.audited() < _AUDIT_EVERY_MS:
                    return False
                index.note_audit(now)
                return True
        except _troubles(HoldfastError, OSError):
            return False  # the next query repairs it

    def _audit(self, *, words: bool) -> Iterator[None]:
        """Compare on a separate connection, so that callers need not wait."""
        from holdfast.catalog._catch_up import audit

        index, file = None, None
        try:
            with self._guard():
                used = self._opened()
                if used is self._spare:
                    return  # an index in memory is this process's alone
                if used is self._lent:
                    index = self._priced(open_lent(self._link)) if self._link else None
                elif self._place is not None:
                    file = file_mark(self._place)
                    index = self._priced(open_index(self._store, self._place))
            if index is not None:
                yield from audit(self._store, index, words=words)
        except _troubles(HoldfastError, OSError) as error:
            if is_busy(error) or isinstance(error, (HoldfastError, OSError)):
                return  # the next one may come to an end
            with self._guard():
                # If others rebuilt it meanwhile, another index was compared.
                if self._place is None or file is None or file_mark(self._place) == file:
                    self._mend(error)
        finally:
            if index is not None:
                index.close()

    def health(self, *, check: bool = False) -> Health:
        """Return the health of the catalogue, after a catch-up and, if wanted, a comparison with the logs."""
        try:
            with self._guard():
                behind = lag(self._store, self._opened())
        except _troubles():
            behind = Lag()  # the next question repairs it
        if check:
            self.catch_up()
            # If the logs are too long for a waiting caller, comparing their text is left to the background.
            size = sum(entry.size for entry in self._store.entries(PREFIX))
            for _ in self._audit(words=size <= _CHECK_BYTES_MAX):
                pass
        count = self.count()
        with self._guard():
            if self._lent is not None:
                trouble = self._trouble or self._lent.note
                return Health(self._lent.place, count, self._mended, trouble, *behind)
            place = self._place if self._index is not None else None
            return Health(place, count, self._mended, self._trouble, *behind)

    # -- maintenance ---------------------------------------------------------------------------
    @property
    def is_open(self) -> bool:
        """True once the catalogue has been queried or fed."""
        return any((self._lent, self._index, self._spare))

    def feed(self, *ids: str) -> dict[str, bool]:
        """Read the new events of some sessions ahead of the next query; return for each whether that is all.

        Sessions for which there was no time are left out. Never raises.
        """
        try:
            with self._guard():
                return read_on(self._store, self._opened(), ids)
        except _troubles(HoldfastError, OSError) as error:
            self._trouble = str(error)
            self._lent = None
            return dict.fromkeys(ids, True)

    def close(self) -> None:
        """Close the file. The next query opens it again."""
        with self._guard():
            for index in (self._index, self._spare):
                if index is not None:
                    index.close()
            self._lent = self._index = self._spare = None
        self._auditor = None  # which closes what it reads from

    def _guard(self) -> AbstractContextManager[object]:
        if self._forks != forks.count:
            # In a forked child: a thread of the parent may hold the lock.
            self._forks = forks.count
            self._lock = threading.RLock()
            _left_to_the_parent.extend(filter(None, (self._index, self._spare, self._auditor)))
            self._auditor = None
            self._lent = self._index = self._spare = None
        return self._lock

    def answer(self, question: Callable[[Index], T]) -> T:
        """Return the result of ``question`` on an up-to-date index; asked again if the index is damaged."""
        with self._guard():
            for _ in range(_TRIES_MAX):
                try:
                    index = self._opened()
                    catch_up(self._store, index)
                    found = question(index)
                    # Another process that shares it may have emptied it since: then the answer lacks sessions.
                    index.check_unmoved()
                    return found
                except _troubles() as error:
                    self._mend(error)
            # Whatever is wrong with the place of the index: reading every log gives the answer.
            index = self._in_memory()
            catch_up(self._store, index)
            return question(index)

    def _kept(self, id: str) -> Kept | None:
        """Return the index's row of a session, if there is one."""
        try:
            with self._guard():
                index = self._opened()
                index.mark()  # costs are then by the prices of this one
                return index.get(id)
        except _troubles():
            return None

    def _opened(self) -> Index:
        """Return the index in the store's database or in its file, else the one in memory."""
        if self._link is not None and time.monotonic() >= self._lent_from:
            try:
                if self._lent is None:
                    self._lent = self._priced(open_lent(self._link))
            except IndexRefused as error:
                self._give_up_lent(error)
            else:
                return self._lent
        place = self._place
        if place is None or time.monotonic() < self._spare_until:
            return self._in_memory()
        if self._index is not None:
            # A file that others replaced still exists for those that have it open, and becomes outdated.
            if file_mark(place) == self._file:
                return self._index
            self._let_go()  # removed or replaced by others
        try:
            self._index = self._priced(open_index(self._store, place))
        except (HoldfastError, OSError) as error:
            self._trouble = str(error)
            return self._in_memory()
        self._file = file_mark(place)
        return self._index

    def _give_up_lent(self, error: Exception) -> None:
        self._trouble = str(error)
        self._lent, self._lent_from = None, time.monotonic() + _REFUSED_S

    def _in_memory(self) -> Index:
        if self._spare is None:
            self._spare = self._priced(open_in_memory(self._store))
        return self._spare

    def _priced(self, index: Index) -> Index:
        index.prices = self._prices and self._prices()
        return index

    def _mend(self, error: Exception) -> None:
        """Rebuild the index, or work around it for a while if it is only in use."""
        self._trouble = str(error)
        if isinstance(error, IndexRefused):
            self._give_up_lent(error)
        elif isinstance(error, IndexMoved):
            self._trouble = None  # normal with many machines
        elif self._lent is not None:
            index, self._lent = self._lent, None
            try:
                index.clear()
                self._mended += 1
            except (IndexDamaged, IndexRefused) as refusal:
                self._give_up_lent(refusal)
        elif time.monotonic() < self._spare_until or self._place is None:
            self._spare = None
        elif is_busy(error):
            # Not damaged: another process is writing for long. Do not wait for it, and remove nothing.
            self._let_go()
            self._spare_until = time.monotonic() + _PATIENCE_S
        else:
            self._remake()

    def _remake(self) -> None:
        self._mended += 1
        self._let_go()
        self._spare = None
        if self._place is not None:
            try:
                discard(self._place)
            except HoldfastError as error:
                self._trouble = str(error)

    def _let_go(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            try:
                index.close()
            except sqlite_errors() as error:
                self._trouble = str(error)


def _without_auto_tags(row: SessionMetadata) -> SessionMetadata:
    return msgspec.structs.replace(row, auto_tags=())


def _troubles(*more: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the exceptions of a broken index."""
    # Texts in a damaged file may be invalid, even those of its errors.
    return (IndexDamaged, IndexMoved, IndexRefused, UnicodeError, *more, *sqlite_errors())


# Opening the index of a store: in its file, or in memory.
def open_index(store: Store, place: str) -> Index:
    """Return the index in a file, emptied if of another store or version.

    Raises Unavailable, Forbidden, SQLite's errors.
    """
    from holdfast.catalog.sqlite.index import SqliteIndex

    connection = connect(place)
    try:
        return SqliteIndex(connection, mark_of_store(store.identity, os.path.dirname(place)))
    except BaseException:
        connection.close()
        raise


def open_lent(link: ServerLink) -> Index:
    """Return the index in the database that a store lends. Raises IndexRefused if the role may not keep one there."""
    from holdfast.catalog.postgres.index import PostgresIndex

    return PostgresIndex(link)


def open_in_memory(store: Store) -> Index:
    """Return an empty index in memory; without SQLite if none with the required features is available."""
    from holdfast.catalog._index import PlainIndex

    troubles: tuple[type[Exception], ...] = (Unavailable, *sqlite_errors())
    try:
        from holdfast.catalog.sqlite.index import SqliteIndex

        return SqliteIndex(connect(None), store.identity)
    except troubles:
        return PlainIndex()
