"""Files of coding agents that are cut, flipped or made to hurt: whatever is whole arrives."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.formats import Source, fit_drafts, reader_of

TOOLS = (
    "claude-code",
    "codex",
    "gemini-cli",
    "qwen",
    "pi",
    "copilot-cli",
    "acpx",
    "cline",
    "opencode",
    "goose",
    "aider",
)


def _module(tool):
    name = f"test_{tool.replace('-', '_')}"
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"whole_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _whole(kit, tool):
    """A whole file of the tool, with the name that it has there."""
    m = _module(tool)
    files = {
        "claude-code": lambda: (m.NAME, kit.jsonl(*m.conversation().lines)),
        "codex": lambda: (m.NAME, kit.jsonl(*m.conversation().lines)),
        "gemini-cli": lambda: ("session-x.jsonl", kit.jsonl(*m.log())),
        "qwen": lambda: ("x.jsonl", kit.jsonl(*m.conversation().lines)),
        "pi": lambda: ("x.jsonl", kit.jsonl(*m.conversation().lines)),
        "copilot-cli": lambda: ("events.jsonl", kit.jsonl(*m.conversation().lines)),
        "acpx": lambda: ("rec-1.stream.ndjson", kit.jsonl(*m.stream())),
        "cline": lambda: ("api_conversation_history.json", json.dumps(m.task()).encode()),
        "opencode": lambda: ("opencode.db", m.database(kit, [(m.INFO, m.messages())])),
        "goose": lambda: ("sessions.db", m.database(kit, m.talk())),
        "aider": lambda: (m.NAME, m.HISTORY.encode()),
    }
    return files[tool]()


@pytest.fixture(scope="module")
def whole(kit):
    return {tool: _whole(kit, tool) for tool in TOOLS}


def read(tool, name, data):
    """Every session in the bytes, fitted; only typed errors may come out of it."""
    source = Source(name, {name: data}, is_file=True)
    reader = reader_of(tool)
    try:
        if not reader.claims(source):
            return None
        found = list(reader.read(source))
    except HoldfastError:
        return None
    return [list(fit_drafts(foreign)) for foreign in found]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1))
def test_a_file_may_end_anywhere(whole, tool, where):
    """It gives what is whole, or a typed error."""
    name, data = whole[tool]
    read(tool, name, data[: int(where * len(data))])


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(st.floats(0, 0.9999), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_bytes_may_be_wrong(whole, tool, flips):
    """It gives what is whole, or a typed error."""
    name, data = whole[tool]
    broken = bytearray(data)
    for where, value in flips:
        broken[int(where * len(data))] = value
    read(tool, name, bytes(broken))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _spoil(value, steps, bad):
    """The value with one member somewhere in it replaced."""
    if steps and isinstance(value, dict) and value:
        name = sorted(value)[steps[0] % len(value)]
        return {**value, name: _spoil(value[name], steps[1:], bad)}
    if steps and isinstance(value, list) and value:
        at = steps[0] % len(value)
        return [*value[:at], _spoil(value[at], steps[1:], bad), *value[at + 1 :]]
    return bad


def said(found):
    return sum(draft.type in {"user", "assistant"} for drafts in found for draft in drafts)


JSONL = tuple(tool for tool in TOOLS if tool not in {"cline", "opencode", "goose", "aider"})


@pytest.mark.slow
@pytest.mark.parametrize("tool", JSONL)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.integers(0, 100), steps=st.lists(st.integers(0, 20), min_size=1, max_size=6), bad=VALUES)
def test_a_member_of_another_type_costs_at_most_its_line(whole, tool, line, steps, bad):
    """All other lines still say what they said."""
    name, data = whole[tool]
    lines = [json.loads(text) for text in data.splitlines()]
    at = line % len(lines)
    lines[at] = _spoil(lines[at], steps, bad)
    spoiled = "\n".join(json.dumps(value) for value in lines).encode()
    assert said(read(tool, name, spoiled)) >= said(read(tool, name, data)) - 2


def test_marks_without_an_end_are_read_in_linear_time():
    """Tags that never close must not make a reader search the rest again and again."""
    words = "<execute_command>" + "<task>" * 50_000 + "<command>" * 50_000
    both = [{"role": "assistant", "content": words}, {"role": "user", "content": "<task>" * 50_000}]
    found = read("cline", "api_conversation_history.json", json.dumps(both).encode())
    assert found is not None


def test_many_equal_lines_are_read_in_linear_time(kit):
    """Each gets a key of its own."""
    lines = [{"id": "a", "timestamp": "2025-01-01T00:00:00Z", "instructions": None}]
    lines += [{"record_type": "state"}] * 20_000
    (drafts,) = read("codex", "rollout-x.jsonl", kit.jsonl(*lines))
    assert len({draft.key for draft in drafts}) == 20_001


def test_a_database_that_never_answers_is_given_up(kit):
    """A view in the place of a table, which counts for ever, is broken off."""
    script = """
    CREATE TABLE sessions (id TEXT);
    CREATE VIEW messages AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)
      SELECT id, '' AS session_id, '' AS role, '' AS content_json FROM n;
    """
    assert read("goose", "sessions.db", kit.database(script, {})) is None


def test_going_back_again_and_again_is_read_in_linear_time(kit):
    """Each thing said is set aside once."""
    head = {"timestamp": "2025-01-01T00:00:00Z"}
    back = {**head, "type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}}
    said = {**head, "type": "event_msg", "payload": {"type": "user_message", "message": "Hi"}}
    lines = [said] * 5_000 + [back] * 10_000
    (drafts,) = read("codex", "rollout-x.jsonl", kit.jsonl(*lines))
    assert {draft.run is None for draft in drafts if draft.type == "user"} == {False}


def test_many_chats_of_one_second_are_read_in_linear_time():
    """Each has an id of its own, none of them long."""
    data = b"# aider chat started at 2025-10-05 14:00:00\n" * 20_000
    assert len(read("aider", ".aider.chat.history.md", data)) == 20_000
