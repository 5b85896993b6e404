"""Statistics: what is added up over many sessions, and the course of one."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import Tally, _figures, _stats
from holdfast.catalog._prices import Price, Prices
from holdfast.catalog._stats import Counter, Wanted, timeline_of
from holdfast.catalog._usage import Calendar
from holdfast.errors import UsageError
from holdfast.model import Event, SessionMetadata

HOUR, DAY = 3_600_000, 86_400_000
MONDAY = int(dt.datetime(2026, 3, 2, 9, tzinfo=dt.UTC).timestamp() * 1000)
PRICES = Prices({"dear": Price(10.0, 10.0), "cheap": Price(1.0, 1.0)})


def asked(at, model="cheap", tokens=1_000_000, tool=None, failed=False):
    """One turn at a time: a question, perhaps a tool, an answer."""
    events = [Event.make("user", {"content": "hm"}, timestamp=at)]
    if tool is not None:
        events += [
            Event.make("tool_call", {"id": "c", "tool": tool}, timestamp=at),
            Event.make("tool_result", {"toolCallId": "c", "result": "", "is_error": failed}, timestamp=at + 2000),
        ]
    usage = {"input_tokens": tokens}
    data = {"content": "", "model": model, "usage": usage}
    return [*events, Event.make("assistant", data, timestamp=at + 3000)]


def session(id, *turns, tags=(), auto_tags=(), agent=None):
    """A row of the catalogue."""
    tally = Tally().feed([event for turn in turns for event in turn])
    row = SessionMetadata(
        session_id=id, title=id.title(), tags=tags, auto_tags=auto_tags, agent_id=agent, updated_at=tally.last
    )
    return row, tally.to_bytes()


def count(*rows, tz="UTC", **wanted):
    """The statistics of some rows."""
    counter = Counter(Wanted(**wanted), PRICES, Calendar(tz))
    for row in rows:
        counter.add(*row)
    return counter.stats()


@pytest.mark.req("S2-64", "S2-4")
def test_tokens_over_time():
    """Tokens and cost by day, with the days in which nothing happened."""
    stats = count(session("a", asked(MONDAY), asked(MONDAY + 2 * DAY, "dear")))
    assert [(one.start, one.tokens, one.cost) for one in stats.periods] == [
        ("2026-03-02", 1_000_000, 1.0),
        ("2026-03-03", 0, None),
        ("2026-03-04", 1_000_000, 10.0),
    ]
    assert (stats.tokens, stats.cost, stats.sessions, stats.turns) == (2_000_000, 11.0, 1, 2)


@pytest.mark.parametrize(("by", "starts"), [("week", ["2026-03-02", "2026-03-09"]), ("month", ["2026-03-01"])])
def test_weeks_and_months(by, starts):
    """A week begins on Monday, a month on its first day."""
    stats = count(session("a", asked(MONDAY), asked(MONDAY + 8 * DAY)), by=by)
    assert [one.start for one in stats.periods] == starts


def test_months_over_a_year():
    """Months of different lengths are all there."""
    stats = count(session("a", asked(MONDAY), asked(MONDAY + 365 * DAY)), by="month")
    assert len(stats.periods) == 13


@pytest.mark.req("S2-65")
def test_most_active_hours_and_weekdays():
    """Messages by hour and weekday, in the time zone that is asked for."""
    row = session("a", asked(MONDAY), asked(MONDAY + 3 * DAY))
    stats = count(row)
    assert (stats.hours[9], stats.weekdays) == (4, [2, 0, 0, 2, 0, 0, 0])
    east = count(row, tz="Asia/Tokyo")
    assert (east.hours[18], east.hours[9], east.tz) == (4, 0, "Asia/Tokyo")


def test_a_time_zone_moves_the_day():
    """What is Monday morning in London is still Sunday on Hawaii."""
    stats = count(session("a", asked(MONDAY)), tz="Pacific/Honolulu")
    assert list(stats.days) == ["2026-03-01"]


def test_the_time_zone_of_this_machine(monkeypatch):
    """Without a zone it is that of the machine; a tzinfo does as well."""
    assert Calendar().moment(0).date.year in (1969, 1970)
    assert Calendar(dt.timezone(dt.timedelta(hours=2))).moment(0).hour == 2


@pytest.mark.parametrize("tz", ["Mars/Olympus", "../etc/passwd", ""])
def test_no_such_time_zone(tz):
    """A zone that is none is told."""
    with pytest.raises(UsageError, match="time zone"):
        Calendar(tz)


@given(st.integers(min_value=0, max_value=253_402_300_799 // 3600), st.sampled_from(["day", "week"]))
def test_any_hour_of_the_calendar(hour, by):
    """From the first to the last hour there is, in zones at both ends of the world."""
    for tz in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
        calendar = Calendar(tz)
        start = calendar.moment(hour).period(by)
        assert calendar.fill([start], by) == [start]


def test_a_span_too_long_to_fill():
    """Between the year 1970 and 9999 only the days that are there are told."""
    assert len(Calendar("UTC").fill(["1970-01-01", "9999-12-31"], "day")) == 2


@pytest.mark.req("S2-64")
def test_models_agents_and_tags():
    """Each with its sessions, tokens and cost, the largest first; tags of both kinds."""
    stats = count(
        session("a", asked(MONDAY), tags=("x",), auto_tags=("x", "y"), agent="one"),
        session("b", asked(MONDAY, "dear", 10), asked(MONDAY, "new", 5), agent="two"),
    )
    assert [(one.name, one.sessions, one.tokens, one.cost) for one in stats.models] == [
        ("cheap", 1, 1_000_000, 1.0),
        ("dear", 1, 10, 10 * 10 / 1e6),
        ("new", 1, 5, None),
    ]
    assert [(one.name, one.tokens) for one in stats.agents] == [("one", 1_000_000), ("two", 15)]
    assert {one.name: one.sessions for one in stats.tags} == {"x": 1, "y": 1, "(none)": 1}
    assert (stats.unpriced_tokens, stats.unpriced_models) == (5, ["new"])


def test_without_any_price():
    """The cost is unknown, not 0."""
    stats = count(session("a", asked(MONDAY, "new")))
    assert (stats.cost, stats.unpriced_tokens) == (None, 1_000_000)


def test_a_cost_that_was_recorded():
    """It is in the sums, and the model's tokens are not unpriced."""
    usage = Event.make("usage", {"model": "new", "input_tokens": 7, "cost": 2.5}, timestamp=MONDAY)
    stats = count(session("a", [usage]))
    assert (stats.cost, stats.unpriced_tokens, stats.models[0].cost) == (2.5, 0, 2.5)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"tags": frozenset({"x"})}, {"a"}),
        ({"tags": frozenset({"auto"})}, {"b"}),
        ({"agent_id": "one"}, {"a"}),
        ({"model": "dear"}, {"b"}),
        ({"since": MONDAY + DAY}, {"b"}),
        ({"until": MONDAY + DAY}, {"a"}),
        ({"since": MONDAY + 9 * DAY}, set()),
    ],
)
def test_only_what_is_asked_for(wanted, ids):
    """Tags, agent, model and time choose among the sessions."""
    stats = count(
        session("a", asked(MONDAY), tags=("x",), agent="one"),
        session("b", asked(MONDAY + 2 * DAY, "dear"), auto_tags=("auto",)),
        **wanted,
    )
    assert {one.session_id for one in stats.longest} == ids


def test_only_the_tokens_of_one_model():
    """Of a session with several models only those of the one that is asked for."""
    stats = count(session("a", asked(MONDAY), asked(MONDAY, "dear", 7)), model="dear")
    assert (stats.tokens, [one.name for one in stats.models]) == (7, ["dear"])


def test_a_part_of_a_session():
    """Of a session that goes on for days only those that are asked for."""
    row = session("a", asked(MONDAY), asked(MONDAY + 5 * DAY))
    assert count(row, since=MONDAY + DAY).tokens == 1_000_000


def test_sessions_in_which_nothing_was_said():
    """They are counted at the time of their last change."""
    row = SessionMetadata(session_id="a", updated_at=MONDAY), Tally().to_bytes()
    assert count(row).sessions == 1
    assert count(row, since=MONDAY + DAY).sessions == 0
    assert count(row, model="cheap").sessions == 0


def test_sessions_without_figures():
    """One whose log cannot be read is told of."""
    stats = count((SessionMetadata(session_id="a", updated_at=MONDAY), b""))
    assert (stats.sessions, stats.unreadable) == (0, 1)


def test_a_damaged_tally_is_noticed():
    """Whatever bit is turned: the index is damaged, and never believed."""
    row, tally = session("a", asked(MONDAY))
    broken = bytearray(tally)
    broken[len(broken) // 2] ^= 4
    with pytest.raises(ValueError, match="checksum"):
        count((row, bytes(broken)))


def test_tools():
    """Calls, failures and how long they take."""
    stats = count(
        session("a", asked(MONDAY, tool="Bash"), asked(MONDAY + HOUR, tool="Bash", failed=True)),
        session("b", [Event.make("tool_call", {"id": "z", "tool": "Never"}, timestamp=MONDAY)]),
    )
    bash, never = stats.tools
    assert (bash.name, bash.calls, bash.failures, bash.failure_rate) == ("Bash", 2, 1, 0.5)
    assert (bash.mean_ms, bash.median_ms, bash.p95_ms, bash.max_ms) == (2000, 2000, 2000, 2000)
    assert bash.is_exact
    assert (never.calls, never.failure_rate, never.median_ms) == (1, None, None)


def test_quantiles_are_upper_bounds():
    """Half of the calls are below the median, and none is above the longest."""
    events = []
    for number, took in enumerate([5, 5, 5, 200, 2_000_000]):
        call = {"id": f"{number}", "tool": "T"}
        result = {"toolCallId": f"{number}", "result": ""}
        events += [
            Event.make("tool_call", call, timestamp=MONDAY),
            Event.make("tool_result", result, timestamp=MONDAY + took),
        ]
    tool = count(session("a", events)).tools[0]
    assert (tool.median_ms, tool.p95_ms, tool.max_ms) == (10, 2_000_000, 2_000_000)
    assert not tool.is_exact


@pytest.mark.req("S2-66")
def test_common_topics():
    """Tags by how many sessions have them."""
    stats = count(
        session("a", asked(MONDAY), auto_tags=("devops", "git")), session("b", asked(MONDAY), auto_tags=("git",))
    )
    assert [(one.tag, one.sessions) for one in stats.topics] == [("git", 2), ("devops", 1)]


def test_longest_and_most_expensive():
    """Ten of each, the first first; what cost nothing is not expensive."""
    rows = [session(f"s{n}", *[asked(MONDAY + i * 10_000, "dear", n) for i in range(n)])
            for n in range(1, 15)]  # fmt: skip
    stats = count(*rows, session("free", asked(MONDAY, "new")))
    assert [one.session_id for one in stats.longest] == [f"s{n}" for n in range(14, 4, -1)]
    assert stats.most_expensive[0].session_id == "s14"
    assert "free" not in {one.session_id for one in stats.most_expensive}


def test_memory_is_bounded(monkeypatch):
    """However many tags and sessions there are, only so many are kept while counting."""
    monkeypatch.setattr(_stats, "_GROUPS_MAX", 20)
    monkeypatch.setattr(_figures, "_NAMES_MAX", 50)
    monkeypatch.setattr(_figures, "_TRIMMED", 10)
    rows = [session(f"s{n}", asked(MONDAY, tool=f"tool{n}"), tags=("often", f"t{n}"), agent=f"a{n}")
            for n in range(1200)]  # fmt: skip
    stats = count(*rows)
    assert stats.topics[0].tag == "often"
    assert stats.sessions == 1200
    assert len(stats.longest) == 10
    assert len(stats.agents) <= 50


def test_nothing_at_all():
    """No sessions, no figures."""
    stats = count()
    assert (stats.sessions, stats.cost, stats.periods, stats.days) == (0, None, [], {})


def test_timeline_of_turns():
    """Each turn with its start, length, pause, tokens, cost, tools and first words."""
    events = [
        Event.make("session_start", {}, seq=0, timestamp=MONDAY - 10),
        Event.make("turn_start", {}, seq=1, timestamp=MONDAY),
        *asked(MONDAY, tool="Bash", failed=True),
        Event.make("turn_end", {}, seq=5, timestamp=MONDAY + 4000),
        Event.make("turn_start", {}, seq=6, timestamp=MONDAY + 64_000),
        *asked(MONDAY + 64_000, "new", 5),
    ]
    found = timeline_of("a", events, PRICES)
    first, second = found.turns
    assert (first.seq, first.start, first.duration_ms, first.pause_ms) == (1, MONDAY, 4000, 10)
    assert (first.tokens, first.cost, first.tools, first.failures) == (1_000_000, 1.0, {"Bash": 1}, 1)
    assert (first.prompt, second.pause_ms, second.cost) == ("hm", 60_000, None)
    assert (found.tokens, found.cost, found.unpriced_tokens) == (1_000_005, None, 5)


def test_timeline_without_recorded_turns():
    """A turn begins with what the user says, whatever form that has."""
    events = [
        Event.make("user", {"content": [{"text": " a \n b "}, 3]}, seq=0, timestamp=MONDAY),
        Event.make("assistant", {"content": "x"}, seq=1, timestamp=MONDAY + 5),
        Event.make("user", {"content": 7}, seq=2, timestamp=MONDAY + 10),
        Event("user", 3, MONDAY + 20, b"[]"),
    ]
    turns = timeline_of("a", events, PRICES).turns
    assert [(turn.seq, turn.prompt, turn.messages) for turn in turns] == [(0, "a b", 2), (2, "", 1), (3, "", 1)]
