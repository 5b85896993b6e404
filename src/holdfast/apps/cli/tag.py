"""``holdfast tag``: show, add and remove tags; say where automatic ones come from."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import (
    complete_tag,
    json_option,
    session_argument,
    store_option,
    wait_option,
)
from holdfast.apps.render.page import Column, Piece, Span

__all__ = ["command"]

_WHY = (Column("TAG"), Column("SCORE", right=True), Column("WHY", flexible=True))


@click.command(
    "tag",
    short_help="Show, add or remove the tags of a session.",
    epilog="""\b
Examples:
  holdfast tag trip-planner                    show its tags
  holdfast tag trip-planner travel "may 2026"
  holdfast tag trip-planner travel --remove
  holdfast tag trip-planner --why              where automatic tags come from
  holdfast tag trip-planner --suggest --apply  let a model write title and tags
""",
)
@session_argument
@click.argument("tags", metavar="[TAG]...", nargs=-1, shell_complete=complete_tag)
@click.option("--remove", is_flag=True, help="Take these tags away.")
@click.option("--why", is_flag=True, help="Explain the automatic tags.")
@click.option("--suggest", is_flag=True, help="Ask a model for a title and tags.")
@click.option("--model", metavar="NAME", help="The model to ask, such as openai:gpt-5.")
@click.option("--apply", is_flag=True, help="Record what the model suggests.")
@json_option
@wait_option
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    id: str,
    tags: tuple[str, ...],
    remove: bool,
    why: bool,
    suggest: bool,
    model: str | None,
    apply: bool,
    as_json: bool,
) -> None:
    """Show the tags of a session; with TAGs add them, or remove them with --remove.

    Automatic tags follow from the content and are never recorded. What a model suggests is only
    shown unless --apply is given; the beginning of the conversation is sent to it.
    """
    if why + suggest + bool(tags) > 1:
        ctx.fail("choose one of TAG, --why and --suggest")
    if remove and not tags:
        ctx.fail("--remove needs the tags to remove")
    if (model or apply) and not suggest:
        ctx.fail(f"--{'model' if model else 'apply'} belongs to --suggest")
    app: App = ctx.obj
    session_id = choose(app.library, id)
    if why:
        _explain(app, session_id, as_json=as_json)
    elif suggest:
        _suggest(app, session_id, model, apply=apply, as_json=as_json)
    elif tags:
        change = app.library.untag if remove else app.library.tag
        _show(app, session_id, change(session_id, *tags), as_json=as_json)
    else:
        _show(app, session_id, list(app.library.info(session_id).tags), as_json=as_json)


def _show(app: App, session_id: str, tags: list[str], *, as_json: bool) -> None:
    automatic = [tag for tag in app.library.info(session_id).auto_tags if tag not in tags]
    if as_json:
        from holdfast.library.answers.sessions import SessionTags

        app.out.json(SessionTags(session_id=session_id, tags=tags, auto_tags=automatic))
        return
    for tag in tags:
        app.out.line(tag)
    for tag in automatic:
        app.out.line(tag, Span("  (automatic)", "faint"))
    if not tags and not automatic:
        app.err.line(f"{session_id} has no tags.")


def _explain(app: App, session_id: str, *, as_json: bool) -> None:
    found = app.library.topics(session_id)
    if as_json:
        from holdfast.library.answers.sessions import SessionTopics

        app.out.json(SessionTopics(session_id=session_id, topics=found))
    elif found:
        rows: list[list[Piece]] = [
            [Span(one.tag, "name"), f"{one.score:.1f}", one.why] for one in found
        ]
        app.out.table(_WHY, rows)
    else:
        app.err.line(f"Nothing in {session_id} speaks for any topic.")


def _suggest(app: App, session_id: str, model: str | None, *, apply: bool, as_json: bool) -> None:
    from holdfast.agent import needs_agent

    with needs_agent():
        from holdfast.apps.cli._suggestions import suggest

    found = suggest(app, session_id, model)
    if apply:
        if found.title:
            app.library.title(session_id, found.title)
        if found.tags:
            app.library.tag(session_id, *found.tags)
    if as_json:
        from holdfast.library.answers.sessions import TagSuggestion

        app.out.json(TagSuggestion(session_id=session_id, applied=apply, **found._asdict()))
        return
    app.out.line(Span("title  ", "faint"), found.title or "(none)")
    app.out.line(Span("tags   ", "faint"), ", ".join(found.tags) or "(none)")
    if not apply:
        app.err.line(Span("Nothing was recorded; --apply does.", "faint"))
