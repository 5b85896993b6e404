"""The agents' activities in a plain log, distinguished by name and order."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from holdfast.model import Event
from holdfast.replay._calls import blocks_of

AUDIT_AGENT = "system"  # the name under which recorders note their own actions; that is no conversation

_CANDIDATES_MAX = 64  # how many activities of one name are considered; older ones have long ended


class Run:
    """One activity of one agent. ``owes`` means that it was asked and has not answered yet."""

    __slots__ = ("agent", "children", "depth", "iterations", "key", "open", "owes", "parent", "prompted", "task")

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

    def finish(self) -> None:
        """Mark it as ended; its parent may go on."""
        if self.open and self.parent is not self:
            self.parent.children -= 1
        self.open = False


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

    def start(self, agent: Any, depth: Any, parent: Any) -> None:
        """Start an agent: the top-level one, also again, or a child."""
        name = agent if isinstance(agent, str) else None
        depth = depth if isinstance(depth, int) else None
        self._speaking = None
        if self._is_top(name, depth, parent):
            self._close_children(self.top)
            self._name(self.top, name)
            self.top.depth, self.top.iterations = depth, 0
            self.top.prompted, self.top.open = False, True
            return
        run = next((run for run in self._promised if run.agent == name), None)
        if run is None:
            run = self._make(name, self._parent_of(depth, parent))
        else:
            self._promised.remove(run)
        run.depth, run.open = depth, True
        run.parent.children += 1
        self._open.append(run)
        # Children without a recorded end would add up.
        if len(self._open) > _CANDIDATES_MAX:
            self._open.pop(0).finish()

    def _is_top(self, name: str | None, depth: Any, parent: Any) -> bool:
        if self.top.agent is None and self.top.depth is None:
            return True
        if name != self.top.agent or parent is not None:
            return False
        return depth == 0 or (depth is None and not self.top.open)

    def _parent_of(self, depth: Any, parent: Any) -> Run:
        """Return the run that started it: the newest running agent of that name, or one level above."""
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
        # Those that may still have words to come.
        known = self._named.get(label, ())
        live = [old for old in known if old.open or old.owes or not old.prompted or old is self.top]
        self._named[label] = [*live[-_CANDIDATES_MAX:], run]
        return run

    def _name(self, run: Run, name: str | None) -> None:
        if run.agent is None and name is not None:
            run.agent = name
            self._named.setdefault(name, []).append(run)

    def note_top(self, agent: Any, *, is_open: bool) -> None:
        """Note the name of the top-level agent from events that name their run."""
        self._name(self.top, agent if isinstance(agent, str) else None)
        self.top.open = is_open

    def delegate(self, parent: Any, child: Any, task: Any) -> Run | None:
        """Note that an agent delegates a task to another, which may have started already."""
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
        """Note that an agent asks its model again: its children are done, and it owes an answer."""
        self._speaking = None
        runs = [run for run in self._of(agent) if run.open] or self._of(agent)
        ready = [run for run in runs if not run.children] or runs
        fitting = [run for run in ready if run.iterations + 1 == number] or ready
        if not fitting:
            return
        fitting[-1].iterations += 1
        fitting[-1].owes = True
        self._close_children(fitting[-1])

    def end(self, agent: Any) -> None:
        """End an agent. Its last words may still come."""
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
        """Return the run of these words, if several activities have the name."""
        runs = self._named.get(agent) if isinstance(agent, str) else None
        if runs is None:
            run = self.top
            # An agent that never started is the top-level one if there is none yet.
            if isinstance(agent, str) and run.agent is None:
                self._name(run, agent)
            elif isinstance(agent, str):
                run = self._make(agent, run)
        elif len(runs) == 1:
            run = runs[0]
        elif is_call and self._speaking is not None and self._speaking in runs:
            run = self._speaking
        else:
            # The one asked longest ago that has not answered, else the newest that can speak.
            asked = [one for one in runs if one.open and (one.prompted or one.iterations)]
            # One that waits for a child does not speak now.
            ready = [one for one in asked if not one.children]
            open_ones = [one for one in runs if one.open]
            run = next((one for one in runs if one.owes), (ready or asked or open_ones or runs)[-1])
        self._speaking = run if run.open else None
        return run

    def addressee(self, agent: Any, content: Any) -> Run:
        """Return the run that a user's words go to: one given this very task, else the innermost running one."""
        self._speaking = None
        if isinstance(agent, str) and self._of(agent):
            return self.speaker(agent, is_call=False)
        if not self._promised and not self._open:
            return self.top  # in nearly every log there is one agent
        waiting = [run for run in self._promised + self._open if not run.prompted]
        given = next((run for run in waiting if run.task is not None and run.task == content), None)
        fresh = [run for run in waiting if run.open]
        return given or (fresh or self._open or [self.top])[-1]

    def is_busy(self) -> bool:
        """Return whether agents beside the top-level one may speak, or its own start was recorded."""
        return bool(self._promised or self._open or self.top.open)

    def hear(self, *, owes: bool, is_prompted: bool) -> None:
        """Note words without a name while no agent is busy."""
        self._speaking = None
        self.top.owes = owes
        self.top.prompted |= is_prompted

    def _of(self, agent: Any) -> list[Run]:
        return self._named.get(agent, []) if isinstance(agent, str) else []


# The run of each event.
# An event with a ``run`` names it. In plain logs it follows from the agents' names and from the order of starts,
# delegations and completions; those lines may be a little out of order, because their writers did not wait for each
# other. The first agent started is the top-level one.
class Withdrawal:
    """The last words of a user in this run were meant for another one after all."""


Delivery = tuple[str | None, Event | Withdrawal]  # the run (None is the top-level one) and its event

EVERY = "\0every"  # stands for all runs: a retraction applies wherever the words were


class Router:
    """Sorts the events of one log by run. ``limbo`` holds results whose call has not come yet."""

    def __init__(self) -> None:
        self.limbo: dict[Any, list[Event]] = {}
        self.runs = Runs()
        # The run of a call with this id; of several with the same, a list of theirs.
        self._callers: dict[Any, str | list[str | None] | None] = {}
        self.exchanged: Collection[str] = ()  # calls of the top-level run that came by the fast path
        self._own_calls: set[tuple[str | None, Any]] = set()
        self._own: dict[str, str | None] = {}
        self._last_user: tuple[Run, Event] | None = None
        self._started = False

    def route(self, event: Event) -> list[Delivery]:
        """Return the runs that get this event; none for one outside conversations."""
        handler = HANDLERS.get(event.type)
        if handler is None:
            return []
        data = event.data
        if event.type == "tool_result":
            return self._route_result(event, data)
        if event.run is not None and event.type not in _ABOUT_OTHERS:
            run = event.run or ""
            if run not in self._own:
                self._own[run] = None if self._is_top(event, data) else run
            key = self._own[run]
            self._started = True
            if event.type in _BRANCHES:
                return []
            if event.type in {"tool_call", "assistant"}:
                return self._deliver(key, event, data)
            if event.type in _LIFE:
                if key is None:
                    self.runs.note_top(data.get("agent"), is_open=event.type not in _ENDS)
                return []
            return [(key, event)]
        return handler(self, event, data)

    # --- what the short way needs
    def is_plain(self) -> bool:
        """Return whether everything without a name and a run goes to the top-level run, and nothing waits."""
        runs = self.runs
        return not (runs.is_busy() or self.limbo)

    def hear(self, *, owes: bool, is_prompted: bool) -> None:
        """Note plain words in the top-level run, and whether it owes an answer."""
        self._started = True
        self.runs.hear(owes=owes, is_prompted=is_prompted)
        if is_prompted:
            self._last_user = None

    def knows(self, call: str) -> bool:
        return call in self.exchanged or call in self._callers

    def _recall(self, call: Any) -> None:
        """Note the caller of a call that came by the fast path."""
        if call in self.exchanged:
            self._callers.setdefault(call, None)

    # --- events that name their run
    def _is_top(self, event: Event, data: dict[str, Any]) -> bool:
        """Return whether a run seen for the first time is the top-level one, or continues it."""
        if event.type != "agent_start":
            return event.type in _BRANCHES or not self._started
        depth, agent = data.get("depth"), data.get("agent")
        if depth == 0 or not self._started:
            return True
        goes_on = agent is not None and agent == self.runs.top.agent and not self.runs.top.open
        return goes_on and depth is None and data.get("parent") is None

    def _route_result(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Send a result to the run of its call."""
        key = _hashable(data.get("toolCallId"))
        self._recall(key)
        if event.run is not None:
            own = self._own.get(event.run, event.run)
            is_own = (own, key) in self._own_calls or key not in self._callers
            callers = None if is_own else self._callers[key]
            newest = callers[-1] if isinstance(callers, list) else callers
            return [(own if is_own else newest, event)]
        if key not in self._callers:
            self.limbo.setdefault(key, []).append(event)
            return []
        callers = self._callers[key]
        if not isinstance(callers, list):
            return [(callers, event)]
        # Of calls with the same id in several runs, the newest is answered first: it is innermost.
        return [(callers.pop() if len(callers) > 1 else callers[0], event)]

    def _deliver(self, key: str | None, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Send an event of the assistant, and the results that came before its calls."""
        deliveries: list[Delivery] = [(key, event)]
        if event.type == "tool_call":
            calls = [data.get("id")]
        else:
            content = data.get("content")
            blocks = blocks_of(content) if isinstance(content, list) else ()
            calls = [block.get("id") for kind, block in blocks if kind == "tool_use"]
        for call in map(_hashable, calls):
            self._recall(call)
            callers = self._callers.setdefault(call, key)
            if isinstance(callers, list):
                if callers[-1] != key:
                    callers.append(key)
            elif callers != key:
                self._callers[call] = [callers, key]
            if event.run is not None:
                self._own_calls.add((key, call))
            if call in self.limbo:
                deliveries += [(key, result) for result in self.limbo.pop(call)]
        return deliveries

    # --- plain logs
    def on_words(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route an assistant's text, thinking, delta or call; results that came before a call follow."""
        agent, is_call = data.get("agent"), event.type == "tool_call"
        if agent == AUDIT_AGENT and not is_call:
            return []
        self._started = True
        run = self.runs.speaker(agent, is_call=is_call)
        run.owes = False
        return self._deliver(run.key, event, data)

    def on_user(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route a user's words: of the person, or of an agent that gives another one a task."""
        self._started = True
        run = self.runs.addressee(data.get("agent"), data.get("content"))
        suspicious = run is self.runs.top and run.open and run.prompted
        self._last_user = (run, event) if suspicious else None
        run.prompted = run.owes = True
        return [(run.key, event)]

    def on_permission(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route a question or an answer about a call to the run of the call; without one, nowhere."""
        key = _hashable(data.get("call"))
        self._recall(key)
        if key is None or key not in self._callers:
            return []
        if event.run is not None and (own := self._own.get(event.run), key) in self._own_calls:
            return [(own, event)]
        callers = self._callers[key]
        return [(callers[-1] if isinstance(callers, list) else callers, event)]

    def on_others(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route what concerns all runs, or the top-level one; a fork or a merge goes nowhere."""
        if event.type in _BRANCHES:
            return []
        return [(EVERY if event.type == "retracted" else None, event)]

    def on_delegation(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route a delegation; the prompt may have come before it was recorded."""
        run = self.runs.delegate(data.get("parent"), data.get("child"), data.get("task"))
        last, self._last_user = self._last_user, None
        if last is None or run is None or run.prompted or run.task is None:
            return []
        old, prompt = last
        # Only the very words of the task were meant for the child.
        if prompt.data.get("content") != run.task:
            return []
        run.prompted = run.owes = True
        return [(old.key, Withdrawal()), (run.key, prompt)]

    def on_life(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Route the start, an iteration or the end of an agent."""
        agent = data.get("agent")
        if event.type == "agent_start":
            self._started = True
            self._last_user = None
            self.runs.start(agent, data.get("depth"), data.get("parent"))
        elif event.type == "agent_iteration":
            self._last_user = None
            self.runs.iterate(agent, data.get("iteration"))
        else:
            self.runs.end(agent)
        return []


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else None


_ABOUT_OTHERS = frozenset({"retracted", "permission", "step"})  # they begin no run
_ENDS = frozenset({"agent_complete", "agent_error"})
_BRANCHES = frozenset({"forked", "merged"})
_LIFE = frozenset({"agent_start", "agent_iteration", "delegation"}) | _ENDS

HANDLERS: dict[str, Callable[[Router, Event, dict[str, Any]], list[Delivery]]] = {
    "user": Router.on_user,
    **dict.fromkeys(("assistant", "thinking", "delta", "tool_call"), Router.on_words),
    "permission": Router.on_permission,
    "step": Router.on_permission,
    "delegation": Router.on_delegation,
    **dict.fromkeys(("tool_result", "system", "retracted", "compaction", *_BRANCHES), Router.on_others),
    **dict.fromkeys(_LIFE - {"delegation"}, Router.on_life),
}
