"""The sessions that the list shows: pages of them, filtered and sorted. Blocking; no widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.library import Holdfast

__all__ = ["ORDERS", "Asked", "Batch", "Shelf", "parse", "renewed"]

FIRST_PAGE = 100
_PAGE = 1_000
_FIELDS = ("tag", "status", "agent", "model", "parent")


class Order(NamedTuple):
    """A way to sort: its name, and the key of a row."""

    name: str
    key: Callable[[SessionMetadata], Any]


# The first is the order of the store itself, which needs nothing but the page that is shown.
ORDERS = (
    Order("updated", lambda row: -row.updated_at),
    Order("created", lambda row: -row.created_at),
    Order("title", lambda row: (row.title or "\uffff").casefold()),
    Order("messages", lambda row: -row.message_count),
    Order("tokens", lambda row: -row.total_tokens),
    Order("cost", lambda row: -(row.cost or 0.0)),
    Order("size", lambda row: -row.size_bytes),
)


class Asked(NamedTuple):
    """What the list is to show."""

    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    order: int = 0

    @property
    def needs_all(self) -> bool:
        """Whether every session has to be looked at."""
        return bool(self.words or self.order)

    def fits(self, row: SessionMetadata) -> bool:
        """Whether a row has all the words, somewhere."""
        if not self.words:
            return True
        parts = (row.title or "", row.session_id, *row.tags, *row.auto_tags, row.model or "")
        text = "\n".join((*parts, row.agent_id or "", row.status, row.state)).casefold()
        return all(word in text for word in self.words)

    def filters(self) -> dict[str, Any]:
        """What the library itself can sort out."""
        found: dict[str, Any] = {}
        for name, value in self.fields:
            if name == "tag":
                found["tags"] = [*found.get("tags", []), value]
            else:
                found["agent_id" if name == "agent" else name] = value
        return found


class Batch(NamedTuple):
    """Some rows, and how far the search for more has come."""

    rows: list[SessionMetadata]
    seen: int
    is_last: bool


def parse(text: str, order: int = 0) -> Asked:
    """``lisbon tag:travel status:waiting``: words, and fields that the store knows."""
    words, fields = [], []
    for word in text.split():
        name, colon, value = word.partition(":")
        if colon and value and name in _FIELDS:
            fields.append((name, value))
        else:
            words.append(word.casefold())
    return Asked(tuple(words), tuple(fields), order)


class Shelf:
    """Asks a store for pages. Each method may take its time; call them in a thread."""

    def __init__(self, library: Holdfast) -> None:
        self._library = library
        self._all: list[SessionMetadata] | None = None
        self._all_fields: tuple[tuple[str, str], ...] = ()

    def first(self, asked: Asked, limit: int = FIRST_PAGE) -> tuple[list[SessionMetadata], Any]:
        """The newest that fit the fields, and where the next page begins; None at the end."""
        page = self._library.list(limit, **asked.filters())
        return list(page), page.next

    def following(self, asked: Asked, after: Any) -> tuple[list[SessionMetadata], Any]:
        """The page after that."""
        page = self._library.list(_PAGE, after=after, **asked.filters())
        return list(page), page.next

    def everything(self, asked: Asked) -> Iterator[Batch]:
        """All that fit, as they are found; sorted ones come at once, with the last batch.

        What was looked through once is kept, so that the next letter of a filter asks nothing.
        """
        if self._all is not None and self._all_fields == asked.fields:
            yield Batch(_sorted(self._all, asked), len(self._all), is_last=True)
            return
        rows: list[SessionMetadata] = []
        page, after = self.first(asked, _PAGE)
        while True:
            rows += page
            if after is None:
                break
            fitting = [] if asked.order else [row for row in page if asked.fits(row)]
            yield Batch(fitting, len(rows), is_last=False)
            page, after = self.following(asked, after)
        self._all, self._all_fields = rows, asked.fields
        last = _sorted(rows, asked) if asked.order else [r for r in page if asked.fits(r)]
        yield Batch(last, len(rows), is_last=True)

    def forget(self) -> None:
        """Look through everything again next time: something has changed."""
        self._all = None

    def total(self) -> int:
        """How many sessions there are in all."""
        return self._library.catalog_health().sessions


def _sorted(rows: list[SessionMetadata], asked: Asked) -> list[SessionMetadata]:
    fitting = [row for row in rows if asked.fits(row)]
    return sorted(fitting, key=ORDERS[asked.order].key) if asked.order else fitting


def renewed(
    old: list[SessionMetadata], head: list[SessionMetadata], *, more: bool
) -> list[SessionMetadata]:
    """The rows in the order of the store, with what its newest page says now.

    One that the page would have to hold, and does not, is gone; so is all the rest if there are no
    ``more`` than the page has.
    """
    if not more:
        return head
    known = {row.session_id for row in head}
    edge = head[-1].updated_at
    return [*head, *(r for r in old if r.session_id not in known and r.updated_at <= edge)]
