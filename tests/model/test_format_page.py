"""The format page tells the truth: its digits, its grammar, its tables."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from holdfast.model import BODIES, FORMAT_VERSION, Limits, blob_name, fit_id, is_id, make_id

SHARED = {"metadata", "usage", "raw"}
# A writer must write it; a reader takes a log without it for an old one.
MUST_WRITE = {("session_start", "format")}
PAGE = (Path(__file__).parents[2] / "docs/internals/format.md").read_text("utf-8")


def section(title: str) -> str:
    start = PAGE.index(f"## {title}")
    return PAGE[start : PAGE.find("\n## ", start + 1)]


@pytest.fixture(scope="module")
def example() -> list[bytes]:
    fenced = re.search(r"<!-- worked example.*?-->\n```\n(.*?)```", PAGE, re.DOTALL)
    return [line.encode() + b"\n" for line in fenced[1].splitlines()]


def test_every_digit_of_the_worked_example_is_the_checksum_of_all_bytes_before_it(example):
    """`crc` is the CRC-32 of every byte of the log before its digits."""
    log = b"".join(example)
    found = [match.span(1) for match in re.finditer(rb'"crc":"([0-9a-f]{8})"', log)]
    assert len(found) == len(example) == 3
    for start, end in found:
        assert log[start:end] == b"%08x" % crc32(log[:start])


def test_the_table_of_the_worked_example_is_computed(example):
    """The figures beside the worked example are those of its bytes."""
    rows = []
    before = offset = 0
    for number, line in enumerate(example):
        digits_at = line.rindex(b'"crc":"') + 7
        value = crc32(line[:digits_at], before)
        after = crc32(line[digits_at:], value)
        place = offset + digits_at
        rows.append(f"| {number} | {len(line)} | `{before:08x}` | {place} | `{value:08x}` | `{after:08x}` |")
        before, offset = after, offset + len(line)
    assert "\n".join(rows) in PAGE


def test_the_checksum_is_the_one_described(example):
    """Polynomial, initial value and final exclusive-or on the page give the digits."""
    value = 0xFFFFFFFF
    head = example[0][: example[0].rindex(b'"crc":"') + 7]
    for byte in head:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    assert b"%08x" % (value ^ 0xFFFFFFFF) == example[0][len(head) : len(head) + 8]


def test_the_running_value_after_a_line_follows_from_its_digits(example):
    """A reader can begin in the middle with the digits of the line before."""
    digits = re.search(rb'"crc":"([0-9a-f]{8})"', example[0])[1]
    before = crc32(digits + b'"}\n', int(digits, 16))
    head = example[1][: example[1].rindex(b'"crc":"') + 7]
    assert b"%08x" % crc32(head, before) == example[1][len(head) : len(head) + 8]


def test_the_trailer_has_the_length_that_the_page_gives(example):
    """The last bytes of a line are the comma, the name, the digits, quote, brace and feed."""
    assert re.fullmatch(rb',"crc":"[0-9a-f]{8}"\}\n', example[0][-19:])
    assert "the last 19 bytes" in PAGE


def test_every_event_type_is_in_the_tables_with_its_members():
    """Section 8 names each type once, with the members of its body and which may be missing."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section("8. Event types"), re.MULTILINE))
    assert rows.keys() == BODIES.keys()
    for type, body in BODIES.items():
        named = dict(re.findall(r"`(\w+)(\??)` [a-z`]", rows[type]))
        fields = {
            field.name: "" if (type, field.name) in MUST_WRITE or field.required else "?"
            for field in msgspec.structs.fields(body)
            if field.name not in SHARED or field.name in named
        }
        assert named == fields, type


def test_the_version_and_the_limits_on_the_page_are_those_of_the_code():
    """The page speaks of the format that this code writes."""
    limits = Limits()
    assert f"format version **{FORMAT_VERSION}**" in PAGE
    assert f"more than {limits.depth_max} levels of nesting" in PAGE
    assert f"integers of more than {limits.integer_digits_max} digits" in PAGE
    assert f"more than {limits.blob_bytes_min // 1024} KiB" in PAGE


def test_the_reference_on_the_page_is_one():
    """The blob of section 10 has the name of its five bytes."""
    reference = json.loads(re.search(r'^\{"\$blob".*$', PAGE, re.MULTILINE)[0])
    assert reference["$blob"] == blob_name(b"hello")
    assert reference["bytes"] == 5


def test_ids_on_the_page_are_made_as_described():
    """A second implementation of section 11, from its words, gives the same ids."""
    alphabet = re.search(r"26 characters of `(\w+)`", PAGE)[1]
    random = bytes(range(10))
    number = int.from_bytes(struct.pack(">Q", 1_701_234_567_000) + random) & (1 << 130) - 1
    assert make_id(1_701_234_567_000, random) == "".join(alphabet[number >> shift & 31] for shift in range(125, -1, -5))
    grammar = re.compile(re.search(r"^\[A-Za-z0-9\].*$", PAGE, re.MULTILINE)[0])
    assert grammar.fullmatch(fit_id("../Ä b"))
    assert is_id("a" * 128)
    assert grammar.fullmatch("a" * 128)
    assert not grammar.fullmatch("a" * 129)
