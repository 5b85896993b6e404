"""The table of adapters says what tests show, row for row and cell for cell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "adapters.md"
FOLDER = ROOT / "tests" / "integrations"
COLUMNS = {
    "kill -9 in a tool": "test_kill_in_a_tool",
    "approval in another process": "test_approval_in_another_process",
    "fork": "test_fork",
    "what search sees": "test_what_search_sees",
}
_ROW = re.compile(r"^\| .*`(test_doors_\w+\.py)` \|(.*)\|$")


def _rows():
    """The cells of each module that the page names, by column."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (head,) = (line for line in lines if line.startswith("| framework | kill"))
    columns = [cell.strip() for cell in head.strip("|").split("|")][1:]
    found = (match for line in lines if (match := _ROW.match(line)))
    return {
        match[1]: dict(zip(columns, (cell.strip() for cell in match[2].split(" | ")), strict=True)) for match in found
    }


def test_the_table_has_a_row_for_each_module():
    """No framework is in the table without its tests, and none has tests without its row."""
    assert set(_rows()) == {path.name for path in FOLDER.glob("test_doors_*.py")}


@pytest.mark.parametrize("module", sorted(path.name for path in FOLDER.glob("test_doors_*.py")))
def test_each_cell_is_a_test_or_says_that_there_is_none(module):
    """A cell has a test of its column's name; one that begins with "none" has no such test."""
    tree = ast.parse((FOLDER / module).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    tests = {node.name for node in tree.body if isinstance(node, functions)}
    cells = _rows()[module]
    assert set(cells) == set(COLUMNS)
    told = {COLUMNS[column] for column, cell in cells.items() if not cell.startswith("none")}
    assert told == {name for name in tests if name in COLUMNS.values()}
    assert all(cells.values())
