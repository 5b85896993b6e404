"""Reading from the end, and finding a place, where lines are long and snapshots end early."""

from __future__ import annotations

import pytest

import holdfast


@pytest.fixture
def hf(store_root):
    with holdfast.open(store_root) as opened:
        yield opened


@pytest.mark.parametrize("chars", [10, 30_000, 200_000, 250_000])
def test_a_long_line_before_a_short_one_is_read_backwards(hf, chars):
    """Events come newest first and completely, however long a line is before the last."""
    with hf.session("a") as s:
        s.user("first")
        s.assistant("x" * chars)
    forwards = [event.seq for event in hf.events("a")]
    assert [event.seq for event in hf.events("a", reverse=True)] == forwards[::-1]
    assert [event.seq for event in hf.events("a", reverse=True, limit=1)] == forwards[-1:]


def test_a_fork_at_the_end_of_a_snapshot_has_no_event_more(hf):
    """A snapshot that covers exactly the events of a fork adds nothing to it."""
    with hf.session("a") as s:
        s.user("one")
        at = s.snapshot()
        s.user("two")
    fork = hf.fork("a", at=at)
    assert [event.data["content"] for event in hf.events(fork, types={"user"})] == ["one"]
