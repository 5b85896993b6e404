"""Whatever a frame holds: nothing raises, nothing is lost, and a session takes what is recorded."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.apps.acp.recording.recorder import Notes
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.acp.replay.replay import replay
from holdfast.errors import InvalidData
from holdfast.model import Event, Limits
from holdfast.replay import PROVIDERS, recover, validate
from holdfast.session import resolve_blobs


def update(**members):
    params = {"sessionId": "theirs", "update": members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text, kind="agent_message_chunk", **members):
    return update(sessionUpdate=kind, content={"type": "text", "text": text}, **members)


def prompt(*blocks):
    given = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    params = {"sessionId": "theirs", "prompt": given}
    return {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}


def nested(depth):
    value = "core"
    for _ in range(depth):
        value = [value]
    return value


def test_what_a_session_refuses_is_made_recordable():
    """Characters, numbers and depth are replaced; nothing is left out."""
    data = {
        "text": "a\0b\ud83dc",
        "k\0": 1,
        "k\ufffd": 2,
        "n": [math.nan, math.inf, -math.inf, 1.5],
        "int": 10**80,
        "huge": 10**5000,
        7: "seven",
        "deep": nested(400),
        "map": {"deep": nested(100)},
        "odd": {1, 2}.__class__,
        "fine": [None, True, -3, {"a": "b"}],
    }
    found = clean(data)
    assert found["text"] == "a\ufffdb\ufffdc"
    assert found["k\ufffd"] == 1
    assert found["k\ufffd_"] == 2
    assert found["n"] == ["NaN", "Infinity", "-Infinity", 1.5]
    assert found["int"] == str(10**80)
    assert found["huge"].startswith("0x")
    assert found["7"] == "seven"
    assert '"core"' in repr(found["deep"])
    assert found["fine"] == data["fine"]
    assert Event.make("frame", found).data == found


def test_deep_values_become_their_json():
    """The text of a part that is nested too deep can be parsed again."""
    inner = {"a": [1, "é", None, 2.5, {}], "b": {"c": []}}
    value = clean({"x": [[inner]]}, limits=Limits(depth_max=3))
    assert json.loads(value["x"][0][0]) == inner


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**60, max_value=10**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.sampled_from(["\0", "\ud800", "text", "completed", "pending", "tool_call", "plan"])
)
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
) | st.integers(60, 300).map(nested)
kinds = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "session_info_update",
        "usage_update",
        "unheard_of",
    ]
)
texts = st.text(st.characters(exclude_categories=()), max_size=8)
blocks = anything | st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "resource", "audio", "content", "diff"])},
    optional={
        "text": anything | texts,
        "data": anything,
        "mimeType": anything,
        "uri": anything,
        "resource": anything,
        "content": anything,
        "path": anything,
        "newText": anything,
    },
)
members = {
    "content": blocks | st.lists(blocks, max_size=3),
    "messageId": anything | st.sampled_from(["m1", "m2"]),
    "toolCallId": anything | st.sampled_from(["c1", "c2"]),
    "status": anything | st.sampled_from(["pending", "in_progress", "completed", "failed"]),
    "title": anything,
    "kind": anything | st.sampled_from(["read", "other"]),
    "rawInput": anything,
    "rawOutput": anything,
    "entries": st.lists(blocks, max_size=2) | anything,
    "_meta": anything,
}
updates = st.fixed_dictionaries({"sessionUpdate": kinds | anything}, optional=members).map(
    lambda given: update(**given)
)
words = st.tuples(texts, st.sampled_from(["agent_message_chunk", "agent_thought_chunk"])).map(lambda pair: chunk(*pair))
odd = st.fixed_dictionaries(
    {"method": anything | st.sampled_from(["session/update", "session/prompt", "session/request_permission"])},
    optional={"params": anything, "id": anything, "jsonrpc": anything},
)
prompts = st.lists(blocks, max_size=3).map(lambda given: prompt(*given)) | texts.map(prompt)
answers = anything | st.fixed_dictionaries(
    {},
    optional={
        "id": anything,
        "result": anything | st.fixed_dictionaries({}, optional={"stopReason": anything, "outcome": anything}),
        "error": anything,
    },
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("agent"), words | updates | odd | anything),
        st.tuples(st.just("client"), prompts | odd | anything),
        st.tuples(st.just("answer"), st.tuples(prompts | odd | anything, answers)),
        st.tuples(st.just("interrupted"), st.none()),
    ),
    max_size=12,
)


def take(notes, step):
    what, value = step
    if what == "answer":
        return notes.answer(*value, "agent")
    return notes.interrupted() if what == "interrupted" else getattr(notes, what)(value)


def record(session, events):
    """As a caller does it: as they are, and made recordable if they are refused."""
    if not events:
        return
    try:
        session.extend(events)
    except InvalidData:
        session.extend([(type, clean(data)) for type, data in events])


def holds(events, frame):
    """Whether a frame is kept whole, or can be written again from what is."""
    for type, data in events:
        if frame in (data.get("raw"), data.get("frame")):
            return True
        if type == "delta" and "raw" not in data:
            kind = f"agent_{'thought' if data.get('kind') else 'message'}_chunk"
            given = {"messageId": data["messageId"]} if "messageId" in data else {}
            return chunk(data["content"], kind, **given)["params"]["update"] == (frame["params"]["update"])
        if type == "user" and "raw" not in data:
            return frame["params"]["prompt"] == [{"type": "text", "text": data["content"]}]
        if type == "turn_end" and "raw" not in data:
            reason = "end_turn" if data["reason"] == "completed" else data["reason"]
            return frame["result"] == {"stopReason": reason}
    return False


@given(steps)
def test_every_frame_is_kept(given):
    """Whatever a frame holds: nothing raises, and the frame can be had again from the events."""
    notes, count = Notes(next_seq=lambda: count), 0
    for what, value in given:
        taken = take(notes, (what, value))
        count += len(taken.events)
        frame = value[1] if what == "answer" else value
        if what != "interrupted" and not contains_nan(frame):
            assert holds(taken.events, frame)


def contains_nan(value):
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float) and math.isnan(item):
            return True
        waiting += item.values() if isinstance(item, dict) else []
        waiting += item if isinstance(item, (list, tuple)) else []
    return False


@given(steps)
@settings(max_examples=60)
def test_what_is_recorded_is_a_valid_conversation_anywhere(given):
    """A real session takes it, cut anywhere, and every provider takes the conversation."""
    with Holdfast("memory:") as hf, hf.session() as session:
        notes = Notes(next_seq=lambda: session.seq + 1)
        for step in given:
            record(session, take(notes, step).events)
        events = list(session.events())
    for provider in PROVIDERS:
        assert validate(recover(events, provider).messages, provider).valid
    for end in range(len(events)):
        assert validate(recover(events[:end], "anthropic").messages, "anthropic").valid


@given(steps)
@settings(max_examples=60)
def test_what_is_recorded_is_told_again(given):
    """Whatever the frames held, every word that was streamed is told again, once."""
    with Holdfast("memory:") as hf, hf.session() as session:
        notes = Notes(next_seq=lambda: session.seq + 1)
        for step in given:
            record(session, take(notes, step).events)
        events = list(session.events())
    told = [json.loads(line)["params"]["update"] for line in replay(events, "ours")]
    streamed = [event.data for event in events if event.type == "delta"]
    for kind, name in ((None, "agent_message_chunk"), ("thinking", "agent_thought_chunk")):
        words = [one["content"].get("text", "") for one in told if is_text(one, name)]
        spoken = [data["content"] for data in streamed if data.get("kind") == kind]
        assert "".join(words) == "".join(spoken)


def is_text(update, kind):
    content = update.get("content")
    return (
        update["sessionUpdate"] == kind
        and isinstance(content, dict)
        and content.get("type") == "text"
        and isinstance(content.get("text"), str)
    )


def test_big_frames_are_told_again_whole():
    """Payloads that are kept beside the log come back into the frames they came in."""
    big = "x" * 300_000
    noted = {"type": "text", "text": "n", "annotations": {"_meta": {"$blob": big}}}
    link = {"type": "resource", "resource": {"uri": "file:///a", "text": big}}
    output = update(sessionUpdate="tool_call_update", toolCallId="c", rawOutput=big)
    frames = [
        update(sessionUpdate="tool_call", toolCallId="c", title="T", status="in_progress"),
        output,
        update(sessionUpdate="tool_call_update", toolCallId="c", status="failed", rawOutput=big),
        update(sessionUpdate="agent_message_chunk", content=noted),
        chunk(big, messageId="m"),
    ]
    with Holdfast("memory:") as hf, hf.session() as session:
        notes = Notes(next_seq=lambda: session.seq + 1)
        session.extend(notes.client(prompt("see", link)).events)
        for frame in frames:
            session.extend(notes.agent(frame).events)
        documents = hf.store.documents(session.key)
        events = list(resolve_blobs(session.events(), documents))
        told = [json.loads(line)["params"]["update"] for line in replay(events, "ours")]
    assert [one["content"] for one in told[:2]] == [{"type": "text", "text": "see"}, link]
    assert told[2:6] == [frame["params"]["update"] for frame in frames[:4]]
    assert "".join(one["content"]["text"] for one in told[6:]) == big


def test_a_long_log_is_told_in_order():
    """However many lines there are, none is lost or moved on the way."""
    frames = [update(sessionUpdate="tool_call_update", toolCallId="c", title=str(number)) for number in range(300)]
    log = [("frame", {"direction": "agent", "frame": frame}) for frame in frames]
    events = [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(log)]
    lines = [json.loads(line) for line in replay(events, "ours", close_open=False)]
    assert [line["params"]["update"]["title"] for line in lines] == [str(n) for n in range(300)]


def test_events_that_are_no_objects_are_passed_over():
    """A damaged or foreign log may hold anything as data; the rest is told."""
    types = ["agent_start", "delegation", "user", "assistant", "delta", "frame", "tool_call"]
    events = [Event(type, seq, raw=b"[1]") for seq, type in enumerate(types)]
    final = Event.make("assistant", {"content": "end", "messageId": "m"}, seq=len(types))
    [line] = [json.loads(line) for line in replay([*events, final], "ours")]
    assert line["params"]["update"] == chunk("end", messageId="m")["params"]["update"]


def test_a_huge_answer_to_a_question_is_kept_beside_the_decision():
    """What is kept whole in memory stays small; the frame is recorded all the same."""
    request = {"id": 1, "method": "session/request_permission", "params": {}}
    outcome = {"outcome": "selected", "optionId": "allow"}
    answer = {"id": 1, "result": {"outcome": outcome, "_meta": "x" * 100_000}}
    taken = Notes(next_seq=lambda: 0).answer(request, answer, "client")
    assert taken.events == [
        ("permission", {"tool": "tool", "decision": "allow", "scope": "once", "option": "allow"}),
        ("frame", {"direction": "client", "frame": answer}),
    ]


def test_secrets_of_mcp_servers_are_found_wherever_they_are():
    """A method that nobody knows yet may carry servers in another place."""
    server = {"name": "a", "env": [{"name": "KEY", "value": "s3cret"}]}
    params = {"sessionId": "x", "steps": [{"config": {"mcpServers": [server]}}]}
    taken = Notes(next_seq=lambda: 0).client({"method": "session/odd", "params": params})
    [(_, data)] = taken.events
    assert "s3cret" not in repr(data)
    assert data["frame"]["params"]["sessionId"] == "x"
