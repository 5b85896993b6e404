"""Questions that a session waits for: what the fold, the conversation and the transcript make of them."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import Conversation, fold, needs_interruption, paired, read_transcript

CALL = ("tool_call", {"id": "c1", "tool": "pay", "params": {}, "begun": False})
ASK = ("suspended", {"id": "q1", "kind": "permission", "call": "c1", "tool": "pay"})
TIMER = ("suspended", {"id": "q2", "kind": "time", "until": 5, "call": "c2"})
ALLOW = ("permission", {"id": "q1", "call": "c1", "tool": "pay", "decision": "allow", "scope": "once"})
BEGIN = ("step", {"step": "c1", "call": "c1", "answer": "q1", "begin": True})
RESULT = ("tool_result", {"toolCallId": "c1", "result": "ok"})
END = ("turn_end", {"reason": "suspended"})
START = ("turn_start", {})


def log(*drafts):
    """Events with numbers and times."""
    return [Event.make(kind, data, seq=n, timestamp=1000 + n, run="r") for n, (kind, data) in enumerate(drafts)]


def state_of(*drafts):
    """The state after these."""
    return fold(log(*drafts))


@pytest.mark.parametrize(
    ("drafts", "status"),
    [
        ([START, CALL, ASK], "waiting"),
        ([START, CALL, ASK, END], "waiting"),
        ([START, CALL, ASK, ("interrupted", {})], "waiting"),
        ([TIMER], "suspended"),
        ([TIMER, ASK], "waiting"),
        ([START, CALL, ASK, END, ALLOW], "suspended"),
        ([START, CALL, ASK, END, ALLOW, ALLOW], "suspended"),
        ([START, CALL, ASK, END, ALLOW, START, BEGIN], "running"),
        ([START, CALL, ASK, END, ALLOW, START, BEGIN, RESULT, ("turn_end", {})], "idle"),
        ([START, CALL, ASK, END, RESULT], "idle"),
        ([CALL, ASK, ("closed", {})], "waiting"),
        ([START, CALL, ASK, ("imported", {}), ("turn_end", {"reason": "cancelled"})], "idle"),
        ([START, CALL, ASK, ("forked", {"session": "s"})], "idle"),
        ([CALL, ASK, ("retracted", {"seqs": [0]})], "idle"),
        ([START, CALL, ASK, END, ("resumed", {"ids": ["q2"]})], "waiting"),
        ([START, CALL, ASK, END, ("resumed", {"ids": ["q1"]}), RESULT], "idle"),
        ([START, CALL, ASK, END, ("resumed", {"token": "x"})], "waiting"),
        ([START, CALL, ASK, END, ("resumed", {}), RESULT], "idle"),
    ],
)
def test_the_status_follows_from_the_questions(drafts, status):
    """Open ones wait for a person, a time or an event; answered ones for who goes on; used ones for nobody."""
    assert state_of(*drafts).status == status


def test_a_question_asked_again_is_the_same():
    """It keeps its first place, and knows the call that waits."""
    ask = state_of(START, CALL, ASK, ASK).asks["q1"]
    assert (ask.seq, ask.call_seq, ask.is_open, ask.for_person) == (2, 1, True, True)
    assert state_of(CALL, ("closed", {}), ASK).asks["q1"].call_seq == 0


def test_a_call_that_waits_is_not_interrupted():
    """Of a process that is gone the calls are told apart: waiting, only recorded, begun."""
    other = ("tool_call", {"id": "c3", "tool": "look", "params": {}})
    late = ("tool_call", {"id": "c4", "tool": "look", "params": {}, "begun": False})
    below = ("suspended", {"id": "q3", "kind": "permission", "call": "x", "above": ["c3"], "path": ["d"]})
    state = state_of(START, CALL, other, late, ASK)
    assert (needs_interruption(state)["calls"], needs_interruption(state)["not_run"]) == (["c3"], ["c4"])
    assert needs_interruption(state_of(START, CALL, other, ASK, below))["calls"] == []
    assert needs_interruption(state_of(START, CALL, ASK, ALLOW, BEGIN))["calls"] == ["c1"]


def test_a_recorded_call_begins_by_an_event_of_its_own():
    """Until then it has not run, whatever was allowed; one that is not known begins nothing."""
    assert not state_of(START, CALL, ASK, ALLOW).pending_calls["c1"].begun
    assert state_of(START, CALL, ASK, ALLOW, BEGIN).pending_calls["c1"].begun
    assert state_of(START, CALL, ASK, END, BEGIN).pending_calls["c1"].begun
    assert state_of(BEGIN).pending_calls == {}
    assert state_of(START, CALL).copy().pending_calls["c1"].stage == "asked"


def told(*drafts):
    """What a model is told of the call."""
    conversation = Conversation()
    for event in log(("user", {"content": "go"}), *drafts):
        conversation.feed(event)
    return conversation.messages()[-1]["content"][0]["content"]


def test_the_model_is_told_how_far_a_call_came():
    """Not run while it waits and when it was only allowed; unknown once it has begun."""
    assert "not run" in told(CALL)
    assert "not run" in told(CALL, ASK, ALLOW)
    assert "not run" in told(CALL, ("step", {"step": "x", "call": "c1"}))
    assert "unknown" in told(CALL, ASK, ALLOW, BEGIN)
    assert told(CALL, ASK, ALLOW, BEGIN, RESULT) == "ok"


def test_the_transcript_tells_the_same():
    """A call that did not run is noted as such, until it begins."""

    def heads(*drafts):
        return [
            entry.name for entry in read_transcript(log(*drafts)) if entry.kind == "note" and "not run" in entry.name
        ]

    assert heads(CALL) == ["pay (event 0) not run so far"]
    assert heads(CALL, BEGIN) == []
    assert heads(CALL, RESULT, CALL, ("tool_call", {"tool": "pay", "begun": False})) == ["pay (event 2) not run so far"]


def test_a_block_that_answers_no_call_settles_no_question():
    """A stranger's tool_result without the id of a call leaves what waits as it is."""
    block = {"type": "tool_result", "content": "?"}
    assert state_of(START, CALL, ASK, END, ("user", {"role": "user", "content": [block]})).status == "waiting"


@pytest.mark.parametrize(("said", "known"), [(0, 0), (99, -1), (None, -1)])
def test_a_call_of_an_earlier_process_is_named_by_its_place(said, known):
    """Where nobody knows any more that it is open; a place behind the question is none."""
    state = state_of(("user", {"content": "x"}), (ASK[0], ASK[1] | ({} if said is None else {"call_seq": said})))
    assert state.asks["q1"].call_seq == known


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (ASK[1], "pay waits for an answer"),
        ({**TIMER[1], "tool": "nap"}, "nap waits for a time"),
        ({"kind": "event", "event": "paid"}, "the session waits for the event paid"),
    ],
)
def test_a_transcript_says_what_is_waited_for(ask, told):
    """A person, a time or an event; the end of the turn does not say that the call was not run."""
    notes = [entry.name for entry in read_transcript(log(START, CALL, ("suspended", ask))) if entry.kind == "note"]
    assert notes[0] == told


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"decision": "allow"}, ["pay allowed by ada", ""]),
        ({"decision": "deny", "reason": "no"}, ["pay denied by ada", "no"]),
        ({"decision": "edit", "args": {"sum": 3}}, ["pay allowed with other arguments by ada", '{"sum":3}']),
        ({"decision": "result", "tool": None}, ["the question answered by ada", ""]),
        ({"decision": "allow", "id": None}, []),
        ({"decision": ["?"]}, []),
    ],
)
def test_a_transcript_says_who_answered(answer, told):
    """By whom, and why or with which arguments; what was asked of nobody else is told by its result alone."""
    given = ("permission", {"id": "q1", "call": "c1", "tool": "pay", "by": "ada", **answer})
    entries = [entry for entry in read_transcript(log(START, CALL, ASK, given)) if "by ada" in entry.name]
    assert [part for entry in entries for part in (entry.name, "".join(map(str, entry.pieces)))] == told


def test_a_call_that_waits_is_not_told_as_over_by_the_end_of_its_turn():
    """Its result comes in a later run; without an answer it is told as not run."""
    waiting = [START, CALL, ASK, END]
    assert [entry.name for entry in read_transcript(log(*waiting))][-1] == "pay waits for an answer"
    for more, words in ((("resumed", {"ids": ["q1"]}), "so far"), (("resumed", {}), "not run")):
        names = [entry.name for entry in read_transcript(log(*waiting, more, ("interrupted", {})))]
        assert any(words in name for name in names)
    later = [*log(*waiting), Event.make(*RESULT, seq=4, timestamp=1, run="later")]
    assert [(entry.kind, entry.name) for entry in read_transcript(later)][-1] == ("result", "pay")
    for more in ([], [Event.make("resumed", {"reason": "superseded"}, seq=4, timestamp=1, run="later")]):
        events = [*log(*waiting), *more, Event.make(*RESULT, seq=4 + len(more), timestamp=1, run="later")]
        [step] = [step for step in paired(read_transcript(events)) if step.entry.kind == "call"]
        assert (step.is_open, step.result.pieces) == (False, ("ok",))
