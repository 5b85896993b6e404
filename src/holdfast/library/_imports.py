"""Importing sessions of other tools. A source is only ever read, and never trusted."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Literal

import msgspec

from holdfast._lazy import lazy_modules
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import _views
from holdfast.library._core import Core, Progress, check_text
from holdfast.model import struct_html, struct_repr

if TYPE_CHECKING:
    from holdfast import formats
    from holdfast.formats import Bounds
else:
    # Verbs that import nothing also report what was imported.
    (formats,) = lazy_modules("holdfast", "formats")

Source = str | os.PathLike[str] | bytes | BinaryIO


class Place(msgspec.Struct, frozen=True):
    """A place where a tool of this user keeps sessions."""

    tool: str
    path: str

    def signs(self) -> dict[str, tuple[int, int]]:
        """Return the files there with time and size of each, so that changes show without reading them."""
        found: dict[str, tuple[int, int]] = {}
        for file in _names(self.path) if os.path.isdir(self.path) else (self.path, f"{self.path}-wal"):
            with contextlib.suppress(OSError):
                node = os.stat(file)
                if not stat.S_ISDIR(node.st_mode):
                    found[file] = (node.st_mtime_ns, node.st_size)
        return found


class SignedFile(io.BytesIO):
    """The verified bytes of a file; later changes at its path do not matter."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.filename = name


def import_(core: Core, path: Source, format: str, passphrase: str | None, verify_key: str | None) -> list[str]:
    if verify_key is not None:
        from holdfast.library._keychain import read_signed

        if not isinstance(path, (str, os.PathLike)):
            raise UsageError("a signature is beside a file", remedy="Give the path of the file.")
        check_text("verify_key", verify_key)
        path = read_signed(path, verify_key)
    report = import_all(core, [path], format, passphrase=passphrase)
    if report.errors:
        raise report.errors[0]
    return report.ids


def import_all(
    core: Core,
    paths: Iterable[Source],
    format: str = "auto",
    dry_run: bool = False,
    passphrase: str | None = None,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> ImportReport:
    from holdfast.library._import_run import ImportRun

    core.check_open()
    if not isinstance(paths, Iterable):
        raise UsageError(f"paths are a list, not {type(paths).__name__}")
    run = ImportRun(core, format, dry_run=dry_run, passphrase=passphrase, progress=progress)
    for path in paths:
        run.take(path, bounds)
    return run.report


class ForeignSessions:
    """The sessions of other tools on this machine, and those that were imported: ``hf.foreign``."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def imported(self, foreign_id: str) -> list[str]:
        """Return the sessions here that another tool knows by an id, or the beginning of it."""
        self._core.check_open()
        check_text("foreign_id", foreign_id)
        tools = (name.replace("_", "-") for name in formats.READERS)
        starts = ((tool, formats.session_id_of(tool, foreign_id).rpartition("-")[0]) for tool in tools)
        by_start = {start: tool for tool, start in starts if start != tool}
        found = []
        for start, ids in self._core.catalog.ids_by(by_start).items():
            for id in sorted(ids):
                links = _views.state(self._core, id).links.get(by_start[start], [])
                if any(link.lower().startswith(foreign_id.lower()) for link in links):
                    found.append(id)
        return found

    def strangers(self) -> Place | None:
        """Return the other tool whose sessions are in the folder of this store, if it has none of ours; else None.

        A folder of another system is no store: its sessions have to be imported.
        """
        self._core.check_open()
        path = getattr(self._core.inner, "path", None)
        if path is None or next(iter(self._core.store.entries()), None) is not None:
            return None
        return strangers_at(path)

    def importable(self, foreign_id: str) -> Place | None:
        """Return the places from which a session of that id could be imported, by the name of its file."""
        check_text("foreign_id", foreign_id)
        near = self.strangers()
        places = [Place("", os.path.join(os.getcwd(), _PROJECT)), *find_places()]
        for place in places if near is None else (near, *places):
            path = _named(place.path, foreign_id)
            found = strangers_at(path) if path else None
            if found is not None:
                return found
        return None

    def places(self, tool: str | None = None) -> list[Place]:
        """Return the places where tools of this user keep sessions on this machine."""
        return find_places(tool)


def warn_of_strangers(core: Core) -> None:
    """Log a warning if the folder of the store holds sessions of another system."""
    place = ForeignSessions(core).strangers()
    if place is not None:
        import logging

        logging.getLogger("holdfast").warning(
            "%s holds sessions of %s, which are not sessions of this store; bring them in with"
            " `holdfast import`, or hf.import_, into a store of their own",
            place.path,
            place.tool,
        )


# Finding the sessions of this user's tools, the owner of a folder, and what is new.
_NAMES_MAX = 50_000
_NAME_CHARS_MIN = 8  # shorter than this, an id may be part of any name
_PROJECT = ".agent-sessions"


def find_places(tool: str | None = None) -> list[Place]:
    """Return every existing place once, in the order of the readers."""
    import glob

    found: dict[Place, None] = {}
    for name in formats.READERS if tool is None else (tool,):
        for pattern in formats.places_of(name):
            for path in sorted(glob.glob(_rooted(pattern), recursive=True)):
                found[Place(name.replace("_", "-"), path)] = None
    return list(found)


def strangers_at(path: str) -> Place | None:
    """Return the folder, if it holds sessions of another tool: the first of them that is found."""
    from holdfast.library._import_run import tools_in

    try:
        # Our own sessions may be there as well: in spaces, or created by another process at this moment.
        found = tools_in(path, formats.Bounds(files_max=5_000, levels_max=8))
        tool = next((tool for tool in found if tool != "holdfast"), None)
    except HoldfastError:  # too large or unreadable: skipped without a message
        return None
    return None if tool is None else Place(tool, path)


def _named(path: str, foreign_id: str) -> str | None:
    """Return the path at a place that is named by an id: the place itself, or a folder or file in it."""
    for count, one in enumerate(_names(path)):
        if _is_called(os.path.basename(one), foreign_id):
            return one
        if count > _NAMES_MAX:
            break
    # Some tools keep a session as a file of a fixed name in a folder named by the id.
    return path if _is_called(os.path.basename(os.path.dirname(path)), foreign_id) else None


def _is_called(name: str, foreign_id: str) -> bool:
    """Return whether a file or folder is named by an id, or contains it if it is not an ordinary word."""
    name, wanted = name.lower(), foreign_id.lower()
    if name.partition(".")[0] == wanted:
        return True
    is_word = len(wanted) < _NAME_CHARS_MIN or not any(char.isdecimal() for char in wanted)
    return not is_word and wanted in name


def _names(path: str) -> Iterator[str]:
    yield path
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            yield os.path.join(folder, name)


def _rooted(pattern: str) -> str:
    """Return the pattern below the home directory, or below the folder that a variable sets for the tool."""
    import glob

    for variable, below in formats.HOMES.items():
        value = os.environ.get(variable)
        if value and (pattern == below or pattern.startswith(f"{below}/")):
            return glob.escape(os.path.expanduser(value)) + pattern[len(below) :]
    return os.path.join(glob.escape(os.path.expanduser("~")), pattern)


# The result of an import, session by session.
Outcome = Literal["imported", "updated", "unchanged", "failed"]


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One session of a source, and the outcome of its import."""

    session_id: str
    tool: str
    foreign_id: str
    outcome: Outcome
    source: str = ""
    title: str | None = None
    events: int = 0
    """The number of new events."""
    problems: tuple[str, ...] = ()
    """The parts of the source that could not be read, in words."""
    reason: str | None = None
    """The reason for a failure."""


class Skipped(msgspec.Struct, frozen=True):
    """A source from which nothing was imported, and the reason."""

    source: str
    reason: str


class ImportReport(msgspec.Struct):
    """The result of an import. ``errors`` are the exceptions behind failed and skipped items."""

    __repr__, _repr_html_ = struct_repr, struct_html

    sessions: list[ImportedSession] = []
    skipped: list[Skipped] = []
    errors: list[HoldfastError] = []

    @property
    def ids(self) -> list[str]:
        """Return the ids of the sessions in the source that are here now, each once, in its order."""
        return list(dict.fromkeys(row.session_id for row in self.sessions if row.outcome != "failed"))

    def of(self, outcome: Outcome) -> list[ImportedSession]:
        return [row for row in self.sessions if row.outcome == outcome]

    @property
    def imported(self) -> list[ImportedSession]:
        """Return the sessions that are new here."""
        return self.of("imported")

    @property
    def updated(self) -> list[ImportedSession]:
        """Return the sessions that were here and got new events."""
        return self.of("updated")

    @property
    def unchanged(self) -> list[ImportedSession]:
        """Return the sessions that were here already, as they are in the source."""
        return self.of("unchanged")

    @property
    def failed(self) -> list[ImportedSession]:
        """Return the sessions that could not be recorded, such as one that is open elsewhere."""
        return self.of("failed")
