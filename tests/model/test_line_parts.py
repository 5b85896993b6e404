"""What others may ask of lines without knowing what they look like."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.model import (
    LINE_END_BYTES,
    SEALED_END_BYTES,
    START,
    Event,
    Limits,
    begins_line,
    checksum_after,
    cut_line,
    encode_data,
    encode_line,
    encode_plain_line,
    encode_sealed_line,
    has_blob,
    has_blob_at,
    has_marked_keys,
    is_as_written,
    line_body,
    line_size,
    move_line,
    named_blobs,
    read_events,
    running_checksum,
    sealed_end,
    verified_blocks,
    verified_line,
    verified_line_at,
)
from holdfast.testing.strategies import events

NAME = "a" * 64


def log_of(*said):
    """The lines of a log in which a user said these things."""
    lines, crc = [], 0
    for seq, text in enumerate(said):
        data = encode_data({"content": text}, Limits())
        line, crc = encode_line(seq, line_body(Event("user", seq, 1, data)), crc)
        lines.append(line)
    return lines


def test_the_checksum_after_a_line_is_told_by_its_end():
    """The last bytes of a line say the running checksum after it; other bytes are refused."""
    log = b"".join(log_of("a", "b"))
    assert checksum_after(log[-LINE_END_BYTES:]) == running_checksum([log], len(log))
    with pytest.raises(ValueError, match="invalid literal"):
        checksum_after(b"no such end")


@given(st.binary(max_size=64), st.integers(1, 9), st.integers(0, 70))
def test_the_running_checksum_does_not_depend_on_the_chunks(data, size, stop):
    """The checksum of the first bytes is the same in however many chunks they come."""
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert running_checksum(chunks, stop) == running_checksum([data[:stop]], len(data[:stop]))


def test_a_line_is_as_written_behind_its_own_line_only():
    """A line follows from the checksum of the one before it, and no other does."""
    first, second = log_of("a", "b")
    assert is_as_written(first)
    assert is_as_written(second, checksum_after(first[-LINE_END_BYTES:]))
    assert not is_as_written(second)
    assert not is_as_written(b"no line at all\n")


@given(st.lists(st.text("ab$\n", max_size=20), max_size=12), st.integers(1, 300), st.integers(1, 200))
def test_verified_blocks_are_the_log(said, block_bytes, chunk):
    """The blocks are all lines in order, however large they are and whatever the chunks."""
    log = b"".join(log_of(*said))
    chunks = [log[at : at + chunk] for at in range(0, len(log), chunk)]
    blocks = list(verified_blocks(chunks, block_bytes))
    assert b"".join(blocks) == log
    assert all(block.endswith(b"\n") for block in blocks)


def test_verified_blocks_end_before_damage_and_before_half_a_line():
    """Nothing is given from a byte on that is not as written, nor a line that has no end."""
    first, second, third = log_of("a", "b", "c")
    assert list(verified_blocks([first, second.replace(b"b", b"x"), third], 1)) == [first]
    assert list(verified_blocks([first, second[:-5]], 1)) == [first]


def test_a_moved_line_keeps_everything_but_its_checksum():
    """Behind other lines a line has their checksum; a plain one has none and stays as it is."""
    first, second = log_of("a", "b")
    moved, crc, is_summed = move_line(second, 0)
    assert is_summed
    assert moved[:-LINE_END_BYTES] == second[:-LINE_END_BYTES]
    assert crc == running_checksum([moved], len(moved))
    assert is_as_written(moved)
    plain, crc = encode_plain_line(b'"type":"user"', 0)
    assert move_line(plain, 0) == (plain, crc, False)
    assert [event.type for event in read_events([plain])] == ["user"]
    assert first != second


@given(events())
@example(Event("user", 7, 12, b"{}", "run", "key", more=True))
def test_the_size_of_a_line_is_known_without_making_it(event):
    """A line has as many bytes as was said before."""
    line, _ = encode_line(event.seq, line_body(event), START.crc)
    assert len(line) == line_size(event)


def test_one_line_is_cut_out_of_some_bytes_of_a_log():
    """A line is found by its number, with the end of the one before; half a line is not."""
    lines = log_of("a", "b", "c")
    log = b"".join(lines)
    assert cut_line(log, 0, is_start=True) == (bytes(LINE_END_BYTES), lines[0])
    assert cut_line(log, 2, is_start=True) == (lines[1][-LINE_END_BYTES:], lines[2])
    part = log[len(lines[0]) - LINE_END_BYTES :]
    assert cut_line(part, 1, is_start=False) == (lines[0][-LINE_END_BYTES:], lines[1])
    assert cut_line(part[:-3], 2, is_start=False) is None
    assert begins_line(part[:-3], 2)
    assert begins_line(log, 0)
    assert cut_line(log[len(lines[0]) - 1 :], 1, is_start=False) is None
    assert not begins_line(log, 3)


def test_a_line_that_was_cut_out_is_verified_before_it_is_believed():
    """What does not follow from the line before it is no event."""
    lines = log_of("a", "b")
    before, line = cut_line(b"".join(lines), 1, is_start=True)
    assert verified_line(before, line).seq == 1
    assert verified_line(bytes(LINE_END_BYTES), lines[0]).seq == 0
    assert verified_line(before, line.replace(b"b", b"x", 1)) is None
    assert verified_line(b"no such end", line) is None
    odd, _ = encode_line(0, b'"type":7', 0)
    assert verified_line(bytes(LINE_END_BYTES), odd) is None


def test_a_line_is_verified_where_the_end_of_the_one_before_it_is_at_hand():
    """The line that follows such an end is given if it has the number and its checksum follows."""
    lines = log_of("a", "b", "c")
    part = lines[0][-LINE_END_BYTES:] + lines[1] + lines[2]
    assert verified_line_at(part, 1).data == {"content": "b"}
    assert verified_line_at(part, 2) is None
    assert verified_line_at(part[:-1], 2) is None
    assert verified_line_at(part.replace(b'"b"', b'"x"'), 1) is None
    assert verified_line_at(b"?" * 10 + part[10:], 1) is None
    twice = b'"type":"user","timestamp":1,"data":{},"seq":9'
    odd, _ = encode_line(1, twice, checksum_after(lines[0][-LINE_END_BYTES:]))
    assert verified_line_at(lines[0][-LINE_END_BYTES:] + odd, 1) is None


def test_the_end_of_what_was_sealed_is_told_by_the_end_of_its_line():
    """The last bytes of a sealed line say the end of its ciphertext; a plain line says zeros."""
    sealed, _ = encode_sealed_line(0, b"ciphertext, of some length", 0)
    assert sealed_end(sealed[-SEALED_END_BYTES:]) == b"ciphertext, of some length"[-8:]
    assert sealed_end(log_of("a")[0][-SEALED_END_BYTES:]) == bytes(8)
    assert sealed_end(b"x" * 13 + b"===" + sealed[-20:]) == bytes(8)  # no base64


def test_references_to_payloads_are_seen_without_decoding():
    """A reference is seen wherever it is, an escaped key only where escapes are asked for."""
    reference = b'{"content":{"$blob":"%b","bytes":1}}' % NAME.encode()
    escaped = b'{"$$blob":1}'
    assert has_blob(reference)
    assert has_marked_keys(reference)
    assert has_blob_at("content", reference)
    assert not has_blob_at("result", reference)
    assert named_blobs(reference) == [NAME]
    assert not has_blob(escaped)
    assert has_marked_keys(escaped)
    assert not has_blob(b'{"cost":"$5"}')
    assert not has_marked_keys(b'{"cost":"$5"}')
