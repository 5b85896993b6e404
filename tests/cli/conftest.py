"""A store with known sessions, and the two ways to run the command: in process and for real."""

from __future__ import annotations

import os
import subprocess
import sys
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
            timeout=60,
        )
        out, err = result.stdout or b"", result.stderr or b""
        return Outcome(result.returncode, out.decode(), err.decode())

    return shell


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
