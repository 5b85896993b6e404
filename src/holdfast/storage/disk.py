"""The file system, one call at a time. The only module that touches it.

The path that a user names is resolved once; from there on every call takes a directory descriptor and one name, so no
symlink is followed below it; files are made 0600 and directories 0700 whatever the umask; descriptors are not
inherited by child processes, and a forked child releases the parent's locks at once. Tests substitute disks of their
own: one that fails at any call, one that simulates the state after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import sys
from collections import namedtuple
from functools import partial
from itertools import filterfalse
from operator import attrgetter

# Short commands load this, and loading `typing` would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Passing through a directory needs no right to list it: /home is often 0711.
_PASSAGE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC
_READING = os.O_RDONLY | os.O_NONBLOCK | _FILE
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_SHOWN_MODE = 0o644
_MOUNTS_BYTES_MAX = 16 << 20
_LINKS_MAX = 40  # the same number as the kernel's
_NETWORK = ("nfs", "cifs", "smb", "afs", "ceph", "lustre", "gpfs", "beegfs", "ncp", "ocfs", "gfs")
_NETWORK_FUSE = ("sshfs", "s3fs", "glusterfs", "rclone", "ceph", "gcsfuse", "davfs")


class _Forks:
    """Counts the forks that led to this process: a session made before the last one is dead."""

    def __init__(self) -> None:
        self.count = 0


forks = _Forks()
_held_locks: set[int] = set()
_closings: dict[int, Iterator[int]] = {}  # by number: the closing of the file that was locked last under it


class _Closed(int):
    """A closed descriptor."""


class Descriptor(_Closed):
    """An open file that closes itself when it is no longer referenced.

    So an interrupt at any moment leaves none open. Opening and closing are one step each, in C: an interrupt cannot
    come between the number and its owner, nor between closing and noting that it is closed, when the number may be
    reused.
    """

    def __del__(self) -> None:
        """Close it, if an interrupt has left it open."""
        with contextlib.suppress(OSError):
            _close(self)


def _close(descriptor: int) -> None:
    """Close it unless it is closed; its lock is no longer among those held."""
    once = descriptor.__dict__.setdefault("once", iter((int(descriptor),)))  # the number, yielded once
    next(map(os.close, filterfalse(_held_locks.discard, once)), None)


def _read(path: str, size: int) -> bytes:
    """Return the contents of a system file; nothing if it does not exist."""
    try:
        descriptor, found = _opened(path, os.O_RDONLY), b""
        while len(found) < size and (chunk := os.read(descriptor, size - len(found))):
            found += chunk
    except OSError:
        return b""
    return found


def _opened(path: str, flags: int, parent: int | None = None) -> Descriptor:
    return next(map(Descriptor, map(partial(os.open, dir_fd=parent), (path,), (flags | os.O_CLOEXEC,))))


def _after_fork_in_child() -> None:
    forks.count += 1
    for descriptor in tuple(_held_locks):
        # Closing the child's copy leaves the parent's lock alone, and lets it end with the parent.
        with contextlib.suppress(OSError):
            next(map(os.close, _closings[descriptor]), None)
    _held_locks.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def is_running(pid: int | None) -> bool:
    """Return whether there is a process of this id, of any user. A log may hold any number."""
    if pid is None or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def is_at_work(pid: int | None, host: str | None) -> bool:
    """Return whether the process named in a log may still run: the one place where that is decided.

    A process of another machine cannot be seen from here and counts as gone: on files there is none.
    """
    return host == os.uname().nodename and is_running(pid)


class Node(namedtuple("Node", "inode size modified mode owner links")):  # noqa: PYI024 - `typing` is slow to load
    """The attributes of a file or directory: ``modified`` is in nanoseconds, ``links`` counts its names."""

    __slots__ = ()

    inode: int
    size: int
    modified: int
    mode: int
    owner: int
    links: int

    @property
    def is_directory(self) -> bool:
        """True for a directory."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """True for a plain file."""
        return stat.S_ISREG(self.mode)

    @property
    def is_symlink(self) -> bool:
        """True for a symlink."""
        return stat.S_ISLNK(self.mode)


# Without a Python frame: every stat of a file comes through here.
_new_node = tuple.__new__
_fields = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_mode", "st_uid", "st_nlink")


class Disk:
    """The real file system."""

    def open_root(self) -> int:
        """Return a descriptor of the top directory, from which every path is walked."""
        return _opened("/", _PASSAGE)

    def open_passage(self, name: str, parent: int) -> int:
        """Return a descriptor of a directory that is only good for going further down."""
        return _opened(name, _PASSAGE, parent)

    def open_directory(self, name: str, parent: int) -> int:
        """Return a descriptor of a directory; NotADirectoryError or OSError(ELOOP) for a symlink."""
        # As in _opened: an opening comes here several times, and calls count.
        return next(map(Descriptor, map(partial(os.open, dir_fd=parent), (name,), (_DIRECTORY,))))

    def make_directory(self, name: str, parent: int) -> None:
        """Create a directory, exactly 0700 whatever the umask."""
        os.mkdir(name, _DIRECTORY_MODE, dir_fd=parent)
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if mode & _DIRECTORY_MODE != _DIRECTORY_MODE:
            os.chmod(name, _DIRECTORY_MODE, dir_fd=parent)

    def open_log(self, name: str, parent: int, *, create: bool) -> int:
        """Open a file for appending and reading."""
        flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
        return _open_private(name, flags, parent)

    def open_new(self, name: str, parent: int) -> int:
        """Create a file for writing; FileExistsError if there is one."""
        return _open_private(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, parent)

    def show_to_all(self, descriptor: int) -> None:
        """Let everybody read a file that holds nothing of any session."""
        os.fchmod(descriptor, _SHOWN_MODE)

    def open_read(self, name: str, parent: int) -> int:
        """Open a file for reading. A pipe in its place does not block the caller."""
        return next(map(Descriptor, map(partial(os.open, dir_fd=parent), (name,), (_READING,))))

    def open_lock(self, name: str, parent: int) -> int:
        """Open a lock file, created if there is none."""
        return _open_private(name, os.O_RDWR | os.O_CREAT, parent)

    if TYPE_CHECKING:

        def write(self, descriptor: int, data: bytes | memoryview) -> int:
            """Write once; return how many bytes were written."""
            raise NotImplementedError

    else:
        # The system's function itself: every append comes through here, and a further frame would cost measurable time.
        write = staticmethod(os.write)

    def read_at(self, descriptor: int, size: int, offset: int) -> bytes:
        """Return at most ``size`` bytes from ``offset``."""
        return os.pread(descriptor, size, offset)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file to ``size`` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Return once the file's bytes are on the medium."""
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(descriptor)

    def sync_directory(self, descriptor: int) -> None:
        """Return once a directory's entries are on the medium."""
        os.fsync(descriptor)

    def rename(self, name: str, parent: int, to: str, to_parent: int) -> None:
        """Rename a file or directory, replacing an existing one."""
        os.rename(name, to, src_dir_fd=parent, dst_dir_fd=to_parent)

    def link(self, name: str, parent: int, to: str, to_parent: int) -> None:
        """Add a second name for a file; FileExistsError if it is taken."""
        os.link(name, to, src_dir_fd=parent, dst_dir_fd=to_parent, follow_symlinks=False)

    def unlink(self, name: str, parent: int) -> None:
        """Remove a file's name."""
        os.unlink(name, dir_fd=parent)

    def remove_directory(self, name: str, parent: int) -> None:
        """Remove an empty directory."""
        os.rmdir(name, dir_fd=parent)

    def lock(self, descriptor: int, *, wait: bool = False) -> bool:
        """Take the file's lock; return False if another process has it."""
        # Noted before it is held: a child forked in between must release it as well.
        try:
            _closings[int(descriptor)] = descriptor.__dict__.setdefault("once", iter((int(descriptor),)))
            _held_locks.add(int(descriptor))
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BaseException as error:
            _held_locks.discard(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        return True

    def node(self, descriptor: int) -> Node:
        """Return the node of an open descriptor."""
        return _new_node(Node, _fields(os.fstat(descriptor)))

    def node_at(self, name: str, parent: int) -> Node | None:
        """Return the node of a name, of a symlink itself rather than its target; None if there is none."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return _new_node(Node, _fields(found))

    def scan(self, descriptor: int) -> list[str]:
        """Return the names in a directory."""
        return os.listdir(descriptor)

    def scan_inodes(self, descriptor: int) -> Iterator[tuple[str, int]]:
        """Yield the names in a directory with their inodes, lazily."""
        with os.scandir(descriptor) as found:
            for item in found:
                yield item.name, item.inode()

    def boot_id(self) -> str:
        """Return the id of this boot of the operating system; empty if unknown."""
        return _read("/proc/sys/kernel/random/boot_id", 64).decode("ascii", "replace").strip()

    def process_space(self) -> str:
        """Return the scope of process ids: the boot of the system, and a container in it; empty if unknown."""
        try:
            return f"{self.boot_id()} {os.readlink('/proc/self/ns/pid')}"
        except OSError:
            return ""

    def process_start(self, pid: int) -> int:
        """Return when a process began, in ticks; 0 if unknown, or if there is no such process."""
        fields = _read(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
        return int(fields[19]) if len(fields) > 19 and fields[19].isdigit() else 0

    def close(self, descriptor: int) -> None:
        """Close a descriptor, and release its lock even if a child still has a copy of it."""
        if descriptor in _held_locks:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        # As in _close: every opening closes several, and calls count.
        once = descriptor.__dict__.setdefault("once", iter((int(descriptor),)))
        next(map(os.close, filterfalse(_held_locks.discard, once)), None)
        descriptor.__class__ = _Closed

    def network_name(self, descriptor: int) -> str | None:
        """Return the kind of network file system of a descriptor; None for a local one."""
        device = os.fstat(descriptor).st_dev
        wanted = f"{os.major(device)}:{os.minor(device)}"
        for fields in _mounts():
            if fields[2] == wanted:
                kind = fields[fields.index("-") + 1]
                return kind if _is_network(kind) else None
        return None


def resolved(path: str) -> str:
    """Return the whole path without symlinks; parts that do not exist, or cannot be seen, stay as named.

    Raises PermissionError for a symlink that another user put into a directory that everybody can
    write to, such as /tmp: it could lead into any directory of this user. The kernel refuses such
    a link by the same rule, though not when its target is read.
    """
    current, links = "/", 0
    whole = path if path.startswith("/") else f"{os.getcwd()}/{path}"
    rest = whole.split("/")[::-1]
    while rest:
        part = rest.pop()
        if part == "..":
            current = os.path.dirname(current)
        if part in ("", ".", ".."):
            continue
        here = os.path.join(current, part)
        try:
            target = os.readlink(here)
        except OSError:  # no symlink, or nothing visible
            current = here
            continue
        links += 1
        if links > _LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        above, owner = os.stat(current), os.lstat(here).st_uid
        if above.st_mode & stat.S_IWOTH and owner not in (os.geteuid(), above.st_uid):
            raise PermissionError(errno.EACCES, "a symlink of another user", here)
        current = "/" if target.startswith("/") else current
        rest.extend(target.split("/")[::-1])
    return current


def open_nowhere() -> int:
    """Return a descriptor of the null device."""
    return os.open(os.devnull, os.O_RDWR)


def widen_pipe(descriptor: int, size: int) -> None:
    """Set the buffer size of a pipe, where the system supports it; OSError if not permitted."""
    if sys.platform == "linux" and fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < size:
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)


def _open_private(name: str, flags: int, parent: int) -> int:
    """Open a file for writing and make sure that it is 0600, also if it existed with another mode.

    A file with a second name is left unchanged: that name may be somebody else's.
    """
    opened = map(partial(os.open, dir_fd=parent), (name,), (flags | _FILE,), (_FILE_MODE,))
    descriptor = next(map(Descriptor, opened))
    found = os.fstat(descriptor)
    if stat.S_IMODE(found.st_mode) != _FILE_MODE and found.st_nlink == 1:
        os.fchmod(descriptor, _FILE_MODE)
    return descriptor


def _mounts() -> Iterator[list[str]]:
    """Yield the rows of the kernel's mount table; none if there is no such table."""
    for row in _read("/proc/self/mountinfo", _MOUNTS_BYTES_MAX).decode("utf-8", "replace").splitlines():
        yield row.split()


def _is_network(kind: str) -> bool:
    kind = kind.lower()
    if kind.startswith("fuse."):
        return any(name in kind for name in _NETWORK_FUSE)
    return kind.startswith(_NETWORK)


def is_full(error: OSError) -> bool:
    """Return whether an error means that there is no space: disk, quota or file size limit."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
