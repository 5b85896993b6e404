"""The Agent Development Kit with a session that stays: run it twice.

The model is scripted, so that this needs no key; with a real one, give its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.genai import types

from holdfast.integrations.adk import HoldfastSessionService

WHO = {"app_name": "planner", "user_id": "me"}


class Scripted(BaseLlm):
    """Says how many contents it was given."""

    async def generate_content_async(self, llm_request: Any, stream: Any = None) -> AsyncIterator[LlmResponse]:
        """One answer."""
        text = f"I was given {len(llm_request.contents)} contents."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def main() -> None:
    """One turn of a conversation."""
    service = HoldfastSessionService()
    if await service.get_session(**WHO, session_id="trip-planner") is None:
        await service.create_session(**WHO, session_id="trip-planner")
    agent = LlmAgent(name="planner", model=Scripted(model="scripted"))
    runner = Runner(agent=agent, app_name="planner", session_service=service)
    said = types.Content(role="user", parts=[types.Part(text="Plan a trip")])
    async for event in runner.run_async(user_id="me", session_id="trip-planner", new_message=said):
        if event.is_final_response():
            print(event.content.parts[0].text)


if __name__ == "__main__":
    asyncio.run(main())
