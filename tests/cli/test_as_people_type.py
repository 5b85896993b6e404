"""The command as people type it: short names, mistakes, and questions before what cannot be meant."""

from __future__ import annotations

import pytest


@pytest.fixture
def two(store_root):
    """Two sessions that have nothing in common."""
    from holdfast import open as open_store

    with open_store(store_root) as hf:
        for id in ("north", "south"):
            with hf.session(id, title=f"To the {id}") as s:
                s.user(f"Go {id}")


def test_ls_is_list(run, two):
    """`ls -n 1` shows the newest."""
    shown = run("ls", "-n", "1", "--columns", "id,title")
    assert shown.out.split("\n")[:2] == ["ID     TITLE", "south  To the south"]


def test_a_column_that_is_not_there(run, two):
    """Is told with those that are."""
    shown = run("list", "--columns", "titel")
    assert shown.code == 2
    assert "did you mean title?" in shown.err


def test_only_failed_ones(run, two):
    """None of these failed."""
    assert "fits" in run("list", "--failed").err


def test_a_store_that_does_not_exist(run, tmp_path):
    """Is said as such, with the one that is meant, and is not made."""
    (tmp_path / "notes" / "sessions").mkdir(parents=True)
    shown = run("--store", str(tmp_path / "ntoes"), "list")
    assert shown.code == 3
    assert f"Did you mean {tmp_path / 'notes'}?" in shown.err
    assert not (tmp_path / "ntoes").exists()


def test_strangers_are_not_merged_by_mistake(run, two):
    """Sessions without a common event need --yes, and are named in the order in which they were given."""
    refused = run("merge", "north", "south")
    assert refused.code == 2
    assert "have no event in common" in refused.err
    assert run("merge", "north", "south", "--yes", "--id", "both").out.startswith("merged north and south into both")


def test_hits_of_forks_are_shown_once(run, two):
    """A fork shares what was said: one hit, and both are named."""
    run("fork", "north", "--id", "north-again")
    shown = run("search", "Go north").out
    assert shown.count("Go north") == 1
    assert "also in" in shown
