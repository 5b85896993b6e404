"""Time: linear for repair and recovery, flat for the live conversation."""

from __future__ import annotations

import gc
import os
import time

import pytest

from holdfast.model import Event
from holdfast.replay import Conversation, recover, sanitize, validate

MANY = 1_000_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 100_000

pytestmark = pytest.mark.unmeasured


def broken_list(count):
    """Late results, incomplete calls and user turns in a row, again and again."""
    messages = []
    for number in range(count // 5):
        calls = [{"type": "tool_use", "id": f"{kind}{number}", "name": "Read", "input": {"n": number}} for kind in "ab"]
        answer = {"type": "tool_result", "tool_use_id": f"a{number}", "content": "x"}
        messages += [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": "well?"},
            {"role": "user", "content": [answer]},
            {"role": "assistant", "content": "done"},
        ]
    return messages


def events_of(count):
    """An agent at work: asked, thinking aloud, calling, answered."""
    events = []
    for number in range(count):
        data = [
            {"content": f"m{number}"},
            {"content": f"m{number}"},
            {"id": f"c{number}", "tool": "Read", "params": {}},
            {"toolCallId": f"c{number - 1}", "result": "x"},
        ][number % 4]
        kind = ("user", "assistant", "tool_call", "tool_result")[number % 4]
        event = Event(kind, number)
        event.__dict__["data"] = data
        events.append(event)
    return events


def seconds(work, argument):
    """The processor time that it takes."""
    gc.collect()
    start = time.process_time()
    work(argument)
    return time.process_time() - start


def is_within(times, large, small, tries=12):
    """Whether the one takes at most so many times the processor time of the other.

    The least of a few tries counts: what others do to the machine's caches must not fail a test,
    and what is quadratic never comes near it.
    """
    most = least = float("inf")
    for _ in range(tries):
        most, least = min(most, large()), min(least, small())
        if most <= times * least:
            return True
    return False


@pytest.mark.parametrize(("work", "make"), [(sanitize, broken_list), (validate, broken_list), (recover, events_of)])
def test_ten_times_the_input_takes_about_ten_times_as_long(work, make):
    """Repair, validation and recovery are linear; a loaded machine gets a little room."""
    small, large = make(4_000), make(40_000)
    assert is_within(14, lambda: seconds(work, large), lambda: seconds(work, small))


def test_results_far_from_their_calls_stay_linear():
    """A thousand calls answered only at the very end cost no more than others."""

    def late(count):
        calls = [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{n}", "name": "R", "input": {}}]}
            for n in range(count)
        ]
        answers = [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{n}", "content": "x"}]}
            for n in range(count)
        ]
        return [{"role": "user", "content": "go"}, *calls, *answers]

    small, large = late(1_000), late(10_000)
    assert is_within(14, lambda: seconds(sanitize, large), lambda: seconds(sanitize, small))


def test_a_conversation_costs_the_same_at_any_length():
    """One more event and the list after it: at 20,000 events as quick as at 200."""

    def step_seconds(length):
        events = events_of(length + 2_000)
        conversation = Conversation()
        for event in events[:length]:
            conversation.feed(event)
        messages = conversation.messages("anthropic")
        best = float("inf")
        for first in range(length, length + 2_000, 200):
            start = time.process_time()
            for event in events[first : first + 200]:
                conversation.feed(event)
                messages = conversation.messages("anthropic")
            best = min(best, time.process_time() - start)
        assert len(messages) > length // 2
        return best

    assert is_within(2, lambda: step_seconds(20_000), lambda: step_seconds(200))


def test_a_long_list_is_repaired_in_one_pass():
    """A hundred thousand broken messages become valid at once, and stay as they are."""
    result = sanitize(broken_list(100_000))
    assert validate(result.messages).valid
    assert len(result.issues) == 20_000


@pytest.mark.slow
def test_very_many_messages_of_one_turn_are_repaired_in_one_pass():
    """A million messages in a row (fewer on a push) become one, whatever the depth of the stack."""
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}] * (MANY // 2)
    result = sanitize(messages)
    assert len(result.messages) == 1
    assert len(result.messages[0]["content"]) == MANY
