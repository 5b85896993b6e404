"""The questions that sessions wait for, and their answers."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING, Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, option, refuse, verb
from holdfast.apps.render.page import Column, Piece, Span

if TYPE_CHECKING:
    from holdfast.session import Waiting

_COLUMNS = (Column("ID"), Column("SESSION"), Column("AGENT"), Column("WAITS FOR", flexible=True))


@verb("waiting")
@option("--agent NAME", "Only the questions of this agent.")
@option("--session ID", "Only the questions of this session.")
@json_option
def waiting_verb(app: App, agent: str | None, session: str | None) -> None:
    """List the questions that sessions wait for, the oldest first.

    Answer one with `holdfast approve` or `holdfast deny`; whoever runs the agent goes on then.

    Examples:
      holdfast waiting
      holdfast waiting --agent buyer --json
    """
    found = app.library.waiting(agent, session)
    if app.as_json:
        from holdfast.library.answers.sessions import OpenQuestions

        app.out.json(OpenQuestions(waiting=found))
    elif found:
        rows: list[list[Piece]] = [
            [Span(one.id, "name"), one.session_id, one.agent or "", _what(one)] for one in found
        ]  # fmt: skip
        app.out.table(_COLUMNS, rows)
    else:
        app.err.line("Nothing waits.")


@verb("approve")
@click.argument("id", metavar="ID")
@click.option("--edit", is_flag=True, help="Change the arguments in your editor first.")
def approve_verb(app: App, id: str, *, edit: bool) -> None:
    """Allow a call that waits, from any process; who runs its agent carries it out.

    The beginning of an id is enough if no other begins so.

    Examples:
      holdfast approve 3f9a
      holdfast approve 3f9a --edit        with other arguments
    """
    found = app.library.inbox.find(id)
    _answer(app, found, _edited(found.args) if edit else True, None)


@verb("deny")
@click.argument("id", metavar="ID")
@option("--because TEXT", "What the model is told.")
def deny_verb(app: App, id: str, because: str | None) -> None:
    """Refuse a call that waits; the model is told why, and goes on without it.

    Examples:
      holdfast deny 3f9a --because "not on a Sunday"
    """
    _answer(app, app.library.inbox.find(id), False, because)


def _answer(app: App, found: Waiting, answer: Any, because: str | None) -> None:
    said = {"because": because, "via": "cli", "session_id": found.session_id}
    told = app.library.answer(found.id, answer, by=getpass.getuser(), **said)
    app.out.line(f"{told.decision} ", Span(found.id, "name"), f"  {_what(found)} in {found.session_id}")


def _what(one: Waiting) -> str:
    if one.until is not None or one.event is not None:
        return f"{one.tool}: {one.event or 'a time'}"
    args = "" if one.args is None else json.dumps(one.args, ensure_ascii=False)
    return f"{one.tool}({args})" + (f": {one.reason}" if one.reason else "")


def _edited(args: Any) -> Any:
    from holdfast.session import Edited

    text = click.edit(json.dumps(args, indent=2, ensure_ascii=False), extension=".json")
    if text is None:
        refuse("nothing was changed, so nothing is answered")
    try:
        changed = json.loads(text)
    except ValueError as error:
        refuse(f"the arguments are no JSON: {error}")
    return Edited(changed)
