"""``holdfast stats``."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import termios
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.cli._screen import standard_output
from holdfast.apps.render.stats import _money, bar, calendar, columns, print_stats, sparkline
from holdfast.apps.render.words import duration, latency
from holdfast.catalog import Stats

DAY = 86_400_000
START = 1_772_000_000_000


@pytest.fixture
def busy(library):
    """Sessions over two weeks, with two models of which one has no price."""
    for number in range(12):
        time = [START + number * DAY]

        def clock(time=time):
            time[0] += 700
            return time[0]

        agent = "odd" if number % 2 else "even"
        with library.session(f"s{number}", agent_id=agent, clock=clock) as session, session.turn():
            session.user("deploy the docker image")
            call = session.tool_call("Bash", {"command": "docker push"})
            session.tool_result(call, "denied", is_error=number % 3 == 0)
            model = "mystery" if number % 4 == 0 else "gpt-4o"
            usage = {"input_tokens": 5000 * number, "output_tokens": 10, "cache_read_tokens": 5}
            session.assistant("done", model=model, usage=usage)


@pytest.mark.req("S2-64", "S2-65", "S2-66", "S2-4")
def test_the_page(run, busy):
    """A summary, charts and tables; in a pipe without colours."""
    out = run("stats", "--tz", "UTC").out
    assert out.splitlines()[0].startswith("12 sessions   12 turns   36 messages")
    for part in (
        "Tokens by day",
        "Activity",
        "Hours",
        "Weekdays",
        "Models",
        "Agents",
        "Tools",
        "Topics",
        "Longest sessions",
        "Most expensive sessions",
        "unknown",
        "excludes 60.0k tokens without a known price: mystery",
        "4 (33%)",
        "devops",
    ):
        assert part in out
    assert "\x1b" not in out


@pytest.mark.parametrize("width", ["40", "60", "120"])
def test_charts_are_no_wider_than_asked_for(run, busy, width):
    """Bars and charts fit the width; tables in a pipe are never cut."""
    out = run("stats", env={"COLUMNS": width}).out
    chart = out[out.index("Tokens by day") : out.index("Models")]
    assert max(map(len, chart.splitlines())) <= max(int(width), 56)


def test_few_days_are_bars(run, busy):
    """Up to three periods are told with their figures."""
    out = run("stats", "--by", "month").out
    assert "2026-02" in out
    assert "2026-03" in out
    assert "$0.68   excludes 60.0k tokens" in out


def test_without_tokens_messages_are_drawn(run, library):
    """A store of another kind of sessions has a page too."""
    with library.session("quiet") as session:
        session.user("hello")
    out = run("stats").out
    assert "Messages by day" in out
    assert "cost" not in out.lower().replace("  cost", "")


def test_unknown_prices_alone(run, library):
    """Then the cost is unknown, and nowhere $0.00."""
    with library.session("s") as session:
        session.usage(input_tokens=5)
    out = run("stats").out
    assert "cost unknown   excludes 5 tokens without a known price: (no name)" in out
    assert "$" not in out


def test_many_unknown_models(run, library):
    """The first of them are named."""
    with library.session("s") as session:
        for number in range(5):
            session.usage(model=f"m{number}", input_tokens=5)
    assert "m0, m1, m2 and 2 more" in run("stats").out


def test_filters(run, busy):
    """Time, tag, agent and model."""
    assert run("stats", "--agent", "odd").out.startswith("6 sessions")
    assert run("stats", "--model", "mystery").out.startswith("3 sessions")
    assert run("stats", "--tag", "devops").out.startswith("12 sessions")
    assert run("stats", "--until", "2026-02-26").code == 0


def test_nothing_fits(run, busy):
    """It is told on standard error."""
    outcome = run("stats", "--tag", "nothing")
    assert (outcome.code, outcome.out) == (0, "")
    assert "No matching sessions" in outcome.err


def test_empty_store(run):
    """An empty store is told nicely."""
    outcome = run("stats")
    assert (outcome.code, outcome.out) == (0, "")
    assert "no statistics" in outcome.err


def test_json(run, busy):
    """All figures for programs."""
    found = json.loads(run("stats", "--json", "--by", "week").out)
    assert (found["sessions"], found["by"]) == (12, "week")
    assert found["unpriced_models"] == ["mystery"]
    assert json.loads(run("stats", "--json", "--since", "2099-01-01").out)["sessions"] == 0


@pytest.mark.parametrize(
    ("table", "first", "rows"),
    [
        ("periods", "start", 12),
        ("models", "name", 2),
        ("agents", "name", 2),
        ("tags", "name", 1),
        ("tools", "name", 1),
        ("topics", "tag", 1),
        ("longest", "session_id", 10),
        ("most_expensive", "session_id", 9),
        ("days", "day", 12),
        ("hours", "hour", 24),
        ("weekdays", "weekday", 7),
    ],
)
def test_csv(run, busy, table, first, rows):
    """Every table as CSV with a heading."""
    found = list(csv.reader(io.StringIO(run("stats", "--csv", table).out)))
    assert found[0][0] == first
    assert len(found) == rows + 1
    assert {len(row) for row in found} == {len(found[0])}


def test_csv_runs_no_formula(run, library):
    """A name that a spreadsheet would calculate is quoted; controls do not reach the terminal."""
    with library.session("s", agent_id="a") as session:
        session.user("x")
        session.tag("=cmd|calc", "\x1b[2J\nb")
    out = run("stats", "--csv", "tags").out
    assert "'=cmd|calc" in out
    assert "\x1b" not in out


def test_one_session(run, busy):
    """Turn by turn; also as JSON and CSV."""
    out = run("stats", "--session", "s3").out
    assert out.startswith("s3   1 turn   15.0k tokens   $0.04")
    assert "Bash (1 failed)" in out
    assert "deploy the docker image" in out
    assert json.loads(run("stats", "--session", "s3", "--json").out)["turns"][0]["failures"] == 1
    heading, row = run("stats", "--session", "s3", "--csv", "turns").out.splitlines()
    assert heading.startswith("seq,start,")
    assert "Bash:1" in row


def test_one_session_without_price_or_turns(run, library, busy):
    """What is unknown or missing is told or left out."""
    assert "cost unknown" in run("stats", "--session", "s4").out
    with library.session("empty") as session:
        session.tag("x")
    assert run("stats", "--session", "empty").out.startswith("empty   0 turns")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--csv", "models", "--json"],
        ["--csv", "turns"],
        ["--csv", "models", "--session", "s1"],
        ["--by", "year"],
        ["--tz", "Mars/Olympus"],
    ],
)
def test_wrong_usage(run, library, arguments):
    """Wrong usage has the exit code 2."""
    assert run("stats", *arguments).code == 2


def test_hostile_names(run, library):
    """Names of models, tools and agents cannot leave their cell."""
    with library.session("s", title="t\x1b]0;x\x07") as session:
        session.user("x")
        call = session.tool_call("to\x1b[31mol\n", {})
        session.tool_result(call, "x")
        session.assistant("x", model="m\x1b[2J\r", usage={"input_tokens": 10})
    assert "\x1b" not in run("stats").out


def test_in_a_process_of_its_own(shell, busy):
    """Into a pipe there are no colours."""
    outcome = shell("stats", "--by", "week")
    assert outcome.code == 0
    assert "12 sessions" in outcome.out
    assert "\x1b" not in outcome.out


def on_terminal(shell, width, env):
    """What the command writes onto a terminal of that width."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        parts = []
        reader = threading.Thread(target=_read_all, args=(ours, parts))
        reader.start()
        settings = {"TERM": "xterm-256color", "COLUMNS": "", "PAGER": "cat", **env}
        assert shell("stats", stdout=theirs, env=settings).code == 0
    finally:
        os.close(theirs)
    reader.join()
    os.close(ours)
    return b"".join(parts).decode()


def _read_all(ours, parts):
    try:
        while part := os.read(ours, 65536):
            parts.append(part)
    except OSError:  # the other end is closed
        pass


@pytest.mark.parametrize("width", [50, 100])
def test_on_a_terminal(shell, busy, width):
    """Coloured, and no line is wider than the terminal; NO_COLOR is obeyed."""
    coloured = on_terminal(shell, width, {})
    plain = on_terminal(shell, width, {"NO_COLOR": "1"})
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain
    lines = re.sub(r"\x1b\[[0-9;]*m", "", plain).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("12 sessions")


def test_sessions_that_could_not_be_counted(capsys):
    """They are told of, and a page without figures stands."""
    print_stats(standard_output(), Stats(sessions=1, unreadable=2), 80)
    assert "2 sessions could not be counted" in capsys.readouterr().out


def test_the_width_of_a_pipe(run, busy):
    """Where nothing says how wide, it is as wide as a page."""
    out = run("stats", env={"COLUMNS": "0"}).out
    assert max(map(len, out[: out.index("Models")].splitlines())) <= 80


def test_times_and_money_as_people_say_them():
    """Short, and never a cost of nothing for something."""
    assert [duration(ms) for ms in (0, 59_000, 90_000, 3_720_000, 100_000_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "1 h 02",
        "1 d 3 h",
    ]
    assert [latency(ms) for ms in (None, 12, 1500, 120_000)] == ["", "12 ms", "1.5 s", "2 min"]
    assert [_money(cost) for cost in (0.0, 0.001, 1234.5)] == ["$0.00", "<$0.01", "$1,234.50"]


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.integers(1, 60))
def test_bars(value, most, width):
    """Never longer than the width; anything above nothing is seen."""
    drawn = bar(value, most, width)
    assert len(drawn) <= width
    assert bool(drawn) == (value > 0 and most > 0)


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 80), st.integers(1, 8))
def test_columns(values, width, height):
    """The newest that fit, in as many rows as asked for."""
    chart = columns(values, width, height)
    assert len(chart.rows) == height
    assert all(len(row) <= max(width, 4) for row in chart.rows)
    assert chart.shown <= len(values)
    assert len(sparkline(values)) == len(values)


def test_shapes_of_charts():
    """A few that can be checked by eye."""
    assert sparkline([0, 1, 2, 4, 8]) == "▁▁▂▄█"
    assert sparkline([0, 0]) == "  "
    assert bar(1, 2, 4) == "██"
    assert bar(5, 16, 2) == "▋"
    assert columns([1, 2], 4, 2).rows == ["  █", "█ █"]
    assert columns([], 10, 1).rows == [""]


def test_the_calendar():
    """Weekdays below each other, weeks side by side, months above, darker for more."""
    days = {"2026-03-02": 1, "2026-03-04": 9, "2026-03-10": 3, "2026-02-11": 2}
    rows = calendar(days, 40)
    assert len(rows) == 8
    assert rows[0].split()[-1] == "Mar"
    assert rows[3].startswith("Wed")
    assert [row[-1] for row in rows[1:4]] == ["·", "▓", "█"]
    assert calendar({}, 40) == []
    assert len(calendar({"9999-12-31": 1}, 300)) == 8
    assert len(calendar({"0001-01-01": 1, "0001-01-02": 0}, 300)) == 8
