"""What came in with a file does not act here."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import fold


@pytest.mark.req("S0-21")
def test_an_import_takes_back_what_would_act():
    """Approvals, tools, plugins and settings end with it; what was forbidden stays forbidden."""
    acting = [
        ("permission", {"tool": "rm", "decision": "allow", "scope": "session"}),
        ("permission", {"allowlist": ["ls"], "blocklist": ["dd"]}),
        ("plugin_state", {"name": "p", "state": 1}),
        ("tools", {"enabled": {"rm": True}, "priorities": {"rm": 1}}),
        ("config", {"model": "m"}),
        ("memory_set", {"key": "k", "value": 1}),
        ("imported", {"format": "bundle"}),
    ]
    state = fold([Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(acting)])
    assert (state.permissions.approvals, state.permissions.allowlist) == ({}, [])
    assert state.permissions.blocklist == ["dd"]
    assert (state.plugins, state.config, state.tools.enabled, state.tools.priorities) == ({},) * 4
    assert state.memory["k"].value == 1


def test_what_is_allowed_after_it_counts():
    """A person may allow again, here."""
    events = [Event.make("imported", {}, seq=0), Event.make("permission", {"tool": "ls", "decision": "allow"}, seq=1)]
    assert set(fold(events).permissions.approvals) == {"ls"}


def test_the_parent_that_another_tool_knows():
    """A session forked elsewhere has a parent; one that was forked here keeps its own."""
    told = Event.make("imported", {"parent_session": "codex-a"}, seq=0)
    state = fold([told, Event.make("imported", {"parent_session": "codex-b"}, seq=1)])
    assert (state.parent.session, state.parent.seq, state.root) == ("codex-a", None, "codex-a")
    assert fold([Event.make("imported", {"parent_session": 5}, seq=0)]).parent is None
    branch = Event.make("forked", {"session": "mine", "seq": 3, "root": "first"}, seq=0)
    state = fold([branch, Event.make("imported", {"parent_session": "codex-b"}, seq=1)])
    assert (state.parent.session, state.root) == ("mine", "first")
