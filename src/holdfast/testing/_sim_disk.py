"""A file system in memory that records all changes, to compute what a crash would leave."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from holdfast.storage import Disk, Node
from holdfast.testing import _crash_states as crash

_DESCRIPTOR_MIN = 100_000  # far from any real one, so that a mix-up is an error
_BIRTH_NS = 1_600_000_000_000_000_000


@dataclass(slots=True)
class _Open:
    """An open file or directory."""

    inode: int
    appends: bool
    offset: int = 0


class SimDisk(Disk):
    """The recording disk: pass it to a FileStore in place of the real one.

    ``calls`` is everything that was called, in order. ``crash_states`` gives each state in which a
    crash during those calls could have left the disk; ``state.disk()`` is that disk, on which to
    run recovery (and whose own crash states are the crashes during recovery).
    """

    def __init__(self, image: crash.Image | None = None) -> None:
        image = image or crash.Image({crash.ROOT: {}}, {})
        self._start = image
        self._entries = {inode: dict(names) for inode, names in image.entries.items()}
        self._contents = {inode: bytearray(data) for inode, data in image.contents.items()}
        self._times: dict[int, int] = {}
        self._links = Counter(inode for names in image.entries.values() for inode in names.values())
        self._open: dict[int, _Open] = {}
        self._locks: dict[int, int] = {}
        self._inodes = itertools.count(max([crash.ROOT, *self._entries, *self._contents]) + 1)
        self._descriptors = itertools.count(_DESCRIPTOR_MIN)
        self._ticks = itertools.count(_BIRTH_NS, 1_000_000)
        self._effects: list[crash.Effect] = []
        self._killed = 0
        self.calls: list[tuple[str, Any]] = []

    # -- what a crash leaves -------------------------------------------------------------------
    def acknowledge(self, what: Any, *, survives_power_loss: bool = False) -> None:
        """Note that the program under test has reported ``what`` as safe."""
        self._effects.append(crash.Acknowledged(what, survives_power_loss))

    def crash_states(self, mode: str = "power", **options: Any) -> Iterator[crash.CrashState]:
        """Yield every state that a crash so far can leave, by "power" or "kill"; options as in ``power_states``."""
        effects = list(self._effects)
        if mode == "kill":
            return crash.kill_states(self._start, effects, **options)
        return crash.power_states(self._start, effects, **options)

    def end_states(self) -> Iterator[crash.CrashState]:
        """Yield the disk as a kill would leave it now, then as power loss might, the worst first."""
        return crash.end_states(self._start, list(self._effects))

    def lose_power(self, chance: Random) -> crash.CrashState:
        """Return one of the states that power loss can leave now; the same for the same chance."""
        return crash.sampled_power_loss(self._start, list(self._effects), chance)

    def image(self) -> crash.Image:
        """Return the disk as programs see it now."""
        entries = {inode: dict(names) for inode, names in self._entries.items()}
        return crash.Image(entries, {inode: bytes(data) for inode, data in self._contents.items()})

    def kill(self) -> None:
        """End the process that has files open here: only its descriptors and locks disappear."""
        self._open.clear()
        self._locks.clear()
        # Lower numbers belong to the ended process: closing them is allowed and has no effect.
        self._killed = next(self._descriptors)

    @property
    def open_count(self) -> int:
        """Return the number of open descriptors: none may be left when everything is closed."""
        return len(self._open)

    def effects_count(self) -> int:
        """Return the number of calls so far that changed something, including acknowledgements."""
        return len(self._effects)

    def effects(self) -> list[crash.Effect]:
        return list(self._effects)

    # -- directories ---------------------------------------------------------------------------
    def open_root(self) -> int:
        self.calls.append(("open_root", None))
        return self._opened(crash.ROOT)

    def open_passage(self, name: str, parent: int) -> int:
        self.calls.append(("open_passage", name))
        return self._open_directory(name, parent)

    def open_directory(self, name: str, parent: int) -> int:
        self.calls.append(("open_directory", name))
        return self._open_directory(name, parent)

    def make_directory(self, name: str, parent: int) -> None:
        self.calls.append(("make_directory", name))
        directory = self._inode(parent)
        if name in self._entries[directory]:
            raise _error(errno.EEXIST, name)
        inode = next(self._inodes)
        self._entries[inode] = {}
        self._change(crash.EntryChange(None, (directory, name, inode), is_directory=True))

    def remove_directory(self, name: str, parent: int) -> None:
        self.calls.append(("remove_directory", name))
        directory, inode = self._find(name, parent)
        if inode in self._contents:
            raise _error(errno.ENOTDIR, name)
        if self._entries[inode]:
            raise _error(errno.ENOTEMPTY, name)
        self._change(crash.EntryChange((directory, name), None, is_directory=True))

    def sync_directory(self, descriptor: int) -> None:
        self.calls.append(("sync_directory", descriptor))
        self._effects.append(crash.SyncDirectory(self._inode(descriptor)))

    def scan(self, descriptor: int) -> list[str]:
        self.calls.append(("scan", descriptor))
        return list(self._entries[self._inode(descriptor)])

    def scan_inodes(self, descriptor: int) -> Iterator[tuple[str, int]]:
        self.calls.append(("scan_inodes", descriptor))
        return iter([*self._entries[self._inode(descriptor)].items()])

    def boot_id(self) -> str:
        return "simulated"

    # -- files ---------------------------------------------------------------------------------
    def open_log(self, name: str, parent: int, *, create: bool) -> int:
        self.calls.append(("open_log", name))
        return self._open_file(name, parent, create=create, appends=True)

    def open_new(self, name: str, parent: int) -> int:
        self.calls.append(("open_new", name))
        if name in self._entries[self._inode(parent)]:
            raise _error(errno.EEXIST, name)
        return self._open_file(name, parent, create=True)

    def open_read(self, name: str, parent: int) -> int:
        self.calls.append(("open_read", name))
        return self._open_file(name, parent, create=False)

    def open_lock(self, name: str, parent: int) -> int:
        self.calls.append(("open_lock", name))
        return self._open_file(name, parent, create=True)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.calls.append(("write", len(data)))
        opened = self._get(descriptor)
        content = self._contents[opened.inode]
        offset = len(content) if opened.appends else opened.offset
        taken = bytes(data)
        if offset > len(content):
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(taken)] = taken
        opened.offset = offset + len(taken)
        self._touch(opened.inode)
        self._effects.append(crash.Write(opened.inode, offset, taken))
        return len(taken)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        self.calls.append(("read_at", offset))
        return bytes(self._contents[self._inode(descriptor)][offset : offset + size])

    def truncate(self, descriptor: int, size: int) -> None:
        self.calls.append(("truncate", size))
        inode = self._inode(descriptor)
        content = self._contents[inode]
        # It changes nothing, so there is nothing that a crash could undo.
        if size == len(content):
            return
        del content[size:]
        content.extend(bytes(size - len(content)))
        self._touch(inode)
        self._effects.append(crash.Cut(inode, size))

    def sync(self, descriptor: int) -> None:
        self.calls.append(("sync", descriptor))
        self._effects.append(crash.Sync(self._inode(descriptor)))

    def unlink(self, name: str, parent: int) -> None:
        self.calls.append(("unlink", name))
        directory, inode = self._find(name, parent)
        if inode not in self._contents:
            raise _error(errno.EISDIR, name)
        self._change(crash.EntryChange((directory, name), None))

    def link(self, name: str, parent: int, to: str, to_parent: int) -> None:
        self.calls.append(("link", to))
        _, inode = self._find(name, parent)
        target = self._inode(to_parent)
        if to in self._entries[target]:
            raise _error(errno.EEXIST, to)
        self._change(crash.EntryChange(None, (target, to, inode)))

    def rename(self, name: str, parent: int, to: str, to_parent: int) -> None:
        self.calls.append(("rename", to))
        directory, inode = self._find(name, parent)
        target = self._inode(to_parent)
        replaced = self._entries[target].get(to)
        # As in POSIX: only an empty directory can be replaced by another.
        if replaced is not None and self._entries.get(replaced):
            raise _error(errno.ENOTEMPTY, to)
        is_directory = inode not in self._contents
        self._change(crash.EntryChange((directory, name), (target, to, inode), is_directory))

    # -- either --------------------------------------------------------------------------------
    def lock(self, descriptor: int, *, wait: bool = False) -> bool:
        self.calls.append(("lock", descriptor))
        holder = self._locks.setdefault(self._inode(descriptor), descriptor)
        # One thread plays all processes here, so waiting would block forever.
        if holder != descriptor and wait:
            raise _error(errno.EDEADLK, "the lock is held, and nobody will give it back")
        return holder == descriptor

    def node(self, descriptor: int) -> Node:
        self.calls.append(("node", descriptor))
        return self._node(self._inode(descriptor))

    def node_at(self, name: str, parent: int) -> Node | None:
        self.calls.append(("node_at", name))
        inode: int | None = self._inode(parent)
        for part in name.split("/"):
            inode = None if inode is None else self._entries.get(inode, {}).get(part)
        return None if inode is None else self._node(inode)

    def close(self, descriptor: int) -> None:
        self.calls.append(("close", descriptor))
        if descriptor < self._killed:
            return  # an object of the killed process is tidied up: to the disk that never happened
        opened = self._open.pop(descriptor, None)
        if opened is None:
            raise _error(errno.EBADF, str(descriptor))
        if self._locks and self._locks.get(opened.inode) == descriptor:
            del self._locks[opened.inode]

    def network_name(self, descriptor: int) -> str | None:
        self.calls.append(("network_name", descriptor))
        return None

    # -- inside --------------------------------------------------------------------------------
    def _opened(self, inode: int, *, appends: bool = False) -> int:
        descriptor = next(self._descriptors)
        self._open[descriptor] = _Open(inode, appends)
        return descriptor

    def _get(self, descriptor: int) -> _Open:
        found = self._open.get(descriptor)
        if found is None:
            raise _error(errno.EBADF, str(descriptor))
        return found

    def _inode(self, descriptor: int) -> int:
        return self._get(descriptor).inode

    def _find(self, name: str, parent: int) -> tuple[int, int]:
        directory = self._inode(parent)
        inode = self._entries[directory].get(name)
        if inode is None:
            raise _error(errno.ENOENT, name)
        return directory, inode

    def _open_directory(self, name: str, parent: int) -> int:
        if name == ".":
            return self._opened(self._inode(parent))
        _, inode = self._find(name, parent)
        if inode in self._contents:
            raise _error(errno.ENOTDIR, name)
        return self._opened(inode)

    def _open_file(self, name: str, parent: int, *, create: bool, appends: bool = False) -> int:
        directory = self._inode(parent)
        inode = self._entries[directory].get(name)
        if inode is None:
            if not create:
                raise _error(errno.ENOENT, name)
            inode = next(self._inodes)
            self._contents[inode] = bytearray()
            self._change(crash.EntryChange(None, (directory, name, inode)))
        elif inode not in self._contents:
            raise _error(errno.EISDIR, name)
        return self._opened(inode, appends=appends)

    def _change(self, change: crash.EntryChange) -> None:
        if change.removed is not None:
            directory, name = change.removed
            self._links[self._entries[directory].pop(name)] -= 1
            self._touch(directory)
        if change.added is not None:
            directory, name, inode = change.added
            replaced = self._entries[directory].get(name)
            if replaced is not None:
                self._links[replaced] -= 1
            self._entries[directory][name] = inode
            self._links[inode] += 1
            self._touch(directory)
        self._effects.append(change)

    def _touch(self, inode: int) -> None:
        self._times[inode] = next(self._ticks)

    def _node(self, inode: int) -> Node:
        content = self._contents.get(inode)
        mode = stat.S_IFDIR | 0o700 if content is None else stat.S_IFREG | 0o600
        modified = self._times.get(inode, _BIRTH_NS)
        return Node(inode, len(content or b""), modified, mode, os.geteuid(), self._links[inode])


def _error(number: int, what: str) -> OSError:
    """Return the error that the real system would raise, of the right class for its number."""
    return OSError(number, os.strerror(number), what)
