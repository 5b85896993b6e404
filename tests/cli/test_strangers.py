"""A folder of another system given as the store, and ids that other tools know sessions by."""

from __future__ import annotations

import json

import pytest

import holdfast

CREATED = "2026-01-31T10:00:00.000Z"


def write(path, value):
    """A file of JSON, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def event_folder(root):
    """A folder of recorded events, for each session one."""
    line = {"type": "user", "timestamp": 1701234567890, "data": {"role": "user", "content": "hi"}}
    write(root / "session-abc123" / "events.jsonl", json.dumps(line) + "\n")


def oneringai(root):
    """A folder with an agent."""
    history = [{"role": "user", "content": "hi"}]
    core = {"core": {"history": history}}
    value = {"version": 1, "agentId": "helper", "createdAt": CREATED, "context": core}
    write(root / "agents" / "helper" / "session.json", value)


def orbitmesh(root):
    """A folder with a session among others of its kind, as ours are."""
    messages = [{"kind": "user", "contents": "hi", "timestamp": CREATED}]
    value = {"id": "a1b2c3d4", "provider_type": "acp", "state": "idle", "messages": messages}
    write(root / "sessions" / "a1b2c3d4.json", value)


FOLDERS = {"event-folder": event_folder, "oneringai": oneringai, "orbitmesh": orbitmesh}
UUID = "0f7c1a52-3f0e-4a55-9b6a-6f1f6f2a9c01"


def claude(home):
    """A session of Claude Code."""
    message = {"role": "user", "content": "hi"}
    line = {"type": "user", "uuid": "u1", "sessionId": UUID, "timestamp": CREATED}
    path = home / ".claude" / "projects" / "-x" / f"{UUID}.jsonl"
    return write(path, json.dumps(line | {"message": message}) + "\n")


def openagent(home):
    """A session of OpenAgent-Terminal."""
    about = {"session_id": "2025-10-04_114203", "created_at": "2025-10-04T11:42:03"}
    messages = [{"role": "user", "content": "hi", "timestamp": "2025-10-04T11:42:04"}]
    path = home / ".config" / "openagent-terminal" / "sessions" / f"{about['session_id']}.json"
    return write(path, {"metadata": about, "messages": messages})


def copilot(home):
    """A session of Copilot CLI, whose folder bears the id."""
    start = {"type": "session.start", "data": {"sessionId": UUID}, "id": "1", "timestamp": CREATED}
    return write(home / ".copilot" / "session-state" / UUID / "events.jsonl", json.dumps(start))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory, and a project in it."""
    place = tmp_path / "home"
    (place / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.chdir(place / "project")
    return place


@pytest.mark.parametrize("tool", FOLDERS)
@pytest.mark.parametrize("verb", [["list"], ["stats"], ["show", "-"], ["show", "nobody-here"]])
def test_a_store_that_is_the_folder_of_another_system(run, tmp_path, home, tool, verb):
    """Whatever is asked, the answer names the tool and the command that brings its sessions in."""
    root = tmp_path / "theirs"
    FOLDERS[tool](root)
    outcome = run(*verb, "--store", str(root))
    assert f"holds sessions of {tool}" in outcome.err
    assert f"holdfast import {root}" in outcome.err
    assert "no sessions" not in outcome.err
    assert run("import", str(root)).code == 0


@pytest.mark.parametrize("tool", FOLDERS)
def test_the_doctor_knows_the_folder_of_another_system(run, tmp_path, home, tool):
    """It is no store, and the doctor says what to do about it."""
    root = tmp_path / "theirs"
    FOLDERS[tool](root)
    outcome = run("doctor", "--store", str(root))
    assert outcome.code == 4
    assert f"sessions of {tool}" in outcome.out.replace("\n", " ")
    assert "holdfast import" in outcome.out


def test_an_empty_folder_and_a_store_of_ours_are_nobody_elses(run, tmp_path, home, trip):
    """Nothing is said where there is nothing, nor where sessions of ours are."""
    (tmp_path / "empty").mkdir()
    assert "There are no sessions" in run("list", "--store", str(tmp_path / "empty")).err
    assert "holds sessions" not in run("doctor").out
    with holdfast.open(tmp_path / "empty") as hf:
        assert hf.foreign.strangers() is None


def test_a_session_in_such_a_folder_by_its_own_id(run, tmp_path, home):
    """The command brings in that one session."""
    root = tmp_path / "theirs"
    event_folder(root)
    outcome = run("show", "session-abc123", "--store", str(root))
    assert outcome.code == 3
    assert f"holdfast import {root / 'session-abc123'}" in outcome.err


def test_a_folder_that_the_settings_name(run, home):
    """What is brought in goes into another store than the folder that it comes from."""
    root = home / "project" / ".agent-sessions"
    event_folder(root)
    outcome = run("list", store=root)
    assert f"holdfast import {root} --store .holdfast" in outcome.err


@pytest.mark.parametrize(("make", "id"), [(claude, UUID), (openagent, "2025-10-04_114203"), (copilot, UUID)])
def test_an_id_of_another_tool(run, home, make, id):
    """Before the import it leads to the file; afterwards it is a second name of the session."""
    path = make(home)
    outcome = run("show", id)
    assert outcome.code in (2, 3)
    assert f"holdfast import {path}" in outcome.err
    assert run("import", str(path)).code == 0
    assert "hi" in run("show", id).out or make is copilot
    assert run("show", id).code == 0
    assert run("show", id[:12]).code == 0


def test_an_id_that_two_tools_know(run, home, library):
    """Neither is taken for the other."""
    for make in (claude, copilot):
        assert run("import", str(make(home))).code == 0
    outcome = run("show", UUID)
    assert outcome.code == 2
    assert f"{UUID} is ambiguous: it matches 2 sessions:" in outcome.err
    assert len(library.foreign.imported(UUID)) == 2


def test_an_id_that_nobody_knows(run, home, trip):
    """The error is as it was, with what may have been meant."""
    outcome = run("show", f"{trip}s")
    assert outcome.code == 3
    assert "did you mean" in outcome.err
    assert "import" not in outcome.err


def test_a_word_is_no_id_of_a_file_that_has_it_in_its_name(run, home):
    """Only what can be nothing else leads to a file."""
    write(home / ".claude" / "projects" / "-x" / "my-sessions.jsonl", claude(home).read_text())
    assert "import" not in run("show", "sessions").err


@pytest.mark.parametrize("how", ["path", "config"])
def test_a_program_is_warned(tmp_path, caplog, how):
    """Whoever opens such a folder, by its path or by an agent-config.json, finds it in the log."""
    root = tmp_path / ".agent-sessions"
    event_folder(root)
    storage = {"type": "filesystem", "options": {"path": str(root)}}
    config = write(tmp_path / "agent-config.json", {"storage": storage})
    opened = holdfast.open(root) if how == "path" else holdfast.open(config=str(config))
    with opened:
        [record] = caplog.records
        assert f"{root} holds sessions of event-folder" in record.getMessage()
        assert "import" in record.getMessage()
    caplog.clear()
    with holdfast.open(tmp_path / "own") as hf, hf.session("mine") as session:
        session.user("hi")
    with holdfast.open(tmp_path / "own"):
        assert caplog.records == []
