"""Agents and editors that mean harm: what they send changes nothing of sessions that are not theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.apps.acp.proxy.server import Proxy
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.library import Holdfast

HOSTILE = Path(__file__).parent / "agents" / "hostile.py"
THEIRS = "their-id-at-the-agent"


@pytest.fixture
def others(store_place):
    """Two sessions that others made, one of them with an agent's id; and how their bytes are."""
    with holdfast.open(store_place) as hf:
        for id in ("diary", "ledger"):
            with hf.session(id) as session:
                session.user(f"words of {id}")
                session.assistant("heard")
                session.link("acp", THEIRS)
    return lambda: {id: b"".join(store_bytes(store_place, id)) for id in ("diary", "ledger")}


def store_bytes(place, id):
    with holdfast.open(place) as hf:
        return list(hf.store.log(f"sessions/{id}").read())


@pytest.fixture
def hostile(start, store_place, others):
    """A proxy in front of the hostile agent, greeted by an editor."""
    command = [sys.executable, str(HOSTILE), "diary", "ledger", THEIRS]

    async def serve(pipe):
        with Holdfast(store_place) as hf:
            await Proxy(hf, pipe, lambda: AgentProcess.start(command), command=command, say=lambda _: None).run()

    editor = start(serve)
    editor.initialize()
    return editor


def test_a_hostile_agent_reaches_no_other_session(hostile, others, tmp_path, kept):
    """Ids of others, frames that are odd, deep or huge, answers that nobody asked for: its own session goes on."""
    before = others()
    id = hostile.new(tmp_path)
    for _ in range(2):
        assert hostile.prompt(id, "go")["stopReason"] == "end_turn"
    told = [frame for frame in hostile.seen if frame.get("params", {}).get("sessionId") not in (None, id)]
    assert told == []
    assert "intruder" not in repr(kept.recover(id).messages)
    assert kept.verify(id).ok
    assert others() == before


def test_a_permission_answered_again_decides_nothing(hostile, tmp_path, kept):
    """The editor's answer is sent again, with the other choice, and under other numbers: one decision is on record."""
    id = hostile.new(tmp_path)
    hostile.prompt(id, "go")
    asked = [frame for frame in hostile.seen if frame.get("method") == "session/request_permission"]
    decided = [event.data["decision"] for event in kept.events(id, types={"permission"})]
    again = {"outcome": {"outcome": "selected", "optionId": "no"}}
    for number in (*(frame["id"] for frame in asked), "holdfast-99", 7, None, [1], {"a": 1}):
        hostile.send({"jsonrpc": "2.0", "id": number, "result": again})
    hostile.prompt(id, "go on")
    after = [event.data["decision"] for event in kept.events(id, types={"permission"})]
    assert after == decided * 2


@pytest.mark.parametrize("wrong", ["../diary", "nobody", "", "x" * 100_000, "\0", 7, None, ["diary"], {"id": "diary"}])
def test_a_hostile_editor_reaches_nothing_by_odd_ids(hostile, others, tmp_path, wrong):
    """Refused with an error of the protocol; and what it tells of sessions itself is not believed."""
    before = others()
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "intruder"}}
    hostile.tell("session/update", sessionId="diary", update=update)
    for method in ("session/load", "session/prompt", "session/resume"):
        error = hostile.fail(method, sessionId=wrong, cwd=str(tmp_path), mcpServers=[], prompt=[])
        assert isinstance(error["code"], int)
    hostile.wait(hostile.ask("session/delete", sessionId=wrong))  # what is not there is gone already
    assert hostile.new(tmp_path)
    assert others() == before
