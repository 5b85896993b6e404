"""In which order a list comes, where a session stands in it, and the text it is narrowed by.

Every order is total: sessions that are alike in it stand by their ids. What a session is sorted by
is one number or one short text, which an index keeps in a column of its own.
"""

from __future__ import annotations

import struct
import unicodedata
from binascii import b2a_base64
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from holdfast.errors import UsageError
from holdfast.model import SessionMetadata
from holdfast.storage import is_at_work

Place = tuple[int | str, str]
"""Where a session stands in a list: what it is sorted by, and its id."""

_INT64_MAX = (1 << 63) - 1
_TITLE_CHARS = 80
_WORDS_MAX = 20
# After every title that people write.
_UNTITLED = "\U0010fffd"
_CONTROLS = {**dict.fromkeys(range(32), " "), 127: " "}


class Order(NamedTuple):
    """By what a list is sorted, and whether the largest comes first."""

    name: str
    descending: bool

    def __str__(self) -> str:
        """The text that ``read_order`` reads."""
        return f"{self.name}:{'desc' if self.descending else 'asc'}"


NEWEST = Order("updated", descending=True)
"""The order of a list that nobody asked to be sorted."""


def _clamped(number: int) -> int:
    return max(-_INT64_MAX, min(number, _INT64_MAX))


def _by_title(row: SessionMetadata) -> str:
    return (folded(row.title).strip()[:_TITLE_CHARS] if row.title else "") or _UNTITLED


def _by_cost(row: SessionMetadata) -> int:
    """A number that is larger where the cost is; below all others where it is not known."""
    if row.cost is None:
        return -_INT64_MAX
    bits: int = struct.unpack(">q", struct.pack(">d", abs(row.cost)))[0]
    return -bits if row.cost < 0 else bits


SORTS: dict[str, Callable[[SessionMetadata], int | str]] = {
    "updated": lambda row: _clamped(row.updated_at),
    "created": lambda row: _clamped(row.created_at),
    "title": _by_title,
    "messages": lambda row: _clamped(row.message_count),
    "tokens": lambda row: _clamped(row.total_tokens),
    "cost": _by_cost,
    "size": lambda row: _clamped(row.size_bytes),
}
"""What a session is sorted by in each order."""


@lru_cache(64)
def read_order(text: str) -> Order:
    """``tokens``, ``tokens:asc``, ``tokens:desc``. Raises UsageError for what is no order.

    By itself a name means newest or most first, and titles from A to Z.
    """
    name, colon, direction = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name not in SORTS or (colon and direction not in ("asc", "desc")):
        remedy = f"One of {', '.join(SORTS)}; with :asc or :desc after it to say which way."
        raise UsageError(f"{str(text)[:40]!a} is no order of a list", remedy=remedy)
    descending = direction == "desc" if colon else name != "title"
    return NEWEST if (name, descending) == NEWEST else Order(name, descending)


def place_in(order: Order, row: SessionMetadata) -> Place:
    """Where a session stands."""
    return SORTS[order.name](row), row.session_id


def is_behind(order: Order, place: Place, other: Place) -> bool:
    """Whether a place comes after another one."""
    # Places of one order are of one kind.
    return place < other if order.descending else place > other


def arranged(
    rows: Iterable[SessionMetadata], order: Order, after: Place | None = None
) -> list[SessionMetadata]:
    """The rows in their order, only those behind a place if there is one."""
    placed = [(place_in(order, row), row) for row in rows]
    if after is not None:
        placed = [one for one in placed if is_behind(order, one[0], after)]
    placed.sort(key=lambda one: one[0], reverse=order.descending)
    return [row for _, row in placed]


# -- narrowing by text -------------------------------------------------------------------------


def folded(text: str) -> str:
    """A text without case, accents and control characters."""
    if text.isascii():
        return text.translate(_CONTROLS).lower()
    # Accents go before the case does: some of them have one of their own.
    return _bare(_bare(text).casefold())


def _bare(text: str) -> str:
    return "".join(map(_bare_char, unicodedata.normalize("NFKD", text)))


@lru_cache(4096)
def _bare_char(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Mn":
        return ""
    return " " if category[0] == "C" else char


def words_in(text: str) -> tuple[str, ...]:
    """The words of a narrowing text: a session must have each of them somewhere."""
    return tuple(dict.fromkeys(folded(text).split()[:_WORDS_MAX]))


def text_of(row: SessionMetadata, *, auto_tags: bool = True) -> str:
    """All that a session is narrowed by: each part on a line of its own."""
    parts = [row.title or "", row.session_id, row.agent_id or "", row.model or "", *row.tags]
    if auto_tags:
        parts += row.auto_tags
    return "\n".join(["", *map(folded, parts), ""])


# Cursors as texts: a place in a list with a checksum, in letters that need no quoting.


CHECK_BYTES = 4
_SAFE = bytes.maketrans(b"+/", b"-_")


def cursor_of(place: bytes) -> str:
    """The cursor of a place that is encoded as JSON."""
    data = crc32(place).to_bytes(CHECK_BYTES, "big") + place
    return b2a_base64(data, newline=False).translate(_SAFE).decode()


# What only the moment of asking tells of a session that was not closed: whether a writer lives.


OPEN = "open"
CUT_SHORT = "cut short"


def liveness(*, closed: bool, cut_short: bool, pid: int | None, host: str | None) -> str | None:
    """OPEN if a writer on this machine has it; CUT_SHORT if it ended in mid-turn."""
    if not closed and is_at_work(pid, host):
        return OPEN
    return CUT_SHORT if cut_short else None
