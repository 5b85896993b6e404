"""What the memory store has beyond the contract."""

from __future__ import annotations

import pytest

from holdfast.errors import Locked
from holdfast.storage import MemoryStore


def write(store, *ids):
    for id in ids:
        store.log(f"sessions/{id}").append(b"line\n", 0, 1, 1)


@pytest.mark.req("S3-5")
@pytest.mark.req("S3-6")
def test_ids_count_and_clear():
    """It tells its session ids and how many there are, and can be emptied."""
    store = MemoryStore()
    write(store, "b", "a")
    store.log("agents/x").append(b"line\n", 0, 1, 1)
    assert store.ids() == ["a", "b"]
    assert store.count() == 2
    store.clear()
    assert (store.ids(), store.count()) == ([], 0)


@pytest.mark.req("S3-5")
def test_two_stores_share_nothing():
    """Two memory stores have nothing in common."""
    one, other = MemoryStore(), MemoryStore()
    write(one, "a")
    assert other.ids() == []
    assert one.identity != other.identity


def test_holder_is_named():
    """Who finds a session locked in memory is told that it is this process."""
    store = MemoryStore()
    store.lease("sessions/a").acquire("me", 0)
    with pytest.raises(Locked, match="this process") as caught:
        store.lease("sessions/a").acquire("you", 0)
    assert caught.value.pid
    assert caught.value.host
