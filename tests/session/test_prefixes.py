"""Digests of a log's beginning: the same however they are come by, and read little."""

from __future__ import annotations

import hashlib
import random

import pytest

from holdfast.session._loader import BLOCK_BYTES, PrefixChain, prefix_digest
from holdfast.storage import MemoryStore


def by_the_book(data: bytes) -> str:
    """The digest as docs/internals/sealing.md says it."""
    link, start = b"", 0
    while len(data) - start >= BLOCK_BYTES:
        link = hashlib.sha256(link + data[start : start + BLOCK_BYTES]).digest()
        start += BLOCK_BYTES
    return hashlib.sha256(link + data[start:]).hexdigest()


@pytest.fixture(scope="module")
def log():
    """Two and a half blocks, and a log that reads them."""
    data = random.Random(1).randbytes(BLOCK_BYTES * 5 // 2)
    store = MemoryStore()
    lease = store.lease("sessions/a")
    found = store.log("sessions/a")
    found.replace([data], lease.acquire("test", 1000))
    return data, found


@pytest.mark.parametrize("chunk", [1000, 1 << 18, 3 << 20])
def test_a_chain_gives_the_digest_at_every_place_that_was_asked_for(log, chunk):
    """Whatever the size of the pieces; a place that is not reached has none."""
    data, _ = log
    places = [10, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, len(data)]
    chain = PrefixChain([*places, len(data) + 5])
    for start in range(0, len(data), chunk):
        chain.feed(data[start : start + chunk])
    assert chain.digests == {place: by_the_book(data[:place]) for place in places}


def test_the_next_digest_goes_on_from_the_last_link(log):
    """It is the same, and begins at the block that the last one ended in."""
    data, found = log
    first, link = prefix_digest(found, BLOCK_BYTES + 7, "", 0)
    assert first == by_the_book(data[: BLOCK_BYTES + 7])
    again, second = prefix_digest(found, len(data), link, BLOCK_BYTES + 7)
    assert again == by_the_book(data)
    assert second != link
