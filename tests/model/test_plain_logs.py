"""Plain logs: read as they are, told apart from damaged lines of ours, and gone on with."""

from __future__ import annotations

from zlib import crc32

import pytest

from holdfast.model import Gap, Position, read_events

PLAIN = b'{"type":"user","timestamp":5,"data":{"content":"%b"}}\n'


def plain(*texts: str) -> bytes:
    return b"".join(PLAIN % text.encode() for text in texts)


@pytest.mark.req("S3-7")
def test_plain_logs_open_as_they_are(read_log):
    """Lines without seq and crc are numbered by their place."""
    found = read_log(plain("a", "b", "ü"))
    assert found.texts == ["a", "b", "ü"]
    assert found.seqs == [0, 1, 2]
    assert (found.chained, found.gaps) == (False, [])
    assert found.position == Position(3, len(plain("a", "b", "ü")), crc32(plain("a", "b", "ü")))


def test_plain_lines_may_be_written_otherwise(read_log):
    """Spaces, order, carriage returns and missing members are fine in a plain log."""
    log = b'{ "data": {"content": "a"}, "type": "user" }\r\n\n  \n{"type":"x"}\n'
    found = read_log(log)
    assert [(event.type, event.timestamp, event.data) for event in found.events] == [
        ("user", 0, {"content": "a"}),
        ("x", 0, {}),
    ]
    assert found.position == Position(2, len(log), crc32(log))
    bad = read_log(log + b"rubbish\n" + plain("b"))
    assert bad.seqs == [0, 1, 3]
    assert bad.events[:2] == found.events


def test_a_plain_log_may_lack_its_last_newline(read_log):
    """The last line is whole as JSON; a writer is told to end it first."""
    log = plain("a", "b")[:-1]
    found = read_log(log)
    assert found.texts == ["a", "b"]
    assert found.open_line
    assert found.position == Position(2, len(log), crc32(log))
    assert not read_log(plain("a")).open_line


def test_blank_lines_at_the_end_of_a_plain_log_are_torn(read_log):
    """They hold no event."""
    found = read_log(plain("a") + b"\n \n")
    assert (found.texts, found.torn) == (["a"], 3)
    assert read_log(b"\n" * 10) == read_log(b"\n" * 10, 1)


def test_the_first_checksum_covers_the_plain_lines(chain, read_log):
    """A plain log that Holdfast went on with is verified as a whole."""
    head = plain("a", "b")
    log = head + b"".join(chain("c", "d", first=2, crc=crc32(head)))
    found = read_log(log)
    assert found.texts == ["a", "b", "c", "d"]
    assert (found.chained, found.gaps) == (True, [])


def test_damage_under_the_first_checksum_is_noticed(chain, read_log):
    """Plain lines cannot be verified one by one; the gap is where the chain begins."""
    head = plain("a", "b")
    lines = chain("c", "d", first=2, crc=crc32(head))
    found = read_log(head.replace(b'"b"', b'"x"') + b"".join(lines))
    assert found.texts == ["a", "x", "d"]
    assert found.gaps == [Gap(len(head), len(lines[0]), 2, 2)]


def test_a_plain_line_after_the_chain_began_is_foreign(chain, read_log):
    """Lines without checksum are legal only before the first with one."""
    lines = chain("a", "b")
    assert read_log(lines[0] + plain("x")).texts == ["a"]
    assert read_log(lines[0] + plain("x")).torn == len(plain("x"))
    covered = chain("b", first=2, crc=crc32(lines[0] + plain("x")))[0]
    found = read_log(lines[0] + plain("x") + covered)
    assert found.texts == ["a", "b"]
    assert found.gaps == [Gap(len(lines[0]), len(plain("x")), 1, 1)]


def test_unreadable_plain_lines_are_counted_and_named(read_log):
    """The lines after them keep the number of their place."""
    found = read_log(plain("a") + b"rubbish\n{}\n" + plain("b"))
    assert found.seqs == [0, 3]
    assert found.gaps == [Gap(len(plain("a")), 11, 1, 2)]


def test_every_unreadable_plain_line_is_counted_once(read_log):
    """Numbers go on from the line after the gap."""
    found = read_log(plain("a") + b"rubbish\n" + plain("b", "c") + b"rubbish\n" + plain("d"))
    assert found.seqs == [0, 2, 3, 5]


def test_unreadable_plain_lines_at_the_end_are_not_counted(read_log):
    """The next event takes the number of the first of them: a writer cuts them off."""
    found = read_log(plain("a") + b"rubbish\nmore\n")
    assert found.position == Position(1, len(plain("a")), crc32(plain("a")))
    assert found.torn == 13


def test_a_member_named_crc_inside_plain_data_is_data(read_log):
    """Only a checksum of the line itself makes a line one of ours."""
    log = b'{"type":"t","timestamp":1,"data":{"n":1,"crc":"00000000"}}\n'
    found = read_log(log + log)
    assert found.events[0].data == {"n": 1, "crc": "00000000"}
    assert found.seqs == [0, 1]
    assert not found.gaps


@pytest.mark.parametrize(
    "line",
    [
        b'{"seq":0,"type":"user","timestamp":1,"data":{}}\n',
        b'{"type":"user","timestamp":1,"data":{},"crc":"00000000"}\n',
        b'{"type":"user","timestamp":1,"data":{},"crc":5}\n',
        b'{"seq":null,"type":"user","timestamp":1,"data":{}}\n',
        b'{"type":"user","timestamp":1.5,"data":{}}\n',
        b'{"type":"user","run":5,"data":{}}\n',
        b'{"type":"user","data":{"content":"\xff"}}\n',
        b'{"type":"user","data":%b}\n' % (b"[" * 100_000),
        b'{"type":7}\n',
        b'["type"]\n',
        b'{"sealed":"AAAA"}\n',
        b'{"seq":0,"sealed":"AAAA"}\n',
    ],
)
def test_lines_that_are_neither_plain_nor_ours_are_not_read(line, read_log):
    """A damaged line of ours never passes for a plain one, nor do bytes that are not JSON."""
    assert read_log(line).events == []
    found = read_log(plain("a") + line + plain("b"))
    assert found.texts == ["a", "b"]
    assert [gap.size for gap in found.gaps] == [len(line)]


def test_numbered_lines_under_a_later_checksum_are_events(chain, read_log):
    """Bytes that are verified and follow in number are taken, however odd."""
    head = plain("a")
    odd = b'{"seq":1,"type":"user","timestamp":1,"data":{"content":"b"}}\n'
    odd += b'\n{"seq":2,"type":"user","timestamp":1,"data":{"content":"c"},"crc":"00000000"}\n'
    log = head + odd + chain("d", first=3, crc=crc32(head + odd))[0]
    found = read_log(log)
    assert found.texts == ["a", "b", "c", "d"]
    assert found == read_log(log, 1)
    assert [event.seq for event in read_events([log])] == [0, 1, 2, 3]


def test_foreign_plain_lines_under_a_checksum_stay_foreign(chain, read_log):
    """What the checksum covers is as written, but only events are events."""
    head = plain("a") + b"rubbish\n"
    log = head + chain("b", first=2, crc=crc32(head))[0]
    found = read_log(log)
    assert found.texts == ["a", "b"]
    assert found.gaps == [Gap(len(plain("a")), 8, 1, 1)]
    log = head[:-1] + chain("b", first=2, crc=crc32(head[:-1]))[0]
    assert read_log(log).texts == ["a", "b"]


@pytest.mark.parametrize("rubbish", [b"x" * 20, bytes(20), b"\xef\xbb\xbf", b'{"type":"user","timestamp":5,"da'])
def test_a_plain_record_behind_rubbish_is_read(rubbish, read_log):
    """A truncated splice costs only what was truncated."""
    block = b'{"type":"assistant","timestamp":6,"data":{"content":[{"type":"text","text":"b"}]}}\n'
    log = plain("a") + rubbish + block + plain("c")
    found = read_log(log)
    assert [event.type for event in found.events] == ["user", "assistant", "user"]
    assert found.gaps == [Gap(len(plain("a")), len(rubbish), 1, 0)]


@pytest.mark.parametrize("glue", [b"", bytes(9), b"  \t"])
def test_glued_plain_records_are_all_read(glue, read_log):
    """Plain records without a newline between them are read one by one."""
    block = b'{"type":"assistant","timestamp":6,"data":{"content":[{"type":"text","text":"b"}]}}'
    log = block + glue + plain("a")[:-1] + glue + plain("c")
    assert [event.type for event in read_log(log).events] == ["assistant", "user", "user"]


def test_a_glued_plain_record_before_a_broken_one_is_open(read_log):
    """A writer that cuts the broken one off must first end the line."""
    found = read_log(plain("a")[:-1] + b'{"type":"user","timest\n')
    assert found.texts == ["a"]
    assert found.open_line


@pytest.mark.parametrize(
    "cut",
    [
        b'{"type":"user","timestamp":1,"data":{"content":[{"type":"text","text":"x"}',
        b'{"type":"user","timestamp":1,"data":{"content":[{"type":"a"},{"type":"text","text":"x"}',
        b'{"type":"user","timestamp":1,"data":{"content":[{"type":"x","timestamp":1,"data":{}}',
        b'{"type":"user","timestamp":1,"data":{"a": {"type":"x","timestamp":1,"data":{}}',
        b'{"type":"user","timestamp":1,"data":%b{"type":"x","timestamp":1,"data":{}}' % (b" " * 40),
        b'rubbish {"type":"text","text":"x"}',
    ],
)
def test_a_block_of_a_cut_message_is_not_an_event(cut, read_log):
    """What is left of a line must not pass for another one."""
    assert read_log(plain("a") + cut + b"\n" + plain("b")).texts == ["a", "b"]


def test_a_chain_may_begin_behind_a_broken_plain_line(chain, read_log):
    """A splice of a plain fragment and a line of ours keeps that line."""
    head = plain("a")
    line = chain("b", "c", first=1, crc=crc32(head))
    found = read_log(head + b'{"type":"user","timesta' + b"".join(line))
    assert found.texts == ["a", "b", "c"]


def test_the_first_line_of_another_log_is_not_read_behind_plain_lines(chain, read_log):
    """What follows nothing can follow only at the very beginning."""
    found = read_log(plain("a") + b"rubbish\n" + chain("x", first=1)[0])
    assert found.texts == ["a"]


def test_the_tail_of_a_plain_log_is_read_when_told_so(read_log):
    """A position in a plain log does not say what it is; the reader does."""
    head = plain("a", "b")
    position = read_log(head).position
    assert read_log(plain("c"), position=position, chained=False).seqs == [2]
    assert read_log(plain("c"), position=position).events == []
