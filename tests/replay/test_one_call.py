"""A call that a message announces and an event begins is one call, in whatever order they came."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, fold, recover, validate

IDS = ("a", "b", "c")


@st.composite
def histories(draw):
    """The halves and the result of each call, in any order, with words in between."""
    steps = []
    for id in draw(st.permutations(IDS)):
        halves = draw(st.sampled_from(["announced", "begun", "both"]))
        if halves != "announced":
            steps.append(("tool_call", {"id": id, "tool": "t", "params": {"n": id}}))
        if draw(st.booleans()):
            steps.append(("tool_result", {"toolCallId": id, "result": f"result-{id}"}))
        if halves != "begun":
            use = {"type": "tool_use", "id": id, "name": "t", "input": {"n": id}}
            content = [{"type": "text", "text": f"word-{id}"}, use]
            steps.append(("assistant", {"content": content}))
    if draw(st.booleans()):
        steps.append(("assistant", {"content": "still here"}))
    mixed = [("user", {"content": "go"}), *draw(st.permutations(steps))]
    return numbered(mixed)


def numbered(steps):
    """The events of a log with these types and data."""
    return [Event.make(*step, seq=seq) for seq, step in enumerate(steps)]


def blocks(messages, kind):
    contents = [m["content"] for m in messages if isinstance(m["content"], list)]
    return [block for content in contents for block in content if block["type"] == kind]


@given(histories())
def test_each_call_is_there_once_with_its_result(events):
    """However the halves were mixed, each id is one call, and its result is its own."""
    messages = recover(events, "neutral").messages
    known = {e.data["id"] for e in events if e.type == "tool_call"}
    known |= {block["id"] for block in blocks([e.data for e in events if e.type == "assistant"], "tool_use")}
    told = Counter(block["input"]["n"] for block in blocks(messages, "tool_use"))
    assert told == dict.fromkeys(known, 1)
    outcome = {block["tool_use_id"]: block["content"] for block in blocks(messages, "tool_result")}
    recorded = {e.data["toolCallId"] for e in events if e.type == "tool_result"}
    assert {id: outcome[id] for id in recorded & known} == {id: f"result-{id}" for id in recorded & known}
    assert all("interrupted" in outcome[id] for id in known - recorded)


@given(histories())
def test_every_moment_is_valid_and_the_same_as_from_the_beginning(events):
    """A conversation that is asked at each event equals one that is made anew from the log."""
    asked = Conversation()
    for count, event in enumerate(events, 1):
        asked.feed(event)
        found = recover(events[:count], "neutral")
        assert asked.messages() == found.messages
        assert asked.issues == found.issues
    for provider in PROVIDERS:
        assert validate(asked.messages(provider), provider).valid
    assert all(word in json.dumps(asked.messages()) for word in _words(events))


def _words(events):
    said = [e.data["content"] for e in events if e.type == "assistant"]
    return [content[0]["text"] for content in said if isinstance(content, list)]


def test_a_signature_of_either_half_is_kept():
    """A thought signature that came with the event that begins a call stays with the call."""
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    asked = ("assistant", {"content": [use]})
    begun = ("tool_call", {"id": "a", "tool": "t", "params": {}, "thought_signature": "c2ln"})
    for steps in ([asked, begun], [begun, asked]):
        found = recover(numbered([("user", {"content": "go"}), *steps]), "neutral")
        assert blocks(found.messages, "tool_use")[0]["thought_signature"] == "c2ln"


def test_after_the_user_spoke_an_answered_id_is_another_call():
    """A model that numbers its calls anew in each turn means another call each time."""
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    turn = [("user", {"content": "go"}), ("tool_call", {"id": "a", "tool": "t", "params": {}})]
    turn.append(("tool_result", {"toolCallId": "a", "result": "1"}))
    later = [("user", {"content": "and"}), ("assistant", {"content": [use]})]
    messages = recover(numbered([*turn, *later]), "neutral").messages
    assert blocks(messages, "tool_result")[0]["content"] == "1"
    assert len(blocks(messages, "tool_use")) == 2


def test_a_retracted_message_takes_its_call_along():
    """When the message that asks for a call is taken back, the result is told as an issue."""
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    steps = [
        ("user", {"content": "go"}),
        ("assistant", {"content": [use]}),
        ("tool_call", {"id": "a", "tool": "t", "params": {}}),
        ("tool_result", {"toolCallId": "a", "result": "done"}),
        ("retracted", {"seqs": [1]}),
    ]
    found = recover(numbered(steps), "neutral")
    assert found.messages == [{"role": "user", "content": "go"}]
    assert [issue.type for issue in found.issues] == ["retracted", "orphaned_tool_result"]


def test_what_was_done_otherwise_or_again_is_told():
    """Other arguments than the model's, and a second attempt, are issues with what was done."""
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {"n": 1}}
    steps = [
        ("user", {"content": "go"}),
        ("assistant", {"content": [use]}),
        ("tool_call", {"id": "a", "tool": "t", "params": {"n": 2}}),
        ("tool_call", {"id": "a", "tool": "t", "params": {"n": 1}}),
        ("tool_result", {"toolCallId": "a", "result": "done"}),
    ]
    found = recover(numbered(steps), "neutral")
    assert [block["input"] for block in blocks(found.messages, "tool_use")] == [{"n": 1}]
    told = {issue.type: issue.content["input"] for issue in found.issues}
    assert told == {"other_arguments": {"n": 2}, "repeated_tool_call": {"n": 1}}


def test_the_state_names_what_the_last_message_asks_for():
    """Its calls are open until they have a result, or until the message is taken back."""
    use = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    asked = numbered([("user", {"content": "go"}), ("assistant", {"content": [use]})])
    state = fold(asked)
    assert (state.asked, state.pending_calls["a"].begun) == ({"": 1}, False)
    assert fold([*asked, Event.make("assistant", {"content": "no"}, seq=2)]).asked == {}
    gone = fold([*asked, Event.make("retracted", {"seqs": [1]}, seq=2)])
    assert (gone.asked, gone.pending_calls) == ({}, {})
