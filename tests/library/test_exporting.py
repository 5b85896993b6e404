"""``hf.export`` and ``hf.install``: every format, to a string or to a file."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import NotFound, StoreError, StoreFull, TooNew, UsageError
from holdfast.formats import FORMATS
from holdfast.library._export import recorded
from holdfast.replay import PROVIDERS, validate
from holdfast.storage import Disk, place_file


@pytest.fixture
def library(store_root):
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def trip(library):
    with library.session("trip", title="Trip") as session:
        session.append("system", {"content": "Be brief."})
        session.user("Plan a week")
        call = session.tool_call("Weather", {"city": "Lisbon"})
        session.tool_result(call, {"content": "sunny"})
        session.assistant("Go to Sintra.", usage={"input_tokens": 3, "output_tokens": 4})
        session.variables["budget"] = 900
        session.memory.set("who", {"name": "Alice"})
        session.assistant("z" * 300_000)
    return "trip"


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(library, trip, format):
    """A string for text, bytes for a bundle; nothing changes in the session."""
    before = list(library.events(trip))
    found = library.export(trip, format)
    assert isinstance(found, str if FORMATS[format].is_text else bytes)
    assert library.export(trip, format) == found
    assert list(library.events(trip)) == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_message_lists(library, trip, provider):
    """A list of messages is what recovery gives, and the provider accepts it."""
    messages = json.loads(library.export(trip, provider))
    assert validate(messages, provider).valid
    recovered = json.loads(json.dumps(library.recover(trip, provider).messages))
    assert messages[-len(recovered) :] == recovered
    in_list = provider in ("openai", "mistral")
    assert (messages[0].get("role") == "system") == in_list


def test_json(library, trip):
    """One document holds everything, with large payloads in their place."""
    document = json.loads(library.export(trip, "json"))
    assert (document["format"], document["version"]) == ("holdfast-session", 1)
    assert document["metadata"]["title"] == "Trip"
    assert document["state"]["variables"]["budget"] == 900
    assert document["state"]["memory"]["who"]["value"] == {"name": "Alice"}
    assert document["system"] == "Be brief."
    assert document["messages"][0] == {"role": "user", "content": "Plan a week"}
    events = list(library.events(trip))
    assert [event["type"] for event in document["events"]] == [event.type for event in events]
    big = [event for event in document["events"] if event["type"] == "assistant"][-1]
    assert big["data"]["content"] == "z" * 300_000


def test_jsonl(library, trip, store_root):
    """The lines are those of the log, byte for byte."""
    log = (store_root / "sessions" / trip / "events.jsonl").read_bytes()
    assert library.export(trip, "jsonl").encode() == log
    part = library.export(trip, "jsonl", at=2)
    assert log.startswith(part.encode())
    assert part.count("\n") == 3


def test_jsonl_of_a_plain_log(library, store_root):
    """A log without numbers is cut by counting."""
    folder = store_root / "sessions" / "plain"
    folder.mkdir(parents=True, mode=0o700)
    lines = [
        '{"type":"user","timestamp":1,"data":{"content":"a"}}\n',
        "not json\n",
        '{"type":"user","timestamp":2,"data":{"content":"b"}}\n',
    ]
    (folder / "events.jsonl").write_text("".join(lines))
    assert library.export("plain", "jsonl") == "".join(lines)
    assert library.export("plain", "jsonl", at=0) == lines[0]
    assert "event 1 cannot be read" in library.export("plain")


def test_a_plain_log_without_its_last_newline(library, store_root, tmp_path):
    """A line that an editor left open is an event like the others, in every form."""
    folder = store_root / "sessions" / "plain"
    folder.mkdir(parents=True)
    lines = b'{"type":"user","data":{"content":"a"}}\n{"type":"assistant","data":{"content":"b"}}'
    (folder / "events.jsonl").write_bytes(lines)
    assert library.export("plain", "jsonl").encode() == lines
    assert library.export("plain", "jsonl", at=0).encode() == lines.splitlines(keepends=True)[0]
    assert library.export("plain", "jsonl", at=1).encode() == lines
    library.export("plain", "bundle", to=tmp_path / "plain.holdfast")
    with holdfast.open("memory:") as other:
        other.import_(tmp_path / "plain.holdfast")
        assert [event.data["content"] for event in other.events("plain")] == ["a", "b"]
    (folder / "events.jsonl").write_bytes(lines[:-3])
    assert library.export("plain", "jsonl").encode() == lines.splitlines(keepends=True)[0]


def test_at(library, trip):
    """An earlier event gives what was known then."""
    first = next(event.seq for event in library.events(trip) if event.type == "user")
    document = library.export(trip, at=first)
    assert "Plan a week" in document
    assert "Sintra" not in document
    assert "**Messages:** 2" in document
    assert json.loads(library.export(trip, "neutral", at=first)) == [{"role": "user", "content": "Plan a week"}]


def test_incomplete(library):
    """Calls without a result are marked in a list of messages, or left out if asked."""
    with library.session("s") as session:
        session.user("go")
        session.tool_call("Bash", {"cmd": "x"})
    assert "interrupted" in library.export("s", "neutral")
    assert len(json.loads(library.export("s", "neutral", incomplete="drop"))) == 1
    with pytest.raises(UsageError):
        library.export("s", "neutral", incomplete="guess")


def test_to_a_path(library, trip, tmp_path):
    """A file of mode 0600, whole, and nothing else beside it."""
    path = tmp_path / "trip.md"
    assert library.export(trip, to=path) is None
    assert path.read_text(encoding="utf-8") == library.export(trip)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["trip.md"] or set(os.listdir(tmp_path)) == {"trip.md", "store"}


def test_nothing_is_replaced(library, trip, tmp_path):
    """A file that is there stays, unless it is to be replaced."""
    path = tmp_path / "trip.md"
    path.write_text("mine")
    with pytest.raises(UsageError, match="already"):
        library.export(trip, to=path)
    assert path.read_text() == "mine"
    library.export(trip, to=path, overwrite=True)
    assert path.read_text(encoding="utf-8").startswith("# Trip")


def test_a_symlink_is_replaced_not_followed(library, trip, tmp_path):
    """Overwriting replaces the name; what a link points to is left alone."""
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "trip.md").symlink_to(target)
    library.export(trip, to=tmp_path / "trip.md", overwrite=True)
    assert target.read_text() == "mine"


@pytest.mark.parametrize("format", FORMATS)
def test_progress(library, trip, format):
    """Whoever wants to know is told how far it is, and gets the same."""
    told = []
    found = library.export(trip, format, progress=lambda done, total: told.append((done, total)))
    assert found == library.export(trip, format)
    assert all(0 < done <= total for done, total in told)
    if format not in PROVIDERS:
        assert told[-1][0] == told[-1][1]


def test_to_a_folder(library, trip, tmp_path):
    """In a folder the file is named after the session."""
    library.export(trip, "html", to=tmp_path)
    assert (tmp_path / "trip.html").exists()


@pytest.mark.parametrize("path", ["", "a\0b", "missing/x.md"])
def test_paths_that_cannot_be(library, trip, tmp_path, monkeypatch, path):
    """A path that is none, or leads nowhere, is refused."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, NotFound)):
        library.export(trip, to=path)


class FullDisk(Disk):
    """Takes a few bytes at a time, then no more."""

    def __init__(self, room):
        self.room = room

    def write(self, descriptor, data):
        if self.room <= 0:
            raise OSError(28, "no space")
        taken = os.write(descriptor, bytes(data[: min(10, self.room)]))
        self.room -= taken
        return taken


def test_a_full_disk_leaves_what_was_there(tmp_path):
    """An export that does not fit leaves the old file and no part of the new one."""
    path = tmp_path / "x"
    path.write_text("old")
    with pytest.raises(StoreFull):
        place_file(path, [b"a" * 100], overwrite=True, disk=FullDisk(50))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]
    place_file(path, [b"a" * 30, b"b"], overwrite=True, disk=FullDisk(50))
    assert path.read_bytes() == b"a" * 30 + b"b"


def test_two_at_once(tmp_path):
    """Of two who write the same new file one wins, the other is told."""

    def chunks():
        (tmp_path / "x").write_text("the other")
        yield b"mine"

    with pytest.raises(UsageError, match="already"):
        place_file(tmp_path / "x", chunks())
    assert os.listdir(tmp_path) == ["x"]


class NoLinks(Disk):
    """A file system without second names for files."""

    def __init__(self, errno=1):
        self.errno = errno

    def link(self, *_):
        raise OSError(self.errno, "no links")


def test_without_hard_links(tmp_path):
    """Where files cannot be linked they are renamed, and still nothing is replaced."""

    def chunks():
        (tmp_path / "x").write_text("the other")
        yield b"mine"

    place_file(tmp_path / "y", [b"mine"], disk=NoLinks())
    assert (tmp_path / "y").read_bytes() == b"mine"
    with pytest.raises(UsageError, match="already"):
        place_file(tmp_path / "x", chunks(), disk=NoLinks())
    with pytest.raises(StoreError):
        place_file(tmp_path / "z", [b"mine"], disk=NoLinks(errno=5))
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


def test_a_folder_in_the_way(tmp_path):
    """A folder of that name is not replaced by a file."""
    (tmp_path / "x").mkdir()
    with pytest.raises(UsageError, match="already"):
        place_file(tmp_path / "x", [b""], overwrite=True)


def test_to_an_open_file(library, trip):
    """Bytes into a binary file, text into a text file."""
    raw, text = io.BytesIO(), io.StringIO()
    library.export(trip, to=raw)
    library.export(trip, to=text)
    assert raw.getvalue().decode() == library.export(trip)
    assert text.getvalue() == library.export(trip)
    library.export(trip, "bundle", to=(bundle := io.BytesIO()))
    assert bundle.getvalue() == library.export(trip, "bundle")
    with pytest.raises(UsageError, match="bytes"):
        library.export(trip, "bundle", to=io.StringIO())


def test_wrong_calls(library, trip):
    """An unknown session, format, zone or a passphrase in the wrong place is refused."""
    with pytest.raises(NotFound):
        library.export("nobody")
    with pytest.raises(UsageError, match="no format"):
        library.export(trip, "pdf")
    with pytest.raises(UsageError, match="no format"):
        library.export(trip, 7)
    with pytest.raises(UsageError, match="time zone"):
        library.export(trip, zone="Mars/Base")
    with pytest.raises(UsageError, match="passphrase"):
        library.export(trip, "html", passphrase="x")
    with pytest.raises(UsageError, match="not a tool"):
        library.install(trip, "html")


def test_local_time(library, trip):
    """Local time is one of the zones."""
    assert "**Created:**" in library.export(trip, zone="local")


def test_short_names(library, trip):
    """The usual endings are names of formats too."""
    assert library.export(trip, "md") == library.export(trip, "markdown")


def test_a_newer_format_is_not_guessed_at(library, store_root):
    """What a newer Holdfast wrote is refused."""
    folder = store_root / "sessions" / "new"
    folder.mkdir(parents=True, mode=0o700)
    line = '{"type":"session_start","timestamp":1,"data":{"format":99}}\n'
    (folder / "events.jsonl").write_text(line)
    with pytest.raises(TooNew):
        library.export("new")


def test_while_it_goes_on(library):
    """An export is of one moment: what is added while it is written is not in it."""
    with library.session("s") as session:
        for number in range(100):
            session.user(f"message {number}")
        found = recorded(library._core, "s", None)
        session.user("later")
        session.snapshot()
        text = b"".join(FORMATS["text"].write(found, _options()))
        assert b"message 99" in text
        assert b"later" not in text
        assert b"later" not in b"".join(found.lines())
        assert not [name for name in found.documents if name.startswith("snapshots/")]


def _options():
    from holdfast.formats import ExportOptions

    return ExportOptions()


@pytest.mark.parametrize(
    "case",
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude/projects", "claude --resume "),
        ("codex", "CODEX_HOME", ".codex/sessions", "codex resume "),
        ("gemini-cli", None, "work", "gemini --session-file trip.gemini-cli.json"),
        ("opencode", None, "work", "opencode import trip.opencode.json && opencode --session "),
    ],
)
def test_install(library, trip, tmp_path, monkeypatch, case):
    """The file is where the tool looks for it, and the command that goes on is told."""
    tool, variable, folder, command = case
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    done = library.install(trip, tool, cwd=work)
    assert done.path.startswith(str(tmp_path / folder))
    assert done.command.startswith(f"cd {work} && {command}")
    assert done.session_id in Path(done.path).read_text(encoding="utf-8")
    assert stat.S_IMODE(os.stat(done.path).st_mode) == 0o600
    with pytest.raises(UsageError, match="already"):
        library.install(trip, tool, cwd=work)
    assert library.install(trip, tool, cwd=work, overwrite=True) == done
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        assert library.install(trip, tool, cwd=work).path.startswith(str(tmp_path / "elsewhere"))


@pytest.mark.req("S2-31")
def test_without_a_session(library):
    """Where there is no session there is a typed error, not an empty document."""
    with pytest.raises(NotFound):
        library.export("none-such", "markdown")


def test_lines_of_any_length(library, store_root):
    """A line that is longer than what is read at once comes out whole."""
    folder = store_root / "sessions" / "long"
    folder.mkdir(parents=True, mode=0o700)
    line = json.dumps({"type": "user", "timestamp": 1, "data": {"content": "w" * 900_000}})
    (folder / "events.jsonl").write_text(f"{line}\n{line}\n")
    assert library.export("long", "jsonl") == f"{line}\n{line}\n"
    assert library.export("long", "jsonl", at=0) == f"{line}\n"


def test_times_out_of_this_world(library, store_root):
    """A clock that was wrong by thousands of years does not keep a session from being read."""
    folder = store_root / "sessions" / "odd"
    folder.mkdir(parents=True, mode=0o700)
    lines = [
        json.dumps({"type": "user", "timestamp": stamp, "data": {"content": "when?"}})
        for stamp in (10**17, -(10**17), 0)
    ]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    for format in FORMATS:
        library.export("odd", format)
    assert "9999-12-30" in library.export("odd", "text")


def test_data_that_is_no_object(library, store_root):
    """An event of a foreign log whose data is anything else is told of, and kept in JSON."""
    folder = store_root / "sessions" / "odd"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "events.jsonl").write_text('{"type":"user","timestamp":1,"data":[1]}\n')
    assert "the data of this user event is not valid: [1]" in library.export("odd")
    assert json.loads(library.export("odd", "json"))["events"][0]["data"] is None


HOSTILE_LINES = [
    '{"type":"user","timestamp":1,"data":{"content":"half \\ud800 pair"}}',
    '{"type":"user","timestamp":1e3,"data":{"content":{"a":"\\udfff"}}}',
    '{"type":"assistant","timestamp":"x","data":{"content":[[[["deep"]]],{"type":5}]}}',
    '{"type":"tool_call","timestamp":1,"data":{"id":5,"tool":null,"params":"text"}}',
    '{"type":"tool_result","timestamp":1,"data":{"toolCallId":null,"result":{"$blob":"x"}}}',
    '{"type":"delta","timestamp":1,"data":{"content":7}}',
    '{"type":"title","timestamp":1,"data":{"title":"\\u0000\\u001b[2J"}}',
    '{"type":"compaction","timestamp":1,"data":{"covers":"all","summary":[1]}}',
    '{"type":"retracted","timestamp":1,"data":{"seqs":5}}',
    '{"type":"instructions","timestamp":1,"data":{"content":"be"}}',
    "garbage",
    '{"type":"user","timestamp":2,"data":{"content":"end"}}',
]


def test_hostile_logs(library, store_root):
    """Whatever a log holds, every format is written, and nothing in it can be obeyed."""
    folder = store_root / "sessions" / "odd"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "events.jsonl").write_text("\n".join(HOSTILE_LINES) + "\n")
    for format in FORMATS:
        found = library.export("odd", format)
        if format in ("markdown", "html", "text", "json", *PROVIDERS):
            assert "\x1b" not in found
            assert "\0" not in found
        if format in PROVIDERS:
            assert validate(json.loads(found), format).valid


def test_a_project_that_cannot_be_written_down(library, trip):
    """A path that is no text cannot be in another tool's file."""
    with pytest.raises(UsageError, match="no text"):
        library.export(trip, "codex", cwd=b"/tmp/\xff".decode("utf-8", "surrogateescape"))
