"""Adapters are tested where the frameworks are installed: `make test-frameworks`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.cli import cli

ROOT = Path(__file__).parents[2]

collect_ignore_glob = [] if find_spec("agents") else ["test_*.py"]


class Programs:
    """Runs a program of a test, which gets a store and a mode as its arguments."""

    def __init__(self, store_root):
        self._store_root = store_root

    def killed(self, source):
        """In the mode "hang", ended by kill -9 when it says "waiting"; what it said before."""
        said = []
        with subprocess.Popen(self._command(source, "hang"), stdout=subprocess.PIPE, text=True) as run:
            while (line := run.stdout.readline()) != "waiting\n":
                assert line, "it ended by itself"
                said.append(line)
            os.kill(run.pid, signal.SIGKILL)
        return "".join(said)

    def finished(self, source, mode="answer"):
        """To its end, which is a good one; what it said."""
        done = subprocess.run(self._command(source, mode), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def failed(self, source, mode):
        """To its end, which is a bad one; what it said, and why."""
        done = subprocess.run(self._command(source, mode), capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stdout
        return done.stdout + done.stderr

    def _command(self, source, mode):
        return [sys.executable, "-c", textwrap.dedent(source), str(self._store_root), mode]


@pytest.fixture
def programs(store_root):
    """Programs of the test, with its store."""
    return Programs(store_root)


@pytest.fixture(scope="session")
def sdist():
    """Fetch the sources of a framework, which have its own tests: a function from name to folder.

    It is the version that is locked, held to the hashes of the lock, and kept below ``build``.
    """
    return _fetch_sdist


def _fetch_sdist(name):
    lines = (ROOT / "requirements-frameworks.lock").read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"{name}=="))
    locked = [lines[first]]
    while locked[-1].endswith("\\"):
        locked.append(lines[first + len(locked)])
    folder = ROOT / "build" / "sdists" / locked[0].split()[0]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as given:
            _unpack(Path(given), name, "\n".join(locked), folder)
    return folder


def _unpack(given, name, locked, folder):
    (given / "locked.txt").write_text(locked + "\n", encoding="utf-8")
    options = ["--quiet", "--no-deps", "--no-binary", name, "--require-hashes"]
    command = [sys.executable, "-m", "pip", "download", *options, "-r", "locked.txt"]
    asked = subprocess.run(command, cwd=given, capture_output=True, text=True, check=False)
    if asked.returncode:
        assert "HASH" not in asked.stderr, asked.stderr
        pytest.skip(f"the sources of {name} cannot be had: {asked.stderr.strip()[-200:]}")
    (packed,) = given.glob("*.tar.gz")
    with tarfile.open(packed) as tar:
        tar.extractall(given, filter="data")
    unpacked = given / packed.name.removesuffix(".tar.gz")
    try:
        unpacked.rename(folder)
    except OSError:  # another worker was quicker
        assert folder.exists()


@pytest.fixture
def own_tests(sdist, tmp_path):
    """Run tests that a framework brings along: a function that gives how many came to which end.

    It takes the framework's name, a plugin that puts our class in the place of theirs, and options
    of pytest. What failed is told by the assertion.
    """

    def run(name, plugin, *options):
        folder = sdist(name)
        (tmp_path / "on_holdfast.py").write_text(textwrap.dedent(plugin), encoding="utf-8")
        plain = ["-q", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider"]
        told = subprocess.run(
            [sys.executable, "-m", "pytest", *plain, "-p", "on_holdfast", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{folder}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stdout[-5000:] + told.stderr[-2000:]
        ends = re.findall(r"(\d+) (passed|failed|skipped|deselected)", told.stdout)
        return {end: int(count) for count, end in ends}

    return run


class Child:
    """What a function in a process of its own can do: say something, and be killed."""

    def __init__(self, pipe, *, is_killed):
        self._pipe = pipe
        self._is_killed = is_killed

    def __call__(self, said):
        """Tell the test."""
        os.write(self._pipe, json.dumps(said).encode() + b"\n")

    def wait(self):
        """Be killed here; a process that is to come to its end goes on."""
        if self._is_killed:
            self("waiting")
            time.sleep(600)


class Processes:
    """Runs functions of a test, each in a process of its own; they get a :class:`Child`."""

    def killed(self, run):
        """Until it waits, then ended by kill -9; what it said before."""
        pid, lines = self._start(run, is_killed=True)
        said = []
        with lines:
            while (line := json.loads(lines.readline() or "null")) != "waiting":
                assert line is not None, "it ended by itself"
                said.append(line)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return said

    def finished(self, run):
        """To its end, which is a good one; what it said."""
        pid, lines = self._start(run, is_killed=False)
        with lines:
            said = [json.loads(line) for line in lines]
        assert os.waitpid(pid, 0)[1] == 0
        return said

    def _start(self, run, *, is_killed):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.close(reading)
                run(Child(writing, is_killed=is_killed))
                code = 0
            except BaseException:  # noqa: BLE001 - whatever it is, it is told and the child ends
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        return pid, os.fdopen(reading)


@pytest.fixture
def processes():
    """Functions of the test in processes of their own, which begin at once."""
    return Processes()


class Harbour:
    """A store, and berths: a booking is a side effect that can be seen outside of the store."""

    def __init__(self, store_root):
        self.store = store_root
        self._book = store_root.parent / "booked"

    def book(self, port, child=None):
        """Book a berth; who is to be killed in a tool is killed after that."""
        with self._book.open("a") as file:
            file.write(f"{port}\n")
        if child is not None:
            child.wait()
        return f"berth in {port}"

    @property
    def booked(self):
        """The ports, in their order."""
        return self._book.read_text().splitlines()

    def only_id(self):
        """The id of the only session."""
        with holdfast.open(self.store) as hf:
            (row,) = hf.list()
            return row.session_id

    def repair(self, id):
        """Open a session, which repairs what a crash left."""
        with holdfast.open(self.store) as hf, hf.session(id, repair="auto"):
            pass


@pytest.fixture
def harbour(store_root):
    """A store, with a side effect to be seen beside it."""
    return Harbour(store_root)


class Readers:
    """Everybody who reads a session without being the adapter that wrote it."""

    def __init__(self, store_root):
        self._store_root = store_root

    def all_have(self, id, *words):
        """Assert that each of them has each of these words."""
        seen = self._of(id, words)
        assert seen == {name: list(words) for name in seen}

    def none_has(self, id, *words):
        """Assert that none has any of them; `show` tells also what was taken back."""
        seen = self._of(id, words)
        del seen["show"]
        assert seen == {name: [] for name in seen}

    def keep_apart(self, *branches):
        """Assert of branches (an id, a word of its own, what else it has) that none is in another.

        What each has is there for all of them.
        """
        for id, own, shared in branches:
            self.all_have(id, *shared, own)
            self.none_has(id, *(word for _, word, _ in branches if word != own))

    def _of(self, id, words):
        from holdfast.integrations.langchain import HoldfastChatMessageHistory
        from holdfast.integrations.llama_index import HoldfastChatStore

        with holdfast.open(self._store_root) as hf:
            recovery = hf.recover(id, "neutral", incomplete="mark")
            told = {
                "recover": json.dumps(recovery.messages),
                "langchain": repr(HoldfastChatMessageHistory(id, hf).messages),
                "llama-index": repr(HoldfastChatStore(hf).get_messages(id)),
                "show": self._shown(id),
            }
            seen = {name: [word for word in words if word in text] for name, text in told.items()}
            found = {word: [one.session_id for one in hf.search(f'"{word}"')] for word in words}
        return seen | {"search": [word for word in words if id in found[word]]}

    def _shown(self, id):
        command = ["show", id, "--store", str(self._store_root)]
        return CliRunner().invoke(cli, command, catch_exceptions=False).output


@pytest.fixture
def readers(store_root):
    """Those who read what an adapter wrote: recover, search, show, other frameworks."""
    return Readers(store_root)
