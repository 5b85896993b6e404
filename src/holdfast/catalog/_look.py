"""One look at a log: the events that the index does not have yet."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from holdfast.catalog._index import NEVER_READ, IndexUpdate, Kept, Row, Trace
from holdfast.catalog._prices import Prices, cost_of
from holdfast.catalog._tally import TELLING, Tally
from holdfast.catalog._topics import auto_tags
from holdfast.errors import Damaged, HoldfastError, InvalidData, KeyMissing, StoreError, TooNew
from holdfast.model import START, SessionMetadata
from holdfast.replay import Fold, Permissions, State, ToolState, check_format, describe, needs_interruption
from holdfast.session import fits, read_step, resolve_blobs
from holdfast.storage import Entry, Log, Store

_STEP_BYTES = 8 << 20

_KEPT_METADATA = ("pinned", "legal_hold", "cwd")


def look(
    store: Store,
    entry: Entry,
    kept: Kept | None,
    folder: str | None = None,
    *,
    rebooted: bool = False,
    step_bytes: int = _STEP_BYTES,
    prices: Prices | None = None,
) -> IndexUpdate:
    """Return what the log of an entry has beyond the kept row. Never raises for its content.

    ``rebooted`` says that the machine may have lost unsynced data: a log that was open then may be shorter than
    the index remembers. Of a log that goes on for more than ``step_bytes`` the rest is left for another look.
    The default ``folder`` is that of the entry, else the kept one; the default ``prices`` are those of this version.
    """
    if folder is None:
        folder = entry.folder or ("" if kept is None else kept.row.trace.folder)
    reading = _Reading(store, entry, kept, folder, rebooted, prices)
    try:
        return reading.update(step_bytes)
    except TooNew:
        return reading.closed_book("too_new")
    except KeyMissing:
        return reading.closed_book("sealed")
    except (StoreError, InvalidData, Damaged):
        return reading.closed_book("unreadable")


class _Reading(msgspec.Struct):
    """The log of one session, from where the index left off or from its beginning."""

    store: Store
    entry: Entry
    kept: Kept | None
    folder: str
    rebooted: bool
    prices: Prices | None
    lost: int = 0
    shorter: Kept | None = None

    @property
    def id(self) -> str:
        return self.entry.key.rpartition("/")[2]

    def closed_book(self, state: str) -> IndexUpdate:
        """Return the row of a log that cannot be read here."""
        meta = SessionMetadata(session_id=self.id, size_bytes=self.entry.size, state=state)
        trace = Trace(etag=self.entry.etag, folder=self.folder, lost=self.lost)
        return IndexUpdate(Row(meta, trace), whole=True, version=self._version())

    def update(self, step_bytes: int) -> IndexUpdate:
        log = self.store.log(self.entry.key)
        base = self._base(log)
        state, tally = _kept_state(base)
        if state is None:
            base = None
        known = base.row.trace if base is not None else None
        start, chained = (known.position, known.chained) if known else (START, None)
        step = read_step(log, start, step_bytes, chained=chained)
        if known is None and step.events and step.events[0].type == "session_start":
            check_format(step.events[0])
        state = Fold(state).fold(step.events)
        self._compare(state, ended=step.ended)
        # After the fold, whose state keeps references: only words and figures need the payloads.
        events = list(resolve_blobs(step.events, self.store.documents(self.entry.key)))
        tally.feed(events)
        is_telling = any(event.type in TELLING for event in events)
        damaged = step.damaged or (known is not None and known.damaged)
        meta = describe(state, self.id, self.entry.size)
        # 0 if token counts were reported.
        estimate = 0 if meta.total_tokens else tally.estimate
        meta = msgspec.structs.replace(
            meta,
            archived=self._is_archived(),
            state="damaged" if damaged or self.lost else "ok",
            total_tokens=estimate or meta.total_tokens,
            tokens_estimated=estimate > 0,
            model=tally.model,
            auto_tags=auto_tags(tally) if base is None or is_telling else base.row.meta.auto_tags,
            cost=cost_of(tally, self.prices or _prices()),
        )
        last = state.last_open
        writer: dict[str, Any] = {} if last is None else {"closed": last.closed, "pid": last.pid, "host": last.host}
        trace = Trace(
            etag=self.entry.etag if step.ended else NEVER_READ,
            folder=self.folder,
            generation=log.generation(),
            position=step.position,
            chained=step.chained,
            damaged=damaged,
            lost=self.lost,
            cut_short=needs_interruption(state) is not None,
            asks=bool(state.asks),
            **writer,
        )
        row, kept, version = Row(meta, trace), _slim(state).to_json(), self._version()
        return IndexUpdate(row, kept, tally.to_bytes(), events=events, whole=base is None, version=version)

    def _version(self) -> int:
        return 0 if self.kept is None else self.kept.version

    def _base(self, log: Log) -> Kept | None:
        """Return the kept row, if the log continues it; None to read the log from its beginning."""
        kept = self.kept
        if kept is None or not kept.state:
            return None
        # Of the same generation, a log only grows; a shorter one has lost events that the index has seen.
        row, size = kept.row.trace, log.size()
        same = row.generation == log.generation()
        self.lost = row.lost if same else 0
        if size < row.position.offset:
            # Power loss explains it if nothing was synced yet.
            if same and not (self.rebooted and not row.closed):
                self.shorter = kept
            return None
        if row.etag != NEVER_READ and size == row.position.offset:
            return None  # rewritten at the same length: any byte may be different
        return kept if fits(log, row.position) else None

    def _compare(self, state: State, *, ended: bool) -> None:
        """Note that events are missing, if this is the log that was longer before."""
        before, _ = _kept_state(self.shorter)
        if before is None or self.shorter is None:
            return
        if before.log == state.log or not state.event_count:
            missing = self.shorter.row.trace.position.seq - state.seq - 1
            self.lost += missing if ended and missing > 0 else 1

    def _is_archived(self) -> bool:
        try:
            return self.store.is_archived(self.entry.key)
        except HoldfastError:
            return False


def _kept_state(base: Kept | None) -> tuple[State | None, Tally]:
    """Return the state to continue from; none if another version kept it in another form."""
    if base is not None:
        try:
            return State.from_json(base.state), Tally.from_bytes(base.tally)
        except InvalidData:
            pass
    return None, Tally()


def _slim(state: State) -> State:
    """Return the state without members that no list shows, so that the index stays small."""
    kept = {name: state.metadata[name] for name in _KEPT_METADATA if name in state.metadata}
    return msgspec.structs.replace(
        state,
        metadata=kept,
        links={},
        encoded={},
        memory={},
        todos=[],
        plugins={},
        permissions=Permissions(),
        tools=ToolState(),
        instructions=None,
        config={},
        task=None,
        keys={},
    )


_prices = cache(Prices)  # created when first needed: most stores have prices of their own
