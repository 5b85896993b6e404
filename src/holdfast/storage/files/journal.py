"""The keys that were opened for writing, so that a catalogue need not check all of them.

``<root>/touched`` has a line for each time that a lease was taken (``+pid@host key``) or released (``-key``). It is
written outside the append path, never synced, and may be deleted at any time: then everything is compared once.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

from holdfast.errors import HoldfastError
from holdfast.storage.disk import is_running
from holdfast.storage.files.tree import Tree, held, let_go, read_all, translation

# Short commands load this: neither `typing` nor `msgspec`, which take longer than everything else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.storage.base import Changes
    from holdfast.storage.disk import Node

_NAME = "touched"
_NEW_NAME = "touched.new"
_HEADER_BYTES = 33  # 32 random digits, and a newline
_SIZE_MAX = 4 << 20
# Two changes of a directory within the clock's resolution leave the same time on it.
_TIME_GRAIN_NS = 2_000_000_000
# Scanning a directory of this size (about 10,000 entries) takes longer than a list should. Keys that were moved there
# by hand while Holdfast was active in it too are found only after this time, or a multiple of it for a larger one, so
# that scanning takes about 0.3 % of all time at any size.
_LARGE_BYTES = 1 << 18
_PUT_OFF_NS = 10_000_000_000
_TRIES_MAX = 3
_HOST_CHARS_MAX = 100


class _Mark(SimpleNamespace):
    """The state of things at a moment."""

    boot: str
    file: str
    size: int
    folder: int
    inode: int
    owed: int
    """Since when a scan of all entries is due, in nanoseconds; 0 if none is."""
    held: dict[str, str]

    def __str__(self) -> str:
        """Return the text that ``_read_mark`` parses: a line of words, then one for each held key."""
        head = f"{self.boot or '-'} {self.file or '-'} {self.size} {self.folder} {self.inode}"
        held = [f"{who} {key}" for key, who in self.held.items()]
        return "\n".join([f"{head} {self.owed}", *held])


class _Seen(SimpleNamespace):
    """The lines of the file from some place on; ``resumed`` if they follow those that the mark knows."""

    file: str = ""
    size: int = 0
    lines: Sequence[str] = ()
    resumed: bool


class Touched:
    """The ``touched`` file of one store."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._disk = tree.disk
        self._boot: str | None = None
        self._last: tuple[Node | None, str, int] | None = None
        self._parts: dict[str, tuple[str, ...]] = {}

    def note(self, key: str, *, held: bool) -> None:
        """Record that a lease was taken or released. Disk errors are ignored.

        A missing line is made up for when the lease is released, or by a full scan.
        """
        host = os.uname().nodename[:_HOST_CHARS_MAX].replace(" ", "_")
        line = f"+{os.getpid()}@{host} {key}\n" if held else f"-{key}\n"
        try:
            for _ in range(_TRIES_MAX):
                if self._append(line.encode()):
                    return
        except (OSError, HoldfastError):
            return

    def is_quiet(self, mark: str, folder: str) -> bool:
        """Return whether nothing at all happened to the keys of a folder below the root since the mark."""
        old = _read_mark(mark)
        return old is not None and self._is_as_before(old, *self._look(old, (folder,)))

    def changes(self, mark: str, prefix: str) -> Changes:
        """Return what may have changed in a folder of keys since the mark."""
        from holdfast.storage.base import Changes, check_prefix, is_key

        old = _read_mark(mark)
        if prefix not in self._parts:
            self._parts[prefix] = check_prefix(prefix)
        seen, folder = self._look(old, self._parts[prefix])
        if old is not None and self._is_as_before(old, seen, folder):
            return Changes(mark, frozenset(), listed=False)
        before = old.held if old is not None and seen.resumed else {}
        touched, held = _replay(seen.lines, before)
        alive = {key: who for key, who in held.items() if _may_live(who)}
        inode, time_ns = (0, 0) if folder is None else (folder.inode, folder.modified)
        now = time.time_ns()
        new = _Mark(
            boot=self._boot or "",
            file=seen.file,
            size=seen.size,
            folder=time_ns,
            inode=inode,
            owed=now if now - time_ns < _TIME_GRAIN_NS else 0,
            held=alive,
        )
        keys = frozenset(key for key in (*touched, *before) if key.startswith(prefix))
        # A full disk may have cut a line short: then it is not a key.
        if old is None or not seen.resumed or new.folder < old.folder or not all(map(is_key, keys)):
            return Changes(str(new), None, listed=True)
        moved = (old.inode, old.folder) != (new.inode, new.folder)
        if moved and not touched:
            # Changed by hand: a name that existed before may be another thing by now.
            return Changes(str(new), None, listed=True)
        owed = old.owed or (now if moved else 0)
        listed = _is_due(owed, now, folder)
        if owed and not listed:
            new.owed = owed
        return Changes(str(new), keys, listed=listed)

    def _look(self, old: _Mark | None, folder: tuple[str, ...]) -> tuple[_Seen, Node | None]:
        """Return the lines that the mark does not know, and the folder as it is."""
        with translation("looking for what has changed"):
            if self._boot is None:
                self._boot = self._disk.boot_id()
            found, file = self._glance(folder)
            seen = self._known_already(old, file) or self._read(old)
        self._last = (file, seen.file, seen.size)
        return seen, found

    def _is_as_before(self, old: _Mark, seen: _Seen, folder: Node | None) -> bool:
        """Return whether nothing at all happened: the most frequent case, so it is decided first."""
        quiet = seen.resumed and not seen.lines and not old.held and not _is_due(old.owed, time.time_ns(), folder)
        place = (0, 0) if folder is None else (folder.inode, folder.modified)
        return quiet and place == (old.inode, old.folder)

    def _glance(self, parts: tuple[str, ...]) -> tuple[Node | None, Node | None]:
        """Return the nodes of the folder and the file."""
        if self._tree.root(create=False) is None:
            return None, None
        file = self._tree.node_below(_NAME)
        if len(parts) == 1:
            return self._tree.node_below(parts[0]), file
        with self._tree.opened(parts[:-1]) as above:
            return None if above is None else self._disk.node_at(parts[-1], above), file

    def _known_already(self, old: _Mark | None, file: Node | None) -> _Seen | None:
        """Return what reading would return, if the file is unchanged since it was last read."""
        if file is None:
            return _Seen(resumed=old is not None and not old.file and old.boot == self._boot)
        last = self._last
        if old is None or last is None or last[0] is None:
            return None
        same = (last[0].inode, last[0].size) == (file.inode, file.size) and last[2] == file.size
        if same and (old.file, old.size, old.boot) == (last[1], last[2], self._boot):
            return _Seen(file=old.file, size=old.size, resumed=True)
        return None

    def _read(self, old: _Mark | None) -> _Seen:
        """Return the lines after those that the mark knows, or all of them if it is of another file."""
        with self._tree.opened(()) as root:
            try:
                descriptor = None if root is None else self._disk.open_read(_NAME, root)
            except FileNotFoundError:
                descriptor = None
        if descriptor is None:
            return _Seen(resumed=old is not None and not old.file and old.boot == self._boot)
        with held(self._disk, descriptor):
            file = self._disk.read_at(descriptor, _HEADER_BYTES, 0).decode("ascii", "replace").strip()
            start, resumed = _HEADER_BYTES, False
            if old is not None and old.file == file and old.boot == self._boot:
                resumed = self._disk.node(descriptor).size >= old.size
                start = old.size if resumed else start
            data = b"".join(read_all(self._disk, descriptor, start, _SIZE_MAX))
        end = data.rfind(b"\n") + 1
        lines = data[:end].decode("utf-8", "replace").split("\n")[:-1]
        return _Seen(file=file, size=start + end, lines=lines, resumed=resumed)

    def _append(self, line: bytes) -> bool:
        """Add a line; return False if the file was replaced meanwhile, so that the line would be lost."""
        with self._tree.at_root() as root:
            descriptor = self._disk.open_log(_NAME, root, create=True)
            try:
                node = self._disk.node(descriptor)
                if node.links > 1:  # another file as well: that one stays unchanged
                    self._disk.unlink(_NAME, root)
                    return False
                if not node.size:
                    line = _header() + line
                self._disk.write(descriptor, line)
                current = self._disk.node_at(_NAME, root)
            finally:
                let_go(self._disk, descriptor)
        if node.size > _SIZE_MAX:
            with self._tree.opened((), create=True) as root:
                assert root is not None
                self._shorten(root)
        return current is not None and current.inode == node.inode

    def _shorten(self, root: int) -> None:
        """Replace a long file by a short one: the current holders, under a new header."""
        _, holders = _replay(self._read(None).lines, {})
        lines = [f"+{who} {key}\n" for key, who in holders.items() if _may_live(who)]
        if self._disk.node_at(_NEW_NAME, root) is not None:
            self._disk.unlink(_NEW_NAME, root)  # of a process that was killed while writing it
        with held(self._disk, self._disk.open_new(_NEW_NAME, root)) as descriptor:
            self._disk.write(descriptor, _header() + "".join(lines).encode())
        self._disk.rename(_NEW_NAME, root, _NAME, root)


def _read_mark(mark: str) -> _Mark | None:
    """Return the mark in a text; None if it is invalid or of an older version."""
    try:
        head, *lines = mark.split("\n")
        boot, file, size, folder, inode, owed = head.split(" ")
        held = {key: who for who, key in (line.split(" ") for line in lines)}
        return _Mark(
            boot=boot.removeprefix("-"),
            file=file.removeprefix("-"),
            size=int(size),
            folder=int(folder),
            inode=int(inode),
            owed=int(owed),
            held=held,
        )
    except ValueError:
        return None


def _is_due(owed: int, now: int, folder: Node | None) -> bool:
    """Return whether all entries are to be scanned now: at once if they are few."""
    multiple = 0 if folder is None else folder.size // _LARGE_BYTES
    return bool(owed) and not 0 <= now - owed < multiple * _PUT_OFF_NS


def _header() -> bytes:
    return os.urandom(_HEADER_BYTES // 2).hex().encode() + b"\n"


def _replay(lines: Iterable[str], held: dict[str, str]) -> tuple[set[str], dict[str, str]]:
    """Return the keys that lines name, and who holds which after them."""
    touched: set[str] = set()
    now = dict(held)
    for line in lines:
        if line.startswith("+"):
            who, _, key = line[1:].partition(" ")
            now[key] = who
        else:
            key = line.removeprefix("-")
            now.pop(key, None)
        touched.add(key)
    return touched, now


def _may_live(who: str) -> bool:
    """Return whether a holder may still be running; one of another machine cannot be seen from here."""
    pid, _, host = who.partition("@")
    here = os.uname().nodename[:_HOST_CHARS_MAX].replace(" ", "_")
    if host != here or not pid.isdecimal():
        return host != here
    return is_running(int(pid))
