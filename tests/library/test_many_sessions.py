"""Very many sessions: what is asked, written and held does not grow with their number."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.library import _copy as copying
from holdfast.session import Timers
from holdfast.storage.files import journal
from holdfast.storage.postgres import store as postgres_store
from holdfast.storage.postgres.link import ServerLink
from holdfast.storage.sqlite import store as sqlite_store


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


def test_making_a_session_asks_a_server_equally_often(postgres_url, monkeypatch):
    """An early one and a later one take a few questions each, by one more or less where lines are sent in two parts."""
    asked = []
    connect = ServerLink._connect

    async def connected(link):
        connection = await connect(link)
        connection.add_query_logger(lambda record: asked.append(record.query))
        return connection

    monkeypatch.setattr(ServerLink, "_connect", connected)

    def questions(id):
        asked.clear()
        make(hf, id)
        return [query for query in asked if "pg_notify" not in query]

    with holdfast.Holdfast(postgres_url, timers=False) as hf:
        make(hf, "first")
        assert len(questions("early")) <= 15
        make(hf, *(f"other-{number}" for number in range(40)))
        assert len(questions("late")) <= 15


@pytest.mark.parametrize("fed", [False, True], ids=["listed", "fed"])
def test_names_that_were_looked_through_later_tell_of_no_stranger(hf, monkeypatch, fed):
    """Sessions that came into the catalogue before are known by their folders: nothing is compared for them."""
    make(hf, "a")
    hf.list()
    monkeypatch.setattr(journal, "_LARGE_BYTES", 1)
    make(hf, "b", "c")
    if fed:
        assert hf._core.catalog.feed("b", "c") == {"b": True, "c": True}
    assert len(hf.list()) == 3
    taken = Taken(monkeypatch, hf.store)
    monkeypatch.setattr(journal, "_PUT_OFF_NS", 0)
    make(hf, "d")
    assert (len(hf.list()), taken.count) == (4, 0)


@pytest.mark.parametrize("module", [sqlite_store, postgres_store], ids=["sqlite", "postgres"])
def test_a_listing_is_read_in_pages(request, tmp_path, monkeypatch, module):
    """Every session is listed once, and whoever takes the first one has a page read, and no more."""
    postgres = module is postgres_store
    url = request.getfixturevalue("postgres_url") if postgres else f"sqlite://{tmp_path}/s.db"
    monkeypatch.setattr(module, "_PAGE", 3)
    with holdfast.Holdfast(url, timers=False) as hf:
        names = [f"s{number}" for number in range(10)]
        make(hf, *names)
        reads = []
        place, name = (hf.store.link, "fetch") if postgres else (hf.store.database, "read")
        read = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *asked: reads.append(rows := read(*asked)) or rows)
        next(hf.store.entries())
        assert list(map(len, reads)) == [3]
        assert [entry.key for entry in hf.store.entries()] == [f"sessions/{name}" for name in names]


def test_a_folder_is_read_as_it_is_taken(hf, monkeypatch):
    """On files too, the first entry costs one look."""
    make(hf, *"abcdef")
    looked = []
    look = hf.store._log_entry
    monkeypatch.setattr(hf.store, "_log_entry", lambda *asked: looked.append(asked) or look(*asked))
    next(hf.store.entries())
    assert len(looked) == 1


def test_a_copy_lists_as_it_goes(hf, tmp_path, monkeypatch):
    """The first session is copied before the others were listed, and the report names all in order."""
    names = [f"s{number}" for number in range(9)]
    make(hf, *names)
    taken = Taken(monkeypatch, hf._core.inner)
    ahead = []
    copied = copying._copy_key
    monkeypatch.setattr(copying, "_copy_key", lambda *asked: ahead.append(taken.count) or copied(*asked))
    assert hf.copy_to(f"sqlite://{tmp_path}/copy.db").sessions == names
    assert ahead == [*range(1, 10)]


@pytest.mark.stores("files", limits=holdfast.Limits(sessions_live_max=3))
def test_keeping_a_store_in_bounds_stops_in_time_and_goes_on_later(hf):
    """What there was no time for is done the next time, though no session was made since."""
    hf._core.feeder._tick_s = 3600
    make(hf, *"abcdef")
    hf._core.housekeep(-1.0)
    assert not any(row.archived for row in hf.list(None))
    hf._core.housekeep(60.0)
    assert sum(row.archived for row in hf.list(None)) == 3
    assert not hf._core.has_new_sessions


def test_timers_of_sessions_that_ended_are_forgotten():
    """They do not wait for the minute in which they would have been due."""

    class Kept:
        def save(self):
            """Nothing."""

    timers, living = Timers(), [Kept() for _ in range(20)]
    for number in range(5_000):
        timers.every(3_600_000, (Kept() if number >= len(living) else living[number]).save)
    assert len(timers._due) <= 1_000
    assert {one[2]().__self__ for one in timers._due if one[2]()} == {*living}
    timers.close()
