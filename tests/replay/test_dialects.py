"""The providers' forms: written, read, and back again; and what each can carry."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import UsageError
from holdfast.replay import PROVIDERS, Conversation, from_dialect, sanitize, to_dialect, validate

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "aGk="}
WEB = {"type": "url", "url": "https://x/y"}
FILE = {"type": "file", "file_id": "f1"}
PLAIN = {"type": "text", "media_type": "text/plain", "data": "a plain text"}


def text(value):
    return {"type": "text", "text": value}


def image(source):
    return {"type": "image", "source": source}


def document(source, **more):
    return {"type": "document", "source": source, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def use(identity="call_1", **given):
    return {"type": "tool_use", "id": identity, "name": "Read", "input": given}


def answer(content, identity="call_1", **more):
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **more}


TALK = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [text("I look"), use(path="a"), use("call_2", path="b")]},
    {"role": "user", "content": [answer("A"), answer("B", "call_2"), text("and?")]},
    {"role": "assistant", "content": "done"},
]


# --- round trips


@pytest.mark.parametrize("provider", [p for p in PROVIDERS if p != "mistral"])
@pytest.mark.req("B-8")
@pytest.mark.req("B-14")
def test_words_calls_and_results_make_the_round_trip(provider):
    """What every dialect can carry comes back as it went."""
    assert from_dialect(to_dialect(TALK, provider), provider) == TALK


def test_mistral_carries_the_same_under_its_own_ids():
    """Mistral's ids are nine letters or digits; calls and results keep their pairs."""
    back = from_dialect(to_dialect(TALK, "mistral"), "mistral")
    ids = [block["id"] for block in back[1]["content"][1:]]
    assert [block["tool_use_id"] for block in back[2]["content"][:2]] == ids
    assert all(len(identity) == 9 for identity in ids)
    assert back[0] == TALK[0]
    assert to_dialect(TALK, "mistral") == to_dialect(TALK, "mistral")


CARRIED = {
    "neutral": [image(PNG), image(WEB), image(FILE), document(PDF), document(WEB), document(PLAIN)],
    "anthropic": [image(PNG), image(WEB), image(FILE), document(PDF, title="t"), document(FILE)],
    "openai": [image(PNG), image(WEB), document(PDF, title="t")],
    "openai-responses": [
        image(PNG), image(WEB), image(FILE),
        document(PDF, title="t"), document(WEB), document(FILE),
    ],
    "gemini": [image(PNG), image(WEB), document(PDF), document(WEB)],
    "mistral": [image(PNG), image(WEB)],
    "pydantic-ai": [image(PNG), image(WEB), document(PDF), document(WEB)],
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_media_that_a_dialect_carries_make_the_round_trip(provider):
    """Images and documents that the dialect has a form for come back as they went."""
    talk = [user(text("look"), *CARRIED[provider])]
    written = to_dialect(talk, provider)
    assert validate(written, provider).errors == []
    assert from_dialect(written, provider) == talk


@pytest.mark.parametrize("provider", PROVIDERS)
def test_media_that_a_dialect_cannot_carry_are_put_into_words(provider):
    """Every dialect takes every image and document, as itself or in words, also inside results."""
    media = [image(PNG), image(WEB), image(FILE), document(PDF), document(WEB), document(FILE)]
    media += [document(PLAIN), document(FILE, title="Plan")]
    talk = [user(*media), {"role": "assistant", "content": [use()]}, user(answer([text("x"), *media]))]
    written = to_dialect(talk, provider)
    assert validate(written, provider).errors == []
    assert sanitize([*written, None], provider).messages == written
    shown = json.dumps(written)
    assert "a plain text" in shown
    assert "f1" in shown


def test_what_only_one_provider_understands_makes_the_round_trip_there():
    """Signed thinking at Anthropic, encrypted reasoning at OpenAI, thought signatures at Gemini."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "d"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    mused = {"type": "thinking", "thinking": "hm", "thought_signature": "c2ln"}
    signed = {**use(), "thought_signature": "c2ln"}
    for provider, own in (
        ("anthropic", [thought, redacted, use()]),
        ("pydantic-ai", [thought, use()]),
        ("openai-responses", [reasoning, use()]),
        ("gemini", [mused, {**text("x"), "thought_signature": "c2ln"}, signed]),
    ):
        talk = [TALK[0], {"role": "assistant", "content": own}, user(answer("x"))]
        assert from_dialect(to_dialect(talk, provider), provider) == talk
    mixed = [thought, redacted, reasoning, mused, text("so"), signed]
    talk = [TALK[0], {"role": "assistant", "content": mixed}, user(answer("x"))]
    for provider in PROVIDERS:
        assert validate(to_dialect(talk, provider), provider).errors == []


@pytest.mark.parametrize("provider", ["neutral", "anthropic", "gemini", "pydantic-ai"])
def test_failed_results_stay_failed(provider):
    """Dialects with a place for it keep that a result is an error."""
    talk = [TALK[0], {"role": "assistant", "content": [use()]}, user(answer("no", is_error=True))]
    assert from_dialect(to_dialect(talk, provider), provider) == talk


def test_system_messages_keep_their_place():
    """Plain conversion passes system messages on, where the list can hold them."""
    talk = [{"role": "system", "content": "be kind"}, TALK[0]]
    assert to_dialect(talk, "openai") == talk
    assert from_dialect(talk, "openai") == talk


def test_unknown_providers_are_refused():
    """A misspelt provider is the caller's error."""
    with pytest.raises(UsageError, match="unknown provider"):
        to_dialect([], "antropic")
    with pytest.raises(UsageError, match="unknown provider"):
        from_dialect([], 5)


def test_conversion_passes_over_what_it_cannot_read():
    """Blocks that are none, or stand where they cannot, are passed over by plain conversion."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    talk = [{"role": "user", "content": [thought, 5, text("x")]}, {"role": "king"}]
    assert from_dialect(talk, "neutral") == [{"role": "user", "content": "x"}]


# --- forms


def test_openai_chat_has_tool_messages():
    """Calls stand beside the content, results are tool messages, arguments are JSON text."""
    written = to_dialect(TALK, "openai")
    assert [message["role"] for message in written] == [
        "user", "assistant", "tool", "tool", "user", "assistant",
    ]  # fmt: skip
    assert written[1]["content"] == "I look"
    assert written[1]["tool_calls"][0] == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "Read", "arguments": '{"path":"a"}'},
    }
    assert written[2] == {"role": "tool", "tool_call_id": "call_1", "content": "A"}
    several = [TALK[0], {"role": "assistant", "content": [text("a"), text("b"), use()]}]
    assert to_dialect(several, "openai")[1]["content"] == [text("a"), text("b")]
    long_id = [TALK[0], {"role": "assistant", "content": [use("x" * 60)]}]
    assert len(to_dialect(long_id, "openai")[1]["tool_calls"][0]["id"]) == 40


def test_images_of_a_result_follow_the_tool_message():
    """A tool message holds text only: images of results go into the user message after it."""
    talk = [TALK[0], {"role": "assistant", "content": [use()]}, user(answer([text("x"), image(PNG)]))]
    tool, after = to_dialect(talk, "openai")[2:]
    assert [part["text"] for part in tool["content"]] == ["x", "(the image that follows)"]
    assert after["content"][0]["image_url"]["url"] == "data:image/png;base64,aGk="


def test_mistral_separates_words_from_calls():
    """Words and calls of one turn become two messages: version 3 takes no message with both."""
    written = to_dialect(TALK, "mistral")
    assert written[1] == {"role": "assistant", "content": "I look"}
    assert written[2]["content"] is None


def test_responses_are_items():
    """Calls, outputs and reasoning are items of their own, between messages."""
    kinds = [item.get("type", "message") for item in to_dialect(TALK, "openai-responses")]
    assert kinds == [
        "message", "message", "function_call", "function_call", "function_call_output",
        "function_call_output", "message", "message",
    ]  # fmt: skip


def test_gemini_has_roles_of_its_own_and_names_in_responses():
    """The assistant is the model; a response repeats the name, which starts with a letter."""
    written = to_dialect(TALK, "gemini")
    assert [content["role"] for content in written] == ["user", "model", "user", "model"]
    assert written[2]["parts"][0]["functionResponse"]["name"] == "Read"
    odd = [TALK[0], {"role": "assistant", "content": [{**use(), "name": "2nd"}]}, user(answer("x"))]
    assert to_dialect(odd, "gemini")[1]["parts"][0]["functionCall"]["name"] == "_2nd"
    lone = to_dialect([user(answer("x", "gone"))], "gemini")
    assert lone[0]["parts"][0]["functionResponse"]["name"] == "unknown_tool"


# --- reading other people's lists


def test_old_function_calls_are_read():
    """The chat form before tools, with names instead of ids, is paired by name."""
    messages = [
        TALK[0],
        {"role": "assistant", "function_call": {"name": "Read", "arguments": "{}"}},
        {"role": "function", "name": "Read", "content": "A"},
    ]
    result = sanitize(messages, "anthropic").messages
    assert [block["type"] for m in result[1:] for block in m["content"]] == ["tool_use", "tool_result"]


def test_custom_tool_calls_are_read():
    """A call to a custom tool keeps its input under one name."""
    call = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    messages = [
        TALK[0],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": {"error": True, "message": "no"}},
    ]
    result = sanitize(messages, "anthropic").messages
    assert result[1]["content"][0]["input"] == {"input": "ls"}
    assert result[2]["content"][0]["is_error"] is True


def test_gemini_without_ids_is_paired_by_name_and_order():
    """Calls and responses of one function are paired in their order; both spellings are read."""
    messages = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"n": n}}} for n in (1, 2)]},
        {
            "role": "function",
            "parts": [
                {"function_response": {"name": "f", "response": {"result": "one"}}},
                {"functionResponse": {"name": "f", "response": {"error": "two"}}},
                {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
                {"file_data": {"mime_type": "application/pdf", "file_uri": "https://x"}},
                {"mystery": 1},
            ],
        },
    ]
    result = sanitize(messages, "anthropic")
    answers = result.messages[2]["content"]
    assert [answer.get("content") for answer in answers[:2]] == ["one", "two"]
    assert answers[1]["is_error"] is True
    assert [block["type"] for block in answers[2:]] == ["image", "document"]
    assert from_dialect([{"role": "king", "parts": []}, {"parts": 5}], "gemini") == []


def test_gemini_responses_may_say_anything():
    """A response of other members is read as it is; one that says it failed has failed."""
    parts = [
        {"functionResponse": {"id": "a", "name": "f", "response": {"error": True, "more": 1}}},
        {"functionResponse": {"id": "b", "name": "f", "response": None}},
    ]
    read = from_dialect([{"role": "user", "parts": parts}], "gemini")[0]["content"]
    assert read[0] == answer('{"error":true,"more":1}', "a", is_error=True)
    assert read[1] == answer("(no output)", "b")


def test_responses_items_of_other_kinds_are_dropped():
    """Items that nobody can replay are dropped and reported, failed outputs are marked."""
    items = [
        {"role": "user", "content": "hi"},
        {"type": "item_reference", "id": "x"},
        {"type": "reasoning"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": {"error": True}},
    ]
    result = sanitize(items, "anthropic")
    assert result.messages[2]["content"][0]["is_error"] is True
    assert [issue.type for issue in result.issues] == ["invalid_structure", "invalid_block"]


def test_pydantic_ai_messages_are_read():
    """Every kind of part that carries conversation is read; others are dropped and reported."""
    messages = [
        {
            "kind": "request",
            "parts": [
                {"part_kind": "system-prompt", "content": "be kind"},
                {"part_kind": "user-prompt", "content": "hi"},
                {"part_kind": "novelty"},
                5,
            ],
        },
        {
            "kind": "response",
            "parts": [
                {"part_kind": "text", "content": "I look"},
                {"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "a"},
                {"part_kind": "tool-call", "tool_name": "f", "args": None, "tool_call_id": "b"},
            ],
        },
        {
            "kind": "request",
            "parts": [
                {"part_kind": "retry-prompt", "tool_name": "f", "tool_call_id": "a", "content": "again"},
                {
                    "part_kind": "tool-return",
                    "tool_name": "f",
                    "tool_call_id": "b",
                    "content": ["x", {"kind": "binary", "data": "aGk=", "media_type": "image/png"}],
                },
                {"part_kind": "retry-prompt", "content": "please"},
                {"part_kind": "retry-prompt", "content": [{"type": "missing"}]},
            ],
        },
        {"kind": "request", "parts": None},
    ]
    result = sanitize(messages, "anthropic")
    answers = result.messages[2]["content"]
    assert answers[0] == answer("again", "a", is_error=True)
    assert [block["type"] for block in answers[1]["content"]] == ["text", "image"]
    assert answers[2] == text("please")
    assert result.system == "be kind"


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"type": "image_url", "image_url": "https://x/y"}, image(WEB)),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}, image(PNG)),
        ({"type": "input_image", "file_id": "f1"}, image(FILE)),
        ({"type": "image_url", "image_url": "data:image/tiff;base64,aGk="}, None),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png"}}, None),
        ({"type": "image", "source": {"type": "smoke"}}, None),
        ({"type": "image"}, None),
        ({"type": "file", "file": {"file_id": "f1", "filename": "n"}}, document(FILE, title="n")),
        ({"type": "input_file", "file_url": "https://x/y"}, document(WEB)),
        ({"type": "file", "file": {"file_data": "data:text/csv;base64,aGk="}}, None),
        ({"type": "document", "source": {"type": "text", "data": " "}}, None),
        ({"type": "document", "source": {"type": "text", "data": "a plain text"}}, document(PLAIN)),
    ],
)
def test_media_of_all_shapes_are_read(part, shown):
    """Images and documents of several providers become the same neutral blocks, or are reported."""
    result = sanitize([{"role": "user", "content": [text("x"), part]}])
    blocks = result.messages[0]["content"]
    if shown is None:
        assert "invalid_block" in [issue.type for issue in result.issues]
        assert all(block["type"] == "text" for block in blocks if isinstance(block, dict))
    else:
        assert blocks == [text("x"), shown]


# --- what the providers' own types say


@pytest.mark.parametrize(
    ("provider", "module", "path"),
    [
        ("anthropic", "anthropic.types", "MessageParam"),
        ("openai", "openai.types.chat", "ChatCompletionMessageParam"),
        ("openai-responses", "openai.types.responses", "ResponseInputItemParam"),
        ("gemini", "google.genai.types", "Content"),
    ],
)
def test_the_providers_own_types_take_our_lists(maker, provider, module, path):
    """The provider's published types accept the shape of every message we write."""
    pydantic = pytest.importorskip("pydantic")
    types = pytest.importorskip(module)
    adapter = pydantic.TypeAdapter(list[getattr(types, path)])
    media = user(text("x"), *CARRIED[provider])
    adapter.validate_python(to_dialect([media], provider))
    adapter.validate_python(to_dialect(TALK, provider))
    for seed in range(40):
        conversation = Conversation()
        for event in maker.make_log(seed):
            conversation.feed(event)
        adapter.validate_python(conversation.messages(provider))


def test_pydantic_ai_loads_our_lists(maker):
    """Pydantic AI's own adapter loads every list we write, with equal words, calls and results."""
    pydantic_ai = pytest.importorskip("pydantic_ai.messages")
    talk = [user(text("x"), *CARRIED["pydantic-ai"]), *TALK[1:]]
    loaded = pydantic_ai.ModelMessagesTypeAdapter.validate_python(to_dialect(talk, "pydantic-ai"))
    again = json.loads(pydantic_ai.ModelMessagesTypeAdapter.dump_json(loaded))
    assert from_dialect(again, "pydantic-ai") == talk
    assert validate(again, "pydantic-ai").errors == []
