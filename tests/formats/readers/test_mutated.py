"""Files of the earlier systems with anything in the place of anything."""

from __future__ import annotations

import copy
import gzip
import json

from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import HoldfastError
from holdfast.replay import validate

WHEN = "2026-02-20T10:00:00.123456789Z"
FILES = {
    "sessions/a.json": {
        "version": 1,
        "sessionId": "a",
        "createdAt": WHEN,
        "state": {
            "conversation": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "n", "arguments": "{}"}],
                },
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}],
                },
            ],
            "pluginStates": {"memory": {"entries": [{"key": "k", "value": 1, "sizeBytes": 3}]}},
            "metadata": {"title": "t", "tags": ["x"]},
        },
        "metadata": {"title": "t", "tags": ["x"]},
    },
    "woodwork.json": {
        "id": "w",
        "conversation_history": [{"role": "user", "content": "hi", "timestamp": 1759000000.5}],
        "workflow_variables": {"a": [1]},
        "current_prompt": "p",
        "created_at": 1759000000.5,
        "last_activity": 1759000001.5,
    },
    "2025-10-05_140000.json": {
        "metadata": {"session_id": "o", "created_at": "2025-10-05T14:00:00", "tags": ["t"]},
        "messages": [
            {"role": "user", "content": "hi", "timestamp": WHEN, "token_count": 3},
            {"role": "assistant", "content": "x", "tool_calls": [{"tool": "ls", "args": {}}]},
            {"role": "tool", "content": "out", "timestamp": WHEN, "metadata": {}},
        ],
    },
    "sessions/m.json": {
        "id": "m",
        "provider_type": "acp",
        "state": "idle",
        "title": "t",
        "created_at": WHEN,
        "messages": [
            {"id": "1", "kind": "user", "contents": "hi", "timestamp": WHEN},
            {"id": "2", "kind": "tool_use", "contents": "{}", "raw": {"id": "c", "name": "n"}},
            {"id": "3", "kind": "plan", "contents": '[{"content": "x"}]'},
        ],
    },
    "snapshots/s.json.gz": {
        "session_id": "s",
        "provider_type": "acp",
        "created_at": WHEN,
        "provider_state": {
            "messages": [{"role": "user", "content": "hi", "timestamp": WHEN}],
            "metrics": {"TokensIn": 5},
            "acp_session_id": "x",
        },
    },
    "talk.json": {"id": "t", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
}
ODD = st.sampled_from([None, True, 0, -1, 10**30, 1e308, "", "\0", "\ud800", "x" * 300, [], {}, [[]], [None], {"": {}}])


def ways(value, way=()):
    """The way to every value inside of a value."""
    if way:
        yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield from ways(item, (*way, name))


def put(value, way, item):
    """The value with another one at the end of a way."""
    changed = copy.deepcopy(value)
    inner = changed
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = item
    return changed


PLACES = [(name, way) for name, value in FILES.items() for way in ways(value)]


@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3))
def test_anything_in_the_place_of_anything(changes):
    """An import never fails in another way than it says, and what comes in recovers valid."""
    files = dict(FILES)
    for (name, way), item in changes:
        try:
            files[name] = put(files[name], way, item)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken this place away
    with holdfast.open("memory:") as hf:
        for name, value in files.items():
            data = json.dumps(value).encode()
            try:
                report = hf.import_all([gzip.compress(data) if name.endswith("gz") else data])
            except HoldfastError as error:
                raise AssertionError(error) from error
            assert all("could not be read" not in one.reason for one in report.skipped)
            for id in report.ids:
                hf.state(id)
                assert validate(hf.recover(id).messages, "anthropic").valid
