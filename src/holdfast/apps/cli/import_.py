"""``holdfast import``: sessions of other tools, bundles and message lists, brought in."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FAILED, EXIT_FINE, tell
from holdfast.apps.cli._options import complete_file, json_option, option, verb
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import counted
from holdfast.errors import InvalidData, KeyMissing, TooLarge, UsageError
from holdfast.library import ImportReport, Place

if TYPE_CHECKING:
    from holdfast.library import ImportedSession, SignedFile

_PASSPHRASE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - the name of the variable
_STYLES = {"imported": "good", "updated": "good", "unchanged": "faint", "failed": "bad"}
_REASONS_SHOWN = 10
_ROWS_SHOWN = 10


def _complete_tool(_ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from holdfast.formats import READERS

    others = ["auto", "bundle"] if parameter.name == "format" else []
    names = [*others, *sorted(name.replace("_", "-") for name in READERS)]
    return [name for name in names if name.startswith(incomplete)]


@verb("import")
@click.argument("paths", metavar="PATH...", nargs=-1, shell_complete=complete_file)
@option(
    "--format FORMAT",
    "Source format: a tool's name, bundle, messages, or auto (detect by content).",
    default="auto",
    shell_complete=_complete_tool,
)
@click.option("--scan", is_flag=True, help="Find the sessions of all your tools.")
@option("--tool TOOL", "With --scan: only this tool.", shell_complete=_complete_tool)
@click.option("--watch", is_flag=True, help="Keep running and import changes until Ctrl-C.")
@option("--every SECONDS", "With --watch: how often to look.", type=click.FloatRange(min=0.05), default=1.0)
@click.option("--dry-run", is_flag=True, help="Show what would be imported without recording anything.")
@option("--verify-key KEY", "Only accept files signed with this public key (or the key in this file).")
@json_option
def import_verb(app: App, paths: tuple[str, ...], tool: str | None, verify_key: str | None, **how: Any) -> int:
    """Import sessions from files and directories of other tools, bundles and message lists.

    Source files are only read. Importing the same source again adds only what is new. Sources are not
    trusted: permissions, plugins and settings are never imported.

    Examples:
      holdfast import ~/.codex/sessions
      holdfast import trip.holdfast messages.json
      holdfast import old-logs --format event-folder --dry-run
      holdfast import --scan
      holdfast import --scan --tool claude-code --watch
    """
    format, scan, watch = how["format"], how["scan"], how["watch"]
    _check(paths, format, tool, scan=scan)
    signed: dict[str, SignedFile] = {}
    if verify_key is not None:
        from holdfast.library import read_signed

        if scan or watch:
            raise UsageError("--verify-key cannot be used with --scan or --watch")
        # All of them are verified before the first one is brought in.
        signed = {path: read_signed(path, verify_key) for path in paths}
    importing = _Importing(app, signed, dry_run=how["dry_run"])

    def places() -> list[Place]:
        if scan:
            return app.library.foreign.places(tool)
        return [Place(format, path) for path in paths]

    if watch:
        return importing.watch(places, how["every"])
    report = importing.take(places())
    # One file that is not what it should be is a failure of the command, not a line in a report.
    if not report.sessions and len(paths) == 1 and report.errors:
        error = report.errors[0]
        if not isinstance(error, (InvalidData, TooLarge)):
            raise error  # no fault of the file
        tell(app.err, Span("error: ", "bad"), str(error), error.remedy)
        return EXIT_DAMAGED
    importing.tell(report)
    # The empty files of a scan were not named by the user.
    counts = [error for error in report.errors if not (scan and isinstance(error, (InvalidData, UsageError)))]
    return EXIT_FAILED if counts else EXIT_FINE


def _check(paths: tuple[str, ...], format: str, tool: str | None, *, scan: bool) -> None:
    if scan == bool(paths):
        told = "specify files or directories to import, or --scan"
        raise UsageError(told, remedy="holdfast import PATH..., or holdfast import --scan")
    if tool is not None and not scan:
        raise UsageError("--tool requires --scan", remedy=f"Use --format {tool} for a path.")
    if scan and format != "auto":
        raise UsageError("--format cannot be used with --scan", remedy="Use --tool with --scan.")


def _may_ask() -> bool:
    return sys.stdin.isatty()


class _Importing:
    """Brings places in, one after the other, and tells what came of it."""

    def __init__(self, app: App, signed: dict[str, SignedFile], *, dry_run: bool) -> None:
        self._app = app
        self._signed = signed
        self._dry_run = dry_run

    def take(self, places: list[Place]) -> ImportReport:
        """Import every place, under a bar if it takes long."""
        report = ImportReport()
        for number, place in enumerate(places, 1):
            which = f" {number} of {len(places)}" if len(places) > 1 else ""
            with self._app.err.meter(f"importing{which}") as tell:
                found = self._import(place, tell)
            report.sessions += found.sessions
            report.skipped += found.skipped
            report.errors += found.errors
        return report

    def _import(self, place: Place, tell: Callable[[int, int], None] | None = None) -> ImportReport:
        library = self._app.library
        given = os.environ.get(_PASSPHRASE)
        source = self._signed.get(place.path, place.path)
        report = library.import_all([source], place.tool, dry_run=self._dry_run, passphrase=given, progress=tell)
        # Asked for only when it is needed, and once.
        sealed = any(isinstance(error, KeyMissing) for error in report.errors)
        if sealed and given is None and _may_ask():
            asked: str = click.prompt("Passphrase", hide_input=True, err=True)
            report = library.import_all([source], place.tool, dry_run=self._dry_run, passphrase=asked)
        return report

    def tell(self, report: ImportReport) -> None:
        """Print what was imported, and what was not."""
        if self._app.as_json:
            from holdfast.library.answers.store import ImportedSessions

            found = ImportedSessions(sessions=report.sessions, skipped=report.skipped)
            self._app.out.json(found)
            return
        few = len(report.sessions) <= _ROWS_SHOWN
        changed = report.sessions if few else [row for row in report.sessions if row.outcome != "unchanged"]
        if len(changed) <= _ROWS_SHOWN:
            for row in changed:
                self._tell_row(row, row.title)
        else:
            self._tell_tools(report.sessions)
        self._tell_reasons(report)
        outcomes = [row.outcome for row in report.sessions]
        counts = [f"{outcomes.count(outcome)} {outcome}" for outcome in _STYLES if outcome in outcomes]
        told = ", ".join(counts) or "No sessions were found"
        self._app.err.line(told + (" (nothing was recorded)" if self._dry_run else ""))

    def _tell_tools(self, sessions: Sequence[ImportedSession]) -> None:
        """Print how many sessions came from each tool, if there are many; single ones are in the list."""
        counts: dict[str, Counter[str]] = {}
        for row in sessions:
            found = counts.setdefault(row.tool, Counter())
            found[row.outcome] += 1
            found["events"] += row.events
        shown = [one for one in _STYLES if any(one in found for found in counts.values())]
        columns = [Column("TOOL"), *(Column(one.upper(), right=True) for one in (*shown, "new events"))]
        rows: list[list[Piece]] = [
            [Span(tool.replace("_", "-"), "name")]
            + [Span(f"{found[one]:,}" if found[one] else "", _STYLES[one]) for one in shown]
            + [f"{found['events']:,}"]
            for tool, found in sorted(counts.items())
        ]
        self._app.out.table(columns, rows)

    def _tell_row(self, row: ImportedSession, about: str | None) -> None:
        outcome = Span(f"{row.outcome:9} ", _STYLES[row.outcome])
        id = row.session_id
        if self._app.out.is_terminal and not self._dry_run and row.outcome != "failed":
            id = self._app.short(id)  # a program gets all of it
        self._app.out.line(outcome, Span(id, "name"), f"  {about}" if about else "")

    def _tell_reasons(self, report: ImportReport) -> None:
        remedies = {str(error): error.remedy for error in report.errors}
        reasons = [(f"{row.session_id}: {row.reason}", remedies.get(row.reason or "", "")) for row in report.failed]
        reasons += [
            (one.reason if one.reason.startswith(one.source) else f"{one.source}: {one.reason}", "")
            for one in report.skipped
        ]
        # Missing parts of a session are reported for the session, wherever it came from.
        reasons += [(f"{row.session_id}: {text}", "") for row in report.sessions for text in row.problems]
        for text, remedy in reasons[:_REASONS_SHOWN]:
            self._app.warn(text, remedy)
        if len(reasons) > _REASONS_SHOWN:
            more = len(reasons) - _REASONS_SHOWN
            self._app.warn(f"and {more:,} more like these; use --json to see all")

    def watch(self, places: Callable[[], list[Place]], every: float) -> int:
        """Import what is there and then what comes, until ctrl-c. Only changes are reported."""
        seen: dict[str, object] = {}
        if self._app.err.is_terminal:
            self._app.err.line(Span("watching; press Ctrl-C to stop", "faint"))
        try:
            while True:
                for place in places():
                    now = place.signs()
                    # By sizes and times: what did not change is not read again.
                    if seen.get(place.path) != now:
                        seen[place.path] = now
                        self._tell_changes(self._import(place))
                time.sleep(every)
        except KeyboardInterrupt:
            return 0

    def _tell_changes(self, report: ImportReport) -> None:
        changed = [row for row in report.sessions if row.outcome != "unchanged"]
        for row in changed:
            if self._app.as_json:
                self._app.out.json_line(row)
            else:
                self._tell_row(row, counted(row.events, "event"))
        self._app.out.flush()
        if not self._app.as_json:
            for one in report.skipped[:_REASONS_SHOWN]:
                self._app.warn(one.reason)
