"""Directories of a file store, reached level by level through descriptors."""

from __future__ import annotations

import contextlib
import errno
import os
from _thread import RLock, get_ident  # the only parts of `threading` that are needed
from contextlib import contextmanager

from holdfast.errors import Forbidden, HoldfastError, StoreError, StoreFull, Unavailable
from holdfast.storage.disk import Disk, Node, is_full, resolved

TYPE_CHECKING = False  # loading `typing` would take longer than this module
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from typing import NoReturn

LOCK_NAME = "lock"
_WRITABLE_BY_OTHERS = 0o022
_TRIES = 20
# Not readable for us, or on a file system that does not sync directories.
_CANNOT_SYNC = (errno.EACCES, errno.EINVAL, errno.EROFS, errno.EBADF)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_SCHEME_CHARS_MIN = 2  # one letter before a colon is a drive of Windows


def is_path(where: str) -> bool:
    """Return whether this is the path of a directory, and not a URL."""
    scheme, colon, _ = where.partition(":")
    return not colon or len(scheme) < _SCHEME_CHARS_MIN or "/" in scheme or "\\" in scheme


def real_path(path: str) -> str:
    """Return the whole path of a store without symlinks.

    From then on it is walked without following any. Raises Forbidden for a symlink on the path that others may
    have created, Unavailable for a cycle.
    """
    try:
        return resolved(path)
    except PermissionError as error:
        raise Forbidden(
            f"{error.filename} is a symlink that another user put there, and is not followed",
            remedy="Name the directory itself, or keep the store where only you can write.",
            path=path,
        ) from error
    except OSError as error:
        raise Unavailable(f"{path} leads nowhere: {error.strerror}", path=path) from error


class Tree:
    """The root of a store and access to the directories below it."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = os.path.normpath(path)
        self.disk = disk
        self._root: int | None = None
        self._ancestors_synced = False
        self._made_in: set[str] = set()
        # Used only by the thread that keeps a directory open: for all others its name may belong to another one by now.
        self._kept: dict[tuple[int, tuple[str, ...]], int] = {}
        # Reentrant: an interrupt within ``at_root`` may have a lease released on the way out.
        self._lock = RLock()

    def root(self, *, create: bool) -> int | None:
        """Return a descriptor of the root that stays open; None if there is no such directory."""
        with self._lock:
            if self._root is None:
                self._root = self._open_root(create=create)
            return self._root

    def open(self, parts: tuple[str, ...], *, create: bool) -> int | None:
        """Return a descriptor of a directory below the root, for the caller to close."""
        above = self._kept.get((get_ident(), parts[:-1]))
        if above is not None and parts:
            return self._step(parts[-1], above, create=create, passing=False)[0]
        with self._lock:
            if self._root is None:
                self._root = self._open_root(create=create)
            if self._root is None:
                return None
            # Under the lock, so that closing the store cannot take the root away in between.
            first = parts[0] if parts else "."
            try:
                current: int | None = self.disk.open_directory(first, self._root)
            except FileNotFoundError:
                current, _ = self._step(first, self._root, create=create, passing=False)
            except OSError as error:
                self._refuse(first, self._root, error)
        for part in parts[1:]:
            if current is None:
                return None
            above = current
            try:
                current = self.disk.open_directory(part, above)
            except FileNotFoundError:
                current, _ = self._step(part, above, create=create, passing=False)
            except OSError as error:
                self._refuse(part, above, error)
            finally:
                with contextlib.suppress(OSError):  # every opening comes through here: not one call more
                    self.disk.close(above)
        return current

    def node_below(self, path: str) -> Node | None:
        """Return the node at a path below the root, which must be open; None if nothing is there.

        Only for comparison with an earlier one: a symlink on the path is followed. Raises OSError
        if it cannot be seen.
        """
        with self._lock:
            if self._root is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
            try:
                return self.disk.node_at(path, self._root)
            except NotADirectoryError:
                return None

    @contextmanager
    def opened(self, parts: tuple[str, ...], *, create: bool = False, doing: str = "") -> Iterator[int | None]:
        """Open a directory below the root for a ``with`` block; with ``doing``, errors inside it become typed."""
        descriptor = kept = self._kept.get((get_ident(), parts))
        try:
            if kept is None:
                descriptor = self.open(parts, create=create)
            yield descriptor
        except OSError as error:
            if not doing or isinstance(error, HoldfastError):
                raise
            raise translated(error, doing) from error
        finally:
            if kept is None and descriptor is not None:
                let_go(self.disk, descriptor)

    def keep(self, parts: tuple[str, ...]) -> int | None:
        """Walk to a directory once for all calls of this thread until ``walk_again``.

        None if it does not exist. A caller that must be sure that the name still belongs to the
        directory calls ``walk_again`` before.
        """
        place = (get_ident(), parts)
        descriptor = self._kept.get(place)
        if descriptor is None:
            descriptor = self.open(parts, create=False)
            if descriptor is not None:
                self._kept[place] = descriptor
        return descriptor

    def walk_again(self, parts: tuple[str, ...]) -> None:
        """Stop using the directory that this thread has kept open."""
        descriptor = self._kept.pop((get_ident(), parts), None)
        if descriptor is not None:
            with contextlib.suppress(OSError):
                self.disk.close(descriptor)

    @contextmanager
    def at_root(self) -> Iterator[int]:
        """Hold the root, created if need be, exclusively for a few calls of the disk."""
        with self._lock:
            if self._root is None:
                self._root = self._open_root(create=True)
            assert self._root is not None
            yield self._root

    def sync(self, parts: tuple[str, ...]) -> None:
        """Make all entries that lead to a directory survive power loss, also those of a process that died."""
        for depth in range(len(parts), -1, -1):
            with self.opened(parts[:depth]) as descriptor:
                if descriptor is not None:
                    self.disk.sync_directory(descriptor)
        if not self._ancestors_synced:
            self._sync_ancestors()
            self._ancestors_synced = True

    def _sync_ancestors(self) -> None:
        """Sync the entries that lead to the root: of this user's directories, and of the one above.

        Nothing higher up can be ours. What this process made must be synced; what an
        earlier one may have made is synced if possible.
        """
        path, own = self.path, True
        while own and os.path.dirname(path) != path:
            path = os.path.dirname(path)
            try:
                descriptor = self._walk_path(path, create=False)
                if descriptor is None:
                    return
                with held(self.disk, descriptor):
                    self.disk.sync_directory(descriptor)
                    own = self.disk.node(descriptor).owner == os.geteuid()
            except OSError as error:
                if path in self._made_in or error.errno not in _CANNOT_SYNC:
                    raise
                return

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                let_go(self.disk, self._root)
                self._root = None

    def _open_root(self, *, create: bool) -> int | None:
        descriptor = self._walk_path(self.path, create=create)
        if descriptor is None:
            return None
        try:
            node = self.disk.node(descriptor)
            if node.owner != os.geteuid():
                raise Forbidden(
                    f"{self.path} belongs to another user",
                    remedy="Use a directory of your own as the store.",
                    path=self.path,
                )
            if node.mode & _WRITABLE_BY_OTHERS:
                raise Forbidden(
                    f"{self.path} can be written by others",
                    remedy=f"Close it with: chmod go-w {self.path}",
                    path=self.path,
                )
            network = self.disk.network_name(descriptor)
            if network is not None:
                raise Unavailable(
                    f"{self.path} is on a network file system ({network}), where locks do not hold",
                    remedy="Use a local directory, or a postgresql:// or s3:// store.",
                    path=self.path,
                )
        except BaseException:
            let_go(self.disk, descriptor)
            raise
        return descriptor

    def _walk_path(self, path: str, *, create: bool) -> int | None:
        """Return a descriptor of a directory anywhere, reached from the top."""
        parts = [part for part in path.split("/") if part] or ["."]
        current = self.disk.open_root()
        for depth, part in enumerate(parts, 1):
            passing = depth < len(parts)
            try:
                below, made = self._step(part, current, create=create, passing=passing)
            finally:
                let_go(self.disk, current)
            if made:
                self._made_in.add("/" + "/".join(parts[: depth - 1]))
            if below is None:
                return None
            current = below
        return current

    def _step(self, name: str, parent: int, *, create: bool, passing: bool) -> tuple[int | None, bool]:
        """Go one level down; return its descriptor, and whether it had to be created."""
        enter = self.disk.open_passage if passing else self.disk.open_directory
        made = False
        for _ in range(_TRIES):
            try:
                return enter(name, parent), made
            except FileNotFoundError:
                if not create:
                    return None, False
            except OSError as error:
                self._refuse(name, parent, error)
            # Again if another process moves it away before it is entered, or while it is being created.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                self.disk.make_directory(name, parent)
            made = True
        return enter(name, parent), made

    def _refuse(self, name: str, parent: int, error: OSError) -> NoReturn:
        """Raise the error: a symlink or a file on the path is a matter of safety."""
        node = self.disk.node_at(name, parent)
        if node is not None and node.is_symlink:
            raise Forbidden(
                f"{name!r} in {self.path} is a symlink, which is never followed in a store",
                remedy="Put the directory itself in its place, or make the whole store a symlink.",
                path=self.path,
            ) from error
        if node is not None and not node.is_directory:
            raise Unavailable(f"{name!r} on the way to {self.path} is not a directory") from error
        raise error


def let_go(disk: Disk, descriptor: int) -> None:
    """Close a descriptor. An error of closing adds nothing to what a sync would have reported."""
    try:
        disk.close(descriptor)
    except OSError:
        return


@contextmanager
def held(disk: Disk, descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of a ``with`` block."""
    try:
        yield descriptor
    finally:
        let_go(disk, descriptor)


def reading(disk: Disk, name: str, directory: int) -> AbstractContextManager[int]:
    """Open a file for reading during a ``with`` block."""
    return held(disk, disk.open_read(name, directory))


def walk(disk: Disk, path: str, *, passing: bool = True, make: Callable[[str, int], None] | None = None) -> int:
    """Return a descriptor of a directory anywhere, reached from the top without following a symlink.

    If it is only passed through, it can be used for nothing but going further down. ``make`` is
    called with the name and the place of a missing directory. Lets OSError through.
    """
    parts = [part for part in path.split("/") if part] or ["."]
    current = disk.open_root()
    for number, part in enumerate(parts, 1):
        enter = disk.open_passage if passing or number < len(parts) else disk.open_directory
        with held(disk, current):
            try:
                current = enter(part, current)
            except FileNotFoundError:
                if make is None:
                    raise
                make(part, current)
                current = enter(part, current)
    return current


def plain_file(disk: Disk, name: str, directory: int, path: str) -> Node | None:
    """Create a file of this name, 0600, unless it exists; return the existing node.

    Raises Forbidden if it is not a file.
    """
    node = disk.node_at(name, directory)
    if node is None:
        try:
            let_go(disk, disk.open_new(name, directory))
        except FileExistsError:  # another process was quicker: its file is checked, too
            node = disk.node_at(name, directory)
    if node is not None and (node.is_symlink or node.is_directory):
        raise Forbidden(f"{path} is not a plain file")
    return node


def write_all(disk: Disk, descriptor: int, data: bytes | memoryview) -> None:
    """Write until the disk has accepted all of it, or raise."""
    rest = memoryview(data)
    while rest:
        written = disk.write(descriptor, rest)
        if not written:
            raise OSError(0, "the disk takes no more bytes")
        rest = rest[written:]


def read_all(disk: Disk, descriptor: int, start: int = 0, size: int = 1 << 18) -> Iterator[bytes]:
    """Yield the bytes of a file from an offset on, in chunks of at most this size."""
    while chunk := disk.read_at(descriptor, size, start):
        yield chunk
        start += len(chunk)


def remove_tree(disk: Disk, name: str, above: int, *, sync: bool = True) -> bool:
    """Remove a directory with its contents; return whether it existed. Lets OSError through."""
    if disk.node_at(name, above) is None:
        return False
    _empty(disk, name, above)
    disk.remove_directory(name, above)
    if sync:
        disk.sync_directory(above)
    return True


def _empty(disk: Disk, name: str, above: int) -> None:
    with held(disk, disk.open_directory(name, above)) as directory:
        # The lock goes last: after that the next owner of the place finds nothing else there.
        for inside in sorted(disk.scan(directory), key=LOCK_NAME.__eq__):
            node = disk.node_at(inside, directory)
            if node is not None and node.is_directory:
                _empty(disk, inside, directory)
                disk.remove_directory(inside, directory)
            elif node is not None:
                disk.unlink(inside, directory)


def translated(error: OSError, doing: str) -> StoreError | Forbidden:
    """Return the typed error for an error of the operating system."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if is_full(error):
        return StoreFull(f"no space left while {doing}", errno=error.errno)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Unavailable(f"not allowed while {doing}: {why}", errno=error.errno)
    if error.errno in NO_DESCRIPTOR:
        remedy = "Close files or sessions, or raise the limit of open files (`ulimit -n`)."
        return Unavailable(f"no more files can be opened while {doing}: {why}", remedy=remedy, errno=error.errno)
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return Forbidden(f"a symlink or file is in the way while {doing}", errno=error.errno)
    return StoreError(f"failed while {doing}: {why}", errno=error.errno)


@contextmanager
def translation(doing: str) -> Iterator[None]:
    """Turn errors of the operating system inside the block into typed errors."""
    try:
        yield
    except HoldfastError:
        raise
    except OSError as error:
        raise translated(error, doing) from error
