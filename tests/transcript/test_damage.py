"""Damage at the end of a log is told on every surface, and what a crash leaves there is none."""

from __future__ import annotations

import pytest

from holdfast import Event


def words(count):
    """The events of a log in which somebody says something."""
    start = Event.make("session_start", {"format": 1, "log": "0" * 32}, seq=0, timestamp=1)
    said = [Event.make("user", {"content": "w"}, seq=n, timestamp=n) for n in range(1, count)]
    return [start, *said]


def cut_at_a_line(lines):
    """The last three lines are gone."""
    return b"".join(lines[:-3])


def zeroed(lines):
    """The last three lines are zeros."""
    return b"".join(lines[:-3]) + bytes(len(b"".join(lines[-3:])))


def damaged(lines):
    """The last three lines are there with other words."""
    return b"".join([*lines[:-3], *(one.replace(b"data", b"dada") for one in lines[-3:])])


@pytest.mark.parametrize("damage", [cut_at_a_line, zeroed, damaged])
def test_what_was_safe_is_missed_at_the_end(shelf, surface, damage):
    """A session was closed, and its log has lost its end since, in whatever way."""
    id = f"{damage.__name__}-{surface}"
    with shelf.hf.session(id) as session:
        for number in range(6):
            session.user(f"word{number}")
    path = shelf.root / "sessions" / id / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(damage(lines))
    told = f"events from {len(lines) - 3} on cannot be read (see holdfast verify)"
    assert shelf.read(surface, id).count(told) == 1


def test_a_gap_and_a_damaged_end_are_both_told(shelf, surface):
    """Damage in the midst does not hide that at the end."""
    id = shelf.put(words(21), [5, 6, 18, 19, 20])
    found = shelf.read(surface, id)
    assert found.count("events from 18 on cannot be read") == 1
    assert surface == "json" or found.count("events 5 to 6 cannot be read") == 1


@pytest.mark.parametrize("left", [b'{"seq":7,"ty', b"\0" * 700, b"\0" * 512 + b'ta":{}}\n', b"{"])
def test_what_a_crash_leaves_is_no_damage(shelf, surface, left):
    """An unfinished write, which nobody was promised, is not told as lost."""
    id = shelf.put(words(7))
    with (shelf.root / "sessions" / id / "events.jsonl").open("ab") as file:
        file.write(left)
    assert "cannot be read" not in shelf.read(surface, id)
