"""An index beside very many sessions: what is read, written and held at a time."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.catalog import _catch_up as catching_up
from holdfast.catalog import _feeder as feeding


def make(hf, *ids):
    """Make sessions of two events."""
    for id in ids:
        with hf.session(id) as session:
            session.user(f"hello {id}")
            session.assistant("hello")


class Taken:
    """How many entries of a store were taken from its listing so far."""

    def __init__(self, monkeypatch, store):
        self.count = 0
        listed = store.entries

        def entries(prefix="sessions/"):
            for entry in listed(prefix):
                self.count += 1
                yield entry

        monkeypatch.setattr(store, "entries", entries)


def ids(hf):
    """The ids that a list shows."""
    return sorted(row.session_id for row in hf.list(None))


@pytest.mark.stores("files", "sqlite", "postgres", timers=False)
def test_making_the_catalogue_anew_holds_a_few_sessions_at_a_time(hf, monkeypatch):
    """Those that were listed are in the index before many more are."""
    monkeypatch.setattr(catching_up, "_BATCH_SESSIONS", 4)
    names = [f"s{number:02d}" for number in range(30)]
    make(hf, *names)
    taken = Taken(monkeypatch, hf._core.inner)
    ahead = []
    put = catching_up.CatchUp._flush

    def flush(work):
        put(work)
        if work.sessions:
            ahead.append(taken.count - work.sessions)

    monkeypatch.setattr(catching_up.CatchUp, "_flush", flush)
    assert hf.reindex().sessions == 30
    assert len(ahead) >= 7
    assert max(ahead) <= 4
    assert ids(hf) == names


@pytest.mark.stores("files", "sqlite", "postgres", timers=False)
def test_a_comparison_of_all_finds_what_came_and_what_went(hf, monkeypatch):
    """Also where as many came as went, so that their number is the same."""
    monkeypatch.setattr(catching_up, "_BATCH_SESSIONS", 2)
    make(hf, *"abcde")
    assert ids(hf) == [*"abcde"]
    for id in "ac":
        hf._core.inner.drop(f"sessions/{id}")
    make(hf, "f", "g")
    hf.catalog_health()
    hf._core.catalog.answer(lambda index: index.write([], mark=""))  # what was noted meanwhile is not known any more
    assert ids(hf) == [*"bdefg"]
    with hf.session("b") as session:
        session.user("again")
    hf._core.catalog.answer(lambda index: index.write([], mark=""))
    assert ids(hf) == [*"bdefg"]
    assert hf.list(1)[0].session_id == "b"


def test_many_sessions_are_fed_together(store_root, monkeypatch):
    """The index is written once for dozens of sessions that ended, and those beyond a bound are left to who asks."""
    monkeypatch.setattr(feeding, "_WATCHED_MAX", 150)
    written = []
    with holdfast.Holdfast(store_root, timers=False) as hf:
        feeder = feeding.Feeder(hf.store, tick_s=3600)
        make(hf, "first")
        feeder.catalog.feed("first")
        index = feeder.catalog._opened()
        write = index.write
        monkeypatch.setattr(index, "write", lambda updates: written.append(len(updates)) or write(updates))
        for number in range(200):
            with hf.session(f"s{number}") as session:
                feeder.watch(session)
                session.user("hello")
        assert len(feeder._watched) == 150
        assert feeder._feed_due()
        assert written == [64, 64, 22]
        assert not feeder._watched
        monkeypatch.setattr(index, "write", write)
        assert feeder.catalog.count() == 201
        feeder.close()
