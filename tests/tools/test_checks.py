"""The project's own checks: each finds what it is there to find, and nothing else."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def load(name):
    """A script of tools/ as a module."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rules_broken(tmp_path, where, source):
    """The first word of each rule that one module breaks."""
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return [text.split(": ")[1] for text in load("check_rooms").check(tmp_path)]


@pytest.mark.parametrize(
    ("where", "source", "rule"),
    [
        ("model/x.py", "import os", "pure"),
        ("model/x.py", "from time import time as now", "pure"),
        ("replay/deep/x.py", "def f():\n    import random", "pure"),
        ("model/_event.py", "from pathlib import Path", "pure"),
        ("model/_values.py", "from os import path", "pure"),
        ("model/x.py", "import datetime as d\nd.datetime.now()", "pure"),
        ("replay/x.py", "from uuid import uuid4\nmake = uuid4", "pure"),
        ("session/x.py", "open('a')", "disk"),
        ("session/x.py", "import os\nos.open('a', 0)", "disk"),
        ("storage/files/store.py", "from os import fsync as settle", "disk"),
        ("storage/files/store.py", "import os as o\nf = o.rename", "disk"),
        ("library.py", "import fcntl", "disk"),
        ("apps/cli/x.py", "from pathlib import Path\nPath('a').write_text('b')", "disk"),
        ("catalog/x.py", "import sqlite3", "sqlite"),
        ("session/x.py", "import click", "foreign"),
        ("agent/x.py", "from textual.app import App", "foreign"),
        ("storage/x.py", "import requests", "foreign"),
        ("apps/x.py", "from holdfast.testing import StoreContract", "testing"),
        ("agent/x.py", "from holdfast.session._writer import Writer", "door"),
        ("agent/x.py", "def f():\n    from holdfast.session import _writer", "door"),
        ("apps/cli/x.py", "from holdfast.apps.tui._app import App", "door"),
        ("session/_x.py", "__all__ = ['f']", "all"),
        ("session/reading.py", "", "noun"),
        ("session/x.py", "c = threading.Condition()\nwith c:\n    pass", "lock"),
        ("session/x.py", "class A:\n    def f(self):\n        with self._condition: ...", "lock"),
        ("session/x.py", "def f():\n    'The same for one.'", "subject"),
        ("session/x.py", "class C:\n    'As any session.'", "subject"),
        ("catalog/_recall.py", "from zlib import crc32", "line"),
        ("apps/acp/x.py", "import zlib\nzlib.crc32(b'')", "line"),
        ("library/x.py", "MARK = b'\"$blob\":'", "line"),
        ("session/x.py", "def f(crc):\n    return b'%08x\"}\\n' % crc", "line"),
    ],
)
@pytest.mark.req("S0-9")
def test_rooms_check_finds(tmp_path, where, source, rule):
    """What a room forbids is found, however it is imported or named."""
    assert rule in rules_broken(tmp_path, where, source)


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ("storage/disk.py", "import os, fcntl\nos.fsync(3)\nopen('a')"),
        ("storage/sqlite/connection.py", "import sqlite3"),
        ("session/x.py", "import os, time\nos.getpid()\ntime.time()"),
        ("session/x.py", "def f(disk):\n    disk.open('a')\n    disk.mkdir('b')"),
        ("library.py", "def open(path):\n    return path\nfirst = open('a')"),
        ("model/x.py", "from datetime import datetime\ndef f(x: datetime):\n    return x.isoformat()"),
        ("model/_values.py", "from pathlib import PurePath\nPurePath('a')"),
        ("testing/x.py", "import hypothesis\nfrom holdfast.testing import other"),
        ("apps/tui/x.py", "import textual, rich, click, msgspec"),
        ("model/x.py", "from zlib import crc32\nMARK = b'$blob'"),
        ("catalog/sqlite/x.py", "from zlib import crc32"),
        ("replay/x.py", 'X = None\n"""What ``{"$blob": …}`` stands for."""'),
    ],
)
def test_rooms_check_allows(tmp_path, where, source):
    """What a room is for is not reported."""
    assert rules_broken(tmp_path, where, source) == []


@pytest.mark.parametrize(("beginning", "is_found"), [("", True), ("# Loaded late: few need it.\n", False)])
def test_rooms_check_finds_lone_modules(tmp_path, beginning, is_found):
    """A short private module with one importer is named, unless it says why it is loaded late."""
    room = tmp_path / "session"
    room.mkdir()
    (room / "_part.py").write_text(f"{beginning}VALUE = 1\n")
    (room / "whole.py").write_text("from holdfast.session._part import VALUE\n")
    found = load("check_rooms").check(tmp_path)
    assert [text.split(": ")[1] for text in found] == ["lone"] * is_found


def test_size_check_names_long_modules_and_functions(tmp_path, capsys):
    """A module of 601 lines and a function of 71 fail and are named; 600 and 70 pass."""
    check = load("check_size")
    (tmp_path / "fits.py").write_text("def f():\n" + "    pass\n" * 69 + "\n" * 530)
    assert check.main([str(tmp_path)]) == 0
    (tmp_path / "long.py").write_text("\n" * 601)
    (tmp_path / "deep.py").write_text("class A:\n  async def g():\n" + "    pass\n" * 70)
    assert check.main([str(tmp_path)]) == 1
    found = capsys.readouterr().out
    assert "long.py: 601 lines" in found
    assert "deep.py:2: g has 71 lines" in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example/css">'),
        ("a.html", '<p style="background: url(http://x.example/a.png)">'),
        ("a.html", '<pre class="mermaid">graph</pre>'),
        ("a.css", "@import 'https://x.example/a.css';"),
    ],
)
def test_site_check_finds_outside_requests(tmp_path, name, text):
    """A page or style sheet that would load something from another host fails."""
    (tmp_path / name).write_text(text)
    assert load("check_site").main([str(tmp_path)]) == 1


def test_site_check_allows_links_and_own_files(tmp_path):
    """Links to click and files of the site itself pass."""
    (tmp_path / "a.html").write_text(
        '<a href="https://x.example/">x</a><img src="../a.png"><link rel="icon" href="i.png">'
    )
    (tmp_path / "a.css").write_text("p { background: url(../a.png) }")
    workers = tmp_path / "assets" / "javascripts" / "workers"
    workers.mkdir(parents=True)
    (workers / "search.1a.min.js").write_text('onmessage = () => postMessage("found")')
    (tmp_path / "search.json").write_text('{"items":[]}')
    load("disk_search").main(tmp_path)
    assert 'var __index = {"items":[]};' in (tmp_path / "search.js").read_text()
    assert 'postMessage(\\"found\\")' in (tmp_path / "search.js").read_text()
    assert load("check_site").main([str(tmp_path)]) == 0


def test_site_check_refuses_a_site_that_cannot_be_searched_from_disk(tmp_path, capsys):
    """A browser that opened a file loads the index as a script, and starts no worker from another file."""
    (tmp_path / "a.html").write_text("<p>x</p>")
    assert load("check_site").main([str(tmp_path)]) == 1
    (tmp_path / "search.js").write_text("var __index = {}")
    assert load("check_site").main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.count("search.js lacks the search") == 2


def test_a_test_without_docstring_is_refused(tmp_path):
    """Collection fails and names the tests that do not say what they promise."""
    shutil.copy(TOOLS.parent / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_a.py").write_text("def test_silent():\n    pass\n\ndef test_told():\n    'A promise.'\n")
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:asyncio", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert outcome.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_a.py::test_silent" in outcome.stderr
    assert "test_told" not in outcome.stderr
