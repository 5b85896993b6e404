"""Bringing sessions in: what is added, what is left alone, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

import holdfast
from holdfast.errors import Forbidden, InvalidData, KeyMissing, Locked, NotFound, TooLarge, UsageError
from holdfast.formats import Bounds
from holdfast.library import Place
from holdfast.model import Limits

SAMPLES = os.environ.get("HOLDFAST_SAMPLES")  # read before the tests' clean environment hides it


def line(number, text, type="user"):
    """A recorded event."""
    return json.dumps({"type": type, "timestamp": 1758741017000 + number, "data": {"content": text}})


def write_log(folder, *texts):
    """A folder with a log of user messages."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line(number, text) for number, text in enumerate(texts)]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def said(hf, id):
    """What the user said."""
    return [event.data["content"] for event in hf.events(id, types=["user"])]


@pytest.fixture
def log(tmp_path):
    """A recorded session of two messages."""
    return write_log(tmp_path / "logs" / "talk", "one", "two")


# -- again and again


def test_the_same_ids_the_second_time(hf, log):
    """A second import of the same adds nothing, and does not even open the session."""
    [id] = hf.import_(log)
    before = b"".join(hf.store.log(f"sessions/{id}").read())
    assert hf.import_(str(log)) == [id]
    assert b"".join(hf.store.log(f"sessions/{id}").read()) == before


def test_a_grown_source_adds_what_is_new(hf, log):
    """Only the new events come, after those that are here, with an account of the import."""
    [id] = hf.import_(log)
    write_log(log, "one", "two", "two", "three")
    [row] = hf.import_all([log]).updated
    assert (row.session_id, row.events) == (id, 2)
    assert said(hf, id) == ["one", "two", "two", "three"]
    assert len(list(hf.events(id, types=["imported"]))) == 2
    assert len(list(hf.events(id, types=["link"]))) == 1


def test_a_source_that_lost_something(hf, log):
    """What was brought in stays when the source is cut, changed or gone."""
    [id] = hf.import_(log)
    (log / "events.jsonl").write_text(line(1, "two"))
    assert [row.session_id for row in hf.import_all([log]).unchanged] == [id]
    write_log(log, "ONE", "two")
    hf.import_(log)
    assert said(hf, id) == ["one", "two", "ONE"]


def test_a_session_that_went_on_here(hf, log):
    """What was added here stays, and a title that a person gave is not overwritten."""
    talk = log.parent / "talk.json"
    value = {"id": "t", "title": "Theirs", "messages": [{"role": "user", "content": "hi"}]}
    talk.write_text(json.dumps(value))
    [id] = hf.import_(talk)
    value["title"] = "Theirs, changed"
    talk.write_text(json.dumps(value))
    hf.import_(talk)
    assert hf.info(id).title == "Theirs, changed"
    with hf.session(id) as session:
        session.title = "Mine"
        session.user("going on")
    value["title"] = "Theirs, again"
    value["messages"].append({"role": "assistant", "content": "ho"})
    talk.write_text(json.dumps(value))
    hf.import_(talk)
    assert hf.info(id).title == "Mine"
    assert said(hf, id) == ["hi", "going on"]
    assert [event.data["content"] for event in hf.events(id, types=["assistant"])] == ["ho"]


def test_a_session_that_is_open_in_this_process(hf, log):
    """The live session gets what is new."""
    [id] = hf.import_(log)
    write_log(log, "one", "two", "three")
    with hf.session(id) as session:
        hf.import_(log)
        assert session.messages()[-1]["content"][-1]["text"] == "three"
    assert hf.info(id).status == "idle"


def test_one_that_is_open_elsewhere_does_not_stop_the_others(hf, log, tmp_path):
    """It is reported as failed, or raised as Locked once all others are in."""
    write_log(tmp_path / "logs" / "also", "a")
    [id] = hf.import_(log)
    write_log(log, "one", "two", "three")
    write_log(tmp_path / "logs" / "zeta", "z")
    lease = hf.store.lease(f"sessions/{id}")
    lease.acquire("someone", 30_000)
    try:
        report = hf.import_all([log.parent])
        assert [row.outcome for row in report.sessions] == ["imported", "failed", "imported"]
        assert report.failed[0].session_id == id
        assert id not in report.ids
        with pytest.raises(Locked):
            hf.import_(log)
    finally:
        lease.release()
    assert hf.import_(log) == [id]
    assert said(hf, id)[-1] == "three"


def test_a_dry_run_records_nothing(hf, log):
    """It says what would come."""
    report = hf.import_all([log], dry_run=True)
    assert [(row.outcome, row.events) for row in report.sessions] == [("imported", 3)]
    assert hf.list() == []


# -- what is kept


def test_where_it_came_from(hf, log, tmp_path):
    """Tool, file name, digest and time are told; the way to the file is not."""
    [id] = hf.import_(log)
    [event] = hf.events(id, types=["imported"])
    assert (event.data["format"], event.data["source"]) == ("event-folder", "events.jsonl")
    assert len(event.data["sha256"]) == 64
    assert event.data["foreign_id"] == "talk"
    assert str(tmp_path) not in json.dumps([event.data for event in hf.events(id)])


def test_times_are_those_of_the_source(hf, log):
    """The session is as old as it was there, and as idle."""
    [id] = hf.import_(log)
    row = hf.info(id)
    assert (row.created_at, row.updated_at) == (1758741017000, 1758741017001)
    assert row.status == "idle"
    assert hf.verify(id).ok


def test_a_source_without_times(hf, tmp_path):
    """The file's own time stands in."""
    path = tmp_path / "talk.json"
    path.write_text('[{"role": "user", "content": "hi"}]')
    os.utime(path, (1_700_000_000, 1_700_000_000))
    [id] = hf.import_(path)
    assert hf.info(id).created_at == 1_700_000_000_000


def test_the_source_is_only_read(hf, tmp_path):
    """No byte, name or time of it changes, of a live SQLite database either."""
    import sqlite3

    folder = tmp_path / "tool"
    folder.mkdir()
    write_log(folder / "talk", "one")
    connection = sqlite3.connect(folder / "sessions.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE sessions (id TEXT)")
    connection.commit()
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(folder.rglob("*"))}
    hf.import_all([folder])
    after = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(folder.rglob("*"))}
    connection.close()
    assert after == before


def test_messages_and_sessions_that_are_large(tmp_path):
    """A message above the usual limit arrives; source lines give way if a session is too large."""
    limits = Limits(message_bytes_max=1_000, session_bytes_max=60_000, blob_bytes_min=20_000)
    with holdfast.open(tmp_path / "store", limits=limits) as hf:
        big = write_log(tmp_path / "big", "x" * 15_000, "y" * 15_000, "z" * 10_000)
        [row] = hf.import_all([big]).sessions
        assert "left out" in row.problems[0]
        assert [len(text) for text in said(hf, row.session_id)] == [15_000, 15_000, 10_000]
        huge = write_log(tmp_path / "huge", *["x" * 15_000] * 6)
        report = hf.import_all([huge])
        assert isinstance(report.errors[0], TooLarge)
        assert not hf.exists(report.failed[0].session_id)


def test_many_events_come_in_batches(hf, tmp_path):
    """A long log arrives whole and in order."""
    texts = [f"message {number}" for number in range(1_203)]
    [id] = hf.import_(write_log(tmp_path / "long", *texts))
    assert said(hf, id) == texts
    assert hf.info(id).message_count == 1_203


# -- what may be named


def test_bytes_and_open_files(hf, log):
    """A source may be bytes, or a file that is open in binary mode."""
    data = (log / "events.jsonl").read_bytes()
    [one] = hf.import_(data)
    assert hf.import_(io.BytesIO(data)) == [one]
    with pytest.raises(UsageError):
        hf.import_(io.StringIO("text"))


def test_archives(hf, log, tmp_path):
    """A zip file is a folder; what it holds is seen by its content."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(log / "events.jsonl", "talk/events.jsonl")
        archive.writestr("notes.txt", "nothing")
    assert hf.import_(path) == hf.import_(log)


def test_a_format_that_is_named(hf, log):
    """Only that reader is asked; in a folder it takes what is its own."""
    (log.parent / "talk.json").write_text('[{"role": "user", "content": "hi"}]')
    report = hf.import_all([log.parent], "messages")
    assert [row.tool for row in report.sessions] == ["messages"]
    assert [row.tool for row in hf.import_all([log.parent]).sessions] == ["event-folder", "messages"]
    with pytest.raises(UsageError):
        hf.import_(log, "notepad")


def test_a_folder_of_everything(hf, log):
    """What one reader takes from a folder leaves the rest to the others."""
    folder = log.parent
    (folder / "talk.json").write_text('[{"role": "user", "content": "hi"}]')
    (folder / "dump.json").write_text('{"id": "w", "conversation_history": []}')
    sessions = folder / "sessions"
    sessions.mkdir()
    (sessions / "m.json").write_text('{"id": "m", "provider_type": "acp", "state": "idle"}')
    about = {"session_id": "o", "title": "Files"}
    (sessions / "o.json").write_text(json.dumps({"metadata": about, "messages": []}))
    report = hf.import_all([folder])
    assert sorted(row.tool for row in report.sessions) == [
        "event-folder",
        "messages",
        "openagent-terminal",
        "orbitmesh",
        "woodwork",
    ]
    assert {row.outcome for row in report.sessions} == {"imported"}


@pytest.mark.parametrize("data", [b"", b"plain words", b"{}", b"[1, 2]", b"\x00\x01\x02"])
def test_what_no_tool_wrote(hf, tmp_path, data):
    """Anything else is refused, and nothing is recorded."""
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InvalidData):
        hf.import_(path)
    assert hf.list() == []


def test_paths_that_are_none(hf, tmp_path):
    """Nothing there, an empty path, a pipe, a device."""
    with pytest.raises(NotFound):
        hf.import_(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe")
    for path in ("", "a\0b", tmp_path / "pipe", "/dev/null"):
        with pytest.raises(UsageError):
            hf.import_(path)
    with pytest.raises(InvalidData):
        hf.import_(tmp_path)


def test_a_closed_library(log, tmp_path):
    """Nothing can be brought into a store that was closed."""
    hf = holdfast.open(tmp_path / "store")
    hf.close()
    with pytest.raises(UsageError):
        hf.import_(log)


# -- what is not trusted


def test_symlinks_and_pipes_in_a_folder_are_passed_over(hf, log, tmp_path):
    """Nothing outside of the folder is reached, and nothing is waited for."""
    secret = write_log(tmp_path / "secret", "hidden")
    (log.parent / "link").symlink_to(secret)
    (log.parent / "link.jsonl").symlink_to(secret / "events.jsonl")
    os.mkfifo(log.parent / "pipe.jsonl")
    report = hf.import_all([log.parent])
    assert [row.foreign_id for row in report.sessions] == ["talk"]
    told = " ".join(one.reason for one in report.skipped)
    assert told.count("symlink") == 2
    assert "pipe.jsonl" in told


def test_a_symlink_that_the_user_names(hf, log, tmp_path):
    """The path itself is the user's choice."""
    (tmp_path / "shortcut").symlink_to(log)
    assert hf.import_(tmp_path / "shortcut") == hf.import_(log)


def test_a_folder_that_may_not_be_listed(hf, log, monkeypatch):
    """It is told, and the rest comes."""
    (log.parent / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    report = hf.import_all([log.parent])
    assert [row.foreign_id for row in report.sessions] == ["talk"]
    assert "Permission denied" in report.skipped[0].reason


def test_a_file_that_is_swapped_for_a_pipe(tmp_path, log):
    """Between looking and reading a file may become something else; it is not read then."""
    from holdfast.storage import look_outside

    found = look_outside(log / "events.jsonl")
    assert found.beside("a/b") is None
    assert found.beside("none") is None
    (log / "events.jsonl").unlink()
    os.mkfifo(log / "events.jsonl")
    with pytest.raises(Forbidden):
        list(found.files["events.jsonl"].chunks(10))
    assert look_outside(log).beside("events.jsonl") is None


def test_folders_are_bounded(hf, tmp_path):
    """Too many files are refused; too deep folders are passed over and told."""
    deep = tmp_path / "deep"
    write_log(deep.joinpath(*"abcdefghijklmnop"), "too deep")
    write_log(deep / "near", "near")
    report = hf.import_all([deep])
    assert [row.foreign_id for row in report.sessions] == ["near"]
    assert "folders" in report.skipped[0].reason
    write_log(deep / "also", "also")
    report = hf.import_all([deep], bounds=Bounds(files_max=1))
    assert isinstance(report.errors[0], TooLarge)


def test_a_damaged_file_does_not_stop_the_others(hf, log):
    """What is whole comes, and the report says what is not."""
    (log.parent / "bomb.json.gz").write_bytes(gzip.compress(b"[" + bytes(3_000_000)))
    (log.parent / "torn.json").write_text('{"sessionId": "x", "state": {"conversation": [')
    report = hf.import_all([log.parent])
    assert [row.foreign_id for row in report.sessions] == ["talk"]


def test_a_reader_that_fails_is_told(hf, log, monkeypatch):
    """A reader that stumbles over one file is an error of that file, not of the import."""
    from holdfast.formats.readers import event_folder

    monkeypatch.setattr(event_folder, "_draft", lambda *_: {}["x"])
    report = hf.import_all([log])
    assert "could not be read" in report.skipped[0].reason
    assert isinstance(report.errors[0], InvalidData)


_MEASURE = """
import re, sys
import holdfast
with holdfast.open(sys.argv[1]) as hf:
    report = hf.import_all(sys.argv[2:])
status = open("/proc/self/status").read()
peak = int(re.search("VmHWM:\\s+([0-9]+) kB", status)[1]) // 1024
print(peak, len(report.errors), len(report.sessions))
"""


def _measure(tmp_path, *files):
    command = [sys.executable, "-c", _MEASURE, str(tmp_path / "store"), *map(str, files)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_bombs_cost_little_memory(tmp_path):
    """Expansion, nesting and counts are bounded before they are paid for."""
    from backports import zstd

    files = {
        "gzip.json.gz": gzip.compress(b'{"messages":[' + bytes(30 << 20)),
        "zstd.jsonl.zst": zstd.compress(bytes(128 << 20)),
        "deep.json": b"[" * 1_000_000,
        "lists.json": b'{"messages":[' + b"[]," * 2_000_000 + b"0]}",
        "number.json": b'{"messages":[' + b"9" * 5_000_000 + b"]}",
        "lines.jsonl": (line(1, "x") + "\n").encode() * 300_000,
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    long = tmp_path / "long.json"
    with long.open("wb") as sparse:
        sparse.write(b'{"messages":["')
        sparse.truncate(1 << 30)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("talk/events.jsonl", bytes(30 << 20))
    paths = [*(tmp_path / name for name in files), long, tmp_path / "bomb.zip"]
    peak, errors, sessions = _measure(tmp_path, *paths)
    assert (errors, sessions) == (len(paths), 0)
    assert peak < 128


# -- bundles


@pytest.fixture
def other(tmp_path):
    """Another store."""
    with holdfast.open(tmp_path / "other") as library:
        yield library


def test_a_bundle_comes_back_byte_for_byte(hf, other):
    """Seen by its content, as a file, in a folder, and the same the second time."""
    with hf.session("trip") as session:
        session.user("hello")
    data = hf.export("trip", format="bundle")
    assert other.import_(data) == ["trip"]
    assert other.import_(data) == ["trip"]
    logs = [b"".join(library.store.log("sessions/trip").read()) for library in (hf, other)]
    assert logs[0] == logs[1]
    assert [row.tool for row in other.import_all([data], "bundle").unchanged] == ["holdfast"]


def test_nothing_in_a_bundle_acts_here(hf, other, tmp_path):
    """Approvals, plugins, tools and settings are in the log, and not in force."""
    with hf.session("armed") as session:
        session.user("hello")
        session.append("permission", {"tool": "rm", "decision": "allow", "scope": "session"})
        session.append("plugin_state", {"name": "p", "state": {"x": 1}})
        session.append("tools", {"enabled": {"rm": True}})
        session.append("config", {"model": "theirs"})
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "armed.holdfast").write_bytes(hf.export("armed", format="bundle"))
    assert other.import_(folder) == ["armed"]
    state = other.state("armed")
    assert (state.permissions.approvals, state.plugins, state.config) == ({}, {}, {})
    assert state.tools.enabled == {}
    kept = [event.type for event in other.events("armed")]
    assert {"permission", "plugin_state", "tools", "config"} <= set(kept)
    assert other.import_(folder) == ["armed"]
    assert len(list(other.events("armed"))) == len(kept)


def test_a_sealed_bundle_needs_its_passphrase(hf, other):
    """Without it nothing comes; with it everything does."""
    pytest.importorskip("cryptography")
    with hf.session("secret") as session:
        session.user("hush")
    data = hf.export("secret", format="bundle", passphrase="correct horse")
    with pytest.raises(KeyMissing):
        other.import_(data)
    assert other.import_(data, passphrase="correct horse") == ["secret"]


# -- scanning


def test_places_of_tools(tmp_path, monkeypatch, hf):
    """Where tools keep sessions is found below home, and where a variable says."""
    home = tmp_path / "home"
    (home / ".config/openagent-terminal/sessions").mkdir(parents=True)
    mesh = tmp_path / "mesh"
    mesh.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ORBITMESH_BASE_DIR", str(mesh))
    assert hf.foreign.places() == [
        Place("orbitmesh", str(mesh)),
        Place("openagent-terminal", str(home / ".config/openagent-terminal/sessions")),
    ]
    assert hf.foreign.places("orbitmesh") == [Place("orbitmesh", str(mesh))]
    with pytest.raises(UsageError):
        hf.foreign.places("notepad")


def test_signs_of_change(log):
    """A place shows that it changed without being read."""
    place = Place("event-folder", str(log))
    before = place.signs()
    assert before == place.signs()
    write_log(log, "one", "two", "three")
    assert place.signs() != before
    file = Place("event-folder", str(log / "events.jsonl"))
    assert list(file.signs()) == [str(log / "events.jsonl")]


def test_samples_of_all_tools(hf):
    """Every sample imports, recovers valid for every provider, and imports unchanged again."""
    if not SAMPLES:
        pytest.skip("HOLDFAST_SAMPLES names no folder of agents' files")
    from holdfast.replay import PROVIDERS, validate

    report = hf.import_all([SAMPLES])
    assert (report.errors, report.failed) == ([], [])
    assert len(report.ids) >= 19
    for id in report.ids:
        assert hf.info(id).status == "idle"
        for provider in PROVIDERS:
            assert validate(hf.recover(id, provider=provider).messages, provider).valid
    assert {row.outcome for row in hf.import_all([SAMPLES]).sessions} == {"unchanged"}


def test_one_path_of_several_is_missing(hf, tmp_path):
    """The others still come in, and the report says which did not."""
    os.mkfifo(tmp_path / "pipe")
    paths = [write_log(tmp_path / "one", "a"), tmp_path / "gone", tmp_path / "pipe", write_log(tmp_path / "two", "b")]
    report = hf.import_all(paths)
    assert [said(hf, id) for id in report.ids] == [["a"], ["b"]]
    assert [one.source for one in report.skipped] == ["gone", "pipe"]
    assert [type(error) for error in report.errors] == [NotFound, UsageError]


def test_damaged_files_among_sessions_are_told(hf, tmp_path):
    """A file that no reader can know for its own is named where its neighbours came in."""
    about = {"session_id": "s1", "created_at": "2025-10-05T14:00:00", "title": "One"}
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "s1.json").write_text(json.dumps({"metadata": about, "messages": []}))
    (folder / "s2.json").write_text('{"metadata": {"session_id": "s2')
    (folder / "notes.json").write_text('{"fine": true}')
    report = hf.import_all([folder])
    assert len(report.ids) == 1
    [one] = report.skipped
    assert one.source == "s2.json"
    assert "not valid JSON" in one.reason


def test_sessions_that_another_tool_forked(hf, tmp_path):
    """The parent is the session as which the other one was imported."""

    def rollout(id, words, **more):
        meta = {"id": id, "timestamp": "2026-01-01T10:00:00Z", "cwd": "/p", **more}
        content = [{"type": "input_text", "text": words}]
        item = {"type": "message", "role": "user", "content": content}
        lines = [
            {"timestamp": "2026-01-01T10:00:00Z", "type": "session_meta", "payload": meta},
            {"timestamp": "2026-01-01T10:00:01Z", "type": "response_item", "payload": item},
        ]
        path = tmp_path / "rollouts" / f"rollout-2026-01-01T10-00-00-{id}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, lines)))

    first, second = "0" * 8 + "-0000-7000-8000-" + "0" * 12, "1" * 8 + "-0000-7000-8000-" + "0" * 12
    rollout(first, "a")
    rollout(second, "b", forked_from_id=first)
    parent, child = hf.import_(tmp_path / "rollouts")
    assert hf.lineage(child).root == parent
    assert hf.lineage(parent).children == [child]
    assert hf.state(child).parent.session == parent
