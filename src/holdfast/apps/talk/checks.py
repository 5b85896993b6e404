"""Before something is said: what has to be installed, and what of it can be recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import UsageError

__all__ = ["needs_agent", "recordable"]


@contextmanager
def needs_agent() -> Iterator[None]:
    """Around the import of what talks: a part that is not installed is told with its command."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent,local]'",
        ) from error


def recordable(text: str) -> str:
    """What the user gave, without the few characters that no provider takes."""
    clean = text.encode("utf-8", "replace").decode()
    return clean.replace("\0", "\N{REPLACEMENT CHARACTER}")
