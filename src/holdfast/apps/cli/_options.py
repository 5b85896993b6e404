"""Options and arguments that verbs share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from holdfast.apps.cli._app import LOADED, VERBS, App, unseen_option, with_shared_options
from holdfast.apps.render.words import moment_of
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Under this name a context keeps the store for the completion of what follows.
STORE = "holdfast.store"

F = TypeVar("F", bound=Callable[..., Any])

# Named here too, so that `--help` needs nothing of the replay; a test compares the two.
PROVIDERS = ("neutral", "anthropic", "openai", "openai-responses", "gemini", "mistral", "pydantic-ai")
INCOMPLETE = ("mark", "drop", "keep")
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


def option(form: str, help: str, *, name: str | None = None, of: str = "", **more: Any) -> Callable[[F], F]:
    """Return an option by its form on the help page, such as ``--rate N``; a default that it has is shown there.

    What takes one of a few words has them in ``of``, and may leave the name of its value out.
    """
    flag, *metavar = form.split()
    shown: dict[str, Any] = {"show_default": more.get("default") is not None, "metavar": "".join(metavar) or None}
    kind = {"type": click.Choice(of.split())} if of else {}
    return click.option(*filter(None, (flag, name)), help=help, **(shown | kind | more))


model_option = option("--model NAME", "The model, such as openai:gpt-5 or local.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


class AtLeast(click.IntRange):
    """A whole number that is not below ``least``; help leaves that to common sense."""

    name = "whole number"

    def __init__(self, least: int) -> None:
        super().__init__(min=least)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        number: int = click.INT.convert(value, param, ctx)
        if self.min is not None and number < self.min:
            self.fail(f"{number} is less than {self.min:.0f}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return ""


class When(click.ParamType[datetime]):
    """A moment; a day without a time means its beginning, or its end with ``end``."""

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment in the user's time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return moment_of(value.strip(), end=self._end)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value[:40]!a} is neither a date (2026-05-31) nor an age (3d, 2h, 30m)", param)


def _completed(what: str) -> Complete:
    """Return the completion from the store for one kind of name."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from holdfast.apps.cli._completion import offered

        return offered(ctx, what, incomplete)

    return complete


def _from_shell(kind: str) -> Complete:
    """Return the shell's own completion of files or folders."""

    def complete(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=kind)]

    return complete


complete_id = _completed("id")
complete_tag = _completed("tag")
complete_agent = _completed("agent")
complete_file = _from_shell("file")
complete_folder = _from_shell("dir")


# The verbs, and the options that several of them have.
def verb(
    name: str, group: click.Command | None = None, cls: type[click.Command] = click.Command, **more: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a verb of a function that takes the App first, or a part of the verb ``group``.

    Its docstring is its help. Examples at the end of it, and what follows them, stay as they are
    written. What it does in short is in the table of verbs, or of parts.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        # `\b` keeps click from joining the lines of a block.
        text, _, examples = inspect.cleandoc(function.__doc__ or "").partition("\n\nExamples:\n")
        blocks = f"Examples:\n{examples}\n".split("\n\n") if examples else []
        epilog = "\n\n".join(f"\b\n{block}" for block in blocks) or None
        short = (VERBS if group is None else getattr(group, "parts", {})).get(name)
        new = click.command(name, cls, help=text, epilog=epilog, short_help=short, **more)
        made = new(click.pass_obj(function))
        if group is None or cls is click.Command:  # a group in a group leaves it to its parts
            told = "The store: a path or a URL [env: HOLDFAST_STORE]."
            how: dict[str, Any] = {"callback": _use_store, "shell_complete": complete_folder}
            made.params.append(unseen_option(["--store"], metavar="URL", help=told, **how))
        if group is None:
            LOADED[name] = made
        else:
            assert isinstance(group, click.Group)
            group.add_command(with_shared_options(made))
        return made

    return make


def refuse(message: str) -> NoReturn:
    """Refuse a command line that asks for what does not go together. Raises click's UsageError."""
    click.get_current_context().fail(message)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds several options or arguments, in the order of the help page."""

    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _use_store(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Take the ``--store`` after the verb, which wins over one before it."""
    if value is not None:
        ctx.meta[STORE] = value
        if (app := ctx.find_object(App)) is not None:
            app.place = value


def _use_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if (app := ctx.find_object(App)) is not None:
        app.as_json = value


def _use_wait(ctx: click.Context, _: click.Parameter, value: float | None) -> None:
    app = ctx.find_object(App)
    if app is None:
        return
    # So that a failure about a session that is open elsewhere can name the option.
    app.takes_wait = True
    if value is None:
        return
    # click takes "nan" and "inf" for numbers.
    if not math.isfinite(value):
        raise click.BadParameter("not a number of seconds")
    app.wait_ms = round(value * 1000)


# The kinds of values: how help writes them, and how the shell completes them.
_NAMED: dict[str, tuple[str, Complete]] = {
    "agent": ("ID", complete_agent),
    "file": ("FILE", complete_file),
    "folder": ("DIR", complete_folder),
    "session": ("ID", complete_id),
    "tag": ("TAG", complete_tag),
}


def named_option(*names: str, of: str, help: str, **more: Any) -> Callable[[F], F]:
    """Return an option that names an agent, file, folder, session or tag, which the shell completes."""
    metavar, complete = _NAMED[of]
    return click.option(*names, metavar=metavar, shell_complete=complete, help=help, **more)


_FILTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "tags": ("--tag", {"multiple": True, "metavar": "TAG", "shell_complete": complete_tag}),
    "since": ("--since", {"type": When(), "metavar": "WHEN"}),
    "until": ("--until", {"type": When(end=True), "metavar": "WHEN"}),
    "agent_id": ("--agent", {"metavar": "ID", "shell_complete": complete_agent}),
    "model": ("--model", {"metavar": "NAME"}),
}


def filter_options(**helps: str) -> Callable[[F], F]:
    """Return the options that narrow what is shown, each with its help, by the library's arguments."""
    rows = ((name, help, *_FILTERS[name]) for name, help in helps.items())
    return together(*(click.option(option, name, help=help, **more) for name, help, option, more in rows))


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Say which extra of the package to install where an import finds something missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        told = f"this command needs the package {error.name}, which is not installed"
        raise UsageError(told, remedy=f"Install it with: pip install 'holdfast[{name}]'") from error


# For a session that another process has, by verbs that write to it.
wait_option = option(
    "--wait SECONDS",
    "How long to wait for a session that is open elsewhere.",
    type=click.FloatRange(min=0),
    expose_value=False,
    callback=_use_wait,
)
json_option = click.option("--json", is_flag=True, expose_value=False, callback=_use_json, help="Print JSON.")


def limit_option(default: int) -> Callable[[F], F]:
    """Return the option ``--limit``: the maximum number shown; 0 for all."""
    told = "Maximum number to show; 0 for all."
    return option("--limit N", told, name="-n", type=AtLeast(0), default=default)


def port_option(default: int, help: str = "The port") -> Callable[[F], F]:
    """Return the option ``--port`` of a server; 0 chooses a free port."""
    told, kind = f"{help}; 0 picks a free one.", click.IntRange(0, 65535)
    return option("--port N", told, type=kind, default=default)


def host_option(metavar: str, help: str) -> Callable[[F], F]:
    """Return the option ``--host``: the address on which a server listens."""
    return click.option("--host", default="127.0.0.1", show_default=True, metavar=metavar, help=help)


provider_options = together(
    option("--provider NAME", f"Message format: {', '.join(PROVIDERS)} (default: neutral).", of=" ".join(PROVIDERS)),
    option(
        "--incomplete", "Calls without a result: mark as interrupted (default), drop or keep.", of=" ".join(INCOMPLETE)
    ),
    option("--window-tokens N", "Keep only the most recent messages that fit into N tokens.", type=AtLeast(1)),
)

# A session's id, the beginning of one, or ``-`` for the newest.
session_argument = click.argument("id", metavar="ID", shell_complete=complete_id)


def sessions_argument(*, required: bool = True) -> Callable[[F], F]:
    """Return the argument ``ID...``, or ``[ID]...`` where sessions may be left out."""
    shown = "ID..." if required else "[ID]..."
    return click.argument("ids", metavar=shown, nargs=-1, required=required, shell_complete=complete_id)
