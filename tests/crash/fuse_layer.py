"""A real file system that forgets what was not synced: a recording disk behind FUSE.

Run as ``python fuse_layer.py <mount point> <seed>``. Making a directory called ``.power-loss`` at
its top is the power loss: the disk becomes one of the states that it could then be in.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import stat
import sys

import mfusepy

from holdfast.testing import SimDisk

POWER_LOSS = "/.power-loss"
_STATES_MAX = 300


class Layer(mfusepy.Operations):
    """File system calls, handed to the recording disk."""

    use_ns = True

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.disk = SimDisk()
        self.lives = 0

    def _directory(self, path):
        descriptor = self.disk.open_root()
        for name in [part for part in path.split("/") if part]:
            below = self.disk.open_directory(name, descriptor)
            self.disk.close(descriptor)
            descriptor = below
        return descriptor

    def _inside(self, path, act):
        """Do something with the directory that a path is in, and its last name."""
        above, _, name = path.rpartition("/")
        directory = self._directory(above)
        try:
            return act(name, directory)
        finally:
            self.disk.close(directory)

    def _lose_power(self):
        _, *states = itertools.islice(self.disk.end_states(), _STATES_MAX)
        # The worst, or any other: half of the time each.
        state = states[0] if self.random.random() < 0.5 else self.random.choice(states)
        self.disk = state.disk()

    def getattr(self, path, fh=None):
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o700, "st_nlink": 2, "st_uid": os.getuid()}
        node = self._inside(path, self.disk.node_at)
        if node is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        kind = stat.S_IFDIR if node.is_directory else stat.S_IFREG
        return {
            "st_mode": kind | node.mode,
            "st_nlink": 1,
            "st_size": node.size,
            "st_mtime": node.modified,
            "st_uid": os.getuid(),
        }

    def readdir(self, path, fh):
        directory = self._directory(path)
        names = self.disk.scan(directory)
        self.disk.close(directory)
        return [".", "..", *names]

    def mkdir(self, path, mode):
        if path == POWER_LOSS:
            self._lose_power()
            raise mfusepy.FuseOSError(errno.EALREADY)
        self._inside(path, self.disk.make_directory)

    def rmdir(self, path):
        self._inside(path, self.disk.remove_directory)

    def create(self, path, mode, fi=None):
        return self._inside(path, self.disk.open_lock)

    def open(self, path, flags):
        return self._inside(path, self.disk.open_read)

    def read(self, path, size, offset, fh):
        return self.disk.read_at(fh, size, offset)

    def write(self, path, data, offset, fh):
        self.disk._get(fh).offset = offset
        return self.disk.write(fh, data)

    def truncate(self, path, length, fh=None):
        descriptor = fh or self.open(path, 0)
        self.disk.truncate(descriptor, length)
        if not fh:
            self.disk.close(descriptor)

    def fsync(self, path, datasync, fh):
        self.disk.sync(fh)

    def fsyncdir(self, path, datasync, fh):
        directory = self._directory(path)
        self.disk.sync_directory(directory)
        self.disk.close(directory)

    def release(self, path, fh):
        if fh in self.disk._open:  # what was open when the power went is closed already
            self.disk.close(fh)

    def unlink(self, path):
        self._inside(path, self.disk.unlink)

    def rename(self, old, new):
        def act(name, directory):
            self._inside(new, lambda to, target: self.disk.rename(name, directory, to, target))

        self._inside(old, act)

    def link(self, target, source):
        def act(name, directory):
            self._inside(target, lambda to, below: self.disk.link(name, directory, to, below))

        self._inside(source, act)

    def chmod(self, path, mode):
        return 0

    def utimens(self, path, times=None):
        return 0


if __name__ == "__main__":
    mfusepy.FUSE(
        Layer(int(sys.argv[2])),
        sys.argv[1],
        foreground=True,
        nothreads=True,
        direct_io=True,
        hard_remove=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
    )
