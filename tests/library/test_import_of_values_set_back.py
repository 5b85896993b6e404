"""Importing a source whose values went back to what they were before."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def bring(hf, tmp_path):
    """Imports a session whose title, memory and variable have a value."""

    def brought(value):
        entries = [{"key": "mood", "value": value, "scope": "session"}]
        one = {
            "version": 1,
            "sessionId": "s",
            "createdAt": "2026-02-11T08:00:00.000Z",
            "state": {"conversation": [], "pluginStates": {"memory": {"entries": entries}}},
            "metadata": {"title": value},
        }
        two = {
            "id": "w",
            "conversation_history": [],
            "workflow_variables": {"mood": value},
            "created_at": 1758999999.125,
        }
        found = []
        for name, session in (("one.json", one), ("two.json", two)):
            (tmp_path / name).write_text(json.dumps(session))
            found += hf.import_(tmp_path / name)
        return found

    return brought


def test_values_that_went_back(hf, bring):
    """They are set again, each time, and an import of the same adds nothing."""
    for value in ("good", "bad", "good", "bad", "good"):
        first, second = bring(value)
        state = hf.state(first)
        assert (state.title, state.memory["mood"].value) == (value, value)
        assert hf.state(second).variables == {"mood": value}
        before = hf.state(first).seq
        bring(value)
        assert hf.state(first).seq == before


def test_what_a_person_changed_here_stays(hf, bring):
    """Setting back in the source does not touch it, nor bring back what was removed."""
    for value in ("good", "bad"):
        first, second = bring(value)
    with hf.session(first) as session:
        session.append("title", {"title": "mine"})
        session.append("memory_set", {"key": "mood", "value": "mine"})
    with hf.session(second) as session:
        session.append("variable_delete", {"name": "mood"})
    bring("good")
    state = hf.state(first)
    assert (state.title, state.memory["mood"].value) == ("mine", "mine")
    assert hf.state(second).variables == {}
