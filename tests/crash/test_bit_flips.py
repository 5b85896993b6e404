"""Every bit of a session of 64 KiB, flipped one at a time."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from campaign_log import FULL, record

from holdfast.model import Event, LineReader, Position, encode_line, line_body

SIZE = 1 << 16
AFTER = 6
PARTS = 16
STRIDE = 1 if FULL else 101


def make_log():
    """Lines of different lengths, 64 KiB of them, and the position before each and at the end."""
    lines, positions = [], [Position(0, 0, 0)]
    while positions[-1].offset < SIZE:
        seq, offset, crc = positions[-1]
        text = "word " * (seq * 7 % 23)
        event = Event.make("user", {"content": f"{seq} {text}"}, timestamp=seq)
        line, crc = encode_line(seq, line_body(event), crc)
        lines.append(line)
        positions.append(Position(seq + 1, offset + len(line), crc))
    return b"".join(lines), positions


LOG, POSITIONS = make_log()
EVENTS = {event.seq: bytes(event.raw) for event in LineReader().feed(LOG)}


def found_in(log, position):
    """What is read from a position on: (seq, data) of each event."""
    reader = LineReader(position)
    return [(event.seq, bytes(event.raw)) for event in [*reader.feed(log), *reader.finish()]]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_flipped_bit_makes_nothing_wrong(part):
    """No event is read that was not written, at most two are lost, and nothing raises.

    What was read before the line with the bit is as it was; so the reader begins at that line, and
    goes on for a few more, in which it must have found its way again.
    """
    count = 0
    for bit in range(part * STRIDE, SIZE * 8, PARTS * STRIDE):
        number = bisect_right(POSITIONS, bit >> 3, key=lambda found: found.offset) - 1
        begin, last = POSITIONS[number], min(number + AFTER, len(POSITIONS) - 1)
        log = bytearray(LOG[begin.offset : POSITIONS[last].offset])
        log[(bit >> 3) - begin.offset] ^= 1 << (bit & 7)
        found = found_in(bytes(log), begin)
        assert all(EVENTS[seq] == raw for seq, raw in found), f"bit {bit}"
        assert len({seq for seq, _ in found}) == len(found), f"bit {bit}"
        assert len(found) >= last - number - 2, f"bit {bit}"
        count += 1
    assert count > 0
    record("bit flips", count)
