"""The answer of a recovery, apart from the others: they need not load what recovers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.replay import Issue, LeftOut, TokenCount


class RecoveredMessages(Struct, frozen=True, kw_only=True):
    """A conversation that a provider accepts, and everything that is known about it."""

    session_id: str | None
    system: str | None
    messages: list[dict[str, Any]]
    """The messages in the form of `--provider`."""
    issues: list[Issue]
    left_out: LeftOut | None
    tokens: TokenCount | None
