"""Copilot CLI's events."""

from __future__ import annotations

import pytest

from holdfast.formats.readers.copilot_cli import READER

OWN = "5c5c5c5c-0000-4000-8000-00000000cccc"


class Writer:
    """Writes events as the tool does."""

    def __init__(self, **start):
        self.lines = []
        given = {"sessionId": OWN, "copilotVersion": "1.0.0", "startTime": "2025-12-01T07:00:00.000Z"}
        self.add("session.start", **given, context={"cwd": "/home/kim/bot"}, **start)

    def add(self, type, **data):
        number = len(self.lines)
        stamp = f"2025-12-01T07:00:{number:02d}.000Z"
        self.lines.append({"type": type, "data": data, "id": f"e{number}", "timestamp": stamp, "parentId": None})
        return f"e{number}"


def conversation():
    w = Writer()
    w.add("session.model_change", newModel="m-1")
    w.add("user.message", content="Ping it", transformedContent="<now/>Ping it")
    w.add("system.message", role="system", content="You are a bot.")
    w.add("assistant.turn_start", turnId="0")
    w.add("assistant.reasoning", reasoningId="r", content="Use bash.")
    request = {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ping"}}
    w.add("assistant.message", content="I ping.", reasoningText="Use bash.", toolRequests=[request])
    w.add("tool.execution_start", toolCallId="c1", toolName="bash", arguments={"command": "ping"})
    w.add("permission.requested", requestId="p", permissionRequest={"kind": "shell"})
    w.add("permission.completed", requestId="p", result={"kind": "approved"})
    w.add("tool.execution_complete", toolCallId="c1", success=True, result={"content": "pong"})
    w.add("session.usage_record", usage={"model": "m-1", "inputTokens": 5, "outputTokens": 4})
    w.add("assistant.message", content="It answers.", toolRequests=[])
    return w


@pytest.fixture
def one(kit):
    def read(writer, **options):
        lines = writer if isinstance(writer, list) else writer.lines
        return kit.one(READER, kit.source("events.jsonl", kit.jsonl(*lines), **options))

    return read


@pytest.mark.req("C11")
def test_a_log_arrives_whole(one):
    """Turns, thoughts, calls with results, cost, place, time and version, each once."""
    told = one(conversation())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.said() == ["Ping it"]
    assert told.of("tool_result")[0].data["result"] == "pong"
    assert told.of("assistant")[0].data["model"] == "m-1"
    assert told.of("usage")[0].data["input_tokens"] == 5
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd, foreign.version) == (OWN, "/home/kim/bot", "1.0.0")
    assert foreign.created_at == 1764572400000


def test_no_permission_comes_in(one):
    """What was allowed there is not allowed here."""
    assert one(conversation()).of("permission") == []


def test_failures_and_odd_results(one):
    """An error is marked; results come as objects, texts or not at all."""
    writer = conversation()
    for id in ("c2", "c3", "c4"):
        writer.add("tool.execution_start", toolCallId=id, toolName="view", arguments='{"path":"a"}')
    writer.add("tool.execution_complete", toolCallId="c2", success=False, error={"message": "denied"})
    writer.add("tool.execution_complete", toolCallId="c3", success=True, result="plain")
    writer.add("tool.execution_complete", toolCallId="c4", success=True)
    writer.add("tool.execution_complete", success=True)
    told = one(writer)
    results = [d.data for d in told.of("tool_result")[1:]]
    assert [data.get("result") for data in results] == ["denied", "plain", None]
    assert results[0]["is_error"] is True
    assert told.of("tool_call")[1].data["params"] == {"path": "a"}


def test_a_sub_agent_is_a_run_of_its_own(one):
    """Its events name the call that started it."""
    writer = conversation()
    writer.add("assistant.message", content="Inside", parentToolCallId="c1")
    told = one(writer)
    assert told.said("assistant", run="agent-c1") == ["Inside"]
    assert len(told.said("assistant")) == 2


def test_what_was_rewound_is_set_aside(one):
    """From the event on that is named."""
    writer = conversation()
    at = writer.add("user.message", content="Oops")
    writer.add("session.snapshot_rewind", upToEventId=at, eventsRemoved=1)
    writer.add("session.snapshot_rewind", upToEventId="unknown")
    told = one(writer)
    assert told.said() == ["Ping it"]
    assert told.said(run="rewound-1") == ["Oops"]


def test_what_the_tool_says_in_the_users_place_is_no_turn(one):
    """Skills and reminders are frames."""
    writer = conversation()
    writer.add("user.message", content="# Skill", source="skill-tidy")
    assert one(writer).said() == ["Ping it"]


def test_titles(one):
    """By the log, else by the file that describes the workspace."""
    writer = conversation()
    beside = {"workspace.yaml": b"id: x\nname: From the file\n"}
    assert one(writer, beside=beside).foreign.title == "From the file"
    writer.add("session.title_changed", title="From the log")
    assert one(writer, beside=beside).foreign.title == "From the log"


def test_pictures_arrive(one):
    """Attachments with data are blocks; others stay in the source line."""
    writer = Writer()
    shown = [{"type": "file", "path": "a"}, {"mimeType": "image/png", "data": "aGk="}]
    writer.add("user.message", content="See", attachments=shown)
    assert [block["type"] for block in one(writer).said()[0]] == ["text", "image"]


def test_a_log_without_start_ids_and_times(one):
    """Then the folder names the session."""
    lines = [
        {"type": "user.message", "data": {"content": "Hi"}},
        {"type": "assistant.message", "data": {"content": "Yes"}},
    ]
    told = one([*lines, '{"type":"to'], folder=OWN)
    assert told.counts() == (1, 1, 0, 0, 0)
    assert told.foreign.foreign_id == OWN
    assert len(told.foreign.problems) == 1


def test_a_repeated_event_is_told_once(one):
    """By its id."""
    lines = conversation().lines
    assert one([*lines, lines[2]]).counts() == (1, 2, 1, 1, 1)
