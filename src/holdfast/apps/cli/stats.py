"""Figures: what the sessions used, and how the store is."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, tell_none
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import filter_options, json_option, named_option, option, refuse, verb
from holdfast.apps.render.failures import strangers_hint
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.library import By
    from holdfast.observe import Figures

_PIPE_COLUMNS = 80
_TABLES = "periods models agents tags tools topics longest most_expensive days hours weekdays turns"


@verb("stats")
@filter_options(
    since="Only usage since: 2026-05-01, 30d, 2h.",
    until="Only usage before.",
    tags="Only sessions with this tag; repeatable.",
    agent_id="Only sessions of this agent.",
    model="Only usage of this model.",
)
@option("--by", "Period to group by.", of="day week month", default="day")
@named_option("--session", "id", of="session", help="Show one session, turn by turn.")
@option("--tz ZONE", "Time zone, such as Europe/Zurich or UTC.")
@option("--csv TABLE", f"Print one table as CSV: {_TABLES.replace(' ', ', ')}.", name="table", of=_TABLES)
@json_option
def stats_verb(app: App, /, *, by: By, id: str | None, tz: str | None, table: str | None, **narrowed: Any) -> None:
    """Show usage: tokens and cost over time, activity, tools and topics.

    Costs are taken from the log where recorded, otherwise from a price table that you can extend in
    prices.toml. Models without a price are listed as such and never counted as free.

    Examples:
      holdfast stats
      holdfast stats --since 30d --by week
      holdfast stats --tag travel --agent planner
      holdfast stats --session trip-planner        one session, turn by turn
      holdfast stats --csv models > models.csv
      holdfast stats --json | jq .cost
    """
    if table and app.as_json:
        refuse("--csv and --json cannot be used together")
    if (table == "turns") != (id is not None) and table:
        refuse("--csv turns requires --session, and --session allows no other table")
    if id is not None:
        _one(app, id, table)
        return
    found = app.library.stats(tz=tz, by=by, **narrowed)
    if app.as_json:
        app.out.json(found)
    elif table == "days":
        _print(app, ["day", "messages"], list(found.days.items()))
    elif table in ("hours", "weekdays"):
        _print(app, [table[:-1], "messages"], list(enumerate(getattr(found, table))))
    elif table is not None:
        from holdfast import catalog

        _print_rows(app, getattr(catalog, _SHAPES[table]), getattr(found, table))
    elif found.sessions:
        from holdfast.apps.render.stats import print_stats

        print_stats(app.out, found, _width(app), app.short)
    elif any(narrowed.values()):
        tell_none(app, narrowed["tags"])
    elif (hint := strangers_hint(app.library))[0]:
        app.warn(*hint)
    else:
        app.err.line(f"There are no sessions in {app.where} yet, so there are no statistics.")


def _one(app: App, id: str, table: str | None) -> None:
    timeline = app.library.timeline(choose(app.library, id))
    if app.as_json:
        app.out.json(timeline)
    elif table is not None:
        from holdfast.catalog import TurnFigures

        _print_rows(app, TurnFigures, timeline.turns)
    else:
        from holdfast.apps.render.stats import print_timeline

        print_timeline(app.out, timeline)


def _width(app: App) -> int:
    """Return the width of charts: COLUMNS, else the terminal's, else a page's."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(1).columns if app.out.is_terminal else _PIPE_COLUMNS
    except OSError:
        return _PIPE_COLUMNS


# Statistics as CSV: one table at a time.
_SHAPES = {"periods": "Period", "tools": "ToolFigures", "topics": "TopicCount"}
_SHAPES |= dict.fromkeys(("models", "agents", "tags"), "Share")
_SHAPES |= dict.fromkeys(("longest", "most_expensive"), "SessionFigures")
# A spreadsheet takes a text that begins like this for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _print_rows(app: App, shape: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> None:
    """Print rows of one shape, a column for each member, the name first."""
    first = {"start", "name", "tag", "session_id", "title", "seq"}
    members = sorted(shape.__struct_fields__, key=lambda name: name not in first)
    _print(app, members, [[getattr(row, name) for name in members] for row in rows])


def _print(app: App, heading: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    import csv

    for row in (heading, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(map(_safe, row))
        app.out.line(line.getvalue())


def _safe(value: Any) -> Any:
    if isinstance(value, dict):
        return " ".join(f"{name}:{count}" for name, count in value.items())
    # A quote in front makes a spreadsheet take it for text.
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


@verb("metrics")
@named_option("--textfile", of="file", help="Write to this file, for the node exporter's textfile collector.")
@click.option("--dashboard", is_flag=True, help="Print a Grafana dashboard instead.")
@json_option
def metrics_verb(app: App, /, *, textfile: str | None, dashboard: bool) -> int:
    """Print metrics about the store for Prometheus: sessions, sizes, damage, index, disk space.

    If the store cannot be used, prints `holdfast_up 0` and exits with code 1. --textfile writes atomically
    and makes the file world-readable; it contains no session content. A running service has its own
    metrics at /metrics.

    Examples:
      holdfast metrics
      holdfast metrics --textfile /var/lib/node_exporter/holdfast.prom
      holdfast metrics --dashboard > holdfast-dashboard.json
    """
    if dashboard:
        if textfile is not None or app.as_json:
            raise UsageError("--dashboard cannot be combined with other options")
        from holdfast.observe import dashboard as made

        app.out.sink(is_json=True).write(made().encode())
        return EXIT_FINE
    figures = _look(app)
    if app.as_json:
        from holdfast.library.answers.store import MetricList, MetricRow, MetricValue

        rows = []
        for metric, found in figures.states():
            values = [
                MetricValue(labels=dict(zip(metric.labels, labels, strict=True)), value=value)
                for labels, value in found.items()
            ]
            rows.append(MetricRow(name=metric.name, help=metric.help, unit=metric.unit, values=values))
        app.out.json(MetricList(metrics=rows))
    elif textfile is not None:
        from holdfast.storage import place_file

        text = figures.text(("gauge",)).encode()
        # In one step: the collector may read at any moment, as another user.
        place_file(textfile, [text], overwrite=True, for_all=True)
    else:
        app.out.sink(is_json=False).write(figures.text(("gauge",)).encode())
    return EXIT_FINE if figures.value("holdfast_up") else EXIT_FAILED


def _look(app: App) -> Figures:
    """Return the figures; of a store that does not open only that."""
    from holdfast.observe import Figures, store_figures

    try:
        return store_figures(app.library)
    # A wrong command line is no state of the store.
    except UsageError:
        raise
    except HoldfastError as error:
        app.warn(error.message, error.remedy)
        figures = Figures()
        figures.set("holdfast_up", 0)
        return figures
