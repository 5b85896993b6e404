"""The flag of a feature decides, not the settings beside it."""

from __future__ import annotations

import pytest

from holdfast.agent import Agent, PersistentSession
from holdfast.errors import UsageError


@pytest.mark.req("S0-51")
def test_settings_do_nothing_while_the_feature_is_off(hf, script):
    """With the flag off nothing of the session is kept, whatever the settings say."""
    off = {"persistent_session": False}
    kept = PersistentSession(autosave_ms=1, load_on_create=True)
    model = script("x").model
    with Agent(model, agent_id="bot", features=off, persistent_session=kept, hf=hf) as agent:
        agent.run_sync("hi")
        assert agent.session is None
    assert list(hf.list()) == []
    with pytest.raises(UsageError, match="switch that off"):
        Agent(model, agent_id="bot", features=off, persistent_session=True, hf=hf)
