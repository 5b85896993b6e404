"""LangGraph: a kill in a tool, an approval elsewhere, a fork, and what others read."""

from __future__ import annotations

from typing import Annotated, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver, durable

CALL = ["call-1"]
THREAD = {"configurable": {"thread_id": "trip"}}
ASKED = {"messages": [HumanMessage("a berth, please")]}
ALL = ["a berth, please", "I book it.", "berth in Marstal", "You have a berth in Marstal"]


def _say(state):
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage(f"You have a {last.content}")]}
    call = {"name": "book", "args": {"port": "Marstal"}, "id": CALL[0]}
    return {"messages": [AIMessage("I book it.", tool_calls=[call])]}


def _graph(harbour, say, *, asks=False, once=False):
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        if asks:
            interrupt(f"book {port}?")
        return harbour.book(port, say)

    saver = HoldfastSaver(harbour.store)
    builder = StateGraph(MessagesState)
    builder.add_node("say", _say)
    builder.add_node("tools", ToolNode([durable(book, session=saver) if once else book]))
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", tools_condition, {"tools": "tools", END: END})
    builder.add_edge("tools", "say")
    return builder.compile(checkpointer=saver)


def _contents(state):
    return [message.content for message in state["messages"]]


def test_kill_in_a_tool(processes, readers, harbour):
    """The call is on record without a result; going on runs the tool again: booked twice."""

    def begin(say):
        _graph(harbour, say).invoke(ASKED, THREAD, durability="sync")

    def go_on(say):
        say(_contents(_graph(harbour, say).invoke(None, THREAD, durability="sync")))

    processes.killed(begin)
    readers.all_have("trip", "a berth, please", "I book it.", "Marstal")
    assert processes.finished(go_on) == [ALL]
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", *ALL)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("again", [None, {"messages": [HumanMessage("Go on")]}], ids=["resumed", "asked"])
def test_kill_in_a_durable_tool(processes, harbour, monkeypatch, durability, again):
    """The same call or one of another id: the model is told that the outcome is unknown, booked once."""

    def begin(say):
        _graph(harbour, say, once=True).invoke(ASKED, THREAD, durability=durability)

    def go_on(say):
        CALL[0] = "call-2"
        given = again if durability == "sync" else ASKED
        say(_contents(_graph(harbour, say, once=True).invoke(given, THREAD, durability=durability))[-1])

    processes.killed(begin)
    (told,) = processes.finished(go_on)
    assert told.startswith("You have a Outcome unknown: a call of book with these arguments began")
    assert harbour.booked == ["Marstal"]


def test_a_durable_tool_that_asks(processes, harbour):
    """A tool that interrupts has not acted: answered in another process it runs, once."""

    def ask(say):
        _graph(harbour, say, asks=True, once=True).invoke(ASKED, THREAD, durability="sync")
        say.wait()

    def approve(say):
        say(_contents(_graph(harbour, say, asks=True, once=True).invoke(Command(resume=True), THREAD)))

    processes.killed(ask)
    assert processes.finished(approve) == [ALL]
    assert harbour.booked == ["Marstal"]


def test_approval_in_another_process(processes, readers, harbour):
    """The question outlives a kill -9; the answer in another process runs the tool, once."""

    def ask(say):
        state = _graph(harbour, say, asks=True).invoke(ASKED, THREAD, durability="sync")
        say(state["__interrupt__"][0].value)
        say.wait()

    def approve(say):
        graph = _graph(harbour, say, asks=True)
        say(_contents(graph.invoke(Command(resume=True), THREAD)))

    assert processes.killed(ask) == ["book Marstal?"]
    readers.all_have("trip", "a berth, please", "Marstal")  # to read it spoils nothing
    harbour.repair("trip")  # nor to open it, which repairs what a crash left
    assert processes.finished(approve) == [ALL]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", *ALL)


def _echo(state):
    return {"messages": [AIMessage(f"re: {state['messages'][-1].content}")]}


def _echoing(hf):
    builder = StateGraph(MessagesState)
    builder.add_node("say", _echo)
    builder.add_edge(START, "say")
    return builder.compile(checkpointer=HoldfastSaver(hf))


def test_fork(readers, harbour):
    """Both branches keep what they have; others read the one that the thread is on."""
    points = []
    for word, point in (("begun", None), ("harbour", 0), ("lighthouse", 0), ("on", 1)):
        with holdfast.open(harbour.store) as hf:
            graph = _echoing(hf)
            config = THREAD if point is None else points[point]
            graph.invoke({"messages": [HumanMessage(word)]}, config)
            points.append(graph.get_state(THREAD).config)
        if word == "lighthouse":
            readers.all_have("trip", "re: begun", "re: lighthouse")
            readers.none_has("trip", "harbour")
    readers.all_have("trip", "re: begun", "re: harbour", "re: on")
    readers.none_has("trip", "lighthouse")
    with holdfast.open(harbour.store) as hf:
        graph = _echoing(hf)
        states = [_contents(graph.get_state(point).values) for point in points]
    begun, harbour = ["begun", "re: begun"], ["harbour", "re: harbour"]
    lighthouse = ["lighthouse", "re: lighthouse"]
    assert states == [*(begun, begun + harbour, begun + lighthouse, [*begun, *harbour, "on", "re: on"])]


def _append(state, writes):
    return [*(state or []), *(one for write in writes for one in write)]


class _Channels(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    changes: Annotated[list, DeltaChannel(_append)]
    note: str


def test_what_search_sees(readers, harbour):
    """Messages of lists and delta channels, calls and results; not what other channels hold."""

    def say(state):
        call = {"name": "look", "args": {"port": "Troense"}, "id": "call-1"}
        result = ToolMessage("a free berth", tool_call_id="call-1")
        return {
            "messages": [AIMessage("", tool_calls=[call]), result, AIMessage("in a list")],
            "changes": [AIMessage("in a delta channel")],
            "note": "in a plain channel",
        }

    builder = StateGraph(_Channels)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    with holdfast.open(harbour.store) as hf:
        graph = builder.compile(checkpointer=HoldfastSaver(hf))
        graph.invoke({"messages": [HumanMessage("look")], "changes": [], "note": ""}, THREAD)
    readers.all_have("trip", "in a list", "in a delta channel", "Troense", "a free berth")
    readers.none_has("trip", "in a plain channel")
