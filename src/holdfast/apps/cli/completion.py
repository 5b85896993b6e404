"""``holdfast completion``: let a shell complete commands, options, ids and tags."""

from __future__ import annotations

import os
from pathlib import Path

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._completion import SHELLS, script
from holdfast.apps.cli._options import store_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError
from holdfast.storage import place_file

__all__ = ["command"]

_PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/holdfast"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_holdfast"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/holdfast.fish"),
}


@click.command(
    "completion",
    short_help="Let your shell complete commands, ids and tags.",
    epilog="""\b
Examples:
  holdfast completion bash --install
  holdfast completion zsh --install
  holdfast completion fish --install
  holdfast completion bash > holdfast.bash    to put it somewhere yourself
""",
)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.option("--install", is_flag=True, help="Write it where the shell looks for such scripts.")
@store_option
@click.pass_obj
def command(app: App, shell: str | None, *, install: bool) -> None:
    """Print the script by which a shell completes commands, options, ids, tags and formats.

    Without a name it is for the shell that SHELL names. With --install the script is written to
    where bash (with the package bash-completion), zsh or fish look for it; begin a new shell then.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SHELLS:
        raise UsageError("which shell is it for?", remedy=f"Say one of: {', '.join(SHELLS)}.")
    if not install:
        app.out.sink(is_json=False).write(script(chosen).encode())
        return
    variable, usual, name = _PLACES[chosen]
    path = Path(os.environ.get(variable) or Path.home() / usual) / name
    place_file(path, [script(chosen).encode()], overwrite=True, make_folders=True)
    app.out.line("wrote ", Span(str(path), "name"))
    if chosen == "zsh":
        app.out.line("If zsh does not find it, have this in .zshrc before compinit:")
        app.out.line(f"  fpath=({path.parent} $fpath)")
