"""One run's words on a session, recorded under the run; and the attempts that a log tells of."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.agent._result import Reply
from holdfast.model import Event
from holdfast.replay import Conversation, estimate_tokens
from holdfast.session import Session, ToolRun

_TOP = "r-"
_CHILD = "d-"


def new_run(*, child: bool = False) -> str:
    """A fresh name for a run; it tells a child's run from a top-level one."""
    return (_CHILD if child else _TOP) + secrets.token_hex(6)


def is_child(event: Event) -> bool:
    """Whether an event belongs to an agent that another agent called."""
    return event.run is not None and event.run.startswith(_CHILD)


class RunLog:
    """Records what one agent does in one run.

    The top-level run is read back with the whole conversation of the session; a child's run holds
    its own words only.
    """

    def __init__(self, session: Session, run: str, agent: str, *, child: bool = False) -> None:
        self.session = session
        self.run = run
        self.agent = agent
        self._own = Conversation(incomplete="mark") if child else None

    @property
    def is_child(self) -> bool:
        """Whether another agent called this one."""
        return self._own is not None

    def append(
        self, event: Event | str, data: dict[str, Any] | None = None, *, run: str | None = None, key: str | None = None
    ) -> Event:
        """Record one event of this run."""
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
            # What was given, not what was recorded: big parts of that are elsewhere.
            self._own.feed(Event.make(recorded.type, data or {}, seq=recorded.seq, run=recorded.run))

    def replay(self, events: Iterable[Event]) -> None:
        """Take in what this run said before, in another process."""
        for event in events:
            if event.run == self.run and self._own is not None:
                self._own.feed(event)

    def barrier(self) -> None:
        """Do not go on before what was recorded is safe."""
        self.session.barrier()

    async def abarrier(self) -> None:
        """Wait until what was recorded is safe, without blocking the event loop."""
        await self.session.abarrier()

    def messages(self) -> list[dict[str, Any]]:
        """The conversation so far in neutral form; valid, with interrupted calls marked."""
        if self._own is not None:
            return self._own.messages("neutral")
        return self.session.messages("neutral", incomplete="mark")

    def user(self, content: Any, **extra: Any) -> Event:
        """What the user said, with an estimate of its length."""
        return self.append("user", {"role": "user", "content": content, **counted(content), **extra})

    def delta(self, content: str, **extra: Any) -> Event:
        """A piece of an answer as it was streamed to the user."""
        return self.append("delta", {"content": content, **extra})

    def tool(self, tool: str, params: Any, *, id: str, **extra: Any) -> ToolRun:
        """Use a tool inside a block, as ``Session.tool`` does."""
        return ToolRun(self, tool, params, id=id, **extra)

    def tool_call(self, tool: str, params: Any = None, *, id: str | None = None, **extra: Any) -> Event:
        """The agent's intent to use a tool."""
        return self.append("tool_call", {"id": id, "tool": tool, "params": params, **extra})

    def tool_result(self, call: Event | str, result: Any = None, *, is_error: bool = False, **extra: Any) -> Event:
        """What a tool gave, with an estimate of its length."""
        call_id = call.id if isinstance(call, Event) else call
        data = {"toolCallId": call_id, "result": result, **counted(result), **extra}
        return self.append("tool_result", data | ({"is_error": True} if is_error else {}))

    def reply(self, reply: Reply, covers: dict[str, int]) -> None:
        """The model's words, all at once; ``covers`` names the first streamed piece of each kind.

        Every part of a kind names that piece: what was streamed is in all of them together.
        Its calls are not recorded here: each is recorded when it is about to be made.
        """
        drafts = [self._speech(part, covers) for part in reply.speech]
        if not any(type == "assistant" for type, _ in drafts):
            if not reply.calls:
                said = {"role": "assistant", "content": "", "agent": self.agent}
                drafts.append(("assistant", said | cost_of(reply)))
        else:
            last = max(i for i, (type, _) in enumerate(drafts) if type == "assistant")
            drafts[last][1].update(cost_of(reply))
        if drafts:
            self.extend(drafts)

    def _speech(self, part: Any, covers: dict[str, int]) -> tuple[str, dict[str, Any]]:
        data: dict[str, Any] = {"content": part.text, "agent": self.agent}
        if part.kind in covers:
            data["covers_from"] = covers[part.kind]
        if part.redacted:
            data["content"] = [{"type": "redacted_thinking", "data": part.signature}]
            return "thinking", data
        if part.kind == "thinking":
            for name in ("signature", "thought_signature"):
                if getattr(part, name):
                    data[name] = getattr(part, name)
            return "thinking", data
        return "assistant", {"role": "assistant", **data}


def cost_of(reply: Reply) -> dict[str, Any]:
    """What an answer cost, as members of the event that carries it."""
    usage = reply.usage
    found: dict[str, Any] = {"usage": usage.figures(), "token_count": usage.output_tokens}
    if usage.estimated:
        found["token_count_estimated"] = True
    if reply.model:
        found["model"] = reply.model
    return found


def counted(value: Any) -> dict[str, Any]:
    """The members that say how long something is, about."""
    return {"token_count": _estimate(value), "token_count_estimated": True}


def _estimate(value: Any) -> int:
    if isinstance(value, str):
        return estimate_tokens(value)
    try:
        return len(msgspec.json.encode(value)) // 4 + 1
    except (TypeError, ValueError, RecursionError):
        return 0


# Run attempts: each turn of a session as it began, lived and ended, read from its log.


class Attempt(msgspec.Struct, kw_only=True):
    """One try at a turn. Times are Unix milliseconds; ``heartbeat_at`` is the last sign of life.

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
        """How long it took, or has taken so far."""
        return (self.ended_at or self.heartbeat_at) - self.started_at


def attempts(events: Iterable[Event]) -> list[Attempt]:
    """The attempts of a session, oldest first; a later one means that an open one is gone."""
    found: list[Attempt] = []
    open_ones: dict[str, Attempt] = {}
    for event in events:
        run = event.run or ""
        if event.type == "turn_start":
            one = _begin(event)
            found.append(one)
            open_ones[run] = one
        elif event.type == "turn_end" and run in open_ones:
            _end(open_ones.pop(run), event, str(event.data.get("reason", "completed")))
        # It says nothing of runs: whatever was open in the process that died is over.
        elif event.type == "interrupted":
            for one in open_ones.values():
                _end(one, event, "interrupted")
            open_ones.clear()
        elif run in open_ones:
            _live(open_ones[run], event)
    return found


def _begin(event: Event) -> Attempt:
    agent = event.data.get("agent")
    return Attempt(
        run=event.run or "",
        agent=agent if isinstance(agent, str) else None,
        started_at=event.timestamp,
        heartbeat_at=event.timestamp,
    )


def _live(attempt: Attempt, event: Event) -> None:
    attempt.heartbeat_at = max(attempt.heartbeat_at, event.timestamp)
    if event.type == "agent_iteration" and not event.data.get("heartbeat"):
        attempt.iterations += 1


def _end(attempt: Attempt, event: Event, reason: str) -> None:
    attempt.reason = reason
    # An interruption is noted by the next process, long after the last sign of life.
    attempt.ended_at = attempt.heartbeat_at if reason == "interrupted" else event.timestamp
