"""LangGraph on our log: a checkpointer for ``builder.compile(checkpointer=…)``.

``HoldfastSaver()`` in place of ``SqliteSaver`` is the whole change. A thread is a session: its
messages are its conversation, so that it can be listed, searched, recovered and exported like any
other, and a list of messages that grows by one costs one message, not the list.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)

from holdfast.errors import Fenced
from holdfast.integrations._langchain_messages import FORM, answered, messages_of
from holdfast.integrations._langgraph_thread import TOOL, Thread
from holdfast.integrations._langgraph_values import Typed
from holdfast.integrations._place import Library, Place, library_of, linked
from holdfast.integrations._units import Units, Words, voices

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from holdfast.session import Session

__all__ = ["HoldfastSaver", "bring_over"]


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Checkpoints of graphs, in the sessions of a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. What was put is on the
    medium when the call returns. Two runs that go on from the same newest checkpoint are not both
    recorded: the second gets Fenced, in whichever process it is. Only types that LangGraph allows
    are ever made from what is stored.
    """

    def __init__(self, hf: Library = None, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._library = library_of(hf)
        self._threads: dict[str, Thread] = {}
        self._lock = threading.Lock()
        self._shown: set[tuple[str, str, str]] = set()

    # -- reading -----------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or else the newest of its thread."""
        thread_id, ns, id = _names(config)
        thread = self._thread(thread_id)
        with thread.lock:
            thread.catch_up()
            if id is None:
                id = thread.newest(ns)
                if id is not None:
                    self._shown.add((thread_id, ns, id))
            else:
                # Whoever names a checkpoint may well go on from it although others did.
                self._shown.discard((thread_id, ns, id))
            if id is None or id not in thread.checkpoints.get(ns, {}):
                return None
            return self._tuple(thread, thread_id, ns, id)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first, of one thread or of all."""
        found = self._find(config, filter or {}, get_checkpoint_id(before) if before else None)
        for number, (thread, thread_id, ns, id) in enumerate(found):
            if limit is not None and number >= limit:
                return
            with thread.lock:
                still = id in thread.checkpoints.get(ns, {})
                made = self._tuple(thread, thread_id, ns, id) if still else None
            if made is not None:
                yield made

    def messages(self, thread_id: str) -> Sequence[BaseMessage]:
        """The conversation of a thread, whatever recorded it, valid in every state of its log.

        To go on with a session of another framework: give these to the graph as its input, with
        what is to be said next. What is on record already is not recorded a second time.
        """
        units = Units(FORM, Place(self._library, TOOL, thread_id)).read()
        return answered(messages_of(voices(units)))

    # -- writing -----------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Record a checkpoint. Raises Fenced if another run went on from the same one."""
        thread_id, ns, parent = _names(config)
        thread = self._thread(thread_id)
        with thread.place.writing() as session:
            with thread.lock:
                self._record(session, thread, config, checkpoint, metadata, new_versions)
            session.barrier()
        self._shown.discard((thread_id, ns, parent or ""))
        return _config(thread_id, ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Record what a task wrote. The second time nothing is written, but errors and the like."""
        thread = self._thread(_names(config)[0])
        with thread.place.writing() as session:
            with thread.lock:
                written = self._record_writes(session, thread, config, writes, task_id, task_path)
            if written:
                session.barrier()

    # -- removing ----------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Move the thread's session to the trash; ``hf.undelete`` brings it back."""
        with self._lock:
            thread = self._threads.pop(thread_id, None)
            if thread is not None:
                thread.place.close()
        place = Place(self._library, TOOL, thread_id)
        if self._library.exists(place.id):
            self._library.delete(place.id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made."""
        wanted = set(run_ids)
        for _, link in linked(self._library, TOOL):
            thread = self._thread(link["id"])
            with thread.lock:
                thread.catch_up()
                removed = [
                    (ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    for id, one in checkpoints.items()
                    if one.metadata.get("run_id") in wanted
                ]
            self._remove(thread, removed)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread to another one."""
        source = self._thread(source_thread_id)
        with source.lock:
            source.catch_up()
        kept = [
            (event.type, event.data) for event in source.place.events() if event.type not in _OWN
        ]
        if not kept:
            return
        target = self._thread(target_thread_id)
        with target.place.writing() as session:
            with target.lock:
                self._write(session, target, kept)
            session.barrier()

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints but the newest of each namespace, or all (``"delete"``).

        Those from which a channel of changes alone is put together are kept as well.
        """
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            thread = self._thread(thread_id)
            with thread.lock:
                thread.catch_up()
                removed = [
                    (ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    for id in set(checkpoints) - _needed(thread, ns)
                ]
            self._remove(thread, removed)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version after this one, also after those of savers whose versions are texts."""
        if isinstance(current, str):
            number = int(current.partition(".")[0]) + 1
            return f"{number:032}"
        return super().get_next_version(current, channel)

    # -- the same without blocking the event loop -----------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As ``get_tuple``."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As ``list``."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As ``put``."""
        thread_id, ns, parent = _names(config)
        thread = self._thread(thread_id)
        async with thread.place.awriting() as session:
            with thread.lock:
                self._record(session, thread, config, checkpoint, metadata, new_versions)
            await session.abarrier()
        self._shown.discard((thread_id, ns, parent or ""))
        return _config(thread_id, ns, checkpoint["id"])

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As ``put_writes``."""
        thread = self._thread(_names(config)[0])
        async with thread.place.awriting() as session:
            with thread.lock:
                written = self._record_writes(session, thread, config, writes, task_id, task_path)
            if written:
                await session.abarrier()

    async def adelete_thread(self, thread_id: str) -> None:
        """As ``delete_thread``."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As ``delete_for_runs``."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``copy_thread``."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As ``prune``."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy)

    # -- inside ------------------------------------------------------------------------------

    def _thread(self, thread_id: str) -> Thread:
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                thread = self._threads[thread_id] = Thread(Place(self._library, TOOL, thread_id))
            return thread

    def _find(
        self, config: RunnableConfig | None, filter: dict[str, Any], before: str | None
    ) -> Iterator[tuple[Thread, str, str, str]]:
        about = config["configurable"] if config else {}
        wanted_ns, wanted_id = about.get("checkpoint_ns"), about.get("checkpoint_id")
        ids: Iterable[str] = (
            [about["thread_id"]]
            if config
            else (link["id"] for _, link in linked(self._library, TOOL))
        )
        for thread_id in ids:
            thread = self._thread(thread_id)
            with thread.lock:
                thread.catch_up()
                found = [
                    (ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    if wanted_ns is None or ns == wanted_ns
                    for id in sorted(checkpoints, reverse=True)
                    if (wanted_id is None or id == wanted_id)
                    and (before is None or id < before)
                    and _fits(self._metadata(thread, ns, id), filter)
                ]
            yield from ((thread, thread_id, ns, id) for ns, id in found)

    def _tuple(self, thread: Thread, thread_id: str, ns: str, id: str) -> CheckpointTuple:
        one, serde = thread.checkpoints[ns][id], cast("Typed", self.serde)
        body = thread.values.decode(one.body, serde)
        body["channel_values"] = thread.channel_values(ns, one, serde)
        return CheckpointTuple(
            config=_config(thread_id, ns, id),
            checkpoint=body,
            metadata=cast("CheckpointMetadata", self._metadata(thread, ns, id)),
            parent_config=_config(thread_id, ns, one.parent) if one.parent else None,
            pending_writes=[
                (write.task, write.channel, thread.values.decode(write.value, serde))
                for write in thread.ordered_writes(ns, id)
            ],
        )

    def _metadata(self, thread: Thread, ns: str, id: str) -> dict[str, Any]:
        told = thread.checkpoints[ns][id].metadata
        return cast("dict[str, Any]", thread.values.decode(told, cast("Typed", self.serde)))

    def _record(
        self,
        session: Session,
        thread: Thread,
        config: RunnableConfig,
        *given: Any,
    ) -> None:
        checkpoint, metadata, new_versions = given
        thread_id, ns, parent = _names(config)
        thread.catch_up()
        if parent is not None and (thread_id, ns, parent) in self._shown:
            self._check_not_overtaken(thread, thread_id, ns, parent)
        words = thread.tell_checkpoint(
            checkpoint,
            get_checkpoint_metadata(config, metadata),
            new_versions,
            ns=ns,
            parent=parent,
            serde=cast("Typed", self.serde),
        )
        self._write(session, thread, words)

    def _check_not_overtaken(self, thread: Thread, thread_id: str, ns: str, parent: str) -> None:
        """Refuse a second run from a checkpoint that both were given as the newest."""
        if any(one.parent == parent for one in thread.checkpoints.get(ns, {}).values()):
            raise Fenced(
                f"another run of thread {thread_id} went on from checkpoint {parent} before",
                session_id=thread.place.id,
            )

    def _record_writes(
        self,
        session: Session,
        thread: Thread,
        config: RunnableConfig,
        *given: Any,
    ) -> bool:
        writes, task_id, task_path = given
        _, ns, id = _names(config)
        thread.catch_up()
        known = thread.writes.get((ns, id or ""), {})
        placed = [
            (channel, WRITES_IDX_MAP.get(channel, number), value)
            for number, (channel, value) in enumerate(writes)
        ]
        new = [one for one in placed if one[1] < 0 or (task_id, one[1]) not in known]
        if new:
            serde = cast("Typed", self.serde)
            told = thread.tell_writes(
                new, ns=ns, id=id or "", task=task_id, path=task_path, serde=serde
            )
            self._write(session, thread, told)
        return bool(new)

    def _remove(self, thread: Thread, removed: Sequence[tuple[str, str]]) -> None:
        if not removed:
            return
        with thread.place.writing() as session:
            with thread.lock:
                self._write(session, thread, thread.tell_removed(list(removed)))
            session.barrier()

    def _write(self, session: Session, thread: Thread, words: Words) -> None:
        thread.catch_up()
        thread.take(session.extend(words))
        thread.catch_up()


def bring_over(source: BaseCheckpointSaver[Any], hf: Library = None) -> int:
    """Record the checkpoints that another saver holds, with their writes; how many.

    Done again, it records only what is new there.
    """
    target, count = HoldfastSaver(hf), 0
    found = sorted(source.list(None), key=lambda one: str(one.checkpoint["id"]))
    versions: dict[tuple[str, str, str | None], ChannelVersions] = {}
    for one in found:
        thread_id, ns, id = _names(one.config)
        parent = _names(one.parent_config)[2] if one.parent_config else None
        now = versions[thread_id, ns, id] = one.checkpoint["channel_versions"]
        if target.get_tuple(one.config) is not None:
            continue
        before = versions.get((thread_id, ns, parent), {})
        new = {name: version for name, version in now.items() if before.get(name) != version}
        config = _config(thread_id, ns, parent or "")
        if parent is None:
            config["configurable"].pop("checkpoint_id")
        target.put(config, one.checkpoint, one.metadata, new)
        for task, writes in groupby(one.pending_writes or (), key=itemgetter(0)):
            target.put_writes(one.config, [(name, value) for _, name, value in writes], task)
        count += 1
    return count


_OWN = frozenset({"session_start", "opened", "closed", "link", "interrupted", "snapshot"})


def _names(config: RunnableConfig) -> tuple[str, str, str | None]:
    about = config["configurable"]
    thread_id = about.get("thread_id")
    if not isinstance(thread_id, str):
        thread_id = str(thread_id)
    return thread_id, about.get("checkpoint_ns", ""), about.get("checkpoint_id")


def _config(thread_id: str, ns: str, id: str) -> RunnableConfig:
    about = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}
    return {"configurable": about}


def _fits(metadata: dict[str, Any], filter: dict[str, Any]) -> bool:
    return all(metadata.get(name) == value for name, value in filter.items())


def _needed(thread: Thread, ns: str) -> set[str]:
    """The newest checkpoint, and those before it on which its channels of changes stand."""
    newest = thread.newest(ns)
    if newest is None:
        return set()
    checkpoints = thread.checkpoints[ns]
    needed = {newest}
    for channel in checkpoints[newest].metadata.get("counters_since_delta_snapshot") or ():
        id: str | None = newest
        while id in checkpoints and not thread.has_value(ns, id, channel):
            id = checkpoints[id].parent
            if id is not None:
                needed.add(id)
    return needed & set(checkpoints)
