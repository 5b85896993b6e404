"""Times on the command line: dates, and how long ago."""

from __future__ import annotations

from datetime import datetime

import click

from holdfast.apps.shown.moments import moment_of

__all__ = ["When"]


class When(click.ParamType[datetime]):
    """A moment; a day without a time means its beginning, or its end with ``end``."""

    name = "when"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(
        self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment in the user's time zone."""
        if isinstance(value, datetime):
            return value
        try:
            return moment_of(value.strip(), end=self._end)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value[:40]!a} is no date (2026-05-31) and no time ago (3d, 2h, 30m)", param
            )
