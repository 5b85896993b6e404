"""What the tests of sealed sessions share: a session full of its word, tools of attackers."""

from __future__ import annotations

import base64
from pathlib import Path

import msgspec

from holdfast.model import encode_line, encode_sealed_line

KEY = bytes(range(32))
OTHER = bytes(32)
QUICK = {"autosave_ms": 0, "snapshot_ms": 0}
SECRET = "Xylophone"
PLAIN = b'{"type":"user","timestamp":1,"data":{"role":"user","content":"I am the attacker"}}'


def say(hf, id, **options):
    """A session with its word in every kind of place."""
    with hf.session(id, **QUICK, agent_id="bot", **options) as s:
        s.user(f"about {SECRET}")
        s.tag(SECRET.lower())
        s.title = f"The {SECRET}"
        s.tool_result("c1", {"content": SECRET * 40_000})
        s.memory.set("word", SECRET, scope="persistent")
        s.variables["word"] = SECRET
        s.append("usage", {"input_tokens": 3}, key="once")
        s.extend([("user", {"role": "user", "content": SECRET}), ("metadata", {"cwd": SECRET})])
        s.snapshot()
        s.assistant(f"yes, {SECRET}")


def brief(hf, id, text, **options):
    """A session of one message."""
    with hf.session(id, **QUICK, **options) as s:
        s.user(text)


def told(hf, id):
    return [(event.seq, event.type, event.data) for event in hf.events(id)]


def files_with(place, *texts):
    """The files of a store in which a text is to be found, also in base64."""
    wanted = [text.encode() if isinstance(text, str) else text for text in texts]
    wanted += [base64.b64encode(text)[:-4] for text in wanted]
    root = Path(place)
    paths = [root] if root.is_file() else [path for path in root.rglob("*") if path.is_file()]
    return [path.name for path in paths if any(one in path.read_bytes() for one in wanted)]


def log_of(folder, id="a"):
    return Path(folder) / "sessions" / id / "events.jsonl"


def rewritten(lines):
    """The lines with numbers and checksums that fit, as an attacker would make them."""
    crc, found = 0, []
    for seq, line in enumerate(lines):
        members = msgspec.json.decode(line)
        if "sealed" in members and "type" not in members:
            text, crc = encode_sealed_line(seq, base64.b64decode(members["sealed"]), crc)
        else:
            body = msgspec.json.encode({k: v for k, v in members.items() if k not in ("seq", "crc")})
            text, crc = encode_line(seq, body[1:-1], crc)
        found.append(text)
    return b"".join(found)


def spoil(sealed):
    members = msgspec.json.decode(sealed)
    text = bytearray(base64.b64decode(members["sealed"]))
    text[-1] ^= 1
    return msgspec.json.encode({"sealed": base64.b64encode(text).decode()})


ATTACKS = {
    "swapped": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "doubled": lambda lines: [*lines[:4], lines[3], *lines[4:]],
    "left out": lambda lines: [*lines[:3], *lines[4:]],
    "plain": lambda lines: [*lines[:3], PLAIN, *lines[4:]],
    "plain at the end": lambda lines: [*lines, PLAIN],
    "all plain": lambda lines: [PLAIN] * 6,
    "changed": lambda lines: [*lines[:3], spoil(lines[3]), *lines[4:]],
}
"""What somebody may do to the lines of a log."""
