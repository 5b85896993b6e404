"""Erasing: nothing is left in the store, and what could not be reached is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from sealed_sessions import KEY, OTHER, QUICK, SECRET, brief, files_with, log_of, say, told

import holdfast
from holdfast.errors import Forbidden, Locked, NotFound
from holdfast.storage import MemoryStore

pytestmark = pytest.mark.stores(seal=True, key=KEY)


@pytest.fixture
def folder(tmp_path):
    """The path of a store of files."""
    return str(tmp_path / "store")


@pytest.mark.req("B-41")
@pytest.mark.parametrize("sealed", [True, False])
def test_after_erasing_nothing_is_left_in_the_store(folder, sealed):
    """Not the text, not the keys: in no log, fork, payload, quarantine, trash or index."""
    with holdfast.open(folder, key=KEY, seal=sealed) as hf:
        brief(hf, "other", "stays")
        with hf.session("a", **QUICK) as s:
            s.user(f"about {SECRET}")
            s.title = f"The {SECRET}"
            s.tool_result("c1", {"content": SECRET * 40_000})
            s.snapshot()
        with log_of(folder).open("ab") as file:
            file.write(b'{"seq":6,"ty' + SECRET.encode() * (not sealed))
        with hf.session("a", **QUICK) as s:
            s.user(SECRET)
        hf.fork("a", new_id="b")
        hf.fork("b", new_id="c")
        hf.delete("c")
        hf.fork("a", new_id="old")
        hf.archive("old")
        hf.list()
        hf.search(SECRET)
        secrets = [
            key.secret for id in ("a", "b", "old") for key in (hf.store.ring(f"sessions/{id}").keys if sealed else ())
        ]
        wrapped = [path.read_bytes() for path in Path(folder).rglob("seal.json") if "other" not in str(path)]
        assert set(hf.trash.family("a")) == {"sessions/b", "sessions/old", "trash/0.c"}
        found = hf.erase("a")
        assert set(found.erased) == {"sessions/a", "sessions/b", "sessions/old", "trash/0.c"}
        assert found.keys_destroyed == (4 if sealed else 0)
        assert len(found.unreached) == 1
        assert [row.session_id for row in hf.list()] == ["other"]
        assert len(told(hf, "other")) == 4
        assert files_with(folder, SECRET, SECRET.lower(), *secrets, *wrapped) == []
        with pytest.raises(NotFound):
            hf.erase("a")


def test_erasing_may_leave_forks_and_tells_so(folder):
    """Then they hold their own copy of what they share; a merge is told too."""
    with holdfast.open(folder) as hf:
        for id in ("a", "z"):
            brief(hf, id, "hello")
        hf.fork("a", new_id="b")
        with hf.session("a", **QUICK) as s:
            s.user("more")
        hf.merge("z", "a", new_id="m")
        found = hf.erase("a", forks=False)
        assert found.erased == ("sessions/a",)
        told_of = " ".join(found.unreached)
        assert "sessions/b" in told_of
        assert "sessions/m" in told_of
        assert len(told(hf, "b")) == 5
        assert hf.verify("b").ok


def test_erasing_one_fork_leaves_its_parent_and_siblings(folder):
    """On a store that copies, too, where all begin with the same bytes."""
    for where in (folder, MemoryStore()):
        with holdfast.open(where, key=KEY, seal=True) as hf:
            brief(hf, "a", "hello")
            hf.fork("a", new_id="b")
            hf.fork("a", new_id="c")
            hf.fork("b", new_id="d")
            assert set(hf.erase("b").erased) == {"sessions/b", "sessions/d"}
            assert {row.session_id for row in hf.list()} == {"a", "c"}


def test_erasing_waits_for_nobody_and_forgets_no_hold(folder):
    """Locked and Forbidden come before anything is destroyed; one in the trash can go as well."""
    with holdfast.open(folder, key=KEY, seal=True) as hf:
        say(hf, "a")
        hf.fork("a", new_id="b")
        held = hf.session("b", **QUICK)
        held.user("open")
        with pytest.raises(Locked):
            hf.erase("a")
        held.close()
        hf.policies.hold("b", "a case")
        with pytest.raises(Forbidden):
            hf.erase("a")
        assert len(told(hf, "a")) > 5
        hf.policies.release("b")
        hf.delete("a")
        assert set(hf.erase("a").erased) == {"trash/0.a", "sessions/b"}
        assert hf.trash.list() == []


def test_what_cannot_be_read_is_told(hf, folder):
    """A sealed session whose key is not here may be a fork of what is erased."""
    say(hf, "a")
    hf.close()
    with holdfast.open(folder, key=OTHER, seal=True) as other:
        brief(other, "mine", "hello")
        assert any("sessions/a could not be read" in text for text in other.erase("mine").unreached)
