"""Finding where the tools of this user keep their sessions, whose a folder is, and what is new."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.formats import READERS, Bounds, Reader, all_readers, reader_of, session_id_of
from holdfast.library._importing import Place

if TYPE_CHECKING:
    from holdfast.library._importing import Importing

__all__ = ["Sign", "file_of", "find_places", "imported_as", "signs", "strangers_at"]

_LOOKED_AT = Bounds(files_max=5_000, levels_max=8)
_NAMES_MAX = 50_000
_NAME_CHARS_MIN = 8  # less of an id may be in the name of anything
_PROJECT = ".agent-sessions"

Sign = tuple[int, int]
"""When a file was last changed, and its size."""


def find_places(tool: str | None = None) -> list[Place]:
    """Every place that exists, each once, in the order of the readers."""
    chosen = all_readers() if tool is None else (reader_of(tool),)
    found: dict[tuple[str, str], Place] = {}
    for reader in chosen:
        for pattern in reader.places:
            for path in sorted(glob.glob(_rooted(reader, pattern), recursive=True)):
                found.setdefault((reader.tool, path), Place(reader.tool, path))
    return list(found.values())


def strangers_at(path: str) -> Place | None:
    """The folder, if it holds sessions of another tool: the first of them that is found."""
    from holdfast.library._import_run import tools_in

    try:
        # Our own may lie there as well: in spaces, or made by another process at this moment.
        tool = next((tool for tool in tools_in(path, _LOOKED_AT) if tool != "holdfast"), None)
    except HoldfastError:  # too much, or not to be read: nothing is said about it
        return None
    return None if tool is None else Place(tool, path)


def imported_as(library: Importing, foreign_id: str) -> list[str]:
    """The sessions here that were imported under that id, or one that begins with it."""
    facade: Any = library
    found = []
    for tool in (name.replace("_", "-") for name in READERS):
        start = session_id_of(tool, foreign_id).rpartition("-")[0]
        for id in sorted(facade.session_ids(start)) if start != tool else ():
            links = facade.state(id).links.get(tool, [])
            if any(link.lower().startswith(foreign_id.lower()) for link in links):
                found.append(id)
    return found


def file_of(foreign_id: str, folder: str | None = None) -> Place | None:
    """Where a session of that id lies that is not here yet, by the name of its file or folder."""
    near = [folder] if folder else []
    places = [Place("", path) for path in (*near, os.path.join(os.getcwd(), _PROJECT))]
    for place in (*places, *find_places()):
        path = _named(place.path, foreign_id)
        found = strangers_at(path) if path else None
        if found is not None:
            return found
    return None


def _named(path: str, foreign_id: str) -> str | None:
    """What is called so at a place: the place itself, or a folder or file in it."""
    for count, one in enumerate(_names(path)):
        if _is_called(os.path.basename(one), foreign_id):
            return one
        if count > _NAMES_MAX:
            break
    # A session of some tools is a file of one name in a folder that bears the id.
    above = os.path.dirname(path)
    return path if _is_called(os.path.basename(above), foreign_id) else None


def _is_called(name: str, foreign_id: str) -> bool:
    """Whether a file or folder bears an id: as its name, or within it if it is no mere word."""
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


def signs(path: str) -> dict[str, Sign]:
    """The files at a place with a sign of each, so that a change can be seen without reading."""
    found: dict[str, Sign] = {}
    for file in _files(path):
        try:
            node = os.stat(file)
        except OSError:
            continue
        found[file] = (node.st_mtime_ns, node.st_size)
    return found


def _files(path: str) -> Iterable[str]:
    if not os.path.isdir(path):
        yield path
        yield f"{path}-wal"
        return
    for folder, _, names in os.walk(path):
        for name in names:
            yield os.path.join(folder, name)


def _rooted(reader: Reader, pattern: str) -> str:
    """The pattern below the home directory, or below where a variable says that the tool is."""
    for variable, below in getattr(reader, "homes", {}).items():
        value = os.environ.get(variable)
        if value and (pattern == below or pattern.startswith(f"{below}/")):
            return glob.escape(os.path.expanduser(value)) + pattern[len(below) :]
    return os.path.join(glob.escape(os.path.expanduser("~")), pattern)
