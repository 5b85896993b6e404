"""The readers of all tools, in the order in which they are asked whose a file is."""

from __future__ import annotations

from importlib import import_module

from holdfast.errors import UsageError
from holdfast.formats._foreign import Reader
from holdfast.formats._source import Source

__all__ = ["READERS", "reader_for", "reader_of", "readers"]

# Modules of `formats/readers/`, each with its READER; the particular before the general.
READERS: tuple[str, ...] = ()


def readers() -> tuple[Reader, ...]:
    """Every reader, loaded now."""
    return tuple(reader_of(name) for name in READERS)


def reader_of(tool: str) -> Reader:
    """The reader of a tool by its name; UsageError, with the names there are, if there is none."""
    name = tool.replace("-", "_")
    if name not in READERS:
        known = ", ".join(sorted(READERS)).replace("_", "-")
        raise UsageError(
            f"there is no reader for {tool!r}", remedy=f"Use 'auto', or one of: {known}."
        )
    reader: Reader = import_module(f"holdfast.formats.readers.{name}").READER
    return reader


def reader_for(source: Source) -> Reader | None:
    """The first reader that claims the source, by its content; None if none does."""
    return next((reader for reader in readers() if reader.claims(source)), None)
