"""``holdfast redact``: secrets out of sessions that are recorded already."""

from __future__ import annotations

import sys
from itertools import islice

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, option, session_argument, verb, yes_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.library import RedactionReport

_LINES_MAX = 10_000


@verb("redact")
@session_argument
@option("--find TEXT", "Also this text; - reads one from each line of the input.", name="texts", multiple=True)
@click.option("--alone", is_flag=True, help="Leave forks, parents and the trash as they are.")
@click.option("--dry-run", is_flag=True, help="Only say what would be replaced.")
@yes_option
@json_option
def redact_verb(app: App, id: str, *, texts: tuple[str, ...], alone: bool, dry_run: bool, yes: bool) -> int:
    """Replace secrets by marks in a session that is recorded already, for good.

    What the rules find goes, and every text that is given. The log is written anew and the old one is destroyed; so
    are snapshots, payloads and bytes in quarantine that held the secret, and the catalogue is made anew. Sessions
    that share events with it are treated in the same way. On a terminal it asks first. Copies outside of the store
    are not reached, and a secret that was written down should be replaced by a new one all the same.

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
    # Where the texts come through the input, nobody is there to answer.
    asks = not yes and not dry_run and app.can_ask
    # The same search twice: what is asked about is what is there, not what was guessed.
    if asks:
        _show(app, app.library.redact(session_id, find=find, relatives=not alone, dry_run=True))
        if not click.confirm("Replace them for good?", err=True):
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
        app.out.line("There is nothing to replace: ", name, " holds no secret that is known.")
    else:
        word = Span("redacted ", "good") if done else "would redact "
        app.out.line(word, name, f": {counted(total, 'secret')}")
    for rule, count in report.found.items():
        app.out.line(f"  {count:>6,}  {rule}")
    changed = [key for key, events in report.sessions.items() if events]
    if len(changed) > 1:
        app.out.line(f"  in {counted(len(changed), 'session')} that share events")
    if report.unscanned:
        app.err.line(f"  {report.unscanned:,} characters could not be looked at in time, and were masked")
    if report.spared:
        app.err.line(f"  {report.spared:,} signatures hold it and were left: a provider refuses a changed one")
    for text in report.unreached:
        app.err.line(f"  not reached: {text}")
    for text in report.left:
        app.err.line(f"  {text}")
