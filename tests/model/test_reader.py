"""From bytes to events: chains, batches, foreign bytes between records, and moving lines."""

from __future__ import annotations

from zlib import crc32

import pytest

from holdfast.model import (
    START,
    Event,
    Gap,
    LineReader,
    Position,
    cut_body,
    encode_line,
    line_body,
    read_events,
    salvage,
)

PLAIN = b'{"type":"user","timestamp":5,"data":{"content":"%b"}}\n'


def plain(*texts: str) -> bytes:
    return b"".join(PLAIN % text.encode() for text in texts)


def body(event: Event, *, more: bool = False) -> bytes:
    return line_body(Event(event.type, -1, event.timestamp, event.raw, more=more))


# --- chains ---


@pytest.mark.req("S3-7")
def test_a_log_reads_back_what_was_written(chain, read_log):
    """Every event of a whole log comes back, in order, with the position after the last."""
    lines = chain("a", "b", "c")
    log = b"".join(lines)
    found = read_log(log)
    assert found.texts == ["a", "b", "c"]
    assert found.seqs == [0, 1, 2]
    assert found.position == Position(3, len(log), crc32(log))
    assert (found.gaps, found.torn, found.chained) == ([], 0, True)


def test_an_empty_log_has_no_events(read_log):
    """Nothing gives nothing, at the beginning."""
    assert read_log(b"").position == START


def test_reading_goes_on_from_any_position(chain, read_log):
    """The tail of a log is verified alone, given the position before it."""
    lines = chain("a", "b", "c")
    position = read_log(lines[0]).position
    assert read_log(b"".join(lines[1:]), position=position).texts == ["b", "c"]
    wrong = position._replace(crc=position.crc ^ 1)
    assert read_log(b"".join(lines[1:]), position=wrong).texts == ["c"]


def test_events_come_as_soon_as_their_newline_does(chain):
    """A follower that gets single bytes sees each event with the last byte of its line."""
    for log in (b"".join(chain("a", "b")), plain("a", "b"), b"\n \n" + plain("a", "b")):
        reader = LineReader()
        ends = [end for end in range(1, len(log) + 1) if reader.feed(log[end - 1 : end]) != []]
        assert ends == [end for end in range(1, len(log) + 1) if log[:end].endswith(b"}\n")]


def test_whole_blocks_take_the_quick_way(chain, monkeypatch):
    """One checksum over the block and one over its last digits; no record is looked at singly."""
    summed = []
    monkeypatch.setattr("holdfast.model._reader.crc32", lambda data, crc: summed.append(len(data)) or crc32(data, crc))
    monkeypatch.setattr("holdfast.model._salvage.Salvage", None)
    log = b"".join(chain(*"abcdefgh"))
    reader = LineReader()
    assert len(reader.feed(log)) == 8
    assert reader.finish() == []
    assert summed == [len(log) - 11, 11]


def test_read_events_gives_every_event_of_chunks(chain):
    """The plain function does what the reader does."""
    log = b"".join(chain("a", "b", "c"))
    assert [event.seq for event in read_events([log[:50], log[50:-4]])] == [0, 1]


def test_unknown_types_and_members_are_read(read_log):
    """A log of a later version reads: what is not known is passed over."""
    later = b'"type":"x.new","timestamp":1,"trace":"t","data":{"a":1},"extra":{"crc":"00000000"}'
    line, _ = encode_line(0, later, 0)
    (event,) = read_log(line).events
    assert (event.type, event.data) == ("x.new", {"a": 1})


def test_members_may_stand_in_any_order(read_log):
    """Only the place of the checksum is fixed."""
    head = b'{"data":{"content":"a"},"type":"user","seq":0,"timestamp":1,"crc":"'
    line = head + b'%08x"}\n' % crc32(head)
    assert read_log(line).texts == ["a"]
    damage = b'{"x":1,"crc":"00000000"}\n'
    assert read_log(line + damage, 1).texts == ["a"]


def test_a_jump_in_the_numbers_is_a_gap_of_no_size(chain, read_log):
    """Lines that are whole but not dense are served, and the hole is named."""
    first = chain("a")
    log = first[0] + chain("b", first=5, crc=crc32(first[0]))[0]
    found = read_log(log)
    assert found.seqs == [0, 5]
    assert found.gaps == [Gap(len(first[0]), 0, 1, 4)]


def test_a_number_that_was_there_before_is_not_read_again(chain, read_log):
    """A line that names an earlier number is foreign, even if its checksum fits."""
    first = chain("a", "b")
    log = b"".join(first)
    again = chain("again", "c", first=1, crc=crc32(log))
    found = read_log(log + b"".join(again))
    assert found.texts == ["a", "b", "c"]
    assert found.gaps == [Gap(len(log), len(again[0]), 2, 1)]


# --- batches ---


def test_a_batch_is_given_when_its_last_line_is_there(chain):
    """Lines that wait for others come together with the line that ends the batch."""
    lines = chain("a", "b", more=2)
    last = chain("c", first=2, crc=crc32(b"".join(lines)))[0]
    reader = LineReader()
    assert reader.feed(lines[0]) == []
    assert reader.feed(lines[1]) == []
    assert reader.position == START
    assert [event.data["content"] for event in reader.feed(last)] == ["a", "b", "c"]
    assert reader.finish() == []
    assert reader.position.seq == 3


def test_events_before_an_open_batch_are_given_at_once(chain):
    """One block may end a batch and begin another."""
    lines = chain("a", "b", "c", more=2)
    reader = LineReader()
    assert [event.seq for event in reader.feed(b"".join(lines))] == [0]
    assert reader.position == Position(1, len(lines[0]), crc32(lines[0]))
    rest = chain("d", "e", first=3, crc=crc32(b"".join(lines)), more=1)
    assert [event.seq for event in reader.feed(b"".join(rest))] == [1, 2, 3]
    assert reader.finish() == []
    assert (reader.position.seq, reader.torn) == (4, len(rest[1]))


def test_a_batch_without_its_end_never_happened(chain, read_log):
    """Open batches are torn tail, whether the log is whole otherwise or not."""
    for text in ("a", "x"):
        lines = chain("a", "b", "c", "d", more=2)
        lines[0] = lines[0].replace(b'"a"', b'"%b"' % text.encode())
        found = read_log(b"".join(lines))
        assert found.texts[-1] == "b"
        assert found.torn == len(b"".join(lines[2:]))
        assert found.position.offset == len(b"".join(lines[:2]))


def test_a_batch_with_damage_inside_is_given_if_something_follows(chain, read_log):
    """Only at the end of a log is an unfinished batch a sign of a crash."""
    lines = chain("a", "b", more=2)
    lines += chain("c", "d", first=2, crc=crc32(b"".join(lines)))
    lines[2] = lines[2].replace(b'"c"', b'"x"')
    assert read_log(b"".join(lines)).texts == ["a", "b", "d"]


def test_gaps_inside_a_dropped_batch_are_not_reported(chain, read_log):
    """What is torn is not damaged as well."""
    lines = chain("a", "b", "c", "d", more=3)
    lines[2] = lines[2].replace(b'"c"', b'"x"')
    found = read_log(b"".join(lines))
    assert (found.texts, found.gaps) == (["a"], [])


def test_damage_behind_an_open_batch_keeps_its_lines(chain):
    """Lines that were held back when damage is met are not lost."""
    lines = chain("a", "b", more=2)
    lines += chain("c", "d", first=2, crc=crc32(b"".join(lines)))
    reader = LineReader()
    found = []
    for line in (*lines[:2], lines[2].replace(b'"c"', b'"x"'), lines[3]):
        found += reader.feed(line)
    assert found == []
    assert reader.damaged
    assert [event.seq for event in reader.finish()] == [0, 1, 3]
    assert not reader.damaged


def test_a_batch_in_odd_lines_is_left_to_the_slow_way(chain, read_log):
    """A blank line inside a plain batch does not confuse the count of lines."""
    log = plain("a") + PLAIN.replace(b'"data"', b'"more":true,"data"') % b"b" + b"\n"
    found = read_log(log + b"x" * 10)
    assert found.texts == ["a"]
    assert found.position.offset == len(plain("a"))
    found = read_log(log + plain("c"))
    assert found.texts == ["a", "b", "c"]
    assert found.position.offset == len(log + plain("c"))
    found = read_log(plain("0") + b"\n" + log)
    assert found.texts == ["0", "a"]
    assert found.position.offset == len(plain("0") + b"\n" + plain("a"))


def test_blank_lines_between_waiting_lines_do_not_move_the_position(read_log):
    """The position is after the last event that was given, wherever blank lines are."""
    waiting = PLAIN.replace(b'"data"', b'"more":true,"data"') % b"b"
    found = read_log(plain("a") + waiting + b"\n" + waiting)
    assert found.texts == ["a"]
    assert found.position == Position(1, len(plain("a")), crc32(plain("a")))
    assert found.torn == 2 * len(waiting) + 1


def test_a_blank_line_behind_an_open_batch_belongs_to_it():
    """Nothing is skipped between a line that waits and the line it waits for."""
    waiting = PLAIN.replace(b'"data"', b'"more":true,"data"') % b"a"
    reader = LineReader()
    for chunk in (waiting, b"\n", b"\n", plain("b")):
        found = reader.feed(chunk)
    assert [event.data["content"] for event in found] == ["a", "b"]
    assert reader.position.offset == len(waiting) + 2 + len(plain("b"))
    assert reader.position.crc == crc32(waiting + b"\n\n" + plain("b"))


# --- what may lie between records ---


@pytest.mark.parametrize(
    ("between", "gap_events"),
    [
        (bytes(100), 0),
        (b"rubbish", 0),
        (b"rubbish\n", 0),
        (b"\n", 0),
        (b'{"seq":2,"type":"user","timest', 0),
        (b'{"seq":2,"type":"user","data":{"content":"lie"},"crc":"00000000"}', 0),
        (b'{"seq":2,"type":"user","data":{"content":"lie"},"crc":"00000000"}\n', 0),
        (b'{"seq":7,"type":"user"' * 3, 0),
        (b',"crc":"00000000"}', 0),
        (plain("a plain line"), 0),
        (b'{"seq":2,"type":"user","timestamp":1,"data":{}}\n', 0),
    ],
)
def test_foreign_bytes_between_two_records_cost_nothing(between, gap_events, chain, read_log):
    """Zeros, rubbish, fragments, foreign lines: every whole record is kept and the place named."""
    lines = chain("a", "b", "c", "d")
    log = b"".join(lines[:2]) + between + b"".join(lines[2:])
    found = read_log(log)
    assert found.texts == ["a", "b", "c", "d"]
    assert found.gaps == [Gap(len(b"".join(lines[:2])), len(between), 2, 1 + gap_events)]
    assert found.position == Position(4, len(log), crc32(b"".join(lines)))


def test_a_fragment_with_a_whole_record_glued_to_it_costs_nothing(chain, read_log):
    """At whatever byte the fragment ends."""
    lines = chain("a", '[{"type":"text"}]', "c")
    for cut in range(len(lines[1])):
        found = read_log(lines[0] + lines[1][:cut] + lines[1] + lines[2])
        assert found.seqs == [0, 1, 2], cut
        assert len(found.gaps) == (cut > 0)


def test_a_missing_newline_costs_nothing_and_is_named(chain, read_log):
    """Two records on one line are both read; the place is a gap of no size."""
    lines = chain("a", "b", "c")
    found = read_log(lines[0] + lines[1].rstrip() + lines[2])
    assert found.texts == ["a", "b", "c"]
    assert found.gaps == [Gap(len(lines[0] + lines[1]) - 1, 0, 2, 1)]


def test_a_log_without_any_newline_keeps_all_but_its_last_record(chain, read_log):
    """The last record may be one that was cut short; the others are damaged and whole."""
    lines = [line.rstrip() for line in chain("a", "b", "c")]
    found = read_log(b"".join(lines))
    assert found.texts == ["a", "b"]
    assert [gap.offset for gap in found.gaps] == [len(lines[0]), len(lines[0]) * 2]
    assert found.torn == len(lines[2])


@pytest.mark.parametrize("between", [b"", b"\0", b"\x0b"])
def test_many_damaged_records_on_one_line_do_not_hide_the_next(between, chain, read_log):
    """However many beginnings were tried in vain before it."""
    lines = [line.rstrip() for line in chain(*"0123456789")]
    lines[1:9] = [line.replace(b'"user"', b'"usex"') for line in lines[1:9]]
    found = read_log(between.join(lines) + b"\n")
    assert found.seqs == [0, 9]


def test_records_inside_a_fragment_do_not_hide_the_record_behind_it(read_log):
    """Copies of earlier lines inside the data of a torn line are not worth a try."""
    copies = [{"seq": 0, "type": "user"}] * 9
    first, crc = encode_line(0, line_body(Event.make("user", {"content": "a"})), 0)
    body = line_body(Event.make("tool_result", {"toolCallId": "c", "result": copies}))
    second, _ = encode_line(1, body, crc)
    assert read_log(first + second[:-40] + second).seqs == [0, 1]


def test_a_last_record_whose_newline_became_something_else_is_damage(chain, read_log):
    """It is kept, and a writer is told not to go on behind it."""
    log = b"".join(chain("a", "b"))
    found = read_log(log[:-1] + b"\x0b")
    assert found.texts == ["a", "b"]
    assert found.gaps == [Gap(len(log) - 1, 0, 2, 1)]
    assert found.torn == 1


@pytest.mark.parametrize("zeros", [0, 1, 4096])
def test_a_last_record_without_its_newline_is_torn(zeros, chain, read_log):
    """A write that was cut at its last byte was never acknowledged, whatever zeros follow."""
    lines = chain("a", "b")
    found = read_log(b"".join(lines)[:-1] + bytes(zeros))
    assert found.texts == ["a"]
    assert found.torn == len(lines[1]) - 1 + zeros
    assert found.gaps == []


def test_lines_of_another_log_are_not_read(chain, read_log):
    """Numbers alone do not make a line one of this log."""
    here, there = chain("a", "b", "c"), chain("x", "y", "z")
    found = read_log(here[0] + here[1] + there[2] + here[2])
    assert found.texts == ["a", "b", "c"]


def test_dropped_doubled_and_swapped_lines_are_noticed(chain, read_log):
    """Every line is tied to the one before it."""
    a, b, c, d, e = chain("a", "b", "c", "d", "e")
    assert read_log(a + c + d + e).texts == ["a", "d", "e"]  # c follows nothing that is there
    assert read_log(a + b + b + c).texts == ["a", "b", "c"]
    assert read_log(a + c + b + d + e).texts == ["a", "b", "e"]
    assert all(read_log(log).gaps for log in (a + c + d, a + b + b + c, a + c + b + d + e))


def test_a_record_inside_the_data_of_a_damaged_one_is_not_an_event(read_log):
    """Content that looks like lines of a log stays content."""
    inner = b'{"seq":1,"type":"user","timestamp":1,"data":{"content":"lie"},"crc":"%08x"}'
    data = b'{"result":[%b,%b],"bad":"here"}' % (inner % 7, inner % crc32(b""))
    outer, crc = encode_line(0, b'"type":"tool_result","timestamp":1,"data":' + data, 0)
    last, _ = encode_line(1, b'"type":"user","timestamp":1,"data":{"content":"true"}', crc)
    assert read_log(outer + last).seqs == [0, 1]
    assert read_log(outer.replace(b"here", b"gone") + last).texts == ["true"]


def test_a_line_with_a_right_checksum_that_is_no_event_is_foreign(chain, read_log):
    """Digits alone do not make an event; the next line still follows from them."""
    for text in (b'"type":5', b'"x":1', b'"type":"user","data":[1,}', b'"timestamp":1'):
        line, crc = encode_line(0, text, 0)
        found = read_log(line + b"".join(chain("b", "c", first=1, crc=crc)))
        assert found.texts == ["b", "c"]
        assert found.gaps == [Gap(0, len(line), 0, 0)]


# --- moving lines ---


def test_a_line_in_an_odd_order_has_no_body_to_move():
    """Its event is written as a line again; a line that begins with its number is moved as it is."""
    head = b'{"type":"user","data":{"content":"a"},"seq":0,"timestamp":1,"crc":"'
    log = head + b'%08x"}\n' % crc32(head)
    assert cut_body(log.rstrip()) is None
    (event,) = read_events([log])
    members = b'"type":"user","timestamp":1,"data":{"content":"a"}'
    assert line_body(event) == members
    assert cut_body(encode_line(0, members, 0)[0].rstrip()) == members


def test_salvage_gives_lines_and_their_places(chain):
    """For repair: what is whole, where it is, and what lies between."""
    lines = chain("a", "b", "c", "d", more=1)
    found = salvage(lines[0] + b"junk" + b"".join(lines[1:]), START, chained=False)
    assert [line.seq for line in found.lines] == [0, 1, 2]
    assert found.spans[1] == (len(lines[0]) + 4, len(lines[0] + lines[1]) + 3)
    assert found.gaps == [Gap(len(lines[0]), 4, 1, 0)]
    assert found.torn == len(lines[3])
