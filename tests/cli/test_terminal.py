"""The command in a real terminal."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux as a terminal")

COMMAND = str(Path(sys.executable).with_name("holdfast"))
WAIT_SECONDS = 120


class Terminal:
    """A terminal of its own, in which one program runs."""

    def __init__(self, folder, width, program, env):
        self._base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        settings = "; ".join(f"export {name}={shlex.quote(value)}" for name, value in env.items())
        # No width but the terminal's own; Ctrl-C is for the program; the screen stays after it.
        script = f"trap : INT; unset COLUMNS LINES; {settings}; {program}; echo done-$?; sleep 600"
        self._tmux("new-session", "-d", "-x", str(width), "-y", "60", "sh", "-c", script)

    def _tmux(self, *arguments):
        done = subprocess.run([*self._base, *arguments], capture_output=True, check=True)
        return done.stdout.decode()

    def type(self, text):
        """Press keys."""
        self._tmux("send-keys", text)

    def screen(self, *, raw=False):
        """What is to be seen; raw with the sequences that colour it."""
        return self._tmux("capture-pane", "-p", *(["-e"] if raw else []))

    def wait(self, words):
        """The screen, once these words are on it."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            screen = self.screen()
            if re.search(words, screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{words!r} did not appear:\n{self.screen()}")

    def end(self):
        """Close the terminal."""
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path_factory, store_root):
    """Start programs in terminals; all are closed at the end."""
    opened = []

    def start(*arguments, width=80, program=None, **env):
        # A socket's path is short by law, so not below the test's own folder.
        folder = tmp_path_factory.mktemp("t")
        settings = {"HOLDFAST_STORE": str(store_root), **env}
        line = program or shlex.join([COMMAND, *arguments])
        opened.append(Terminal(folder, width, line, settings))
        return opened[-1]

    yield start
    for one in opened:
        one.end()


def lines_of(screen):
    """The lines before the mark that the program is done."""
    return [line.rstrip() for line in screen.partition("done-")[0].splitlines()]


@pytest.fixture
def many(library, trip, damaged):
    """Sessions with long and wide titles."""
    with library.session("wide", title="漢字のタイトルで幅を確かめる、とても長いタイトルです" * 2) as s:
        s.user("x")
    with library.session() as s:
        s.title = "A title that is much longer than any terminal has room for, at least at eighty"
        s.user("x")
        s.tag("tag")


@pytest.mark.parametrize("width", [50, 60, 80, 120, 200])
def test_a_list_fits_the_terminal(terminal, many, width):
    """Each session takes one line, cut where it must be; state and id are whole."""
    lines = lines_of(terminal("list", width=width).wait("done-0"))
    assert len(lines) == 5
    assert all("damaged" in line for line in lines if line.startswith("broken"))
    assert lines[0].startswith("ID")
    assert all(line.endswith("STATE") for line in lines[:1])


def test_watching_is_not_paged(terminal, trip, library):
    """The list that goes on is drawn at once and again when something changes; no pager waits."""
    found = terminal("list", "--watch", PAGER="less")
    found.wait("trip-planner(.|\n)*watching")
    with library.session("another") as s:
        s.user("x")
    found.wait("another(.|\n)*trip-planner(.|\n)*watching")
    found.type("C-c")
    found.wait("done-0")


def test_colours(terminal, many):
    """On a terminal there are colours, and NO_COLOR switches them off."""
    colourful = terminal("list")
    colourful.wait("done-0")
    assert "\x1b[" in colourful.screen(raw=True).partition("done-")[0]
    plain = terminal("list", NO_COLOR="1")
    plain.wait("done-0")
    assert "\x1b[" not in plain.screen(raw=True).partition("done-")[0]
    assert lines_of(plain.screen()) == lines_of(colourful.screen())


def test_a_dumb_terminal(terminal, trip):
    """A terminal that can do nothing gets plain text."""
    dumb = terminal("list", TERM="dumb")
    dumb.wait("done-0")
    assert "\x1b[" not in dumb.screen(raw=True).partition("done-")[0]


def test_a_conversation_is_wrapped(terminal, library):
    """Long words of a message go on below, indented."""
    with library.session("talk") as s:
        s.user("word " * 40)
    lines = lines_of(terminal("show", "talk").wait("done-0"))
    assert sum(line.startswith("  word word") for line in lines) == 3
    assert max(map(len, lines)) <= 80


def test_markdown_is_laid_out_line_by_line(terminal, library):
    """Each line of what is laid out is one on the terminal, and blank lines stay between blocks."""
    with library.session("trip") as session:
        session.assistant("# Plan\n\nGo **now**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    lines = [line.strip() for line in lines_of(terminal("show", "trip").wait("done-0"))]
    at = lines.index("Plan")
    assert [line for line in lines[at:] if line][:3] == ["Plan", "Go now.", "a  b"]
    assert lines[at + 1] == ""


def test_recorded_sequences_have_no_power(terminal, library):
    """A session that tries to clear the screen and set colours is only shown."""
    with library.session("evil") as s:
        s.title = "first \x1b[2J\x1b[H\x1b]0;owned\x07 last"
        s.user("\x1b[31mred\x1b[0m and \x1b[8mhidden\x1b[0m \x9b2J end")
    found = terminal("show", "evil", NO_COLOR="1")
    screen = found.wait("done-0")
    assert "first ␛[2J␛[H␛]0;owned␇ last" in screen
    assert "␛[31mred" in screen
    assert "hidden" in screen
    assert "\x1b[" not in found.screen(raw=True).partition("done-")[0]


def test_an_error_in_colour(terminal, trip):
    """An error has its word in red and wraps with its remedy indented."""
    found = terminal("show", "tirp-planner")
    screen = found.wait("done-3")
    assert "did you mean trip-planner?" in screen
    assert re.search("\x1b\\[[0-9;]*31m", found.screen(raw=True))


@pytest.mark.parametrize(("key", "code", "there"), [("n", 1, True), ("y", 0, False)])
@pytest.mark.usefixtures("trip")
def test_delete_asks(terminal, library, key, code, there):
    """On a terminal delete shows what is meant and asks; no is no."""
    found = terminal("delete", "trip")
    screen = found.wait("to the trash")
    assert "Trip to Lisbon" in screen
    assert library.exists("trip-planner")
    found.type(key)
    found.type("Enter")
    found.wait(f"done-{code}")
    assert library.exists("trip-planner") is there


def test_delete_can_be_interrupted(terminal, trip, library):
    """Ctrl-C at the question deletes nothing and says so by its code."""
    found = terminal("delete", "trip")
    found.wait("to the trash")
    found.type("C-c")
    found.wait("done-130")
    assert library.exists(trip)


def test_yes_does_not_ask(terminal, trip, library):
    """--yes answers before the question."""
    terminal("delete", "trip", "--yes").wait("done-0")
    assert not library.exists(trip)


SLOW = """
import os, time
import holdfast.apps.cli._progress as progress
from holdfast.apps.cli import main
from holdfast.library import Holdfast
verify = Holdfast.verify
def slowly(self, id, **options):
    time.sleep(0.15)
    while id == "job-6" and not os.path.exists(os.environ["GOES_ON"]):
        time.sleep(0.01)
    return verify(self, id, **options)
Holdfast.verify = slowly
progress._QUIET_SECONDS = 0
main()
"""


def test_long_work_shows_how_far_it_is(terminal, library, tmp_path):
    """Verifying everything counts while it works, and leaves only its result."""
    for number in range(12):
        with library.session(f"job-{number}") as s:
            s.user("x")
    program = shlex.join([sys.executable, "-c", SLOW, "verify", "--all"])
    goes_on = tmp_path / "goes-on"
    found = terminal(program=program, GOES_ON=str(goes_on))
    found.wait(r"verifying .* \d+/12")
    goes_on.touch()
    screen = found.wait("done-0")
    assert lines_of(screen) == ["12 sessions whole, 0 damaged"]
