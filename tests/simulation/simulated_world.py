"""A whole world from one seed: its clock, its disk, its processes, and who of them goes next.

Each process is a greenlet with a library of its own on one disk that all share. At every call of
the disk, and whenever it asks for time to pass, another one may be let go on; which one, and what
goes wrong on the way, is drawn from the seed. Nothing else is left to chance, so a seed is a whole
report of a bug: the same seed does the same calls in the same order, to the last byte.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import itertools
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from unittest.mock import patch
from weakref import WeakValueDictionary

from greenlet import greenlet

from holdfast import library
from holdfast.storage import Worker
from holdfast.storage.disk import Disk
from holdfast.testing import DISK_CALLS, SimDisk

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
STUCK_STEPS = 200_000
COLLECTED_EVERY = 8
FAULTS = (errno.EIO, errno.ENOSPC, errno.EINTR, errno.EMFILE, errno.EDQUOT)
CHANGING = ("rename", "link", "unlink", "truncate", "make_directory")
SOUND = {"close", "open_root", "network_name", "boot_id", "lock"}
"""Calls that never fail: what closes is closed, and what is only asked is known."""


class Killed(BaseException):
    """The process is gone; what it does while it unwinds reaches nobody."""


class Stuck(Exception):
    """Everybody waits for somebody."""


class Clock:
    """Time as the processes see it: it goes on a little with each call, and jumps when told to."""

    def __init__(self) -> None:
        self.wall_ns = self.real_ns = START_NS
        self.steady_ns = 0

    def pass_by(self, ns: int) -> None:
        self.wall_ns += ns
        self.real_ns += ns
        self.steady_ns += ns

    def jump(self, ns: int) -> None:
        """Somebody sets the clock: the steady one does not notice."""
        self.wall_ns = max(SECOND_NS, self.wall_ns + ns)

    def suspend(self, ns: int) -> None:
        """The machine sleeps: the wall clock goes on, the steady one of Linux does not."""
        self.wall_ns += ns
        self.real_ns += ns


class SharedDisk(SimDisk):
    """The recording disk with the world's clock, and locks that are waited for."""

    def __init__(self, world, image=None) -> None:
        self.world = world
        super().__init__(image)

    def _touch(self, inode):
        self._times[inode] = self.world.clock.wall_ns

    def lock(self, descriptor, *, wait=False):
        while not super().lock(descriptor):
            if not wait:
                return False
            self.world.waiting += 1
            self.world.pause(must=True)
        return True

    def forget_process(self, descriptors):
        """A process is gone: its descriptors and locks go with it."""
        for descriptor in descriptors:
            opened = self._open.pop(descriptor, None)
            if opened is not None and self._locks.get(opened.inode) == descriptor:
                del self._locks[opened.inode]


class ProcessDisk(Disk):
    """The shared disk as one process has it: with its faults, until it is killed."""

    def __init__(self, world, process) -> None:
        self.world = world
        self.process = process
        self.descriptors = set()
        self.dead = False

    def die(self):
        self.dead = True
        self.world.disk.forget_process(self.descriptors)

    def do(self, call, arguments, options):
        if self.dead:
            if call == "close":
                return None
            raise Killed
        world = self.world
        if call == "close":  # it may be the collector that closes: nothing happens on the way
            self.descriptors.discard(arguments[0])
            return world.disk.close(*arguments)
        world.note(self.process.name, call, arguments)
        fate = world.fate(call)
        if fate == "kill":
            self._last_act(call, arguments, options)
            raise Killed
        if fate == "fault":
            raise OSError(world.chance.choice(FAULTS), "simulated")
        if fate == "short":
            arguments = (arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        result = getattr(world.disk, call)(*arguments, **options)
        if call.startswith("open_"):
            self.descriptors.add(result)
        world.pause()
        if self.dead:
            raise Killed
        return result

    def _last_act(self, call, arguments, options):
        """A process that is killed in a call has done it, or not, or a part of it."""
        chance = self.world.chance
        if call == "write":
            size = chance.randint(0, len(arguments[1]))
            self.world.disk.write(arguments[0], bytes(arguments[1])[:size])
        elif call in CHANGING and chance.random() < 0.5:
            getattr(self.world.disk, call)(*arguments, **options)
        self.process.die()


def _through(call):
    def through(self, *arguments, **options):
        return self.do(call, arguments, options)

    return through


for _call in DISK_CALLS:
    setattr(ProcessDisk, _call, _through(_call))


class Process:
    """Something that runs on its own, and may be killed and started again."""

    def __init__(self, world, name, body) -> None:
        self.world = world
        self.name = name
        self.body = body
        self.asleep_until = 0
        self.begun = 0
        """How many things it began to do, in all its lives."""
        self.disk = ProcessDisk(world, self)
        self.pid = next(world.pids)
        self.green = greenlet(self.run)

    def run(self):
        while True:
            try:
                self.body(self)
            except Killed:
                if self.world.over:
                    return
                self.world.note(self.name, "killed", ())
                self.disk = ProcessDisk(self.world, self)
                self.pid = next(self.world.pids)
            else:
                break
        self.world.processes.remove(self)

    def die(self):
        self.world.kills += 1
        self.disk.die()


class World:
    """Everything that a seed decides."""

    call_ns_max = 3_000_000
    disturb_part = 0.001

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.luck = self.chance.random
        self.bits = random.Random(seed + 1)
        self.clock = Clock()
        self.pids = itertools.count(10_000)
        self.disk = SharedDisk(self)
        self.processes = []
        self.current = None
        self.trace = hashlib.blake2b(digest_size=16)
        self.steps = self.waiting = self.kills = self.losses = self.faults = 0
        self.calm = self.over = False
        self.switch_part = self.chance.choice((0.02, 0.1, 0.4))
        self.kill_part = self.chance.choice((0.0, 0.0, 0.0005, 0.003))
        self.fault_part = self.chance.choice((0.0, 0.0, 0.0, 0.002, 0.01))
        self.on_power_loss = None
        self.loss_part = self.chance.choice((0.0, 0.0, 0.0003, 0.001))

    def now_ns(self):
        """The clock of the machine."""
        return self.clock.wall_ns

    # -- what happens ---------------------------------------------------------------------------

    def note(self, name, call, arguments):
        """One more step of the trace; descriptors are numbers that the seed decides too."""
        self.steps += 1
        if call == "write":
            arguments = (arguments[0], bytes(arguments[1]))
        told = f"{name} {call} {arguments!r} {self.clock.wall_ns}\n"
        self.trace.update(told.encode())

    def fate(self, call):
        self.clock.pass_by(int(self.luck() * self.call_ns_max))
        if self.calm:
            return None
        luck = self.luck()
        if luck < self.kill_part:
            return "kill"
        if luck < self.kill_part + self.fault_part and call not in SOUND:
            self.faults += 1
            return "short" if call == "write" and self.chance.random() < 0.5 else "fault"
        if luck > 1 - self.disturb_part:
            self._disturb()
        return None

    def _disturb(self):
        """The clock is set, the machine sleeps, or a process gets no time for long."""
        what = self.chance.randrange(3)
        if what == 0:
            self.clock.jump(self.chance.choice((-1, 1)) * self.chance.randrange(3_600 * SECOND_NS))
        elif what == 1:
            self.clock.suspend(self.chance.randrange(3 * DAY_NS))
        else:
            self.chance.choice(self.processes).asleep_until = self.steps + 300

    # -- who goes next --------------------------------------------------------------------------

    def pause(self, *, must=False):
        """Let another process go on, perhaps."""
        me = self.current
        if me is None:
            return
        if self.loss_part and not self.calm and self.luck() < self.loss_part:
            self.lose_power()
        if not must and self.luck() >= self.switch_part:
            return
        if self.waiting > STUCK_STEPS:
            raise Stuck(f"seed {self.seed}")
        self.switch_to(self._choose(me if must else None))
        if me.disk.dead:
            raise Killed

    def _choose(self, without=None):
        others = [p for p in self.processes if not p.green.dead and p is not without]
        awake = [p for p in others if p.asleep_until <= self.steps]
        if not others:
            raise Stuck(f"seed {self.seed}: nobody is left")
        return self.chance.choice(awake or others)

    def switch_to(self, process):
        if process is not self.current:
            before, self.current = self.current, process
            process.green.switch()
            self.current = before

    def lose_power(self):
        """The machine stops: everybody is gone, and of the disk what power loss leaves."""
        self.losses += 1
        for process in self.processes:
            process.disk.die()
        self.disk = SharedDisk(self, self.disk.lose_power(self.chance).image())
        self.note("world", "power", ())
        if self.on_power_loss is not None:
            self.on_power_loss()
        raise Killed

    def sleep(self, seconds):
        self.clock.pass_by(int(seconds * SECOND_NS))
        self.pause(must=len(self.processes) > 1)

    def run(self, bodies):
        """Run processes to their ends."""
        with simulated(self):
            self.processes = [Process(self, name, body) for name, body in bodies]
            everybody = list(self.processes)
            try:
                while self.processes:
                    self.current = self._choose()
                    self.current.green.switch()
            finally:
                self.current, self.over = None, bool(self.processes)
                for process in everybody:
                    process.disk.die()
                    with suppress(BaseException):
                        process.green.throw()


@contextmanager
def simulated(world) -> Iterator[None]:
    """Nothing from outside: no time, no chance, no threads, and no collection at odd moments."""
    gc.disable()
    with ExitStack() as stack:
        for target, version in (
            ("time.time_ns", world.now_ns),
            ("time.time", lambda: world.now_ns() / SECOND_NS),
            ("time.monotonic", lambda: world.clock.steady_ns / SECOND_NS),
            ("time.sleep", world.sleep),
            ("holdfast.session._clock.time_ns", world.now_ns),
            ("os.urandom", world.bits.randbytes),
            ("os.getpid", lambda: world.current.pid if world.current else 1),
            ("holdfast.session._opening.is_at_work", lambda pid, _host: _runs(world, pid)),
        ):
            stack.enter_context(patch(target, version))
        stack.enter_context(patch.object(library._core.live, "sessions", WeakValueDictionary()))
        stack.enter_context(patch.object(Worker, "_start", lambda _: False))
        stack.enter_context(patch("holdfast.session._clock._call_ids", []))
        try:
            yield
        finally:
            gc.enable()
            if world.seed % COLLECTED_EVERY == 0:
                gc.collect()


def _runs(world, pid):
    return any(process.pid == pid for process in world.processes)
