"""The loop: ask the model within its window, record its answer, execute its calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.agent._engine import Engine
from holdfast.agent._execution import Executor
from holdfast.agent._interjections import Steering
from holdfast.agent._limits import RunLimits, RunMeter
from holdfast.agent._options import STRATEGIES, Strategy, check_whole
from holdfast.agent._output import TRIES_MAX, OutputForm
from holdfast.agent._result import Ask, CallRequest, Reply, blocks_of
from holdfast.agent._run_log import RunLog, cost_of, is_child
from holdfast.agent._tools import Tool
from holdfast.errors import HoldfastError, ModelFailed, TooLarge, TooManyIterations, UsageError
from holdfast.model import Event
from holdfast.replay import estimate_tokens, recover
from holdfast.session import Session, Waiting

RESULT_TOKENS_MAX = 25_000
_MEDIA_TOKENS = 1_600
_ROOM_FOR_RESULTS = 4  # one result gets at most this part of the window


def measure(messages: list[dict[str, Any]]) -> int:
    """Return about how many tokens a conversation has."""
    return sum(map(_measure, messages))


def _measure(message: dict[str, Any]) -> int:
    content = message["content"]
    if isinstance(content, str):
        return estimate_tokens(content) + 1
    return sum(_measure_block(block) for block in content) + 1


def _measure_block(block: dict[str, Any]) -> int:
    kind = block["type"]
    if kind in ("image", "document"):
        return _MEDIA_TOKENS
    if kind == "tool_result" and isinstance(block["content"], list):
        return sum(_measure_block(part) for part in block["content"])
    text = block.get("text") or block.get("thinking") or block.get("content")
    if isinstance(text, str):
        return estimate_tokens(text)
    return estimate_tokens(str(block.get("input", "")) + str(block.get("name", "")))


def shorten_results(messages: list[dict[str, Any]], tokens_max: int = RESULT_TOKENS_MAX) -> list[dict[str, Any]]:
    """Return the messages with overlong tool results cut, each with a note of how much is missing."""
    shortened = []
    for message in messages:
        content = message["content"]
        blocks = content if isinstance(content, str) else [_shorten_block(block, tokens_max) for block in content]
        # Keep the same object where nothing changed: the engine has converted that already.
        is_same = blocks is content or all(new is old for new, old in zip(blocks, content, strict=True))
        shortened.append(message if is_same else {**message, "content": blocks})
    return shortened


def _shorten_block(block: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    text = block.get("content")
    if block["type"] != "tool_result" or not isinstance(text, str):
        return block
    if len(text) <= tokens_max or estimate_tokens(text) <= tokens_max:
        return block
    shown = text.encode()[: 4 * tokens_max].decode("utf-8", "ignore")
    note = f"\n[cut: {len(text) - len(shown):,} of {len(text):,} characters are not shown here]"
    return {**block, "content": shown + note}


def fit_messages(messages: list[dict[str, Any]], tokens_max: int) -> list[dict[str, Any]]:
    """Return the first user turn and as much of the newest part as fits, calls with results.

    Raises TooLarge if none does.
    """
    messages = shorten_results(messages, max(tokens_max // _ROOM_FOR_RESULTS, 16))
    if measure(messages) <= tokens_max:
        return messages
    # The newest message is the question: it stays, whatever has to go.
    messages = [*messages[:-1], _newest_words(messages[-1], tokens_max)]
    head = messages[0]
    if head["role"] != "user" or _answers(head) or _measure(head) > tokens_max // 2:
        head = {"role": "user", "content": "(earlier messages are left out)"}
    sizes = [_measure(message) for message in messages]
    start = _newest_that_fit(messages, sizes, tokens_max - _measure(head))
    if start < len(messages):
        first, *rest = messages[start:]
        if first["role"] == "assistant":
            return [head, first, *rest]
        # Two user turns in a row become one.
        return [{"role": "user", "content": [*blocks_of(head), *blocks_of(first)]}, *rest]
    if sizes[-1] > tokens_max or _answers(messages[-1]):
        raise TooLarge(
            f"the last message has about {sizes[-1]} tokens, and the window takes {tokens_max}",
            remedy="Shorten the message, or raise max_context_tokens.",
        )
    return messages[-1:]


def _newest_words(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    """Return the last of a user's messages that fit, if several came without an answer in between."""
    blocks = blocks_of(message)
    if _measure(message) <= tokens_max or _answers(message):
        return message
    room, kept = tokens_max - 1, len(blocks)
    while kept and (room := room - _measure_block(blocks[kept - 1])) >= 0:
        kept -= 1
    return {**message, "content": blocks[kept:]} if kept < len(blocks) else message


def _newest_that_fit(messages: list[dict[str, Any]], sizes: list[int], tokens_max: int) -> int:
    room, start = tokens_max, len(messages)
    for index in range(len(messages) - 1, 0, -1):
        room -= sizes[index]
        if room < 0:
            break
        # Providers refuse a result without its call: a cut never falls between them.
        if not _answers(messages[index]):
            start = index
    return start


def _answers(message: dict[str, Any]) -> bool:
    """Return whether a message holds results, so that it needs the one before it."""
    content = message["content"]
    return not isinstance(content, str) and any(b["type"] == "tool_result" for b in content)


# A summary of the older conversation, recorded as an event; the log stays whole.

_KEPT_SHARE = 3  # a third of the window is kept verbatim
_CHUNK_SHARE = 2
_WORDS = (
    "Summarise this conversation for yourself, so that you can go on with it without having it. "
    "Keep names, facts, decisions, open tasks and results of tools. Write plain text."
)


async def compact(talk: RunLog, engine: Engine, tokens_max: int, meter: RunMeter) -> bool:
    """Summarise the older turns of a session; return whether there was anything to summarise."""
    events = list(talk.session.events())
    boundary = _boundary(events, tokens_max)
    if boundary is None:
        return False
    before = [event for event in events if event.seq < boundary]
    older = recover(before, provider="neutral", incomplete="mark").messages
    summary = await _summarise("\n".join(map(_line, older)), engine, tokens_max, meter, talk.session)
    if not summary.strip():
        return False
    talk.append("compaction", {"summary": summary, "covers": [0, boundary - 1]})
    return True


def _boundary(events: list[Event], tokens_max: int) -> int | None:
    """Return the seq of the user's message before which everything is summarised."""
    # Turns in an earlier summary are not summarised a second time.
    covered = (event.data.get("covers") for event in events if event.type == "compaction")
    lasts = [covers[-1] for covers in covered if isinstance(covers, list) and covers]
    done = max((last for last in lasts if isinstance(last, int)), default=-1)
    starts = [e.seq for e in events if e.type == "user" and not is_child(e)][1:]
    candidates = [seq for seq in starts if seq > done + 1]
    room, kept = 4 * tokens_max // _KEPT_SHARE, len(events)
    while kept and (room := room - len(bytes(events[kept - 1].raw))) >= 0:
        kept -= 1
    oldest = events[kept].seq if kept < len(events) else events[-1].seq + 1
    fitting = [seq for seq in candidates if seq >= oldest]
    return fitting[0] if fitting else next(reversed(candidates), None)


def _line(message: dict[str, Any]) -> str:
    said = []
    for block in blocks_of(message):
        if block["type"] == "tool_use":
            said.append(f"[calls {block['name']} {msgspec.json.encode(block['input']).decode()}]")
        elif block["type"] == "tool_result":
            said.append(f"[result: {str(block['content'])[:2000]}]")
        else:
            said.append(str(block.get("text", "")))
    return f"{message['role']}: {' '.join(said)}"


async def _summarise(transcript: str, engine: Engine, tokens_max: int, meter: RunMeter, session: Session) -> str:
    """Summarise piece by piece if the transcript itself does not fit into the window."""
    size = max(4 * tokens_max // _CHUNK_SHARE, 256)
    summary = ""
    for start in range(0, len(transcript), size):
        piece = transcript[start : start + size]
        earlier = f"Summary so far:\n{summary}\n\n" if summary else ""
        prompt = f"{_WORDS}\n\n{earlier}Conversation:\n{piece}"
        reply = await engine.request(Ask([{"role": "user", "content": prompt}]))
        meter.add(reply)
        session.usage(**reply.usage.figures(), model=reply.model, purpose="summary")
        summary = reply.text
    return summary


# The loop: ask the model, record its answer, execute its calls, until it is done.

Emit = Callable[[str], None]


class RunBounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a run. Raises UsageError for bounds that make no sense."""

    max_iterations: int = 1000
    max_context_tokens: int | None = None
    strategy: Strategy = "none"
    heartbeat_ms: int = 30_000
    limits: RunLimits = RunLimits()

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise UsageError(f"strategy {self.strategy!r} is none of {', '.join(STRATEGIES)}")
        check_whole(1, max_iterations=self.max_iterations)
        check_whole(1, or_none=True, max_context_tokens=self.max_context_tokens)
        check_whole(0, heartbeat_ms=self.heartbeat_ms)
        if self.strategy != "none" and self.max_context_tokens is None:
            raise UsageError(f"the strategy {self.strategy!r} needs max_context_tokens")


class LoopOutcome(msgspec.Struct):
    """The end of a run: an answer, open questions, or a limit."""

    output: str = ""
    """The answer as a text; a value as JSON."""
    waiting: list[Waiting] = []
    finish_reason: str | None = None
    limit: str | None = None
    """The limit that stopped it."""
    value: tuple[Any] | None = None
    """The value, if the run gave one, alone in a tuple."""


@dataclass(kw_only=True)
class Loop:
    """One run of one agent on one conversation. Returns one LoopOutcome, once."""

    talk: RunLog
    engine: Engine
    executor: Executor
    tools: tuple[Tool, ...]
    """The tools that the model may call."""
    bounds: RunBounds
    instructions: Callable[[], str | None]
    meter: RunMeter
    emit: Emit | None = None
    steering: Steering = field(default_factory=Steering)
    output: OutputForm | None = None
    iteration: int = 0
    _misses: int = 0

    async def run(self) -> LoopOutcome:
        """Run until the model has nothing more to do. Raises TooManyIterations, ModelFailed."""
        while self.iteration < self.bounds.max_iterations:
            if limit := self.meter.reached():
                return LoopOutcome(finish_reason="stopped", limit=limit)
            self.iteration += 1
            self.talk.append("agent_iteration", {"agent": self.talk.agent, "iteration": self.iteration})
            if not self.talk.is_child:
                self.steering.hear(self.talk)
            outcome = None
            async with self.steering.step():
                outcome = await self._step()
            # A message that came with the last answer is answered too.
            if outcome is not None and (outcome.waiting or await self.steering.is_done()):
                return outcome
        raise TooManyIterations(
            f"{self.talk.agent} made {self.bounds.max_iterations} steps without an end", session_id=self.talk.session.id
        )

    async def _step(self) -> LoopOutcome | None:
        """Make one request and execute its calls; return the outcome, if the run has ended."""
        if given := self._given():
            return given
        reply, words = await self._ask(await self._prepare())
        if not reply.calls:
            self.talk.extend(words)
            return await self._said(reply)
        # Of the whole conversation: the request may contain only a part of it.
        state = self.talk.session.live_state
        taken = {*state.pending_calls, *state.deferred_calls, *(ask.call for ask in state.asks.values())}
        calls = with_own_ids(reply.calls, self.talk.messages(), taken)
        is_counted = any(type == "assistant" for type, _ in words)
        waiting = await self.executor.execute(calls, words, {} if is_counted else cost_of(reply))
        if waiting:
            return LoopOutcome(reply.text, waiting, "suspended")
        given = self._given()
        if given is None and self.output is not None and any(call.name in self.output.ways for call in calls):
            self._miss()
        return given

    async def _said(self, reply: Reply) -> LoopOutcome | None:
        """Return the outcome of an answer in words; None if a value is wanted and the model is asked again."""
        if self.output is None:
            return LoopOutcome(reply.text, finish_reason=reply.finish_reason)
        wish = self.output.wish
        if self.output.allows_text:
            try:
                value = await self._read_text(self.output, reply.text)
            except Exception as error:  # noqa: BLE001 - whatever it raised, the model may do better
                wish = f"(this does not fit: {error}; answer again)"
            else:
                return LoopOutcome(reply.text, finish_reason=reply.finish_reason, value=(value,))
        self._miss()
        self.talk.user(wish, synthetic=True)
        return None

    async def _read_text(self, output: OutputForm, text: str) -> Any:
        return text if output.of_text is None else await output.of_text(self.executor.context(""), text)

    def _miss(self) -> None:
        self._misses += 1
        if self._misses >= TRIES_MAX:
            raise ModelFailed(
                f"{self.engine.model_name} gave no answer that fits, in {TRIES_MAX} tries",
                remedy="Look at its tries in the session; make the output type simpler, or take another model.",
                reason="output",
                model=self.engine.model_name,
            )

    def _given(self) -> LoopOutcome | None:
        """Return the outcome if a value was given, also to an earlier process; it is recorded in words as well."""
        messages = [] if self.output is None else self.talk.messages()
        found = None if self.output is None else self.output.find(messages)
        if found is None:
            return None
        value, text = found
        if messages[-1]["role"] != "assistant":
            self.talk.append("assistant", {"role": "assistant", "content": text, "agent": self.talk.agent})
            if self.emit is not None:
                self.emit(text)
        return LoopOutcome(text, finish_reason="stop", value=(value,))

    async def _ask(self, ask: Ask) -> tuple[Reply, list[tuple[str, dict[str, Any]]]]:
        """Return the answer, and the events of its words, which are not recorded yet."""
        covers: dict[str, int] = {}
        replies: list[Reply] = []
        if self.emit is None:
            replies.append(await self.engine.request(ask))
        else:
            recorder = DeltaRecorder(self.talk, self.emit)
            try:
                async with contextlib.aclosing(self.engine.stream(ask, replies)) as pieces:
                    async for kind, text in pieces:
                        recorder.take(kind, text)
            finally:
                recorder.end()
            covers = recorder.covers
        self.meter.add(replies[0])
        return replies[0], self.talk.words_of(replies[0], covers)

    async def _prepare(self) -> Ask:
        instructions = self.instructions()
        messages = self.talk.messages()
        limit = self.bounds.max_context_tokens
        if limit is None or self.bounds.strategy == "none":
            return Ask(shorten_results(messages), instructions, self.tools, self.output)
        # The tools take about as many tokens of every request as they have words.
        told = [f"{one.name}{one.description}{one.schema}" for one in self.tools]
        overhead = sum(estimate_tokens(text) + 16 for text in told) + estimate_tokens(instructions or "")
        room = max(limit - overhead, 1)
        summarise = self.bounds.strategy == "summarise" and not self.talk.is_child
        if summarise and measure(messages) > room:  # noqa: SIM102 - the second part takes long
            if await compact(self.talk, self.engine, room, self.meter):
                messages = self.talk.messages()
        return Ask(fit_messages(messages, room), instructions, self.tools, self.output)


@contextlib.asynccontextmanager
async def beating(talk: RunLog, loop: Loop, interval_ms: int) -> AsyncIterator[None]:
    """Return a block during which heartbeats of the run are recorded."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            talk.append("agent_iteration", {"agent": talk.agent, "iteration": loop.iteration, "heartbeat": True})

    task = asyncio.ensure_future(beat()) if interval_ms else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # a failure of the store: the run itself meets it too, and raises it


def with_own_ids(
    calls: list[CallRequest], messages: list[dict[str, Any]], taken: Collection[str | None] = ()
) -> list[CallRequest]:
    """Return the calls with ids that no other call of the conversation has, and that are not ``taken``.

    Some servers count from one in every answer; a result must never be taken for that of a call
    that was interrupted long ago.
    """
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    used = {block["id"] for block in blocks if block["type"] == "tool_use"} | set(taken)
    own = []
    for call in calls:
        fresh = call.id and call.id not in used
        own.append(call if fresh else replace(call, id=f"call_{os.urandom(12).hex()}"))
        used.add(call.id)
    return own


# Streamed words are written to disk as they come, without a line for every word.

HOLD_S = 0.05
HOLD_BYTES = 1024


class DeltaRecorder:
    """Records streamed pieces, joined for at most 50 ms or 1 KiB, and then shows them.

    ``emit`` gets the text of an answer only after it is recorded: what a user has seen survives the death of the
    process. ``covers`` holds, for each kind, the first event recorded, which the final event names.
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
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._held.append(text)
        self._bytes += len(text.encode("utf-8", "replace"))
        # A line for every word would cost a write each; a reader does not notice 50 ms.
        if self._bytes >= HOLD_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._flush_in_time)

    def end(self) -> None:
        """Record and show the rest, to the last word."""
        self.flush()
        if self._unshown:
            self._talk.session.record_held(self._talk.run)
            self._show()

    def flush(self) -> None:
        """Record the pending text, then show as much of it as is recorded."""
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
        """Show the recorded text: redaction holds back the last word while a secret may begin with it."""
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
        # An error could not be caught here. Text that the store refuses stays pending, and a later flush raises.
        with contextlib.suppress(HoldfastError):
            self.flush()
