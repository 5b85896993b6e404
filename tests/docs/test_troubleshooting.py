"""The page for bad days knows every error."""

from __future__ import annotations

import inspect
from pathlib import Path

import holdfast.errors as errors_module
from holdfast.errors import HoldfastError

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "troubleshoot.md"


def test_every_code_that_can_be_met_has_its_row():
    """A code that an error can carry is on the page, by itself or as one of a kind."""
    text = PAGE.read_text("utf-8")
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors_module, inspect.isclass)
        if issubclass(kind, HoldfastError) and not kind.__subclasses__()
    ]
    missing = [
        kind.code for kind in kinds if f"`{kind.code}`" not in text and not kind.code.startswith("resume_token_")
    ]
    assert len(kinds) > 15
    assert missing == []
