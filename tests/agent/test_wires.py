"""Over the real clients of four providers: every request that the agent sends is accepted."""

from __future__ import annotations

import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from holdfast.agent import Agent, Tool
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel, Together

# A provider's library has escapes in its source that Python warns of when it is first compiled.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:invalid escape sequence:SyntaxWarning"),
]


def client(wire, server):
    """A model of the provider whose requests go to the scripted server."""
    if wire == "anthropic":
        provider = AnthropicProvider(api_key="k", base_url=server.url)
        return AnthropicModel("claude-test", provider=provider)
    if wire == "gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        provider = GoogleProvider(api_key="k", base_url=server.url)
        return GoogleModel("gemini-2.5-flash", provider=provider)
    provider = OpenAIProvider(api_key="k", base_url=server.openai_url)
    kind = OpenAIChatModel if wire == "openai" else OpenAIResponsesModel
    return kind("gpt-5", provider=provider)


def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


def broken() -> str:
    """Fail."""
    raise ValueError("broken")


STEPS = [
    Together([AskForTool("look", {"n": 1}), AskForTool("look", {"n": 2})], text="Let me look."),
    AskForTool("broken"),
    AskForTool("missing"),
    Say("All is seen."),
    Say("Still here."),
]


def leave_unfinished(hf):
    """A session whose process was killed in the middle of a call and of a sentence."""
    session = hf.session("s")
    session.append("turn_start", {"agent": "agent"}, run="r-1")
    session.append("agent_start", {"agent": "agent", "depth": 0}, run="r-1")
    session.user("do it", run="r-1")
    session.tool_call("pay", {"x": 1}, id="toolu_1", run="r-1")
    session.tool_call("pay", {"x": 2}, id="toolu_2", run="r-1")
    session.tool_result("toolu_1", "paid", run="r-1")
    session.delta("I have ", run="r-1", agent="agent")
    session._journal.writer.dead = RuntimeError("killed")
    session.close()


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses", "gemini"])
@pytest.mark.req("S3-50")
async def test_every_request_is_accepted(hf, wire, streamed):
    """Parallel calls, failures and the remains of a crash: no provider refuses the conversation."""
    leave_unfinished(hf)
    with ScriptedModel(STEPS) as server, hf.session("s") as session:
        agent = Agent(client(wire, server), tools=[look, Tool(broken)], instructions="be kind")
        first = await answer(agent, "look around", session, streamed=streamed)
        second = await answer(agent, "and now?", session, streamed=streamed)
        assert [request.refused for request in server.requests] == [[]] * 5
        assert {request.provider for request in server.requests} == {wire}
    assert first.strip().endswith("All is seen.")
    assert second.strip() == "Still here."


async def answer(agent, prompt, session, *, streamed):
    """What the agent answers."""
    if not streamed:
        return (await agent.run(prompt, session=session)).output
    return "".join([piece async for piece in agent.run_stream(prompt, session=session)])
