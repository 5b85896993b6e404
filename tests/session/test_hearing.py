"""Subscribers hear of everything, in order, and never disturb a session or each other."""

from __future__ import annotations

import threading

from holdfast.library import Holdfast
from holdfast.model import Event, Notice
from holdfast.session import Hub


def test_subscribers_hear_events_in_order(hf):
    """Every event of every session arrives with its session's id."""
    heard = []
    stop = hf.subscribe(lambda session_id, item: heard.append((session_id, item)))
    with hf.session("a") as s:
        events = [s.user("1"), s.user("2")]
    assert [item for _, item in heard if isinstance(item, Event) and item.type == "user"] == events
    assert {session_id for session_id, _ in heard} == {"a"}
    stop()
    with hf.session("a") as s:
        s.user("3")
    assert all(item.data.get("content") != "3" for _, item in heard if isinstance(item, Event))


def test_a_subscriber_that_fails_disturbs_nobody(hf):
    """The session goes on, the others hear everything, and hear of the failure."""
    heard = []

    def bad(_session_id, _item):
        raise RuntimeError("boom")

    hf.subscribe(bad)
    hf.subscribe(lambda _id, item: heard.append(item))
    with hf.session("a") as s:
        s.user("1")
    assert any(isinstance(item, Event) and item.type == "user" for item in heard)
    failures = [n for n in heard if isinstance(n, Notice) and n.kind == "subscriber_failed"]
    assert "boom" in failures[0].detail["error"]


def test_two_failing_subscribers_do_not_loop():
    """Telling of a failure fails quietly."""
    hub = Hub()

    def bad(_session_id, _item):
        raise RuntimeError

    hub.subscribe(bad)
    hub.subscribe(lambda *_: 1 / 0)
    hub.publish("a", Notice("x", "a"))


def test_a_subscriber_may_append(hf):
    """Appending while being told does not deadlock, and its event is told after the first."""
    heard = []
    with hf.session("a") as s:

        def echo(_session_id, item):
            heard.append(item)
            if isinstance(item, Event) and item.type == "user":
                s.assistant("echo")

        hf.subscribe(echo)
        s.user("hi")
    types = [item.type for item in heard if isinstance(item, Event)]
    assert types.index("user") < types.index("assistant")


def test_a_subscriber_that_waits_for_another_thread_does_not_deadlock(hf):
    """Subscribers are called outside the session's lock."""
    with hf.session("a") as s:

        def nosy(_session_id, item):
            if isinstance(item, Event) and item.type == "user":
                thread = threading.Thread(target=lambda: s.append("note", {}))
                thread.start()
                thread.join(timeout=60)
                assert not thread.is_alive()

        hf.subscribe(nosy)
        s.user("hi")
    assert len(list(hf.events("a", types=["note"]))) == 1


def test_restoring_a_session_is_told(store_root):
    """session_restored says how old the session is."""
    heard = []
    with Holdfast(store_root, timers=False) as hf:
        hf.subscribe(lambda _id, item: heard.append(item))
        for _ in range(2):
            with hf.session("a") as s:
                s.user("x")
    told = [n for n in heard if isinstance(n, Notice) and n.kind == "session_restored"]
    assert len(told) == 1
    assert told[0].detail["age"] >= 0
