"""Finding where the tools of this user keep their sessions, and seeing when they change."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from holdfast.formats import Reader, all_readers, reader_of
from holdfast.library._importing import Place

__all__ = ["Sign", "find_places", "signs"]

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
