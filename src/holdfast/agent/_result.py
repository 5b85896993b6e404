"""What a run gives back, whole or word by word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import msgspec

from holdfast.agent._reply import Usage
from holdfast.agent._suspension import Suspension
from holdfast.errors import UsageError
from holdfast.model import Notice


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. ``session_id`` is None if the run had no session."""

    output: str
    session_id: str | None = None
    usage: Usage
    messages: list[dict[str, Any]] = []
    """The whole conversation in neutral form."""
    suspended: Suspension | None = None
    """Set if the run waits for someone; go on with ``Agent.resume``."""
    notices: list[Notice] = []
    """What was found damaged, and set right, since the last run of the session."""
    finish_reason: str | None = None
    run: str | None = None


class RunStream:
    """A run whose answer is read as it comes: ``async for text in stream``, then ``.result``.

    As a context manager it stops the run when the block is left before the end; what was said until
    then stays on record. The run begins with the first of the two.
    """

    def __init__(
        self, start: Callable[[Callable[[str], None]], Coroutine[Any, Any, RunResult]]
    ) -> None:
        self._start = start
        self._pieces: asyncio.Queue[str | None] | None = None
        self._task: asyncio.Task[RunResult] | None = None

    @property
    def result(self) -> RunResult:
        """The result, once the stream has ended. Raises what ended the run, if something did."""
        if self._task is None or not self._task.done():
            raise UsageError("the stream has not ended yet", remedy="Read it to its end first.")
        return self._task.result()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End the run now, and wait until that is on record."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def __aiter__(self) -> AsyncIterator[str]:
        pieces, task = self._begin()
        while (piece := await pieces.get()) is not None:
            yield piece
        await task

    def _begin(self) -> tuple[asyncio.Queue[str | None], asyncio.Task[RunResult]]:
        if self._pieces is None or self._task is None:
            pieces: asyncio.Queue[str | None] = asyncio.Queue()
            self._pieces = pieces
            self._task = asyncio.ensure_future(self._start(pieces.put_nowait))
            self._task.add_done_callback(lambda _task: pieces.put_nowait(None))
        return self._pieces, self._task
