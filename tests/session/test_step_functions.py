"""Functions that are hard to run once: those that do not run when they are called, odd arguments, results, errors."""

from __future__ import annotations

import asyncio
import functools
import types

import pytest
from pydantic import BaseModel, Field

from holdfast import Retry
from holdfast.errors import OutcomeUnknown, ResultNotStored, StepFailed, UsageError


class Effects:
    """Counts what was done, by name."""

    def __init__(self):
        self.done = []

    def __call__(self, name, result=None):
        self.done.append(name)
        return result


@pytest.fixture
def effects():
    return Effects()


def generator():
    """Nothing of it runs when it is called."""
    raise AssertionError
    yield


class Later:
    """An object that is async to call."""

    async def __call__(self):
        """Never run."""
        raise AssertionError


@pytest.mark.parametrize("fn", [generator, functools.partial(generator), Later()])
def test_a_function_whose_call_does_nothing_yet_is_refused(hf, fn):
    """It would be on record as done, and never have run."""
    with hf.session("a") as s:
        with pytest.raises(UsageError, match=r"is a generator|is async"):
            s.once("work", fn)
        assert s.seq == -1


def gives_coroutine():
    """A plain function, what it gives has to be awaited."""
    return Later()()


def gives_generator():
    """A plain function, what it gives has to be run."""
    return generator()


@pytest.mark.parametrize("fn", [gives_coroutine, gives_generator])
def test_what_is_still_to_be_run_is_no_result(hf, fn):
    """Whether anything took effect is unknown: it is told as that, and not as done."""
    with hf.session("a") as s:
        with pytest.raises(OutcomeUnknown, match="in the place of a result"):
            s.once("work", fn)
        assert s.once("work", lambda: 7, unknown="rerun") == 7


async def test_an_object_that_is_async_to_call_is_a_step(hf):
    """Steps that it takes belong to it, as those of an async function."""

    class Outer:
        """Takes a step."""

        async def __call__(self):
            """One step inside of it."""
            return s.once("inner", lambda: 1)

    async with hf.session("a") as s:
        assert await s.aonce("outer", Outer()) == 1
        assert s.live_state.steps["inner"].parent == "outer"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_an_argument_that_is_no_number_is_refused(hf, effects, number):
    """JSON has no form for it: as null it would be the same as None."""
    with hf.session("a") as s:
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            s.once("pay", effects, "pay", {"cents": [number]})
        assert (s.seq, effects.done) == (-1, [])


def test_the_arguments_of_a_partial_function_are_arguments(hf, effects):
    """Other ones are refused, however they are given."""
    with hf.session("a") as s:
        s.once("pay", functools.partial(effects.__call__, "ten", result=1))
        assert s.once("pay", effects.__call__, "ten", 1) == 1
        with pytest.raises(UsageError, match="other arguments"):
            s.once("pay", functools.partial(effects.__call__, "twenty", result=1))
    assert effects.done == ["ten"]


class Mute(Exception):
    """An exception whose text fails."""

    def __str__(self):
        raise RuntimeError


def test_a_failure_without_a_text_is_a_failure(hf):
    """The exception itself comes through, and is on record by its class."""

    def fail():
        raise Mute

    with hf.session("a") as s:
        with pytest.raises(Mute):
            s.once("pay", fail)
        with pytest.raises(StepFailed, match="Mute"):
            s.once("pay", fail)


def test_a_stop_iteration_of_the_function_comes_through(hf):
    """It is a failure as any other, not a RuntimeError about our generator."""
    with hf.session("a") as s, pytest.raises(StopIteration):
        s.once("next", lambda: next(iter(())))


class Odd:
    """What looks like a model, and fails when it is written."""

    def model_dump(self, **_):
        """Fail."""
        raise LookupError("\ud800")


def test_a_result_whose_own_code_fails_is_done_without_a_value(hf, effects):
    """The function has run: whatever its result raises when it is written does not hide that."""
    with hf.session("a") as s:
        for _ in range(2):
            with pytest.raises(ResultNotStored, match="LookupError"):
                s.once("odd", lambda: effects("odd", Odd()))
        with pytest.raises(UsageError, match="cannot be written"):
            s.once("even", effects, Odd())
    assert effects.done == ["odd"]


@pytest.mark.parametrize("member", [TimeoutError, asyncio.CancelledError, functools.partial(OutcomeUnknown, "inner")])
def test_a_group_with_something_given_up_in_it_is_unknown(hf, member):
    """A TaskGroup raises groups: one of its tasks may have taken effect."""

    def fail():
        raise BaseExceptionGroup("all", [ValueError(), BaseExceptionGroup("some", [member()])])

    with hf.session("a") as s:
        with pytest.raises(BaseExceptionGroup):
            s.once("all", fail, retry=Retry(1))
        with pytest.raises(OutcomeUnknown):
            s.once("all", fail)


def test_a_group_is_tried_again_after_what_is_in_it(hf, effects):
    """``on`` finds the classes of its members."""

    def fail():
        effects("tried")
        raise ExceptionGroup("all", [ConnectionError()])

    with hf.session("a") as s, pytest.raises(ExceptionGroup):
        s.once("all", fail, retry=Retry(2, on=(OSError,)))
    assert effects.done == ["tried"] * 2


@pytest.mark.parametrize("key", ["a\0b", "\ud800"])
def test_a_key_that_cannot_be_recorded_is_refused(hf, effects, key):
    """Before anything is on record."""
    with hf.session("a") as s:
        with pytest.raises(UsageError, match="cannot be recorded"):
            s.once(key, effects, "x")
        assert (s.seq, effects.done) == (-1, [])


class Named(BaseModel):
    """A model whose members have other names in JSON."""

    first_name: str = Field(alias="firstName")


def test_models_come_back_also_from_inside_of_other_types(hf):
    """By their aliases, in lists and maps, and where there may be none."""

    def one() -> Named:
        return Named(firstName="Ann")

    def many() -> dict[str, list[Named]]:
        return {"all": [one()]}

    def perhaps() -> Named | None:
        return one()

    with hf.session("a") as s:
        for _ in range(2):
            assert (s.once("one", one), s.once("many", many)) == (one(), many())
            assert s.once("perhaps", perhaps) == perhaps()


def test_functions_that_only_share_a_name_are_told_apart(hf, effects):
    """A lambda, and a function of another module, need a name of their own: one would get the other's result."""

    def notify(place):
        return effects(place, place)

    other = types.FunctionType(
        notify.__code__, {**globals(), "__name__": "billing"}, "notify", None, notify.__closure__
    )
    other.__qualname__ = notify.__qualname__
    with hf.session("a") as s:
        assert s.step(notify)("here") == "here"
        with pytest.raises(UsageError, match="cannot be told from others"):
            s.step(other)("here")
        with pytest.raises(UsageError, match="a lambda"):
            s.step(lambda: 1)()
        assert s.step(other, name="bill")("here") == "here"
    assert effects.done == ["here"] * 2
