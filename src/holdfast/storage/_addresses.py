"""What tells a path from the address of a store."""

from __future__ import annotations

__all__ = ["is_path"]

_SCHEME_CHARS_MIN = 2  # one letter before a colon is a drive of Windows


def is_path(where: str) -> bool:
    """Whether this is the path of a directory, and not a URL."""
    scheme, colon, _ = where.partition(":")
    return not colon or len(scheme) < _SCHEME_CHARS_MIN or "/" in scheme or "\\" in scheme
