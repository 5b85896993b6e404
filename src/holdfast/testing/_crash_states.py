"""Every state in which a crash can leave a disk, computed from the calls made on it.

The rules are those of a weak but honest file system. Bytes are safe after the sync of their file,
names after the sync of their directory. What is not safe may be there or not: names in the order in
which they were made, bytes cut at any place, or the file already as long as it will be and filled
with zeros. A kill of the process alone loses nothing that a call has done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from holdfast.testing._sim_disk import SimDisk

ROOT = 1
_SUBSET_BITS_MAX = 6
_UNSAFE_FILES_MAX = 4
_WHOLE_PART = 0.3
_ZEROS_PART = 0.15

Paths = dict[str, tuple[int, bytes | None]]
Entries = dict[int, dict[str, int]]
Names = dict[int, list[str]]


@dataclass(slots=True, eq=False, repr=False)
class CrashState:
    """A disk as a crash left it, and the acknowledgements until then."""

    paths: Paths
    """(inode, bytes) by path; the bytes of a directory are None."""
    acknowledged: tuple[Any, ...]
    after: int
    """The number of effects before it."""
    cut: tuple[int, int] | None = None
    """If the last write was cut: the number of bytes written, and of all its bytes."""

    @property
    def key(self) -> frozenset[tuple[str, bytes | None]]:
        """A value that is equal for two states with the same files."""
        return frozenset(zip(self.paths, [data for _, data in self.paths.values()], strict=True))

    def content(self, path: str) -> bytes | None:
        """Return the bytes of a file; None if it is not there."""
        return self.paths.get(path, (0, None))[1]

    def disk(self) -> SimDisk:
        """Return the disk in this state, on which to run recovery."""
        from holdfast.testing._sim_disk import SimDisk

        return SimDisk(self.image())

    def image(self) -> Image:
        """Return the state as inodes, to create a disk from."""
        entries: Entries = {ROOT: {}}
        contents: dict[int, bytes] = {}
        numbers = {"": ROOT}
        for path, (inode, data) in sorted(self.paths.items()):
            above, _, name = path.rpartition("/")
            numbers[path] = inode
            entries[numbers[above]][name] = inode
            if data is None:
                entries[inode] = {}
            else:
                contents[inode] = data
        return Image(entries, contents)

    def __repr__(self) -> str:
        cut = f", the last one cut at {self.cut[0]} of {self.cut[1]} bytes" if self.cut else ""
        return f"<CrashState after {self.after} effects{cut}: {sorted(self.paths)}>"


class _Medium:
    """The contents of the disk: synced and unsynced."""

    def __init__(self, image: Image, settled: Collection[str] = ()) -> None:
        self.settled: set[int] = set()
        self._settled_names = settled
        self.entries: Entries = {inode: dict(names) for inode, names in image.entries.items()}
        self.contents = dict(image.contents)
        self.changes: list[EntryChange] = []
        self.unsafe: dict[int, list[DataChange]] = {}

    def take(self, effect: Effect) -> None:
        if isinstance(effect, (Write, Cut)):
            self.unsafe.setdefault(effect.inode, []).append(effect)
        elif isinstance(effect, Sync):
            if effect.inode in self.unsafe:
                self.contents[effect.inode] = self.volatile(effect.inode)
                del self.unsafe[effect.inode]
        elif isinstance(effect, SyncDirectory):
            safe = [change for change in self.changes if change.directory == effect.inode]
            self.changes = [change for change in self.changes if change.directory != effect.inode]
            for made in safe:
                _change(self.entries, made)
                if made.removed is not None and made.added is not None:
                    # A name whose removal is safe does not return, whatever is synced later: otherwise the old name
                    # could come back beside the new one, which no rename leaves.
                    before = (*made.removed, made.added[2])
                    self.changes = [change for change in self.changes if change.added != before]
        elif isinstance(effect, EntryChange):
            self.changes.append(effect)
            if effect.added is not None and not effect.is_directory:
                self.contents.setdefault(effect.added[2], b"")
                if effect.added[1] in self._settled_names:
                    self.settled.add(effect.added[2])

    def entry_choices(self, *, subsets: bool) -> Iterator[Entries]:
        """Yield the names that a crash may leave: the unsynced changes up to any one, or any subset of them."""
        # The number of subsets is exponential: beyond a few changes, only prefixes.
        if subsets and len(self.changes) <= _SUBSET_BITS_MAX:
            for mask in range(1 << len(self.changes)):
                yield self._with(c for bit, c in enumerate(self.changes) if mask >> bit & 1)
            return
        # Prefixes, as in the journal of a file system; the longest first.
        for count in range(len(self.changes), -1, -1):
            yield self._with(self.changes[:count])

    def _with(self, changes: Iterable[EntryChange]) -> Entries:
        entries = {inode: dict(names) for inode, names in self.entries.items()}
        for change in changes:
            _change(entries, change)
        return entries

    def volatile(self, inode: int) -> bytes:
        """Return a file's bytes as programs see them."""
        return _after(self.contents.get(inode, b""), self.unsafe.get(inode, ()))


def _after(content: bytes, changes: Iterable[DataChange]) -> bytes:
    """Return the content of a file after some changes."""
    for change in changes:
        content = change.on(content)
    return content


def _change(entries: Entries, change: EntryChange) -> None:
    added = change.added
    if change.removed is not None:
        directory, name = change.removed
        names = entries.setdefault(directory, {})
        # A rename moves only its own file: if an older change is missing, the name may be another file's.
        if added is None or names.get(name) == added[2]:
            names.pop(name, None)
    if added is not None:
        directory, name, inode = added
        entries.setdefault(directory, {})[name] = inode


def power_states(
    image: Image,
    effects: list[Effect],
    *,
    step: int = 1,
    subsets: bool = False,
    holes: bool = False,
    settled: Collection[str] = (),
) -> Iterator[CrashState]:
    """Yield the states that power loss can leave, each once for each acknowledged effect.

    ``step`` thins the bytes at which a write is cut; ``subsets`` lets unsafe names come in any
    combination instead of in order; ``holes`` lets a later write reach the medium before an
    earlier one. Files with a name in ``settled`` are taken whole or as they were, not cut.
    """
    medium = _Medium(image, settled)
    told: list[Any] = []
    seen: set[Any] = set()
    for index, effect in enumerate([None, *effects]):
        if effect is not None:
            medium.take(effect)
        if isinstance(effect, Sync):
            continue  # fewer states than before
        if isinstance(effect, Acknowledged):
            if not effect.survives_power_loss:
                continue
            # The same files must now contain more: everything acknowledged up to here.
            told.append(effect.what)
            seen.clear()
        acknowledged = tuple(told)
        written = effect.inode if isinstance(effect, (Write, Cut)) else None
        for paths, cut in _states_at(medium, written, step, subsets=subsets, holes=holes):
            state = CrashState(paths, acknowledged, index, cut)
            if state.key not in seen:
                seen.add(state.key)
                yield state


def kill_states(
    image: Image, effects: list[Effect], *, step: int = 1, settled: Collection[str] = ()
) -> Iterator[CrashState]:
    """Yield the states that a kill can leave: everything done, and the last write cut at any byte."""
    medium = _Medium(image, settled)
    told: list[Any] = []
    yield CrashState(_tree(medium.entries, medium.contents), (), 0)
    for index, effect in enumerate(effects, 1):
        if isinstance(effect, (Sync, SyncDirectory)):
            continue
        if isinstance(effect, Acknowledged):
            told.append(effect.what)
        if isinstance(effect, Write) and effect.inode not in medium.settled:
            paths = _tree(medium.entries, medium.contents)
            before = medium.contents.get(effect.inode, b"")
            names = _names(paths)
            for size in range(step, len(effect.data), step):
                cut = _replaced(paths, names, effect.inode, effect.on(before, size))
                yield CrashState(cut, tuple(told), index, (size, len(effect.data)))
        _take_at_once(medium, effect)
        yield CrashState(_tree(medium.entries, medium.contents), tuple(told), index)


def end_states(image: Image, effects: list[Effect]) -> Iterator[CrashState]:
    """Yield the state that a kill leaves after all effects, then those of a power loss, the worst first."""
    safe, seen = _Medium(image), _Medium(image)
    told = [effect for effect in effects if isinstance(effect, Acknowledged)]
    for effect in effects:
        safe.take(effect)
        _take_at_once(seen, effect)
    kept = tuple(promise.what for promise in told)
    flushed = tuple(promise.what for promise in told if promise.survives_power_loss)
    yield CrashState(_tree(seen.entries, seen.contents), kept, len(effects))
    yield CrashState(_tree(safe.entries, safe.contents), flushed, len(effects))
    for paths, _ in _states_at(safe, None, 1, subsets=False, holes=False):
        yield CrashState(paths, flushed, len(effects))


def _take_at_once(medium: _Medium, effect: Effect) -> None:
    """Apply an effect as if it were synced, as for a system that keeps running."""
    medium.take(effect)
    if isinstance(effect, (Write, Cut)):
        medium.take(Sync(effect.inode))
    elif isinstance(effect, EntryChange):
        medium.take(SyncDirectory(effect.directory))


def _states_at(
    medium: _Medium, written: int | None, step: int, *, subsets: bool, holes: bool
) -> Iterator[tuple[Paths, tuple[int, int] | None]]:
    # Whole or unchanged, as the caller requested.
    if written in medium.settled:
        step = len(medium.volatile(written))
    for entries in medium.entry_choices(subsets=subsets):
        base = _tree(entries, medium.contents)
        names = _names(base)
        for inode in medium.settled:
            base = _replaced(base, names, inode, medium.volatile(inode))
        settled = {written, *medium.settled}
        unsafe = [inode for inode in medium.unsafe if inode in names and inode not in settled]
        # The other unsynced files, each in its distinctive states, in all combinations.
        others = list(_with_unsafe_files(base, names, medium, unsafe, holes=holes))
        for paths in others:
            yield paths, None
            if written in names:
                yield _replaced(paths, names, written, medium.volatile(written)), None
        if written in names:
            # Each cut only with the other files in their old and in their new state.
            for paths in {id(paths): paths for paths in (others[0], others[-1])}.values():
                for content, cut in _every_cut(medium, written, step):
                    yield _replaced(paths, names, written, content), cut


def _with_unsafe_files(
    base: Paths, names: Names, medium: _Medium, unsafe: list[int], *, holes: bool
) -> Iterator[Paths]:
    """Yield each combination of possible contents of the unsynced files."""
    options = [_coarse(medium, inode, holes=holes) for inode in unsafe]
    if len(unsafe) > _UNSAFE_FILES_MAX:  # all or nothing, or there would be too many
        options = [[choices[0], choices[-1]] for choices in options]
    for choice in product(*options):
        paths = base
        for inode, content in zip(unsafe, choice, strict=True):
            paths = _replaced(paths, names, inode, content)
        yield paths


def _coarse(medium: _Medium, inode: int, *, holes: bool) -> list[bytes]:
    """Return the distinctive contents that a file may have: absent, zeros, half, whole."""
    safe, whole, changes = medium.contents.get(inode, b""), medium.volatile(inode), medium.unsafe[inode]
    half = whole[: (len(safe) + len(whole)) // 2]
    found = [safe, safe.ljust(len(whole), b"\0"), half]
    found += accumulate(changes, lambda content, change: change.on(content), initial=safe)
    if holes:  # one of the unsafe writes is lost, those after it are not
        found += [_after(safe, changes[:lost] + changes[lost + 1 :]) for lost in range(len(changes))]
    return list(dict.fromkeys([*found, whole]))


def _every_cut(medium: _Medium, inode: int, step: int) -> Iterator[tuple[bytes, tuple[int, int] | None]]:
    """Yield the file with its last change cut at each byte, and with zeros up to its new size."""
    *earlier, last = medium.unsafe[inode]
    content = medium.contents.get(inode, b"")
    # First the state of the last sync.
    yield content, None
    content = _after(content, earlier)
    whole = last.on(content)
    yield content, None
    # Some file systems write the new size before the bytes.
    yield content.ljust(len(whole), b"\0"), None
    if isinstance(last, Write):
        length = len(last.data)
        for size in range(step, length, step):
            yield last.on(content, size), (size, length)
        yield last.on(content, length // 2).ljust(len(whole), b"\0"), None
    yield whole, None


def _tree(entries: Entries, contents: dict[int, bytes]) -> Paths:
    """Return everything that can be reached from the top, by path."""
    paths: Paths = {}
    todo = [("", ROOT)]
    while todo:
        above, directory = todo.pop()
        for name, inode in entries.get(directory, {}).items():
            path = f"{above}/{name}"
            paths[path] = (inode, contents.get(inode))
            if inode not in contents:
                todo.append((path, inode))
    return paths


def _names(paths: Paths) -> Names:
    """Return every path of each inode."""
    names: Names = {}
    for path, (inode, _) in paths.items():
        names.setdefault(inode, []).append(path)
    return names


def _replaced(paths: Paths, names: Names, inode: int, content: bytes) -> Paths:
    """Return the paths with other bytes in one file, under each of its names."""
    return paths | dict.fromkeys(names.get(inode, ()), (inode, content))


def sampled_power_loss(image: Image, effects: list[Effect], chance: Random) -> CrashState:
    """Return one of the states after a power loss that follows all these effects.

    The names that were not synced are there up to any one of them; of each file some of the writes
    that were not synced, the last of them cut at any byte, or zeros up to the new size.
    """
    medium = _Medium(image)
    for effect in effects:
        medium.take(effect)
    choices = list(medium.entry_choices(subsets=False))
    paths = _tree(chance.choice(choices), medium.contents)
    names = _names(paths)
    for inode in sorted(medium.unsafe):
        paths = _replaced(paths, names, inode, _sampled_content(medium, inode, chance))
    return CrashState(paths, (), len(effects))


def _sampled_content(medium: _Medium, inode: int, chance: Random) -> bytes:
    whole = medium.volatile(inode)
    content = medium.contents.get(inode, b"")
    luck = chance.random()
    if luck < _WHOLE_PART:
        return whole
    changes = medium.unsafe[inode]
    last = chance.randrange(len(changes))
    content = _after(content, changes[:last])
    cut = changes[last]
    if isinstance(cut, Write):
        content = cut.on(content, chance.randint(0, len(cut.data)))
    return content.ljust(len(whole), b"\0") if luck > 1 - _ZEROS_PART else content


# The effects of a call on a disk that a crash may undo.
class Write(NamedTuple):
    """Bytes written into a file."""

    inode: int
    offset: int
    data: bytes

    def on(self, content: bytes, size: int | None = None) -> bytes:
        """Return the content after the write, or after only the first ``size`` bytes of it."""
        data = self.data if size is None else self.data[:size]
        if not data:
            return content
        if self.offset == len(content):
            return content + data
        before = content[: self.offset].ljust(self.offset, b"\0")
        return before + data + content[self.offset + len(data) :]


class Cut(NamedTuple):
    """A file set to another size."""

    inode: int
    size: int

    def on(self, content: bytes, size: int | None = None) -> bytes:
        return content[: self.size].ljust(self.size, b"\0")


class Sync(NamedTuple):
    """A file's bytes are on the medium."""

    inode: int


class SyncDirectory(NamedTuple):
    """A directory's entries are on the medium."""

    inode: int


class EntryChange(NamedTuple):
    """Names removed and added atomically: a creation, a link, a rename, an unlink."""

    removed: tuple[int, str] | None
    added: tuple[int, str, int] | None
    is_directory: bool = False

    @property
    def directory(self) -> int:
        """The directory whose sync makes the change safe; for a rename, that of the new name."""
        if self.added is not None:
            return self.added[0]
        assert self.removed is not None
        return self.removed[0]


class Acknowledged(NamedTuple):
    """Not a call: at this point the program under test reported something as safe."""

    what: Any
    survives_power_loss: bool


DataChange = Write | Cut
Effect = Write | Cut | Sync | SyncDirectory | EntryChange | Acknowledged


class Image(NamedTuple):
    """The contents of a disk: the entries of each directory and the bytes of each file, by inode."""

    entries: dict[int, dict[str, int]]
    contents: dict[int, bytes]
