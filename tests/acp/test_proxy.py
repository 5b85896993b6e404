"""The proxy between an editor and an agent: recorded before it is shown, whatever the agent can."""

from __future__ import annotations

import json

import pytest

CAN_ALL = {"list", "resume", "fork", "close", "delete"}


def text_of(updates, kind="agent_message_chunk"):
    """The text of all chunks of one kind, joined."""
    return "".join(u["content"].get("text", "") for u in updates if u["sessionUpdate"] == kind)


def test_what_is_advertised_does_not_depend_on_the_agent(proxy):
    """Load, list, resume, fork, close and delete are offered in front of an agent with none."""
    can = proxy("--load", "no").hello["agentCapabilities"]
    assert can["loadSession"] is True
    assert set(can["sessionCapabilities"]) >= CAN_ALL


def test_a_prompt_and_its_answer_pass_and_are_recorded(proxy, tmp_path, kept):
    """The editor sees what the agent said, and the log has both sides of it."""
    editor = proxy()
    id = editor.new(tmp_path)
    assert editor.prompt(id, "hello there")["stopReason"] == "end_turn"
    said = text_of(editor.updates())
    assert said
    messages = kept.recover(id, "neutral").messages
    assert messages[0] == {"role": "user", "content": "hello there"}
    assert messages[1]["content"] == said
    assert editor.end() == 0


@pytest.mark.parametrize("load", ["yes", "no", "fails", "late", "missing"])
def test_a_loaded_session_goes_on_whatever_the_agent_can(proxy, tmp_path, journal, load):
    """After a restart the editor sees all, and the model hears all of it again."""
    first = proxy("--load", load)
    id = first.new(tmp_path)
    first.prompt(id, "my name is Alice")
    said = text_of(first.updates())
    first.end()

    again = proxy("--load", load)
    replayed, _ = again.load(id, tmp_path)
    assert text_of(replayed, "user_message_chunk") == "my name is Alice"
    assert text_of(replayed).startswith(said)
    start = len(again.seen)
    again.prompt(id, "what is my name?")
    heard = json.dumps(journal("session/prompt")[-1]) + text_of(again.updates(start))
    assert heard.count("my name is Alice") == 2  # the words, and the answer that repeats them
    assert again.end() == 0
