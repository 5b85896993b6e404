"""Turns of one session are kept apart within a process."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import UsageError


def words(hf, id):
    return [e.data["content"] for e in hf.events(id) if e.type in ("user", "assistant")]


def in_pairs(said):
    return all(q[0] == "q" and a == "a" + q[1:] for q, a in zip(said[::2], said[1::2], strict=True))


async def test_requests_of_one_loop_wait_for_each_other(hf):
    """Each request's turn is whole before the next begins, in the order they came."""

    async def request(number):
        async with hf.session("same") as s, s.turn():
            s.user(f"q{number}")
            await asyncio.sleep(0.002)
            s.assistant(f"a{number}")

    await asyncio.gather(*(request(number) for number in range(5)))
    assert words(hf, "same") == [f"{kind}{number}" for number in range(5) for kind in "qa"]
    assert len(hf.recover("same").messages) == 10


def test_threads_and_loops_wait_for_each_other(hf):
    """Threads, tasks of several loops and a mixture of them share one line."""
    ready = threading.Barrier(4)

    def in_thread(number):
        with hf.session("same") as s, s.turn():
            s.user(f"q{number}")
            s.flush()
            s.assistant(f"a{number}")

    async def in_loop(number):
        async with hf.session("same") as s, s.turn():
            s.user(f"q{number}")
            await asyncio.sleep(0.001)
            s.assistant(f"a{number}")

    async def loop_of(numbers):
        await asyncio.gather(*(in_loop(number) for number in numbers))

    def work(number):
        ready.wait(10)
        for turn in range(5):
            if number % 2:
                in_thread(100 * number + turn)
            else:
                asyncio.run(loop_of(range(1000 * number + 10 * turn, 1000 * number + 10 * turn + 3)))

    with hf.session("same"), ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    said = words(hf, "same")
    assert len(said) == 2 * (2 * 5 + 2 * 15)
    assert in_pairs(said)


async def test_delegates_do_not_wait_for_the_turn_that_waits_for_them(hf):
    """Other runs have turns of their own, in tasks and in threads."""
    async with hf.session("a") as s:

        async def delegate(run):
            async with s.turn(run=run):
                s.assistant(run, run=run)
                await asyncio.sleep(0)

        def in_thread(run):
            with s.turn(run=run):
                s.assistant(run, run=run)

        async with s.turn():
            await asyncio.gather(delegate("x"), delegate("y"))
            await asyncio.to_thread(in_thread, "z")
            await asyncio.get_running_loop().run_in_executor(None, in_thread, "w")
    starts = hf.events("a", types=["turn_start"])
    assert sorted(str(event.run) for event in starts) == ["None", "w", "x", "y", "z"]


async def test_turns_of_one_delegate_are_kept_apart(hf):
    """Inside of a turn those of another run wait for each other."""
    async with hf.session("a") as s:

        async def delegate(number):
            async with s.turn(run="x"):
                s.user(f"q{number}", run="x")
                await asyncio.sleep(0.001)
                s.assistant(f"a{number}", run="x")

        async with s.turn():
            await asyncio.gather(*(delegate(number) for number in range(3)))
    assert in_pairs(words(hf, "a"))


def test_a_turn_inside_of_a_turn_is_a_part_of_it(hf):
    """A function that opens its own turn can be called within one."""
    with hf.session("a") as s:
        with s.turn(), s.turn():
            s.user("hi")
        with s.turn():
            assert s.state.open_turn is not None
    assert len(list(hf.events("a", types=["turn_end"]))) == 3


async def test_a_task_begun_in_a_turn_waits_once_that_has_ended(hf):
    """What was begun inside of a turn is no part of the next one."""
    async with hf.session("a") as s:
        go_on, said = asyncio.Event(), []

        async def later():
            await go_on.wait()
            async with s.turn():
                said.append("later")

        async with s.turn():
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
        async with s.turn():
            go_on.set()
            await asyncio.sleep(0.005)
            said.append("first")
        await task
    assert said == ["first", "later"]


async def test_waiting_that_would_stop_the_loop_is_refused(hf):
    """A plain ``with`` in a loop gets the turn if it is free, and is told how to wait if not."""
    async with hf.session("a") as s:
        with s.turn():
            s.user("free")

        async def other():
            with pytest.raises(UsageError, match="waiting for it would stop") as caught, s.turn():
                pytest.fail("two turns at once")
            assert "async with" in caught.value.remedy

        holding = asyncio.Event()

        async def holder():
            async with s.turn():
                holding.set()
                await asyncio.sleep(0.01)

        task = asyncio.create_task(holder())
        await holding.wait()
        await other()
        await task
        async with s.turn():
            s.user("again")
    assert len(list(hf.events("a", types=["turn_start"]))) == 3


def test_waiting_for_oneself_is_refused(hf):
    """In one thread a turn of another context is not waited for, which would be for ever."""
    with hf.session("a") as s:

        def inner():
            with s.turn():
                pytest.fail("two turns at once")

        with s.turn(), pytest.raises(UsageError):
            contextvars.Context().run(inner)


async def test_whoever_gives_up_waiting_leaves_the_line(hf):
    """A cancelled wait holds nobody up, whether the turn had come to it or not."""
    async with hf.session("a") as s:

        async def waiting():
            async with s.turn():
                await asyncio.sleep(0)

        for delay in range(4):
            async with s.turn():
                tasks = [asyncio.create_task(waiting()) for _ in range(3)]
                await asyncio.sleep(0)
                tasks[1].cancel()
            for _ in range(delay):
                await asyncio.sleep(0)
            tasks[0].cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done[1], asyncio.CancelledError)
            assert done[2] is None
        async with s.turn():
            s.user("free")


def test_an_interrupted_wait_leaves_the_line(hf, monkeypatch):
    """Ctrl-C while a thread waits for the turn gives up its place."""
    with hf.session("a") as s:
        turns = s.turns
        holding, interrupted = threading.Event(), threading.Event()

        def interrupt(ticket):
            interrupted.set()
            raise KeyboardInterrupt

        monkeypatch.setattr(turns, "_check_can_wait", interrupt)

        def holder():
            with s.turn():
                holding.set()
                interrupted.wait(10)

        thread = threading.Thread(target=holder)
        thread.start()
        holding.wait(10)
        with pytest.raises(KeyboardInterrupt), s.turn():
            pytest.fail("two turns at once")
        thread.join(10)
        with s.turn():
            s.user("free")


async def test_a_turn_that_cannot_begin_is_given_on(hf):
    """A session that refuses the beginning of a turn does not keep the others out for ever."""
    s = hf.session("a")
    s.user("hi")
    turn = s.turn()
    s.close()
    with pytest.raises(UsageError):
        turn.__enter__()
    with pytest.raises(UsageError):
        await turn.__aenter__()


def test_a_loop_that_is_gone_keeps_nobody_waiting(hf):
    """A task that waits in a loop that was closed under it loses its place."""
    with hf.session("a") as s:
        with s.turn():
            loop = asyncio.new_event_loop()

            async def waiting():
                async with s.turn():
                    pytest.fail("its loop is closed")

            task = loop.create_task(waiting(), context=contextvars.Context())
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            task._log_destroy_pending = False
        with s.turn():
            s.user("free")
        task.get_coro().close()


async def test_an_agent_and_a_turn_of_ones_own_are_kept_apart(hf):
    """A turn that the program records and one that an agent runs wait for each other."""
    from holdfast import Agent

    asked = asyncio.Event()

    async def slow(text: str) -> str:
        """Take a while."""
        asked.set()
        await asyncio.sleep(0.02)
        return text

    agent = Agent("test", tools=[slow])
    async with hf.session("a") as s:

        async def own():
            await asked.wait()
            async with s.turn():
                s.user("mine")

        await asyncio.gather(agent.run("yours", session=s), own())
        async with s.turn():
            await agent.run("inside", session=s)  # a part of the turn around it
    kinds = [(e.type, e.data.get("content")) for e in hf.events("a")]
    assert kinds.index(("user", "mine")) > [kind for kind, _ in kinds].index("turn_end")
