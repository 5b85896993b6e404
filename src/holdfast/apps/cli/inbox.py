"""The questions that sessions wait for, and their answers."""

from __future__ import annotations

from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import json_option, option, refuse, verb
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.questions import as_editable, as_sentence, person, read_edited

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
    found = app.library.waiting(agent, None if session is None else choose(app.library, session))
    if app.as_json:
        from holdfast.library.answers.sessions import OpenQuestions

        app.out.json(OpenQuestions(waiting=found))
    elif found:
        rows: list[list[Piece]] = [
            [Span(one.id, "name"), app.short(one.session_id), one.agent or "", as_sentence(one)] for one in found
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
    _answer(app, id, _edited(app.library.inbox.find(id).args) if edit else True, None)


@verb("deny")
@click.argument("id", metavar="ID")
@option("--because TEXT", "What the model is told.")
def deny_verb(app: App, id: str, because: str | None) -> None:
    """Refuse a call that waits; the model is told why, and goes on without it.

    Examples:
      holdfast deny 3f9a --because "not on a Sunday"
    """
    _answer(app, id, False, because)


def _answer(app: App, id: str, answer: Any, because: str | None) -> None:
    told = app.library.inbox.answer(id, answer, by=person(), via="cli", because=because)
    app.out.line(f"{told.decision} ", Span(told.id, "name"))


def _edited(args: Any) -> Any:
    if not isinstance(args, dict):
        refuse("there are no arguments here to change")
    text = click.edit(as_editable(args), extension=".json")
    if text is None:
        refuse("nothing was changed, so nothing is answered")
    return read_edited(text)
