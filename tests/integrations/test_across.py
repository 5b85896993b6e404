"""One conversation, continued by one framework after another."""

from __future__ import annotations

import collections

import pytest
from agents import Agent as OpenAIAgent
from agents import Model, ModelResponse, Runner, Usage, function_tool
from autogen_agentchat.agents import AssistantAgent as AutoGenAgent
from autogen_core.models import ChatCompletionClient, ModelFamily, ModelInfo
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner as KitRunner
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import messages as pydantic
from pydantic_ai.models.function import FunctionModel
from strands import Agent as StrandsAgent
from strands import tool as strands_tool
from strands.models import Model as StrandsModel
from strands.session.repository_session_manager import RepositorySessionManager

from holdfast.integrations.adk import HoldfastSessionService
from holdfast.integrations.agent_framework import HoldfastHistoryProvider
from holdfast.integrations.autogen import HoldfastState
from holdfast.integrations.langchain import HoldfastChatMessageHistory
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.llama_index import HoldfastAsyncChatStore, HoldfastChatStore
from holdfast.integrations.openai_agents import HoldfastSession
from holdfast.integrations.pydantic_ai import HoldfastHistory
from holdfast.integrations.strands import HoldfastSessionRepository

pytestmark = pytest.mark.filterwarnings("ignore")


def look(n: int) -> str:
    """See what is there."""
    return f"tree {n}"


# -- OpenAI Agents --------------------------------------------------------------------------------


class _OpenAI(Model):
    async def get_response(self, system_instructions, input, *args, **kwargs):
        seen = input if isinstance(input, list) else [{"role": "user", "content": input}]
        if seen[-1].get("type") == "function_call_output":
            text = ResponseOutputText(type="output_text", text=f"openai saw {len(seen)}", annotations=[])
            output = [
                ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
            ]
        else:
            output = [
                ResponseFunctionToolCall(
                    type="function_call", call_id=f"openai-{n}", name="look", arguments=f'{{"n":{n}}}'
                )
                for n in (1, 2)
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args, **kwargs):
        yield


async def _openai(hf):
    agent = OpenAIAgent("helper", model=_OpenAI(), tools=[function_tool(look)])
    await Runner.run(agent, "openai, look", session=HoldfastSession("trip", hf))


# -- LangGraph ------------------------------------------------------------------------------------


def _say(state):
    messages = state["messages"]
    if isinstance(messages[-1], ToolMessage):
        return {"messages": [AIMessage(f"langgraph saw {len(messages)}")]}
    calls = [{"name": "look", "args": {"n": n}, "id": f"langgraph-{n}"} for n in (1, 2)]
    return {"messages": [AIMessage("", tool_calls=calls)]}


async def _langgraph(hf):
    saver = HoldfastSaver(hf)
    builder = StateGraph(MessagesState)
    builder.add_node("say", _say)
    builder.add_node("tools", ToolNode([look]))
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", tools_condition, {"tools": "tools", END: END})
    builder.add_edge("tools", "say")
    graph = builder.compile(checkpointer=saver)
    given = {"messages": [*saver.messages("trip"), HumanMessage("langgraph, look")]}
    await graph.ainvoke(given, {"configurable": {"thread_id": "trip"}})


# -- Strands --------------------------------------------------------------------------------------


class _Strands(StrandsModel):
    def update_config(self, **config): ...

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, *args, **kwargs):
        done = "toolResult" in messages[-1]["content"][0]
        yield {"messageStart": {"role": "assistant"}}
        if done:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": f"strands saw {len(messages)}"}}}
            yield {"contentBlockStop": {}}
        for n in () if done else (1, 2):
            use = {"toolUseId": f"strands-{n}", "name": "look"}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": f'{{"n": {n}}}'}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if done else "tool_use"}}


async def _strands(hf):
    repository = HoldfastSessionRepository(hf)
    agent = StrandsAgent(
        model=_Strands(),
        tools=[strands_tool(look)],
        agent_id="main",
        session_manager=RepositorySessionManager("trip", repository),
        callback_handler=None,
        messages=repository.messages("trip") or None,
    )
    await agent.invoke_async("strands, look")


# -- Agent Development Kit ------------------------------------------------------------------------


class _Kit(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        if request.contents[-1].parts[0].function_response:
            parts = [types.Part(text=f"adk saw {len(request.contents)}")]
        else:
            parts = [
                types.Part(function_call=types.FunctionCall(id=f"adk-{n}", name="look", args={"n": n})) for n in (1, 2)
            ]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def _adk(hf):
    runner = KitRunner(
        agent=LlmAgent(name="agent", model=_Kit(model="x"), tools=[look]),
        app_name="app",
        session_service=HoldfastSessionService(hf, adopt="agent"),
    )
    said = types.Content(role="user", parts=[types.Part(text="adk, look")])
    async for _ in runner.run_async(user_id="u", session_id="trip", new_message=said):
        pass


# -- Pydantic AI ----------------------------------------------------------------------------------


def _scripted(messages, info):
    if isinstance(messages[-1].parts[-1], pydantic.ToolReturnPart):
        return pydantic.ModelResponse(parts=[pydantic.TextPart(f"pydantic saw {len(messages)}")])
    return pydantic.ModelResponse(parts=[pydantic.ToolCallPart("look", {"n": n}, f"pydantic-{n}") for n in (1, 2)])


async def _pydantic(hf):
    agent = PydanticAgent(FunctionModel(_scripted), tools=[look])
    await HoldfastHistory("trip", hf).run(agent, "pydantic, look")


_FRAMEWORKS = {"openai": _openai, "langgraph": _langgraph, "strands": _strands, "adk": _adk, "pydantic": _pydantic}


def _check(hf, names):
    """Each framework's words, calls and results are there once, in their order."""
    recovery = hf.recover("trip", "neutral")
    assert not recovery.issues
    counts = collections.Counter(
        event.type
        for event in hf.events("trip")
        if event.type in ("user", "assistant", "tool_call", "tool_result", "retracted")
    )
    turns = len(names)
    assert counts == {"user": turns, "assistant": turns, "tool_call": 2 * turns, "tool_result": 2 * turns}
    told = []
    for message in recovery.messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        told += [_word(block) for block in blocks]
    expected = [
        word
        for name in names
        for word in (
            f"{name}, look",
            *(f"{name}-{n}" for n in (1, 2)),
            *(f"{name}-{n} tree {n}" for n in (1, 2)),
            f"{name} saw",
        )
    ]
    assert [word.partition(" saw")[0] + " saw" if " saw" in word else word for word in told] == (expected)


def _word(block):
    if block["type"] == "text":
        return block["text"]
    if block["type"] == "tool_use":
        return block["id"]
    content = block["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    if isinstance(content, dict):
        content = content["result"]
    return f"{block['tool_use_id']} {content}"


async def test_a_conversation_goes_through_all_frameworks(hf):
    """Each goes on from what those before it said; nothing is lost, and nothing told twice."""
    names = []
    for name, run in _FRAMEWORKS.items():
        await run(hf)
        names.append(name)
        _check(hf, names)
    assert hf.verify("trip").ok


async def test_each_framework_sees_what_the_others_said(hf):
    """At the end every adapter gives all words, calls and results in its own form."""
    for run in _FRAMEWORKS.values():
        await run(hf)
    service = HoldfastSessionService(hf, adopt=True)
    kit = await service.get_session(app_name="app", user_id="u", session_id="trip")
    given = {
        "openai": await HoldfastSession("trip", hf).get_items(),
        "langgraph": list(HoldfastSaver(hf).messages("trip")),
        "langchain": HoldfastChatMessageHistory("trip", hf).messages,
        "strands": HoldfastSessionRepository(hf).list_messages("trip", "main"),
        "adk": kit.events,
        "pydantic": HoldfastHistory("trip", hf).messages(),
        "llama-index": HoldfastChatStore(hf).get_messages("trip"),
        "agent-framework": [one.to_dict() for one in await HoldfastHistoryProvider(hf).get_messages("trip")],
    }
    for reader, messages in given.items():
        text = " ".join(map(repr, messages))
        for name in _FRAMEWORKS:
            for word in (f"{name}, look", f"{name}-1", f"{name}-2", f"{name} saw"):
                assert word in text, (reader, word)


async def test_a_framework_goes_on_after_the_others(hf):
    """The second time round each sees its own words and the others', still told once."""
    names = []
    for _ in range(2):
        for name, run in _FRAMEWORKS.items():
            await run(hf)
            names.append(name)
    counts = collections.Counter(event.type for event in hf.events("trip"))
    assert counts["user"] == counts["assistant"] == len(names)
    assert counts["tool_call"] == counts["tool_result"] == 2 * len(names)


class _Silent(ChatCompletionClient):
    """A model that is never asked."""

    model_info = ModelInfo(
        vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
    )
    capabilities = model_info
    create = create_stream = close = actual_usage = total_usage = None
    count_tokens = remaining_tokens = None


async def _given(hf):
    """Each reader's messages, as the calls they make and the results they have, in order."""
    autogen = AutoGenAgent("helper", _Silent())
    await HoldfastState("trip", hf).load(autogen)
    context = (await autogen.save_state())["llm_context"]["messages"]
    provider = HoldfastHistoryProvider(hf)
    service = HoldfastSessionService(hf, adopt=True)
    kit = await service.get_session(app_name="app", user_id="u", session_id="trip")
    assert kit.last_update_time == kit.events[-1].timestamp > 0
    return {
        "openai": await HoldfastSession("trip", hf).get_items(),
        "adk": [event.model_dump(mode="json") for event in kit.events],
        "pydantic": HoldfastHistory("trip", hf).messages(),
        "langgraph": [one.model_dump() for one in HoldfastSaver(hf).messages("trip")],
        "langchain": [one.model_dump() for one in HoldfastChatMessageHistory("trip", hf).messages],
        "llama-index": [one.model_dump() for one in HoldfastChatStore(hf).get_messages("trip")],
        "memory": [one.model_dump() for one in await HoldfastAsyncChatStore(hf).get_messages("trip")],
        "agent-framework": [one.to_dict() for one in await provider.get_messages("trip")],
        "autogen": context,
    }


async def test_a_call_that_was_cut_off_elsewhere_has_a_result_for_the_model(hf):
    """One of two parallel calls has none: each reader gives both, and records nothing of it."""
    with hf.session("trip") as s:
        s.user("look twice")
        kept = s.tool_call("look", {"n": 1})
        s.tool_call("look", {"n": 2})
        s.tool_result(kept, "tree 1")
        s.user("well?")
    before = len(list(hf.events("trip")))
    for reader, messages in (await _given(hf)).items():
        text = " ".join(map(str, messages))
        assert text.count("interrupted, outcome unknown") == text.count("tree 1") > 0, reader
        assert text.index("tree 1") < text.index("well?"), reader
        assert text.index("interrupted, outcome unknown") < text.index("well?"), reader
    assert len(list(hf.events("trip"))) == before


async def test_a_call_that_waits_elsewhere_is_answered_only_for_those_who_go_on(hf):
    """The last call has no result: those who are about to go on are given one, and it waits on."""
    with hf.session("trip") as s:
        s.user("look")
        s.tool_call("look", {"n": 1})
    for reader, messages in (await _given(hf)).items():
        told = "interrupted, outcome unknown" in str(messages)
        assert told == (reader != "langchain"), reader  # whoever answers it may be a chain
    store = HoldfastAsyncChatStore(hf)
    assert len(await store.archive_oldest_messages("trip", 3)) == 3
    assert await store.get_messages("trip", None) == HoldfastChatStore(hf).get_messages("trip")


@pytest.mark.parametrize("name", ["openai", "adk", "pydantic"])
async def test_a_framework_goes_on_after_a_call_that_was_cut_off_elsewhere(hf, name):
    """Its model is told of it; what others recorded stays theirs, and is recorded once."""
    with hf.session("trip") as s:
        s.user("look")
        s.tool_call("look", {"n": 0}, id="cut-off")
        s.user("well?")
    before = list(hf.events("trip"))
    await _FRAMEWORKS[name](hf)
    assert [event.seq for event in hf.events("trip", types={"retracted"})] == []
    after = list(hf.events("trip"))[len(before) :]
    assert "cut-off" not in str([event.data for event in after])
    assert "look" in str(hf.recover("trip").messages)


async def test_what_runs_within_a_session_of_others_said_is_no_part_of_it(hf):
    """A delegate's words are given to no framework that goes on with the conversation."""
    with hf.session("trip") as s:
        s.user("look")
        s.assistant("said by a delegate", run="delegate")
        s.assistant("Done")
    for reader, messages in (await _given(hf)).items():
        assert "delegate" not in str(messages), reader
    session = HoldfastSession("trip", hf)
    assert "Done" in str(await session.pop_item())
