"""Files of a version that nobody here knows are refused by that version, whatever their tool."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import TooNew

WHEN = "2026-01-31T10:00:00.000Z"


def lines(*records):
    """A file of JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records)


def pi(version):
    said = {"role": "user", "content": "hi"}
    head = {"type": "session", "version": version, "id": "p1", "timestamp": WHEN, "cwd": "/x"}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": WHEN, "message": said}
    return "p.jsonl", lines(head, entry)


def copilot(version):
    start = {"sessionId": "c1", "version": version, "producer": "copilot-agent"}
    said = {"content": "hi"}
    return "events.jsonl", lines(
        {"type": "session.start", "data": start, "id": "1", "timestamp": WHEN},
        {"type": "user.message", "data": said, "id": "2", "timestamp": WHEN},
    )


def cline(version):
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    value = {"version": version, "sessionId": "k1", "origin": {}, "messages": messages}
    return "k1.messages.json", json.dumps(value)


def acpx(version):
    messages = [{"User": {"id": "u1", "content": [{"Text": "hi"}]}}]
    value = {"schema": f"acpx.session.v{version}", "acpx_record_id": "r1", "messages": messages}
    return "r1.json", json.dumps(value)


def openagent(version):
    rows = [{"session_id": "2025-10-05_140001"}]
    return "index.json", json.dumps({"version": version, "sessions": rows})


def orbitmesh(version):
    state = {"messages": [{"role": "user", "content": "hi", "timestamp": WHEN}]}
    value = {"session_id": "o1", "provider_type": "acp", "provider_state": state}
    return "o1.json", json.dumps(value | {"version": version})


TOOLS = {"pi": pi, "copilot-cli": copilot, "cline": cline, "acpx": acpx, "orbitmesh": orbitmesh}


@pytest.mark.req("S0-83", "S4-5")
@pytest.mark.parametrize("tool", [*TOOLS, "openagent-terminal"])
@pytest.mark.parametrize("version", [9, "9.1"])
def test_a_version_that_is_not_known(hf, tmp_path, tool, version):
    """Nothing is recorded, and the error names the file, the version and the tool."""
    name, text = (TOOLS | {"openagent-terminal": openagent})[tool](version)
    (tmp_path / name).write_text(text)
    with pytest.raises(TooNew, match=f"version {version} of {tool}"):
        hf.import_(tmp_path / name)
    assert list(hf.list()) == []


@pytest.mark.parametrize("tool", TOOLS)
def test_a_version_that_is_known(hf, tmp_path, tool):
    """The session comes in."""
    name, text = TOOLS[tool](1)
    (tmp_path / name).write_text(text)
    report = hf.import_all([tmp_path / name])
    assert [(row.tool, row.outcome) for row in report.sessions] == [(tool, "imported")]


def test_a_snapshot_that_is_newer_than_the_session_beside_it(hf, tmp_path):
    """The session comes without it, and is told so."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "snapshots").mkdir()
    session = {"id": "o1", "provider_type": "acp", "state": "idle", "created_at": WHEN}
    messages = [{"kind": "user", "contents": "here", "timestamp": WHEN}]
    (tmp_path / "sessions" / "o1.json").write_text(json.dumps(session | {"messages": messages}))
    (tmp_path / "snapshots" / "o1.json").write_text(orbitmesh(9)[1])
    [row] = hf.import_all([tmp_path]).sessions
    assert "version 9" in row.problems[0]
    assert [message["content"] for message in hf.recover(row.session_id).messages] == ["here"]


@pytest.mark.parametrize("version", [True, [1], "new", float("inf")])
def test_a_version_that_is_no_number(hf, tmp_path, version):
    """It is no version that is known, unless it counts as one."""
    name, text = pi(version)
    (tmp_path / name).write_text(text)
    report = hf.import_all([tmp_path / name])
    assert [row.outcome for row in report.sessions] == ["imported" if version is True else "failed"]
