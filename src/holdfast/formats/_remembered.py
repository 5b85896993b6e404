"""What a source and its parts know together: many readers look at the same few files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import HoldfastError

__all__ = ["Remembered"]

T = TypeVar("T")
_HEADS_KEPT = 256
_MADE_KEPT = 32


class Remembered:
    """What was read of the files of one source, by their whole names, and what became of it."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.refusal: HoldfastError | None = None
        self.passed_over: dict[tuple[str, str], None] = {}
        self._heads: dict[str, bytes] = {}
        self._made: dict[tuple[str, str], Any] = {}
        self._document: tuple[str, Any] = ("", None)

    def refuse(self, error: HoldfastError) -> None:
        """Keep the first reason for which a file was refused, but not what it was about."""
        error.__traceback__ = error.__cause__ = error.__context__ = None
        self.refusal = self.refusal or error

    def head(self, name: str, read: Callable[[], bytes]) -> bytes:
        """The first bytes of a file, read once."""
        if name not in self._heads:
            if len(self._heads) >= _HEADS_KEPT:
                self._heads.clear()
            self._heads[name] = read()
        return self._heads[name]

    def made(self, what: str, name: str, make: Callable[[], T]) -> T:
        """What is made of a file, made once."""
        key = what, name
        if key not in self._made:
            if len(self._made) >= _MADE_KEPT:
                self._made.clear()
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def document(self, name: str, decode: Callable[[], Any]) -> Any:
        """The value of a file, or the error in its place; only the one that was asked for last."""
        if self._document[0] != name:
            self._document = "", None  # two of them need not be in memory at once
            self._document = name, decode()
        return self._document[1]
