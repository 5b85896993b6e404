"""The durability page: each promise is shown by tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "internals" / "durability.md"
ROWS = re.findall(r"^\| D-(\d+) \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_numbers_are_dense():
    """The promises are numbered from 1 without a gap."""
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    assert len(ROWS) > 30


@pytest.mark.parametrize(("number", "promise", "shown_by"), ROWS, ids=[f"D-{row[0]}" for row in ROWS])
def test_promise_is_shown(number, promise, shown_by):
    """A promise names at least one test, and each that it names exists."""
    names = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", shown_by)
    assert names, "no test shows this"
    assert shown_by.count("`") == 2 * len(names)
    for path, function in names:
        tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
        found = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
        assert not function or function in found, f"{path} has no {function}"


def test_every_test_of_the_campaign_has_its_number():
    """A test of crashes, worlds or old versions that the page does not name shows nothing."""
    page = PAGE.read_text(encoding="utf-8")
    for folder in ("crash", "simulation", "golden"):
        for path in sorted((TESTS / folder).glob("test_*.py")):
            if path != Path(__file__):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                for node in tree.body:
                    if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                        assert f"`{folder}/{path.name}::{node.name}`" in page, node.name


def test_tests_named_in_the_text_exist():
    """So do the tests and files that the text around the promises names."""
    for path in re.findall(r"`([\w/]+\.py)(?:::\w+)?`", PAGE.read_text(encoding="utf-8")):
        assert (TESTS / path).is_file(), path
