"""The Microsoft Agent Framework on our log: histories, sessions and checkpoints of workflows.

.. code-block:: python

    agent = Agent(client, context_providers=[HoldfastHistoryProvider()])
    workflow = WorkflowBuilder(…, checkpoint_storage=HoldfastCheckpointStorage()).build()
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from agent_framework import AgentSession, HistoryProvider, Message, SessionContext, WorkflowCheckpoint, _sessions
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value
from agent_framework.exceptions import WorkflowCheckpointException

from holdfast.integrations._history import MessageHistory, States, missing
from holdfast.integrations._place import AdapterSession, Library, Recent, library_of, linked, unblocked
from holdfast.integrations._units import LOST, Form, Unit, Words, answered, blocks_of, fresh, spoken, text_of

__all__ = ["HoldfastAgentSessionStore", "HoldfastCheckpointStorage", "HoldfastHistoryProvider", "bring_over"]

_filter_new = getattr(_sessions, "filter_new_messages", lambda _, given: given)  # not in all versions
_TOOL = "agent-framework"
_WORKFLOWS = "agent-framework-workflow"


class HoldfastHistoryProvider(HistoryProvider):
    """Messages of agents; each of their sessions is a session of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place; the other options are
    those of every history provider. With ``skip_excluded``, messages that a compaction has excluded
    are not loaded. Messages are on the medium when ``save_messages`` returns.
    """

    def __init__(
        self, hf: Library = None, *, source_id: str = "holdfast", skip_excluded: bool = False, **options: Any
    ) -> None:
        super().__init__(source_id, **options)
        self.skip_excluded = skip_excluded
        library = library_of(hf)
        self._of = Recent[str, MessageHistory](lambda name: MessageHistory(FORM, library, _TOOL, name))

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, also of other frameworks, with a result for each call that lacks one."""
        if session_id is None:
            return []
        messages = [message_of(unit) for unit in answered(await asyncio.to_thread(self._of(session_id).read))]
        return [one for one in messages if not (self.skip_excluded and one.additional_properties.get("_excluded"))]

    async def before_run(self, *, context: SessionContext, **about: Any) -> None:
        """Load the history; an interrupted call has a result that says so, for the model."""
        await super().before_run(context=context, **about)
        loaded = context.context_messages.get(self.source_id)
        if loaded:
            context.context_messages[self.source_id] = with_results(loaded, context.input_messages)

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Record messages, all or none, except those sent again; nothing without a session id."""
        if session_id is None or not messages:
            return

        def tell(units: list[Unit]) -> Words:
            # As the framework's own providers do. The overlap cannot be longer than these messages.
            known = [message_of(unit) for unit in units[-len(messages) :]]
            return FORM.words(map(as_item, _filter_new(known, messages)))

        await self._of(session_id).arecord(tell)


class HoldfastAgentSessionStore:
    """Sessions of agents with their state, recorded as changes; the methods are those of their ``SessionStore``."""

    def __init__(self, hf: Library = None) -> None:
        library = library_of(hf)
        self._states = Recent[str, States](lambda name: States(AdapterSession(library, _TOOL, name), _TOOL))

    @unblocked
    def get(self, session_id: str) -> AgentSession | None:
        """Return a session as it was last set; None if there is none."""
        states = self._of(session_id)
        with states.reading():
            found = states.values.get(session_id)
        return None if found is None else AgentSession.from_dict(fresh(found))

    @unblocked
    def set(self, session_id: str, session: AgentSession) -> None:
        """Record a session, replacing its earlier record."""
        self._of(session_id).record(session_id, session.to_dict())

    @unblocked
    def delete(self, session_id: str) -> None:
        """Move the session to the trash; ``hf.undelete`` brings it back."""
        place = self._of(session_id).place
        self._states.pop(session_id)
        place.delete()

    def _of(self, session_id: str) -> States:
        if not isinstance(session_id, str) or not session_id:
            raise ValueError("session_id must be a non-empty string")
        return self._states(session_id)


class HoldfastCheckpointStorage:
    """Checkpoints of workflows; those of one workflow are one session.

    A checkpoint is recorded as what changed since the one before. Only types that the framework allows are ever made
    from what is stored, and those named in ``allowed_checkpoint_types`` (``"module:Class"``).
    """

    def __init__(self, hf: Library = None, *, allowed_checkpoint_types: Iterable[str] | None = None) -> None:
        self._library = library = library_of(hf)
        self._allowed = frozenset(allowed_checkpoint_types or ())
        self._of = Recent[str, States](
            lambda name: States(AdapterSession(library, _WORKFLOWS, name, scope="workflow"), _WORKFLOWS)
        )

    @unblocked
    def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Record a checkpoint and return its id. Raises WorkflowCheckpointException if it cannot be recorded."""
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        # A checkpoint that could not be loaded again must not be recorded.
        decode_checkpoint_value(encoded, allowed_types=self._allowed)
        self._of(checkpoint.workflow_name).record(checkpoint.checkpoint_id, encoded)
        return str(checkpoint.checkpoint_id)

    @unblocked
    def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """Return a checkpoint by its id. Raises WorkflowCheckpointException if there is none."""
        found = self._find(checkpoint_id)
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(found.values[checkpoint_id])

    @unblocked
    def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """Return the checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        with states.reading():
            return [self._decode(value) for value in states.values.values()]

    @unblocked
    def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint, and return whether there was one. The log keeps it."""
        found = self._find(checkpoint_id)
        if found is not None:
            found.remove(checkpoint_id)
        return found is not None

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """Return the newest checkpoint of a workflow; None if there is none."""
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    @unblocked
    def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """Return the ids of the checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        with states.reading():
            return list(states.values)

    def _decode(self, encoded: Any) -> WorkflowCheckpoint:
        found = decode_checkpoint_value(fresh(encoded), allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(found)

    def _find(self, checkpoint_id: str) -> States | None:
        known = self._of.known()
        others = (link["id"] for _, link in linked(self._library, _WORKFLOWS))
        for states in chain(known.values(), (self._of(name) for name in others if name not in known)):
            states.catch_up()
            if checkpoint_id in states.values:
                return states
        return None


async def bring_over(source: HistoryProvider, session_id: str, hf: Library = None) -> int:
    """Record the new messages of another history provider, and return their number."""
    target = HoldfastHistoryProvider(hf)
    units = await asyncio.to_thread(target._of(session_id).read)  # noqa: SLF001 - of this module
    known = [as_item(message_of(unit)) for unit in units]
    messages = await source.get_messages(session_id)
    new = missing(known, [as_item(message) for message in messages], session_id)
    await target.save_messages(session_id, messages[len(messages) - len(new) :])
    return len(new)


# Messages of the Microsoft Agent Framework as events, and back.
_PLAIN: dict[str, Any] = {"additional_properties": {}}


def as_item(message: Message) -> dict[str, Any]:
    """Return a message as plain data; one of a subclass of the caller as an ordinary message."""
    made: dict[str, Any] = json.loads(message.to_json())
    return made | {"type": "message"}


def message_of(unit: Unit) -> Message:
    """Return the message for an agent: its own unchanged, those of others in its form."""
    if unit.own:
        return Message.from_dict(unit.fresh)
    is_answer = unit.blocks and all(block["type"] == "tool_result" for block in unit.blocks)
    return Message.from_dict(_message("tool" if is_answer else unit.item["role"], unit.blocks))


def with_results(history: Sequence[Message], given: Sequence[Message]) -> list[Message]:
    """Return a history with a result for each call without one, unless it waits for approval."""
    contents = [content for message in (*history, *given) for content in message.contents]
    settled = {one.call_id for one in contents if one.type == "function_result"}
    asked = (one for one in contents if one.type.startswith("function_approval_"))
    settled |= {one.function_call.call_id for one in asked if one.function_call is not None}
    made: list[Message] = []
    for message in history:
        made.append(message)
        for one in message.contents:
            if one.type == "function_call" and one.call_id not in settled:
                lost = {"type": "tool_result", "tool_use_id": one.call_id, "content": LOST, "is_error": True}
                made.append(Message.from_dict(_message("tool", [lost])))
    return made


def _tell(item: dict[str, Any]) -> Words:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "tool"):
        return []
    return spoken({"role": "user" if role == "tool" else role, "content": map(_block, item.get("contents", ()))})


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
    return _message(roles.get(type, "assistant"), blocks_of(words))


def _message(role: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "contents": [_content(block) for block in blocks], **_PLAIN}


def _content(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"type": "text", "text": block["text"], **_PLAIN}
        case "thinking":
            return {"type": "text_reasoning", "text": block["thinking"], **_PLAIN}
        case "tool_use":
            named = {"call_id": block["id"], "name": block["name"], "arguments": block["input"]}
            return {"type": "function_call", **named, "hosted": False, **_PLAIN}
        case "tool_result":
            text = text_of(block.get("content"))
            text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
            made = {"type": "function_result", "call_id": block["tool_use_id"], "result": text}
            failed = {"exception": "error"} if block.get("is_error") else {}
            return {**made, "items": [{"type": "text", "text": text, **_PLAIN}], **failed, **_PLAIN}
        case kind:
            return {"type": "text", "text": f"[{kind}]", **_PLAIN}


FORM = Form("msaf/1", _tell, _rebuild, older=("agent-framework/1",))
