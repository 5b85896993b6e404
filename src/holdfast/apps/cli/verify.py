"""``holdfast verify``: every byte of sessions, and what is whole."""

from __future__ import annotations

import contextlib
import os

import click
import msgspec

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, session_ids
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE, explain
from holdfast.apps.cli._options import json_option, sessions_argument, store_option
from holdfast.apps.cli._progress import progress
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.errors import (
    DataError,
    HoldfastError,
    InvalidData,
    KeyMissing,
    NotFound,
    SecurityError,
    StoreError,
    Tampered,
)
from holdfast.session import Report
from holdfast.storage import read_file

__all__ = ["command"]


@click.command(
    "verify",
    short_help="Check every byte of sessions and say what is whole.",
    epilog="""\b
Examples:
  holdfast verify trip-planner
  holdfast verify --all
  holdfast verify --all --json | jq '.reports[] | select(.ok | not)'
  holdfast verify --all --json > heads.json
  holdfast verify --all --since heads.json
""",
)
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Every session of the store.")
@click.option(
    "--since",
    metavar="FILE",
    help="What --json printed before: all that was there then must be there still.",
)
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, ids: tuple[str, ...], *, everything: bool, since: str | None, as_json: bool
) -> int:
    """Check every byte of sessions and say in plain words what is whole.

    Changes nothing. The exit code is 4 if anything is damaged. A torn last line, as a crash leaves
    it, is no damage: nothing that was acknowledged can be in it.

    A store that was put back as a whole to an earlier state looks whole. Who keeps what --json
    prints where nobody can put it back finds that out with --since.
    """
    if everything == bool(ids):
        ctx.fail("name the sessions to verify, or say --all")
    app: App = ctx.obj
    wanted = session_ids(app.library) if everything else [choose(app.library, id) for id in ids]
    heads = {} if since is None else _read_heads(since)
    reports = [
        _verify(app, id, heads.pop(id, None)) for id in progress(app.err, wanted, "verifying")
    ]
    if everything:
        reports += _gone(app, heads)
    if as_json:
        from holdfast.library.answers.store import VerifyReport, VerifyReports

        app.out.json(VerifyReports(reports=[VerifyReport.of(report) for report in reports]))
    else:
        _tell(app, reports, everything=everything)
    return EXIT_FINE if all(report.ok for report in reports) else EXIT_DAMAGED


class _Unreadable(Report, frozen=True, kw_only=True):
    """The report of a session that could not be looked at."""

    reason: str = ""

    def explain(self) -> list[str]:
        """Why it could not be."""
        return [self.reason]


class _Noted(msgspec.Struct):
    session_id: str
    head: str = ""


class _Earlier(msgspec.Struct):
    reports: list[_Noted]


def _read_heads(place: str) -> dict[str, str]:
    """The heads of an earlier run, by session."""
    try:
        found = msgspec.json.decode(b"".join(read_file(os.path.abspath(place))), type=_Earlier)
    except (ValueError, RecursionError) as error:
        message = f"{place} is not what `holdfast verify --json` prints"
        raise InvalidData(message) from error
    return {one.session_id: one.head for one in found.reports if one.head}


def _gone(app: App, heads: dict[str, str]) -> list[Report]:
    """Sessions that were there before, and now are neither there nor in the trash."""
    deleted = {one.session_id for one in app.library.trash.list()} if heads else set()
    reason = "It was there before, and is neither there nor in the trash any more."
    return [
        _Unreadable(session_id=id, ok=False, kept=False, reason=reason)
        for id in sorted(heads)
        if id not in deleted
    ]


def _verify(app: App, session_id: str, head: str | None) -> Report:
    try:
        with contextlib.suppress(KeyMissing, Tampered):
            app.library.state(session_id)  # refuses a newer format, whose bytes cannot be judged
        return app.library.verify(session_id, head=head)
    except NotFound:
        raise
    except (DataError, SecurityError, StoreError) as error:
        return _Unreadable(session_id=session_id, ok=False, reason=_sentence(error))


def _sentence(error: HoldfastError) -> str:
    failure = explain(error)
    message = failure.message[:1].upper() + failure.message[1:]
    return f"{message}. {failure.remedy}"


def _tell(app: App, reports: list[Report], *, everything: bool) -> None:
    """With --all only what is wrong is told in full."""
    damaged = [report for report in reports if not report.ok]
    for report in damaged if everything else reports:
        mark = Span("ok       ", "good") if report.ok else Span("damaged  ", "bad")
        app.out.line(mark, Span(report.session_id, "name"))
        for sentence in report.explain():
            app.out.text(sentence)
        if report.gaps:
            app.out.text(f"Mend it with: holdfast repair {report.session_id}", style="strong")
    if everything:
        whole = len(reports) - len(damaged)
        summary = f"{counted(whole, 'session')} whole, {len(damaged):,} damaged"
        app.out.line(Span(summary, "bad" if damaged else "good"))
