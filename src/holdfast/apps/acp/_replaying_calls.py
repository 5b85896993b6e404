"""The tool calls of a session that is told again: which an editor knows, which are under way."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.apps.acp._replaying_shapes import CallAbout
from holdfast.replay import Stage, stage_after

__all__ = ["Calls"]

_ENDS = frozenset({"completed", "failed"})
_EMPTY = (b"[]", b"null")
_LITTLE = 4  # bytes, which is what those have at most


class Calls:
    """Keeps what the editor was told of each call."""

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self.ended: set[str] = set()
        """Those of this turn: in another, the same ids may be used again."""
        self._stages: dict[str, Stage] = {}
        self._before: set[str] = set()
        self._shaped: set[str] = set()

    def track(self, call: str, status: Any) -> None:
        """The editor is told of a call, and how it stands."""
        if status in _ENDS:
            self.open.pop(call, None)
            self.ended.add(call)
        elif status is not None or call not in self.ended:
            self.open[call] = None
            self.ended.discard(call)

    def decide(self, call: Any, decision: Any) -> None:
        """The user was asked about a call, or has answered; unnamed, it is the last that was."""
        asked = call if isinstance(call, str) else next(reversed(self._stages), None)
        stage = stage_after(decision)
        if asked is not None and stage is not None:
            self._stages[asked] = stage

    def show(self, call: str, content: msgspec.Raw) -> None:
        """The editor is told what to show for it."""
        if call not in self._shaped and bytes(content) not in _EMPTY:
            self._shaped.add(call)

    def follow(self, abouts: list[CallAbout]) -> None:
        """The editor is told all of this, in order."""
        if not abouts:
            return
        last = {about.call: about.status for about in abouts}
        if None in last.values():
            for about in abouts:
                self.track(about.call, about.status)
        else:
            self._end(last)
        self._shaped.update([about.call for about in abouts if len(about.content) > _LITTLE])

    def _end(self, last: dict[str, Any]) -> None:
        """Most calls end soon: how each stands after many updates decides."""
        under_way = [call for call, status in last.items() if status not in _ENDS]
        self.ended.update(last)
        self.ended.difference_update(under_way)
        for call in [call for call in self.open if call in self.ended]:
            del self.open[call]
        for call in under_way:
            self.open[call] = None

    def knows(self, call: str) -> bool:
        """Whether the editor was told of it."""
        return call in self.ended or call in self.open or call in self._before

    def shows(self, call: str) -> bool:
        """Whether a frame showed something for it, such as a diff."""
        return call in self._shaped

    def leave(self) -> list[tuple[str, Stage]]:
        """Give up those that are under way, with their turn; how far each of them came."""
        left = [(call, self._stages.get(call, "begun")) for call in self.open]
        self._before.update(self.ended, self.open)
        self.ended.clear()
        self.open.clear()
        self._stages.clear()
        return left
