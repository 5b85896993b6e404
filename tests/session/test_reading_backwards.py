"""Reading from the end, and finding a place, where lines are long and snapshots end early."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("chars", [10, 30_000, 200_000, 250_000])
def test_a_long_line_before_a_short_one_is_read_backwards(hf, chars):
    """Events come newest first and completely, however long a line is before the last."""
    with hf.session("a") as s:
        s.user("first")
        s.assistant("x" * chars)
    forwards = [event.seq for event in hf.events("a")]
    assert [event.seq for event in hf.events("a", reverse=True)] == forwards[::-1]
    assert [event.seq for event in hf.events("a", reverse=True, limit=1)] == forwards[-1:]


@pytest.mark.parametrize("batch", [1, 2, 7, 90])
def test_a_long_log_is_read_backwards_in_pieces(hf, batch):
    """Every event once, newest first, wherever a piece ends: between batches or within one."""
    with hf.session("a") as s:
        s.user("first")
        for number in range(0, 360, batch):
            events = [("user", {"content": f"{n} " + "x" * (n * 37 % 3_000)}) for n in range(batch)]
            s.extend(events) if batch > 1 else s.user("y" * (number * 37 % 3_000))
    forwards = list(hf.events("a"))
    assert list(hf.events("a", reverse=True)) == forwards[::-1]
    assert list(hf.events("a", reverse=True, limit=150)) == forwards[:-151:-1]


def test_damage_far_from_the_end_is_met_only_by_who_reads_that_far(hf):
    """What lies after it is served from its pieces, what lies before it from the whole."""
    with hf.session("a") as s:
        for number in range(300):
            s.user(f"{number} " + "x" * 1_000)
    path = hf.location("a") + "/events.jsonl"
    with open(path, "r+b") as log:
        log.seek(20_000)
        log.write(b"#")
    forwards = list(hf.events("a"))
    assert len(forwards) == 302  # of 303, with the opening and the end
    assert list(hf.events("a", reverse=True)) == forwards[::-1]


def test_a_fork_at_the_end_of_a_snapshot_has_no_event_more(hf):
    """A snapshot that covers exactly the events of a fork adds nothing to it."""
    with hf.session("a") as s:
        s.user("one")
        at = s.snapshot()
        s.user("two")
    fork = hf.fork("a", at=at)
    assert [event.data["content"] for event in hf.events(fork, types={"user"})] == ["one"]
