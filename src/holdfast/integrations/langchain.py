"""LangChain on our log: a history for ``RunnableWithMessageHistory`` and for chains by hand.

``HoldfastChatMessageHistory(session_id)`` in place of any other history is the whole change.
"""

from __future__ import annotations

import base64
import hashlib
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import msgspec
from langchain_core import messages as kinds
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, message_to_dict, messages_from_dict
from langchain_core.tools import BaseTool
from langchain_core.tools import tool as as_tool

from holdfast.errors import UsageError
from holdfast.formats import speak
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._history import MessageHistory, missing
from holdfast.integrations._place import AdapterSession, Library, unblocked
from holdfast.integrations._units import LOST, Form, Unit, Words, fresh
from holdfast.replay import from_dialect

__all__ = ["HoldfastChatMessageHistory", "bring_over", "durable"]


class HoldfastChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation, kept as a session of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. Messages are on the
    medium when a call returns. What other frameworks recorded in the session comes in its place.
    """

    def __init__(self, session_id: str, hf: Library = None) -> None:
        self.session_id = session_id
        self._history = MessageHistory(FORM, hf, "langchain", session_id)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages in order.

        A call that was cut off has a result that says so, once something else follows: a model
        refuses a call without one.
        """
        return answered(messages_of(self._history.read()), last=False)

    @unblocked
    def aget_messages(self) -> list[BaseMessage]:
        """Return all messages in order."""
        return self.messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Record messages. Raises UsageError, and records none, if one cannot be converted to plain data."""
        self._history.append(_items(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Do what ``add_messages`` does, without blocking the event loop."""
        await self._history.aappend(_items(messages))

    def clear(self) -> None:
        """Retract all messages. The log keeps them; the conversation starts again."""
        self._history.change(lambda units: (units, []))

    aclear = unblocked(clear)

    def close(self) -> None:
        """Release the session to other processes now, rather than after the idle time."""
        self._history.place.close()


def bring_over(source: BaseChatMessageHistory, session_id: str, hf: Library = None) -> int:
    """Record the messages of another history; return their number. Repeated, it records only new ones."""
    target = HoldfastChatMessageHistory(session_id, hf)
    known = messages_of(target._history.read())  # noqa: SLF001 - of this module
    messages = missing(known, source.messages, session_id)
    target.add_messages(messages)
    target.close()
    return len(messages)


def durable(
    tool: BaseTool | Callable[..., Any], *, session: HoldfastChatMessageHistory, unknown: Unknown = "tell"
) -> BaseTool:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    Intent and result are kept in ``session``, which keeps the conversation. Invoke it with a call of a model, which
    has an id. A call that was cut off is not run again, under whatever id it comes: the model is told that its outcome
    is unknown. With ``unknown="rerun"`` it runs again; a function gets an OutcomeUnknown with ``arguments``, and
    returns the result it looked up, or ``holdfast.RERUN``.
    """
    place = session._history.place  # noqa: SLF001 - of this module
    return durable_tool(tool, lambda _: place, unknown)


def durable_tool(
    tool: BaseTool | Callable[..., Any], find_place: Callable[[Any], AdapterSession], unknown: Unknown
) -> BaseTool:
    """Return a tool that runs once for each call, in the session that a run's config names."""
    inner: BaseTool = tool if isinstance(tool, BaseTool) else as_tool(tool)
    names = ("name", "description", "args_schema", "return_direct", "response_format", "metadata", "tags")
    about = {name: getattr(inner, name) for name in names}
    return _DurableTool(**about, inner=inner, find_place=find_place, calls=DurableCalls(unknown, _RESULTS))


class _DurableTool(BaseTool):
    """A tool, each call of which is a step of a session."""

    inner: Any
    find_place: Any
    calls: Any

    @property
    def func(self) -> Any:
        """The function itself, which LangGraph inspects for arguments to inject."""
        return getattr(self.inner, "func", None) or getattr(self.inner, "coroutine", None)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Make a call of the model."""
        act = lambda: self.inner.invoke(input, config, **kwargs)  # noqa: E731 - one expression, used once
        return self.calls.run(self.find_place(config), self._call(input), act)

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        """Do what ``invoke`` does, without blocking the event loop."""
        act = lambda: self.inner.ainvoke(input, config, **kwargs)  # noqa: E731 - as above
        return await self.calls.arun(self.find_place(config), self._call(input), act)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise UsageError(f"{self.name} is durable: invoke it with a call of a model, which has an id")

    def _call(self, input: Any) -> ToolCall:
        if not isinstance(input, dict) or not input.get("id") or "args" not in input:
            raise UsageError(f"{self.name} is durable: invoke it with a call of a model, which has an id")
        given = {name: value for name, value in input["args"].items() if name in self.inner.args}
        return ToolCall(input["id"], self.name, given)


def _kept_result(result: Any) -> Any:
    made = plain(result) if isinstance(result, ToolMessage) else None
    if made is None:
        raise TypeError(f"{type(result).__name__} is no message that can be kept")
    return made[0]


def _result_again(item: Any, call: ToolCall) -> BaseMessage:
    message = from_item(item)
    message.tool_call_id = call.id  # a ToolMessage, of this call or of its twin
    return message


_RESULTS = ResultForm(
    lambda text, call: ToolMessage(text, tool_call_id=call.id, name=call.tool, status="error"),
    _kept_result,
    _result_again,
)


def _items(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message in messages:
        made = plain(message)
        if made is None:
            said = message_to_dict(message)["type"]
            raise UsageError(f"a message of kind {said} holds what cannot be written as JSON")
        items.append(made[0])
    return items


# Messages of LangChain as events, and back.
_KINDS = {
    AIMessage,
    kinds.AIMessageChunk,
    kinds.ChatMessage,
    kinds.FunctionMessage,
    kinds.HumanMessage,
    kinds.RemoveMessage,
}
_KINDS |= {kinds.SystemMessage, ToolMessage}
_ROLES = {"human": "user", "ai": "assistant", "system": "system"}
_TYPES = {role: type for type, role in _ROLES.items()}
_PLAIN: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}, "name": None, "id": None}
_SPENT = ("input_tokens", "output_tokens")
_REFERENCE_BYTES = 12
_OWN_ID = "holdfast"

_encode = msgspec.json.Encoder(order="deterministic").encode


def plain(message: BaseMessage) -> tuple[dict[str, Any], Model] | None:
    """Return a message as plain data, and its model; None if plain data would give a different message."""
    # Restoring a class of the caller's would require importing it.
    if type(message) not in _KINDS:
        return None
    item: dict[str, Any] = message_to_dict(message)
    try:
        # The restored message must equal the original: not everything that models dump can be read again.
        again: Any = msgspec.json.decode(_encode(item))
        made = from_item(again)
    except (ValueError, TypeError, UnicodeError):
        return None
    return (again, Model(made)) if made == message else None


def from_item(item: dict[str, Any]) -> BaseMessage:
    """Return the message of an item. Only LangChain's own kinds are ever created."""
    message: BaseMessage = messages_from_dict([item])[0]
    return message


def reference(item: dict[str, Any]) -> str:
    """Return a short name for exactly this item."""
    digest = hashlib.blake2b(_encode(item), digest_size=_REFERENCE_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode()


class Model:
    """A private message to copy: creating one from plain data takes ten times as long."""

    __slots__ = ("_containers", "_message")

    def __init__(self, message: BaseMessage) -> None:
        self._message = message
        self._containers = [name for name, value in message.__dict__.items() if isinstance(value, dict | list)]

    def twin(self) -> BaseMessage:
        """Return an independent copy of the message."""
        model = self._message
        made: BaseMessage = object.__new__(type(model))
        members = model.__dict__.copy()
        for name in self._containers:
            value = members[name]
            members[name] = fresh(value) if value else type(value)()
        extra = model.__pydantic_extra__
        _set(made, "__dict__", members)
        _set(made, "__pydantic_extra__", fresh(extra) if extra else extra and {})
        _set(made, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
        _set(made, "__pydantic_private__", None)
        return made

    def is_like(self, message: BaseMessage) -> bool:
        """Return whether a message equals this one."""
        one, other = self._message, message
        return bool(one.__dict__ == other.__dict__ and one.__pydantic_extra__ == other.__pydantic_extra__)


_set = object.__setattr__  # as pydantic's own copy does: to set a member is to check it


class _SeenMessage(weakref.ref[BaseMessage]):
    """A weak reference to a message that was seen."""

    __slots__ = ("key", "model", "reference")
    key: int
    model: Model
    reference: str


class Known:
    """Messages whose reference is known, until they are collected or changed.

    A state holds the same messages step after step: each is told once, not at every step.
    """

    def __init__(self) -> None:
        self._seen: dict[int, _SeenMessage] = {}

    def reference(self, message: BaseMessage) -> str | None:
        """Return the reference of this message object, if it is unchanged."""
        seen = self._seen.get(id(message))
        if seen is None or seen() is not message or not seen.model.is_like(message):
            return None
        return seen.reference

    def add(self, message: BaseMessage, model: Model, reference: str) -> None:
        """Remember a message in its current state."""
        seen = _SeenMessage(message, self._forget)
        seen.key, seen.model, seen.reference = id(message), model, reference
        self._seen[seen.key] = seen

    def _forget(self, gone: weakref.ref[BaseMessage]) -> None:
        # Another message may have taken its place already.
        if isinstance(gone, _SeenMessage) and self._seen.get(gone.key) is gone:
            del self._seen[gone.key]


def _tell(item: dict[str, Any]) -> Words:
    type, data = item["type"], item["data"]
    if type == "tool":
        result = {"toolCallId": data["tool_call_id"], "result": data["content"]}
        return [("tool_result", result | ({"is_error": True} if data.get("status") == "error" else {}))]
    role = _ROLES.get(type)
    if role is None:
        return []
    content, calls = data["content"], data.get("tool_calls") or []
    blocks: list[Any] = [content] if isinstance(content, str) else list(content)
    if role == "assistant":
        # Only the calls that are not in the content, as they are with some providers.
        named = {None, "", *(block.get("id") for block in blocks if isinstance(block, dict))}
        new = [call for call in calls if call.get("id") not in named]
        blocks += [{"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]} for one in new]
    neutral = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks if one != ""]
    message = {"role": role, "content": content if len(blocks) == 1 and isinstance(content, str) else neutral}
    used = data.get("usage_metadata")
    counts = used if isinstance(used, dict) else {}
    spent = {name: counts[name] for name in _SPENT if isinstance(counts.get(name), int)} or None
    told = [
        speak(said["role"], said["content"], None, None, usage=spent) for said in from_dialect([message], "neutral")
    ]
    return [(draft.type, draft.data) for drafts in told for draft in drafts]


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "tool_result":
        status = "error" if data.get("is_error") else "success"
        own = {"tool_call_id": data["toolCallId"], "artifact": None, "status": status}
        return _item("tool", data["result"], own)
    if type in ("user", "system"):
        return _item(_TYPES[type], data["content"], {})
    if type not in ("assistant", "tool_call"):
        return {}
    said = data["content"] if type == "assistant" else ""
    calls = [
        {"name": call["tool"], "args": call["params"], "id": call["id"], "type": "tool_call"}
        for kind, call in words
        if kind == "tool_call"
    ]
    spent = data.get("usage")
    if spent and len(spent) == 2:
        spent = spent | {"total_tokens": sum(spent.values())}
    own = {"tool_calls": calls, "invalid_tool_calls": [], "usage_metadata": spent}
    return _item("ai", said, own)


def _item(type: str, content: Any, own: dict[str, Any]) -> dict[str, Any]:
    return {"type": type, "data": {"content": content, "type": type, **deepcopy(_PLAIN), **own}}


FORM = Form("langchain/1", _tell, _rebuild)


def messages_of(units: list[Unit]) -> list[BaseMessage]:
    """Return the messages for a chain: its own unchanged, those of others with ids that name their events."""
    told = ([from_item(unit.fresh)] if unit.own else told_by_others(unit) for unit in units)
    return [message for messages in told for message in messages]


def told_by_others(unit: Unit) -> list[BaseMessage]:
    """Return the messages for one neutral message: results are messages of their own."""
    role, blocks, id = unit.item["role"], unit.blocks, _own_id(unit.seqs)
    if role == "system":
        return [kinds.SystemMessage(unit.item["content"], id=id)]
    if role == "assistant":
        uses = [block for block in blocks if block["type"] == "tool_use"]
        calls = [{"name": block["name"], "args": block["input"], "id": block["id"]} for block in uses]
        return [
            AIMessage(_content([block for block in blocks if block["type"] != "tool_use"]), tool_calls=calls, id=id)
        ]
    if all(block["type"] == "tool_result" for block in blocks):
        return [_result_message(block, _own_id((seq,))) for block, seq in zip(blocks, unit.seqs, strict=True)]
    return [kinds.HumanMessage(_content(blocks), id=id)]


def _own_id(seqs: tuple[int, ...]) -> str:
    return "-".join([_OWN_ID, *map(str, seqs)])


def seqs_of(id: str | None) -> tuple[int, ...]:
    """Return the events that an id made here names; none for any other id."""
    name, *seqs = (id or "").split("-")
    named = name == _OWN_ID and all(seq.isdecimal() for seq in seqs)
    return tuple(int(seq) for seq in seqs) if named else ()


def _result_message(block: dict[str, Any], id: str) -> ToolMessage:
    content = block.get("content")
    if not isinstance(content, str):
        content = _content(content) if isinstance(content, list) else _encode(content).decode()
    status = "error" if block.get("is_error") else "success"
    return ToolMessage(content, tool_call_id=block["tool_use_id"], status=status, id=id)


def _content(blocks: list[dict[str, Any]]) -> Any:
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return blocks


def answered(messages: list[BaseMessage], *, last: bool = True) -> list[BaseMessage]:
    """Return the messages with a result for each call, as models require; with ``last=False`` not the last ones."""
    made: list[BaseMessage] = []
    open_calls: dict[str, str] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            open_calls.pop(message.tool_call_id, None)
        else:
            made += _lost(open_calls)
            calls = message.tool_calls if isinstance(message, AIMessage) else []
            open_calls = {call["id"]: call["name"] for call in calls if call["id"]}
        made.append(message)
    return made + _lost(open_calls) if last else made


def _lost(calls: dict[str, str]) -> list[BaseMessage]:
    return [
        ToolMessage(LOST, tool_call_id=id, name=name, status="error", id=f"{_OWN_ID}-lost-{id}")
        for id, name in calls.items()
    ]
