"""Plain event logs: folders with an events.jsonl."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

import holdfast

pytestmark = pytest.mark.req("C20")

# Read before the tests' clean environment hides it.
SAMPLES = Path(os.environ.get("HOLDFAST_SAMPLES", "/nonexistent")) / "recorded-event-logs"


def line(type, when, metadata=None, **data):
    """One recorded event."""
    value = {"type": type, "timestamp": when, "data": data}
    return json.dumps(value | ({"metadata": metadata} if metadata else {}), ensure_ascii=False)


USAGE = {
    "model": "m/large",
    "usage": {"promptTokens": 100, "completionTokens": 20, "totalTokens": 120},
    "performance": {"latencyMs": 7},
}
LINES = [
    line("assistant", 1758741017219, role="assistant", content="Loaded 3 tools", agent="system"),
    line("agent_start", 1758741017220, agent="main", depth=0, task="Start"),
    line("user", 1758741017221, role="user", content="Do it"),
    line(
        "tool_call",
        1758741019021,
        USAGE,
        id="c1",
        tool="todowrite",
        agent="main",
        params={
            "todos": [{"content": "first", "status": "pending", "activeForm": "doing", "priority": "high", "id": "ab"}]
        },
    ),
    line("tool_result", 1758741018000, toolCallId="c1", result={"ok": True}, resultSizeBytes=11, estimatedTokens=3),
    line("safety_limit", 1758741019500, limit="depth"),
    line("assistant", 1758741020000, USAGE, role="assistant", content="Done ✓", agent="main"),
    line("agent_complete", 1758741020001, agent="main", duration=2781),
]


@pytest.fixture
def folder(tmp_path):
    """A recorded session."""
    place = tmp_path / "logs" / "werewolf-1"
    place.mkdir(parents=True)
    (place / "events.jsonl").write_text("\n".join(LINES) + "\n")
    return place


def test_a_folder_arrives_in_the_order_of_its_lines(hf, folder):
    """Order, times, unknown types and the lines themselves are kept; usage is counted by model."""
    [id] = hf.import_(folder)
    events = [e for e in hf.events(id) if "raw" in e.data]
    assert [e.data["raw"] for e in events] == LINES
    assert [e.timestamp for e in events] == [json.loads(text)["timestamp"] for text in LINES]
    row, state = hf.info(id), hf.state(id)
    assert row.created_at == 1758741017219
    assert state.usage.by_model["m/large"].total_tokens == 240
    assert row.total_tokens == 240
    assert state.todos[0]["content"] == "first"
    assert state.links["event-folder"] == ["werewolf-1"]


def test_audit_lines_stay_out_of_the_conversation(hf, folder):
    """What the agent `system` said is in the log, and not among the messages."""
    [id] = hf.import_(folder)
    text = json.dumps(hf.recover(id).messages, ensure_ascii=False)
    assert "Done ✓" in text
    assert "Loaded 3 tools" not in text
    assert "Loaded 3 tools" in str([e.data for e in hf.events(id)])


def test_every_folder_below_one(hf, folder):
    """A folder of folders gives a session for each of them."""
    other = folder.parent / "werewolf-2"
    other.mkdir()
    (other / "events.jsonl").write_text(LINES[2])
    (folder.parent / "README.md").write_text("# nothing to see")
    report = hf.import_all([folder.parent])
    assert [row.foreign_id for row in report.sessions] == ["werewolf-1", "werewolf-2"]


def test_damaged_lines_are_told_and_the_rest_comes(hf, folder):
    """A torn line, garbage and an event without data do not stop the others."""
    log = folder / "events.jsonl"
    broken = [LINES[0], "garbage", *LINES[1:3], '{"type": "note", "timestamp": 5}', LINES[6], LINES[7][:20]]
    log.write_text("\n".join(broken))
    [row] = hf.import_all([folder]).sessions
    assert len(row.problems) == 2
    assert [e.data["content"] for e in hf.events(row.session_id, types=["user"])] == ["Do it"]


def test_a_compressed_log(hf, tmp_path):
    """Gzip is seen by its first bytes."""
    path = tmp_path / "old.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(LINES).encode()))
    [id] = hf.import_(path)
    assert hf.state(id).links["event-folder"] == ["old"]
    assert hf.info(id).total_tokens == 240


def test_what_would_act_here_is_kept_and_does_not(hf, folder):
    """Permissions, plugins, tools and settings in a log are frames, never state."""
    acting = [
        line("permission", 1, tool="rm", decision="allow", scope="always"),
        line("plugin_state", 2, name="p", state={"x": 1}),
        line("tools", 3, enabled={"rm": True}),
        line("config", 4, model="evil"),
        line("instructions", 5, content="obey"),
        line("session_start", 6, format=99, log="x"),
        line("metadata", 7, pinned=True, legal_hold="me", colour="red"),
    ]
    (folder / "events.jsonl").write_text("\n".join([LINES[2], *acting]))
    [id] = hf.import_(folder)
    state = hf.state(id)
    assert (state.permissions.approvals, state.plugins, state.config) == ({}, {}, {})
    assert (state.tools.enabled, state.instructions) == ({}, None)
    assert state.metadata == {"colour": "red"}
    assert len(list(hf.events(id, types=["frame"]))) == 6


@pytest.mark.skipif(not SAMPLES.exists(), reason="HOLDFAST_SAMPLES names no recorded logs")
def test_recorded_samples(hf):
    """Real logs come in with every line, and recover without an issue."""
    for folder in sorted(SAMPLES.iterdir()):
        [id] = hf.import_(folder)
        lines = (folder / "events.jsonl").read_text().splitlines()
        assert [e.data["raw"] for e in hf.events(id) if "raw" in e.data] == lines
        assert hf.recover(id).issues == []


def test_folders_of_one_name_stay_apart(tmp_path):
    """Two projects may both have a session named default."""
    for place in ("one", "two"):
        folder = tmp_path / place / "default"
        folder.mkdir(parents=True)
        (folder / "events.jsonl").write_text(line("user", 1758741017221, content=place) + "\n")
    with holdfast.open(tmp_path / "store") as hf:
        [one] = hf.import_(tmp_path / "one")
        [two] = hf.import_(tmp_path / "two")
        assert one != two
        assert hf.state(one).links == hf.state(two).links == {"event-folder": ["default"]}


def test_times_as_text(tmp_path):
    """A time may be written out, also with more digits than are kept."""
    folder = tmp_path / "iso"
    folder.mkdir()
    (folder / "events.jsonl").write_text(line("user", "2025-10-26T10:00:00.123456789Z", content="x"))
    with holdfast.open(tmp_path / "store") as hf:
        [id] = hf.import_(folder)
        [event] = hf.events(id, types=["user"])
        assert event.timestamp == 1761472800123


@pytest.mark.parametrize("cost", [0.25, {"totalCost": 0.25}, {"total": 0.25}])
def test_costs_count(tmp_path, cost):
    """What a request cost stands beside its usage there."""
    folder = tmp_path / "paid"
    folder.mkdir()
    about = {"model": "m", "usage": {"promptTokens": 1}, "cost": cost}
    lines = [
        line("assistant", 1758741017221, about, content="a"),
        line("assistant", 1758741017222, {"cost": 9}, content="b"),
    ]
    (folder / "events.jsonl").write_text("\n".join(lines))
    with holdfast.open(tmp_path / "store") as hf:
        [id] = hf.import_(folder)
        assert hf.state(id).usage.cost == 0.25
