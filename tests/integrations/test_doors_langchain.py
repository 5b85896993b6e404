"""LangChain: a kill in a tool, a fork, and what others read."""

from __future__ import annotations

import warnings

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

import holdfast
from holdfast.integrations.langchain import HoldfastChatMessageHistory, durable

CALL = AIMessage("I book it.", tool_calls=[{"name": "book", "args": {"port": "Marstal"}, "id": "call-1"}])


def _book(harbour, say):
    return ToolMessage(harbour.book("Marstal", say), tool_call_id="call-1")


def _chain(harbour, say):
    def turn(messages):
        return [CALL, _book(harbour, say), AIMessage("You have a berth")]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain has a newer way, and this one still works
        return RunnableWithMessageHistory(
            RunnableLambda(turn), lambda name: HoldfastChatMessageHistory(name, harbour.store)
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kill_in_a_tool(processes, readers, harbour):
    """A chain records a turn when it has ended: nothing is on record, and the tool runs again."""

    def run(say):
        config = {"configurable": {"session_id": "trip"}}
        _chain(harbour, say).invoke([HumanMessage("a berth, please")], config)

    processes.killed(run)
    with holdfast.open(harbour.store) as hf:
        assert not hf.list()
    processes.finished(run)
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", "a berth, please", "I book it.", "berth in Marstal", "You have a")


def test_kill_in_a_tool_of_a_loop_by_hand(processes, readers, harbour):
    """The call is on record; it has an answer for the model as soon as somebody goes on."""

    def run(say):
        history = HoldfastChatMessageHistory("trip", harbour.store)
        history.add_messages([HumanMessage("a berth, please")])
        history.add_messages([CALL])
        history.add_messages([_book(harbour, say)])

    processes.killed(run)
    readers.all_have("trip", "a berth, please", "I book it.", "Marstal")
    with holdfast.open(harbour.store) as hf:
        history = HoldfastChatMessageHistory("trip", hf)
        assert [message.type for message in history.messages] == ["human", "ai"]  # it may wait
        history.add_messages([HumanMessage("well?")])
        messages = history.messages
        assert [message.type for message in messages] == ["human", "ai", "tool", "human"]
        lost = messages[2]
        assert (lost.tool_call_id, lost.status) == ("call-1", "error")
        assert lost.content == "interrupted, outcome unknown"


@pytest.mark.parametrize("id", ["call-1", "call-2"])
def test_kill_in_a_durable_tool(processes, harbour, id):
    """Whatever id the model's next call has, it is told that the outcome is unknown: booked once."""

    def run(say, call):
        def book(port: str) -> str:
            """Book a berth, which can be seen outside."""
            return harbour.book(port, say)

        history = HoldfastChatMessageHistory("trip", harbour.store)
        result = durable(book, session=history).invoke(call | {"type": "tool_call"})
        say([result.content[:15], result.tool_call_id, result.status])

    call = CALL.tool_calls[0]
    processes.killed(lambda say: run(say, call))
    assert processes.finished(lambda say: run(say, call | {"id": id})) == [["Outcome unknown", id, "error"]]
    assert harbour.booked == ["Marstal"]


def test_fork(readers, harbour):
    """A fork of the session is a history of its own; both go on, and neither sees the other."""
    with holdfast.open(harbour.store) as hf:
        HoldfastChatMessageHistory("trip", hf).add_messages([HumanMessage("begun")])
        hf.fork("trip", new_id="other")
        for id, word in (("trip", "harbour"), ("other", "lighthouse")):
            HoldfastChatMessageHistory(id, hf).add_messages([HumanMessage(word)])
            said = [one.content for one in HoldfastChatMessageHistory(id, hf).messages]
            assert said == ["begun", word]
    readers.keep_apart(("trip", "harbour", ["begun"]), ("other", "lighthouse", ["begun"]))


def test_what_search_sees(readers, harbour):
    """Texts, also those in blocks, calls and results; not metadata."""
    with holdfast.open(harbour.store) as hf:
        HoldfastChatMessageHistory("trip", hf).add_messages(
            [
                HumanMessage([{"type": "text", "text": "in a block"}]),
                AIMessage("in a text", tool_calls=CALL.tool_calls, additional_kwargs={"note": "beside it"}),
                ToolMessage("berth at the quay", tool_call_id="call-1"),
            ]
        )
    readers.all_have("trip", "in a block", "in a text", "Marstal", "berth at the quay")
    with holdfast.open(harbour.store) as hf:
        assert not hf.search("beside")
