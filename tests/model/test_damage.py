"""Damaged logs: nothing wrong is ever read, and as little as possible is lost."""

from __future__ import annotations

import os
from collections import Counter
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import START, Event, LineReader, Position, encode_line, line_body
from holdfast.testing.strategies import damaged_bytes, encode_log, logs

FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
SIZE = 16 * 1024
ALL_BITS = range(8)
STEP = 127  # a prime, so that every bit of a byte and every place in a line has its turn


def make_event(seq: int) -> Event:
    """Events of several kinds, some in batches, some with digits and records inside their data."""
    content = f"message {seq} 👋 " + "word " * (seq % 17)
    type, data = [
        ("user", {"role": "user", "content": content}),
        ("tool_call", {"id": f"c{seq}", "tool": "Read", "params": {"a": 1, "crc": "00000000"}}),
        ("assistant", {"content": [{"type": "text", "text": content}, {"type": "text"}]}),
        ("tool_result", {"toolCallId": f"c{seq}", "result": {"seq": seq, "crc": "9ae0daaf"}}),
    ][seq % 4]
    raw = Event.make(type, data).raw
    run = "run-1" if seq % 5 == 0 else None
    return Event(type, seq, 1_701_234_567_000 + seq, raw, run, None, more=seq % 11 in (3, 4))


def make_log() -> tuple[bytes, list[Event], list[Position]]:
    """A log of exactly 16 KiB, its events, and the position before each and after the last."""
    events, lines, positions = [], [], [START]
    while positions[-1].offset < SIZE:
        seq, offset, crc = positions[-1]
        event = make_event(seq)
        if offset > SIZE - 500 and not events[-1].more:  # the last line fills up to the byte
            empty = len(encode_line(seq, line_body(Event.make("user", {"content": ""})), 0)[0])
            event = Event.make("user", {"content": "x" * (SIZE - offset - empty)}, seq=seq)
        line, crc = encode_line(seq, line_body(event), crc)
        events.append(event)
        lines.append(line)
        positions.append(Position(seq + 1, offset + len(line), crc))
    return b"".join(lines), events, positions


LOG, EVENTS, POSITIONS = make_log()


def lost_by(log: bytes, events: list[Event], position: Position = START) -> int:
    """How many of the events a reader does not find; none that it finds may be another."""
    reader = LineReader(position)
    found = reader.feed(log) + reader.finish()
    by_seq = {event.seq: event for event in events}
    assert all(by_seq[event.seq] == event for event in found), "a wrong event"
    seqs = [event.seq for event in found]
    assert seqs == sorted(set(seqs)), "wrong order"
    return len(events) - len(found)


def flip(log: bytearray, bit: int) -> None:
    log[bit >> 3] ^= 1 << (bit & 7)


def lose_by_flips(bits: range) -> Counter[int]:
    """How many events are lost, by how many flips, each tried in the whole log."""
    log = bytearray(LOG)
    losses: Counter[int] = Counter()
    for bit in bits:
        flip(log, bit)
        losses[lost_by(bytes(log), EVENTS)] += 1
        flip(log, bit)
    return losses


def test_the_log_for_the_flips_has_16_kib():
    """The log that is flipped is the one that was promised."""
    assert len(LOG) == SIZE
    assert lost_by(LOG, EVENTS) == 0
    assert len(EVENTS) > 80


@pytest.mark.slow
def test_flips_all_over_a_log_lose_at_most_two_events():
    """Every 127th bit of 16 KiB: never a wrong event, never an exception, at most two lost."""
    assert max(lose_by_flips(range(0, SIZE * 8, STEP))) <= 2


@pytest.mark.parametrize("number", [0, len(EVENTS) // 2, len(EVENTS) - 1])
def test_every_flip_in_a_line_loses_at_most_two_events(number):
    """Every bit of the first, a middle and the last line: head, data, digits and newline."""
    assert max(lose_by_flips_near(number)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("third", range(3))
def test_every_flip_of_16_kib_loses_at_most_two_events(third):
    """All 131,072 single-bit flips, each read with the lines around it.

    On a push every byte has one flip, with the bit taking turns; every eighth line has all.
    """
    losses: Counter[int] = Counter()
    for number in range(third, len(EVENTS), 3):
        losses += lose_by_flips_near(number, every_bit=FUZZ or number % 8 == 0)
    assert max(losses) <= 2


def lose_by_flips_near(number: int, *, every_bit: bool = True) -> Counter[int]:
    first, last = max(0, number - 4), min(len(EVENTS), number + 6)
    while EVENTS[last - 1].more:
        last += 1
    begin = POSITIONS[first]
    near = bytearray(LOG[begin.offset : POSITIONS[last].offset])
    losses: Counter[int] = Counter()
    for place in range(POSITIONS[number].offset, POSITIONS[number + 1].offset):
        for bit in ALL_BITS if every_bit else (place * 5 % 8,):
            near[place - begin.offset] ^= 1 << bit
            losses[lost_by(bytes(near), EVENTS[first:last], begin)] += 1
            near[place - begin.offset] ^= 1 << bit
    return losses


def test_a_flip_in_the_last_line_costs_the_batch_that_it_ends(read_log, chain):
    """A batch is all or nothing, also when its last line cannot be told from a torn one."""
    lines = [*chain("whole"), *chain("a", "b", first=1, crc=crc32(chain("whole")[0]), more=2)]
    lines += chain("c", first=3, crc=crc32(b"".join(lines)))
    assert read_log(b"".join(lines)).texts == ["whole", "a", "b", "c"]
    found = read_log(b"".join(lines).replace(b'"c"', b'"x"'))
    assert found.texts == ["whole"]
    assert found.torn == len(b"".join(lines[1:]))


def test_every_two_flips_in_neighbouring_digits_lose_at_most_four_events():
    """Losses of separate accidents only add up."""
    log = bytearray(LOG)
    for number in range(10, 14):
        for place in (5, 8, 30):
            flip(log, (POSITIONS[number].offset - place) * 8)
            flip(log, (POSITIONS[number + 1].offset - 5) * 8)
            assert lost_by(bytes(log), EVENTS) <= 4
            flip(log, (POSITIONS[number].offset - place) * 8)
            flip(log, (POSITIONS[number + 1].offset - 5) * 8)


def test_a_log_cut_at_any_byte_gives_the_events_before_the_cut(read_log):
    """Truncation loses what it cut, the batch that it cut into, and nothing else."""
    count = 24
    log = LOG[: POSITIONS[count].offset]
    for cut in range(len(log) + 1):
        whole = sum(position.offset <= cut for position in POSITIONS[1 : count + 1])
        while whole and EVENTS[whole - 1].more:
            whole -= 1
        found = read_log(log[:cut])
        assert found.events == EVENTS[:whole], cut
        assert found.position == POSITIONS[whole], cut
        assert found.torn == cut - POSITIONS[whole].offset, cut
        assert not found.gaps, cut


def test_chunks_of_any_size_give_the_same_reading(read_log, chain):
    """Where a chunk ends never matters, for whole, torn, damaged, plain and mixed logs."""
    lines = chain("a", "b", "c", more=1) + chain("never ended", first=9)
    bad = [line.replace(b'"b"', b'"x"') for line in lines]
    plain = [b'{"type":"user","timestamp":1,"data":{"content":"p"}}\n', b"\n", b"rubbish\n"]
    mixed = b"".join(plain)
    for log in (
        b"".join(lines),
        b"".join(lines)[:-5],
        b"".join(bad),
        mixed,
        mixed + b"".join(chain("d", "e", first=2, crc=crc32(mixed))),
        lines[0] + bytes(30) + lines[1].rstrip() + lines[2] + plain[0],
        LOG[: POSITIONS[6].offset],
    ):
        expected = read_log(log)
        for size in range(1, len(log)):
            assert read_log(log, size) == expected, size


@given(data=st.data())
def test_whatever_happens_to_a_log_nothing_wrong_is_read(data):
    """Flips, cuts, zeros, doubled, swapped and glued parts: all that is found was recorded."""
    events = data.draw(logs(max_turns=1))
    lost_by(data.draw(damaged_bytes(encode_log(events))), events)


@given(log=damaged_bytes(LOG[: POSITIONS[9].offset]), size=st.integers(1, 400))
def test_whatever_happens_to_a_log_chunks_do_not_matter(log, size, read_log):
    """A damaged log reads the same in one piece and in many."""
    assert read_log(log, size) == read_log(log)
