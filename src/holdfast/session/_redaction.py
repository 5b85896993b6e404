"""Redaction of what a session records; the running conversation keeps the original words.

Everything that is recorded goes through ``plan`` before anything is written. Log, blobs, state and
snapshots then have the marks only, and so do subscribers. The conversation of the open session
keeps the original words in memory: the model in the conversation goes on with them. When the
session is opened again, only the marks are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.model import Event, Limits, Notice, encode_data
from holdfast.replay import kinds_said
from holdfast.security import NOTHING_STREAMED, Finding, Redactor, Streamed, ends_stream, feed, finish
from holdfast.session._writer import Draft

if TYPE_CHECKING:
    from holdfast.session._opening import Options

_Stream = tuple[str | None, str]
# Members that a piece has in common with its message.
_OF_MESSAGE = frozenset(["kind", "messageId", "agent"])
_SAME = "\ue000same\ue000"
_NAMES_KEPT = 256


class _Flow(NamedTuple):
    """The progress of a stream, and the members of its last piece besides words."""

    state: Streamed = NOTHING_STREAMED
    members: dict[str, Any] = {}  # noqa: RUF012 - never changed


class RedactionPlan(msgspec.Struct):
    """The drafts to write, and the originals to keep once they are written."""

    streams: dict[_Stream, _Flow]
    drafts: list[Draft] = []
    added: set[int] = set()  # places in ``drafts`` that were not asked for: ends of streams
    originals: dict[int, dict[str, Any]] = {}  # by place in ``drafts``: data that is not written unchanged
    found: list[Finding] = []
    unscanned: int = 0


class SessionRedaction:
    """The redaction of one live session. Callers hold the session's lock."""

    def __init__(self, session_id: str, redactor: Redactor, limits: Limits) -> None:
        self._session_id = session_id
        self._redactor = redactor
        # Types and runs repeat again and again; keys do not.
        self._check_name = lru_cache(_NAMES_KEPT)(redactor.check_name)
        self._limits = limits
        self._streams: dict[_Stream, _Flow] = {}
        self._originals: dict[int, Event] = {}

    def passes(self, event: Event, data: dict[str, Any]) -> bool:
        """Return whether this event can be recorded unchanged, and no stream waits for it.

        Most events are decided by a quick check. With the mode "block" raises SecretFound.
        """
        self._check_names(event.type, event.run)
        if self._streams or event.type == "delta" or "covers_from" in data:
            return False
        if event.key is not None and self.key(event.key) != event.key:
            return False
        return self._redactor.is_clean(event.raw) or self._redactor.data(event.type, data).data is data

    def plan(self, drafts: Sequence[Draft], first_seq: int) -> RedactionPlan:
        """Return what to write for these drafts. Changes nothing; with the mode "block" raises SecretFound.

        ``first_seq`` is the seq that the caller assumed for the first one.
        """
        plan = RedactionPlan(dict(self._streams))
        places: list[int] = []
        for given in drafts:
            encode_data(given.data, self._limits)  # an invalid event is refused with its original content
            self._check_names(given.type, given.run)
            draft = _moved(given, first_seq, places)
            if draft.type == "delta" and isinstance(draft.data.get("content"), str):
                places.append(len(plan.drafts))
                self._plan_piece(plan, draft)
                continue
            self._end_streams(plan, draft)
            places.append(len(plan.drafts))
            kept = self._redactor.data(draft.type, draft.data)
            plan.unscanned += kept.unscanned
            self._put(plan, draft, kept.data, kept.found)
        return plan

    def plan_held(self, run: str | None) -> RedactionPlan:
        """Return what to write of the held-back text, when it cannot wait. Raises as ``plan`` does."""
        plan = RedactionPlan(dict(self._streams))
        for stream in self._streams:
            if stream[0] == run:
                plan.streams[stream] = self._plan_end(plan, stream)
        return plan

    def key(self, key: str) -> str:
        """Return the key under which an event is recorded and found again, without secrets. Raises as ``plan`` does."""
        name, found = self._redactor.name(key)
        self._redactor.refuse(found)
        return name

    def _check_names(self, type: str, run: str | None) -> None:
        """Raise SecretFound for names that are secrets and by which callers look things up."""
        self._check_name(type, "the type of an event")
        if run is not None:
            self._check_name(run, "the run of an event")

    def held_back(self, run: str | None) -> dict[str, int]:
        """Return how many characters of each kind of stream are not recorded yet."""
        found = self._streams.items()
        return {kind: len(flow.state.held) for (of, kind), flow in found if of == run and flow.state.held}

    def done(self, plan: RedactionPlan, events: Sequence[Event]) -> Iterator[Notice]:
        """Take note that the plan has been written as these events; yield the notices about it."""
        self._streams = plan.streams
        for place, data in plan.originals.items() if self._redactor.spares_model else ():
            event = events[place]
            raw = encode_data(data, self._limits)
            self._originals[event.seq] = Event(
                event.type, event.seq, event.timestamp, raw, event.run, event.key, event.more
            )
        for draft in plan.drafts:
            first = draft.data.get("covers_from")
            if isinstance(first, int) and not isinstance(first, bool):
                # Pieces that a complete message has replaced need not be remembered.
                replaced = [seq for seq, one in self._originals.items() if one.type == "delta" and seq >= first]
                for seq in replaced:
                    del self._originals[seq]
        if plan.found or plan.unscanned:
            rules = sorted({finding.rule for finding in plan.found})
            detail = {"seq": events[0].seq, "rules": rules, "unscanned": plan.unscanned}
            yield Notice("secrets_redacted", self._session_id, detail)

    def as_it_was(self, event: Event) -> Event:
        return self._originals.get(event.seq, event)

    def without_secrets(self, options: Options) -> Options:
        """Return the options of a session with a title that may be recorded."""
        if options.title is None:
            return options
        title = self.value({"title": options.title})["title"]
        return msgspec.structs.replace(options, title=title)

    def value(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return data kept beside the log, without secrets. Raises SecretFound like ``plan``."""
        return self._redactor.data("", data).data

    def _plan_piece(self, plan: RedactionPlan, draft: Draft) -> None:
        piece = draft.data["content"]
        stream = (draft.run, str(draft.data.get("kind", "text")))
        before = plan.streams.get(stream, _Flow()).state
        state, said, found = feed(self._redactor, before, piece)
        # A frame that is kept beside its words contains the same words.
        rest = {name: item for name, item in draft.data.items() if name != "content"}
        others = self._redactor.data("delta", _with(rest, piece, _SAME)).data
        data = {**_with(others, _SAME, said), "content": said} if rest else {"content": said}
        members = {name: item for name, item in others.items() if name in _OF_MESSAGE}
        plan.streams[stream] = _Flow(state, members)
        if data == draft.data:
            data = draft.data
        self._put(plan, draft, data, found)

    def _put(self, plan: RedactionPlan, draft: Draft, data: dict[str, Any], found: list[Finding]) -> None:
        if data is not draft.data:
            plan.originals[len(plan.drafts)] = draft.data
            draft = draft._replace(data=data)
        plan.drafts.append(draft)
        plan.found.extend(found)
        self._redactor.refuse(found)

    def _end_streams(self, plan: RedactionPlan, draft: Draft) -> None:
        """Record streams that this event ends to their last word: followers may be reading them."""
        said = draft.data.get("content") if "covers_from" in draft.data else None
        kinds = kinds_said(draft.type, said)
        for stream in list(plan.streams):
            run, kind = stream
            is_said = ("thinking" if kind == "thinking" else "assistant") in kinds
            if (is_said and run == draft.run) or ends_stream(run, draft.type, draft.run):
                self._plan_end(plan, stream)
                del plan.streams[stream]

    def _plan_end(self, plan: RedactionPlan, stream: _Stream) -> _Flow:
        """Plan the held-back text of a stream as a piece of its own; return the progress of the stream then."""
        state, members = plan.streams[stream]
        said, found = finish(self._redactor, state)
        if said:
            plan.added.add(len(plan.drafts))
            plan.originals[len(plan.drafts)] = {"content": "", **members}
            plan.drafts.append(Draft("delta", {"content": said, **members}, stream[0]))
            # Marked also where secrets are refused: the piece was accepted long ago, and refusing every later event
            # would never let the session end.
            plan.found.extend(found)
        return _Flow(state.recorded(), members)


def _moved(draft: Draft, first_seq: int, places: list[int]) -> Draft:
    """Return the draft with ``covers_from`` where the piece really is, if pieces were added before it."""
    covered = draft.data.get("covers_from")
    if not isinstance(covered, int) or not first_seq <= covered < first_seq + len(places):
        return draft
    really = first_seq + places[covered - first_seq]
    if really == covered:
        return draft
    return draft._replace(data={**draft.data, "covers_from": really})


def _with(value: Any, old: str, new: str) -> Any:
    """Return a value with every text ``old`` replaced by ``new``."""
    if isinstance(value, str):
        return new if value == old else value
    if isinstance(value, dict):
        return {name: _with(item, old, new) for name, item in value.items()}
    return [_with(item, old, new) for item in value] if isinstance(value, list) else value
