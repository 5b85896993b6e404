"""Errors as answers: a problem with our code, what to do about it, and the status that fits."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from holdfast.apps.gate.refusing import PROBLEM, problem_body
from holdfast.errors import (
    AgentError,
    AgentTypeMismatch,
    Conflict,
    DataError,
    Fenced,
    HoldfastError,
    InvalidData,
    InvalidId,
    Locked,
    NotFound,
    ResumeTokenError,
    ResumeTokenExpired,
    SecurityError,
    StoreError,
    StoreFull,
    TooLarge,
    UsageError,
)

__all__ = ["Refused", "problem", "problem_fields", "status_of"]

# The first that fits counts.
_STATUS: tuple[tuple[type[HoldfastError], int], ...] = (
    (UsageError, 400),
    (Locked, 409),
    (Fenced, 409),
    (Conflict, 409),
    (StoreFull, 507),
    (StoreError, 503),
    (NotFound, 404),
    (TooLarge, 413),
    (InvalidId, 400),
    (InvalidData, 422),
    (DataError, 409),
    (SecurityError, 403),
    (AgentTypeMismatch, 409),
    (ResumeTokenExpired, 410),
    (ResumeTokenError, 409),
    (AgentError, 502),
)
_RETRY_S = {409: "1", 429: "1", 503: "2"}
_RETRIED = ("locked", "unavailable", "busy")
# What an error may carry out: never a path, an address or what was said.
_SHOWN = ("session_id", "seq", "limit", "needed_bytes")


class Refused(Exception):
    """A request that is answered with a problem of the service itself."""

    def __init__(self, status: int, code: str, detail: str, remedy: str = "") -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.remedy = remedy


def status_of(error: HoldfastError) -> int:
    """The status of the answer to a request that ended with this."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem_fields(error: HoldfastError | Refused) -> tuple[int, str, str, str, dict[str, Any]]:
    """Status, code, sentence, remedy and fields. Where a store is, is not for clients to know."""
    if isinstance(error, Refused):
        return error.status, error.code, error.detail, error.remedy, {}
    status = status_of(error)
    more = {name: error.fields[name] for name in _SHOWN if name in error.fields}
    if isinstance(error, StoreError) and not isinstance(error, Locked | Conflict | Fenced):
        return status, error.code, "the store cannot do this now", "Try again later.", more
    return status, error.code, error.message, error.remedy, more


def problem(error: HoldfastError | Refused) -> Response:
    """The answer itself."""
    status, code, detail, remedy, more = problem_fields(error)
    headers = {"retry-after": _RETRY_S[status]} if code in _RETRIED and status in _RETRY_S else {}
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="holdfast"'
    body = problem_body(status, code, _unicode(detail), _unicode(remedy), **more)
    return Response(body, status, headers, media_type=PROBLEM)


def _unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
