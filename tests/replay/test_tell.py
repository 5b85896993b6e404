"""What a provider's message tells: events for what is understood, InvalidData for the rest."""

from __future__ import annotations

import copy
import dataclasses
import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidData, TooLarge
from holdfast.model import Event
from holdfast.replay import PROVIDERS, Conversation, recover, tell, validate
from holdfast.replay._native import pack, unpack

NAMES = st.sampled_from(
    """role content type parts text id name input tool_calls function function_call arguments
    tool_call_id tool_use_id call_id output kind part_kind functionCall function_response response
    source data media_type message choices candidates usage model refusal audio summary thinking
    signature thoughtSignature inlineData status action is_error annotations native""".split()  # noqa: SIM905 - a list of words is easier to read and to change
)
VALUES = st.sampled_from(
    """user assistant system developer tool function model text image image_url tool_use tool_result
    thinking redacted_thinking message reasoning function_call function_call_output custom
    computer_call computer_call_output web_search_call compaction request response user-prompt
    tool-call tool-return input_text output_text base64 url rs_1 fc_1 call_1 {} AAAA""".split()  # noqa: SIM905 - the same
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | VALUES | st.text(max_size=5)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
WELL = [
    {"role": "user", "content": "hi"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}]},
    {"role": "assistant", "content": "a", "tool_calls": [CALL, CALL | {"id": "call_2"}]},
    {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "x"},
    {"role": "tool", "tool_call_id": "call_1", "content": "x"},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "h", "signature": "s"}, USE],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "x"}]},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    {"type": "computer_call", "call_id": "call_1", "actions": []},
    {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}},
    {"object": "response", "output": [{"type": "message", "role": "assistant", "content": "x"}]},
    {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"text": "t"}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
    {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]},
    {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "x"}]},
    {"kind": "response", "parts": [{"part_kind": "text", "content": "x"}]},
    {"role": "developer", "content": "x"},
]


def places(value, path=()):
    """Every place inside a value."""
    yield path
    inside = value.items() if isinstance(value, dict) else ()
    for name, one in enumerate(value) if isinstance(value, list) else inside:
        yield from places(one, (*path, name))


@st.composite
def mutated(draw):
    """A well-formed message with something else in one or two places."""
    message = copy.deepcopy(draw(st.sampled_from(WELL)))
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(list(places(message))))
        if not path:
            continue
        inner = message
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = draw(ANYTHING)
    return message


def feed_all(given):
    """The events of what can be told among some messages, as a log would have them."""
    events = []
    for message in given:
        try:
            words = tell(message)
        except (InvalidData, TooLarge):
            continue
        for type, data in words:
            try:
                events.append(Event.make(type, data, seq=len(events)))
            except InvalidData:
                continue
    return events


@given(ANYTHING)
def test_anything_is_told_or_refused(value):
    """Whatever is given: events, or InvalidData with a remedy; nothing else is raised."""
    refusals = []
    words = []
    try:
        words = tell(value)
    except InvalidData as refusal:
        refusals.append(refusal.remedy)
    assert all(refusals)
    assert all(isinstance(data, dict) for _, data in words)


@given(st.lists(mutated(), max_size=6))
def test_whatever_was_told_every_provider_can_be_asked(given):
    """Half-broken messages that are accepted give lists that keep every provider's rules."""
    events = feed_all(given)
    for provider in PROVIDERS:
        conversation = Conversation()
        for at, event in enumerate(events):
            conversation.feed(event)
            told = conversation.messages(provider)
            assert validate(told, provider).errors == [], (at, told)
        assert recover(events, provider).messages == told if events else True
        assert validate(recover(events, provider, window_tokens=20).messages, provider).valid


@given(ANYTHING, ANYTHING)
def test_what_is_packed_is_unpacked(message, said):
    """Texts that the event has are named by number, and come back whatever the message holds."""
    messages = [{"role": message, "": said}, {"text": said}]
    assert repr(unpack(pack(messages, said), said)) == repr(messages)


@pytest.mark.parametrize("broken", [5, [5], [{"": 9}], [{"a": {"$blob": "x"}}], [[]], [{"": "x"}]])
def test_a_native_message_that_is_not_whole_is_left_alone(broken):
    """A log that was changed by hand gives the words, in the provider's form."""
    words = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    event = Event.make("user", {"content": words, "native": broken}, seq=0)
    assert recover([event], "openai").messages == [{"role": "user", "content": words}]
    assert unpack([{}], {"$blob": "x", "bytes": 1}) is None


class Colour(enum.Enum):
    """A value with a name."""

    RED = "user"


@dataclasses.dataclass
class Given:
    """A message of a library that dumps with its own method."""

    value: object

    def to_json_dict(self):
        """Plain data."""
        return self.value


def test_objects_enums_tuples_and_bytes_are_made_plain():
    """What libraries use instead of JSON becomes JSON."""
    part = {"inline_data": {"mime_type": "image/png", "data": b"\xff\xfe"}}
    ((type, data),) = tell(Given({"role": Colour.RED, "parts": (part,)}))
    assert type == "user"
    assert data["content"][0]["source"]["data"] == "//4="


@pytest.mark.parametrize(
    "value",
    [
        Given(Given(Given(5))),
        {"role": "user", "content": [[[[[]]]]]},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": "x"},
        {"object": "response", "output": [5]},
        {"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        {"role": "assistant", "content": "x", "tool_calls": {}},
        {"role": "assistant", "function_call": "f"},
        {"role": "user", "content": "x", "tool_calls": [CALL]},
    ],
)
def test_more_that_is_refused(value):
    """Shapes that look like messages and are none."""
    with pytest.raises(InvalidData):
        tell(value)


def test_what_is_nested_without_end_is_refused():
    """A message that holds itself has no form."""
    endless = {"role": "user", "content": []}
    endless["content"].append(endless)
    with pytest.raises(InvalidData):
        tell(endless)


def test_an_answer_without_words_has_its_usage():
    """What an answer cost is told though it holds no message."""
    usage = {"input_tokens": 1, "output_tokens": 0}
    ((type, data),) = tell({"object": "response", "output": [], "usage": usage, "status": "failed"})
    assert type == "assistant"
    assert data == {"role": "assistant", "content": "", "usage": usage, "stop_reason": "failed"}


def test_items_of_both_sides_in_one_answer_are_events_in_their_order():
    """A shell that the provider runs answers its own calls."""
    outcome = {"type": "exit", "exit_code": 0}
    output = [{"stdout": "a", "stderr": "", "outcome": outcome}]
    items = [
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "id": "sho_1", "call_id": "c1", "output": output},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "q"}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "x", "annotations": []}],
        },
    ]
    words = tell({"object": "response", "output": items})
    assert [type for type, _ in words] == ["assistant", "tool_result", "assistant"]
    events = feed_all([{"role": "user", "content": "go"}, {"object": "response", "output": items}])
    assert recover(events, "openai-responses").messages[1:] == items
