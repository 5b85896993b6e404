"""``holdfast prune``: what policies let go, and why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import (
    AtLeast,
    complete_agent,
    complete_tag,
    json_option,
    store_option,
)
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago, counted, size
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.catalog import Policy
    from holdfast.library import Pruned

__all__ = ["command"]

_COLUMNS = (
    Column("ACTION"),
    Column("ID"),
    Column("UPDATED", spared=True),
    Column("SIZE", right=True, spared=True),
    Column("TITLE", flexible=True, optional=True, spared=True),
    Column("WHY", flexible=True),
)
_SHOWN_MAX = 200


@click.command(
    "prune",
    short_help="Archive or delete what policies let go.",
    epilog="""\b
Examples:
  holdfast prune --dry-run
  holdfast prune --older-than 90d
  holdfast prune --tag scratch --older-than 7d --delete
  holdfast prune --agent reviewer --keep 100
  holdfast prune --size 2GB
""",
)
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would go, and why.")
@click.option("--older-than", metavar="AGE", help="Not used for so long: 90d, 12h, 6w, 1y.")
@click.option("--keep", type=AtLeast(0), metavar="N", help="All but the newest N.")
@click.option("--size", "size_max", metavar="SIZE", help="What the newest SIZE leave: 500MB, 2GB.")
@click.option(
    "--tag", metavar="TAG", shell_complete=complete_tag, help="Only sessions with this tag."
)
@click.option(
    "--agent", metavar="ID", shell_complete=complete_agent, help="Only sessions of this agent."
)
@click.option("--delete", is_flag=True, help="Put them into the trash instead of the archive.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@store_option
@click.pass_context
def command(
    ctx: click.Context, /, *, dry_run: bool, yes: bool, as_json: bool, **rule: object
) -> int:
    """Archive or delete the sessions that policies let go, and empty the trash of what is old.

    Without a rule on the command line those of the configuration count (`[[retention.policies]]`),
    and beyond 1,000 sessions the least recently used are archived. Nothing is deleted unless a
    policy or you say so; open, pinned and held sessions and those tagged "keep" stay.
    """
    app: App = ctx.obj
    policies = _policies(ctx, rule)
    planned = app.library.prune(dry_run=True, policies=policies)
    if not dry_run and _is_much(planned) and not _is_meant(app, planned, yes=yes):
        app.err.line("Nothing was done.")
        return EXIT_FAILED
    done = planned if dry_run else _carry_out(app, policies)
    if as_json:
        app.out.json(done)
    else:
        _tell(app, done)
    return EXIT_FAILED if done.failed else EXIT_FINE


def _policies(ctx: click.Context, rule: dict[str, object]) -> list[Policy] | None:
    """The rule of the command line; None if there is none, so that the configuration counts."""
    from holdfast.catalog import read_policies

    table = {
        "tag": rule["tag"],
        "agent": rule["agent"],
        "older_than": rule["older_than"],
        "keep": rule["keep"],
        "size": rule["size_max"],
    }
    given = {name: value for name, value in table.items() if value is not None}
    if not given.keys() & {"older_than", "keep", "size"}:
        if given or rule["delete"]:
            ctx.fail("say which of them: --older-than, --keep or --size")
        return None
    return read_policies([{**given, "action": "delete" if rule["delete"] else "archive"}])


def _is_much(planned: Pruned) -> bool:
    """Whether something goes that is not simply compressed."""
    return bool(planned.emptied) or any(one.action == "delete" for one in planned.decisions)


def _is_meant(app: App, planned: Pruned, *, yes: bool) -> bool:
    if yes or not (sys.stdin.isatty() and app.err.is_terminal):
        return True
    deleted = sum(one.action == "delete" for one in planned.decisions)
    return click.confirm(
        f"Put {counted(deleted, 'session')} into the trash and remove"
        f" {counted(len(planned.emptied), 'session')} from it for good?",
        err=True,
    )


def _carry_out(app: App, policies: list[Policy] | None) -> Pruned:
    with app.err.meter("pruning") as progress:
        return app.library.prune(policies=policies, progress=progress)


def _tell(app: App, done: Pruned) -> None:
    now = now_ms()
    if done.decisions:
        app.out.table(_COLUMNS, [_cells(one, now) for one in done.decisions[:_SHOWN_MAX]])
    if len(done.decisions) > _SHOWN_MAX:
        more = len(done.decisions) - _SHOWN_MAX
        app.err.line(Span(f"and {counted(more, 'more session')}; all with --json", "faint"))
    for kept in done.spared:
        app.out.line(Span("kept     ", "faint"), Span(kept.session_id, "name"), f"  {kept.why}")
    for session_id, why in done.failed.items():
        app.err.line(Span("failed   ", "bad"), Span(session_id, "name"), f"  {why}")
    app.out.line(_summary(done))


def _cells(one: object, now: int) -> list[Piece]:
    from holdfast.catalog import RetentionDecision

    assert isinstance(one, RetentionDecision)
    return [
        Span(one.action, "warning" if one.action == "delete" else ""),
        Span(one.session_id, "name"),
        Span(ago(one.updated_at, now), "faint"),
        size(one.size_bytes),
        one.title or "",
        one.why,
    ]


def _summary(done: Pruned) -> str:
    archived = [one for one in done.decisions if one.action == "archive"]
    deleted = [one for one in done.decisions if one.action == "delete"]
    parts = [
        f"{counted(len(archived), 'session')} archived" if archived else "",
        f"{counted(len(deleted), 'session')} put into the trash" if deleted else "",
        f"{counted(len(done.emptied), 'session')} removed from the trash" if done.emptied else "",
        f"{counted(done.snapshots, 'old snapshot')} removed" if done.snapshots else "",
    ]
    said = ", ".join(filter(None, parts))
    if not said:
        return "Nothing to prune."
    return f"Would be: {said}." if done.dry_run else f"{said[0].upper()}{said[1:]}."
