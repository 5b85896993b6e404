"""The writer: gives each event its number, its time and its line, and hands it to the log.

It works without a session and is not thread-safe by itself: callers hold the session's lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import Fenced, HoldfastError, InvalidData, StoreError, StoreFull, SyncFailed, TooLarge, UsageError
from holdfast.model import (
    BEFORE_ALL,
    SEAL_END,
    START,
    Event,
    LazyDecoder,
    Limits,
    Notice,
    Position,
    encode_data,
    encode_event_line,
    encode_line,
    encode_sealed_line,
    encode_with_blobs,
    line_body,
    read_line,
    running_checksum,
    sealed_end,
    type_bytes,
)
from holdfast.session._clock import Clock, now_ms
from holdfast.storage import Documents, Log

if TYPE_CHECKING:
    from holdfast.security import Sealer

_PERCENT = 100
# Events that end or explain a session are written even beyond its size limit.
_ALWAYS_ALLOWED = frozenset(["closed", "turn_end", "interrupted", "suspended", "tool_result", "opened"])
_decoder = LazyDecoder(Event)
# State that is small by nature; variables, memory and plugins may be as large as a blob.
_WHOLE_STATE = frozenset(["config", "instructions", "metadata", "permission", "tools"]) | frozenset(
    ["link", "tag", "task", "title", "todo_update", "untag", "usage"]
)
OWN_TYPES = frozenset(["session_start", "opened", "closed"])
"""Events that the session itself records; callers may not."""
_MESSAGES = frozenset(["user", "assistant", "system"])


class Draft(NamedTuple):
    """An event that has no number yet."""

    type: str
    data: dict[str, Any]
    run: str | None = None
    key: str | None = None
    timestamp: int | None = None


def as_draft(event: Event | tuple[str, dict[str, Any]]) -> Draft:
    """Return an event of a batch as a draft.

    Raises InvalidData for anything else, UsageError for one of our own types.
    """
    if isinstance(event, Event):
        draft = Draft(event.type, event.data, event.run, event.key, event.timestamp or None)
    else:
        try:
            draft = Draft(*event)
        except TypeError as error:
            raise InvalidData("an event of a batch is an Event, or a type and its data") from error
    if isinstance(draft.type, str) and draft.type in OWN_TYPES:
        raise own_type(draft.type)
    return draft


def own_type(type: str) -> UsageError:
    return UsageError(f"{type!r} is recorded by the session itself", remedy="Choose another type for your event.")


class Writer:
    """Appends to one log from one position on."""

    def __init__(
        self,
        log: Log,
        documents: Documents,
        *,
        position: Position = START,
        epoch: int = 0,
        limits: Limits | None = None,
        clock: Clock = now_ms,
        staged: bool = False,
        defers: bool = False,
    ) -> None:
        self.log = log
        self.seq, self.offset, self.crc = position
        self.epoch = epoch
        self.limits = limits or Limits()
        self.line_bytes_max = min(self.limits.blob_bytes_min, self.limits.message_bytes_max)
        """An event with larger data takes the slow path."""
        self.staged = staged
        self.dead: HoldfastError | None = None
        self.tell: Callable[[Notice], None] | None = None
        """Called when the right to write was lost."""
        self._documents = documents
        self._clock = clock
        self._sealer: Sealer | None = None
        self.sealed_end = BEFORE_ALL
        """The end of the last line that was sealed."""
        self._defers = defers
        self.lead = b""
        """Written before the first line: the newline that the last one of a plain log may lack."""
        self.saved = position
        """The position up to which everything was handed to the log."""
        self._waiting: list[bytes] = []
        self._waiting_blobs: dict[str, bytes] = {}

    @property
    def position(self) -> Position:
        return Position(self.seq, self.offset, self.crc)

    @position.setter
    def position(self, position: Position) -> None:
        self.seq, self.offset, self.crc = position

    @property
    def goes_straight(self) -> bool:
        """True if an ordinary line may go to the log directly, with the system's time."""
        return self._sealer is None and not self.lead and not self.staged and self._clock is now_ms

    def go_on_from(self, position: Position) -> None:
        """Continue from the actual end of the log and the staged lines, whatever was known before."""
        if position != self.position:
            # The newline that the last line lacked is written with the first.
            self.lead = b"" if position.offset > self.offset else self.lead
            self.position = position
        if self._sealer is not None:
            from holdfast.session._sealed_store import end_before

            self.sealed_end = sealed_end(self._waiting[-1]) if self._waiting else end_before(self.log, self.offset)

    def seal_with(self, sealer: Sealer, before: bytes) -> None:
        """Seal everything from now on; ``before`` is the end of the last sealed line."""
        self._sealer, self.sealed_end = sealer, before

    def append(self, draft: Draft) -> Event:
        """Write one event. If it raises, nothing was written."""
        type, data, run, key, timestamp = draft
        is_usual = run is None and key is None and timestamp is None
        raw = encode_data(data, self.limits) if is_usual and not self.lead else None
        if raw is None or len(raw) > self.line_bytes_max:
            return self.extend((draft,))[0]
        timestamp, seq, before = self._clock(), self.seq, self.sealed_end
        if self._sealer is None:
            line, crc = encode_event_line(seq, type, timestamp, raw, self.crc)
        else:
            body = b'"type":"%b","timestamp":%d,"data":%b' % (type_bytes(type), timestamp, raw)
            sealed = self._sealer.seal(seq, body, before)
            before = sealed[-SEAL_END:]
            line, crc = encode_sealed_line(seq, sealed, self.crc)
        end = self.offset + len(line)
        if end > self.limits.session_bytes_max and type not in _ALWAYS_ALLOWED:
            raise self._over_full(end)
        event = Event(type, seq, timestamp, raw)
        self._put(line, seq, 1)
        self.seq, self.offset, self.crc, self.sealed_end = seq + 1, end, crc, before
        return event

    def extend(self, drafts: Sequence[Draft], spare: Collection[int] = ()) -> list[Event]:
        """Write a batch with one append, all or nothing; places in ``spare`` were accepted before, at any size."""
        seq, offset, crc = self.position
        before, lead, now = self.sealed_end, self.lead, self._clock()
        events: list[Event] = []
        lines: list[bytes] = []
        blobs: dict[str, bytes] = {}
        if lead:
            offset, crc = offset + len(lead), running_checksum([lead], len(lead), crc)
        last = len(drafts) - 1
        for index, draft in enumerate(drafts):
            event = self._event(draft, seq + index, now, blobs, more=index < last)
            line, crc, before = self._line(event, crc, before)
            events.append(event)
            lines.append(line)
        size = sum(map(len, lines))
        if offset + size > self.limits.session_bytes_max and not all(
            draft.type in _ALWAYS_ALLOWED or place in spare for place, draft in enumerate(drafts)
        ):
            raise self._over_full(offset + size)
        if events:
            seq_after, offset_after = seq + len(events), offset + size
            # Only now: events refused above leave nothing behind.
            if self.staged:
                self._waiting_blobs.update(blobs)
            else:
                self._put_blobs(blobs)
            self._put(lead + b"".join(lines), seq, len(events))
            self.lead = b""
            self.seq, self.offset, self.crc, self.sealed_end = seq_after, offset_after, crc, before
        return events

    def check(self, drafts: Iterable[Draft]) -> None:
        """Raise what writing these would raise for their content. Writes nothing."""
        for draft in drafts:
            line_body(self._event(draft, 0, 0, {}, more=False))

    def write_staged(self) -> None:
        self._put_blobs(self._waiting_blobs)
        # As in append: nothing may be called between the write and noting that it was done.
        position = self.position
        if self._waiting:
            self._append(b"".join(self._waiting), self.saved.seq, self.seq - self.saved.seq)
        self._waiting, self._waiting_blobs, self.saved = [], {}, position

    def sync(self) -> None:
        """Return once everything that was handed over is on the medium. Any thread may call it."""
        try:
            self.log.sync()
        except StoreError as error:
            raise self.failed(error) from error

    def has_staged(self) -> bool:
        return bool(self._waiting or self._waiting_blobs)

    def staged_lines(self) -> list[bytes]:
        return list(self._waiting)

    def notice_at(self) -> int:
        """Return the size at which to warn that the session is nearly full."""
        return self.limits.session_bytes_max * self.limits.session_notice_percent // _PERCENT

    def _event(self, draft: Draft, seq: int, now: int, blobs: dict[str, bytes], *, more: bool) -> Event:
        """Return the event; big parts of its data are moved to ``blobs``."""
        type_bytes(draft.type)
        # Every key is kept in the state for good.
        if isinstance(draft.key, str) and len(draft.key) > self.limits.key_chars_max:
            raise self._too_large(f"the key of an event has {len(draft.key):,} characters", "key_chars_max")
        raw = encode_data(draft.data, self.limits)
        if len(raw) > self.line_bytes_max and draft.type in _MESSAGES:
            size = _text_bytes(draft.data.get("content"))
            if size > self.limits.message_bytes_max:
                raise self._too_large(f"the message has {size:,} bytes of text", "message_bytes_max", size)
        if len(raw) > self.limits.blob_bytes_min:
            # The fold keeps such state in memory and in every snapshot, without its payloads; not what was answered.
            if draft.type in _WHOLE_STATE and not (draft.type == "permission" and "id" in draft.data):
                raise self._too_large(f"a {draft.type} event has {len(raw):,} bytes", "blob_bytes_min", len(raw))
            raw, taken = encode_with_blobs(draft.data, self.limits)
            blobs.update(taken)
        stamp = now if draft.timestamp is None else draft.timestamp
        return Event(draft.type, seq, stamp, raw, draft.run, draft.key, more)

    def _line(self, event: Event, crc: int, before: bytes) -> tuple[bytes, int, bytes]:
        body = line_body(event)
        if self._sealer is None:
            return *encode_line(event.seq, body, crc), before
        sealed = self._sealer.seal(event.seq, body, before)
        return *encode_sealed_line(event.seq, sealed, crc), sealed[-SEAL_END:]

    def _put_blobs(self, blobs: dict[str, bytes]) -> None:
        for name, payload in blobs.items():
            self._documents.put(f"blobs/{name}", payload, sync=False)

    def _put(self, lines: bytes, seq: int, count: int) -> None:
        if self.staged:
            self._waiting += (lines,)
        else:
            self._append(lines, seq, count)

    def _append(self, lines: bytes, seq: int, count: int) -> None:
        if self.dead is not None:
            raise self.dead
        try:
            self.log.append(lines, seq, count, self.epoch)
        except StoreError as error:
            self.failed(error)
            raise

    def failed(self, error: StoreError) -> HoldfastError:
        """Return the error to raise; if writing is no longer possible, it carries the events in doubt."""
        # Nothing was written, and there may be room again: the session stays usable.
        if isinstance(error, StoreFull):
            return error
        # A store that sends later cannot say which lines have arrived; nor can a sync that failed,
        # since the system may have dropped the pages that it could not write.
        if self._defers or isinstance(error, (Fenced, SyncFailed)):
            if isinstance(error, Fenced) and self.dead is None and self.tell is not None:
                id = error.fields.get("session_id", "")
                self.tell(Notice("lease_lost", id, {"epoch": self.epoch}))
            self.dead = error
            self.hand_out_unsaved(error)
        return error

    def hand_out_unsaved(self, error: StoreError) -> None:
        """Put on the error what would otherwise be lost, as the log still has it: perhaps less than was appended."""
        unsaved: list[Event] = []
        with contextlib.suppress(HoldfastError, ValueError):
            lines = self.log.unsaved() + b"".join(self._waiting)
            whole = lines[: lines.rfind(b"\n") + 1]
            if self._sealer is None:
                unsaved = _decoder.decode_lines(whole)
            else:
                events = [read_line(line, self.log.unseal) for line in whole.splitlines()]
                unsaved = [event for event in events if event is not None]
        error.fields.setdefault("unsaved", unsaved)

    def _over_full(self, size: int) -> TooLarge:
        remedy = "Start a new session or fork this one, or raise session_bytes_max."
        return self._too_large(f"the session would have {size:,} bytes", "session_bytes_max", size, remedy)

    def _too_large(self, what: str, limit: str, size: int | None = None, remedy: str | None = None) -> TooLarge:
        most = getattr(self.limits, limit)
        return TooLarge(f"{what}, at most {most:,} are allowed", remedy=remedy, limit=limit, needed_bytes=size)


def _text_bytes(content: Any) -> int:
    texts = [content]
    if isinstance(content, list):
        texts = [block.get("text") for block in content if isinstance(block, dict)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))
