"""The quick way of ``holdfast list``: the same bytes as the whole command, or no way at all."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import shutil
import sqlite3
import struct
import subprocess
import sys
import termios
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import holdfast
from holdfast import catalog
from holdfast.apps.cli import _quick_list, cli, main
from holdfast.apps.cli import _quick_list as _list_json
from holdfast.apps.cli._quick_list import session_cells
from holdfast.apps.render.page import cells, is_narrow
from holdfast.catalog import _newest
from holdfast.catalog.sqlite.index import SqliteIndex
from holdfast.catalog.sqlite.rows import stored
from holdfast.catalog.sqlite.schema import read_fact
from holdfast.model import SessionMetadata
from holdfast.security import neutralise_line
from holdfast.storage.sqlite import connect

NOW = 1_900_000_000_000
HOSTILE = '\x1b]0;owned\x07 \u202egnp.exe\n\ttab \x01 \x7f \u200b漢字 🎉 é "quoted\\" \U000e0041'
DEAD = """
import os, sys, holdfast
s = holdfast.open(sys.argv[1]).session("cut-short", title="cut short")
s.user("x")
s.append("turn_start", {})
s.flush()
os._exit(0)
"""


@pytest.fixture(autouse=True)
def _at_one_time(monkeypatch, tmp_path, varied):
    """Both ways say of the same moment how long ago something was, in an empty directory."""
    monkeypatch.setattr("holdfast.apps.cli.list.now_ms", lambda: NOW)
    monkeypatch.setattr(_quick_list, "time_ns", lambda: NOW * 1_000_000)
    monkeypatch.setenv("HOLDFAST_STORE", str(varied))
    monkeypatch.chdir(tmp_path)


def settle(root):
    """Let the index know everything, and nothing be so fresh that it has to be looked at again."""
    os.utime(root / "sessions", ns=(1, 10**18))
    with holdfast.open(root) as hf:
        hf.list()


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """Sessions of every kind that a list tells apart, all known to the index; to be read only."""
    root = tmp_path_factory.mktemp("varied") / "store"
    with holdfast.open(root) as hf:
        for number in range(3):
            usage = {"input_tokens": 10**number * 1234, "output_tokens": 5, "cost": 0.1 * number}
            with hf.session(f"cost-{number}") as s:
                s.assistant("x", model="gpt-4o", usage=usage)
        with hf.session("hostile", title=HOSTILE, agent_id="who") as s:
            for tag in ("a, b", "\u202etag\x07", "ünïcode"):
                s.tag(tag)
            s.user("x")
        with hf.session("kept", title="x" * 300) as s:
            s.user("x")
        hf.fork("kept", new_id="a-fork")
        hf.policies.pin("kept")
        hf.archive("cost-1")
        log = Path(hf.location("cost-2")) / "events.jsonl"
        log.write_bytes(log.read_bytes().replace(b"gpt-4o", b"gpt-5o"))
    subprocess.run([sys.executable, "-c", DEAD, str(root)], check=True)
    settle(root)
    return root


@pytest.fixture
def changing(varied, store_root):
    """A copy to change."""
    shutil.copytree(varied, store_root, dirs_exist_ok=True)
    store_root.chmod(0o700)
    settle(store_root)
    return store_root


def quick(capsys, *words):
    """The exit code, and what was written."""
    code = _quick_list.quick_list(list(words))
    return code, *capsys.readouterr()


def whole(capsys, *words):
    """The same by the whole command."""
    code = cli.main(list(words), standalone_mode=False)
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    "words",
    [
        ["--color", "auto", "--store", "nowhere", "list", "--store", "STORE"],
        ["list", "--limit=3", "--json", "--no-pager"],
        ["list"],
        ["list", "--json"],
        ["list", "--limit", "3"],
        ["list", "--limit", "1000", "--limit", "1", "--json", "--no-pager"],
        ["--no-pager", "--color=never", "list"],
        ["list", "--color", "always"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}], ids=str)
def test_the_same_bytes(capsys, monkeypatch, varied, words, variables):
    """Every kind of session, each way to ask, and colours as asked for."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    words = [str(varied) if word == "STORE" else word for word in words]
    found = quick(capsys, *words)
    assert found[0] == 0
    assert found[1]
    assert found == whole(capsys, *words)


class Tty(io.StringIO):
    """A stream that is a terminal."""

    encoding = "utf-8"

    def __init__(self, descriptor):
        super().__init__()
        self.fileno = lambda: descriptor

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of so many rows and columns; gives what is on it afterwards, and what is told."""
    ours, theirs = pty.openpty()

    def terminal(show, rows=40, columns=100):
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        monkeypatch.setenv("COLUMNS", str(columns))
        out, err = Tty(theirs), Tty(theirs)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = show()
        return code, out.getvalue(), err.getvalue()

    yield terminal
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["list", "--limit", "3"], {}),
        (["list"], {}),
        (["list"], {"NO_COLOR": "1"}),
        (["list"], {"TERM": "dumb"}),
        (["list", "--limit", "3", "--color", "never"], {"PAGER": "cat"}),
        (["list", "--limit", "1", "--json"], {}),
        (["list", "--no-pager"], {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [30, 60, 150])
def test_the_same_on_a_terminal(terminal, monkeypatch, words, variables, columns):
    """Colours, what is cut, what is left out, and that there are more."""
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    found = terminal(lambda: _quick_list.quick_list(words), columns=columns)
    assert found[0] == 0
    assert found == terminal(lambda: cli.main(words, standalone_mode=False), columns=columns)
    assert ("older session" in found[2]) == ("3" in words and "dumb" not in variables.values())


@pytest.mark.parametrize(("rows", "columns"), [(5, 100), (0, 0)])
def test_a_screen_without_room(terminal, monkeypatch, varied, rows, columns):
    """What needs a pager, or a size that nobody knows, is for the whole command."""
    monkeypatch.setenv("TERM", "xterm")
    found = terminal(lambda: _quick_list.quick_list(["list"]), rows, columns)
    assert found == (None, "", "")


def test_a_session_that_is_open(capsys, changing):
    """Whether a writer lives is seen at the moment of asking, also where the index is of now."""
    with sqlite3.connect(changing / "catalog.db") as index:
        trace = msgspec.json.decode(index.execute("SELECT trace FROM sessions WHERE id = 'cut-short'").fetchone()[0])
        data = msgspec.json.encode({**trace, "pid": os.getpid()})
        index.execute(
            "UPDATE sessions SET trace = ?, trace_crc = ? WHERE id = 'cut-short'", (data, _newest.crc32(data))
        )
    index.close()
    words = ["list", "--json", "--store", str(changing)]
    found = quick(capsys, *words)
    assert found == whole(capsys, *words)
    rows = {row["session_id"]: row for row in msgspec.json.decode(found[1])["sessions"]}
    assert rows["cut-short"]["open"] is True


@pytest.mark.parametrize("place", ["project", "user"])
def test_the_usual_places(capsys, monkeypatch, changing, tmp_path, place):
    """Without a variable the store is the project's folder, else the user's."""
    monkeypatch.delenv("HOLDFAST_STORE")
    home = tmp_path / ".holdfast" if place == "project" else tmp_path / "data" / "holdfast"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    home.parent.mkdir(exist_ok=True)
    changing.rename(home)
    settle(home)
    found = quick(capsys, "list")
    assert found[0] == 0
    assert found == whole(capsys, "list")


@pytest.mark.parametrize(
    "words",
    [
        ["list", "--limit", "many"],
        ["list", "--limit", "0"],
        ["list", "--tag", "x"],
        [],
        ["list", "word"],
        ["list", "list"],
        ["list", "--", "x"],
        ["list", "--all"],
        ["list", "--tree"],
        ["list", "--watch"],
        ["list", "--help"],
        ["list", "--nonsense"],
        ["list", "--json=1"],
        ["list", "--limit"],
        ["list", "--limit", "-1"],
        ["list", "--limit", "٣"],
        ["list", "--limit", "1001"],
        ["list", "--color", "pink"],
        ["list", "--store"],
        ["list", "--store="],
        ["list", "--store", "memory:"],
        ["list", "--store", "file:///tmp"],
        ["list", "--store", "nowhere"],
        ["--json", "list"],
        ["--limit", "3", "list"],
        ["show", "list"],
    ],
    ids=" ".join,
)
def test_what_is_not_plain_is_for_the_whole_command(capsys, varied, words):
    """Another option, another store, a mistake: nothing is written."""
    assert quick(capsys, *words) == (None, "", "")


@pytest.mark.parametrize("name", ["CONFIG", "SPACE", "KEY", "SEAL", "CATALOG_AUTO_TAGS", "PRICES", "NOBODY_KNOWS"])
def test_settings_are_for_the_whole_command(capsys, monkeypatch, varied, name):
    """A variable that sets something has to be read and checked."""
    monkeypatch.setenv(f"HOLDFAST_{name}", "x")
    assert quick(capsys, "list")[0] is None
    monkeypatch.setenv(f"HOLDFAST_{name}", "")
    assert quick(capsys, "list")[0] == 0


@pytest.mark.parametrize("name", ["holdfast.toml", "xdg/holdfast/config.toml", "prices"])
def test_files_of_settings_are_for_the_whole_command(capsys, monkeypatch, varied, tmp_path, name):
    """So has a file of settings, whosever it is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    name = "xdg/holdfast/prices.toml" if name == "prices" else name
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("")
    assert quick(capsys, "list") == (None, "", "")


@pytest.mark.parametrize("value", ["  ", "none:"])
def test_another_place_in_the_environment(capsys, monkeypatch, varied, value):
    """What is no path is for the whole command to understand."""
    monkeypatch.setenv("HOLDFAST_STORE", value)
    assert quick(capsys, "list") == (None, "", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_another_encoding(capsys, monkeypatch, varied, encoding):
    """Where characters would have to be escaped the whole command does it."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    assert _quick_list.quick_list(["list"]) is None
    monkeypatch.setattr(sys, "stdout", None)
    assert _quick_list.quick_list(["list"]) is None


def add(root):
    with holdfast.open(root) as hf, hf.session("new") as s:
        s.user("x")


def execute(root, *statements):
    index = sqlite3.connect(root / "catalog.db")
    with index:
        for statement in statements:
            index.execute(statement)
    index.close()


CHANGES = {
    "a session more": add,
    "another version": lambda root: execute(root, "PRAGMA user_version = 1"),
    "a row that changed": lambda root: execute(root, "UPDATE sessions SET crc = crc + 1"),
    "one by hand": lambda root: (root / "sessions" / "strange").mkdir(),
    "no index": lambda root: (root / "catalog.db").unlink(),
    "an index that is none": lambda root: (root / "catalog.db").write_bytes(b"x" * 5000),
    "another store": lambda root: execute(root, "DELETE FROM facts WHERE name = 'store'"),
    "other prices": lambda root: execute(root, "DELETE FROM facts WHERE name = 'mark'"),
    "a row that is text": lambda root: execute(root, "UPDATE sessions SET data = 'x'"),
    "a trace that changed": lambda root: execute(root, "UPDATE sessions SET trace_crc = 1"),
    "another id": lambda root: execute(root, "UPDATE sessions SET id = 'x' WHERE id = 'kept'"),
    "another order": lambda root: execute(root, "UPDATE sessions SET updated = updated + 1"),
    "open for others": lambda root: root.chmod(0o777),
    "a link": lambda root: (root.rename(root.with_name("real")), root.symlink_to("real")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_index_that_is_not_of_now(capsys, monkeypatch, changing, change):
    """A session that just came, or whatever is wrong with the index: the whole command sees to it.

    It is whole and right again afterwards, and then the quick way shows the same.
    """
    monkeypatch.setenv("HOLDFAST_STORE", str(changing))
    CHANGES[change](changing)
    assert quick(capsys, "list") == (None, "", "")
    changing.chmod(0o700)
    if change == "a link":
        return
    found = whole(capsys, "list")
    assert ("new " in found[1]) == (change == "a session more")
    settle(changing)
    assert quick(capsys, "list") == whole(capsys, "list")


def test_no_sessions(capsys, store_root):
    """A store without any is told of by the whole command."""
    (store_root / "sessions").mkdir(mode=0o700)
    settle(store_root)
    assert quick(capsys, "list", "--store", str(store_root)) == (None, "", "")


def test_an_output_that_fails(capsys, monkeypatch, varied):
    """What cannot be written is told as by the whole command."""

    class Full(io.StringIO):
        encoding = "utf-8"

        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    code, _, told = quick(capsys, "list")
    assert code == 1
    assert told.startswith("error: the system refused")


def test_ctrl_c(capsys, monkeypatch, varied):
    """Whoever interrupts it is told as by the whole command."""

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(catalog, "newest", interrupted)
    assert quick(capsys, "list") == (130, "", "error: stopped\n")


def test_a_defect_is_no_failure(capsys, monkeypatch, varied):
    """If the quick way itself is broken, the whole command still lists."""
    monkeypatch.setattr(catalog, "newest", lambda *_: 1 / 0)
    assert quick(capsys, "list") == (None, "", "")


@pytest.mark.parametrize("words", [["list"], ["list", "--sort", "created"]], ids=" ".join)
def test_the_entry_point(capsys, monkeypatch, words):
    """Both ways end the process with their exit code, and list."""
    monkeypatch.setattr(sys, "argv", ["holdfast", *words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert "hostile" in capsys.readouterr().out


def test_what_a_list_loads(library, store_root, tmp_path):
    """The command itself goes the quick way, which loads nothing that takes long."""
    with library.session("plain", title="Größe – …") as s:
        s.user("x")
    library.close()
    settle(store_root)
    code = "import sys\nfrom holdfast.apps.cli import main\ntry:\n main()\n"
    code += "finally:\n print(*sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", code, "list", "--store", str(store_root)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    heavy = {"click", "json", "msgspec", "re", "rich", "typing", "holdfast.model"}
    assert "Größe – …" in done.stdout
    assert heavy.isdisjoint(done.stderr.split())


TEXT = st.text(max_size=20)
ROWS = st.builds(
    SessionMetadata,
    session_id=st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True),
    title=st.none() | TEXT,
    tags=st.lists(TEXT, max_size=3).map(tuple),
    auto_tags=st.lists(TEXT, max_size=2).map(tuple),
    updated_at=st.integers(0, 2 * NOW),
    total_tokens=st.integers(0, 10**12),
    cost=st.none() | st.floats(0, 1e6, allow_nan=False),
    cwd=st.none() | TEXT,
    pinned=st.booleans(),
    archived=st.booleans(),
    status=st.sampled_from(["idle", "running", "interrupted"]),
    state=st.sampled_from(["ok", "damaged", "sealed"]),
)


@given(ROWS)
def test_a_row_of_the_index_is_what_the_whole_command_reads(row):
    """Whatever a session says of itself: the same cells, and the same JSON."""
    plain = msgspec.to_builtins(SessionMetadata(session_id=""))
    listed = _newest.Listed({**plain, **_newest._decoder()(stored(row).decode())})
    assert session_cells(listed, NOW, listed.session_id) == session_cells(row, NOW, row.session_id)
    document = msgspec.json.format(msgspec.json.encode({"sessions": [row], "next": None}), indent=2)
    assert _list_json.document_of(_newest.Newest([listed], 1, 1, {})) == document.decode()


def test_the_fields_of_a_row():
    """Names, order and defaults are those of the type of the library; the index has them."""
    index = SqliteIndex(connect(None), "a store")
    plain = _newest._decoder()(read_fact(index.connection, "row").decode())
    assert tuple(plain) == SessionMetadata.__struct_fields__
    assert msgspec.convert(plain, SessionMetadata) == SessionMetadata(session_id="")


def test_the_engine_of_json_may_be_missing(monkeypatch):
    """On a Python without it the package does the same."""
    monkeypatch.setitem(sys.modules, "_json", None)
    found = _newest._decoder()('{"a":[1,0.10,null,"\\u0007"]}')
    assert found == {"a": [1, 0.1, None, "\x07"]}
    assert found["a"][1].text == "0.10"
    assert _list_json.quoted('\x07"\\é') == r'"\u0007\"\\é"'


@pytest.mark.unmeasured
def test_how_wide_common_characters_are():
    """Each of those that are counted without a table of widths takes one column."""
    seen = [chr(code) for code in range(0x20, 0x110000) if is_narrow(chr(code))]
    shown = [char for char in seen if neutralise_line(char) == char]
    assert len(shown) > 700
    assert {cells(char) for char in shown} == {cell_len(char) for char in shown} == {1}
    assert cells("漢") == 2
