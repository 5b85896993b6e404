"""What the command says when the key that is set is not there."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("words", [["encrypt", "--all"], ["encrypt", "trip-planner"]])
def test_a_missing_key_file_is_told_once_with_what_to_do(run, trip, library, tmp_path, words):
    """Before any session is touched."""
    path = tmp_path / "none.key"
    outcome = run(*words, env={"HOLDFAST_KEY": f"file:{path}"})
    assert (outcome.code, outcome.out) == (4, "")
    assert outcome.err.count("there is no key file") == 1
    assert f"holdfast keys new file:{path}" in outcome.err
    assert not library.keys.is_sealed(trip)


def test_what_is_no_key_file_is_told_with_what_to_do(run, trip, tmp_path):
    """A folder, for example."""
    outcome = run("encrypt", trip, env={"HOLDFAST_KEY": f"file:{tmp_path}"})
    assert outcome.code == 2
    assert "is no key file" in outcome.err
    assert "holdfast keys new" in outcome.err
