"""A session that another process has is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from uuid import uuid4

import pytest

import holdfast
from holdfast.agent import PersistentSession
from holdfast.errors import Locked, NotFound, UsageError
from holdfast.integrations._place import AdapterSession
from holdfast.storage import open_store

LONG_MS = 120_000


@pytest.fixture(params=["file", "sqlite", "postgres", "bucket"])
def url(request, tmp_path):
    """The address of an empty store of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    if request.param == "bucket":
        return request.getfixturevalue("seaweed_server").url(uuid4().hex)
    return f"{tmp_path}/store" if request.param == "file" else f"sqlite://{tmp_path}/store.db"


@pytest.fixture
def hf(hf):
    """The sessions of a file store, one of them with words."""
    with hf.session("a") as s:
        s.user("hi")
    return hf


@contextlib.contextmanager
def held(where, id="a"):
    """A session that somebody else has; what is given lets it go."""
    store = open_store(where)
    lease = store.lease(f"sessions/{id}")
    try:
        lease.acquire("somebody", LONG_MS)
        yield lease.release
    finally:
        lease.release()
        store.close()


@contextlib.contextmanager
def while_waiting(hf, act):
    """Do something once, when whoever waits pauses for the second time."""
    store, pauses = type(hf.store), []
    wait = store.wait

    def watched(self, key, seconds):
        pauses.append(key)
        if len(pauses) == 2:
            act()
        wait(self, key, seconds)

    store.wait = watched
    try:
        yield pauses
    finally:
        store.wait = wait


def test_it_goes_on_when_the_other_has_let_go(url):
    """On every store: the session is there as the other one left it, and can be written."""
    with holdfast.open(url) as hf:
        with hf.session("a") as s:
            s.user("one")
        with held(url) as let_go, while_waiting(hf, let_go) as pauses:
            with hf.session("a", wait_ms=LONG_MS) as s:
                s.user("two")
            assert set(pauses) == {"sessions/a"}
        assert [e.data["content"] for e in hf.events("a", types=["user"])] == ["one", "two"]


def test_one_that_is_about_to_be_made_is_waited_for_too(url):
    """On every store: two that begin the same session do so one after the other."""
    with holdfast.open(url) as hf, held(url, "new") as let_go, while_waiting(hf, let_go) as pauses:
        with hf.session("new", wait_ms=LONG_MS) as s:
            with pytest.raises(Locked), held(url, "new"):
                pass
            s.user("first")
        assert pauses
        assert [row.session_id for row in hf.list()] == ["new"]


def test_a_session_that_was_only_waited_for_leaves_no_trace(tmp_path):
    """Asking for it with a wait makes nothing that stays; NotFound and refusals neither."""
    with holdfast.open(tmp_path / "store") as hf:
        hf.session("new", wait_ms=1).close()
        with pytest.raises(NotFound):
            hf.session("new", resume="always", wait_ms=1)
        assert os.listdir(tmp_path / "store" / "sessions") == []
        with hf.session("new", wait_ms=1) as s:
            s.user("hi")
        hf.session("new", wait_ms=1).close()
        assert hf.exists("new")


@pytest.mark.parametrize("wait_ms", [0, 1, 30.5])
def test_over_it_locked_says_who_and_what_to_do(hf, store_root, wait_ms):
    """When the time is over the error is as without waiting, and names the parameter."""
    with held(store_root), pytest.raises(Locked) as caught:
        hf.session("a", wait_ms=wait_ms)
    assert caught.value.pid == os.getpid()
    assert "wait_ms" in caught.value.remedy
    with hf.session("a") as s:
        s.user("free")


@pytest.mark.parametrize("wait_ms", [-1, -0.5, float("nan"), float("inf"), True, False, "10", b"1", [1], 1j])
def test_a_senseless_time_is_refused(hf, wait_ms):
    """Before anything is opened, and wherever it can be given."""
    for use in (
        lambda: hf.session("a", wait_ms=wait_ms),
        lambda: hf.session("a", wait_ms=wait_ms, read_only=True),
        lambda: holdfast.Runtime(lambda text, source, session: text, hf, wait_ms=wait_ms),
        lambda: PersistentSession(wait_ms=wait_ms),
    ):
        with pytest.raises(UsageError, match="wait_ms"):
            use()


def test_the_time_can_be_a_setting(hf, store_root):
    """What is set for a store holds for all that opens sessions of it; 0 takes it back."""
    with holdfast.open(store_root, config={"wait_ms": LONG_MS}) as patient:
        with held(store_root) as let_go, while_waiting(patient, let_go):
            patient.tag("a", "waited")
        with held(store_root), pytest.raises(Locked):
            patient.session("a", wait_ms=0)
    assert hf.info("a").tags == ("waited",)
    with pytest.raises(UsageError, match="wait_ms"):
        holdfast.open(store_root, config={"wait_ms": -1})


async def test_the_event_loop_goes_on_meanwhile(hf, store_root):
    """``async with`` waits in a loop while its other tasks run; they let it go here."""
    with held(store_root) as let_go:
        waiting = hf.session("a", wait_ms=LONG_MS)
        with pytest.raises(Locked, match="open for writing") as caught:
            waiting.user("too early")
        assert "async with" in caught.value.remedy
        with pytest.raises(Locked), waiting:
            pass

        async def other():
            for _ in range(3):
                await asyncio.sleep(0.001)
            let_go()

        task = asyncio.create_task(other())
        async with waiting as s:
            s.user("two")
            assert s is hf.session("a", wait_ms=1)
            s.close()
        await task
        assert s.closed
    with held(store_root):
        pass


async def test_over_it_locked_in_a_loop(hf, store_root):
    """An ``async with`` that waited in vain raises, and its session can be opened later."""
    with held(store_root), pytest.raises(Locked) as caught:
        async with hf.session("a", wait_ms=5):
            pytest.fail("it is not free")
    assert "wait_ms" in caught.value.remedy
    async with hf.session("a", wait_ms=5) as s:
        s.user("free")


@pytest.mark.parametrize("moment", ["while it is held", "as it is let go"])
async def test_a_cancelled_wait_leaves_no_lock(hf, store_root, moment):
    """Whoever gives up holds nothing, also if the session came to it at that moment."""

    async def wait():
        async with hf.session("a", wait_ms=LONG_MS):
            await asyncio.sleep(60)

    with held(store_root) as let_go:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.003)
        if moment == "as it is let go":
            let_go()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    with held(store_root):
        pass


def test_an_interrupted_wait_leaves_no_lock(hf, store_root):
    """Ctrl-C while it waits is an ordinary end."""

    def interrupt():
        raise KeyboardInterrupt

    with held(store_root), while_waiting(hf, interrupt), pytest.raises(KeyboardInterrupt):
        hf.session("a", wait_ms=LONG_MS)
    with held(store_root):
        pass


def test_many_threads_that_wait_get_the_same_session(hf, store_root):
    """The one live object of the process serves all that waited for it."""
    got = []

    def wait():
        with hf.session("a", wait_ms=LONG_MS) as s:
            got.append(s)
            s.user("mine")

    with held(store_root) as let_go:
        threads = [threading.Thread(target=wait) for _ in range(5)]
        for thread in threads:
            thread.start()
        let_go()
        for thread in threads:
            thread.join(60)
    assert len(got) == 5
    assert len(list(hf.events("a", types=["user"]))) == 6


async def test_agents_and_runtimes_wait(store_root):
    """An agent that is made, or run, while another process has its session goes on with it."""
    with holdfast.open(store_root) as hf:
        with holdfast.Agent("test", agent_id="bob", persistent_session=True, hf=hf) as bob:
            await bob.run("one")
            id = bob.session_id
        kept = PersistentSession(wait_ms=LONG_MS)
        with held(store_root, id) as let_go:
            with pytest.raises(Locked):
                holdfast.Agent("test", agent_id="bob", persistent_session=True, hf=hf)
            agent = holdfast.Agent("test", agent_id="bob", persistent_session=kept, hf=hf)
            running = asyncio.create_task(agent.run("two"))
            await asyncio.sleep(0.005)
            assert not running.done()
            let_go()
            await running
        assert agent.session_id == id
        agent.close()

        async def answer(text, source, session):
            return text.upper()

        runtime = holdfast.Runtime(answer, hf, wait_ms=LONG_MS)
        with held(store_root, id) as let_go:
            with pytest.raises(Locked):
                runtime.session(id)  # a loop is not stopped
            running = asyncio.create_task(runtime.process_user_input("three", session=id))
            await asyncio.sleep(0.005)
            assert not running.done()
            let_go()
            assert await running == "THREE"
        await asyncio.to_thread(runtime.close)
        said = [e.data["content"] for e in hf.events(id, types=["user"])]
    assert said == ["one", "two", "three"]


def test_adapters_wait_by_the_same_means(hf, store_root):
    """The place of an adapter pauses as the library does."""
    place = AdapterSession(hf, "test", "a", wait_ms=LONG_MS)
    with held(store_root) as let_go, while_waiting(hf, let_go), place.writing() as session:
        session.user("two")
    place.close()
    with held(store_root), pytest.raises(Locked), AdapterSession(hf, "test", "a", wait_ms=1).writing():
        pass


WORKER = """
    import asyncio, sys
    import holdfast

    async def main(where, name, count):
        count = int(count)
        hf = holdfast.open(where)

        async def request(number):
            async with hf.session(f"s{number % 3}", wait_ms=100_000) as s, s.turn():
                s.user(f"q-{name}-{number}")
                await asyncio.sleep(0.001)
                s.assistant(f"a-{name}-{number}")

        print("ready", flush=True)
        sys.stdin.readline()
        await asyncio.gather(*(request(number) for number in range(count)))
        hf.close()

    asyncio.run(main(*sys.argv[1:]))
"""


def test_two_workers_serve_the_same_sessions(url):
    """Of many requests in two processes, on every store, none fails and no two turns mix."""
    count = 3 if url.startswith("s3:") else 15  # each is a second of requests in a bucket
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WORKER), url, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "xy"
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=300)
        assert worker.returncode == 0
    with holdfast.open(url) as hf:
        for id in ("s0", "s1", "s2"):
            said = [e.data["content"] for e in hf.events(id, types=["user", "assistant"])]
            assert len(said) == 4 * count // 3
            assert [a.replace("a-", "q-") for a in said[1::2]] == said[::2]
            assert hf.verify(id).ok
