"""Plain message lists of every provider."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast.errors import InvalidData
from holdfast.replay import PROVIDERS, to_dialect, validate

NEUTRAL = [
    {"role": "user", "content": "What is in a.txt?"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "read", "input": {"path": "a.txt"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "forty-two"}]},
    {"role": "assistant", "content": "It says forty-two."},
]


def bring(hf, tmp_path, value, name="talk.json"):
    """Write a file and import it."""
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return hf.import_(path)


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_the_list_of_any_provider(hf, tmp_path, provider):
    """Words, call and result arrive whatever the dialect, and go out again in all of them."""
    [id] = bring(hf, tmp_path, to_dialect(NEUTRAL, provider))
    assert [e.data["content"] for e in hf.events(id, types=["user", "assistant"])] == [
        "What is in a.txt?",
        "I look.",
        "It says forty-two.",
    ]
    [call] = hf.events(id, types=["tool_call"])
    [result] = hf.events(id, types=["tool_result"])
    assert (call.data["tool"], call.data["params"]) == ("read", {"path": "a.txt"})
    assert result.data["toolCallId"] == call.data["id"]
    for other in PROVIDERS:
        recovery = hf.recover(id, provider=other)
        assert validate(recovery.messages, other).valid


@pytest.mark.parametrize(
    "value",
    [
        {"model": "m", "system": "Be brief.", "messages": NEUTRAL},
        {"messages": [{"role": "system", "content": "Be brief."}, *NEUTRAL]},
        {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": to_dialect(NEUTRAL, "gemini")},
        {"instructions": "Be brief.", "input": to_dialect(NEUTRAL, "openai-responses")},
    ],
)
def test_the_body_of_a_request(hf, tmp_path, value):
    """A request to a provider brings its system prompt along."""
    [id] = bring(hf, tmp_path, value)
    recovered = hf.recover(id)
    assert recovered.system == "Be brief."
    assert recovered.messages[0] == {"role": "user", "content": "What is in a.txt?"}
    assert len(recovered.messages) == 4


def test_what_a_conversation_says_of_itself(hf, tmp_path):
    """Id, title, tags, times, model and usage are taken where they are given."""
    messages = [
        {"role": "user", "content": "Hi", "timestamp": "2026-01-02T03:04:05Z"},
        {"role": "assistant", "content": "Ho", "model": "m", "usage": {"input_tokens": 3, "output_tokens": 2}},
        "odd",
        {"role": "user", "content": ""},
    ]
    value = {"id": "conv-9", "title": "Greeting", "tags": ["small"], "messages": messages}
    [id] = bring(hf, tmp_path, value | {"messages": messages[:2]})
    row = hf.info(id)
    assert (row.title, row.tags, row.total_tokens) == ("Greeting", ("small",), 5)
    assert row.created_at == 1767323045000
    assert hf.state(id).links == {"messages": ["conv-9"]}
    assert hf.import_all([tmp_path / "talk.json"], "messages").unchanged
    assert bring(hf, tmp_path, value | {"messages": [*messages[:2], messages[3]]}) == [id]
    assert hf.import_all([tmp_path / "talk.json"]).unchanged


def test_lines(hf, tmp_path):
    """A message on each line is one session, a conversation on each line is many."""
    one = "\n".join(json.dumps(message) for message in NEUTRAL)
    assert len(bring(hf, tmp_path, one, "one.jsonl")) == 1
    talk = {"messages": NEUTRAL}
    many = "\n".join(json.dumps(talk) for _ in range(3))
    ids = hf.import_all([_written(tmp_path / "many.jsonl", many)], "messages").ids
    assert len(ids) == 3


def test_a_list_that_has_grown(hf, tmp_path):
    """The same file with more messages is the same session, and gets only those."""
    [id] = bring(hf, tmp_path, NEUTRAL[:2])
    assert bring(hf, tmp_path, NEUTRAL) == [id]
    assert hf.recover(id).messages == NEUTRAL


def test_odd_items_are_kept_as_they_came(hf, tmp_path):
    """What is no message is a frame."""
    path = _written(tmp_path / "odd.json", json.dumps([*NEUTRAL, 7, {"role": "user", "content": []}]))
    [row] = hf.import_all([path], "messages").sessions
    frames = [event.data["raw"] for event in hf.events(row.session_id, types=["frame"])]
    assert frames == [7, {"role": "user", "content": []}]


def _written(path, text):
    path.write_text(text)
    return path


SAID = {"role": "assistant", "content": [{"type": "text", "text": "Four."}]}
ITEM = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]}


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ({"id": "msg_1", "type": "message", **SAID}, False),
        ({"id": "c", "choices": [{"message": {"role": "assistant", "content": "Four."}}]}, False),
        ({"id": "r", "output": [{"type": "reasoning", "summary": []}, ITEM]}, False),
        ({"id": "r", "input": "2 + 2?", "output": [ITEM]}, True),
        ({"id": "r", "input": [{"role": "user", "content": "2 + 2?"}], "output": [ITEM]}, True),
        ({"messages": [{"role": "user", "content": "2 + 2?"}], "output": [ITEM]}, True),
    ],
)
def test_what_a_model_answered(tmp_path, value, asked):
    """A response comes in, alone or with the request that it answers."""
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({"model": "large", "usage": {"input_tokens": 3}, **value}))
    with holdfast.open(tmp_path / "store") as hf:
        [id] = hf.import_(path)
        talk = [message["content"] for message in hf.recover(id).messages if message["content"]]
        assert "Four." in str(talk[-1])
        assert ("2 + 2?" in talk) is asked
        assert (hf.info(id).model, hf.state(id).usage.input_tokens) == ("large", 3)


def test_a_conversation_on_each_line(tmp_path):
    """Each becomes a session of its own."""
    path = tmp_path / "tuning.jsonl"
    lines = [{"messages": [{"role": "user", "content": text}]} for text in ("one", "two")]
    path.write_text("\n".join(map(json.dumps, lines)))
    with holdfast.open(tmp_path / "store") as hf:
        assert len(hf.import_(path)) == 2


@pytest.mark.parametrize("value", [{"choices": []}, {"output": []}, {"choices": [{"message": 1}]}])
def test_no_answer(tmp_path, value):
    """What only looks like a response is refused."""
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(value))
    with holdfast.open(tmp_path / "store") as hf, pytest.raises(InvalidData):
        hf.import_(path)
