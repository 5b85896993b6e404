"""Printing a recovered conversation: the list on standard output, the report beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import AtLeast
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted

if TYPE_CHECKING:
    from holdfast.replay import Recovery

# Named here too, so that `--help` needs nothing of the replay; a test compares the two.
PROVIDERS = (
    "neutral",
    "anthropic",
    "openai",
    "openai-responses",
    "gemini",
    "mistral",
    "pydantic-ai",
)
INCOMPLETE = ("mark", "drop", "keep")

F = TypeVar("F", bound=Callable[..., Any])


def provider_options(function: F) -> F:
    """``--provider``, ``--incomplete`` and ``--window-tokens``."""
    function = click.option(
        "--window-tokens",
        type=AtLeast(1),
        metavar="N",
        help="Only the newest part that fits into so many tokens.",
    )(function)
    function = click.option(
        "--incomplete",
        type=click.Choice(INCOMPLETE),
        help="Calls without a result: mark them as interrupted (default), drop them, keep them.",
    )(function)
    return click.option(
        "--provider",
        type=click.Choice(PROVIDERS),
        metavar="NAME",
        help=f"The form and the rules of one of: {', '.join(PROVIDERS)} (default: neutral).",
    )(function)


def print_recovery(app: App, found: Recovery, *, as_json: bool) -> None:
    """The messages as JSON on standard output, what was changed in words on standard error.

    For programs both are in one document.
    """
    if as_json:
        from holdfast.library.answers.events import RecoveredMessages

        app.out.json(
            RecoveredMessages(
                session_id=found.session_id,
                system=found.system,
                messages=found.messages,
                issues=found.issues,
                left_out=found.left_out,
                tokens=found.count,
            )
        )
        return
    app.out.json(found.messages)
    _print_report(app, found)
    if found.system:
        app.err.line("The system prompt is kept apart; --json prints it as `system`.")
    if found.left_out is not None:
        app.err.line(_left_out(found.left_out))


def _print_report(app: App, found: Recovery) -> None:
    """One line for a log; on a terminal a line for each issue."""
    if not app.err.is_terminal or not found.issues:
        app.err.line(found.log_line)
        return
    app.err.line(found.log_line.partition(": [")[0], ":")
    for issue in found.issues:
        where = Span(f"  {issue.where}", "name")
        app.err.line(where, f": {issue.detail} ", Span(f"[{issue.type}]", "faint"), hang=4)


def _left_out(part: Any) -> str:
    return (
        f"The window has no room for {counted(part.messages, 'message')} of about"
        f" {counted(part.tokens, 'token')}, events {part.first_seq} to {part.last_seq}."
    )
