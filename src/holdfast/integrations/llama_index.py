"""LlamaIndex on our log: chat stores for ``ChatMemoryBuffer``, ``Memory`` and the like.

``HoldfastChatStore()`` in place of ``SimpleChatStore()``, or ``HoldfastAsyncChatStore()`` as the ``chat_store`` of
``Memory.from_defaults``, is the whole change; they need no ``persist``. A key of the store is a session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import BaseModel, PrivateAttr

from holdfast.integrations._history import Change, MessageHistory, missing
from holdfast.integrations._place import Library, Recent, library_of, linked, unblocked
from holdfast.integrations._units import Form, Unit, Units, Words, alike, answered, blocks_of, spoken, stored, text_of
from holdfast.library import Holdfast
from holdfast.model import Event

__all__ = ["HoldfastAsyncChatStore", "HoldfastChatStore", "abring_over", "bring_over"]

_TOOL = "llama-index"


class _ArchivedChat(Units):
    """One key: its messages, and which of them a memory has archived."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.archived: set[int] = set()

    def _take_foreign(self, event: Event) -> None:
        if event.type == "frame" and event.data.get("tool") == _TOOL:
            self.archived.update(event.data["archived"])
        else:
            super()._take_foreign(event)


class _History(MessageHistory):
    """The messages of a key; a call of others without a result gets one that says so."""

    def read(self) -> list[Unit]:
        """Return all messages. A message that is not recorded yet has no events."""
        return answered(super().read())

    def status(self, unit: Unit) -> MessageStatus:
        """Return whether a message that was read has been archived."""
        told = unit.item.get("status") if unit.own else None
        archived = cast("_ArchivedChat", self.units).archived
        is_archived = told == _ARCHIVED or not archived.isdisjoint(unit.seqs[:1])
        return MessageStatus.ARCHIVED if is_archived else MessageStatus.ACTIVE

    def of_status(self, units: list[Unit], status: MessageStatus | None) -> list[Unit]:
        """Return the messages that have a status (None: all)."""
        return [unit for unit in units if status is None or self.status(unit) == status]

    def delete(self, choose: Callable[[list[Unit]], Sequence[Unit]]) -> list[ChatMessage]:
        """Retract the chosen messages, and return them."""
        gone: list[Unit] = []

        def decide(units: list[Unit]) -> Change:
            gone.extend(choose(units))
            return gone, []

        self.change(decide)
        return [message_of(unit) for unit in gone]


class _OnChats(BaseModel):
    """The base of both stores."""

    _library: Holdfast = PrivateAttr()
    _of: Recent[str, _History] = PrivateAttr()

    def __init__(self, hf: Library = None) -> None:
        super().__init__()
        self._library = library = library_of(hf)
        self._of = Recent(lambda key: _History(FORM, library, _TOOL, key, units=_ArchivedChat))

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class, as LlamaIndex requires."""
        return cls.__name__

    def _keys(self) -> list[str]:
        keys = [link["id"] for _, link in linked(self._library, _TOOL)]
        return [key for key in keys if self._of(key).read()]


class HoldfastChatStore(_OnChats, BaseChatStore):
    """Chats of LlamaIndex, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. Messages are on the
    medium when a call returns; what is deleted leaves the conversation, and stays in the log.
    """

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Set the messages of a key; a common beginning stays as it is."""
        self._of(key).change(lambda known: _put(known, messages))

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a key, including those that other frameworks recorded."""
        return [message_of(unit) for unit in self._of(key).read()]

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Add a message, at the end or at a position."""
        if idx is None:
            self._of(key).append([as_item(message)])
            return

        def insert(known: list[Unit]) -> Change:
            messages = [message_of(unit) for unit in known]
            messages.insert(idx, message)
            return _put(known, messages)

        self._of(key).change(insert)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Retract all messages; None if there was none."""
        return self._of(key).delete(lambda units: units) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Retract one message; None if there is none at this position."""
        return next(iter(self._of(key).delete(lambda units: _at(units, idx))), None)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Retract the newest message; None if there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """Return the keys with messages that were created here."""
        return self._keys()


class HoldfastAsyncChatStore(_OnChats, AsyncDBChatStore):
    """Chats for ``Memory``: archived messages stay in the conversation.

    No call blocks the event loop. Places of messages are counted among all of a key.
    """

    @unblocked
    def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a key with a status (None: all), oldest first, or some of them."""
        start = offset or 0
        history = self._of(key)
        found = history.of_status(history.read(), status)[start : None if limit is None else start + limit]
        return [message_of(unit) for unit in found]

    async def count_messages(self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE) -> int:
        """Return how many messages of a key have a status (None: all)."""
        return len(await self.get_messages(key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Add a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages, all or none of them."""
        await self._of(key).aappend([_marked(as_item(message), status) for message in messages])

    @unblocked
    def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE) -> None:
        """Set the messages of a key; a common beginning stays as it is."""
        history = self._of(key)

        def decide(known: list[Unit]) -> Change:
            # A list of one status replaces all messages: positions are counted among all messages of a key.
            same = known == history.of_status(known, status)
            gone, new = _put(known, messages) if same else (known, [as_item(message) for message in messages])
            return gone, [_marked(item, status) for item in new]

        history.change(decide)

    @unblocked
    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Retract one message; None if there is none at this position."""
        return next(iter(self._of(key).delete(lambda units: _at(units, idx))), None)

    @unblocked
    def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Retract all messages with a status (None: any)."""
        history = self._of(key)
        history.delete(lambda units: history.of_status(units, status))

    @unblocked
    def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Retract the oldest active messages, and return them."""
        history = self._of(key)
        return history.delete(lambda units: history.of_status(units, MessageStatus.ACTIVE)[:n])

    @unblocked
    def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages, and return them."""
        history, found = self._of(key), list[Unit]()

        def tell(units: list[Unit]) -> Words:
            found.extend(history.of_status(units, MessageStatus.ACTIVE)[:n])
            firsts = [seq for unit in found for seq in unit.seqs[:1]]
            return [stored(tool=_TOOL, archived=firsts)] if firsts else []

        history.record(tell)
        return [message_of(unit) for unit in found]

    @unblocked
    def get_keys(self) -> list[str]:
        """Return the keys with messages that were created here."""
        return self._keys()


def bring_over(source: BaseChatStore, hf: Library = None) -> int:
    """Record the new messages of all keys of another chat store; return their number."""
    target, count = HoldfastChatStore(hf), 0
    for key in source.get_keys():
        messages = missing(target.get_messages(key), source.get_messages(key), key)
        target.set_messages(key, [*target.get_messages(key), *messages])
        count += len(messages)
    return count


async def abring_over(source: AsyncDBChatStore, hf: Library = None) -> int:
    """Record the messages of a store for ``Memory``, such as a SQLAlchemyChatStore, and its archive."""
    target, count = HoldfastAsyncChatStore(hf), 0
    for key in await source.get_keys():
        given = await source.get_messages(key, None)
        archived = await source.get_messages(key, MessageStatus.ARCHIVED)
        statuses = [_next_status(message, archived) for message in given]
        new = missing(await target.get_messages(key, None), given, key)
        for message, status in zip(new, statuses[len(given) - len(new) :], strict=True):
            await target.add_message(key, message, status)
        count += len(new)
    return count


def _next_status(message: ChatMessage, archived: list[ChatMessage]) -> MessageStatus:
    """Return the status of a message, given how many archived ones are left, of which it may be the first."""
    if not archived or archived[0] != message:
        return MessageStatus.ACTIVE
    archived.pop(0)
    return MessageStatus.ARCHIVED


def _put(known: list[Unit], messages: list[ChatMessage]) -> Change:
    """Return the changes that make these the messages; a common beginning stays as it is."""
    same = alike(map(message_of, known), messages)
    return known[same:], [as_item(message) for message in messages[same:]]


def _at(units: list[Unit], place: int) -> list[Unit]:
    return [units[place]] if -len(units) <= place < len(units) else []


_ARCHIVED = MessageStatus.ARCHIVED.value


def _marked(item: dict[str, Any], status: MessageStatus) -> dict[str, Any]:
    return item | ({"status": _ARCHIVED} if status == MessageStatus.ARCHIVED else {})


# Messages of LlamaIndex as events, and back.
_ROLES = {"chatbot": "assistant", "model": "assistant", "developer": "system"}


def as_item(message: ChatMessage) -> dict[str, Any]:
    """Return a message as plain data."""
    made: dict[str, Any] = message.model_dump(mode="json")
    return made


def message_of(unit: Unit) -> ChatMessage:
    """Return the message for a memory: its own unchanged, those of others in its form."""
    if unit.own:
        item = unit.fresh
        item.pop("status", None)  # what a memory did with it is no part of it
        return ChatMessage.model_validate(item)
    results = [block for block in unit.blocks if block["type"] == "tool_result"]
    if results:
        # In LlamaIndex a message answers one call: further results name their calls in their text.
        return ChatMessage.model_validate(_result(results[0], results[1:]))
    return ChatMessage.model_validate({"role": unit.item["role"], "blocks": [_part(block) for block in unit.blocks]})


def _result(block: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [str(text_of(block.get("content")))]
    texts += [f"result of {other['tool_use_id']}: {text_of(other.get('content'))}" for other in others]
    blocks = [{"block_type": "text", "text": text} for text in texts]
    return {"role": "tool", "blocks": blocks, "additional_kwargs": {"tool_call_id": block["tool_use_id"]}}


def _part(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"block_type": "text", "text": block["text"]}
        case "thinking":
            return {"block_type": "thinking", "content": block["thinking"]}
        case "tool_use":
            named = {"tool_call_id": block["id"], "tool_name": block["name"]}
            return {"block_type": "tool_call", **named, "tool_kwargs": block["input"]}
        case kind:
            return {"block_type": "text", "text": f"[{kind}]"}


def _tell(item: dict[str, Any]) -> Words:
    role = _ROLES.get(item["role"], item["role"])
    answers = item["additional_kwargs"].get("tool_call_id")
    if role == "tool" and isinstance(answers, str):
        texts = [part["text"] for part in item["blocks"] if part["block_type"] == "text"]
        return [("tool_result", {"toolCallId": answers, "result": "\n".join(texts)})]
    if role not in ("user", "assistant", "system"):
        return []
    return spoken({"role": role, "content": [_block(part) for part in item["blocks"]]})


def _block(part: dict[str, Any]) -> dict[str, Any] | None:
    kind = part["block_type"]
    if kind == "text":
        return {"type": "text", "text": part["text"]}
    if kind == "thinking" and part.get("content"):
        return {"type": "thinking", "thinking": part["content"]}
    arguments = part.get("tool_kwargs")
    if kind == "tool_call" and part.get("tool_call_id") and isinstance(arguments, dict):
        named = {"id": part["tool_call_id"], "name": part["tool_name"]}
        return {"type": "tool_use", **named, "input": arguments}
    return None


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    if type == "tool_result":
        return _result({"tool_use_id": data["toolCallId"], "content": data["result"]}, [])
    role = type if type in ("user", "system") else "assistant"
    return {"role": role, "additional_kwargs": {}, "blocks": [_part(block) for block in blocks_of(words)]}


FORM = Form("llama-index/1", _tell, _rebuild)
