"""Estimated tokens are shown as such."""

from __future__ import annotations

import json

import pytest


@pytest.mark.req("S2-109")
def test_an_estimate_is_shown_as_one(run, library):
    """``list``, ``show`` and ``stats`` say about; ``--json`` has the mark."""
    with library.session("notes") as s:
        s.user("Remember the milk.")
        s.assistant("I will.")
    assert "~7" in run("list").out
    assert "about 7 (estimated" in run("show", "notes").out
    assert "about 7 tokens" in run("stats").out
    row = json.loads(run("list", "--json").out)["sessions"][0]
    assert (row["total_tokens"], row["tokens_estimated"]) == (7, True)
    assert json.loads(run("stats", "--json").out)["estimated_tokens"] == 7


@pytest.mark.parametrize(
    ("form", "told", "estimated"),
    [
        ("markdown", "**Total Tokens:** 1042\n", "**Total Tokens:** about 7\n"),
        ("html", "<dt>Tokens</dt><dd>1,042</dd>", "<dt>Tokens</dt><dd>about 7</dd>"),
    ],
)
def test_an_estimate_in_the_head_of_a_document(run, library, form, told, estimated):
    """An export says about where nobody told; what was told stands there as it is."""
    with library.session("notes") as s:
        s.user("Remember the milk.")
        s.assistant("I will.")
    with library.session("spent") as s:
        s.assistant("Done.", usage={"input_tokens": 1000, "output_tokens": 42})
    assert estimated in run("export", "notes", "--format", form).out
    assert told in run("export", "spent", "--format", form).out
