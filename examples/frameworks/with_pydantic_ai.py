"""Pydantic AI with a history that stays: run it twice, the second run knows the first.

The model is Pydantic AI's own for tests, so that this needs no key; with a real one, give its name.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from holdfast.integrations.pydantic_ai import HoldfastHistory


async def main() -> None:
    """One turn of a conversation, each step recorded before the next."""
    agent = Agent(TestModel(custom_output_text="Done."))
    history = HoldfastHistory("trip-planner")
    result = await history.run(agent, "Plan a trip")
    print(f"{result.output} The history has {len(history.messages())} messages.")


if __name__ == "__main__":
    asyncio.run(main())
