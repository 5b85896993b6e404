"""The shapes in which statistics are handed out."""

from __future__ import annotations

import msgspec


class _Used(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    """US dollars, as far as prices are known; None if none of them is."""
    unpriced_tokens: int = 0
    """Tokens of models without a price: they are not in ``cost``."""
    estimated_tokens: int = 0
    """About how many tokens sessions have of which nobody told it: they are not in ``tokens``."""


class Period(_Used, frozen=True, kw_only=True):
    """A day, a week or a month; ``start`` is its first day."""

    start: str
    sessions: int = 0
    turns: int = 0
    messages: int = 0


class Share(_Used, frozen=True, kw_only=True):
    """What belongs to one model, agent or tag."""

    name: str
    sessions: int = 0


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one tool is used. Median and 95 % are upper bounds, since times are kept in steps."""

    name: str
    calls: int = 0
    failures: int = 0
    failure_rate: float | None = None
    """Of the calls that came to an end; None if none did."""
    mean_ms: float | None = None
    median_ms: int | None = None
    p95_ms: int | None = None
    max_ms: int | None = None


class TopicCount(msgspec.Struct, frozen=True):
    """A tag, given or automatic, and how many sessions have it."""

    tag: str
    sessions: int


class SessionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One session among the longest or the most expensive."""

    session_id: str
    title: str | None = None
    messages: int = 0
    turns: int = 0
    active_ms: int = 0
    """Time in which something happened every few minutes."""
    tokens: int = 0
    cost: float | None = None
    """As far as prices are known; None if none of them is."""
    unpriced_tokens: int = 0


class Stats(_Used, frozen=True, kw_only=True):
    """What ``hf.stats()`` gives. Days and hours are those of the time zone ``tz``."""

    since: int | None = None
    until: int | None = None
    tz: str = "UTC"
    by: str = "day"
    sessions: int = 0
    turns: int = 0
    messages: int = 0
    active_ms: int = 0
    unpriced_models: list[str] = []
    unreadable: int = 0
    """Sessions whose figures could not be read."""
    periods: list[Period] = []
    """Every one between the first and the last, also those in which nothing happened."""
    days: dict[str, int] = {}
    """Messages by day."""
    hours: list[int] = []
    """Messages by hour of the day, 0 to 23."""
    weekdays: list[int] = []
    """Messages by weekday, Monday first."""
    models: list[Share] = []
    agents: list[Share] = []
    tags: list[Share] = []
    tools: list[ToolFigures] = []
    topics: list[TopicCount] = []
    longest: list[SessionFigures] = []
    most_expensive: list[SessionFigures] = []
