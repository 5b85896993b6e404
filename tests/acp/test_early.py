"""What an agent says of a session before it has told how that is called."""

from __future__ import annotations

from holdfast.apps.acp import link
from holdfast.apps.acp.link import Early

ONE, TWO, THREE = ({"method": name} for name in ("one", "two", "three"))


def test_frames_wait_for_the_session_that_they_are_about():
    """Each is delivered once its id is known; the others when nobody waits any more."""
    known, got = set(), []
    early = Early(got.extend)
    with early.expecting(known):
        assert early.keep("a", ONE)
        assert early.keep("b", TWO)
        with early.expecting(known):
            assert early.keep("a", THREE)
            known.add("a")
        assert got == [ONE, THREE]
    assert got == [ONE, THREE, TWO]


def test_nothing_is_kept_that_nobody_waits_for(monkeypatch):
    """Neither without a request for a session, nor beyond the limit, nor of an agent that died."""
    monkeypatch.setattr(link, "_FRAMES_MAX", 1)
    got = []
    early = Early(got.extend)
    assert not early.keep("a", ONE)
    with early.expecting(()):
        assert early.keep("a", ONE)
        assert not early.keep("a", TWO)
        early.forget()
    assert got == []
