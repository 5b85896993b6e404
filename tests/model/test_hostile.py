"""Bytes that mean harm: the reader never raises, and its work grows with the bytes, no faster."""

from __future__ import annotations

import time
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import KeyMissing
from holdfast.model import LineReader, _salvage
from holdfast.model import _reader as _block

PIECES = [
    b'{"seq":',
    b'{"seq":0,"type":"user",',
    b'"timestamp":1,"data":{}',
    b',"crc":"00000000"}',
    b',"crc":"',
    b'{"type":"user","timestamp":1,"data":{}}',
    b'{"type":',
    b"\n",
    b"\0",
    b" ",
    b"}{",
    b'"sealed":"AAAA"',
    b'"more":true,',
    b"[" * 50,
    b"\xff",
]


def running(count: int, start: bytes = b"x", before: bytes = b"") -> bytes:
    """Digits that are right after every piece, behind a beginning that is no record."""
    crc, parts = crc32(start), [before, start]
    for _ in range(count):
        crc = crc32(b',"crc":"', crc)
        tail = b'%08x"}' % crc
        parts += [b',"crc":"', tail]
        crc = crc32(tail, crc)
    return b"".join(parts)


HOSTILE = {
    "starts": lambda n: b'{"seq"' * n,
    "numbered starts": lambda n: b'{"seq":1,"type":"' * n,
    "ends": lambda n: b',"crc":"00000000"}' * n,
    "starts, then ends": lambda n: b'{"seq":1,"a' * n + b',"crc":"00000000"}' * n,
    "start and end, glued": lambda n: b'{"seq":1,"type":"x","crc":"00000000"}' * n,
    "start and end in lines": lambda n: b'{"seq":1,"type":"x","crc":"00000000"}\n' * n,
    "one start, many ends": lambda n: b'{"seq":1,"type":"x' + b',"crc":"00000000"}' * n,
    "newlines": lambda n: b"\n" * n,
    "short lines": lambda n: b"x\n" * n,
    "zeros": bytes,
    "plain starts": lambda n: b'{"type":' * n,
    "plain starts behind rubbish": lambda n: b'x{"type":"a","timestamp":1,"data":' * n,
    "plain records behind rubbish": lambda n: b'x{"type":"a","timestamp":1,"data":{}}' * n,
    "plain records, glued": lambda n: b'{"type":"a","timestamp":1,"data":{}}' * n,
    "nested": lambda n: b'{"type":"a","data":' + b"[" * n,
    "nested starts": lambda n: b'{"type":{"type":' * n,
    "braces and spaces": lambda n: b"}   " * n,
    "waiting lines": lambda n: b'{"type":"a","more":true}\n' * n,
    "right digits": lambda n: running(n // 8),
    "right digits behind rubbish": lambda n: running(n // 8, b'{"seq":1,"x', b"rubbish"),
}


class Meter:
    """Counts the bytes that are summed, decoded and walked over."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.work = 0
        patch.setattr(_salvage, "crc32", self._count(_salvage.crc32))
        patch.setattr(_salvage, "decode_line", self._count(_salvage.decode_line))
        patch.setattr(_salvage, "decode_each", self._count(_salvage.decode_each))
        patch.setattr(_block, "_is_utf8", self._count(_block._is_utf8))

    def _count(self, function):
        def counted(data, *rest):
            self.work += len(data) + 10
            return function(data, *rest)

        return counted


def measure(log: bytes, patch: pytest.MonkeyPatch) -> int:
    with patch.context() as context:
        meter = Meter(context)
        reader = LineReader()
        reader.feed(log)
        reader.finish()
    return meter.work


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_bytes_are_twice_the_work(name, monkeypatch):
    """Whatever the pattern, no byte is looked at more often in a longer log."""
    make = HOSTILE[name]
    once, twice = (measure(make(n), monkeypatch) for n in (1_000, 2_000))
    assert twice <= 2.2 * once + 2_000
    assert twice <= 60 * len(make(2_000))


@pytest.mark.parametrize("name", HOSTILE)
def test_half_a_megabyte_of_anything_is_read_in_seconds(name):
    """What the meter does not see is quick as well: quadratic work would take minutes."""
    log = HOSTILE[name](100_000)[: 1 << 19]
    before = time.process_time()
    for end in (b"", b"\n"):
        reader = LineReader()
        for start in range(0, len(log), 1 << 16):
            reader.feed(log[start : start + (1 << 16)])
        reader.feed(end)
        reader.finish()
    assert time.process_time() - before < 10


def test_many_small_chunks_of_one_line_are_joined_once(chain):
    """A long line in tiny pieces costs no more than in one."""
    line = chain("x" * 200_000)[0]
    reader = LineReader()
    before = time.process_time()
    for start in range(0, len(line), 4):
        events = reader.feed(line[start : start + 4])
    assert [event.seq for event in events] == [0]
    assert time.process_time() - before < 2


def test_a_long_batch_in_many_chunks_is_decoded_once(chain, monkeypatch):
    """Lines that wait are not read again with every chunk."""
    lines = chain(*(str(n) for n in range(400)), more=400)
    lines += chain("end", first=400, crc=crc32(b"".join(lines)))
    from holdfast.model import _reader

    decoded = []
    number_lines = _reader.number_lines
    monkeypatch.setattr(
        _reader,
        "number_lines",
        lambda lines, *rest, **options: decoded.append(len(lines)) or number_lines(lines, *rest, **options),
    )
    reader = LineReader()
    found = [event for line in lines for event in reader.feed(line)]
    assert len(found) == 401
    assert sum(decoded) == 401


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=40).map(b"".join))
@settings(max_examples=500)
def test_no_bytes_make_the_reader_raise(read_log, log):
    """Arbitrary bytes are read or passed over; the figures about them agree."""
    try:
        found = read_log(log)
    except KeyMissing:
        return
    assert 0 <= found.position.offset <= len(log)
    assert found.torn == len(log) - found.position.offset
    assert found.position.seq >= len(found.events)
    assert all(gap.offset + gap.size <= len(log) for gap in found.gaps)
    for size in (1, 5):
        assert read_log(log, size) == found


@given(st.binary(max_size=300))
def test_arbitrary_bytes_hold_no_events(read_log, log):
    """Nothing is read out of noise."""
    assert read_log(log).events == []
