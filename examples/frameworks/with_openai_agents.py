"""OpenAI Agents with a session that stays: run it twice, the second run knows the first.

The model is scripted, so that this needs no key; with a real one, leave `model=` out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from holdfast.integrations.openai_agents import HoldfastSession


class Scripted(Model):
    """Says how many items it was given."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        """One answer."""
        text = f"I was given {len(input)} items."
        part = ResponseOutputText(type="output_text", text=text, annotations=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError


async def main() -> None:
    """One turn of a conversation."""
    agent = Agent(name="planner", model=Scripted())
    result = await Runner.run(agent, "Plan a trip", session=HoldfastSession("trip-planner"))
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
