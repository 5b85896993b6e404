"""Checks of the store: verify, repair, reindex, doctor."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast import errors
from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose, session_ids
from holdfast.apps.cli._failure import EXIT_DAMAGED, EXIT_FINE, explain
from holdfast.apps.cli._health import BAD, WARNING, check_model, check_settings, check_store, place_and_reason
from holdfast.apps.cli._options import complete_id, json_option, option, refuse, sessions_argument, verb
from holdfast.apps.cli._progress import progress
from holdfast.apps.render.page import Span
from holdfast.apps.render.words import counted, size
from holdfast.model import FORMAT_VERSION, VERSION, Gap
from holdfast.session import Report
from holdfast.storage.sqlite import sqlite_version

if TYPE_CHECKING:
    from holdfast.library.answers import store as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "store")

_PACKAGES = ("msgspec", "click", "rich", "platformdirs", "backports.zstd")
_MARKS = {"ok": Span("ok ", "good"), "warning": Span("!  ", "warning"), "bad": Span("bad", "bad")}
_NAME_CHARS = 16
_INDENT = 5 + _NAME_CHARS


@verb("verify")
@sessions_argument(required=False)
@click.option("--all", "everything", is_flag=True, help="Check every session of the store.")
@option("--since FILE", "Earlier output of --json; everything listed there must still exist.")
@json_option
def verify_verb(app: App, ids: tuple[str, ...], *, everything: bool, since: str | None) -> int:
    """Check every byte of sessions and report damage in plain words.

    Changes nothing. The exit code is 4 if anything is damaged. An incomplete last line, as left by a crash, is
    not damage: it cannot contain anything that was acknowledged.

    A store that was rolled back as a whole looks intact. To detect that, keep the output of --json in a safe
    place and compare with --since.

    Examples:
      holdfast verify trip-planner
      holdfast verify --all
      holdfast verify --all --json | jq '.reports[] | select(.ok | not)'
      holdfast verify --all --json > heads.json
      holdfast verify --all --since heads.json
    """
    if everything == bool(ids):
        refuse("specify sessions to verify, or --all")
    wanted = session_ids(app.library) if everything else [choose(app.library, id) for id in ids]
    heads: dict[str, str] = {}
    if since is not None:
        # Read first: a wrong file is refused before hours of reading.
        try:
            from holdfast.storage import read_file

            found = msgspec.json.decode(b"".join(read_file(os.path.abspath(since))), type=_Earlier)
        except (ValueError, RecursionError) as error:
            raise errors.InvalidData(f"{since} is not what `holdfast verify --json` prints") from error
        heads = {one.session_id: one.head for one in found.reports if one.head}
    reports: list[Report] = []
    whole = 0
    for id in progress(app.err, wanted, "verifying"):
        report = _verify(app, id, heads.pop(id, None))
        # For all sessions only problems are reported: the other reports are not kept.
        if everything and report.ok and not app.as_json:
            whole += 1
        else:
            reports.append(report)
    if everything and heads:
        # The remaining ones were known before and not found now.
        deleted = {one.session_id for one in app.library.trash.list()}
        reason = "It was there before, and is neither there nor in the trash any more."
        gone = sorted(heads.keys() - deleted)
        reports += [_Unreadable(session_id=id, ok=False, kept=False, reason=reason) for id in gone]
    if app.as_json:
        app.out.json(answers.VerifyReports(reports=[answers.VerifyReport.of(report) for report in reports]))
    else:
        _tell(app, reports, whole if everything else None)
    return EXIT_FINE if all(report.ok for report in reports) else EXIT_DAMAGED


class _Unreadable(Report, frozen=True, kw_only=True):
    """The report of a session that could not be looked at."""

    reason: str = ""

    def explain(self) -> list[str]:
        """Return the reasons why it could not be done."""
        return [self.reason]


class _Noted(msgspec.Struct):
    session_id: str
    head: str = ""


class _Earlier(msgspec.Struct):
    reports: list[_Noted]


def _verify(app: App, session_id: str, head: str | None) -> Report:
    try:
        with contextlib.suppress(errors.KeyMissing, errors.Tampered):
            app.library.state(session_id)  # refuses a newer format, whose bytes cannot be judged
        return app.library.verify(session_id, head=head)
    except errors.NotFound:
        raise
    # One session that cannot be read must not keep the others from being checked.
    except (errors.DataError, errors.SecurityError, errors.StoreError) as error:
        message, remedy, *_ = explain(error)
        reason = f"{message[:1].upper()}{message[1:]}. {remedy}"
        return _Unreadable(session_id=session_id, ok=False, reason=reason)


def _tell(app: App, reports: list[Report], whole: int | None) -> None:
    """Say what was found in full; if all were looked at, also how many more are whole."""
    for report in reports:
        mark = Span("ok       ", "good") if report.ok else Span("damaged  ", "bad")
        app.out.line(mark, app.name(report.session_id))
        for sentence in report.explain():
            app.out.text(sentence)
        if report.gaps:
            app.out.text(f"Mend it with: holdfast repair {app.short(report.session_id)}", style="strong")
    if whole is not None:
        summary = f"{counted(whole, 'session')} whole, {len(reports):,} damaged"
        app.out.line(Span(summary, "bad" if reports else "good"))


@verb("repair")
@click.argument("id", metavar="[ID]", required=False, shell_complete=complete_id)
@option("--agent AGENT", "Repair the documents of this agent instead.")
@json_option
def repair_verb(app: App, id: str | None, *, agent: str | None) -> None:
    """Replace a damaged log by one with everything that is intact.

    The old bytes are kept in the session's quarantine, and intact events keep their numbers. Undamaged
    sessions are left alone. Fails if the session is open in another program.

    With --agent, repairs the documents of an agent (memory, permissions, plugin state): unreadable ones are
    moved to its quarantine and started afresh.

    Examples:
      holdfast verify trip-planner
      holdfast repair trip-planner
      holdfast repair --agent assistant
    """
    if (id is None) == (agent is None):
        raise errors.UsageError("specify either a session or --agent", remedy="Name a session, or give --agent.")
    if agent is not None:
        _repair_agent(app, agent)
        return
    assert id is not None
    session_id = choose(app.library, id)
    app.library.state(session_id)  # a newer format is refused before anything is touched
    gaps = app.library.repair(session_id)
    # Nothing is thrown away: an expert can still examine the old bytes.
    kept = f"{app.library.location(session_id)}/quarantine" if gaps else None
    if app.as_json:
        app.out.json(answers.RepairedSession(session_id=session_id, gaps=gaps, quarantine=kept))
        return
    if kept is None:
        app.out.line("There is nothing to repair: ", app.name(session_id), " is whole.")
        return
    lost = sum(gap.last_seq - gap.first_seq + 1 for gap in gaps)
    app.out.line(Span("repaired ", "good"), app.name(session_id), f": {counted(lost, 'event')} lost")
    for gap in gaps:
        app.out.text(_explain(gap))
    app.out.line(f"  The old bytes are kept in {kept}")


def _repair_agent(app: App, agent: str) -> None:
    done = app.library.agents.repair(agent)
    if app.as_json:
        app.out.json(answers.RepairedAgent(agent_id=agent, documents=done))
    elif not done:
        app.out.line("There is nothing to repair: what ", Span(agent, "name"), " has is whole.")
    else:
        app.out.line(Span("repaired ", "good"), Span(agent, "name"))
        for what in done.values():
            app.out.text(f"{what}.")


def _explain(gap: Gap) -> str:
    where = f"{size(gap.size)} at byte {gap.offset:,}"
    count = gap.last_seq - gap.first_seq + 1
    # How many there were after it cannot be known.
    if gap.at_end:
        return f"At least {counted(count, 'event')} from {gap.first_seq} on are lost ({where})."
    # Garbage between two events that follow each other by number.
    if count <= 0:
        return f"{where} were no event; none is lost."
    if count == 1:
        return f"Event {gap.first_seq} is lost ({where})."
    return f"Events {gap.first_seq} to {gap.last_seq} are lost ({where})."


@verb("reindex")
@json_option
def reindex_verb(app: App, /) -> None:
    """Rebuild the catalogue used by list, search and stats from the logs.

    You should never need this: a missing, damaged or outdated catalogue is rebuilt automatically. It also
    forgets that a log was once longer than it is now.

    Examples:
      holdfast reindex
      holdfast reindex --json
    """
    with app.err.meter("reading", in_bytes=True) as show:
        done = app.library.reindex(show)
    if app.as_json:
        app.out.json(done)
        return
    app.out.line(
        f"Read {counted(done.sessions, 'session')} with {counted(done.events, 'event')},"
        f" {size(done.bytes)}, in {done.seconds:.1f} s."
    )


@verb("doctor")
@json_option
def doctor_verb(app: App) -> int:
    """Check the health of the store and the installation.

    Reports where the store is and why, access rights, durability, open sessions, the state of the catalogue,
    damage, disk space, keys, the model that would answer, versions and optional packages. Writes nothing
    but the catalogue. The exit code is 4 if something is wrong. Only the newest sessions are checked for
    damage; use `holdfast verify --all` to check everything.

    Examples:
      holdfast doctor
      holdfast doctor --store ./.holdfast
      holdfast doctor --json
    """
    place, reason = place_and_reason(app)
    checks = [*check_store(app, compare=True), *check_settings(), check_model()]
    extras = find_extras()
    healthy = all(check.state != BAD for check in checks)
    if app.as_json:
        store = answers.StoreHealth(place=place, reason=reason, checks=checks)
        app.out.json(answers.DoctorAnswer(healthy=healthy, store=store, versions=versions(), extras=extras))
    else:
        _print_store(app, place, reason, checks)
        app.out.line()
        app.out.line(Span("Versions", "strong"))
        for name, found in versions().items():
            app.out.line(f"     {name:{_NAME_CHARS}}{found or 'missing'}")
        _print_extras(app, extras)
        app.out.line()
        warnings = sum(check.state == WARNING for check in checks)
        if not healthy:
            bad = sum(check.state == BAD for check in checks)
            app.out.line(Span(f"{counted(bad, 'thing')} must be mended; see above.", "bad"))
        elif warnings:
            app.out.line(Span(f"It works; {counted(warnings, 'thing')} to know above.", "warning"))
        else:
            app.out.line(Span("Everything is fine.", "good"))
    return EXIT_FINE if healthy else EXIT_DAMAGED


def versions() -> dict[str, str | None]:
    """Return the versions in use."""
    found: dict[str, str | None] = {
        "holdfast": VERSION,
        "format": str(FORMAT_VERSION),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite_version(),
    }
    # Python has zstd itself from 3.14 on.
    needed = [name for name in _PACKAGES if name != "backports.zstd" or sys.version_info < (3, 14)]
    return found | {name: _installed_version(name) for name in needed}


def _print_store(app: App, place: str, reason: str, checks: list[answers.Check]) -> None:
    app.out.line(Span("Store", "strong"))
    app.out.line(f"     {'place':{_NAME_CHARS}}", Span(place, "name"))
    app.out.line(f"     {'':{_NAME_CHARS}}", Span(reason, "faint"))
    for check in checks:
        app.out.line(" ", _MARKS[check.state], f" {check.name:{_NAME_CHARS}}{check.finding}", hang=_INDENT)
        if check.remedy:
            app.out.line(f"     {'':{_NAME_CHARS}}{check.remedy}", hang=_INDENT)


def _print_extras(app: App, extras: list[answers.OptionalPart]) -> None:
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


# The optional parts of Holdfast: what each gives, and whether it is installed. By the names of the extras in
# pyproject.toml; a test compares the two.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agent": ("agents on any provider's model", ("pydantic-ai-slim",)),
    "local": ("a model that runs on this machine", ("xllamacpp",)),
    "tokens": ("exact token counts without a network", ("splintr-rs",)),
    "crypto": ("sealed sessions and keys", ("cryptography", "keyring")),
    "postgres": ("stores in PostgreSQL", ("asyncpg",)),
    "s3": ("stores in S3 and its kin", ("obstore",)),
    "tui": ("the terminal app", ("textual",)),
    "web": ("the web app and the HTTP service", ("jinja2", "starlette", "uvicorn", "websockets")),
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


def find_extras() -> list[answers.OptionalPart]:
    """Return every optional part with what it lacks."""
    found = []
    for name, (gives, packages) in EXTRAS.items():
        missing = tuple(package for package in packages if not _is_installed(package))
        found.append(answers.OptionalPart(name, gives, not missing, missing, f"pip install 'holdfast[{name}]'"))
    return found


def _is_installed(package: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution  # takes long to load, and only doctor asks

    try:
        return bool(distribution(package))  # its metadata, with the version, takes long to read
    except PackageNotFoundError:
        return False


def _installed_version(package: str) -> str | None:
    from importlib.metadata import version

    return version(package) if _is_installed(package) else None
