"""Failures and warnings, told to people in a sentence and to programs as JSON."""

from __future__ import annotations

import click

from holdfast.apps.cli._failure import Failure
from holdfast.apps.cli._screen import Screen, Span
from holdfast.errors import HoldfastError, UsageError

__all__ = ["kind_of", "tell", "tell_failure", "tell_warning"]


def tell(screen: Screen, label: Span, message: str, remedy: str) -> None:
    """A sentence and, below it, what to do about it."""
    first, *more = message.split("\n")
    screen.line(label, first, hang=2)
    for line in [*more, *filter(None, remedy.split("\n"))]:
        screen.line("  ", line, hang=2)


def tell_warning(screen: Screen, message: str, remedy: str, *, as_json: bool) -> None:
    """Something that is no failure."""
    if as_json:
        screen.json_line({"warning": {"message": message, "remedy": remedy}})
    else:
        tell(screen, Span("warning: ", "warning"), message, remedy)


def tell_failure(screen: Screen, failure: Failure, kind: str, *, as_json: bool) -> None:
    """Why it failed. Somebody who is not there any more is not told."""
    try:
        if as_json:
            screen.json_line(
                {
                    "error": {
                        "code": kind,
                        "message": failure.message,
                        "remedy": failure.remedy,
                        "exit_code": failure.code,
                    }
                }
            )
        else:
            tell(screen, Span("error: ", "bad"), failure.message, failure.remedy)
        screen.flush()
    except OSError:
        pass


def kind_of(error: BaseException) -> str:
    """The code of an error for programs: that of its class, or of what else went wrong."""
    if isinstance(error, HoldfastError):
        return error.code
    if isinstance(error, click.ClickException):
        return UsageError.code
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return "stopped"
    return "system" if isinstance(error, OSError) else "defect"
