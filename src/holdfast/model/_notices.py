"""What a store tells its subscribers besides the events themselves."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Notice"]


class Notice(msgspec.Struct, frozen=True):
    """Something happened to a session that is not part of its log."""

    kind: str
    """``snapshot_created``, ``snapshot_failed``, ``session_restored``, ``torn_tail``, and others:
    docs/reference/observability.md lists them all, with what ``detail`` has."""
    session_id: str
    detail: dict[str, Any] = {}
