"""Importing sessions of ours from where another store has them."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.errors import InvalidData


@pytest.fixture
def hf(tmp_path):
    """A store of one's own."""
    with holdfast.open(tmp_path / "store") as library:
        yield library


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
        assert [event.raw for event in hf.events(id)][: len(expected)] == [
            event.raw for event in expected
        ]
    assert "Z" * 300_000 in str(hf.recover("second").messages)
    assert hf.state("first").permissions.allowlist == []
    assert hf.lineage("second").root == "first"
    assert {row.outcome for row in hf.import_all([tmp_path / "other"]).sessions} == {"unchanged"}


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
