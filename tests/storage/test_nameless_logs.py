"""A log whose file somebody else removed or replaced while it is written."""

from __future__ import annotations

import asyncio
import os
import shutil

import pytest

import holdfast
from holdfast.errors import HoldfastError, StoreError
from holdfast.storage import FileStore
from holdfast.testing import SimDisk


def removed(root):
    shutil.rmtree(root / "sessions" / "a")


def removed_with_all(root):
    shutil.rmtree(root)


def unlinked(root):
    (root / "sessions" / "a" / "events.jsonl").unlink()


def replaced(root):
    log = root / "sessions" / "a" / "events.jsonl"
    shutil.copy(log, log.with_suffix(".tmp"))
    os.rename(log.with_suffix(".tmp"), log)


def moved_away(root):
    (root / "sessions" / "a").rename(root / "sessions" / "b")


def in_the_way(root):
    removed(root)
    (root / "sessions" / "a").write_text("a file")


HARMS = [removed, removed_with_all, unlinked, replaced, moved_away, in_the_way]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_a_flush_says_that_the_log_is_gone(store_root, harm, key):
    """It raises with what was recorded since the last flush, and nothing is written any more."""
    hf = holdfast.open(store_root, key=key, seal=key is not None)
    s = hf.session("a")
    s.user("safe")
    s.flush()
    harm(store_root)
    s.user("unsafe")
    s.assistant("as well")
    with pytest.raises(StoreError, match="removed or replaced") as caught:
        s.flush()
    assert [e.data["content"] for e in caught.value.unsaved] == ["unsafe", "as well"]
    assert "unsaved" in caught.value.remedy
    with pytest.raises(HoldfastError):
        s.user("more")
    with pytest.raises(StoreError, match="removed or replaced"):
        s.flush()
    with pytest.raises(StoreError):
        s.barrier()
    s.close()
    hf.close()


async def test_it_is_told_by_every_kind_of_flush(store_root):
    """Under asyncio and at the end of a tool as well, before the side effect."""
    hf = holdfast.open(store_root)
    for id in ("a", "b"):
        s = hf.session(id)
        s.user("safe")
        s.flush()
        removed(store_root) if id == "a" else shutil.rmtree(store_root / "sessions" / "b")
        if id == "a":
            s.user("unsafe")
            with pytest.raises(StoreError, match="removed or replaced"):
                await s.aflush()
        else:
            with pytest.raises(StoreError, match="removed or replaced"), s.tool("Pay"):
                pytest.fail("the side effect would not be on record")
        await s.aclose()
    await asyncio.to_thread(hf.close)


def test_a_fork_that_shares_the_file_is_no_harm(store_root):
    """A second name of the log, and its growth, are as they should be."""
    with holdfast.open(store_root) as hf, hf.session("a") as s:
        s.user("one")
        fork = hf.fork("a")
        s.user("two")
        s.flush()
        with hf.session(fork) as other:
            other.user("three")
            other.flush()
            other.user("four")
            other.flush()


def test_it_costs_one_look_for_a_flush_and_none_for_an_append(store_root):
    """Where the file is looked for is counted."""
    disk = SimDisk()
    hf = holdfast.open(FileStore(store_root, disk=disk))
    with hf.session("a", autosave_ms=0, snapshot_ms=0) as s:
        s.user("first")
        s.flush()
        before = len(disk.calls)
        s.user("x")
        s.user("y")
        assert [call[0] for call in disk.calls[before:]] == ["write", "write"]
        s.flush()
        assert [call[0] for call in disk.calls[before + 2 :]] == ["sync", "node_at"]
    hf.close()
