"""The Microsoft Agent Framework on our log: histories, sessions and checkpoints of workflows.

.. code-block:: python

    agent = Agent(client, context_providers=[HoldfastHistoryProvider()])
    workflow = WorkflowBuilder(…, checkpoint_storage=HoldfastCheckpointStorage()).build()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from agent_framework import AgentSession, HistoryProvider, Message, SessionContext, WorkflowCheckpoint, _sessions
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value
from agent_framework.exceptions import WorkflowCheckpointException

from holdfast.integrations._history import MessageHistory, States, missing
from holdfast.integrations._place import AdapterSession, Library, Recent, library_of, linked
from holdfast.integrations._units import LOST, Form, Unit, Words, answered, blocks_of, fresh, spoken

__all__ = ["HoldfastAgentSessionStore", "HoldfastCheckpointStorage", "HoldfastHistoryProvider", "bring_over"]

_filter_new = getattr(_sessions, "filter_new_messages", lambda _, given: given)  # not in all versions
_TOOL = "agent-framework"
_WORKFLOWS = "agent-framework-workflow"


class HoldfastHistoryProvider(HistoryProvider):
    """Messages of agents, each session of theirs kept as one of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place; the other options are
    those of every history provider. With ``skip_excluded``, messages that a compaction has excluded
    are not loaded. Messages are on the medium when ``save_messages`` returns.
    """

    def __init__(
        self, hf: Library = None, *, source_id: str = "holdfast", skip_excluded: bool = False, **options: Any
    ) -> None:
        super().__init__(source_id, **options)
        self.skip_excluded = skip_excluded
        self._library = library_of(hf)
        self._histories: Recent[str, MessageHistory] = Recent()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The messages of a session, also those that other frameworks recorded.

        A call of theirs that has no result is given one that says so.
        """
        if session_id is None:
            return []
        units = await asyncio.to_thread(self._of(session_id).read)
        messages = [message_of(unit) for unit in answered(units)]
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def before_run(self, *, context: SessionContext, **about: Any) -> None:
        """Load the history; a call that was cut off has a result that says so, for the model."""
        await super().before_run(context=context, **about)
        loaded = context.context_messages.get(self.source_id)
        if loaded:
            context.context_messages[self.source_id] = with_results(loaded, context.input_messages)

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Record messages, all of them or none, but for those that are handed over again.

        Without a session's id there is nowhere to record them.
        """
        if session_id is None or not messages:
            return
        history = self._of(session_id)

        def tell(units: list[Unit]) -> Words:
            # As the framework's own providers do. No more of the end can be what begins these.
            known = [message_of(unit) for unit in units[-len(messages) :]]
            return history.words([as_item(one) for one in _filter_new(known, messages)])

        await history.arecord(tell)

    def _of(self, session_id: str) -> MessageHistory:
        return self._histories.get(session_id, lambda: MessageHistory(FORM, self._library, _TOOL, session_id))


class HoldfastAgentSessionStore:
    """Sessions of agents with their state: what changed since the last time is recorded.

    It has the methods of the framework's ``SessionStore``, which is an experiment there.
    """

    def __init__(self, hf: Library = None) -> None:
        self._library = library_of(hf)
        self._states: Recent[str, States] = Recent()

    async def get(self, session_id: str) -> AgentSession | None:
        """A session as it was set last; None if there is none."""
        _check_id(session_id)
        states = self._of(session_id)
        await asyncio.to_thread(states.catch_up)
        found = states.newest(session_id)
        return None if found is None else AgentSession.from_dict(fresh(found))

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Record a session in the place of what was recorded of it."""
        _check_id(session_id)
        await asyncio.to_thread(self._of(session_id).record, session_id, session.to_dict())

    async def delete(self, session_id: str) -> None:
        """Move the session to the trash; ``hf.undelete`` brings it back."""
        _check_id(session_id)
        place = self._of(session_id).place
        self._states.pop(session_id)
        await asyncio.to_thread(place.delete)

    def _of(self, session_id: str) -> States:
        return self._states.get(session_id, lambda: States(AdapterSession(self._library, _TOOL, session_id), _TOOL))


class HoldfastCheckpointStorage:
    """Checkpoints of workflows; those of one workflow are one session.

    A checkpoint is recorded as what changed since the one before. Only types that the framework
    allows are ever made from what is stored, and those named in ``allowed_checkpoint_types``
    (``"module:Class"``).
    """

    def __init__(self, hf: Library = None, *, allowed_checkpoint_types: Iterable[str] | None = None) -> None:
        self._library = library_of(hf)
        self._allowed = frozenset(allowed_checkpoint_types or ())
        self._workflows: Recent[str, States] = Recent()

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Record a checkpoint; its id. Raises WorkflowCheckpointException for what cannot be."""
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        # What could not be loaded again must not be recorded as if it could.
        decode_checkpoint_value(encoded, allowed_types=self._allowed)
        states = self._of(checkpoint.workflow_name)
        await asyncio.to_thread(states.record, checkpoint.checkpoint_id, encoded)
        return str(checkpoint.checkpoint_id)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """A checkpoint by its id. Raises WorkflowCheckpointException if there is none."""
        found = await asyncio.to_thread(self._find, checkpoint_id)
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(found.newest(checkpoint_id))

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        await asyncio.to_thread(states.catch_up)
        return [self._decode(states.newest(id)) for id in states.names()]

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; whether there was one. The log keeps it."""
        found = await asyncio.to_thread(self._find, checkpoint_id)
        if found is not None:
            await asyncio.to_thread(found.remove, checkpoint_id)
        return found is not None

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The newest checkpoint of a workflow; None if there is none."""
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of the checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        await asyncio.to_thread(states.catch_up)
        return states.names()

    def _decode(self, encoded: Any) -> WorkflowCheckpoint:
        found = decode_checkpoint_value(fresh(encoded), allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(found)

    def _find(self, checkpoint_id: str) -> States | None:
        for states in self._all():
            states.catch_up()
            if checkpoint_id in states.names():
                return states
        return None

    def _all(self) -> Iterator[States]:
        known = self._workflows.known()
        yield from known.values()
        for _, link in linked(self._library, _WORKFLOWS):
            if link["id"] not in known:
                yield self._of(link["id"])

    def _of(self, workflow_name: str) -> States:
        def make() -> States:
            place = AdapterSession(self._library, _WORKFLOWS, workflow_name, scope="workflow")
            return States(place, _WORKFLOWS)

        return self._workflows.get(workflow_name, make)


async def bring_over(source: HistoryProvider, session_id: str, hf: Library = None) -> int:
    """Record the messages that another history provider holds of a session; how many.

    Done again, it records only what is new there.
    """
    target = HoldfastHistoryProvider(hf)
    units = await asyncio.to_thread(target._of(session_id).read)  # noqa: SLF001 - of this module
    known = [as_item(message_of(unit)) for unit in units]
    messages = await source.get_messages(session_id)
    new = missing(known, [as_item(message) for message in messages], session_id)
    await target.save_messages(session_id, messages[len(messages) - len(new) :])
    return len(new)


def _check_id(session_id: str) -> None:
    if not isinstance(session_id, str) or not session_id:
        raise ValueError("session_id must be a non-empty string")


# Messages of the Microsoft Agent Framework as events, and back.


_PLAIN: dict[str, Any] = {"additional_properties": {}}


def as_item(message: Message) -> dict[str, Any]:
    """A message as plain data; one of a class of the caller's own as a message like any other."""
    made: dict[str, Any] = json.loads(message.to_json())
    return made | {"type": "message"}


def message_of(unit: Unit) -> Message:
    """What an agent gets: its own messages as they came, what others said in its form."""
    if unit.own:
        return Message.from_dict(unit.fresh)
    role, content = unit.item["role"], unit.item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if blocks and all(block["type"] == "tool_result" for block in blocks):
        role = "tool"
    return Message.from_dict(_message(role, [_content(block) for block in blocks]))


def with_results(history: Sequence[Message], given: Sequence[Message]) -> list[Message]:
    """A history with a result for each call that has none, also in what is given now.

    A model refuses a call without one. Those that wait for an approval are the framework's.
    """
    contents = [content for message in (*history, *given) for content in message.contents]
    settled = {one.call_id for one in contents if one.type == "function_result"}
    asked = (one for one in contents if one.type.startswith("function_approval_"))
    settled |= {one.function_call.call_id for one in asked if one.function_call is not None}
    made: list[Message] = []
    for message in history:
        made.append(message)
        for one in message.contents:
            if one.type == "function_call" and one.call_id not in settled:
                lost = {"tool_use_id": one.call_id, "content": LOST, "is_error": True}
                made.append(Message.from_dict(_message("tool", [_result(lost)])))
    return made


def _tell(item: dict[str, Any]) -> Words:
    role = item.get("role")
    blocks = [_block(content) for content in item.get("contents", ())]
    said = [block for block in blocks if block is not None]
    if role not in ("user", "assistant", "system", "tool") or not said:
        return []
    return spoken({"role": "user" if role == "tool" else role, "content": said}, "neutral")


def _block(content: dict[str, Any]) -> dict[str, Any] | None:
    kind = content.get("type")
    if kind == "text" and content.get("text"):
        return {"type": "text", "text": content["text"]}
    if kind == "text_reasoning" and content.get("text"):
        return {"type": "thinking", "thinking": content["text"]}
    if kind == "function_call" and content.get("call_id"):
        named = {"id": content["call_id"], "name": content.get("name") or ""}
        return {"type": "tool_use", **named, "input": _arguments(content.get("arguments"))}
    if kind == "function_result" and content.get("call_id"):
        failed = {"is_error": True} if content.get("exception") else {}
        result = {"tool_use_id": content["call_id"], "content": content.get("result")}
        return {"type": "tool_result", **result, **failed}
    return None


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            given = {"arguments": given}
    return given if isinstance(given, dict) else {"arguments": given}


def _rebuild(words: Words) -> dict[str, Any]:
    type = words[0][0]
    if type == "frame":
        return {}
    roles = {"user": "user", "system": "system", "tool_result": "tool"}
    contents = [_content(block) for word in words for block in blocks_of(*word)]
    return _message(roles.get(type, "assistant"), contents)


def _message(role: str, contents: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "contents": contents, **_PLAIN}


def _content(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"type": "text", "text": block["text"], **_PLAIN}
    if kind == "thinking":
        return {"type": "text_reasoning", "text": block["thinking"], **_PLAIN}
    if kind == "tool_use":
        named = {"call_id": block["id"], "name": block["name"], "arguments": block["input"]}
        return {"type": "function_call", **named, "hosted": False, **_PLAIN}
    if kind == "tool_result":
        return _result(block)
    return {"type": "text", "text": f"[{kind}]", **_PLAIN}


def _result(block: dict[str, Any]) -> dict[str, Any]:
    given = block.get("content")
    if isinstance(given, list):
        given = "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in given)
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    items = [{"type": "text", "text": text, **_PLAIN}]
    made = {"type": "function_result", "call_id": block["tool_use_id"], "result": text}
    failed = {"exception": "error"} if block.get("is_error") else {}
    return {**made, "items": items, **failed, **_PLAIN}


FORM = Form("msaf/1", _tell, _rebuild, older=("agent-framework/1",))
