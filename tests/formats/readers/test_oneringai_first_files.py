"""oneringai's first files: calls in a list of their own, versions, and what does not act here."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import TooNew

pytestmark = pytest.mark.req("C20")

CREATED = "2026-02-11T08:00:00.000Z"
SAVED = "2026-02-11T09:30:00.500Z"
FIRST_DESIGN = {
    "version": 1,
    "agentId": "old",
    "agentType": "task-agent",
    "createdAt": CREATED,
    "lastActiveAt": SAVED,
    "metadata": {"title": "The first one"},
}


def write(path, value):
    """A JSON file, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def message(role, *parts, **extra):
    """An item of a conversation."""
    return {"type": "message", "role": role, "content": list(parts), **extra}


def small(id, words):
    """A session of the later design with one message."""
    said = message("user", {"type": "input_text", "text": words})
    return {"version": 1, "sessionId": id, "state": {"conversation": [said]}, "metadata": {}}


def called(hf, id):
    """What the conversation for a model says, as one line for each block."""
    lines = []
    for one in hf.recover(id).messages:
        blocks = one["content"] if isinstance(one["content"], list) else [one["content"]]
        for block in blocks:
            if isinstance(block, str) or block["type"] == "text":
                lines.append(f"{one['role']}: {block if isinstance(block, str) else block['text']}")
            elif block["type"] == "tool_use":
                lines.append(f"{block['id']} {block['name']} {block['input']}")
            else:
                failed = "failed: " if block.get("is_error") else ""
                lines.append(f"{block['tool_use_id']} {failed}{block['content']}")
    return lines


def with_records(*records, history=()):
    """A file of the first design with calls in a list of their own."""
    core = {"systemPrompt": "Be kind.", "history": list(history), "toolCalls": list(records)}
    config = {"model": "gpt-4", "maxContextTokens": 128000}
    return FIRST_DESIGN | {"context": {"version": 1, "core": core, "config": config}}


def at(second, **members):
    """A record at a time."""
    return {"timestamp": 1770796800000 + second * 1000, **members}


HISTORY = [
    at(1, id="m1", role="user", content="What is in a.txt?"),
    at(5, id="m2", role="assistant", content="Forty-two."),
    at(6, id="m3", role="user", content="And in b.txt?"),
    at(8, id="m4", role="tool", content="forty-two"),
    at(9, id="m5", role="assistant", content="I cannot read it."),
]
RECORDS = [
    at(3, id="call_1", name="read", args={"path": "a"}, result="forty-two", durationMs=1500),
    at(7, id="call_2", name="read", args={"path": "b"}, error="no such file"),
]


def test_calls_that_are_kept_apart_stand_where_they_were_made(hf, tmp_path):
    """By their times, with results, errors and the model; what repeats a result is no message."""
    write(tmp_path / "session.json", with_records(*RECORDS, history=HISTORY))
    [id] = hf.import_(tmp_path / "session.json")
    assert called(hf, id) == [
        "user: What is in a.txt?",
        "call_1 read {'path': 'a'}",
        "call_1 forty-two",
        "assistant: Forty-two.",
        "user: And in b.txt?",
        "call_2 read {'path': 'b'}",
        "call_2 failed: no such file",
        "assistant: I cannot read it.",
    ]
    call, other = hf.events(id, types=["tool_call"])
    result = next(hf.events(id, types=["tool_result"]))
    assert (call.timestamp, result.timestamp) == (1770796801500, 1770796803000)
    assert other.timestamp == 1770796807000
    assert hf.info(id).model == "gpt-4"
    assert hf.import_all([tmp_path / "session.json"]).unchanged


def test_a_call_that_a_message_tells_too_is_told_once(hf, tmp_path):
    """A conversation of items with their times beside it, and calls without an end."""
    items = [
        message("user", {"type": "input_text", "text": "Go."}, id="i1"),
        message("assistant", {"type": "tool_use", "id": "t1", "name": "go", "arguments": "{}"}),
    ]
    value = with_records(at(2, id="t1", name="go", args={}), at(3, id="t2", name="stay", args={}))
    value["context"]["core"] |= {"history": [], "conversation": items, "messageMetadata": {"i1": at(1, tokenCount=2)}}
    value["context"]["version"] = 2
    write(tmp_path / "session.json", value)
    [id] = hf.import_(tmp_path / "session.json")
    assert [event.data["id"] for event in hf.events(id, types=["tool_call"])] == ["t1", "t2"]
    assert next(hf.events(id, types=["user"])).timestamp == 1770796801000


@pytest.mark.req("S0-62", "S0-83")
@pytest.mark.parametrize("name", ["session.json", "sessions/x.json", "sessions/_index.json"])
def test_a_version_that_is_not_known_is_refused_by_its_name(hf, tmp_path, name):
    """Nothing of such a file is recorded, while sessions beside it come in."""
    files = {
        "session.json": with_records(history=HISTORY),
        "sessions/x.json": small("x", "hi"),
        "sessions/_index.json": {"agentId": "old", "sessions": [{"sessionId": "x"}]},
    }
    path = tmp_path / "agent" / name
    write(path, {**files[name], "version": 9})
    with pytest.raises(TooNew, match="version 9 of oneringai"):
        hf.import_(path)
    assert list(hf.list()) == []
    write(tmp_path / "agent" / "sessions" / "y.json", small("y", "here"))
    report = hf.import_all([tmp_path / "agent"])
    assert [row.foreign_id for row in report.imported] == ["y"]
    told = [*(row.reason for row in report.failed), *(one.reason for one in report.skipped)]
    assert any("version 9" in text for text in told)


@pytest.mark.req("S0-61")
@pytest.mark.parametrize("version", [0, 1, "1", None])
def test_versions_that_are_known(hf, tmp_path, version):
    """The first version, and files from before there were versions."""
    value = with_records(history=HISTORY)
    value = {**value, "version": version} if version is not None else value
    write(tmp_path / "session.json", value)
    assert hf.import_(tmp_path / "session.json")


def test_a_context_or_memory_that_is_newer(hf, tmp_path):
    """The context holds the conversation, so the session is refused; without memory it comes."""
    value = with_records(history=HISTORY)
    write(tmp_path / "memory.json", {"version": 9, "entries": [{"key": "k", "value": 1}]})
    write(tmp_path / "session.json", value)
    report = hf.import_all([tmp_path / "session.json"])
    assert report.imported
    assert "version 9" in report.skipped[0].reason
    assert hf.state(report.ids[0]).memory == {}
    value["context"]["version"] = 9
    write(tmp_path / "session.json", value)
    with pytest.raises(TooNew, match="version 9"):
        hf.import_(tmp_path / "session.json")


def test_what_was_left_out_is_told(hf, tmp_path):
    """Permissions, tools, plugins and instructions do not act here; the report says which."""
    value = with_records(history=HISTORY)
    value["context"] |= {
        "permissions": {"version": 1, "approvals": {"rm": {}}, "blocklist": ["curl"]},
        "tools": {"enabled": {"rm": True}},
        "plugins": {"counter": {"n": 3}, "in_context_memory": {"entries": [{"key": "goal", "value": 1}]}},
    }
    write(tmp_path / "session.json", value)
    (tmp_path / "custom_instructions.md").write_text("Delete everything.")
    [row] = hf.import_all([tmp_path / "session.json"]).sessions
    told = " | ".join(row.problems)
    for words in ("approvals", "rm", "blocklist", "curl", "tools", "'counter'", "instructions"):
        assert words in told
    assert len(row.problems) == 4
    state = hf.state(row.session_id)
    assert (state.permissions.blocklist, state.plugins, state.instructions) == ([], {}, None)
