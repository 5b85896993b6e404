"""Advanced: tools with permission, variables, memory, todos, streaming, and a look at the log.

python examples/advanced.py "Book a table for two in Lisbon"
"""

from __future__ import annotations

import asyncio
import os
import sys

import holdfast
from holdfast.agent import Agent, Features, PermissionRequest, PersistentSession, ToolContext, tool

# Without a key the small model answers that is embedded, which is good to try things out.
_USUAL = "anthropic:claude-sonnet-5-5" if "ANTHROPIC_API_KEY" in os.environ else "local"
MODEL = os.environ.get("HOLDFAST_MODEL", _USUAL)


@tool(read_only=True)
def find_restaurants(city: str) -> list[str]:
    """Find restaurants.

    Args:
        city: Where to look.
    """
    return [f"O Velho {city}", "Taberna do Mar"]


@tool(needs_permission=True)
def book_table(ctx: ToolContext, restaurant: str, guests: int) -> str:
    """Book a table. The intent is on disk before this runs, the result after it.

    Args:
        restaurant: Its name.
        guests: How many come.
    """
    ctx.variables["booking"] = {"restaurant": restaurant, "guests": guests}
    ctx.memory.set("favourite", restaurant, description="where we eat", scope="persistent")
    ctx.todos.write([{"content": f"Go to {restaurant}", "status": "pending", "activeForm": "Going"}])
    return f"booked: {restaurant}, {guests} guests"


def permit(request: PermissionRequest) -> str:
    """Decide about a tool call; the decision is recorded before the tool runs."""
    print(f"[allowed {request.tool} {request.args}]")
    return "session"


async def main(prompt: str) -> None:
    """Stream one answer, then show what the session holds."""
    with holdfast.open() as hf:
        async with Agent(
            MODEL,
            agent_id="planner",
            hf=hf,
            persistent_session=PersistentSession(storage=hf, autosave_ms=10_000),
            features=Features(in_context_memory=True, persistent_instructions=True),
            instructions="You plan trips. Ask when something is unclear.",
            tools=[find_restaurants, book_table],
            permission=permit,
            max_context_tokens=100_000,
            strategy="summarise",
        ) as agent:
            async with agent.run_stream(prompt) as stream:
                async for text in stream:
                    print(text, end="", flush=True)
            print()
            session = agent.session
            assert session is not None
            print("variables:", dict(session.variables))
            print("todos:", [todo["content"] for todo in session.todos])
            print("usage:", stream.result.usage.output_tokens, "tokens said")
            session_id = session.id
        for event in hf.events(session_id, types=["tool_call", "tool_result", "permission"]):
            print(f"{event.seq:4} {event.type}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Book a table for two in Lisbon"))
