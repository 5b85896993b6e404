"""The map shows the house as it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
ROOMS = {
    path.stem
    for path in (ROOT / "src" / "holdfast").iterdir()
    if path.suffix in ("", ".py") and not path.name.startswith("_")
}


def block_after(heading):
    """The first drawing below a heading."""
    return re.search(r"```text\n(.*?)```", MAP[MAP.index(f"## {heading}") :], re.DOTALL)[1]


def test_the_layers_are_those_that_are_enforced():
    """What the map draws is what import-linter holds; private modules are left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [contract] = [one for one in contracts if one["containers"] == ["holdfast"]]
    enforced = [re.findall(r"\((\w+)\)", layer) for layer in contract["layers"]]
    public = [[room for room in layer if not room.startswith("_")] for layer in enforced]
    drawn = [line.split(" | ") for line in block_after("Which way imports point").splitlines()]
    assert drawn == [layer for layer in public if layer]


def test_every_room_has_its_row_and_its_place_in_the_drawing():
    """No room is forgotten, and none that is gone is still shown."""
    table = MAP[MAP.index("## Rooms") : MAP.index("## Which way")]
    named = set(re.findall(r"`(\w+)(?:/|\.py)`", "".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))))
    assert named == ROOMS
    drawn = set(re.findall(r"\b[a-z]+\b", block_after("How data flows")))
    assert drawn >= ROOMS - {"testing", "errors"}
