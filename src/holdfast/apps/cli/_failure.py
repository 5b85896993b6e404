"""From an exception to a sentence, a remedy and an exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import NamedTuple

import click

from holdfast.apps.cli._screen import Screen
from holdfast.apps.render.failures import told
from holdfast.apps.render.page import Span
from holdfast.errors import Damaged, HoldfastError, UsageError

EXIT_FINE = 0
EXIT_FAILED = HoldfastError.exit
EXIT_USAGE = UsageError.exit
EXIT_DAMAGED = Damaged.exit
EXIT_INTERRUPTED = 130  # what shells give for Ctrl-C


class Failure(NamedTuple):
    """The message for the user; an empty one prints nothing."""

    message: str
    remedy: str
    code: int
    kind: str = "defect"  # the code of the error for programs: that of its class, or of what else went wrong


def explain(error: BaseException, *, waits: bool = False, verb: str = "") -> Failure:
    """Return what to tell the user of a verb, which may take ``--wait``, about an exception."""
    if isinstance(error, UsageError) and error.remedy == UsageError.remedy:
        # Its own remedy is about Python calls.
        return Failure(
            error.message, f"See `{' '.join(filter(None, ('holdfast', verb, '--help')))}`.", error.exit, error.code
        )
    if isinstance(error, HoldfastError):
        return Failure(*told(error, waits=waits), error.exit, error.code)
    if isinstance(error, click.exceptions.Exit):
        return Failure("", "", error.exit_code)
    if isinstance(error, click.ClickException):
        return _explain_click(error, verb)
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return Failure("stopped", "", EXIT_INTERRUPTED, "stopped")
    if isinstance(error, SystemExit):
        return Failure("", "", error.code if isinstance(error.code, int) else EXIT_FAILED)
    # When the output is piped into `head`, for example.
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        return Failure("", "", EXIT_FAILED)  # the reader has seen enough; it knows
    return Failure(*told(error), EXIT_FAILED, "system" if isinstance(error, OSError) else "defect")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that is not known: what it may have meant."""
    import difflib

    # The comparison is quadratic in the length, and the name is whatever was typed.
    close = difflib.get_close_matches(name[:128], list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _explain_click(error: click.ClickException, verb: str) -> Failure:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else " ".join(filter(None, ("holdfast", verb)))
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the whole page
        parts = error.ctx.command.list_commands(error.ctx)  # type: ignore[attr-defined]  # a group
        message = f"{path} needs one of: {', '.join(parts)}"
    example = _example(context) if isinstance(error, click.MissingParameter) else ""
    remedy = f"{example}See `{path} --help`."
    return Failure(message[:1].lower() + message[1:], remedy, error.exit_code, UsageError.code)


def _example(context: click.Context | None) -> str:
    """Return the first example of a verb's help page, for somebody who left something out."""
    page = (context.command.epilog or "") if context is not None else ""
    line = next((line for line in page.split("\n") if line.startswith("  holdfast ")), "")
    return f"For example: `{line.strip().partition('   ')[0]}`. " if line else ""


def likely_store(path: str) -> str | None:
    """Return the store probably meant by a path without one: one with a similar name there, or the usual one."""
    import difflib

    folder, name = os.path.split(os.path.abspath(path))
    beside = [one for one in _folders(folder) if os.path.isdir(os.path.join(folder, one, "sessions"))]
    close = difflib.get_close_matches(name[:128], beside, n=1)
    if close:
        return os.path.join(folder, close[0])
    from holdfast._config import store_without_settings

    usual = os.path.expanduser(store_without_settings() or "")
    return usual if os.path.isdir(os.path.join(usual, "sessions")) and usual else None


def _folders(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


# Failures and warnings, told to people in a sentence and to programs as JSON.
def tell(screen: Screen, label: Span, message: str, remedy: str) -> None:
    """Print an error and its remedy."""
    first, *more = message.split("\n")
    screen.line(label, first, hang=2)
    for line in [*more, *filter(None, remedy.split("\n"))]:
        screen.line("  ", line, hang=2)


def tell_warning(screen: Screen, message: str, remedy: str, *, as_json: bool) -> None:
    """Print a warning."""
    if as_json:
        from holdfast.library.answers.failures import Advice, WarningLine

        screen.json_line(WarningLine(warning=Advice(message=message, remedy=remedy)))
    else:
        tell(screen, Span("warning: ", "warning"), message, remedy)


def tell_failure(screen: Screen, failure: Failure, *, as_json: bool) -> None:
    """Tell why it failed. Somebody who is not there any more is not told."""
    try:
        if as_json:
            from holdfast.library.answers.failures import ErrorLine, Failed

            message, remedy, exit_code, kind = failure
            screen.json_line(ErrorLine(error=Failed(code=kind, message=message, remedy=remedy, exit_code=exit_code)))
        else:
            tell(screen, Span("error: ", "bad"), failure.message, failure.remedy)
        screen.flush()
    # Standard error may be closed, too; the exit code still says it.
    except OSError:
        pass
