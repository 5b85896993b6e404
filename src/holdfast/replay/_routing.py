"""Which run an event belongs to.

An event with a ``run`` says so itself. In plain logs it follows from the agents' names and from the
order of starts, delegations and completions; those lines may stand a little out of order, because
their writers did not wait for each other. The first agent started is the top-level one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.model import Event
from holdfast.replay._calls import blocks_of
from holdfast.replay._runs import AUDIT_AGENT, Run, Runs

__all__ = ["EVERY", "Delivery", "Router", "Withdrawal"]


class Withdrawal:
    """The last words of a user in this run were meant for another one after all."""

    __slots__ = ()


Delivery = tuple[str | None, Event | Withdrawal]
"""The run (None is the top-level one) and what it gets."""

EVERY = "\0every"
"""Stands for all runs: what is taken back is taken back wherever it was said."""


class Router:
    """Sorts the events of one log by run. ``limbo`` holds results whose call has not come yet."""

    def __init__(self) -> None:
        self.limbo: dict[Any, list[Event]] = {}
        self.runs = Runs()
        # The run of a call with this id; of several with the same, a list of theirs.
        self._callers: dict[Any, str | list[str | None] | None] = {}
        self._own_calls: set[tuple[str | None, Any]] = set()
        self._own: dict[str, str | None] = {}
        self._last_user: tuple[Run, Event] | None = None
        self._started = False

    def route(self, event: Event) -> list[Delivery]:
        """Who gets this event. Nobody gets what says nothing about a conversation."""
        handler = _HANDLERS.get(event.type)
        if handler is None:
            return []
        data = event.data
        if event.type == "tool_result":
            return self._route_result(event, data)
        if event.run is not None and event.type not in _ABOUT_OTHERS:
            return self._route_owned(event, data)
        return handler(self, event, data)

    # --- events that name their run

    def _route_owned(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
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

    def _is_top(self, event: Event, data: dict[str, Any]) -> bool:
        """Whether a run seen for the first time is the top-level one, or goes on with it."""
        if event.type != "agent_start":
            return event.type in _BRANCHES or not self._started
        depth, agent = data.get("depth"), data.get("agent")
        if depth == 0 or not self._started:
            return True
        goes_on = agent is not None and agent == self.runs.top.agent and not self.runs.top.open
        return goes_on and depth is None and data.get("parent") is None

    def _route_result(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """A result goes where its call is."""
        key = _hashable(data.get("toolCallId"))
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
        """An event of the assistant, and the results that came before the calls in it."""
        deliveries: list[Delivery] = [(key, event)]
        for call in _calls_in(event.type, data):
            callers = self._callers.setdefault(call, key)
            if isinstance(callers, list):
                if callers[-1] != key:
                    callers.append(key)
            elif callers != key:
                self._callers[call] = [callers, key]
            if event.run is not None:
                self._own_calls.add((key, call))
            deliveries += [(key, result) for result in self.limbo.pop(call, ())]
        return deliveries

    # --- plain logs

    def on_words(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """An assistant's text, thinking or delta."""
        agent = data.get("agent")
        if agent == AUDIT_AGENT:
            return []
        self._started = True
        run = self.runs.speaker(agent, is_call=False)
        run.answered()
        return self._deliver(run.key, event, data)

    def on_call(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """A tool call; results that came before it follow it."""
        self._started = True
        run = self.runs.speaker(data.get("agent"), is_call=True)
        run.answered()
        return self._deliver(run.key, event, data)

    def on_user(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """A user's words: of the person, or of an agent that gives another one a task."""
        self._started = True
        content = data.get("content")
        run = self.runs.addressee(data.get("agent"), content)
        suspicious = run is self.runs.top and run.open and run.prompted
        self._last_user = (run, event) if suspicious else None
        run.prompted = True
        run.owes = True
        return [(run.key, event)]

    def on_permission(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """A question or an answer about a call goes where the call is; without one, nowhere."""
        key = _hashable(data.get("call"))
        if key is None or key not in self._callers:
            return []
        if event.run is not None and (own := self._own.get(event.run), key) in self._own_calls:
            return [(own, event)]
        callers = self._callers[key]
        return [(callers[-1] if isinstance(callers, list) else callers, event)]

    def to_every(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Something that concerns all runs."""
        return [(EVERY, event)]

    def to_top(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """Something that concerns the top-level run."""
        return [(None, event)]

    def on_branch(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """A fork or a merge: nobody's words; the run it names is that of what was merged."""
        return []

    def on_delegation(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """One agent gives another a task."""
        run = self.runs.delegate(data.get("parent"), data.get("child"), data.get("task"))
        return self._reassign(run)

    def _reassign(self, run: Run | None) -> list[Delivery]:
        """Give a child the prompt that came before its delegation was recorded."""
        last, self._last_user = self._last_user, None
        if last is None or run is None or run.prompted or run.task is None:
            return []
        old, event = last
        if event.data.get("content") != run.task:
            return []
        run.prompted = True
        run.owes = True
        return [(old.key, Withdrawal()), (run.key, event)]

    def on_life(self, event: Event, data: dict[str, Any]) -> list[Delivery]:
        """An agent starts, asks its model, or ends."""
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


def _calls_in(type: str, data: dict[str, Any]) -> list[Any]:
    """The ids of the calls that an event makes: its own, or those of blocks in its content."""
    if type == "tool_call":
        return [_hashable(data.get("id"))]
    blocks = blocks_of(data.get("content"))
    return [_hashable(block.get("id")) for kind, block in blocks if kind == "tool_use"]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, int)) else None


_ABOUT_OTHERS = frozenset({"retracted", "permission"})  # they begin no run
_ENDS = frozenset({"agent_complete", "agent_error"})
_BRANCHES = frozenset({"forked", "merged"})
_LIFE = frozenset({"agent_start", "agent_iteration", "delegation"}) | _ENDS

_HANDLERS: dict[str, Callable[[Router, Event, dict[str, Any]], list[Delivery]]] = {
    "user": Router.on_user,
    "assistant": Router.on_words,
    "thinking": Router.on_words,
    "delta": Router.on_words,
    "tool_call": Router.on_call,
    "tool_result": Router.to_top,
    "permission": Router.on_permission,
    "system": Router.to_top,
    "retracted": Router.to_every,
    "compaction": Router.to_top,
    "delegation": Router.on_delegation,
    **dict.fromkeys(_BRANCHES, Router.on_branch),
    **dict.fromkeys(_LIFE - {"delegation"}, Router.on_life),
}
