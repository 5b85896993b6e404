"""Branches: a session made of another, two of them side by side, and one made of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import AtLeast, complete_id, json_option, option, session_argument, verb, yes_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.catalog import short_id
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.apps.render import comparison
    from holdfast.library.answers import sessions as answers
    from holdfast.replay import Clash
else:
    (answers,) = lazy_modules("holdfast.library.answers", "sessions")
    (comparison,) = lazy_modules("holdfast.apps.render", "comparison")

_id_option = option("--id NEW", "Id of the new session.", name="new_id")
_title_option = option("--title TEXT", "Title of the new session.")
_AT_HELP = "Up to and including this event (or the end of its batch)."
_a_argument = click.argument("a", metavar="A", shell_complete=complete_id)
_b_argument = click.argument("b", metavar="B", shell_complete=complete_id)
_ANSWERS = {"o": "ours", "t": "theirs", "b": "both"}
_VALUE_CHARS = 200
_NEW_CHARS = 10  # of an id that was just made: its whole time, in which the next ones differ


class _Names:
    """Short names of sessions and of one that is made of them, without reading the new one into the index for it."""

    def __init__(self, app: App, *ids: str) -> None:
        self._others = [other for id in ids for other in app.library.session_ids(short_id(id, ()))]

    def short(self, id: str) -> str:
        return short_id(id, self._others)

    def of(self, id: str) -> Span:
        return Span(self.short(id), "name")

    def of_new(self, id: str, given: str | None) -> Span:
        """Return the name of the new session, which the others are told apart from as well."""
        self._others.append(id)
        return Span(id if given else id[:_NEW_CHARS], "name")


def _tell_made(app: App, how: str, parent: str, made: str, *, names: _Names, given: str | None) -> None:
    """Say which session was made of which, and up to where."""
    found = app.library.state(made).parent
    seq = None if found is None else found.seq
    if app.as_json:
        app.out.json(answers.SessionForked(session_id=made, parent=parent, at=seq))
    else:
        name = names.of_new(made, given)
        app.out.line(f"{how} ", names.of(parent), f" after event {seq}: ", name)


@verb("fork")
@session_argument
@option("--at SEQ", _AT_HELP, type=AtLeast(0))
@_id_option
@_title_option
@json_option
def fork_verb(app: App, /, *, id: str, at: int | None, **named: Any) -> None:
    """Create a new session that starts with the events of another one, up to --at.

    The original is not changed and may be in use. `holdfast show ID --events` lists event numbers.

    Examples:
      holdfast fork trip-planner
      holdfast fork trip-planner --at 12 --title "By train"
      holdfast chat --session "$(holdfast fork - --json | jq -r .session_id)"
    """
    parent = choose(app.library, id)
    names = _Names(app, parent)
    made = app.library.fork(parent, at, **named)
    _tell_made(app, "forked", parent, made, names=names, given=named["new_id"])


@verb("restore")
@session_argument
@option("--at SEQ", _AT_HELP, type=AtLeast(0), required=True)
@_id_option
@json_option
def restore_verb(app: App, /, *, id: str, at: int, new_id: str | None) -> None:
    """Create a new session from the events up to --at, which the agent then continues.

    The original session keeps everything. Fails if the session is open in another program.

    Examples:
      holdfast restore trip-planner --at 12
      holdfast chat                       continues from there
    """
    parent = choose(app.library, id)
    names = _Names(app, parent)
    made = app.library.restore(parent, at, new_id=new_id)
    _tell_made(app, "restored", parent, made, names=names, given=new_id)
    agent = app.library.state(made).agent_id
    if agent and not app.as_json:
        app.err.line(f"{agent} continues with it at the next `holdfast chat`.")


@verb("compare")
@_a_argument
@_b_argument
@click.option("--full", is_flag=True, help="Do not truncate questions and answers.")
@json_option
def compare_verb(app: App, /, *, a: str, b: str, full: bool) -> None:
    """Show where two sessions diverged and what each did since.

    Turns with the same question are shown side by side, with answers from where they differ. Use the turn
    numbers with `holdfast merge --turns`.

    Examples:
      holdfast compare trip-planner 01jx
      holdfast compare trip-planner 01jx --json | jq .changes
    """
    found = app.library.compare(choose(app.library, a), choose(app.library, b))
    if app.as_json:
        app.out.json(found)
    else:
        comparison.print_comparison(app.out, found, full=full, name=app.short)


class _Turns(click.ParamType[list[int] | str]):
    """``all``, ``summary``, or numbers as in ``1,3``."""

    name = "turns"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int] | str:
        text = str(value)
        if text in ("all", "summary"):
            return text
        try:
            return [int(number) for number in text.split(",")]
        except ValueError:
            self.fail(f"{text[:40]!a} is neither all, summary nor a list of numbers such as 1,3", param, ctx)


@verb("merge")
@_a_argument
@_b_argument
@option(
    "--turns WHICH", "all, summary, or turn numbers from `holdfast compare`, such as 1,3.", type=_Turns(), default="all"
)
@option("--policy", "How to resolve conflicts.", of="ours theirs both ask", default="ours")
@_id_option
@_title_option
@yes_option
@json_option
def merge_verb(app: App, /, *, a: str, b: str, policy: str, yes: bool, **wishes: Any) -> int:
    """Create a new session from A, plus the turns of B since the two diverged.

    Memory, variables and todos are merged, and conflicts are listed. A and B are not changed. Merging
    sessions with no events in common needs confirmation, or --yes.

    Examples:
      holdfast merge trip-planner 01jx
      holdfast merge trip-planner 01jx --turns 1,3 --policy theirs
      holdfast merge trip-planner 01jx --turns summary
    """
    ours, theirs = choose(app.library, a), choose(app.library, b)
    if not yes and app.library.compare(ours, theirs).ancestor is None and not _may_merge(app, ours, theirs):
        app.err.line("Nothing was merged.")
        return EXIT_FAILED
    names = _Names(app, ours, theirs)
    made = app.library.merge(ours, theirs, policy=policy, ask=_asker(app) if policy == "ask" else None, **wishes)
    report = app.library.merge_report(made)
    assert report is not None
    if app.as_json:
        app.out.json(answers.SessionMerged(session_id=made, report=report))
        return EXIT_FINE
    into = names.of_new(made, wishes["new_id"])
    app.out.line("merged ", names.of(ours), " and ", names.of(theirs), " into ", into)
    many = counted(report.merged_turns, "turn")
    app.out.line(f"  {many} of {names.short(report.session)}{' in a summary' if report.turns == 'summary' else ''}")
    for name in report.taken:
        app.out.line("  taken over: ", name)
    for clash in report.conflicts:
        app.out.line(Span("  conflict: ", "warning"), f"{clash.kind} {clash.name}", f" ({clash.taken} taken)")
    return EXIT_FINE


def _may_merge(app: App, ours: str, theirs: str) -> bool:
    """Ask whether two sessions that never were one are to be merged."""
    told = f"{app.short(ours)} and {app.short(theirs)} have no events in common"
    if not app.can_ask:
        raise UsageError(told, remedy="Pass --yes to append all turns of the second to those of the first.")
    return click.confirm(f"{told}. Merge anyway?", err=True)


def _asker(app: App) -> Callable[[Clash], str] | None:
    """Return a function that asks at the terminal; None without a terminal."""
    if not app.can_ask:
        return None

    def ask(clash: Clash) -> str:
        app.err.line(Span(f"Both changed the {clash.kind} ", "warning"), Span(clash.name, "name"))
        sides = {"before": clash.base, "ours": clash.ours, "theirs": clash.theirs}
        for name, value in sides.items():
            nothing = "(nothing)" if clash.base is None else "(removed)"
            shown = nothing if value is None else comparison.kept_value(clash.kind, value)[:_VALUE_CHARS]
            app.err.line(f"  {name:<8}", shown, hang=10)
        answer = click.prompt(
            "[o]urs, [t]heirs or [b]oth", type=click.Choice(list(_ANSWERS)), show_choices=False, err=True
        )
        return _ANSWERS[answer]

    return ask
