"""Turns: the events of a log cut where someone asks something new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event
from holdfast.replay._calls import Calls, blocks_of, mark_of
from holdfast.replay._ids import call_key
from holdfast.replay._state import Tokens
from holdfast.replay._usage import add_usage

NOT_IN_TURNS = frozenset(
    """
    session_start opened closed title tag untag link forked merged imported interrupted redacted
    repaired variable_set variable_delete memory_set memory_delete todo_update plugin_state
    permission tools instructions config task metadata suspended resumed frame
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
"""What is state or the session's own life: it stands between turns, wherever it was recorded."""

WORDS = frozenset({"user", "assistant", "thinking", "tool_call", "tool_result", "delta"})
_FILES = frozenset({"path", "file", "file_path", "filepath", "filename", "notebook_path"})
_FILE_LISTS = frozenset({"paths", "files", "file_paths"})
_SHOWN_CHARS_MAX = 2_000


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn was about, for people and programs that read no events."""

    number: int
    """Counted from 1 within the events that were looked at."""
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
        """Add the next event; what came before the first words only led up to them."""
        if is_start and not self.has_words:
            self.run = event.run
        self.events.append(event)
        self.has_words = self.has_words or event.type in WORDS

    @property
    def first(self) -> int:
        """The seq of its first event."""
        return self.events[0].seq

    @property
    def last(self) -> int:
        """The seq of its last event."""
        return self.events[-1].seq

    def view(self) -> TurnView:
        """What it was about; long texts are cut."""
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
        """What was said in the turn's own run by events of this type."""
        for event in self.events:
            if event.type == type and event.run == self.run:
                text = text_of(data_of(event).get("content"))
                if text:
                    yield text


def split_turns(events: Iterable[Event]) -> list[TurnEvents]:
    """The turns of these events; every event that is not state is in exactly one of them.

    A turn begins with ``turn_start``, or with a user's words outside of one. What comes before the
    first such event goes on with a turn that began elsewhere, and is one by itself.
    """
    turns: list[TurnEvents] = []
    is_open = False
    for event in events:
        if event.type in NOT_IN_TURNS:
            continue
        starts = event.type == "turn_start" or (event.type == "user" and _is_own(turns, event))
        if not turns or (starts and not is_open and turns[-1].has_words):
            turns.append(TurnEvents(len(turns) + 1, event))
        else:
            turns[-1].take(event, is_start=starts)
        if event.run == turns[-1].run and event.type in ("turn_start", "turn_end"):
            is_open = event.type == "turn_start"
    return turns


def _is_own(turns: list[TurnEvents], event: Event) -> bool:
    """Whether a user's words are for the top-level agent, as far as the run tells."""
    return event.run is None or not turns or event.run == turns[-1].run


def data_of(event: Event) -> dict[str, Any]:
    """The event's data; nothing where a foreign log holds no object."""
    try:
        return event.data
    except HoldfastError:
        return {}


class ToolAct(NamedTuple):
    """A call, more about a call, or what came of one."""

    what: Literal["call", "arguments", "result"]
    tool: str
    params: Any = None
    failed: bool = False


def tool_acts(events: Iterable[Event]) -> Iterator[ToolAct]:
    """What was done with tools: each call once, however it was recorded, and each result."""
    calls = Calls()
    for event in events:
        data = data_of(event)
        if event.type == "tool_call":
            given = (data.get("id"), data.get("tool"), data.get("params"))
            amends = data.get("amends") is True
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
    calls: Calls,
    run: str | None,
    id: Any,
    tool: Any,
    params: Any,
    *,
    begun: bool = False,
    amends: bool = False,
) -> Iterator[ToolAct]:
    name = str(tool)
    key, mark = call_key(id), mark_of(name, msgspec.json.encode(params))
    if amends:
        news = calls.amend(run, key, name, mark, 0)
    else:
        news = calls.take(run, key, name, mark, 0, begun=begun)
    if news != "nothing":
        yield ToolAct(news, name, params)


def _answered(calls: Calls, run: str | None, id: Any, data: dict[str, Any]) -> ToolAct:
    call = calls.answer(run, call_key(id))
    tool = "" if call is None else call.tool
    return ToolAct("result", tool, failed=data.get("is_error") is True)


def text_of(content: Any) -> str:
    """The words in a message's content: a text, or the texts of its blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def files_in(params: Any) -> list[str]:
    """The files that a tool call names in its parameters."""
    if not isinstance(params, dict):
        return []
    found = [params[name] for name in params if name.lower() in _FILES]
    for name in params:
        if name.lower() in _FILE_LISTS and isinstance(params[name], list):
            found += params[name]
    return [path for path in dict.fromkeys(p for p in found if isinstance(p, str)) if path]


def tokens_of(events: Iterable[Event]) -> dict[str, Tokens]:
    """What these events used, by model."""
    by_model: dict[str, Tokens] = {}
    for event in events:
        if event.type not in ("assistant", "tool_call", "usage"):
            continue
        data = data_of(event)
        metadata = data.get("metadata")
        figures, model = data if event.type == "usage" else data.get("usage"), data.get("model")
        if figures is None and isinstance(metadata, dict):
            figures, model = metadata.get("usage"), model or metadata.get("model")
        if isinstance(figures, dict):
            add_usage(by_model, figures, model)
    return by_model
