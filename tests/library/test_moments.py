"""Moments that are asked for: an event that is there, or a refusal that names the last one."""

from __future__ import annotations

import pytest

from holdfast import Holdfast
from holdfast.errors import NotFound, UsageError


@pytest.fixture
def hf():
    """A session of a few events, and one without any."""
    with Holdfast("memory:") as hf:
        with hf.session("trip") as s:
            s.user("To Graz?")
            s.assistant("By train.")
        lease = hf.store.lease("sessions/torn")
        hf.store.log("sessions/torn").append(b'{"seq":0,"ty', 0, 1, lease.acquire("x", 1000))
        lease.release()
        yield hf


ASKED = {
    "state": lambda hf, name, at: hf.state(name, at=at),
    "recover": lambda hf, name, at: hf.recover(name, at=at),
    "markdown": lambda hf, name, at: hf.export(name, at=at),
    "bundle": lambda hf, name, at: hf.export(name, "bundle", at=at),
    "install": lambda hf, name, at: hf.install(name, "gemini-cli", at=at),
    "fork": lambda hf, name, at: hf.fork(name, at),
    "restore": lambda hf, name, at: hf.restore(name, at),
}


@pytest.mark.parametrize("method", ASKED)
def test_an_event_that_is_not_there_is_not_found(hf, method, tmp_path, monkeypatch):
    """Whoever asks hears the number of the last one; nothing is taken for the newest."""
    monkeypatch.chdir(tmp_path)
    last = hf.state("trip").seq
    for beyond in (last + 1, 2**70):
        with pytest.raises(NotFound, match=f"no event {beyond}.* the last is {last}") as caught:
            ASKED[method](hf, "trip", beyond)
        assert caught.value.fields["session_id"] == "trip"
    assert ASKED[method](hf, "trip", last)
    assert hf.state("trip").seq == last


@pytest.mark.parametrize("method", ASKED)
def test_a_number_below_the_first_is_no_event(hf, method):
    """It is refused in the same way everywhere."""
    with pytest.raises(UsageError, match="from 0 on"):
        ASKED[method](hf, "trip", -1)


@pytest.mark.parametrize("method", ASKED)
def test_a_session_without_events_has_no_moment(hf, method):
    """It says so, and has a state of now all the same."""
    with pytest.raises(NotFound, match="has no events"):
        ASKED[method](hf, "torn", 0)
    assert hf.state("torn").seq == -1
    assert hf.export("torn", "bundle")
