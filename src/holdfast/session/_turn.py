"""One turn: from a user's input to the agent's final answer."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.session._cancellation import was_cancelled

if TYPE_CHECKING:
    from holdfast.session._recording import Recorder

__all__ = ["Turn"]


class Turn:
    """Marks the beginning and the end of a turn; its end is on disk before the caller goes on."""

    def __init__(self, session: Recorder, *, run: str | None) -> None:
        self._session = session
        self._run = run
        self.number = -1
        """The seq at which the turn began."""

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)
        self._session.barrier()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)
        await self._session.abarrier()

    def _begin(self) -> None:
        self.number = self._session.append("turn_start", {}, run=self._run).seq

    def _end(self, error: BaseException | None) -> None:
        reason = "completed"
        if error is not None:
            reason = "cancelled" if was_cancelled(error) else "failed"
        self._session.append("turn_end", {"turn": self.number, "reason": reason}, run=self._run)
