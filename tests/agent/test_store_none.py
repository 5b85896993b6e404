"""The store `none:`: an agent talks as on `memory:`, and nothing of it is left."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import Runtime
from holdfast.agent import Agent, Decision, Tool
from holdfast.errors import NotFound
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel, Together

BIG = "x" * 400_000  # becomes a blob


def look_up(city: str) -> str:
    """Look up the weather."""
    return f"sunny in {city}"


def read_all(path: str) -> str:
    """Read a big file."""
    return BIG + path


def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


def answer(request):
    """Use each tool once, then answer; a delegate's task is answered at once."""
    text = str(request.messages)
    if "Ask the scout" in text and "ask_scout" not in text:
        return AskForTool("ask_scout", {"task": "weather in Oslo"}, id="call_scout")
    if "Look around" in text and "call_look" not in text:
        calls = [
            AskForTool("look_up", {"city": "Oslo"}, id="call_look"),
            AskForTool("read_all", {"path": "a"}, id="call_read"),
        ]
        return Together(calls, text="I look.")
    if text.count("'Erase") > text.count("'call_erase"):
        return AskForTool("erase", {"path": "a"}, id="call_erase")
    return Say(f"answer to {len(request.messages)} messages")


def lead(**options):
    asked = []

    def permit(request):
        asked.append(request.tool)
        return Decision(True, scope="always")

    scout = Agent("openai:scripted", name="scout", tools=[look_up])
    agent = Agent(
        "openai:scripted",
        agent_id="lead",
        delegates=[scout],
        tools=[look_up, read_all, Tool(erase, needs_permission=True)],
        permission=permit,
        features={"in_context_memory": True},
        **options,
    )
    return agent, asked


SAID = ["My name is Alice", "Look around", "Ask the scout", "Who am I?"]


def talk_on_a_session(hf):
    agent, _ = lead()
    with hf.session("s") as session:
        for text in SAID:
            agent.run_sync(text, session=session)


def talk_on_its_own_session(hf):
    agent, asked = lead(hf=hf, persistent_session=True)
    with agent:
        for text in SAID:
            agent.run_sync(text)
            agent.session.memory.set("said", text, description="last words", scope="persistent")
            agent.session.flush()
        for _ in range(2):
            agent.run_sync("Erase it")
    assert asked == ["erase"]


def talk_with_a_runtime(hf):
    async def talk():
        agent, _ = lead()
        async with Runtime(agent, hf) as runtime:
            for text in SAID:
                await runtime.process_user_input(text, "test", "r")

    asyncio.run(talk())


@pytest.mark.req("S3-4", "S3-75")
@pytest.mark.parametrize(
    "talk", [talk_on_a_session, talk_on_its_own_session, talk_with_a_runtime], ids=lambda f: f.__name__
)
def test_the_model_is_sent_the_same_as_in_memory(talk, monkeypatch):
    """Every request has the same messages and tools on both stores, whoever has the session."""
    sent = []
    for url in ("memory:", "none:"):
        with ScriptedModel(answer) as model, holdfast.open(url) as hf:
            monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
            monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
            talk(hf)
            assert not model.refused
            sent.append([request.body for request in model.requests])
    memory, none = sent
    assert len(memory) >= len(SAID) + 3
    assert none == memory
    assert "My name is Alice" in str(none[-1])


@pytest.mark.req("S3-4", "S3-75")
def test_a_session_that_was_closed_never_was(monkeypatch):
    """While it is open it can be looked at like any other; then there is nothing, and no fork."""
    with holdfast.open("none:") as hf:
        with hf.session("s") as session:
            session.user("hello")
            session.memory.set("k", 1, description="one", scope="persistent")
            assert [event.type for event in hf.events("s")][-1] == "user"
            assert hf.recover("s").messages == session.messages()
            assert [row.session_id for row in hf.list()] == ["s"]
            with pytest.raises(NotFound, match="no fork"):
                hf.fork("s")
        assert hf.list() == []
        assert not hf.exists("s")
        with pytest.raises(NotFound):
            hf.recover("s")
        with hf.session("s") as session:
            assert not session.restored
            assert session.messages() == []
    with holdfast.open("none:") as hf, hf.session("s") as session:
        assert session.memory.get("k") is None
