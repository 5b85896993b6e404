"""OpenAI Agents on our log."""

from __future__ import annotations

import json

import pytest
from agents import SessionSettings, SQLiteSession
from agents.memory import Session, is_openai_responses_compaction_aware_session
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import InvalidData, UsageError
from holdfast.integrations.openai_agents import HoldfastSession

ITEMS = [
    {"role": "user", "content": "What is the weather?"},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "and this?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        ],
    },
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Think."}],
        "encrypted_content": "zz",
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "weather",
        "arguments": '{"town": "Kiel"}',
        "status": "completed",
    },
    {"type": "function_call", "call_id": "c2", "name": "odd", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "c2", "output": "?"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "sunny"}]},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Sunny.", "annotations": [], "logprobs": []}],
    },
    {"role": "assistant", "content": "plain"},
    {"role": "developer", "content": "Be short."},
    {"type": "file_search_call", "id": "fs", "queries": ["q"], "status": "completed"},
    {"type": "compaction", "encrypted_content": "abc"},
    {"role": "user", "content": ""},
]


def test_it_is_a_session_as_the_framework_sees_it(hf):
    """The runner's own check accepts it, and finds a compaction only where one was given."""
    session = HoldfastSession("trip", hf)
    assert isinstance(session, Session)
    assert not is_openai_responses_compaction_aware_session(session)
    assert is_openai_responses_compaction_aware_session(HoldfastSession("trip", hf, compact=lambda items, args: None))


async def test_items_come_back_as_they_went_in(hf, store_root):
    """Every kind of item, deep-equal and in order, also from another object of the same id."""
    await HoldfastSession("trip", hf).add_items(ITEMS)
    assert await HoldfastSession("trip", hf).get_items() == ITEMS


_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=6)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=6,
)


@given(
    st.lists(
        st.sampled_from(ITEMS).flatmap(
            lambda item: st.dictionaries(st.sampled_from(sorted(item)), _JSON, max_size=2).map(
                lambda changes: item | changes
            )
        ),
        max_size=5,
    )
)
async def test_whatever_an_item_holds_comes_back(items):
    """Items with members of any shape are neither refused nor changed."""
    with holdfast.open("memory:") as hf:
        session = HoldfastSession("trip", hf)
        await session.add_items(items)
        assert await session.get_items() == items


async def test_a_limit_gives_the_newest_items(hf):
    """A limit of the call goes before one of the settings; none at all gives everything."""
    session = HoldfastSession("trip", hf, session_settings=SessionSettings(limit=2))
    await session.add_items(ITEMS)
    assert await session.get_items() == ITEMS[-2:]
    assert await session.get_items(3) == ITEMS[-3:]
    assert await session.get_items(0) == []
    assert await session.get_items(1_000) == ITEMS


async def test_a_popped_item_is_retracted_and_stays_in_the_log(hf):
    """Pop gives the newest item; the log keeps what was said, and that it was taken back."""
    session = HoldfastSession("trip", hf)
    await session.add_items(ITEMS[:1])
    await session.add_items([{"role": "user", "content": "a slip of the tongue"}])
    assert await session.pop_item() == {"role": "user", "content": "a slip of the tongue"}
    assert await session.get_items() == ITEMS[:1]
    kinds = [event.type for event in hf.events("trip") if event.type in ("user", "retracted")]
    assert kinds == ["user", "user", "retracted"]
    assert await session.pop_item() == ITEMS[0]
    assert await session.pop_item() is None


async def test_a_cleared_session_begins_anew(hf):
    """Nothing of before is given to the runner, and new items are."""
    session = HoldfastSession("trip", hf)
    await session.add_items(ITEMS)
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items(ITEMS[:2])
    assert await session.get_items() == ITEMS[:2]


async def test_an_empty_session_leaves_no_trace(hf):
    """Reading, popping from and clearing what is not there makes nothing."""
    session = HoldfastSession("trip", hf)
    assert await session.get_items() == []
    await session.add_items([])
    assert not hf.exists("trip")


async def test_its_sessions_are_sessions_like_any_other(hf):
    """List, search and recover see the conversation: text, calls and results in their pairs."""
    await HoldfastSession("trip", hf).add_items(ITEMS)
    assert [one.session_id for one in hf.list()] == ["trip"]
    assert {hit.role for hit in hf.search("sunny")} == {"tool_result", "assistant"}
    blocks = [
        block["type"]
        for message in hf.recover("trip", "anthropic").messages
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    assert blocks.count("tool_use") == blocks.count("tool_result") == 2


async def test_what_others_recorded_is_told_in_its_form(hf):
    """A session begun with our own API goes on in the framework, calls included."""
    with hf.session("trip") as s:
        s.user("Hello")
        call = s.tool_call("Read", {"path": "a"})
        s.tool_result(call, "text")
        s.assistant("Done")
    items = await HoldfastSession("trip", hf).get_items()
    kinds = [item.get("type", item.get("role")) for item in items]
    assert kinds == ["user", "function_call", "function_call_output", "assistant"]
    assert items[1]["call_id"] == items[2]["call_id"]


async def test_a_compaction_takes_the_place_of_what_it_covers(hf):
    """The hook sees all items; what it gives is the conversation from then on."""
    seen = []

    async def compact(items, args):
        seen.append((len(items), args))
        return [{"role": "user", "content": "in short: sunny"}]

    session = HoldfastSession("trip", hf, compact=compact)
    await session.add_items(ITEMS)
    await session.run_compaction({"force": True})
    assert seen == [(len(ITEMS), {"force": True})]
    assert await session.get_items() == [{"role": "user", "content": "in short: sunny"}]


async def test_an_item_that_is_no_json_is_refused_as_by_the_sdk(hf):
    """It is a TypeError, as in SQLiteSession, and InvalidData; nothing of the batch is recorded."""
    for session in (SQLiteSession("trip"), HoldfastSession("trip", hf)):
        items = [{"role": "user", "content": "Hi"}, {"role": "user", "content": {1, 2}}]
        with pytest.raises(TypeError) as refused:
            await session.add_items(items)
        assert await session.get_items() == []
    assert isinstance(refused.value, InvalidData)
    assert refused.value.remedy


async def test_a_closed_session_is_refused_as_by_the_sdk(hf):
    """It is a RuntimeError, as in SQLiteSession, and a UsageError; another object goes on."""
    ours, theirs = HoldfastSession("trip", hf), SQLiteSession("trip")
    await ours.add_items([{"role": "user", "content": "Hi"}])
    for session in (ours, theirs):
        session.close()
        session.close()
        for use in (
            session.get_items,
            lambda session=session: session.add_items([]),
            session.pop_item,
            session.clear_session,
        ):
            with pytest.raises(RuntimeError, match="closed") as refused:
                await use()
            assert session is theirs or isinstance(refused.value, UsageError)
    async with HoldfastSession("trip", hf) as again:
        assert await again.get_items() == [{"role": "user", "content": "Hi"}]
    with pytest.raises(RuntimeError, match="closed"):
        await again.get_items()


_PROGRAM = """
    import asyncio, json, sys, time
    from agents import Agent, Runner, function_tool, set_tracing_disabled
    from agents.models.interface import Model
    from agents.items import ModelResponse
    from agents.usage import Usage
    from openai.types.responses import (
        ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText)
    from holdfast.integrations.openai_agents import HoldfastSession

    set_tracing_disabled(True)
    store, hangs = sys.argv[1], sys.argv[2] == "hang"

    class Scripted(Model):
        async def get_response(self, system_instructions, input, *args, **kwargs):
            done = [one for one in input if one.get("type") == "function_call_output"]
            if not done:
                said = [ResponseFunctionToolCall(id="f", type="function_call",
                    call_id="c1", name="look", arguments="{}")]
            elif hangs:
                print("waiting", flush=True)
                await asyncio.sleep(600)
            else:
                text = ResponseOutputText(type="output_text", text=f"{len(input)} items seen",
                    annotations=[], logprobs=[])
                said = [ResponseOutputMessage(id="m", type="message", role="assistant",
                    status="completed", content=[text])]
            return ModelResponse(output=said, usage=Usage(), response_id=None)

        def stream_response(self, *args, **kwargs):
            raise NotImplementedError

    @function_tool
    def look() -> str:
        "Look."
        return "a tree"

    async def main():
        agent = Agent(name="a", model=Scripted(), tools=[look])
        session = HoldfastSession("trip", store)
        answer = await Runner.run(agent, "Look around", session=session)
        print(json.dumps(answer.final_output))

    asyncio.run(main())
"""


def test_a_run_that_was_killed_goes_on(programs, store_root):
    """A kill -9 in the middle of a real run; the next run of the framework sees what was done."""
    programs.killed(_PROGRAM)
    with holdfast.open(store_root) as hf:
        assert hf.recover("trip", "openai-responses").messages[0]["content"] == "Look around"
    said = json.loads(programs.finished(_PROGRAM))
    assert said.endswith("items seen")
    with holdfast.open(store_root) as hf:
        assert hf.verify("trip").ok
        texts = [event.data["content"] for event in hf.events("trip", types={"assistant"})]
    assert texts == [said]
