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
from functools import reduce
from operator import getitem
from typing import Any, Protocol, cast

from pydantic_core import to_jsonable_python

from holdfast.errors import Fenced, UsageError
from holdfast.integrations._history import MessageHistory, States, missing
from holdfast.integrations._place import Library
from holdfast.integrations._units import Form, Unit, Words, alike, answered, blocks_of, fresh, retract, spoken

__all__ = ["HoldfastState", "bring_over"]

_TOOL = "autogen"
_NAME = "state"


class _Stateful(Protocol):
    async def save_state(self) -> Mapping[str, Any]: ...

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


class HoldfastState:
    """The state of one agent or team, kept as a session of ``hf``: a Holdfast, a store URL or path, or None."""

    def __init__(self, session_id: str, hf: Library = None) -> None:
        self.session_id = session_id
        self._history = MessageHistory(_FORM, hf, _TOOL, session_id)
        self._states = States(self._history.place, _TOOL)
        self._known: int | None = None

    async def save(self, agent: _Stateful) -> None:
        """Record the state on the medium. Raises Fenced if it was loaded here, and saved elsewhere since."""
        state = to_jsonable_python(await agent.save_state())
        await asyncio.to_thread(self._save, state)

    async def load(self, agent: _Stateful) -> bool:
        """Load the saved state into an agent or a team, and return whether there was one.

        An agent without a state of its own is given what other frameworks said in the session.
        """
        state = await asyncio.to_thread(self._load)
        if state is None:
            return False
        await agent.load_state(state)
        return True

    def close(self) -> None:
        """Release the session to other processes now, rather than after the idle time."""
        self._history.place.close()

    def _save(self, state: dict[str, Any]) -> None:
        place = _thread(state)
        rest = _with(state, place, []) if place else state
        self._states.record(_NAME, {"thread": place, "rest": rest}, lambda: self._tell_thread(_said(state)))
        self._known = self._states.at.get(_NAME, -1)

    def _tell_thread(self, thread: list[dict[str, Any]]) -> Words:
        """Return the changes that make these the recorded messages, if nobody else saved in between."""
        # A state is saved as a whole: the later of two would undo the changes of the earlier one.
        if self._known not in (None, self._states.at.get(_NAME, -1)):
            told = f"the state of {self.session_id} was saved elsewhere since it was loaded here"
            raise Fenced(told, session_id=self._history.place.id, remedy="Load it again, and go on from there.")
        units = [unit for unit in self._history.read() if unit.own]
        same = alike([unit.item for unit in units], thread)
        return [*retract(units[same:]), *_FORM.words(thread[same:])]

    def _load(self) -> dict[str, Any] | None:
        self._states.catch_up()
        self._known = self._states.at.get(_NAME, -1)
        found = self._states.values.get(_NAME)
        units = self._history.read()
        if found is None:
            messages = [_message(unit) for unit in answered(units)]
            return {"type": "AssistantAgentState", "llm_context": {"messages": messages}} if messages else None
        whole: dict[str, Any] = fresh(found["rest"])
        if found["thread"]:
            whole = _with(whole, found["thread"], [unit.fresh for unit in units if unit.own])
        return whole


async def bring_over(source: Mapping[str, Any] | str | bytes, session_id: str, hf: Library = None) -> int:
    """Record a state that ``save_state`` returned, or its JSON; return the number of messages.

    Done again, it records only what is new there. Raises UsageError if that is no state, or if what
    is on record is another conversation.
    """
    try:
        state = json.loads(source) if isinstance(source, (str, bytes)) else source
    except ValueError as error:
        raise UsageError("a state that is brought over is a map or its JSON") from error
    if not isinstance(state, Mapping):
        raise UsageError(f"a state that is brought over is a map, not {type(state).__name__}")
    target = HoldfastState(session_id, hf)
    try:
        return await asyncio.to_thread(_bring, target, to_jsonable_python(state))
    finally:
        target.close()


def _bring(target: HoldfastState, state: dict[str, Any]) -> int:
    recorded = target._load()  # noqa: SLF001 - of this module
    new = missing(_said(recorded or {}), _said(state), target.session_id)
    if recorded is None or new:
        target._save(state)  # noqa: SLF001 - as above
    elif not _thread(state) and recorded != state:
        # Without messages it is unknown which of the two is newer.
        raise UsageError(f"session {target.session_id} holds another state than is brought over")
    return len(new)


def _said(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages of a state."""
    place = _thread(state)
    found: list[dict[str, Any]] = reduce(getitem, place, state) if place else []  # type: ignore[arg-type]
    return found


def _thread(state: dict[str, Any]) -> list[str]:
    """Return the path to a state's messages: an agent's in its context, a team's with its manager."""
    if isinstance(state.get("llm_context"), dict) and "messages" in state["llm_context"]:
        return ["llm_context", "messages"]
    for name, agent in (state.get("agent_states") or {}).items():
        if isinstance(agent, dict) and isinstance(agent.get("message_thread"), list):
            return ["agent_states", name, "message_thread"]
    return []


def _with(state: Any, place: list[str], value: Any) -> Any:
    """Return the state with another value at a place."""
    if not place:
        return value
    return {**state, place[0]: _with(state[place[0]], place[1:], value)}


def _message(unit: Unit) -> dict[str, Any]:
    """Return a message of others for an assistant, in the form of its context."""
    return cast("dict[str, Any]", unit.fresh) if unit.own else _spelt(unit.item["role"], unit.blocks)


def _spelt(role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    if role == "system":
        return {"type": "SystemMessage", "content": _text(blocks)}
    results = [_result(block) for block in blocks if block["type"] == "tool_result"]
    if results:
        return {"type": "FunctionExecutionResultMessage", "content": results}
    if role == "user":
        return {"type": "UserMessage", "content": _text(blocks), "source": "user"}
    calls = [
        {"id": block["id"], "arguments": json.dumps(block["input"], ensure_ascii=False), "name": block["name"]}
        for block in blocks
        if block["type"] == "tool_use"
    ]
    said = (
        {"content": calls, "thought": _text(blocks) or None} if calls else {"content": _text(blocks), "thought": None}
    )
    return {"type": "AssistantMessage", "source": "assistant", **said}


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")


def _result(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("content")
    text = _text(given) if isinstance(given, list) else given
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    named = {"name": block.get("name") or "", "call_id": block["tool_use_id"]}
    return {"content": text, **named, "is_error": bool(block.get("is_error"))}


def _tell(item: dict[str, Any]) -> Words:
    kind, source = item.get("type"), item.get("source")
    role = "system" if kind == "SystemMessage" else "assistant"
    if source == "user" or kind in ("UserMessage", "FunctionExecutionResultMessage"):
        role = "user"
    words = spoken({"role": role, "content": _blocks(item)})
    for type, data in words:
        if type == "assistant" and source:
            data["agent"] = source
    return words


def _blocks(item: dict[str, Any]) -> list[dict[str, Any]]:
    content, thought = item.get("content"), item.get("thought")
    made: list[dict[str, Any]] = []
    if isinstance(thought, str) and thought:
        # AutoGen has text beside calls as a thought; beside a text, a thought is thinking.
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
        given = None
    return given if isinstance(given, dict) else {"arguments": text}


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    role = {"user": "user", "tool_result": "user", "system": "system"}.get(type, "assistant")
    made = _spelt(role, blocks_of(words))
    return made | ({"source": data["agent"]} if "agent" in data else {})


_FORM = Form("autogen/1", _tell, _rebuild)
