"""Strands Agents on our log: a repository for ``RepositorySessionManager(session_repository=…)``.

``HoldfastSessionRepository()`` in place of ``FileSessionManager``'s folder. A session of Strands is
one of ours: the messages of its first agent are the conversation, those of further agents are runs
within it, and the state of agents is kept with them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID, uuid5

from strands.session.session_repository import SessionRepository
from strands.types._events import ToolResultEvent
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType
from strands.types.tools import AgentTool

from holdfast.errors import Fenced, UsageError
from holdfast.integrations import _units as units
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._place import AdapterSession, Library, Recent, library_of
from holdfast.model import Event

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase
    from strands.session.repository_session_manager import RepositorySessionManager

__all__ = ["HoldfastSessionRepository", "Overtaken", "bring_over", "durable"]

_TOOL = "strands"
_AGENT = "agent"
_Thing = TypeVar("_Thing")


class Overtaken(Fenced, SessionException):
    """Another process has recorded a message with this number: two processes continued one conversation."""


class _AgentSession(units.Units):
    """One session of Strands: its place, its messages, and the states of its agents."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.numbered: dict[tuple[str | None, int], dict[str, Any]] = {}  # what Strands recorded, by run and number
        self.mixed: set[str | None] = set()  # the runs in which others said something as well
        self.session: dict[str, Any] | None = None
        self.states: dict[tuple[str, str], dict[str, Any]] = {}
        """The recorded state of agents (``agent``) and of groups of agents (``multi_agent``)."""

    def _add(self, unit: units.Unit) -> None:
        super()._add(unit)
        if unit.own:
            self.numbered[unit.run, unit.item["message_id"]] = unit.item
        else:
            self.mixed.add(unit.run)

    def _drop(self, unit: units.Unit) -> None:
        if unit.own:
            self.numbered.pop((unit.run, unit.item["message_id"]), None)

    def _take_foreign(self, event: Event) -> None:
        if event.type != "frame" or event.data.get("tool") != _TOOL:
            super()._take_foreign(event)
            return
        data = event.data
        if "session" in data:
            self.session = data["session"]
        else:
            key = (data.get("of", _AGENT), data["id"])
            state = units.apply(self.states.get(key, {}), data.get("change"))
            self.states[key] = state | ({"updated_at": time_of(data["at"])} if "at" in data else {})

    @property
    def first_agent(self) -> str | None:
        """The agent whose messages are the session's conversation; None before there is one."""
        # States are kept in the order of the log, so the first agent is the same for all.
        return next((id for kind, id in self.states if kind == _AGENT), None)

    def run_of(self, agent_id: str) -> str | None:
        """Return the run of an agent; None for the conversation itself."""
        return None if self.first_agent in (None, agent_id) else agent_id

    def items(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the messages of an agent as plain data, including those of others."""
        run = self.run_of(agent_id)
        spoken = (unit for unit in self.read() if unit.run == run)
        made: list[dict[str, Any]] = []
        last = -1
        for own, some in groupby(spoken, key=lambda unit: unit.own):
            items = [unit.item for unit in some]
            if not own:
                made += [{"message": message} for message in as_messages(items)]
                continue
            for item in items:
                if item["message_id"] > last:
                    made.append(item)
                    last = item["message_id"]
                else:  # put in the place of another, later
                    later = [one.get("message_id", -1) > item["message_id"] for one in made]
                    made.insert(later.index(True), item)
        return repaired(made, f"{self.place.id}/{run}")

    def at(self, agent_id: str, number: int) -> dict[str, Any] | None:
        """Return the message with a number; None if there is none."""
        run = self.run_of(agent_id)
        if run not in self.mixed:
            return self.numbered.get((run, number))
        return next((one for one in self.items(agent_id) if one["message_id"] == number), None)

    def messages(self, agent_id: str) -> list[SessionMessage]:
        """Return the messages of an agent in the framework's form."""
        return [SessionMessage.from_dict(units.fresh(item)) for item in self.items(agent_id)]


class HoldfastSessionRepository(SessionRepository):
    """Sessions of Strands, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. A message is on the
    medium when ``create_message`` returns. A call whose result never came is answered, when the
    messages are listed, with one that says so; but one in the last message is left alone, because
    it may wait for a person, and Strands itself answers it when something else is said.
    """

    def __init__(self, hf: Library = None) -> None:
        library = library_of(hf)
        self._kept = Recent[str, _AgentSession](lambda name: _AgentSession(AdapterSession(library, _TOOL, name), FORM))

    # -- sessions ----------------------------------------------------------------------------
    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session. Raises SessionException if one with this id exists."""
        kept = self._read(session.session_id)

        def tell() -> units.Drafts:
            if kept.session is not None:
                raise SessionException(f"Session {session.session_id} already exists")
            return [units.stored(tool=_TOOL, session=session.to_dict())]

        kept.write(tell)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, even one that another framework created; None if there is none."""
        kept = self._read(session_id)
        if kept.session is not None:
            return Session.from_dict(kept.session | {"session_id": session_id})
        return Session(session_id=session_id, session_type=SessionType.AGENT) if kept.place.exists() else None

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Move a session to the trash; ``hf.undelete`` brings it back."""
        _found(self.read_session(session_id), f"Session {session_id}")
        place = self._kept(session_id).place
        self._kept.pop(session_id)
        place.delete()

    # -- agents ------------------------------------------------------------------------------
    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Record an agent of a session."""
        self._record(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return an agent as it was last recorded; None if there is none."""
        found = self._read(session_id).states.get((_AGENT, agent_id))
        return None if found is None else SessionAgent.from_dict(units.fresh(found))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Record the changes of an agent. Raises SessionException if there is none."""
        id = session_agent.agent_id
        before = _found(self.read_agent(session_id, id), f"Agent {id} in session {session_id}")
        session_agent.created_at = before.created_at
        self._record(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict())

    # -- messages ----------------------------------------------------------------------------
    def create_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Record a message. Raises Overtaken if another process recorded one with its number."""
        number = session_message.message_id
        _check_number(number)
        kept, item = self._read(session_id), session_message.to_dict()

        def tell() -> units.Drafts:
            known = kept.at(agent_id, number)
            if known is None:
                return units.as_run(FORM.record(item), kept.run_of(agent_id))
            if known["message"] == item["message"]:
                return []  # recorded by another framework, and handed on to this one
            # Two processes continued from the same message; one of the answers would be lost.
            told = f"message {number} of agent {agent_id} in session {session_id} is another one"
            raise Overtaken(told, session_id=kept.place.id)

        kept.write(tell)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **kwargs: Any) -> SessionMessage | None:
        """Return a message by its number; None if there is none."""
        _check_number(message_id)
        kept = self._read(session_id)
        with kept.lock:
            item = kept.at(agent_id, message_id)
        return None if item is None else SessionMessage.from_dict(units.fresh(item))

    def update_message(self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any) -> None:
        """Replace a message; the log keeps both."""
        number = session_message.message_id
        session_message.created_at = _found(
            self.read_message(session_id, agent_id, number), f"Message {number}"
        ).created_at
        kept = self._read(session_id)

        def tell() -> units.Drafts:
            run = kept.run_of(agent_id)
            spoken = (unit for unit in kept.read() if unit.own and unit.run == run)
            old = units.retract(unit for unit in spoken if unit.item["message_id"] == number)
            return units.as_run([*old, *FORM.record(session_message.to_dict())], run)

        kept.write(tell)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **kwargs: Any
    ) -> list[SessionMessage]:
        """Return the messages of an agent; each call but the last has a result, if need be one numbered below zero."""
        kept = self._read(session_id)
        _found(kept.states.get((_AGENT, agent_id)), f"Agent {agent_id} in session {session_id}")
        return kept.messages(agent_id)[offset : None if limit is None else offset + limit]

    def messages(self, session_id: str) -> list[Any]:
        """Return the conversation of a session, whatever recorded it, for ``Agent(messages=…)``."""
        kept = self._read(session_id)
        return [message.to_message() for message in kept.messages(kept.first_agent or "")]

    # -- groups of agents --------------------------------------------------------------------
    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Record the state of a group of agents."""
        self._record(session_id, "multi_agent", multi_agent.id, multi_agent.serialize_state())

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> dict[str, Any] | None:
        """Return the state of a group as it was last recorded; None if there is none."""
        found = self._read(session_id).states.get(("multi_agent", multi_agent_id))
        return None if found is None else cast("dict[str, Any]", units.fresh(found))

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any) -> None:
        """Record the changes of a group. Raises SessionException if there is none."""
        id = multi_agent.id
        _found(self.read_multi_agent(session_id, id), f"MultiAgent state {id} in session {session_id}")
        self.create_multi_agent(session_id, multi_agent)

    # -- inside ------------------------------------------------------------------------------
    def _read(self, session_id: str) -> _AgentSession:
        kept = self._kept(session_id)
        kept.catch_up()
        return kept

    def _record(self, session_id: str, kind: str, id: str, state: dict[str, Any]) -> None:
        kept = self._read(session_id)

        def tell() -> units.Drafts:
            before = kept.states.get((kind, id))
            change = units.difference(before or {}, state)
            if before is not None and change is None:
                return []
            of = {"of": kind} if kind != _AGENT else {}
            at = micros_of(state.get("updated_at"))
            if before is None or at is None:
                return [units.stored(tool=_TOOL, **of, id=id, change=change)]
            rest = units.difference(before, state | {"updated_at": before.get("updated_at")})
            return [units.stored(tool=_TOOL, **of, id=id, at=at, **({"change": rest} if rest else {}))]

        kept.write(tell)


def durable(tool: AgentTool, *, session: RepositorySessionManager, unknown: Unknown = "tell") -> AgentTool:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    Intent and result are kept in the session that ``session``, the agent's manager, keeps. A call that was cut off is
    not run again, under whatever id it comes: the model is told that its outcome is unknown. With ``unknown="rerun"``
    it runs again; a function gets an OutcomeUnknown with ``arguments``, and returns the result it looked up, or
    ``holdfast.RERUN``.
    """
    repository = session.session_repository
    if not isinstance(repository, HoldfastSessionRepository):
        raise UsageError("session is a RepositorySessionManager with a HoldfastSessionRepository")
    place = repository._kept(session.session_id).place  # noqa: SLF001 - of this module
    return _DurableTool(tool, place, unknown)


class _NotEnded(Exception):
    """The last event of a tool is no result to keep; the same call may come again."""


class _DurableTool(AgentTool):
    """A tool, each call of which is a step of a session."""

    def __init__(self, inner: AgentTool, place: AdapterSession, unknown: Unknown) -> None:
        super().__init__()
        self._inner, self._place = inner, place
        self._calls = DurableCalls(unknown, ResultForm(_told_result, dict, _result_of))

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        return str(self._inner.tool_name)

    @property
    def tool_spec(self) -> Any:
        """Return the description of the tool for the model."""
        return self._inner.tool_spec

    @property
    def tool_type(self) -> str:
        """The kind of the tool."""
        return str(self._inner.tool_type)

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any) -> AsyncGenerator[Any, None]:
        """Make a call of the model, passing on the events of the tool."""
        told: asyncio.Queue[Any] = asyncio.Queue()
        last: list[Any] = []

        async def act() -> Any:
            async for event in self._inner.stream(tool_use, invocation_state, **kwargs):
                for earlier in last:
                    told.put_nowait(earlier)
                last[:] = [event]
            result = getattr(last[-1], "tool_result", last[-1]) if last else None
            if not isinstance(result, dict) or "toolUseId" not in result or getattr(last[-1], "exception", None):
                raise _NotEnded
            return result

        call = ToolCall(tool_use["toolUseId"], self.tool_name, tool_use["input"])
        task = asyncio.ensure_future(self._calls.arun(self._place, call, act))
        task.add_done_callback(lambda _: told.put_nowait(None))
        try:
            while (event := await told.get()) is not None:
                yield event
            result = await task
        except _NotEnded:
            result = None
        finally:
            task.cancel()
        if last:
            yield last[-1]
        elif result is not None:
            yield ToolResultEvent(result)


def _told_result(text: str, call: ToolCall) -> dict[str, Any]:
    return {"toolUseId": call.id, "status": "error", "content": [{"text": text}]}


def _result_of(kept: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    return kept | {"toolUseId": call.id}


def bring_over(
    source: SessionRepository, session_id: str, hf: Library = None, *, agent_ids: Sequence[str] = ("default",)
) -> int:
    """Record the new messages of a session in another repository, such as a FileSessionManager; return their number."""
    target, count = HoldfastSessionRepository(hf), 0
    session = _found(source.read_session(session_id), f"Session {session_id}")
    if target.read_session(session_id) is None:
        target.create_session(session)
    for agent_id in agent_ids:
        agent = _found(source.read_agent(session_id, agent_id), f"Agent {agent_id} in session {session_id}")
        target.create_agent(session_id, agent)
        known = {one.message_id for one in target.list_messages(session_id, agent_id)}
        for message in source.list_messages(session_id, agent_id):
            if message.message_id not in known:
                target.create_message(session_id, agent_id, message)
                count += 1
    return count


def _found(thing: _Thing | None, what: str) -> _Thing:
    if thing is None:
        raise SessionException(f"{what} does not exist")
    return thing


def _check_number(message_id: Any) -> None:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")


# Messages of Strands, which have the form of Bedrock's Converse API, as events and back.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PUT_IN = UUID("5f0c6a0e-3b1d-4f0a-9d1c-6f5a52f3f4c7")

_LOST = "Tool was interrupted."  # as Strands itself says it


def as_messages(events: list[Event]) -> list[dict[str, Any]]:
    """Return the events of others as messages; adjacent ones of the same role are one message."""
    made: list[dict[str, Any]] = []
    for event in events:
        if event.type == "system":
            continue
        role = "user" if event.type in ("user", "tool_result") else "assistant"
        content = [_part(block) for block in units.blocks_of([(event.type, event.data)])]
        if made and made[-1]["role"] == role and event.type != "user":
            made[-1]["content"] += content
        else:
            made.append({"role": role, "content": content})
    return made


def repaired(items: list[dict[str, Any]], conversation: str) -> list[dict[str, Any]]:
    """Return messages in order, every call directly followed by its result, as models require.

    A call in the last message is left alone: it may wait for a person, and Strands answers it when
    something else is said. A message that is put in has the same tracking id whenever the
    ``conversation`` is read. Items without a number get one; those of the others stay.
    """
    made: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        calls = _ids(made[-1], "toolUse") if made else {}
        answered = _ids(item, "toolResult")
        failed = {"status": "error", "content": [{"text": _LOST}]}
        lost = [{"toolResult": {"toolUseId": id, **failed}} for id in calls if id not in answered]
        if lost and calls.keys() & answered.keys():
            name, said = _said(item)
            made.append(item | {name: said | {"content": [*lost, *said["content"]]}})
            continue
        if lost:
            tracking_id = uuid5(_PUT_IN, json.dumps([conversation, place, *calls]))
            message = {"role": "user", "content": lost, "tracking_id": str(tracking_id)}
            times = {name: at for name, at in made[-1].items() if name in ("created_at", "updated_at")}
            made.append({"message": message, "message_id": -place, **times})
        made.append(item)
    return _numbered(made)


def _numbered(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Number the items that Strands did not number, in between; inserted ones stay below zero if there is no room."""
    made: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    next_free = 0
    for item in [*items, None]:
        number = math.inf if item is None else item.get("message_id", -1)
        if item is not None and number < 0:
            waiting.append(item)
            continue
        room = len(waiting) <= number - next_free
        for one in waiting:
            gets_one = room or "message_id" not in one
            made.append(one | {"message_id": next_free} if gets_one else one)
            next_free += gets_one
        waiting = []
        if item is not None:
            made.append(item)
            next_free = max(next_free, int(number) + 1)
    return made


def _said(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the message of a valid item, and its name there."""
    name = "redact_message" if item.get("redact_message") else "message"
    return name, item[name]


def _ids(item: dict[str, Any], kind: str) -> dict[str, None]:
    """Return the ids of the calls or results in a message, in order."""
    return {part[kind]["toolUseId"]: None for part in _said(item)[1]["content"] if kind in part}


def micros_of(text: Any) -> int | None:
    """Return a time in the format of Strands in microseconds; None for anything else."""
    try:
        micros = (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except (TypeError, ValueError):
        return None
    return micros if time_of(micros) == text else None


def time_of(micros: int) -> str:
    """Return a time in microseconds in the format of Strands."""
    return (_EPOCH + micros * _MICROSECOND).isoformat()


def _tell(item: dict[str, Any]) -> units.Words:
    _, message = _said(item)
    words = units.spoken({"role": message["role"], "content": [_block(part) for part in message["content"]]})
    made, changed = micros_of(item.get("created_at")), micros_of(item.get("updated_at"))
    if words and made is not None and changed is not None:
        words[0][1]["at"] = [item["message_id"], made, changed - made]
    return words


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "toolUse" in part:
        use = part["toolUse"]
        return {"type": "tool_use", "id": use["toolUseId"], "name": use["name"], "input": use["input"]}
    if "toolResult" in part:
        result = part["toolResult"]
        texts = [one["text"] if "text" in one else str(one.get("json", one)) for one in result.get("content", [])]
        content = [{"type": "text", "text": text} for text in texts]
        failed = {"is_error": True} if result.get("status") == "error" else {}
        return {"type": "tool_result", "tool_use_id": result["toolUseId"], "content": content, **failed}
    thought = part.get("reasoningContent", {}).get("reasoningText")
    if thought and thought.get("text"):
        signature = {"signature": thought["signature"]} if thought.get("signature") else {}
        return {"type": "thinking", "thinking": thought["text"], **signature}
    return None


def _rebuild(words: units.Words) -> dict[str, Any]:
    if words[0][0] == "frame":
        return {}
    role = "user" if words[0][0] in ("user", "tool_result") else "assistant"
    content = [_part(block) for block in units.blocks_of(words)]
    made: dict[str, Any] = {"message": {"role": role, "content": content}, "redact_message": None}
    if "at" in words[0][1]:
        number, created, later = words[0][1]["at"]
        times = {"created_at": time_of(created), "updated_at": time_of(created + later)}
        made |= {"message_id": number, **times}
    return made


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "tool_use":
            return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}
        case "tool_result":
            given = block["content"]
            parts = [{"text": given}] if isinstance(given, str) else [_part(one) for one in given or ()]
            status = "error" if block.get("is_error") else "success"
            return {"toolResult": {"toolUseId": block["tool_use_id"], "status": status, "content": parts}}
        case "thinking":
            signature = {"signature": block["signature"]} if block.get("signature") else {}
            return {"reasoningContent": {"reasoningText": {"text": block["thinking"], **signature}}}
        case kind:
            return {"text": f"[{kind}]"}


FORM = units.Form("strands/2", _tell, _rebuild, older=("strands/1",))
