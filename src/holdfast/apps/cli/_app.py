"""The command as a whole: its verbs, their common parts, and how failures are reported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from holdfast._lazy import when_loaded
from holdfast.apps.cli._failure import explain, suggestion, tell_failure, tell_warning
from holdfast.apps.cli._screen import COLOURS, standard_error, standard_output
from holdfast.apps.render.page import Span
from holdfast.model import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from holdfast.agent import Kit
    from holdfast.apps.cli._pager import Held
    from holdfast.library import Holdfast

# The verbs as `holdfast --help` shows them, so that help loads none of them.
SECTIONS = {
    "Chat": {
        "chat": "Chat with an agent in a persistent session.",
        "run": "Run a single prompt in a persistent session.",
        "tui": "Browse, read, search and chat in a terminal app.",
        "web": "Browse, read, search and chat in a web browser.",
    },
    "Approvals": {
        "waiting": "List tool calls waiting for approval.",
        "approve": "Approve a waiting tool call.",
        "deny": "Deny a waiting tool call.",
    },
    "Browse": {
        "list": "List sessions, newest first.",
        "search": "Search the contents of sessions.",
        "show": "Show a session's conversation, events, state or messages.",
        "stats": "Show tokens, cost, activity, tools and topics.",
        "snapshots": "List the snapshots of a session.",
        "recover": "Print a valid message list from a session or log file.",
        "export": "Export a session as a document, a bundle, or for another tool.",
        "import": "Import sessions from other tools, bundles and message lists.",
    },
    "Branch": {
        "fork": "Create a session from any point of another one.",
        "compare": "Compare two sessions side by side.",
        "merge": "Merge two sessions into a new one.",
        "restore": "Go back to an earlier point of a session.",
    },
    "Connect": {
        "acp": "Record agents used from editors (ACP), serve one, or prompt one.",
        "bridge": "Serve sessions and an agent to programs as lines of JSON.",
        "mcp": "Give other agents access to your sessions over MCP.",
        "serve": "Serve sessions and an agent over HTTP and WebSocket.",
    },
    "Maintain": {
        "title": "Show or set the title of a session.",
        "tag": "Show, add or remove the tags of a session.",
        "pin": "Protect a session from pruning, or place it under legal hold.",
        "verify": "Check sessions for damage.",
        "repair": "Repair a damaged session log.",
        "copy": "Copy sessions and agents to another store.",
        "redact": "Remove secrets from a session and its forks.",
        "encrypt": "Encrypt existing sessions.",
        "decrypt": "Decrypt sessions.",
        "rotate": "Change the key of all encrypted sessions.",
        "keys": "Manage encryption keys.",
        "archive": "Compress inactive sessions; they stay readable.",
        "prune": "Archive or delete sessions according to retention policies.",
        "delete": "Move sessions to the trash.",
        "undelete": "Restore sessions from the trash.",
        "erase": "Permanently destroy a session and its forks.",
        "config": "Show, check or locate the configuration.",
        "reindex": "Rebuild the catalogue from the logs.",
        "doctor": "Check the health of the store and the installation.",
        "metrics": "Print metrics about the store for Prometheus.",
    },
    "Help": {
        "help": "Show help for a command.",
        "completion": "Generate shell completion scripts.",
        "man": "Show or install manual pages.",
        "schema": "Print the JSON schema of a command's output.",
    },
}
# Long output for people: on a terminal a pager shows it if it does not fit on the screen.
PAGED = frozenset(
    "list search show stats snapshots recover export compare verify tag config doctor help schema".split()  # noqa: SIM905 - easier to read and to change
)
_NAME_CHARS = 10  # the longest verb, so that all sections are aligned
_HEADING = re.compile(r" {0,2}[A-Z][a-z ]+:$")
ALIASES = {"ls": "list", "rm": "delete", "cat": "show"}  # as people type them
COMPLETE_VARIABLE = "_HOLDFAST_COMPLETE"
VERBS = {name: text for verbs in SECTIONS.values() for name, text in verbs.items()}
LOADED: dict[str, click.Command] = {}  # the verbs whose modules are loaded; `verb` puts them here
# Verbs of one subject stand in one module; the others are in one of their own name.
_SUBJECTS = {
    "branches": "compare fork merge restore",
    "chat": "run",
    "checks": "doctor reindex repair verify",
    "export": "copy",
    "front_ends": "bridge mcp tui web",
    "help": "completion man",
    "import_": "import",
    "inbox": "approve deny waiting",
    "keys": "decrypt encrypt rotate",
    "labels": "pin tag title",
    "show": "snapshots",
    "stats": "metrics",
    "trash": "archive delete erase prune undelete",
}
MODULES = {name: module for module, names in _SUBJECTS.items() for name in names.split()}

_EPILOG = """\b
Examples:
  holdfast list --limit 5
  holdfast show -                  the newest session
  holdfast show 01jx --messages    any unique prefix of an id works
  holdfast doctor

\b
Exit codes:
  0 fine   1 failed   2 wrong usage   3 not found   4 damaged or refused
"""
C = TypeVar("C", bound=click.Command)
unseen_option = partial(click.Option, expose_value=False)  # one that the function of a verb does not get


class App:
    """The context of every verb: its output, and the store to use."""

    def __init__(self, place: str | None = None, told: Flags | None = None) -> None:
        told = told or Flags()
        self.place = place
        self.verb = ""
        self.takes_wait = False
        self.wait_ms: int | None = None
        """The time to wait for a session that another process has; None to use the settings."""
        self.as_json = told.as_json
        self._may_page = told.pager
        self.out = standard_output(told.colour)
        self.err = standard_error(told.colour)
        self._library: Holdfast | None = None
        self._paging: list[Held] = []

    @property
    def library(self) -> Holdfast:
        """The store, opened on first use. Raises as ``holdfast.open`` does."""
        if self._library is None:
            from holdfast.library import Holdfast

            # The verbs themselves report the library's warnings. Most have none, and need not load the module.
            when_loaded("logging", lambda logging: logging.getLogger("holdfast").addHandler(logging.NullHandler()))
            _check_store(self.place, self.verb)
            given = None if self.wait_ms is None else {"wait_ms": self.wait_ms}
            # A command's events are durable before it ends; no timer is needed.
            self._library = Holdfast(self.place, config=given, timers=False, redaction="mark")
            if self.can_ask:
                # Only then: a program that runs the command must get an error, not wait for a person.
                from getpass import getpass

                self._library.keys.ask_passphrase(getpass)
        return self._library

    def short(self, id: str) -> str:
        """Return as much of an id as tells it from every other."""
        return self.library.short_ids([id])[id]

    def name(self, key: str) -> Span:
        """Return the name of a session for the screen, by its id or its key; the whole key of anything else."""
        id = key.removeprefix("sessions/")
        return Span(id if "/" in id else self.short(id), "name")

    @property
    def where(self) -> str:
        """The store's place as people write it."""
        store = self.library.store
        path = getattr(store, "path", None)
        if path is None:
            from holdfast.storage import shown_url

            path = shown_url(store.url)
        return str(path)

    @property
    def can_ask(self) -> bool:
        """Return whether a person can be asked a question here."""
        return sys.stdin.isatty() and self.err.is_terminal

    def close(self) -> None:
        """Close the store, if it was opened, and let the reader of long output come to an end."""
        if self._library is not None:
            self._library.close()
        self.stop_paging()

    def page(self) -> None:
        """Use a pager for further output that does not fit on the terminal."""
        if not (self._may_page and self.out.is_terminal) or self._paging:
            return
        from holdfast.apps.cli._pager import Held, Paged, pager_commands

        commands = pager_commands()
        if not commands:
            return
        try:
            paged = Paged(self.out.beside, commands)
        except (OSError, ValueError):
            return  # its size is not known
        # Words on standard error would be drawn into the middle of what the pager shows.
        after = Held(self.err.beside)
        self.out.pass_through(paged)
        self.err.pass_through(after)
        self._paging = [paged, after]

    def stop_paging(self) -> None:
        """Write what is held back; afterwards output goes straight to the terminal."""
        paging, self._paging = self._paging, []
        for stream in paging:
            stream.finish()

    def warn(self, message: str, remedy: str = "") -> None:
        """Tell something on standard error that is no failure."""
        tell_warning(self.err, message, remedy, as_json=self.as_json)

    def tell_guide(self, kit: Kit | None) -> None:
        """Say on standard error that the guide answers and no model, where that is so."""
        if kit is not None and kit.is_guide:
            self.err.line(Span(kit.about, "faint"))
            self.err.flush()


class Parts(click.Group):
    """A command that has parts, whose names are known with what each does, in the order of the help page."""

    def __init__(self, *args: Any, parts: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.parts = parts

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the parts in the order of the help page."""
        return list(self.parts)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the part by click's rules, with a suggestion for a misspelt one."""
        name = args[0]
        if name not in self.parts and not name.startswith("-"):
            path = f"{self.name} " if ctx.parent else ""
            ctx.fail(f"there is no command {path}{name[:60]!a}{suggestion(name, self.parts)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the parts with what each does, uncut."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.parts.items()))


class _Verbs(Parts):
    """Verbs that are loaded when they are called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, also by the name that other commands have for it."""
        return super().resolve_command(ctx, [ALIASES.get(args[0], args[0]), *args[1:]])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        # The module registers its verbs as it is loaded.
        import_module(f"holdfast.apps.cli.{MODULES.get(cmd_name, cmd_name)}")
        return with_shared_options(LOADED[cmd_name])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{_NAME_CHARS}}", text) for name, text in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Offer the verbs that begin like this, with what they do; none of them is loaded."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from click.shell_completion import CompletionItem

        return [CompletionItem(name, help=text) for name, text in VERBS.items() if name.startswith(incomplete)]

    def main(  # type: ignore[override]  # click types two overloads; this serves both
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> int:
        """Run a verb; every failure becomes a sentence and an exit code."""
        words = sys.argv[1:] if args is None else list(args)
        # Made before the command line is parsed, so that --json and --color hold for what is wrong
        # with the rest of it too.
        app = App(None, asked(words))
        try:
            with_shared_options(self)
            if COMPLETE_VARIABLE in os.environ:
                from holdfast.apps.cli._completion import learn_shells

                learn_shells()
            found = super().main(words, "holdfast", complete_var, standalone_mode=False, obj=app, **extra)
            code = found if isinstance(found, int) else 0
            # A full disk or a closed pipe may show only now, while it can still be told.
            standard_output().flush()
        except BaseException as error:  # noqa: BLE001 - explained, never shown as a stack trace
            code = fail(app, error)
        if standalone_mode:
            sys.exit(code)
        return code


# They create a store if there is none; other verbs expect an existing one.
_MAKES_A_STORE = frozenset(
    [
        "chat",
        "run",
        "tui",
        "web",
        "import",
        "copy",
        "acp",
        "bridge",
        "mcp",
        "serve",
        "config",
        "doctor",
        "metrics",
        "help",
        "recover",
    ]
)


def _check_store(place: str | None, verb: str) -> None:
    """Raise NotFound for a store that ``--store`` names and that does not exist, with the one that may be meant."""
    from holdfast.storage import local_path

    # The library refuses invalid paths.
    if not place or "\0" in place or verb in _MAKES_A_STORE:
        return
    path = local_path(place)
    if path is None or os.path.lexists(path):
        return
    from holdfast.apps.cli._failure import likely_store
    from holdfast.errors import NotFound

    meant = likely_store(path)
    remedy = f"Did you mean {meant}?" if meant else "`holdfast doctor` shows where your store is."
    raise NotFound(f"there is no store at {path}", remedy=f"{remedy} `holdfast chat` and `holdfast import` create one.")


def with_shared_options(command: C) -> C:
    """Return the verb with ``--color``, ``--no-pager`` and a help that a pager shows if it is long."""
    # Once for each: a command is asked for again by completion, help and manual pages.
    if command.add_help_option:
        command.add_help_option = False
        # `asked` reads their values, so that they also apply to failures.
        told = "Use colours: auto (default), always or never."
        command.params += [
            unseen_option(["--color"], type=click.Choice(COLOURS), metavar="WHEN", help=told),
            unseen_option(["--no-pager"], is_flag=True, help="Do not pipe long output into a pager."),
            unseen_option(
                ["-h", "--help"], is_flag=True, is_eager=True, callback=_show_help, help="Show this message and exit."
            ),
        ]
    return command


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    # Completion parses half a line, and must not print.
    if not value or ctx.resilient_parsing:
        return
    app = ctx.find_object(App) or App()
    app.page()
    ctx.call_on_close(app.close)
    print_help(app, ctx.get_help())
    ctx.exit()


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    # `click.version_option` looks for a translation of its own words, however unlikely that it is asked for.
    if not value or ctx.resilient_parsing:
        return
    (ctx.find_object(App) or App()).out.line(f"holdfast {VERSION}")
    ctx.exit()


def print_help(app: App, text: str) -> None:
    """Print a page of help; its headings stand out where there are colours."""
    for line in text.splitlines():
        app.out.line(Span(line, "strong" if _HEADING.match(line) else ""))


@click.group(
    cls=_Verbs,
    parts=VERBS,
    invoke_without_command=True,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--store", metavar="URL", help="The store: a path or a URL [env: HOLDFAST_STORE].")
@click.option(
    "-v",
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def cli(ctx: click.Context, store: str | None) -> None:
    """Durable sessions for AI agents: browse, search, branch and maintain them.

    All options except --version may be given before or after the command.
    """
    app = ctx.ensure_object(App)
    app.place = store
    app.verb = ctx.invoked_subcommand or ""
    # The store is closed and the pager waited for whichever way the verb ends.
    ctx.call_on_close(app.close)
    if ctx.invoked_subcommand is not None:
        if ctx.invoked_subcommand in PAGED:
            app.page()
        return
    from holdfast.apps.cli.front_ends import has_terminal, is_installed, start

    # The bare name must neither fail, nor start an app in a script.
    if has_terminal() and is_installed():
        start(app)
        return
    app.page()
    print_help(app, ctx.get_help())
    if has_terminal():
        app.err.line("For the terminal app: pip install 'holdfast[tui]'")


def fail(app: App, error: BaseException) -> int:
    """Tell a failure in a sentence; the exit code."""
    failure = explain(error, waits=app.takes_wait, verb=app.verb)
    if failure.message:
        # A screen of its own: that of the app may be in the middle of something.
        tell_failure(standard_error(app.err.colour), failure, as_json=app.as_json)
    # Output that could not be written must not fail once more at exit.
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.stdout = None  # Python then leaves it alone
    # The sentence comes first, so that it is there with a stack trace below it too.
    if os.environ.get("HOLDFAST_TRACEBACK") and not isinstance(error, SystemExit):
        raise error
    return failure.code


# Options of every verb: known even if the rest of the command line is wrong.
class Flags(msgspec.Struct, frozen=True):
    """The output options of the command line."""

    as_json: bool = False
    colour: str | None = None
    pager: bool = True


def asked(arguments: Sequence[str]) -> Flags:
    """Return what the command line says about it, as far as it can be understood."""
    # The arguments after `--` belong to the command of an agent, which may have a --json of its own.
    words = list(takewhile(lambda word: word != "--", arguments))
    colour = None
    for word, after in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == "--color":
            colour = value if equals else after
    return Flags("--json" in words, colour if colour in COLOURS else None, "--no-pager" not in words)
