"""The lasting memory of agents is kept where its owner says, whatever keeps the sessions."""

from __future__ import annotations

import json

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, PersistentSession
from holdfast.compat import DocumentStore
from holdfast.errors import UsageError


class Drawer:
    """Six methods, in memory; it outlives stores and agents."""

    state = None

    def save(self, state):
        self.state = json.dumps(state)

    def load(self):
        return json.loads(self.state)

    def exists(self):
        return self.state is not None

    def delete(self):
        self.state = None

    def path(self):
        return "a drawer"

    def last_modified(self):
        return None


@pytest.mark.req("S0-79")
def test_memory_is_kept_in_a_storage_of_its_own(store_root):
    """What is remembered for good is in the given storage only, and found by the next session."""
    drawer = Drawer()
    for id in ("one", "two"):
        with holdfast.open(store_root) as hf, hf.session(id, agent_id="bot", memory=DocumentStore(drawer)) as s:
            if id == "one":
                s.memory.set("prefs", {"theme": "dark"}, scope="persistent")
            assert s.memory.get("prefs") == {"theme": "dark"}
    assert "dark" in drawer.state
    assert not list(store_root.rglob("memory.json"))


@pytest.mark.req("S0-79")
def test_an_agent_has_its_memory_where_its_settings_say(store_root):
    """The sessions stay in the agent's store, its memory goes to the other one."""
    drawer = Drawer()
    model = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("ok")]))
    kept = PersistentSession(storage=str(store_root), memory=DocumentStore(drawer))
    with Agent(model, agent_id="bot", persistent_session=kept) as agent:
        agent.run_sync("hi")
        agent.session.memory.set("name", "Alice", scope="persistent")
    assert "Alice" in drawer.state
    assert list(store_root.glob("sessions/*/events.jsonl"))


def test_what_is_no_store_is_refused(store_root):
    """A path or a plain object is not guessed at."""
    with holdfast.open(store_root) as hf, pytest.raises(UsageError, match="memory is a store"):
        hf.session("a", memory=Drawer())
