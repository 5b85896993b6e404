"""``holdfast run``: one prompt, one answer, on a session that stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.agent import plain_text
from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, store_option, wait_option
from holdfast.apps.cli._talk_options import (
    Wishes,
    standard_input,
    talk_options,
)
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError
from holdfast.library.answers.turns import RunAnswer

if TYPE_CHECKING:
    from holdfast.agent import RunResult
    from holdfast.apps.cli._talk import Talker

__all__ = ["command"]

_STDIN = "-"


@click.command(
    "run",
    short_help="Answer one prompt, on a session that stays.",
    epilog="""\b
Examples:
  holdfast run "My name is Alice"
  holdfast run "What is my name?"
  git diff | holdfast run - --new
  holdfast run "And now?" --session nightly --json
""",
)
@click.argument("prompt", nargs=-1, required=True)
@talk_options
@json_option
@wait_option
@store_option
@click.pass_obj
def command(app: App, /, prompt: tuple[str, ...], *, as_json: bool, **wishes: Any) -> None:
    """Answer PROMPT and leave; `-` reads it from standard input.

    It goes on with the agent's current session, as `holdfast chat` does. The answer goes to
    standard output, everything else to standard error.
    """
    from holdfast.apps.cli._talk import Talker

    text = _prompt(prompt)
    talker = Talker(app, Wishes(**wishes))
    try:
        if app.err.is_terminal and not as_json:
            app.err.line(Span(talker.choice.explain(), "faint"))
            talker.tell_session()
        if as_json:
            app.out.json(_answer(talker, talker.ask_quietly(text)))
        else:
            talker.answer(text)
    finally:
        talker.close()


def _prompt(words: tuple[str, ...]) -> str:
    text = plain_text(standard_input().read() if words == (_STDIN,) else " ".join(words))
    if not text.strip():
        raise UsageError("the prompt is empty", remedy="Give some words, or text on stdin with -.")
    return text


def _answer(talker: Talker, result: RunResult) -> RunAnswer:
    return RunAnswer(
        output=result.output,
        session_id=result.session_id,
        agent=talker.agent_id,
        model=talker.choice.name,
        usage=msgspec.to_builtins(result.usage),
        finish_reason=result.finish_reason,
        suspended=result.suspended is not None,
    )
