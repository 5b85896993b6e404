"""What a recovery changes is told in the log of the program."""

from __future__ import annotations

import logging

import pytest

import holdfast
from holdfast.errors import NotFound, UsageError


def warnings(caplog):
    return [r.getMessage() for r in caplog.records if r.name == "holdfast"]


def cut_off(hf, id="trip"):
    """A session that ended within a call."""
    with hf.session(id) as s:
        s.append("turn_start", {})
        s.user("plan")
        s.tool_call("Book", {"to": "Lisbon"})


@pytest.mark.req("S3-76")
def test_a_recovery_warns_once_of_what_it_changed(hf, caplog):
    """A program sees it in its log, with the session and each issue; not again and again."""
    cut_off(hf)
    with caplog.at_level(logging.INFO):
        found = hf.recover("trip")
        hf.recover("trip")
    assert warnings(caplog) == [found.log_line]
    assert found.log_line.startswith("Session trip recovery: Sanitized 1 issue(s)")
    assert caplog.records[0].levelname == "WARNING"
    with hf.session("trip") as s:
        s.tool_call("Pay", {"amount": 5})
    hf.recover("trip")
    assert len(warnings(caplog)) == 2


def test_a_whole_session_is_recovered_in_silence(hf, caplog):
    """There is nothing to tell of it."""
    with hf.session("trip") as s, s.turn():
        s.user("hi")
        s.assistant("hello")
    assert hf.recover("trip").issues == []
    assert warnings(caplog) == []


@pytest.mark.req("S3-76")
async def test_an_agent_that_goes_on_warns_once(store_root, caplog):
    """The first run after a crash tells what of the session had to be changed; later ones not."""
    with holdfast.open(store_root) as hf:
        cut_off(hf)
    with holdfast.open(store_root) as hf, hf.session("trip") as session:
        agent = holdfast.Agent("test")
        await agent.run("go on", session=session)
        await agent.run("and on", session=session)
    told = warnings(caplog)
    assert len(told) == 1
    assert told[0].startswith("Session trip recovery: Sanitized 1 issue(s)")


@pytest.mark.req("S3-77")
def test_an_empty_session_is_recovered_as_an_empty_list(hf):
    """One that is open and has no event yet, or whose log has none, never raises."""
    with hf.session("new"):
        found = hf.recover("new", "openai", "mark", 1000)
        assert (found.messages, found.issues, found.system) == ([], [], None)
        with pytest.raises(NotFound):
            hf.recover("new", at=0)
        with pytest.raises(UsageError):
            hf.recover("new", "nobody")
    with pytest.raises(NotFound):
        hf.recover("new")  # it was never begun, and nobody has it any more
    with hf.session("untold") as s:
        s.variables["a"] = 1
    assert hf.recover("untold").messages == []
