"""``holdfast redact``: secrets out of sessions that are recorded already."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, option, session_argument, verb, yes_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted

if TYPE_CHECKING:
    from holdfast.library import RedactionReport

_LINES_MAX = 10_000


@verb("redact")
@session_argument
@option("--find TEXT", "Also replace this text; - reads one per line from standard input.", name="texts", multiple=True)
@click.option("--alone", is_flag=True, help="Do not redact forks, parents and the trash.")
@click.option("--dry-run", is_flag=True, help="Only show what would be replaced.")
@yes_option
@json_option
def redact_verb(app: App, id: str, *, texts: tuple[str, ...], alone: bool, dry_run: bool, yes: bool) -> int:
    """Permanently replace secrets in a recorded session by placeholders.

    Replaces everything the rules detect and every text given with --find. The log is rewritten and the old
    one destroyed, along with snapshots, payloads and quarantined bytes that contain a secret, and the
    catalogue is rebuilt. Sessions that share events are redacted too. Asks for confirmation on a terminal.
    Copies outside the store are not affected, and a leaked secret should be revoked in any case.

    Examples:
      holdfast redact trip-planner --dry-run
      holdfast redact trip-planner --yes
      pass show old-key | holdfast redact trip-planner --find -
    """
    session_id = choose(app.library, id)
    find = [text for text in texts if text != "-"]
    if "-" in texts:
        lines = (line.rstrip("\r\n") for line in islice(sys.stdin, _LINES_MAX))
        find += [line for line in lines if line]
    # If the texts come through the input, there is nobody to answer.
    asks = not yes and not dry_run and app.can_ask
    # The search is repeated: the question is about what is there, not about a guess.
    if asks:
        _show(app, app.library.redact(session_id, find=find, relatives=not alone, dry_run=True))
        if not click.confirm("Replace them permanently?", err=True):
            app.err.line("Nothing was changed.")
            return EXIT_FAILED
    report = app.library.redact(session_id, find=find, relatives=not alone, dry_run=dry_run)
    if app.as_json:
        app.out.json(report)
    else:
        _show(app, report, done=not dry_run)
    # A secret that may still be somewhere is no success.
    return EXIT_FAILED if report.unreached or report.unscanned else EXIT_FINE


def _show(app: App, report: RedactionReport, *, done: bool = False) -> None:
    total = sum(report.found.values())
    name = app.name(report.session_id)
    if not total:
        app.out.line("No known secrets were found in ", name, ".")
    else:
        word = Span("redacted ", "good") if done else "would redact "
        app.out.line(word, name, f": {counted(total, 'secret')}")
    for rule, count in report.found.items():
        app.out.line(f"  {count:>6,}  {rule}")
    changed = [key for key, events in report.sessions.items() if events]
    if len(changed) > 1:
        app.out.line(f"  in {counted(len(changed), 'session')} that share events")
    if report.unscanned:
        app.err.line(f"  {report.unscanned:,} characters could not be scanned in time and were masked")
    if report.spared:
        app.err.line(f"  {report.spared:,} signatures hold it and were left: a provider refuses a changed one")
    for text in report.unreached:
        app.err.line(f"  not reached: {text}")
    for text in report.left:
        app.err.line(f"  {text}")
