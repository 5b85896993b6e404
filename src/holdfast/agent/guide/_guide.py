"""The engine: it finds the answer to a conversation, says it word by word, and continues where it was cut off.

An answer is a function of the conversation and of the results of tools. So the guide knows what it would have said
when it was killed, and says the missing words.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast._config import configuration
from holdfast._lazy import lazy_pattern
from holdfast.agent._context import ToolContext
from holdfast.agent._result import Ask, CallRequest, Reply, Speech, Usage, blocks_of
from holdfast.agent._tools import Tool
from holdfast.agent._turn import GO_ON
from holdfast.agent.guide._facts import facts_in, is_question, words_in
from holdfast.agent.guide._skills import Given, Response, Talk, skill_for
from holdfast.errors import UsageError
from holdfast.model import Event

NAME = "guide"
_WORD_MS = 25
_SLOW = 16  # factor for answers that are meant to be killed in the middle
_WORDS = lazy_pattern(r"\s*\S+\s*")
_GO_ON = lazy_pattern(
    r"^\s*(?:please )?(?:/?continue|go on|carry on|proceed|weiter|continue[zr]|continúa)[.!?]?\s*$", re.IGNORECASE
)
_SEARCH = lazy_pattern(r"\s*(?:please )?(?:search|find|look)\b", re.IGNORECASE)
_SESSIONS_MAX = 50
_TAIL_CHARS = 40
_WORDS_CHARS = 200


def guide_model(name: str) -> Guide:
    """Return the guide, for ``guide``. Raises UsageError for ``guide:anything``."""
    if name:
        raise UsageError(f"there is no model guide:{name}", remedy="There is one guide: --model guide.")
    return Guide(configuration().get("guide.word_ms", _WORD_MS))


class Guide:
    """An engine that answers by itself, word by word."""

    model_name = NAME

    def __init__(self, word_ms: int = _WORD_MS) -> None:
        self._word_s = word_ms / 1000
        self.tools = guide_tools()

    async def __aenter__(self) -> Self:
        """Do nothing: there is nothing to acquire."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: there is nothing to release."""

    async def request(self, ask: Ask) -> Reply:
        """Return the whole answer at once."""
        return _reply(answer(ask))

    async def stream(self, ask: Ask, reply: list[Reply]) -> AsyncGenerator[tuple[str, str], None]:
        """Yield the answer word by word, at reading speed."""
        step = answer(ask)
        if isinstance(step, Response):
            slow = range(begin := step.text.find(step.slow), begin + len(step.slow))
            for word in _WORDS.finditer(step.text):
                yield "text", word[0]
                await asyncio.sleep(self._word_s * (_SLOW if word.start() in slow else 1))
        reply.append(_reply(step))


def _reply(step: Response | CallRequest) -> Reply:
    # No tokens: it is not a language model.
    usage = Usage(requests=1)
    if isinstance(step, CallRequest):
        return Reply([], [step], usage, NAME)
    return Reply([Speech("text", step.text)], [], usage, NAME)


class Exchange(NamedTuple):
    """One message of the user, the results of its tools, and the answer."""

    text: str
    given: list[tuple[str, Given]]
    """The names of the tools, and their results."""
    said: str = ""


def answer(ask: Ask) -> Response | CallRequest:
    """Return the guide's answer to a conversation, or the tool that it wants used first."""
    turns = list(_turns(ask.messages))
    if not turns:
        return Response("I am the Holdfast guide, not a language model. Say something, and it is kept.")
    return _respond(turns, frozenset(tool.name for tool in ask.tools))


def _turns(messages: list[dict[str, Any]]) -> Iterator[Exchange]:
    turn: Exchange | None = None
    tools: dict[Any, str] = {}
    for message in messages:
        for block in blocks_of(message):
            kind, text = block.get("type"), str(block.get("text") or "")
            if kind == "tool_use":
                tools[block.get("id")] = str(block.get("name"))
            elif kind == "tool_result" and turn is not None:
                given = Given(block.get("content"), bool(block.get("is_error")))
                turn.given.append((tools.get(block.get("tool_use_id"), ""), given))
            elif message["role"] == "assistant" and kind == "text" and turn is not None:
                turn = turn._replace(said=turn.said + text)
            elif message["role"] == "user" and kind == "text":
                if turn is not None:
                    yield turn
                turn = Exchange(text.strip(), [])
    if turn is not None:
        yield turn


def _respond(turns: list[Exchange], tools: frozenset[str]) -> Response | CallRequest:
    *before, current = turns
    cut = _cut(before, tools)
    if not _is_go_on(current):
        step = _take(current, before, tools)
        if cut is None or not isinstance(step, Response):
            return step
        where = f"was cut off after “…{_tail(cut[0])}”" if cut[0] else "was never given"
        return step._replace(text=f"(My last answer {where}. `go on` gives the rest.)\n\n{step.text}")
    if cut is None:
        return Response("There is nothing left to finish. `What can you do?` shows what else there is.")
    said, whole = cut
    if not said:
        # No word was said: the question is answered as if it were asked now.
        return _respond([*before[:-1], current._replace(text=before[-1].text)], tools)
    rest = whole.text[len(said) :].lstrip()
    count = len(said.split())
    log = f"The {f'{count} words' if count > 1 else 'word'} before that {'are' if count > 1 else 'is'} in the log."
    # The slow part may have begun before the cut.
    begin = whole.text.find(whole.slow)
    slow = whole.text[max(begin, len(said)) : begin + len(whole.slow)].strip()
    return Response(f"I was cut off after “…{_tail(said)}”. {log} Going on: {rest}", slow)


def _cut(before: list[Exchange], tools: frozenset[str]) -> tuple[str, Response] | None:
    """Return what was said of the previous answer, and the whole of it; None if it was said to its end."""
    if not before:
        return None
    last = before[-1]
    # Such answers depend on those before them; for all others one exchange is enough.
    depends = _is_go_on(last) or last.said.startswith("(")
    whole = _respond(before, tools) if depends else _take(last, before[:-1], tools)
    said = last.said.rstrip()
    if not isinstance(whole, Response):
        return None if said else ("", Response(""))
    return (said, whole) if whole.text.startswith(said) and len(said) < len(whole.text) else None


def _take(turn: Exchange, before: list[Exchange], tools: frozenset[str]) -> Response | CallRequest:
    """Let the skill that matches a message answer it, with the results of its tools so far."""
    skill = skill_for(turn.text).answer(Talk(turn.text, tuple(one.text for one in before), tools))
    given = list(turn.given)
    try:
        wanted = next(skill)
        while True:
            found = next((one for one in given if one[0] == wanted.tool), None)
            if found is not None:
                given.remove(found)
            elif wanted.tool in tools:
                return CallRequest("", wanted.tool, wanted.args)
            wanted = skill.send(Given("there is no such tool here", is_error=True) if found is None else found[1])
    except StopIteration as end:
        return end.value if isinstance(end.value, Response) else Response(end.value)


def _is_go_on(turn: Exchange) -> bool:
    return turn.text == GO_ON or _GO_ON.match(turn.text) is not None


def _tail(said: str) -> str:
    return said[-_TAIL_CHARS:].partition(" ")[2] if len(said) > _TAIL_CHARS else said


# The guide's tools beside those of the place where it talks.


def guide_tools() -> list[Tool]:
    """Return the guide's own tools: the log, the title, the process."""
    reading: dict[str, Any] = {"read_only": True, "namespace": NAME}
    return [
        Tool(look_up, **reading),
        Tool(find_said, **reading),
        Tool(count_log, **reading),
        Tool(about_process, **reading),
        Tool(set_title, needs_permission=True, namespace=NAME),
    ]


def look_up(ctx: ToolContext, about: str) -> Any:
    """Find what the user told, in this session or an earlier one, with the words and the moment."""
    if about == "tasks":
        return [dict(one) for one in ctx.todos]
    if about == "said":
        return [_place(event, text) for event, text in _user_texts(ctx.session.events())]
    told = list(_told(ctx.session.events()))
    if about == "everything":
        # Of repeated facts the later counts; notes are all kept.
        return list({(row["about"], row["about"] == "note" and row["value"]): row for row in told}.values())
    here = [row for row in told if row["about"] == about]
    return here[-1] if here else _earlier(ctx, about)


def _earlier(ctx: ToolContext, about: str) -> Any:
    if ctx.hf is None:
        return "nothing"
    for row in ctx.hf.list(limit=_SESSIONS_MAX, agent_id=ctx.session.agent_id):
        if row.session_id != ctx.session.id:
            told = [one for one in _told(ctx.hf.events(row.session_id, types=("user",))) if one["about"] == about]
            if told:
                return {**told[-1], "session": row.session_id}
    return "nothing"


def _told(events: Any) -> Iterator[dict[str, Any]]:
    for event, text in _user_texts(events):
        for key, value in facts_in(text):
            yield {"about": key, "value": value, **_place(event, text)}


def find_said(ctx: ToolContext, question: str) -> Any:
    """Find what the user said in this session that has most of the words of a question."""
    wanted = words_in(question)
    best, most = None, len(wanted) / 2
    # The last of them is the one being answered.
    for event, text in list(_user_texts(ctx.session.events()))[:-1]:
        shared = len(wanted & words_in(text))
        if shared and shared >= most and not is_question(text) and not _SEARCH.match(text):
            best, most = _place(event, text), shared
    return best or "nothing"


def _user_texts(events: Any) -> Iterator[tuple[Event, str]]:
    for event in events:
        if event.type == "user":
            yield event, " ".join(str(one.get("text", "")) for one in blocks_of(event.data) if isinstance(one, dict))


def _place(event: Event, text: str) -> dict[str, Any]:
    return {"words": text[:_WORDS_CHARS], "said_at": _moment(event), "event": event.seq}


def _moment(event: Event) -> str:
    return time.strftime("%H:%M:%S on %Y-%m-%d", time.localtime(event.timestamp / 1000))


def count_log(ctx: ToolContext) -> dict[str, Any]:
    """Count what is recorded in this session."""
    events = list(ctx.session.events())
    kinds = [event.type for event in events]
    return {
        "events": len(kinds),
        "messages": kinds.count("user") + kinds.count("assistant"),
        "calls": kinds.count("tool_call"),
        "pieces": kinds.count("delta"),
        "since": _moment(events[0]),
    }


def about_process(ctx: ToolContext) -> dict[str, Any]:
    """Tell the process that answers, and its session."""
    return {"pid": os.getpid(), "session": ctx.session.id}


def set_title(ctx: ToolContext, title: str) -> str:
    """Give this session a title."""
    ctx.session.title = title
    return f"the title is {title}"
