"""Messages of Anthropic and contents of Gemini, recorded as given, come back as they were."""

from __future__ import annotations

import json

import pytest

from holdfast.model import Event
from holdfast.replay import Conversation, validate

anthropic_types = pytest.importorskip("anthropic.types")
gemini_types = pytest.importorskip("google.genai.types")


def anthropic_message(*content, **members):
    """A whole answer of Anthropic."""
    return anthropic_types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "content": list(content),
            "usage": {"input_tokens": 9, "output_tokens": 2, "cache_read_input_tokens": 5},
            **members,
        }
    )


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "book", "input": {"to": None}}


def test_anthropics_message_is_recorded_whole(hf):
    """Thinking, words, calls, model, usage and stop reason are taken; blocks come back exactly."""
    answer = anthropic_message(THOUGHT, {"type": "text", "text": "I book."}, USE)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "ok"}]}
    last = {"role": "user", "content": [result, {"type": "text", "text": "thanks"}]}
    with hf.session("a") as s:
        s.record({"role": "user", "content": "Book"})
        (event,) = s.record(answer)
        events = s.record(last)
        told = s.messages("anthropic")
    assert told[1]["content"] == [THOUGHT, {"type": "text", "text": "I book."}, USE]
    assert told[2] == last
    assert [one.type for one in events] == ["tool_result", "user"]
    assert event.data["stop_reason"] == "tool_use"
    assert hf.state("a").usage.cache_read_tokens == 5


def test_blocks_of_an_answer_may_be_given_as_a_message(hf):
    """The usual {"role": …, "content": response.content} holds objects, and is understood."""
    answer = anthropic_message(THOUGHT, USE)
    with hf.session("a") as s:
        s.record({"role": "user", "content": "Book"})
        s.record({"role": "assistant", "content": answer.content})
        assert s.messages("anthropic", incomplete="keep")[1]["content"] == [THOUGHT, USE]


MARK = {"cache_control": {"type": "ephemeral"}}

pytestmark = pytest.mark.stores(timers=False)
EVERYTHING = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "read", **MARK},
            {
                "type": "document",
                "title": "t",
                "citations": {"enabled": True},
                "source": {"type": "text", "media_type": "text/plain", "data": "d"},
            },
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "c"}]}},
            {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "f"}]},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}, **MARK},
            {"type": "container_upload", "file_id": "file_1"},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "redacted_thinking", "data": "x"},
            {
                "type": "server_tool_use",
                "id": "srvtoolu_1",
                "name": "web_search",
                "input": {"query": "q"},
                "caller": {"type": "direct"},
            },
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "found", "citations": [{"type": "char_location", "cited_text": "d"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, "caller": {"type": "direct"}},
            {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "b", **MARK},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "tool_reference", "tool_name": "g"}],
                "is_error": True,
            },
        ],
    },
]


def test_everything_that_anthropic_takes_comes_back(hf):
    """Cache marks, citations, documents, searches, uploads and server tools are not lost."""
    with hf.session("a") as s:
        for one in EVERYTHING:
            s.record(one)
        assert s.messages("anthropic") == EVERYTHING
        assert validate(s.messages("openai"), "openai").valid


def gemini_answer(*parts):
    """A whole answer of Gemini."""
    types = gemini_types
    return types.GenerateContentResponse(
        candidates=[
            types.Candidate(content=types.Content(role="model", parts=list(parts)), finish_reason="STOP", index=0)
        ],
        model_version="gemini-3",
        usage_metadata=types.GenerateContentResponseUsageMetadata(
            prompt_token_count=8,
            candidates_token_count=2,
            thoughts_token_count=3,
            total_token_count=13,
            cached_content_token_count=4,
        ),
    )


def as_contents(told):
    """Messages as Google's library reads them."""
    return [gemini_types.Content.model_validate_json(json.dumps(one)) for one in told]


def test_geminis_answer_is_recorded_whole(hf):
    """Calls, signatures, thoughts, usage and model are taken; contents come back as objects."""
    types = gemini_types
    contents = [
        types.Content(role="user", parts=[types.Part(text="Book")]),
        types.Content(
            role="model",
            parts=[
                types.Part(text="hm", thought=True),
                types.Part(
                    function_call=types.FunctionCall(name="book", args={"to": None}),
                    thought_signature=b"\xff\xfe\xfd\xfb",
                ),
                types.Part(function_call=types.FunctionCall(name="book", args={})),
            ],
        ),
        types.Content(
            role="user",
            parts=[
                types.Part.from_function_response(name="book", response={"seat": 1}),
                types.Part.from_function_response(name="book", response={"seat": 2}),
            ],
        ),
    ]
    with hf.session("a") as s:
        s.record(contents[0])
        (event,) = s.record(gemini_answer(*contents[1].parts))
        s.record(contents[2])
        told = s.messages("gemini")
        results = s.messages()[2]["content"]
    assert as_contents(told) == contents
    assert validate(told, "gemini").valid
    assert ["1" in block["content"] for block in results] == [True, False]
    assert event.data["stop_reason"] == "STOP"
    usage = hf.state("a").usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (8, 5, 4)


def test_parts_that_only_gemini_takes_come_back(hf):
    """Code, its outcome, sound and pictures of the model return to Gemini; others read words."""
    types = gemini_types
    contents = [
        types.Content(role="user", parts=[types.Part.from_bytes(data=b"x", mime_type="audio/wav")]),
        types.Content(
            role="model",
            parts=[
                types.Part(executable_code=types.ExecutableCode(code="1+1", language="PYTHON")),
                types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2")),
                types.Part.from_bytes(data=b"png", mime_type="image/png"),
            ],
        ),
        types.Content(
            role="user", parts=[types.Part(file_data=types.FileData(file_uri="gs://a", mime_type="video/mp4"))]
        ),
        types.Content(role="model", parts=[types.Part(text="", thought_signature=b"sig")]),
    ]
    with hf.session("a") as s:
        for one in contents:
            s.record(one)
        assert as_contents(s.messages("gemini")) == contents
        for provider in ("anthropic", "openai"):
            assert validate(s.messages(provider), provider).valid


def test_a_candidate_and_a_dict_in_either_spelling_are_understood(hf):
    """Snake case, as google-genai's dicts have it, returns as it was given."""
    told = {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "f", "args": {}}}]}
    with hf.session("a") as s:
        s.record({"parts": [{"text": "hi"}]})
        s.record({"content": told, "finish_reason": "STOP"})
        s.record(
            {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "f", "response": {"output": "x"}}}]}
        )
        assert s.messages("gemini")[0] == {"role": "user", "parts": [{"text": "hi"}]}
        assert s.messages("gemini")[1] == told


def asked(said):
    """The conversation in which a user asked and an assistant said this."""
    conversation = Conversation()
    conversation.feed(Event.make("user", {"role": "user", "content": "go"}, seq=0))
    conversation.feed(Event.make("assistant", said, seq=1))
    return conversation


def test_a_servers_tool_use_may_end_what_was_recorded_as_its_message():
    """A paused message ends with its open call, for its provider and until somebody speaks."""
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    said = {"role": "assistant", "content": [use], "native": []}
    paused = asked(said)
    assert paused.messages("anthropic")[1]["content"] == [use]
    for provider in ("openai", "gemini", "mistral", "pydantic-ai", "openai-responses"):
        assert len(paused.messages(provider)) == 1
    assert paused.issues == []
    assert len(asked({"role": "assistant", "content": [use]}).messages()) == 1
    orphan = asked(said | {"content": [found]})
    assert len(orphan.messages()) == 1
    assert [issue.type for issue in orphan.issues] == ["incomplete_block"]


def test_geminis_library_reads_the_bytes_in_plain_messages(hf):
    """An image and a thought signature are the same bytes once Google's library has read them."""
    data = b"\xff\xef\x00"
    image = gemini_types.Part.from_bytes(data=data, mime_type="image/png")
    signed = gemini_types.Part(text="so", thought_signature=data)
    with hf.session("a") as s:
        s.record(gemini_types.Content(role="user", parts=[image]))
        s.record(gemini_types.Content(role="model", parts=[signed]))
        told = [gemini_types.Content.model_validate(one) for one in s.messages("gemini")]
    assert told[0].parts[0].inline_data.data == data
    assert told[1].parts[0].thought_signature == data
