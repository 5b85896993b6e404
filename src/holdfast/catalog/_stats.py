"""Statistics over many sessions, added up from their tallies, and the timeline of a single one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from heapq import nsmallest
from typing import Any, get_args

import msgspec

from holdfast.catalog._data import without_check
from holdfast.catalog._faults import IndexDamaged
from holdfast.catalog._figures import By, Period, SessionFigures, Share, Stats, Sum, Sums, ToolFigures, TopicCount
from holdfast.catalog._index import Index
from holdfast.catalog._prices import Bill, Prices, bill_of, price_spent, whole_bill
from holdfast.catalog._tally import SHAPE, Tally
from holdfast.catalog._usage import HOUR_MS, LATENCY_BOUNDS_MS, Calendar, Hour, Spent, ToolHours, add_all
from holdfast.model import Event, LazyDecoder, SessionMetadata

UNTAGGED = "(none)"
_SHARES_MAX = 50
_GROUPS_MAX = 2_000
_SUMS_SHAPE = 2  # changes with the members of ``Sums``: other versions are not read


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a count. Hours that are only partly within the time count as a whole."""

    since: int | None = None
    until: int | None = None
    tags: frozenset[str] = frozenset()
    agent_id: str | None = None
    model: str | None = None
    by: By = "day"

    @property
    def is_narrowed(self) -> bool:
        """True if only sessions with certain tags, or of one agent or model, are counted."""
        return bool(self.tags) or self.agent_id is not None or self.model is not None


class _Figures(msgspec.Struct, tag_field="shape", tag=SHAPE):
    """The part of a tally that is counted here; the rest is skipped, not decoded."""

    active_ms: int = 0
    coarse_until: int = 0
    hours: dict[int, Hour] = {}
    inherited: Hour | None = None

    @property
    def is_told(self) -> bool:
        """True if token counts were reported."""
        inherited = [] if self.inherited is None else [self.inherited]
        return any(hour.spent or hour.paid for hour in (*inherited, *self.hours.values()))


_decoder = LazyDecoder(_Figures, msgspec.msgpack)
_sums_decoder = LazyDecoder(Sums, msgspec.msgpack)
_encode = msgspec.msgpack.Encoder().encode


class Counter:
    """Adds up session after session, in as many kinds of periods as are wanted."""

    def __init__(self, wanted: Wanted, prices: Prices, calendar: Calendar, periods: Collection[By] = ()) -> None:
        self._wanted, self._prices = wanted, prices
        self._calendar = calendar
        self._moment = lru_cache(1 << 16)(calendar.moment)
        self._first = -math.inf if wanted.since is None else wanted.since // HOUR_MS
        self._last = math.inf if wanted.until is None else wanted.until // HOUR_MS
        self._sums = Sums(periods={by: {} for by in periods or (wanted.by,)})
        self._groups: dict[tuple[str, tuple[str, ...]], Sum] = {}

    def merge(self, sums: Sums) -> bool:
        """Add sums that were kept before; return False if only some of their hours are wanted, then none counts."""
        first, last = sums.first, sums.last
        if first is None or last is None or last < self._first or first > self._last:
            self._sums.unreadable += sums.unreadable
            return True
        if first < self._first or last > self._last:
            return False
        self._sums.add(sums)
        return True

    def sums(self) -> Sums:
        """Return all sums, to be merged later."""
        self._spread()
        self._sums.shorten()
        return self._sums

    def add(self, row: SessionMetadata, tally: bytes) -> None:
        """Count a session, if it is wanted. Raises ValueError for a damaged tally."""
        wanted = self._wanted
        tags = (*row.tags, *(tag for tag in row.auto_tags if tag not in row.tags))
        if not wanted.tags.issubset(tags) or wanted.agent_id not in (None, row.agent_id):
            return
        self._sums.count += 1
        if not tally:
            self._sums.unreadable += 1
            return
        figures = _decoder.decode(without_check(tally))
        hours = list(self._within(figures.hours))
        # A session without any message yet counts at the time of its last change.
        is_new = not figures.hours and wanted.model is None and self._first <= row.updated_at // HOUR_MS <= self._last
        if hours or is_new:
            self._add_session(row, tags, figures, hours)

    def add_opened(self, rows: Iterable[tuple[SessionMetadata, bytes]]) -> None:
        """Count sealed sessions that the caller can open; the index counted them as unreadable."""
        for row, tally in rows:
            if not self._wanted.tags and self._wanted.agent_id is None:
                self._sums.count -= 1
                self._sums.unreadable -= 1
            self.add(row, tally)

    def _within(self, hours: dict[int, Hour]) -> Iterator[tuple[int, Hour]]:
        model = self._wanted.model
        for key, hour in hours.items():
            if not self._first <= key <= self._last:
                continue
            if model is None:
                yield key, hour
            elif model in hour.spent or model in hour.paid:
                # With the tokens of one model; messages and turns cannot be attributed to it.
                spent, paid = ({model: found[model]} if model in found else {} for found in (hour.spent, hour.paid))
                yield key, Hour(hour.messages, hour.asked, hour.turns, spent, paid, hour.tools)

    def _add_session(
        self, row: SessionMetadata, tags: tuple[str, ...], figures: _Figures, hours: list[tuple[int, Hour]]
    ) -> None:
        recorded, told = any(hour.turns for _, hour in hours), figures.is_told
        sums, whole = self._sums, Sum(sessions=1)
        parts: dict[tuple[By, str], Sum] = {}
        for key, hour in hours:
            used = Spent()
            for one in (*hour.spent.values(), *hour.paid.values()):
                used.add(one)
            part = Sum(0, hour.turns if recorded else hour.asked, hour.messages, used, bill_of(hour, self._prices))
            part.estimated = 0 if told else hour.estimated
            moment = self._moment(key)
            sums.see(moment, hour.messages, exact=key >= figures.coarse_until)
            priced = [(name, spent, price_spent(self._prices, name, spent)) for name, spent in hour.spent.items()]
            paid = [(name, spent, Bill(spent.cost, 0, known=True)) for name, spent in hour.paid.items()]
            for name, spent, bill in priced + paid:
                share = sums.models.setdefault(name, Sum())
                share.spent.add(spent)
                share.bill.add(bill)
            add_all(sums.tools, hour.tools, ToolHours)
            if len(hours) == 1:  # nearly always, so nothing is added up twice
                whole = part
                part.sessions = 1
                parts = {(by, moment.period(by)): part for by in sums.periods}
                break
            whole.add(part)
            for by in sums.periods:
                parts.setdefault((by, moment.period(by)), Sum(sessions=1)).add(part)
        for (by, period), part in parts.items():
            sums.periods[by].setdefault(period, Sum()).add(part)
        for name in {name for _, hour in hours for name in (*hour.spent, *hour.paid)}:
            sums.models[name].sessions += 1
        sums.reach([key for key, _ in hours] or [row.updated_at // HOUR_MS])
        sums.active_ms += figures.active_ms
        self._groups.setdefault((row.agent_id or UNTAGGED, tags), Sum()).add(whole)
        # Most sessions share an agent and tags with others: one sum for all of them is added to the agent and to each
        # tag later, which is many times as fast.
        if len(self._groups) > _GROUPS_MAX:
            self._spread()
        self._rank(row, figures, whole)

    def _spread(self) -> None:
        """Add the sums of sessions of one agent and the same tags to the agent and to each tag."""
        sums = self._sums
        for (agent, tags), group in self._groups.items():
            sums.total.add(group)
            sums.agents.setdefault(agent, Sum()).add(group)
            for tag in tags or (UNTAGGED,):
                sums.tags.setdefault(tag, Sum()).add(group)
            for tag in tags:
                sums.topics[tag] = sums.topics.get(tag, 0) + group.sessions
        self._groups.clear()
        sums.trim()

    def _rank(self, row: SessionMetadata, figures: _Figures, whole: Sum) -> None:
        session = SessionFigures(
            session_id=row.session_id,
            title=row.title,
            messages=whole.messages,
            turns=whole.turns,
            active_ms=figures.active_ms,
            tokens=whole.spent.total,
            cost=whole.bill.so_far,
            unpriced_tokens=whole.bill.unpriced,
        )
        self._sums.rank(session, figures.active_ms, whole.bill.cost)

    def stats(self) -> Stats:
        sums = self.sums()
        total = sums.total
        periods = sums.periods[self._wanted.by]
        names = self._calendar.fill(list(periods), self._wanted.by)
        return Stats(
            since=self._wanted.since,
            until=self._wanted.until,
            tz=self._calendar.name,
            by=self._wanted.by,
            active_ms=sums.active_ms,
            **_counted(total),
            unpriced_models=sorted(name for name, one in sums.models.items() if one.bill.unpriced),
            unreadable=sums.unreadable,
            periods=[Period(start=name, **_counted(periods.get(name) or Sum())) for name in names],
            days=dict(sorted(sums.days.items())),
            hours=sums.hours,
            weekdays=sums.weekdays,
            models=_shares(sums.models),
            agents=_shares(sums.agents),
            tags=_shares(sums.tags),
            tools=_tools(sums.tools),
            topics=[
                TopicCount(tag, count)
                for tag, count in nsmallest(_SHARES_MAX, sums.topics.items(), key=lambda item: (-item[1], item[0]))
            ],
            longest=[session for _, session in sums.longest],
            most_expensive=[session for cost, session in sums.dearest if cost],
        )


def _used(one: Sum) -> dict[str, Any]:
    """Return the usage members that all returned figures share."""
    spent, bill = one.spent, one.bill
    return {
        "tokens": spent.total,
        "input_tokens": spent.input,
        "output_tokens": spent.output,
        "cache_read_tokens": spent.cache_read,
        "cache_write_tokens": spent.cache_write,
        "requests": spent.requests,
        "cost": bill.so_far,
        "unpriced_tokens": bill.unpriced,
        "estimated_tokens": one.estimated,
    }


def _counted(one: Sum) -> dict[str, Any]:
    return {"sessions": one.sessions, "turns": one.turns, "messages": one.messages, **_used(one)}


def _shares(sums: dict[str, Sum]) -> list[Share]:
    largest = nsmallest(_SHARES_MAX, sums.items(), key=lambda item: (-item[1].spent.total, -item[1].sessions, item[0]))
    return [Share(name=name, sessions=one.sessions, **_used(one)) for name, one in largest]


def _tools(tools: dict[str, ToolHours]) -> list[ToolFigures]:
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
            # If all calls took as long as the longest, that is the median.
            is_exact=bool(use.timed) and use.total_ms == use.timed * use.max_ms,
        )
        for name, use in most_used
    ]


def _quantile(use: ToolHours, share: float) -> int | None:
    """Return the bound below which that share of the calls is, at most the longest."""
    if not use.timed:
        return None
    needed, seen = share * use.timed, 0
    for count, bound in zip(use.buckets, LATENCY_BOUNDS_MS, strict=False):
        seen += count
        if seen >= needed:
            return min(bound, use.max_ms)
    return use.max_ms


# The statistics of an index, from the sums that it keeps of blocks of its rows.
def count_index(
    index: Index,
    wanted: Wanted,
    prices: Prices,
    calendar: Calendar,
    *,
    auto_tags: bool = True,
    opened: Iterable[tuple[SessionMetadata, bytes]] = (),
) -> Stats:
    """Return the statistics of an index; without ``auto_tags`` as if there were none. Raises IndexDamaged.

    ``opened`` are sealed sessions, of which the index knows nothing, with their tallies.
    """
    counter = Counter(wanted, prices, calendar)
    counter.add_opened(opened)

    def add(counter: Counter, rows: Iterable[tuple[SessionMetadata, bytes]]) -> Counter:
        for meta, tally in rows:
            counter.add(meta if auto_tags else msgspec.structs.replace(meta, auto_tags=()), tally)
        return counter

    def make(block: int) -> bytes:
        return _encode(add(Counter(Wanted(), prices, calendar, get_args(By)), index.tallies(block)).sums())

    try:
        if not wanted.is_narrowed:
            with index.figures(f"{_SUMS_SHAPE} {calendar.print} {prices.mark} {auto_tags:d}", make) as blocks:
                if blocks is not None:
                    return _summed(index, blocks, counter, add)
        return add(counter, index.tallies()).stats()
    except ValueError as error:
        raise IndexDamaged(f"the figures of a session: {error}") from error


def _summed(index: Index, blocks: Iterable[tuple[int, bytes]], counter: Counter, add: Callable[..., Counter]) -> Stats:
    """Count by the kept sums; only blocks that are partly wanted are read."""
    count = 0
    for block, data in blocks:
        sums = _sums_decoder.decode(data)
        count += sums.count
        if not counter.merge(sums):
            add(counter, index.tallies(block))
    if count != index.count():
        raise IndexDamaged("the sums of sessions")
    return counter.stats()


# The timeline of one session: its turns, the duration and usage of each, and the pauses.
_PROMPT_CHARS = 120


class TurnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One turn. Times are Unix milliseconds."""

    seq: int
    """The seq of its first event."""
    start: int = 0
    duration_ms: int = 0
    pause_ms: int = 0
    """The time without events before it."""
    prompt: str = ""
    """The beginning of the user's message."""
    messages: int = 0
    tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """None if nothing was used, or a price is unknown."""
    tools: dict[str, int] = {}
    """Calls by tool."""
    failures: int = 0


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A session from its first to its last event."""

    session_id: str
    first: int = 0
    last: int = 0
    active_ms: int = 0
    tokens: int = 0
    cost: float | None = None
    """None if a price is unknown."""
    unpriced_tokens: int = 0
    turns: list[TurnFigures] = []


class _Open(msgspec.Struct):
    seq: int
    start: int
    pause_ms: int
    last: int
    tally: Tally
    prompt: str = ""


def timeline_of(session_id: str, events: Iterable[Event], prices: Prices) -> Timeline:
    """Return the timeline of a session: turns begin where recorded or, without those, with a user's message."""
    whole = Tally()
    turns: list[TurnFigures] = []
    current: _Open | None = None
    recorded, before = False, 0
    for event in events:
        whole.feed([event])
        recorded = recorded or event.type == "turn_start"
        if event.type == "turn_start" or (event.type == "user" and not recorded):
            _end(current, turns, prices)
            pause = max(event.timestamp - before, 0) if before else 0
            current = _Open(event.seq, event.timestamp, pause, event.timestamp, Tally())
        if current is not None:
            current.tally.feed([event])
            current.last = max(current.last, event.timestamp)
            if event.type == "user" and not current.prompt:
                current.prompt = _prompt(event)
        before = event.timestamp or before
        if event.type == "turn_end":
            _end(current, turns, prices)
            current = None
    _end(current, turns, prices)
    bill = whole_bill(whole, prices)
    return Timeline(
        session_id=session_id,
        first=whole.first,
        last=whole.last,
        active_ms=whole.active_ms,
        tokens=sum(one.total for one in whole.spent().values()),
        cost=bill.total,
        unpriced_tokens=bill.unpriced,
        turns=turns,
    )


def _prompt(event: Event) -> str:
    try:
        content: Any = event.data.get("content")
    except ValueError:
        return ""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        content = next((text for text in texts if isinstance(text, str)), None)
    text = content[: _PROMPT_CHARS * 4] if isinstance(content, str) else ""
    return " ".join(text.split())[:_PROMPT_CHARS]


def _end(current: _Open | None, turns: list[TurnFigures], prices: Prices) -> None:
    if current is None:
        return
    whole = Hour()
    for hour in current.tally.all_hours():
        whole.add(hour)
    spent = current.tally.spent().values()
    turns.append(
        TurnFigures(
            seq=current.seq,
            start=current.start,
            duration_ms=max(current.last - current.start, 0),
            pause_ms=current.pause_ms,
            prompt=current.prompt,
            messages=whole.messages,
            tokens=sum(one.total for one in spent),
            input_tokens=sum(one.input for one in spent),
            output_tokens=sum(one.output for one in spent),
            cost=bill_of(whole, prices).total,
            tools={name: use.calls for name, use in whole.tools.items() if use.calls},
            failures=sum(use.failures for use in whole.tools.values()),
        )
    )
