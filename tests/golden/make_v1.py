"""Writes the golden logs of format version 1 that are missing. Those that exist are frozen.

    python tests/golden/make_v1.py

Each ``NAME.jsonl`` has a ``NAME.expected.json`` beside it: what any reader must find in it. The
expectations were checked by hand and by the independent reader of tests/model when they were made.
"""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from zlib import crc32

from holdfast.model import Event, LineReader, encode_line, encode_sealed_line, line_body

HERE = Path(__file__).parent / "v1"
TIME = 1_701_234_567_000
BLOB = {"$blob": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "bytes": 5, "media": "text/plain"}

# One example of every type in the order of format.md, section 8.
EXAMPLES = [
    (
        "session_start",
        {
            "format": 1,
            "log": "01jz3w8k5q0000000000000000",
            "generation": 0,
            "agent_id": "helper",
            "agent_type": "default",
            "provider_type": "anthropic",
            "parent": "trip",
            "parent_seq": 4,
        },
    ),
    ("opened", {"epoch": 1, "version": "0.1.0", "pid": 4711, "host": "box", "salt": "c2FsdA=="}),
    ("user", {"role": "user", "content": "Grüße 👋 aus Köln, 東京 و القاهرة"}),
    (
        "assistant",
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Hello"}],
            "agent": "default",
            "model": "m-1",
            "usage": {"output_tokens": 5},
            "covers_from": 10,
        },
    ),
    ("system", {"content": "Be brief."}),
    ("thinking", {"content": "Hm.", "signature": "sig==", "agent": "default"}),
    ("tool_call", {"id": "call_1", "tool": "Read", "params": {"path": "a.txt"}, "agent": "default"}),
    ("tool_call", {"id": "call_2", "tool": "Read", "params": {"path": "b.txt"}, "agent": "default"}),
    ("tool_result", {"toolCallId": "call_2", "result": {"content": "two"}}),
    ("tool_result", {"toolCallId": "call_1", "result": "no such file", "is_error": True}),
    ("delta", {"content": "Hel", "kind": "text", "agent": "default"}),
    ("retracted", {"seqs": [4], "replacement": None}),
    ("turn_start", {"turn": 1}),
    ("turn_end", {"turn": 1, "reason": "completed"}),
    ("agent_start", {"agent": "helper", "task": "find it", "depth": 1, "parent": "default"}),
    ("agent_iteration", {"agent": "helper", "iteration": 2}),
    ("agent_complete", {"agent": "helper", "duration": 12.5}),
    ("agent_error", {"agent": "helper", "error": "timed out"}),
    ("delegation", {"parent": "default", "child": "helper", "task": "find it"}),
    ("delegation_complete", {"parent": "default", "child": "helper", "result": "found"}),
    ("suspended", {"reason": "approval", "token": "t-1"}),
    ("resumed", {"reason": "approved"}),
    ("variable_set", {"name": "x", "value": {"deep": [1, 2.5, -3, 1e-7, True, None, "\u0007\u2028"]}}),
    ("variable_delete", {"name": "x"}),
    (
        "memory_set",
        {
            "key": "prefs",
            "value": {"theme": "dark"},
            "description": "what the user likes",
            "scope": "session",
            "priority": "high",
            "pinned": True,
            "sizeBytes": 16,
        },
    ),
    ("memory_delete", {"key": "prefs"}),
    ("todo_update", {"todos": [{"content": "book", "status": "in_progress", "activeForm": "Booking"}]}),
    ("plugin_state", {"name": "notes", "state": {"n": 1}, "version": 2}),
    ("permission", {"tool": "Bash", "decision": "allow", "scope": "session", "expires_at": TIME}),
    ("tools", {"enabled": {"Read": True}, "namespaces": {"fs": ["Read"]}, "priorities": {"Read": 1}}),
    ("instructions", {"content": "Answer in French."}),
    ("config", {"anything": ["goes", {"here": 1}]}),
    ("task", {"task": "plan a trip"}),
    ("usage", {"input_tokens": 12, "output_tokens": 34}),
    ("metadata", {"free": {"map": True}}),
    ("title", {"title": "Trip", "auto": True}),
    ("tag", {"tag": "travel"}),
    ("untag", {"tag": "travel"}),
    ("link", {"kind": "acp", "id": "../odd id"}),
    ("compaction", {"summary": "They greeted each other.", "covers": [2, 9]}),
    ("forked", {"session": "trip", "seq": 4}),
    ("merged", {"session": "trip-2", "seq": 9}),
    ("imported", {"format": "claude-code", "source": "a.jsonl"}),
    ("interrupted", {"turn": 1, "calls": ["call_1"], "reason": "killed"}),
    ("redacted", {"seqs": [3]}),
    ("repaired", {"generation": 1, "gaps": []}),
    ("frame", {"direction": "in", "frame": {"jsonrpc": "2.0", "id": 1}}),
    ("closed", {"reason": "done"}),
]


def chain(bodies: list[bytes], crc: int = 0, first: int = 0) -> list[bytes]:
    lines = []
    for seq, body in enumerate(bodies, first):
        line, crc = encode_line(seq, body, crc)
        lines.append(line)
    return lines


def body(type: str, data: dict, *, more: bool = False, run=None, key=None, at: int = 0) -> bytes:
    event = Event.make(type, data, timestamp=TIME + at, run=run, key=key)
    return line_body(Event(type, -1, event.timestamp, event.raw, run, key, more))


def raw_body(type: str, raw: str) -> bytes:
    return b'"type":"%b","timestamp":%d,"data":%b' % (type.encode(), TIME, raw.encode())


def plain(count: int) -> bytes:
    lines = [
        {"type": "user", "timestamp": TIME, "data": {"role": "user", "content": "Hello"}},
        {
            "type": "assistant",
            "timestamp": TIME + 1,
            "data": {"role": "assistant", "content": "Grüße, you", "agent": "default"},
        },
        {
            "type": "tool_call",
            "timestamp": TIME + 2,
            "data": {"id": "c1", "tool": "sum", "params": {"a": 1, "crc": "00000000"}, "agent": "default"},
        },
        {"data": {"toolCallId": "c1", "result": 3}, "timestamp": TIME + 3, "type": "tool_result"},
        {"type": "note_of_another_tool", "data": {"x": 1}, "level": "info"},
        {
            "type": "assistant",
            "timestamp": TIME + 5,
            "data": {"role": "assistant", "content": [{"type": "text", "text": "3"}], "agent": "default"},
        },
    ][:count]
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def full() -> bytes:
    bodies = [body(type, data, at=at) for at, (type, data) in enumerate(EXAMPLES)]
    bodies += [
        body("user", {"content": "in a batch"}, more=True, run="r-1", key="k-1"),
        body("x.unknown/type-1:a_b", {"of": "a later version"}, more=True, run="r-1"),
        body("assistant", {"content": "its end"}, run="r-1", key="k-ü"),
        b'"type":"user","timestamp":%d,"trace":{"crc":"00000000"},"data":{"content":"x"},"later":[1]' % TIME,
        raw_body("tool_result", json.dumps({"toolCallId": "c", "result": BLOB}, separators=(",", ":"))),
        body("tool_result", {"toolCallId": "c", "result": BLOB | {"$$blob": 1}}),
        raw_body("tool_result", '{"toolCallId":"c","result":{"seq":1,"type":"user","crc":"00000000"}}'),
        raw_body("user", '{"content":"spaces" , "n": 12345678901234567890123456789012345678901234567890}'),
    ]
    return b"".join(chain(bodies))


def steps() -> bytes:
    """Steps that were done, failed, cancelled and cut off, one of them within another."""
    start = EXAMPLES[0]
    examples = [
        start,
        ("step", {"step": "order-7", "name": "place", "digest": "9f86d081884c7d65", "attempt": 1}),
        (
            "step",
            {"step": "order-7/pay", "name": "pay", "digest": "60303ae22b998861", "attempt": 1, "parent": "order-7"},
        ),
        ("step_result", {"step": "order-7/pay", "attempt": 1, "ok": False, "error": {"type": "TimeoutError"}}),
        ("step_result", {"step": "order-7", "attempt": 1, "ok": True, "value": {"id": 7, "total": 12.5}}),
        ("step", {"step": "mail", "name": "send", "digest": "fd61a03af4f77d87", "attempt": 1, "call": "call_1"}),
        (
            "step_result",
            {"step": "mail", "attempt": 1, "ok": False, "retry_at": TIME + 5000, "error": {"type": "OSError"}},
        ),
        ("step", {"step": "mail", "name": "send", "digest": "fd61a03af4f77d87", "attempt": 2, "call": "call_1"}),
        ("step_result", {"step": "mail", "attempt": 2, "ok": False, "cancelled": True}),
        ("step_result", {"step": "mail", "attempt": 2, "ok": True, "value": "sent", "found": True}),
        ("step", {"step": "picture", "name": "draw", "digest": "a4e624d686e03ed2", "attempt": 1}),
        (
            "step_result",
            {"step": "picture", "attempt": 1, "ok": True, "unstored": "a picture cannot be written as JSON"},
        ),
        ("step", {"step": "cut", "name": "cut", "digest": "3fdba35f04dc8c46", "attempt": 1}),
    ]
    return b"".join(chain([body(type, data, at=number) for number, (type, data) in enumerate(examples)]))


def steering() -> bytes:
    """A word to a working agent that was heard, and one that cut a step short and was not heard any more."""
    examples = [
        EXAMPLES[0],
        ("user", {"role": "user", "content": "Weather?"}),
        ("steer", {"content": "in Rome, please"}),
        ("user", {"role": "user", "content": "in Rome, please", "steer": 2}),
        ("steer", {"content": "no, Paris", "interrupt": True}),
    ]
    return b"".join(chain([body(type, data, at=number) for number, (type, data) in enumerate(examples)]))


def plain_then_chained() -> bytes:
    head = plain(4)
    tail = [body(*EXAMPLES[index], at=index) for index in (1, 2, 3)]
    return head + b"".join(chain(tail, crc32(head), 4))


def xor(seq: int, text: bytes, before: bytes | None = None) -> bytes:
    """A toy: what a sealed line looks like matters here, not whether it is secret."""
    return bytes(byte ^ key for byte, key in zip(text, cycle(b"golden%d" % seq), strict=False))


def sealed() -> bytes:
    crc, lines = 0, []
    for seq, (type, data) in enumerate(EXAMPLES[:6]):
        text = body(type, data, more=seq == 2, at=seq)
        if seq == 0:
            line, crc = encode_line(seq, text, crc)
        else:
            line, crc = encode_sealed_line(seq, xor(seq, text), crc)
        lines.append(line)
    return b"".join(lines)


def texts(count: int) -> list[bytes]:
    return chain([body("user", {"content": f"message {n}"}, at=n) for n in range(count)])


def torn() -> bytes:
    bodies = [body("user", {"content": "kept"}), body("user", {"content": "kept"}, more=True)]
    bodies += [body("assistant", {"content": "kept, the batch is whole"})]
    bodies += [body("user", {"content": "dropped"}, more=True, at=n) for n in range(2)]
    bodies += [body("user", {"content": "cut short"})]
    return b"".join(chain(bodies))[:-30]


def damaged() -> bytes:
    lines = texts(16)
    lines[3] = lines[3].replace(b"message 3", b"massage 3")  # changed content: 3 is lost
    lines[5] += b"\0" * 64  # zeros between two records
    lines[8] = lines[8].replace(b'"crc":"', b'"crc":"f')  # changed digits: 8 and 9 are lost
    lines[11] = lines[11].rstrip()  # no newline before 12
    lines[13] = lines[13][:40] + lines[13]  # a fragment, and the record written again
    lines[14] += lines[14]  # doubled
    return b"".join(lines)


LOGS = {
    "plain": lambda: plain(6),
    "plain-then-chained": plain_then_chained,
    "full": full,
    "sealed": sealed,
    "steering": steering,
    "steps": steps,
    "torn": torn,
    "damaged": damaged,
}


def expectation(log: bytes) -> dict:
    """What the reader of this version finds."""
    reader = LineReader(unseal=xor)
    events = [*reader.feed(log), *reader.finish()]
    members = ("seq", "type", "timestamp", "run", "key", "more", "data")
    return {
        "events": [{name: getattr(event, name) for name in members} for event in events],
        "position": list(reader.position),
        "torn": reader.torn,
        "gaps": [[gap.offset, gap.size, gap.first_seq, gap.last_seq] for gap in reader.gaps],
        "chained": reader.chained,
    }


def main() -> None:
    for name, make in LOGS.items():
        path = HERE / f"{name}.jsonl"
        if path.exists():
            continue
        path.write_bytes(make())
        found = json.dumps(expectation(path.read_bytes()), ensure_ascii=False, indent=1)
        path.with_suffix(".expected.json").write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
