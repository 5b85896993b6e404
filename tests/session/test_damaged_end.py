"""Where a damaged end of a log begins, and what is none."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Event
from holdfast.session import unreadable_from
from holdfast.storage import MemoryStore
from holdfast.testing.strategies import encode_log

KEY = "sessions/s"


class Looks:
    """A log that has other bytes at each look; the last ones for good. Counts what is read."""

    unseal = None

    def __init__(self, *looks):
        self._looks = list(looks)
        self._now = b""
        self.bytes_read = 0

    def settled(self):
        """A look begins with this question."""
        self._now = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return 0

    def size(self):
        """All of it."""
        return len(self._now)

    def read(self, start=0):
        """In one chunk."""
        self.bytes_read += len(self._now) - start
        return iter([self._now[start:]])

    def read_tail(self, size):
        """The end, and where it begins."""
        start = max(len(self._now) - size, 0)
        self.bytes_read += len(self._now) - start
        return start, self._now[start:]


def first_lost(log):
    """What is told of a log that has no documents."""
    return unreadable_from(log, MemoryStore().documents(KEY))


def in_store(hf):
    """What is told of a session."""
    return unreadable_from(hf.store.log(KEY), hf.store.documents(KEY))


def lines(count, size=1, batch=()):
    """The lines of a log, some of which wait for the next one."""
    events = [Event.make("session_start", {"format": 1, "log": "0" * 32}, seq=0, timestamp=1)]
    events += [Event("user", n, 1, b'{"content":"%s"}' % (b"w" * size), more=n in batch) for n in range(1, count)]
    return encode_log(events).splitlines(keepends=True)


def damaged(line):
    """Another line of the same length, with its newline."""
    return line.replace(b"content", b"kontent")


@pytest.mark.parametrize("size", [1, 40_000, 200_000])
@pytest.mark.parametrize("lost", [1, 3])
def test_damaged_lines_at_the_end_are_found_at_any_length(size, lost):
    """Lines longer than the tail that is looked at hide nothing."""
    found = lines(8, size)
    bad = [damaged(line) for line in found[-lost:]]
    assert first_lost(Looks(b"".join(found[:-lost] + bad))) == 8 - lost
    assert first_lost(Looks(b"".join(found))) is None


def test_only_the_tail_of_a_whole_log_is_read():
    """To be told that nothing is damaged costs the same at any length."""
    log = Looks(b"".join(lines(5_000, 100)))
    assert first_lost(log) is None
    assert log.bytes_read <= 1 << 16


@pytest.mark.parametrize("size", [1, 40_000])
def test_a_batch_without_its_last_line_is_not_damaged(size):
    """Whole lines that wait for another are an unfinished write."""
    found = lines(8, size, batch=(5, 6))
    for end in (6, 7):
        assert first_lost(Looks(b"".join(found[:end]))) is None
        assert first_lost(Looks(b"".join(found[:end]) + found[end][:20])) is None


def test_what_a_writer_writes_anew_meanwhile_is_not_damaged():
    """A look may mix what a crash left with what the next writer put in its place."""
    found = lines(8)
    mixed = b"".join([*found[:6], damaged(found[6])])
    assert first_lost(Looks(mixed, b"".join(found))) is None
    later = b"".join([*found[:7], damaged(found[7])])
    assert first_lost(Looks(mixed, later)) is None
    assert first_lost(Looks(mixed)) == 6


def test_a_log_is_never_reported_while_it_is_written(tmp_path):
    """Between any two appends, synced or not, nothing is missed at the end."""
    with holdfast.open(tmp_path / "store") as hf:
        for _ in range(2):  # the second time there is a note of what was safe
            with hf.session("s") as session:
                for number in range(20):
                    session.user(f"word{number}")
                    assert in_store(hf) is None
                session.flush()
                assert in_store(hf) is None
        assert in_store(hf) is None
