"""Who came in and what was done: one line of JSON each, without a word of what was said."""

from __future__ import annotations

import logging

import msgspec
from starlette.requests import Request
from starlette.types import Message, Send

from holdfast.apps.gate.amounts import address_of
from holdfast.apps.gate.callers import SAFE_METHODS
from holdfast.model import is_id
from holdfast.session import now_ms

__all__ = ["LOGGER", "audited"]

LOGGER = logging.getLogger("holdfast.audit")
"""Lines go here, as those of the service do."""
_DOOR = "/in"


def audited(request: Request, send: Send) -> Send:
    """The same ``send``; what changes something, and every try at the door, is noted with it."""
    path = request.url.path
    if request.method in SAFE_METHODS and path != _DOOR:
        return send

    async def send_noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            _note(request, path, message["status"])
        await send(message)

    return send_noted


def _note(request: Request, path: str, status: int) -> None:
    parts = path.strip("/").split("/")
    id = parts[1] if parts[0] == "s" and len(parts) > 1 else None
    line = {
        "at": now_ms(),
        "action": "enter" if path == _DOOR else parts[-1][:40],
        "session": id if is_id(id) else None,
        "from": address_of(request.scope),
        "status": status,
    }
    LOGGER.info(msgspec.json.encode(line).decode())
