"""Who did what: one line of JSON for each request, without a word of what was said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from holdfast.apps.gate.limits import address_of
from holdfast.apps.http.tokens import Token
from holdfast.model import is_id
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.http._endpoints import Endpoint

LOGGER = logging.getLogger("holdfast.audit")
"""Lines go here; ``holdfast serve`` writes them to standard error."""


def note(
    endpoint: Endpoint,
    request: HTTPConnection,
    token: Token | None,
    response: Response,
    seconds: float,
) -> None:
    """One request that was answered. Health checks are no news."""
    if endpoint.scope is not None:
        made = response.headers.get("location", "").rpartition("/")[2]
        more = {"made": made} if is_id(made) else {}
        ms = round(seconds * 1000)
        event(endpoint.name, request, token, status=response.status_code, ms=ms, **more)


def event(action: str, request: HTTPConnection, token: Token | None, **more: Any) -> None:
    """One thing that was done, or refused."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    id = request.path_params.get("id") or more.pop("session", None)
    line = {
        "at": now_ms(),
        "action": action,
        "token": None if token is None else token.id,
        "space": None if token is None else token.space,
        "session": id if is_id(id) else None,
        "from": address_of(request.scope),
        **more,
    }
    LOGGER.info(msgspec.json.encode(line).decode())
