"""The words of the index that hold some letters, for queries that look inside of words.

To give its words the full-text table reads all that it holds, which takes long where much was said.
So they are kept for as long as the index stays as it is, if they are not too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.storage._sqlite import Connection

__all__ = ["Expander"]

_EXPANSIONS_MAX = 1000
_KEPT_CHARS_MAX = 8 << 20
_ROWS = 10_000


class Expander:
    """Knows the words of one index, on one connection."""

    def __init__(self, kept_chars_max: int = _KEPT_CHARS_MAX) -> None:
        self._kept_chars_max = kept_chars_max
        self._mark: tuple[int, int] | None = None
        self._words: str | None = None
        """A newline before each of them and one at the end; None if they are too many."""

    def expand(self, connection: Connection, word: str, *, open_end: bool) -> list[str]:
        """Some of the words that hold ``word``, or end with it; all unless there are very many."""
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        mark = (version, connection.total_changes)
        if mark != self._mark:
            self._words = _read_words(connection, self._kept_chars_max)
            self._mark = mark
        if self._words is None:
            return _ask(connection, word, open_end=open_end)
        found: list[str] = []
        for one in _holding(self._words, word):
            if open_end or one.endswith(word):
                found.append(one)
                if len(found) == _EXPANSIONS_MAX:
                    break
        return found


def _read_words(connection: Connection, chars_max: int) -> str | None:
    parts, chars = [""], 0
    cursor = connection.execute("SELECT term FROM said_vocabulary")
    while rows := cursor.fetchmany(_ROWS):
        parts.append("\n".join([term for (term,) in rows]))
        chars += len(parts[-1])
        if chars > chars_max:
            return None
    return "\n".join([*parts, ""])


def _holding(words: str, letters: str) -> Iterator[str]:
    at = words.find(letters)
    while at >= 0:
        end = words.find("\n", at)
        yield words[words.rfind("\n", 0, at) + 1 : end]
        at = words.find(letters, end)


def _ask(connection: Connection, word: str, *, open_end: bool) -> list[str]:
    at_end = "" if open_end else " AND substr(term, -length(?1)) = ?1"
    select = f"SELECT term FROM said_vocabulary WHERE instr(term, ?1){at_end} LIMIT ?2"
    return [term for (term,) in connection.execute(select, (word, _EXPANSIONS_MAX))]
