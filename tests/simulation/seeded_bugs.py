"""Mistakes that only show when processes meet: the simulation must find each of them."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

from simulated_world import SharedDisk

from holdfast.storage._file_log import FileLog
from holdfast.storage._tree import Tree


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


def with_bug(name):
    """The code with one of the mistakes."""
    stack = ExitStack()
    for owner, attribute, version in BUGS[name]:
        stack.enter_context(patch.object(owner, attribute, version))
    return stack
