"""Words that tell what a session is about, by topic."""

from __future__ import annotations

__all__ = ["CJK", "KNOWN", "STOPWORDS"]

KNOWN: dict[str, tuple[str, ...]] = {"pytest": ("testing",)}
CJK: tuple[str, ...] = ("旅行",)
STOPWORDS: frozenset[str] = frozenset({"this", "that", "with", "from", "have"})
