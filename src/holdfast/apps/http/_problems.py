"""Errors as answers: a problem with our code, what to do about it, and its status."""

from __future__ import annotations

import math
from typing import Any

from starlette.responses import Response

from holdfast.apps.gate.responses import PROBLEM, problem_body
from holdfast.errors import Conflict, Fenced, HoldfastError, Locked, StoreError

# After so many seconds it is worth another try.
_RETRY_S = {"locked": 1, "unavailable": 2, "busy": 1, "stopping": 1, "too_many": 1}
# What an error may carry out: never a path, an address or what was said.
_SHOWN = ("session_id", "seq", "limit", "needed_bytes")


_REMEDIES = {
    "not_found": "Look at the session: it may have come to its end.",
    "scope": "Use a token that may do this.",
    "token": "Use a token that counts.",
    "too_large": "Send less at once.",
    "too_many": "Wait as long as Retry-After says.",
}


class Refused(Exception):
    """A request that is answered with a problem of the service itself."""

    def __init__(
        self, status: int, code: str, detail: str, remedy: str = "", *, wait_s: float = 0
    ) -> None:
        super().__init__(detail)
        self.wait_s = wait_s
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy or _REMEDIES.get(code, "See /openapi.json for what is taken.")


def problem_fields(error: HoldfastError | Refused) -> tuple[int, str, str, str, dict[str, Any]]:
    """Status, code, sentence, remedy and fields. Where a store is, is not for clients to know."""
    if isinstance(error, Refused):
        return error.status, error.code, error.detail, error.remedy, {}
    more = {name: error.fields[name] for name in _SHOWN if name in error.fields}
    if isinstance(error, StoreError) and not isinstance(error, Locked | Conflict | Fenced):
        return error.status, error.code, "the store cannot do this now", "Try again later.", more
    return error.status, error.code, error.message, error.remedy, more


def problem(error: HoldfastError | Refused) -> Response:
    """The answer itself."""
    status, code, detail, remedy, more = problem_fields(error)
    headers = {}
    if code in _RETRY_S:
        wait = getattr(error, "wait_s", None) or _RETRY_S[code]
        headers["retry-after"] = str(math.ceil(wait))
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="holdfast"'
    body = problem_body(status, code, _unicode(detail), _unicode(remedy), **more)
    return Response(body, status, headers, media_type=PROBLEM)


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
