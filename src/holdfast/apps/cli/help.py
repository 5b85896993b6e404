"""``holdfast help``: what a command does, with examples."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App, cli
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._help import print_help, with_shared_options
from holdfast.apps.cli._options import store_option

__all__ = ["command", "complete_command", "find_command"]


def complete_command(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The commands that begin like this."""
    names = cli.list_commands(ctx)
    return (
        [] if ctx.params.get("words") else [name for name in names if name.startswith(incomplete)]
    )


@click.command(
    "help",
    short_help="Explain a command.",
    epilog="""\b
Examples:
  holdfast help
  holdfast help show
  holdfast help acp proxy
""",
)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=complete_command)
@store_option
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, with examples; without one list them all."""
    app: App = ctx.obj
    found = find_command(words)
    print_help(app, found.get_help())


def find_command(words: tuple[str, ...]) -> click.Context:
    """The command of that name, such as `acp proxy`, as if it were called.

    Raises click's UsageError with the nearest name if there is none.
    """
    context = with_shared_options(cli).make_context("holdfast", [], resilient_parsing=True)
    for word in words:
        group = context.command
        known = group.list_commands(context) if isinstance(group, click.Group) else []
        next_ = group.get_command(context, word) if isinstance(group, click.Group) else None
        if next_ is None:
            name = " ".join([*context.command_path.split()[1:], word])[:60]
            context.fail(f"there is no command {name!a}{suggestion(word, known)}")
        context = next_.make_context(word, [], context, resilient_parsing=True)
    return context
