"""The reference pages are complete: nothing public is missing from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.model import BODIES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def rows_of(page):
    """The rows of all tables of a page, by each name in their first cell."""
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| `")]
    return {name: row for row in cells for name in re.findall(r"`([^`]+)`", row[0])}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_listed(name):
    """The page has each error with its code, its bases and its remedy."""
    kind = getattr(errors, name)
    _, code, bases, meaning, remedy = (cell.strip() for cell in rows_of("errors.md")[name])
    assert code == f"`{kind.code}`"
    assert re.findall(r"`(\w+)`", bases) == [
        base.__name__ for base in kind.__bases__ if base is not Exception
    ]
    assert meaning == kind.__doc__.partition("\n")[0]
    assert remedy == kind.remedy


@pytest.mark.parametrize("name", BODIES)
def test_every_event_type_is_listed(name):
    """The page has each event type with all of its members."""
    shared = {"metadata", "usage", "raw"}
    members = set(re.findall(r"`(\w+)\??`", rows_of("events.md")[name][1]))
    assert set(BODIES[name].__struct_fields__) - shared <= members
