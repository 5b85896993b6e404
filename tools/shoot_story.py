"""Take the picture of the README: ``python tools/shoot_story.py [FILE]``.

A real chat in a real terminal (tmux): words, SIGKILL in the middle of an answer, and the next chat
that goes on. Only the model is scripted. The picture is an SVG that names no font of another host.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from holdfast.testing.model_server import Request, Say, ScriptedModel

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "story.svg"
WIDTH, HEIGHT = 96, 40
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_IDS = re.compile(r"terminal-\d+-")
_WAIT_S = 60


def answer(request: Request) -> Say:
    """Return the model's answer; the first one is slow, so that it can be killed during the answer."""
    words = str(request.messages[-1])
    if "Plan" in words:
        return Say("Day one: Alfama, on foot. Day two: the train to Sintra, before", pause_s=0.08)
    return Say("I was cut off at day two: the train to Sintra, before the rain. Go on, Alice?")


class Terminal:
    """A separate terminal that can be typed into and read."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._tmux = ("tmux", "-S", str(folder / "tmux"), "-f", "/dev/null")
        shell = "env PS1='$ ' HISTFILE= bash --norc --noprofile -i"
        self._run("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), shell, **environment)
        self._run("set-option", "-g", "status", "off")

    def _run(self, *words: str, **environment: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own words
            [*self._tmux, *words],
            env={**os.environ, "TERM": "xterm-256color", **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def type(self, words: str) -> None:
        """Type a line."""
        self._run("send-keys", "-l", words)
        self._run("send-keys", "Enter")

    def screen(self) -> str:
        """Return the contents of the screen, with its colours."""
        return self._run("capture-pane", "-p", "-e")

    def wait(self, words: str) -> None:
        """Wait until a text is on the screen."""
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end:
            plain = Text.from_ansi(self.screen()).plain
            if words in " ".join(plain.split()):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{words!r} is not on the screen:\n{self.screen()}")

    def kill(self) -> None:
        """Send SIGKILL to the program that runs in it."""
        shell = self._run("display-message", "-p", "#{pane_pid}").strip()
        subprocess.run(["pkill", "-KILL", "-P", shell], check=True)  # noqa: S603, S607 - our own words

    def close(self) -> None:
        """End it."""
        self._run("kill-server")


def tell(terminal: Terminal) -> str:
    """Run the story and return the final screen."""
    terminal.wait("$")
    terminal.type("holdfast chat")
    terminal.wait("you>")
    terminal.type("I am Alice. Plan two days in Lisbon.")
    terminal.wait("the train to Sintra")
    terminal.kill()
    terminal.wait("Killed")
    terminal.type("holdfast chat")
    terminal.wait("The last answer was interrupted")
    terminal.type("Where were we?")
    terminal.wait("Go on, Alice?")
    terminal.type("exit")
    terminal.wait("goes on with it. $")
    terminal.type("holdfast verify -")
    terminal.wait("Everything is whole.")
    return terminal.screen()


def draw(screen: str) -> str:
    """Return the screen as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip()), end="")
    picture = console.export_svg(title="holdfast chat")
    return _IDS.sub("story-", _COMMENTS.sub("", _FONTS.sub("", picture)))


def main(place: str | None = None) -> None:
    """Run the story and write the picture."""
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(answer) as model:
        home = Path(folder)
        environment = {
            "HOME": folder,
            "HOLDFAST_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.openai_url,
            "OPENAI_API_KEY": "none",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **{f"XDG_{name}_HOME": folder for name in ("STATE", "CONFIG", "DATA", "CACHE")},
        }
        if shutil.which("tmux") is None:
            raise SystemExit("tmux is needed to take the picture")
        terminal = Terminal(home, environment)
        try:
            screen = tell(terminal).replace(folder, "~/.local/share")
            picture = draw(screen.replace(f" at {model.openai_url}", ""))
        finally:
            terminal.close()
    target = Path(place) if place else PICTURE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture, "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
