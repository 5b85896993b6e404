"""A SQLite database in which someone put something else than we did: a column takes anything."""

from __future__ import annotations

import sqlite3

import pytest

from holdfast import Holdfast
from holdfast.errors import Damaged, HoldfastError

HOSTILE = ["'abc'", "x'00ff'", "1.5", "-1", "9223372036854775807"]
PLACES = [
    *(("keys", name) for name in ("modified", "epoch", "holder", "version", "generation", "key")),
    *(("pieces", name) for name in ("size", "data")),
    ("documents", "name"),
    ("store", "version"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a database with a session that is packed and one that is not."""
    path = tmp_path_factory.mktemp("whole") / "a.db"
    with Holdfast(f"sqlite://{path}") as hf:
        for id in ("one", "two"):
            with hf.session(id) as s:
                s.user("hello")
                s.snapshot()
        hf.archive("two")
    return path.read_bytes()


def changed(path, whole, table, column, value):
    """A copy with another value there."""
    path.write_bytes(whole)
    path.chmod(0o600)
    database = sqlite3.connect(path)
    database.execute(f"UPDATE OR IGNORE {table} SET {column} = {value}")
    database.commit()
    database.close()
    return f"sqlite://{path}"


def go_on(hf):
    """Append to a session."""
    with hf.session("one") as s:
        s.user("more")


ASKED = [
    lambda hf: hf.state("one"),
    lambda hf: hf.list(),
    lambda hf: list(hf.events("two")),
    lambda hf: hf.export("one", "bundle"),
    go_on,
    lambda hf: hf.fork("one"),
    lambda hf: hf.delete("two"),
]


@pytest.mark.parametrize(("table", "column"), PLACES)
def test_a_hostile_value_is_told_as_an_error_of_ours(tmp_path, whole, table, column):
    """Whatever was asked for; nothing goes on for ever, no error of Python comes out."""
    for value in HOSTILE:
        url = changed(tmp_path / "a.db", whole, table, column, value)
        with Holdfast(url) as hf:
            for ask in ASKED:
                try:
                    ask(hf)
                except HoldfastError:
                    continue
        for left in tmp_path.iterdir():
            left.unlink()


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("pieces", "size", "'abc'"),
        ("pieces", "size", "9223372036854775807"),
        ("keys", "epoch", "9223372036854775807"),
        ("pieces", "size", "size + 1"),
        ("pieces", "data", "x'00'"),
    ],
)
def test_it_is_called_damaged(tmp_path, whole, table, column, value):
    """And the list has the other sessions all the same."""
    with Holdfast(changed(tmp_path / "a.db", whole, table, column, value)) as hf:
        with pytest.raises(Damaged):
            go_on(hf)
        assert {row.session_id for row in hf.list()} == {"one", "two"}
