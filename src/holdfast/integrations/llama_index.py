"""LlamaIndex on our log: a chat store for ``ChatMemoryBuffer(chat_store=…)`` and its like.

``HoldfastChatStore()`` in place of ``SimpleChatStore()`` is the whole change; it needs no
``persist``. A key of the store is a session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from pydantic import PrivateAttr

from holdfast.integrations._history import Change, History, missing
from holdfast.integrations._place import Library, library_of, linked
from holdfast.integrations._units import Form, Unit, Words, blocks_of, spoken

__all__ = ["HoldfastChatStore", "bring_over"]

_TOOL = "llama-index"
_ROLES = {"chatbot": "assistant", "model": "assistant", "developer": "system"}


class HoldfastChatStore(BaseChatStore):
    """Chats of LlamaIndex, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. Messages are on the
    medium when a call returns; what is deleted leaves the conversation, and stays in the log.
    """

    _hf: Any = PrivateAttr()
    _histories: dict[str, History] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, hf: Library = None) -> None:
        super().__init__()
        self._hf = library_of(hf)

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, as LlamaIndex asks for it."""
        return "HoldfastChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make these the messages of a key; those that it begins with stay as they are."""
        self._of(key).change(lambda known: _put(known, messages))

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages of a key, also those that other frameworks recorded."""
        return [_message(unit) for unit in self._of(key).read()]

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        """Add a message, at the end or at a place among the others."""
        if idx is None:
            self._of(key).append([_item(message)])
            return

        def insert(known: list[Unit]) -> Change:
            messages = [_message(unit) for unit in known]
            messages.insert(idx, message)
            return _put(known, messages)

        self._of(key).change(insert)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Take all messages back; None if there was none."""
        return self._delete(key, lambda units: units) or None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take one message back; None if there is none at this place."""

        def chosen(units: list[Unit]) -> list[Unit]:
            return [units[idx]] if -len(units) <= idx < len(units) else []

        return next(iter(self._delete(key, chosen)), None)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Take the newest message back; None if there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """The keys that have messages, of those that were begun here."""
        keys = [link["id"] for _, link in linked(self._hf, _TOOL)]
        return [key for key in keys if self._of(key).read()]

    def _delete(self, key: str, choose: Callable[[list[Unit]], list[Unit]]) -> list[ChatMessage]:
        gone: list[Unit] = []

        def decide(units: list[Unit]) -> Change:
            gone.extend(choose(units))
            return gone, []

        self._of(key).change(decide)
        return [_message(unit) for unit in gone]

    def _of(self, key: str) -> History:
        with self._lock:
            known = self._histories.get(key)
            if known is None:
                known = self._histories[key] = History(_FORM, self._hf, _TOOL, key)
            return known


def bring_over(source: BaseChatStore, hf: Library = None) -> int:
    """Record what another chat store holds, all its keys; how many messages.

    Done again, it records only what is new there.
    """
    target, count = HoldfastChatStore(hf), 0
    for key in source.get_keys():
        messages = missing(target.get_messages(key), source.get_messages(key), key)
        target.set_messages(key, [*target.get_messages(key), *messages])
        count += len(messages)
    return count


def _put(known: list[Unit], messages: list[ChatMessage]) -> Change:
    """What makes these the messages; those that it begins with stay as they are."""
    pairs = zip(known, messages, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: _message(pair[0]) == pair[1], pairs))
    return known[same:], [_item(message) for message in messages[same:]]


def _item(message: ChatMessage) -> dict[str, Any]:
    made: dict[str, Any] = message.model_dump(mode="json")
    return made


def _message(unit: Unit) -> ChatMessage:
    if unit.own:
        return ChatMessage.model_validate(unit.fresh)
    content = unit.item["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [block for block in blocks if block["type"] == "tool_result"]
    if results:
        # One message answers one call here: further results say whose they are in their text.
        return ChatMessage.model_validate(_result(results[0], results[1:]))
    parts = [_part(block) for block in blocks]
    return ChatMessage.model_validate({"role": unit.item["role"], "blocks": parts})


def _result(block: dict[str, Any], others: list[dict[str, Any]]) -> dict[str, Any]:
    texts = [_text(block)]
    texts += [f"result of {other['tool_use_id']}: {_text(other)}" for other in others]
    blocks = [{"block_type": "text", "text": text} for text in texts]
    named = {"tool_call_id": block["tool_use_id"]}
    return {"role": "tool", "blocks": blocks, "additional_kwargs": named}


def _text(block: dict[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)
    return content if isinstance(content, str) else str(content)


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"block_type": "text", "text": block["text"]}
    if block["type"] == "thinking":
        return {"block_type": "thinking", "content": block["thinking"]}
    if block["type"] == "tool_use":
        named = {"tool_call_id": block["id"], "tool_name": block["name"]}
        return {"block_type": "tool_call", **named, "tool_kwargs": block["input"]}
    return {"block_type": "text", "text": f"[{block['type']}]"}


def _tell(item: dict[str, Any]) -> Words:
    role = _ROLES.get(item["role"], item["role"])
    blocks = [_block(part) for part in item["blocks"]]
    said = [block for block in blocks if block is not None]
    answers = item["additional_kwargs"].get("tool_call_id")
    if role == "tool" and isinstance(answers, str):
        texts = [block["text"] for block in said if block["type"] == "text"]
        return [("tool_result", {"toolCallId": answers, "result": "\n".join(texts)})]
    if role not in ("user", "assistant", "system") or not said:
        return []
    return spoken({"role": role, "content": said}, "neutral")


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
        block = {"tool_use_id": data["toolCallId"], "content": data["result"]}
        return _result(block, [])
    role = type if type in ("user", "system") else "assistant"
    parts = [_part(block) for word in words for block in blocks_of(*word)]
    return {"role": role, "additional_kwargs": {}, "blocks": parts}


_FORM = Form("llama-index/1", _tell, _rebuild)
