"""Crashes and faults while a log takes another form: branched, detached, archived, taken out."""

from __future__ import annotations

import errno

import pytest
from campaign_log import record
from crash_campaign import FORMS, OPERATIONS, TWELVE, empty_image, existing_image, recovery, repeatable, run_workload
from crash_checker import FULL, Checker
from test_faults import WRITING_CALLS, FaultyRun

from holdfast.errors import HoldfastError

WORKLOADS = (
    *(("fork",), ("fork", "fork"), ("fork", "detach"), ("fork", "archive"), ("fork", "go_on")),
    *(("fork", "delete"), ("fork", "killed"), ("blob", "fork"), ("archive", "fork")),
    *(("archive",), ("archive", "append"), ("archive", "unarchive"), ("archive", "delete")),
    *(("archive", "killed"), ("blob", "archive"), ("overwrite",), ("fork", "overwrite"), ("archive", "overwrite")),
)
NEW = ("archive", "fork", "merge")
PAIRS = [
    (first, second)
    for first in TWELVE
    for second in TWELVE
    if (first in NEW or second in NEW) and (first, second) not in WORKLOADS
]
STEPS = (
    *("append", "blob", "fork", "go_on", "archive", "go_on", "detach", "fork", "archive"),
    *("killed", "detach", "unarchive", "archive", "go_on", "fork", "overwrite", "append"),
)


@pytest.fixture(scope="module")
def checker():
    """One for all: a state of the disk that was opened once need not be opened again."""
    return Checker(stride=1 if FULL else 480)


def violations(checker, base, operations, modes=("power", "kill"), **options):
    run, skip = run_workload(base, operations)
    with repeatable():
        for mode in modes:
            for text, state in checker.check(run, mode, skip=skip, **options):
                yield f"{base} {operations} {mode} {state!r}: {text}"


@pytest.mark.req("S2-104")
@pytest.mark.parametrize("operations", WORKLOADS, ids=" ".join)
def test_crash_in_another_form(checker, operations):
    """Whenever it stops: each log is whole in the one form or the other, and goes on."""
    step = 1 if FULL else 40
    assert list(violations(checker, "existing", operations, step=step)) == []


@pytest.mark.parametrize("operations", [("merge",), *PAIRS], ids=" ".join)
def test_crash_in_every_pair_with_a_form(checker, operations):
    """The same for each pair of the twelve operations of which one changes a log's form."""
    thinned = {} if FULL else {"modes": ["power"], "step": 400, "every": 8}
    assert list(violations(checker, "existing", operations, **thinned)) == []


@pytest.mark.parametrize("operations", [("fork",), ("blob", "fork"), ("fork", "detach")])
def test_crash_in_another_form_of_a_young_session(checker, operations):
    """The same when the session itself was never flushed."""
    assert list(violations(checker, "empty", operations, step=16)) == []


@pytest.mark.parametrize(
    "operations",
    [("fork",), ("fork", "detach"), ("fork", "archive"), ("fork", "overwrite"), ("archive",), ("archive", "append")],
)
def test_names_of_forms_in_any_combination(checker, operations):
    """The same when unsynced names reach the disk in any combination rather than in order."""
    found = violations(checker, "existing", operations, ["power"], subsets=True, step=64)
    assert list(found) == []


@pytest.mark.parametrize("operations", [("fork",), ("fork", "detach"), ("fork", "overwrite"), ("archive", "append")])
def test_crash_in_recovery_of_forms(checker, operations):
    """A crash during the recovery from such a crash loses nothing either."""
    run, skip = run_workload("existing", operations)
    with repeatable():
        states = run.disk.crash_states("power", settled=("lock",), step=200)
        chosen = list({s.key: s for s in states if s.after > skip}.values())
        for state in chosen if FULL else chosen[:: max(1, len(chosen) // 5)]:
            again = recovery(run, state)
            for mode in ("power", "kill"):
                found = checker.check(again, mode, step=64)
                texts = [f"{state!r} then {mode} {nested!r}: {text}" for text, nested in found]
                assert texts == []


class FormRun(FaultyRun):
    """A faulty run that knows the forms."""

    operations = OPERATIONS | FORMS


def run_with(checker, expected=HoldfastError, **fault):
    """Run the steps with one fault; how often it fired. Fails if anything is broken after it."""
    with repeatable():
        run = FormRun(empty_image(), **fault)
        run.go(STEPS, expected)
        told = f"{fault}: {run.errors!r}"
        for all_blobs, state in zip((True, False), run.disk.end_states(), strict=False):
            assert checker.violations(run, state, all_blobs=all_blobs) == [], told
    return run.faulty.fired


def positions(checker, stride, expected=HoldfastError, **fault):
    """Run with the fault at every so many-th use until it no longer comes; the last position."""
    nth = 1
    while run_with(checker, expected, nth=nth, **fault):
        nth += stride
    record("faults", (nth - 1) // stride)
    return nth


def test_no_fault_is_no_error_in_forms():
    """Without a fault the steps run through, so that what follows fails by its faults only."""
    with repeatable():
        run = FormRun(existing_image())
        run.go(STEPS, ())
    assert run.errors == []
    assert run.faulty.counts["link"] >= 3


@pytest.mark.parametrize("name", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", [*WRITING_CALLS, "scan", "read_at", "open_read"])
def test_call_fails_in_another_form(checker, call, name):
    """Each use of each call fails once: a documented error, no damage, and nothing is lost."""
    stride = 1 if FULL else 11 if call in ("read_at", "open_lock", "lock", "write") else 3
    last = positions(checker, stride, call=call, errno=getattr(errno, name))
    assert last > 1, "the scenario never uses this call"


@pytest.mark.parametrize("name", ["EMLINK", "EXDEV", "EPERM", "EOPNOTSUPP"])
def test_no_second_names(checker, name):
    """Where files can have no second name a branch is a copy, and nobody notices."""
    with repeatable():
        run = FormRun(empty_image(), call="link", nth=1, errno=getattr(errno, name), persistent=True)
        run.go(STEPS, ())
        assert run.errors == []
        for state in run.disk.end_states():
            assert checker.violations(run, state) == []
    assert run.faulty.fired > 2


def test_disk_fails_for_good_in_another_form(checker):
    """From some call on nothing works any more: errors, and afterwards nothing is lost."""
    assert positions(checker, 1 if FULL else 197, errno=errno.EIO, persistent=True) > 500


def test_interrupted_in_another_form(checker):
    """A key press that interrupts any call leaves nothing half done."""
    expected = (HoldfastError, KeyboardInterrupt)
    stride = 1 if FULL else 61
    assert positions(checker, stride, expected, interrupt=KeyboardInterrupt) > 500


def test_enough_forms_were_looked_at(checker):
    """The campaign of forms read many thousand states; fewer would mean a lost workload."""
    record("crash states", checker.states)
    assert checker.states > 15_000
