"""One prompt and what comes back: updates as they arrive, then the answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from holdfast.apps.acp.recording.channel import Channel, Pause, Said
from holdfast.errors import HoldfastError


class Update(msgspec.Struct, frozen=True):
    """Something that the agent told, already recorded."""

    kind: str
    """The name in the protocol, such as ``agent_message_chunk``; unknown ones are passed on too."""
    data: dict[str, Any]
    """The update as it came."""

    @property
    def text(self) -> str:
        """The words of a chunk of the answer or of a thought; empty for everything else."""
        content = self.data.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        return text if isinstance(text, str) and self.kind.endswith("_chunk") else ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn."""

    text: str
    stop_reason: str
    """end_turn, max_tokens, max_turn_requests, refusal or cancelled, or what the agent says."""
    usage: dict[str, Any] = {}


class PromptTurn:
    """A prompt on its way. Iterate over it for updates, or wait for its ``answer``.

    Of updates that nobody takes, as many are kept as the event buffer holds; then the agent has to
    wait. Everything is recorded before it comes out here, also what is never taken.
    """

    def __init__(self, prompt: list[dict[str, Any]], buffer: int, cancel: Callable[[PromptTurn], None]) -> None:
        self.prompt = prompt
        self._updates: asyncio.Queue[Update | None] = asyncio.Queue(buffer)
        self._cancel = cancel
        self._words: list[str] = []
        self._abandoned = False
        self._over = False
        self.cancelled = asyncio.Event()
        """Set when the turn is to end; permissions that wait are refused then."""
        self.ended: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def __aiter__(self) -> AsyncIterator[Update]:
        return self

    async def __anext__(self) -> Update:
        update = None if self._over else await self._updates.get()
        if update is None:
            self._over = True
            await asyncio.shield(self.ended)  # raises what ended it
            raise StopAsyncIteration
        return update

    async def answer(self) -> Answer:
        """Return how it ended. Raises AgentError if the agent failed. Whoever waits and is cancelled cancels it."""
        try:
            async for _ in self:
                pass
            return await asyncio.shield(self.ended)
        except asyncio.CancelledError:
            await self.aclose()  # else what comes until it ends would wait for a reader
            raise

    def cancel(self) -> None:
        """Ask the agent to stop; the answer then has the stop reason ``cancelled``."""
        if not self.ended.done() and not self.cancelled.is_set():
            self.cancelled.set()
            self._cancel(self)

    async def aclose(self) -> None:
        """Stop delivering updates: ask the agent to stop, and record the rest."""
        self._abandoned = True
        self._forget()
        self.cancel()

    async def put(self, update: Update) -> None:
        """Hand an update over; waits while the buffer is full."""
        if update.kind == "agent_message_chunk":
            self._words.append(update.text)
        if not self._abandoned:
            await self._updates.put(update)

    def put_last(self, update: Update) -> None:
        """Hand an update over if there is room for it: nothing more is going to come."""
        if update.kind == "agent_message_chunk":
            self._words.append(update.text)
        if not self._abandoned and not self._updates.full():
            self._updates.put_nowait(update)

    async def end(self, stop_reason: str, usage: dict[str, Any] | None = None) -> None:
        """End the turn with the agent's answer."""
        if not self.ended.done():
            text = "".join(self._words)
            self.ended.set_result(Answer(text=text, stop_reason=stop_reason, usage=usage or {}))
            await self._close()

    async def fail(self, error: HoldfastError) -> None:
        """End the turn with an error."""
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # marks the error as retrieved
            await self._close()

    async def _close(self) -> None:
        if self._abandoned:
            self._forget()
        await self._updates.put(None)

    def _forget(self) -> None:
        with contextlib.suppress(asyncio.QueueEmpty):
            while True:
                self._updates.get_nowait()


class Handover:
    """Hands updates over to the reader of a turn, in order, once their words are recorded.

    While redaction holds a last word back from the log, the update with it waits for more.
    ``turn`` returns the current turn, if there is one.
    """

    def __init__(self, turn: Callable[[], PromptTurn | None]) -> None:
        self._turn = turn
        self._channel: Channel | None = None
        self._waiting: deque[tuple[Update, Said]] = deque()
        self._pause = Pause(self._end_words)
        self.lock = asyncio.Lock()
        """Held while something is recorded and handed over, for the order of it."""

    def put(self, update: Update, said: Said) -> None:
        """Add an update to be recorded; ``said`` is the text that the session had with it."""
        self._waiting.append((update, said))

    async def give(self, channel: Channel) -> None:
        """Hand over what is on record; waits while the reader's buffer is full."""
        self.stop()
        self._channel = channel
        known = channel.on_record()
        while self._waiting:
            update, said = self._waiting[0]
            if known is not None and (said[0] > known[0] or said[1] > known[1]):
                self._pause.begin()
                return
            self._waiting.popleft()
            if (turn := self._turn()) is not None:
                await turn.put(update)

    def give_last(self) -> None:
        """Hand over what there is room for: the turn has been cut off, and that is recorded."""
        self.stop()
        waiting, self._waiting = self._waiting, deque()
        if (turn := self._turn()) is not None:
            for update, _ in waiting:
                turn.put_last(update)

    def stop(self) -> None:
        """Wait for no pause any more."""
        self._pause.begin(wanted=False)

    async def _end_words(self) -> None:
        async with self.lock:
            if self._channel is not None:
                with contextlib.suppress(HoldfastError):  # raised at the next record
                    self._channel.session.record_held()
                    await self.give(self._channel)
