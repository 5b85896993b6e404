"""A reader written from docs/internals/format.md alone reads the golden logs.

It shares no code with Holdfast: whatever it finds, the page says how.
"""

from __future__ import annotations

import base64
import json
import re
from itertools import cycle
from pathlib import Path
from zlib import crc32

import pytest

GOLDEN = Path(__file__).parents[1] / "golden/v1"


# Section 12 of the page, with the simple form of section 7: the digits of a bad line are taken as
# true for the next.
def read_log(log: bytes, unseal) -> tuple[list[dict], int]:
    events, waiting, before, seq, end, offset, chained = [], [], 0, 0, 0, 0, False
    while (feed := log.find(b"\n", offset)) >= 0:
        line, start, offset = log[offset : feed + 1], offset, feed + 1
        trailer = re.fullmatch(rb'.*,"crc":"([0-9a-f]{8})"\}\n', line, re.DOTALL)
        if trailer:
            digits = trailer[1]
            value = crc32(line[:-11], before)
            before = crc32(digits + b'"}\n', int(digits, 16))
            if value != int(digits, 16):
                continue
            chained, event = True, json.loads(line)
            if event["seq"] < seq:
                continue
        elif chained:
            continue
        else:
            before, event = crc32(line, before), {"seq": seq} | json.loads(line)
        if "sealed" in event:
            body = unseal(event["seq"], base64.b64decode(event["sealed"]))
            event |= json.loads(b"{" + body + b"}")
        assert start >= end
        seq = event["seq"] + 1
        waiting.append(event)
        if not event.get("more"):
            events, waiting, end = events + waiting, [], offset
    if events and events[0]["type"] == "session_start" and events[0]["data"]["format"] > 1:
        raise ValueError("a newer format")
    return events, len(log) - end


def restore(value):
    """Section 10: the escape."""
    if isinstance(value, dict):
        return {re.sub(r"^\$(\$+blob)$", r"\1", k): restore(v) for k, v in value.items()}
    return [restore(item) for item in value] if isinstance(value, list) else value


def toy_unseal(seq: int, text: bytes, before: bytes | None = None) -> bytes:
    return bytes(byte ^ key for byte, key in zip(text, cycle(b"golden%d" % seq), strict=False))


def find(name: str) -> tuple[list[dict], int, dict]:
    events, torn = read_log((GOLDEN / f"{name}.jsonl").read_bytes(), toy_unseal)
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text("utf-8"))
    members = {"timestamp": 0, "run": None, "key": None, "more": False, "data": {}}
    found = [members | event for event in events]
    names = ("seq", "type", *members)
    return [{k: restore(event[k]) for k in names} for event in found], torn, expected


@pytest.mark.parametrize("name", ["plain", "plain-then-chained", "full", "sealed", "torn"])
def test_the_page_is_enough_to_read_every_log_that_is_not_damaged(name):
    """A reader of forty lines, written from the page, finds the events of the golden logs."""
    events, torn, expected = find(name)
    assert events == expected["events"]
    assert torn == expected["torn"]


def test_the_simple_form_of_resynchronisation_finds_most_of_a_damaged_log():
    """It invents nothing and loses only what shares its line with foreign bytes."""
    events, _, expected = find("damaged")
    assert [event for event in expected["events"] if event not in events] == [
        event for event in expected["events"] if event["seq"] in (6, 11, 12, 13)
    ]
    assert [event for event in events if event not in expected["events"]] == []
