"""What the options of ``chat`` and ``run`` ask for. Loads nothing of the agent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO, TypeVar

import click

from holdfast.apps.cli._options import complete_agent

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
        click.option("--model", metavar="NAME", help="The model, such as openai:gpt-5 or local."),
        click.option(
            "--agent",
            metavar="ID",
            shell_complete=complete_agent,
            help="The agent whose sessions these are.",
        ),
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
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin
