"""Which sessions have questions is known to the index."""

from __future__ import annotations

import pytest

from holdfast.catalog import Catalog


def ask(session, id):
    """Record a call that waits for a person, as an agent does."""
    call = session.tool_call("pay", {"amount": 90}, begun=False)
    session.append("suspended", {"id": id, "kind": "permission", "call": call.id, "tool": "pay"})


@pytest.mark.stores("files", "memory", "sqlite", "postgres", timers=False)
def test_only_sessions_with_questions_are_looked_at(hf, monkeypatch):
    """However many others there are, interrupted ones among them, what waits is found by the index."""
    for number in range(5):
        with hf.session(f"cut-{number}") as s:
            s.append("turn_start", {})
            s.tool_call("look", {})
    for id in ("one", "two"):
        with hf.session(f"asks-{id}") as s:
            ask(s, id)
    looked_at, asks = [], Catalog.asks

    def look(catalog, session_id):
        looked_at.append(session_id)
        return asks(catalog, session_id)

    monkeypatch.setattr(Catalog, "asks", look)
    assert [(one.id, one.args) for one in hf.waiting()] == [("one", {"amount": 90}), ("two", {"amount": 90})]
    assert sorted(looked_at) == ["asks-one", "asks-two"]


@pytest.mark.stores("files", "sqlite", "postgres", timers=False)
def test_a_question_that_is_settled_is_no_longer_listed(hf):
    """Once its call has a result nothing is left to look at."""
    with hf.session("a") as s:
        ask(s, "one")
        assert [one.id for one in hf.waiting()] == ["one"]
        s.append("permission", {"id": "one", "decision": "deny", "call": s.live_state.asks["one"].call})
        s.tool_result(s.live_state.asks["one"].call, "no")
    assert hf.waiting() == []
