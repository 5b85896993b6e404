"""Durable steps: what is known is not done again, and what is unknown is told."""

from __future__ import annotations

import asyncio
import functools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

import holdfast
from holdfast import RERUN, Retry
from holdfast.errors import OutcomeUnknown, ResultNotStored, StepFailed, StoreFull, UsageError
from holdfast.library import Holdfast
from holdfast.storage import Disk, FileStore


class Effects:
    """Counts what was done, by name."""

    def __init__(self):
        self.done = []

    def __call__(self, name, result=None):
        self.done.append(name)
        return result

    def never(self):
        """What must not be called."""
        raise AssertionError


@pytest.fixture
def effects():
    return Effects()


def cut_short(session, key, *args):
    """Leave a step begun and not ended, as a killed process does."""

    def die(name=None):
        raise SystemExit

    with pytest.raises(SystemExit):
        session.once(key, die, *args)


def types_of(hf, id):
    with hf.session(id, read_only=True) as reader:
        return [event.type for event in reader.events()]


def test_a_known_result_is_given_and_nothing_runs(hf, effects):
    """The second call with a key gives the first one's result, in a later opening as well."""
    with hf.session("a") as s:
        assert s.once("pay", effects, "pay", 7) == 7
        assert s.once("pay", effects, "pay", 7) == 7
    with hf.session("a") as s:
        assert s.once("pay", effects, "pay", 7) == 7
    assert effects.done == ["pay"]


def test_positional_and_named_arguments_are_the_same(hf, effects):
    """How an argument is passed does not make it another."""
    with hf.session("a") as s:
        s.once("pay", effects.__call__, "pay", result=1)
        assert s.once("pay", effects.__call__, name="pay", result=1) == 1


def test_other_arguments_are_refused(hf, effects):
    """A key stands for one piece of work: with other arguments it is a UsageError."""
    with hf.session("a") as s:
        s.once("pay", effects, "ten")
        with pytest.raises(UsageError, match="other arguments"):
            s.once("pay", effects, "twenty")
    assert effects.done == ["ten"]


@pytest.mark.parametrize("argument", [object(), {"a": {object()}}, lambda: 0])
def test_arguments_that_are_no_data_are_refused_before_anything_happens(hf, effects, argument):
    """Arguments that cannot be written as JSON: UsageError, nothing recorded, nothing run."""
    with hf.session("a") as s:
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            s.once("pay", effects, argument)
        assert (s.seq, effects.done) == (-1, [])


@pytest.mark.parametrize(
    ("key", "options"), [("", {}), (5, {}), ("a" * 2000, {}), ("k", {"unknown": "perhaps"}), ("k", {"retry": 3})]
)
def test_a_wrong_call_is_refused_before_anything_happens(hf, effects, key, options):
    """A bad key, policy or retry is a UsageError, and nothing is recorded."""
    with hf.session("a") as s:
        with pytest.raises(UsageError):
            s.once(key, effects, "x", **options)
        assert (s.seq, effects.done) == (-1, [])


def test_the_intent_is_on_record_before_the_function_runs(hf):
    """Inside of the function another reader already sees that the step has begun."""
    with hf.session("a") as s:
        seen = s.once("look", lambda: types_of(hf, "a"))
    assert seen[-1] == "step"


def test_first_and_later_calls_give_the_stored_value(hf):
    """Tuples come back as lists and numbers as names of members, the first time too."""
    with hf.session("a") as s:
        first = s.once("odd", lambda: {1: (2, 3)})
        assert first == s.once("odd", lambda: None) == {"1": [2, 3]}


@dataclass
class Receipt:
    """What a payment gives."""

    number: int
    lines: tuple[str, ...]


def test_a_value_comes_back_as_the_type_the_function_names(hf):
    """An annotated function gives its type back, from the record as well."""

    def pay() -> Receipt:
        return Receipt(5, ("a", "b"))

    with hf.session("a") as s:
        assert s.once("pay", pay) == s.once("pay", pay) == Receipt(5, ("a", "b"))


@pytest.mark.parametrize("size", [10, 1_000, 5_000, 300_000])
def test_long_values_come_back_whole(hf, size):
    """A value of any size is the same in the process that made it and in the next."""
    with hf.session("a") as s:
        assert s.once("long", lambda: "x" * size) == "x" * size
        s.snapshot()
    with hf.session("a") as s:
        for _ in range(30):
            s.user("more")
        assert s.once("long", lambda: None) == "x" * size


def test_a_result_that_cannot_be_stored_is_told_and_not_made_again(hf, effects):
    """Done without a value: every call says so, and the function ran once."""
    with hf.session("a") as s:
        for _ in range(2):
            with pytest.raises(ResultNotStored, match="could not be recorded"):
                s.once("odd", lambda: effects("odd", object()))
    assert effects.done == ["odd"]


def test_a_failure_is_known(hf, effects):
    """The first call raises what the function raised, a later one StepFailed with its words."""

    def fail():
        effects("tried")
        raise KeyError("no such account")

    with hf.session("a") as s:
        with pytest.raises(KeyError):
            s.once("pay", fail)
        with pytest.raises(StepFailed, match="no such account"):
            s.once("pay", fail)
    assert effects.done == ["tried"]


def test_retries_are_counted_over_processes(hf, effects):
    """Attempts go on counting where another left off; more of them may be granted later."""

    def flaky():
        effects("tried")
        if len(effects.done) < 4:
            raise ConnectionError("down")
        return "up"

    with hf.session("a") as s, pytest.raises(ConnectionError):
        s.once("get", flaky, retry=Retry(2))
    with hf.session("a") as s:
        with pytest.raises(StepFailed):
            s.once("get", flaky, retry=Retry(2))
        with pytest.raises(StepFailed):
            s.once("get", flaky, retry=Retry(9, on=(KeyError,)))
        with pytest.raises(ConnectionError):
            s.once("get", flaky, retry=Retry(3))  # one more than it had
        assert s.once("get", flaky, retry=Retry(5, on=OSError)) == "up"  # one class needs no tuple
        assert [event.data["attempt"] for event in s.events() if event.type == "step"] == [1, 2, 3, 4]


def test_the_wait_before_a_retry_is_on_record(hf):
    """When the next attempt is due is in the log, so that a restart does not wait anew."""
    waits = []

    def fail():
        raise ConnectionError

    with hf.session("a") as s:
        with pytest.raises(ConnectionError):
            s.once("get", fail, retry=Retry(2, wait_s=0.01))
        waits = [e.data["retry_at"] for e in s.events() if "retry_at" in e.data]
        begun = [e.timestamp for e in s.events() if e.type == "step"]
    assert len(waits) == 1
    assert begun[1] >= waits[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, TimeoutError, asyncio.CancelledError])
def test_what_was_given_up_is_unknown_not_failed(hf, error):
    """A cancelled or timed out step may have taken effect, and says so."""

    def give_up():
        raise error

    with hf.session("a") as s:
        with pytest.raises(error):
            s.once("send", give_up)
        with pytest.raises(OutcomeUnknown):
            s.once("send", give_up)


class ReadTimeout(Exception):
    """A time-out as libraries for HTTP have it: not a TimeoutError of Python."""


@pytest.mark.parametrize("error", [TimeoutError, ReadTimeout])
def test_a_timeout_is_tried_again_only_where_it_is_named(hf, effects, error):
    """``on`` that does not name it leaves the step unknown; a named one is unknown after the last attempt."""

    def give_up(name):
        effects(name)
        raise error

    with hf.session("a") as s:
        for name, on in (("any", (Exception,)), ("named", (error,))):
            with pytest.raises(error):
                s.once(name, give_up, name, retry=Retry(2, on=on))
            with pytest.raises(OutcomeUnknown):
                s.once(name, give_up, name, retry=Retry(2, on=on))
    assert effects.done == ["any", "named", "named"]


def test_an_unknown_step_leaves_the_step_around_it_unknown(hf, effects):
    """It has not failed for ever: it goes on once the inner one is looked up."""
    with hf.session("a") as s:
        cut_short(s, "inner")

        def outer(unknown="raise"):
            return s.once("inner", effects.never, unknown=unknown)

        def looked_up():
            return outer(lambda _: "found")

        with pytest.raises(OutcomeUnknown, match="inner"):
            s.once("outer", outer, unknown="rerun")
        assert s.once("outer", looked_up, unknown="rerun") == "found"


def test_an_unknown_outcome_is_raised_with_what_is_known(hf, effects):
    """The default for a step that began and did not end: nothing runs, and the error says what."""
    with hf.session("a") as s:
        cut_short(s, "pay", "pay")
    with hf.session("a") as s, pytest.raises(OutcomeUnknown) as caught:
        s.once("pay", effects, "pay")
    known = caught.value
    assert (known.key, known.attempt, known.session_id) == ("pay", 1, "a")
    assert known.begun_at > 0
    assert effects.done == []


def test_an_unknown_step_runs_again_where_it_may(hf, effects):
    """``unknown="rerun"``: the function runs, and the result is known from then on."""
    with hf.session("a") as s:
        cut_short(s, "pay", "pay")
        assert s.once("pay", lambda name: effects(name, 1), "pay", unknown="rerun") == 1
        assert s.once("pay", effects, "pay") == 1
    assert effects.done == ["pay"]


def test_an_unknown_step_may_be_looked_up(hf, effects):
    """A function given as ``unknown`` gives the result that it found, or says: run it again."""
    with hf.session("a") as s:
        cut_short(s, "found")
        cut_short(s, "missing")
        assert s.once("found", effects.never, unknown=lambda step: f"{step.key}!") == "found!"
        assert s.once("found", effects.never) == "found!"
        assert s.once("missing", lambda: effects("ran", 2), unknown=lambda _: RERUN) == 2
    assert effects.done == ["ran"]


def test_steps_nest_and_an_outer_one_goes_on_where_it_was(hf, effects):
    """An outer step that may run again gets the known results of the steps inside of it."""
    with hf.session("a") as s:

        @s.step
        def inner(name):
            return effects(name, len(effects.done))

        @s.step(unknown="rerun")
        def outer(names):
            found = [inner(name) for name in names]
            if len(effects.done) < 4:
                effects("cut")
                raise SystemExit
            return found

        with pytest.raises(SystemExit):
            outer(["a", "b", "a"])
        assert outer(["a", "b", "a"]) == [0, 1, 2]
        assert outer(["a", "b", "a"]) == [0, 1, 2]
    assert effects.done == ["a", "b", "a", "cut"]


def test_an_unknown_outer_step_names_what_is_done_inside(hf):
    """Without leave to run again it raises, and lists the steps inside that are done."""
    with hf.session("a") as s:

        def outer():
            s.once("inner", lambda: 1)
            raise SystemExit

        with pytest.raises(SystemExit):
            s.once("outer", outer)
        with pytest.raises(OutcomeUnknown, match="inner"):
            s.once("outer", outer)


def test_a_step_inside_of_itself_is_refused(hf):
    """It would wait for itself for ever."""
    with hf.session("a") as s, pytest.raises(UsageError, match="inside of itself"):
        s.once("loop", lambda: s.once("loop", lambda: 1))


def test_a_decorated_function_is_one_step_by_name_and_arguments(hf, effects):
    """Called again with the same arguments it gives the first result; ``key`` makes another."""

    @holdfast.step
    def book(city, *, nights=1):
        return effects(city, nights)

    @holdfast.step(key=lambda order: order["id"], name="ship")
    def ship(order):
        return effects(order["id"])

    with hf.session("a"):
        assert (book("Rome"), book(city="Rome"), book("Rome", nights=2)) == (1, 1, 2)
        ship({"id": "o1", "clock": object()})
        ship({"id": "o1", "clock": object()})
    assert effects.done == ["Rome", "Rome", "o1"]
    with pytest.raises(UsageError, match="none is open here"):
        book("Rome")


def test_a_closed_session_is_nobodys_block(hf, effects):
    """Blocks left in another order than they were entered in, as an interrupt may leave them, keep nothing alive."""
    book = holdfast.step(effects)
    first, second = hf.session("a").__enter__(), hf.session("b").__enter__()
    first.__exit__()
    second.__exit__()
    with pytest.raises(UsageError, match="none is open here"):
        book("Rome")
    with hf.session("c"):
        assert book("Rome", 1) == 1


def test_a_fork_knows_the_steps_before_it(hf, effects):
    """What was done before a fork is not done again in it; the two then go their own ways."""
    with hf.session("a") as s:
        s.once("pay", effects, "pay", 1)
    hf.fork("a", new_id="b")
    with hf.session("b") as s:
        assert s.once("pay", effects, "pay", 1) == 1
        s.once("more", effects, "b")
    with hf.session("a") as s:
        s.once("more", effects, "a")
    assert effects.done == ["pay", "b", "a"]


def test_two_threads_run_one_step_once(hf, effects):
    """The second caller of a key waits, and gets the result of the first."""
    started, go = threading.Event(), threading.Event()

    def slow():
        started.set()
        go.wait(30)
        return effects("slow", 1)

    with hf.session("a") as s:
        found = []
        workers = [threading.Thread(target=lambda: found.append(s.once("slow", slow))) for _ in range(4)]
        for worker in workers:
            worker.start()
        started.wait(30)
        go.set()
        for worker in workers:
            worker.join(30)
    assert (found, effects.done) == ([1] * 4, ["slow"])


async def test_async_steps_run_in_any_order(hf):
    """A hundred steps gathered in one order are known when they are gathered in another."""
    ran = []

    async def work(n):
        ran.append(n)
        await asyncio.sleep(0)
        return n * n

    order = list(range(100))
    async with hf.session("a") as s:
        for _ in range(3):
            random.Random(len(ran)).shuffle(order)
            found = await asyncio.gather(*(s.aonce(f"n{n}", work, n) for n in order))
            assert found == [n * n for n in order]
    assert sorted(ran) == list(range(100))


async def test_a_cancelled_async_step_is_unknown(hf):
    """Cancelled in the middle: nobody knows, and those who wait for it are told so."""
    begun = asyncio.Event()

    async def hang():
        begun.set()
        await asyncio.sleep(60)

    async with hf.session("a") as s:
        task = asyncio.create_task(s.aonce("hang", hang))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(OutcomeUnknown):
            await s.aonce("hang", hang)
        assert await s.aonce("sync", lambda: 3) == 3


def test_once_refuses_an_async_function(hf):
    """It would record a coroutine; the message names aonce."""

    async def work():
        """Never run."""

    with hf.session("a") as s, pytest.raises(UsageError) as caught:
        s.once("work", work)
    assert "aonce" in caught.value.remedy


def test_a_key_with_a_secret_is_refused(store_root, effects):
    """Recorded under another key the step would be done twice."""
    key = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    with Holdfast(store_root, timers=False, redaction="mark") as hf, hf.session("a") as s:
        with pytest.raises(UsageError, match="secret"):
            s.once(key, effects, "x")
        assert s.live_state.steps == {}  # else somebody would have to look what became of it
    assert effects.done == []


def test_a_failure_whose_words_hold_a_secret_is_a_failure(store_root):
    """With redaction that refuses secrets it is on record without its words."""

    def fail():
        raise PermissionError("ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6")

    with Holdfast(store_root, timers=False, redaction="block") as hf, hf.session("a") as s:
        with pytest.raises(PermissionError):
            s.once("pay", fail)
        with pytest.raises(StepFailed, match="holds a secret"):
            s.once("pay", fail)


class CountingDisk(Disk):
    """A disk that counts its syncs."""

    syncs = 0

    def sync(self, descriptor):
        self.syncs += 1
        super().sync(descriptor)


@pytest.mark.parametrize(("durability", "syncs"), [("barriers", 1), ("always", 2)])
def test_a_step_costs_one_sync_or_two_where_its_result_is_a_barrier(store_root, durability, syncs):
    """In a loop the result goes to the medium with the next intent, unless everything is synced at once."""
    disk = CountingDisk()
    store = FileStore(store_root, disk=disk)
    with Holdfast(store, timers=False) as hf, hf.session("a", durability=durability) as s:
        s.once("first", lambda: 0)
        before = disk.syncs
        for number in range(20):
            s.once(f"n{number}", lambda: 0)
        assert disk.syncs - before == 20 * syncs


def test_a_partial_function_has_the_name_of_what_it_calls(hf, effects):
    """``functools.partial`` is the way to give a function an own argument called ``retry``."""
    with hf.session("a") as s:
        s.once("p", functools.partial(effects.__call__, "pay"))
        (step,) = (event for event in s.events() if event.type == "step")
    assert step.data["name"] == "Effects.__call__"


def test_an_interrupt_while_a_step_waits_for_its_thread_is_no_failure_of_it(hf, monkeypatch):
    """Python's own wait raises RuntimeError in the place of the interrupt; the step can be done again."""

    def start(_, *__):
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    with hf.session("a") as s:
        with monkeypatch.context() as patch:
            patch.setattr(ThreadPoolExecutor, "submit", start)
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(s.aonce("step", lambda: "done"))
        assert s.once("step", lambda: "done", unknown="rerun") == "done"


def test_many_long_results_are_found_in_any_order(hf):
    """Values that are read from the log are the same in a later opening, whatever order they are asked for in."""
    numbers = list(range(300))
    with hf.session("a", durability="os") as s:
        for number in numbers:
            s.once(f"n{number}", lambda number: f"{number}," * 600, number)
    random.Random(7).shuffle(numbers)
    with hf.session("a") as s:
        for number in numbers:
            assert s.once(f"n{number}", lambda number: None, number) == f"{number}," * 600


def test_a_value_belongs_to_its_caller(hf):
    """What a caller does to a long value does not change what the next one gets."""
    with hf.session("a") as s:
        s.once("list", lambda: list(range(2000))).clear()
        s.once("list", lambda: None).clear()
        assert s.once("list", lambda: None) == list(range(2000))


def test_a_step_has_a_key_for_the_service_it_acts_on(hf, effects):
    """It is the same at each attempt and for who looks it up, and another in another session."""
    keys = []

    def pay():
        keys.append(holdfast.idempotency_key())
        raise SystemExit

    def look_up(step):
        keys.append(step.idempotency_key)
        return RERUN

    for id in ("a", "b"):
        with hf.session(id) as s:
            with pytest.raises(SystemExit):
                s.once("pay", pay)
            with pytest.raises(SystemExit):
                s.once("pay", pay, unknown=look_up)
    assert (len(set(keys[:3])), len(set(keys))) == (1, 2)
    with pytest.raises(UsageError, match="no step runs here"):
        holdfast.idempotency_key()


def test_the_key_of_a_step_that_is_open_at_a_fork_is_that_of_the_first_session(hf):
    """Done again in either branch it is the same payment; what begins after the fork is another one."""
    with hf.session("a") as s:
        cut_short(s, "open")
        fork = hf.fork("a", s.seq)
        mine = {name: s.once(name, holdfast.idempotency_key, unknown="rerun") for name in ("open", "new")}
    with hf.session(fork) as s:
        theirs = {name: s.once(name, holdfast.idempotency_key, unknown="rerun") for name in ("open", "new")}
    assert mine["open"] == theirs["open"]
    assert mine["new"] != theirs["new"]


def test_a_step_that_was_not_called_for_a_full_disk_is_not_unknown_to_who_was_there(hf, effects, monkeypatch):
    """It began, and its beginning could not be made safe: called again it happens; another process cannot know."""

    def full(session):
        raise StoreFull("no space is left")

    with hf.session("a") as s:
        for key in ("pay", "send"):
            with monkeypatch.context() as patched:
                patched.setattr(type(s), "barrier", full)
                with pytest.raises(StoreFull):
                    s.once(key, effects, key)
        assert effects.done == []
        s.once("pay", effects, "pay")
        s.once("pay", effects, "pay")
    with hf.session("a") as s:
        s.once("pay", effects, "pay")
        with pytest.raises(OutcomeUnknown):
            s.once("send", effects, "send")
    assert effects.done == ["pay"]
