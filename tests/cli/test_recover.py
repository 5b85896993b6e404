"""``holdfast recover``: any log in, a valid list out."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from holdfast.replay import validate

CALL = {"id": "c1", "tool": "Read", "params": {"path": "a.txt"}}


def plain(*events):
    """The text of a plain log."""
    lines = [
        json.dumps({"type": kind, "timestamp": 1_700_000_000_000 + number, "data": data})
        for number, (kind, data) in enumerate(events)
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def log(tmp_path):
    """A plain log that ends in the middle of a tool call, in a folder named after its session."""
    folder = tmp_path / "session-7"
    folder.mkdir()
    path = folder / "events.jsonl"
    path.write_text(
        plain(
            ("user", {"role": "user", "content": "Read a.txt"}),
            ("tool_call", CALL),
            ("tool_result", {"toolCallId": "c1", "result": "hello"}),
            ("tool_call", {**CALL, "id": "c2"}),
        )
    )
    return path


@pytest.mark.req("S3-65")
def test_a_plain_log(run, log):
    """A log file gives a valid list and a line that says what was changed."""
    outcome = run("recover", str(log))
    assert outcome.code == 0
    messages = json.loads(outcome.out)
    assert validate(messages, "anthropic").valid
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert outcome.err.startswith("Session session-7 recovery: Sanitized 1 issue(s): [")


def test_a_folder_with_a_log(run, log):
    """A folder stands for the log in it."""
    assert run("recover", str(log.parent)).out == run("recover", str(log)).out


def test_a_name_without_a_slash_may_be_a_file(run, log, monkeypatch):
    """In the folder of the log its bare name is enough."""
    expected = run("recover", str(log)).out
    monkeypatch.chdir(log.parent)
    assert run("recover", "events.jsonl").out == expected
    assert run("recover", ".").out == expected


def test_a_session_wins_over_a_file_of_its_name(run, trip, tmp_path, monkeypatch):
    """A session's very id means the session; with a slash it is the file."""
    (tmp_path / trip).write_text(plain(("user", {"content": "from the file"})))
    monkeypatch.chdir(tmp_path)
    assert "Lisbon" in run("recover", trip).out
    assert "from the file" in run("recover", f"./{trip}").out


def test_a_session(run, trip):
    """A session's id, its beginning and `-` give the same as show --messages."""
    expected = run("show", trip, "--messages").out
    assert run("recover", trip).out == expected
    assert run("recover", "tri").out == expected
    assert run("recover", "-").out == expected


@pytest.mark.parametrize("provider", ["openai", "gemini", "mistral"])
def test_options(run, log, provider):
    """--provider and --incomplete shape the list; it stays valid."""
    outcome = run("recover", str(log), "--provider", provider, "--incomplete", "mark")
    assert validate(json.loads(outcome.out), provider).valid
    assert "interrupted" in outcome.out


def test_at_and_window(run, log):
    """--at stops early, --window-tokens tells what had no room."""
    assert len(json.loads(run("recover", str(log), "--at", "0").out)) == 1
    outcome = run("recover", str(log), "--window-tokens", "6")
    assert "no room for" in outcome.err
    assert validate(json.loads(outcome.out), "anthropic").valid


def test_json_document(run, log):
    """--json has everything in one document."""
    document = json.loads(run("recover", str(log), "--json").out)
    assert document["session_id"] == "session-7"
    assert [issue["type"] for issue in document["issues"]] == ["incomplete_tool_call"]
    assert set(document) == {"session_id", "system", "messages", "issues", "left_out", "tokens"}


def test_a_session_folder_copied_elsewhere_keeps_its_payloads(run, library, tmp_path):
    """Payloads beside the log are found wherever the folder is."""
    with library.session("big") as s:
        s.user("go")
        s.tool_result(s.tool_call("Read", {}), "start " + "x" * 400_000 + " end")
    copy = tmp_path / "copy"
    library.store.close()
    (tmp_path / "store" / "sessions" / "big").rename(copy)
    assert " end" in run("recover", str(copy)).out


def test_damage_is_told_and_the_rest_recovered(run, damaged, untouched):
    """What is whole of a damaged session is recovered; what is lost is said."""
    outcome = run("recover", damaged)
    assert outcome.code == 0
    assert "message 3" in outcome.out
    assert "massage" not in outcome.out
    assert "1 event cannot be read" in outcome.err


def test_garbage_between_lines(run, log):
    """Lines that are no events are passed over, and the list is valid all the same."""
    log.write_bytes(b"\xff\xfe garbage\n" + log.read_bytes() + b'{"type":"user","data":{"con')
    outcome = run("recover", str(log))
    assert outcome.code == 0
    assert "Read a.txt" in outcome.out


def test_nothing_is_written(run, log, store_root):
    """Neither the log's folder nor the store changes."""
    before = sorted(log.parent.iterdir()), log.read_bytes(), list(store_root.iterdir())
    run("recover", str(log))
    assert before == (sorted(log.parent.iterdir()), log.read_bytes(), list(store_root.iterdir()))


def test_a_link_is_followed_once(run, log, tmp_path):
    """A path that the user names may lead over a link."""
    link = tmp_path / "link"
    link.symlink_to(log.parent)
    assert run("recover", str(link)).code == 0


def test_a_log_outside_needs_no_store(run, log):
    """A store that cannot be used does not keep a file from being read."""
    assert run("recover", str(log), store="no-such-scheme:x").code == 0


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("./missing.jsonl", 3, "there is no log at ./missing.jsonl"),
        ("missing", 3, "there is no session missing"),
        ("../x/../../no", 3, "there is no log"),
        ("/dev/null", 2, "is not a plain file"),
        ("a\0b/c", 2, "path"),
    ],
)
def test_what_is_not_there(run, name, code, words):
    """A missing path and a missing session are told apart, with their exit codes."""
    outcome = run("recover", name)
    assert outcome.code == code
    assert words in outcome.err
    assert outcome.out == ""


def test_a_pipe_does_not_hang(run, tmp_path):
    """A named pipe is refused and not waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert run("recover", str(tmp_path / "pipe")).code == 2


def test_a_file_without_events(run, tmp_path):
    """A file of something else is refused with a question that helps."""
    path = tmp_path / "notes.txt"
    path.write_text("just some words\n")
    outcome = run("recover", str(path))
    assert outcome.code == 3
    assert "no event in" in outcome.err


@pytest.mark.req("S4-49")
def test_a_newer_format_is_refused(run, too_new, store_root, untouched):
    """A log of a newer format is not guessed at, in the store or outside."""
    assert run("recover", too_new).code == 4
    outcome = run("recover", str(store_root / "sessions" / too_new))
    assert outcome.code == 4
    assert "format 99" in outcome.err


def test_sessions_of_a_library_and_files_agree(run, trip, library):
    """The file of a session gives the same list as its id."""
    path = f"{library.location(trip)}/events.jsonl"
    assert json.loads(run("recover", path).out) == library.recover(trip).messages


def test_the_report_is_said_once(library, store_root):
    """What the library would log is printed by the verb alone."""
    with library.session("cut") as s:
        s.user("plan")
        s.tool_call("Book", {"to": "Lisbon"})
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "recover", "cut", "--store", str(store_root)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("recovery: Sanitized") == 1
