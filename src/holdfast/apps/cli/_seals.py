"""What encrypt, decrypt, rotate and keys have in common: which sessions, and how it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, sessions_argument, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.library import Resealed


def some_or_all(verb: Callable[..., int]) -> Callable[..., int]:
    """The arguments of a verb that rewrites named sessions, or everything with ``--all``."""
    wanted = (
        sessions_argument(required=False),
        click.option("--all", "everything", is_flag=True, help="Everything in the store."),
        json_option,
        store_option,
        click.pass_context,
    )
    for one in reversed(wanted):
        verb = one(verb)
    return verb


def rewrite(
    ctx: click.Context, act: str, word: str, ids: tuple[str, ...], given: dict[str, Any]
) -> int:
    """Do what ``hf.keys`` calls ``act`` to the sessions, and tell it; the exit code."""
    if given["everything"] == bool(ids):
        ctx.fail("name the sessions, or say --all")
    app: App = ctx.obj
    chosen = None if given["everything"] else [choose(app.library, id) for id in ids]
    with app.err.meter("rewriting") as progress:
        done: Resealed = getattr(app.library.keys, act)(chosen, progress=progress)
    return tell(app, done, word, as_json=given["as_json"])


def tell(app: App, done: Resealed, word: str, *, as_json: bool) -> int:
    """Say what was done and what was not; the exit code."""
    if as_json:
        app.out.json(done)
        return EXIT_FAILED if done.failed else EXIT_FINE
    for key in done.changed:
        app.out.line(f"{word} ", Span(key.removeprefix("sessions/"), "name"))
    for key, why in done.failed.items():
        app.err.line(
            Span("failed ", "bad"), Span(key.removeprefix("sessions/"), "name"), f"  {why}"
        )
    if not done.changed and not done.failed:
        app.out.line("nothing to do")
    if done.relatives:
        names = ", ".join(key.removeprefix("sessions/") for key in done.relatives)
        app.err.line(
            f"{counted(len(done.relatives), 'fork')} with the same events"
            f" {'was' if len(done.relatives) == 1 else 'were'} left as before: {names}"
        )
    for text in done.left:
        app.err.line(text)
    return EXIT_FAILED if done.failed else EXIT_FINE
