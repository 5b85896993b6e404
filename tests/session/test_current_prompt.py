"""What is being answered can be read while it is."""

from __future__ import annotations

import pytest

import holdfast


@pytest.mark.req("S1-9")
@pytest.mark.req("S1-49")
def test_the_prompt_of_a_turn_can_be_read_while_it_runs(store_root):
    """Empty before the turn and after it; in between all that the user said in it."""
    with holdfast.open(store_root) as hf, hf.session("a") as s:
        assert s.current_prompt == ""
        s.user("not in a turn")
        with s.turn():
            assert s.current_prompt == ""
            s.user("Book a flight")
            s.assistant("Where to?")
            s.user([{"type": "text", "text": "to Lisbon"}, {"type": "image", "source": {}}])
            assert s.current_prompt == "Book a flight\nto Lisbon"
        assert s.current_prompt == ""


@pytest.mark.req("S1-49")
def test_the_prompt_of_an_agents_turn_can_be_read_by_its_tools(store_root):
    """A tool that runs in the turn sees what the user asked for."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    seen = []

    def look() -> str:
        """Look at the prompt."""
        seen.append(agent.session.current_prompt)
        return "done"

    def answer(messages, _info):
        return ModelResponse(parts=[TextPart("ok") if seen else ToolCallPart("look", {})])

    with holdfast.open(store_root) as hf:
        kept = {"persistent_session": True, "hf": hf, "tools": [look]}
        with holdfast.Agent(FunctionModel(answer), agent_id="bot", **kept) as agent:
            agent.run_sync("Where is my train?")
            assert seen == ["Where is my train?"]
            assert agent.session.current_prompt == ""
