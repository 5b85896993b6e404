"""Bringing an index up to date by reading only new events; the audit of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.catalog._index import NEVER_READ, PREFIX, Index, IndexUpdate, Row
from holdfast.errors import Forbidden, Unavailable
from holdfast.storage import Changes, Entry, Store

if TYPE_CHECKING:
    from holdfast.catalog._search_texts import Told

_BATCH_SESSIONS = 500
_BATCH_BYTES = 8 << 20
# In the background: so little that no other thread has to wait.
_LITTLE_BYTES = 1 << 20
_ROUNDS_MAX = 5

Progress = Callable[[int, int], None]
"""Called with the bytes done and the total."""


class Lag(NamedTuple):
    """The sessions and bytes that an index has not read yet."""

    sessions: int = 0
    bytes: int = 0


class Work(NamedTuple):
    """The work of a catch-up; a full comparison finds it while doing it."""

    entries: Iterable[Entry]
    gone: Callable[[], list[str]]
    folders: dict[str, str] | None = None
    """The marks of keys that replace those of the entries."""
    rebooted: bool = False


class Comparison:
    """A comparison of all entries of a store with an index, some at a time."""

    def __init__(self, store: Store, index: Index) -> None:
        self._store = store
        self._index = index
        self._rows = index.count()
        self._known = 0
        self._new = 0

    def differing(self) -> Iterator[Entry]:
        """Yield the entries that the index lacks or has in another state."""
        return (entry for entry, known in self._pairs() if known != (entry.etag, entry.folder))

    def unknown(self) -> Iterator[Entry]:
        """Yield the entries that the index lacks."""
        return (entry for entry, known in self._pairs() if known is None)

    def _pairs(self) -> Iterator[tuple[Entry, tuple[str, str] | None]]:
        entries = self._store.entries(PREFIX)
        while some := list(islice(entries, _BATCH_SESSIONS)):
            known = self._index.known([_id(entry.key) for entry in some])
            self._known += len(known)
            self._new += len(some) - len(known)
            yield from ((entry, known.get(_id(entry.key))) for entry in some)

    def gone(self) -> list[str]:
        """Return the sessions that only the index has; to be called after all entries were taken."""
        # Usually the counts show that there are none, and the names need not be loaded.
        if self._known == self._rows and self._index.count() in {self._rows, self._rows + self._new}:
            return []
        ids = self._index.ids("")  # first: a session that is created meanwhile is not gone
        there = {_id(entry.key) for entry in self._store.entries(PREFIX)}
        return [id for id in ids if id not in there]


class CatchUp:
    """One catch-up of an index, and its results."""

    def __init__(self, store: Store, index: Index, progress: Progress | None = None) -> None:
        self._store = store
        self._index = index
        self._progress = progress
        self._waiting: list[IndexUpdate] = []
        self._waiting_bytes = 0
        self._conflicts: list[str] = []
        self.sessions = 0
        self.events = 0
        self.bytes = 0

    def run(self) -> None:
        # The mark first: changes from here on are reported the next time, and never missed.
        mark = self._index.mark()
        changes = self._store.changes(mark, PREFIX)
        if changes.keys is not None and not changes.keys and not changes.listed:
            return
        work = self._plan(changes, rebooted=bool(mark))
        self._read_all(work)
        # Rows that others wrote since they were read here are checked again.
        for _ in range(_ROUNDS_MAX):
            again, self._conflicts = self._conflicts, []
            if not again:
                break
            self._read_all(work._replace(entries=filter(None, (self._entry(PREFIX + id) for id in again)), folders={}))
        if gone := work.gone():
            self._index.write([], gone)
            if self._index.is_worn():
                # Once only: a rebuilt index has no sessions that are gone.
                self._index.clear()
                self.run()
                return
        # At the end: after a crash before this, logs are merely checked twice.
        if changes.mark != mark and not self._conflicts:
            self._index.write([], mark=changes.mark)

    # -- planning -----------------------------------------------------------------------------
    def due(self) -> Lag:
        """Return how much there is to do; nothing is done."""
        mark = self._index.mark()
        changes = self._store.changes(mark, PREFIX)
        work = self._plan(changes, rebooted=bool(mark))
        sessions, size = 0, 0
        for entry in work.entries:
            kept = self._index.get(_id(entry.key))
            if kept is None or kept.row.trace.etag != entry.etag:
                sessions += 1
                size += max(entry.size - (0 if kept is None else kept.row.trace.position.offset), 0)
        return Lag(sessions + len(work.gone()), size)

    def _plan(self, changes: Changes, *, rebooted: bool) -> Work:
        if changes.keys is None:
            return self._compare_all(rebooted=rebooted)
        folders = self._store.folders(PREFIX) if changes.listed else {}
        keys = set(changes.keys)
        if changes.listed:
            # Every writer reports which key it opens. A key that moved without a report was moved by hand, and perhaps
            # also those that kept their names.
            known = self._index.folders()
            moved = {key for key, folder in folders.items() if known.pop(_id(key), None) != folder}
            moved.update(PREFIX + id for id in known)
            if any(key not in folders or self._entry(key) is not None for key in sorted(moved - keys)):
                return self._compare_all(rebooted=False)
            keys |= moved
        found = {key: self._entry(key) for key in sorted(keys)}
        gone = [_id(key) for key, entry in found.items() if entry is None]
        return Work([entry for entry in found.values() if entry is not None], lambda: gone, folders)

    def _compare_all(self, *, rebooted: bool) -> Work:
        self._index.verify()
        compared = Comparison(self._store, self._index)
        return Work(compared.differing(), compared.gone, rebooted=rebooted)

    def _entry(self, key: str) -> Entry | None:
        try:
            return self._store.entry(key)
        except (Forbidden, Unavailable):
            return None  # files and symlinks beside the sessions are not ours

    # -- doing it ------------------------------------------------------------------------------
    def _read_all(self, work: Work) -> None:
        total = 0
        if self._progress is not None:
            # Listed once more: the work is not kept in memory.
            some = work.entries if isinstance(work.entries, list) else self._store.entries(PREFIX)
            total = self.bytes + sum(entry.size for entry in some)
        for entry in work.entries:
            done = self.bytes
            folder = entry.folder if work.folders is None or entry.folder else work.folders.get(entry.key)
            self._read(entry, folder, rebooted=work.rebooted)
            self.bytes = done + entry.size
            if self._progress is not None:
                self._progress(self.bytes, max(total, self.bytes))
        self._flush()

    def _read(self, entry: Entry, folder: str | None, *, rebooted: bool) -> None:
        while True:
            kept = self._index.get(_id(entry.key))
            if kept is not None and kept.row.trace.etag == entry.etag:
                if folder is not None and kept.row.trace.folder != folder:
                    row = Row(kept.row.meta, msgspec.structs.replace(kept.row.trace, folder=folder))
                    self._add(IndexUpdate(row, kept.state, kept.tally, version=kept.version))
                return
            from holdfast.catalog._look import look  # late: it loads everything that counts words

            update = look(self._store, entry, kept, folder, rebooted=rebooted, prices=self._index.prices)
            self._add(update)
            if update.row.trace.etag != NEVER_READ:
                self.sessions += 1
                return
            self._flush()

    def _add(self, update: IndexUpdate) -> None:
        self._waiting.append(update)
        self._waiting_bytes += sum(len(event.raw) for event in update.events)
        self.events += len(update.events)
        if len(self._waiting) >= _BATCH_SESSIONS or self._waiting_bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._conflicts += self._index.write(self._waiting)
        self._waiting, self._waiting_bytes = [], 0


def catch_up(store: Store, index: Index, progress: Progress | None = None) -> CatchUp:
    """Bring an index up to date; return what was done."""
    work = CatchUp(store, index, progress)
    work.run()
    return work


def lag(store: Store, index: Index) -> Lag:
    return CatchUp(store, index).due()


def read_on(store: Store, index: Index, ids: Iterable[str]) -> dict[str, bool]:
    """Bring sessions up to date, by a little altogether; return those that were read, and whether that was all of each.

    Work that other processes did first is left to them.
    """
    from holdfast.catalog._look import look  # late: it loads everything that counts words

    updates, found, size = [], {}, 0
    for id in ids:
        entry, kept = store.entry(PREFIX + id), index.get(id)
        found[id] = entry is None or (kept is not None and kept.row.trace.etag == entry.etag)
        if entry is not None and not found[id]:
            update = look(store, entry, kept, step_bytes=_LITTLE_BYTES, prices=index.prices)
            updates.append(update)
            found[id] = update.row.trace.etag != NEVER_READ
            size += sum(len(event.raw) for event in update.events)
            if size >= _LITTLE_BYTES:
                break
    if updates:
        index.write(updates)
    return found


def _id(key: str) -> str:
    return key.rpartition("/")[2]


# The audit of an index: whether it has exactly what the logs have.
# Rows have checksums, which are verified whenever one is read. The columns and tables that lead to them have none: the
# orders of lists, the labels, the searched texts and their words. A flipped bit there can hide a session or a hit, and
# SQLite need not notice. So an index is compared with the logs from time to time, a little at a time; on a difference
# it counts as damaged, and is rebuilt.

# The text of a longer log is not compared: all of it would be in memory at once.
_LOG_BYTES_MAX = 64 << 20
# Of more sessions that only the store knows there is no need to ask again.
_ALONE_MAX = 1000

Hear = Callable[["Row"], "Told | None"]
"""Returns what the log of a row says; None unless it could be read completely, and is still the same."""


def audit(store: Store, index: Index, *, words: bool = True) -> Iterator[None]:
    """Compare an index with the logs, a little between two yields. Raises IndexDamaged.

    Without ``words`` no log is read: only the consistency of the index itself is checked, and which
    sessions exist.
    """

    def hear(row: Row) -> Told | None:
        # late: it loads everything that reads words, which a list does not need
        from holdfast.catalog._search import hear_log

        def is_same() -> bool:
            entry = store.entry(PREFIX + row.meta.session_id)
            return entry is not None and entry.etag == row.trace.etag and entry.size <= _LOG_BYTES_MAX

        if row.meta.state != "ok" or row.trace.damaged or row.trace.lost or not is_same():
            return None
        told = hear_log(store, row.meta.session_id)  # if it cannot be read now, it may be the next time
        return told if is_same() else None

    yield
    index.verify()
    yield
    compared = Comparison(store, index)
    alone = [_id(entry.key) for entry in islice(compared.unknown(), _ALONE_MAX)]
    if len(alone) < _ALONE_MAX:
        alone += compared.gone()
    # Check again whether a session is known to only one of both.
    if any((store.entry(PREFIX + id) is None) != (index.get(id) is None) for id in alone):
        index.write([], mark="")  # the next query compares everything, and reads what is missing
    yield
    yield from index.audit(hear if words else None)
