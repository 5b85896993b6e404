"""Calls are told apart as a conversation does it, in memory that is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import Calls, recover
from holdfast.replay._turns import split_turns, tool_acts

ids = st.sampled_from(["a", "b"])
params = st.sampled_from([{"n": 1}, {"n": 2}])


def use(id, given, tool="t"):
    """A block of a message that asks for a tool."""
    return {"type": "tool_use", "id": id, "name": tool, "input": given}


def answer(id, **more):
    """A block of a message that brings a result."""
    return {"type": "tool_result", "tool_use_id": id, "content": "ok", **more}


steps = st.one_of(
    st.builds(lambda own, n: ("tool_call", {"id": own, "tool": "t", "params": n}), ids, params),
    st.builds(lambda own, n: ("assistant", {"content": [use(own, n)]}), ids, params),
    st.builds(lambda n, m: ("assistant", {"content": ["?", use("a", n), use("b", m)]}), params, params),
    st.builds(lambda own: ("tool_result", {"toolCallId": own, "result": "ok"}), ids),
    st.builds(lambda own: ("user", {"content": [answer(own)]}), ids),
    st.just(("assistant", {"content": "hm"})),
    st.just(("user", {"content": "go on"})),
    st.just(("user", {"content": ["go on"]})),
)


def log(*steps, run=None):
    """Events of one run."""
    return [Event.make(*step, seq=seq, run=run) for seq, step in enumerate(steps)]


def calls_in(events):
    """The tools called, in order."""
    return [act.tool for act in tool_acts(events) if act.what == "call"]


def early_results_left_out(steps):
    """The steps without results that come before their call: nothing is known of them then."""
    known, kept = set(), []
    for type, data in steps:
        if type == "tool_call":
            known.add(data["id"])
        result = data.get("toolCallId")
        for block in data.get("content", ()):
            if isinstance(block, dict):
                known |= {block["id"]} if block["type"] == "tool_use" else set()
                result = block.get("tool_use_id")
        if result is None or result in known:
            kept.append((type, data))
    return kept


@given(st.lists(steps, max_size=14))
def test_as_many_calls_as_the_conversation_has(history):
    """Whatever halves came in whatever order, it counts the calls that a provider is told of."""
    events = log(*early_results_left_out(history))
    messages = recover(events, "neutral", incomplete="mark").messages
    told = [
        block
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    assert len(calls_in(events)) == len(told)


halves = st.sampled_from(["announced", "begun", "both", "both, late", "begun twice"])


def recorded(id, how, *, failed=False):
    """One call as it may be recorded, with its result."""
    begun = ("tool_call", {"id": id, "tool": f"tool-{id}", "params": {"n": id}})
    said = ("assistant", {"content": [use(id, {"n": id}, f"tool-{id}")]})
    result = ("tool_result", {"toolCallId": id, "result": "ok", "is_error": failed})
    return {
        "announced": [said, result],
        "begun": [begun, result],
        "both": [said, begun, result],
        "both, late": [begun, result, said],
        "begun twice": [said, begun, begun, result],
    }[how]


@given(st.lists(st.tuples(st.sampled_from("xy"), halves, st.booleans()), max_size=8))
def test_one_id_in_one_run_is_one_call(history):
    """Each (run, id) is one call with one result, however it was recorded."""
    events = []
    for number, (run, how, failed) in enumerate(history):
        events += log(*recorded(f"c{number}", how, failed=failed), run=run)
    acts = list(tool_acts(events))
    expected = [f"tool-c{number}" for number in range(len(history))]
    assert [act.tool for act in acts if act.what == "call"] == expected
    assert [act.tool for act in acts if act.what == "result"] == expected
    assert [act.failed for act in acts if act.what == "result"] == [one[2] for one in history]


def test_one_id_in_two_runs_is_two_calls():
    """Runs do not know each other's calls; a result without a run ends the newest."""
    events = [
        *log(("tool_call", {"id": "a", "tool": "one"}), run="x"),
        *log(("tool_call", {"id": "a", "tool": "two"}), run="y"),
        *log(("tool_result", {"toolCallId": "a", "result": ""})),
    ]
    assert [act.tool for act in tool_acts(events)] == ["one", "two", "two"]


def test_more_about_a_call_is_no_call():
    """What amends a call says other arguments; with nothing to amend it is the call."""
    more = {"id": "a", "tool": "t", "params": {"n": 2}, "amends": True}
    acts = tool_acts(log(("tool_call", more), ("tool_call", more | {"params": {"n": 3}})))
    assert [(act.what, act.params) for act in acts] == [("call", {"n": 2}), ("arguments", {"n": 3})]


@pytest.mark.parametrize("id", [None, True, ["a"]])
def test_calls_without_an_id(id):
    """Each is a call of its own, and no result is theirs."""
    call, result = ("tool_call", {"id": id, "tool": "t"}), ("tool_result", {"toolCallId": id})
    more = ("tool_call", {"id": id, "tool": "t", "amends": True})
    acts = [(act.what, act.tool) for act in tool_acts(log(call, call, more, result))]
    assert acts == [("call", "t")] * 3 + [("result", "")]


def test_messages_without_words():
    """Content that says nothing, and results of unknown calls, change nothing."""
    silent = [("user", {"content": ""}), ("assistant", {}), ("tool_result", {"toolCallId": "z"})]
    both = recorded("a", "announced")
    acts = list(tool_acts(log(both[0], *silent, both[1])))
    assert [(act.what, act.tool) for act in acts] == [("call", "tool-a"), ("result", ""), ("result", "tool-a")]


def test_long_ids_differ_in_their_ends():
    """Ids of any length are told apart."""
    first, second = "x" * 500 + "1", "x" * 500 + "2"
    calls = [("tool_call", {"id": id, "tool": id[-1]}) for id in (first, second)]
    acts = tool_acts(log(*calls, ("tool_result", {"toolCallId": first})))
    assert [act.tool for act in acts] == ["1", "2", "1"]


def test_what_is_kept_is_bounded():
    """Calls without end, of one id or of many, open or answered, take a bounded room."""
    calls = Calls()
    for number in range(2000):
        calls.take(None, "same", "t", number, 0, begun=True)
        calls.take(None, f"{number}", "t", 0, 0, begun=False)
        calls.take(None, f"answered {number}", "t", 0, 0, begun=False)
        calls.answer(None, f"answered {number}")
    assert sum(map(len, calls.waiting.values())) + len(calls.answered) < 600


def test_the_tools_of_a_turn():
    """A turn names the tools of its messages, each call once."""
    both = recorded("a", "both") + recorded("b", "announced")
    (turn,) = split_turns(log(("user", {"content": "go"}), *both))
    assert turn.view().tools == ["tool-a", "tool-b"]


def test_clocks_stop_where_the_work_ends():
    """Runs end and are spoken to one by one; the end of everything stops the clocks of all."""
    calls = Calls()
    for run in ("x", "y", "z"):
        calls.take(run, "a", "t", 0, 7, begun=True)
    calls.stop_clocks("x")
    calls.speak("y")
    times = [call.since for (call,) in calls.waiting.values()]
    assert times == [0, 7, 7]
    assert [call.stale for (call,) in calls.waiting.values()] == [False, True, False]
    calls.stop_clocks(all_runs=True)
    assert [calls.answer(run, "a").since for run in ("x", "y", "z")] == [0, 0, 0]
