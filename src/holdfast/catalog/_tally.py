"""Tally: the data of a session for analytics and automatic tags, as a resumable fold.

The index keeps its bytes beside a session and feeds it only the new events of the log. The same events
give the same bytes, in whatever batches they come; its size is bounded, however long the session is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.catalog._data import with_check, without_check
from holdfast.catalog._topics import Hearing, count_terms, keep_heaviest, words_of
from holdfast.catalog._usage import (
    HOUR_MS,
    NAME_CHARS_MAX,
    Hour,
    Spent,
    ToolHours,
    add_all,
    coarsen,
    hour_of,
    room_for,
    told_tokens,
    weigh,
)
from holdfast.errors import InvalidData
from holdfast.model import Event, LazyDecoder
from holdfast.replay import BYTES_PER_TOKEN, Calls, blocks_of, estimate_tokens, mark_of, stage_after

SHAPE = 4  # changes with the members of a tally and with the vocabulary: bytes of another one do not load

_PAUSE_MS = 300_000  # a longer silence does not count as work
_FILES_MAX = 96
_TERMS_MAX = 128
_TERM_WORDS = 100
_PATH_CHARS_MAX = 200
_GUIDE = "guide"  # explains Holdfast, whatever its user speaks of: its words say nothing about the subject
# So much of a text is read for words: its subject is mentioned early.
_USER_CHARS, _ASSISTANT_CHARS, _CALL_BYTES, _RESULT_BYTES = 4000, 2000, 600, 300
_PATH_MEMBERS = frozenset(
    """
    path file file_path filepath filename file_name notebook_path target_file absolute_path
    relative_path paths files
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
_is_path = re.compile(r"[\w./~@+-]{0,160}[\w-]\.[A-Za-z][A-Za-z0-9]{0,7}").fullmatch
_AROUND_PATHS = "\"'`,;:()[]{}<>="
_ESCAPES = re.compile(rb"\\(?:[nrt]|u[0-9a-f]{4})")


class _Said(msgspec.Struct, gc=False):
    content: Any = None
    token_count: Any = None
    usage: Any = None
    model: Any = None
    metadata: Any = None


class _Call(_Said, gc=False, kw_only=True):
    id: str
    tool: str
    params: msgspec.Raw = msgspec.Raw(b"null")
    amends: Any = False


class _Result(msgspec.Struct, gc=False):
    toolCallId: Any = None  # noqa: N815 - the name in recorded logs
    is_error: Any = None
    token_count: Any = None
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Outcome(msgspec.Struct, gc=False):
    error: Any = None


class _Named(msgspec.Struct, gc=False):
    title: Any = None
    auto: Any = None
    agent_id: Any = None


_said_decoder = LazyDecoder(_Said)
_call_decoder = LazyDecoder(_Call)
_result_decoder = LazyDecoder(_Result)
_outcome_decoder = LazyDecoder(_Outcome)
_named_decoder = LazyDecoder(_Named)
_decode_any = msgspec.json.Decoder().decode
_encode_json = msgspec.json.Encoder().encode


class Words(msgspec.Struct, frozen=True):
    """The words of the user, and those of the assistant and its tools."""

    asked: Hearing
    told: Hearing


class Tally(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="shape", tag=SHAPE):
    """The figures of one session. Times are Unix milliseconds, hours are counted in UTC."""

    first: int = 0
    last: int = 0
    """The latest time of any event."""
    active_ms: int = 0
    """Time with an event every few minutes."""
    latest: int = 0
    """The time of the newest event."""
    agent: str | None = None
    model: str | None = None
    """The last model that was named."""
    coarse_until: int = 0
    """Hours before this one were added up into days or more."""
    hours: dict[int, Hour] = {}
    """Counts of this session's own events, by hour."""
    inherited: Hour | None = None
    """Counts of events copied by a fork or a merge; totals count them in the session where they happened."""
    copying: str = ""
    """The run under which a merge is copying another session's events."""
    calls: Calls = msgspec.field(default_factory=Calls)
    """Calls that are incomplete: their second half or result may still come."""
    files: dict[str, int] = {}
    asked: dict[str, int] = {}
    """Words of the vocabulary that the user used, with their counts."""
    told: dict[str, int] = {}
    """Words of the vocabulary that the assistant and its tools used, with their counts."""
    terms: dict[str, int] = {}
    """Other words that the user used most."""

    def feed(self, events: Iterable[Event]) -> Tally:
        """Count the next events of the log, in their order. Never raises about their content."""
        words = Words(Hearing(self.asked), Hearing(self.told))
        reducer_of = _REDUCERS.get
        for event in events:
            stamp = event.timestamp
            if stamp > 0:
                if not self.latest:
                    self.first = stamp
                elif 0 < stamp - self.latest <= _PAUSE_MS:
                    self.active_ms += stamp - self.latest
                self.last, self.latest = max(self.last, stamp), stamp
            reduce = reducer_of(event.type)
            if reduce is not None:
                try:
                    reduce(self, event, words)
                except (ValueError, RecursionError):
                    continue  # malformed: it stays in the log, but does not count
        words.asked.count()
        words.told.count()
        return self

    def feed_usage(self, events: Iterable[Event]) -> Tally:
        """Count the usage in these events and nothing else, which needs no vocabulary. Never raises."""
        for event in events:
            if (spend := _SPENDERS.get(event.type)) is not None:
                with suppress(ValueError, RecursionError):
                    spend(self, event)
        return self

    def to_bytes(self) -> bytes:
        # Sorted: words are counted in batches, and their order would depend on how the events were batched.
        self.asked, self.told = dict(sorted(self.asked.items())), dict(sorted(self.told.items()))
        return with_check(_encode(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Tally:
        """Return the tally in these bytes. Raises InvalidData if they are invalid, or of another version."""
        try:
            return _decoder.decode(without_check(data))
        except (ValueError, RecursionError) as error:
            raise InvalidData(f"not a tally: {error}") from error

    def spent(self) -> dict[str, Spent]:
        """Return the usage of all requests, by model; ``""`` if no model was named."""
        found: dict[str, Spent] = {}
        for hour in self.all_hours():
            add_all(found, hour.spent, Spent)
            add_all(found, hour.paid, Spent)
        return found

    def tools(self) -> dict[str, ToolHours]:
        found: dict[str, ToolHours] = {}
        for hour in self.all_hours():
            add_all(found, hour.tools, ToolHours)
        return found

    @property
    def messages(self) -> int:
        """Return the number of messages, as the session's state counts them."""
        return sum(hour.messages for hour in self.all_hours())

    @property
    def turns(self) -> int:
        """Return the number of turns: the recorded ones, else the user's messages."""
        turns = sum(hour.turns for hour in self.all_hours())
        return turns or sum(hour.asked for hour in self.all_hours())

    @property
    def estimate(self) -> int:
        """The estimated tokens of the whole conversation, if none were reported."""
        hours = self.all_hours()
        if any(hour.spent or hour.paid for hour in hours):
            return 0
        return sum(hour.estimated for hour in hours)

    def all_hours(self) -> list[Hour]:
        """Return the figures of the whole conversation, including inherited ones."""
        own = list(self.hours.values())
        return own if self.inherited is None else [self.inherited, *own]

    def take_over(self) -> None:
        """Mark everything counted so far as another session's."""
        inherited = self._taken_over()
        for hour in self.hours.values():
            inherited.add(hour)
        self.hours, self.coarse_until, self.active_ms = {}, 0, 0

    def _taken_over(self) -> Hour:
        if self.inherited is None:
            self.inherited = Hour()
        return self.inherited

    def hour_at(self, event: Event) -> Hour:
        """Return the figures of an event's hour; one without a time counts in the current hour of the log."""
        # One of another session that a merge copied.
        if self.copying and (event.run == self.copying or (event.run or "").startswith(f"{self.copying}.")):
            return self._taken_over()
        key = (event.timestamp if event.timestamp > 0 else self.latest) // HOUR_MS
        hour = self.hours.get(key)
        if hour is not None:
            return hour
        key = hour_of(key)
        if key not in self.hours:
            self.hours[key] = Hour()
            self.hours, self.coarse_until = coarsen(self.hours, self.coarse_until)
        return self.hours.setdefault(key, Hour())

    def tool_at(self, event: Event, name: str) -> ToolHours:
        tools = self.hour_at(event).tools
        place = room_for(tools, name)
        use = tools.get(place)
        if use is None:
            use = tools[place] = ToolHours()
        return use

    def spend(self, event: Event, usage: Any, model: Any, metadata: Any) -> None:
        """Count the usage of a message; foreign logs have it among the metadata."""
        if usage is None and isinstance(metadata, dict):
            usage, model = metadata.get("usage"), model or metadata.get("model")
        if isinstance(model, str) and model:
            self.model = model[:NAME_CHARS_MAX]
        if isinstance(usage, dict):
            name, spent, named = weigh(usage, model)
            if named and usage.get("settles") is True:
                self._settle(name)
            hour = self.hour_at(event)
            by_model = hour.paid if named else hour.spent
            place = room_for(by_model, name)
            if place in by_model:
                by_model[place].add(spent)
            else:
                by_model[place] = spent

    def _settle(self, model: str) -> None:
        """Mark the usage of a model so far as paid: its cost is in one sum. ``""`` is all."""
        for hour in self.all_hours():
            for name in [name for name in hour.spent if model in ("", name)]:
                hour.paid.setdefault(room_for(hour.paid, name), Spent()).add(hour.spent.pop(name))

    def touch(self, path: str) -> None:
        path = path[:_PATH_CHARS_MAX]
        self.files[path] = self.files.get(path, 0) + 1
        self.files = keep_heaviest(self.files, _FILES_MAX)


def _user(tally: Tally, event: Event, words: Words) -> None:
    hour = tally.hour_at(event)
    hour.messages += 1
    told = _said_decoder.decode(event.raw)
    results = 0
    for kind, block in blocks_of(told.content):
        if kind == "tool_result":
            results += 1
            raw = _encode_json(block.get("content"))
            if told_tokens(told.token_count) is None:
                tally.hour_at(event).estimated += _size(None, raw)
            _end(tally, event, block.get("tool_use_id"), failed=block.get("is_error") is True)
            words.told.text(_plain(raw[:_RESULT_BYTES]))
        else:
            tally.calls.speak(event.run)
    hour.asked += not results or results < len(told.content)
    hour.estimated += _length(told.token_count, told.content)
    said = words_of(_text_of(told.content, _USER_CHARS))
    words.asked.words(said)
    count_terms(tally.terms, said[:_TERM_WORDS])
    tally.terms = keep_heaviest(tally.terms, _TERMS_MAX)


def _system(tally: Tally, event: Event, _words: Words) -> _Said:
    hour = tally.hour_at(event)
    hour.messages += 1
    said = _said_decoder.decode(event.raw)
    hour.estimated += _length(said.token_count, said.content)
    return said


def _assistant(tally: Tally, event: Event, words: Words) -> None:
    said = _system(tally, event, words)
    _spend_message(tally, event, said)
    if said.model != _GUIDE:
        words.told.text(_text_of(said.content, _ASSISTANT_CHARS))
    for kind, block in blocks_of(said.content):
        id, tool = block.get("id"), block.get("name")
        if kind == "tool_use" and isinstance(id, str) and isinstance(tool, str):
            size = 0 if told_tokens(said.token_count) is not None else None
            _take(tally, event, words, (id, tool, _encode_json(block.get("input")), size))


def _spend_message(tally: Tally, event: Event, said: _Said) -> None:
    if said.usage is not None or said.metadata is not None or said.model is not None:
        tally.spend(event, said.usage, said.model, said.metadata)


def _length(told: Any, content: Any) -> int:
    """Return the tokens of a message: as recorded, else by the length of its texts."""
    known = told_tokens(told)
    if known is not None:
        return known
    if isinstance(content, str):
        return estimate_tokens(content)
    if not isinstance(content, list):
        return 0
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return sum(estimate_tokens(text) for text in texts if isinstance(text, str))


def _size(told: Any, data: bytes) -> int:
    known = told_tokens(told)
    return -(-len(data) // BYTES_PER_TOKEN) if known is None else known


def _text_of(content: Any, most: int) -> str:
    if isinstance(content, str):
        return content[:most]
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return " ".join(text[:most] for text in texts if isinstance(text, str))[:most]


def _tool_call(tally: Tally, event: Event, words: Words) -> None:
    call = _call_decoder.decode(event.raw)
    _spend_call(tally, event, call)
    said = (call.id, call.tool, bytes(call.params), told_tokens(call.token_count))
    _take(tally, event, words, said, begun=True, amends=call.amends is True)


def _spend_call(tally: Tally, event: Event, call: _Call) -> None:
    if call.usage is not None or call.metadata is not None:
        tally.spend(event, call.usage, call.model, call.metadata)


_Use = tuple[str, str, bytes, int | None]  # the id, the tool, its parameters, and how many tokens that is


def _take(tally: Tally, event: Event, words: Words, said: _Use, *, begun: bool = False, amends: bool = False) -> None:
    """Count a call, unless it is known already, and what is new in it."""
    id, tool, params, size = said
    name = tool[:NAME_CHARS_MAX]
    half = (event.run, id, name, mark_of(name, params), event.timestamp)
    news = tally.calls.amend(*half) if amends else tally.calls.take(*half, begun=begun)
    if news == "nothing":
        return
    if news == "call":
        tally.tool_at(event, name).calls += 1
        tally.hour_at(event).estimated += _size(size, params)
    text = _plain(params[:_CALL_BYTES])
    words.told.text(text)
    for path in _paths(params, text):
        tally.touch(path)


def _paths(params: bytes, text: str) -> Iterable[str]:
    """Return the files that a call names: in the usual members, else anywhere."""
    if len(params) <= _CALL_BYTES:
        given = _decode_any(params)
        if isinstance(given, dict):
            named = [
                path
                for name, value in given.items()
                if name.lower() in _PATH_MEMBERS
                for path in (value if isinstance(value, list) else [value])
                if isinstance(path, str) and path
            ]
            if named:
                return named
    pieces = (piece.strip(_AROUND_PATHS) for piece in text.split() if "." in piece)
    return dict.fromkeys(piece for piece in pieces if _is_path(piece))


def _plain(data: bytes) -> str:
    """Return the text in a piece of JSON, precise enough to find words in it."""
    if b"\\" in data:
        data = _ESCAPES.sub(b" ", data)
    return data.decode(errors="ignore")


def _tool_result(tally: Tally, event: Event, words: Words) -> None:
    hour = tally.hour_at(event)
    hour.messages += 1
    found = _result_decoder.decode(event.raw)
    hour.estimated += _size(found.token_count, bytes(found.result))
    raw = bytes(found.result)
    failed = found.is_error is True or (raw[:1] == b"{" and _outcome_decoder.decode(raw).error is True)
    _end(tally, event, found.toolCallId, failed=failed)
    words.told.text(_plain(raw[:_RESULT_BYTES]))


def _end(tally: Tally, event: Event, id: Any, *, failed: bool) -> None:
    call = tally.calls.answer(event.run, id if isinstance(id, str) else None)
    if call is not None:
        took = event.timestamp - call.since if call.since > 0 else -1
        tally.tool_at(event, call.tool).finish(took if took >= 0 else None, failed=failed)


def _permission(tally: Tally, event: Event, _words: Words) -> None:
    call = event.data.get("call")
    if isinstance(call, str) and stage_after(event.data.get("decision"), event.data.get("id")) in ("begun", "refused"):
        tally.calls.decide(call, event.timestamp)


def _turn_start(tally: Tally, event: Event, _words: Words) -> None:
    tally.hour_at(event).turns += 1


def _title(_tally: Tally, event: Event, words: Words) -> None:
    named = _named_decoder.decode(event.raw)
    if isinstance(named.title, str) and named.auto is not True:
        words.asked.text(named.title[:_USER_CHARS])


def _forked(tally: Tally, event: Event, _words: Words) -> None:
    tally.take_over()
    run = event.run if event.data.get("reason") == "merge" else None
    tally.copying = (run or "")[:NAME_CHARS_MAX]


def _merged(tally: Tally, _event: Event, _words: Words) -> None:
    tally.copying = ""


def _session_start(tally: Tally, event: Event, _words: Words) -> None:
    agent = _named_decoder.decode(event.raw).agent_id
    if isinstance(agent, str) and tally.agent is None:
        tally.agent = agent[:NAME_CHARS_MAX]


_SPENDERS: dict[str, Callable[[Tally, Event], None]] = {
    "assistant": lambda tally, event: _spend_message(tally, event, _said_decoder.decode(event.raw)),
    "tool_call": lambda tally, event: _spend_call(tally, event, _call_decoder.decode(event.raw)),
    "usage": lambda tally, event: tally.spend(event, event.data, event.data.get("model"), None),
}

_REDUCERS: dict[str, Callable[[Tally, Event, Words], object]] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "permission": _permission,
    "turn_start": _turn_start,
    # Calls that a turn leaves open wait for an answer: that is not the duration of the tool.
    "turn_end": lambda tally, event, _: tally.calls.stop_clocks(event.run),
    "interrupted": lambda tally, *_: tally.calls.stop_clocks(all_runs=True),
    "forked": _forked,
    "merged": _merged,
    "closed": lambda tally, *_: tally.calls.stop_clocks(all_runs=True),
    "usage": lambda tally, event, _: _SPENDERS["usage"](tally, event),
    "title": _title,
    "session_start": _session_start,
}

TELLING = frozenset(["assistant", "title", "tool_call", "tool_result", "user"])
"""The types of events that can change the automatic tags."""

_encode = msgspec.msgpack.Encoder().encode
_decoder = LazyDecoder(Tally, msgspec.msgpack)
