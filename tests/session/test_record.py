"""A provider's messages, recorded as its library gives them, come back as they were."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import InvalidData, TooLarge, UsageError
from holdfast.replay import validate

openai_types = pytest.importorskip("openai.types.chat")


def events_of(hf, session_id):
    """What a session says, without who opened and closed it."""
    life = {"session_start", "opened", "closed"}
    return [event for event in hf.events(session_id) if event.type not in life]


def completion(**message):
    """A whole answer of OpenAI's chat completions."""
    return openai_types.ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "logprobs": None,
                    "message": {"role": "assistant", "content": None, "refusal": None, **message},
                }
            ],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4},
            },
        }
    )


CALL = {"id": "call_1", "type": "function", "function": {"name": "book", "arguments": '{"to":"Rome"}'}}


def test_a_chat_completion_is_recorded_whole(hf):
    """Words, calls, model, usage and stop reason of OpenAI's answer are taken; it comes back."""
    answer = completion(content="I book it.", tool_calls=[CALL], annotations=[])
    with hf.session("a") as s:
        s.record({"role": "user", "content": "Book a flight"})
        (event,) = s.record(answer)
        s.record({"role": "tool", "tool_call_id": "call_1", "content": "booked"})
        assert s.messages("openai") == [
            {"role": "user", "content": "Book a flight"},
            {"role": "assistant", "content": "I book it.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "booked"},
        ]
        usage = s.state.usage
    assert event.data["model"] == "gpt-5"
    assert event.data["stop_reason"] == "tool_calls"
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (10, 5, 4)
    assert hf.stats().tokens == 15


def test_a_choice_and_a_message_say_the_same_as_the_whole_answer(hf):
    """What is recorded of an answer, of its choice and of its message is the same message."""
    answer = completion(tool_calls=[CALL])
    found = []
    for name, part in enumerate([answer, answer.choices[0], answer.choices[0].message]):
        with hf.session(f"s{name}") as s:
            s.user("go")
            s.record(part)
            found.append(s.messages("openai", incomplete="keep"))
    assert found[0] == found[1] == found[2]
    assert found[0][1]["tool_calls"] == [CALL]


def test_calls_beside_the_content_are_not_swallowed(hf):
    """assistant(None, tool_calls=…) and add_turn(**message) record what ``record`` does."""
    with hf.session("a") as s:
        s.user("go")
        s.assistant(None, tool_calls=[CALL], model="gpt-5", usage={"prompt_tokens": 3})
        s.add_turn(role="tool", tool_call_id="call_1", content="OK")
        s.add_turn(role="assistant", content=None, tool_calls=[CALL | {"id": "call_2"}])
        s.tool_result("call_2", "again")
        first = s.messages("openai")
    with hf.session("b") as s:
        s.user("go")
        s.record({"role": "assistant", "tool_calls": [CALL]})
        s.record({"role": "tool", "tool_call_id": "call_1", "content": "OK"})
        s.record({"role": "assistant", "tool_calls": [CALL | {"id": "call_2"}]})
        s.record({"role": "tool", "tool_call_id": "call_2", "content": "again"})
        assert s.messages("openai") == first
    assert [event.type for event in events_of(hf, "a")] == [event.type for event in events_of(hf, "b")]
    assert hf.state("a").usage.input_tokens == 3


def test_the_old_form_of_calls_is_understood(hf):
    """function_call and the role function pair by name, and come back as they were."""
    told = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "2"},
    ]
    with hf.session("a") as s:
        s.record(told)
        assert s.messages("openai") == told
        assert [block["content"] for block in s.messages()[4]["content"]] == ["2"]


def test_an_old_call_that_was_interrupted_is_told_in_the_new_form(hf):
    """A stand-in result cannot answer a call without an id: the call is written with one."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "go"})
        s.record({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}})
        told = s.messages("openai", incomplete="mark")
    assert validate(told, "openai").valid
    assert told[1]["tool_calls"][0]["function"]["name"] == "f"
    assert "interrupted" in told[2]["content"]


def test_a_message_with_parts_of_every_kind_comes_back(hf):
    """Images, sound, files, refusals and audio are kept for OpenAI and told to others in words."""
    told = [
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
                {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                {"type": "file", "file": {"file_id": "file_1"}},
            ],
        },
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "refusal": "never"},
    ]
    with hf.session("a") as s:
        s.record(told)
        assert s.messages("openai") == told
        neutral = s.messages()
    assert validate(neutral, "neutral").valid
    assert "audio_1" in json.dumps(neutral)
    assert "never" in json.dumps(neutral)


def test_mistrals_messages_come_back(hf):
    """Messages that Mistral takes return to it as they were."""
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    told = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "f", "tool_call_id": "abcdefghi", "content": "x"},
        {"role": "assistant", "content": "So", "prefix": True},
    ]
    with hf.session("a") as s:
        s.record(told)
        assert s.messages("mistral") == told


def test_system_messages_stand_where_they_were_recorded(hf):
    """System and developer messages are part of OpenAI's list, and apart for others."""
    told = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "now in French"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "bien"},
        {"role": "system", "content": "stop"},
    ]
    with hf.session("a") as s:
        for at, one in enumerate(told):
            s.record(one)
            assert s.messages("openai") == told[: at + 1]
        assert [one["role"] for one in s.messages("anthropic")] == ["user", "assistant"]
    assert hf.recover("a", "openai").messages == told
    assert hf.recover("a", "openai", window_tokens=10_000).messages == told
    assert hf.recover("a", "anthropic").system == "be brief\n\nnow in French\n\nstop"


def test_retracted_messages_do_not_come_back(hf):
    """What was taken back is not handed out again, whatever it was recorded as."""
    part = {"role": "user", "content": [{"type": "text", "text": "secret"}]}
    with hf.session("a") as s:
        (system,) = s.record({"role": "developer", "content": "secret"})
        (said,) = s.record(part)
        (other,) = s.record({"role": "user", "content": [{"type": "text", "text": "other"}]})
        assert "secret" in json.dumps(s.messages("openai"))
        s.append("retracted", {"seqs": [system.seq, said.seq], "replacement": "gone"})
        assert "secret" not in json.dumps(s.messages("openai"))
        s.append("compaction", {"summary": "in short", "covers": [other.seq, other.seq]})
        assert "other" not in json.dumps(s.messages("openai"))


def test_a_tool_run_answers_a_recorded_call(hf):
    """A result by s.tool_result stands behind the provider's own message, in its form."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "go"})
        s.record({"role": "assistant", "tool_calls": [CALL]})
        s.tool_result("call_1", "booked")
        s.record({"role": "user", "content": "and?"})
        assert s.messages("openai") == [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "booked"},
            {"role": "user", "content": "and?"},
        ]


def test_a_reused_id_is_told_apart(hf):
    """An id that comes again is another call; then both are written in our own form."""
    with hf.session("a") as s:
        for _ in range(2):
            s.record({"role": "user", "content": "go"})
            s.record({"role": "assistant", "name": "bot", "tool_calls": [CALL]})
            s.record({"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "ok"}]})
        told = s.messages("openai")
    assert validate(told, "openai").valid
    assert told[1]["tool_calls"][0]["id"] != told[4]["tool_calls"][0]["id"]


def test_a_model_that_says_nothing_is_recorded(hf):
    """An empty answer is no reason to fail: its usage counts, and nothing is handed out for it."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "go"})
        (event,) = s.record(completion(content=""))
        s.record({"candidates": [{"finishReason": "SAFETY"}], "modelVersion": "g"})
        assert s.messages("openai") == [{"role": "user", "content": "go"}]
    assert event.data["content"] == ""
    assert hf.state("a").usage.requests == 1


NOT_UNDERSTOOD = {
    "a text": "hi",
    "a list with a number": [{"role": "user", "content": "x"}, 5],
    "an unknown member": {"role": "user", "content": "x", "mood": "good"},
    "NUL": {"role": "user", "content": "a\0b"},
    "not a number": {"role": "user", "parts": [{"text": "x", "partMetadata": {"a": float("nan")}}]},
}


@pytest.mark.parametrize("given", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD)
def test_what_is_not_understood_is_refused_before_anything_is_written(hf, given):
    """InvalidData with a remedy, and the log is as it was; of a list nothing is recorded."""
    with hf.session("a") as s:
        s.user("first")
        before = s.seq
        with pytest.raises(InvalidData) as refusal:
            s.record(given)
        assert s.seq == before
    assert refusal.value.remedy


def test_the_refusal_names_the_member(hf):
    """Who reads the error knows what to leave out."""
    with hf.session("a") as s:
        with pytest.raises(InvalidData, match="'mood'"):
            s.record({"role": "user", "content": "x", "mood": "good"})
        with pytest.raises(InvalidData, match="hologram"):
            s.record({"role": "user", "content": [{"type": "hologram"}]})
        with pytest.raises(InvalidData, match="boom"):
            s.record(Exploding())
        with pytest.raises(UsageError):
            s.add_turn("robot", "x")


class Exploding:
    """An object that cannot tell itself."""

    def model_dump(self):
        """Fail."""
        raise RuntimeError("boom")


def test_a_text_over_the_limit_is_too_large_and_nothing_is_written(hf):
    """The limits of the session hold for recorded messages too."""
    with hf.session("a") as s:
        s.user("first")
        with pytest.raises(TooLarge):
            s.record([{"role": "user", "content": "x"}, {"role": "user", "content": "y" * 2_000_000}])
        assert [event.type for event in s.events()][-1] == "user"
        assert len(s.messages()) == 1


def test_a_run_has_its_own_record(hf):
    """With ``run`` the events belong to it."""
    with hf.session("a") as s:
        events = s.record([{"role": "user", "content": "x"}], run="r1")
    assert [event.run for event in events] == ["r1"]


def test_secrets_in_a_recorded_message_are_replaced(store_root):
    """Redaction reaches what is kept beside the words."""
    from holdfast.library import Holdfast

    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    hf = Holdfast(store_root, timers=False, redaction="mark")
    with hf.session("a") as s:
        s.record({"role": "user", "name": "ann", "content": f"my key is {secret}, use it well please"})
    assert secret not in b"".join(event.raw for event in hf.events("a")).decode()
    with hf.session("a") as s:
        (message,) = s.messages("openai")
    assert message["name"] == "ann"
    assert secret not in message["content"]
    hf.close()


def test_a_recorded_message_takes_the_place_of_what_was_streamed(hf):
    """Pieces, then the whole message: it is said once."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "Hi"})
        s.delta("Hel")
        s.delta("lo")
        s.record({"role": "assistant", "content": "Hello"})
        assert s.messages("openai")[1:] == [{"role": "assistant", "content": "Hello"}]
        assert not s.state.uncovered_delta


def test_a_message_takes_the_place_of_what_was_streamed_of_it(hf):
    """Pieces by ``delta``, then the whole by ``assistant``: the model gets the words once."""
    with hf.session("streamed") as s:
        s.user("how deep?")
        for piece in ("About for", "ty metres,"):
            s.delta(piece)
        s.assistant("About forty metres, I think.")
        assert [m["content"] for m in s.messages()] == ["how deep?", "About forty metres, I think."]


BLOCKS = [
    {"type": "thinking", "thinking": "Rather far.", "signature": "x"},
    {"type": "text", "text": "It is "},
    {"type": "text", "text": "4 km."},
]


@pytest.mark.parametrize("said", [BLOCKS, BLOCKS[:1], BLOCKS[1:]])
def test_a_recorded_message_takes_the_place_of_thoughts_that_were_streamed(hf, said):
    """Thoughts and words are there once, whether the message has both, or only one of them."""
    with hf.session("thoughts") as s:
        s.user("how far?")
        s.delta("Rather", kind="thinking")
        s.delta(" far.", kind="thinking")
        s.delta("It is ")
        s.delta("4 km.")
        s.record({"role": "assistant", "content": said})
    found = hf.export("thoughts", "text").split()
    assert (found.count("Rather"), found.count("4")) == (1, 1)


@pytest.mark.parametrize("kind", ["thinking", "text"])
def test_streamed_thoughts_that_the_message_does_not_have_stay(hf, kind):
    """A message that thinks or says something else leaves what somebody saw."""
    with hf.session("others") as s:
        s.user("how far?")
        s.delta("Onceseen" if kind == "thinking" else "Rather far.", kind="thinking")
        s.delta("Onceseen" if kind == "text" else "It is 4 km.")
        s.record({"role": "assistant", "content": BLOCKS})
    found = hf.export("others", "text")
    assert found.count("Onceseen") == 1
    assert all(word in found for word in ("Rather far.", "It is", "4 km."))


def test_streamed_words_that_the_message_does_not_have_stay(hf):
    """An answer that was cut off and begun again otherwise is not lost with the new one."""
    with hf.session("cut") as s:
        s.user("how deep?")
        s.delta("Let me gue")
        s.user("no guesses")
        s.delta("Forty")
        s.assistant("Forty metres.")
        assert "Let me gue" in str(s.messages())
        assert str(s.messages()).count("Forty") == 1
    with hf.session("other") as s:
        s.user("how deep?")
        s.delta("Let me gue")
        s.assistant("Forty metres.")
        assert "Let me gue" in str(s.messages())


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SO = {"type": "text", "text": "So it is."}


def paused(s, *before):
    """Record an answer of Anthropic that was paused while it searches."""
    anthropic = pytest.importorskip("anthropic.types")
    usage = {"input_tokens": 1, "output_tokens": 1}
    s.record({"role": "user", "content": "Look it up"})
    s.record(
        anthropic.Message.model_validate(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-sonnet-5",
                "content": [*before, SEARCH],
                "stop_reason": "pause_turn",
                "stop_sequence": None,
                "usage": usage,
            }
        )
    )


@pytest.mark.parametrize("before", [[], [SO]])
def test_a_paused_answer_goes_back_as_it_is_and_goes_on(hf, before):
    """Anthropic gets a paused answer back with its open search, and then as one with the rest."""
    with hf.session("a") as s:
        paused(s, *before)
        assert s.messages("anthropic")[1] == {"role": "assistant", "content": [*before, SEARCH]}
        assert s.messages("anthropic") == s.messages("anthropic")
        s.record({"role": "assistant", "content": [FOUND, SO]})
        whole = s.messages("anthropic")
    assert whole[1:] == [{"role": "assistant", "content": [*before, SEARCH, FOUND, SO]}]
    assert validate(whole).valid


def test_a_paused_answer_goes_on_piece_by_piece(hf):
    """A turn that is paused again and again stays one answer, whose searches keep their order."""
    second = SEARCH | {"id": "srvtoolu_2"}
    found = FOUND | {"tool_use_id": "srvtoolu_2"}
    blocks = [SEARCH]
    with hf.session("a") as s:
        paused(s)
        for part in ([FOUND], [second], [found, SO]):
            s.record({"role": "assistant", "content": part})
            blocks += part
            assert s.messages("anthropic")[1:] == [{"role": "assistant", "content": blocks}]


@pytest.mark.parametrize("provider", ["neutral", "anthropic", "openai", "gemini", "pydantic-ai"])
@pytest.mark.parametrize("before", [[], [SO]])
def test_a_paused_answer_leaves_every_provider_a_valid_list(hf, provider, before):
    """Others are not told of an open search; nobody is once the user has spoken."""
    with hf.session("a") as s:
        s.thinking("hm")
        paused(s, *before)
        assert validate(s.messages(provider), provider).errors == []
        assert ("srvtoolu_1" in str(s.messages(provider))) is (provider in "neutral anthropic")
        s.user("Never mind")
        assert validate(s.messages(provider), provider).errors == []
        assert "srvtoolu_1" not in str(s.messages(provider))
    assert "incomplete_block" in [issue.type for issue in hf.recover("a", provider).issues]


def test_a_paused_answer_keeps_the_order_of_its_words_and_searches(hf):
    """What goes on from a pause is told in its own order, also to whom it is not handed back."""
    second = SEARCH | {"id": "srvtoolu_2"}
    found = FOUND | {"tool_use_id": "srvtoolu_2"}
    with hf.session("a") as s:
        paused(s)
        s.record({"role": "assistant", "content": [FOUND, SO, second, found]})
        s.user("Thank you")
        for provider in ("anthropic", "neutral"):
            said = s.messages(provider)[1]["content"]
            assert said == [SEARCH, FOUND, SO, second, found]
        told = [event.data["content"] for event in s.events() if event.type == "assistant"]
        assert told[1] == [FOUND, SO, second, found]


def test_what_an_advisor_said_comes_back(hf):
    """Anthropic's advisor is a server's tool, whose call and result stay a pair."""
    use = SEARCH | {"name": "advisor"}
    told = {"type": "advisor_result", "text": "Go left."}
    said = {"type": "advisor_tool_result", "tool_use_id": use["id"], "content": told}
    with hf.session("a") as s:
        s.user("Where to?")
        s.record({"role": "assistant", "content": [use, said, SO]})
        assert s.messages("anthropic")[1]["content"] == [use, said, SO]


def test_a_result_of_no_search_is_left_out(hf):
    """A server's result is handed out with its call only, whatever stands beside it."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    with hf.session("a") as s:
        s.user("Look it up")
        s.record({"role": "assistant", "content": [thought, FOUND]})
        assert "web_search_tool_result" not in str(s.messages("anthropic"))
        assert validate(s.messages("anthropic")).valid


CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {}}
CODED = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
RAN = {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0}
CAME = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": RAN | {"content": []}}


def asks(identity):
    """A call that running code makes."""
    return {"type": "tool_use", "id": identity, "name": "f", "input": {}, "caller": CODED}


def answers(identity):
    """A user's message with the result of a call."""
    result = {"type": "tool_result", "tool_use_id": identity, "content": "1"}
    return {"role": "user", "content": [result]}


PROGRAM = [
    {"role": "user", "content": "Add them up"},
    {"role": "assistant", "content": [CODE, asks("toolu_1")]},
    answers("toolu_1"),
    {"role": "assistant", "content": [asks("toolu_2")]},
    answers("toolu_2"),
    {"role": "assistant", "content": [CAME, SO]},
]


def test_calls_that_running_code_makes_go_back_with_the_code(hf):
    """Anthropic's code calls tools over several messages: each list is the one it expects."""
    with hf.session("a") as s:
        for count, message in enumerate(PROGRAM, 1):
            s.record(message)
            assert s.messages("anthropic", incomplete="keep") == PROGRAM[:count]
        s.user("Thank you")
        assert s.messages("anthropic")[:-1] == PROGRAM
        for provider in ("openai", "openai-responses", "gemini", "mistral", "pydantic-ai"):
            told = s.messages(provider)
            assert validate(told, provider).errors == []
            assert "srvtoolu_1" not in str(told)


def test_an_answer_with_its_container_is_recorded_with_it(hf):
    """The container that Anthropic wants back stands in the metadata of the answer's event."""
    anthropic = pytest.importorskip("anthropic.types")
    container = {"id": "container_1", "expires_at": "2026-01-20T14:30:00Z"}
    answer = anthropic.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": PROGRAM[1]["content"],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "container": container,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )
    with hf.session("a") as s:
        s.record(PROGRAM[0])
        (event,) = s.record(answer)
        assert event.data["metadata"]["container"]["id"] == "container_1"
        assert s.messages("anthropic", incomplete="keep") == PROGRAM[:2]


@pytest.mark.parametrize("count", range(2, len(PROGRAM)))
def test_code_that_nobody_waits_for_is_left_out(hf, count):
    """Once the user has spoken, code without a result is not handed out, nor named by its calls."""
    with hf.session("a") as s:
        s.record(PROGRAM[:count])
        s.user("Never mind")
        for provider in ("anthropic", "neutral"):
            assert validate(s.messages(provider), provider).errors == []
            assert "srvtoolu_1" not in str(s.messages(provider))
