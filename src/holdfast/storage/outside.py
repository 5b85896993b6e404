"""Files, folders and sockets outside any store, as a person names them.

Inside a folder no symlink is followed, and only plain files are opened: such a tree may come
from anywhere. Skipped files are reported.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

import msgspec

from holdfast.errors import Forbidden, HoldfastError, Locked, NotFound, TooLarge, UsageError
from holdfast.storage._pieces import first_bytes
from holdfast.storage.base import Documents
from holdfast.storage.disk import Disk
from holdfast.storage.files.documents import FileDocuments
from holdfast.storage.files.parts import ARCHIVE_NAME, BASE_NAME, LOG_NAME, open_archive, open_parts, read_file_part
from holdfast.storage.files.tree import Tree, held, let_go, read_all, reading, translation, walk, write_all

if TYPE_CHECKING:
    import socket

_NS_PER_MS = 1_000_000
_FILES_MAX = 20_000
_LEVELS_MAX = 12


class OutsideFile:
    """A plain file that is read on demand."""

    def __init__(self, root: str, name: str, found: os.stat_result, disk: Disk) -> None:
        self._root = root
        self._name = name
        self._disk = disk
        self.size = found.st_size
        self.modified = found.st_mtime_ns // _NS_PER_MS

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """Yield the bytes of the file, piece by piece. Raises StoreError if it cannot be read.

        Its path is walked anew, without following a symlink that was put there meanwhile.
        """
        disk = self._disk
        above, _, name = f"{self._root}/{self._name}".rpartition("/")
        with translation(f"reading {self._name}"):
            with held(disk, walk(disk, above)) as folder:
                descriptor = disk.open_read(name, folder)
            with held(disk, descriptor):
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise Forbidden(f"{self._name} is not a plain file any more")
                yield from read_all(disk, descriptor, size=chunk_bytes)


class Outside:
    """The contents of a path: one file, or a folder with the files below it."""

    def __init__(self, path: str, *, disk: Disk | None = None) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.folder = os.path.basename(os.path.dirname(path))
        self.is_file = False
        self.files: dict[str, OutsideFile] = {}
        self.passed_over: list[str] = []
        """The files that were skipped, in words."""
        self._disk = disk or Disk()

    def beside(self, name: str) -> OutsideFile | None:
        """Return a plain file in the same folder as this one; None if there is none."""
        return self._plain(os.path.dirname(self.path), name) if self.is_file and "/" not in name else None

    def look(self, files_max: int, levels_max: int) -> None:
        found = os.stat(self.path)
        if stat.S_ISREG(found.st_mode):
            self.is_file = True
            self.files[self.name] = OutsideFile(os.path.dirname(self.path), self.name, found, self._disk)
        elif stat.S_ISDIR(found.st_mode):
            self._look_below("", files_max, levels_max)
        else:
            raise UsageError(
                f"{self.path} is neither a plain file nor a folder",
                remedy="Give a file or a folder; pipes and devices are not read.",
                path=self.path,
            )

    def _look_below(self, folder: str, files_max: int, levels: int) -> None:
        place = os.path.join(self.path, folder) if folder else self.path
        try:
            with os.scandir(place) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.passed_over.append(f"{folder or self.name}: {error.strerror}")
            return
        for entry in names:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if levels > 1:
                    self._look_below(name, files_max, levels - 1)
                else:
                    self.passed_over.append(f"{name}: too many folders within folders")
            elif entry.is_symlink():
                self.passed_over.append(f"{name}: a symlink is not followed")
            elif (file := self._plain(self.path, name)) is None:
                self.passed_over.append(f"{name}: not a plain file")
            else:
                self.files[name] = file
            if len(self.files) > files_max:
                raise TooLarge(
                    f"{self.path} holds more than {files_max:,} files",
                    remedy="Name the folder of one tool, or one file.",
                    path=self.path,
                )

    def _plain(self, root: str, name: str) -> OutsideFile | None:
        try:
            found = os.stat(os.path.join(root, name), follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return OutsideFile(root, name, found, self._disk) if stat.S_ISREG(found.st_mode) else None


def look_outside(
    path: str | os.PathLike[str],
    *,
    files_max: int = _FILES_MAX,
    levels_max: int = _LEVELS_MAX,
    disk: Disk | None = None,
) -> Outside:
    """Return the contents of a path. Symlinks in the path itself are the caller's own choice and resolved.

    Raises NotFound if there is nothing, UsageError for a device or a pipe, TooLarge for a folder of too many files.
    """
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError("an import needs the path of a file or folder")
    real = os.path.realpath(os.path.expanduser(text))
    if not os.path.exists(real):
        raise NotFound(f"no such file or directory: {text}", remedy="Check the path.", path=text)
    found = Outside(real, disk=disk)
    with translation(f"reading {text}"):
        found.look(files_max, levels_max)
    return found


# A log outside any store, as a person names it: for reading only.
def find_log(path: str | os.PathLike[str]) -> str:
    """Return the real path of a log: the file itself, or the ``events.jsonl`` of a folder.

    A folder may have ``events.jsonl.zst`` instead, or be a branch: that one is named by its
    ``base.json``. Raises NotFound if there is none. Symlinks are resolved here, once: the path is
    the caller's own choice, and what it leads to is then opened without following any.
    """
    text = os.fspath(path)
    if not text or "\0" in text:
        raise UsageError("a log needs the path of a file or folder")
    found = os.path.realpath(text)
    if os.path.isdir(found):
        paths = [os.path.join(found, name) for name in (LOG_NAME, ARCHIVE_NAME, BASE_NAME)]
        found = next((path for path in paths if os.path.lexists(path)), paths[0])
    if not os.path.lexists(found):
        raise NotFound(f"there is no log at {text}", path=text)
    if not os.path.isfile(found):
        raise UsageError(f"{text} is not a plain file", path=text)
    return found


def read_file(path: str, disk: Disk | None = None) -> Iterator[bytes]:
    """Yield the bytes of a log that ``find_log`` found. Raises StoreError, and TooLarge for an absurd archive."""
    disk = disk or Disk()
    above, name = os.path.split(path)
    with translation(f"reading {path}"), held(disk, walk(disk, above)) as directory:
        if name == BASE_NAME:
            branch = open_parts(disk, directory)
            if branch is not None and branch.found.is_branch:
                with branch:
                    yield from branch.read()
                return
            if branch is not None:
                branch.close()
        with reading(disk, name, directory) as descriptor:
            if name.endswith(".jsonl.zst"):
                yield from open_archive(disk, descriptor).read()
            else:
                yield from read_file_part(disk, descriptor, 0, disk.node(descriptor).size)


def documents_beside(path: str, disk: Disk | None = None) -> Documents:
    """Return the documents in a log's folder, such as the payloads of a copied session. For reading."""
    return FileDocuments(Tree(os.path.dirname(path), disk or Disk()), ())


# A read-only directory, for tools that read files.
# Nothing outside it can be reached: every step of a path is taken by descriptor, without symlinks.
class FolderEntry(msgspec.Struct, frozen=True):
    """One name in a directory."""

    name: str
    is_directory: bool
    size: int


class Folder:
    """A directory with everything below it. ``root`` may be a symlink; nothing below it may."""

    def __init__(self, root: str, disk: Disk | None = None) -> None:
        self.root = os.path.realpath(root)
        self._disk = disk or Disk()

    def read(self, path: str, bytes_max: int) -> bytes:
        """Return the bytes of a file. Raises NotFound, Forbidden, and TooLarge above ``bytes_max``."""
        *parents, name = self._parts(path) or [""]
        with self._inside(path, parents) as parent:
            node = self._disk.node_at(name, parent) if name else None
            if node is None:
                raise NotFound(f"there is no file {path}", remedy="List the directory first.")
            if not node.is_file:
                kind = "a directory" if node.is_directory else "a symlink, which is not followed"
                kind = kind if node.is_directory or node.is_symlink else "no plain file"
                raise Forbidden(f"{path} is {kind}", remedy="Name a file.")
            if node.size > bytes_max:
                raise TooLarge(f"{path} has {node.size:,} bytes, more than {bytes_max:,}")
            with reading(self._disk, name, parent) as descriptor:
                data = b"".join(first_bytes(read_all(self._disk, descriptor), bytes_max + 1))
            if len(data) > bytes_max:  # it grew meanwhile
                raise TooLarge(f"the file has more than {bytes_max:,} bytes")
            return data

    def names(self, path: str = ".") -> list[FolderEntry]:
        with self._inside(path, self._parts(path)) as directory:
            nodes = [(name, self._disk.node_at(name, directory)) for name in sorted(self._disk.scan(directory))]
            return [FolderEntry(name, node.is_directory, node.size) for name, node in nodes if node is not None]

    def _parts(self, path: str) -> list[str]:
        if not isinstance(path, str) or "\0" in path:
            raise UsageError("a path is a text without NUL")
        whole = os.path.normpath(os.path.join(self.root, path))
        relative = os.path.relpath(whole, self.root)
        if relative == ".":
            return []
        if relative.split(os.sep)[0] == os.pardir:
            raise Forbidden(f"{path} is outside of {self.root}", remedy="Name a path inside the directory.")
        return relative.split(os.sep)

    @contextlib.contextmanager
    def _inside(self, path: str, parts: list[str]) -> Iterator[int]:
        try:
            with held(self._disk, walk(self._disk, os.path.join(self.root, *parts), passing=False)) as descriptor:
                yield descriptor
        except HoldfastError:  # some are errors of the system too, and say more
            raise
        except FileNotFoundError as error:
            raise NotFound(f"there is no {path}", remedy="List the directory first.") from error
        except OSError as error:
            raise Forbidden(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error


# A file outside any store, where a person wants it: written completely or not at all, or line by line.

# The errors of file systems without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def place_file(
    path: str | os.PathLike[str],
    chunks: Iterable[bytes],
    *,
    overwrite: bool = False,
    make_folders: bool = False,
    for_all: bool = False,
    disk: Disk | None = None,
) -> str:
    """Write ``chunks`` to a file of mode 0600, or 0644 ``for_all``; return its real path.

    A crash or an error leaves the old file, never a part of the new one. On the medium when it returns.
    Raises UsageError if the file exists and is not to be replaced, NotFound if its folder
    is missing and not to be created, StoreError if the medium refuses.
    """
    text = os.fspath(path)
    if not text or "\0" in text or text.endswith("/"):
        raise UsageError("an export needs the path of a file")
    folder = os.path.realpath(os.path.dirname(text) or ".")
    name = os.path.basename(text)
    disk = disk or Disk()
    there = UsageError(f"there is something at {text} already", remedy="Choose another name, or ask to overwrite.")
    with translation(f"writing {text}"), _opened(folder, disk, make=make_folders) as directory:
        node = disk.node_at(name, directory)
        if node is not None and (not overwrite or node.is_directory):
            raise there
        temporary = f".{name[:100]}.{os.urandom(6).hex()}.tmp"
        descriptor = disk.open_new(temporary, directory)
        try:
            with held(disk, descriptor):
                for chunk in chunks:
                    write_all(disk, descriptor, chunk)
                if for_all:
                    disk.show_to_all(descriptor)
                disk.sync(descriptor)
            if overwrite or not _linked(temporary, name, directory, disk):
                disk.rename(temporary, directory, name, directory)
        except FileExistsError:
            raise there from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                disk.unlink(temporary, directory)
        disk.sync_directory(directory)
    return os.path.join(folder, name)


def add_to_file(path: str | os.PathLike[str], data: bytes, *, disk: Disk | None = None) -> None:
    """Write ``data`` at the end of a file of mode 0600, which is created if it is missing.

    It is opened anew each time: if it is moved away in between, a new one is created. Nothing is synced. Raises
    UsageError for a path that cannot be a file, NotFound if its folder is missing, StoreError if the medium refuses.
    """
    text = os.fspath(path)
    if not text or "\0" in text or text.endswith("/"):
        raise UsageError("there is no file to write to", path=text)
    disk = disk or Disk()
    folder, name = os.path.split(text)
    with translation(f"writing {text}"), _opened(os.path.realpath(folder), disk) as directory:
        log = disk.open_log(name, directory, create=True)
        with held(disk, log):
            write_all(disk, log, data)


@contextlib.contextmanager
def _opened(folder: str, disk: Disk, *, make: bool = False) -> Iterator[int]:
    def made(name: str, above: int) -> None:
        with contextlib.suppress(FileExistsError):
            disk.make_directory(name, above)

    try:
        way = walk(disk, folder, passing=False, make=made if make else None)
    except FileNotFoundError:
        raise NotFound(f"there is no folder {folder}", remedy="Create it first, or choose another place.") from None
    with held(disk, way):
        yield way


def _linked(temporary: str, name: str, directory: int, disk: Disk) -> bool:
    """Give the file its name, unless another has it; return False if hard links are not supported."""
    try:
        disk.link(temporary, directory, name, directory)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if disk.node_at(name, directory) is not None:
            raise FileExistsError from error
        return False
    return True


# A socket in the file system that only its owner can reach.
ADDRESS_BYTES_MAX = 100  # accepted as the path of a socket on every system; some take a few bytes more
_OPEN_TO_OTHERS = 0o077
_OWNER_ONLY = 0o177
_WAITING_MAX = 64


class PrivateSocket:
    """Listens at a path: a socket with mode 0600 in a folder with mode 0700, created if need be.

    A lock beside it, held while it listens, distinguishes a served socket from one that a dead
    process left behind; that one is replaced. ``close`` removes the socket.
    """

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        """Raises UsageError for a path that is too long, Locked if another process listens there.

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
        """Stop listening and remove the socket. Does nothing the second time."""
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
        # Late: nothing else here needs it, and it takes long to load.
        import socket

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
        """Remove the socket of an earlier process; anything else may be somebody's."""
        root = self._tree.root(create=False)
        if root is None or not os.path.lexists(self.path):
            return
        if not stat.S_ISSOCK(os.lstat(self.path).st_mode):
            raise Forbidden(f"{self.path} is no socket, and stays as it is", remedy="Choose another path.")
        self._disk.unlink(self._name, root)

    def _let_go(self) -> None:
        if self._lock is not None:
            let_go(self._disk, self._lock)
            self._lock = None
        self._tree.close()
