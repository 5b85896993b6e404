"""The filter of a query, its order, and one page of results."""

from __future__ import annotations

import operator
import unicodedata
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from holdfast.catalog._data import with_check, without_check
from holdfast.errors import UsageError
from holdfast.model import LazyDecoder, SessionMetadata, html_table
from holdfast.storage import is_at_work

# The order of a list, the place of a session in it, and the text filter.
# Every order is total: ties are ordered by id. The sort key of a session is one number or one short text, which an
# index keeps in a column of its own.
Place = tuple[int | str, str]
"""The place of a session in a list: its sort key, and its id."""

_INT64_MAX = (1 << 63) - 1
_TITLE_CHARS = 80
_WORDS_MAX = 20
# After every title that people write.
_UNTITLED = "\U0010fffd"
_CONTROLS = {**dict.fromkeys(range(32), " "), 127: " "}


class Order(NamedTuple):
    """The sort key of a list, and whether the largest comes first."""

    name: str
    descending: bool

    def __str__(self) -> str:
        return f"{self.name}:{'desc' if self.descending else 'asc'}"


NEWEST = Order("updated", descending=True)
"""The default order of a list."""


def clamped(number: int) -> int:
    """Return a number that fits a column of a database: a foreign log may contain any."""
    return max(-_INT64_MAX, min(number, _INT64_MAX))


def _by_cost(row: SessionMetadata) -> int:
    """Return a number that is larger for a higher cost; an unknown cost is below all others."""
    if row.cost is None:
        return -_INT64_MAX
    import struct  # few lists are in this order

    bits: int = struct.unpack(">q", struct.pack(">d", abs(row.cost)))[0]
    return -bits if row.cost < 0 else bits


SORTS: dict[str, Callable[[SessionMetadata], int | str]] = {
    "updated": lambda row: clamped(row.updated_at),
    "created": lambda row: clamped(row.created_at),
    "title": lambda row: folded(row.title or "").strip()[:_TITLE_CHARS] or _UNTITLED,
    "messages": lambda row: clamped(row.message_count),
    "tokens": lambda row: clamped(row.total_tokens),
    "cost": _by_cost,
    "size": lambda row: clamped(row.size_bytes),
}
"""The sort key of a session for each order."""


@lru_cache(64)
def read_order(text: str) -> Order:
    """Return the named order. ``title``: A to Z; else largest or newest first, unless ``:asc`` or ``:desc`` follows."""
    name, colon, direction = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name not in SORTS or (colon and direction not in ("asc", "desc")):
        remedy = f"One of {', '.join(SORTS)}; with :asc or :desc after it to say which way."
        raise UsageError(f"{str(text)[:40]!a} is no order of a list", remedy=remedy)
    descending = direction == "desc" if colon else name != "title"
    return NEWEST if (name, descending) == NEWEST else Order(name, descending)


def place_in(order: Order, row: SessionMetadata) -> Place:
    return SORTS[order.name](row), row.session_id


def arranged(rows: Iterable[SessionMetadata], order: Order, after: Place | None = None) -> list[SessionMetadata]:
    """Return the rows in their order, only those behind a place if there is one."""
    placed = [(place_in(order, row), row) for row in rows]
    if after is not None:  # places of one order have one type
        is_behind = operator.lt if order.descending else operator.gt
        placed = [one for one in placed if is_behind(one[0], after)]
    placed.sort(key=lambda one: one[0], reverse=order.descending)
    return [row for _, row in placed]


# -- text filter -----------------------------------------------------------------------------
def folded(text: str) -> str:
    """Return a text without case, accents and control characters."""
    if text.isascii():
        return text.translate(_CONTROLS).lower()
    # Accents are removed before the case: some of them have a case of their own.
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
    """Return the words of a text filter: a session must have each of them somewhere."""
    return tuple(dict.fromkeys(folded(text).split()[:_WORDS_MAX]))


def text_of(row: SessionMetadata, *, auto_tags: bool = True) -> str:
    """Return the text to which a filter is applied: each part on a line of its own."""
    parts = [row.title or "", row.session_id, row.agent_id or "", row.model or "", *row.tags]
    if auto_tags:
        parts += row.auto_tags
    return "\n".join(["", *map(folded, parts), ""])


# Cursors as texts: a place in a list with a checksum, in letters that need no quoting.
_SAFE = bytes.maketrans(b"+/", b"-_")


def cursor_of(place: bytes) -> str:
    """Return the cursor of a place that is encoded as JSON."""
    return b2a_base64(with_check(place), newline=False).translate(_SAFE).decode()


# The state of an unclosed session that can only be determined at query time: whether it has a writer.
OPEN = "open"
CUT_SHORT = "cut short"


def liveness(*, closed: bool, cut_short: bool, pid: int | None, host: str | None) -> str | None:
    """Return OPEN if a writer on this machine has it; CUT_SHORT if it ended in mid-turn."""
    if not closed and is_at_work(pid, host):
        return OPEN
    return CUT_SHORT if cut_short else None


_CURSOR_CHARS_MAX = 1200
_decoder = LazyDecoder(list[int | str])


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions on sessions; None and () demand nothing. Times are Unix milliseconds."""

    tags: frozenset[str] = frozenset()
    """All of these are required, whether a person or the catalogue gave them."""
    since: int | None = None
    until: int | None = None
    agent_id: str | None = None
    model: str | None = None
    status: str | None = None
    parent: str | None = None
    cwd: str | None = None
    archived: bool | None = None
    text: tuple[str, ...] = ()
    """Folded words that must all be in its title, id, tags, agent or model."""
    auto_tags: bool = True
    """True if ``tags`` and ``text`` match automatic tags too."""

    def admits(self, row: SessionMetadata) -> bool:
        return (
            (not self.tags or self.tags.issubset((*row.tags, *row.auto_tags) if self.auto_tags else row.tags))
            and (self.since is None or row.updated_at >= self.since)
            and (self.until is None or row.updated_at <= self.until)
            and self.agent_id in (None, row.agent_id)
            and self.model in (None, row.model)
            and self.status in (None, row.status)
            and self.parent in (None, row.parent)
            and self.cwd in (None, row.cwd)
            and self.archived in (None, row.archived)
            and (not self.text or self._has_words(row))
        )

    def _has_words(self, row: SessionMetadata) -> bool:
        text = text_of(row, auto_tags=self.auto_tags)
        return all(word in text for word in self.text)


EVERYTHING = Filter()
"""The filter without conditions; there is only this one."""


class Page(list[SessionMetadata]):
    """Some sessions, in the requested order: newest first by default."""

    has_more = False
    """True if there are more sessions after these."""
    order: Order = NEWEST
    end: Place | None = None
    """The place of the last session, if it does not follow from its own members."""

    def __repr__(self) -> str:
        more = ", and more" if self.has_more else ""
        rows = "".join(f"\n  {'  '.join(map(str, row))}" for row in self._told())
        return f"<{len(self)} session{'' if len(self) == 1 else 's'}{more}>{rows}"

    def _repr_html_(self) -> str:
        return html_table(("id", "title", "updated", "messages", "state"), self._told())

    def _told(self) -> Iterator[tuple[str, str, str, str, str]]:
        for row in self:
            when = datetime.fromtimestamp(row.updated_at / 1000, UTC).strftime("%Y-%m-%d %H:%M")
            state = row.status if row.state == "ok" else row.state
            messages = f"{row.message_count:,} message{'' if row.message_count == 1 else 's'}"
            yield row.session_id, row.title or "(no title)", when, messages, state

    @property
    def next(self) -> str | None:
        """The cursor of the sessions that follow; None at the end."""
        if not self or not self.has_more:
            return None
        place = self.end or place_in(self.order, self[-1])
        return cursor_of(msgspec.json.encode(place if self.order == NEWEST else (*place, str(self.order))))


def read_cursor(cursor: str, order: Order = NEWEST) -> Place:
    """Return the place of a cursor. Raises UsageError if it is not a cursor of this order."""
    import base64  # a first page has none

    try:
        data = base64.b64decode(cursor[:_CURSOR_CHARS_MAX].encode(), b"-_", validate=True)
        key, id, *named = _decoder.decode(without_check(data))
        is_ours = named == ([] if order == NEWEST else [str(order)]) and type(key) is type(SORTS[order.name](_NOBODY))
        if is_ours and isinstance(id, str):
            return key, id
    except (KeyError, ValueError, AttributeError, TypeError):
        pass
    remedy = "Give what `next` of the page before said, with the same order, or nothing to begin with the first."
    raise UsageError("this is no cursor of such a list of sessions", remedy=remedy)


_NOBODY = SessionMetadata(session_id="")


# The same as a database query.
class Statement:
    """The conditions of a query with their values, as SQLite takes them."""

    def __init__(self, values: list[Any] | None = None) -> None:
        self.values: list[Any] = [] if values is None else values
        self._conditions: list[str] = []

    def demand(self, condition: str, *values: Any) -> None:
        """Add a condition on rows; each ``{}`` is replaced by a value."""
        self.include(condition.format(*map(self.value, values)))

    def include(self, condition: str, values: Iterable[Any] = ()) -> None:
        """Add a condition as it is."""
        self._conditions.append(condition)
        self.values.extend(values)

    def value(self, value: Any) -> str:
        self.values.append(value)
        return "?"

    def key(self, text: str) -> bytes:
        """Return a text in the form of the columns: compared byte by byte, whatever is in it."""
        return text.encode("utf-8", "surrogatepass")

    def demand_one_of(self, column: str, values: Iterable[Any]) -> None:
        found = list(values)
        self.demand(f"{column} IN ({', '.join(['{}'] * len(found))})", *found)

    def demand_columns(self, wanted: Filter, table: str) -> None:
        """Add the conditions of a filter on columns of their own, except times."""
        columns = {"agent": wanted.agent_id, "model": wanted.model, "parent": wanted.parent, "cwd": wanted.cwd}
        for column, value in columns.items():
            if value is not None:
                self.demand(f"{table}{column} = {{}}", self.key(value))
        if wanted.status is not None:
            # Whether a running one is interrupted is known only after checking its process.
            kinds = ["interrupted", "running"] if wanted.status == "interrupted" else [wanted.status]
            self.demand_one_of(f"{table}status", kinds)
        if wanted.archived is not None:
            self.demand(f"{table}archived = {{}}", wanted.archived)

    def demand_times(self, column: str, since: int | None, until: int | None) -> None:
        if since is not None:
            self.demand(f"{column} >= {{}}", clamped(since))
        if until is not None:
            self.demand(f"{column} <= {{}}", clamped(until))

    def demand_place(self, after: Place | None, order: Order, table: str) -> None:
        if after is not None:
            sign = "<" if order.descending else ">"
            self.demand(f"({table}{order.name}, {table}id) {sign} ({{}}, {{}})", *self.place(*after))

    def place(self, key: int | str, id: str) -> tuple[Any, str]:
        """Return a place in a list, in the form of the columns."""
        return self.key(key) if isinstance(key, str) else clamped(key), id

    @property
    def where(self) -> str:
        return f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""


def in_order(order: Order, table: str) -> str:
    way = "DESC" if order.descending else "ASC"
    return f" ORDER BY {table}{order.name} {way}, {table}id {way}"
