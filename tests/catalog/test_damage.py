"""Whatever happens to the catalogue or to the folders, a list is what a scan of the logs says."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import HoldfastError

MESSAGES = ("user", "assistant", "system", "tool_result")


def scan(root):
    """Every session as its log tells it, read with nothing but a JSON parser; newest first."""
    rows = []
    for folder in (root / "sessions").iterdir() if (root / "sessions").is_dir() else ():
        log = folder / "events.jsonl"
        if not log.is_file():
            continue
        events = [json.loads(line) for line in log.read_bytes().splitlines()]
        titles = [event["data"]["title"] for event in events if event["type"] == "title"]
        said = [event["data"]["content"] for event in events if event["type"] == "user"]
        tags = []
        for event in events:
            if event["type"] == "tag" and event["data"]["tag"] not in tags:
                tags.append(event["data"]["tag"])
        rows.append(
            {
                "id": folder.name,
                "title": titles[-1] if titles else said[0] if said else None,
                "tags": tags,
                "messages": sum(event["type"] in MESSAGES for event in events),
                "events": len(events),
                "updated": events[-1]["timestamp"],
                "state": "ok",
            }
        )
    return sorted(rows, key=lambda row: (row["updated"], row["id"]), reverse=True)


def listed(hf):
    """The same from the catalogue."""
    return [
        {
            "id": row.session_id,
            "title": row.title,
            "tags": list(row.tags),
            "messages": row.message_count,
            "events": row.event_count,
            "updated": row.updated_at,
            "state": row.state,
        }
        for row in hf.list(limit=None)
    ]


def fill(hf, *ids):
    """Some sessions, closed again."""
    for id in ids:
        with hf.session(id) as session:
            session.user(f"hello {id}")


@pytest.fixture
def root(store_root):
    """A store with a few sessions and a catalogue."""
    with holdfast.open(store_root) as hf:
        fill(hf, "a", "b", "c")
        assert listed(hf) == scan(store_root)
    return store_root


def logs(root):
    """The bytes of every log."""
    return {path: path.read_bytes() for path in root.glob("*/*/events.jsonl")}


def flip(path, *places):
    """Turn bits of a file."""
    data = bytearray(path.read_bytes())
    for place in places:
        if data:
            data[place % len(data)] ^= 1 << place % 8
    path.write_bytes(data)


# -- one kind of harm at a time ------------------------------------------------------------------


def deleted(root):
    """Remove it."""
    (root / "catalog.db").unlink()


def truncated(root):
    """Cut it in the middle of a page."""
    os.truncate(root / "catalog.db", 5000)


def emptied(root):
    """Cut it to nothing."""
    os.truncate(root / "catalog.db", 0)


def garbled(root):
    """Another file in its place."""
    (root / "catalog.db").write_bytes(b"no database " * 1000)


def flipped(root):
    """A bit in each of many places."""
    flip(root / "catalog.db", *range(100, 100_000, 401))


def of_another_version(root):
    """As another version would have made it."""
    with contextlib.closing(sqlite3.connect(root / "catalog.db")) as connection:
        connection.execute("PRAGMA user_version = 999")


def half_built(root):
    """As a process that was killed while it made it would leave it."""
    with contextlib.closing(sqlite3.connect(root / "catalog.db")) as connection:
        connection.execute("DROP TABLE labels")
        connection.execute("DELETE FROM sessions WHERE id = 'b'")
        connection.commit()


def lying(root):
    """A row that was changed by hand."""
    with contextlib.closing(sqlite3.connect(root / "catalog.db")) as connection:
        connection.execute("UPDATE sessions SET data = replace(data, 'hello', 'hullo')")
        connection.commit()


def with_a_row_too_few(root):
    """A row that was removed by hand."""
    with contextlib.closing(sqlite3.connect(root / "catalog.db")) as connection:
        connection.execute("DELETE FROM sessions WHERE id = 'b'")
        connection.commit()


def a_directory(root):
    """A directory in its place."""
    (root / "catalog.db").unlink()
    (root / "catalog.db").mkdir()


def a_symlink(root):
    """A symlink in its place."""
    (root / "elsewhere").write_bytes(b"precious")
    (root / "catalog.db").unlink()
    (root / "catalog.db").symlink_to(root / "elsewhere")


HARMS = [
    deleted,
    truncated,
    emptied,
    garbled,
    flipped,
    of_another_version,
    half_built,
    lying,
    with_a_row_too_few,
    a_directory,
    a_symlink,
]


@pytest.mark.req("S2-22", "S2-75")
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_a_harmed_catalogue_is_mended_by_itself(root, harm):
    """List equals a scan, in this process and the next; no log is touched."""
    before = logs(root)
    harm(root)
    for _ in range(2):
        with holdfast.open(root) as hf:
            assert listed(hf) == scan(root)
            assert [row.session_id for row in hf.list(2)] == ["c", "b"]
    assert logs(root) == before
    if harm is a_symlink:
        assert (root / "elsewhere").read_bytes() == b"precious"


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_harm_under_an_open_catalogue(root, harm):
    """The same while the catalogue is open, and sessions go on."""
    with holdfast.open(root) as hf:
        hf.list()
        harm(root)
        fill(hf, "d", "a")
        assert listed(hf) == scan(root)


def test_a_catalogue_of_another_store_is_not_believed(root, tmp_path):
    """A copied store has another identity; its catalogue is made anew."""
    other = tmp_path / "other"
    shutil.copytree(root, other)
    other.chmod(0o700)
    shutil.rmtree(other / "sessions" / "b")
    with holdfast.open(other) as hf:
        assert listed(hf) == scan(other)
    (tmp_path / "third").mkdir(mode=0o700)
    shutil.copy(root / "catalog.db", tmp_path / "third" / "catalog.db")
    with holdfast.open(tmp_path / "third") as hf:
        assert listed(hf) == []


def test_a_stale_catalogue_catches_up(root, tmp_path):
    """An older one that was put back knows from where to go on."""
    shutil.copy(root / "catalog.db", tmp_path / "old.db")
    with holdfast.open(root) as hf:
        fill(hf, "d", "a")
        hf.delete("b")
        assert listed(hf) == scan(root)
    shutil.copy(tmp_path / "old.db", root / "catalog.db")
    with holdfast.open(root) as hf:
        assert listed(hf) == scan(root)


LOCKER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode = EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE facts SET value = value")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_locked_catalogue_is_gone_round(root):
    """While another process keeps the catalogue locked, a list is right all the same."""
    command = [sys.executable, "-c", LOCKER, str(root / "catalog.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout.readline() == b"locked\n"
        with holdfast.open(root) as hf:
            fill(hf, "d")
            assert listed(hf) == scan(root)
            assert hf.catalog_health().place is None
        locker.stdin.close()
    with holdfast.open(root) as hf:
        assert listed(hf) == scan(root)
        assert hf.catalog_health().place == str(root / "catalog.db")


def test_a_store_that_cannot_be_written_is_listed(root, monkeypatch):
    """Where there can be no file the catalogue is in memory."""
    from holdfast.storage.sqlite import connection as _sqlite

    def refuse(path):
        raise holdfast.errors.Unavailable("read-only")

    (root / "catalog.db").unlink()
    monkeypatch.setattr(_sqlite, "_make_private", refuse)
    with holdfast.open(root) as hf:
        assert listed(hf) == scan(root)
        assert hf.catalog_health().trouble == "read-only"
    assert not (root / "catalog.db").exists()


def test_without_sqlite(root, monkeypatch):
    """A Python without SQLite lists by a plain index."""
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with holdfast.open(root) as hf:
        assert listed(hf) == scan(root)
        page = hf.list(2)
        assert [row.session_id for row in page] == ["c", "b"]
        assert [row.session_id for row in hf.list(2, after=page.next)] == ["a"]
        assert sorted(hf.session_ids("A")) == ["a"]
        hf.delete("b")
        assert listed(hf) == scan(root)
        assert hf.reindex().sessions == 2


# -- logs that are not what they were ------------------------------------------------------------


def test_an_index_ahead_of_its_log_reports_damage(root):
    """A log that lost whole lines is whole to look at; the catalogue knows better."""
    with holdfast.open(root) as hf:
        fill(hf, "b")
        hf.list()
    log = root / "sessions" / "b" / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    os.truncate(log, len(b"".join(lines[:-2])))
    (log.parent / "lock").unlink()  # its last writer knew better, too
    os.utime(root / "sessions", ns=(1, 10**18))
    with holdfast.open(root) as hf:
        states = {row.session_id: row.state for row in hf.list()}
        assert states == {"a": "ok", "b": "damaged", "c": "ok"}
        assert hf.info("b").state == "damaged"
        fill(hf, "b")
        assert hf.info("b").state == "damaged"
        hf.reindex()
        assert {row.state for row in hf.list()} == {"ok"}


def test_a_replaced_log_is_read_anew(root):
    """Another log of the same name, longer or shorter, is not mixed with the old one."""
    with holdfast.open(root) as hf:
        with hf.session("long") as session:
            for number in range(20):
                session.user(f"turn {number}")
        hf.list()
        shutil.rmtree(root / "sessions" / "a")
        shutil.copytree(root / "sessions" / "long", root / "sessions" / "a")
        shutil.rmtree(root / "sessions" / "long")
        shutil.copytree(root / "sessions" / "b", root / "sessions" / "long")
        assert listed(hf) == scan(root)


def test_bytes_changed_in_place_are_noticed(root):
    """A byte turned in the middle of a log, at the same length, is damage."""
    log = root / "sessions" / "b" / "events.jsonl"
    flip(log, 100)
    os.utime(root / "sessions", ns=(1, 10**18))
    with holdfast.open(root) as hf:
        assert {row.session_id: row.state for row in hf.list()}["b"] == "damaged"
        assert hf.info("b").state == "damaged"


# -- anything, in any order ----------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "c", "d"])
TAGS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5).map(lambda text: f"t{text}")
STEP = st.one_of(
    st.tuples(st.just("record"), IDS),
    st.tuples(st.just("tag"), IDS, TAGS),
    st.tuples(st.sampled_from(["delete", "undelete", "remove"]), IDS),
    st.tuples(st.just("copy"), IDS, IDS),
    st.tuples(st.sampled_from(["list", "reopen", "keep", "put_back", "lose"])),
    st.tuples(st.just("flip"), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=30)),
    st.tuples(st.just("cut"), st.integers(0, 1 << 17)),
)


class World:
    """A store in whose folder someone else is at work."""

    def __init__(self, root):
        self.root = root
        self.hf = holdfast.open(root)
        self.db = root / "catalog.db"
        self.kept = None

    def record(self, id):
        fill(self.hf, id)

    def tag(self, id, tag):
        with self.hf.session(id) as session:
            session.tag(tag)

    def delete(self, id):
        self.hf.delete(id)

    def undelete(self, id):
        self.hf.undelete(id)

    def remove(self, id):
        shutil.rmtree(self.root / "sessions" / id)

    def copy(self, id, to):
        shutil.copytree(self.root / "sessions" / id, self.root / "sessions" / to)

    def list(self):
        self.hf.list()

    def reopen(self):
        self.hf.close()
        self.hf = holdfast.open(self.root)

    def keep(self):
        self.kept = self.db.read_bytes()

    def put_back(self):
        if self.kept is not None:
            self.reopen()
            self.db.write_bytes(self.kept)

    def lose(self):
        self.db.unlink()

    def flip(self, places):
        self.reopen()
        flip(self.db, *places)

    def cut(self, size):
        self.reopen()
        os.truncate(self.db, min(size, self.db.stat().st_size))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.lists(STEP, max_size=12))
def test_a_list_is_always_what_a_scan_says(steps):
    """Recorded, deleted, copied, removed, put back, flipped or cut: the list equals a scan."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "store"
        root.mkdir(mode=0o700)
        world = World(root)
        try:
            for name, *arguments in [("record", "a"), ("list",), *steps]:
                # What there is not cannot be deleted; what there is cannot be copied to.
                with contextlib.suppress(HoldfastError, FileNotFoundError, FileExistsError):
                    getattr(world, name)(*arguments)
            assert listed(world.hf) == scan(root)
            fill(world.hf, "z")
            assert listed(world.hf) == scan(root)
        finally:
            world.hf.close()
