"""Every state that a crash can leave, for all workloads of up to two operations."""

from __future__ import annotations

import pytest
from campaign_log import record
from crash_campaign import OPERATIONS, TWELVE, changes_count, recovery, repeatable, run_workload
from crash_checker import FULL, Checker

SCANTY = 4  # states of a workload whose recovery is crashed in its turn, on a push


@pytest.fixture(scope="module")
def checker():
    """One for all: a state of the disk that was opened once need not be opened again."""
    return Checker(stride=1 if FULL else 72)


def workloads(base, first):
    """Yield the workloads that begin with an operation, those left out that repeat a shorter one.

    On a push every fifth one follows, so that each operation comes after some of the others.
    """
    yield (first,)
    if changes_count(run_workload(base, (first,))[0].disk):
        names = list(OPERATIONS)
        seconds = names if FULL else names[names.index(first) % 5 :: 5]
        yield from ((first, second) for second in seconds)


def violations(checker, base, operations, **options):
    run, skip = run_workload(base, operations)
    with repeatable():
        for mode in ("power", "kill"):
            for text, state in checker.check(run, mode, skip=skip, **options):
                yield f"{base} {operations} {mode} {state!r}: {text}"


@pytest.mark.req("S2-104")
@pytest.mark.parametrize("first", OPERATIONS)
@pytest.mark.parametrize("base", ["empty", "existing"])
def test_crash_anywhere(checker, base, first):
    """Whenever it stops: what was promised is there, the log is a prefix, and it goes on."""
    for operations in workloads(base, first):
        assert list(violations(checker, base, operations)) == []


@pytest.mark.parametrize("second", [None, "append", "delete", "killed"])
def test_crash_in_a_repair(checker, second):
    """A repair that stops anywhere leaves the old log or the new one, and loses no whole event."""
    operations = ("repair",) if second is None else ("repair", second)
    assert list(violations(checker, "damaged", operations)) == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_names_in_any_combination(checker, operation):
    """The same when unsynced names reach the disk in any combination rather than in order."""
    run, _ = run_workload("empty", (operation,))
    found = checker.check(run, "power", subsets=True, step=64)
    with repeatable():
        assert [(text, repr(state)) for text, state in found] == []


@pytest.mark.parametrize("operations", [("append", "append"), ("batch", "append"), ("blob", "tool")])
def test_writes_in_any_order(operations):
    """When a later unsynced write survives an earlier one, nothing promised is lost either."""
    run, _ = run_workload("existing", operations)
    run.repair = "auto"  # a hole is damage, which is mended when asked
    found = Checker().check(run, "power", holes=True, step=64)
    with repeatable():
        assert [(text, repr(state)) for text, state in found] == []


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("base", ["empty", "existing", "damaged"])
def test_crash_in_recovery(checker, base, operation):
    """A crash during the recovery from a crash loses nothing either."""
    run, _ = run_workload(base, (operation,))
    with repeatable():
        for state in first_crashes(checker, run):
            again = recovery(run, state)
            for mode in ("power", "kill"):
                found = checker.check(again, mode, step=32)
                texts = [f"{state!r} then {mode} {nested!r}: {text}" for text, nested in found]
                assert texts == []


def first_crashes(checker, run):
    """States to recover from: all that were not cut in mid-line, or some of them."""
    states = {s.key: s for s in run.disk.crash_states("power", settled=("lock",), step=40)}
    chosen = list(states.values())
    return chosen if FULL else chosen[:: max(1, len(chosen) // SCANTY)]


def test_enough_was_looked_at(checker, capsys):
    """The campaign above read many thousands of states; fewer would mean a lost workload."""
    with capsys.disabled():
        print(f" [{checker.states:,} crash states read, {checker.opened:,} opened] ", end="")  # noqa: T201 - a figure to see
    record("crash states", checker.states)
    assert checker.states > (300_000 if FULL else 60_000)
    assert checker.opened > (5_000 if FULL else 1_200)


@pytest.mark.skipif(not FULL, reason="workloads of three operations are for `make torture`")
@pytest.mark.parametrize("first", TWELVE)
@pytest.mark.parametrize("base", ["empty", "existing"])
def test_crash_after_three(base, first):
    """The same for every workload of three out of the twelve operations."""
    checker = Checker(stride=144, combine=False)
    for second in TWELVE:
        for third in TWELVE:
            operations = (first, second, third)
            assert list(violations(checker, base, operations, step=4)) == []
    record("crash states", checker.states)
