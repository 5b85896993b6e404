"""Which sessions are asked for, and one page of them."""

from __future__ import annotations

import base64
from zlib import crc32

import msgspec

from holdfast.errors import UsageError
from holdfast.model import SessionMetadata

__all__ = ["EVERYTHING", "Filter", "Page", "Place", "read_cursor", "write_cursor"]

Place = tuple[int, str]
"""Where a session stands in a list: (updated_at, id), newest first."""

_CHECK_BYTES = 4
_decode_place = msgspec.json.Decoder(Place).decode
_CURSOR_CHARS_MAX = 400


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
    auto_tags: bool = True
    """Whether automatic tags count for ``tags``."""

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
        )

    def _tags_of(self, row: SessionMetadata) -> tuple[str, ...]:
        return (*row.tags, *row.auto_tags) if self.auto_tags else row.tags


EVERYTHING = Filter()
"""The filter that asks for nothing in particular; there is only this one."""


class Page(list[SessionMetadata]):
    """Some sessions, newest first."""

    has_more = False
    """Whether others follow."""

    @property
    def next(self) -> str | None:
        """The cursor of the sessions that follow; None at the end."""
        if not self or not self.has_more:
            return None
        return write_cursor((self[-1].updated_at, self[-1].session_id))


def write_cursor(place: Place) -> str:
    """The place of the last session of a page, as a text to hand back."""
    data = msgspec.json.encode(place)
    return base64.urlsafe_b64encode(crc32(data).to_bytes(_CHECK_BYTES, "big") + data).decode()


def read_cursor(cursor: str) -> Place:
    """The place that a cursor names. Raises UsageError for what is no cursor."""
    try:
        data = base64.b64decode(cursor[:_CURSOR_CHARS_MAX].encode(), b"-_", validate=True)
        check, rest = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
        if crc32(rest).to_bytes(_CHECK_BYTES, "big") == check:
            place: Place = _decode_place(rest)
            return place
    except (ValueError, AttributeError, TypeError):
        pass
    raise UsageError(
        "this is no cursor of a list of sessions",
        remedy="Give what `next` of the page before said, or nothing to begin with the newest.",
    )
