"""What stands behind the requests: sessions kept open for a moment, spaces, threads, problems."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from holdfast import errors
from holdfast.apps.http._call import Refused, problem
from holdfast.apps.http._spaces import BoundedThreads, Spaces
from holdfast.errors import Fenced, Locked, NotFound
from holdfast.library import Holdfast
from holdfast.library.answers import encoded

pytestmark = pytest.mark.stores(timers=False)


@pytest.fixture
async def spaces_of(hf):
    """Spaces with times of one's own; all is closed with the test."""
    threads = BoundedThreads(4)
    made = []

    def make(**times):
        made.append(Spaces(hf, threads, **times))
        return made[-1]

    yield make
    for spaces in made:
        await spaces.host.aclose()
        spaces.close()
    threads.close()


def begin(hf, id="one"):
    """A session in the space alice."""
    with hf.space("alice") as library, library.session(id) as session:
        session.user("hello")


async def test_a_session_is_opened_once_and_given_back(hf, spaces_of):
    """Two at once get the same object; after a moment without anyone it is free for others."""
    begin(hf)
    spaces = spaces_of(idle_s=2)
    async with spaces.session("alice", "one") as one, spaces.session("alice", "one") as other:
        assert one is other
    async with spaces.session("alice", "one") as again:
        assert again is one  # it was still there
        again.user("more")
    for _ in range(6_000):
        if one.closed:
            break
        await asyncio.sleep(0.02)
    assert one.closed
    with hf.space("alice") as library:
        assert library.info("one").open is False
        assert [e.type for e in library.events("one")].count("user") == 2


async def test_what_another_has_is_waited_for(hf, spaces_of):
    """For a while; then it is Locked."""
    begin(hf)
    with Holdfast(hf.url, timers=False, space="alice") as elsewhere:
        held = elsewhere.store.lease("sessions/one")
        held.acquire("another", 60_000)
        with pytest.raises(Locked):
            async with spaces_of(lock_wait_s=0.1).session("alice", "one"):
                pytest.fail("it was locked")
        waiting = spaces_of(lock_wait_s=120)
        asyncio.get_running_loop().call_later(0.2, held.release)
        async with waiting.session("alice", "one") as session:
            session.user("my turn")


async def test_a_session_that_was_taken_away_is_opened_anew(hf, spaces_of):
    """Fenced is told once; the next one works."""
    begin(hf)
    spaces = spaces_of()
    met = []

    async def work():
        async with spaces.session("alice", "one") as session:
            met.append(session)
            raise Fenced

    with pytest.raises(Fenced):
        await work()
    async with spaces.session("alice", "one") as session:
        assert session is not met[0]
        session.user("again")


async def test_what_is_not_there_leaves_nothing_behind(hf, spaces_of):
    """NotFound, each time, and nothing is kept for it."""
    spaces = spaces_of()
    for _ in range(2):
        with pytest.raises(NotFound):
            async with spaces.session("alice", "none"):
                pytest.fail("there is none")
    assert spaces.host.held() == []
    await spaces.let_go("alice", "none")


async def test_only_so_many_spaces_stay_open(hf):
    """The longest unused are closed; one in use never is."""
    threads = BoundedThreads(2)
    spaces = Spaces(hf, threads, spaces_max=2)
    async with spaces.use("a") as first:
        for name in ("b", "c", "d"):
            async with spaces.use(name) as library:
                library.list()
        assert first.list() == []
        assert len(spaces._open) <= 3
        assert "a" in spaces._open
    assert len(spaces._open) == 2
    async with spaces.session("a", "one", lambda hf, key: hf.session(key)) as session:
        session.user("kept")
    for name in ("b", "c", "d"):
        async with spaces.use(name):
            assert not session.closed  # its library is not closed below it
    await spaces.host.aclose()
    spaces.close()
    threads.close()


async def test_a_space_that_many_want_at_once_is_opened_once(hf, monkeypatch):
    """On a thread, not on the event loop; all of them get the same."""
    threads = BoundedThreads(8)
    spaces = Spaces(hf, threads)
    opened, own = [], hf.space

    def slow(name):
        opened.append(threading.current_thread())
        return own(name)

    monkeypatch.setattr(hf, "space", slow)

    async def want():
        async with spaces.use("a") as library:
            await asyncio.sleep(0.01)
            return id(library)

    assert len(set(await asyncio.gather(*(want() for _ in range(10))))) == 1
    [thread] = opened
    assert thread is not threading.main_thread()
    spaces.close()
    threads.close()


async def test_too_much_to_do_is_refused():
    """At once, with 503, and it goes on afterwards."""
    threads = BoundedThreads(1, waiting_max=2)
    gate = threading.Event()
    waiting = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Refused) as refused:
        await threads.run(int)
    assert (refused.value.status, refused.value.code) == (503, "busy")
    gate.set()
    await asyncio.gather(*waiting)
    assert await threads.run(int) == 0
    threads.close()


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_has_a_status(name):
    """No error of ours is an internal one, except the root of them."""
    kind = getattr(errors, name)
    status = kind.status
    assert status in {400, 403, 404, 409, 410, 413, 422, 502, 503, 507} or name == "HoldfastError"
    answer = problem(kind(session_id="one", path="/secret/place"))
    told = msgspec.json.decode(answer.body)
    assert (told["status"], told["code"]) == (status, kind.code)
    assert b"/secret" not in answer.body
    assert told["session_id"] == "one"


def test_where_a_store_is_stays_inside():
    """An error of the store is told without its words, which may hold a path or an address."""
    answer = problem(errors.Unavailable("cannot open postgresql://user:pw@db/x"))
    assert b"postgresql" not in answer.body
    assert answer.headers["retry-after"] == "2"


def test_what_is_no_unicode_is_still_answered():
    """Half a character becomes a question mark, wherever it is."""
    found = encoded({"a\ud800": ["\udc00", 1, {"b": ("x\ud800",)}]})
    assert msgspec.json.decode(found) == {"a?": ["?", 1, {"b": ["x?"]}]}
