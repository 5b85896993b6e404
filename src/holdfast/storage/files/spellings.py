"""Ids with capitals, by their folded form: a new id can clash by case alone only with one of those.

``<root>/spellings/<folded id>`` has a line for each spelling with capitals that a session was created under, synced
before the session exists. Lines are never removed: a check looks whether such a session exists now. An id without
capitals, like generated ids, needs a check of one name that is usually absent. A store that has no such folder is
listed once; ``.listed`` says that this was done, and is the lock for creating an id that has a namesake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import InvalidId
from holdfast.model import fold_id, is_id
from holdfast.storage.base import clashing
from holdfast.storage.files.tree import LOCK_NAME, Tree, held, read_all, reading, write_all

_FOLDER = "spellings"
_LISTED = ".listed"


class Spellings:
    """The records of all folders of sessions of one store. Lets OSError through."""

    def __init__(self, tree: Tree, is_there: Callable[[str], bool]) -> None:
        """``is_there`` returns whether a key has a log."""
        self._tree = tree
        self._disk = tree.disk
        self._is_there = is_there
        self._listed: set[tuple[str, ...]] = set()

    def others(self, parts: tuple[str, ...]) -> list[str]:
        """Return the keys that differ from this one only by case and may exist. Writes nothing."""
        *above, name = parts
        folded = fold_id(name)
        if self._is_listed(parts[:-2]):
            with self._tree.opened(_folder(parts)) as directory:
                found = [] if directory is None else self._read(folded, directory)
        else:
            with self._tree.opened(tuple(above)) as directory:
                names = [] if directory is None else self._disk.scan(directory)
            found = [one for one in names if fold_id(one) == folded]
        return ["/".join((*above, one)) for one in dict.fromkeys((folded, *found)) if one != name]

    def claim(self, parts: tuple[str, ...], give_up: Callable[[], None]) -> None:
        """Raise InvalidId, after ``give_up``, if a namesake of a key that is being created exists or is being created.

        For the holder of the key's lease: of two namesakes that are created at once at least one sees the other.
        """
        name = parts[-1]
        if fold_id(name) == name and self._is_listed(parts[:-2]) and not self.others(parts):
            return
        with self.alone(parts):
            try:
                self.check(parts)
            except InvalidId:
                # Inside, so that the other one does not give up as well.
                give_up()
                raise

    @contextmanager
    def alone(self, parts: tuple[str, ...]) -> Iterator[None]:
        """Hold the lock for decisions about an id that has a namesake; this one is recorded."""
        with self._tree.opened(_folder(parts), create=True) as directory:
            assert directory is not None
            with held(self._disk, self._disk.open_lock(_LISTED, directory)) as lock:
                self._disk.lock(lock, wait=True)
                if not self._disk.node(lock).size:
                    with self._tree.opened(parts[:-1]) as sessions:
                        names = [] if sessions is None else self._disk.scan(sessions)
                    self._record(parts, filter(is_id, names), directory)
                    write_all(self._disk, lock, b"listed\n")
                self._listed.add(parts[:-2])
                self._record(parts, [parts[-1]], directory)
                yield

    def check(self, parts: tuple[str, ...], besides: str = "") -> None:
        """Raise InvalidId if a namesake has a log, or a process that is about to create it."""
        for other in self.others(parts):
            if other != besides and (self._is_there(other) or self._is_held(other)):
                raise clashing("/".join(parts), other)

    def note(self, parts: tuple[str, ...]) -> None:
        """Record an existing session, perhaps copied by hand, unless the whole folder has to be listed anyway."""
        if fold_id(parts[-1]) != parts[-1] and self._is_listed(parts[:-2]):
            with self._tree.opened(_folder(parts), create=True) as directory:
                assert directory is not None
                self._record(parts, [parts[-1]], directory)

    def _record(self, parts: tuple[str, ...], names: Iterator[str] | list[str], directory: int) -> None:
        new = False
        for name in names:
            folded = fold_id(name)
            if folded != name and name not in self._read(folded, directory):
                with held(self._disk, self._disk.open_log(folded, directory, create=True)) as file:
                    # With a newline before it: a crash may have left a part of the line before.
                    write_all(self._disk, file, f"\n{name}\n".encode())
                    self._disk.sync(file)
                new = True
        if new:
            self._tree.sync(_folder(parts))

    def _read(self, folded: str, directory: int) -> list[str]:
        try:
            with reading(self._disk, folded, directory) as file:
                text = b"".join(read_all(self._disk, file)).decode("ascii", "replace")
        except FileNotFoundError:
            return []
        return [line for line in text.split("\n") if fold_id(line) == folded]

    def _is_listed(self, space: tuple[str, ...]) -> bool:
        if space not in self._listed:
            with self._tree.opened((*space, _FOLDER)) as directory:
                node = None if directory is None else self._disk.node_at(_LISTED, directory)
            if node is None or not node.size:
                return False
            self._listed.add(space)
        return True

    def _is_held(self, key: str) -> bool:
        """Return whether a process has the lock of a key; a leftover lock file has no holder."""
        with self._tree.opened(tuple(key.split("/"))) as directory:
            if directory is None or self._disk.node_at(LOCK_NAME, directory) is None:
                return False
            with held(self._disk, self._disk.open_lock(LOCK_NAME, directory)) as lock:
                return not self._disk.lock(lock)


def _folder(parts: tuple[str, ...]) -> tuple[str, ...]:
    return (*parts[:-2], _FOLDER)
