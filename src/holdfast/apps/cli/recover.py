"""``holdfast recover``: a valid message list from any session or log file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import AtLeast, complete_id, json_option, store_option
from holdfast.apps.cli._recovery import print_recovery, provider_options
from holdfast.apps.render.words import counted
from holdfast.errors import HoldfastError, NotFound
from holdfast.model import Event, LineReader, is_id
from holdfast.session import resolve_blobs
from holdfast.storage import documents_beside, find_log, read_file

if TYPE_CHECKING:
    from holdfast.replay import Recovery

__all__ = ["command"]

_LOG_NAME = "events.jsonl"


@click.command(
    "recover",
    short_help="Print a valid message list from any session or log file.",
    epilog="""\b
Examples:
  holdfast recover trip-planner > messages.json
  holdfast recover ./old-logs/events.jsonl --provider openai
  holdfast recover ./old-logs --incomplete drop --window-tokens 8000
""",
)
@click.argument("what", metavar="PATH|ID", shell_complete=complete_id)
@click.option("--at", type=AtLeast(0), metavar="SEQ", help="As it was after this event.")
@provider_options
@json_option
@store_option
@click.pass_obj
def command(app: App, /, *, what: str, at: int | None, as_json: bool, **given: Any) -> None:
    """Print the conversation as JSON that a provider accepts, whatever happened to the log.

    Takes a session's id, or the path of any events.jsonl or of a folder with one. What had to be
    changed is told on standard error. Nothing is written. A name with a slash is always a path.
    """
    options = {name: value for name, value in given.items() if value is not None}
    path = _path(app, what)
    if path is None:
        found = _recover_session(app, choose(app.library, what), at, options)
    else:
        found = _recover_file(app, path, at, options)
    print_recovery(app, found, as_json=as_json)


def _path(app: App, what: str) -> str | None:
    """The log that is meant, or None for a session's id; a session of that very id wins."""
    if "/" in what or os.sep in what or what in (".", ".."):
        return find_log(what)
    if what == "-" or (is_id(what) and _has(app, what)):
        return None
    try:
        return find_log(what)
    except HoldfastError:
        return None


def _has(app: App, session_id: str) -> bool:
    """Whether the store has it; one that cannot be opened must not keep a file from being read."""
    try:
        return app.library.exists(session_id)
    except HoldfastError:
        return False


def _recover_session(app: App, session_id: str, at: int | None, options: Any) -> Recovery:
    app.library.state(session_id)  # a newer format is refused, not guessed at
    report = app.library.verify(session_id)
    if report.gaps:
        _warn_lost(app, session_id, report.lost_events)
    return app.library.recover(session_id, at=at, **options)


def _recover_file(app: App, path: str, at: int | None, options: Any) -> Recovery:
    from holdfast.replay import check_format, recover

    reader = LineReader()
    events = list(_read(reader, read_file(path)))
    if not events:
        raise NotFound(f"there is no event in {path}", remedy="Is it a log of events at all?")
    for event in events:
        check_format(event)
    if at is not None and at > events[-1].seq:
        raise NotFound(
            f"there is no event {at} in {path}; the last is {events[-1].seq}",
            remedy="Choose an earlier one.",
            seq=at,
        )
    if reader.gaps:
        lost = sum(gap.last_seq - gap.first_seq + 1 for gap in reader.gaps)
        _warn_lost(app, path, lost)
    whole: Iterable[Event] = resolve_blobs(events, documents_beside(path))
    return recover(whole, at=at, session_id=_name(path), **options)


def _read(reader: LineReader, chunks: Iterable[bytes]) -> Iterator[Event]:
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.finish()


def _warn_lost(app: App, what: str, lost: int) -> None:
    app.warn(f"{what} is damaged: {counted(lost, 'event')} cannot be read and is not in the list")


def _name(path: str) -> str:
    """What to call a log in the report: its folder, as logs of sessions have one each."""
    folder, name = os.path.split(path)
    return os.path.basename(folder) or name if name == _LOG_NAME else name
