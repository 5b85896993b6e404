"""Durable steps under every crash: nothing known is done twice, nothing done is forgotten."""

from __future__ import annotations

from itertools import islice

import pytest
from campaign_log import FULL
from crash_campaign import repeatable

import holdfast
from holdfast.errors import OutcomeUnknown
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall
from holdfast.integrations._place import AdapterSession
from holdfast.storage import FileStore
from holdfast.testing import SimDisk

STEPS = 3
MODES = ["kill", "power"] if FULL else ["kill"]  # of what stands on the loop of steps
EACH = 1 if FULL else 4  # a push looks at every fourth state


def opened(disk):
    """The library on a simulated disk, its catalogue in memory."""
    store = FileStore("/store", disk=disk)
    store.catalog_place = lambda: None
    return holdfast.open(store)


def run(disk, *, unknown):
    """All steps of the program; the numbers of those that ran, with what they returned."""
    ran = []

    def work(number):
        ran.append(number)
        # What a step does outside stays done, whatever becomes of our disk.
        disk.acknowledge(("effect", number), survives_power_loss=True)
        return number * 10

    with opened(disk) as hf, hf.session("job", autosave_ms=None) as s:
        values = []
        for number in range(STEPS):
            values.append(s.once(f"n{number}", work, number, unknown=unknown))
            disk.acknowledge(("known", number))
    return ran, values


@pytest.mark.parametrize("mode", ["power", "kill"])
def test_crash_anywhere_in_a_loop_of_steps(mode):
    """After any crash: a step that took effect is known or told as unknown, and never run again."""
    with repeatable():
        disk = SimDisk()
        disk.make_directory("store", disk.open_root())
        base = SimDisk(disk.image())
        run(base, unknown="raise")
        looked, told = 0, 0
        for state in islice(base.crash_states(mode), 0, None, EACH):
            acted = {number for what, number in state.acknowledged if what == "effect"}
            known = {number for what, number in state.acknowledged if what == "known"}
            asked = []

            def look_up(step, asked=asked, acted=acted):
                number = int(step.key[1:])
                asked.append(number)
                return number * 10 if number in acted else holdfast.RERUN

            ran, values = run(state.disk(), unknown=look_up)
            assert values == [0, 10, 20]
            assert not acted & set(ran), "done twice"
            # Killed, what once gave is known; only a power cut may leave the last one unknown.
            assert mode == "power" or not known & set(asked)
            assert len(set(asked) & acted) <= 1
            looked, told = looked + 1, told + bool(asked)
        assert looked * EACH > 100
        assert told > 0


def test_an_unknown_step_is_raised_by_default():
    """Cut off between effect and result: the next process is told, and runs nothing."""
    with repeatable():
        disk = SimDisk()
        disk.make_directory("store", disk.open_root())
        base = SimDisk(disk.image())
        run(base, unknown="raise")
        raised = 0
        for state in islice(base.crash_states("kill"), 0, None, EACH):
            try:
                ran, _ = run(state.disk(), unknown="raise")
            except OutcomeUnknown:
                raised += 1
            else:
                assert not {n for what, n in state.acknowledged if what == "effect"} & set(ran)
        assert raised * EACH >= STEPS


def recorded(program):
    """A disk on which a program ran to its end."""
    disk = SimDisk()
    disk.make_directory("store", disk.open_root())
    base = SimDisk(disk.image())
    program(base, frozenset())
    return base


def mixed(disk, before):
    """Steps inside of a step, and one that fails and is tried again; what ran, was asked about and came out."""
    ran, asked = [], []

    def act(name, value):
        ran.append(name)
        disk.acknowledge(("effect", name), survives_power_loss=True)
        return value

    def fail_first():
        if "tried" not in before and "tried" not in ran:
            act("tried", None)
            raise ConnectionError
        return act("flaky", 7)

    def look_up(step):
        asked.append(step.key)
        return {"a": 1, "b": 2, "flaky": 7}[step.key] if step.key in before else holdfast.RERUN

    with opened(disk) as hf, hf.session("job", autosave_ms=None) as s:

        def both():
            return s.once("a", act, "a", 1, unknown=look_up) + s.once("b", act, "b", 2, unknown=look_up)

        retry = holdfast.Retry(3, on=(ConnectionError,))
        values = [s.once("outer", both, unknown="rerun"), s.once("flaky", fail_first, retry=retry, unknown=look_up)]
    return ran, asked, values


@pytest.mark.parametrize("mode", MODES)
def test_crash_anywhere_in_nested_and_retried_steps(mode):
    """After any crash: each effect is there once, what is looked up stays found, and the outer step goes on."""
    with repeatable():
        found = 0
        for state in islice(recorded(mixed).crash_states(mode), 0, None, EACH):
            before = frozenset(name for _, name in state.acknowledged)
            disk = state.disk()
            ran, asked, values = mixed(disk, before)
            assert values == [3, 7]
            assert not before & set(ran), "done twice"
            if asked:
                assert mixed(disk, before) == ([], [], values), "what was found is known"
                found += 1
        assert found > 0


def call_tool(disk, before):
    """A model that calls a durable tool until it is done: it looks before it calls again."""
    told, ran = [], []

    def pay():
        ran.append("pay")
        disk.acknowledge(("effect", "pay"), survives_power_loss=True)
        return "paid"

    with opened(disk) as hf:
        calls, place = DurableCalls("tell", ResultForm(lambda text, _: text)), AdapterSession(hf, "test", "trip")
        for number in range(3):
            told.append(calls.run(place, ToolCall(f"{len(before)}-{number}", "pay", {"cents": 5}), pay))
            if told[-1] == "paid" or "pay" in before:
                break
        place.close()
    return ran, told


@pytest.mark.parametrize("mode", MODES)
def test_crash_anywhere_in_a_durable_tool(mode):
    """After any crash a call made anew does not act again: it has the result, or is told that nobody knows."""
    with repeatable():
        unknown = 0
        for state in islice(recorded(call_tool).crash_states(mode), 0, None, EACH):
            before = frozenset(name for _, name in state.acknowledged)
            ran, told = call_tool(state.disk(), before)
            assert len(before) + len(ran) == 1
            assert told[-1] == "paid" or told[-1].startswith("Outcome unknown")
            unknown += told[0].startswith("Outcome unknown")
        assert unknown > 0
