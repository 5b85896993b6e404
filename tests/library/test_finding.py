"""Lists: what is asked for, page by page, whatever sessions are called and whenever they were."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import NotFound, UsageError
from holdfast.storage import MemoryStore

pytestmark = pytest.mark.stores("files", "memory")


def make(hf, id, *, at=None, tags=(), **options):
    """A closed session, at some time."""
    clock = None if at is None else (lambda: at)
    with hf.session(id, **({} if clock is None else {"clock": clock}), **options) as session:
        session.user(f"hello {id}")
        if tags:
            session.tag(*tags)


def ids(page):
    """The ids of a page."""
    return [row.session_id for row in page]


@pytest.mark.req("S2-60")
def test_pages_are_stable_while_sessions_are_added(hf):
    """A cursor names a place: what is added meanwhile neither repeats nor hides a session."""
    for number in range(7):
        make(hf, f"s{number}", at=1000 + number)
    first = hf.list(3)
    assert ids(first) == ["s6", "s5", "s4"]
    make(hf, "newer", at=5000)
    second = hf.list(3, after=first.next)
    assert ids(second) == ["s3", "s2", "s1"]
    last = hf.list(3, after=second.next)
    assert ids(last) == ["s0"]
    assert last.next is None
    assert ids(hf.list(None, after=first.next)) == ["s3", "s2", "s1", "s0"]


def test_sessions_of_the_same_moment_have_an_order(hf):
    """Equal times are no reason to skip or repeat a session."""
    for name in "abcde":
        make(hf, name, at=1000)
    found, after = [], None
    while True:
        page = hf.list(2, after=after)
        found += ids(page)
        after = page.next
        if after is None:
            break
    assert found == ["e", "d", "c", "b", "a"]


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "🙂", "a" * 10_000, "////", "W10="])
def test_a_cursor_that_is_none(hf, cursor):
    """Anything else than a cursor is wrong usage."""
    with pytest.raises(UsageError):
        hf.list(after=cursor)


def test_what_cannot_be_asked_for(hf):
    """A limit, status, time or tag that is none is wrong usage."""
    for wrong in (
        {"limit": -1},
        {"status": "asleep"},
        {"since": float("nan")},
        {"until": float("inf")},
        {"since": "yesterday"},
        {"tags": "travel"},
    ):
        with pytest.raises(UsageError):
            hf.list(**wrong)
    assert hf.list(0) == []


HOSTILE = ["it's", '"', "%", "a_b", "x\ny", "'; DROP TABLE sessions; --", "🙂", "\\", "ä", "NULL"]


@pytest.mark.req("S2-62")
@pytest.mark.parametrize("tag", HOSTILE)
def test_hostile_tags_are_only_tags(hf, tag):
    """Whatever a tag is made of, it finds its own sessions and no others."""
    make(hf, "a", at=1, tags=[tag])
    make(hf, "b", at=2, tags=[tag, "more"])
    make(hf, "c", at=3, tags=["other"])
    for limit in (None, 10):
        assert ids(hf.list(limit, tags=[tag])) == ["b", "a"]
        assert ids(hf.list(limit, tags=[tag, "more"])) == ["b"]
        assert hf.list(limit, tags=[tag + "x"]) == []
        assert hf.list(limit, tags=["\ud800"]) == []


@pytest.mark.req("S2-59")
@settings(max_examples=30)
@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1, max_size=8, unique=True))
def test_any_time_has_its_place(times):
    """Dates far in the past and future, and clocks that jump, are listed in their order."""
    with holdfast.open(MemoryStore()) as hf:
        times = [time for time in times if time]
        for number, time in enumerate(times):
            make(hf, f"s{number}", at=time)
        expected = sorted(times, reverse=True)
        assert [row.updated_at for row in hf.list(None)] == expected
        assert [row.updated_at for row in hf.list(100)] == expected


def test_since_and_until(hf):
    """Both ends belong to the range."""
    for second in (10, 20, 30):
        make(hf, f"s{second}", at=second * 1000)
    for limit in (None, 5):
        when = dt.datetime.fromtimestamp(20, dt.UTC)
        assert ids(hf.list(limit, since=when)) == ["s30", "s20"]
        assert ids(hf.list(limit, until=when)) == ["s20", "s10"]
        assert ids(hf.list(limit, since=when, until=when)) == ["s20"]
        assert ids(hf.list(limit, since=dt.datetime(1, 1, 2, tzinfo=dt.UTC))) == ["s30", "s20", "s10"]


def test_a_row_that_is_brought_up_to_date_says_the_same_as_a_new_one(hf):
    """Every member, whether the index looked at the session once or after each event."""
    with hf.session("a", agent_id="x", title="A title") as session:
        session.append("metadata", {"cwd": "/there", "pinned": True, "legal_hold": "a case"})
        session.tag("one")
        session.assistant("Yes.", model="m", usage={"input_tokens": 1, "output_tokens": 2})
        for number in range(3):
            session.user(f"question {number}")
            hf.list()
    grown = hf.list()
    hf.reindex()
    assert grown == hf.list()
    assert (grown[0].cwd, grown[0].pinned, grown[0].held) == ("/there", True, True)


def test_filters_together(hf):
    """Agent, model, parent, folder and status narrow a list, with a limit and without."""
    make(hf, "a", at=1, agent_id="x")
    make(hf, "b", at=2, agent_id="y")
    with hf.session("c", agent_id="x", clock=lambda: 3) as session:
        session.assistant("Yes.", model="m'1", usage={"input_tokens": 1, "output_tokens": 2})
        session.append("metadata", {"cwd": "/there"})
    fork = hf.fork("a")
    for limit in (None, 10):
        assert ids(hf.list(limit, agent_id="y")) == ["b"]
        assert ids(hf.list(limit, cwd="/there")) == ["c"]
        assert hf.list(limit, cwd="/the") == []
        assert ids(hf.list(limit, agent_id="x", model="m'1")) == ["c"]
        assert ids(hf.list(limit, parent="a")) == [fork]
        assert hf.list(limit, model="m") == []
        assert hf.list(limit, archived=True) == []
        assert len(hf.list(limit, archived=False, status="idle")) == 4


DIE_IN_MID_TURN = """
import os, sys, holdfast
session = holdfast.open(sys.argv[1]).session("left")
session.append("turn_start", {"turn": 1})
print("ready", flush=True)
sys.stdin.read(1)
os._exit(1)
"""


@pytest.mark.req("S2-61")
def test_status_is_of_this_moment(store_root):
    """Running while its process lives, interrupted as soon as it is gone; the log says the same."""
    command = [sys.executable, "-c", DIE_IN_MID_TURN, str(store_root)]
    with holdfast.open(store_root) as hf:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"ready\n"
            for limit in (None, 5):
                [row] = hf.list(limit, status="running")
                assert row.open
                assert hf.list(limit, status="interrupted") == []
            child.communicate(b"x")
        for limit in (None, 5):
            assert ids(hf.list(limit, status="interrupted")) == ["left"]
            assert hf.list(limit, status="running") == []
        assert not hf.info("left").open


def test_a_session_of_another_process_is_seen_as_it_grows(store_root):
    """What another process appends to an open session is in the next list."""
    code = """
import sys, holdfast
with holdfast.open(sys.argv[1]).session("theirs") as session:
    for line in sys.stdin:
        session.user(line.strip())
        session.flush()
        print("done", flush=True)
"""
    command = [sys.executable, "-c", code, str(store_root)]
    with (
        holdfast.open(store_root) as hf,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child,
    ):
        for count in (1, 2, 3):
            child.stdin.write(f"turn {count}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            assert [row.message_count for row in hf.list()] == [count]


def test_deleted_sessions_vanish_and_come_back(hf):
    """Delete and undelete are seen at once, with all that was known."""
    make(hf, "a", tags=["t"])
    before = hf.list()
    hf.delete("a")
    assert hf.list() == []
    assert hf.list(tags=["t"]) == []
    hf.undelete("a")
    assert hf.list() == before


def test_info_is_a_row_of_the_list(hf):
    """One session as the list shows it, before and after the list knows it."""
    make(hf, "a", tags=["t"])
    assert hf.info("a") == hf.list()[0] == hf.info("a")
    with pytest.raises(NotFound):
        hf.info("b")


def test_ids_by_their_beginning(hf):
    """Ids are found by a beginning, whatever its case; % and _ are only characters."""
    for name in ("Alpha-1", "alpha_2", "beta"):
        make(hf, name)
    assert sorted(hf.session_ids("ALPHA")) == ["Alpha-1", "alpha_2"]
    assert hf.session_ids("alpha%") == []
    assert len(hf.session_ids()) == 3


def test_reindex_counts(hf):
    """What was read is told, and progress ends with all of it."""
    for name in "abc":
        make(hf, name)
    seen = []
    done = hf.reindex(lambda *figures: seen.append(figures))
    assert done.sessions == 3
    assert done.events == sum(row.event_count for row in hf.list())
    assert seen[-1] == (done.bytes, done.bytes)
    assert hf.catalog_health().sessions == 3


def test_many_ask_at_once(store_root):
    """Threads that list, record and reindex at the same time all get right answers."""
    with holdfast.open(store_root) as hf:
        make(hf, "base")
        failures = []

        def work(name):
            try:
                for number in range(3):
                    make(hf, f"{name}-{number}")
                    assert f"{name}-{number}" in ids(hf.list(None))
                    if number == 1:
                        hf.reindex()
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(hf.list(None)) == 10


def test_a_forked_child_asks_for_itself(store_root):
    """A child process that was forked lists, and the parent's catalogue is none the worse."""
    with holdfast.open(store_root) as hf:
        make(hf, "a")
        hf.list()
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if ids(hf.list()) == ["a"] else 1
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        make(hf, "b")
        assert ids(hf.list()) == ["b", "a"]


def test_nothing_is_made_by_looking(tmp_path):
    """A store that is not there yet is not made by a list."""
    with holdfast.open(tmp_path / "none") as hf:
        assert hf.list() == []
    assert not (tmp_path / "none").exists()


def test_a_list_loads_no_vocabulary(tmp_path):
    """Where the index knows all sessions, a list and a search load nothing that counts words."""
    with holdfast.open(tmp_path) as hf:
        with hf.session("s") as s:
            s.user("hello")
        hf.list()
    code = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hf:
    assert len(hf.list()) == len(hf.search("hello")) == 1
print(*sys.modules)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "holdfast.catalog._prices" in loaded
    assert {"holdfast.catalog._tally", "holdfast.catalog._topics", "holdfast.catalog._usage"}.isdisjoint(loaded)
