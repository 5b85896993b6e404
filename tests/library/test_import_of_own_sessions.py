"""Importing sessions of ours from where another store has them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.catalog import Catalog
from holdfast.errors import InvalidData, TooNew
from holdfast.testing import strategies


def record_whole(root):
    """A store with a session that has a payload beside its log, and a fork of it."""
    with holdfast.open(root) as other:
        with other.session("first", title="Whole") as session:
            session.append("user", {"content": "hello"})
            session.append("tool_call", {"id": "1", "tool": "read", "params": {}})
            session.append("tool_result", {"toolCallId": "1", "result": "Z" * 300_000})
            session.append("permission", {"approvals": {}, "allowlist": ["rm"]})
            session.snapshot()
        other.fork("first", new_id="second")
        with other.session("second") as session:
            session.append("user", {"content": "another way"})
        with other.session("third") as session:
            session.append("user", {"content": "packed"})
        other.archive("third")
        return {id: list(other.events(id)) for id in ("first", "second", "third")}


def test_a_store_of_ours_as_a_path(hf, tmp_path):
    """Its sessions come in whole: the same ids, bytes and payloads, forks among them."""
    events = record_whole(tmp_path / "other")
    report = hf.import_all([tmp_path / "other"])
    assert sorted(report.ids) == sorted(events)
    assert not report.errors
    for id, expected in events.items():
        assert [event.raw for event in hf.events(id)][: len(expected)] == [event.raw for event in expected]
    assert "Z" * 300_000 in str(hf.recover("second").messages)
    assert hf.state("first").permissions.allowlist == []
    assert hf.lineage("second").root == "first"
    assert {row.outcome for row in hf.import_all([tmp_path / "other"]).sessions} == {"unchanged"}


def test_a_session_that_is_here_is_found_without_the_catalogue(hf, tmp_path, monkeypatch):
    """A bundle of a session that has its own id here is compared with it at once; only another id is searched."""
    with hf.session("trip") as session:
        session.user("hello")
    bundle = tmp_path / "trip.holdfast"
    hf.export("trip", "bundle", to=bundle)
    asked = []
    monkeypatch.setattr(Catalog, "created_at", lambda _, time: asked.append(time) or [])
    assert [row.outcome for row in hf.import_all([bundle]).sessions] == ["unchanged"]
    assert not asked
    hf.erase("trip")
    assert [row.outcome for row in hf.import_all([bundle]).sessions] == ["imported"]
    assert len(asked) == 1


def test_a_log_of_ours_as_a_path(hf, tmp_path):
    """What is kept beside it comes with it; a torn last line is left out."""
    events = record_whole(tmp_path / "other")
    path = tmp_path / "other" / "sessions" / "first" / "events.jsonl"
    with path.open("ab") as file:
        file.write(b'{"seq": 99, "ty')
    assert hf.import_(path) == ["first"]
    assert len(list(hf.events("first"))) >= len(events["first"])
    assert "Z" * 300_000 in str(hf.recover("first").messages)


@pytest.mark.parametrize(
    "base", ["[]", '{"bytes": 5}', '{"bytes": [-1]}', '{"bytes": [99999999]}', '{"bytes": [true]}']
)
def test_a_fork_of_ours_that_is_damaged(hf, tmp_path, base):
    """One session that cannot be put together is told; the others come in."""
    record_whole(tmp_path / "other")
    (tmp_path / "other" / "sessions" / "second" / "base.json").write_text(base)
    report = hf.import_all([tmp_path / "other"])
    assert "first" in report.ids
    assert "second" not in report.ids
    assert [one.source for one in report.skipped] == ["second"]


def test_a_damaged_log_of_ours(hf, tmp_path):
    """What is whole comes in and the rest is told; what it allows is not allowed here."""
    record_whole(tmp_path / "other")
    path = tmp_path / "other" / "sessions" / "first" / "events.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[3] = lines[3][:20] + b"XX" + lines[3][22:]
    path.write_bytes(b"\n".join(lines))
    report = hf.import_all([path.parent])
    [row] = report.sessions
    assert (row.outcome, report.errors) == ("imported", [])
    assert "damaged" in row.problems[0]
    with hf.session("first", repair="auto") as session:
        assert session.state.permissions.allowlist == []


@pytest.mark.parametrize("whole_folder", [True, False])
def test_what_to_do_about_a_damaged_archive(hf, tmp_path, whole_folder):
    """Whoever imports a file is told of the file, not how to record a value."""
    record_whole(tmp_path / "other")
    path = tmp_path / "other" / "sessions" / "third" / "events.jsonl.zst"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InvalidData, match="ends too soon") as caught:
        hf.import_(path.parent if whole_folder else path)
    assert "get the file again" in caught.value.remedy.lower()


def test_a_damaged_archive_of_ours(hf, tmp_path):
    """It is named where nothing of it can be read."""
    record_whole(tmp_path / "other")
    path = tmp_path / "other" / "sessions" / "third" / "events.jsonl.zst"
    path.write_bytes(path.read_bytes()[:40])
    report = hf.import_all([tmp_path / "other"])
    assert sorted(report.ids) == ["first", "second"]
    assert [one.source for one in report.skipped] == ["sessions/third/events.jsonl.zst"]


def record_full(hf):
    """A session with something of everything that a document can carry."""
    with hf.session("doc", agent_id="helper", title="Whole") as session:
        session.user("Which port?")
        session.append("tag", {"tag": "a"})
        with session.tool("read", {"path": "conf"}) as call:
            call.result = "Z" * 300_000
        session.assistant("8080", model="m-1", usage={"input_tokens": 7, "output_tokens": 2})
        session.memory.set("colour", {"is": "blue"}, description="of the sky")
        session.variables["count"] = 3
        session.append("todo_update", {"todos": [{"content": "rest", "status": "pending"}]})
        session.append("task", {"task": "ports"})
        session.append("link", {"kind": "ticket", "id": "T-1"})
    return hf.export("doc", "json")


def test_a_json_document_of_ours_comes_back_as_itself(hf, tmp_path):
    """The same id, events and payloads: nothing that a bundle has is lost but raw bytes."""
    with holdfast.open(tmp_path / "other") as other:
        document = record_full(other)
        expected = (other.state("doc"), other.recover("doc"), other.info("doc"), list(other.events("doc")))
    (tmp_path / "doc.json").write_text(document)
    [row] = hf.import_all([tmp_path / "doc.json"]).sessions
    assert (row.session_id, row.tool, row.outcome, row.problems) == ("doc", "holdfast", "imported", ())
    assert hf.state("doc") == expected[0]
    assert hf.recover("doc") == expected[1]
    assert hf.info("doc").agent_id == expected[2].agent_id == "helper"
    assert [event.data for event in hf.events("doc")] == [event.data for event in expected[3]]
    assert hf.state("doc").memory["colour"].value == {"is": "blue"}
    assert hf.import_all([tmp_path / "doc.json"]).unchanged


def test_a_json_document_where_its_session_is(hf):
    """Nothing changes; an older one adds nothing, and a newer one what it has more."""
    older = record_full(hf)
    assert hf.import_all([older.encode()]).unchanged
    with hf.session("doc") as session:
        session.user("And the host?")
    newer = hf.export("doc", "json")
    assert hf.import_all([older.encode()]).unchanged
    with holdfast.open("memory:") as other:
        other.import_(older.encode())
        report = other.import_all([newer.encode()])
        assert [row.outcome for row in report.sessions] == ["updated"]
        assert other.state("doc") == hf.state("doc")


UNWRITABLE = {"session_start", "opened", "closed", "repaired"}
ACTING = {"permission", "plugin_state", "tools", "config", "imported"}  # taken back by an import
COMPARED = (
    "title",
    "tags",
    "agent_id",
    "memory",
    "encoded",
    "todos",
    "message_count",
    "usage",
    "links",
    "task",
    "metadata",
)


@given(strategies.logs(), st.lists(strategies.events(), max_size=5))
@settings(max_examples=25)
def test_any_session_survives_its_json_document(log, more):
    """State and conversation are equal after export and import, whatever was recorded."""
    log += [event for event in more if event.type not in ACTING]
    with holdfast.open("memory:") as one, holdfast.open("memory:") as other:
        with one.session("any", agent_id="helper") as session:
            session.user("hello")
            for event in log:
                if event.type not in UNWRITABLE:
                    session.append(event.type, event.data, run=event.run)
        [id] = other.import_(one.export("any", "json").encode())
        assert one.export("any", "jsonl") == other.export(id, "jsonl")
        before, after = one.state(id), other.state(id)
        for member in COMPARED:
            assert getattr(before, member) == getattr(after, member)
        assert other.recover(id) == one.recover(id)


def test_what_a_json_document_allows_is_not_allowed_here(hf):
    """As with a bundle: permissions, plugins and settings are taken back by one more event."""
    with holdfast.open("memory:") as other:
        with other.session("doc") as session:
            session.user("hi")
            session.append("permission", {"approvals": {}, "allowlist": ["rm"]})
            session.append("config", {"model": "theirs"})
        hf.import_(other.export("doc", "json").encode())
    assert hf.state("doc").permissions.allowlist == []
    assert hf.state("doc").config == {}


@pytest.mark.req("S0-83")
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_document_of_a_later_version(hf, indent):
    """It is refused by its version, and taken for no other tool's."""
    value = json.loads(record_full(hf)) | {"version": 9}
    with pytest.raises(TooNew, match="version 9 of Holdfast"):
        hf.import_(json.dumps(value, indent=indent).encode())


def test_a_json_document_that_is_damaged(hf):
    """Cut short or changed, it is refused as ours; nothing is made of a part of it."""
    document = record_full(hf)
    value = json.loads(document)
    value["events"][2]["seq"] = "two"
    broken = (document[: len(document) // 2], json.dumps(value))
    with holdfast.open("memory:") as other:
        for text in broken:
            with pytest.raises(InvalidData):
                other.import_(text.encode())
        assert list(other.list()) == []


def test_lines_of_ours_in_a_file_of_any_name(hf, tmp_path):
    """A log that was exported comes back under its id; payloads that lie elsewhere are told."""
    with holdfast.open(tmp_path / "other") as other:
        record_full(other)
        other.export("doc", "jsonl", to=tmp_path / "doc.jsonl")
        expected = other.state("doc")
    [row] = hf.import_all([tmp_path / "doc.jsonl"]).sessions
    assert (row.session_id, row.tool) == ("doc", "holdfast")
    assert row.problems == ("1 large payloads of it are not in the source",)
    assert hf.state("doc") == expected


def test_a_document_of_ours_is_no_other_tools_whoever_says_so(hf):
    """A reader that is named by mistake refuses it."""
    document = record_full(hf).encode()
    with holdfast.open("memory:") as other, pytest.raises(InvalidData):
        other.import_(document, "openagent-terminal")


def test_messages_with_a_session_id_are_still_another_tools(hf):
    """What only looks like a document of ours is read by the reader that knows it."""
    about = {"session_id": "2025-10-05_140001", "created_at": "2025-10-05T14:00:00"}
    messages = [{"role": "user", "content": "hi", "timestamp": "2025-10-05T14:00:01"}]
    value = {"metadata": about, "messages": messages}
    [row] = hf.import_all([json.dumps(value).encode()]).sessions
    assert row.tool == "openagent-terminal"
