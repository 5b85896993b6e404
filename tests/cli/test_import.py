"""``holdfast import``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast


def write(path, *texts):
    """A message list."""
    messages = [{"role": "user", "content": text} for text in texts]
    path.parent.mkdir(parents=True, exist_ok=True)
    # At once: a watch that looks in between would tell of a file that is cut short.
    aside = path.parent.parent / f"{path.name}.aside"
    aside.write_text(json.dumps({"id": path.stem, "title": path.stem.title(), "messages": messages}))
    return aside.replace(path)


@pytest.fixture
def talk(tmp_path):
    """A conversation in a file."""
    return write(tmp_path / "files" / "talk.json", "hello")


@pytest.fixture
def home(tmp_path):
    """A home directory where a tool keeps two sessions."""
    place = tmp_path / "home" / ".config" / "openagent-terminal" / "sessions"
    place.mkdir(parents=True)
    for number in (1, 2):
        about = {"session_id": f"2025-10-05_14000{number}", "created_at": "2025-10-05T14:00:00"}
        messages = [{"role": "user", "content": "hi", "timestamp": "2025-10-05T14:00:01"}]
        value = {"metadata": about, "messages": messages}
        (place / f"{about['session_id']}.json").write_text(json.dumps(value))
    return tmp_path / "home"


def test_a_file(run, library, talk):
    """The sessions are told on standard output, the sum on standard error."""
    outcome = run("import", str(talk))
    assert outcome.code == 0
    [line] = outcome.out.splitlines()
    word, id, title = line.split()
    assert (word, title) == ("imported", "Talk")
    assert library.exists(id)
    assert outcome.err == "1 imported\n"
    again = run("import", str(talk))
    assert again.out.split()[0] == "unchanged"
    assert again.err == "1 unchanged\n"


def test_json(run, talk):
    """--json gives the report as data."""
    found = json.loads(run("import", str(talk), "--json").out)
    [row] = found["sessions"]
    assert (row["tool"], row["foreign_id"], row["outcome"]) == ("messages", "talk", "imported")
    assert found["skipped"] == []


def test_a_dry_run(run, library, talk):
    """--dry-run says what would come."""
    outcome = run("import", str(talk), "--dry-run")
    assert outcome.out.startswith("imported")
    assert "nothing was recorded" in outcome.err
    assert library.list() == []


def test_several_paths_of_which_one_is_bad(run, talk):
    """The good ones come in; the bad one is told, and the exit code is 1."""
    bad = talk.with_name("bad.json")
    bad.write_text("nothing of the kind")
    outcome = run("import", str(bad), str(talk))
    assert outcome.code == 1
    assert outcome.out.startswith("imported")
    assert "warning: bad.json" in outcome.err


def test_what_is_wrong_with_one_path(run, talk):
    """A single path that gives nothing is an error in a sentence."""
    assert run("import", str(talk.with_name("no"))).code == 3
    bad = talk.with_name("bad.json")
    bad.write_text("nothing of the kind")
    outcome = run("import", str(bad))
    assert outcome.code == 4
    assert outcome.err.startswith("error: bad.json is not a session file")
    bad.write_text("[" * 1_000)
    outcome = run("import", str(bad))
    assert (outcome.code, "Nothing of it was recorded" in outcome.err) == (4, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("import",),
        ("import", "x", "--scan"),
        ("import", "x", "--tool", "pi"),
        ("import", "--scan", "--format", "pi"),
        ("import", "--scan", "--tool", "notepad"),
        ("import", "x.json", "--format", "notepad"),
    ],
)
def test_wrong_usage(run, arguments):
    """Options that do not go together are refused."""
    assert run(*arguments).code == 2


def test_problems_are_told(run, tmp_path):
    """Damaged lines are told, and no more than can be read."""
    log = tmp_path / "talk" / "events.jsonl"
    log.parent.mkdir()
    good = '{"type": "user", "timestamp": 1758741017219, "data": {"content": "x"}}\n'
    log.write_text(good + "broken\n" * 15)
    outcome = run("import", str(log.parent))
    assert outcome.code == 0
    assert outcome.err.count("warning: ") == 11
    assert "and 5 more like these" in outcome.err or "and 6 more of the kind" in outcome.err


def test_text_of_sessions_is_neutralised(run, tmp_path):
    """A title cannot write into the terminal."""
    path = tmp_path / "evil.json"
    value = {"id": "e", "title": "\x1b[31mred", "messages": [{"role": "user", "content": "x"}]}
    path.write_text(json.dumps(value))
    assert "\x1b" not in run("import", str(path)).out


def test_a_sealed_bundle(run, library, tmp_path):
    """The passphrase comes from the environment."""
    pytest.importorskip("cryptography")
    with holdfast.open(tmp_path / "other") as other:
        with other.session("secret") as session:
            session.user("hush")
        sealed = other.export("secret", format="bundle", passphrase="horse")
    path = tmp_path / "secret.holdfast"
    path.write_bytes(sealed)
    assert run("import", str(path)).code != 0
    assert run("import", str(path), env={"HOLDFAST_PASSPHRASE": "horse"}).code == 0
    assert library.exists("secret")


def test_a_scan(run, library, home):
    """--scan finds what the tools of this user keep, --tool only one of them."""
    outcome = run("import", "--scan", env={"HOME": str(home)})
    assert outcome.code == 0
    assert len(library.list()) == 2
    assert outcome.err == "2 imported\n"
    nothing = run("import", "--scan", "--tool", "orbitmesh", env={"HOME": str(home)})
    assert (nothing.code, nothing.out) == (0, "")
    assert "No sessions were found" in nothing.err


def test_many_sessions_are_counted_by_tool(run, tmp_path):
    """A long list is not printed: how many came of each tool is, and nothing of those with nothing new."""
    for number in range(12):
        write(tmp_path / "many" / f"t{number}.json", f"hello {number}")
    head, row = run("import", str(tmp_path / "many")).out.splitlines()
    assert head.split() == ["TOOL", "IMPORTED", "NEW", "EVENTS"]
    assert row.split() == ["messages", "12", "36"]
    outcome = run("import", str(tmp_path / "many"))
    assert (outcome.out, outcome.err) == ("", "12 unchanged\n")


def _wait(process, count):
    """The next lines of a watch, each as data."""
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_a_watch(store_root, talk, tmp_path):
    """--watch brings in what is there and what comes, a line for each; ctrl-c ends it well."""
    env = {**os.environ, "HOLDFAST_STORE": str(store_root)}
    command = [
        str(Path(sys.executable).with_name("holdfast")),
        "import",
        str(talk.parent),
        "--watch",
        "--every",
        "0.05",
        "--json",
    ]
    with (
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, cwd=tmp_path) as process,
        contextlib.ExitStack() as end,
    ):
        end.callback(process.kill)  # a failure here must not wait for what never ends
        [first] = _wait(process, 1)
        assert (first["outcome"], first["foreign_id"]) == ("imported", "talk")
        write(talk, "hello", "and more")
        [second] = _wait(process, 1)
        assert (second["outcome"], second["session_id"]) == ("updated", first["session_id"])
        write(talk.with_name("new.json"), "another")
        [third] = _wait(process, 1)
        assert third["foreign_id"] == "new"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0


def test_a_watch_for_people(run, talk, monkeypatch):
    """Without --json changes and refusals are told in words, once, until something changes."""
    bad = talk.with_name("bad.json")
    bad.write_text("nothing of the kind")
    rounds = iter(range(3))

    def sleep(_seconds):
        if next(rounds) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    outcome = run("import", str(talk), str(bad), "--watch")
    assert outcome.code == 0
    [line] = outcome.out.splitlines()
    assert line.split()[0] == "imported"
    assert outcome.err.count("is not a session file") == 1


def test_a_passphrase_is_asked_for(run, library, tmp_path, monkeypatch):
    """On a terminal a sealed bundle asks."""
    pytest.importorskip("cryptography")
    from holdfast.apps.cli import import_

    with holdfast.open(tmp_path / "other") as other:
        with other.session("secret") as session:
            session.user("hush")
        sealed = other.export("secret", format="bundle", passphrase="horse")
    path = tmp_path / "secret.holdfast"
    path.write_bytes(sealed)
    monkeypatch.setattr(import_, "_may_ask", lambda: True)
    assert run("import", str(path), text="horse\n").code == 0
    assert library.exists("secret")


def test_one_path_of_several_is_missing(run, talk, tmp_path):
    """The others come in; what is missing is named, and the exit code says so."""
    outcome = run("import", str(tmp_path / "gone.json"), str(talk))
    assert outcome.code == 1
    assert outcome.out.split()[0] == "imported"
    assert "gone.json" in outcome.err
    assert "1 imported" in outcome.err


def test_the_only_path_is_missing(run, tmp_path):
    """One path that is not there is an error by itself."""
    outcome = run("import", str(tmp_path / "gone.json"))
    assert outcome.code == 3
    assert "gone.json" in outcome.err


def test_a_scan_that_meets_empty_files(run, home, monkeypatch):
    """They are told; the scan did what it was asked for."""
    monkeypatch.setenv("HOME", str(home))
    folder = home / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    (folder / "empty.jsonl").touch()
    os.mkfifo(folder / "pipe.jsonl")
    outcome = run("import", "--scan")
    assert outcome.code == 0
    assert outcome.out.count("imported") == 2
    assert "empty.jsonl" in outcome.err
    assert "pipe.jsonl" in outcome.err
    assert "empty.jsonl: empty.jsonl" not in outcome.err


def test_many_reasons(run, tmp_path):
    """The first ones are told, and how many there are besides."""
    paths = [tmp_path / f"{number}.json" for number in range(13)]
    outcome = run("import", *map(str, paths))
    assert outcome.code == 1
    assert "and 3 more like these; use --json to see all\n" in outcome.err


def test_what_did_not_come_with_a_session_is_told_of_it(run, tmp_path):
    """Each problem names its session; a refusal says what to do, and nothing of it is recorded."""
    core = {"history": [{"role": "user", "content": "hi"}], "toolCalls": []}
    context = {"version": 1, "core": core, "permissions": {"blocklist": ["curl"]}}
    value = {"version": 1, "agentId": "helper", "context": context, "metadata": {}}
    path = tmp_path / "session.json"
    path.write_text(json.dumps(value))
    outcome = run("import", str(path))
    id = outcome.out.split()[1]
    assert f"warning: {id}: its permissions were left out" in outcome.err
    assert "curl" in outcome.err
    path.write_text(json.dumps(value | {"version": 9, "agentId": "other"}))
    refused = run("import", str(path))
    assert (refused.code, refused.out.split()[0]) == (1, "failed")
    assert "version 9" in refused.err
    assert "newer Holdfast" in refused.err
    assert "other" not in run("list").out


def test_what_is_no_session_is_told_with_the_formats_that_are(run, tmp_path):
    """Whoever names a file of another kind learns which ones can be brought in."""
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    outcome = run("import", str(tmp_path / "passwd"))
    assert outcome.code == 4
    assert "aider, " in outcome.err
    assert "claude-code" in outcome.err
