"""``holdfast list``: the sessions, newest first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec
from click.core import ParameterSource

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, tell_none
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._options import filter_options, json_option, limit_option, named_option, option, refuse, verb
from holdfast.apps.cli._quick_list import COLUMNS, LIMIT, older, session_cells
from holdfast.apps.render.failures import strangers_hint
from holdfast.apps.render.page import Column, Span
from holdfast.apps.render.words import ago, counted, forest, size
from holdfast.model import STATUSES, SessionMetadata
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.render.page import Piece
    from holdfast.catalog import Page

_ORDERS = ("updated", "created", "title", "messages", "tokens", "cost", "size")
_WITH_TRASH = {"trash", "limit", "everything", "json", "store"}
_TITLE = Column("TITLE", flexible=True, least=30)
# Columns that were asked for are all shown.
_SHOWN = {
    one.name.lower(): Column(one.name, right=one.right, flexible=one.flexible, middle=one.middle, least=one.least)
    for one in COLUMNS
}
_SHOWN |= {name: Column(name.upper().replace("_", " "), flexible=True) for name in ("agent", "model", "cwd", "parent")}
_SHOWN |= {"session_id": Column("SESSION ID"), "created": Column("CREATED"), "size": Column("SIZE", right=True)}
_COLUMNS = (Column("ID"), Column("DELETED"), _TITLE, Column("SIZE", right=True, spared=True))


@verb("list")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@option(
    "--sort ORDER",
    f"{', '.join(_ORDERS)}; :asc or :desc after it.",
    default="updated",
    shell_complete=lambda _ctx, _parameter, begun: [name for name in _ORDERS if name.startswith(begun)],
    show_default=False,
)
@limit_option(LIMIT)
@click.option("--all", "everything", is_flag=True, help="Show all (same as --limit 0).")
@option("--after CURSOR", "Show the page after this cursor (`next` of --json).")
@filter_options(
    tags="Only sessions with this tag; repeatable.",
    since="Only sessions changed since: 2026-05-01, 3d, 2h.",
    until="Only sessions changed before.",
    agent_id="Only sessions of this agent.",
    model="Only sessions last answered by this model.",
)
@option("--status STATUS", f"Only sessions with this status: {', '.join(STATUSES)}.", type=click.Choice(STATUSES))
@click.option("--failed", is_flag=True, help="Only failed sessions (same as --status failed).")
@option(
    "--columns NAMES",
    f"Comma-separated columns to show: {', '.join(_SHOWN)}.",
    callback=lambda _ctx, _parameter, names: _columns(names),
)
@named_option("--parent", of="session", help="Only forks of this session.")
@named_option(
    "--cwd",
    of="folder",
    callback=lambda _ctx, _parameter, place: None if place is None else os.path.abspath(place),
    help="Only sessions whose agent worked in this directory.",
)
@click.option("--archived/--not-archived", default=None, help="Only archived, or only other sessions (default: both).")
@click.option("--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@click.option("--tree", is_flag=True, help="Show forks below their parents.")
@click.option("--trash", is_flag=True, help="List deleted sessions, most recent first.")
@json_option
def list_verb(
    app: App,
    *,
    limit: int,
    everything: bool,
    watch: bool,
    tree: bool,
    trash: bool,
    failed: bool,
    columns: tuple[str, ...],
    sort: str,
    **narrowed: Any,
) -> None:
    """List sessions, newest first.

    TEXT limits the list to sessions that have every word of it in their title, id, agent, model or
    tags, ignoring case and accents. --sort puts the largest first, and titles from A to Z.

    STATE is shown unless a session is idle: running, waiting, interrupted, failed, damaged, unreadable,
    sealed, or written by a newer version. TOPICS are tags derived from the content. With --watch, each
    change is printed as one line (added, changed or removed) in a pipe or with --json.

    Examples:
      holdfast list
      holdfast list --tag travel --since 3d
      holdfast list --since 2026-05-01 --until 2026-05-31 --limit 0
      holdfast list lisbon
      holdfast list --sort cost --limit 10
      holdfast list --failed
      holdfast ls -n 5 --columns id,title,model,cwd
      holdfast list --watch
      holdfast list --trash
      holdfast list --json | jq -r '.sessions[].session_id'
    """
    shown = None if everything or not limit else limit
    if trash:
        list_trash(app, shown)
        return
    if failed and narrowed["status"] not in (None, "failed"):
        refuse("--failed and --status cannot be used together")
    narrowed["status"] = "failed" if failed else narrowed["status"]
    if narrowed["parent"] is not None:
        narrowed["parent"] = choose(app.library, narrowed["parent"])
    narrowed["text"] = " ".join(narrowed.pop("words")) or None

    def ask() -> Page:
        return app.library.list(shown, sort=sort, **narrowed)

    if watch:
        watch_sessions(app, ask, lambda rows: _print(app, rows, tree=tree, columns=columns))
        return
    rows = ask()
    if app.as_json:
        from holdfast.library.answers.sessions import SessionPage

        app.out.json(SessionPage(sessions=rows, next=rows.next))
        return
    if rows:
        _print(app, rows, tree=tree, columns=columns)
    filtered = any(value not in (None, ()) for value in narrowed.values()) or (sort != _ORDERS[0] and bool(rows))
    _tell_rest(app, rows, narrowed["tags"], filtered=filtered)


def _columns(names: str | None) -> tuple[str, ...]:
    """Return the columns that were asked for; none for those that are shown by themselves."""
    wanted = tuple(name.strip().lower() for name in (names or "").split(",") if name.strip())
    for name in wanted:
        if name not in _SHOWN:
            refuse(f"there is no column {name[:40]!a}{suggestion(name, _SHOWN) or '.'} There are: {', '.join(_SHOWN)}")
    return wanted


def _print(app: App, rows: Sequence[SessionMetadata], *, tree: bool, columns: Sequence[str] = ()) -> None:
    now = now_ms()
    marked = forest(rows) if tree else (("", row) for row in rows)
    short = app.library.short_ids(id for row in rows for id in (row.session_id, row.parent) if id)
    shown = [(mark, _merged(app, row) if tree else row) for mark, row in marked]
    cells = [_cells(row, now, short, mark, columns) for mark, row in shown]
    app.out.table([_SHOWN[name] for name in columns] if columns else COLUMNS, cells)


def _merged(app: App, row: SessionMetadata) -> SessionMetadata:
    """Return a row whose title names the second parent, if it is a merge."""
    from holdfast.apps.render.transcript import origin

    other = origin(app.library, row).merged
    if other is None:
        return row
    return msgspec.structs.replace(row, title=f"{row.title or row.session_id} (merged with {app.short(other)})")


def _cells(row: SessionMetadata, now: int, short: Mapping[str, str], mark: str, columns: Sequence[str]) -> list[Piece]:
    cells = session_cells(row, now, short[row.session_id], mark)
    if not columns:
        return cells
    known = dict(zip((column.name.lower() for column in COLUMNS), cells, strict=True))
    known |= {
        "session_id": Span(mark + row.session_id, "name"),
        "created": Span(ago(row.created_at, now), "faint"),
        "agent": row.agent_id or "",
        "model": row.model or "",
        "cwd": row.cwd or "",
        "parent": short[row.parent] if row.parent else "",
        "size": size(row.size_bytes),
    }
    return [known[name] for name in columns]


def _tell_rest(app: App, rows: Page, tags: Sequence[str], *, filtered: bool) -> None:
    """Say why nothing, or not everything, is shown."""
    if rows and rows.has_more and app.out.is_terminal:
        more = Span("and more; use --all to show all", "faint")
        app.err.line(more if filtered else older(app.library.catalog_health().sessions - len(rows)))
    elif not rows and filtered:
        tell_none(app, tags)
    elif not rows and (hint := strangers_hint(app.library))[0]:
        app.warn(*hint)
    elif not rows:
        app.err.line(f"There are no sessions in {app.where} yet.")
        app.err.line(Span("  holdfast chat              chat with an agent in a persistent session", "faint"))
        app.err.line(Span("  holdfast import --scan     import sessions from other tools", "faint"))


def list_trash(app: App, limit: int | None) -> None:
    """Show the sessions in the trash, the last deleted first, and say how one comes back."""
    # Options that do not apply to the trash are refused rather than ignored.
    ctx = click.get_current_context()
    names = {parameter.name or "" for parameter in ctx.command.params} - _WITH_TRASH
    if any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in names):
        refuse("--trash can only be combined with --limit, --all, --json and --store")
    found = app.library.trash.list()
    shown = found[:limit]
    if app.as_json:
        from holdfast.library.answers.sessions import TrashPage

        app.out.json(TrashPage.of(shown))
        return
    if not found:
        app.err.line(f"The trash of {app.where} is empty.")
        return
    now = now_ms()
    rows: list[list[Piece]] = []
    for one in shown:
        when = Span(ago(one.deleted_at or 0, now), "faint")
        rows.append([app.name(one.session_id), when, one.title or "", size(one.size_bytes)])
    app.out.table(_COLUMNS, rows)
    if app.out.is_terminal:
        if len(shown) < len(found):
            more = counted(len(found) - len(shown), "session")
            app.err.line(Span(f"and {more} deleted earlier; use --all to show them", "faint"))
        app.err.line(Span("Restore one with `holdfast undelete ID`.", "faint"))


# A list of sessions that goes on: what is added, changed or removed, by whichever process.
_INTERVAL_S = 0.5
_STYLES = {"added": "good", "changed": "", "removed": "bad"}

Change = tuple[Literal["added", "changed", "removed"], SessionMetadata]


def watch_sessions(app: App, ask: Callable[[], Page], draw: Callable[[Sequence[SessionMetadata]], None]) -> None:
    """Show changes until the user has seen enough: on a terminal the list again, elsewhere a line for each."""
    app.stop_paging()  # this has no end that a pager could wait for
    redraws = app.out.is_terminal and not app.as_json
    try:
        known: dict[str, SessionMetadata] | None = None
        while True:
            rows = ask()
            changes = [] if known is None else list(_changes(app, known, rows))
            if redraws and (known is None or changes):
                app.out.flush()
                click.clear()
                draw(rows)
                app.out.line(Span("watching; press Ctrl-C to stop", "faint"))
            elif not redraws:
                for change in changes:
                    _tell(app, change)
            app.out.flush()
            known = {row.session_id: row for row in rows}
            # Polling: other processes write to the store without notice.
            time.sleep(_INTERVAL_S)
    except KeyboardInterrupt:
        return


def _changes(app: App, known: dict[str, SessionMetadata], rows: Sequence[SessionMetadata]) -> Iterator[Change]:
    """Yield the changes, oldest first."""
    now = {row.session_id for row in rows}
    for id, row in known.items():
        # One that only gave way to newer ones on the page is still there.
        if id not in now and not app.library.exists(id):
            yield "removed", row
    for row in reversed(rows):
        if known.get(row.session_id) != row:
            yield "changed" if row.session_id in known else "added", row


def _tell(app: App, change: Change) -> None:
    kind, row = change
    if app.as_json:
        from holdfast.library.answers.sessions import SessionChange

        app.out.json_line(SessionChange(change=kind, session=row))
        return
    state = row.status if row.state == "ok" else row.state
    about = f"  {row.message_count} msgs  {state}  {row.title or ''}"
    app.out.line(Span(f"{kind:8}", _STYLES[kind]), app.name(row.session_id), about)
