"""Qwen Code's chats."""

from __future__ import annotations

import pytest

from holdfast.formats.readers.qwen import READER

OWN = "7a2b0c1d-0000-4000-8000-00000000abcd"


class Writer:
    """Writes records as the tool does, each the child of the one before."""

    def __init__(self):
        self.lines = []
        self.leaf = None

    def add(self, type, parts=None, *, parent="", **members):
        uuid = f"u{len(self.lines)}"
        record = {
            "uuid": uuid,
            "parentUuid": self.leaf if parent == "" else parent,
            "sessionId": OWN,
            "timestamp": f"2025-11-11T11:11:{len(self.lines):02d}.000Z",
            "type": type,
            "cwd": "/home/kim/tea",
            "version": "0.9.0",
            **members,
        }
        if parts is not None:
            record["message"] = {"role": "user", "parts": parts}
        self.lines.append(record)
        self.leaf = uuid
        return uuid


def asked(id):
    return {"functionCall": {"id": id, "name": "run_shell_command", "args": {"command": "ls"}}}


def answered(id, **given):
    return [{"functionResponse": {"id": id, "name": "run_shell_command", "response": given}}]


def conversation():
    w = Writer()
    w.add("user", [{"text": "<system-reminder>It is late</system-reminder>"}, {"text": "Brew"}])
    event = {"event.name": "qwen-code.api_response", "response_text": "Brew"}
    w.add("system", subtype="ui_telemetry", systemPayload={"uiEvent": event})
    parts = [{"text": "Hm", "thought": True}, {"text": "I brew."}, asked("c1")]
    used = {"promptTokenCount": 8, "candidatesTokenCount": 2, "totalTokenCount": 10}
    w.add("assistant", parts, model="qwen3-coder", usageMetadata=used)
    outcome = {"callId": "c1", "status": "success"}
    w.add("tool_result", answered("c1", output="cup"), toolCallResult=outcome)
    w.add("assistant", [{"text": "Done."}], model="qwen3-coder")
    return w


@pytest.fixture
def one(kit):
    def read(writer):
        return kit.one(READER, kit.source(f"{OWN}.jsonl", kit.jsonl(*writer.lines)))

    return read


@pytest.mark.req("C11")
def test_a_chat_arrives_whole(one):
    """Turns, thoughts, calls with results, cost, place and version."""
    told = one(conversation())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.of("tool_result")[0].data["result"] == "cup"
    assert told.of("usage")[0].data["input_tokens"] == 8
    assert told.of("user")[0].timestamp == 1762859460000
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd, foreign.version) == (OWN, "/home/kim/tea", "0.9.0")


def test_failures_are_marked(one):
    """By the response or by the outcome beside it."""
    writer = conversation()
    writer.add("assistant", [asked("c2"), asked("c3"), asked("c4")])
    writer.add("tool_result", answered("c2", error="blocked"))
    writer.add("tool_result", answered("c3", output="x"), toolCallResult={"status": "cancelled"})
    lost = {"callId": "c4", "status": "error", "resultDisplay": "gone"}
    writer.add("tool_result", [], toolCallResult=lost)
    writer.add("tool_result", [], toolCallResult={"status": "error"})
    results = one(writer).of("tool_result")[1:]
    assert [d.data["result"] for d in results] == ["blocked", "x", "gone"]
    assert all(d.data["is_error"] for d in results)


def test_what_the_tool_says_in_the_users_place_is_no_turn(one):
    """Notices and timers are frames; words typed in mid-turn are a turn."""
    writer = conversation()
    writer.add("user", [{"text": "A task has ended"}], subtype="notification")
    writer.add("user", [{"text": "Tick"}], subtype="cron")
    writer.add("user", [{"text": "Hurry"}], subtype="mid_turn_user_message")
    assert one(writer).said() == ["Brew", "Hurry"]


def test_title_and_parent(one):
    """Both are said in records of the tool itself."""
    writer = conversation()
    writer.add("system", subtype="custom_title", systemPayload={"customTitle": "Tea"})
    writer.add("system", subtype="parent_session", systemPayload={"parentSessionId": "p"})
    foreign = one(writer).foreign
    assert (foreign.title, foreign.parent) == ("Tea", "p")


def test_what_was_rewound_is_set_aside(one):
    """The conversation is the way to the last record."""
    writer = conversation()
    at = writer.leaf
    old = writer.add("user", [{"text": "Old"}])
    writer.add("user", [{"text": "New"}], parent=at)
    told = one(writer)
    assert told.said() == ["Brew", "New"]
    assert told.said(run=f"branch-{old}") == ["Old"]


def test_repeated_and_torn_lines(kit):
    """The one is told once, the other is told of."""
    lines = conversation().lines
    told = kit.one(READER, kit.source("x.jsonl", kit.jsonl(*lines, lines[0]) + b'{"uuid'))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert len(told.foreign.problems) == 1
