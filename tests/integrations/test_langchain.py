"""LangChain's chat message histories on our log."""

from __future__ import annotations

import warnings

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from holdfast.errors import UsageError
from holdfast.integrations.langchain import HoldfastChatMessageHistory

_CALL = {"name": "look", "args": {"n": 1}, "id": "c1", "type": "tool_call"}
_SAID = [
    SystemMessage("Be kind.", id="s"),
    HumanMessage([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": "u"}]),
    AIMessage("I look", tool_calls=[_CALL], additional_kwargs={"x": 1}),
    ToolMessage("a tree", tool_call_id="c1", artifact={"a": 1}),
    AIMessage("", response_metadata={"m": "n"}),
]


def test_messages_come_back_as_they_went_in(hf):
    """All kinds, equal, also from another object; and cleared they are gone."""
    history = HoldfastChatMessageHistory("trip", hf)
    history.add_messages(_SAID[:2])
    history.add_user_message("plain")
    history.add_ai_message("text")
    history.add_messages(_SAID[2:])
    again = HoldfastChatMessageHistory("trip", hf)
    expected = [*_SAID[:2], HumanMessage("plain"), AIMessage("text"), *_SAID[2:]]
    assert again.messages == expected
    assert "Human: plain" in str(again)
    again.clear()
    assert history.messages == []
    history.close()


async def test_the_same_without_blocking(hf):
    """The async methods do what the others do."""
    history = HoldfastChatMessageHistory("trip", hf)
    await history.aadd_messages(_SAID)
    assert await HoldfastChatMessageHistory("trip", hf).aget_messages() == _SAID
    await history.aclear()
    assert await history.aget_messages() == []


def test_what_cannot_be_written_is_refused_as_a_whole(hf):
    """A message that holds an object is an error, and nothing of the batch is recorded."""
    history = HoldfastChatMessageHistory("trip", hf)
    with pytest.raises(UsageError):
        history.add_messages([HumanMessage("one"), AIMessage("", additional_kwargs={"x": {1}})])
    assert history.messages == []


def test_a_chain_goes_on_in_another_process_object(hf):
    """A real chain with a scripted model sees what was said before."""
    seen = []

    def chain():
        model = GenericFakeChatModel(messages=iter([AIMessage("hello")]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LangChain has a newer way, and this one still works
            return RunnableWithMessageHistory(_counted(seen) | model, lambda name: HoldfastChatMessageHistory(name, hf))

    config = {"configurable": {"session_id": "trip"}}
    for word in ("one", "two"):
        chain().invoke([HumanMessage(word)], config)
    assert seen == [1, 3]
    said = [message["content"] for message in hf.recover("trip").messages]
    assert said == ["one", "hello", "two", "hello"]


def _counted(seen):
    def count(messages):
        seen.append(len(messages))
        return messages

    return RunnableLambda(count)


def test_what_others_recorded_is_part_of_it(hf):
    """Calls in their pairs, with ids that name their events."""
    with hf.session("trip") as s:
        s.system("Be kind.")
        s.user("Hello")
        calls = [s.tool_call("Read", {"path": path}) for path in "ab"]
        for call in calls:
            s.tool_result(call, {"lines": 1})
        s.assistant("Done")
    history = HoldfastChatMessageHistory("trip", hf)
    kinds = [message.type for message in history.messages]
    assert kinds == ["system", "human", "ai", "tool", "tool", "ai"]
    assert len(history.messages[2].tool_calls) == 2
    assert all(message.id.startswith("holdfast-") for message in history.messages)
