"""The background thread: it feeds what is recorded, and stands in nobody's way."""

from __future__ import annotations

import gc
import threading
import time

import pytest

import holdfast
from holdfast.catalog import Catalog, Feeder
from holdfast.storage import FileStore


@pytest.fixture
def store(store_root):
    """A store on files."""
    return FileStore(store_root)


def eventually(condition, seconds=120):
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


def indexed(feeder, id):
    """The number of events that the index knows without catching up."""
    kept = feeder.catalog._kept(id)
    return None if kept is None else kept.row.meta.event_count


def thread_of(feeder):
    """Whether the thread runs."""
    return feeder._thread is not None


def test_what_is_recorded_is_fed(store_root, store):
    """Events of an open session reach the index by themselves, and the last ones when it ends."""
    feeder = Feeder(store, tick_s=0.01)
    with holdfast.open(store_root) as hf:
        session = hf.session("a")
        feeder.watch(session)
        session.user("one")
        eventually(lambda: indexed(feeder, "a") == 3)
        session.user("two")
        eventually(lambda: indexed(feeder, "a") == 4)
        session.close()
        eventually(lambda: indexed(feeder, "a") == 5)
        eventually(lambda: not thread_of(feeder))
    feeder.close()


def test_who_is_watched_is_looked_at_under_the_lock(store_root, store):
    """A session that is opened at that very moment does not end the thread for good."""

    class Watched(dict):
        def items(self):
            assert feeder._lock._is_owned()
            return super().items()

    feeder = Feeder(store, tick_s=3600)
    feeder._watched = Watched()
    with holdfast.Holdfast(store_root, timers=False) as hf, hf.session("a") as session:
        feeder.watch(session)
        session.user("one")
        assert feeder._feed_due()
        assert indexed(feeder, "a") == 3
    feeder.close()


def test_the_thread_ends_when_there_is_nothing_to_watch(store_root, store):
    """A session that nobody holds any more is fed once more and forgotten."""
    feeder = Feeder(store, tick_s=0.01)
    hf = holdfast.open(store_root)
    session = hf.session("a")
    session.user("one")
    feeder.watch(session)
    eventually(lambda: indexed(feeder, "a") == 3)
    hf.close()
    del session, hf
    gc.collect()
    eventually(lambda: not thread_of(feeder))
    feeder.close()


def test_closing_feeds_the_rest(store_root):
    """What a program recorded last is in the index when it has closed the store."""
    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            session.user("one")
        hf.list()
        with hf.session("b") as session:
            session.user("two")
    catalog = Catalog(FileStore(store_root))
    assert catalog._kept("b").row.meta.event_count == 4
    catalog.close()


def test_a_program_that_only_records_makes_no_catalogue(store_root):
    """A short program that never asks leaves no index behind."""
    with holdfast.open(store_root) as hf, hf.session("a") as session:
        session.user("one")
    assert not (store_root / "catalog.db").exists()


def test_trouble_with_the_catalogue_is_no_trouble(store_root, store, monkeypatch):
    """Whatever goes wrong with the index, sessions go on and the next question is right."""
    feeder = Feeder(store, tick_s=0.01)
    (store_root / "catalog.db").write_bytes(b"not a database at all" * 500)
    with holdfast.open(store_root) as hf:
        session = hf.session("a")
        feeder.watch(session)
        session.user("one")
        eventually(lambda: feeder.catalog._trouble is not None)
        session.user("two")
        session.close()
        assert [row.message_count for row in hf.list()] == [2]
    feeder.close()


def test_nothing_is_watched_after_closing(store_root, store):
    """A feeder that was closed stays closed."""
    feeder = Feeder(store, tick_s=0.01)
    feeder.close()
    with holdfast.open(store_root) as hf, hf.session("a") as session:
        feeder.watch(session)
    assert not thread_of(feeder)


def test_closing_does_not_wait_for_the_next_tick(store_root, store):
    """A thread that sleeps is woken to end."""
    before = set(threading.enumerate())  # other tests' libraries may still be open
    feeder = Feeder(store, tick_s=3600)
    with holdfast.open(store_root) as hf, hf.session("a") as session:
        feeder.watch(session)
        feeder.close()
    new = set(threading.enumerate()) - before
    assert not any(thread.name == "holdfast-catalogue" for thread in new)
