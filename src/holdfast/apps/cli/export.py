"""Sessions for elsewhere: as a document or a bundle, for another tool, in another store."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._options import (
    PROVIDERS,
    AtLeast,
    complete_folder,
    json_option,
    named_option,
    option,
    session_argument,
    sessions_argument,
    verb,
)
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted, size
from holdfast.errors import UsageError

# Named here too, so that `--help` needs nothing of the formats; a test compares the two.
_DOCUMENTS = ("markdown", "html", "text", "json", "jsonl", "bundle")
_TOOLS = ("claude-code", "codex", "gemini-cli", "opencode", "openagent-terminal")
FORMATS = (*_DOCUMENTS, *_TOOLS, *PROVIDERS)
_SUFFIXES = dict(zip((".md", ".html", ".txt", ".json", ".jsonl", ".holdfast"), _DOCUMENTS, strict=True))
_SUFFIXES |= {".htm": "html", ".markdown": "markdown"}
_LONG_BYTES = 4 << 20
_PASSPHRASE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - the name of the variable


@verb("export")
@session_argument
@option(
    "--format FORMAT",
    f"One of: {', '.join(FORMATS)}. Default: by the name of the file, else markdown.",
    type=click.Choice(FORMATS),
)
@named_option("-o", "--output", of="file", help="Write to this file or directory.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@option("--at SEQ", "The session as of this event.", type=AtLeast(0))
@option("--zone ZONE", "Time zone: UTC (default), local, or a name.")
@named_option("--cwd", of="folder", help="Project directory for a tool's own format (default: the current one).")
@option("--model NAME", "Model name to write into a tool's own format.")
@click.option("--seal", is_flag=True, help="Encrypt the bundle with a passphrase (prompted).")
@option("--sign SOURCE", "Sign the file with this key (writes a detached signature).")
@click.option("--install", is_flag=True, help="Install a tool's own format where the tool finds it.")
@json_option
def export_verb(app: App, /, *, id: str, format: str | None, install: bool, **given: Any) -> None:
    """Export a session, by default as Markdown to standard output.

    Files are written atomically, readable only by you, and never overwritten without --force. With
    --install a coding agent (claude-code, codex, gemini-cli, opencode) can continue the session; the
    command to do so is printed.

    Examples:
      holdfast export trip-planner > trip.md
      holdfast export - -o trip.html
      holdfast export trip-planner --format bundle -o trip.holdfast --seal
      holdfast export trip-planner --format claude-code --install
      holdfast export trip-planner --format openai | jq length
    """
    if app.as_json and not install:
        if format not in (None, "json"):
            raise UsageError(f"--json and --format {format} cannot be used together")
        format = "json"
    session_id = choose(app.library, id)
    if install:
        _install(app, session_id, format, given)
    else:
        _export(app, session_id, format, given)


def format_by_name(path: str | None) -> str:
    """Return the format for the name of a file; markdown without a suffix. Raises UsageError for an unknown one."""
    suffix = os.path.splitext(path or "")[1].lower()
    if suffix not in _SUFFIXES and suffix[1:].isalpha():
        remedy = f"Choose a name that ends in {', '.join(_SUFFIXES)}, or a --format."
        raise UsageError(f"no format is written to {suffix} files", remedy=remedy)
    return _SUFFIXES.get(suffix, "markdown")


def _export(app: App, session_id: str, format: str | None, given: dict[str, Any]) -> None:
    output = given["output"]
    chosen = format or format_by_name(output)
    options: dict[str, Any] = {name: given[name] for name in ("zone", "cwd", "model") if given[name] is not None}
    if given["seal"]:
        options["passphrase"] = _passphrase(chosen)
    if given["sign"] is not None:
        options["sign"] = given["sign"]
    if output is not None and output != "-":
        options |= {"to": output, "overwrite": given["force"]}
    elif chosen == "bundle" and app.out.is_terminal:
        raise UsageError("refusing to write a bundle to a terminal", remedy="Use -o FILE.")
    else:
        options["to"] = app.out.sink(is_json=chosen not in ("markdown", "html", "text", "bundle"))
    is_file = isinstance(options["to"], str)
    # A line that comes and goes would be drawn into a document that is itself on the screen.
    has_meter = app.err.is_terminal and (is_file or not app.out.is_terminal)
    is_long = has_meter and app.library.info(session_id).size_bytes >= _LONG_BYTES
    with app.err.meter("exporting") if is_long else nullcontext() as progress, force_named():
        app.library.export(session_id, chosen, at=given["at"], progress=progress, **options)
    if is_file and app.err.is_terminal:
        app.err.line("wrote ", Span(output, "name"))


@contextmanager
def force_named() -> Iterator[None]:
    """Say by which option a file is replaced, where that is what is in the way."""
    try:
        yield
    except UsageError as error:
        # The library speaks of its argument, which here is an option.
        if "overwrite" in (error.remedy or ""):
            error.remedy = "Choose another file, or replace it with --force."
        raise


def _passphrase(format: str) -> str:
    if format != "bundle":
        raise UsageError(f"only bundles can be sealed, not {format}", remedy="--format bundle")
    # Never an option: other users can see the arguments of a process.
    if found := os.environ.get(_PASSPHRASE):
        return found
    if not sys.stdin.isatty():
        raise UsageError("a passphrase is required to seal", remedy=f"Set {_PASSPHRASE}.")
    prompted: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)
    return prompted


def _install(app: App, session_id: str, format: str | None, given: dict[str, Any]) -> None:
    if format is None:
        raise UsageError("--install needs the format of a tool", remedy="For example: --format claude-code.")
    if given["output"] or given["seal"]:
        raise UsageError("--install cannot be combined with -o or --seal", remedy="It chooses the file itself.")
    with force_named():
        done = app.library.install(
            session_id, format, cwd=given["cwd"], at=given["at"], model=given["model"], overwrite=given["force"]
        )
    if app.as_json:
        app.out.json(done)
        return
    app.err.line("wrote ", Span(done.path, "name"))
    app.err.line("Continue there with:")
    app.out.line(done.command)


@verb("copy")
@sessions_argument(required=False)
@option("--to URL", "The target store.", name="target", required=True, shell_complete=complete_folder)
@json_option
def copy_verb(app: App, /, *, ids: tuple[str, ...], target: str) -> int:
    """Copy sessions with their snapshots and documents; without IDs, all sessions and agents.

    Everything copied is verified by checksum. Run the same command again to resume an interrupted copy or
    to bring it up to date. The source is not changed. Sessions that differ at the target, and what an
    agent learned there, are reported and left alone.

    Examples:
      holdfast copy --to postgresql://db.example/sessions
      holdfast copy trip-planner --to ./backup
      holdfast --store old copy --to new --json
    """
    chosen = [choose(app.library, id) for id in ids] or None
    with app.err.meter("copying", in_bytes=True) as progress:
        done = app.library.copy_to(target, chosen, progress=progress)
    if app.as_json:
        app.out.json(done)
    else:
        app.out.line(
            f"copied {counted(len(done.sessions), 'session')}"
            f" and {counted(len(done.agents), 'agent')}, {size(done.size_bytes)};"
            f" {len(done.unchanged):,} were there already"
        )
        for name, why in done.failed.items():
            app.err.line(Span("failed ", "bad"), Span(name, "name"), f"  {why}")
    return EXIT_FAILED if done.failed else EXIT_FINE
