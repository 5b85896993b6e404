"""Pydantic AI on our log: message histories that stay, and runs that are recorded step by step.

.. code-block:: python

    history = HoldfastHistory("trip-planner")
    result = await history.run(agent, "Plan a trip")  # in place of agent.run("Plan a trip", …)

Each step is on the medium before the next begins, so that a run that was killed goes on from the
last one. ``HoldfastStepStore`` is the store for ``StepPersistence`` of the harness.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from pydantic_ai import ModelRequestNode
from pydantic_ai.messages import ModelMessagesTypeAdapter, repair_messages

from holdfast.errors import Fenced, UsageError
from holdfast.integrations._history import missing
from holdfast.integrations._place import Library, Place
from holdfast.integrations._pydantic_messages import FORM, as_items, as_messages, messages_of
from holdfast.integrations._units import Units

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai import Agent, AgentRun, AgentRunResult
    from pydantic_ai.messages import ModelMessage

    from holdfast.integrations._pydantic_store import HoldfastStepStore, bring_over_runs
    from holdfast.model import Event
    from holdfast.session import Session

__all__ = ["HoldfastHistory", "HoldfastStepStore", "bring_over", "bring_over_runs"]


def __getattr__(name: str) -> Any:
    if name in ("HoldfastStepStore", "bring_over_runs"):  # the harness is a package of its own
        from holdfast.integrations import _pydantic_store

        return getattr(_pydantic_store, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class HoldfastHistory:
    """The message history of one conversation, kept as a session of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place.
    """

    def __init__(self, session_id: str, hf: Library = None) -> None:
        self.session_id = session_id
        self._place = Place(hf, "pydantic-ai", session_id)
        self._units = Units(FORM, self._place)

    def messages(self) -> list[ModelMessage]:
        """What was recorded, for ``agent.run(…, message_history=…)``; also what others recorded."""
        return messages_of(self._units.read())

    async def append(self, messages: Sequence[ModelMessage]) -> list[int]:
        """Record messages, such as ``result.new_messages()``; the seqs of their events.

        They are on the medium when this returns.
        """
        return await self._append(messages)

    async def _append(
        self, messages: Sequence[ModelMessage], after: int | None = None
    ) -> list[int]:
        """The same, if given only where event ``after`` is still the last of the conversation."""
        words = [word for item in as_items(list(messages)) for word in FORM.record(item)]
        seqs: list[int] = []

        def act(session: Session) -> list[Event]:
            if after not in (None, self._newest()):
                raise Fenced(
                    f"another run went on with conversation {self.session_id} meanwhile",
                    session_id=self._place.id,
                    remedy="Run the agent again: it goes on from what was said there.",
                )
            recorded = session.extend(words)
            self._units.take(recorded)
            seqs.extend(event.seq for event in recorded)
            return recorded

        await self._place.awrite(act)
        return seqs

    def _newest(self) -> int:
        """The last event of the conversation; -1 if it has not begun."""
        return max((unit.seqs[-1] for unit in self._units.newest(1)), default=-1)

    async def amend(self, seq: int, message: ModelMessage) -> None:
        """Complete a message that was recorded before it was sent; its words stay as they are."""
        async with self._place.awriting() as session:
            unit = next(unit for unit in self._units.read() if unit.seqs[0] == seq)
            words = FORM.amend(unit, as_items([message])[0])
            if words:
                session.extend(words)

    async def replace(self, messages: Sequence[ModelMessage]) -> None:
        """Put messages in the place of all that were recorded; the log keeps those."""
        words = [word for item in as_items(list(messages)) for word in FORM.record(item)]
        async with self._place.awriting() as session:
            seqs = [seq for unit in self._units.read() for seq in unit.seqs]
            session.extend([("retracted", {"seqs": seqs}), *words])
            await session.abarrier()

    async def run(self, agent: Agent[Any, Any], prompt: Any, **options: Any) -> AgentRunResult[Any]:
        """Run an agent on the history, each step recorded before the next. Takes what run takes."""
        async with self.iter(agent, prompt, **options) as steps:
            async for _ in steps:
                pass
        return cast("AgentRunResult[Any]", steps.run.result)

    def iter(
        self, agent: Agent[Any, Any], prompt: Any, **options: Any
    ) -> AbstractAsyncContextManager[Steps]:
        """The same step by step: ``async with history.iter(…) as steps``, then loop over them."""
        return Steps(self, agent, prompt, options)

    def close(self) -> None:
        """Give the session back to other processes now, rather than after a rest."""
        self._place.close()


class Steps:
    """A run that records what is new after each of its steps, and at its end, however it ends.

    Its steps raise Fenced once another run has gone on with the same conversation.
    """

    def __init__(
        self, history: HoldfastHistory, agent: Agent[Any, Any], prompt: Any, options: dict[str, Any]
    ) -> None:
        self._history = history
        self._agent = agent
        self._prompt = prompt
        self._options = options
        self._known = 0
        self._early: int | None = None
        self.run: AgentRun[Any, Any]

    async def __aenter__(self) -> Self:
        recorded = self._history.messages()
        before = repair_messages(recorded)
        if before != recorded:
            # A crash left calls without their results: what the model is told of them is recorded.
            await self._history.replace(before)
        self._known = len(before)
        self._at = self._history._newest()  # noqa: SLF001 - they are one thing
        options = {"message_history": before or None, **self._options}
        self._making = self._agent.iter(self._prompt, **options)
        self.run = await self._making.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._record()
        finally:
            await self._making.__aexit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for node in self.run:
            await self._record()
            if isinstance(node, ModelRequestNode):
                await self._record_early(node.request)
            yield node

    async def _record(self) -> None:
        messages = self.run.ctx.state.message_history
        new = messages[self._known :]
        if not new:
            return
        self._known = len(messages)
        if self._early is not None:
            await self._history.amend(self._early, new.pop(0))
            self._early = None
        await self._append(new)

    async def _record_early(self, request: ModelMessage) -> None:
        """Record what is about to be sent: results of tools must not be lost with the answer."""
        self._early = (await self._append([request]))[0]

    async def _append(self, messages: Sequence[ModelMessage]) -> list[int]:
        seqs = await self._history._append(messages, self._at)  # noqa: SLF001 - as above
        self._at = seqs[-1] if seqs else self._at
        return seqs


async def bring_over(
    source: Sequence[ModelMessage] | str | bytes, session_id: str, hf: Library = None
) -> int:
    """Record a message history that was kept elsewhere, or its JSON; how many messages.

    The JSON is that of ``result.all_messages_json()`` and of ``ModelMessagesTypeAdapter``. Done
    again, it records only what is new there. Raises UsageError if that is no history, or if what is
    on record is another conversation.
    """
    items = as_items(_messages(source))
    target = HoldfastHistory(session_id, hf)
    try:
        new = missing(as_items(target.messages()), items, session_id)
        if new:
            await target.append(as_messages(new))
    finally:
        target.close()
    return len(new)


def _messages(source: Sequence[ModelMessage] | str | bytes) -> list[ModelMessage]:
    try:
        if isinstance(source, (str, bytes)):
            return ModelMessagesTypeAdapter.validate_json(source)
        return ModelMessagesTypeAdapter.validate_python(list(source))
    except (TypeError, ValueError) as error:  # pydantic's own error is a ValueError
        raise UsageError("what is brought over is a list of messages or its JSON") from error
