"""Turns: the events of a log split where the user asks something new, and their origins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event
from holdfast.replay._calls import Calls, blocks_of, mark_of
from holdfast.replay._state import Tokens, spend
from holdfast.replay._text import call_key

NOT_IN_TURNS = frozenset(
    """
    session_start opened closed title tag untag link forked merged imported interrupted redacted
    repaired variable_set variable_delete memory_set memory_delete todo_update plugin_state
    permission tools instructions config task metadata suspended resumed frame
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
"""State and the session's own life: between turns, wherever they were recorded."""

WORDS = frozenset({"user", "assistant", "thinking", "tool_call", "tool_result", "delta"})
_FILES = frozenset({"path", "file", "file_path", "filepath", "filename", "notebook_path"})
_FILE_LISTS = frozenset({"paths", "files", "file_paths"})
_SHOWN_CHARS_MAX = 2_000


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in brief, for people and programs that read no events."""

    number: int
    """Counted from 1 within the given events."""
    first_seq: int
    last_seq: int
    timestamp: int = 0
    user: str = ""
    answer: str = ""
    """The last words of the assistant."""
    tools: list[str] = []
    """The tools called, in order."""
    tokens: int = 0


class TurnEvents:
    """One turn: its events, without state and the session's own life."""

    __slots__ = ("events", "has_words", "number", "run")

    def __init__(self, number: int, first: Event) -> None:
        self.number = number
        self.run = first.run
        self.events = [first]
        self.has_words = first.type in WORDS

    def take(self, event: Event, *, is_start: bool) -> None:
        """Add the next event; those before the first words are a lead-up to them."""
        if is_start and not self.has_words:
            self.run = event.run
        self.events.append(event)
        self.has_words = self.has_words or event.type in WORDS

    @property
    def first(self) -> int:
        return self.events[0].seq

    @property
    def last(self) -> int:
        return self.events[-1].seq

    def view(self) -> TurnView:
        """Return it in brief; long texts are cut."""
        return TurnView(
            number=self.number,
            first_seq=self.first,
            last_seq=self.last,
            timestamp=self.events[0].timestamp,
            user=next(self.texts("user"), "")[:_SHOWN_CHARS_MAX],
            answer=([*self.texts("assistant")] or [""])[-1][:_SHOWN_CHARS_MAX],
            tools=[act.tool for act in tool_acts(self.events) if act.what == "call"],
            tokens=sum(tokens.total_tokens for tokens in tokens_of(self.events).values()),
        )

    def texts(self, type: str) -> Iterator[str]:
        """Yield the texts in the turn's own run by events of this type."""
        for event in self.events:
            if event.type == type and event.run == self.run and (text := text_of(data_of(event).get("content"))):
                yield text


def split_turns(events: Iterable[Event]) -> list[TurnEvents]:
    """Return the turns of these events; every event that is not state is in exactly one of them.

    A turn begins with ``turn_start``, or with a user's words outside one. Events before the first such one
    continue a turn that began elsewhere, and are one by themselves.
    """
    turns: list[TurnEvents] = []
    is_open = False
    for event in events:
        if event.type in NOT_IN_TURNS:
            continue
        # A user's words are for the top-level agent, as far as the run tells.
        is_own = event.run is None or not turns or event.run == turns[-1].run
        starts = event.type == "turn_start" or (event.type == "user" and is_own)
        # A user's words inside an open turn belong to it: the agent is being steered.
        if not turns or (starts and not is_open and turns[-1].has_words):
            turns.append(TurnEvents(len(turns) + 1, event))
        else:
            turns[-1].take(event, is_start=starts)
        if event.run == turns[-1].run and event.type in ("turn_start", "turn_end"):
            # Only the turn's own run opens and closes it: its children have turns of their own.
            is_open = event.type == "turn_start"
    return turns


def data_of(event: Event) -> dict[str, Any]:
    """Return the event's data; an empty object for a foreign log without one."""
    try:
        return event.data
    except HoldfastError:
        return {}


class ToolAct(NamedTuple):
    """A call, more data of a call, or its result."""

    what: Literal["call", "arguments", "result"]
    tool: str
    params: Any = None
    failed: bool = False

    @property
    def files(self) -> list[str]:
        return files_in(self.params)


def tool_acts(events: Iterable[Event]) -> Iterator[ToolAct]:
    """Yield what was done with tools: each call once, however it was recorded, and each result."""
    calls = Calls()
    for event in events:
        data = data_of(event)
        if event.type == "tool_call":
            given, amends = (data.get("id"), data.get("tool"), data.get("params")), data.get("amends") is True
            yield from _called(calls, event.run, *given, begun=True, amends=amends)
        elif event.type == "tool_result":
            yield _answered(calls, event.run, data.get("toolCallId"), data)
        elif event.type in ("user", "assistant"):
            for kind, block in blocks_of(data.get("content")):
                if kind == "tool_use":
                    given = (block.get("id"), block.get("name"), block.get("input"))
                    yield from _called(calls, event.run, *given)
                elif kind == "tool_result":
                    yield _answered(calls, event.run, block.get("tool_use_id"), block)
                elif event.type == "user":
                    calls.speak(event.run)


def _called(
    calls: Calls, run: str | None, id: Any, tool: Any, params: Any, *, begun: bool = False, amends: bool = False
) -> Iterator[ToolAct]:
    name = str(tool)
    # Both halves of a call are compared in recorded form, not as Python values.
    key, mark = call_key(id), mark_of(name, msgspec.json.encode(params))
    news = calls.amend(run, key, name, mark, 0) if amends else calls.take(run, key, name, mark, 0, begun=begun)
    if news != "nothing":
        yield ToolAct(news, name, params)


def _answered(calls: Calls, run: str | None, id: Any, data: dict[str, Any]) -> ToolAct:
    call = calls.answer(run, call_key(id))
    return ToolAct("result", call.tool if call else "", failed=data.get("is_error") is True)


def text_of(content: Any) -> str:
    """Return the words in a message's content: a text, or the texts of its blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def files_in(params: Any) -> list[str]:
    """Return the files that a tool call names in its parameters."""
    if not isinstance(params, dict):
        return []
    found = [value for name, value in params.items() if name.lower() in _FILES]
    for name, value in params.items():
        found += value if name.lower() in _FILE_LISTS and isinstance(value, list) else []
    return list(dict.fromkeys(path for path in found if isinstance(path, str) and path))


def tokens_of(events: Iterable[Event]) -> dict[str, Tokens]:
    by_model: dict[str, Tokens] = {}
    for event in events:
        if event.type not in ("assistant", "tool_call", "usage"):
            continue
        data = data_of(event)
        spend(by_model, data if event.type == "usage" else data.get("usage"), data.get("model"), data.get("metadata"))
    return by_model


# The origin of a session's events: its line of descent and its merges.
# A log contains this itself, whatever became of its parents: ``session_start`` and each ``forked`` give the log a new
# name, so that every event has one origin, and ``merged`` records which turns of which log are where. Nothing here
# follows a name to another log, so that no claim can lead to a cycle.
class Segment(NamedTuple):
    """A part of a session's line: the events up to ``last`` that no earlier part has."""

    session: str
    log: str
    last: int


class Copy(NamedTuple):
    """Events ``first`` to ``last`` of another log, which are here as ``to`` to ``to_last``."""

    log: str
    first: int
    last: int
    to: int
    to_last: int


class Merge(NamedTuple):
    """The end of the other session's log when its state was merged into this one."""

    session: str
    log: str
    seq: int


class Descent:
    """The origins recorded in one log."""

    def __init__(self, segments: list[Segment], copies: list[Copy], merges: list[Merge]) -> None:
        self.segments, self.copies, self.merges = segments, copies, merges
        self._ends = {one.log: one.last for one in segments}
        self._copies_from: dict[str, list[Copy]] = {}
        for one in sorted(copies, key=attrgetter("first")):
            self._copies_from.setdefault(one.log, []).append(one)
        self._copies_to: dict[int, list[Copy]] = {}
        for one in sorted(copies, key=attrgetter("to")):
            self._copies_to.setdefault(one.to, []).append(one)
        self._places = list(self._copies_to)

    def segment_of(self, seq: int) -> Segment | None:
        """Return the part of the line that an event is in."""
        at = bisect_left(self.segments, seq, key=attrgetter("last"))
        return self.segments[at] if at < len(self.segments) else None

    def places(self, origin: Copy) -> Iterator[tuple[int, int]]:
        """Yield where events of another log would be in this one: the first and the last of a part.

        A log that was copied as a file continues under the same name, so that something else may be there.
        """
        log, first, last, *_ = origin
        end = self._ends.get(log, -1)
        if first <= end:
            yield first, min(last, end)
        copies = self._copies_from.get(log, [])
        at = bisect_right(copies, first, key=attrgetter("first")) - 1
        if at >= 0 and first <= copies[at].last:
            yield copies[at].to, copies[at].to_last

    def origins(self, turn: TurnEvents) -> list[Copy]:
        """Return where a turn of this log was first recorded, and where it was copied from."""
        own = self.segment_of(turn.first)
        found = [] if own is None else [Copy(own.log, turn.first, turn.last, 0, 0)]
        at = bisect_right(self._places, turn.first) - 1
        copies = self._copies_to[self._places[at]] if at >= 0 else []
        return found + [one for one in copies if turn.first <= one.to_last]


def read_history(session_id: str, events: Iterable[Event]) -> Descent:
    """Return the origins in the events of a session. Malformed claims are ignored."""
    segments: list[Segment] = []
    copies: list[Copy] = []
    merges: list[Merge] = []
    log: str | None = None
    last = -1
    for event in events:
        last = event.seq
        if event.type == "session_start" and log is None:
            log = _text(data_of(event).get("log"))
        elif event.type == "forked":
            data = data_of(event)
            parent = _text(data.get("session")) or ""
            segments.append(Segment(parent, log or f"@{parent}", event.seq - 1))
            log = _text(data.get("log"))
        elif event.type == "merged":
            data = data_of(event)
            merged, seq, copied = _text(data.get("log")), data.get("seq"), data.get("copies")
            if merged is not None and isinstance(seq, int):
                merges.append(Merge(_text(data.get("session")) or "", merged, seq))
            for one in copied if isinstance(copied, list) else ():
                match one:
                    case [str(), int(), int(), int(), int()]:
                        copies.append(Copy(*one))
    # A log without a name of its own is identified by its session.
    segments.append(Segment(session_id, log or f"@{session_id}", last))
    return Descent(segments, copies, merges)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def common_prefix(a: Sequence[Event], b: Sequence[Event]) -> int:
    """Return the seq of the last event that both logs begin with; -1 if their first ones differ."""
    last = -1
    for event, other in zip(a, b, strict=False):
        if event != other:
            break
        last = event.seq
    return last
