"""The Microsoft Agent Framework on our log: histories, sessions and checkpoints of workflows.

.. code-block:: python

    agent = Agent(client, context_providers=[HoldfastHistoryProvider()])
    workflow = WorkflowBuilder(…, checkpoint_storage=HoldfastCheckpointStorage()).build()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from agent_framework import (
    AgentSession,
    HistoryProvider,
    Message,
    SessionContext,
    WorkflowCheckpoint,
    _sessions,
)
from agent_framework._workflows._checkpoint_encoding import (
    decode_checkpoint_value,
    encode_checkpoint_value,
)
from agent_framework.exceptions import WorkflowCheckpointException

from holdfast.integrations._agent_framework_messages import FORM, as_item, message_of, with_results
from holdfast.integrations._history import History, missing
from holdfast.integrations._place import Library, Place, library_of, linked
from holdfast.integrations._recent import Recent
from holdfast.integrations._states import States
from holdfast.integrations._units import Unit, Words, answered, fresh

__all__ = [
    "HoldfastCheckpointStorage",
    "HoldfastHistoryProvider",
    "HoldfastSessionStore",
    "bring_over",
]

_filter_new = getattr(
    _sessions, "filter_new_messages", lambda _, given: given
)  # not in all versions
_TOOL = "agent-framework"
_WORKFLOWS = "agent-framework-workflow"


class HoldfastHistoryProvider(HistoryProvider):
    """Messages of agents, each session of theirs kept as one of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place; the other options are
    those of every history provider. With ``skip_excluded``, messages that a compaction has excluded
    are not loaded. Messages are on the medium when ``save_messages`` returns.
    """

    def __init__(
        self,
        hf: Library = None,
        *,
        source_id: str = "holdfast",
        skip_excluded: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self.skip_excluded = skip_excluded
        self._library = library_of(hf)
        self._histories: Recent[str, History] = Recent()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The messages of a session, also those that other frameworks recorded.

        A call of theirs that has no result is given one that says so.
        """
        if session_id is None:
            return []
        units = await asyncio.to_thread(self._of(session_id).read)
        messages = [message_of(unit) for unit in answered(units)]
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def before_run(self, *, context: SessionContext, **about: Any) -> None:
        """Load the history; a call that was cut off has a result that says so, for the model."""
        await super().before_run(context=context, **about)
        loaded = context.context_messages.get(self.source_id)
        if loaded:
            context.context_messages[self.source_id] = with_results(loaded, context.input_messages)

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record messages, all of them or none, but for those that are handed over again.

        Without a session's id there is nowhere to record them.
        """
        if session_id is None or not messages:
            return
        history = self._of(session_id)

        def tell(units: list[Unit]) -> Words:
            # As the framework's own providers do. No more of the end can be what begins these.
            known = [message_of(unit) for unit in units[-len(messages) :]]
            return history.words([as_item(one) for one in _filter_new(known, messages)])

        await history.arecord(tell)

    def _of(self, session_id: str) -> History:
        return self._histories.get(
            session_id, lambda: History(FORM, self._library, _TOOL, session_id)
        )


class HoldfastSessionStore:
    """Sessions of agents with their state: what changed since the last time is recorded.

    It has the methods of the framework's ``SessionStore``, which is an experiment there.
    """

    def __init__(self, hf: Library = None) -> None:
        self._library = library_of(hf)
        self._states: Recent[str, States] = Recent()

    async def get(self, session_id: str) -> AgentSession | None:
        """A session as it was set last; None if there is none."""
        _check_id(session_id)
        states = self._of(session_id)
        await asyncio.to_thread(states.catch_up)
        found = states.newest(session_id)
        return None if found is None else AgentSession.from_dict(fresh(found))

    async def set(self, session_id: str, session: AgentSession) -> None:
        """Record a session in the place of what was recorded of it."""
        _check_id(session_id)
        await asyncio.to_thread(self._of(session_id).record, session_id, session.to_dict())

    async def delete(self, session_id: str) -> None:
        """Move the session to the trash; ``hf.undelete`` brings it back."""
        _check_id(session_id)
        place = self._of(session_id).place
        self._states.pop(session_id)
        place.close()
        if self._library.exists(place.id):
            await asyncio.to_thread(self._library.delete, place.id)

    def _of(self, session_id: str) -> States:
        return self._states.get(
            session_id, lambda: States(Place(self._library, _TOOL, session_id), _TOOL)
        )


class HoldfastCheckpointStorage:
    """Checkpoints of workflows; those of one workflow are one session.

    A checkpoint is recorded as what changed since the one before. Only types that the framework
    allows are ever made from what is stored, and those named in ``allowed_checkpoint_types``
    (``"module:Class"``).
    """

    def __init__(
        self, hf: Library = None, *, allowed_checkpoint_types: Iterable[str] | None = None
    ) -> None:
        self._library = library_of(hf)
        self._allowed = frozenset(allowed_checkpoint_types or ())
        self._workflows: Recent[str, States] = Recent()

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Record a checkpoint; its id. Raises WorkflowCheckpointException for what cannot be."""
        encoded = encode_checkpoint_value(checkpoint.to_dict())
        decode_checkpoint_value(encoded, allowed_types=self._allowed)
        states = self._of(checkpoint.workflow_name)
        await asyncio.to_thread(states.record, checkpoint.checkpoint_id, encoded)
        return str(checkpoint.checkpoint_id)

    async def load(self, checkpoint_id: str) -> WorkflowCheckpoint:
        """A checkpoint by its id. Raises WorkflowCheckpointException if there is none."""
        found = await asyncio.to_thread(self._find, checkpoint_id)
        if found is None:
            raise WorkflowCheckpointException(f"No checkpoint found with ID {checkpoint_id}")
        return self._decode(found.newest(checkpoint_id))

    async def list_checkpoints(self, *, workflow_name: str) -> list[WorkflowCheckpoint]:
        """The checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        await asyncio.to_thread(states.catch_up)
        return [self._decode(states.newest(id)) for id in states.names()]

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a checkpoint; whether there was one. The log keeps it."""
        found = await asyncio.to_thread(self._find, checkpoint_id)
        if found is not None:
            await asyncio.to_thread(found.remove, checkpoint_id)
        return found is not None

    async def get_latest(self, *, workflow_name: str) -> WorkflowCheckpoint | None:
        """The newest checkpoint of a workflow; None if there is none."""
        found = await self.list_checkpoints(workflow_name=workflow_name)
        return max(found, key=lambda one: datetime.fromisoformat(one.timestamp), default=None)

    async def list_checkpoint_ids(self, *, workflow_name: str) -> list[str]:
        """The ids of the checkpoints of a workflow in their order."""
        states = self._of(workflow_name)
        await asyncio.to_thread(states.catch_up)
        return states.names()

    def _decode(self, encoded: Any) -> WorkflowCheckpoint:
        found = decode_checkpoint_value(fresh(encoded), allowed_types=self._allowed)
        return WorkflowCheckpoint.from_dict(found)

    def _find(self, checkpoint_id: str) -> States | None:
        for states in self._all():
            states.catch_up()
            if checkpoint_id in states.names():
                return states
        return None

    def _all(self) -> Iterator[States]:
        known = self._workflows.known()
        yield from known.values()
        for _, link in linked(self._library, _WORKFLOWS):
            if link["id"] not in known:
                yield self._of(link["id"])

    def _of(self, workflow_name: str) -> States:
        def make() -> States:
            place = Place(self._library, _WORKFLOWS, workflow_name, scope="workflow")
            return States(place, _WORKFLOWS)

        return self._workflows.get(workflow_name, make)


async def bring_over(source: HistoryProvider, session_id: str, hf: Library = None) -> int:
    """Record the messages that another history provider holds of a session; how many.

    Done again, it records only what is new there.
    """
    target = HoldfastHistoryProvider(hf)
    units = await asyncio.to_thread(target._of(session_id).read)  # noqa: SLF001 - of this module
    known = [as_item(message_of(unit)) for unit in units]
    messages = await source.get_messages(session_id)
    new = missing(known, [as_item(message) for message in messages], session_id)
    await target.save_messages(session_id, messages[len(messages) - len(new) :])
    return len(new)


def _check_id(session_id: str) -> None:
    if not isinstance(session_id, str) or not session_id:
        raise ValueError("session_id must be a non-empty string")
