"""Mistakes that only show when processes meet: the simulation must find each of them."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from simulated_world import SharedDisk

from holdfast.storage._deferred import SendingLog
from holdfast.storage.files.log import FileLog
from holdfast.storage.files.tree import Tree
from holdfast.storage.s3 import key
from holdfast.storage.s3.log import LogObjects, next_number
from holdfast.storage.s3.objects import Objects


def nothing(*_, **__):
    return None


def cut_without_keeping(log, offset, epoch):
    log._size = log._synced = offset


BUGS = {
    "lock not held": [(SharedDisk, "lock", lambda *_, **__: True)],
    "acknowledged before the sync": [(FileLog, "sync", nothing)],
    "no sync of directories": [(Tree, "sync", nothing)],
    "torn tail not handled": [(FileLog, "cut", cut_without_keeping)],
}


def put_over(objects, path, data, create=Objects.create):
    if "/log/" not in path:
        return create(objects, path, data)
    objects.put(path, data)
    return True


def believe_what_is_taken(objects, path, data, create=Objects.create):
    """What is there already must be one's own, of a try whose answer was lost."""
    return create(objects, path, data) or "/log/" in path


def write_behind_the_fence(pieces, packet, append=LogObjects.append):
    """Whoever is overtaken goes on after the other one."""
    error = append(pieces, packet)
    if error is None:
        return None
    head = pieces.head()
    pieces.forget()
    number = next_number(pieces.pieces(head))
    return None if pieces._create(head, number, packet.epoch, packet.data) else error


LEASE_BUGS = {
    "objects made without a condition": [(Objects, "create", put_over)],
    "a taken place believed to be one's own": [(Objects, "create", believe_what_is_taken)],
    "failures of sending forgotten": [(SendingLog, "_check", nothing)],
    "epoch not checked": [(LogObjects, "append", write_behind_the_fence)],
}
"""Mistakes of a store whose leases run out."""
COURTESY = [(key, "check_free", nothing)]
"""No mistake: a lease only keeps others from disturbing, and proves nothing."""


def with_bug(name):
    """The code with one of the mistakes."""
    return patched((BUGS | LEASE_BUGS)[name])


def patched(versions):
    """The code with other versions of some parts."""
    stack = ExitStack()
    for owner, attribute, version in versions:
        stack.enter_context(patch.object(owner, attribute, version))
    return stack
