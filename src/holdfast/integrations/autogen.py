"""AutoGen on our log: the state of an agent or a team, saved and loaded by name.

.. code-block:: python

    state = HoldfastState("trip-planner")
    await state.load(team)  # False the first time
    await team.run(task="Plan a trip")
    await state.save(team)

What was said is the conversation of the session; the rest of the state is kept beside it. Each time
only what is new is recorded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic_core import to_jsonable_python

from holdfast.errors import Fenced, UsageError
from holdfast.integrations._history import MessageHistory, States, missing
from holdfast.integrations._place import Library
from holdfast.integrations._units import Form, Unit, Words, answered, blocks_of, fresh, retraction, shared_start, spoken

__all__ = ["HoldfastState", "bring_over"]

_TOOL = "autogen"
_NAME = "state"


class _Stateful(Protocol):
    async def save_state(self) -> Mapping[str, Any]: ...

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


class HoldfastState:
    """The state of one agent or team, kept as a session of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place.
    """

    def __init__(self, session_id: str, hf: Library = None) -> None:
        self.session_id = session_id
        self._history = MessageHistory(_FORM, hf, _TOOL, session_id)
        self._states = States(self._history.place, _TOOL)
        self._known: int | None = None

    async def save(self, agent: _Stateful) -> None:
        """Record the state of an agent or a team; it is on the medium when this returns.

        Raises Fenced if it was loaded here, and saved elsewhere since.
        """
        state = to_jsonable_python(await agent.save_state())
        await asyncio.to_thread(self._save, state)

    async def load(self, agent: _Stateful) -> bool:
        """Give an agent or a team the state that was saved; whether there was one.

        An agent without a state of its own is given what other frameworks said in the session.
        """
        state = await asyncio.to_thread(self._load)
        if state is None:
            return False
        await agent.load_state(state)
        return True

    def close(self) -> None:
        """Give the session back to other processes now, rather than after a rest."""
        self._history.place.close()

    def _save(self, state: dict[str, Any]) -> None:
        place = _thread(state)
        thread = _at(state, place) if place else []
        rest = _with(state, place, []) if place else state
        self._states.record(_NAME, {"thread": place, "rest": rest}, lambda: self._tell_thread(thread))
        self._known = self._states.at(_NAME)

    def _tell_thread(self, thread: list[dict[str, Any]]) -> Words:
        """What makes these the messages on record, where nobody else saved in between."""
        # A state is saved whole: the later of two would undo what the earlier one said.
        if self._known not in (None, self._states.at(_NAME)):
            raise Fenced(
                f"the state of {self.session_id} was saved elsewhere since it was loaded here",
                session_id=self._history.place.id,
                remedy="Load it again, and go on from there.",
            )
        units = [unit for unit in self._history.read() if unit.own]
        same = shared_start([unit.item for unit in units], thread)
        return [*retraction(units[same:]), *self._history.words(thread[same:])]

    def _load(self) -> dict[str, Any] | None:
        self._states.catch_up()
        self._known = self._states.at(_NAME)
        found = self._states.newest(_NAME)
        units = self._history.read()
        if found is None:
            messages = [message for unit in answered(units) for message in _messages(unit)]
            context = {"messages": messages}
            return {"type": "AssistantAgentState", "llm_context": context} if messages else None
        thread = [unit.fresh for unit in units if unit.own]
        whole: dict[str, Any] = fresh(found["rest"])
        if found["thread"]:
            whole = _with(whole, found["thread"], thread)
        return whole


async def bring_over(source: Mapping[str, Any] | str | bytes, session_id: str, hf: Library = None) -> int:
    """Record what ``save_state`` of an agent or a team gave, or its JSON; how many messages.

    Done again, it records only what is new there. Raises UsageError if that is no state, or if what
    is on record is another conversation.
    """
    state = _state_of(source)
    target = HoldfastState(session_id, hf)
    try:
        return await asyncio.to_thread(_bring, target, state)
    finally:
        target.close()


def _bring(target: HoldfastState, state: dict[str, Any]) -> int:
    recorded = target._load()  # noqa: SLF001 - of this module
    new = missing(_said(recorded or {}), _said(state), target.session_id)
    if recorded is None or new:
        target._save(state)  # noqa: SLF001 - as above
    elif not _thread(state) and recorded != state:
        # Without messages nothing tells which of the two is the newer one.
        raise UsageError(f"session {target.session_id} holds another state than is brought over")
    return len(new)


def _state_of(source: Mapping[str, Any] | str | bytes) -> dict[str, Any]:
    try:
        state = json.loads(source) if isinstance(source, (str, bytes)) else source
    except ValueError as error:
        raise UsageError("a state that is brought over is a map or its JSON") from error
    if not isinstance(state, Mapping):
        raise UsageError(f"a state that is brought over is a map, not {type(state).__name__}")
    made: dict[str, Any] = to_jsonable_python(state)
    return made


def _said(state: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a state."""
    place = _thread(state)
    found: list[dict[str, Any]] = _at(state, place) if place else []
    return found


def _thread(state: dict[str, Any]) -> list[str]:
    """Where a state has its messages: an agent in its context, a team with its manager."""
    if isinstance(state.get("llm_context"), dict) and "messages" in state["llm_context"]:
        return ["llm_context", "messages"]
    for name, agent in (state.get("agent_states") or {}).items():
        if isinstance(agent, dict) and isinstance(agent.get("message_thread"), list):
            return ["agent_states", name, "message_thread"]
    return []


def _at(state: Any, place: list[str]) -> Any:
    for name in place:
        state = state[name]
    return state


def _with(state: Any, place: list[str], value: Any) -> Any:
    """The state with another value at a place."""
    if not place:
        return value
    return {**state, place[0]: _with(state[place[0]], place[1:], value)}


def _messages(unit: Unit) -> list[dict[str, Any]]:
    """What an assistant gets of others' messages, in the form of its context."""
    if unit.own:
        return [unit.fresh]
    role, content = unit.item["role"], unit.item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if role == "system":
        return [{"type": "SystemMessage", "content": _text(blocks)}]
    results = [_result(block) for block in blocks if block["type"] == "tool_result"]
    if results:
        return [{"type": "FunctionExecutionResultMessage", "content": results}]
    if role == "user":
        return [{"type": "UserMessage", "content": _text(blocks), "source": "user"}]
    calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
    said = {"type": "AssistantMessage", "source": "assistant"}
    if not calls:
        return [{**said, "content": _text(blocks), "thought": None}]
    return [{**said, "content": calls, "thought": _text(blocks) or None}]


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _call(block: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(block["input"], ensure_ascii=False)
    return {"id": block["id"], "arguments": arguments, "name": block["name"]}


def _result(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("content")
    text = _text(given) if isinstance(given, list) else given
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    named = {"name": block.get("name") or "", "call_id": block["tool_use_id"]}
    return {"content": text, **named, "is_error": bool(block.get("is_error"))}


def _tell(item: dict[str, Any]) -> Words:
    blocks = _blocks(item)
    if not blocks:
        return []
    kind, source = item.get("type"), item.get("source")
    role = "system" if kind == "SystemMessage" else "assistant"
    if source == "user" or kind in ("UserMessage", "FunctionExecutionResultMessage"):
        role = "user"
    words = spoken({"role": role, "content": blocks}, "neutral")
    for type, data in words:
        if type == "assistant" and source:
            data["agent"] = source
    return words


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    content, thought = item.get("content"), item.get("thought")
    made: list[dict[str, Any]] = []
    if isinstance(thought, str) and thought:
        # What is said beside calls is a thought here; beside a text it is one.
        beside_calls = isinstance(content, list)
        made.append({"type": "text", "text": thought} if beside_calls else {"type": "thinking", "thinking": thought})
    if isinstance(content, dict):  # of a structured message
        content = json.dumps(content, ensure_ascii=False)
    if isinstance(content, str) and content:
        made.append({"type": "text", "text": content})
    for part in content if isinstance(content, list) else []:
        if isinstance(part, str):
            made.append({"type": "text", "text": part})
        elif isinstance(part, dict) and "arguments" in part:
            arguments = _arguments(part["arguments"])
            made.append({"type": "tool_use", "id": part["id"], "name": part["name"], "input": arguments})
        elif isinstance(part, dict) and "call_id" in part:
            failed = {"is_error": True} if part.get("is_error") else {}
            result = {"tool_use_id": part["call_id"], "content": part.get("content")}
            made.append({"type": "tool_result", **result, **failed})
    return made


def _arguments(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError:
        return {"arguments": text}
    return given if isinstance(given, dict) else {"arguments": text}


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    blocks = [block for word in words for block in blocks_of(*word)]
    role = "user" if type == "tool_result" else type
    role = role if role in ("user", "system") else "assistant"
    made = _messages(Unit((), own=False, item={"role": role, "content": blocks}))[0]
    return made | ({"source": data["agent"]} if "agent" in data else {})


_FORM = Form("autogen/1", _tell, _rebuild)
