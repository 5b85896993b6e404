"""One use of a tool: intent before, outcome after."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import HoldfastError, InvalidData, TooLarge, UsageError
from holdfast.model import Event
from holdfast.session._cancellation import was_cancelled

if TYPE_CHECKING:
    from holdfast.session._recording import Recorder

__all__ = ["ToolRun"]


class ToolRun:
    """What ``with s.tool(…) as call`` gives: set ``call.result`` inside the block.

    An exception is recorded as the result and goes on to the caller; so is a cancellation.
    """

    result: Any = None

    def __init__(
        self,
        session: Recorder,
        tool: str,
        params: Any,
        *,
        id: str | None,
        run: str | None,
        extra: dict[str, Any],
    ) -> None:
        self._session = session
        self._intent = (tool, params)
        self._options: dict[str, Any] = {"id": id, "run": run, **extra}
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


def _failure(error: BaseException) -> dict[str, Any]:
    cancelled = was_cancelled(error)
    kind = type(error).__name__
    text = str(error).encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    message = "cancelled" if cancelled else f"{kind}: {text[:10_000]}"
    return {"error": True, "message": message, "cancelled": cancelled}
