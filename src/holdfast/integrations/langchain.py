"""LangChain on our log: a history for ``RunnableWithMessageHistory`` and for chains by hand.

``HoldfastChatMessageHistory(session_id)`` in place of any other history is the whole change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import message_to_dict

from holdfast.errors import UsageError
from holdfast.integrations._history import MessageHistory, missing
from holdfast.integrations._langchain_messages import FORM, answered, as_item, messages_of
from holdfast.integrations._place import Library

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["HoldfastChatMessageHistory", "bring_over"]


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
        """All messages in their order.

        A call that was cut off has a result that says so, once something else follows: a model
        refuses a call without one.
        """
        return answered(self._recorded(), last=False)

    async def aget_messages(self) -> list[BaseMessage]:
        """All messages in their order."""
        return await asyncio.to_thread(lambda: self.messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Record messages. Raises UsageError, and records none, if one is no plain data."""
        self._history.append(_items(messages))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Do what ``add_messages`` does, without blocking the event loop."""
        await self._history.aappend(_items(messages))

    def clear(self) -> None:
        """Take all messages back. The log keeps them; the conversation begins anew."""
        self._history.change(lambda units: (units, []))

    async def aclear(self) -> None:
        """Do what ``clear`` does, without blocking the event loop."""
        await asyncio.to_thread(self.clear)

    def _recorded(self) -> list[BaseMessage]:
        return messages_of(self._history.read())

    def close(self) -> None:
        """Give the session back to other processes now, rather than after a rest."""
        self._history.place.close()


def bring_over(source: BaseChatMessageHistory, session_id: str, hf: Library = None) -> int:
    """Record what another history holds; how many messages.

    Done again, it records only what is new there.
    """
    target = HoldfastChatMessageHistory(session_id, hf)
    messages = missing(target._recorded(), source.messages, session_id)  # noqa: SLF001 - of this module
    target.add_messages(messages)
    target.close()
    return len(messages)


def _items(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    items = [(message, as_item(message)) for message in messages]
    for message, item in items:
        if item is None:
            said = message_to_dict(message)["type"]
            raise UsageError(f"a message of kind {said} holds what cannot be written as JSON")
    return [item for _, item in items if item is not None]
