"""Recorded logs of another system, if a folder of them is named; none are in the project."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from holdfast.model import Event
from holdfast.replay import PROVIDERS, recover, runs, validate

FOLDER = os.environ.get("HOLDFAST_SAMPLES")  # read before the tests' clean environment hides it
FILES = sorted(Path(FOLDER).glob("*/events.jsonl")) if FOLDER else []


def read(path):
    for seq, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        yield Event.make(record["type"], record["data"], seq=seq, timestamp=record["timestamp"])


@pytest.mark.skipif(not FILES, reason="HOLDFAST_SAMPLES names no folder of recorded logs")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
@pytest.mark.req("S3-43")
def test_recorded_logs_are_recovered_whole(path):
    """Every completed call survives, children stay out, nothing is lost, every dialect is valid."""
    events = list(read(path))
    top = next(event.data["agent"] for event in events if event.type == "agent_start")
    said = [e for e in events if e.type == "assistant" and e.data["agent"] != "system"]
    answered = {e.data["toolCallId"] for e in events if e.type == "tool_result"}
    calls = {e.data["id"]: e.data["agent"] for e in events if e.type == "tool_call"}
    found = runs(events)
    blocks = {run.id: blocks_of(run.conversation.messages()) for run in found}
    uses = {id: [b["id"] for b in bs if b["type"] == "tool_use"] for id, bs in blocks.items()}
    assert set(uses[None]) == {i for i, agent in calls.items() if agent == top and i in answered}
    assert Counter(i for ids in uses.values() for i in ids) == Counter(answered & calls.keys())
    texts = Counter(b["text"] for bs in blocks.values() for b in bs if b["type"] == "text")
    prompts = [e.data["content"] for e in events if e.type == "user"]
    assert texts == Counter([e.data["content"] for e in said] + prompts)
    others = {e.data["content"] for e in said if e.data["agent"] != top}
    assert not others & {b["text"] for b in blocks[None] if b["type"] == "text"}
    for provider in PROVIDERS:
        assert validate(recover(events, provider).messages, provider).errors == []
    assert recover(events).issues == []


def blocks_of(messages):
    blocks = []
    for message in messages:
        content = message["content"]
        blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return blocks
