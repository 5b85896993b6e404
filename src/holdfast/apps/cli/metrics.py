"""``holdfast metrics``: figures of the store for Prometheus, and the dashboard for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import complete_file, json_option, store_option
from holdfast.errors import HoldfastError, UsageError
from holdfast.library.answers.store import MetricList, MetricRow, MetricValue

if TYPE_CHECKING:
    from holdfast.observe import Figures

__all__ = ["command"]


@click.command(
    short_help="Print how the store is as figures for Prometheus.",
    epilog="""\b
Examples:
  holdfast metrics
  holdfast metrics --textfile /var/lib/node_exporter/holdfast.prom
  holdfast metrics --dashboard > holdfast-dashboard.json
""",
)
@click.option(
    "--textfile",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write them to this file, for cron and the textfile collector of the node exporter.",
)
@click.option("--dashboard", is_flag=True, help="Print the dashboard for Grafana instead.")
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, textfile: str | None, dashboard: bool, as_json: bool) -> int:
    """Print how the store is as figures for Prometheus: sessions, sizes, damage, index, space.

    A store that cannot be used is told as `holdfast_up 0`, with exit code 1. A file is written
    whole or not at all, and may be read by everybody: no word of any session is in it. What a
    running service does is at its /metrics.
    """
    if dashboard:
        if textfile is not None or as_json:
            raise UsageError("the dashboard is one thing, the figures are another")
        from holdfast.observe import dashboard as made

        app.out.sink(is_json=True).write(made().encode())
        return EXIT_FINE
    figures = _look(app)
    if as_json:
        app.out.json(_answer(figures))
    elif textfile is not None:
        from holdfast.storage import place_file

        text = figures.text(("gauge",)).encode()
        place_file(textfile, [text], overwrite=True, for_all=True)
    else:
        app.out.sink(is_json=False).write(figures.text(("gauge",)).encode())
    return EXIT_FINE if figures.value("holdfast_up") else EXIT_FAILED


def _look(app: App) -> Figures:
    """The figures; of a store that does not open only that."""
    from holdfast.observe import Figures, store_figures

    try:
        return store_figures(app.library)
    except UsageError:
        raise
    except HoldfastError as error:
        app.warn(error.message, error.remedy)
        figures = Figures()
        figures.set("holdfast_up", 0)
        return figures


def _answer(figures: Figures) -> MetricList:
    return MetricList(
        metrics=[
            MetricRow(
                name=metric.name,
                help=metric.help,
                unit=metric.unit,
                values=[
                    MetricValue(labels=dict(zip(metric.labels, labels, strict=True)), value=value)
                    for labels, value in found.items()
                ],
            )
            for metric, found in figures.states()
        ]
    )
