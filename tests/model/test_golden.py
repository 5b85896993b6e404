"""The golden logs: written once, read for ever."""

from __future__ import annotations

import hashlib
import json
from itertools import cycle
from pathlib import Path

import pytest

from holdfast.model import BODIES, cut_body, encode_line, line_body, read_events

GOLDEN = Path(__file__).parents[1] / "golden/v1"
NAMES = ["damaged", "full", "plain", "plain-then-chained", "sealed", "steering", "steps", "torn"]
# Whoever changes a golden log must change this too, and think again.
FROZEN = {
    "damaged": "9be2f2eed41e1c9d",
    "full": "57e8ff7ad7884fb7",
    "plain": "5356c74fa1816ffe",
    "plain-then-chained": "f5bb4699f781a372",
    "sealed": "b51b4ac633ddead4",
    "steering": "1b1a3c3d34dfbf2d",
    "steps": "0072d260e9456c0f",
    "torn": "f29eb383b5e88e92",
}


def toy_unseal(seq: int, text: bytes, before: bytes | None = None) -> bytes:
    return bytes(byte ^ key for byte, key in zip(text, cycle(b"golden%d" % seq), strict=False))


def load(name: str) -> tuple[bytes, dict]:
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text("utf-8"))
    return (GOLDEN / f"{name}.jsonl").read_bytes(), expected


@pytest.mark.parametrize("name", NAMES)
def test_a_golden_log_never_changes(name):
    """The bytes that were released are the bytes that are tested."""
    log, _ = load(name)
    assert hashlib.sha256(log).hexdigest()[:16] == FROZEN[name]


@pytest.mark.parametrize("size", [None, 1, 7, 100])
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_log_reads_as_expected(name, size, read_log):
    """Events, position, torn tail and gaps are those that were written down."""
    log, expected = load(name)
    found = read_log(log, size, unseal=toy_unseal)
    members = ("seq", "type", "timestamp", "run", "key", "more", "data")
    assert [{m: getattr(event, m) for m in members} for event in found.events] == expected["events"]
    assert list(found.position) == expected["position"]
    assert found.torn == expected["torn"]
    gaps = [[gap.offset, gap.size, gap.first_seq, gap.last_seq] for gap in found.gaps]
    assert gaps == expected["gaps"]
    assert found.chained == expected["chained"]


@pytest.mark.parametrize("name", ["full", "sealed"])
def test_moving_every_line_gives_the_same_log(name):
    """Bodies that are moved keep unknown types and members byte for byte."""
    log, _ = load(name)
    crc, lines = 0, []
    for seq, old in enumerate(log.splitlines()):
        line, crc = encode_line(seq, cut_body(old), crc)
        lines.append(line)
    assert b"".join(lines) == log


def test_encoding_an_event_again_gives_the_same_bytes():
    """An event whose members are all known encodes to the line it came from."""
    log, _ = load("full")
    pairs = zip(read_events([log]), log.splitlines(), strict=True)
    different = [event.seq for event, line in pairs if line_body(event) != cut_body(line)]
    assert different == [51]  # the one with members of a later version


def test_the_full_log_has_an_event_of_every_type():
    """A new type needs a golden line; what came after the first release has a log of its own."""
    types = {event["type"] for name in ("full", "steering", "steps") for event in load(name)[1]["events"]}
    assert types >= BODIES.keys()


def test_plain_lines_move_into_a_chained_log_with_all_their_members(read_log):
    """A plain log becomes a chained one without losing what another tool wrote."""
    log, expected = load("plain")
    crc, lines = 0, []
    for seq, old in enumerate(old for old in log.splitlines() if old.strip()):
        line, crc = encode_line(seq, cut_body(old), crc)
        lines.append(line)
    moved = read_log(b"".join(lines))
    assert [event.data for event in moved.events] == [e["data"] for e in expected["events"]]
    assert moved.chained
    assert not moved.gaps
    assert b'"level": "info"' in lines[4]
