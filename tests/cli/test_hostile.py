"""Bad input: a clear sentence, a documented exit code, and nothing is written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import TooNew
from holdfast.storage import Disk

BAD_IDS = {
    "../x": 2,
    "a/b": 2,
    "": 2,
    "a\0b": 2,
    "x" * 10_000: 2,
    "CON": 2,
    "con.txt": 2,
    "..": 2,
    ".hidden": 2,
    "a b": 2,
    "-x": 2,
    "ünïcode": 2,
    "\x1b[31m": 2,
    "%s%n": 2,
    "~root": 2,
    "$(id)": 2,
    "no-such": 3,
}
VERBS = ["show", "snapshots", "verify", "repair", "delete", "undelete"]
NOBODY = 65_534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("bad", "code"), BAD_IDS.items(), ids=lambda value: repr(value)[:20])
@pytest.mark.usefixtures("trip", "untouched")
def test_an_id_that_is_none(run, verb, bad, code):
    """Whatever is given as an id is refused with a short sentence, and nothing changes."""
    outcome = run(verb, "--", bad)
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert len(outcome.err) < 400
    assert outcome.err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "--at", "x", "a"],
        ["show"],
        ["list", "--limit", "-1"],
        ["list", "--limit", "many"],
        ["show", "a", "b"],
        ["no-such-verb"],
        ["--no-such-option"],
        ["list", "--store"],
        ["list", "--store", ""],
        ["list", "--store", "ftp://example.com/x"],
        ["list", "--store", "file:relative"],
        ["list", "--store", "a\0b"],
    ],
    ids=" ".join,
)
def test_wrong_usage(run, untouched, arguments):
    """A call that is wrong as written has exit code 2 and says where to look."""
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("error: ")
    assert len(outcome.err.splitlines()) == 2
    assert "Traceback" not in outcome.err


def test_a_verb_that_is_misspelt(run):
    """The nearest verb is suggested."""
    assert "did you mean list?" in run("lits").err
    assert "did you mean" not in run("xyzzy").err


def test_an_option_that_is_misspelt(run):
    """The nearest option is suggested."""
    assert "--limit" in run("list", "--limt", "3").err


@pytest.mark.parametrize("arguments", [["list"], ["stats"], ["search", "Lisbon"]])
def test_a_tag_that_is_misspelt(run, trip, arguments):
    """Where nothing matches, the nearest tag is suggested; one that is there is not corrected."""
    outcome = run(*arguments, "--tag", "travle")
    assert outcome.code == 0
    assert "; did you mean travel?" in outcome.err
    assert run(*arguments, "--tag", "travel", "--until", "2020-01-01").err.endswith("/store.\n")


def test_an_id_that_is_misspelt(run, trip):
    """The nearest id is suggested."""
    outcome = run("show", "tirp-planner")
    assert outcome.code == 3
    assert "did you mean trip-planner?" in outcome.err


def test_a_prefix_of_several(run, library):
    """A prefix that fits several sessions names some of them and is wrong usage."""
    for number in range(8):
        with library.session(f"job-{number}") as s:
            s.user("x")
    outcome = run("show", "job")
    assert outcome.code == 2
    assert "job is ambiguous: it matches 8 sessions" in outcome.err
    assert "  job-0\n" in outcome.err
    assert "and 3 more" in outcome.err


def test_an_exact_id_wins_over_longer_ones(run, library):
    """An id that is also the beginning of another means itself."""
    for name in ("job", "job-1"):
        with library.session(name, title=f"Title of {name}") as s:
            s.user("x")
    assert run("show", "job").out.startswith("Title of job\n")


@pytest.mark.parametrize("arguments", [["list"], ["show", "x"], ["doctor"], ["verify", "--all"]])
def test_a_store_that_is_missing(run, tmp_path, arguments):
    """Reading a store that is not there makes none."""
    outcome = run(*arguments, store=tmp_path / "no" / "store")
    assert outcome.code == (3 if arguments[0] == "show" else 0)
    assert not (tmp_path / "no").exists()


def test_a_store_that_is_a_file(run, tmp_path):
    """A file in the place of the store is refused."""
    (tmp_path / "file").write_text("x")
    outcome = run("list", store=tmp_path / "file")
    assert outcome.code in (1, 4)
    assert "not a directory" in outcome.err


def test_a_store_behind_a_link(run, store_root, tmp_path, trip):
    """A store is found by every name that leads to it, for reading and for writing."""
    (tmp_path / "link").symlink_to(store_root)
    (tmp_path / "home").symlink_to(tmp_path)
    for name in ("link", "home/link"):
        assert "trip" in run("list", store=tmp_path / name).out
        assert run("tag", "trip", f"+by-{name[:4]}", store=tmp_path / name).code == 0
    assert "by-link" in run("show", "trip").out
    assert run("search", "Sintra", store=tmp_path / "link").code == 0
    assert run("verify", "--all", store=tmp_path / "home" / "link").code == 0


@pytest.mark.parametrize("verb", [["list"], ["show", "trip"], ["delete", "trip"]])
def test_a_store_that_others_can_write(run, trip, store_root, verb):
    """A group-writable store is refused with the command that closes it."""
    store_root.chmod(0o770)
    outcome = run(*verb)
    assert outcome.code == 4
    assert "can be written by others" in outcome.err
    assert f"chmod go-w {store_root}" in outcome.err


@needs_root
def test_a_store_of_someone_else(run, trip, store_root):
    """A store that belongs to another user is refused."""
    os.chown(store_root, NOBODY, NOBODY)
    try:
        outcome = run("list")
    finally:
        os.chown(store_root, 0, 0)
    assert outcome.code == 4
    assert "belongs to another user" in outcome.err


@pytest.fixture
def read_only(trip, damaged, library, store_root):
    """The store on a file system that takes no writes."""
    library.close()
    mount = ["mount", "--bind", str(store_root), str(store_root)]
    done = subprocess.run(mount, check=False, capture_output=True)
    if done.returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        remount = ["mount", "-o", "remount,bind,ro", str(store_root)]
        subprocess.run(remount, check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["umount", str(store_root)], check=True)


@needs_root
@pytest.mark.parametrize("verb", ["delete", "repair"])
def test_a_store_that_is_read_only(shell, read_only, verb):
    """Reading works on a read-only store, changing it fails with a sentence."""
    assert shell("list").code == 0
    assert shell("show", "trip").code == 0
    assert shell("verify", "trip").code == 0
    outcome = shell(verb, "broken")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "Traceback" not in outcome.err
    assert shell("doctor").code == 4


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["show", "--messages"], ["show", "--events"], ["show", "--state"], ["recover"]],
    ids=" ".join,
)
def test_a_newer_format(run, too_new, untouched, arguments):
    """A session of a newer format is refused untouched, whatever is asked of it."""
    verb, *options = arguments
    outcome = run(verb, too_new, *options)
    assert outcome.code == 4
    assert "format 99" in outcome.err
    assert "newer Holdfast" in outcome.err


def test_the_library_refuses_a_newer_format_too(library, too_new, untouched):
    """Neither recovery nor repair guesses at a log that it does not know."""
    for call in (library.recover, library.repair, library.state):
        with pytest.raises(TooNew):
            call(too_new)


@pytest.fixture
def unreadable(library, monkeypatch):
    """A session whose log the disk refuses to read."""
    with library.session("bad-sector") as s:
        s.user("x")
    node = (Path(library.location("bad-sector")) / "events.jsonl").stat().st_ino
    real = Disk.read_at

    def read_at(self, descriptor, size, offset):
        if os.fstat(descriptor).st_ino == node:
            raise OSError(errno.EIO, "bad sector")
        return real(self, descriptor, size, offset)

    monkeypatch.setattr(Disk, "read_at", read_at)


def test_one_bad_log_does_not_hide_the_others(run, trip, unreadable):
    """A log that cannot be read is said to be so; everything else works."""
    outcome = run("list")
    assert outcome.code == 0
    assert {line.split()[0]: line.split()[-1] for line in outcome.out.splitlines()[1:]} == {
        "trip-planner": "-",
        "bad-sector": "unreadable",
    }
    outcome = run("verify", "--all")
    assert outcome.code == 4
    assert "bad-sector" in outcome.out
    assert "1 session whole, 1 damaged" in outcome.out
    outcome = run("doctor")
    assert outcome.code == 4
    assert "bad-sector is unreadable" in outcome.out
    assert run("show", "bad-sector").code == 1


EVIL = "a\x1b[2Jb\x9b31mc\rd\u202ee\u200bf\x07\nsecond"


@pytest.fixture
def evil(library):
    """A session whose every text tries to reach the terminal."""
    with library.session("evil", title=EVIL, agent_id="agent") as s:
        s.tag(EVIL)
        s.user(EVIL)
        s.append("assistant", {"content": [{"type": "text", "text": EVIL}], "agent": EVIL})
        s.tool_result(s.tool_call(EVIL, {EVIL: EVIL}), {EVIL: [EVIL]})
        s.append("interrupted", {"reason": EVIL})
        s.variables["x"] = EVIL
    return "evil"


SCREENS = [
    ["list"],
    ["show", "evil"],
    ["show", "evil", "--full"],
    ["show", "evil", "--events"],
    ["show", "evil", "--json"],
    ["show", "evil", "--events", "--json"],
    ["show", "evil", "--state"],
    ["show", "evil", "--messages"],
    ["recover", "evil", "--json"],
    ["list", "--json"],
    ["verify", "evil"],
    ["doctor"],
    ["delete", "evil"],
    ["show", EVIL],
    [EVIL],
    ["list", "--since", EVIL],
    ["list", f"--{EVIL}"],
    ["recover", f"./{EVIL}"],
]


@pytest.mark.parametrize("arguments", SCREENS, ids=lambda arguments: " ".join(arguments)[:30])
def test_nothing_recorded_reaches_the_terminal_as_it_is(run, evil, arguments):
    """No control, direction or invisible character of a session or an argument is printed."""
    outcome = run(*arguments)
    for character in "\x1b\x9b\r\u202e\u200b\x07":
        assert character not in outcome.out + outcome.err


def test_json_keeps_the_value(run, evil):
    """Escaping changes how JSON is written and not what it says."""
    (row,) = json.loads(run("list", "--json").out)["sessions"]
    assert row["title"] == EVIL
    assert row["tags"] == [EVIL]


def test_a_huge_message(run, library):
    """A message of a megabyte is shown whole and listed in a line."""
    with library.session("huge") as s:
        s.user("word " * 200_000)
    assert run("show", "huge", "--full").out.count("word") >= 200_000
    assert max(map(len, run("list").out.splitlines())) < 200


def test_events_that_are_no_events(run, store_root):
    """A foreign log with strange data in every place can be listed and shown."""
    folder = store_root / "sessions" / "odd"
    folder.mkdir(mode=0o700, parents=True)
    kinds = ["user", "assistant", "tool_call", "tool_result", "delta", "thinking", "compaction"]
    kinds += ["retracted", "interrupted", "delegation", "agent_error", "repaired", "unknown"]
    values = ["null", "[]", '"text"', "{}", '{"content":{"a":1},"params":7,"covers":3,"seqs":"x"}']
    lines = [
        f'{{"type":"{kind}","timestamp":{time},"data":{value}}}\n'
        for kind in kinds
        for value in values
        for time in (1, 10**17)
    ]
    (folder / "events.jsonl").write_text("".join(lines))
    for arguments in (["list"], ["show", "odd"], ["show", "odd", "--events"], ["recover", "odd"]):
        outcome = run(*arguments)
        assert outcome.code in (0, 4), outcome.err
        assert "defect" not in outcome.err
