"""A store with known sessions, and the two ways to run the command: in process and for real."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.cli import cli

COMMAND = str(Path(sys.executable).with_name("holdfast"))


class Outcome(NamedTuple):
    """What a run of the command gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def library(store_root):
    """The sessions of an empty store."""
    with holdfast.open(store_root) as found:
        yield found


@pytest.fixture
def run(store_root):
    """Run the command in this process on the test's store."""

    def run(*arguments, store=None, env=None, text=None):
        settings = {"HOLDFAST_STORE": str(store or store_root), "COLUMNS": "100", **(env or {})}
        result = CliRunner(env=settings).invoke(cli, list(arguments), input=text)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def shell(store_root, tmp_path):
    """Run the installed command in a process of its own, as a shell would, into pipes."""

    def shell(*arguments, env=None, **options):
        settings = {**os.environ, "HOLDFAST_STORE": str(store_root), "PYTHONWARNINGS": "error"}
        result = subprocess.run(
            [COMMAND, *map(str, arguments)],
            env={**settings, **(env or {})},
            **{"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
            check=False,
            timeout=120,
        )
        out, err = result.stdout or b"", result.stderr or b""
        return Outcome(result.returncode, out.decode(), err.decode())

    return shell


@pytest.fixture
def tty(store_root, tmp_path):
    """Run the installed command on a real terminal of its own, and press keys when it waits."""

    def tty(*arguments, keys=b"", rows=40, columns=100, program=None, **env):
        settings = {**os.environ, "HOLDFAST_STORE": str(store_root), "TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES", "PAGER", "LESS", "NO_COLOR"):
            settings.pop(name, None)
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        with subprocess.Popen(
            program or [COMMAND, *map(str, arguments)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=settings | env,
            cwd=tmp_path,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - nothing else gives it a terminal
        ) as process:
            os.close(theirs)
            out = _watch(ours, keys)
            code = process.wait(120)
        os.close(ours)
        return Outcome(code, out.decode(errors="replace").replace("\r\n", "\n"), "")

    return tty


def _own_terminal():
    """The terminal on standard input is the one that the process belongs to."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _watch(ours, keys):
    """Everything that is written; a key is pressed each time when nothing has come for a while."""
    out, waiting = b"", [bytes([key]) for key in keys]
    while True:
        ready, _, _ = select.select([ours], [], [], 1.0 if waiting and out else 120)
        if not ready:
            if not waiting:
                raise AssertionError(f"nothing comes any more: {out!r}")
            os.write(ours, waiting.pop(0))
            continue
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            return out
        if not part:
            return out
        out += part


@pytest.fixture
def trip(library):
    """A session with everything that a screen shows."""
    with library.session("trip-planner", title="Trip to Lisbon", agent_id="planner") as s:
        s.tag("travel")
        s.append("system", {"content": "Be brief."})
        s.user("Plan a week in Lisbon")
        call = s.tool_call("Weather", {"city": "Lisbon", "days": 7})
        s.tool_result(call, {"content": "\n".join(f"day {day}: sunny" for day in range(40))})
        s.assistant("Take the train to Sintra.", usage={"input_tokens": 1200, "output_tokens": 34})
        s.variables["budget"] = 900
    return "trip-planner"


@pytest.fixture
def damaged(library):
    """A session one of whose lines was changed on the disk."""
    with library.session("broken") as s:
        for number in range(5):
            s.user(f"message {number}")
    log = Path(library.location("broken")) / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"message 2", b"massage 2"))
    return "broken"


@pytest.fixture
def too_new(store_root):
    """A session of a format that nobody knows yet."""
    folder = store_root / "sessions" / "from-the-future"
    folder.mkdir(mode=0o700, parents=True)
    line = '{"type":"session_start","timestamp":1,"data":{"format":99}}\n'
    (folder / "events.jsonl").write_text(line)
    return "from-the-future"


def tree(root):
    """Everything below a folder but the catalogue: names, modes, times and contents."""
    root = Path(root)
    return {
        str(path.relative_to(root)): (
            (found := path.lstat()).st_mode,
            found.st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(root.rglob("*"))
        if path.exists() and not path.name.startswith("catalog.db")
    }


@pytest.fixture
def untouched(store_root):
    """Fails if anything below the store has changed at the end of the test."""
    before = tree(store_root)
    yield
    assert tree(store_root) == before
