"""Figures over sessions: as they are returned, and as they are kept to be added up further."""

from __future__ import annotations

from heapq import nlargest, nsmallest
from typing import Any, Literal

import msgspec

from holdfast.catalog._prices import Bill
from holdfast.catalog._usage import Moment, Spent, ToolHours, add_all
from holdfast.model import struct_html, struct_repr

By = Literal["day", "week", "month"]
"""The length of a period."""

_TOP = 10
_NAMES_MAX = 20_000
_TRIMMED = 5_000


class _Used(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    """US dollars, as far as prices are known; None if none is."""
    unpriced_tokens: int = 0
    """Tokens of models without a price: they are not in ``cost``."""
    estimated_tokens: int = 0
    """The estimated tokens of sessions for which none were reported: they are not in ``tokens``."""


class Period(_Used, frozen=True, kw_only=True):
    """A day, a week or a month; ``start`` is its first day."""

    start: str
    sessions: int = 0
    turns: int = 0
    messages: int = 0


class Share(_Used, frozen=True, kw_only=True):
    """The share of one model, agent or tag."""

    name: str
    sessions: int = 0


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The use of one tool."""

    name: str
    calls: int = 0
    failures: int = 0
    failure_rate: float | None = None
    """Failures among the calls that ended; None if none did."""
    mean_ms: float | None = None
    median_ms: int | None = None
    """Half of the calls took no longer: exact if ``is_exact``, else a bound, since durations are kept in steps."""
    p95_ms: int | None = None
    """19 of 20 calls took no longer; exact or a bound like ``median_ms``."""
    max_ms: int | None = None
    is_exact: bool = False
    """True if ``median_ms`` and ``p95_ms`` are exact, and not bounds."""


class TopicCount(msgspec.Struct, frozen=True):
    """A tag, given or automatic, and how many sessions have it."""

    tag: str
    sessions: int


class SessionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One of the longest or most expensive sessions."""

    session_id: str
    title: str | None = None
    messages: int = 0
    turns: int = 0
    active_ms: int = 0
    """Time with an event every few minutes."""
    tokens: int = 0
    cost: float | None = None
    """The cost of the tokens with a known price; None if no price is known."""
    unpriced_tokens: int = 0


class Stats(_Used, frozen=True, kw_only=True):
    """The result of ``hf.stats()``. Days and hours are those of the time zone ``tz``."""

    __repr__, _repr_html_ = struct_repr, struct_html

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
    """Every period between the first and the last, also empty ones."""
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


# The sums.
class Sum(msgspec.Struct, array_like=True):
    """The sums of a period, a model, an agent or a tag."""

    sessions: int = 0
    turns: int = 0
    messages: int = 0
    spent: Spent = msgspec.field(default_factory=Spent)
    bill: Bill = msgspec.field(default_factory=Bill)
    estimated: int = 0

    def add(self, other: Sum) -> None:
        self.sessions += other.sessions
        self.turns += other.turns
        self.messages += other.messages
        self.spent.add(other.spent)
        self.bill.add(other.bill)
        self.estimated += other.estimated


class Sums(msgspec.Struct, array_like=True):
    """All sums over some sessions. Those of other sessions can be added."""

    count: int = 0
    """The number of sessions, whether they could be read or not."""
    first: int | None = None
    last: int | None = None
    """The first and last hour that they cover."""
    total: Sum = msgspec.field(default_factory=Sum)
    active_ms: int = 0
    unreadable: int = 0
    periods: dict[By, dict[str, Sum]] = {}
    models: dict[str, Sum] = {}
    agents: dict[str, Sum] = {}
    tags: dict[str, Sum] = {}
    topics: dict[str, int] = {}
    days: dict[str, int] = {}
    hours: list[int] = msgspec.field(default_factory=lambda: [0] * 24)
    weekdays: list[int] = msgspec.field(default_factory=lambda: [0] * 7)
    tools: dict[str, ToolHours] = {}
    longest: list[tuple[int, SessionFigures]] = []
    dearest: list[tuple[float, SessionFigures]] = []

    def add(self, other: Sums) -> None:
        self.count += other.count
        self.active_ms += other.active_ms
        self.unreadable += other.unreadable
        self.total.add(other.total)
        if other.first is not None and other.last is not None:
            self.reach([other.first, other.last])
        for by, periods in self.periods.items():
            add_all(periods, other.periods[by], Sum)
        add_all(self.models, other.models, Sum)
        add_all(self.agents, other.agents, Sum)
        add_all(self.tags, other.tags, Sum)
        add_all(self.tools, other.tools, ToolHours)
        for mine, others in ((self.topics, other.topics), (self.days, other.days)):
            for name, count in others.items():
                mine[name] = mine.get(name, 0) + count
        self.hours = [a + b for a, b in zip(self.hours, other.hours, strict=True)]
        self.weekdays = [a + b for a, b in zip(self.weekdays, other.weekdays, strict=True)]
        self.longest += other.longest
        self.dearest += other.dearest
        self._keep_few()
        self.trim()

    def reach(self, hours: list[int]) -> None:
        first, last = min(hours), max(hours)
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def see(self, moment: Moment, messages: int, *, exact: bool) -> None:
        """Count messages in the calendar; ``exact`` if their hour is known."""
        day = moment.date.isoformat()
        self.days[day] = self.days.get(day, 0) + messages
        self.weekdays[moment.date.weekday()] += messages
        if exact:
            self.hours[moment.hour] += messages

    def rank(self, session: SessionFigures, active_ms: int, cost: float) -> None:
        """Consider a session for the longest and the most expensive."""
        self.longest.append((active_ms, session))
        self.dearest.append((cost, session))
        self._keep_few()

    def shorten(self) -> None:
        """Keep only the longest and the most expensive sessions that are shown, in their order."""
        self.longest, self.dearest = _top(self.longest), _top(self.dearest)

    def trim(self) -> None:
        """Drop the rarest tags and words, to limit the memory."""
        for sums in (self.topics, self.tags, self.agents, self.tools):
            if len(sums) > _NAMES_MAX:
                weight = {name: _weight(one) for name, one in sums.items()}
                for name in nsmallest(len(sums) - _TRIMMED, sums, key=lambda name: (weight[name], name)):
                    del sums[name]

    def _keep_few(self) -> None:
        if len(self.longest) > _TOP * 100:
            self.shorten()


def _weight(one: Any) -> int:
    if isinstance(one, int):
        return one
    return int(one.calls if isinstance(one, ToolHours) else one.sessions)


def _top(ranked: list[tuple[Any, SessionFigures]]) -> list[tuple[Any, SessionFigures]]:
    return nlargest(_TOP, ranked, key=lambda item: (item[0], item[1].tokens, item[1].session_id))
