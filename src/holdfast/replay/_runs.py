"""The agents' activities in a plain log, told apart by name and order."""

from __future__ import annotations

from typing import Any

__all__ = ["AUDIT_AGENT", "Run", "Runs"]

AUDIT_AGENT = "system"
"""The name under which recorders note what they do themselves; that is no conversation."""

_CANDIDATES_MAX = 64
"""How many activities of one name are considered; older ones have long ended."""


class Run:
    """One activity of one agent. ``owes`` means that it was asked and has not answered yet."""

    __slots__ = (
        "agent",
        "children",
        "depth",
        "iterations",
        "key",
        "open",
        "owes",
        "parent",
        "prompted",
        "task",
    )

    def __init__(self, key: str | None, agent: str | None, parent: Run | None) -> None:
        self.key = key
        self.agent = agent
        self.parent = parent or self
        self.depth: int | None = None
        self.open = False
        self.prompted = False
        self.owes = False
        self.iterations = 0
        self.children = 0
        self.task: Any = None

    def begin(self) -> None:
        """It runs; its parent waits for it."""
        self.open = True
        self.parent.children += 1

    def finish(self) -> None:
        """It has ended; its parent may go on."""
        if self.open and self.parent is not self:
            self.parent.children -= 1
        self.open = False

    def answered(self) -> None:
        """It said something."""
        self.owes = False

    def is_live(self) -> bool:
        """Whether words may still come from it."""
        return self.open or self.owes or not self.prompted

    def is_asked(self) -> bool:
        """Whether it runs and was given something to do."""
        return self.open and (self.prompted or self.iterations > 0)

    def is_ready(self) -> bool:
        """Whether it can speak now: it was asked and does not wait for a child."""
        return self.is_asked() and not self.children


class Runs:
    """All runs of a plain log. ``top`` is the first agent started, however often it starts."""

    def __init__(self) -> None:
        self.top = Run(None, None, None)
        self.all: list[Run] = [self.top]
        self._named: dict[str, list[Run]] = {}
        self._counts: dict[str, int] = {}
        self._open: list[Run] = []
        self._promised: list[Run] = []
        self._speaking: Run | None = None

    def start(self, agent: Any, depth: Any, parent: Any) -> Run:
        """An agent starts: the top-level one, also again, or a child."""
        name = agent if isinstance(agent, str) else None
        depth = depth if isinstance(depth, int) else None
        self._speaking = None
        if self._is_top(name, depth, parent):
            self._close_children(self.top)
            self._name(self.top, name)
            self.top.depth = depth
            self.top.iterations = 0
            self.top.prompted = False
            self.top.open = True
            return self.top
        return self._start_child(name, depth, parent)

    def _is_top(self, name: str | None, depth: Any, parent: Any) -> bool:
        if self.top.agent is None and self.top.depth is None:
            return True
        if name != self.top.agent or parent is not None:
            return False
        return depth == 0 or (depth is None and not self.top.open)

    def _start_child(self, name: str | None, depth: Any, parent: Any) -> Run:
        promised = next((run for run in self._promised if run.agent == name), None)
        if promised is not None:
            self._promised.remove(promised)
            run = promised
        else:
            run = self._make(name, self._parent_of(depth, parent))
        run.depth = depth
        run.begin()
        self._open.append(run)
        if len(self._open) > _CANDIDATES_MAX:
            self._open.pop(0).finish()
        return run

    def _parent_of(self, depth: Any, parent: Any) -> Run:
        """Whoever started it: the newest running agent of that name, or one level above."""
        for run in reversed(self._open):
            if parent is not None:
                if run.agent == parent:
                    return run
            elif depth is None or run.depth is None or run.depth < depth:
                return run
        return self.top

    def _make(self, name: str | None, parent: Run) -> Run:
        label = name or "agent"
        number = self._counts[label] = self._counts.get(label, 0) + 1
        run = Run(f"{label}#{number}", name, parent)
        self.all.append(run)
        namesakes = [old for old in self._named.get(label, ()) if old.is_live() or old is self.top]
        self._named[label] = [*namesakes[-_CANDIDATES_MAX:], run]
        return run

    def _name(self, run: Run, name: str | None) -> None:
        if run.agent is None and name is not None:
            run.agent = name
            self._named.setdefault(name, []).append(run)

    def note_top(self, agent: Any, *, is_open: bool) -> None:
        """The top-level agent was heard of in events that name their run."""
        self._name(self.top, agent if isinstance(agent, str) else None)
        self.top.open = is_open

    def delegate(self, parent: Any, child: Any, task: Any) -> Run | None:
        """An agent hands a task to another, which may have started already."""
        if not isinstance(child, str):
            return None
        if self.top.agent is None and isinstance(parent, str) and parent != child:
            self._name(self.top, parent)
        for run in self._open:
            if run.agent == child and run.task is None:
                run.task = task
                return run
        run = self._make(child, self._parent_of(None, parent))
        run.task = task
        self._promised = [*self._promised[-_CANDIDATES_MAX:], run]
        return run

    def iterate(self, agent: Any, number: Any) -> None:
        """An agent asks its model again: its children are done, and it owes an answer."""
        self._speaking = None
        runs = [run for run in self._of(agent) if run.open] or self._of(agent)
        ready = [run for run in runs if not run.children] or runs
        fitting = [run for run in ready if run.iterations + 1 == number] or ready
        if not fitting:
            return
        run = fitting[-1]
        run.iterations += 1
        run.owes = True
        self._close_children(run)

    def end(self, agent: Any) -> None:
        """An agent is done. Its last words may still come."""
        runs = [run for run in self._of(agent) if run.open]
        ready = [run for run in runs if not run.children] or runs
        if not ready:
            return
        run = ready[0] if ready[0] is not self.top else ready[-1]
        self._close_children(run)
        self._speaking = None
        run.finish()
        if run in self._open:
            self._open.remove(run)

    def _close_children(self, run: Run) -> None:
        """End what is still open below a run that goes on without it."""
        for child in [child for child in self._open if child.parent is run]:
            self._close_children(child)
            child.finish()
            self._open.remove(child)

    def speaker(self, agent: Any, *, is_call: bool) -> Run:
        """Whose words these are, if several activities bear the name."""
        runs = self._of(agent)
        if not runs:
            run = self._unstarted(agent)
        elif len(runs) == 1:
            run = runs[0]
        elif is_call and self._speaking is not None and self._speaking in runs:
            run = self._speaking
        else:
            run = _most_likely(runs)
        self._speaking = run if run.open else None
        return run

    def _unstarted(self, agent: Any) -> Run:
        """An agent that never started: the top-level one if there is none yet."""
        if not isinstance(agent, str):
            return self.top
        if self.top.agent is None:
            self._name(self.top, agent)
            return self.top
        return self._make(agent, self.top)

    def addressee(self, agent: Any, content: Any) -> Run:
        """To whom a user's words go: who was given this very task, else who runs innermost."""
        self._speaking = None
        if isinstance(agent, str) and self._of(agent):
            return self.speaker(agent, is_call=False)
        waiting = [run for run in self._promised + self._open if not run.prompted]
        for run in waiting:
            if run.task is not None and run.task == content:
                return run
        fresh = [run for run in waiting if run.open]
        return (fresh or self._open or [self.top])[-1]

    def _of(self, agent: Any) -> list[Run]:
        return self._named.get(agent, []) if isinstance(agent, str) else []


def _most_likely(runs: list[Run]) -> Run:
    """The one asked longest ago that has not answered, else the newest that can speak."""
    for run in runs:
        if run.owes:
            return run
    for test in (Run.is_ready, Run.is_asked):
        found = [run for run in runs if test(run)]
        if found:
            return found[-1]
    return ([run for run in runs if run.open] or runs)[-1]
