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
@option("--agent NAME", "Only calls by this agent.")
@option("--session ID", "Only calls in this session.")
@json_option
def waiting_verb(app: App, agent: str | None, session: str | None) -> None:
    """List tool calls waiting for approval, oldest first.

    Answer with `holdfast approve` or `holdfast deny`; the agent then continues in the process that runs it.

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
        app.err.line("No tool calls are waiting.")


@verb("approve")
@click.argument("id", metavar="ID")
@click.option("--edit", is_flag=True, help="Edit the arguments in your editor first.")
def approve_verb(app: App, id: str, *, edit: bool) -> None:
    """Approve a waiting tool call; the process that runs its agent carries it out.

    A unique prefix of the id is enough.

    Examples:
      holdfast approve 3f9a
      holdfast approve 3f9a --edit        edit the arguments first
    """
    _answer(app, id, _edited(app.library.inbox.find(id).args) if edit else True, None)


@verb("deny")
@click.argument("id", metavar="ID")
@option("--because TEXT", "The reason given to the model.")
def deny_verb(app: App, id: str, because: str | None) -> None:
    """Deny a waiting tool call; the model is told why and continues without it.

    Examples:
      holdfast deny 3f9a --because "not on a Sunday"
    """
    _answer(app, id, False, because)


def _answer(app: App, id: str, answer: Any, because: str | None) -> None:
    told = app.library.inbox.answer(id, answer, by=person(), via="cli", because=because)
    app.out.line(f"{told.decision} ", Span(told.id, "name"))


def _edited(args: Any) -> Any:
    if not isinstance(args, dict):
        refuse("this call has no arguments to edit")
    text = click.edit(as_editable(args), extension=".json")
    if text is None:
        refuse("no changes were made, so nothing was answered")
    return read_edited(text)
