"""Failures that users of other tools reported, each as a conversation that goes on here."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, recover, validate


def log(*steps):
    return [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(steps)]


def call(identity, tool="Bash", **params):
    return "tool_call", {"id": identity, "tool": tool, "params": params, "agent": "main"}


def result(identity, value="done"):
    return "tool_result", {"toolCallId": identity, "result": value}


ASK = ("user", {"content": "do it"})


def accepted(events):
    """Every provider's list for a log, checked."""
    lists = {provider: recover(events, provider).messages for provider in PROVIDERS}
    for provider, messages in lists.items():
        assert validate(messages, provider).errors == []
    return lists


@pytest.mark.req("S3-46")
def test_an_interrupted_call_does_not_brick_the_session():
    """A call cut off by a crash, then a new prompt: no provider answers 400 for ever."""
    accepted(log(ASK, call("a"), ("user", {"content": "are you there?"})))


@pytest.mark.req("S3-48")
def test_one_of_several_calls_at_once_was_interrupted():
    """Of four calls in parallel, three have results; the fourth is marked as interrupted."""
    events = log(ASK, *[call(i) for i in "abcd"], result("c"), result("a"), result("d"))
    _, uses, results = accepted(events)["anthropic"]
    assert [use["id"] for use in uses["content"]] == ["a", "b", "c", "d"]
    marked = [one["tool_use_id"] for one in results["content"] if "interrupted" in one["content"]]
    assert marked == ["b"]


def test_garbage_inside_a_tool_name_or_its_arguments():
    """NUL in a persisted name or argument, which was a 400 on every resume, is made harmless."""
    broken = Event("tool_call", 1, 0, b'{"id":"a","tool":"Ba\\u0000sh","params":{"x":"\\u0000"}}')
    events = [*log(ASK), broken, Event.make(*result("a"), seq=2)]
    use = accepted(events)["anthropic"][1]["content"][0]
    assert use["name"] == "Ba_sh"
    assert use["input"] == {"x": "\ufffd"}


def test_blocks_of_one_provider_replayed_to_another():
    """A conversation begun with one provider goes on with another."""
    blocks = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "secret"},
        {"type": "thinking", "thinking": "hm", "signature": "only-anthropic"},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "text", "text": "so", "thought_signature": "c2ln"},
    ]
    lists = accepted(log(ASK, ("assistant", {"content": blocks})))
    assert "secret" not in str(lists["gemini"])
    assert "only-anthropic" not in str(lists["openai-responses"])
    assert "only-anthropic" in str(lists["anthropic"])


def test_a_result_recorded_after_the_next_prompt():
    """Completed work is never told to the model as missing."""
    events = log(ASK, call("a"), ("user", {"content": "hurry"}), result("a", "finished"))
    assert "finished" in str(accepted(events)["openai"])
    assert recover(events).issues == []


def test_a_summary_that_cut_a_pair():
    """A compaction whose range ends between call and result leaves the pair whole."""
    events = log(ASK, call("a"), ("compaction", {"summary": "so far", "covers": [0, 1]}), result("a", "kept"))
    assert "kept" in str(accepted(events)["anthropic"])


def test_ordinals_used_twice_after_a_lenient_resume():
    """Events whose numbers were given out twice are all still there."""
    events = [
        Event.make("user", {"content": "one"}, seq=0),
        Event.make("assistant", {"content": "two"}, seq=1),
        Event.make("user", {"content": "three"}, seq=1),
        Event.make("assistant", {"content": "four"}, seq=2),
    ]
    assert [m["content"] for m in recover(events).messages] == ["one", "two", "three", "four"]


def test_events_with_missing_fields_of_an_older_version():
    """An event without a field that is required today hides nothing else."""
    steps = [ASK, ("tool_call", {}), ("tool_result", {}), ("assistant", {}), ("user", {}), ("delta", {})]
    accepted(log(*steps, ("assistant", {"content": "still here"})))
    assert "still here" in str(recover(log(*steps, ("assistant", {"content": "still here"}))).messages)


def test_a_record_lost_in_the_middle():
    """Where a damaged line was skipped, the events before and after it are one conversation."""
    events = log(ASK, call("a"), result("a", "before"), ("user", {"content": "gap"}), call("b"), result("b"))
    del events[3]
    shown = str(accepted(events)["anthropic"])
    assert "before" in shown
    assert "'b'" in shown


def test_text_split_inside_a_character():
    """Half a character at the end of a streamed text is replaced, not refused."""
    event = Event("assistant", 1)
    event.__dict__["data"] = {"content": "smile \ud83d"}
    messages = accepted([*log(ASK), event])["anthropic"]
    assert messages[1]["content"] == "smile \ufffd"


def test_one_huge_entry():
    """A single entry of many megabytes is shown whole; a window leaves it out and says so."""
    events = log(ASK, ("assistant", {"content": "x" * 5_000_000}), ("user", {"content": "short"}))
    assert len(recover(events).messages[1]["content"]) == 5_000_000
    recovery = recover(events, window_tokens=1_000)
    assert recovery.left_out.tokens == 1_250_000
    assert len(str(recovery.messages)) < 1_000


def test_events_arriving_while_the_list_is_in_use():
    """A list in the hands of a request does not change while the next events come in."""
    conversation = Conversation()
    for event in log(ASK, call("a"), result("a")):
        conversation.feed(event)
    sent = conversation.messages("anthropic")
    before = str(sent)
    for event in log(*[("assistant", {"content": f"later {n}"}) for n in range(50)]):
        conversation.feed(event)
        conversation.messages("anthropic")
    assert str(sent) == before
