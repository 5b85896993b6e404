"""What a store tells its subscribers besides the events themselves."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Notice"]


class Notice(msgspec.Struct, frozen=True):
    """Something happened to a session that is not part of its log."""

    kind: str
    """``snapshot_created``, ``snapshot_failed``, ``session_restored``, ``torn_tail``,
    ``session_near_limit``, ``repaired``, ``deleted``, ``undeleted``, ``archived``, ``unarchived``,
    ``subscriber_failed``, ``variable_not_stored``, ``flush_failed``."""
    session_id: str
    detail: dict[str, Any] = {}
