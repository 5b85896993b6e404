"""The app in a real terminal: keys go in, and the screen is read."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.testing.model_server import Say

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux as a terminal")

COMMAND = str(Path(sys.executable).with_name("holdfast"))
WAIT_S = 60
LONG = Say("begin " + "word " * 2_000, pause_s=0.05)


class Terminal:
    """A terminal of its own, in which the app is started as often as it is asked for."""

    def __init__(self, folder, size, env):
        self._base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        given = [f"{name}={value}" for name, value in env.items()]
        shell = ["env", "-u", "COLUMNS", "-u", "LINES", *given, "bash", "--norc", "--noprofile"]
        width, height = map(str, size)
        self._tmux("new-session", "-d", "-x", width, "-y", height, *shell)

    def _tmux(self, *words):
        done = subprocess.run(
            [*self._base, *words], capture_output=True, check=True, timeout=WAIT_S
        )
        return done.stdout.decode()

    def run(self, *arguments):
        """Run the command in the shell, and say when it has ended."""
        self.type(f"clear; {shlex.join([COMMAND, *arguments])}; echo en''ded-$?")
        self.press("Enter")

    def type(self, text):
        """Type letters."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys):
        """Press keys by their names."""
        self._tmux("send-keys", *keys)

    def click(self, column, row):
        """A click of the left button, as terminals report it."""
        for end in "Mm":
            code = f"\x1b[<0;{column};{row}{end}"
            self._tmux("send-keys", "-H", *(f"{ord(char):x}" for char in code))

    def screen(self, *, raw=False):
        """What is to be seen; raw with its colours."""
        return self._tmux("capture-pane", "-p", *(["-e"] if raw else []))

    def wait(self, *words, raw=False):
        """The screen, once all these words are on it."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            screen = self.screen(raw=raw)
            if all(re.search(word, screen) for word in words):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{words!r} did not appear:\n{self.screen()}")

    def app_pid(self):
        """The process of the app: the only child of the shell."""
        shell = self._tmux("list-panes", "-F", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii")
        return int(children.split()[0])

    def end(self):
        """Close the terminal."""
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path_factory, store_root, model, own_place):
    """Open terminals of a given size; all are closed at the end."""
    opened = []

    def open_one(size=(100, 30)):
        folder = tmp_path_factory.mktemp("t")  # a socket's path is short by law
        names = ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        env = {name: os.environ[name] for name in names if name in os.environ}
        env |= {
            "HOLDFAST_STORE": str(store_root),
            "HOLDFAST_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.openai_url,
            "TERM": "screen-256color",
            "COLORTERM": "truecolor",
        }
        opened.append(Terminal(folder, size, env))
        opened[-1].type(f"cd {shlex.quote(str(own_place))}")
        opened[-1].press("Enter")
        return opened[-1]

    yield open_one
    for one in opened:
        one.end()


@pytest.mark.req("S2-8")
@pytest.mark.req("S2-52")
@pytest.mark.req("S2-54")
@pytest.mark.req("S2-55")
@pytest.mark.req("S2-107")
def test_a_day_with_it(terminal, hf, trip, fill):
    """List, filter, search, open, talk, leave, and go on with `--restore`."""
    fill(4)
    at = terminal()
    at.run()
    at.wait("5 sessions", "Trip to Lisbon", "Note 3", "q Quit")
    at.press("/")
    at.type("lisb")
    at.wait(r"1 session ", "Trip to Lisbon")
    at.press("Escape")
    at.wait("5 sessions", "Note 3")
    at.press("f")
    at.type("sintra")
    at.wait("1 hit")
    at.press("Enter")
    at.wait("▶ planner|▶ assistant", "Sintra")
    at.press("c")
    at.wait("Say something")
    at.type("hello there")
    at.press("Enter")
    at.wait("you said hello there", "restored", "openai:scripted")
    at.press("Escape")
    at.wait("esc List")
    at.press("q")
    at.wait("ended-0")
    assert not hf.info(trip).open
    at.run("tui", "--restore", "trip", "--light")
    screen = at.wait("you said hello there", "restored", "7 msgs|7 messages")
    assert "Trip to Lisbon" in screen
    at.press("q")
    at.wait("ended-0")


@pytest.mark.req("S2-55")
def test_killed_and_back(terminal, hf, trip, model):
    """An app that is killed in the middle of an answer loses nothing that was shown."""
    model.follow(lambda request: LONG)
    at = terminal()
    at.run("tui", "--restore", "trip")
    at.wait("Just so.")
    at.press("c")
    at.wait("Say something")
    at.type("tell")
    at.press("Enter")
    at.wait("begin word word word", "answering")
    os.kill(at.app_pid(), signal.SIGKILL)
    time.sleep(0.3)
    at.press("Enter")
    at.type("reset; clear; echo shell-''again")
    at.press("Enter")
    at.wait("shell-again")
    at.run("tui", "--restore", "-")
    at.wait("begin word word word", "Trip to Lisbon")
    at.press("q")
    at.wait("ended-0")
    assert hf.verify(trip).ok


def test_small_light_and_with_the_mouse(terminal, fill):
    """At 80x24 in light colours: a click chooses, a second one opens, `?` helps, a key changes."""
    fill(5)
    at = terminal((80, 24))
    at.run("tui", "--light")
    at.wait("5 sessions", "q Quit")
    at.wait("48;2;250;250;250", raw=True)
    at.click(10, 5)
    at.click(10, 5)
    at.wait("words of note 2")
    at.press("?")
    at.wait("Everywhere", "Esc closes")
    at.press("Escape")
    at.wait("words of note 2")
    at.press("C-t")
    at.wait("words of note 2")
    at.wait("48;2;21;24;28", raw=True)
    at.press("C-p")
    at.wait("Search for commands")
    at.type("analyt")
    at.wait("Analytics")
    at.press("Enter")
    at.wait("Activity")
    at.press("Escape")
    at.wait("words of note 2")
    at.press("q")
    at.wait("ended-0")
