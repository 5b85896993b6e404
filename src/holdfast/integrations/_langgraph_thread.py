"""One thread of a graph as a session: its messages as conversation, its checkpoints as frames.

A checkpoint tells only what is new: what changed since the newest one, of a list that grew only
what was added, and a message, wherever it stands, once in the log and by its name after that. What
is written here is told in `_langgraph_telling`. These forms are on disk: they may gain members, and
never change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from holdfast.integrations._difference import apply
from holdfast.integrations._langchain_messages import FORM, reference
from holdfast.integrations._langgraph_values import Typed, Values
from holdfast.integrations._place import Place
from holdfast.integrations._units import CONVERSATION, UnitReader
from holdfast.model import Event

__all__ = ["INPUT", "ROOT", "TOOL", "Checkpoint", "Thread", "Version", "Write", "names_in"]

TOOL = "langgraph"
ROOT = ""
INPUT = "__start__"
"""The channel that holds what a run was given, until it is spread over the others."""
_EMPTY = {"empty": True}

Version: TypeAlias = "str | int | float"


class Checkpoint(NamedTuple):
    """A checkpoint as it is on record: encoded, without its channels' values."""

    id: str
    parent: str | None
    metadata: dict[str, Any]
    body: dict[str, Any]

    def version(self, channel: str) -> Any:
        """The version of a channel, of which a big number is told as a text."""
        version = self.body["channel_versions"].get(channel)
        return int(next(iter(version.values()))) if isinstance(version, dict) else version


class Write(NamedTuple):
    """What a task wrote to a channel before the next checkpoint was made."""

    task: str
    channel: str
    value: Any
    path: str


class Thread(UnitReader):
    """What the log of a thread says. Keep ``lock`` while reading or writing it."""

    def __init__(self, place: Place) -> None:
        super().__init__(FORM, place)

    def _begin_again(self) -> None:
        super()._begin_again()
        self.values = Values()
        self.checkpoints: dict[str, dict[str, Checkpoint]] = {}
        self.parents: set[tuple[str, str | None]] = set()
        """The checkpoints, by namespace and id, from which one that is there went on."""
        self._newest: dict[str, str | None] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self.latest: dict[tuple[str, str], tuple[Version, list[Any]]] = {}
        """The newest value of channels that hold a list."""
        self.speaking: set[str] = set()
        """Channels of the graph itself that hold messages: the conversation."""
        self.announced: dict[str, list[str]] = {}
        """Messages that were told at a checkpoint, before the graph itself has taken them up."""
        self._stored: dict[tuple[str, str, Version], dict[str, Any]] = {}
        self._names: dict[int, str] = {}
        self._fresh: list[str] = []

    # -- reading -----------------------------------------------------------------------------

    def newest(self, ns: str) -> str | None:
        """The id of the newest checkpoint of a namespace: ids grow."""
        return self._newest.get(ns)

    def channel_values(self, ns: str, checkpoint: Checkpoint, serde: Typed) -> dict[str, Any]:
        """The values of all channels at a checkpoint."""
        versions = checkpoint.body["channel_versions"]
        named = [channel for channel in versions if self.has_value(ns, checkpoint.id, channel)]
        return {name: self.channel_value(ns, checkpoint, name, serde) for name in named}

    def channel_value(self, ns: str, checkpoint: Checkpoint, channel: str, serde: Typed) -> Any:
        """The value of a channel that has one at a checkpoint."""
        version = checkpoint.version(channel)
        encoded = self._encoded(ns, channel, version)
        if "snapshot" in self._stored[ns, channel, version]:
            encoded = {"~s": encoded}
        return self.values.decode(encoded, serde)

    def ordered_writes(self, ns: str, id: str) -> list[Write]:
        """The writes at a checkpoint, in the order in which a live run applies them."""
        stored = self.writes.get((ns, id), {})
        return [stored[key] for key in sorted(stored, key=lambda key: (stored[key].path, *key))]

    def has_value(self, ns: str, id: str, channel: str) -> bool:
        """Whether a checkpoint has a value of its own for a channel, or writes alone."""
        version = self.checkpoints[ns][id].version(channel)
        return self._stored.get((ns, channel, version), _EMPTY) != _EMPTY

    def _encoded(self, ns: str, channel: str, version: Version) -> Any:
        latest = self.latest.get((ns, channel))
        if latest is not None and latest[0] == version:
            return latest[1]
        steps: list[dict[str, Any]] = []
        stored = self._stored[ns, channel, version]
        while "of" in stored:
            steps.append(stored)
            stored = self._stored[ns, channel, stored["of"]]
        if not steps:
            return stored["is"]
        value = list(stored["is"])
        for step in reversed(steps):
            value[step["keep"] :] = step["add"]
        return value

    # -- what the log says -------------------------------------------------------------------

    def _take_own(self, events: list[Event], item: Any) -> None:
        name = events[0].data["ref"]
        self.values.items[name] = item
        self._let_stand(name, tuple(one.seq for one in events))
        self._fresh.append(name)

    def _let_stand(self, name: str, seqs: tuple[int, ...]) -> None:
        self.values.standing[name] = seqs
        self._names.update(dict.fromkeys(seqs, name))

    def _take_foreign(self, event: Event) -> None:
        if event.type == "frame":
            self._take_frame(event.data)
        elif event.type == "retracted":
            for seq in event.data.get("seqs", ()):
                self.values.standing.pop(self._names.pop(seq, ""), None)
        elif event.type in CONVERSATION and event.run is None:
            self.values.told[event.seq] = event

    def _take_frame(self, data: dict[str, Any]) -> None:
        if FORM.has(data.get("by")):
            self._take_amended(data)
        if data.get("tool") != TOOL:
            return
        if "checkpoint" in data:
            self._take_checkpoint(data["checkpoint"])
        elif "writes" in data:
            self._take_writes(data["writes"])
        elif "removed" in data:
            self._take_removed(data["removed"])
        self._fresh = []

    def _take_removed(self, removed: list[list[str]]) -> None:
        for ns, id in removed:
            self.checkpoints.get(ns, {}).pop(id, None)
            self.writes.pop((ns, id), None)
        found = self.checkpoints.items()
        self.parents = {(ns, one.parent) for ns, some in found for one in some.values()}
        self._newest = {ns: max(some, default=None) for ns, some in found}

    def _take_amended(self, data: dict[str, Any]) -> None:
        """A message got its id: from now on it has another name, and what had the old keeps it."""
        name = self._names.get(data["amends"], "")
        seqs = self.values.standing.pop(name, None)
        if seqs is not None:
            item = apply(self.values.items[name], data["change"])
            now = reference(item)
            self.values.items[now] = item
            self._let_stand(now, seqs)
            for names in self.announced.values():
                names[:] = [now if one == name else one for one in names]

    def _take_writes(self, told: dict[str, Any]) -> None:
        ns = told.get("ns", ROOT)
        id: str = told["id"] if "id" in told else self.newest(ns) or ""
        stored = self.writes.setdefault((ns, id), {})
        for channel, place, value in told["values"]:
            key = (told["task"], place)
            if place < 0 or key not in stored:
                stored[key] = Write(told["task"], channel, value, told["path"])
        if self._fresh:
            self.announced.setdefault(id, []).extend(self._fresh)

    def _take_checkpoint(self, told: dict[str, Any]) -> None:
        ns = told.get("ns", ROOT)
        made = self._checkpoint(ns, told)
        self.checkpoints.setdefault(ns, {})[made.id] = made
        self.parents.add((ns, made.parent))
        self._newest[ns] = max(made.id, self._newest.get(ns) or "")
        if ns == ROOT:
            self.announced.pop(made.parent or "", None)
            self.speaking.update(made.metadata.get("counters_since_delta_snapshot") or ())
        for channel, *rest in told["values"]:
            version = rest[0] if len(rest) == 2 else made.version(channel)
            self._take_value(ns, channel, version, rest[-1] if rest else _EMPTY)
            if ns == ROOT and channel == INPUT and self._fresh:
                given = set(names_in(rest[-1:]))
                self.announced[made.id] = [name for name in self._fresh if name in given]

    def _checkpoint(self, ns: str, told: dict[str, Any]) -> Checkpoint:
        newest = self.newest(ns)
        if newest is None or "change" not in told:
            about, parent = told, told.get("parent")
        else:
            before = self.checkpoints[ns][newest]
            base = {"metadata": before.metadata, "body": before.body}
            about, parent = apply(base, told["change"]), told.get("parent", newest)
        return Checkpoint(about["body"]["id"], parent, about["metadata"], about["body"])

    def _take_value(self, ns: str, channel: str, version: Version, told: dict[str, Any]) -> None:
        latest = self.latest.get((ns, channel))
        if "keep" in told and latest is not None:
            told = {"of": latest[0], **told}
        self._stored[ns, channel, version] = told
        if told == _EMPTY:
            return
        if latest is not None and told.get("of") == latest[0]:
            latest[1][told["keep"] :] = told["add"]
            now = latest[1]
        else:
            self.latest.pop((ns, channel), None)
            encoded = self._encoded(ns, channel, version)
            if not isinstance(encoded, list):
                return
            now = list(encoded)
        self.latest[ns, channel] = (version, now)
        if ns == ROOT and channel not in self.speaking and any(names_in(now)):
            self.speaking.add(channel)


def names_in(encoded: Any) -> Iterator[str]:
    """The messages that a value names, in their order."""
    if isinstance(encoded, list):
        for one in encoded:
            yield from names_in(one)
    elif isinstance(encoded, dict):
        name = encoded.get("~m") or encoded.get("$m")
        if isinstance(name, str) and len(encoded) == 1:
            yield name
        else:
            yield from names_in(list(encoded.values()))
