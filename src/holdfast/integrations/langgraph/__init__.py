"""LangGraph on our log: a checkpointer for ``builder.compile(checkpointer=…)``.

``HoldfastSaver()`` in place of ``SqliteSaver`` is the whole change. A thread is a session: its
messages are its conversation, so that it can be listed, searched, recovered and exported like any
other, and a list of messages that grows by one costs one message, not the list.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from holdfast.integrations._langchain_messages import FORM, answered, messages_of
from holdfast.integrations._place import Act, AdapterSession, Library
from holdfast.integrations._units import Units, voices
from holdfast.integrations.langgraph._thread import TOOL
from holdfast.integrations.langgraph._threads import (
    GraphThreads,
    NamedThread,
    config_of,
    named_in,
    needed,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig as Config
    from langgraph.checkpoint.base import ChannelVersions as Versions
    from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, DeltaChannelHistory
    from langgraph.checkpoint.base import CheckpointMetadata as Metadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from holdfast.integrations.langgraph._values import Typed

__all__ = ["HoldfastSaver", "bring_over"]

_CHANCE_BITS = 32  # of a version, below the number that grows: no two branches have the same


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Checkpoints of graphs, in the sessions of a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. What was put is on the
    medium when the call returns. Two runs that go on from the same newest checkpoint are not both
    recorded: the second gets Fenced, in whichever process it is. Only types that LangGraph allows
    are ever made from what is stored.
    """

    def __init__(self, hf: Library = None, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._threads = GraphThreads(hf)

    # -- reading -----------------------------------------------------------------------------

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """The checkpoint that a config names, or else the newest of its thread."""
        id = self._threads.chosen(config)
        return self._show(named_in(config)._replace(id=id)) if id is not None else None

    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first, of one thread or of all."""
        until = get_checkpoint_id(before) if before else None
        found = self._threads.find(config, filter or {}, until, self._typed)
        shown = (self._show(named) for named in islice(found, limit))
        return (one for one in shown if one is not None)

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Of each channel the nearest value before a checkpoint, and what was written since."""
        return self._threads.history(named_in(config), channels, self._typed)

    def messages(self, thread_id: str) -> Sequence[BaseMessage]:
        """The conversation of a thread, whatever recorded it, valid in every state of its log.

        To go on with a session of another framework: give these to the graph as its input, with
        what is to be said next. What is on record already is not recorded a second time.
        """
        units = Units(FORM, AdapterSession(self._threads.library, TOOL, thread_id)).read()
        return answered(messages_of(voices(units)))

    # -- writing -----------------------------------------------------------------------------

    def put(
        self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions
    ) -> Config:
        """Record a checkpoint. Raises Fenced if another run went on from the same one."""
        place, act = self._put(config, checkpoint, metadata, new_versions)
        place.write(act)
        return self._gone_on(config, checkpoint)

    async def aput(
        self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions
    ) -> Config:
        """Do what ``put`` does, without blocking the event loop."""
        place, act = self._put(config, checkpoint, metadata, new_versions)
        await place.awrite(act)
        return self._gone_on(config, checkpoint)

    def put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Record what a task wrote. The second time nothing is written, but errors and the like."""
        place, act = self._put_writes(config, writes, task_id, task_path)
        place.write(act)

    async def aput_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do what ``put_writes`` does, without blocking the event loop."""
        place, act = self._put_writes(config, writes, task_id, task_path)
        await place.awrite(act)

    # -- removing ----------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Move the thread's session to the trash; ``hf.undelete`` brings it back."""
        self._threads.delete(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made."""
        wanted = set(run_ids)
        for thread_id in self._threads.ids():
            thread = self._threads.of(thread_id)
            with thread.lock:
                thread.catch_up()
                removed = [
                    (ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    for id, one in checkpoints.items()
                    if one.metadata.get("run_id") in wanted
                ]
            self._threads.remove(thread, removed)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread to another one, which may have checkpoints of its own."""
        if not self._threads.fork(source_thread_id, target_thread_id):
            source = config_of(source_thread_id, "", None)
            del source["configurable"]["checkpoint_ns"]
            _take_over(self, self.list(source), target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints but the newest of each namespace, or all (``"delete"``).

        Those from which a channel of changes alone is put together are kept as well.
        """
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            thread = self._threads.of(thread_id)
            with thread.lock:
                thread.catch_up()
                removed = [
                    (ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    for id in set(checkpoints) - needed(thread, ns)
                ]
            self._threads.remove(thread, removed)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """A version after this one that no branch of a thread has been given before.

        Texts go on as texts, which savers of the framework have; the others are numbers.
        """
        if isinstance(current, str):
            number = int(current.partition(".")[0]) + 1
            return f"{number:032}.{secrets.randbits(_CHANCE_BITS):020}"
        step = int(current or 0) >> _CHANCE_BITS
        return ((step + 1) << _CHANCE_BITS) + secrets.randbits(_CHANCE_BITS)

    # -- the same without blocking the event loop -----------------------------------------------

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """Do what ``get_tuple`` does, without blocking the event loop."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what ``list`` does, without blocking the event loop."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aget_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do what ``get_delta_channel_history`` does, without blocking the event loop."""
        return await asyncio.to_thread(
            self.get_delta_channel_history, config=config, channels=channels
        )

    async def adelete_thread(self, thread_id: str) -> None:
        """Do what ``delete_thread`` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do what ``delete_for_runs`` does, without blocking the event loop."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do what ``copy_thread`` does, without blocking the event loop."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do what ``prune`` does, without blocking the event loop."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # -- inside ------------------------------------------------------------------------------

    @property
    def _typed(self) -> Typed:
        return cast("Typed", self.serde)

    def _show(self, named: NamedThread) -> CheckpointTuple | None:
        return self._threads.show(named, self._typed)

    def _put(
        self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions
    ) -> tuple[AdapterSession, Act]:
        given = (checkpoint, get_checkpoint_metadata(config, metadata), new_versions)
        return self._threads.record(named_in(config), given, self._typed)

    def _gone_on(self, config: Config, checkpoint: Checkpoint) -> Config:
        named = named_in(config)
        self._threads.gone_on(named)
        return config_of(named.thread_id, named.ns, checkpoint["id"])

    def _put_writes(self, config: Config, *given: Any) -> tuple[AdapterSession, Act]:
        written = cast("tuple[Any, str, str]", given)
        return self._threads.record_writes(named_in(config), written, self._typed)


def bring_over(source: BaseCheckpointSaver[Any], hf: Library = None) -> int:
    """Record the checkpoints that another saver holds, with their writes; how many.

    Done again, it records only what is new there.
    """
    return _take_over(HoldfastSaver(hf), source.list(None))


def _take_over(
    target: HoldfastSaver, source: Iterable[CheckpointTuple], thread_id: str | None = None
) -> int:
    """Record checkpoints that are not there yet, parents first; how many."""
    count = 0
    found = sorted(source, key=lambda one: str(one.checkpoint["id"]))
    versions: dict[NamedThread, Versions] = {}
    for one in found:
        named = named_in(one.config)
        named = named._replace(thread_id=thread_id or named.thread_id)
        parent = named_in(one.parent_config).id if one.parent_config else None
        now = versions[named] = one.checkpoint["channel_versions"]
        config = config_of(*named)
        if target.get_tuple(config) is not None:
            continue
        before = versions.get(named._replace(id=parent), {})
        new = {name: version for name, version in now.items() if before.get(name) != version}
        from_parent = config_of(named.thread_id, named.ns, parent)
        target.put(from_parent, one.checkpoint, one.metadata, new)
        for task, writes in groupby(one.pending_writes or (), key=itemgetter(0)):
            target.put_writes(config, [(name, value) for _, name, value in writes], task)
        count += 1
    return count
