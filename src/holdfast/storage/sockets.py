"""A socket in the file system that only its owner can reach."""

from __future__ import annotations

import os
import socket
import stat
from typing import Self

from holdfast.errors import Forbidden, Locked, UsageError
from holdfast.storage.disk import Disk
from holdfast.storage.files.tree import Tree, let_go, translation

ADDRESS_BYTES_MAX = 100
"""What every system takes as the path of a socket; some take a few bytes more."""
_OPEN_TO_OTHERS = 0o077
_OWNER_ONLY = 0o177
_WAITING_MAX = 64


class PrivateSocket:
    """Listens at a path: a socket with mode 0600 in a folder with mode 0700, made if need be.

    A lock beside it, held as long as it listens, tells a socket that is served from one that a
    process left behind when it died; that one is replaced. ``close`` takes the socket away.
    """

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        """Raises UsageError for a path that is too long, Locked if someone listens there.

        Raises Forbidden if others can reach the folder, or something else has the socket's name.
        """
        self.path = os.path.realpath(path)
        if len(os.fsencode(self.path)) > ADDRESS_BYTES_MAX or "\0" in path:
            raise UsageError(
                f"the path of a socket has at most {ADDRESS_BYTES_MAX} bytes: {path[:200]!a}",
                remedy="Choose a shorter one.",
            )
        folder, self._name = os.path.split(self.path)
        self._disk = disk or Disk()
        self._tree = Tree(folder, self._disk)
        self._lock: int | None = None
        with translation(f"listening at {self.path}"):
            try:
                self.socket = self._listen(folder)
            except BaseException:
                self._let_go()
                raise

    def close(self) -> None:
        """Stop listening and take the socket away. Harmless the second time."""
        if self._lock is None:
            return
        self.socket.close()
        with translation(f"leaving {self.path}"):
            self._remove()
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self, folder: str) -> socket.socket:
        root = self._tree.root(create=True)
        if root is None or self._disk.node(root).mode & _OPEN_TO_OTHERS:
            raise Forbidden(
                f"others can reach {folder}, which is no place for the socket",
                remedy=f"Choose a folder of your own, or close it with: chmod 700 {folder}",
                path=folder,
            )
        self._lock = self._disk.open_lock(f"{self._name}.lock", root)
        if not self._disk.lock(self._lock):
            raise Locked(f"someone listens at {self.path} already", remedy="Use that one.")
        self._remove()
        return self._bind()

    def _bind(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(_OWNER_ONLY)
        try:
            made.bind(self.path)
        except BaseException:
            made.close()
            raise
        finally:
            os.umask(before)
        made.listen(_WAITING_MAX)
        made.setblocking(False)
        return made

    def _remove(self) -> None:
        """Take away the socket of an earlier process; anything else is somebody's."""
        root = self._tree.root(create=False)
        if root is None or not os.path.lexists(self.path):
            return
        if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
            raise Forbidden(
                f"{self.path} is no socket, and stays as it is", remedy="Choose another path."
            )
        self._disk.unlink(self._name, root)

    def _let_go(self) -> None:
        if self._lock is not None:
            let_go(self._disk, self._lock)
            self._lock = None
        self._tree.close()
