"""How far a call came that has no result: what a user was asked about it decides."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import (
    Conversation,
    SessionEvents,
    compare,
    fold,
    needs_interruption,
    read_transcript,
    recover,
    runs,
)

USER = ("user", {"content": "Go"})
CALL = ("tool_call", {"id": "c1", "tool": "Run", "params": {"command": "ls"}})
UNKNOWN = "(interrupted: whether this call took effect is unknown)"
NOT_ANSWERED = "(not run: nobody answered whether it may run)"
REFUSED = "(not run: it was refused)"


def log(*events, run=None):
    """A log of (type, data) pairs."""
    return [Event.make(type, data, seq=at, run=run) for at, (type, data) in enumerate(events)]


def decided(decision, call="c1"):
    return "permission", {"tool": "Run", "call": call, "decision": decision}


def more(**members):
    return "tool_call", {"id": "c1", "tool": "Run", "amends": True, **members}


def results(events, incomplete="mark"):
    """The results that a model is given."""
    messages = recover(events, "neutral", incomplete).messages
    blocks = [block for message in messages for block in message["content"]]
    return [b["content"] for b in blocks if isinstance(b, dict) and b["type"] == "tool_result"]


def inputs(events):
    """The calls that a model is given."""
    messages = recover(events, "neutral", "mark").messages
    blocks = [block for message in messages for block in message["content"]]
    return [(b["id"], b["input"]) for b in blocks if isinstance(b, dict) and b["type"] == "tool_use"]


@pytest.mark.parametrize(
    ("decisions", "told", "stage"),
    [
        ([], UNKNOWN, "begun"),
        (["ask"], NOT_ANSWERED, "asked"),
        (["ask", "allow"], UNKNOWN, "begun"),
        (["ask", "deny"], REFUSED, "refused"),
        (["ask", "cancelled"], REFUSED, "refused"),
        (["ask", "deny", "ask"], NOT_ANSWERED, "asked"),
        (["ask", "withdrawn"], UNKNOWN, "begun"),
        (["ask", None], NOT_ANSWERED, "asked"),
        (["ask", 5], NOT_ANSWERED, "asked"),
    ],
)
@pytest.mark.parametrize("run", [None, "r"])
def test_a_call_is_told_by_the_last_word_about_it(decisions, told, stage, run):
    """Asked and not answered, or refused: it did not run; else nobody knows."""
    events = log(USER, CALL, *map(decided, decisions), run=run)
    assert results(events) == [told]
    assert fold(events).pending_calls["c1"].stage == stage


def test_a_result_is_the_last_word():
    """Whatever was asked: what a call gave is what the model gets."""
    events = log(USER, CALL, decided("ask"), ("tool_result", {"toolCallId": "c1", "result": "a"}))
    assert results(events) == ["a"]
    assert fold(events).pending_calls == {}


def test_the_report_says_what_did_not_run():
    """Issues tell a call that was not allowed from one whose outcome is unknown."""
    issues = recover(log(USER, CALL, decided("ask")), "neutral", "mark").issues
    assert [one.detail for one in issues] == ["call c1 to Run has no result: marked as not run"]


def test_a_permission_about_no_call_changes_nothing():
    """Approvals of a tool, and words about unknown calls, are no part of a conversation."""
    events = log(USER, CALL, decided("ask", call=None), decided("ask", call="c9"), decided("ask", []))
    assert results(events) == [UNKNOWN]
    assert fold(events).pending_calls["c1"].stage == "begun"


def test_a_question_is_about_the_newest_call_of_its_id():
    """An id that is used again is another call once the user has spoken."""
    again = ("tool_call", {"id": "c1", "tool": "Run", "params": {"command": "rm"}})
    events = log(USER, CALL, USER, again, decided("ask"))
    assert results(events) == [UNKNOWN, NOT_ANSWERED]


def test_what_a_user_is_asked_in_one_run_is_no_word_about_another():
    """The same id in two runs: the one that names its run is told."""
    events = [
        Event.make("user", {"content": "Go"}, seq=0, run="a"),
        Event.make(*CALL, seq=1, run="a"),
        Event.make(*CALL, seq=2, run="b"),
        Event.make(*decided("ask"), seq=3, run="a"),
        Event.make(*decided("deny"), seq=4),
    ]
    told = {one.id: one.conversation.messages() for one in runs(events, incomplete="mark")}
    assert told[None][-1]["content"][0]["content"] == NOT_ANSWERED
    assert told["b"][-1]["content"][0]["content"] == REFUSED


def test_a_call_is_marked_anew_after_messages_were_handed_out():
    """A conversation that is followed tells the newest word."""
    conversation = Conversation(incomplete="mark")
    told = []
    for event in log(USER, CALL, decided("ask"), decided("allow")):
        conversation.feed(event)
        told.append(conversation.messages()[-1]["content"])
    assert [content[0]["content"] for content in told[1:]] == [UNKNOWN, NOT_ANSWERED, UNKNOWN]


def test_an_interruption_names_the_calls_that_did_not_run_apart():
    """Whoever opens the session next learns which outcomes are unknown, and which are known."""
    other = ("tool_call", {"id": "c2", "tool": "Run"})
    state = fold(log(("turn_start", {}), USER, CALL, other, decided("ask")))
    found = needs_interruption(state)
    assert (found["calls"], found["not_run"]) == (["c2"], ["c1"])
    assert "not_run" not in needs_interruption(fold(log(("turn_start", {}), USER, other)))


@pytest.mark.parametrize(
    ("decision", "end", "status"),
    [
        ("allow", ("turn_end", {}), "waiting"),
        ("ask", ("turn_end", {}), "idle"),
        ("deny", ("turn_end", {}), "idle"),
        ("ask", ("turn_end", {"reason": "suspended"}), "waiting"),
        ("ask", ("closed", {}), "waiting"),
        ("deny", ("closed", {}), "idle"),
    ],
)
def test_nobody_waits_for_a_call_that_was_not_allowed(decision, end, status):
    """After a refusal nothing is due; a question stays due where someone may still answer it."""
    begin = [] if end[0] == "closed" else [("turn_start", {})]
    assert fold(log(*begin, USER, CALL, decided(decision), end)).status == status


# --- what comes to be known later -----------------------------------------------------------------


def test_what_is_told_later_completes_the_call_in_its_place():
    """One call, with its first id, where it was first, with what was said of it last."""
    events = log(
        USER,
        CALL,
        ("tool_call", {"id": "c2", "tool": "Run"}),
        decided("ask"),
        more(tool="Shell", params={"command": "ls -l"}),
        ("tool_result", {"toolCallId": "c2", "result": "b"}),
    )
    assert inputs(events) == [("c1", {"command": "ls -l"}), ("c2", {})]
    assert results(events) == [NOT_ANSWERED, "b"]
    pending = fold(events).pending_calls["c1"]
    assert (pending.tool, pending.seq, pending.stage) == ("Shell", 4, "asked")
    assert not [one for one in recover(events, "neutral").issues if one.type == "invalid_id"]


@pytest.mark.parametrize("before", [[USER], [USER, CALL, USER], [USER, CALL, ("tool_result", {"toolCallId": "c1"})]])
def test_more_of_a_call_that_is_not_open_is_a_call(before):
    """Nothing is lost: what there is nothing to add to stands for itself."""
    found = inputs(log(*before, more(params={"a": 1})))
    assert [given for _, given in found] == [{"command": "ls"}] * (len(before) > 1) + [{"a": 1}]


def test_more_of_a_call_that_was_retracted_is_a_call():
    """What was taken back does not come back with it, nor is it lost."""
    events = log(USER, CALL, ("retracted", {"seqs": [1]}), more(params={"a": 1}))
    assert [given for _, given in inputs(events)] == [{"a": 1}]


def test_a_call_that_is_told_of_twice_is_counted_once():
    """A comparison of two sessions counts calls, not the events that tell of them."""
    a, b = log(USER, CALL, more(params={"command": "ls -l"})), log(USER, CALL)
    found = compare(SessionEvents("a", a), SessionEvents("b", [Event.make("user", {"content": "No"}, seq=0), *b[1:]]))
    assert [(tool.a, tool.b) for tool in found.tools] == [(1, 1)]
    assert [turn.a.tools for turn in found.turns] == [["Run"]]


@pytest.mark.parametrize("decision", [{"call": "c1", "decision": "allow"}, {"call": "c1"}, {}])
def test_a_transcript_says_nothing_of_a_call_that_was_let_run(decision):
    """An answer that allows it counts; what names no decision, or another call, does not."""
    asked = [decided("deny", "other"), decided("ask"), ("permission", decision), ("turn_end", {})]
    events = log(CALL, *asked)
    notes = [entry.text for entry in read_transcript(events) if entry.kind == "note"]
    is_let = decision.get("decision") == "allow"
    assert notes == ([] if is_let else ["nobody answered whether it may run"])
