"""Sessions as an editor lists them."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

from holdfast.apps.acp._frames import INVALID_PARAMS, RpcError
from holdfast.errors import HoldfastError, UsageError
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
    found: list[dict[str, Any]] = []
    while True:
        try:
            page = hf.list(PAGE, after=cursor)
        except UsageError as error:
            raise RpcError(INVALID_PARAMS, error.message) from error
        cursor = page.next
        for row in page:
            where = _cwd_of(hf, row.session_id)
            if cwd is None or (where is not None and _same(where, cwd)):
                found.append(_entry(row, where or cwd or os.getcwd()))
        if cursor is None or len(found) >= PAGE:
            break
    answer: dict[str, Any] = {"sessions": found}
    if cursor is not None:
        answer["nextCursor"] = cursor
    return answer


def _cwd_of(hf: Holdfast, id: str) -> str | None:
    try:
        found = hf.state(id).metadata.get("cwd")
    except HoldfastError:
        return None  # gone meanwhile, or unreadable
    return found if isinstance(found, str) else None


def _same(a: str, b: str) -> bool:
    return os.path.normpath(a) == os.path.normpath(b)


def _entry(row: SessionMetadata, cwd: str) -> dict[str, Any]:
    changed = dt.datetime.fromtimestamp(row.updated_at / 1000, dt.UTC)
    entry = {
        "sessionId": row.session_id,
        "cwd": cwd,
        "updatedAt": changed.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if row.title:
        entry["title"] = row.title
    return entry
