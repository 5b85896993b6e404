"""Forks and time travel on our log: every branch keeps what it has, in every process."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import _messages_delta_reducer, add_messages
from langgraph.types import Command, interrupt

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver, bring_over

GOLDEN = Path(__file__).parent / "golden"
THREAD = {"configurable": {"thread_id": "trip"}}


def _all(state, writes):
    return [*(state or []), *(one for write in writes for one in write)]


class State(TypedDict):
    """One channel of each kind."""

    log: Annotated[list, operator.add]
    text: str
    messages: Annotated[list[AnyMessage], add_messages]
    changes: Annotated[list, DeltaChannel(_all, snapshot_frequency=3)]


def _say(state):
    word = state["messages"][-1].content
    answer = AIMessage(f"re: {word}", id=f"re-{word}")
    return {"log": ["ran"], "text": f"{word}!", "messages": [answer], "changes": ["ran"]}


def _graph(saver, node=_say):
    builder = StateGraph(State)
    builder.add_node("say", node)
    builder.add_edge(START, "say")
    builder.add_edge("say", END)
    return builder.compile(checkpointer=saver)


def _ask(word):
    asked = HumanMessage(word, id=word)
    return {"log": [word], "text": word, "messages": [asked], "changes": [word]}


def _view(values):
    said = [message.content for message in values.get("messages", ())]
    return {name: values.get(name) for name in ("log", "text", "changes")} | {"messages": said}


def _at(graph, config):
    return _view(graph.get_state(config).values)


def _said(hf):
    """What `recover` says, text for text; neighbours that one side said are one message there."""
    said = (message["content"] for message in hf.recover("trip").messages)
    return [
        block["text"] for content in said for block in ([{"text": content}] if isinstance(content, str) else content)
    ]


@pytest.fixture(params=["files", "sqlite"])
def url(request, store_root):
    """A store of each kind that is there without a server."""
    return str(store_root) if request.param == "files" else f"sqlite:///{store_root}/sessions.db"


class Twins:
    """A graph on our saver, opened anew for each step, and the same on the framework's own."""

    def __init__(self, url):
        self._url = url
        self._other = InMemorySaver()
        self._points = []

    def both(self, act):
        """Do something on both graphs, each with its own configs; what it gives is a point."""
        with holdfast.open(self._url) as hf:
            ours = act(_graph(HoldfastSaver(hf)), [ours for ours, _ in self._points])
        theirs = act(_graph(self._other), [theirs for _, theirs in self._points])
        self._points.append((ours, theirs))

    def views(self):
        """Every point so far as ours shows it, and as theirs does."""
        with holdfast.open(self._url) as hf:
            graph, other = _graph(HoldfastSaver(hf)), _graph(self._other)
            return ([_at(graph, ours) for ours, _ in self._points], [_at(other, theirs) for _, theirs in self._points])

    def conversation(self):
        """What `recover` says of ours, and what the newest state of theirs has."""
        with holdfast.open(self._url) as hf:
            return _said(hf), _at(_graph(self._other), THREAD)["messages"]


def _asked(word, point=None):
    def act(graph, points):
        graph.invoke(_ask(word), THREAD if point is None else points[point])
        return graph.get_state(THREAD).config

    return act


def _edited(point, values):
    return lambda graph, points: graph.update_state(points[point], values, as_node="say")


def _replayed(point):
    def act(graph, points):
        graph.invoke(None, points[point])
        return graph.get_state(THREAD).config

    return act


def _copied(point):
    return lambda graph, points: graph.update_state(points[point], None, as_node="__copy__")


def test_a_fork_leaves_the_other_branch_as_it_was(url):
    """Both branches of a run from an older checkpoint keep every channel, and both go on."""
    twins = Twins(url)
    for word in ("one", "two"):
        twins.both(_asked(word))
    twins.both(_asked("two-b", 0))
    twins.both(_asked("three", 1))
    twins.both(_asked("three-b", 2))
    ours, theirs = twins.views()
    assert ours == theirs
    assert ours[3]["messages"] == ["one", "re: one", "two", "re: two", "three", "re: three"]


def test_an_edit_of_an_older_state_is_a_branch(url):
    """`update_state` at an older checkpoint changes neither that one nor what came after it."""
    twins = Twins(url)
    for word in ("one", "two", "three"):
        twins.both(_asked(word))
    twins.both(_edited(1, {"text": "edited", "log": ["edited"], "changes": ["edited"]}))
    twins.both(_asked("four", 3))
    twins.both(_copied(2))
    ours, theirs = twins.views()
    assert ours == theirs


_STEPS = st.lists(st.tuples(st.sampled_from(["ask", "edit", "say", "replay", "copy"]), st.integers(0, 6)), max_size=6)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_any_travel_reads_as_with_the_saver_of_the_framework(tmp_path_factory, steps):
    """Runs, edits, replays and copies from any point: all states, and the conversation, agree."""
    twins = Twins(str(tmp_path_factory.mktemp("store")))
    twins.both(_asked("begun"))
    for number, (kind, choice) in enumerate(steps, 1):
        point, word = choice % number, f"{kind}{number}"
        if kind == "ask":
            twins.both(_asked(word, point))
        elif kind == "edit":
            twins.both(_edited(point, {"text": word}))
        elif kind == "say":
            twins.both(_edited(point, {"messages": [AIMessage(word, id=word)]}))
        elif kind == "replay":
            twins.both(_replayed(point))
        else:
            twins.both(_copied(point))
        ours, theirs = twins.conversation()
        assert ours == theirs
    ours, theirs = twins.views()
    assert ours == theirs


def test_what_is_searched_and_recovered_is_the_branch_that_the_thread_is_on(url):
    """Whoever reads the session reads the conversation that the graph goes on with."""
    twins = Twins(url)
    for word in ("one", "two"):
        twins.both(_asked(word))
    twins.both(_edited(0, {"text": "no message is new"}))
    assert twins.conversation() == (["one", "re: one"], ["one", "re: one"])
    twins.both(_asked("three", 1))
    ours, theirs = twins.conversation()
    assert ours == theirs == ["one", "re: one", "two", "re: two", "three", "re: three"]


def _asking(state):
    answer = interrupt("which one?")
    return {"messages": [AIMessage(f"took {answer}", id=f"took-{answer}")], "text": answer}


def test_an_earlier_interrupt_is_answered_again_in_another_way(url):
    """A question that was answered is asked again from its checkpoint: both answers stand."""
    with holdfast.open(url) as hf:
        graph = _graph(HoldfastSaver(hf), _asking)
        graph.invoke(_ask("one"), THREAD)
        asked = graph.get_state(THREAD).config
    tips = []
    for answer in ("left", "right"):
        with holdfast.open(url) as hf:
            graph = _graph(HoldfastSaver(hf), _asking)
            if tips:
                assert "__interrupt__" in graph.invoke(None, asked)
                assert _said(hf) == ["one"]
            state = graph.invoke(Command(resume=answer), THREAD)
            assert state["messages"][-1].content == f"took {answer}"
            tips.append(graph.get_state(THREAD).config)
            assert _said(hf) == ["one", f"took {answer}"]
    with holdfast.open(url) as hf:
        graph = _graph(HoldfastSaver(hf), _asking)
        texts = [graph.get_state(tip).values["text"] for tip in tips]
        assert texts == ["left", "right"]


def test_branches_that_are_on_record_with_the_same_versions_are_read_apart(store_root):
    """Logs whose branches share the versions of their channels: every state is what it was."""
    folder = store_root / "sessions" / "trip"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    log = folder / "events.jsonl"
    log.write_bytes((GOLDEN / "langgraph-forks.jsonl").read_bytes())
    log.chmod(0o600)
    expected = json.loads((GOLDEN / "langgraph-forks.expected.json").read_text())
    with holdfast.open(store_root) as hf:
        graph = _graph(HoldfastSaver(hf))
        points = {
            name: {"configurable": {**THREAD["configurable"], "checkpoint_id": one["id"]}}
            for name, one in expected.items()
        }
        assert {name: _at(graph, point) for name, point in points.items()} == {
            name: one["values"] for name, one in expected.items()
        }
        for name in ("three", "three-b"):
            before = expected[name]["values"]
            after = _view(graph.invoke(_ask("on"), points[name]))
            assert after["log"] == [*before["log"], "on", "ran"]
            assert after["changes"] == [*before["changes"], "on", "ran"]
            assert after["messages"] == [*before["messages"], "on", "re: on"]
            assert _said(hf) == after["messages"]


def test_no_two_versions_of_a_channel_are_the_same(store_root):
    """Versions grow and are unique, after numbers and after the texts of other savers."""
    with holdfast.open(store_root) as hf:
        saver = HoldfastSaver(hf)
        for before in (None, 7, saver.get_next_version(7, None), f"{7:032}.0123"):
            made = {saver.get_next_version(before, None) for _ in range(50)}
            assert len(made) == 50
            assert before is None or all(one > before for one in made)


def test_a_circle_of_parents_has_an_end(store_root):
    """A checkpoint that is its own ancestor is read, and so are its changes."""
    with holdfast.open(store_root) as hf:
        saver = HoldfastSaver(hf)
        config = {"configurable": {"thread_id": "trip", "checkpoint_ns": ""}}
        one, two = empty_checkpoint(), empty_checkpoint()
        first = saver.put(config, one, {"counters_since_delta_snapshot": {"log": (1, 1)}}, {})
        second = saver.put(first, two, {"counters_since_delta_snapshot": {"log": (1, 1)}}, {})
        saver.put(second, one, {}, {})
        saver.put_writes(first, [("log", "x")], "task")
        found = saver.get_delta_channel_history(config=second, channels=["log"])
        assert [write[2] for write in found["log"]["writes"]] == ["x"]
        saver.prune(["trip"])
        assert saver.get_tuple(config) is not None


def test_a_copied_thread_has_both_branches(store_root):
    """A copy of a thread has every state, and the conversation, of the one it was made of."""
    points = []
    for word, point in (("one", None), ("two", None), ("two-b", 0)):
        with holdfast.open(store_root) as hf:
            given = _ask(word) | {"messages": [HumanMessage(word)]}  # its id comes later
            graph = _graph(HoldfastSaver(hf))
            graph.invoke(given, THREAD if point is None else points[point], durability="sync")
            points.append(graph.get_state(THREAD).config)
    with holdfast.open(store_root) as hf:
        graph = _graph(saver := HoldfastSaver(hf))
        saver.copy_thread("trip", "copy")
        for point in points:
            there = {"configurable": {**point["configurable"], "thread_id": "copy"}}
            assert graph.get_state(there).values == graph.get_state(point).values
        assert _said(hf) == ["one", "re: one", "two-b", "re: two-b"]
        assert hf.recover("copy").messages == hf.recover("trip").messages


def test_a_thread_is_copied_to_one_that_has_checkpoints_already(store_root):
    """What was there stays, all that is copied comes beside it, and the source is as it was."""
    other = {"configurable": {"thread_id": "other"}}
    with holdfast.open(store_root) as hf:
        graph = _graph(saver := HoldfastSaver(hf))
        graph.invoke(_ask("own"), other)
        own = graph.get_state(other).config
        for word in ("one", "two"):
            graph.invoke(_ask(word), THREAD)
        before = len(list(graph.get_state_history(THREAD)))
        saver.copy_thread("trip", "other")
        assert _at(graph, own)["messages"] == ["own", "re: own"]
        assert _at(graph, other) == _at(graph, THREAD)
        assert len(list(graph.get_state_history(THREAD))) == before
        saver.copy_thread("nothing", "new")
        assert saver.get_tuple({"configurable": {"thread_id": "new"}}) is None


class Delta(TypedDict):
    """A conversation in a channel of changes."""

    messages: Annotated[list, DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def test_a_message_that_is_removed_from_a_channel_of_changes_leaves_the_conversation(store_root):
    """It is removed by its id; on a branch from before it is there again."""
    builder = StateGraph(Delta)
    builder.add_node("say", lambda state: {"messages": [AIMessage("re", id="re")]})
    builder.add_edge(START, "say")
    with holdfast.open(store_root) as hf:
        graph = builder.compile(checkpointer=HoldfastSaver(hf))

        def said():
            state = [one.content for one in graph.get_state(THREAD).values["messages"]]
            told = [one.content for one in HoldfastSaver(hf).messages("trip")]
            assert told == state
            return state

        graph.invoke({"messages": [HumanMessage("one", id="one")]}, THREAD)
        first = graph.get_state(THREAD).config
        assert said() == ["one", "re"]
        graph.update_state(THREAD, {"messages": [RemoveMessage(id="one")]}, as_node="say")
        assert said() == ["re"]
        two = [RemoveMessage(id="re"), HumanMessage("two", id="two")]
        graph.update_state(THREAD, {"messages": two}, as_node="say")
        assert said() == ["two"]
        graph.update_state(first, {"messages": [HumanMessage("other", id="other")]}, as_node="say")
        assert said() == ["one", "re", "other"]


def test_a_run_that_is_removed_takes_its_words_with_it(store_root):
    """Others read the conversation of the checkpoint that is the newest then."""
    with holdfast.open(store_root) as hf:
        graph = _graph(saver := HoldfastSaver(hf))
        points = []
        for word, point in (("one", None), ("two", None), ("two-b", 0)):
            config = THREAD if point is None else points[point]
            graph.invoke(_ask(word), config | {"metadata": {"run_id": f"run-{word}"}})
            points.append(graph.get_state(THREAD).config)
        assert _said(hf) == ["one", "re: one", "two-b", "re: two-b"]
        saver.delete_for_runs(["run-two-b"])
        assert _said(hf) == ["one", "re: one", "two", "re: two"]
        assert _said(hf) == _at(graph, THREAD)["messages"]
        saver.delete_for_runs(["run-two"])
        assert _said(hf) == ["one", "re: one"]
        graph.invoke(_ask("three"), THREAD)
        assert _said(hf) == ["one", "re: one", "three", "re: three"]
        saver.delete_for_runs(["run-one"])  # of what the newest stands on
        assert _said(hf) == ["one", "re: one", "three", "re: three"]


def test_forks_of_another_saver_come_over(store_root):
    """`bring_over` records every branch; the conversation is the newest one's."""
    with SqliteSaver.from_conn_string(":memory:") as source, holdfast.open(store_root) as hf:
        there, points = _graph(source), []
        for word, point in (("one", None), ("two", None), ("two-b", 0), ("three", 1)):
            there.invoke(_ask(word), THREAD if point is None else points[point])
            points.append(there.get_state(THREAD).config)
        bring_over(source, hf)
        here = _graph(HoldfastSaver(hf))
        assert [_at(here, point) for point in points] == [_at(there, point) for point in points]
        assert _said(hf) == _at(there, THREAD)["messages"]
        here.invoke(_ask("four"), points[2])
        assert _at(here, THREAD)["messages"][-4:] == ["two-b", "re: two-b", "four", "re: four"]
