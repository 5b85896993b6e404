"""``holdfast doctor``: where the store is, how it is, and what is missing."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE
from holdfast.apps.cli._health import (
    BAD,
    WARNING,
    check_model,
    check_settings,
    check_store,
    place_and_reason,
)
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted
from holdfast.library.answers.store import Check, DoctorAnswer, OptionalPart, StoreHealth
from holdfast.model import FORMAT_VERSION, VERSION
from holdfast.storage.sqlite import sqlite_version

__all__ = ["command"]

_PACKAGES = ("msgspec", "click", "rich", "platformdirs", "backports.zstd")
_STYLES = {"ok": "good", "warning": "warning", "bad": "bad"}
_MARKS = {"ok": "ok ", "warning": "!  ", "bad": "bad"}
_NAME_CHARS = 16
_INDENT = 5 + _NAME_CHARS


@click.command(
    "doctor",
    short_help="Say where the store is, how it is, and what is missing.",
    epilog="""\b
Examples:
  holdfast doctor
  holdfast doctor --store ./.holdfast
  holdfast doctor --json
""",
)
@json_option
@store_option
@click.pass_obj
def command(app: App, *, as_json: bool) -> int:
    """Say where the store is and why, how it is, which versions run, and what is missing.

    How it is: whether it answers, who can look into it, what a crash can cost, who has sessions
    open, how far the catalogue is behind and whether it fits the logs, damage, space, keys, and
    which model would answer. Nothing is written but the catalogue. The exit code is 4 if something
    is wrong. Of the sessions only the newest are looked at; `holdfast verify --all` looks at every
    byte of all.
    """
    place, reason = place_and_reason(app)
    checks = [*check_store(app, compare=True), *check_settings(), check_model()]
    extras = find_extras()
    healthy = all(check.state != BAD for check in checks)
    if as_json:
        store = StoreHealth(place=place, reason=reason, checks=checks)
        app.out.json(DoctorAnswer(healthy=healthy, store=store, versions=versions(), extras=extras))
    else:
        _print_store(app, place, reason, checks)
        _print_versions(app)
        _print_extras(app, extras)
        _print_verdict(app, checks)
    return EXIT_FINE if healthy else EXIT_DAMAGED


def versions() -> dict[str, str | None]:
    """What runs here."""
    found: dict[str, str | None] = {
        "holdfast": VERSION,
        "format": str(FORMAT_VERSION),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite_version(),
    }
    needed = [name for name in _PACKAGES if name != "backports.zstd" or sys.version_info < (3, 14)]
    return found | {name: installed_version(name) for name in needed}


def _print_store(app: App, place: str, reason: str, checks: list[Check]) -> None:
    app.out.line(Span("Store", "strong"))
    app.out.line(f"     {'place':{_NAME_CHARS}}", Span(place, "name"))
    app.out.line(f"     {'':{_NAME_CHARS}}", Span(reason, "faint"))
    for check in checks:
        app.out.line(
            " ",
            Span(_MARKS[check.state], _STYLES[check.state]),
            f" {check.name:{_NAME_CHARS}}{check.finding}",
            hang=_INDENT,
        )
        if check.remedy:
            app.out.line(f"     {'':{_NAME_CHARS}}{check.remedy}", hang=_INDENT)


def _print_versions(app: App) -> None:
    app.out.line()
    app.out.line(Span("Versions", "strong"))
    for name, found in versions().items():
        app.out.line(f"     {name:{_NAME_CHARS}}{found or 'missing'}")


def _print_extras(app: App, extras: list[OptionalPart]) -> None:
    app.out.line()
    app.out.line(Span("Optional parts", "strong"))
    for extra in extras:
        if extra.installed:
            app.out.line(" ", Span("ok ", "good"), f" {extra.name:{_NAME_CHARS}}{extra.gives}")
        else:
            app.out.line(Span(f"  -  {extra.name:{_NAME_CHARS}}{extra.gives}", "faint"))
    missing = next((extra for extra in extras if not extra.installed), None)
    if missing is not None:
        app.out.line(Span(f"     Add one with, for instance: {missing.install}", "faint"))


def _print_verdict(app: App, checks: list[Check]) -> None:
    app.out.line()
    bad = sum(check.state == BAD for check in checks)
    warnings = sum(check.state == WARNING for check in checks)
    if bad:
        app.out.line(Span(f"{counted(bad, 'thing')} must be mended; see above.", "bad"))
    elif warnings:
        app.out.line(Span(f"It works; {counted(warnings, 'thing')} to know above.", "warning"))
    else:
        app.out.line(Span("Everything is fine.", "good"))


# The optional parts of Holdfast: what each gives, and whether it is installed.


# By the names of the extras in pyproject.toml; a test compares the two.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agent": ("agents on any provider's model", ("pydantic-ai-slim",)),
    "local": ("a model that runs on this machine", ("xllamacpp",)),
    "tokens": ("exact token counts without a network", ("splintr-rs",)),
    "crypto": ("sealed sessions and keys", ("cryptography", "keyring")),
    "postgres": ("stores in PostgreSQL", ("asyncpg",)),
    "s3": ("stores in S3 and its kin", ("obstore",)),
    "tui": ("the terminal app", ("markdown-it-py", "textual")),
    "web": (
        "the web app and the HTTP service",
        ("jinja2", "markdown-it-py", "starlette", "uvicorn", "websockets"),
    ),
    "acp": ("editors and agents, by ACP; nothing more is needed", ()),
    "mcp": ("tools for models, by MCP", ("mcp",)),
    "otel": ("traces and metrics by OpenTelemetry", ("opentelemetry-api",)),
    "openai-agents": ("sessions of the OpenAI Agents SDK", ("openai-agents",)),
    "langgraph": ("checkpoints of LangGraph", ("langgraph", "langgraph-checkpoint")),
    "adk": ("sessions of Google's ADK", ("google-adk",)),
    "strands": ("sessions of Strands Agents", ("strands-agents",)),
    "claude-sdk": ("sessions of the Claude Agent SDK", ("anyio", "claude-agent-sdk")),
    "pydantic-ai": ("histories of Pydantic AI", ("pydantic-ai-slim",)),
}


def find_extras() -> list[OptionalPart]:
    """Every optional part, and what it lacks."""
    return [_look(name, gives, packages) for name, (gives, packages) in EXTRAS.items()]


def installed_version(package: str) -> str | None:
    """The version of an installed package; None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _look(name: str, gives: str, packages: tuple[str, ...]) -> OptionalPart:
    missing = tuple(package for package in packages if installed_version(package) is None)
    return OptionalPart(name, gives, not missing, missing, f"pip install 'holdfast[{name}]'")
