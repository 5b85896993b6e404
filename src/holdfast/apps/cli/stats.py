"""``holdfast stats``: what the sessions used, drawn or as data."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import click
import msgspec

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, tell_none
from holdfast.apps.cli._options import (
    When,
    complete_agent,
    complete_id,
    complete_tag,
    json_option,
    store_option,
)
from holdfast.apps.render.failures import strangers_hint
from holdfast.catalog import Period, SessionFigures, Share, Stats, ToolFigures, TopicCount
from holdfast.library import By

__all__ = ["command"]

_PIPE_COLUMNS = 80
_TABLES = "periods models agents tags tools topics longest most_expensive days hours weekdays turns"


@click.command(
    "stats",
    short_help="Show tokens, cost, activity, tools and topics.",
    epilog="""\b
Examples:
  holdfast stats
  holdfast stats --since 30d --by week
  holdfast stats --tag travel --agent planner
  holdfast stats --session trip-planner        one session, turn by turn
  holdfast stats --csv models > models.csv
  holdfast stats --json | jq .cost
""",
)
@click.option("--since", type=When(), metavar="WHEN", help="From then on: 2026-05-01, 30d, 2h.")
@click.option("--until", type=When(end=True), metavar="WHEN", help="Up to then.")
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="TAG",
    shell_complete=complete_tag,
    help="Only with this tag; repeatable.",
)
@click.option(
    "--agent", metavar="ID", shell_complete=complete_agent, help="Only sessions of this agent."
)
@click.option("--model", metavar="NAME", help="Only the tokens of this model.")
@click.option(
    "--by",
    type=click.Choice(["day", "week", "month"]),
    default="day",
    show_default=True,
    help="What the figures over time are added up by.",
)
@click.option(
    "--session", "id", metavar="ID", shell_complete=complete_id, help="One session, turn by turn."
)
@click.option("--tz", metavar="ZONE", help="The time zone, such as Europe/Zurich or UTC.")
@click.option(
    "--csv",
    "table",
    type=click.Choice(_TABLES.split()),
    metavar="TABLE",
    help=f"One table as CSV: {_TABLES.replace(' ', ', ')}.",
)
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    since: datetime | None,
    until: datetime | None,
    tags: tuple[str, ...],
    agent: str | None,
    model: str | None,
    by: str,
    id: str | None,
    tz: str | None,
    table: str | None,
    as_json: bool,
) -> None:
    """Show what the sessions used: tokens and cost over time, activity, tools and topics.

    Costs come from the log where it names them, else from a table of prices that you can change
    in prices.toml; a model without a price is told as such, and never counted as free.
    """
    if table and as_json:
        ctx.fail("choose one of --csv and --json")
    if (table == "turns") != (id is not None) and table:
        ctx.fail("--csv turns and --session belong together")
    app: App = ctx.obj
    if id is not None:
        _one(app, id, table, as_json=as_json)
        return
    found = app.library.stats(
        since, until, tags=tags, agent_id=agent, model=model, tz=tz, by=cast("By", by)
    )
    if as_json:
        app.out.json(found)
    elif table is not None:
        print_csv(app, found, table)
    elif found.sessions:
        from holdfast.apps.render.stats import print_stats

        print_stats(app.out, found, _width(app))
    else:
        _tell_none(app, tags, filtered=bool(since or until or tags or agent or model))


def _one(app: App, id: str, table: str | None, *, as_json: bool) -> None:
    timeline = app.library.timeline(choose(app.library, id))
    if as_json:
        app.out.json(timeline)
    elif table is not None:
        from holdfast.catalog import TurnFigures

        print_rows(app, TurnFigures, timeline.turns)
    else:
        from holdfast.apps.render.stats import print_timeline

        print_timeline(app.out, timeline)


def _width(app: App) -> int:
    """How wide charts may be: what COLUMNS says, else the terminal, else a page."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    if not app.out.is_terminal:
        return _PIPE_COLUMNS
    try:
        return os.get_terminal_size(1).columns
    except OSError:
        return _PIPE_COLUMNS


def _tell_none(app: App, tags: tuple[str, ...], *, filtered: bool) -> None:
    if filtered:
        tell_none(app, tags)
        return
    told, remedy = strangers_hint(app.library)
    if told:
        app.warn(told, remedy)
        return
    app.err.line(f"There are no sessions in {app.where} yet, so there is nothing to count.")


# Statistics as CSV: one table at a time.


_SHAPES: dict[str, type[msgspec.Struct]] = {
    "periods": Period,
    "models": Share,
    "agents": Share,
    "tags": Share,
    "tools": ToolFigures,
    "topics": TopicCount,
    "longest": SessionFigures,
    "most_expensive": SessionFigures,
}
TABLES = (*_SHAPES, "days", "hours", "weekdays")
# A spreadsheet takes a text that begins like this for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def print_csv(app: App, stats: Stats, table: str) -> None:
    """One table of the statistics, with a heading."""
    if table == "days":
        _print(app, ["day", "messages"], list(stats.days.items()))
    elif table in ("hours", "weekdays"):
        _print(app, [table[:-1], "messages"], list(enumerate(getattr(stats, table))))
    else:
        print_rows(app, _SHAPES[table], getattr(stats, table))


def print_rows(app: App, shape: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> None:
    """Rows of one shape, a column for each member, the name first."""
    members = sorted(shape.__struct_fields__, key=lambda name: name not in _FIRST)
    _print(app, members, [[getattr(row, name) for name in members] for row in rows])


_FIRST = frozenset({"start", "name", "tag", "session_id", "title", "seq"})


def _print(app: App, heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in (heading, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(_safe, row))
        app.out.line(line.getvalue())


def _safe(value: Any) -> Any:
    if isinstance(value, dict):
        return " ".join(f"{name}:{count}" for name, count in value.items())
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
