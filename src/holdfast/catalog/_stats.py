"""Statistics over many sessions, added up from their tallies one by one, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import nlargest, nsmallest
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.catalog._calendar import Calendar, Moment
from holdfast.catalog._hours import LATENCY_BOUNDS_MS, Hour, Spent, ToolUse
from holdfast.catalog._prices import Bill, Prices, bill_of, price_spent
from holdfast.catalog._stats_shapes import (
    Period,
    SessionFigures,
    Share,
    Stats,
    ToolFigures,
    TopicCount,
)
from holdfast.catalog._tally import SHAPE, checked

__all__ = ["Counted", "Wanted", "count_sessions"]

UNTAGGED = "(none)"
_TOP = 10
_SHARES_MAX = 50
_GROUPS_MAX = 2_000
_NAMES_MAX = 20_000
_TRIMMED = 5_000


class Counted(NamedTuple):
    """One session to be counted: what a list shows of it, and its tally as bytes."""

    id: str
    title: str | None
    tags: tuple[str, ...]
    auto_tags: tuple[str, ...]
    agent_id: str | None
    updated_at: int
    tally: bytes


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to count. Hours that are only partly within the time count as a whole."""

    since: int | None = None
    until: int | None = None
    tags: frozenset[str] = frozenset()
    agent_id: str | None = None
    model: str | None = None
    by: Literal["day", "week", "month"] = "day"


class _Figures(msgspec.Struct, tag_field="shape", tag=SHAPE):
    """The part of a tally that is counted here; the rest is skipped, not decoded."""

    active_ms: int = 0
    coarse_until: int = 0
    hours: dict[int, Hour] = {}


_decode = msgspec.msgpack.Decoder(_Figures).decode


class _Sum(msgspec.Struct):
    """What is added up for a period, a model, an agent or a tag."""

    sessions: int = 0
    turns: int = 0
    messages: int = 0
    spent: Spent = msgspec.field(default_factory=Spent)
    bill: Bill = msgspec.field(default_factory=Bill)

    def add(self, other: _Sum) -> None:
        self.sessions += other.sessions
        self.turns += other.turns
        self.messages += other.messages
        self.spent.add(other.spent)
        self.bill.add(other.bill)


def count_sessions(
    rows: Iterable[Counted], wanted: Wanted, prices: Prices, calendar: Calendar
) -> Stats:
    """The statistics of the sessions that are wanted.

    Raises ValueError for a tally that is not as written.
    """
    counter = _Counter(wanted, prices, calendar)
    for row in rows:
        counter.add(row)
    return counter.stats()


class _Counter:
    """Adds up session after session."""

    def __init__(self, wanted: Wanted, prices: Prices, calendar: Calendar) -> None:
        self._wanted, self._prices = wanted, prices
        self._calendar = calendar
        self._moment = lru_cache(1 << 16)(calendar.moment)
        self._first = None if wanted.since is None else wanted.since // 3_600_000
        self._last = None if wanted.until is None else wanted.until // 3_600_000
        self._total = _Sum()
        self._active_ms = 0
        self._periods: dict[str, _Sum] = {}
        self._models: dict[str, _Sum] = {}
        self._groups: dict[tuple[str, tuple[str, ...]], _Sum] = {}
        self._agents: dict[str, _Sum] = {}
        self._tags: dict[str, _Sum] = {}
        self._days: Counter[str] = Counter()
        self._hours = [0] * 24
        self._weekdays = [0] * 7
        self._tools: dict[str, ToolUse] = {}
        self._topics: Counter[str] = Counter()
        self._longest: list[tuple[int, SessionFigures]] = []
        self._dearest: list[tuple[float, SessionFigures]] = []
        self._unreadable = 0

    def add(self, row: Counted) -> None:
        """Count a session, if it is wanted."""
        wanted = self._wanted
        tags = (*row.tags, *(tag for tag in row.auto_tags if tag not in row.tags))
        if not wanted.tags.issubset(tags) or wanted.agent_id not in (None, row.agent_id):
            return
        if not row.tally:
            self._unreadable += 1
            return
        figures = _decode(checked(row.tally))
        hours = list(self._within(figures.hours))
        if not hours and not self._is_empty_but_there(figures, row):
            return
        self._add_session(row, tags, figures, hours)

    def _within(self, hours: dict[int, Hour]) -> Iterator[tuple[int, Hour]]:
        model = self._wanted.model
        for key, hour in hours.items():
            if (self._first is None or key >= self._first) and (
                self._last is None or key <= self._last
            ):
                if model is None:
                    yield key, hour
                elif model in hour.spent or model in hour.paid:
                    yield key, _of_model(hour, model)

    def _is_empty_but_there(self, figures: _Figures, row: Counted) -> bool:
        """A session in which nothing was said yet counts at the time when it changed."""
        if figures.hours or self._wanted.model is not None:
            return False
        hour = row.updated_at // 3_600_000
        return (self._first is None or hour >= self._first) and (
            self._last is None or hour <= self._last
        )

    def _add_session(
        self,
        row: Counted,
        tags: tuple[str, ...],
        figures: _Figures,
        hours: list[tuple[int, Hour]],
    ) -> None:
        recorded = any(hour.turns for _, hour in hours)
        whole = _Sum(sessions=1)
        periods: dict[str, _Sum] = {}
        for key, hour in hours:
            part = self._sum(hour, recorded=recorded)
            moment = self._moment(key)
            period = moment.period(self._wanted.by)
            self._see(moment, hour, exact=key >= figures.coarse_until)
            self._add_models(hour)
            for name, use in hour.tools.items():
                self._tools.setdefault(name, ToolUse()).add(use)
            if len(hours) == 1:  # nearly always, so nothing is added up twice
                whole, periods[period] = part, part
                part.sessions = 1
            else:
                whole.add(part)
                periods.setdefault(period, _Sum(sessions=1)).add(part)
        for period, part in periods.items():
            self._periods.setdefault(period, _Sum()).add(part)
        self._count_models({name for _, hour in hours for name in (*hour.spent, *hour.paid)})
        self._active_ms += figures.active_ms
        self._groups.setdefault((row.agent_id or UNTAGGED, tags), _Sum()).add(whole)
        if len(self._groups) > _GROUPS_MAX:
            self._spread()
        self._rank(row, figures, whole)

    def _spread(self) -> None:
        """Give what sessions of one agent and the same tags have to the agent and to each tag."""
        for (agent, tags), group in self._groups.items():
            self._total.add(group)
            self._agents.setdefault(agent, _Sum()).add(group)
            for tag in tags or (UNTAGGED,):
                self._tags.setdefault(tag, _Sum()).add(group)
            for tag in tags:
                self._topics[tag] += group.sessions
        self._groups.clear()
        self._trim()

    def _sum(self, hour: Hour, *, recorded: bool) -> _Sum:
        spent = Spent()
        for by_model in (hour.spent, hour.paid):
            for one in by_model.values():
                spent.add(one)
        turns = hour.turns if recorded else hour.asked
        return _Sum(0, turns, hour.messages, spent, bill_of(hour, self._prices))

    def _see(self, moment: Moment, hour: Hour, *, exact: bool) -> None:
        self._days[moment.day] += hour.messages
        self._weekdays[moment.weekday] += hour.messages
        if exact:
            self._hours[moment.hour] += hour.messages

    def _add_models(self, hour: Hour) -> None:
        for name, spent in hour.spent.items():
            share = self._models.setdefault(name, _Sum())
            share.spent.add(spent)
            share.bill.add(price_spent(self._prices, name, spent))
        for name, spent in hour.paid.items():
            share = self._models.setdefault(name, _Sum())
            share.spent.add(spent)
            share.bill.add(Bill(spent.cost, 0, known=True))

    def _count_models(self, names: set[str]) -> None:
        for name in names:
            self._models[name].sessions += 1

    def _trim(self) -> None:
        """However many tags and words there are, memory is bounded: the rarest are let go."""
        if len(self._topics) > _NAMES_MAX:
            self._topics = Counter(dict(self._topics.most_common(_TRIMMED)))
        for sums in (self._tags, self._agents, self._tools):
            if len(sums) > _NAMES_MAX:
                _keep_largest(sums, _TRIMMED)

    def _rank(self, row: Counted, figures: _Figures, whole: _Sum) -> None:
        session = SessionFigures(
            session_id=row.id,
            title=row.title,
            messages=whole.messages,
            turns=whole.turns,
            active_ms=figures.active_ms,
            tokens=whole.spent.total,
            cost=_known(whole.bill),
            unpriced_tokens=whole.bill.unpriced,
        )
        self._longest.append((figures.active_ms, session))
        self._dearest.append((whole.bill.cost, session))
        if len(self._longest) > _TOP * 100:
            self._longest = _top(self._longest)
            self._dearest = _top(self._dearest)

    def stats(self) -> Stats:
        """What was counted."""
        self._spread()
        total = self._total
        periods = self._calendar.fill(list(self._periods), self._wanted.by)
        return Stats(
            since=self._wanted.since,
            until=self._wanted.until,
            tz=self._calendar.name,
            by=self._wanted.by,
            sessions=total.sessions,
            turns=total.turns,
            messages=total.messages,
            active_ms=self._active_ms,
            **_token_members(total.spent),
            cost=_known(total.bill),
            unpriced_tokens=total.bill.unpriced,
            unpriced_models=sorted(name for name, one in self._models.items() if one.bill.unpriced),
            unreadable=self._unreadable,
            periods=[_period(name, self._periods.get(name) or _Sum()) for name in periods],
            days=dict(sorted(self._days.items())),
            hours=self._hours,
            weekdays=self._weekdays,
            models=_shares(self._models),
            agents=_shares(self._agents),
            tags=_shares(self._tags),
            tools=_tools(self._tools),
            topics=[
                TopicCount(tag, count)
                for tag, count in nsmallest(
                    _SHARES_MAX, self._topics.items(), key=lambda item: (-item[1], item[0])
                )
            ],
            longest=[session for _, session in _top(self._longest)],
            most_expensive=[session for cost, session in _top(self._dearest) if cost],
        )


def _of_model(hour: Hour, model: str) -> Hour:
    """An hour with the tokens of one model; messages and turns cannot be told apart."""
    spent = {name: one for name, one in hour.spent.items() if name == model}
    paid = {name: one for name, one in hour.paid.items() if name == model}
    return Hour(hour.messages, hour.asked, hour.turns, spent, paid, hour.tools)


def _keep_largest(sums: dict[str, Any], most: int) -> None:
    weight = {
        name: one.calls if isinstance(one, ToolUse) else one.sessions for name, one in sums.items()
    }
    for name in nsmallest(len(sums) - most, weight, key=lambda name: (weight[name], name)):
        del sums[name]


def _top(ranked: list[tuple[Any, SessionFigures]]) -> list[tuple[Any, SessionFigures]]:
    return nlargest(_TOP, ranked, key=lambda item: (item[0], item[1].tokens, item[1].session_id))


def _known(bill: Bill) -> float | None:
    """The part of the cost that is known; None if nothing is."""
    return bill.cost if bill.known else None


def _token_members(spent: Spent) -> dict[str, int]:
    return {
        "tokens": spent.total,
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "cache_read_tokens": spent.cache_read,
        "cache_write_tokens": spent.cache_write,
        "requests": spent.requests,
    }


def _period(name: str, one: _Sum) -> Period:
    return Period(
        start=name,
        sessions=one.sessions,
        turns=one.turns,
        messages=one.messages,
        **_token_members(one.spent),
        cost=_known(one.bill),
        unpriced_tokens=one.bill.unpriced,
    )


def _shares(sums: dict[str, _Sum]) -> list[Share]:
    largest = nsmallest(
        _SHARES_MAX,
        sums.items(),
        key=lambda item: (-item[1].spent.total, -item[1].sessions, item[0]),
    )
    return [
        Share(
            name=name,
            sessions=one.sessions,
            **_token_members(one.spent),
            cost=_known(one.bill),
            unpriced_tokens=one.bill.unpriced,
        )
        for name, one in largest
    ]


def _tools(tools: dict[str, ToolUse]) -> list[ToolFigures]:
    most_used = nsmallest(_SHARES_MAX, tools.items(), key=lambda item: (-item[1].calls, item[0]))
    return [
        ToolFigures(
            name=name,
            calls=use.calls,
            failures=use.failures,
            failure_rate=use.failures / use.finished if use.finished else None,
            mean_ms=use.total_ms / use.timed if use.timed else None,
            median_ms=_quantile(use, 0.5),
            p95_ms=_quantile(use, 0.95),
            max_ms=use.max_ms if use.timed else None,
        )
        for name, use in most_used
    ]


def _quantile(use: ToolUse, share: float) -> int | None:
    """The bound below which that share of the calls is: never more than the longest."""
    if not use.timed:
        return None
    needed, seen = share * use.timed, 0
    for count, bound in zip(use.buckets, LATENCY_BOUNDS_MS, strict=False):
        seen += count
        if seen >= needed:
            return min(bound, use.max_ms)
    return use.max_ms
