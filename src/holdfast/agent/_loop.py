"""The loop: ask the model, record what it says, carry out what it asks for, until it is done."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from pydantic_ai.tools import ToolDefinition

from holdfast.agent._engine import Engine
from holdfast.agent._execution import Executor, Halt
from holdfast.agent._options import STRATEGIES, check_whole
from holdfast.agent._reply import Ask, CallRequest, Reply, Usage
from holdfast.agent._run_log import RunLog, cost_of
from holdfast.agent._tools import Tool
from holdfast.agent._window import compact, fit_messages, measure, shorten_results
from holdfast.errors import HoldfastError, TooManyIterations, UsageError
from holdfast.replay import estimate_tokens

Emit = Callable[[str], None]


class RunBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run may go."""

    max_iterations: int = 1000
    max_context_tokens: int | None = None
    strategy: str = "none"
    heartbeat_ms: int = 30_000


def make_bounds(
    max_iterations: int, max_context_tokens: int | None, strategy: str, heartbeat_ms: int
) -> RunBounds:
    """The bounds that the caller asked for. Raises UsageError for those that make no sense."""
    if strategy not in STRATEGIES:
        raise UsageError(f"strategy {strategy!r} is none of {', '.join(STRATEGIES)}")
    check_whole(1, max_iterations=max_iterations)
    check_whole(1, or_none=True, max_context_tokens=max_context_tokens)
    check_whole(0, heartbeat_ms=heartbeat_ms)
    if strategy != "none" and max_context_tokens is None:
        raise UsageError(f"the strategy {strategy!r} needs max_context_tokens")
    return RunBounds(
        max_iterations=max_iterations,
        max_context_tokens=max_context_tokens,
        strategy=strategy,
        heartbeat_ms=heartbeat_ms,
    )


class LoopOutcome(msgspec.Struct):
    """How a run ended: with an answer, or waiting for someone."""

    output: str = ""
    halts: list[Halt] = []
    finish_reason: str | None = None


class Loop:
    """One run of one agent on one talk. Makes one Outcome, once."""

    def __init__(
        self,
        talk: RunLog,
        engine: Engine,
        executor: Executor,
        tools: dict[str, Tool],
        *,
        bounds: RunBounds,
        instructions: Callable[[], str | None],
        usage: Usage,
        emit: Emit | None = None,
    ) -> None:
        self._talk = talk
        self._engine = engine
        self._executor = executor
        self._definitions = tuple(tool.definition for tool in tools.values())
        self._bounds = bounds
        self._instructions = instructions
        self._emit = emit
        self._usage = usage
        self.iteration = 0

    async def run(self) -> LoopOutcome:
        """Go on until the model has nothing more to do. Raises TooManyIterations, ModelFailed."""
        while self.iteration < self._bounds.max_iterations:
            self.iteration += 1
            note = {"agent": self._talk.agent, "iteration": self.iteration}
            self._talk.append("agent_iteration", note)
            ask = await self._prepare()
            reply = await self._ask(ask)
            if not reply.calls:
                return LoopOutcome(reply.text, finish_reason=reply.finish_reason)
            words = any(part.kind == "text" for part in reply.speech)
            # Of the whole conversation: the request may hold a part of it.
            calls = with_own_ids(reply.calls, self._talk.messages())
            halts = await self._executor.execute(calls, {} if words else cost_of(reply))
            if halts:
                return LoopOutcome(reply.text, halts, "suspended")
        raise TooManyIterations(
            f"{self._talk.agent} made {self._bounds.max_iterations} steps without an end",
            session_id=self._talk.session.id,
        )

    async def _ask(self, ask: Ask) -> Reply:
        covers: dict[str, int] = {}
        if self._emit is None:
            reply = await self._engine.request(ask)
        else:
            reply, covers = await self._stream(ask, self._emit)
        self._usage.add(reply.usage)
        self._talk.reply(reply, covers)
        return reply

    async def _stream(self, ask: Ask, emit: Emit) -> tuple[Reply, dict[str, int]]:
        recorder = DeltaRecorder(self._talk, emit)
        replies: list[Reply] = []
        try:
            async with contextlib.aclosing(self._engine.stream(ask, replies)) as pieces:
                async for kind, text in pieces:
                    recorder.take(kind, text)
        finally:
            recorder.end()
        return replies[0], recorder.covers

    async def _prepare(self) -> Ask:
        instructions = self._instructions()
        messages = self._talk.messages()
        limit = self._bounds.max_context_tokens
        if limit is None or self._bounds.strategy == "none":
            return Ask(shorten_results(messages), instructions, self._definitions)
        room = max(limit - self._overhead(instructions), 1)
        summarise = self._bounds.strategy == "summarise" and not self._talk.is_child
        if summarise and measure(messages) > room:  # noqa: SIM102 - the second part takes long
            if await compact(self._talk, self._engine, room, self._usage):
                messages = self._talk.messages()
        return Ask(fit_messages(messages, room), instructions, self._definitions)

    def _overhead(self, instructions: str | None) -> int:
        tools = sum(_measure_tool(definition) for definition in self._definitions)
        return tools + estimate_tokens(instructions or "")


def _measure_tool(definition: ToolDefinition) -> int:
    """About how many tokens a tool takes of every request."""
    told = f"{definition.name}{definition.description or ''}{definition.parameters_json_schema}"
    return estimate_tokens(told) + 16


@contextlib.asynccontextmanager
async def beating(talk: RunLog, loop: Loop, interval_ms: int) -> AsyncIterator[None]:
    """Record now and then that the run is alive, for as long as the block lasts."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            note = {"agent": talk.agent, "iteration": loop.iteration, "heartbeat": True}
            talk.append("agent_iteration", note)

    task = asyncio.ensure_future(beat()) if interval_ms else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # of the store: the run itself meets it too, and raises it


def with_own_ids(calls: list[CallRequest], messages: list[dict[str, Any]]) -> list[CallRequest]:
    """The calls with ids that no other call of the conversation has.

    Some servers count from one in every answer; a result must never be taken for that of a call
    that was interrupted long ago.
    """
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    used = {block["id"] for block in blocks if block["type"] == "tool_use"}
    own = []
    for call in calls:
        fresh = call.id and call.id not in used
        own.append(call if fresh else replace(call, id=f"call_{secrets.token_hex(12)}"))
        used.add(call.id)
    return own


# Streamed words on disk as they come, without a line for every word.


HOLD_S = 0.05
HOLD_BYTES = 1024


class DeltaRecorder:
    """Records streamed pieces, put together for at most 50 ms or 1 KiB, and then shows them.

    ``emit`` gets the text of an answer only after it is on record: what a user has seen survives
    the death of the process. ``covers`` holds, for each kind, the first event recorded, which the
    final event names.
    """

    def __init__(self, talk: RunLog, emit: Callable[[str], None]) -> None:
        self._talk = talk
        self._emit = emit
        self._kind = "text"
        self._held: list[str] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unshown = ""
        self.covers: dict[str, int] = {}

    def take(self, kind: str, text: str) -> None:
        """One more piece."""
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._held.append(text)
        self._bytes += len(text.encode("utf-8", "replace"))
        if self._bytes >= HOLD_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._flush_in_time)

    def end(self) -> None:
        """Nothing more comes: record and show it to the last word."""
        self.flush()
        if self._unshown:
            self._talk.session.record_held(self._talk.run)
            self._show()

    def flush(self) -> None:
        """Record what is held, then show as much of it as is on record."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._held)
        if not text:
            return
        extra = {} if self._kind == "text" else {"kind": self._kind}
        event = self._talk.delta(text, agent=self._talk.agent, **extra)
        pieces, self._held, self._bytes = self._held, [], 0
        self.covers.setdefault(self._kind, event.seq)
        if self._kind == "text":
            self._show(pieces)

    def _show(self, pieces: Sequence[str] = ()) -> None:
        """Redaction keeps the last word from the log while a secret may begin with it."""
        waiting = self._talk.session.held_back(self._talk.run).get("text", 0)
        if not waiting and not self._unshown:
            for piece in pieces:
                self._emit(piece)
            return
        said = self._unshown + "".join(pieces)
        known = len(said) - waiting
        self._unshown = said[known:]
        if said[:known]:
            self._emit(said[:known])

    def _flush_in_time(self) -> None:
        self._timer = None
        # Nobody could catch it here. What the store refuses is held, and raised by a later flush.
        with contextlib.suppress(HoldfastError):
            self.flush()
