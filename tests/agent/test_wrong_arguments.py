"""What an agent is made with is looked at before anything runs."""

from __future__ import annotations

import pytest

from holdfast import Agent, Runtime
from holdfast.agent import Tool, tool
from holdfast.errors import UsageError

WRONG = {
    "name": (5, ["x"]),
    "description": (5, {}),
    "agent_type": (5, b"x"),
    "session_id": (5, []),
    "instructions": (5, ["Be brief."], b"x", True),
    "permission": (5, "allow", []),
    "tool_timeout_ms": (-1, 0, 1.5, "5", True, []),
    "max_iterations": (0, -1, 1.5, None, True),
    "max_context_tokens": (0, [], {}, "x", True),
    "heartbeat_ms": (-1, None, 1.5),
    "model_settings": (5, [], "x", [5]),
    "hf": (5, "memory:"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_of_an_agent_is_refused_when_it_is_made(script, name):
    """As a UsageError that names it; nothing is asked of the model."""
    for wrong in WRONG[name]:
        with pytest.raises(UsageError, match=name):
            Agent(script().model, **{name: wrong})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("name", 5),
        ("description", 5),
        ("namespace", 5),
        ("timeout_ms", -1),
        ("timeout_ms", "5"),
        ("cache_ms", None),
        ("schema", 5),
        ("on_refused", 5),
    ],
)
def test_a_wrong_argument_of_a_tool_is_refused_when_it_is_made(name, wrong):
    """Also through the decorator."""

    def look() -> str:
        """Look."""

    with pytest.raises(UsageError, match=name):
        Tool(look, **{name: wrong})
    with pytest.raises(UsageError, match=name):
        tool(**{name: wrong})(look)
    assert Tool(look, timeout_ms=0, cache_ms=0).name == "look"


@pytest.mark.parametrize(
    ("given", "name"), [({"idle_ms": "x"}, "idle_ms"), ({"idle_ms": -1}, "idle_ms"), ({"hf": 5}, "hf")]
)
def test_a_wrong_argument_of_a_runtime_is_refused_when_it_is_made(given, name):
    """Before it opens a store."""
    with pytest.raises(UsageError, match=name):
        Runtime(lambda _text, _source, _session: "", **given)
