"""Limits of what one run may take."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

import holdfast
from holdfast.agent import Agent, RunLimits
from holdfast.errors import UsageError


def look() -> str:
    """Look."""
    return "sunny"


@pytest.mark.parametrize(("limits", "named"), [({"tokens": 1}, "tokens"), ({"time_ms": 60_000}, "time")])
def test_a_run_stops_before_the_step_that_would_exceed_a_limit(hf, script, limits, named, monkeypatch):
    """What was done stays, the reason is on record, and the next run goes on in a process that knows nothing of it."""
    began = time.monotonic()

    def first(_messages):
        monkeypatch.setattr("holdfast.agent._limits.time", SimpleNamespace(monotonic=lambda: began + 61))
        return [("look", {})]

    model = script(first, "done")
    agent = Agent(model.model, tools=[look], limits=limits)
    with hf.session("s") as session:
        result = agent.run_sync("Weather?", session=session)
        monkeypatch.undo()
        ended = [event.data for event in session.events() if event.type == "turn_end"]
        results = [event for event in session.events() if event.type == "tool_result"]
    assert (result.status, result.limit, result.finish_reason, len(model.requests)) == ("stopped", named, "stopped", 1)
    assert [(end["reason"], end["limit"]) for end in ended] == [("stopped", named)]
    assert len(results) == 1
    again = holdfast.Holdfast(hf.store)
    with again.session("s") as session:
        assert session.live_state.status == "idle"
        assert Agent(model.model, tools=[look]).run_sync(None, session=session).output == "done"


def test_what_a_delegate_takes_counts_for_who_asked_it(hf, script):
    """The delegate stops at the limit of the first agent, which stops too."""
    helper = script([("look", {})])
    helped = Agent(helper.model, name="helper", tools=[look])
    model = script([("ask_helper", {"task": "look"})], "never")
    agent = Agent(model.model, delegates=[helped], limits=RunLimits(tokens=200))
    with hf.session("s") as session:
        result = agent.run_sync("Weather?", session=session)
    assert (result.status, result.limit, len(model.requests)) == ("stopped", "tokens", 1)
    assert result.usage.requests == 1 + len(helper.requests)


def test_a_cost_is_limited_by_the_prices_of_models(hf, script):
    """Dollars are counted as `stats` counts them; a model without a price is refused before anything is recorded."""
    model = script([("look", {})], "done")
    with hf.session("s") as session:
        before = len(list(session.events()))
        with pytest.raises(UsageError, match="no price of the model script"):
            Agent(model.model, tools=[look], limits=RunLimits(cost=1)).run_sync("Hi", session=session)
        assert len(list(session.events())) == before
        model.model._model_name = "gpt-4o"
        agent = Agent(model.model, tools=[look], limits=RunLimits(cost=0.000001))
        result = agent.run_sync("Hi", session=session)
        assert (result.status, result.limit) == ("stopped", "cost")
        agent = Agent(model.model, tools=[look], limits=RunLimits(cost=1000))
        assert agent.run_sync(None, session=session).status == "completed"


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"cost": 0}, {"cost": "1"}, {"time_ms": 1.5}, {"hours": 1}, 5])
def test_limits_that_make_no_sense_are_refused(script, wrong):
    """A limit is a number above zero, by a name that there is."""
    with pytest.raises(UsageError):
        Agent(script("x").model, limits=wrong)
