"""A session as another tool kept it, on the way to becoming one of ours."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from holdfast.errors import HoldfastError, TooNew

if TYPE_CHECKING:
    from holdfast.formats._source import Source

_DIGEST_CHARS = 16
_UNFIT = re.compile(r"[^a-z0-9]+")
_READABLE_CHARS_MAX = 90
_MS = 1_000
# A number this large is no longer seconds, milliseconds, microseconds.
_UNITS = ((1e17, 1e-6), (1e14, 1e-3), (1e11, 1.0))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999


class ForeignDraft(msgspec.Struct):
    """An event to be.

    ``timestamp`` is Unix milliseconds, None where the source has no time. ``raw`` is the source as
    it came and lands in ``data["raw"]``. ``key`` is stable within the source: a second import of
    the same session leaves out what has a known key. Without one the key is made of the content.
    """

    type: str
    data: dict[str, Any]
    timestamp: int | None = None
    run: str | None = None
    key: str | None = None
    raw: Any = None


class Foreign(msgspec.Struct):
    """One session as another tool kept it. ``problems`` says in words what could not be read."""

    tool: str
    foreign_id: str
    drafts: list[ForeignDraft]
    title: str | None = None
    tags: tuple[str, ...] = ()
    created_at: int | None = None
    cwd: str | None = None
    parent: str | None = None
    """The foreign id of the session that this one was forked from."""
    version: str | None = None
    scope: str | None = None
    """What tells it from another session of the same foreign id, where that is not unique."""
    other_scope: str | None = None
    """Such a scope that counts only if the session of its foreign id here has nothing in common."""
    provider_type: str | None = None
    agent_id: str | None = None
    """The agent whose session it is, as the tool names it."""
    problems: list[str] = msgspec.field(default_factory=list)
    refusal: HoldfastError | None = None
    """Why nothing of it may be recorded."""


@runtime_checkable
class Reader(Protocol):
    """Knows the files of one tool. Reading never writes, and is tolerant of what is damaged."""

    tool: str
    places: tuple[str, ...]
    """Where the tool keeps its sessions: globs below the home directory."""

    def claims(self, source: Source) -> bool:
        """Whether the source is this tool's, by its content."""
        ...

    def read(self, source: Source) -> Iterator[Foreign]:
        """The sessions in it."""
        ...


def session_id_of(tool: str, foreign_id: str, scope: str | None = None) -> str:
    """The id under which a foreign session is kept here: the same one every time.

    The foreign id stays readable in it; a digest keeps apart what differs only by tool, scope, case
    or characters that an id of ours cannot have.
    """
    whole = "\0".join([tool, foreign_id] if scope is None else [tool, foreign_id, scope])
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    readable = _UNFIT.sub("-", foreign_id.lower()).strip("-")[:_READABLE_CHARS_MAX].rstrip("-")
    return "-".join(filter(None, [tool.replace("_", "-"), readable, digest[:_DIGEST_CHARS]]))


def frame(
    tool: str, raw: Any, timestamp: int | None = None, key: str | None = None
) -> ForeignDraft:
    """A draft for what carries nothing of the conversation, but came with it."""
    data = {"direction": "imported", "tool": tool}
    return ForeignDraft("frame", data, timestamp, key=key, raw=raw)


def check_version(name: str, tool: str, version: Any, newest: int) -> None:
    """Raise what :func:`refusal_of` gives for a document, if it is refused."""
    refusal = refusal_of(name, tool, version, newest)
    if refusal is not None:
        raise refusal


def refusal_of(name: str, tool: str, version: Any, newest: int) -> TooNew | None:
    """The refusal of a document of a version that is not known, by that version; None if it is.

    None is a document from before there were versions. A number may be written as a text.
    """
    try:
        number = float(version) if isinstance(version, (int, float, str)) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    if version is None or number < newest + 1:
        return None
    return TooNew(
        f"{name} has version {str(version)[:40]} of {tool}'s files,"
        f" and this Holdfast knows up to {newest}",
        remedy="Nothing of it was recorded. Bring it in with a newer Holdfast.",
    )


def read_time(value: Any) -> int | None:
    """Unix milliseconds from a time as tools write it; None for what is none.

    Takes ISO 8601 with any number of fraction digits, ``Z``, an offset or none (then it is local
    time), and numbers of seconds, milliseconds, microseconds or nanoseconds.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _from_number(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    try:
        return _from_number(float(text)) if text.replace(".", "", 1).isdigit() else _from_iso(text)
    except (ValueError, OverflowError, OSError):
        return None


def _from_number(value: float) -> int | None:
    if not 0 < value < float("inf"):
        return None
    for least, factor in _UNITS:
        if value >= least:
            return _sane(int(value * factor))
    return _sane(round(value * _MS))


def _from_iso(text: str) -> int | None:
    moment = datetime.fromisoformat(text).astimezone(UTC)  # a naive one is local time
    return _sane((moment - _EPOCH) // timedelta(milliseconds=1))


def _sane(stamp: int) -> int | None:
    return stamp if 0 < stamp <= _LAST_MS else None
