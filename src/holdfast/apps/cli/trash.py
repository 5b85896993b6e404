"""Sessions put away: the archive, the trash and what is destroyed, by hand or by policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, choose_deleted
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import (
    AtLeast,
    json_option,
    named_option,
    option,
    refuse,
    session_argument,
    sessions_argument,
    verb,
    yes_option,
)
from holdfast.apps.cli._progress import progress
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago, counted, size
from holdfast.errors import NotFound, UsageError
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.catalog import Policy, RetentionDecision
    from holdfast.library import Pruned

_COLUMNS = (
    Column("ACTION"),
    Column("ID"),
    Column("UPDATED", spared=True),
    Column("SIZE", right=True, spared=True),
    Column("TITLE", flexible=True, optional=True, spared=True),
    Column("WHY", flexible=True),
)
_SHOWN_MAX = 200


@verb("delete")
@sessions_argument()
@yes_option
def delete_verb(app: App, ids: tuple[str, ...], *, yes: bool) -> int:
    """Move sessions to the trash; `holdfast undelete` restores them.

    Asks for confirmation on a terminal. Fails if a session is open in another program.

    Examples:
      holdfast delete trip-planner
      holdfast delete 01jx 01jy --yes
      holdfast undelete trip-planner
    """
    chosen = list(dict.fromkeys(choose(app.library, id) for id in ids))
    if not yes and app.can_ask and not _may_delete(app, chosen):
        app.err.line("Nothing was deleted.")
        return EXIT_FAILED
    for session_id in chosen:
        app.library.delete(session_id)
        app.out.line("deleted ", app.name(session_id))
    return EXIT_FINE


def _may_delete(app: App, ids: list[str]) -> bool:
    now = now_ms()
    for session_id in ids:
        row = app.library.info(session_id)
        about = f"  {counted(row.message_count, 'message')}, {ago(row.updated_at, now)}"
        app.err.line(app.name(session_id), f"  {row.title or '(no title)'}", Span(about, "faint"))
    what = "it" if len(ids) == 1 else f"these {len(ids)} sessions"
    return click.confirm(f"Move {what} to the trash?", err=True)


@verb("undelete")
@sessions_argument()
def undelete_verb(app: App, ids: tuple[str, ...]) -> None:
    """Restore sessions from the trash.

    If several deleted sessions had the same id, the last one deleted is restored. Fails if a new session has
    taken the id. `holdfast list --trash` lists what can be restored.

    Examples:
      holdfast undelete trip-planner
      holdfast undelete -              the last one deleted
    """
    for session_id in [choose_deleted(app.library, id) for id in ids]:
        app.library.undelete(session_id)
        app.out.line("restored ", app.name(session_id))


@verb("erase")
@session_argument
@click.option("--keep-forks", is_flag=True, help="Do not destroy its forks.")
@yes_option
@json_option
def erase_verb(app: App, id: str, *, keep_forks: bool, yes: bool) -> int:
    """Permanently destroy a session, also one in the trash, leaving no trace in the store.

    Destroys its encryption keys, log, payloads, snapshots, quarantine and index entries, the same of all its
    forks, and deleted sessions of the same id. This cannot be undone (`holdfast delete` can). Anything that
    could not be reached is reported. Asks for confirmation on a terminal; elsewhere --yes is required.

    Examples:
      holdfast erase trip-planner
      holdfast erase trip-planner --yes
      holdfast erase trip-planner --keep-forks --yes --json
    """
    session_id = _chosen(app, id)
    forks = [] if keep_forks else app.library.trash.family(session_id)
    if not yes and not _may_erase(app, session_id, forks):
        app.err.line("Nothing was erased.")
        return EXIT_FAILED
    done = app.library.erase(session_id, forks=not keep_forks)
    if app.as_json:
        app.out.json(done)
        return EXIT_FINE
    for key in done.erased:
        app.out.line("erased ", app.name(key))
    for text in done.unreached:
        app.err.line(text)
    return EXIT_FINE


def _chosen(app: App, id: str) -> str:
    """Return the session's id, also of one that is in the trash only."""
    try:
        return choose(app.library, id)
    except NotFound:
        # By its whole id only: what is destroyed is not to be guessed.
        if any(one.session_id == id for one in app.library.trash.list()):
            return id
        raise


def _may_erase(app: App, session_id: str, forks: list[str]) -> bool:
    if not app.can_ask:
        raise UsageError("erasing cannot be undone", remedy="Pass --yes to confirm.")
    for key in forks:
        app.err.line("with ", app.name(key))
    what = app.short(session_id) + (f" and {counted(len(forks), 'fork')}" if forks else "")
    return click.confirm(f"Permanently destroy {what}?", err=True)


@verb("archive")
@sessions_argument()
@click.option("--restore", is_flag=True, help="Unarchive the sessions.")
def archive_verb(app: App, ids: tuple[str, ...], *, restore: bool) -> None:
    """Compress the logs of sessions to about a third of their size.

    Archived sessions are listed, searched, shown and exported as before, and are unarchived when continued.
    Fails if a session is open in another program.

    Examples:
      holdfast archive trip-planner
      holdfast archive 01jx 01jy
      holdfast archive trip-planner --restore
    """
    chosen = list(dict.fromkeys(choose(app.library, id) for id in ids))
    act = app.library.unarchive if restore else app.library.archive
    for session_id in progress(app.err, chosen, "restoring" if restore else "archiving"):
        act(session_id)
        log = size(app.library.info(session_id).size_bytes)
        done = "restored " if restore else "archived "
        app.out.line(done, app.name(session_id), Span(f"  a log of {log}", "faint"))


@verb("prune")
@click.option("--dry-run", "-n", is_flag=True, help="Only show what would be pruned, and why.")
@option("--older-than AGE", "Sessions not used for this long: 90d, 12h, 6w, 1y.")
@option("--keep N", "Keep only the newest N sessions.", type=AtLeast(0))
@option("--size SIZE", "Keep only the newest sessions up to this total size: 500MB, 2GB.")
@named_option("--tag", of="tag", help="Only sessions with this tag.")
@named_option("--agent", of="agent", help="Only sessions of this agent.")
@click.option("--delete", is_flag=True, help="Move to the trash instead of archiving.")
@yes_option
@json_option
def prune_verb(app: App, /, *, dry_run: bool, yes: bool, **rule: object) -> int:
    """Archive or delete sessions according to retention policies, and purge old trash.

    Uses the policies in the configuration (`[[retention.policies]]`) unless a rule is given on the command line,
    and archives the least recently used sessions beyond 1,000. Deletes nothing unless a policy or --delete
    says so. Open, pinned and held sessions and those tagged "keep" are never pruned.

    Examples:
      holdfast prune --dry-run
      holdfast prune --older-than 90d
      holdfast prune --tag scratch --older-than 7d --delete
      holdfast prune --agent reviewer --keep 100
      holdfast prune --size 2GB
    """
    policies = _policies(rule)
    # Planned first, so that the question can say how much would go.
    done = app.library.prune(dry_run=True, policies=policies)
    if not dry_run:
        if not yes and app.can_ask and not _may_prune(done):
            app.err.line("Nothing was done.")
            return EXIT_FAILED
        with app.err.meter("pruning") as progress:
            done = app.library.prune(policies=policies, progress=progress)
    if app.as_json:
        app.out.json(done)
    else:
        _tell(app, done)
    return EXIT_FAILED if done.failed else EXIT_FINE


def _policies(rule: dict[str, object]) -> list[Policy] | None:
    """Return the rule of the command line; None if there is none, so that the configuration counts."""
    from holdfast.catalog import read_policies

    action = "delete" if rule.pop("delete") else "archive"
    given = {name: value for name, value in rule.items() if value is not None}
    # A tag or an agent alone would let everything of it go.
    if not given.keys() & {"older_than", "keep", "size"}:
        if given or action == "delete":
            refuse("specify --older-than, --keep or --size")
        return None
    return read_policies([{**given, "action": action}])


def _may_prune(planned: Pruned) -> bool:
    """Ask, if something goes that is not simply compressed."""
    deleted = sum(one.action == "delete" for one in planned.decisions)
    if not deleted and not planned.emptied:
        return True
    return click.confirm(
        f"Put {counted(deleted, 'session')} into the trash and remove"
        f" {counted(len(planned.emptied), 'session')} from it for good?",
        err=True,
    )


def _tell(app: App, done: Pruned) -> None:
    now = now_ms()
    if done.decisions:
        app.out.table(_COLUMNS, [_cells(app, one, now) for one in done.decisions[:_SHOWN_MAX]])
    if len(done.decisions) > _SHOWN_MAX:
        more = len(done.decisions) - _SHOWN_MAX
        app.err.line(Span(f"and {counted(more, 'more session')}; use --json to show all", "faint"))
    for kept in done.spared:
        app.out.line(Span("kept     ", "faint"), app.name(kept.session_id), f"  {kept.why}")
    for session_id, why in done.failed.items():
        app.err.line(Span("failed   ", "bad"), app.name(session_id), f"  {why}")
    app.out.line(_summary(done))


def _cells(app: App, one: RetentionDecision, now: int) -> list[Piece]:
    action = Span(one.action, "warning" if one.action == "delete" else "")
    when = Span(ago(one.updated_at, now), "faint")
    return [action, app.name(one.session_id), when, size(one.size_bytes), one.title or "", one.why]


def _summary(done: Pruned) -> str:
    actions = [one.action for one in done.decisions]
    counts = [
        (actions.count("archive"), "session", "archived"),
        (actions.count("delete"), "session", "moved to the trash"),
        (len(done.emptied), "session", "removed from the trash"),
        (done.snapshots, "old snapshot", "removed"),
    ]
    said = ", ".join(f"{counted(many, word)} {what}" for many, word, what in counts if many)
    if not said:
        return "Nothing to prune."
    return f"Would be: {said}." if done.dry_run else f"{said[0].upper()}{said[1:]}."
