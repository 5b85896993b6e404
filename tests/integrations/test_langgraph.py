"""LangGraph on our log."""

from __future__ import annotations

import json
import math
import operator
import time
from typing import Annotated, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph

import holdfast
from holdfast.errors import Fenced
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph._thread import Values

THREAD = {"configurable": {"thread_id": "trip"}}


def _echo(state):
    last = state["messages"][-1]
    return {"messages": [AIMessage(f"echo of {last.content}", id=f"a{len(state['messages'])}")]}


def _graph(hf, node=_echo, **options):
    builder = StateGraph(MessagesState)
    builder.add_node("say", node)
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=HoldfastSaver(hf), **options)


def test_a_thread_goes_on_in_another_process_object(hf):
    """What one saver recorded is the state that the next one starts from."""
    _graph(hf).invoke({"messages": [HumanMessage("one", id="h1")]}, THREAD)
    state = _graph(hf).invoke({"messages": [HumanMessage("two", id="h2")]}, THREAD)
    assert [message.content for message in state["messages"]] == [*("one", "echo of one", "two", "echo of two")]


def test_its_threads_are_sessions_like_any_other(hf):
    """List, search and recover show the conversation, each message once."""
    graph = _graph(hf)
    for word in ("harbour", "lighthouse"):
        graph.invoke({"messages": [HumanMessage(word)]}, THREAD)
    assert [one.session_id for one in hf.list()] == ["trip"]
    assert {hit.role for hit in hf.search("lighthouse")} == {"user", "assistant"}
    said = [message["content"] for message in hf.recover("trip").messages]
    assert said == ["harbour", "echo of harbour", "lighthouse", "echo of lighthouse"]


def test_calls_and_their_results_are_pairs(hf):
    """Parallel calls of an answer and their late results are what recover makes of them."""

    def call(state):
        calls = [{"name": "look", "args": {"n": n}, "id": f"c{n}"} for n in (1, 2)]
        return {
            "messages": [
                AIMessage("", tool_calls=calls),
                ToolMessage("one", tool_call_id="c1"),
                ToolMessage("two", tool_call_id="c2", status="error"),
                AIMessage("seen"),
            ]
        }

    _graph(hf, call).invoke({"messages": [HumanMessage("look")]}, THREAD)
    recovery = hf.recover("trip")
    assert not recovery.issues
    _, calls, results, end = recovery.messages
    assert [block["id"] for block in calls["content"]] == ["c1", "c2"]
    assert [block.get("is_error", False) for block in results["content"]] == [False, True]
    assert end["content"] == "seen"


def test_bytes_grow_with_what_is_new_and_not_with_the_list(hf, store_root):
    """Twice the steps of a growing list take about twice the bytes: exponent at most 1.1."""
    saver = HoldfastSaver(hf)
    graph = _graph(hf)
    sizes = {}
    for steps in (50, 200):
        config = {"configurable": {"thread_id": f"t{steps}"}}
        for n in range(steps):
            graph.invoke({"messages": [HumanMessage("x" * 200, id=f"h{n}")]}, config)
        files = (store_root / "sessions" / f"t{steps}").rglob("*.jsonl")
        sizes[steps] = sum(file.stat().st_size for file in files)
    assert math.log(sizes[200] / sizes[50], 200 / 50) < 1.1
    assert len(saver.get_tuple({"configurable": {"thread_id": "t200"}}).checkpoint) > 1


def test_a_message_that_the_graph_removes_leaves_the_conversation(hf):
    """The state and the conversation agree; the log still has what was said."""
    graph = _graph(hf)
    graph.invoke({"messages": [HumanMessage("secret", id="h1")]}, THREAD)
    graph.update_state(THREAD, {"messages": [RemoveMessage(id="h1")]}, as_node="say")
    contents = [message.content for message in graph.get_state(THREAD).values["messages"]]
    assert contents == ["echo of secret"]
    said = [message["content"] for message in hf.recover("trip").messages]
    assert "secret" not in said
    assert [e.data["content"] for e in hf.events("trip", types={"user"})] == ["secret"]


def test_time_travel_gives_every_state_that_was(hf):
    """Every checkpoint of the history reads as it was made, and a run may start from any."""
    graph = _graph(hf)
    for n in range(6):
        graph.invoke({"messages": [HumanMessage(str(n), id=f"h{n}")]}, THREAD)
    history = list(graph.get_state_history(THREAD))
    lengths = [len(state.values.get("messages", [])) for state in history]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 12
    early = next(state for state in history if len(state.values["messages"]) == 4)
    graph.invoke({"messages": [HumanMessage("other", id="x")]}, early.config)
    contents = [message.content for message in graph.get_state(THREAD).values["messages"]]
    assert contents == ["0", "echo of 0", "1", "echo of 1", "other", "echo of other"]


def test_two_runs_from_one_checkpoint_are_not_both_recorded(hf):
    """The slower of two runs that started from the same newest checkpoint is fenced."""
    _graph(hf).invoke({"messages": [HumanMessage("one")]}, THREAD)
    saver, other = HoldfastSaver(hf), HoldfastSaver(hf)
    newest = saver.get_tuple(THREAD)
    assert other.get_tuple(THREAD).config == newest.config
    following = newest.checkpoint | {"id": newest.checkpoint["id"] + "1"}
    saver.put(newest.config, following, {"source": "loop"}, {})
    with pytest.raises(Fenced):
        other.put(newest.config, following | {"id": "f"}, {"source": "loop"}, {})


def test_a_session_of_others_can_be_given_to_a_graph(hf):
    """What was recorded with our own API comes as messages, calls in their pairs."""
    with hf.session("trip") as s:
        s.user("Hello")
        call = s.tool_call("Read", {"path": "a"})
        s.tool_result(call, "text")
        s.assistant("Done")
    messages = HoldfastSaver(hf).messages("trip")
    assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
    assert messages[1].tool_calls[0]["id"] == messages[2].tool_call_id


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=6)
    | st.binary(max_size=4)
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(0, 3))
        | st.dictionaries(st.sampled_from(["a", "~m", "$x", "~t", "$d", "\0"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(_VALUES)
def test_any_value_comes_back_with_its_types(value):
    """Tuples stay tuples, bytes bytes, and keys that look like marks are only keys."""
    values, serde = Values(), JsonPlusSerializer()
    encoded = json.loads(json.dumps(values.encode(value, serde)))
    again = values.decode(encoded, serde)
    assert again == value
    assert type(again) is type(value)


def test_a_message_is_known_until_it_is_changed():
    """A message that was changed after it was recorded is told again."""
    values, serde = Values(), JsonPlusSerializer()
    message = AIMessage("a", id="1", additional_kwargs={"x": [1]})
    new = {}
    first = values.encode(message, serde, new)
    values.items.update(new)
    assert values.encode(message, serde, {}) == first
    message.additional_kwargs["x"].append(2)
    assert values.encode(message, serde, again := {}) != first
    assert len(again) == 1


def test_no_class_is_loaded_that_the_framework_does_not_allow(hf):
    """A stored value that names a foreign callable is not called."""
    forged = {"~x": ["pickle", "Y29zCnN5c3RlbQooUyd0cnVlJwp0Ui4="]}
    with pytest.raises(NotImplementedError):
        Values().decode(forged, HoldfastSaver(hf).serde)


class _Sum(TypedDict):
    total: Annotated[int, operator.add]


async def test_a_channel_of_changes_is_given_with_what_was_written_since(store_root):
    """The nearest value before a checkpoint and the writes after it; nothing if there is none."""
    with holdfast.open(store_root) as hf:
        saver, config = HoldfastSaver(hf), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for number in range(4):
            values = {"log": "whole"} if number == 1 else {}
            made = {**empty_checkpoint(), "channel_values": values}
            version = {"log": 2**70} if number == 1 else {}
            made["channel_versions"] = version
            config = saver.put(config, made, {}, version)
            saver.put_writes(config, [("log", f"b{number}"), ("other", 0)], "t2", "b")
            saver.put_writes(config, [("log", f"a{number}")], "t1", "a")
        found = saver.get_delta_channel_history(config=config, channels=["log", "none"])
        writes = [write[2] for write in found["log"]["writes"]]
        assert (found["log"]["seed"], writes) == ("whole", ["a1", "b1", "a2", "b2"])
        assert found["none"] == {"writes": []}
        again = await saver.aget_delta_channel_history(config=config, channels=["log", "none"])
        assert again == found


def test_asking_for_changes_does_not_open_the_way_for_a_second_writer(store_root):
    """A run that has put its channels together from changes is refused like any other."""
    with holdfast.open(store_root) as hf:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        one, two = HoldfastSaver(hf), HoldfastSaver(hf)
        one.put(config, empty_checkpoint(), {}, {})
        newest = two.get_tuple(config).config
        two.get_delta_channel_history(config=newest, channels=["log"])
        one.put(newest, empty_checkpoint(), {}, {})
        with pytest.raises(Fenced):
            two.put(newest, empty_checkpoint(), {}, {})


_PROGRAM = """
    import sys, time
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph
    from holdfast.integrations.langgraph import HoldfastSaver

    store, hangs = sys.argv[1], sys.argv[2] == "hang"

    def first(state):
        with open(store + "/../ran", "a") as file:
            file.write("first\\n")
        return {"messages": [AIMessage("first", id="a1")]}

    def second(state):
        if hangs:
            print("waiting", flush=True)
            time.sleep(600)
        return {"messages": [AIMessage("second", id="a2")]}

    builder = StateGraph(MessagesState)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_edge("second", END)
    graph = builder.compile(checkpointer=HoldfastSaver(store))
    config = {"configurable": {"thread_id": "trip"}}
    given = {"messages": [HumanMessage("go", id="h1")]} if hangs else None
    state = graph.invoke(given, config, durability="sync")
    print([message.content for message in state["messages"]])
"""


def test_a_run_that_was_killed_goes_on_where_it_was(programs, store_root):
    """A kill -9 in the second node; the next process runs that node, and not the first again."""
    programs.killed(_PROGRAM)
    assert programs.finished(_PROGRAM, "go on") == "['go', 'first', 'second']\n"
    assert (store_root / "../ran").read_text() == "first\n"
    with holdfast.open(store_root) as hf:
        assert hf.verify("trip").ok


def test_a_channel_that_is_no_list_of_messages_is_kept(hf):
    """Numbers, and what a reducer makes of them, are part of the state as well."""
    builder = StateGraph(_Sum)
    builder.add_node("add", lambda state: {"total": 2})
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=HoldfastSaver(hf))
    assert graph.invoke({"total": 1}, THREAD) == {"total": 3}
    assert graph.invoke({"total": 1}, THREAD) == {"total": 6}


def _parallel(hf, *nodes, state=MessagesState):
    builder = StateGraph(state)
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    return builder.compile(checkpointer=HoldfastSaver(hf))


def _said(hf):
    return [message["content"] for message in hf.recover("trip").messages]


def _texts(events, text):
    return sum(text in bytes(event.raw).decode() for event in events)


def test_what_is_said_is_told_once_and_has_the_id_that_the_graph_gave_it(hf):
    """A message that comes without an id is one event; another saver reads the one with it."""
    graph = _graph(hf)
    for word in ("harbour", "lighthouse"):
        state = graph.invoke({"messages": [HumanMessage(word)]}, THREAD, durability="sync")
    assert _texts(hf.events("trip", types={"user", "frame"}), "lighthouse") == 1
    assert _said(hf) == ["harbour", "echo of harbour", "lighthouse", "echo of lighthouse"]
    saver = HoldfastSaver(hf)
    assert saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"] == state["messages"]
    assert list(saver.messages("trip")) == state["messages"]


def test_what_tasks_say_at_once_stands_in_the_order_of_the_graph(hf):
    """Whoever is ready first, the conversation is in the order in which the state has it."""

    def slow(state):
        time.sleep(0.05)
        return {"messages": [AIMessage(f"slow {len(state['messages'])}")]}

    def quick(state):
        return {"messages": [AIMessage(f"quick {len(state['messages'])}")]}

    graph = _parallel(hf, ("a", slow), ("b", quick))
    for word in ("one", "two"):
        state = graph.invoke({"messages": [HumanMessage(word)]}, THREAD)
    order = [message.content for message in state["messages"]]
    assert order == ["one", "slow 1", "quick 1", "two", "slow 4", "quick 4"]
    told = [one.content for one in HoldfastSaver(hf).messages("trip")]
    assert told == order


def test_what_a_task_said_for_nothing_leaves_the_conversation(hf):
    """Beside a task that failed one answered: if the user goes on, the answer was never given."""
    fails = [False, True, False]

    def answer(state):
        return {"messages": [AIMessage(f"answer to {state['messages'][-1].content}")]}

    def fail(state):
        if fails[len(state["messages"]) // 2]:
            raise RuntimeError("no")
        return {}

    graph = _parallel(hf, ("a", answer), ("b", fail))
    graph.invoke({"messages": [HumanMessage("one")]}, THREAD, durability="sync")
    with pytest.raises(RuntimeError):
        graph.invoke({"messages": [HumanMessage("two")]}, THREAD, durability="sync")
    assert _said(hf)[-1] == "answer to two"
    fails[1] = False
    state = graph.invoke({"messages": [HumanMessage("three")]}, THREAD, durability="sync")
    contents = [message.content for message in state["messages"]]
    assert contents == ["one", "answer to one", "two", "three", "answer to three"]
    assert [one.content for one in HoldfastSaver(hf).messages("trip")] == contents


def test_a_message_that_was_removed_is_still_in_the_states_that_had_it(hf):
    """The history reads as it was made, with the saver that removed and with another one."""
    graph = _graph(hf)
    before = graph.invoke({"messages": [HumanMessage("secret", id="h1")]}, THREAD)
    graph.update_state(THREAD, {"messages": [RemoveMessage(id="h1")]}, as_node="say")
    for one in (graph, _graph(hf)):
        states = [state.values.get("messages") for state in one.get_state_history(THREAD)]
        assert before["messages"] in states


def test_what_is_written_ahead_of_its_checkpoint_waits_for_it(hf):
    """A graph need not wait for its checkpoints; nothing is told before what was said earlier."""
    _graph(hf).invoke({"messages": [HumanMessage("one")]}, THREAD)
    saver = HoldfastSaver(hf)
    newest = saver.get_tuple(THREAD)
    ahead = {"configurable": newest.config["configurable"] | {"checkpoint_id": "f" * 36}}
    saver.put_writes(ahead, [("messages", [AIMessage("later")])], "task")
    assert [one.content for one in saver.messages("trip")] == ["one", "echo of one"]
    made = newest.checkpoint | {"id": "f" * 36}
    saver.put(newest.config, made, {"source": "loop"}, {})
    assert saver.get_tuple(ahead).pending_writes[0][2][0].content == "later"


class _Delta(TypedDict):
    messages: Annotated[
        list,
        DeltaChannel(
            lambda state, writes: [*(state or []), *(one for write in writes for one in write)], snapshot_frequency=3
        ),
    ]


def test_a_channel_of_changes_is_a_conversation_too(hf):
    """It is read, searched and gone on with like any other; its snapshots only name messages."""
    for word in ("harbour", "lighthouse", "buoy"):  # each with a saver that knows nothing yet
        graph = _parallel(hf, ("say", _echo), state=_Delta)
        given = {"messages": [HumanMessage(word, id=word)]}
        state = graph.invoke(given, THREAD, durability="sync")
    contents = [message.content for message in state["messages"]]
    assert contents == [said for word in ("harbour", "lighthouse", "buoy") for said in (word, f"echo of {word}")]
    assert _said(hf) == contents
    assert _texts(hf.events("trip"), "echo of buoy") == 1
    snapshots = [event for event in hf.events("trip") if '"snapshot":true' in bytes(event.raw).decode()]
    assert snapshots
    assert all("harbour" not in bytes(event.raw).decode() for event in snapshots)


def test_a_value_that_lies_beside_the_log_is_whole_at_once(hf):
    """What is too big for a line comes back from the saver that recorded it as from another."""
    saver, config = HoldfastSaver(hf), {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    for letter in "ab":
        made = empty_checkpoint()
        made["channel_values"] = {"big": [letter * 800_000, letter * 800_000]}
        made["channel_versions"] = {"big": letter}
        config = saver.put(config, made, {}, {"big": letter})
        for one in (saver, HoldfastSaver(hf)):
            assert one.get_tuple(config).checkpoint["channel_values"] == made["channel_values"]


def test_an_early_log_is_read(hf):
    """Checkpoints that were told whole, with other marks, are what they were."""
    body = {"v": 4, "ts": "2026-01-01T00:00:00+00:00", "id": "1", "channel_versions": {"n": 1}}
    body |= {"versions_seen": {}, "updated_channels": None}
    told = {"ns": "", "metadata": {"step": 1}, "body": body}
    told |= {"values": [["n", 1, {"is": {"$t": [1, {"$i": "36893488147419103232"}]}}]]}
    writes = {"ns": "", "id": "1", "task": "t", "path": "", "values": [["n", 0, 7]]}
    with hf.session("trip") as session:
        for frame in ({"checkpoint": told}, {"writes": writes}):
            session.append("frame", {"direction": "stored", "tool": "langgraph", **frame})
    found = HoldfastSaver(hf).get_tuple(THREAD)
    assert found.checkpoint["channel_values"] == {"n": (1, 2**65)}
    assert (found.parent_config, found.pending_writes) == (None, [("t", "n", 7)])
