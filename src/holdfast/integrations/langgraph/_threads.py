"""The threads of a saver: found, read and written, each with its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langgraph.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple

from holdfast.errors import Fenced
from holdfast.integrations._place import Act, AdapterSession, Library, library_of, linked
from holdfast.integrations._recent import Recent
from holdfast.integrations.langgraph._records import NewCheckpoint, removed_words, writes_words
from holdfast.integrations.langgraph._thread import TOOL, GraphThread

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import CheckpointMetadata, DeltaChannelHistory

    from holdfast.integrations._units import Words
    from holdfast.integrations.langgraph._values import Typed
    from holdfast.model import Event
    from holdfast.session import Session


class NamedThread(NamedTuple):
    """What a config names: a thread, a namespace in it, and a checkpoint if it says which."""

    thread_id: str
    ns: str
    id: str | None


class GraphThreads:
    """The threads that are read or written here, in the sessions of a Holdfast."""

    def __init__(self, hf: Library) -> None:
        self.library = library_of(hf)
        self._threads: Recent[str, GraphThread] = Recent()
        self._shown: set[NamedThread] = set()

    def of(self, thread_id: str) -> GraphThread:
        """A thread, which may be new."""
        return self._threads.get(
            thread_id, lambda: GraphThread(AdapterSession(self.library, TOOL, thread_id))
        )

    def ids(self) -> Iterator[str]:
        """The threads that were begun by LangGraph."""
        return (link["id"] for _, link in linked(self.library, TOOL))

    # -- reading -----------------------------------------------------------------------------

    def chosen(self, config: RunnableConfig) -> str | None:
        """The checkpoint that a config names, or else the newest of its thread; None if none."""
        named = named_in(config)
        thread = self.of(named.thread_id)
        with thread.lock:
            thread.catch_up()
            if named.id is not None:
                # Whoever names a checkpoint may well go on from it although others did.
                self._shown.discard(named)
                return named.id if named.id in thread.checkpoints.get(named.ns, {}) else None
            newest = thread.newest(named.ns)
            if newest is not None:
                self._shown.add(named._replace(id=newest))
            return newest

    def find(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any],
        before: str | None,
        serde: Typed,
    ) -> Iterator[NamedThread]:
        """Checkpoints of one thread or of all, the newest of each first."""
        about = config["configurable"] if config else {}
        wanted_ns, wanted_id = about.get("checkpoint_ns"), about.get("checkpoint_id")
        ids: Iterable[str] = [named_in(config).thread_id] if config else self.ids()
        for thread_id in ids:
            thread = self.of(thread_id)
            with thread.lock:
                thread.catch_up()
                found = [
                    NamedThread(thread_id, ns, id)
                    for ns, checkpoints in thread.checkpoints.items()
                    if wanted_ns is None or ns == wanted_ns
                    for id in sorted(checkpoints, reverse=True)
                    if (wanted_id is None or id == wanted_id)
                    and (before is None or id < before)
                    and fits(_metadata(thread, ns, id, serde), filter)
                ]
            yield from found

    def show(self, named: NamedThread, serde: Typed) -> CheckpointTuple | None:
        """A checkpoint as the framework has it; None if it is no more."""
        thread_id, ns, id = named
        thread = self.of(thread_id)
        with thread.lock:
            if id not in thread.checkpoints.get(ns, {}):
                thread.catch_up()  # it may have been let go since the checkpoint was found
            one = thread.checkpoints.get(ns, {}).get(id or "")
            if one is None:
                return None
            body = thread.values.decode(one.body, serde)
            body["channel_values"] = thread.channel_values(ns, one, serde)
            return CheckpointTuple(
                config=config_of(thread_id, ns, one.id),
                checkpoint=body,
                metadata=cast("CheckpointMetadata", _metadata(thread, ns, one.id, serde)),
                parent_config=config_of(thread_id, ns, one.parent) if one.parent else None,
                pending_writes=[
                    (write.task, write.channel, thread.values.decode(write.value, serde))
                    for write in thread.ordered_writes(ns, one.id)
                ],
            )

    def history(
        self, named: NamedThread, channels: Sequence[str], serde: Typed
    ) -> dict[str, DeltaChannelHistory]:
        """What channels of changes alone stand on: a value, and what was written since."""
        thread, ns = self.of(named.thread_id), named.ns
        with thread.lock:
            thread.catch_up()
            id = named.id or thread.newest(ns)
            return {name: _history(thread, ns, id, name, serde) for name in channels}

    # -- writing -----------------------------------------------------------------------------

    def record(
        self, named: NamedThread, given: tuple[Any, Any, Any], serde: Typed
    ) -> tuple[AdapterSession, Act]:
        """What records a checkpoint, its metadata and its new versions after the one named."""
        checkpoint, metadata, versions = given
        thread = self.of(named.thread_id)

        def act(session: Session) -> list[Event]:
            with thread.lock:
                thread.catch_up()
                if named in self._shown:
                    _check_not_overtaken(thread, named)
                made = NewCheckpoint(thread, named.ns, named.id, serde)
                return _write(session, thread, made.words(checkpoint, metadata, versions))

        return thread.place, act

    def gone_on(self, named: NamedThread) -> None:
        """A checkpoint that was shown as the newest no longer is: its run went on."""
        self._shown.discard(named)

    def record_writes(
        self, named: NamedThread, given: tuple[Any, str, str], serde: Typed
    ) -> tuple[AdapterSession, Act]:
        """What records what a task wrote, by its id and its path, but for what is known of it."""
        writes, task_id, task_path = given
        ns, id = named.ns, named.id or ""
        thread = self.of(named.thread_id)
        placed = [
            (channel, WRITES_IDX_MAP.get(channel, number), value)
            for number, (channel, value) in enumerate(writes)
        ]

        def act(session: Session) -> list[Event]:
            with thread.lock:
                thread.catch_up()
                known = thread.writes.get((ns, id), {})
                new = [one for one in placed if one[1] < 0 or (task_id, one[1]) not in known]
                if not new:
                    return []
                words = writes_words(
                    thread, new, ns=ns, id=id, task=task_id, path=task_path, serde=serde
                )
                return _write(session, thread, words)

        return thread.place, act

    def remove(self, thread: GraphThread, removed: Sequence[tuple[str, str]]) -> None:
        """Remove checkpoints of a thread; the log keeps them."""
        if removed:

            def act(session: Session) -> list[Event]:
                with thread.lock:
                    thread.catch_up()
                    return _write(session, thread, removed_words(thread, set(removed)))

            thread.place.write(act)

    def fork(self, source_id: str, target_id: str) -> bool:
        """Make a thread that begins as another one; False if there is one of that name already."""
        source = AdapterSession(self.library, TOOL, source_id).id
        target = AdapterSession(self.library, TOOL, target_id).id
        if self.library.exists(target):
            return False
        if self.library.exists(source):
            self.library.fork(source, new_id=target)
        return True

    def delete(self, thread_id: str) -> None:
        """Move the session of a thread to the trash."""
        thread = self._threads.pop(thread_id)
        if thread is not None:
            thread.place.close()
        place = AdapterSession(self.library, TOOL, thread_id)
        if self.library.exists(place.id):
            self.library.delete(place.id)


def named_in(config: RunnableConfig) -> NamedThread:
    """What a config names."""
    about = config["configurable"]
    thread_id = about.get("thread_id")
    if not isinstance(thread_id, str):
        thread_id = str(thread_id)
    return NamedThread(thread_id, about.get("checkpoint_ns", ""), about.get("checkpoint_id"))


def config_of(thread_id: str, ns: str, id: str | None) -> RunnableConfig:
    """The config that names a checkpoint, or that there is none yet."""
    about = {"thread_id": thread_id, "checkpoint_ns": ns}
    return {"configurable": about | ({"checkpoint_id": id} if id is not None else {})}


def fits(metadata: dict[str, Any], filter: dict[str, Any]) -> bool:
    """Whether metadata has all that a filter asks for."""
    return all(metadata.get(name) == value for name, value in filter.items())


def needed(thread: GraphThread, ns: str) -> set[str]:
    """The newest checkpoint, and those before it on which its channels of changes stand."""
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


def _history(
    thread: GraphThread, ns: str, id: str | None, channel: str, serde: Typed
) -> DeltaChannelHistory:
    """What was written to a channel in its order, after the nearest value if there is one."""
    one = thread.checkpoints.get(ns, {}).get(id or "")
    seed, passed = thread.stretch(ns, one.parent if one else None, channel)
    made: DeltaChannelHistory = {
        "writes": [
            (write.task, write.channel, thread.values.decode(write.value, serde))
            for one in passed
            for write in thread.ordered_writes(ns, one)
            if write.channel == channel
        ]
    }
    if seed is not None:
        made["seed"] = thread.channel_value(ns, seed, channel, serde)
    return made


def _metadata(thread: GraphThread, ns: str, id: str, serde: Typed) -> dict[str, Any]:
    told = thread.checkpoints[ns][id].metadata
    return cast("dict[str, Any]", thread.values.decode(told, serde))


def _check_not_overtaken(thread: GraphThread, named: NamedThread) -> None:
    """Refuse a second run from a checkpoint that both were given as the newest."""
    if (named.ns, named.id) in thread.parents:
        raise Fenced(
            f"another run of thread {named.thread_id} went on from checkpoint {named.id} before",
            session_id=thread.place.id,
        )


def _write(session: Session, thread: GraphThread, words: Words) -> list[Event]:
    with thread.lock:
        thread.catch_up()
        recorded = session.extend(words)
        thread.take(recorded)
        thread.catch_up()
    return recorded
