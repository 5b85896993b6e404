"""How things stand at the end of a session: commands, mode, options, usage, title."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.apps.acp._replaying_output import Output

__all__ = ["STANDING", "Standing"]

_TITLED = "session_info_update"
_ORDER = (
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "usage_update",
    _TITLED,
)
STANDING = frozenset(_ORDER)
"""The kinds of updates of which only the newest says anything."""
_encode = msgspec.json.Encoder().encode


class Standing:
    """Keeps the newest of each kind, to be told at the end."""

    def __init__(self) -> None:
        self._newest: dict[str, bytes] = {}
        self._title: str | None = None

    def take(self, kind: str, update: bytes) -> None:
        """An update of a standing kind."""
        if kind == _TITLED:  # what one leaves out stays as it was
            told = json.loads(self._newest.get(kind, b"{}"))
            update = _encode({"sessionUpdate": kind, **told, **json.loads(update)})
        self._newest[kind] = update

    def name(self, title: Any, *, auto: bool) -> None:
        """A title; the user's own wins, and None takes it back."""
        if not auto:
            self._title = title if isinstance(title, str) else None
        elif isinstance(title, str):
            self.take(_TITLED, _encode({"title": title}))

    def tell(self, out: Output, seq: int) -> None:
        """Tell how it all stands."""
        if self._title:
            self.take(_TITLED, _encode({"title": self._title}))
        for kind in _ORDER:
            if kind in self._newest:
                out.tell(self._newest[kind], seq)
