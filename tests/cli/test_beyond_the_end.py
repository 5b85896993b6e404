"""Asking the command for an event that is not there."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("show", "trip", "--at", "999"),
        ("show", "trip", "--at", "999", "--state"),
        ("recover", "trip", "--at", "999"),
        ("export", "trip", "--at", "999"),
        ("fork", "trip", "--at", "999"),
        ("restore", "trip", "--at", "999"),
    ],
)
def test_an_event_that_is_not_there_is_not_found(run, trip, words):
    """Every verb says which is the last, and prints nothing else."""
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (3, "")
    assert "no event 999" in outcome.err
    assert "the last is" in outcome.err


def test_a_file_ends_as_a_session_does(run, trip, store_root):
    """A log outside the store is asked in the same way."""
    outcome = run("recover", str(store_root / "sessions" / trip), "--at", "999")
    assert (outcome.code, outcome.out) == (3, "")
    assert "the last is" in outcome.err
