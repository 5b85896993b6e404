"""The events of one run on a session, recorded under the run; and the attempts in a log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.agent._result import CallRequest, Reply
from holdfast.model import Event
from holdfast.replay import Conversation, estimate_tokens
from holdfast.security import has_mark
from holdfast.session import Session, documents_of, whole_event

_TOP = "r-"
_CHILD = "d-"


def new_run(*, child: bool = False) -> str:
    """Return a new name for a run, which also distinguishes a child's run from a top-level one."""
    return (_CHILD if child else _TOP) + os.urandom(6).hex()


def is_child(event: Event) -> bool:
    """Return whether an event belongs to a delegate."""
    return event.run is not None and event.run.startswith(_CHILD)


def is_of(event: Event, run: str | None) -> bool:
    """Return whether an event belongs to this run of a delegate; for None, to none of a delegate."""
    return not is_child(event) if run is None else event.run == run


class RunLog:
    """Records what one agent does in one run.

    The top-level run is read back with the whole conversation of the session; a child's run contains its own events
    only.
    """

    def __init__(self, session: Session, run: str, agent: str, *, child: bool = False) -> None:
        self.session = session
        self.run = run
        self.agent = agent
        self._own = Conversation(incomplete="mark") if child else None

    @property
    def is_child(self) -> bool:
        return self._own is not None

    def append(
        self, event: Event | str, data: dict[str, Any] | None = None, *, run: str | None = None, key: str | None = None
    ) -> Event:
        recorded = self.session.append(event, data, run=run or self.run, key=key)
        self._feed(recorded, data)
        return recorded

    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        """Record several events of this run at once: a crash leaves all of them or none."""
        pairs = [(one.type, one.data) if isinstance(one, Event) else one for one in events]
        given = [Event.make(type, data, run=self.run) for type, data in pairs]
        recorded = self.session.extend(given)
        for one, event in zip(recorded, given, strict=True):
            self._feed(one, event.data)
        return recorded

    def _feed(self, recorded: Event, data: dict[str, Any] | None) -> None:
        if self._own is not None:
            # The given data, not the recorded: big parts of that are kept elsewhere.
            self._own.feed(Event.make(recorded.type, data or {}, seq=recorded.seq, run=recorded.run))

    def replay(self, events: Iterable[Event]) -> None:
        for event in events:
            if self._own is None:
                return
            if event.run == self.run:
                self._own.feed(whole_event(event, documents_of(self.session)))
            elif event.type == "permission" and event.run is None:  # what was allowed is recorded beside the runs
                self._own.feed(Event.make(event.type, event.data, seq=event.seq, run=self.run))

    async def abarrier(self) -> None:
        await self.session.abarrier()

    def messages(self) -> list[dict[str, Any]]:
        """Return the conversation so far in neutral form; valid, with interrupted calls marked."""
        if self._own is not None:
            return self._own.messages("neutral")
        return self.session.messages("neutral", incomplete="mark")

    def user(self, content: Any, **extra: Any) -> Event:
        """Record the user's message, with an estimate of its length."""
        return self.append("user", {"role": "user", "content": content, **counted(content), **extra})

    def delta(self, content: str, **extra: Any) -> Event:
        return self.append("delta", {"content": content, **extra})

    def tool_result(self, call: Event | str, result: Any = None, *, is_error: bool = False, **extra: Any) -> Event:
        """Record the result of a tool, with an estimate of its length."""
        call_id = call.id if isinstance(call, Event) else call
        data = {"toolCallId": call_id, "result": result, **counted(result), **extra}
        return self.append("tool_result", data | ({"is_error": True} if is_error else {}))

    def words_of(self, reply: Reply, covers: dict[str, int]) -> list[tuple[str, dict[str, Any]]]:
        """Return the events of the model's words; ``covers`` names the first streamed piece of each kind.

        Every part of a kind names that piece: the streamed text is all of them together. The calls are recorded in
        the same batch, by what makes them.
        """
        drafts = [self._speech(part, covers) for part in reply.speech]
        said = [data for type, data in drafts if type == "assistant"]
        if not said and not reply.calls:
            said = [{"role": "assistant", "content": "", "agent": self.agent}]
            drafts.append(("assistant", said[0]))
        if said:
            said[-1].update(cost_of(reply))
        return drafts

    def _speech(self, part: Any, covers: dict[str, int]) -> tuple[str, dict[str, Any]]:
        data: dict[str, Any] = {"content": part.text, "agent": self.agent}
        if part.kind in covers:
            data["covers_from"] = covers[part.kind]
        if part.redacted:
            data["content"] = [{"type": "redacted_thinking", "data": part.signature}]
            return "thinking", data
        if part.kind != "thinking":
            return "assistant", {"role": "assistant", **data}
        signed = {"signature": part.signature, "thought_signature": part.thought_signature}
        return "thinking", data | {name: value for name, value in signed.items() if value}


def cost_of(reply: Reply) -> dict[str, Any]:
    """Return the cost of an answer, as members of the event that carries it."""
    usage = reply.usage
    found: dict[str, Any] = {"usage": usage.figures(), "token_count": usage.output_tokens}
    if usage.estimated:
        found["token_count_estimated"] = True
    if reply.model:
        found["model"] = reply.model
    return found


def counted(value: Any) -> dict[str, Any]:
    """Return the members with the estimated length."""
    count = 0
    if isinstance(value, str):
        count = estimate_tokens(value)
    else:
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            count = len(msgspec.json.encode(value)) // 4 + 1
    return {"token_count": count, "token_count_estimated": True}


class Attempt(msgspec.Struct, kw_only=True):
    """One attempt at a turn. Times are Unix milliseconds; ``heartbeat_at`` is the last sign of life.

    ``reason`` is completed, failed, cancelled, suspended or interrupted; None while it goes on.
    """

    run: str
    agent: str | None
    started_at: int
    heartbeat_at: int
    ended_at: int | None = None
    reason: str | None = None
    iterations: int = 0

    @property
    def duration_ms(self) -> int:
        """The duration of the run, until now if it has not ended."""
        return (self.ended_at or self.heartbeat_at) - self.started_at


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """Return the attempts of a session, oldest first; a later one means that an open one has died."""
    found: list[Attempt] = []
    open_ones: dict[str, Attempt] = {}
    for event in events:
        run = event.run or ""
        if event.type == "turn_start":
            agent, now = event.data.get("agent"), event.timestamp
            agent = agent if isinstance(agent, str) else None
            open_ones[run] = Attempt(run=run, agent=agent, started_at=now, heartbeat_at=now)
            found.append(open_ones[run])
        elif event.type == "turn_end" and run in open_ones:
            one = open_ones.pop(run)
            one.reason = str(event.data.get("reason", "completed"))
            one.ended_at = one.heartbeat_at if one.reason == "interrupted" else event.timestamp
        # It names no run: everything that was open in the dead process is over.
        elif event.type == "interrupted":
            for one in open_ones.values():
                # Noted by the next process, long after the last sign of life.
                one.reason, one.ended_at = "interrupted", one.heartbeat_at
            open_ones.clear()
        elif run in open_ones:
            one = open_ones[run]
            one.heartbeat_at = max(one.heartbeat_at, event.timestamp)
            one.iterations += event.type == "agent_iteration" and not event.data.get("heartbeat")
    return found


# What an ended process left of the last answer.
class Unasked(NamedTuple):
    """The calls of a run's last answer that an ended process recorded, and neither began nor asked about."""

    calls: Sequence[tuple[CallRequest, Event]] = ()
    below: Sequence[tuple[str, str]] = ()
    """The runs of delegates that have not ended, each with the call of the delegate."""


NOTHING = Unasked()


def find_leftovers(session: Session, delegates: Collection[str] = ()) -> tuple[list[CallRequest], Unasked]:
    """Return the top-level calls that an ended process left without a result: the begun, and the only recorded ones.

    The outcome of those that had begun is unknown. Call it before anything is appended: the first append records
    the interruption, and from then on they count as interrupted.
    """
    state = session.live_state
    if not state.open_turns:
        return [], NOTHING
    waiting = _waiting_calls(session)
    begun = [one.seq for id, one in state.pending_calls.items() if one.begun and id not in waiting]
    calls = [event for event in map(next, map(session.events, begun)) if event.type == "tool_call"]
    requests = [request for event in calls if not is_child(event) and (request := _request(session, event))]
    return requests, find_unasked(session, delegates=delegates)


def find_unasked(session: Session, run: str | None = None, *, delegates: Collection[str] = ()) -> Unasked:
    """Return the calls of the last answer of a run that nobody was asked about, and the runs below that go on.

    The state does not have them: a process that was killed in between recorded that they did not run. ``delegates`` are
    the names of the calls by which the run delegates.
    """
    waiting = _waiting_calls(session)
    settled: set[Any] = set()
    calls: list[tuple[CallRequest, Event]] = []
    below: list[tuple[str, str]] = []
    for event in session.newest(0):
        # What was allowed is recorded beside the runs of delegates, and then the call may have begun.
        if not is_of(event, run) and event.type != "permission":
            continue
        if event.type in ("user", "assistant"):
            break
        if event.type not in _ABOUT_CALLS:
            continue
        call = event.data.get(_ABOUT_CALLS[event.type])
        if event.type == "delegation":
            if call not in settled:
                below.append((str(event.data.get("child_run")), str(call)))
            continue
        # A delegate begins with an event of its own: without it, its call was recorded only.
        is_lone = event.data.get("tool") in delegates and call not in dict(below).values()
        is_only_recorded = event.data.get("begun") is False or is_lone
        if event.type == "tool_call" and call not in settled | waiting and is_only_recorded:
            request = _request(session, event)
            calls += [] if request is None else [(request, event)]
        settled.add(call)
    return Unasked(calls[::-1], below[::-1])


def _waiting_calls(session: Session) -> set[str | None]:
    return {name for ask in session.live_state.asks.values() for name in (*ask.above, ask.call)}


_ABOUT_CALLS = {
    "tool_call": "id",
    "delegation": "call",
    "permission": "call",
    "step": "call",
    "tool_result": "toolCallId",
}


def _request(session: Session, event: Event) -> CallRequest | None:
    event = whole_event(event, documents_of(session))
    params = event.data.get("params")
    # With a mark in place of a secret it would be another call than the intended one.
    if not isinstance(params, dict) or has_mark(bytes(event.raw)):
        return None
    return CallRequest(str(event.data.get("id")), str(event.data.get("tool")), params)
