"""Talks with an agent: ``holdfast chat`` and ``holdfast run``. Loads nothing of the agent."""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple, TextIO

import click
import msgspec

from holdfast.agent import plain_text
from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import json_option, model_option, named_option, together, verb, wait_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError
from holdfast.library.answers import filled
from holdfast.library.answers.turns import RunAnswer
from holdfast.model import VERSION


class Wishes(NamedTuple):
    """The values of those options."""

    model: str | None = None
    agent: str | None = None
    session: str | None = None
    new: bool = False
    plain: bool = False
    light: bool = False


_talk_options = together(
    model_option,
    named_option("--agent", of="agent", help="The agent to use; may be defined in a file."),
    click.option(
        "--session", "--restore", "--continue", "session", metavar="ID", help="Continue this session; - for the newest."
    ),
    click.option("--new", is_flag=True, help="Start a new session (with the id given by --session)."),
)


def standard_input() -> TextIO:
    """Return standard input; bytes that are not text become question marks instead of a failure."""
    # Tests and programs put other streams in its place.
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin


def somebody_types(app: App) -> bool:
    """Return whether somebody sits at a terminal, also at one that can only show lines (``TERM=dumb``)."""
    return sys.stdin.isatty() and (app.out.is_terminal or os.isatty(1))


def echo(*, on: bool) -> None:
    """Let the terminal show what is typed, or not."""
    import termios

    try:
        mode = termios.tcgetattr(sys.stdin.fileno())
        mode[3] = mode[3] | termios.ECHO if on else mode[3] & ~termios.ECHO
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)
    except (OSError, ValueError, termios.error):  # the terminal has gone; reading from it raises
        return


@verb("chat")
@_talk_options
@click.option("--plain", is_flag=True, help="Plain line-by-line input and output, for screen readers.")
@click.option("--light", is_flag=True, help="Use the light theme.")
@wait_option
def chat_verb(app: App, /, **wishes: Any) -> int:
    """Chat with an agent. Everything is saved as it happens, so you can quit or crash and carry on.

    Continues the agent's current session by default. When reading from a pipe, each line is a message and
    answers go to standard output. The model is taken from --model, the configuration, an API key in the
    environment, or a model server on this machine (Ollama, LM Studio, llama.cpp, vLLM), in this order.
    Without any of these the built-in guide answers; it is not a language model.

    Examples:
      holdfast chat                          continue where you left off
      holdfast chat --new
      holdfast chat --session trip-planner
      holdfast chat --model anthropic:claude-sonnet-5-5
      echo 'What did I say?' | holdfast chat
    """
    if somebody_types(app):
        # The first line comes before anything that takes long to load.
        hint = Span("  /help lists the commands, Ctrl-D leaves.", "faint")
        app.err.line(Span(f"holdfast {VERSION}", "strong"), hint)
        app.err.flush()
        echo(on=False)  # what is typed meanwhile stands at the prompt, once
    try:
        from holdfast.apps.cli._chat import Chat

        return Chat(app, Wishes(**wishes)).run()
    finally:
        if sys.stdin.isatty():
            echo(on=True)


@verb("run")
@click.argument("prompt", nargs=-1, required=True)
@_talk_options
@json_option
@wait_option
def run_verb(app: App, /, prompt: tuple[str, ...], **wishes: Any) -> int:
    """Run PROMPT and exit; `-` reads it from standard input.

    Continues the agent's current session by default, as `holdfast chat` does. The answer goes to standard
    output, everything else to standard error. One that was stopped by a limit failed: exit
    code 1.

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
        if (app.err.is_terminal or talker.choice.is_guide) and not app.as_json:
            app.err.line(Span(talker.choice.explain(), "faint"))
        if app.err.is_terminal and not app.as_json:
            talker.tell_session()
        result = talker.ask_quietly(text) if app.as_json else talker.answer(text)
        if not app.as_json:
            talker.tell_pause(result)
        if app.as_json:
            asked = {"agent": talker.agent_id, "model": talker.choice.name, "suspended": result.status == "waiting"}
            app.out.json(filled(RunAnswer, result, usage=msgspec.to_builtins(result.usage), **asked))
        return EXIT_FINE if result.limit is None else EXIT_FAILED
    finally:
        talker.close()


def given_prompt(words: tuple[str, ...]) -> str:
    """Return the words of a command line, or standard input for ``-``. Raises UsageError if empty."""
    text = plain_text(standard_input().read() if words == ("-",) else " ".join(words))
    if not text.strip():
        raise UsageError("the prompt is empty", remedy="Give some words, or text on stdin with -.")
    return text
