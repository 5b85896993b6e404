"""The host of turns: what every app that lets agents work relies on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from holdfast.agent import Host
from holdfast.errors import Fenced, Locked, StoreError, UsageError
from holdfast.session import Patience


class Thing:
    """Something that can be kept; it may refuse to close."""

    def __init__(self, error=None):
        self.closed = False
        self._error = error

    def close(self):
        self.closed = True
        if self._error is not None:
            raise self._error


@pytest.fixture
def clock():
    """The time in milliseconds, as a list of one."""
    return [0.0]


@pytest.fixture
def host(clock):
    """A host whose clock is the test's."""
    made = Host(idle_ms=1000, clock=lambda: clock[0])
    yield made
    made.close()


def request(call="call-1"):
    """A tool that wants to run."""
    return SimpleNamespace(call_id=call, session_id="s", tool="write", description="Write.", args={"path": "a"})


async def forever(_turn):
    """A turn that ends only when it is stopped."""
    await asyncio.Event().wait()


# -- kept ------------------------------------------------------------------------------------


async def test_what_is_kept_is_opened_once(host):
    """Everybody who uses a key at the same time, in tasks and in threads, gets one object."""
    opened = []
    gate = threading.Event()

    def open_slowly():
        gate.wait(60)
        opened.append(Thing())
        return opened[-1]

    def in_a_thread():
        with host.use("s", open_slowly) as thing:
            return thing

    async def in_a_task():
        async with host.ause("s", open_slowly) as thing:
            return thing

    users = [asyncio.create_task(in_a_task()) for _ in range(3)]
    users += [asyncio.create_task(asyncio.to_thread(in_a_thread)) for _ in range(2)]
    await asyncio.sleep(0)
    gate.set()
    assert len({id(thing) for thing in await asyncio.gather(*users)}) == 1
    assert host.kept() == {"s": opened[0]}
    assert len(opened) == 1


def test_what_is_idle_is_given_back_and_what_is_used_stays(host, clock):
    """After the time of rest, by whoever looks; the next use opens it again."""
    with host.use("s", Thing) as first:
        clock[0] += 10_000
        assert host.give_back_idle() == []
    clock[0] += 999
    assert host.give_back_idle() == []
    clock[0] += 1
    assert host.give_back_idle() == ["s"]
    assert first.closed
    with host.use("s", Thing) as again:
        assert again is not first


async def test_idle_things_go_by_themselves():
    """A timer gives back what rested, even if one of them cannot be closed."""
    host = Host(idle_ms=1)
    with host.use("bad", lambda: Thing(StoreError("full"))), host.use("good", Thing) as good:
        pass
    for _ in range(6_000):
        if not host.kept() and good.closed:
            break
        await asyncio.sleep(0.01)
    assert good.closed
    assert host.kept() == {}
    host.close()


async def test_without_a_time_of_rest_it_stays_until_it_is_let_go():
    """``idle_ms=None``: only ``let_go`` and ``close`` give it back."""
    host = Host(idle_ms=None)
    async with host.ause("s", Thing) as thing:
        host.let_go("s")
        assert not thing.closed
    assert host.give_back_idle() == []
    host.let_go("s")
    assert thing.closed
    host.let_go("s")
    host.close()


def test_who_comes_while_it_is_given_back_gets_another(host, clock):
    """Whoever uses a key while its object is closed waits for that, and opens it anew."""
    closing, gate, met = threading.Event(), threading.Event(), []

    class Slow(Thing):
        def close(self):
            closing.set()
            gate.wait(60)
            super().close()

    with host.use("s", Slow) as first:
        pass
    clock[0] += 1000
    giver = threading.Thread(target=host.give_back_idle)
    giver.start()
    assert closing.wait(60)
    assert host.get("s") is None

    def come():
        with host.use("s", Thing) as thing:
            met.append((thing, first.closed))

    comer = threading.Thread(target=come)
    comer.start()
    gate.set()
    comer.join()
    giver.join()
    [(thing, was_closed)] = met
    assert was_closed
    assert thing is not first


async def test_what_cannot_be_opened_leaves_nothing_behind(host):
    """The error is raised for each who asks, and the key is free."""

    def fail():
        raise StoreError("no")

    for _ in range(2):
        with pytest.raises(StoreError), host.use("s", fail):
            pytest.fail("it is not there")
        with pytest.raises(StoreError):
            async with host.ause("s", fail):
                pytest.fail("it is not there")
    assert host._kept == {}


@pytest.mark.parametrize("waits", [False, True])
async def test_what_another_process_has_is_waited_for(host, hf, waits):
    """As long as the patience lasts; then it is Locked."""
    tries = iter([Locked("busy"), Locked("busy"), None])

    def open_later():
        error = next(tries)
        if error is not None:
            raise error
        return Thing()

    patience = Patience(hf.store, "sessions/s", 60_000 if waits else 0)
    if waits:
        async with host.ause("s", open_later, patience) as thing:
            assert not thing.closed
    else:
        with pytest.raises(Locked), host.use("s", open_later, patience):
            pytest.fail("it is locked")


async def test_what_was_fenced_off_is_opened_anew(host):
    """Fenced is raised once; the next use has another object."""
    met = []

    async def lose():
        async with host.ause("s", Thing) as thing:
            met.append(thing)
            raise Fenced

    with pytest.raises(Fenced):
        await lose()
    assert met[0].closed
    async with host.ause("s", Thing) as thing:
        assert thing is not met[0]


async def test_a_use_that_is_given_up_loses_nothing(host):
    """Whoever is cancelled while it opens leaves it to the next."""
    gate, opened = threading.Event(), []

    def open_slowly():
        gate.wait(60)
        opened.append(Thing())
        return opened[-1]

    async def use():
        async with host.ause("s", open_slowly):
            pytest.fail("it was given up")

    user = asyncio.create_task(use())
    await asyncio.sleep(0)
    user.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await user
    with host.use("s", open_slowly) as thing:
        assert opened == [thing]


def test_closing_gives_everything_back(host):
    """Also what is in use, and though one cannot be closed; nothing is opened afterwards."""
    host.keep("bad", Thing(StoreError("full")))
    with host.use("good", Thing) as good:
        with pytest.raises(StoreError):
            host.close()
        assert good.closed
    host.close()
    with pytest.raises(UsageError, match="closed"), host.use("good", Thing):
        pytest.fail("it is closed")


# -- turns -----------------------------------------------------------------------------------


async def test_one_turn_at_a_time(host):
    """The next is refused while one goes on, and may begin when the end of that one is told."""
    turn = host.begin("s", forever)
    with pytest.raises(UsageError, match="under way"):
        host.begin("s", forever)
    other = host.begin("other", forever)
    begun = []

    async def begin_at_the_end():
        async for _name, _ in turn.listen():
            begun.append(host.begin("s", forever))

    waiting = asyncio.create_task(begin_at_the_end())
    await asyncio.sleep(0)
    assert await host.cancel("s")
    await waiting
    assert host.turns == [other, *begun]
    assert await host.cancel("nobody") is False
    await host.aclose()


async def test_a_turn_tells_all_who_listen_and_goes_on_without(host):
    """From when they began to listen; whoever comes too late hears the end at once."""
    gate = asyncio.Event()

    async def work(turn):
        turn.tell("piece", "one")
        await gate.wait()
        turn.tell("piece", "two")
        return "answer"

    turn = host.begin("s", work)
    first = turn.listen()
    assert await anext(first) == ("piece", "one")
    second = turn.listen()
    await first.aclose()
    gate.set()
    assert [message async for message in second] == [("piece", "two"), ("done", "answer")]
    assert [message async for message in turn.listen()] == []
    assert (turn.ended, await turn.finish()) == ("done", "answer")


async def test_what_fails_is_told_and_the_session_is_free(host):
    """Listeners hear the error, whoever waits for the result gets it raised."""

    async def fail(_turn):
        raise ValueError("no such model")

    turn = host.begin("s", fail)
    [(name, error)] = [message async for message in turn.listen()]
    assert (name, str(error), turn.ended) == ("failed", "no such model", "failed")
    assert host.turn("s") is None
    with pytest.raises(ValueError, match="no such model"):
        await turn.finish()


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_turn_says_so(host, begun):
    """Also one that was stopped before it had begun."""
    turn = host.begin("s", forever)
    heard = turn.listen()
    if begun:
        await asyncio.sleep(0)
    assert await host.cancel("s")
    assert [name async for name, _ in heard] == ["cancelled"]
    assert host.turn("s") is None
    with pytest.raises(asyncio.CancelledError):
        await turn.finish()


async def test_whoever_waits_for_the_result_and_is_cancelled_stops_the_turn(host):
    """The turn has ended, on record, when the cancellation is delivered."""
    turn = host.begin("s", forever)
    waiting = asyncio.create_task(turn.finish())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert turn.ended == "cancelled"


async def test_a_turn_that_is_put_off_can_be_gone_on_with(hf, host):
    """Its session says that it was interrupted, a cancelled one does not; none begins any more."""

    class Stream:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def __aiter__(self):
            yield "word"
            await asyncio.Event().wait()

    def answering(id):
        async def answer(turn):
            async with host.ause(id, lambda: hf.session(id)) as session:
                session.user("hello")
                await turn.stream(Stream(), session)

        return answer

    async def begun(id):
        turn = host.begin(id, answering(id))
        heard = turn.listen()
        assert await anext(heard) == ("piece", "word")
        return heard

    cancelled, put_off = await begun("cancelled"), await begun("put-off")
    await host.cancel("cancelled")
    await host.put_off()
    assert [name async for name, _ in cancelled] == ["cancelled"]
    assert [name async for name, _ in put_off] == ["interrupted"]
    with pytest.raises(UsageError, match="any more"):
        host.begin("s", forever)
    await host.aclose()
    assert "interrupted" not in [event.type for event in hf.events("cancelled")]
    assert "interrupted" in [event.type for event in hf.events("put-off")]


def test_the_host_loads_no_engine():
    """An app that only waits for its first message does not pay for a model."""
    program = "import sys, holdfast.agent.host; print('pydantic_ai' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
