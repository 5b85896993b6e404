"""Talks with an agent: ``holdfast chat`` and ``holdfast run``. Loads nothing of the agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, TypeVar

import click
import msgspec

from holdfast.agent import plain_text
from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, model_option, named_option, verb, wait_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError
from holdfast.library.answers.turns import RunAnswer

if TYPE_CHECKING:
    from holdfast.agent import RunResult
    from holdfast.apps.cli._talk import Talker


F = TypeVar("F", bound=Callable[..., Any])


class Wishes(NamedTuple):
    """The values of those options."""

    model: str | None = None
    agent: str | None = None
    session: str | None = None
    new: bool = False


def talk_options(function: F) -> F:
    """The options that ``chat`` and ``run`` share."""
    options = [
        model_option,
        named_option("--agent", of="agent", help="The agent whose sessions these are."),
        click.option(
            "--session",
            "--restore",
            "--continue",
            "session",
            metavar="ID",
            help="Go on with this session; - is the newest.",
        ),
        click.option("--new", is_flag=True, help="Begin a new session; --session gives its id."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def standard_input() -> TextIO:
    """Standard input; bytes that are no text become question marks instead of a failure."""
    # Tests and programs put other streams in its place.
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin


@verb("chat")
@talk_options
@wait_option
def chat_verb(app: App, /, **wishes: Any) -> int:
    """Talk to an agent. Everything is kept as it is said: quit, or be killed, and go on.

    Without options it goes on with the agent's current session. In a pipe each line is a message;
    the answers go to standard output. The model: --model, else the configuration, else an API key
    in the environment, else the small one that is embedded.

    Examples:
      holdfast chat                          go on where you stopped
      holdfast chat --new
      holdfast chat --session trip-planner
      holdfast chat --model anthropic:claude-sonnet-4-5
      echo 'What did I say?' | holdfast chat
    """
    from holdfast.apps.cli._chat import Chat

    return Chat(app, Wishes(**wishes)).run()


_STDIN = "-"


@verb("run")
@click.argument("prompt", nargs=-1, required=True)
@talk_options
@json_option
@wait_option
def run_verb(app: App, /, prompt: tuple[str, ...], **wishes: Any) -> None:
    """Answer PROMPT and leave; `-` reads it from standard input.

    It goes on with the agent's current session, as `holdfast chat` does. The answer goes to
    standard output, everything else to standard error.

    Examples:
      holdfast run "My name is Alice"
      holdfast run "What is my name?"
      git diff | holdfast run - --new
      holdfast run "And now?" --session nightly --json
    """
    from holdfast.apps.cli._talk import Talker

    text = given_prompt(prompt)
    talker = Talker(app, Wishes(**wishes))
    try:
        if app.err.is_terminal and not app.as_json:
            app.err.line(Span(talker.choice.explain(), "faint"))
            talker.tell_session()
        if app.as_json:
            app.out.json(_answer(talker, talker.ask_quietly(text)))
        else:
            talker.answer(text)
    finally:
        talker.close()


def given_prompt(words: tuple[str, ...]) -> str:
    """The words of a command line, or standard input for ``-``. Raises UsageError if empty."""
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
