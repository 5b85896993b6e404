"""Whatever the conversation, its window fits and is valid."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent._loop import fit_messages, measure
from holdfast.errors import TooLarge
from holdfast.model import Event
from holdfast.replay import recover, validate

words = st.text("ab é\n", max_size=80)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("user"), words),
        st.tuples(st.just("assistant"), words),
        st.tuples(st.just("calls"), st.lists(words, min_size=1, max_size=3)),
    ),
    min_size=1,
    max_size=12,
)


def events_of(story):
    """The events of a story of messages and calls."""
    number = 0
    for kind, content in story:
        if kind == "calls":
            ids = [f"c{number + index}" for index in range(len(content))]
            number += len(content)
            for call in ids:
                yield Event.make("tool_call", {"id": call, "tool": "look", "params": {}})
            for call, text in zip(ids, content, strict=True):
                yield Event.make("tool_result", {"toolCallId": call, "result": text})
        else:
            yield Event.make(kind, {"role": kind, "content": content})


@given(steps, st.integers(10, 200))
def test_a_window_fits_and_is_valid(story, tokens_max):
    """It is never longer than asked for and always valid, or refused as too small."""
    asked = [*story, ("user", "and?")]  # a request always ends with the user's side
    messages = recover(events_of(asked), provider="neutral", incomplete="mark").messages
    try:
        fitted = fit_messages(messages, tokens_max)
    except TooLarge:
        assert measure(messages) > tokens_max
        return
    assert measure(fitted) <= tokens_max
    assert validate(fitted, "anthropic").valid
    if measure(messages) <= tokens_max:
        assert fitted == messages
