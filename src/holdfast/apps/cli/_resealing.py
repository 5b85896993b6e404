"""What encrypt, decrypt, rotate and keys have in common: how it is told."""

from __future__ import annotations

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FAILED, EXIT_FINE
from holdfast.apps.cli._screen import Span
from holdfast.apps.shown.words import counted
from holdfast.library import Resealed

__all__ = ["tell"]


def tell(app: App, done: Resealed, word: str, *, as_json: bool) -> int:
    """Say what was done and what was not; the exit code."""
    if as_json:
        app.out.json(done)
        return EXIT_FAILED if done.failed else EXIT_FINE
    for key in done.changed:
        app.out.line(f"{word} ", Span(key.removeprefix("sessions/"), "name"))
    for key, why in done.failed.items():
        app.err.line(
            Span("failed ", "bad"), Span(key.removeprefix("sessions/"), "name"), f"  {why}"
        )
    if not done.changed and not done.failed:
        app.out.line("nothing to do")
    if done.relatives:
        names = ", ".join(key.removeprefix("sessions/") for key in done.relatives)
        app.err.line(
            f"{counted(len(done.relatives), 'fork')} with the same events"
            f" {'was' if len(done.relatives) == 1 else 'were'} left as before: {names}"
        )
    return EXIT_FAILED if done.failed else EXIT_FINE
