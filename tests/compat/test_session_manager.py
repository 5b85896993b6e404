"""Sessions with True, False and None as answers."""

from __future__ import annotations

import logging
import time

import pytest

import holdfast
from holdfast.compat import SessionManager
from holdfast.model import Event


@pytest.fixture
def manager(hf):
    with SessionManager(hf) as made:
        yield made


@pytest.mark.req("S2-26")
@pytest.mark.req("S2-110")
@pytest.mark.req("S2-111")
def test_a_created_session_is_current_listed_and_can_be_exported(manager, hf):
    """Before its first message it is in the list, and its export has its title."""
    session = manager.create_session("Trip")
    assert manager.current is session
    assert [(row.session_id, row.title) for row in manager.list_sessions()] == [(session.id, "Trip")]
    assert "Trip" in manager.export_to_markdown()
    assert hf.info(session.id).message_count == 0


@pytest.mark.req("S2-27")
@pytest.mark.req("S2-110")
def test_saving_tells_whether_it_was_done(manager):
    """False without a session; True once the current one, or a given one, is on the medium."""
    assert manager.save_session() is False
    session = manager.create_session()
    session.user("hi")
    assert manager.save_session() is True
    assert manager.save_session(session) is True


@pytest.mark.req("S2-74", "S2-83")
def test_what_was_created_and_saved_is_loaded_by_the_next_program(store_root):
    """Every message, in its order, with the title; and it goes on from there."""
    with holdfast.open(store_root) as hf, SessionManager(hf) as manager:
        session = manager.create_session("Trip")
        session.user("My name is Alice")
        session.assistant("Hello Alice")
        assert manager.save_session() is True
    with holdfast.open(store_root) as hf, SessionManager(hf) as manager:
        again = manager.load_session(session.id)
        assert manager.current is again
        assert again.title == "Trip"
        said = [(turn["role"], turn["content"]) for turn in again.history]
        assert said == [("user", "My name is Alice"), ("assistant", "Hello Alice")]
        again.user("Who am I?")
        assert manager.list_sessions()[0].message_count == 3
        assert hf.verify(session.id).ok


@pytest.mark.req("S2-28")
@pytest.mark.req("S2-36")
@pytest.mark.req("S2-110")
def test_loading_gives_the_session_or_none(manager, store_root, caplog):
    """None for one that is missing, misnamed or unreadable, with a warning in the log."""
    first = manager.create_session()
    first.user("hi")
    second = manager.create_session()
    assert manager.load_session(first.id).id == first.id
    assert manager.current.history[0]["content"] == "hi"
    assert manager.load_session("nobody") is None
    assert manager.load_session("../etc") is None
    manager.close()
    log = store_root / "sessions" / second.id / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"garbage\n", *lines[1:]]))
    with caplog.at_level(logging.WARNING, "holdfast.compat"):
        assert manager.load_session(second.id) is None
    assert second.id in caplog.text


def said(text, minutes):
    """A user's words so many minutes from now: two in one millisecond would have no order."""
    when = (time.time_ns() // 1_000_000) + minutes * 60_000
    return Event.make("user", {"role": "user", "content": text}, timestamp=when)


@pytest.mark.req("S2-29")
def test_the_list_is_newest_first_and_can_be_cut(manager):
    """Sessions by the time of their last change, as many as are asked for."""
    ids = []
    for number, title in enumerate("abc", 1):
        session = manager.create_session(title)
        session.append(said(title, number))
        ids.append(session.id)
    manager.load_session(ids[0]).append(said("again", 4))
    assert [row.session_id for row in manager.list_sessions()] == [ids[0], ids[2], ids[1]]
    assert [row.session_id for row in manager.list_sessions(1)] == [ids[0]]


@pytest.mark.req("S2-30")
@pytest.mark.req("S2-36")
def test_deleting_tells_whether_there_was_one(manager):
    """True once; False for what is not there. The current session can be deleted."""
    session = manager.create_session()
    session.user("hi")
    assert manager.delete_session(session.id) is True
    assert manager.current is None
    assert manager.delete_session(session.id) is False
    assert manager.list_sessions() == []


@pytest.mark.req("S2-31")
def test_there_is_no_markdown_without_a_session(manager):
    """An empty text when nothing is current; the conversation when something is."""
    assert manager.export_to_markdown() == ""
    manager.create_session("Trip").user("My name is Alice")
    assert "My name is Alice" in manager.export_to_markdown()


@pytest.mark.req("S2-36")
def test_a_store_that_fails_is_answered_not_raised(manager, hf, caplog):
    """With the store closed below it, every method answers and nothing propagates."""
    session = manager.create_session()
    manager.close()
    hf.close()
    assert manager.create_session() is None
    assert manager.load_session(session.id) is None
    assert manager.list_sessions() == []
    assert manager.delete_session(session.id) is False
    assert manager.save_session(session) is False
    assert manager.export_to_markdown(session) == ""
