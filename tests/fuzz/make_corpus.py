"""Writes the corpus: each failure that users of other tools reported, as a log of ours.

    python tests/fuzz/make_corpus.py

Beside them ``expected.json``: how many records can be read for certain, and if there is damage.
The checksum runs on over all bytes before, so of a record that was lost the next one is lost too.
Index rows without a log and logs without a row are no bytes of a log: tests/catalog/test_damage.py.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.model import Event, encode_line, line_body

CORPUS = Path(__file__).parent / "corpus"


def lines(*drafts):
    made, crc = [], 0
    for seq, (type, data) in enumerate(drafts):
        event = Event.make(type, data, timestamp=1_700_000_000_000 + seq)
        line, crc = encode_line(seq, line_body(event), crc)
        made.append(line)
    return made


def talk(count):
    return lines(*(("user", {"content": f"message {n}"}) for n in range(count)))


def call(identity, **more):
    return "tool_call", {"id": identity, "tool": "Bash", "params": {}, "agent": "main", **more}


def made():
    """By name: the bytes, how many records are whole in them, whether damage is to be told of."""
    six = talk(6)
    yield "truncated-splice", b"".join([*six[:2], six[2][:30], *six[3:]]), 4, True
    yield "missing-newline", b"".join([*six[:2], six[2][:-1], *six[3:]]), 6, True
    yield "nul-run", b"".join([*six[:3], b"\0" * 4096, b"\n", *six[3:]]), 6, True
    yield "nul-run-then-record", b"".join([*six[:3], b"\0" * 512, *six[3:]]), 6, True
    many = talk(400)
    yield "one-bad-line-early", b"".join([*many[:2], b"garbage\n", *many[3:]]), 398, True
    open_call = lines(("user", {"content": "go"}), call("a"), ("user", {"content": "there?"}))
    yield "call-without-result", b"".join(open_call), 3, False
    odd = lines(
        ("user", {"content": "go"}),
        call("a", tool="Ba\x01sh\x7f", params={"x": "\x1b[2J"}),
        ("tool_result", {"toolCallId": "a", "result": "\x00".replace("\x00", "\ufffd")}),
    )
    yield "garbage-in-a-tool-name", b"".join(odd), 3, False
    yield "ordinals-used-twice", b"".join([*six[:4], *six[2:4], *six[4:]]), 6, True
    old = lines(("session_start", {"format": 1}), ("assistant", {}), ("tool_call", {"id": "x"}))
    yield "fields-of-an-older-version", b"".join(old), 3, False
    yield "emptied-by-a-full-disk", b"", 0, False
    yield "file-of-nuls", bytes(1 << 16), 0, False
    blocks = [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}]
    foreign = lines(("user", {"content": "hi"}), ("assistant", {"content": blocks}))
    yield "blocks-of-another-provider", b"".join(foreign), 2, False
    long = lines(("user", {"content": "x" * 300_000}), ("user", {"content": "after"}))
    yield "one-long-record", b"".join(long), 2, False


def main():
    CORPUS.mkdir(exist_ok=True)
    expected = {}
    for name, data, whole, damaged in made():
        (CORPUS / f"{name}.jsonl").write_bytes(data)
        expected[name] = {"whole": whole, "damaged": damaged}
    text = json.dumps(expected, indent=1) + "\n"
    (CORPUS / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
