"""A log is read for a replay the quick way, and the careful way where that cannot be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.apps.acp.replay.log import read_some
from holdfast.apps.acp.replay.replay import replay, replay_some
from holdfast.errors import KeyMissing
from holdfast.model import LINE_END_BYTES, Event, encode_line, line_body
from holdfast.session import read_range
from holdfast.storage import MemoryStore

COUNT = 40
BLOCKS = [{"type": "text", "text": "one"}]


def update(**members):
    params = {"sessionId": "theirs", "update": members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def call(number, **members):
    told = update(sessionUpdate="tool_call", toolCallId=f"c{number}", title="T", **members)
    return ("frame", {"direction": "agent", "frame": told})


def log_of(drafts):
    """The bytes of a log that holds these drafts."""
    log, crc = b"", 0
    for seq, (type, data) in enumerate(drafts):
        line, crc = encode_line(seq, line_body(Event.make(type, data)), crc)
        log += line
    return log


class Log:
    """A log in memory, and from which bytes on it was read."""

    unseal = None

    def __init__(self, log, drafts=()):
        self.log = log
        self.events = [Event.make(type, data, seq=n) for n, (type, data) in enumerate(drafts)]
        self.reads = []
        self.chunk_bytes = 1 << 18

    def read(self, start=0):
        """What follows, in chunks."""
        self.reads.append(start)
        for at in range(start, len(self.log), self.chunk_bytes):
            yield self.log[at : at + self.chunk_bytes]

    def some(self, first=0, stop=None, chunk_bytes=1 << 18):
        """What a replay reads of it."""
        self.chunk_bytes = chunk_bytes
        stop = len(self.events) if stop is None else stop
        documents = MemoryStore().documents("sessions/none")
        return list(read_some(self, first, stop, documents, block_bytes=chunk_bytes))

    def carefully(self):
        """The events that are found when each line is looked at."""
        return list(read_range(Log(self.log)))


def numbers(some):
    return [event.seq for few in some for event in few.events]


@pytest.fixture
def log():
    drafts = [call(number) for number in range(COUNT)]
    return Log(log_of(drafts), drafts)


@given(st.integers(1, 3000))
def test_chunks_of_any_size_give_the_same_events(chunk_bytes):
    """Where a chunk ends, within a line or between two, makes no difference."""
    drafts = [call(number) for number in range(COUNT)]
    log = Log(log_of(drafts), drafts)
    assert numbers(log.some(chunk_bytes=chunk_bytes)) == list(range(COUNT))
    assert log.reads == [0]


@given(st.integers(0, COUNT), st.integers(0, COUNT), st.sampled_from([100, 1000, 1 << 18]))
def test_any_part_can_be_read(first, stop, chunk_bytes):
    """A replay from a cursor begins and ends exactly where it was asked to."""
    drafts = [call(number) for number in range(COUNT)]
    log = Log(log_of(drafts), drafts)
    expected = list(range(first, stop))
    assert numbers(log.some(first, max(first, stop), chunk_bytes)) == expected


@given(st.data())
@settings(max_examples=60)
def test_a_changed_byte_is_never_told(data):
    """From the block on in which a byte is not as it was written, the log is read with care."""
    drafts = [call(number) for number in range(COUNT)]
    whole = log_of(drafts)
    at = data.draw(st.integers(0, len(whole) - 2))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    log = Log(bytes(changed), drafts)
    some = log.some(chunk_bytes=1000)
    assert len(log.reads) > 1
    found = [event for few in some for event in few.events]
    assert found == log.carefully()
    assert all(event == log.events[event.seq] for event in found)


def test_numbers_that_do_not_follow_one_another_are_read_with_care(log):
    """A line that was left out is noticed even if its checksum was made anew."""
    lines, crc = b"", 0
    for event in log.events[:5] + log.events[6:]:
        line, crc = encode_line(event.seq, line_body(event), crc)
        lines += line
    log.log = lines
    assert [event for few in log.some() for event in few.events] == log.carefully()
    assert log.reads[1] == 0  # a block is told of as a whole


def test_a_sealed_line_is_read_with_care(log):
    """Only who has the key can read it."""
    line, _ = encode_line(0, b'"sealed":"AAAA"', 0)
    log.log = line
    with pytest.raises(KeyMissing):
        log.some()
    assert log.reads == [0, 0]


def test_a_log_that_ends_too_early_is_read_with_care(log):
    """What another process has not written yet is for the careful way to find."""
    end = log.log.index(b'{"seq":7,')
    log.log = log.log[: end + 30]
    assert numbers(log.some()) == list(range(7))
    assert log.reads == [0, end - LINE_END_BYTES]  # only what was not told yet is read again


@pytest.mark.parametrize(
    "odd",
    [
        ("custom.type", {"a": 1}),
        call(1, _meta={"x$blob": 1}),
        ("delta", {"content": 7}),
        ("tool_call", {"id": "c9", "tool": "T", "raw": {"id": 3, "method": "other"}}),
        ("tool_result", {"toolCallId": "c9", "result": "r", "raw": "text"}),
        ("frame", {"direction": "agent", "frame": update(sessionUpdate=7)}),
        ("frame", {"direction": "client", "frame": {"id": 1, "result": {}}}),
    ],
)
def test_one_odd_event_changes_nothing_for_the_others(odd):
    """A block with an event of another form is told as well, the slower way."""
    drafts = [call(1), odd, call(2, status="completed")]
    some = Log(log_of(drafts), drafts).some()
    told = [json.loads(line) for line in b"".join(replay_some(some, "ours")).splitlines()]
    calls = [line["params"]["update"].get("toolCallId") for line in told]
    assert [id for id in calls if id == "c2"] == ["c2"]
    assert calls[0] == "c1"
    assert "c1" in calls[2:]  # which never ended


def words(drafts, first=0):
    """The texts that a replay of some drafts tells, from one of them on."""
    some = Log(log_of(drafts), drafts).some(first)
    lines = b"".join(replay_some(some, "ours")).splitlines()
    slowly = replay([event for few in some for event in few.events], "ours")
    assert [json.loads(line) for line in slowly] == [json.loads(line) for line in lines]
    return [json.loads(line)["params"]["update"]["content"]["text"] for line in lines]


@pytest.mark.parametrize(("kind", "final"), [({}, "assistant"), ({"kind": "thinking"}, "thinking")])
def test_what_the_pieces_of_a_message_lack_is_told_with_the_whole(kind, final):
    """A last word that was held back until it was known to be no secret comes at the end."""
    parts = [("delta", {"content": text, **kind}) for text in ("my name ", "is ")]
    whole = {"content": "my name is Ada.", "covers_from": 0}
    again = [*parts, (final, {**whole, "covers_from": 3})]
    assert words([*parts, (final, whole), *again]) == ["my name is Ada."] * 2
    assert words([*parts, (final, whole)], 1) == ["is "]  # from the midst of it on
    assert words([*parts, (final, {**whole, "content": "other"})]) == ["my name is other"]


@pytest.mark.parametrize("count", [2, 300])
@pytest.mark.parametrize("chunk_bytes", [200, 1 << 18])
def test_a_message_after_one_without_its_whole_is_told_once(count, chunk_bytes):
    """Pieces of both are put together, and still it is known which belong to the whole."""
    parts = [("delta", {"content": f"{number} "}) for number in range(count)]
    whole = "".join(part["content"] for _, part in parts)
    drafts = [("turn_start", {}), ("delta", {"content": "long ago "}), *parts]
    drafts.append(("assistant", {"content": whole + "end", "covers_from": 2}))
    some = Log(log_of(drafts), drafts).some(chunk_bytes=chunk_bytes)
    lines = b"".join(replay_some(some, "ours")).splitlines()
    told = [json.loads(line)["params"]["update"]["content"]["text"] for line in lines]
    assert "".join(told) == "long ago " + whole + "end"


pieces = st.fixed_dictionaries(
    {
        "content": st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
        | st.sampled_from(['"}{"content":"', "\\", '\\"', "{"])
    },
    optional={
        "kind": st.sampled_from(["thinking", "text"]),
        "messageId": st.sampled_from(["m", "n", '"}']),
        "agent": st.just("a"),
    },
)


@pytest.mark.parametrize(
    ("piece", "whole", "told"),
    [
        ({}, {}, ["one"]),
        ({"messageId": "m"}, {"messageId": "m"}, ["one"]),
        ({"messageId": "m"}, {"messageId": "n"}, ["one"]),
        ({"messageId": 'm"\\'}, {"messageId": 'm"\\'}, ["one"]),
        ({"kind": "thinking"}, {}, ["one", "one"]),
        ({}, {"covers_from": 1}, ["one", "one"]),
        ({}, {"content": "one and more"}, ["one and more"]),
        ({}, {"content": BLOCKS}, ["one"]),
        ({"content": BLOCKS}, {"content": BLOCKS}, ["one"]),
        ({"content": ""}, {"content": ""}, []),
        ({"content": "é" * 9_000}, {"content": "é" * 9_000}, ["é" * 9_000]),
        ({"content": "x" * 70_000}, {"content": "x" * 70_000}, ["x" * 16_384] * 4 + ["x" * 4_464]),
    ],
)
def test_a_message_that_one_piece_holds_is_told_once(piece, whole, told):
    """As bytes of the log where they are the same, else word by word: the same is told."""
    first = ("delta", {"content": "one", **piece})
    final = ("assistant", {"content": "one", "covers_from": 0, **whole})
    assert words([first, final]) == told
    assert words([("delta", {"content": "two"}), first, final])[0][:3] == "two"


def _raw_call(number, kind, **members):
    return update(sessionUpdate=kind, toolCallId=f"c{number}", **members)


few_calls, statuses = st.integers(1, 3), st.sampled_from(["pending", "in_progress", "completed"])
contents = st.sampled_from([[], [{"type": "content", "content": {"type": "text", "text": "t"}}]])
frames_of_calls = st.builds(
    _raw_call,
    few_calls,
    st.sampled_from(["tool_call", "tool_call_update", "tool_call_of_another_kind"]),
    status=statuses | st.none(),
    content=contents,
) | st.builds(_raw_call, few_calls, st.just("tool_call_update"))
other_frames = st.sampled_from(
    [
        update(sessionUpdate="usage_update", used=1),
        update(sessionUpdate="current_mode_update", currentModeId="m"),
        {**update(sessionUpdate="tool_call", toolCallId="c1"), "more": 1},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"update": {}}},
    ]
)
told_events = (
    st.builds(
        lambda who, frame: ("frame", {"direction": who, "frame": frame}),
        st.sampled_from(["agent", "agent", "agent", "client", "holdfast"]),
        frames_of_calls | other_frames,
    )
    | st.builds(
        lambda n, frame: ("tool_call", {"id": f"c{n}", "tool": "T", **frame}),
        few_calls,
        st.builds(lambda raw: {"raw": raw}, frames_of_calls) | st.just({}),
    )
    | st.builds(
        lambda n, frame: ("tool_result", {"toolCallId": f"c{n}", "result": "r", **frame}),
        few_calls,
        st.builds(lambda raw: {"raw": raw}, frames_of_calls) | st.just({}),
    )
    | st.builds(lambda data: ("delta", data), pieces)
    | st.builds(lambda data, back: ("assistant", {**data, "covers_from": back}), pieces, st.integers(0, 8))
    | st.sampled_from([("user", {"content": "go on"}), ("turn_end", {"reason": "completed"})])
)


def _with_joined_words(lines):
    """What these lines tell, words of one message in one piece."""
    told = []
    for line in lines:
        found = json.loads(line)["params"]["update"]
        words = found.get("sessionUpdate", "").endswith("_chunk") and found["content"].get("text")
        about = [found.get("sessionUpdate"), found.get("messageId")]
        if words and told and told[-1][:2] == about:
            told[-1][2] += words
        else:
            told.append([*about, words] if words else [found])
    return told


@given(st.lists(told_events, min_size=1, max_size=12), st.sampled_from([200, 1000, 1 << 18]))
@settings(max_examples=200)
def test_the_quick_way_tells_what_the_careful_one_does(drafts, chunk_bytes):
    """Whether lines are sorted out at once or told event by event, an editor gets the same."""
    log = Log(log_of(drafts), drafts)
    quick = b"".join(replay_some(log.some(chunk_bytes=chunk_bytes), "ours")).splitlines()
    assert log.reads == [0]
    assert _with_joined_words(quick) == _with_joined_words(replay(log.events, "ours"))
