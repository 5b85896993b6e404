"""One thread of a graph as a session: its messages as conversation, its checkpoints as frames.

A checkpoint tells only what is new: what changed since the newest one, of a list that grew only
what was added, and a message, wherever it stands, once in the log and by its name after that. What
is written here is told in `_records.py`. These forms are on disk: they may gain members, and
never change.

A value belongs to the checkpoint that told it, and to those that went on from there without a new
one. Its version alone does not name it: in early logs branches of a thread gave the same versions
to different values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from holdfast.integrations._difference import apply
from holdfast.integrations._langchain_messages import FORM, reference
from holdfast.integrations._place import AdapterSession
from holdfast.integrations._units import CONVERSATION, UnitReader
from holdfast.integrations.langgraph._values import Typed, Values
from holdfast.model import Event

TOOL = "langgraph"
ROOT = ""
INPUT = "__start__"
"""The channel that holds what a run was given, until it is spread over the others."""
_EMPTY = {"empty": True}

Version: TypeAlias = "str | int | float"


class Value(NamedTuple):
    """A channel's value as a checkpoint told it: whole, or what it keeps of an earlier list."""

    told: dict[str, Any]
    before: Value | None = None

    def encoded(self) -> Any:
        """The whole value."""
        steps: list[dict[str, Any]] = []
        at = self
        while at.before is not None:
            steps.append(at.told)
            at = at.before
        if not steps:
            return at.told["is"]
        value = list(at.told["is"])
        for step in reversed(steps):
            value[step["keep"] :] = step["add"]
        return value


class Checkpoint(NamedTuple):
    """A checkpoint as it is on record, encoded."""

    seq: int
    """The event that tells it."""
    id: str
    parent: str | None
    metadata: dict[str, Any]
    body: dict[str, Any]
    values: dict[str, Value]
    """The values of its channels; a channel of changes may have none."""

    def version(self, channel: str) -> Any:
        """The version of a channel."""
        return _number(self.body["channel_versions"].get(channel))


class ChannelWrite(NamedTuple):
    """What a task wrote to a channel before the next checkpoint was made."""

    task: str
    channel: str
    value: Any
    path: str


class GraphThread(UnitReader):
    """What the log of a thread says. Keep ``lock`` while reading or writing it."""

    def __init__(self, place: AdapterSession) -> None:
        super().__init__(FORM, place)

    def _begin_again(self) -> None:
        super()._begin_again()
        self.values = Values()
        self.checkpoints: dict[str, dict[str, Checkpoint]] = {}
        self.parents: set[tuple[str, str | None]] = set()
        """The checkpoints, by namespace and id, from which one that is there went on."""
        self._newest: dict[str, str | None] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], ChannelWrite]] = {}
        self.latest: dict[tuple[str, str], tuple[Value, list[Any]]] = {}
        """The last value told of channels that hold a list, and the list."""
        self.speaking: set[str] = set()
        """Channels of the graph itself that hold messages: the conversation."""
        self.announced: dict[str, list[str]] = {}
        """Messages that were told at a checkpoint, before the graph itself has taken them up."""
        self._told: dict[tuple[str, str, Version | None], Value] = {}
        """The last value told of a channel's version."""
        self._names: dict[int, str] = {}
        self._fresh: list[str] = []

    # -- reading -----------------------------------------------------------------------------

    def newest(self, ns: str) -> str | None:
        """The id of the newest checkpoint of a namespace: ids grow."""
        return self._newest.get(ns)

    def lineage(self, ns: str, id: str | None) -> Iterator[Checkpoint]:
        """A checkpoint and those it comes from, the nearest first, each of them once."""
        checkpoints, seen = self.checkpoints.get(ns, {}), set()
        while id in checkpoints and id not in seen:
            seen.add(id)
            yield checkpoints[id]
            id = checkpoints[id].parent

    def stretch(self, ns: str, id: str | None, channel: str) -> tuple[Checkpoint | None, list[str]]:
        """From where a channel's value at what follows a checkpoint is put together.

        The nearest checkpoint that has a value, if there is one, and those whose writes count after
        it, in their order.
        """
        passed: list[str] = []
        seed = None
        for one in self.lineage(ns, id):
            passed.append(one.id)
            if channel in one.values:
                seed = one
                break
        return seed, passed[::-1]

    def still_announced(self, id: str) -> list[str]:
        """Messages that were told at a checkpoint, are not taken up yet, and still stand."""
        return [name for name in self.announced.get(id, ()) if name in self.values.standing]

    def channel_values(self, ns: str, checkpoint: Checkpoint, serde: Typed) -> dict[str, Any]:
        """The values of all channels at a checkpoint."""
        return {name: self.channel_value(ns, checkpoint, name, serde) for name in checkpoint.values}

    def channel_value(self, ns: str, checkpoint: Checkpoint, channel: str, serde: Typed) -> Any:
        """The value of a channel that has one at a checkpoint."""
        encoded = self.encoded(ns, checkpoint, channel)
        if "snapshot" in checkpoint.values[channel].told:
            encoded = {"~s": encoded}
        return self.values.decode(encoded, serde)

    def encoded(self, ns: str, checkpoint: Checkpoint, channel: str) -> Any:
        """The value of a channel that has one at a checkpoint, as it is on record."""
        value, latest = checkpoint.values[channel], self.latest.get((ns, channel))
        return latest[1] if latest is not None and latest[0] is value else value.encoded()

    def said_after(self, seq: int) -> list[str]:
        """The messages of the graph that stand in the conversation, told after an event."""
        standing = self.values.standing
        return [name for name, seqs in standing.items() if seqs[0] > seq and seqs[0] in self._names]

    def ordered_writes(self, ns: str, id: str) -> list[ChannelWrite]:
        """The writes at a checkpoint, in the order in which a live run applies them."""
        stored = self.writes.get((ns, id), {})
        return [stored[key] for key in sorted(stored, key=lambda key: (stored[key].path, *key))]

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
            self._take_frame(event.data, event.seq)
        elif event.type == "retracted":
            for seq in event.data.get("seqs", ()):
                self.values.standing.pop(self._names.pop(seq, ""), None)
        elif event.type in CONVERSATION and event.run is None:
            self.values.told[event.seq] = event

    def _take_frame(self, data: dict[str, Any], seq: int) -> None:
        if FORM.has(data.get("by")):
            self._take_amended(data)
        if data.get("tool") != TOOL:
            return
        if "checkpoint" in data:
            self._take_checkpoint(data["checkpoint"], seq)
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
                stored[key] = ChannelWrite(told["task"], channel, value, told["path"])
        if self._fresh:
            self.announced.setdefault(id, []).extend(self._fresh)

    def _take_checkpoint(self, told: dict[str, Any], seq: int) -> None:
        ns = told.get("ns", ROOT)
        id, parent, about = self._about(ns, told)
        body = about["body"]
        versions = {name: _number(one) for name, one in body["channel_versions"].items()}
        for channel, *rest in told["values"]:
            version = _number(rest[0]) if len(rest) == 2 else versions.get(channel)
            self._told[ns, channel, version] = self._value(
                ns, channel, rest[-1] if rest else _EMPTY
            )
            if ns == ROOT and channel == INPUT and self._fresh:
                given = set(names_in(rest[-1:]))
                self.announced[id] = [name for name in self._fresh if name in given]
        new = {channel for channel, *_ in told["values"]}
        values = self._belonging(ns, versions, parent, new)
        made = Checkpoint(seq, id, parent, about["metadata"], body, values)
        self.checkpoints.setdefault(ns, {})[id] = made
        self.parents.add((ns, parent))
        self._newest[ns] = max(id, self._newest.get(ns) or "")
        if ns == ROOT:
            self.announced.pop(parent or "", None)
            self.speaking.update(made.metadata.get("counters_since_delta_snapshot") or ())

    def _about(self, ns: str, told: dict[str, Any]) -> tuple[str, str | None, dict[str, Any]]:
        newest = self.newest(ns)
        if newest is None or "change" not in told:
            about, parent = told, told.get("parent")
        else:
            before = self.checkpoints[ns][newest]
            base = {"metadata": before.metadata, "body": before.body}
            about, parent = apply(base, told["change"]), told.get("parent", newest)
        return about["body"]["id"], parent, about

    def _belonging(
        self, ns: str, versions: dict[str, Version], parent: str | None, new: set[str]
    ) -> dict[str, Value]:
        """The values of a checkpoint: new ones, those of its parent, or else those told last."""
        before = self.checkpoints.get(ns, {}).get(parent or "")
        found = {}
        for channel, version in versions.items():
            if channel not in new and before is not None and before.version(channel) == version:
                value = before.values.get(channel)
            else:
                value = self._told.get((ns, channel, version))
            if value is not None and value.told != _EMPTY:
                found[channel] = value
        return found

    def _value(self, ns: str, channel: str, told: dict[str, Any]) -> Value:
        """The value that was told of a channel, which what follows may be told by."""
        latest = self.latest.get((ns, channel))
        if told == _EMPTY:
            return Value(told)
        before = latest[0] if latest is not None and "keep" in told else None
        if "of" in told:  # as early logs name the list that is kept
            before = self._told[ns, channel, told["of"]]
        value = Value(told, before)
        if latest is not None and before is latest[0]:
            now = latest[1]
            now[told["keep"] :] = told["add"]
        else:
            self.latest.pop((ns, channel), None)
            encoded = value.encoded()
            if not isinstance(encoded, list):
                return value
            now = list(encoded)
        self.latest[ns, channel] = (value, now)
        if ns == ROOT and channel not in self.speaking and any(names_in(now)):
            self.speaking.add(channel)
        return value


def _number(version: Any) -> Any:
    """A version as it was given: of a big number the log has the text."""
    return int(next(iter(version.values()))) if isinstance(version, dict) else version


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
