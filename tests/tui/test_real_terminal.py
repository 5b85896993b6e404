"""The app in a real terminal: keys go in, and the screen is read."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.testing.model_server import Say

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux as a terminal")

COMMAND = str(Path(sys.executable).with_name("holdfast"))
WAIT_S = 120
LONG = Say("begin " + "word " * 4_000, pause_s=0.05)


class Terminal:
    """A terminal of its own, in which the app is started as often as it is asked for."""

    def __init__(self, folder, size, env):
        self._base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        given = [f"{name}={value}" for name, value in env.items()]
        shell = ["env", "-u", "COLUMNS", "-u", "LINES", *given, "bash", "--norc", "--noprofile"]
        width, height = map(str, size)
        self._tmux("new-session", "-d", "-x", width, "-y", height, *shell)

    def _tmux(self, *words):
        done = subprocess.run([*self._base, *words], capture_output=True, check=True, timeout=WAIT_S)
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

    def resize(self, size):
        """Another width and height."""
        width, height = map(str, size)
        self._tmux("resize-window", "-x", width, "-y", height)

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
    at.wait("ended-137")
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


@pytest.fixture(scope="module")
def ssh(tmp_path_factory):
    """The words of a command that logs in to this machine, by a server of the tests' own."""
    server = shutil.which("sshd") or "/usr/sbin/sshd"
    if not (os.path.exists(server) and shutil.which("ssh-keygen")):
        pytest.skip("needs an ssh server: apt-get install openssh-server")
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True, timeout=WAIT_S)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # which a server of root's asks for
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "StrictModes": "no",
        "UsePAM": "no",
        "PermitRootLogin": "yes",
        "PidFile": "none",
    }
    config = folder / "config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    running = subprocess.Popen([server, "-D", "-e", "-f", config], stderr=subprocess.PIPE)
    if not _answers(int(port), running):
        pytest.skip(f"the ssh server does not start: {running.stderr.read().decode()[:200]}")
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
    yield [
        *("ssh", "-tt", "-F", "none", "-p", port, "-i", str(folder / "user")),
        *(word for option in options for word in ("-o", option)),
        f"{getpass.getuser()}@127.0.0.1",
    ]
    running.terminate()
    running.communicate(timeout=WAIT_S)


def _answers(port, running):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end and running.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        time.sleep(0.05)
    return False


def test_over_ssh(terminal, ssh, hf, trip, model):
    """Read, talk and resize from another machine; where the line is cut, nothing is lost."""
    at = terminal((100, 30))
    there = {"HOLDFAST_STORE": hf.store.path, "HOLDFAST_MODEL": "openai:scripted", "OPENAI_BASE_URL": model.openai_url}
    asked = ["env", "-C", os.getcwd(), *(f"{name}={value}" for name, value in there.items())]
    far = shlex.join([*ssh, shlex.join([*asked, COMMAND])])
    at.type(f"clear; {far}; echo en''ded-$?")
    at.press("Enter")
    at.wait("1 session ", "Trip to Lisbon", "q Quit")
    at.press("c")
    at.wait("Say something")
    at.type("hello over there")
    at.press("Enter")
    at.wait("you said hello over there", "restored", "openai:scripted")
    at.resize((130, 34))
    at.wait(r"UPDATED[\s\S]*you said hello over there")
    at.press("Escape")
    at.wait("esc List")
    at.press("q")
    at.wait("ended-0")
    model.follow(lambda request: LONG)
    at.type(f"clear; {far}; echo en''ded-$?")
    at.press("Enter")
    at.wait("Trip to Lisbon", "q Quit")
    at.press("c")
    at.wait("Say something")
    at.type("tell")
    at.press("Enter")
    at.wait("begin word word word", "answering")
    os.kill(at.app_pid(), signal.SIGKILL)  # the client's side of the line
    at.wait("ended-137")
    end = time.monotonic() + WAIT_S
    while hf.info(trip).open and time.monotonic() < end:
        time.sleep(0.1)
    assert not hf.info(trip).open
    assert hf.verify(trip).ok
    assert "begin word" in str(hf.recover(trip).messages[-1]["content"])
