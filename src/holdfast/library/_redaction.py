"""Redaction: what is recorded without secrets from the start, and what is rid of them later."""

from __future__ import annotations

import builtins
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import Conflict, Damaged, Forbidden, HoldfastError, UsageError
from holdfast.library import _trash
from holdfast.library._core import LEASE_MS, Core
from holdfast.library._views import of_known_format
from holdfast.model import (
    BEFORE_ALL,
    BLOB_KEY,
    SEAL_END,
    Event,
    Limits,
    Notice,
    check_id,
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
from holdfast.storage import MUST_NOT_EXIST, do_each

if TYPE_CHECKING:
    from holdfast.security import Finding, Redactor, Sealer, SecretSpan
    from holdfast.storage import Documents

_KEY_PLACE = "shared/redaction"
_KEY_NAME = "fingerprint.key"
_KEY_BYTES = 32
_GIVEN_CHARS_MIN = 4
_MARK_BYTES = 16
_CLEAN_MAX = 200_000  # events that are remembered: 20 MB
_SECONDS_PER_MIB = 10.0
_BLOBS = "blobs/"
_SNAPSHOTS = "snapshots/"
_QUARANTINE = "quarantine/"


class RedactionReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, where, and what could not be reached."""

    session_id: str
    sessions: dict[str, int]
    """By key in the store: how many events had to be changed, of the session and its relatives."""
    found: dict[str, int]
    """How many secrets each rule found."""
    unscanned: int = 0
    """Characters that were masked because there was no time to look at them."""
    spared: int = 0
    """Signatures that hold what was to be found, and were left: providers refuse a changed one."""
    unreached: tuple[str, ...] = ()
    """What could not be changed, and why; run it again when that is mended."""
    left: tuple[str, ...] = ()
    """Where the store may still hold what was replaced, beyond its reach; one sentence each."""


def redact(core: Core, id: str, *, find: Sequence[str], relatives: bool, dry_run: bool) -> RedactionReport:
    keys = _to_redact(core, id, relatives=relatives)
    # Nobody waits for a line here: what takes longer is looked at rather than masked.
    redactor = make_redactor(core, _texts(find), mode="mark", seconds_per_mib=_SECONDS_PER_MIB)
    unreached: builtins.list[str] = []
    left: builtins.list[str] = []
    if not dry_run:
        for key in keys:
            _whole_events(core, key)  # before anything is changed
        from holdfast.session import detach_children

        # Those that are rewritten themselves need no copy of what goes.
        detach_children(core.store, *keys)
    sessions: dict[str, int] = {}
    found: Counter[str] = Counter()
    agents, clean, unscanned, spared = set(), set[bytes](), 0, 0
    planning = threading.Lock()

    def work(key: str) -> None:
        nonlocal unscanned, spared
        if dry_run:
            plan = _plan(core, key, redactor, clean)
        else:
            plan = _rewrite(core, key, redactor, clean, unreached, planning)
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


def make_redactor(core: Core, values: dict[str, str], *, mode: str, seconds_per_mib: float = 1.0) -> Redactor:
    """Return what replaces secrets: those that the rules find, and the values that are given."""
    from holdfast.security import Redactor, Scanner, read_user_rules, secret_values

    settings = core.settings.configuration
    if settings.get("redaction.environment", True):
        values = {**dict.fromkeys(secret_values(os.environ), "environment"), **values}
    rules = read_user_rules(settings.get("redaction.rules", []))
    scanner = Scanner(more=rules, values=values, seconds_per_mib=seconds_per_mib)
    spares = not settings.get("redaction.model", False)
    return Redactor(partial(_redaction_key, core), mode=mode, scanner=scanner, spares_model=spares)


def _redaction_key(core: Core) -> bytes:
    """The key of the fingerprints of this store; made when the first is needed."""
    documents = core.store.documents(_KEY_PLACE)
    found, made = documents.get(_KEY_NAME), os.urandom(_KEY_BYTES)
    if found is None:
        try:
            documents.put(_KEY_NAME, made, if_match=MUST_NOT_EXIST)
        except Conflict:
            found = documents.get(_KEY_NAME)
    return made if found is None else found[0]


def _to_redact(core: Core, id: str, *, relatives: bool) -> builtins.list[str]:
    """The keys of the session and its relatives, all of which can be rewritten now."""
    keys = _trash.copies_of(core, check_id(id)) or [core.stored(id)]
    if relatives:
        keys = builtins.list(dict.fromkeys([*keys, *_family(core, id)]))
    for key in keys:
        name = key.rpartition("/")[2]
        if key.startswith("sessions/") and _trash.is_held(core, key):
            raise Forbidden(f"session {name} is under legal hold", session_id=name)
        core.check_unlocked(key, "redact")
    return keys


def _family(core: Core, id: str) -> builtins.list[str]:
    """The keys of all sessions that events are shared with, in use and in the trash, by who was forked from whom."""
    named = {entry.key: entry.key.rpartition("/")[2] for entry in core.store.entries()}
    named |= {trashed.key: trashed.session_id for trashed in _trash.Trash(core).list()}
    near: dict[str, set[str]] = {}
    for key, name in named.items():
        forks = [event for event in _trash.origins_of(core, key) or () if event.type == "forked"]
        parent = forks[-1].data.get("session") if forks else None
        if isinstance(parent, str):
            near.setdefault(name, set()).add(parent)
            near.setdefault(parent, set()).add(name)
    met, todo = {id}, [id]
    while todo:
        fresh = near.get(todo.pop(), set()) - met
        met |= fresh
        todo += fresh
    return [key for key, name in named.items() if name in met]


def _whole_events(core: Core, key: str) -> builtins.list[Event]:
    """The events of a log. Raises Damaged for one of which something is missing."""
    events = builtins.list(of_known_format(read_range(core.store.log(key))))
    if not events or any(event.seq != seq for seq, event in enumerate(events)):
        raise Damaged(f"the log at {key} is damaged", remedy="Repair it first: `holdfast repair`.", key=key)
    return events


def _plan(core: Core, key: str, redactor: Redactor, clean: set[bytes]) -> RedactedLog:
    """What the log would be. Raises Damaged."""
    events = _whole_events(core, key)
    return without_secrets(events, resolve_blobs(events, core.store.documents(key)), redactor, clean)


def _rewrite(
    core: Core, key: str, redactor: Redactor, clean: set[bytes], unreached: builtins.list[str], planning: threading.Lock
) -> RedactedLog:
    """Make a key what it would be without secrets, and destroy what it was. Events are looked at by one at a time."""
    from holdfast.session import SealedDocuments, gather, rewriter_for

    log, documents = core.store.log(key), core.store.documents(key)
    with core.store.lease(key).held("redact", LEASE_MS) as epoch, closing(log):
        with planning:
            plan = _plan(core, key, redactor, clean)
        # Before the log: a snapshot must never know more than the log it belongs to. Also where
        # the log is clean: an earlier time may have been broken off.
        _delete_all(documents, documents.names(_SNAPSHOTS), unreached, key)
        if plan.changed:
            for name, payload in plan.blobs.items():
                documents.put(f"{_BLOBS}{name}", payload)
            plan.events.append(_note(plan))
            # What seals the new lines, if the old ones are sealed.
            sealer = None if log.unseal is None else rewriter_for(core.store, key, log, epoch)
            log.overwrite(gather(plan.lines(sealer)), epoch)
        elif core.store.base_size(key):
            log.overwrite(log.read(), epoch)  # clean, in files that another one's secrets are in
        kept = {f"{_BLOBS}{name}" for name in referenced(plan.events)}
        if isinstance(documents, SealedDocuments):
            kept = documents.stored_names(kept)
        stored = core.inner.documents(key)
        gone = [name for name in stored.names(_BLOBS) if name not in kept]
        _delete_all(stored, [*gone, *stored.names(_QUARANTINE)], unreached, key)
    _redact_documents(core, key, redactor, unreached)
    return plan


def _redact_documents(core: Core, key: str, redactor: Redactor, unreached: builtins.list[str]) -> None:
    """The small documents of a key, whose texts may repeat what was said."""
    documents = core.store.documents(key)
    for name in documents.names():
        found = None if name.startswith((_BLOBS, _SNAPSHOTS)) else documents.get(name)
        if found is None:
            continue
        try:
            text = found[0].decode()
        except UnicodeDecodeError:
            continue
        cleaned = redactor.text(text)
        if cleaned != text:
            try:
                documents.put(name, cleaned.encode(), if_match=found[1])
            except HoldfastError as error:
                unreached.append(f"{key}/{name}: {error}")


def _texts(find: Sequence[str]) -> dict[str, str]:
    if isinstance(find, str) or not all(isinstance(text, str) for text in find):
        raise UsageError("what is to be found is given as a list of texts")
    for text in find:
        if len(text) < _GIVEN_CHARS_MIN:
            remedy = "A shorter one would be found in every other word."
            raise UsageError(f"a text to be replaced has at least {_GIVEN_CHARS_MIN} characters", remedy=remedy)
    return dict.fromkeys(find, "given")


def _note(plan: RedactedLog) -> Event:
    """The event that says that the log was written anew."""
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


# A log without its secrets: the same events, each in its place, with marks instead.

# What a log may have; what is in it is not measured again.
_LIMITS = Limits(message_bytes_max=1 << 40, session_bytes_max=1 << 50)
_Stream = tuple[str | None, str]
_TYPE_CHARS_MAX = 64
_NO_BRACKETS = str.maketrans({"[": None, "]": None})  # a type has none
_Piece = tuple[int, dict[str, Any]]  # where it is in the log, and all it says


class RedactedLog(msgspec.Struct):
    """What became of the events of a log."""

    events: list[Event]
    blobs: dict[str, bytes]
    """Payloads that are new, by name."""
    found: Counter[str]
    """How many secrets each rule found."""
    seqs: set[int]
    """The events that are not as they were."""
    unscanned: int = 0
    spared: int = 0

    @property
    def changed(self) -> bool:
        return bool(self.seqs)

    def replaced(self, event: Event, data: dict[str, Any], found: list[Finding]) -> Event:
        """The event with other data, and note of what was found in it."""
        raw = encode_data(data, _LIMITS)
        if len(raw) > _LIMITS.blob_bytes_min:
            raw, blobs = encode_with_blobs(data, _LIMITS)
            self.blobs.update(blobs)
        self.seqs.add(event.seq)
        self.found.update(one.rule for one in found)
        return Event(event.type, event.seq, event.timestamp, raw, event.run, event.key, event.more)

    def lines(self, sealer: Sealer | None = None) -> Iterator[bytes]:
        """The log, each line with the checksum that its place gives it; sealed if it was."""
        crc, before = 0, BEFORE_ALL
        for event in self.events:
            body = line_body(event)
            if sealer is None:
                line, crc = encode_line(event.seq, body, crc)
            else:
                sealed = sealer.seal(event.seq, body, before)
                before = sealed[-SEAL_END:]
                line, crc = encode_sealed_line(event.seq, sealed, crc)
            yield line


def without_secrets(
    events: Iterable[Event], whole: Iterable[Event], redactor: Redactor, clean: set[bytes] | None = None
) -> RedactedLog:
    """The events with marks for secrets, also streamed ones across pieces; ``whole`` has payloads in place.

    ``clean`` remembers events in which there were none, which forks share: they are not looked at again.
    """
    done = RedactedLog([], {}, Counter(), set())
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
    for parts in streams.values():
        _redact_stream(done, parts, redactor)
    return done


def _mark(event: Event) -> bytes:
    """What only an event has that says the very same."""
    names = f"{event.type}\0{event.run or ''}\0{event.key or ''}\0".encode("utf-8", "surrogatepass")
    return blake2b(names + bytes(event.raw), digest_size=_MARK_BYTES).digest()


def _with_names(done: RedactedLog, event: Event, redactor: Redactor) -> Event:
    """The event with marks in its type, run and key; the same name gets the same mark everywhere."""
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
    """Look at the pieces of a stream: at those in a row, and at all of them as one text."""
    told = [piece for part in parts for piece in _redact_pieces(done, part, redactor)]
    if len(parts) > 1:
        _redact_pieces(done, told, redactor)


def _redact_pieces(done: RedactedLog, pieces: list[_Piece], redactor: Redactor) -> list[_Piece]:
    """The pieces of one text, as they are without its secrets."""
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
    """One piece: the mark stands where a secret begins, and what goes on in the next is gone."""
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
    """The names of the payloads that events refer to."""
    return {name for event in events if has_blob(bytes(event.raw)) for name in _names(decode_json(event.raw))}


def _names(value: Any) -> Iterator[str]:
    if is_reference(value):
        yield value[BLOB_KEY]
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names(item)
