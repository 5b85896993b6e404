"""Redaction: keeping secrets out of what is recorded, and removing them later."""

from __future__ import annotations

import builtins
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Damaged, Forbidden, HoldfastError, UsageError
from holdfast.library import _trash
from holdfast.library._core import LEASE_MS, Core
from holdfast.library._redactor import REDACTION_KEY, make_redactor
from holdfast.library._views import of_known_format
from holdfast.model import (
    BEFORE_ALL,
    BLOB_KEY,
    LINE_END_BYTES,
    SEAL_END,
    Event,
    Limits,
    LineReader,
    Notice,
    Position,
    check_id,
    checksum_after,
    decode_json,
    encode_data,
    encode_line,
    encode_sealed_line,
    encode_with_blobs,
    has_blob,
    is_id,
    is_reference,
    line_body,
)
from holdfast.security import ends_stream
from holdfast.session import now_ms, read_range, resolve_blobs
from holdfast.storage import do_each

if TYPE_CHECKING:
    from holdfast.security import Finding, Redactor, Sealer, SecretSpan
    from holdfast.storage import Documents, Log

_SHARED = "shared/"
# These hold digests and names only, which must not be taken for secrets.
_NO_WORDS = (REDACTION_KEY, "shared/rotation", "shared/sealing", "shared/tokens", "shared/outside")
_GIVEN_CHARS_MIN = 4
_MARK_BYTES = 16
_CLEAN_MAX = 200_000  # events that are remembered: 20 MB
_SECONDS_PER_MIB = 10.0
_FORKED = b'"type":"forked"'
_SHARED_BYTES_MAX = 16 << 20  # longer logs are rarely forked often
_BEGINNINGS_MAX = 16  # the events of each are kept in memory
_BLOBS = "blobs/"
_SNAPSHOTS = "snapshots/"
_QUARANTINE = "quarantine/"


class RedactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The secrets that were found, where, and what could not be reached."""

    session_id: str
    sessions: dict[str, int]
    """By key in the store: the number of events that had to be changed, of the session and its relatives."""
    found: dict[str, int]
    """The number of secrets found by each rule."""
    unscanned: int = 0
    """Characters that were masked because there was no time to scan them."""
    spared: int = 0
    """Signatures that contain a secret and were left: providers refuse a changed one."""
    unreached: tuple[str, ...] = ()
    """The items that could not be changed, with reasons; run the redaction again once they are resolved."""
    left: tuple[str, ...] = ()
    """Places beyond the store's reach that may still hold the replaced text; one sentence each."""


def redact(core: Core, id: str, *, find: Sequence[str], relatives: bool, dry_run: bool) -> RedactionReport:
    keys = _to_redact(core, id, relatives=relatives)
    # No caller waits for a single line here, so one that takes longer is scanned fully instead of masked.
    redactor = make_redactor(core, _texts(find), mode="mark", seconds_per_mib=_SECONDS_PER_MIB)
    unreached: builtins.list[str] = []
    left: builtins.list[str] = []
    beginnings = _Beginnings(core)
    if not dry_run:
        for key in keys:
            beginnings.read(key)  # fail before anything is changed
        from holdfast.session import detach_children

        # Forks that are rewritten themselves need no copy of the removed text.
        detach_children(core.store, *keys)
    sessions: dict[str, int] = {}
    found: Counter[str] = Counter()
    agents, clean, unscanned, spared = set(), set[bytes](), 0, 0
    planning = threading.Lock()

    def work(key: str) -> None:
        nonlocal unscanned, spared
        if dry_run:
            plan = beginnings.plan(key, redactor, clean)
        else:
            with core.store.kept_open(key):
                plan = _rewrite(core, key, lambda: beginnings.plan(key, redactor, clean), unreached, planning)
                _redact_documents(core, key, redactor, unreached)
        with planning:
            sessions[key] = len(plan.seqs)
            found.update(plan.found)
            unscanned += plan.unscanned
            spared += plan.spared
            agents.add(plan.events[0].data.get("agent_id"))

    do_each(work, keys)
    if not dry_run:
        for agent in {agent for agent in agents if isinstance(agent, str) and is_id(agent)}:
            _redact_documents(core, f"agents/{agent}", redactor, unreached)
        # Shared documents may repeat the text of a session.
        for key in core.inner.folders(_SHARED):
            if key not in _NO_WORDS:
                _redact_documents(core, key, redactor, unreached)
        core.catalog.forget()
        left = core.inner.scrub()
        core.hub.publish(id, Notice("redacted", id, {"found": dict(found)}))
    return RedactionReport(
        session_id=id,
        sessions={key: sessions[key] for key in keys},
        found=dict(sorted(found.items())),
        unscanned=unscanned,
        spared=spared,
        unreached=tuple(unreached),
        left=tuple(left),
    )


def _to_redact(core: Core, id: str, *, relatives: bool) -> builtins.list[str]:
    """Return the keys of the session and its relatives; all of them can be rewritten now."""
    keys = _trash.copies_of(core, check_id(id)) or [core.stored(id)]
    origins = _trash.Origins(core)
    if relatives:
        keys = builtins.list(dict.fromkeys([*keys, *_family(core, id, origins)]))
    for key in keys:
        name = key.rpartition("/")[2]
        if key.startswith("sessions/") and origins.is_held(key):
            raise Forbidden(f"session {name} is under legal hold", session_id=name)
        core.check_unlocked(key, "redact")
    return keys


def _family(core: Core, id: str, origins: _trash.Origins) -> builtins.list[str]:
    """Return the keys of all sessions that share events, in use and in the trash, by who was forked from whom."""
    named: dict[str, str] = {}
    near: dict[str, set[str]] = {}
    for folder in ("sessions/", "trash/"):
        for entry in core.inner.entries(folder):
            name = named[entry.key] = _trash.name_of(core, entry.key)
            origin = origins.of(entry)
            if origin is not None and origin.parent is not None:
                near.setdefault(name, set()).add(origin.parent)
                near.setdefault(origin.parent, set()).add(name)
    met, todo = {id}, [id]
    while todo:
        fresh = near.get(todo.pop(), set()) - met
        met |= fresh
        todo += fresh
    return [key for key, name in named.items() if name in met]


class _Beginning(msgspec.Struct):
    """Events that several logs begin with, up to where the last fork was made."""

    events: builtins.list[Event]
    position: Position
    """The position after them."""
    redacted: RedactedLog | None = None
    """Their redacted form, once it is known."""


class _Beginnings:
    """Reads and scans logs; the beginning that forks share is scanned once, however many they are."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[bytes, _Beginning] = {}

    def read(self, key: str) -> tuple[_Beginning | None, builtins.list[Event]]:
        """Return the beginning that other logs may share, and the events after it.

        Raises Damaged if events are missing.
        """
        log = self._core.store.log(key)
        data = None if log.unseal is not None else _short(log)
        if data is None:
            return None, _whole(key, [*of_known_format(read_range(log))])
        start = data.rfind(b"\n", 0, max(data.rfind(_FORKED), 0)) + 1
        shared = self._beginning(key, data[:start]) if start else None
        reader = LineReader() if shared is None else LineReader(shared.position)
        after = data if shared is None else data[start:]
        rest = [*of_known_format(iter([*reader.feed(after), *reader.finish()]))]
        return shared, _whole(key, rest, 0 if shared is None else shared.position.seq)

    def plan(self, key: str, redactor: Redactor, clean: set[bytes]) -> RedactedLog:
        """Return the redacted log without writing it. Raises Damaged."""
        shared, events = self.read(key)
        begun = None
        if shared is not None:
            if shared.redacted is None:
                shared.redacted = without_secrets(shared.events, shared.events, redactor, clean)
                shared.redacted.make_lines()
            # A log whose stream goes on after the fork is scanned as a whole.
            begun = None if shared.redacted.is_open else shared.redacted.copy()
            events = events if begun is not None else [*shared.events, *events]
        whole = resolve_blobs(events, self._core.store.documents(key))
        return without_secrets(events, whole, redactor, clean, begun)

    def _beginning(self, key: str, data: bytes) -> _Beginning | None:
        name = blake2b(data, digest_size=_MARK_BYTES).digest()
        if found := self._known.get(name):
            return found
        reader = LineReader()
        events = [*of_known_format(iter(reader.feed(data)))]
        if reader.position.offset != len(data) or any(has_blob(bytes(event.raw)) for event in events):
            return None  # in the middle of a batch; payloads belong to each log
        _whole(key, events)
        while len(self._known) >= _BEGINNINGS_MAX:
            self._known.pop(next(iter(self._known)))
        return self._known.setdefault(name, _Beginning(events, reader.position))


def _short(log: Log) -> bytes | None:
    """Return the bytes of a log, unless they are too many to be held twice."""
    read: builtins.list[bytes] = []
    size = 0
    for chunk in log.read():
        read.append(chunk)
        size += len(chunk)
        if size > _SHARED_BYTES_MAX:
            return None
    return b"".join(read)


def _whole(key: str, events: builtins.list[Event], first: int = 0) -> builtins.list[Event]:
    """Return the events if none is missing. Raises Damaged."""
    if not (events or first) or any(event.seq != seq for seq, event in enumerate(events, first)):
        raise Damaged(f"the log at {key} is damaged", remedy="Repair it first: `holdfast repair`.", key=key)
    return events


def _rewrite(
    core: Core, key: str, make_plan: Callable[[], RedactedLog], unreached: builtins.list[str], planning: threading.Lock
) -> RedactedLog:
    """Replace a key's contents by their redacted form, and destroy the old bytes. Events are scanned one at a time."""
    from holdfast.session import SealedDocuments, gather, rewriter_for

    log, documents = core.store.log(key), core.store.documents(key)
    with core.store.lease(key).held("redact", LEASE_MS) as epoch, closing(log):
        with planning:
            plan = make_plan()
        # Snapshots go before the log, because a snapshot must never know more than its log. They also go where the log
        # is clean: an earlier run may have been interrupted.
        if core.inner.may_hold(key, _SNAPSHOTS):
            _delete_all(documents, documents.names(_SNAPSHOTS), unreached, key)
        if plan.changed:
            for name, payload in plan.blobs.items():
                documents.put(f"{_BLOBS}{name}", payload)
            plan.events.append(_note(plan))
            # Encrypts the new lines, if the old ones are sealed.
            sealer = None if log.unseal is None else rewriter_for(core.store, key, log, epoch)
            log.overwrite(gather(plan.lines(sealer)), epoch)
        elif core.store.base_size(key):
            log.overwrite(log.read(), epoch)  # clean, but in files that hold another one's secrets
        stored, gone = core.inner.documents(key), builtins.list[str]()
        if core.inner.may_hold(key, _BLOBS):
            kept = {f"{_BLOBS}{name}" for name in referenced(plan.events)}
            if isinstance(documents, SealedDocuments):
                kept = documents.stored_names(kept)
            gone = [name for name in stored.names(_BLOBS) if name not in kept]
        if core.inner.may_hold(key, _QUARANTINE):
            gone += stored.names(_QUARANTINE)
        _delete_all(stored, gone, unreached, key)
    return plan


def _redact_documents(core: Core, key: str, redactor: Redactor, unreached: builtins.list[str]) -> None:
    """Redact the small documents of a key, whose texts may repeat the conversation."""
    documents = core.store.documents(key)
    for name in documents.names():
        if name.startswith((_BLOBS, _SNAPSHOTS)):
            continue
        try:
            found = documents.get(name)
            cleaned = None if found is None else redactor.text(found[0].decode())
            if found is not None and cleaned is not None and cleaned.encode() != found[0]:
                documents.put(name, cleaned.encode(), if_match=found[1])
        except UnicodeDecodeError:
            continue
        except HoldfastError as error:
            unreached.append(f"{key}/{name}: {error}")
    if key.startswith("trash/"):
        _trash.retitle(core, key, lambda: _trash.title_of(core, key))  # it may end in the middle of a secret


def _texts(find: Sequence[str]) -> dict[str, str]:
    if isinstance(find, str) or not all(isinstance(text, str) for text in find):
        raise UsageError("what is to be found is given as a list of texts")
    for text in find:
        if len(text) < _GIVEN_CHARS_MIN:
            remedy = "A shorter one would be found in every other word."
            raise UsageError(f"a text to be replaced has at least {_GIVEN_CHARS_MIN} characters", remedy=remedy)
    return dict.fromkeys(find, "given")


def _note(plan: RedactedLog) -> Event:
    """Return the event that records the rewriting of the log."""
    kinds = ("session_start", "repaired", "redacted")
    numbers = [event.data.get("generation", 0) for event in plan.events if event.type in kinds]
    generation = max((number for number in numbers if isinstance(number, int)), default=0) + 1
    data = {"generation": generation, "found": dict(sorted(plan.found.items())), "seqs": sorted(plan.seqs)}
    if plan.unscanned:
        data["unscanned"] = plan.unscanned
    return Event("redacted", plan.events[-1].seq + 1, now_ms(), encode_data(data, Limits()))


def _delete_all(documents: Documents, names: Iterable[str], unreached: builtins.list[str], key: str) -> None:
    for name in names:
        try:
            documents.delete(name)
        except HoldfastError as error:
            unreached.append(f"{key}/{name}: {error}")


# A log without its secrets: the same events in the same places, with marks instead.

# The lines were accepted once; their size is not checked again.
_LIMITS = Limits(message_bytes_max=1 << 40, session_bytes_max=1 << 50)
_Stream = tuple[str | None, str]
_TYPE_CHARS_MAX = 64
_NO_BRACKETS = str.maketrans({"[": None, "]": None})  # a type has none
_Piece = tuple[int, dict[str, Any]]  # its place in the log, and its data


class RedactedLog(msgspec.Struct):
    """The redacted events of a log."""

    events: list[Event]
    blobs: dict[str, bytes]
    """New payloads, by name."""
    found: Counter[str]
    """The number of secrets found by each rule."""
    seqs: set[int]
    """The seqs of changed events."""
    unscanned: int = 0
    spared: int = 0
    is_open: bool = False
    """True if a stream may go on after the last of them."""
    begun: tuple[bytes, int, int] = (b"", 0, 0)
    """Lines that are made already: their bytes, the checksum after them, and their number."""

    def make_lines(self) -> None:
        """Make the lines now: copies begin with them."""
        lines = b"".join(self.lines())
        self.begun = (lines, checksum_after(lines[-LINE_END_BYTES:]), len(self.events))

    def copy(self) -> RedactedLog:
        """Return a copy, for events that go on differently."""
        found, seqs = Counter(self.found), set(self.seqs)
        return msgspec.structs.replace(self, events=[*self.events], blobs={**self.blobs}, found=found, seqs=seqs)

    @property
    def changed(self) -> bool:
        return bool(self.seqs)

    def replaced(self, event: Event, data: dict[str, Any], found: list[Finding]) -> Event:
        """Return the event with other data, and count what was found in it."""
        raw = encode_data(data, _LIMITS)
        if len(raw) > _LIMITS.blob_bytes_min:
            raw, blobs = encode_with_blobs(data, _LIMITS)
            self.blobs.update(blobs)
        self.seqs.add(event.seq)
        self.found.update(one.rule for one in found)
        return Event(event.type, event.seq, event.timestamp, raw, event.run, event.key, event.more)

    def lines(self, sealer: Sealer | None = None) -> Iterator[bytes]:
        """Yield the log, each line with the checksum of its place; sealed if it was."""
        made, crc, count = (b"", 0, 0) if sealer is not None else self.begun
        before = BEFORE_ALL
        yield made
        for event in self.events[count:]:
            body = line_body(event)
            if sealer is None:
                line, crc = encode_line(event.seq, body, crc)
            else:
                sealed = sealer.seal(event.seq, body, before)
                before = sealed[-SEAL_END:]
                line, crc = encode_sealed_line(event.seq, sealed, crc)
            yield line


def without_secrets(
    events: Iterable[Event],
    whole: Iterable[Event],
    redactor: Redactor,
    clean: set[bytes] | None = None,
    begun: RedactedLog | None = None,
) -> RedactedLog:
    """Return the events with marks for secrets, also streamed ones across pieces; ``whole`` has payloads in place.

    ``clean`` remembers events without secrets, which forks share: they are not scanned again. ``begun`` is the
    result for the events before, which is continued.
    """
    done = RedactedLog([], {}, Counter(), set()) if begun is None else begun
    clean = set() if clean is None else clean
    streams: dict[_Stream, list[list[_Piece]]] = {}
    for given, full in zip(events, whole, strict=True):
        mark = _mark(given) if full is given and given.type != "delta" else b""
        known = mark in clean
        event = given if known else _with_names(done, given, redactor)
        content = full.data.get("content") if event.type == "delta" else None
        if isinstance(content, str):
            kind = "thinking" if full.data.get("kind") == "thinking" else "text"
            parts = streams.setdefault((event.run, kind), [[]])
            parts[-1].append((len(done.events), full.data))
            done.events.append(event)
            continue
        for stream, parts in list(streams.items()):
            if ends_stream(stream[0], event.type, event.run):
                _redact_stream(done, streams.pop(stream), redactor)
            elif parts[-1]:
                parts.append([])
        if known:
            done.events.append(event)
            continue
        kept = redactor.data(event.type, full.data)
        done.unscanned += kept.unscanned
        done.spared += kept.spared
        if kept.data is not full.data:
            event = done.replaced(event, kept.data, kept.found)
        done.events.append(event)
        if mark and event is given and not (kept.unscanned or kept.spared) and len(clean) < _CLEAN_MAX:
            clean.add(mark)
    done.is_open = bool(streams)
    for parts in streams.values():
        _redact_stream(done, parts, redactor)
    return done


def _mark(event: Event) -> bytes:
    """Return a digest that only identical events share."""
    names = f"{event.type}\0{event.run or ''}\0{event.key or ''}\0".encode("utf-8", "surrogatepass")
    return blake2b(names + bytes(event.raw), digest_size=_MARK_BYTES).digest()


def _with_names(done: RedactedLog, event: Event, redactor: Redactor) -> Event:
    """Return the event with marks in its type, run and key; the same name gets the same mark everywhere."""
    changed: dict[str, str] = {}
    for what, given in (("type", event.type), ("run", event.run), ("key", event.key)):
        name, found = redactor.name(given or "")
        if found:
            changed[what] = name.translate(_NO_BRACKETS)[:_TYPE_CHARS_MAX] if what == "type" else name
            done.found.update(one.rule for one in found)
    if not changed:
        return event
    done.seqs.add(event.seq)
    return msgspec.structs.replace(event, **changed)


def _redact_stream(done: RedactedLog, parts: list[list[_Piece]], redactor: Redactor) -> None:
    """Scan the pieces of a stream: those in a row, and all of them as one text."""
    told = [piece for part in parts for piece in _redact_pieces(done, part, redactor)]
    if len(parts) > 1:
        _redact_pieces(done, told, redactor)


def _redact_pieces(done: RedactedLog, pieces: list[_Piece], redactor: Redactor) -> list[_Piece]:
    """Return the pieces of one text without its secrets."""
    spans = redactor.spans("".join(piece["content"] for _, piece in pieces))
    at, told = 0, []
    for place, piece in pieces:
        text = piece["content"]
        said, found = _piece(redactor, text, at, spans)
        others = redactor.data("delta", {name: item for name, item in piece.items() if name != "content"})
        found = [*found, *others.found]
        data = piece
        if found or said != text:
            data = {**others.data, "content": said}
            done.events[place] = done.replaced(done.events[place], data, found)
        told.append((place, data))
        at += len(text)
    return told


def _piece(redactor: Redactor, text: str, at: int, spans: list[SecretSpan]) -> tuple[str, list[Finding]]:
    """Return one piece redacted: the mark goes where a secret begins; its rest in the next piece is removed."""
    mine = [span for span in spans if span.start < at + len(text) and span.stop > at]
    said, found, done = "", [], 0
    for span in mine:
        start, stop = max(span.start - at, 0), min(span.stop - at, len(text))
        said += text[done:start]
        if span.start >= at:
            mark, one = redactor.replaced(text[start:stop], [span._replace(start=0, stop=stop - start)])
            said += mark
            found += one
        done = stop
    return said + text[done:], found


def referenced(events: Iterable[Event]) -> set[str]:
    """Return the names of the payloads that events refer to."""
    return {name for event in events if has_blob(bytes(event.raw)) for name in _names(decode_json(event.raw))}


def _names(value: Any) -> Iterator[str]:
    if is_reference(value):
        yield value[BLOB_KEY]
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names(item)
