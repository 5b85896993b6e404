"""LlamaIndex's chat stores on our log."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ThinkingBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, ImageBlock, MockLLM, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.storage.chat_store import SimpleChatStore

import holdfast
from holdfast.integrations.llama_index import HoldfastChatStore

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


@pytest.fixture
def hf(store_root):
    with holdfast.open(store_root) as opened:
        yield opened


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
            mine, other = (
                getattr(store, name)(key, *map(_copy, given_ones)) for store in (ours, theirs)
            )
            assert (mine or None) == (other or None)
        for key in ("k1", "k2"):
            assert ours.get_messages(key) == theirs.get_messages(key)
        assert sorted(ours.get_keys()) == sorted(k for k in theirs.get_keys() if theirs.store[k])


def _copy(value):
    return list(value) if isinstance(value, list) else value


async def test_a_chat_goes_on_in_another_process_object(hf):
    """A real chat engine with the framework's own model sees what was said before."""
    for word in ("one", "two"):
        memory = ChatMemoryBuffer.from_defaults(
            chat_store=HoldfastChatStore(hf), chat_store_key="trip"
        )
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
    assert [message.role.value for message in messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert [block.tool_name for block in messages[1].blocks] == ["Read", "Read"]
    assert "more" in messages[2].content
