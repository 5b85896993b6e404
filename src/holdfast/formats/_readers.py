"""The readers of all tools, in the order in which they are asked whose a file is."""

from __future__ import annotations

from importlib import import_module

from holdfast.errors import HoldfastError, UsageError
from holdfast.formats._foreign import Reader
from holdfast.formats._source import Source

__all__ = ["READERS", "all_readers", "claims", "reader_for", "reader_of"]

# Modules of `formats/readers/`, each with its READER; the particular before the general.
READERS: tuple[str, ...] = (
    "oneringai",
    "orbitmesh",
    "openagent_terminal",
    "woodwork",
    "claude_code",
    "codex",
    "gemini_cli",
    "qwen",
    "pi",
    "copilot_cli",
    "acpx",
    "cline",
    "opencode",
    "goose",
    "aider",
    "event_folder",
    "messages",
)
GENERAL = "messages"


def all_readers() -> tuple[Reader, ...]:
    """Every reader, loaded now."""
    return tuple(reader_of(name) for name in READERS)


def reader_of(tool: str) -> Reader:
    """The reader of a tool by its name; UsageError, with the names there are, if there is none."""
    name = tool.replace("-", "_") if isinstance(tool, str) else None
    if name not in READERS:
        known = ", ".join(sorted(READERS)).replace("_", "-")
        raise UsageError(
            f"there is no reader for {tool!r}", remedy=f"Use 'auto', or one of: {known}."
        )
    reader: Reader = import_module(f"holdfast.formats.readers.{name}").READER
    return reader


def reader_for(source: Source, *, general: bool = True) -> Reader | None:
    """The first reader that claims the source, by its content; None if none does.

    With ``general=False`` plain message lists are not looked for, which may be parts of something.
    """
    names = (name for name in READERS if general or name != GENERAL)
    return next((reader for name in names if claims(reader := reader_of(name), source)), None)


def claims(reader: Reader, source: Source) -> bool:
    """Whether a reader claims the source; a file that it stumbles over is none of its own."""
    try:
        return reader.claims(source)
    except (HoldfastError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
