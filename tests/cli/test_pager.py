"""Long output on a terminal goes through a pager; nothing else does."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import io
import itertools
import os
import re
import shutil
import struct
import sys
import termios

import click
import pytest

from holdfast.apps.cli import cli
from holdfast.apps.cli._pager import Held, Paged, pager_commands

# Says that it is a pager, and what it was given.
PAGER = f"""{sys.executable} -c 'import sys; print("PAGED", len(sys.stdin.read()))'"""


@pytest.fixture
def long(library):
    """A session that no small screen has room for."""
    with library.session("long", title="A long one") as s:
        for number in range(60):
            s.user(f"question {number} \x1b[2J")
    return "long"


@pytest.mark.parametrize(
    ("environment", "first"),
    [
        ({}, ["less", "-R"]),
        ({"PAGER": "most -w"}, ["most", "-w"]),
        ({"PAGER": "most", "HOLDFAST_PAGER": "bat --plain"}, ["bat", "--plain"]),
        ({"PAGER": "'unfinished"}, ["less", "-R"]),
    ],
)
def test_which_pager(environment, first):
    """Our own variable, then the usual one, then less."""
    assert pager_commands(environment)[0] == first


@pytest.mark.parametrize("environment", [{"PAGER": ""}, {"PAGER": "cat"}, {"PAGER": "less", "HOLDFAST_PAGER": " cat "}])
def test_no_pager_is_a_choice(environment):
    """Nothing or cat in a variable asks for none."""
    assert pager_commands(environment) == []


@pytest.mark.parametrize("arguments", [["show", "long"], ["show", "long", "--events"], ["help"], ["list", "--help"]])
def test_what_is_longer_than_the_screen(tty, long, arguments):
    """The pager gets everything, and the terminal nothing but what the pager shows."""
    outcome = tty(*arguments, rows=20, HOLDFAST_PAGER=PAGER)
    assert outcome.code == 0
    assert re.fullmatch(r"PAGED \d{3,}\n", outcome.out)


def test_what_is_shorter_than_the_screen(tty, trip):
    """What fits is printed as it is."""
    outcome = tty("list", rows=20, HOLDFAST_PAGER=PAGER)
    assert outcome.code == 0
    assert "trip-planner" in outcome.out
    assert "PAGED" not in outcome.out


def test_long_lines_count_for_as_many_rows_as_they_take(tty, library):
    """A few lines that are broken often are long output as well."""
    with library.session("wide") as s:
        s.user("x" * 3_000)
    assert "PAGED" in tty("export", "wide", "--format", "jsonl", rows=20, HOLDFAST_PAGER=PAGER).out


@pytest.mark.parametrize(
    ("arguments", "env"), [(["--no-pager"], {}), ([], {"HOLDFAST_PAGER": "cat"}), ([], {"TERM": "dumb"})]
)
def test_without_one(tty, long, arguments, env):
    """An option, a variable or a terminal that can do nothing: straight onto the screen."""
    outcome = tty("show", long, *arguments, rows=20, **{"HOLDFAST_PAGER": PAGER, **env})
    assert "question 59" in outcome.out
    assert "PAGED" not in outcome.out


def test_a_pipe_has_none(shell, long):
    """A program that reads gets everything at once."""
    assert "question 59" in shell("show", long, env={"HOLDFAST_PAGER": PAGER}).out


def test_a_pager_that_is_not_there(tty, long):
    """The next one is tried; here that is the terminal itself."""
    nowhere = {"HOLDFAST_PAGER": "no-such-pager-anywhere", "PATH": "/nonexistent"}
    outcome = tty("show", long, rows=20, **nowhere)
    assert outcome.code == 0
    assert "question 59" in outcome.out


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_less(tty, long):
    """The usual one shows a screen, and leaving it early is no failure; nothing is obeyed."""
    outcome = tty("show", long, rows=20, keys=b"q")
    assert outcome.code == 0
    assert "question 0" in outcome.out
    assert "question 59" not in outcome.out
    assert "␛[2J" in outcome.out
    assert "\x1b[2J" not in outcome.out.partition("A long one")[2]


def test_leaving_before_everything_was_read(tty, library):
    """A reader who leaves while more comes has seen enough: no error, and nothing more is told."""
    with library.session("huge") as s:
        s.extend([("user", {"content": "word " * 2_000}) for _ in range(60)])
    outcome = tty("show", "huge", "--full", rows=20, HOLDFAST_PAGER="true")
    assert outcome == (0, "", "")


def test_hints_come_after_the_pager(tty, library):
    """What is said on standard error does not disturb the pager."""
    for number in range(25):
        with library.session(f"job-{number}") as s:
            s.user("x")
    outcome = tty("list", "--limit", "20", rows=12, HOLDFAST_PAGER=PAGER)
    assert re.match(r"PAGED \d+\n.*and 5 older sessions", outcome.out, re.DOTALL)


def test_an_error_after_the_pager(tty, damaged, library):
    """A warning and the exit code are those of the command."""
    outcome = tty("show", damaged, rows=5, HOLDFAST_PAGER=PAGER)
    assert outcome.code == 4
    assert outcome.out.startswith("PAGED ")
    assert "broken is damaged" in outcome.out


def test_ctrl_c_is_for_the_pager(tty, long):
    """The command waits for its pager, and does not leave it alone with the terminal."""
    code = (
        "import signal, sys, time; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT});"
        "sys.stdin.read(); print('READ', flush=True); signal.sigwait({signal.SIGINT});"
        "print('NOTED'); time.sleep(1); print('END')"
    )
    outcome = tty("show", long, rows=20, keys=b"\x03", HOLDFAST_PAGER=f'{sys.executable} -c "{code}"')
    assert outcome.code == 0
    assert re.search(r"READ\n.*NOTED\nEND\n$", outcome.out, re.DOTALL)


def test_what_is_written_after_the_end():
    """Once it is over the stream is the terminal's own."""
    ours, theirs = os.openpty()
    with pytest.raises(OSError, match="size"), os.fdopen(os.dup(theirs), "w") as stream:
        Paged(stream, [["cat"]])  # a terminal that does not say how large it is
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 80, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        paged = Paged(stream, [["cat"]])
        paged.write("held back\n")
        paged.flush()
        assert not paged._process
        paged.finish()
        paged.write("straight\n")
        stream.flush()
        shown = b""
        while not shown.endswith(b"straight\r\n"):  # a terminal may hand it over in pieces
            shown += os.read(ours, 1_000)
        assert shown.replace(b"\r", b"") == b"held back\nstraight\n"
    os.close(ours)


def test_what_is_said_after_the_end():
    """Words on standard error wait for the end of the pager, and later ones do not."""
    stream = io.StringIO()
    after = Held(stream)
    after.write("a hint\n")
    after.flush()
    assert stream.getvalue() == ""
    after.finish()
    after.write("another\n")
    after.flush()
    assert stream.getvalue() == "a hint\nanother\n"
    assert not after.isatty()


@pytest.fixture
def small():
    """A stream to a terminal of ten rows."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 80, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        yield stream
    os.close(ours)


def test_in_this_process(small, tmp_path, monkeypatch, trip, store_root):
    """The same without a process of its own: help, a list, and what is said beside it."""
    kept = tmp_path / "kept"
    code = f"import sys; open({str(kept)!r}, 'a').write(sys.stdin.read())"
    monkeypatch.setenv("HOLDFAST_PAGER", f'{sys.executable} -c "{code}"')
    monkeypatch.setenv("HOLDFAST_STORE", str(store_root))
    monkeypatch.setenv("TERM", "xterm")
    with contextlib.redirect_stdout(small), contextlib.redirect_stderr(small):
        assert cli.main(["list", "--help"], standalone_mode=False) == 0
        assert cli.main(["show", trip, "--full"], standalone_mode=False) == 0
        monkeypatch.setenv("HOLDFAST_PAGER", "cat")
        assert cli.main(["title", trip], standalone_mode=False) == 0
    text = kept.read_text(encoding="utf-8")
    assert "Usage: holdfast list" in text
    assert "day 39: sunny" in text


def test_a_pager_that_leaves(small):
    """What nobody reads any more ends the command, and the end is quiet."""
    paged = Paged(small, [["no-such-pager-anywhere"], ["true"]])
    with pytest.raises(click.exceptions.Exit) as ended:
        collections.deque(map(paged.write, itertools.repeat("line\n" * 100, 10_000)), 0)
    assert ended.value.exit_code == 0
    assert paged._process
    paged.finish()
    assert not paged._process


def test_no_pager_at_all(small):
    """Where none can be started the terminal gets it."""
    paged = Paged(small, [["no-such-pager-anywhere"]])
    paged.write("line\n" * 20)
    assert not paged._process
    assert paged.isatty()
    assert paged.fileno() == small.fileno()
