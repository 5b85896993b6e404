"""Files that the pages show can be read: TOML and JSON that parse, settings that there are."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from holdfast._config._keys import KEYS, flatten

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(toml|json)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
ELLIPSIS = "…"
BLOCKS = [
    pytest.param(kind, body, id=f"{page.relative_to(ROOT).as_posix()}:{number}")
    for page in PAGES
    for number, (kind, body) in enumerate(FENCE.findall(page.read_text("utf-8")))
    if ELLIPSIS not in body
]
SECTIONS = {name.partition(".")[0] for name in KEYS}


@pytest.mark.parametrize(("kind", "body"), BLOCKS)
def test_a_file_on_a_page_can_be_read(kind, body):
    """It parses, and where it is a configuration of ours, every setting is one."""
    if kind == "json":
        json.loads(body)
        return
    found = tomllib.loads(body)
    if SECTIONS & set(found):
        assert flatten(found, "the page", None)


def test_there_are_files_to_read():
    """The check above has something to look at, a configuration among it."""
    assert sum("retention.policies" in param.values[1] for param in BLOCKS) >= 1
    assert {param.values[0] for param in BLOCKS} == {"toml", "json"}
