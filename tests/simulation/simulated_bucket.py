"""A bucket in a simulated world: a server that keeps what it has, and a network that does not.

Each request of a process may be lost on the way, may lose its answer, or may arrive long after the
process gave up waiting or died. The server has a clock of its own, and so has each machine.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import patch

from obstore.exceptions import AlreadyExistsError, PreconditionError
from simulated_world import DAY_NS, SECOND_NS, Killed, World

from holdfast.storage._leases import Holder
from holdfast.storage.s3.objects import Objects

CHANGING = ("put", "delete")
LATE_STEPS = 400
RETRY_S = 30
SKEW_NS = DAY_NS
RENEWED_EVERY_NS = 1_500_000_000


class Server:
    """The objects, as every client sees them at once."""

    def __init__(self, world) -> None:
        self.world = world
        self.objects = {}
        self.late = []

    def put(self, path, data, mode="overwrite", attributes=None):
        """Store bytes, perhaps only over what they were meant for."""
        found = self.objects.get(path)
        if mode == "create" and found is not None:
            raise AlreadyExistsError(path)
        if isinstance(mode, dict) and (found is None or found["e_tag"] != mode["e_tag"]):
            raise PreconditionError(path)
        data = bytes(data)
        self.objects[path] = {
            "path": path,
            "data": data,
            "attributes": attributes or {},
            "size": len(data),
            # As buckets have it: the same bytes have the same mark.
            "e_tag": hashlib.md5(data, usedforsecurity=False).hexdigest(),
            "last_modified": datetime.fromtimestamp(self.world.server_ns // SECOND_NS, UTC),
        }

    def get(self, path):
        """An object with what is known of it."""
        found = self._found(path)
        return SimpleNamespace(meta=found, attributes=found["attributes"], bytes=lambda: found["data"])

    def head(self, path):
        """What is known of an object."""
        return self._found(path)

    def list(self, prefix="", offset=None, chunk_size=0):
        """Everything below a prefix, on one page."""
        paths = sorted(path for path in self.objects if path.startswith(prefix))
        return [[self.objects[path] for path in paths if offset is None or path > offset]]

    def delete(self, paths):
        """Objects go; of one that is missing nothing is said."""
        for path in [paths] if isinstance(paths, str) else paths:
            self.objects.pop(path, None)

    def deliver(self, *, all_of_them=False):
        """What was long on its way arrives; nobody waits for its answer."""
        due = [one for one in self.late if all_of_them or one[0] <= self.world.steps]
        self.late = [one for one in self.late if one not in due]
        for _, call, arguments, options in due:
            try:
                getattr(self, call)(*arguments, **options)
            except (AlreadyExistsError, PreconditionError):
                continue

    def _found(self, path):
        if path not in self.objects:
            raise FileNotFoundError(path)
        return self.objects[path]


class Link:
    """The bucket as one process reaches it, until it is killed."""

    def __init__(self, world, process) -> None:
        self.world = world
        self.process = process
        self.life = process.disk
        self.renewer = None
        self.renewed_ns = world.clock.steady_ns
        self.busy = False

    def do(self, call, arguments, options):
        """One request, and whatever becomes of it."""
        if self.life.dead:
            raise Killed
        world = self.world
        self._renew()
        world.note(self.process.name, call, (*arguments, *options.values()))
        world.server.deliver()
        fate = world.fate(call)
        if fate is not None:
            self._go_wrong(fate, call, arguments, options)
        result = getattr(world.server, call)(*arguments, **options)
        world.pause()
        if self.life.dead:
            raise Killed
        return result

    def _go_wrong(self, fate, call, arguments, options):
        """It was done or not, or will be; the process is gone, or does not hear of it."""
        luck = self.world.chance.randrange(3) if call in CHANGING else 0
        if luck == 1:
            try:
                getattr(self.world.server, call)(*arguments, **options)
            except (AlreadyExistsError, PreconditionError):
                pass  # the answer is lost too
        elif luck == 2:
            due = self.world.steps + self.world.chance.randrange(LATE_STEPS)
            self.world.server.late.append((due, call, arguments, options))
        if fate == "kill":
            self.process.die()
            raise Killed
        raise ConnectionResetError("simulated")

    def _renew(self):
        """What a thread of the process does beside: its leases are renewed when they are due."""
        now = self.world.clock.steady_ns
        if self.busy or self.renewer is None or now < self.renewed_ns + RENEWED_EVERY_NS:
            return
        self.busy, self.renewed_ns = True, now
        try:
            held = {key: kept for key, *kept in self.renewer._held.values()}
            lost = self.renewer._renew(held) if held else set()
            for lease in [one for one, kept in self.renewer._held.items() if kept[0] in lost]:
                del self.renewer._held[lease]
        finally:
            self.busy = False


class BucketWorld(World):
    """A world of machines around one bucket: no disk is shared, and no clock."""

    call_ns_max = 300_000_000
    disturb_part = 0.004

    def __init__(self, seed) -> None:
        super().__init__(seed)
        self.server = Server(self)
        self.skews = {}
        self.loss_part = 0.0
        self.fault_part *= 3  # a request is a larger thing than a call of a disk
        self.kill_part *= 3

    @property
    def server_ns(self):
        """The server's clock: nobody sets it, and it never sleeps."""
        return self.clock.real_ns

    def now_ns(self):
        """The clock of the machine that asks."""
        pid = self.current.pid if self.current else 0
        if pid not in self.skews:
            self.skews[pid] = self.chance.randrange(-SKEW_NS, SKEW_NS)
        return self.clock.wall_ns + self.skews[pid]


def at_once(_, work, values):
    return [work(value) for value in values]


class Buckets(ExitStack):
    """Requests go to the simulated server, one after the other; holders are on other machines."""

    def __init__(self, world) -> None:
        super().__init__()
        self.world = world

    def __enter__(self):
        super().__enter__()
        for call in ("put", "get", "head", "list", "delete"):
            self.enter_context(patch(f"obstore.{call}", _request(call)))
        for target, version in (
            ("holdfast.storage.s3.objects.random", SimpleNamespace(random=self.world.luck)),
            ("holdfast.storage.s3.key.AtOnce.map", at_once),
            ("holdfast.storage._leases.this_holder", self._holder),
            ("holdfast.storage.s3.store.open_objects", lambda _: Objects(None, RETRY_S)),
        ):
            self.enter_context(patch(target, version))
        return self

    def _holder(self, owner):
        pid = self.world.current.pid
        return Holder(pid, f"machine-{pid}", owner[:100])


def _request(call):
    def request(link, *arguments, **options):
        return link.do(call, arguments, options)

    return request
