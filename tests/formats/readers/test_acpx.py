"""acpx' sessions."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast.formats.readers.acpx import READER

SESSION = {
    "schema": "acpx.session.v1",
    "acpx_record_id": "rec-1",
    "acp_session_id": "s-1",
    "cwd": "/home/kim/zoo",
    "title": "The zoo",
    "created_at": "2026-01-02T03:04:05.000Z",
    "acpx": {"current_model_id": "m-1"},
    "request_token_usage": {"u1": {"input_tokens": 7, "output_tokens": 2}},
}


def messages():
    use = {"id": "c1", "name": "Read", "raw_input": "{}", "input": {"path": "a"}}
    bad = {"id": "c2", "name": "Bash", "raw_input": '{"cmd":"x"}', "input": None}
    open_call = {"id": "c3", "name": "Bash", "input": {}}
    content = [
        {"Thinking": {"text": "Look.", "signature": "c2ln"}},
        {"RedactedThinking": "b3BhcXVl"},
        {"Text": "I look."},
        {"ToolUse": use},
        {"ToolUse": bad},
        {"ToolUse": open_call},
    ]
    results = {
        "c1": {"tool_use_id": "c1", "is_error": False, "content": {"Text": "a lion"}},
        "c2": {"tool_use_id": "c2", "is_error": True, "content": {}, "output": {"code": 1}},
    }
    said = [
        {"Text": "Who lives here?"},
        {"Mention": {"uri": "file:///a", "content": "a list"}},
        {"Image": {"source": "data:image/png;base64,aGk="}},
    ]
    return [
        {"User": {"id": "u1", "content": said}},
        {"Agent": {"content": content, "tool_results": results}},
        "Resume",
        {"Agent": {"content": [{"Text": "A lion."}], "tool_results": {}}},
    ]


def snapshot(**members):
    return json.dumps(SESSION | {"messages": messages()} | members, indent=2).encode()


@pytest.mark.req("C11")
def test_a_snapshot_arrives_whole(kit):
    """Turns, thoughts, calls with results, cost, title, place and time."""
    told = kit.one(READER, kit.source("rec-1.json", snapshot()))
    assert told.counts() == (1, 2, 2, 3, 2)
    assert [block["type"] for block in told.said()[0]] == ["text", "text", "image"]
    kinds = [d.type for d in told.drafts if d.type.startswith("tool")]
    assert kinds == ["tool_call"] * 3 + ["tool_result"] * 2
    assert told.of("tool_call")[1].data["params"] == {"cmd": "x"}
    assert told.of("tool_result")[0].data["result"] == "a lion"
    assert told.of("tool_result")[1].data["result"] == {"code": 1}
    assert told.of("tool_result")[1].data["is_error"] is True
    assert told.of("usage")[0].data["input_tokens"] == 7
    assert {d.data["model"] for d in told.of("assistant") + told.of("usage")} == {"m-1"}
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.title, foreign.cwd) == ("rec-1", "The zoo", "/home/kim/zoo")
    assert foreign.created_at == 1767323045000


def test_a_grown_snapshot_gives_the_same_keys_for_what_it_held_before(kit):
    """A second import can tell what is new."""
    more = [*messages(), {"User": {"id": "u2", "content": [{"Text": "And?"}]}}]
    before = kit.one(READER, kit.source("rec-1.json", snapshot())).drafts
    after = kit.one(READER, kit.source("rec-1.json", snapshot(messages=more))).drafts
    keys = [d.key for d in before if d.key.startswith("i.u1")]
    assert keys == [d.key for d in after if d.key.startswith("i.u1")]
    assert any(d.key == "i.u2/1" for d in after)


def update(what, **members):
    params = {"sessionId": "s-1", "update": {"sessionUpdate": what, **members}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(kind, words):
    return update(kind, content={"type": "text", "text": words})


def stream():
    prompt = [
        {"type": "text", "text": "Who?"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "a list"}},
    ]
    shown = [{"type": "content", "content": {"type": "text", "text": "a lion"}}]
    return [
        {"schema": "acpx.session.journal.v1", "type": "segment"},
        {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/home/kim/zoo"}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {"prompt": prompt}},
        chunk("agent_thought_chunk", "Look."),
        chunk("agent_message_chunk", "I "),
        chunk("agent_message_chunk", "look."),
        update("tool_call", toolCallId="c1", kind="read", rawInput={"path": "a"}, status="pending"),
        update("tool_call_update", toolCallId="c1", status="completed", content=shown),
        update("tool_call", toolCallId="c2", title="Run", status="failed", rawOutput={"code": 1}),
        update("tool_call", title="odd"),
        chunk("agent_message_chunk", "A lion."),
    ]


def test_frames_are_read_where_there_is_no_snapshot(kit):
    """Streamed text is put together again."""
    told = kit.one(READER, kit.source("rec-1.stream.ndjson", kit.jsonl(*stream())))
    assert told.counts() == (1, 2, 1, 2, 2)
    assert told.said("assistant") == ["I look.", "A lion."]
    assert told.of("tool_result")[1].data["is_error"] is True
    assert (told.foreign.foreign_id, told.foreign.cwd) == ("rec-1", "/home/kim/zoo")


def test_a_snapshot_goes_before_its_frames(kit):
    """They tell the same session."""
    files = {"rec-1.json": snapshot(), "rec-1.stream.ndjson": kit.jsonl(*stream())}
    (told,) = kit.read(READER, kit.folder(files))
    assert told.foreign.title == "The zoo"


def test_a_snapshot_on_one_line_is_no_stream(kit):
    """Its schema has the same name as that of frames; it is still one session."""
    data = json.dumps(json.loads(snapshot(schema="acpx.session.v1"))).encode()
    assert len(kit.read(READER, kit.source("rec-1.json", data))) == 1


@pytest.fixture
def place(tmp_path):
    """A folder of acpx with one session, told by a snapshot and by the frames beside it."""
    folder = tmp_path / "home" / ".acpx" / "sessions"
    folder.mkdir(parents=True)
    (folder / "rec-1.json").write_bytes(snapshot())
    lines = [json.dumps(record) + "\n" for record in stream()]
    (folder / "rec-1.stream.1.ndjson").write_text("".join(lines[:5]))
    (folder / "rec-1.stream.ndjson").write_text("".join(lines[5:]))
    (folder / "rec-1.stream.lock").write_text("")
    (folder / "index.json").write_text('{"schema": "acpx.index.v1", "entries": []}')
    return folder


@pytest.mark.parametrize("name", ["", "rec-1.json", "rec-1.stream.ndjson", "rec-1.stream.1.ndjson"])
def test_a_conversation_comes_once_whichever_of_its_files_is_named(tmp_path, place, name):
    """Folder, snapshot and frames tell one session, whose words are said once."""
    with holdfast.open(tmp_path / "store") as hf:
        report = hf.import_all([place / name])
        assert [row.outcome for row in report.sessions] == ["imported"]
        assert (report.skipped, report.errors) == ([], [])
        [id] = hf.import_(place / name)
        assert hf.info(id).message_count == 5
        said = [event.data["content"] for event in hf.events(id, types=["assistant"])]
        assert said == ["I look.", "A lion."]
        assert hf.import_all([place]).unchanged


def test_a_scan_finds_a_folder_of_acpx_once(tmp_path, place, monkeypatch):
    """One place is looked at, so that the frames beside a snapshot are no place of their own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with holdfast.open(tmp_path / "store") as hf:
        assert [one.path for one in hf.foreign.places("acpx")] == [str(place)]
        report = hf.import_all([one.path for one in hf.foreign.places()])
        assert ([row.outcome for row in report.sessions], report.skipped) == (["imported"], [])


def test_frames_in_several_files_are_one_session_in_their_order(kit):
    """The file with the highest number is the oldest; the one without is the newest."""
    lines = stream()
    files = {
        "rec-1.stream.ndjson": kit.jsonl(*lines[9:]),
        "rec-1.stream.1.ndjson": kit.jsonl(*lines[5:9]),
        "rec-1.stream.2.ndjson": kit.jsonl(*lines[:5]),
    }
    (told,) = kit.read(READER, kit.folder(files))
    assert told.foreign.foreign_id == "rec-1"
    assert told.counts() == (1, 2, 1, 2, 2)
    assert told.said("assistant") == ["I look.", "A lion."]
