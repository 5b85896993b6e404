"""The source of an import: a file or a folder as named bytes, read lazily and within bounds.

A source is given its files; it opens none itself. Gzip and zstd are recognised by their first bytes and
expanded on the way, so readers never see them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import HoldfastError, InvalidData, NotFound, TooLarge
from holdfast.formats._file import (
    BYTE_ORDER_MARK,
    CHUNK_BYTES,
    Bounds,
    File,
    MemoryFile,
    check_line_count,
    check_name,
    decode_document,
    decode_or_none,
    expanded,
    is_compressed,
    read_lines,
    read_whole,
)

if TYPE_CHECKING:
    from holdfast.storage import ForeignDatabase

T = TypeVar("T")
HEAD_BYTES = 64 * 1024
_DIGEST_BYTES_MAX = 256 * 1024 * 1024

Beside = Callable[[str], File | None]


class Source:
    """A file or a folder tree. Names are relative, with ``/`` between the parts.

    ``name`` is the file's or folder's own name. A source that is one file can also reach the files beside it in the
    same folder, by name (``has``, ``read`` …), though ``names`` does not list them.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, File | bytes],
        *,
        is_file: bool = False,
        beside: Beside | None = None,
        folder: str = "",
        bounds: Bounds | None = None,
        shared: Remembered | None = None,
        way: str = "",
    ) -> None:
        self.name = name
        self.is_file = is_file
        self.folder = folder  # the name of its folder; some tools put a project's name there
        self.bounds = bounds or Bounds()
        self._files = {path: MemoryFile(file) if isinstance(file, bytes) else file for path, file in files.items()}
        self._beside = beside
        self._shared = shared or Remembered()
        self._way = way
        self._found: dict[str, File | None] = {}

    @classmethod
    def of_bytes(cls, name: str, data: bytes, bounds: Bounds | None = None) -> Source:
        """Return a source that is one file, in memory."""
        return cls(name, {name: data}, is_file=True, bounds=bounds)

    def names(self, ending: str = "") -> list[str]:
        """Return the files, in order of their names; with an ending, those that have it."""
        return sorted(name for name in self._files if name.endswith(ending))

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name, also beside a source that is one file."""
        return self._find(name) is not None

    def size(self, name: str) -> int:
        """Return the size of a file, unexpanded."""
        return self._file(name).size

    def is_used(self) -> bool:
        """Return whether a reader has read all of it already, as a part of something larger."""
        return all(self._way + name in self._shared.used for name in self._files)

    def use(self, name: str) -> None:
        """Count a file as read, also one whose session is read from another file."""
        self._shared.used.add(self._way + name)

    def looked_at(self) -> tuple[int, int]:
        """Return how many files were read so far, and how many there are."""
        return min(len(self._shared.used), len(self._files)), len(self._files)

    def is_partly_used(self) -> bool:
        """Return whether a file directly in this folder was read already."""
        start = len(self._way)
        return any(name.startswith(self._way) and "/" not in name[start:] for name in self._shared.used)

    def rest(self) -> Source:
        """Return the folder without the files that were read already."""
        used = self._shared.used
        left = {name: file for name, file in self._files.items() if self._way + name not in used}
        return self._part(self.name, left, "", folder=self.folder)

    @property
    def refusal(self) -> HoldfastError | None:
        """The reason why the first unreadable file was refused; None if all could be read."""
        return self._shared.refusal

    def pass_over(self, name: str, reason: str) -> None:
        """Report that something is missing, or cannot be read, though a session must be in it."""
        self._shared.passed_over[self._way + name, reason] = None

    def passed_over(self) -> list[tuple[str, str]]:
        """Return what was skipped so far, here and in all parts of the source, each once, and why."""
        return list(self._shared.passed_over)

    def damage(self, name: str) -> str | None:
        """Return why a file that begins like a JSON document is not one; None if it is one, or not JSON."""
        known = self._decoded(name) if self._begins_as_document(name) else None
        return str(known) if isinstance(known, HoldfastError) else None

    def check(self) -> None:
        """Expand a source that is one compressed file, and keep nothing. Raises TooLarge and InvalidData."""
        for file in self._files.values() if self.is_file else ():
            if is_compressed(next(file.chunks(CHUNK_BYTES), b"")):
                for _ in expanded(file.chunks(CHUNK_BYTES), self.bounds):
                    pass

    def head(self, name: str, size: int = HEAD_BYTES) -> bytes:
        """Return the first bytes of a file, as many as there are; empty if it cannot be read."""
        if size > HEAD_BYTES:
            return self._begin(name, size)
        return self.remember("head", name, lambda: self._begin(name, HEAD_BYTES))[:size]

    def tail(self, name: str, size: int) -> bytes:
        """Return the last bytes of a file, unexpanded, with no more of it in memory than that."""
        found = b""
        # A file can only be read from its start, so all of it is read.
        for chunk in self._file(name).chunks(CHUNK_BYTES):
            found = (found + chunk)[-size:]
        return found

    def remember(self, what: str, name: str, make: Callable[[], T]) -> T:
        """Return the result of ``make`` for a file, made once: many readers need the same."""
        return self._shared.get(what, self._way + name, make)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return a whole file. Raises TooLarge above ``limit``, InvalidData if it is cut short."""
        self.use(name)
        most = self.bounds.document_bytes_max if limit is None else limit
        return read_whole(self._file(name), name, most, self.bounds)

    def raw(self, name: str) -> bytes:
        """Return a whole file, unexpanded. Raises TooLarge."""
        self.use(name)
        file, most = self._file(name), self.bounds.archive_bytes_max
        if file.size > most:
            raise TooLarge(f"{name} has more than {most:,} bytes", needed_bytes=file.size)
        return b"".join(file.chunks(CHUNK_BYTES))

    def json(self, name: str) -> Any:
        """Return the value of a JSON file, not to be changed. Raises InvalidData and TooLarge."""
        self.use(name)
        known = self._decoded(name)
        if isinstance(known, HoldfastError):
            raise known
        return known

    def glimpse(self, name: str) -> Any:
        """Return the value of a JSON file, to recognise its tool; None if it is not a JSON document."""
        known = self._decoded(name) if self._begins_as_document(name) else None
        return None if isinstance(known, HoldfastError) else known

    def first(self, name: str) -> Any:
        """Return the value of the first line of a JSONL file; None if that is invalid."""
        return decode_or_none(self._text(name).partition(b"\n")[0], self.bounds)

    def lines(self, name: str, problems: list[str] | None = None) -> Iterator[bytes]:
        """Yield the lines of a log that are not blank, without their newline, within bounds.

        An unreadable part ends the log there and is reported in ``problems``; without such a list it raises
        TooLarge or InvalidData. A log of too many lines is always refused.
        """
        file = self._file(name)
        check_line_count(file, name, self.bounds)
        self.use(name)
        try:
            yield from read_lines(file, self.bounds)
        except (TooLarge, InvalidData) as error:
            if problems is None:
                raise
            problems.append(f"{name}: {error}; what comes after it was not read")

    def values(self, name: str, problems: list[str]) -> Iterator[tuple[bytes, Any]]:
        """Yield the lines of a JSONL file with their values; an invalid line is reported and skipped."""
        for number, line in enumerate(self.lines(name, problems), 1):
            try:
                yield line, decode_document(line, self.bounds)
            except (TooLarge, InvalidData) as error:
                problems.append(f"{name}: line {number} was left out: {error}")

    def database(self, name: str) -> ForeignDatabase:
        """Return a copy in memory of a SQLite file with its ``-wal``, to be closed. Raises InvalidData and TooLarge."""
        from holdfast.storage import copy_database

        limit = self.bounds.database_bytes_max
        # The last writes of a running tool are in its journal until SQLite merges it.
        wal = f"{name}-wal"
        return copy_database(self.read(name, limit), self.read(wal, limit) if self.has(wal) else b"")

    def only(self, name: str) -> Source:
        """Return one of the files as a source of its own; the files beside it can be reached."""
        folder = posixpath.dirname(name)

        def beside(other: str) -> File | None:
            return self._find(posixpath.join(folder, other))

        own = posixpath.basename(name)
        # A file is itself already, and would lose the files beside it.
        if self.is_file and own == name:
            return self
        above = posixpath.basename(folder) or (self.folder if self.is_file else self.name)
        way = name.removesuffix(own)
        return self._part(own, {own: self._file(name)}, way, folder=above, is_file=True, beside=beside)

    def below(self, folder: str) -> Source:
        """Return one of the folders as a source of its own."""
        head = f"{folder}/"
        files = {name.removeprefix(head): file for name, file in self._files.items() if name.startswith(head)}
        above = posixpath.basename(posixpath.dirname(folder)) or self.name
        return self._part(posixpath.basename(folder), files, head, folder=above)

    def _part(self, name: str, files: Mapping[str, File], way: str, **how: Any) -> Source:
        """Return a part of this source; all parts share what was read, under the whole names."""
        return Source(name, files, bounds=self.bounds, shared=self._shared, way=self._way + way, **how)

    def children(self) -> list[Source]:
        """Return the folders and files directly in a folder, each as a source."""
        folders = {name.partition("/")[0] for name in self._files if "/" in name}
        files = [name for name in self._files if "/" not in name]
        return [self.below(name) for name in sorted(folders)] + [self.only(name) for name in sorted(files)]

    def digest(self) -> str | None:
        """Return the SHA-256 of a file, unexpanded, None for a huge one; for a folder, of its names and sizes."""
        from hashlib import sha256  # it loads OpenSSL

        found = sha256()
        if self.is_file:
            if self.size(self.name) > _DIGEST_BYTES_MAX:
                return None
            for chunk in self._file(self.name).chunks(CHUNK_BYTES):
                found.update(chunk)
        else:
            for name in self.names():
                found.update(f"{name}\0{self.size(name)}\0".encode("utf-8", "surrogateescape"))
        return found.hexdigest()

    def newest(self) -> int:
        """Return when the newest of its files was changed, in Unix milliseconds; 0 if unknown."""
        return max((file.modified for file in self._files.values()), default=0)

    def _text(self, name: str) -> bytes:
        """Return the beginning of a file without a byte order mark and white space."""
        return self.head(name).removeprefix(BYTE_ORDER_MARK).lstrip()

    def _begins_as_document(self, name: str) -> bool:
        head = self._text(name)
        line, _, rest = head.partition(b"\n")
        # JSON lines begin like a document, with a line that is a complete value: only what follows distinguishes them.
        return head[:1] in (b"{", b"[") and (not rest.strip() or decode_or_none(line, Bounds()) is None)

    def _decoded(self, name: str) -> Any:
        """Return the value of a JSON file, or the error why there is none; kept for the next call."""

        def decode() -> Any:
            try:
                most = self.bounds.document_bytes_max
                data = read_whole(self._file(name), name, most, self.bounds)
                return decode_document(data, self.bounds)
            except (InvalidData, TooLarge) as error:
                self._shared.refuse(error)
                return error

        return self._shared.document(self._way + name, decode)

    def _begin(self, name: str, size: int) -> bytes:
        found, total = [], 0
        try:
            for chunk in expanded(self._file(name).chunks(size), self.bounds):
                found.append(chunk)
                total += len(chunk)
                if total >= size:
                    break
        except HoldfastError as error:
            self._shared.refuse(error)
            # it may not be readable; the files beside it still may be
            if not isinstance(error, (InvalidData, TooLarge)):
                self.pass_over(name, str(error))
        return b"".join(found)[:size]

    def _file(self, name: str) -> File:
        found = self._find(name)
        if found is None:
            raise NotFound(f"there is no file {name[:80]!a} in {self.name[:80]!a}")
        return found

    def _find(self, name: str) -> File | None:
        if name in self._files:
            return self._files[name]
        if self._beside is None:
            return None
        if name not in self._found:
            self._found[name] = self._beside(check_name(name))
        return self._found[name]


# State shared by a source and its parts: many readers read the same few files.
_HEADS_KEPT = 256
_MADE_KEPT = 32


class Remembered:
    """A cache of the values made from the files of one source, by full name."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.refusal: HoldfastError | None = None
        self.passed_over: dict[tuple[str, str], None] = {}
        self._made: dict[str, dict[str, Any]] = {}
        self._document: tuple[str, Any] = ("", None)

    def refuse(self, error: HoldfastError) -> None:
        """Keep the first reason for which a file was refused, but not the file's data."""
        # A traceback holds frames, and with them the bytes of the file.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.refusal = self.refusal or error

    def get(self, what: str, name: str, make: Callable[[], T]) -> T:
        """Return what is made from a file, made once."""
        made = self._made.setdefault(what, {})
        if name not in made:
            # All at once: which of them is needed next cannot be known.
            if len(made) >= (_HEADS_KEPT if what == "head" else _MADE_KEPT):
                made.clear()
            made[name] = make()
        found: T = made[name]
        return found

    def document(self, name: str, decode: Callable[[], Any]) -> Any:
        """Return the value of a file, or the error instead; only the last one is kept."""
        if self._document[0] != name:
            self._document = "", None  # two of them need not be in memory at once
            self._document = name, decode()
        return self._document[1]
