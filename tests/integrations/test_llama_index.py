"""LlamaIndex's chat stores on our log."""

from __future__ import annotations

import asyncio
from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ThinkingBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, ImageBlock, MockLLM, TextBlock
from llama_index.core.memory import ChatMemoryBuffer, Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

import holdfast
from holdfast.integrations.llama_index import HoldfastAsyncChatStore, HoldfastChatStore, abring_over

_SAID = [
    ChatMessage("Be kind.", role="system"),
    ChatMessage("Hello", additional_kwargs={"x": 1}),
    ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="Hm."),
            TextBlock(text="I look"),
            ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"n": 1}),
        ],
    ),
    ChatMessage("a tree", role="tool", additional_kwargs={"tool_call_id": "c1"}),
    ChatMessage(role="user", blocks=[ImageBlock(url="https://example.org/a.png")]),
    ChatMessage("", role="assistant"),
    ChatMessage("old", role="function"),
]


def test_messages_come_back_as_they_went_in(hf):
    """All kinds, equal, also from another object."""
    store = HoldfastChatStore(hf)
    for message in _SAID:
        store.add_message("trip", message)
    assert HoldfastChatStore(hf).get_messages("trip") == _SAID
    assert HoldfastChatStore(hf).get_keys() == ["trip"]
    assert store.class_name() == "HoldfastChatStore"
    blocks = [block for one in hf.recover("trip").messages for block in one["content"]]
    assert "tool_use" in [block["type"] for block in blocks if isinstance(block, dict)]


_MESSAGES = st.sampled_from([ChatMessage(text, role="user") for text in "ab"] + _SAID)
_KEYS = st.sampled_from(["k1", "k2"])
_DEEDS = st.one_of(
    st.tuples(st.just("add_message"), _KEYS, _MESSAGES),
    st.tuples(st.just("add_message"), _KEYS, _MESSAGES, st.integers(0, 3)),
    st.tuples(st.just("set_messages"), _KEYS, st.lists(_MESSAGES, max_size=4)),
    st.tuples(st.just("delete_message"), _KEYS, st.integers(0, 3)),
    st.tuples(st.just("delete_messages"), _KEYS),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_DEEDS, max_size=8))
def test_it_does_what_the_store_in_memory_does(tmp_path_factory, deeds):
    """After any deeds the same messages; deleting what is not there is None in both."""
    with holdfast.open(tmp_path_factory.mktemp("store")) as hf:
        ours, theirs = HoldfastChatStore(hf), SimpleChatStore()
        for name, key, *given_ones in deeds:
            mine, other = (getattr(store, name)(key, *map(_copy, given_ones)) for store in (ours, theirs))
            assert (mine or None) == (other or None)
        for key in ("k1", "k2"):
            assert ours.get_messages(key) == theirs.get_messages(key)
        assert sorted(ours.get_keys()) == sorted(k for k in theirs.get_keys() if theirs.store[k])


def _copy(value):
    return list(value) if isinstance(value, list) else value


async def test_a_chat_goes_on_in_another_process_object(hf):
    """A real chat engine with the framework's own model sees what was said before."""
    for word in ("one", "two"):
        memory = ChatMemoryBuffer.from_defaults(chat_store=HoldfastChatStore(hf), chat_store_key="trip")
        engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
        await engine.achat(word)
    said = [message["content"] for message in hf.recover("trip").messages]
    assert [said[0], said[2]] == ["one", "two"]
    assert "one" in said[3]
    assert await HoldfastChatStore(hf).adelete_last_message("trip") is not None


def test_what_others_recorded_is_part_of_it(hf):
    """Calls are blocks of one message, a result a message of the tool."""
    with hf.session("trip") as s:
        s.user("Hello")
        calls = [s.tool_call("Read", {"path": path}) for path in "ab"]
        s.tool_result(calls[0], "text")
        s.tool_result(calls[1], [{"type": "text", "text": "more"}])
        s.thinking("Hm.")
        s.assistant("Done")
    messages = HoldfastChatStore(hf).get_messages("trip")
    assert [message.role.value for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert [block.tool_name for block in messages[1].blocks] == ["Read", "Read"]
    assert "more" in messages[2].content


_STATUS = st.sampled_from([MessageStatus.ACTIVE, MessageStatus.ARCHIVED])
_ASKED = st.one_of(st.none(), _STATUS)
_MEMORY_DEEDS = st.one_of(
    st.tuples(st.just("add_message"), _KEYS, _MESSAGES, _STATUS),
    st.tuples(st.just("add_messages"), _KEYS, st.lists(_MESSAGES, min_size=1, max_size=3), _STATUS),
    st.tuples(st.just("set_messages"), _KEYS, st.lists(_MESSAGES, max_size=3), _STATUS),
    st.tuples(st.just("archive_oldest_messages"), _KEYS, st.integers(0, 3)),
    st.tuples(st.just("delete_oldest_messages"), _KEYS, st.integers(0, 3)),
    st.tuples(st.just("delete_messages"), _KEYS, _ASKED),
    st.tuples(st.just("get_messages"), _KEYS, _ASKED, st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("count_messages"), _KEYS, _ASKED),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_MEMORY_DEEDS, max_size=8))
def test_the_store_of_a_memory_does_what_the_one_in_sql_does(tmp_path_factory, deeds):
    """After any deeds the same messages of each status, also for another object."""

    async def play():
        with holdfast.open(tmp_path_factory.mktemp("store")) as hf:
            ours, theirs = HoldfastAsyncChatStore(hf), SQLAlchemyChatStore("t")
            for name, key, *given_ones in deeds:
                mine, other = [await getattr(store, name)(key, *map(_copy, given_ones)) for store in (ours, theirs)]
                assert mine == other
            again = HoldfastAsyncChatStore(hf)
            for key in ("k1", "k2"):
                for status in (None, *MessageStatus):
                    known = await theirs.get_messages(key, status)
                    assert await ours.get_messages(key, status) == known
                    assert await again.get_messages(key, status) == known
            assert sorted(await ours.get_keys()) == sorted(await theirs.get_keys())
            with holdfast.open(tmp_path_factory.mktemp("other")) as other:
                counts = [await abring_over(theirs, other) for _ in "ab"]
                assert counts == [await theirs.count_messages("k1", None) + await theirs.count_messages("k2", None), 0]
                brought = HoldfastAsyncChatStore(other)
                for key, status in product(("k1", "k2"), MessageStatus):
                    known = await theirs.get_messages(key, status)
                    assert await brought.get_messages(key, status) == known
            await theirs._async_engine.dispose()

    asyncio.run(play())


async def test_a_memory_that_is_full_puts_away_what_the_conversation_keeps(hf):
    """The framework's own memory archives; recover, and another memory, have all of it."""
    store = HoldfastAsyncChatStore(hf)
    memory = Memory.from_defaults("trip", token_limit=40, chat_store=store)
    for number in range(6):
        await memory.aput(ChatMessage(f"word {number} " * 5, role="user"))
        await memory.aput(ChatMessage(f"answer {number} " * 5, role="assistant"))
    away = await store.count_messages("trip", MessageStatus.ARCHIVED)
    assert 0 < away < 12
    assert await store.count_messages("trip", None) == 12
    assert len(hf.recover("trip").messages) == 12
    other = HoldfastAsyncChatStore(hf)
    assert len(await other.get_messages("trip")) == 12 - away
    assert (await other.delete_message("trip", 0)).content.startswith("word 0")
    assert await other.delete_message("trip", 99) is None
    assert other.class_name() == "HoldfastAsyncChatStore"
