"""Whose events these are: an editor is told only of the top-level run."""

from __future__ import annotations

from typing import Any

from holdfast.apps.acp._replaying_shapes import plain
from holdfast.errors import InvalidData
from holdfast.model import Event

__all__ = ["Cast"]

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
