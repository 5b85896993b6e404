"""A conversation as a message list, whatever state its log is in: recover."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import AtLeast, complete_id, json_option, option, provider_options, verb
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.errors import HoldfastError, NotFound
from holdfast.model import LineReader, is_id
from holdfast.session import resolve_blobs, verify_log
from holdfast.storage import documents_beside, find_log, read_file

if TYPE_CHECKING:
    from holdfast.replay import Recovery


@verb("recover")
@click.argument("what", metavar="PATH|ID", shell_complete=complete_id)
@option("--at SEQ", "The session as of this event.", type=AtLeast(0))
@provider_options
@json_option
def recover_verb(app: App, /, *, what: str, at: int | None, **given: Any) -> None:
    """Print the conversation as JSON that a provider accepts, whatever state the log is in.

    Takes a session id, or the path of an events.jsonl file or of a directory that contains one. Repairs are
    reported on standard error; nothing is written. An argument with a slash is always a path.

    Examples:
      holdfast recover trip-planner > messages.json
      holdfast recover ./old-logs/events.jsonl --provider openai
      holdfast recover ./old-logs --incomplete drop --window-tokens 8000
    """
    options = {name: value for name, value in given.items() if value is not None}
    path = _path(app, what)
    if path is not None:
        print_recovery(app, _recover_file(app, path, at, options))
        return
    session_id = choose(app.library, what)
    found = app.library.recover(session_id, at=at, **options)
    store, key = app.library.store, f"sessions/{session_id}"
    report = verify_log(session_id, store.log(key), store.documents(key))
    if not report.events:
        report = app.library.verify(session_id)  # the catalogue may know what there was
    if report.gaps:
        _warn_lost(app, session_id, report.lost_events)
    print_recovery(app, found)


def _path(app: App, what: str) -> str | None:
    """Return the log that is meant, or None for a session's id; a session of that very id wins."""
    # A name with a slash is never an id, whatever the store holds.
    if "/" in what or os.sep in what or what in (".", ".."):
        return find_log(what)
    # A store that cannot be opened must not keep a file from being read.
    with suppress(HoldfastError):
        if what == "-" or (is_id(what) and app.library.exists(what)):
            return None
    with suppress(HoldfastError):
        return find_log(what)
    return None


def _recover_file(app: App, path: str, at: int | None, options: Any) -> Recovery:
    from holdfast.replay import check_format, recover

    reader = LineReader()
    events = [event for chunk in read_file(path) for event in reader.feed(chunk)]
    events += reader.finish()
    if not events:
        raise NotFound(f"there is no event in {path}", remedy="Is it a log of events at all?")
    # A file was opened by no session, which would have refused a newer format.
    for event in events:
        check_format(event)
    if at is not None and at > events[-1].seq:
        told = f"there is no event {at} in {path}; the last is {events[-1].seq}"
        raise NotFound(told, remedy="Choose an earlier one.", seq=at)
    if reader.gaps:
        lost = sum(gap.last_seq - gap.first_seq + 1 for gap in reader.gaps)
        _warn_lost(app, path, lost)
    folder, name = os.path.split(path)
    if name == "events.jsonl":
        name = os.path.basename(folder) or name  # logs of sessions have a folder each
    return recover(resolve_blobs(events, documents_beside(path)), at=at, session_id=name, **options)


def _warn_lost(app: App, what: str, lost: int) -> None:
    app.warn(f"{what} is damaged: {counted(lost, 'event')} cannot be read and is left out")


def print_recovery(app: App, found: Recovery) -> None:
    """Print messages to standard output and what was changed to standard error; as JSON, both in one document."""
    if app.as_json:
        from holdfast.library.answers import filled
        from holdfast.library.answers.recovery import RecoveredMessages

        app.out.json(filled(RecoveredMessages, found, tokens=found.count))
        return
    app.out.json(found.messages)
    # One line for a log; on a terminal a line for each issue.
    if app.err.is_terminal and found.issues:
        app.err.line(found.log_line.partition(": [")[0], ":")
        for issue in found.issues:
            where = Span(f"  {issue.where}", "name")
            app.err.line(where, f": {issue.detail} ", Span(f"[{issue.type}]", "faint"), hang=4)
    else:
        app.err.line(found.log_line)
    if found.system:
        app.err.line("The system prompt is not included; --json has it as `system`.")
    if (part := found.left_out) is not None:
        app.err.line(
            f"The window has no room for {counted(part.messages, 'message')} of about"
            f" {counted(part.tokens, 'token')}, events {part.first_seq} to {part.last_seq}."
        )
