"""Whatever comes down the line, the bridge answers in kind and goes on."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.apps.ipc.bridge import LINE_BYTES_MAX
from holdfast.apps.ipc.messages import ASKS, BY_METHOD

PING = {"type": "session_save", "id": "ping"}
OFTEN = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from([*ASKS, *BY_METHOD, "\ud800", "..", "2.0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["session_id", "query", "limit", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["type", "id", "jsonrpc", "method", "params", "session_id", "title", "limit", "format", "query"]
)
FRAMES = st.dictionaries(NAMES, VALUES, max_size=6)
LINES = (
    FRAMES.map(lambda frame: json.dumps(frame).encode())
    | st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"?"))
    | VALUES.map(lambda value: json.dumps(value).encode())
)


def is_silent(line):
    """Whether JSON-RPC itself wants no answer, or there is no line at all."""
    if not line.strip():
        return True
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(frame, dict) or ("method" not in frame and "jsonrpc" not in frame):
        return False
    return "id" not in frame and isinstance(frame.get("method"), str)


@OFTEN
@given(lines=st.lists(LINES, min_size=1, max_size=4))
def test_any_lines_are_answered_and_the_next_one_too(lines, talk):
    """One answer for each line but for notifications, and the bridge still serves."""
    told = talk({"type": "initialize", "demo_mode": True}, *lines, PING)[1:]
    assert sum(each.get("id") == "ping" for each in told) >= 1
    answers = [each for each in told if each.get("type") != "stream_token" and each.get("method") != "stream.token"]
    expected = sum(not is_silent(line) for line in lines) + 1
    assert len(answers) == expected
    for each in answers:
        assert ("type" in each) != ("jsonrpc" in each)


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"type":' * 50_000,
        b'{"type": "session_list", "limit": 1e999}',
        b'{"type": "session_list", "limit": NaN}',
        b'{"type": "session_list", "id": 123456789012345678901234567890, "limit": -1}',
        b'{"type": "session_load", "session_id": "\\ud800"}',
        b'{"type": "tool_approve", "tool_id": "\\ud800", "approved": true}',
        b'{"type": "session_load", "session_id": "' + b"x" * 100_000 + b'"}',
        b'{"type": "' + b"x" * 100_000 + b'"}',
        b'{"type": "session_create", "title": "\\u0000\\u001b[2J"}',
        b"\xff\xfe{}",
        b"[]",
        b'[{"jsonrpc": "2.0", "id": 1, "method": "session.list"}]',
        b'{"jsonrpc": "2.0", "id": {}, "method": "session.list"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "session.list"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "session.list", "params": [1]}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "no.such"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
        b'{"jsonrpc": "2.0", "id": 1}',
        b"{}",
    ],
    ids=lambda line: line[:40].decode("latin-1"),
)
def test_hostile_lines(talk, line):
    """Each is answered once, with a short answer, and the next one is served."""
    answer, ping = talk(line, PING)
    assert ping["id"] == "ping"
    assert len(json.dumps(answer)) < 2_000


def test_a_line_that_never_ends(talk):
    """It is passed over without being held, told of, and the next one is served."""
    answer, ping = talk(b'{"type": "' + b"x" * LINE_BYTES_MAX + b'"}', PING)
    assert (answer["type"], answer["code"]) == ("error", "too_large")
    assert ping["id"] == "ping"


def test_mistakes_are_answered_in_the_way_of_the_connection(talk):
    """What cannot be read has no kind; the answer is of the kind of the line before."""
    first, _, second = talk(b"nonsense", {"jsonrpc": "2.0", "id": 1, "method": "session.list"}, b"nonsense")
    assert first["type"] == "error"
    assert (second["jsonrpc"], second["id"], second["error"]["code"]) == ("2.0", None, -32700)


def test_a_notification_is_obeyed_and_not_answered(hf, talk):
    """As JSON-RPC has it."""
    only = talk({"jsonrpc": "2.0", "method": "session.create", "params": {"title": "T"}}, PING)
    assert [each["id"] for each in only] == ["ping"]
    assert only[0]["success"] is True
    assert [found.title for found in hf.list()] == ["T"]


def test_what_could_not_be_matched_with_its_answer_is_refused(talk):
    """An id that is none, in both ways of asking, and another JSON-RPC than ours."""
    tagged, rpc, old = talk(
        {"type": "session_list", "id": []},
        {"jsonrpc": "2.0", "id": [], "method": "session.list"},
        {"jsonrpc": "1.0", "id": 1, "method": "session.list"},
    )
    assert (tagged["type"], tagged["code"]) == ("error", "invalid_request")
    assert (rpc["id"], rpc["error"]["code"]) == (None, -32600)
    assert (old["id"], old["error"]["code"]) == (1, -32600)
