"""The fold: events in, state out. The same events always give the same state."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import Any

from holdfast.errors import TooNew
from holdfast.model import Event
from holdfast.replay._progress import PROGRESS, Reducer, opened_reducer, tool_call_reducer
from holdfast.replay._settings import SETTINGS, session_start_reducer
from holdfast.replay._state import TODO_TOOLS, State
from holdfast.replay._upcast import STEPS, Steps, upcast


def _reducers(todo_tools: Collection[str], steps: Steps) -> dict[str, Reducer]:
    return {
        **PROGRESS,
        **SETTINGS,
        "tool_call": tool_call_reducer({name.lower() for name in todo_tools}),
        "opened": opened_reducer(steps),
        "session_start": session_start_reducer(steps),
    }


_USUAL = _reducers(TODO_TOOLS, STEPS)


class Fold:
    """Holds a state and applies events to it, in the order of the log.

    It never raises about content: malformed data of a known type is left out and counted in
    ``state.ignored``, unknown types change nothing. Raises TooNew when an event says that a newer format begins; the
    fold is then unusable.
    """

    __slots__ = ("_count", "_last", "_reducers", "_state", "_steps")

    def __init__(
        self, state: State | None = None, *, todo_tools: Collection[str] = TODO_TOOLS, steps: Steps = STEPS
    ) -> None:
        self._state = state = State() if state is None else state
        state.alive = True  # no event records it
        self._count = state.event_count
        self._last: Event | None = None
        self._steps = steps
        usual = todo_tools is TODO_TOOLS and steps is STEPS
        self._reducers = _USUAL if usual else _reducers(todo_tools, steps)

    @property
    def state(self) -> State:
        """The live state; hand out ``state.copy()``. Only one thread at a time may read it or apply events."""
        last = self._last
        if last is not None:
            state = self._state
            state.seq, state.event_count, state.updated_at = last.seq, self._count, last.timestamp
        return self._state

    def apply(self, event: Event, data: dict[str, Any] | None = None) -> None:
        """Apply one event of the current format; the writer's ``data`` saves decoding and is not kept."""
        state = self._state
        reduce = self._reducers.get(event.type)
        if reduce is not None:
            try:
                reduce(state, event, data)
            except TooNew:
                raise
            except (ValueError, RecursionError):
                state.ignored += 1
        self._count += 1
        if event.key is None and event.timestamp and state.created_at:
            self._last = event  # the number and time of nearly every event: set when asked for
            return
        state, stamp = self.state, event.timestamp
        self._last = None
        state.seq, state.event_count = event.seq, self._count
        state.updated_at = stamp or state.updated_at
        state.created_at = state.created_at or stamp
        if event.key is not None:
            state.keys.setdefault(event.key, event.seq)

    def fold(self, events: Iterable[Event]) -> State:
        """Apply the next recorded events of the log, in any format; return the live state."""
        state = self._state if self._last is None else self.state
        reducer_of = self._reducers.get
        seq, count, created, updated = state.seq, 0, state.created_at, state.updated_at
        # The same as apply, event by event, with the deferrable work done once at the end.
        for event in upcast(events, state.format, self._steps):
            reduce = reducer_of(event.type)
            if reduce is not None:
                try:
                    reduce(state, event, None)
                except TooNew:
                    raise
                except (ValueError, RecursionError):
                    state.ignored += 1
            seq = event.seq
            count += 1
            updated = event.timestamp or updated
            created = created or updated
            if event.key is not None:
                state.keys.setdefault(event.key, seq)
        state.seq, state.created_at, state.updated_at = seq, created, updated
        self._count = state.event_count = state.event_count + count
        self._last = None
        return state


def fold(events: Iterable[Event], at: int | None = None) -> State:
    """Return the state after all events of a log, or after those up to and including seq ``at``."""
    if at is not None:
        events = takewhile(lambda event: event.seq <= at, events)
    return Fold().fold(events)
