"""The reference page of the agent is complete."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import holdfast.agent
from holdfast.agent import Agent, Tool

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "agent.md"


def first_cells():
    """The first cells of all rows."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return " ".join(line.split(" | ")[0] for line in lines if line.startswith("| `"))


def test_every_name_is_described():
    """The page has every public name of the room."""
    described = set(re.findall(r"`(\w+)", first_cells()))
    assert set(holdfast.agent.__all__) <= described


def test_every_method_is_described():
    """The page has every public attribute of Agent, and none that does not exist."""
    described = set(re.findall(r"`agent\.(\w+)", first_cells()))
    public = {name for name in dir(Agent) if not name.startswith("_")}
    assert described == public


def test_every_option_is_described():
    """The signatures on the page name every option of Agent and Tool."""
    for kind in (Agent, Tool):
        options = list(inspect.signature(kind).parameters)
        [signature] = re.findall(rf"`{kind.__name__}\(([^)]*)\)", first_cells())
        assert [re.sub(r"\W", "", part) for part in signature.replace("*, ", "").split(",")] == options


def test_a_name_that_is_not_there_is_an_attribute_error():
    """The room fails for wrong names as any module does."""
    assert not hasattr(holdfast.agent, "Nonsense")
