"""AutoGen with a state that stays: run it twice, the second run knows the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core import CancellationToken

from holdfast.integrations.autogen import HoldfastState


class Counter(BaseChatAgent):
    """Says how often it was asked; a real one is an AssistantAgent with a model."""

    asked = 0

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """Texts."""
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        """One answer."""
        self.asked += 1
        text = f"I was asked {self.asked} times."
        return Response(chat_message=TextMessage(content=text, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Begin anew."""
        self.asked = 0

    async def save_state(self) -> dict[str, Any]:
        """What is to stay."""
        return {"asked": self.asked}

    async def load_state(self, state: Any) -> None:
        """What stayed."""
        self.asked = state["asked"]


async def main() -> None:
    """One turn of a conversation."""
    agent, state = Counter("counter", "Counts."), HoldfastState("trip-planner")
    await state.load(agent)
    result = await agent.run(task="Plan a trip")
    await state.save(agent)
    print(result.messages[-1].to_text())


if __name__ == "__main__":
    asyncio.run(main())
