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
from holdfast.replay import PROVIDERS, Conversation, recover, sanitize, tell, validate
from holdfast.replay._native import pack, unpack
from holdfast.replay._rules import check_alone

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
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=25
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
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"}, USE]},
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


def told_by(*messages, provider):
    """What a provider is told after some messages were recorded."""
    return recover(feed_all(messages), provider).messages


def test_blank_parts_are_kept_for_their_provider_and_told_to_nobody():
    """An empty text between others is no reason to refuse a message."""
    blank, word = {"type": "text", "text": " "}, {"type": "text", "text": "a"}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": "x"}
    asked = {"role": "assistant", "content": [USE]}
    words = tell({"role": "user", "content": [blank, word]})
    assert [data["content"] for _, data in words] == ["a"]
    words = tell({"role": "user", "content": [result, blank, word]})
    assert [type for type, _ in words] == ["tool_result", "user"]
    told = told_by(
        {"role": "user", "content": "go"}, asked, {"role": "user", "content": [result, blank]}, provider="anthropic"
    )
    assert told[2] == {"role": "user", "content": [result]}


def test_reasoning_of_other_servers_is_thinking():
    """What a server adds to OpenAI's form is thought to everybody, and goes back to it."""
    message = {"role": "assistant", "content": "x", "reasoning_content": "hm"}
    ((_, data),) = tell(message)
    assert data["content"][0] == {"type": "thinking", "thinking": "hm"}
    told = told_by({"role": "user", "content": "go"}, message, provider="openai")
    assert told[1] == message


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ({"role": "assistant", "tool_calls": [CALL | {"custom": {}, "type": "custom"}]}, "member"),
        ({"role": "assistant", "function_call": {"name": "?", "arguments": "{}"}}, "name"),
        ({"role": "function", "name": "f", "content": ""}, "content"),
        ({"role": "assistant", "content": 5}, "content"),
    ],
)
def test_calls_in_the_old_form_have_rules(message, rule):
    """A malformed call is refused by the rules of OpenAI."""
    errors = validate([{"role": "user", "content": "go"}, message], "openai").errors
    assert any(rule in error for error in errors)


def test_a_custom_call_has_a_text():
    """The input of a custom tool is plain text."""
    call = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "ls"}}
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call]}]
    said.append({"role": "tool", "tool_call_id": "c", "content": "x"})
    assert validate(said, "openai").valid
    call["custom"]["input"] = 5
    assert not validate(said, "openai").valid


@pytest.mark.parametrize(
    "block",
    [
        {"type": "search_result", "title": "t", "source": "s", "content": []},
        {"type": "search_result", "content": [{"type": "text", "text": "x"}]},
        {"type": "container_upload"},
        {"type": "document", "source": {"type": "content", "content": []}},
        {"type": "document", "source": {"type": "content", "content": "", "more": 1}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "tool_use"}]}},
    ],
)
def test_blocks_that_only_anthropic_takes_have_rules(block):
    """Search results, uploads and documents of blocks are checked like others."""
    assert not validate([{"role": "user", "content": [block]}], "anthropic").valid


def test_the_state_of_a_browser_stands_in_a_result():
    """What a browser shows is a part of a result, and words to others."""
    tabs = {"type": "browser_state", "tabs": []}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [tabs]}
    asked = [{"role": "user", "content": "go"}, {"role": "assistant", "content": [USE]}]
    answered = {"role": "user", "content": [result]}
    assert told_by(*asked, answered, provider="anthropic")[2] == answered
    assert not validate(
        [*asked, {"role": "user", "content": [result | {"content": [{"type": "browser_state"}]}]}], "anthropic"
    ).valid


@pytest.mark.parametrize(
    "item", [{"type": "custom_tool_call", "call_id": "c", "name": "f"}, {"type": "web_search_call"}]
)
def test_items_without_what_makes_them_are_no_items(item):
    """A call without its input and a search without its id break the rules."""
    said = [{"role": "user", "content": "go"}, item]
    assert not validate(said, "openai-responses").valid


def test_what_gemini_did_by_itself_is_words_to_others():
    """Calls of Google's own tools are told, in either spelling; an empty one is refused."""
    part = {"tool_call": {"id": "t", "tool_type": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}}
    ((_, data),) = tell({"role": "model", "parts": [part]})
    assert "GOOGLE_SEARCH_WEB" in data["content"]
    assert not validate([{"role": "user", "parts": [{"toolCall": {}}]}], "gemini").valid
    assert not validate([{"role": "user", "parts": [5]}, 5], "gemini").valid
    assert not validate([{"role": "user", "parts": []}], "gemini").valid


def test_a_call_whose_id_is_not_ours_needs_its_own_result():
    """An id that OpenAI takes and we do not: with its own result it returns, else it is renamed."""
    call = CALL | {"id": "call|1"}
    asked = [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call]}]
    answer = {"role": "tool", "tool_call_id": "call|1", "content": "x"}
    assert told_by(*asked, answer, provider="openai")[1]["tool_calls"] == [call]
    marked = told_by(*asked, provider="openai")
    assert marked[1]["tool_calls"][0]["id"] == marked[2]["tool_call_id"] != "call|1"
    broken = answer | {"content": [{"type": "text", "text": " "}]}
    assert validate(told_by(*asked, broken, provider="openai"), "openai").valid


def test_thoughts_by_hand_before_a_recorded_message_do_not_stand_alone():
    """What was recorded by other verbs stands with the provider's message, not as an empty one."""
    events = [
        Event.make("user", {"content": "go"}, seq=0),
        Event.make("thinking", {"content": "hm"}, seq=1),
        *(Event.make(type, data, seq=2) for type, data in tell({"role": "assistant", "name": "b", "content": "x"})),
    ]
    assert recover(events, "openai").messages[1:] == [{"role": "assistant", "name": "b", "content": "x"}]
    assert validate(recover(events, "mistral").messages, "mistral").valid


NOT_UNDERSTOOD = {
    "a text": "hi",
    "a number": 5,
    "nothing": None,
    "an object": object(),
    "a list with a number": [{"role": "user", "content": "x"}, 5],
    "no role": {"content": "x"},
    "a strange role": {"role": "robot", "content": "x"},
    "an unknown member": {"role": "user", "content": "x", "mood": "good"},
    "an unknown part": {"role": "user", "content": [{"type": "hologram"}]},
    "content of no kind": {"role": "user", "content": 5},
    "no content": {"role": "user"},
    "calls that are no list": {"role": "assistant", "tool_calls": "f"},
    "a call of no kind": {"role": "assistant", "tool_calls": [{"id": "a", "type": "dream"}]},
    "a call without an id": {
        "role": "assistant",
        "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    "a result without an id": {"role": "tool", "content": "x"},
    "an unknown item": {"type": "telepathy", "id": "x"},
    "a piece of a stream": {"object": "chat.completion.chunk", "choices": [{"delta": {}}]},
    "an event of a stream": {"type": "response.output_text.delta", "delta": "x"},
    "two choices": {"choices": [{"message": {}}, {"message": {}}]},
    "no candidate": {"candidates": []},
    "a response without output": {"object": "response", "output": None},
    "a call of the user": {"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
    "thinking of the user": {"role": "user", "content": [{"type": "thinking", "thinking": "x", "signature": "y"}]},
    "an image without a source": {"role": "user", "content": [{"type": "image", "source": {}}]},
    "a part of gemini that is none": {"role": "user", "parts": [{"dream": {}}]},
    "no name": {"role": "user", "content": [{1: 2}]},
}


@pytest.mark.parametrize("given", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_what_is_not_understood_is_refused(given):
    """InvalidData with a remedy, and not a word is taken."""
    with pytest.raises(InvalidData) as refusal:
        tell(given)
    assert refusal.value.remedy


@pytest.mark.parametrize(
    "part",
    [
        5,
        {"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "c"},
        {"part_kind": "system-prompt", "content": [{"type": "thinking", "thinking": "x"}]},
    ],
)
def test_a_request_of_pydantic_ai_holds_what_a_user_says(part):
    """What stands on the wrong side, or on none, is refused."""
    with pytest.raises(InvalidData):
        tell({"kind": "request", "parts": [part]})


def test_a_system_prompt_inside_of_a_request_is_one():
    """Pydantic AI has it among the user's parts; the request comes back whole."""
    request = {
        "kind": "request",
        "parts": [{"part_kind": "system-prompt", "content": "be brief"}, {"part_kind": "user-prompt", "content": "go"}],
    }
    assert [type for type, _ in tell(request)] == ["system", "user"]
    assert told_by(request, provider="pydantic-ai") == [request]


def test_messages_that_ask_one_after_the_other_are_one_for_openai():
    """Two answers with calls and no result in between are one turn with all its results."""
    asked = [{"role": "assistant", "name": "b", "tool_calls": [CALL | {"id": id}]} for id in "ab"]
    told = told_by({"role": "user", "content": "go"}, *asked, provider="openai")
    assert [call["id"] for call in told[1]["tool_calls"]] == ["a", "b"]
    assert [one["tool_call_id"] for one in told[2:]] == ["a", "b"]


def test_calls_that_were_recorded_one_by_one_find_their_own_outputs():
    """Items of Responses stay the items that they were, also when asked for again and again."""
    items = [{"type": "computer_call", "call_id": id, "actions": []} for id in ("c1", "c2")]
    shot = {"type": "computer_screenshot", "image_url": "https://x/a.png"}
    items += [{"type": "computer_call_output", "call_id": id, "output": shot} for id in ("c2", "c1")]
    conversation = Conversation()
    for event in feed_all([{"role": "user", "content": "go"}, *items]):
        conversation.feed(event)
        assert validate(conversation.messages("openai-responses"), "openai-responses").valid
    assert conversation.messages("openai-responses")[1:] == items


def test_a_result_of_a_call_by_hand_comes_back_as_it_was_recorded():
    """A call in our own form is answered by the provider's message, however often it is read."""
    answer = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "x"}]}
    events = [
        Event.make("user", {"content": "go"}, seq=0),
        Event.make("tool_call", {"id": "c", "tool": "f", "params": {}}, seq=1),
        *(Event.make(type, data, seq=2) for type, data in tell(answer)),
    ]
    conversation = Conversation()
    for event in events:
        conversation.feed(event)
    assert conversation.messages("openai")[2] == answer
    conversation.feed(Event.make("user", {"content": "and?"}, seq=3))
    assert conversation.messages("openai")[2] == answer


def test_a_value_that_fights_back_breaks_every_rule():
    """Whatever a value does when it is looked at, checking it does not raise."""

    class Hostile(dict):
        def get(self, *_):
            raise RuntimeError

    assert check_alone([Hostile()], "openai").unknown == ["unreadable"]


def test_what_an_answer_says_of_itself_is_taken():
    """Model, usage, stop reason and id of OpenAI's answer; of a choice by itself what it has."""
    message = {"role": "assistant", "content": "x", "annotations": []}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    ((_, data),) = tell({"id": "c1", "model": "m", "choices": [choice], "usage": usage})
    about = {"model": "m", "usage": usage, "stop_reason": "stop", "response_id": "c1"}
    assert {name: data[name] for name in about} == about
    ((_, data),) = tell(choice)
    assert data == {"role": "assistant", "content": "x", "native": [], "stop_reason": "stop"}
    ((_, data),) = tell({"candidates": [{"finishReason": "SAFETY"}]})
    assert (data["content"], data["stop_reason"]) == ("", "SAFETY")


class Exploding:
    """An object that cannot tell itself."""

    def model_dump(self):
        """Fail."""
        raise RuntimeError("boom")


def test_an_object_that_cannot_tell_itself_is_refused():
    """Whatever its method raises is in the refusal."""
    with pytest.raises(InvalidData, match="boom"):
        tell(Exploding())


def test_what_was_taken_back_is_not_handed_out_as_it_was():
    """Retracted and summarised events are gone, also where a provider's message stands for them."""
    said = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in "abc"]
    told = [{"role": "developer", "content": "quiet"}, *said]
    conversation = Conversation()
    for event in feed_all(told):
        conversation.feed(event)
    assert conversation.messages("openai") == told
    conversation.feed(Event.make("retracted", {"seqs": [0, 1], "replacement": "gone"}, seq=4))
    conversation.feed(Event.make("compaction", {"summary": "short", "covers": [2, 2]}, seq=5))
    left = str(conversation.messages("openai"))
    assert "quiet" not in left
    assert "'a'" not in left
    assert "'b'" not in left
    assert said[2] in conversation.messages("openai")


def test_what_steers_one_provider_is_nothing_to_another():
    """An item for the Responses API alone is left out of a chat."""
    told = [{"role": "user", "content": "go"}, {"type": "compaction_trigger"}]
    assert told_by(*told, provider="openai-responses") == told
    assert told_by(*told, provider="openai") == told[:1]


def test_a_kept_call_without_an_id_is_kept_as_it_was():
    """Who runs a call again gets the provider's own message; so do words after its result."""
    told = [{"role": "user", "content": "go"}, {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]
    assert recover(feed_all(told), "openai", "keep").messages == told
    told.append({"role": "function", "name": "f", "content": "x"})
    told.append({"role": "user", "name": "ann", "content": "and?"})
    assert told_by(*told, provider="openai") == told


def test_results_and_words_of_a_request_are_one_again():
    """Parts of one request that are events of their own stand in one request, in their order."""
    call = {"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "c"}
    told = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "go"}]},
        {"kind": "response", "parts": [call], "model_name": "m"},
        {
            "kind": "request",
            "run_id": "r",
            "parts": [
                {"part_kind": "tool-return", "tool_name": "f", "content": "x", "tool_call_id": "c"},
                {"part_kind": "user-prompt", "content": "and?"},
            ],
        },
    ]
    assert told_by(*told, provider="pydantic-ai") == told


def test_an_item_that_nobody_knows_is_dropped_from_a_list():
    """A repaired list has no item of an unknown type, and the report says so."""
    told = sanitize([{"type": "telepathy"}, {"role": "user", "content": "x"}], "openai-responses")
    assert told.messages == [{"role": "user", "content": "x"}]
    assert any("telepathy" in issue.detail for issue in told.issues)


def test_what_was_said_aloud_is_told_in_words():
    """The transcript of OpenAI's audio, or its id where there is none."""
    for audio, words in (({"id": "a1"}, "(audio a1)"), ({"id": "a1", "transcript": "hey"}, "hey")):
        ((_, data),) = tell({"role": "assistant", "audio": audio})
        assert data["content"] == words
