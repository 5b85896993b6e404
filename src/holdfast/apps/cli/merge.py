"""``holdfast merge``: what two sessions did, in a new one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, new_options, two_sessions
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.comparison import kept_value
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.replay import Clash, MergeReport

__all__ = ["command"]

_ANSWERS = {"o": "ours", "t": "theirs", "b": "both"}
_VALUE_CHARS = 200


class _Turns(click.ParamType[list[int] | str]):
    """``all``, ``summary``, or numbers as in ``1,3``."""

    name = "turns"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int] | str:
        text = str(value)
        if text in ("all", "summary"):
            return text
        try:
            return [int(number) for number in text.split(",")]
        except ValueError:
            self.fail(f"{text[:40]!a} is none of all, summary and numbers such as 1,3", param, ctx)


@click.command(
    "merge",
    short_help="Put what two sessions did into a new one.",
    epilog="""\b
Examples:
  holdfast merge trip-planner 01jx
  holdfast merge trip-planner 01jx --turns 1,3 --policy theirs
  holdfast merge trip-planner 01jx --turns summary
""",
)
@two_sessions
@click.option(
    "--turns",
    type=_Turns(),
    default="all",
    show_default=True,
    metavar="WHICH",
    help="all, summary, or numbers as `holdfast compare` shows them: 1,3.",
)
@click.option(
    "--policy",
    type=click.Choice(["ours", "theirs", "both", "ask"]),
    default="ours",
    show_default=True,
    help="Whose value counts where both changed the same.",
)
@new_options
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    /,
    *,
    a: str,
    b: str,
    turns: list[int] | str,
    policy: str,
    new_id: str | None,
    title: str | None,
    as_json: bool,
) -> None:
    """Make a new session from A, with the turns of B since they parted.

    Memory, variables and todos are merged; what both changed is listed. A and B stay as they are.
    """
    ours, theirs = choose(app.library, a), choose(app.library, b)
    made = app.library.merge(
        ours,
        theirs,
        turns=turns,
        policy=policy,
        ask=_asker(app) if policy == "ask" else None,
        new_id=new_id,
        title=title,
    )
    report = app.library.merge_report(made)
    assert report is not None
    if as_json:
        from holdfast.library.answers.sessions import SessionMerged

        app.out.json(SessionMerged(session_id=made, report=report))
        return
    app.out.line(
        "merged ", Span(theirs, "name"), " and ", Span(ours, "name"), " into ", Span(made, "name")
    )
    _tell(app, report)


def _tell(app: App, report: MergeReport) -> None:
    many = counted(report.merged_turns, "turn")
    app.out.line(
        f"  {many} of {report.session}{' in a summary' if report.turns == 'summary' else ''}"
    )
    for name in report.taken:
        app.out.line("  taken over: ", name)
    for clash in report.conflicts:
        app.out.line(
            Span("  conflict: ", "warning"), f"{clash.kind} {clash.name}", f" ({clash.taken} taken)"
        )


def _asker(app: App) -> Callable[[Clash], str] | None:
    """Asks at the terminal; None where nobody is there to be asked."""
    if not (sys.stdin.isatty() and app.err.is_terminal):
        return None

    def ask(clash: Clash) -> str:
        app.err.line(Span(f"Both changed the {clash.kind} ", "warning"), Span(clash.name, "name"))
        sides = {"before": clash.base, "ours": clash.ours, "theirs": clash.theirs}
        for name, value in sides.items():
            app.err.line(f"  {name:<8}", _shown(clash, value), hang=10)
        answer = click.prompt(
            "[o]urs, [t]heirs or [b]oth",
            type=click.Choice(list(_ANSWERS)),
            show_choices=False,
            err=True,
        )
        return _ANSWERS[answer]

    return ask


def _shown(clash: Clash, value: object) -> str:
    if value is None:
        return "(nothing)" if clash.base is None else "(removed)"
    return kept_value(clash.kind, value)[:_VALUE_CHARS]
