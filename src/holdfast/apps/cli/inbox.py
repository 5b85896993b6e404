"""The questions that sessions wait for, and their answers."""

from __future__ import annotations

from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import json_option, option, refuse, verb
from holdfast.apps.render.page import CHANGE_STYLES, Column, Piece, Span
from holdfast.apps.render.questions import ANSWERED, as_editable, as_sentence, person, read_edited, view_of
from holdfast.apps.render.words import ago, day_time
from holdfast.errors import UsageError
from holdfast.replay import as_json
from holdfast.session import Edited, Result, Waiting, now_ms

_COLUMNS = (Column("ID"), Column("SESSION"), Column("AGENT"), Column("ASKED"), Column("WAITS FOR", flexible=True))
_LABEL_CHARS = 10
_SPACES_MAX = 100


@verb("waiting")
@click.argument("id", metavar="[ID]", required=False)
@option("--agent NAME", "Only calls by this agent.")
@option("--session ID", "Only calls in this session.")
@json_option
def waiting_verb(app: App, id: str | None, agent: str | None, session: str | None) -> None:
    """List tool calls waiting for approval, oldest first, or show one in full.

    Answer with `holdfast approve` or `holdfast deny`; the agent then continues in the process that runs it.

    Examples:
      holdfast waiting
      holdfast waiting 3f9a               its arguments in full, as a diff where they edit a file
      holdfast waiting --agent buyer --json
    """
    chosen = None if session is None else choose(app.library, session)
    found = app.library.waiting(agent, chosen) if id is None else [app.library.inbox.find(id, chosen)]
    if app.as_json:
        from holdfast.library.answers.sessions import OpenQuestions

        app.out.json(OpenQuestions(waiting=found))
    elif id is not None:
        _show(app, found[0])
    elif found:
        now = now_ms()
        rows: list[list[Piece]] = [
            [Span(one.id, "name"), app.short(one.session_id), one.agent or "", ago(one.asked_at, now), as_sentence(one)]
            for one in found
        ]
        app.out.table(_COLUMNS, rows)
    else:
        app.err.line("No tool calls are waiting.")
    if id is None and agent is None and session is None and not app.as_json:
        _tell_spaces(app)


def _tell_spaces(app: App) -> None:
    """Say which spaces have questions too: this list has none of them."""
    from holdfast.apps.http.tokens import TokenBook

    if app.library.store.space is not None:
        return
    spaces, found = sorted({one.space for one in TokenBook(app.library.store).all() if one.space}), []
    for name in spaces[:_SPACES_MAX]:
        with app.library.space(name) as space:
            found += [f"{count} in {name}"] if (count := space.inbox.count()) else []
    if found:
        more = "" if len(spaces) <= _SPACES_MAX else f" (of the first {_SPACES_MAX} spaces)"
        app.err.line(f"Waiting in spaces: {', '.join(found)}{more}.", hang=2)
        app.err.line(
            Span(f"HOLDFAST_SPACE={found[0].rpartition(' ')[2]} holdfast waiting lists those of one.", "faint")
        )


@verb("approve")
@click.argument("id", metavar="ID")
@click.option("--edit", is_flag=True, help="Edit the arguments in your editor first.")
@option("--answer TEXT", "Give this as the result of the tool, which is not run.")
def approve_verb(app: App, id: str, answer: str | None, *, edit: bool) -> None:
    """Approve a waiting tool call; the process that runs its agent carries it out.

    A unique prefix of the id is enough; `holdfast waiting ID` shows the call in full.

    Examples:
      holdfast approve 3f9a
      holdfast approve 3f9a --edit        edit the arguments first
      holdfast approve 3f9a --answer "at noon"    answer a tool that asks for something
    """
    if edit and answer is not None:
        refuse("--edit runs the call with other arguments, --answer does not run it: give one of them")
    given: Any = True if answer is None else Result(answer)
    _answer(app, id, _edited(app, app.library.inbox.find(id)) if edit else given, None)


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
    app.out.line(f"{ANSWERED[told.decision]}: ", Span(told.id, "name"))


def _show(app: App, one: Waiting) -> None:
    """Show one question with everything that is needed to answer it."""
    view, asked = view_of(one), f"{day_time(one.asked_at)} ({ago(one.asked_at, now_ms())})"
    title = app.library.info(one.session_id).title
    fields = {
        "id": one.id,
        "session": f"{app.short(one.session_id)}  {title or ''}",
        "agent": one.agent or "",
        "asked": asked if one.asked_at else "",
        "expires": "" if one.expires_at is None else day_time(one.expires_at),
        "reason": one.reason,
        "waits for": "" if view.is_asked else as_sentence(one),
    }
    app.out.line(Span(one.tool or "the session", "strong"))
    for name, value in fields.items():
        if value:
            app.out.line(Span(f"  {name:{_LABEL_CHARS}}", "faint"), value, hang=_LABEL_CHARS + 2)
    app.out.line()
    for name, value in view.beside.items():
        app.out.text(f"{name} = {value if isinstance(value, str) else as_json(value)}")
    if not view.has_args and view.is_asked:
        app.out.text("Its arguments cannot be read here.", style="warning")
    for line in [*view.lines, "… and more lines"] if view.is_cut else view.lines:
        app.out.text(line, style=CHANGE_STYLES.get(line[:1], ""))


def _edited(app: App, one: Waiting) -> Edited:
    if one.kind != "permission" or not isinstance(one.args, dict):
        refuse("this call has no arguments to edit; answer it with --answer")
    text = click.edit(as_editable(one.args), extension=".json")
    if text is None:
        refuse("no changes were made, so nothing was answered")
    while True:
        try:
            return read_edited(text)
        except UsageError as error:
            if not app.can_ask or not click.confirm(f"{error.message}. Edit it again?", default=True, err=True):
                raise
            text = click.edit(text, extension=".json") or text
