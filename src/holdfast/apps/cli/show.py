"""``holdfast show``: one session, as conversation, events, state or messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE
from holdfast.apps.cli._options import AtLeast, json_option, session_argument, store_option
from holdfast.apps.cli._recovery import print_recovery, provider_options
from holdfast.apps.cli._summary import last_of, print_around, print_conversation, print_header
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.transcript import lost_from
from holdfast.apps.render.words import day_time
from holdfast.errors import NotFound
from holdfast.model import Event, SessionMetadata
from holdfast.replay import read_transcript
from holdfast.session import resolve_blobs

if TYPE_CHECKING:
    from holdfast.library.answers.events import SessionDocument

__all__ = ["command"]

_COLUMNS = (
    Column("SEQ", right=True),
    Column("TIME", spared=True),
    Column("TYPE"),
    Column("RUN", optional=True, spared=True),
    Column("DATA", flexible=True),
)
_DATA_CHARS = 200
_CONVERSATION = frozenset(
    """
    user assistant system thinking tool_call tool_result delta retracted compaction interrupted
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)


@click.command(
    "show",
    short_help="Show a session: its conversation, events, state or messages.",
    epilog="""\b
Examples:
  holdfast show -                        the newest session
  holdfast show trip-planner --full
  holdfast show trip-planner --last 5
  holdfast show trip-planner --at 12     around event 12, as search names it
  holdfast show trip-planner --at 12 --state    as it was after event 12
  holdfast show trip-planner --events --json
  holdfast show trip-planner --messages --provider openai
""",
)
@session_argument
@click.option("--full", is_flag=True, help="Do not shorten tool calls, results and data.")
@click.option(
    "--at",
    type=AtLeast(0),
    metavar="SEQ",
    help="Around this event; with --events, --state, --messages or --json as it was after it.",
)
@click.option("--last", type=AtLeast(1), metavar="N", help="Only the last N entries or events.")
@click.option("--events", is_flag=True, help="Every event; with --json one per line.")
@click.option("--state", is_flag=True, help="The state as JSON.")
@click.option("--messages", is_flag=True, help="The valid message list as JSON; repairs on stderr.")
@provider_options
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    id: str,
    full: bool,
    at: int | None,
    last: int | None,
    events: bool,
    state: bool,
    messages: bool,
    as_json: bool,
    **recovery: Any,
) -> int:
    """Show a session: what it is, and its conversation.

    Of a damaged session everything that is whole is shown; the exit code is then 4.
    """
    if events + state + messages > 1:
        ctx.fail("choose one of --events, --state and --messages")
    given = {name: value for name, value in recovery.items() if value is not None}
    if given and not messages:
        ctx.fail(f"--{next(iter(given)).replace('_', '-')} belongs to --messages")
    app: App = ctx.obj
    session_id = choose(app.library, id)
    if at is not None and not (events or state or messages or as_json):
        return _show_around(app, session_id, at, full=full, last=last)
    row = _look(app, session_id, at)
    if messages:
        print_recovery(app, app.library.recover(session_id, at=at, **given), as_json=as_json)
    elif state:
        from holdfast.library.answers.events import SessionState

        app.out.json(SessionState.of(session_id, app.library.state(session_id, at=at)))
    elif events:
        found = last_of(_events(app, session_id, at), last)
        _print_events(app, found, full=full, as_json=as_json)
    elif as_json:
        app.out.json(_answer(app, row, at))
    else:
        print_header(app, row)
        whole = _whole_events(app, session_id, full=full)
        lost = lost_from(app.library, session_id)
        print_conversation(app, whole, full=full, last=last, lost_from=lost)
    return _judge(app, row)


def _show_around(app: App, session_id: str, at: int, *, full: bool, last: int | None) -> int:
    """The conversation around an event; its last entries up to there if so many are asked for."""
    _check_reached(app, session_id, at)
    row = app.library.info(session_id)
    print_header(app, row, f"around event {at}")
    if last is not None:
        upto = _events(app, session_id, at)
        print_conversation(app, _resolved(app, session_id, upto), full=full, last=last)
    else:
        whole = _whole_events(app, session_id, full=True)
        lost = lost_from(app.library, session_id)
        print_around(app, whole, at, full=full, lost_from=lost)
    return _judge(app, row)


def _look(app: App, session_id: str, at: int | None) -> SessionMetadata:
    """The session's row. Refuses what cannot be read, and a point that is not in the log."""
    _check_reached(app, session_id, at)
    row = app.library.info(session_id)
    return row if at is None else _row_at(app, row, at)


def _check_reached(app: App, session_id: str, at: int | None) -> None:
    newest = app.library.state(session_id).seq
    if at is not None and at > newest:
        raise NotFound(
            f"there is no event {at} in {session_id}; the last is {newest}",
            remedy="Choose an earlier one.",
            session_id=session_id,
            seq=at,
        )


def _row_at(app: App, row: SessionMetadata, at: int) -> SessionMetadata:
    """The row as it would have been after event ``at``."""
    state = app.library.state(row.session_id, at=at)
    return msgspec.structs.replace(
        row,
        title=state.shown_title,
        tags=tuple(state.tags),
        updated_at=state.updated_at,
        message_count=state.message_count,
        total_tokens=state.usage.total_tokens,
        tokens_estimated=False,
        event_count=state.event_count,
        status=state.status,
    )


def _judge(app: App, row: SessionMetadata) -> int:
    if row.state != "damaged":
        return EXIT_FINE
    app.warn(
        f"{row.session_id} is damaged; everything that is whole was shown",
        f"See `holdfast verify {row.session_id}`.",
    )
    return EXIT_DAMAGED


def _events(app: App, session_id: str, at: int | None) -> Iterator[Event]:
    return app.library.events(session_id, stop=None if at is None else at + 1)


def _whole_events(app: App, session_id: str, *, full: bool) -> Iterator[Event]:
    """The events; in full also what is kept apart from the log."""
    events = _events(app, session_id, None)
    return _resolved(app, session_id, events) if full else events


def _resolved(app: App, session_id: str, events: Iterator[Event]) -> Iterator[Event]:
    return resolve_blobs(events, app.library.store.documents(f"sessions/{session_id}"))


def _answer(app: App, row: SessionMetadata, at: int | None) -> SessionDocument:
    from holdfast.library.answers.events import EventRecord, LocatedSession, SessionDocument

    told = [event for event in _events(app, row.session_id, at) if event.type in _CONVERSATION]
    cut = _cut_off(told)
    location = app.library.location(row.session_id)
    return SessionDocument(
        session=LocatedSession(**msgspec.structs.asdict(row), location=location),
        conversation=[
            EventRecord.of(event, as_written=True)
            for event in told
            if event.type != "delta" or (event.run, event.seq) in cut
        ],
    )


def _cut_off(events: list[Event]) -> set[tuple[str | None, int]]:
    """The pieces of streamed text that no message contains, by run and number."""
    return {
        (entry.run, seq)
        for entry in read_transcript(events, first=events[0].seq if events else 0)
        if entry.last is not None
        for seq in range(entry.seq, entry.last + 1)
    }


def _print_events(app: App, events: Iterable[Event], *, full: bool, as_json: bool) -> None:
    if as_json:
        from holdfast.library.answers.events import EventRecord

        for event in events:
            app.out.json_line(EventRecord.of(event, as_written=True))
        return
    if full and app.out.is_terminal:
        # A table would cut what does not fit into its last column.
        for event in events:
            *columns, data = _cells(event, full=True)
            heads = [piece for piece in columns if piece]
            spaced = [piece for head in heads for piece in (head, "  ")]
            app.out.line(*spaced, data, hang=4)
        return
    app.out.table(_COLUMNS, [_cells(event, full=full) for event in events])


def _cells(event: Event, *, full: bool) -> list[Piece]:
    data = bytes(event.raw).decode(errors="replace")
    if not full and len(data) > _DATA_CHARS:
        data = data[:_DATA_CHARS] + "…"
    return [
        Span(str(event.seq), "faint"),
        Span(day_time(event.timestamp), "faint"),
        Span(event.type, "name"),
        event.run or "",
        data,
    ]
