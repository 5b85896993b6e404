"""The proxy on a database: sessions outlive it there, too."""

from __future__ import annotations

import sys
from pathlib import Path

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))


def test_a_session_in_a_database_is_loaded_by_the_next_proxy(start, agent_command, postgres_url, tmp_path):
    """After kill -9 another process tells the whole session again, and goes on with it."""
    command = [HOLDFAST, "--store", postgres_url, "acp", "proxy", "--"]
    command += agent_command("--load", "yes", "--flood", 50)
    first = start(command)
    first.initialize()
    id = first.new(tmp_path)
    before = len(first.updates())
    assert first.prompt(id, "hello there")["stopReason"] == "end_turn"
    said = spoken(first.updates(before))
    assert said
    assert spoken(first.load(id, tmp_path)[0]) == said
    first.kill()
    second = start(command)
    second.initialize()
    assert spoken(second.load(id, tmp_path)[0]) == said
    assert second.prompt(id, "go on")["stopReason"] == "end_turn"


def spoken(updates):
    """The words of the agent."""
    return "".join(one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk")
