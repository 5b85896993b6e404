"""One session on the screen or as data: show, snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE
from holdfast.apps.cli._options import AtLeast, json_option, option, provider_options, refuse, session_argument, verb
from holdfast.apps.cli._summary import last_of, print_around, print_conversation, print_header
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.transcript import lost_from
from holdfast.apps.render.words import ago, day_time
from holdfast.errors import NotFound
from holdfast.library.answers import filled
from holdfast.model import Event, SessionMetadata
from holdfast.replay import read_transcript
from holdfast.session import now_ms, resolve_blobs

if TYPE_CHECKING:
    from holdfast.library.answers import events as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "events")

_SNAPSHOT_COLUMNS = (Column("SEQ", right=True), Column("TAKEN"), Column("AGO"), Column("STATE"))


_COLUMNS = (
    Column("SEQ", right=True),
    Column("TIME", spared=True),
    Column("TYPE"),
    Column("RUN", optional=True, spared=True),
    Column("DATA", flexible=True),
)
_DATA_CHARS = 200
_AT_WORK = ("running", "waiting", "suspended")  # statuses in which a call may still get its result
_CONVERSATION = frozenset(
    "user assistant system thinking tool_call tool_result delta retracted compaction interrupted".split()  # noqa: SIM905 - easier to read and to change
)


@verb("show")
@session_argument
@click.option("--full", is_flag=True, help="Do not truncate tool calls, results and data.")
@option(
    "--at SEQ",
    "Show the context of this event; with --events, --state, --messages or --json, the session as of it.",
    type=AtLeast(0),
)
@option("--last N", "Show only the last N entries or events.", type=AtLeast(1))
@option("--turn N", "Show only turn N, counting from 1.", type=AtLeast(1))
@click.option("--tools", is_flag=True, help="Show only tool calls and their results.")
@click.option("--errors", is_flag=True, help="Show only what failed or was interrupted.")
@click.option("--events", is_flag=True, help="Show raw events; with --json, one per line.")
@click.option("--state", is_flag=True, help="Print the session state as JSON.")
@click.option("--messages", is_flag=True, help="Print a valid message list as JSON; repairs go to stderr.")
@provider_options
@json_option
def show_verb(app: App, id: str, at: int | None, last: int | None, *, full: bool, **given: Any) -> int:
    """Show a session and its conversation.

    Of a damaged session, everything intact is shown and the exit code is 4.

    Examples:
      holdfast show -                        the newest session
      holdfast show trip-planner --full
      holdfast show trip-planner --last 5
      holdfast show trip-planner --turn 3
      holdfast show trip-planner --errors
      holdfast show trip-planner --at 12     context of event 12, as found by search
      holdfast show trip-planner --at 12 --state    the state as of event 12
      holdfast show trip-planner --events --json
      holdfast show trip-planner --messages --provider openai
    """
    events, state, messages = (given.pop(name) for name in ("events", "state", "messages"))
    if events + state + messages > 1:
        refuse("--events, --state and --messages cannot be used together")
    part = {name: given.pop(name) for name in ("turn", "tools", "errors")}
    for name in (name for name, value in part.items() if value):
        if at is not None or events or state or messages or app.as_json:
            refuse(f"--{name} cannot be combined with --at, --events, --state, --messages or --json")
    recovery = {name: value for name, value in given.items() if value is not None}
    if recovery and not messages:
        refuse(f"--{next(iter(recovery)).replace('_', '-')} requires --messages")
    session_id = choose(app.library, id)
    if at is not None and not (events or state or messages or app.as_json):
        return _show_around(app, session_id, at, full=full, last=last)
    _check_reached(app, session_id, at)
    row = app.library.info(session_id)
    if at is not None:
        row = _row_at(app, row, at)
    if messages:
        from holdfast.apps.cli.recover import print_recovery

        print_recovery(app, app.library.recover(session_id, at=at, **recovery))
    elif state:
        app.out.json(answers.SessionState.of(session_id, app.library.state(session_id, at=at)))
    elif events:
        _print_events(app, last_of(_events(app, session_id, at), last), full=full)
    elif app.as_json:
        app.out.json(_answer(app, row, at))
    else:
        shown = _events(app, session_id, None)
        # In full also what is kept apart from the log.
        shown = _resolved(app, session_id, shown) if full else shown
        part |= {"lost_from": lost_from(app.library, session_id), "is_over": row.status not in _AT_WORK}
        print_conversation(app, shown, row=row, full=full, last=last, **part)
    return _judge(app, row)


def _show_around(app: App, session_id: str, at: int, *, full: bool, last: int | None) -> int:
    """Return the conversation around an event; its last entries up to there if so many are asked for."""
    _check_reached(app, session_id, at)
    row = app.library.info(session_id)
    print_header(app, row, f"around event {at}")
    # Whole, since the event that is meant is shown in full.
    whole = _resolved(app, session_id, _events(app, session_id, at if last is not None else None))
    if last is not None:
        print_conversation(app, whole, full=full, last=last)
    else:
        print_around(app, whole, at, full=full, lost_from=lost_from(app.library, session_id))
    return _judge(app, row)


def _check_reached(app: App, session_id: str, at: int | None) -> None:
    """Refuse what cannot be read, and a point that is not in the log."""
    newest = app.library.state(session_id).seq
    if at is not None and at > newest:
        told = f"there is no event {at} in {app.short(session_id)}; the last is {newest}"
        raise NotFound(told, remedy="Choose an earlier one.", session_id=session_id, seq=at)


def _row_at(app: App, row: SessionMetadata, at: int) -> SessionMetadata:
    """Return the row as it would have been after event ``at``."""
    state = app.library.state(row.session_id, at=at)
    then = {name: getattr(state, name) for name in ("updated_at", "message_count", "event_count", "status")}
    then |= {"title": state.shown_title, "tags": tuple(state.tags)}
    then |= {"total_tokens": state.usage.total_tokens, "tokens_estimated": False}
    return msgspec.structs.replace(row, **then)


def _judge(app: App, row: SessionMetadata) -> int:
    if row.state != "damaged":
        return EXIT_FINE
    id = app.short(row.session_id)
    app.warn(f"{id} is damaged; everything intact was shown", f"See `holdfast verify {id}`.")
    return EXIT_DAMAGED


def _events(app: App, session_id: str, at: int | None) -> Iterator[Event]:
    return app.library.events(session_id, stop=None if at is None else at + 1)


def _resolved(app: App, session_id: str, events: Iterator[Event]) -> Iterator[Event]:
    return resolve_blobs(events, app.library.store.documents(f"sessions/{session_id}"))


def _answer(app: App, row: SessionMetadata, at: int | None) -> answers.SessionDocument:
    told = [event for event in _events(app, row.session_id, at) if event.type in _CONVERSATION]
    # Streamed pieces are shown only if no complete message replaced them.
    cut = {
        (entry.run, seq)
        for entry in read_transcript(told, first=told[0].seq if told else 0)
        if entry.last is not None
        for seq in range(entry.seq, entry.last + 1)
    }
    return answers.SessionDocument(
        session=filled(answers.LocatedSession, row, location=app.library.location(row.session_id)),
        conversation=[
            answers.EventRecord.of(event, as_written=True)
            for event in told
            if event.type != "delta" or (event.run, event.seq) in cut
        ],
    )


def _print_events(app: App, events: Iterable[Event], *, full: bool) -> None:
    if app.as_json:
        for event in events:
            app.out.json_line(answers.EventRecord.of(event, as_written=True))
        return
    if full and app.out.is_terminal:
        # A table would cut what does not fit into its last column.
        for event in events:
            *columns, data = _cells(event, full=True)
            spaced = [piece for head in columns if head for piece in (head, "  ")]
            app.out.line(*spaced, data, hang=4)
        return
    app.out.table(_COLUMNS, [_cells(event, full=full) for event in events])


def _cells(event: Event, *, full: bool) -> list[Piece]:
    data = bytes(event.raw).decode(errors="replace")
    if not full and len(data) > _DATA_CHARS:
        data = data[:_DATA_CHARS] + "…"
    when = Span(day_time(event.timestamp), "faint")
    return [Span(str(event.seq), "faint"), when, Span(event.type, "name"), event.run or "", data]


@verb("snapshots")
@session_argument
@json_option
def snapshots_verb(app: App, id: str) -> None:
    """List the snapshots of a session, newest first.

    Snapshots only make opening faster. Every event is a restore point with or without one; see
    `holdfast show ID --state --at SEQ`. Damaged snapshots are skipped.

    Examples:
      holdfast snapshots -
      holdfast snapshots trip-planner --json
    """
    session_id = choose(app.library, id)
    found = app.library.snapshots(session_id)
    if app.as_json:
        app.out.json(answers.SessionSnapshots(session_id=session_id, snapshots=found))
        return
    if not found:
        app.err.line(f"{app.short(session_id)} has no snapshots; it is read from the first event.")
        return
    now, rows = now_ms(), list[list[Piece]]()
    for one in found:
        state = Span("whole", "good") if one.whole else Span("not whole", "bad")
        rows.append([str(one.seq), day_time(one.taken_at), Span(ago(one.taken_at, now), "faint"), state])
    app.out.table(_SNAPSHOT_COLUMNS, rows)
