"""Which sessions are asked for, and one page of them."""

from __future__ import annotations

import base64
from zlib import crc32

import msgspec

from holdfast.catalog._orders import (
    CHECK_BYTES,
    NEWEST,
    SORTS,
    Order,
    Place,
    cursor_of,
    place_in,
    text_of,
)
from holdfast.errors import UsageError
from holdfast.model import SessionMetadata

_CURSOR_CHARS_MAX = 1200
_decode = msgspec.json.Decoder(list[int | str]).decode


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What a session must be; None and () ask for nothing. Times are Unix milliseconds."""

    tags: frozenset[str] = frozenset()
    """All of these, whether a person or the catalogue gave them."""
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
    """Whether automatic tags count for ``tags`` and ``text``."""

    def admits(self, row: SessionMetadata) -> bool:
        """Whether a session is asked for."""
        return (
            (not self.tags or self.tags.issubset(self._tags_of(row)))
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

    def _tags_of(self, row: SessionMetadata) -> tuple[str, ...]:
        return (*row.tags, *row.auto_tags) if self.auto_tags else row.tags


EVERYTHING = Filter()
"""The filter that asks for nothing in particular; there is only this one."""


class Page(list[SessionMetadata]):
    """Some sessions, in the order that was asked for: newest first if none was."""

    has_more = False
    """Whether others follow."""
    order: Order = NEWEST
    end: Place | None = None
    """Where the last one stands, if that is not what it tells of itself."""

    @property
    def next(self) -> str | None:
        """The cursor of the sessions that follow; None at the end."""
        if not self or not self.has_more:
            return None
        return write_cursor(self.end or place_in(self.order, self[-1]), self.order)


def write_cursor(place: Place, order: Order = NEWEST) -> str:
    """The place of the last session of a page, as a text to hand back."""
    return cursor_of(msgspec.json.encode(place if order == NEWEST else (*place, str(order))))


def read_cursor(cursor: str, order: Order = NEWEST) -> Place:
    """The place that a cursor names. Raises UsageError for what is no cursor of this order."""
    try:
        data = base64.b64decode(cursor[:_CURSOR_CHARS_MAX].encode(), b"-_", validate=True)
        check, rest = data[:CHECK_BYTES], data[CHECK_BYTES:]
        if crc32(rest).to_bytes(CHECK_BYTES, "big") == check:
            return _place(_decode(rest), order)
    except (ValueError, AttributeError, TypeError):
        pass
    raise UsageError(
        "this is no cursor of such a list of sessions",
        remedy="Give what `next` of the page before said, with the same order, or nothing to begin"
        " with the first.",
    )


def _place(parts: list[int | str], order: Order) -> Place:
    key, id, *named = parts
    kind = type(SORTS[order.name](_NOBODY))
    if named != ([] if order == NEWEST else [str(order)]) or type(key) is not kind:
        raise ValueError(parts)
    if not isinstance(id, str):
        raise TypeError(id)
    return key, id


_NOBODY = SessionMetadata(session_id="")
