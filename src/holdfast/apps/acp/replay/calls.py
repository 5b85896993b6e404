"""The tool calls of a session that is told again: which an editor knows, which are under way."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.apps.acp.replay.shapes import CallAbout, plain
from holdfast.errors import InvalidData
from holdfast.model import Event
from holdfast.replay import Stage, stage_after

__all__ = ["ReplayedCalls"]

_ENDS = frozenset({"completed", "failed"})
_EMPTY = (b"[]", b"null")
_LITTLE = 4  # bytes, which is what those have at most


class ReplayedCalls:
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


# Whose events these are: an editor is told only of the top-level run.


_AUDIT = "system"  # the name under which recorders note what they do themselves


class Cast:
    """Who acts in a log. Child runs are known by their run, in plain logs by their agent's name.

    ``children`` are the runs to leave out, ``left_out`` the tool calls that were left out,
    ``unsaid`` who begins work that the editor was not told of yet, with the task.
    """

    def __init__(self) -> None:
        self.children: set[str] = set()
        self.left_out: set[str] = set()
        self.unsaid: list[tuple[str, Any]] = []
        self._announced: set[Any] = set()
        self._top: Any = None
        self._names: set[str] = set()
        self._tasks: list[Any] = []

    def note(self, event: Event) -> None:
        """Take in an event that tells of agents; others say nothing."""
        if event.type not in {"agent_start", "delegation"}:
            return
        try:
            data = plain(event)
        except InvalidData:
            return
        if event.type == "delegation":
            self._announced |= {_name(data.get("child")), _name(data.get("child_run"))}
            self.unsaid.append((_name(data.get("child")), data.get("task")))
            if event.run is None:
                self._add(data.get("child"))
                self._tasks.append(data.get("task"))
            return
        depth = data.get("depth")
        if data.get("parent") is None and not (isinstance(depth, int) and depth > 0):
            self._top = self._top or data.get("agent")
        else:
            name = _name(data.get("agent"))
            if name != self._top and not self._announced & {event.run, name}:
                self._announced.add(event.run or name)
                self.unsaid.append((name, data.get("task")))
            if event.run is not None:
                self.children.add(event.run)
            else:
                self._add(data.get("agent"))

    def _add(self, name: Any) -> None:
        if isinstance(name, str) and name != self._top:
            self._names.add(name)

    def is_child(self, agent: Any) -> bool:
        """Whether words under this name are not those of the top-level agent."""
        return agent is not None and (
            agent == _AUDIT or (isinstance(agent, str) and agent in self._names)
        )

    def is_childs_task(self, data: dict[str, Any]) -> bool:
        """Whether a user's words are a task that one agent gave another."""
        if self.is_child(data.get("agent")):
            return True
        content = data.get("content")
        if not self._tasks or content not in self._tasks:
            return False
        self._tasks.remove(content)
        return True


def _name(value: Any) -> str:
    return value if isinstance(value, str) else "another agent"
