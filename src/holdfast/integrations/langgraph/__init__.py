"""LangGraph on our log: a checkpointer for ``builder.compile(checkpointer=…)``.

``HoldfastSaver()`` in place of ``SqliteSaver`` is the whole change. A thread is a session: its
messages are its conversation, so that it can be listed, searched, recovered and exported like any
other, and a list of messages that grows by one costs one message, not the list.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata

from holdfast.errors import Fenced, UsageError
from holdfast.integrations._calls import Unknown
from holdfast.integrations._place import Act, AdapterSession, Library, Recent, library_of, linked, unblocked
from holdfast.integrations._units import Units, Words, voices
from holdfast.integrations.langchain import FORM, answered, durable_tool, messages_of
from holdfast.integrations.langgraph._records import NewCheckpoint, removed_words, writes_words
from holdfast.integrations.langgraph._thread import TOOL, GraphThread

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig as Config
    from langchain_core.tools import BaseTool
    from langgraph.checkpoint.base import ChannelVersions as Versions
    from langgraph.checkpoint.base import Checkpoint, DeltaChannelHistory
    from langgraph.checkpoint.base import CheckpointMetadata as Metadata
    from langgraph.checkpoint.serde.base import SerializerProtocol as Typed

__all__ = ["HoldfastSaver", "bring_over", "durable"]

_CHANCE_BITS = 32  # of a version, below the number that grows: no two branches have the same


class NamedThread(NamedTuple):
    """The target of a config: a thread, a namespace in it, and a checkpoint if it names one."""

    thread_id: str
    ns: str
    id: str | None


class HoldfastSaver(BaseCheckpointSaver[int]):
    """Checkpoints of graphs, in the sessions of a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. What was put is on the medium when the
    call returns. Two runs that go on from the same newest checkpoint are not both recorded: the second gets Fenced,
    in whichever process it is. Only types that LangGraph allows are ever made from what is stored.
    """

    def __init__(self, hf: Library = None, *, serde: Typed | None = None) -> None:
        super().__init__(serde=serde)
        self._library = library = library_of(hf)
        self._of = Recent[str, GraphThread](lambda name: GraphThread(AdapterSession(library, TOOL, name), FORM))
        # Checkpoints that a run was given as the newest: only one run may continue from each.
        self._shown: set[NamedThread] = set()

    # -- reading -----------------------------------------------------------------------------
    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """Return the checkpoint that a config names, or else the newest of its thread."""
        named = named_in(config)
        thread = self._of(named.thread_id)
        with thread.reading():
            if named.id is not None:
                # A caller that names a checkpoint may continue from it even if others did.
                self._shown.discard(named)
                return self._show(named)
            newest = named._replace(id=thread.newest(named.ns))
            if newest.id is None:
                return None
            self._shown.add(newest)
            return self._show(newest)

    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first, of one thread or of all."""
        found = self._find(config, filter or {}, named_in(before).id if before else None)
        return (one for named in islice(found, limit) if (one := self._show(named)) is not None)

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel the nearest value before a checkpoint, and the writes since."""
        thread_id, ns, id = named_in(config)
        thread = self._of(thread_id)
        with thread.reading():
            one = thread.checkpoints.get(ns, {}).get(id or thread.newest(ns) or "")
            parent = one.parent if one else None
            return {name: _history(thread, ns, parent, name, self.serde) for name in channels}

    def messages(self, thread_id: str) -> Sequence[BaseMessage]:
        """Return the conversation of a thread, whatever recorded it, valid in every state of its log.

        To go on with a session of another framework: give these to the graph as its input, with
        what is to be said next. What is on record already is not recorded a second time.
        """
        units = Units(AdapterSession(self._library, TOOL, thread_id), FORM).read()
        return answered(messages_of(voices(units)))

    # -- writing -----------------------------------------------------------------------------
    def put(self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions) -> Config:
        """Record a checkpoint. Raises Fenced if another run went on from the same one."""
        place, act = self._put(config, checkpoint, metadata, new_versions)
        place.write(act)
        return self._gone_on(config, checkpoint)

    async def aput(self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions) -> Config:
        """Do what ``put`` does, without blocking the event loop."""
        place, act = self._put(config, checkpoint, metadata, new_versions)
        await place.awrite(act)
        return self._gone_on(config, checkpoint)

    def put_writes(self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Record the writes of a task. A second call writes nothing except errors and similar entries."""
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
        place = self._of(thread_id).place
        self._of.pop(thread_id)
        place.delete()

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs made."""
        wanted = set(run_ids)

        def made_by_them(thread: GraphThread, ns: str) -> set[str]:
            return {id for id, one in thread.checkpoints[ns].items() if one.metadata.get("run_id") in wanted}

        for thread_id in self._ids():
            self._remove(thread_id, made_by_them)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread to another one, which may have checkpoints of its own."""
        source, target = (AdapterSession(self._library, TOOL, id) for id in (source_thread_id, target_thread_id))
        if target.exists():
            every = config_of(source_thread_id, "", None)
            del every["configurable"]["checkpoint_ns"]
            _take_over(self, self.list(every), target_thread_id)
        elif source.exists():
            self._library.fork(source.id, new_id=target.id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all checkpoints except the newest of each namespace and those it depends on, or all (``"delete"``)."""
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._remove(thread_id, lambda thread, ns: set(thread.checkpoints[ns]) - needed(thread, ns))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return a version after this one, of the same type, that no branch of a thread has had before."""
        if isinstance(current, str):
            number = int(current.partition(".")[0]) + 1
            return f"{number:032}.{secrets.randbits(_CHANCE_BITS):020}"
        step = int(current or 0) >> _CHANCE_BITS
        return ((step + 1) << _CHANCE_BITS) + secrets.randbits(_CHANCE_BITS)

    # -- the same without blocking the event loop -----------------------------------------------
    aget_tuple = unblocked(get_tuple)
    aget_delta_channel_history = unblocked(get_delta_channel_history)
    adelete_thread = unblocked(delete_thread)
    adelete_for_runs = unblocked(delete_for_runs)
    acopy_thread = unblocked(copy_thread)
    aprune = unblocked(prune)

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

    # -- inside ------------------------------------------------------------------------------
    def _ids(self) -> Iterator[str]:
        """Yield the threads that LangGraph created."""
        return (link["id"] for _, link in linked(self._library, TOOL))

    def _find(self, config: Config | None, filter: dict[str, Any], before: str | None) -> Iterator[NamedThread]:
        """Yield checkpoints of one thread or of all, the newest of each first."""
        about = config["configurable"] if config else {}
        wanted_ns, wanted_id = about.get("checkpoint_ns"), about.get("checkpoint_id")
        ids: Iterable[str] = [named_in(config).thread_id] if config else self._ids()
        for thread_id in ids:
            thread = self._of(thread_id)
            with thread.reading():
                found = [
                    NamedThread(thread_id, ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    if wanted_ns in (None, ns)
                    for id in sorted(checkpoints, reverse=True)
                    if wanted_id in (None, id)
                    and (before is None or id < before)
                    and _fits(_metadata(thread, ns, id, self.serde), filter)
                ]
            yield from found

    def _show(self, named: NamedThread) -> CheckpointTuple | None:
        """Return a checkpoint in the framework's form; None if it no longer exists."""
        thread_id, ns, id = named
        thread, serde = self._of(thread_id), self.serde
        with thread.lock:
            if id not in thread.checkpoints.get(ns, {}):
                thread.catch_up()  # it may have been let go since the checkpoint was found
            one = thread.checkpoints.get(ns, {}).get(id or "")
            if one is None:
                return None
            body = thread.values.decode(one.body, serde)
            body["channel_values"] = {name: thread.channel_value(ns, one, name, serde) for name in one.values}
            return CheckpointTuple(
                config=config_of(thread_id, ns, one.id),
                checkpoint=body,
                metadata=cast("Metadata", _metadata(thread, ns, one.id, serde)),
                parent_config=config_of(thread_id, ns, one.parent) if one.parent else None,
                pending_writes=_writes(thread, ns, one.id, serde),
            )

    def _put(
        self, config: Config, checkpoint: Checkpoint, metadata: Metadata, new_versions: Versions
    ) -> tuple[AdapterSession, Act]:
        named, about = named_in(config), get_checkpoint_metadata(config, metadata)
        thread = self._of(named.thread_id)

        def tell() -> Words:
            # A second run from a checkpoint that both were given as the newest is refused.
            if named in self._shown and (named.ns, named.id) in thread.parents:
                told = f"another run of thread {named.thread_id} went on from checkpoint {named.id} before"
                raise Fenced(told, session_id=thread.place.id)
            made = NewCheckpoint(thread, named.ns, named.id, self.serde)
            return made.words(checkpoint, about, new_versions)

        return thread.place, thread.recording(tell)

    def _gone_on(self, config: Config, checkpoint: Checkpoint) -> Config:
        named = named_in(config)
        self._shown.discard(named)  # it is the newest no more: its run went on
        return config_of(named.thread_id, named.ns, checkpoint["id"])

    def _put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> tuple[AdapterSession, Act]:
        thread_id, ns, checkpoint_id = named_in(config)
        thread, id = self._of(thread_id), checkpoint_id or ""
        placed = [
            (channel, WRITES_IDX_MAP.get(channel, number), value) for number, (channel, value) in enumerate(writes)
        ]

        def tell() -> Words:
            known = thread.writes.get((ns, id), {})
            new = [one for one in placed if one[1] < 0 or (task, one[1]) not in known]
            about = {"ns": ns, "id": id, "task": task, "path": path}
            return writes_words(thread, new, **about, serde=self.serde) if new else []

        return thread.place, thread.recording(tell)

    def _remove(self, thread_id: str, choose: Callable[[GraphThread, str], set[str]]) -> None:
        """Remove the chosen checkpoints of each namespace of a thread; the log keeps them."""
        # Chosen under the lock, so that checkpoints written meanwhile are not removed unseen.
        thread = self._of(thread_id)
        with thread.reading():
            removed = {(ns, id) for ns in thread.checkpoints for id in choose(thread, ns)}
        if removed:
            thread.place.write(thread.recording(lambda: removed_words(thread, removed)))


def durable(tool: BaseTool | Callable[..., Any], *, session: HoldfastSaver, unknown: Unknown = "tell") -> BaseTool:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    Intent and result are kept in the session of the thread that ``session``, the graph's saver, keeps. A call that was
    cut off is not run again, under whatever id it comes: the model is told that its outcome is unknown. With
    ``unknown="rerun"`` it runs again; a function gets an OutcomeUnknown with ``arguments``, and returns the result
    it looked up, or ``holdfast.RERUN``.
    """

    def find_place(config: Config | None) -> AdapterSession:
        if not (config or {}).get("configurable", {}).get("thread_id"):
            raise UsageError("a durable tool runs in a graph that was given a thread_id")
        return session._of(named_in(cast("Config", config)).thread_id).place  # noqa: SLF001 - of this module

    return durable_tool(tool, find_place, unknown)


def bring_over(source: BaseCheckpointSaver[Any], hf: Library = None) -> int:
    """Record the new checkpoints of another saver, with their writes; return their number."""
    return _take_over(HoldfastSaver(hf), source.list(None))


def _take_over(target: HoldfastSaver, source: Iterable[CheckpointTuple], thread_id: str | None = None) -> int:
    """Record the missing checkpoints, parents first; return their number."""
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


def named_in(config: Config) -> NamedThread:
    """Return the target of a config."""
    about = config["configurable"]
    return NamedThread(str(about.get("thread_id")), about.get("checkpoint_ns", ""), about.get("checkpoint_id"))


def config_of(thread_id: str, ns: str, id: str | None) -> Config:
    """Return the config for a checkpoint, or for a thread without one."""
    about = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": about | ({"checkpoint_id": id} if id is not None else {})}


def _fits(metadata: dict[str, Any], filter: dict[str, Any]) -> bool:
    return all(metadata.get(name) == value for name, value in filter.items())


def needed(thread: GraphThread, ns: str) -> set[str]:
    """Return the newest checkpoint, and the earlier ones on which its delta channels depend."""
    newest = thread.newest(ns)
    if newest is None:
        return set()
    counters = thread.checkpoints[ns][newest].metadata.get("counters_since_delta_snapshot")
    found = {newest}
    for channel in counters or ():
        for one in thread.lineage(ns, newest):
            found.add(one.id)
            if channel in one.values:
                break
    return found


def _history(thread: GraphThread, ns: str, parent: str | None, channel: str, serde: Typed) -> DeltaChannelHistory:
    """Return the writes to a channel in order, after the nearest value if there is one."""
    seed, passed = thread.stretch(ns, parent, channel)
    writes = [write for one in passed for write in _writes(thread, ns, one, serde, channel)]
    value = {"seed": thread.channel_value(ns, seed, channel, serde)} if seed is not None else {}
    return cast("DeltaChannelHistory", {"writes": writes, **value})


def _writes(
    thread: GraphThread, ns: str, id: str, serde: Typed, channel: str | None = None
) -> list[tuple[str, str, Any]]:
    """Return the writes of tasks at a checkpoint, or to a channel of it, in the framework's form."""
    return [
        (write.task, write.channel, thread.values.decode(write.value, serde))
        for write in thread.ordered_writes(ns, id)
        if channel in (None, write.channel)
    ]


def _metadata(thread: GraphThread, ns: str, id: str, serde: Typed) -> dict[str, Any]:
    return cast("dict[str, Any]", thread.values.decode(thread.checkpoints[ns][id].metadata, serde))
