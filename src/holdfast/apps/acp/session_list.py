"""Sessions as an editor lists them."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

from holdfast.apps.wire.frames import INVALID_PARAMS, RpcError
from holdfast.errors import UsageError
from holdfast.library import Holdfast
from holdfast.model import SessionMetadata

__all__ = ["list_sessions"]

PAGE = 50


def list_sessions(hf: Holdfast, params: dict[str, Any]) -> dict[str, Any]:
    """One page of ``session/list``, newest first. Raises RpcError for a cursor that is none."""
    cwd, cursor = params.get("cwd"), params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "a cursor is a text")
    if cwd is not None and not isinstance(cwd, str):
        raise RpcError(INVALID_PARAMS, "cwd is a text")
    try:
        page = hf.list(PAGE, cwd=None if cwd is None else os.path.normpath(cwd), after=cursor)
    except UsageError as error:
        raise RpcError(INVALID_PARAMS, error.message) from error
    here = os.getcwd()  # of sessions that worked nowhere in particular
    answer: dict[str, Any] = {"sessions": [_entry(row, row.cwd or here) for row in page]}
    if page.next is not None:
        answer["nextCursor"] = page.next
    return answer


def _entry(row: SessionMetadata, cwd: str) -> dict[str, Any]:
    entry = {"sessionId": row.session_id, "cwd": cwd}
    if row.title:
        entry["title"] = row.title
    try:
        changed = dt.datetime.fromtimestamp(row.updated_at / 1000, dt.UTC)
        entry["updatedAt"] = changed.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        pass  # of a clock that was wrong by thousands of years
    return entry
