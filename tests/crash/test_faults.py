"""Every call of the disk failing at every position: a documented error, no damage, nothing lost."""

from __future__ import annotations

import errno

import pytest
from campaign_log import record
from crash_campaign import (
    OPERATIONS,
    Run,
    World,
    damaged_image,
    empty_image,
    events_before_damage,
    library,
    repeatable,
    tear,
)
from crash_checker import FULL, Checker

from holdfast.errors import HoldfastError
from holdfast.testing import DISK_CALLS, FaultyDisk, SimDisk

STEPS = (
    *("append", "flush", "blob", "batch", "snapshot", "tool", "title", "reopen", "append"),
    *("delete", "undelete", "append", "repair", "append", "flush", "killed", "tear", "append"),
    *("drop", "create", "find", "reopen"),
)
# Who holds a lease that runs out: files have locks instead. And figures that all may read: a store
# has none.
NOT_OF_FILES = {"process_space", "process_start", "show_to_all"}
MENDING = ("repair", "append", "flush", "killed")
WRITING_CALLS = (
    *("make_directory", "open_log", "open_new", "open_lock", "write", "sync", "sync_directory"),
    *("rename", "link", "unlink", "truncate", "lock"),
)
# On a push every sixth use of a call must do; `make torture` takes all.
STRIDE = 1 if FULL else 6
# Hundreds of times in the scenario, and writing nothing: on a push every 13th use must do.
OFTEN = ("close", "open_directory", "node_at")
ERRORS = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "EDQUOT", "EINTR", "EACCES", "EMFILE", "EROFS")}


def find(run):
    """As a user looks for sessions; what the catalogue goes by is looked at."""
    run.world.hf.list()
    run.world.hf.list()


OPERATIONS = {**OPERATIONS, "tear": tear, "find": find}


class FaultyRun(Run):
    """A run whose process sees the faults, and goes on after each error as a user would."""

    operations = OPERATIONS

    def __init__(self, image, known=None, **fault):
        disk = SimDisk(image)
        self.faulty = FaultyDisk(disk, **fault)
        super().__init__(disk, known=known, repair="raise" if known is None else "auto")
        self.world.hf.close()
        self.world = None
        self.errors = []

    def kill(self):
        self.disk.kill()
        library._core.live.sessions.clear()
        self.world = None
        self.world = World(self.faulty, self.heard)

    def go(self, steps, expected):
        for step in steps:
            try:
                self.world = self.world or World(self.faulty, self.heard)
                self.operations[step](self)
            except expected as error:
                self.errors.append(error)
                if self.world is not None:
                    self.give_up_dead_sessions(expected)
        self.disk.kill()
        library._core.live.sessions.clear()

    def give_up_dead_sessions(self, expected):
        """What a user does when a session says that it can no longer write."""
        for id, session in list(self.world.sessions.items()):
            if session.closed:
                self.world.sessions.pop(id)
            elif session._journal.writer.dead is not None:
                self.world.sessions.pop(id)
                try:
                    session.close()
                except expected as error:
                    self.errors.append(error)


def run_with(checker, expected=HoldfastError, *, mending=False, **fault):
    """Run everything with one fault; how often it fired. Fails if anything is broken after it."""
    with repeatable():
        known = events_before_damage() if mending else None
        image = damaged_image() if mending else empty_image()
        run = FaultyRun(image, known, **fault)
        run.go(MENDING if mending else STEPS, expected)
        told = f"{fault}: {run.errors!r}"
        for all_blobs, state in zip((True, False), run.disk.end_states(), strict=False):
            assert checker.violations(run, state, all_blobs=all_blobs) == [], told
    run_with.count += run.faulty.fired > 0
    return run.faulty.fired


run_with.count = 0


def positions(checker, **fault):
    """Run with the fault at its first, second, … use until it no longer comes; how many uses."""
    nth = 1
    while run_with(checker, nth=nth, **fault):
        nth += STRIDE
    return nth - 1


@pytest.fixture(scope="module")
def checker():
    """One for all: equal ends need not be opened twice."""
    return Checker()


@pytest.mark.parametrize("mending", [False, True])
def test_no_fault_is_no_error(mending):
    """Without a fault the scenario runs through, so that what follows fails by its faults only."""
    with repeatable():
        known = events_before_damage() if mending else None
        run = FaultyRun(damaged_image() if mending else empty_image(), known)
        run.go(MENDING if mending else STEPS, ())
    assert run.errors == []
    assert run.faulty.counts["*"] > 200


@pytest.mark.req("S2-104")
@pytest.mark.parametrize("call", sorted(set(DISK_CALLS) - NOT_OF_FILES))
def test_call_fails_once(checker, call):
    """Each use of each call fails once, with an error that turns with the position."""
    numbers = list(ERRORS.values())
    stride = 13 if call in OFTEN and not FULL else STRIDE
    count = 0
    for mending in (False, True):
        nth = 1
        number = numbers[nth % len(numbers)]
        while run_with(checker, call=call, nth=nth, errno=number, mending=mending):
            nth += stride
            number = numbers[nth % len(numbers)]
        count += nth - 1
    assert count > 0, "the scenario never uses this call"


@pytest.mark.parametrize("name", ["EIO", "ENOSPC", "EINTR"])
@pytest.mark.parametrize("call", WRITING_CALLS)
def test_writing_call_fails_once(checker, call, name):
    """Each use of each call of the write path fails once, with each of the common errors."""
    number = ERRORS[name]
    once = positions(checker, call=call, errno=number)
    assert once + positions(checker, call=call, errno=number, mending=True) > 0


@pytest.mark.parametrize("name", ERRORS)
def test_disk_fails_from_some_moment_on(checker, name):
    """From some call on nothing works any more: errors, and afterwards nothing is lost."""
    stride = 1 if FULL else 53
    nth = 1 + list(ERRORS).index(name)
    while run_with(checker, nth=nth, errno=ERRORS[name], persistent=True):
        nth += stride
    assert nth > 500


@pytest.mark.parametrize("short", [0, 1, 0.5])
def test_short_writes(checker, short):
    """A write that takes nothing, one byte or half: the rest follows, or nothing was added."""
    assert positions(checker, call="write", short=short) > 20


def test_full_disk_takes_part_of_a_write(checker):
    """A full disk takes some bytes and then no more: what was taken is taken back."""
    for nth in range(1, 40, 1 if FULL else 4):
        run_with(checker, call="write", nth=nth, short=1, persistent=True)
        run_with(checker, call="write", nth=nth, short=0, persistent=True)


def test_interrupted_anywhere(checker):
    """A key press that interrupts any call leaves nothing half done."""
    stride = 1 if FULL else 13
    nth = 1
    while run_with(checker, (HoldfastError, KeyboardInterrupt), nth=nth, interrupt=KeyboardInterrupt):
        nth += stride
    assert nth > 500


def test_enough_was_tried(capsys):
    """The tests above made thousands of runs in which a fault came; fewer would mean a lost one."""
    with capsys.disabled():
        print(f" [{run_with.count:,} runs with a fault] ", end="")  # noqa: T201 - a figure to see
    record("faults", run_with.count)
    assert run_with.count > (1_100 if FULL else 300)
