"""Stores that are reached through symlinks are the stores that they lead to."""

from __future__ import annotations

import os

import pytest

import holdfast
from holdfast.errors import Locked
from holdfast.storage.sqlite.store import SQLiteStore


@pytest.mark.parametrize("scheme", ["", "file://", "sqlite://"])
def test_a_store_with_two_names_is_one_store(tmp_path, scheme):
    """Through a symlink and without it: one live session, one lock, one catalogue."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to("real")
    with (
        holdfast.open(f"{scheme}{tmp_path}/real/store") as direct,
        holdfast.open(f"{scheme}{tmp_path}/home/store") as linked,
    ):
        with direct.session("trip") as one, linked.session("trip") as two:
            assert one is two
            two.user("Paris")
        assert [row.session_id for row in linked.list()] == ["trip"]
        assert [hit.session_id for hit in linked.search("Paris")] == ["trip"]
        assert linked.url == direct.url
    assert sorted(os.listdir(tmp_path)) == ["home", "real"]


def test_a_file_behind_symlinks(tmp_path):
    """The way to the file and its own name may be symlinks: all of them are one store."""
    (tmp_path / "sessions.db").symlink_to("target.db")
    (tmp_path / "home").symlink_to(tmp_path)
    store = SQLiteStore(str(tmp_path / "home" / "sessions.db"))
    store.lease("sessions/a").acquire("me", 1000)
    assert store.identity == SQLiteStore(str(tmp_path / "target.db")).identity
    assert (tmp_path / "target.db").stat().st_size
    with pytest.raises(Locked):
        SQLiteStore(str(tmp_path / "sessions.db")).lease("sessions/a").acquire("you", 1000)
    store.close()
