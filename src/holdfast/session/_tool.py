"""One use of a tool: intent before, outcome after."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from holdfast.errors import HoldfastError, InvalidData, TooLarge, UsageError
from holdfast.model import Event
from holdfast.replay import blocks_of
from holdfast.session._cancellation import was_cancelled


class ToolLog(Protocol):
    """Where the use of a tool is recorded: a session, or one run of an agent in it."""

    def tool_call(
        self, tool: str, params: Any = None, *, id: str | None = None, **extra: Any
    ) -> Event:
        """Record the intent."""

    def tool_result(
        self, call: Event | str, result: Any = None, *, is_error: bool = False
    ) -> Event:
        """Record the outcome."""

    def barrier(self) -> None:
        """Wait until what was recorded is safe."""

    async def abarrier(self) -> None:
        """Wait until what was recorded is safe, without blocking the event loop."""


class ToolRun:
    """What ``with s.tool(…) as call`` gives: set ``call.result`` inside the block.

    An exception is recorded as the result and goes on to the caller; so is a cancellation.
    """

    result: Any = None

    def __init__(self, log: ToolLog, tool: str, params: Any, **known: Any) -> None:
        self._session = log
        self._intent = (tool, params)
        self._options = known
        self.event: Event | None = None
        self.result_event: Event | None = None

    @property
    def id(self) -> str:
        """The id of the call; there is one once the block has begun."""
        call_id = self.event.id if self.event else None
        if call_id is None:
            raise UsageError("the call has no id before its block begins")
        return call_id

    def __enter__(self) -> Self:
        self._begin()
        try:
            self._session.barrier()
        except BaseException as error:
            self._give_up(error)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        self._begin()
        try:
            await self._session.abarrier()
        except BaseException as error:
            self._give_up(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    def _begin(self) -> None:
        tool, params = self._intent
        self.event = self._session.tool_call(tool, params, **self._options)

    def _give_up(self, error: BaseException) -> None:
        """The block will not run, and the log should say so; where it cannot, it stays open."""
        with contextlib.suppress(HoldfastError):
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if error is not None:
            self._record(_failure(error), is_error=True)
            return
        try:
            self._record(self.result, is_error=False)
        except (InvalidData, TooLarge) as refusal:
            # The tool has run: that it gave something unstorable must not hide that it did.
            self._record({"error": True, "message": f"result not stored: {refusal}"}, is_error=True)
            raise

    def _record(self, result: Any, *, is_error: bool) -> None:
        assert self.event is not None
        self.result_event = self._session.tool_result(self.event, result, is_error=is_error)


def find_asked_call(events: Iterable[Event], tool: str, params: Any) -> str | None:
    """Return the id of the one open call of a run's last assistant message that is this one.

    ``events`` are the run's, the newest first, back to that message. Open are calls without a
    result that nobody in this process has begun: one that a process left behind may be taken up
    again. None if no call fits, or several do.
    """
    wanted = _canonical(params)
    taken: set[Any] = set()
    is_ours = True
    for event in events:
        data = event.data
        if event.type == "opened":
            is_ours = False  # what was begun before is nobody's any more
        elif event.type == "tool_result":
            taken.add(data.get("toolCallId"))
        elif event.type == "tool_call" and is_ours:
            taken.add(data.get("id"))
        elif event.type == "user":
            blocks = blocks_of(data.get("content"))
            taken.update(one.get("tool_use_id") for kind, one in blocks if kind == "tool_result")
        elif event.type == "assistant":
            fitting = [
                block["id"]
                for kind, block in blocks_of(data.get("content"))
                if kind == "tool_use"
                and isinstance(block.get("id"), str)
                and block["id"] not in taken
                and block.get("name") == tool
                and _canonical(block.get("input")) == wanted
            ]
            return fitting[0] if len(fitting) == 1 else None
    return None


def _canonical(value: Any) -> Any:
    """A value such that equal arguments, and only they, have equal ones."""
    try:
        return msgspec.json.encode({} if value is None else value, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return object()  # what cannot be recorded is refused by whoever records it


def _failure(error: BaseException) -> dict[str, Any]:
    cancelled = was_cancelled(error)
    kind = type(error).__name__
    text = str(error).encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    message = "cancelled" if cancelled else f"{kind}: {text[:10_000]}"
    return {"error": True, "message": message, "cancelled": cancelled}
