"""One thread of a graph as a session: its messages as conversation, its checkpoints as frames.

A checkpoint tells only what is new: values of channels that changed, of a list that grew only what
was added, and a message, wherever it stands, once in the log and by its name after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

from holdfast.integrations._langchain_messages import FORM, seqs_of
from holdfast.integrations._langgraph_values import Items, Typed, Values
from holdfast.integrations._place import Place
from holdfast.integrations._units import CONVERSATION, UnitReader, Words
from holdfast.model import Event

__all__ = ["TOOL", "Checkpoint", "Thread", "Write"]

TOOL = "langgraph"
_ROOT = ""
_LISTED_MIN = 4  # a list that shares fewer items with the one before is told whole

Version: TypeAlias = "str | int | float"


class Checkpoint(NamedTuple):
    """A checkpoint as it is on record: encoded, without its channels' values."""

    id: str
    parent: str | None
    metadata: dict[str, Any]
    body: dict[str, Any]


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
        self.writes: dict[tuple[str, str], dict[tuple[str, int], Write]] = {}
        self._stored: dict[tuple[str, str, Version], dict[str, Any]] = {}
        self._latest: dict[tuple[str, str], tuple[Version, list[Any]]] = {}
        self._seqs: dict[str, list[int]] = {}

    # -- reading -----------------------------------------------------------------------------

    def newest(self, ns: str) -> str | None:
        """The id of the newest checkpoint of a namespace: ids grow."""
        return max(self.checkpoints.get(ns, ()), default=None)

    def channel_values(self, ns: str, checkpoint: Checkpoint, serde: Typed) -> dict[str, Any]:
        """The values of all channels at a checkpoint."""
        versions = checkpoint.body["channel_versions"]
        named = [channel for channel in versions if self.has_value(ns, checkpoint.id, channel)]
        return {name: self.channel_value(ns, checkpoint, name, serde) for name in named}

    def channel_value(self, ns: str, checkpoint: Checkpoint, channel: str, serde: Typed) -> Any:
        """The value of a channel that has one at a checkpoint."""
        encoded = self._encoded(ns, channel, _version(checkpoint, channel))
        return self.values.decode(encoded, serde)

    def ordered_writes(self, ns: str, id: str) -> list[Write]:
        """The writes at a checkpoint, in the order in which a live run applies them."""
        stored = self.writes.get((ns, id), {})
        return [stored[key] for key in sorted(stored, key=lambda key: (stored[key].path, *key))]

    def has_value(self, ns: str, id: str, channel: str) -> bool:
        """Whether a checkpoint has a value of its own for a channel, or writes alone."""
        version = _version(self.checkpoints[ns][id], channel)
        return self._stored.get((ns, channel, version), {"empty": True}) != {"empty": True}

    def _encoded(self, ns: str, channel: str, version: Version) -> Any:
        latest = self._latest.get((ns, channel))
        if latest is not None and latest[0] == version:
            return latest[1]
        steps: list[dict[str, Any]] = []
        stored = self._stored[ns, channel, version]
        while "of" in stored:
            steps.append(stored)
            stored = self._stored[ns, channel, stored["of"]]
        if "empty" in stored:
            return _EMPTY
        if not steps:
            return stored["is"]
        value = list(stored["is"])
        for step in reversed(steps):
            value[step["keep"] :] = step["add"]
        return value

    def _take_own(self, events: list[Event], item: Any) -> None:
        name = events[0].data["ref"]
        self.values.items[name] = item
        self._seqs[name] = [one.seq for one in events]

    def _take_foreign(self, event: Event) -> None:
        if event.type == "frame" and event.data.get("tool") == TOOL:
            self._take_frame(event.data)
        elif event.type in CONVERSATION and event.run is None:
            self.values.told[event.seq] = event

    def _take_frame(self, data: dict[str, Any]) -> None:
        if "checkpoint" in data:
            self._take_checkpoint(data["checkpoint"])
        elif "writes" in data:
            told = data["writes"]
            stored = self.writes.setdefault((told["ns"], told["id"]), {})
            for channel, place, value in told["values"]:
                key = (told["task"], place)
                if place < 0 or key not in stored:
                    stored[key] = Write(told["task"], channel, value, told["path"])
        elif "removed" in data:
            for ns, id in data["removed"]:
                self.checkpoints.get(ns, {}).pop(id, None)
                self.writes.pop((ns, id), None)

    def _take_checkpoint(self, told: dict[str, Any]) -> None:
        ns, id = told["ns"], told["body"]["id"]
        made = Checkpoint(id, told.get("parent"), told["metadata"], told["body"])
        self.checkpoints.setdefault(ns, {})[id] = made
        for channel, version, stored in told["values"]:
            self._stored[ns, channel, version] = stored
            latest = self._latest.get((ns, channel))
            if "of" in stored and latest is not None and latest[0] == stored["of"]:
                latest[1][stored["keep"] :] = stored["add"]
                self._latest[ns, channel] = (version, latest[1])
            else:
                self._latest.pop((ns, channel), None)
                encoded = self._encoded(ns, channel, version)
                if isinstance(encoded, list):
                    self._latest[ns, channel] = (version, list(encoded))

    # -- writing -----------------------------------------------------------------------------

    def tell_checkpoint(
        self,
        checkpoint: Mapping[str, Any],
        metadata: Mapping[str, Any],
        versions: Mapping[str, Version],
        *,
        ns: str,
        parent: str | None,
        serde: Typed,
    ) -> Words:
        """The events of a new checkpoint."""
        new: Items = {}
        values = checkpoint["channel_values"]
        stored: list[Any] = []
        gone: list[int] = []
        for channel, version in versions.items():
            if channel not in values:
                stored.append([channel, version, {"empty": True}])
                continue
            value = values[channel]
            encoded = self.values.encode(value, serde, new if isinstance(value, list) else None)
            if ns == _ROOT:
                gone += self._left_out(channel, encoded)
            stored.append([channel, version, self._shortened(ns, channel, encoded)])
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        told = {
            "ns": ns,
            "metadata": self.values.encode(dict(metadata), serde),
            "body": self.values.encode(body, serde),
            "values": stored,
        } | ({"parent": parent} if parent else {})
        words = _message_words(new)
        if gone:
            words.append(("retracted", {"seqs": gone}))
        return [*words, _frame("checkpoint", told)]

    def tell_writes(
        self,
        writes: list[tuple[str, int, Any]],
        *,
        ns: str,
        id: str,
        task: str,
        path: str,
        serde: Typed,
    ) -> Words:
        """The events of what a task wrote."""
        values = [
            [channel, place, self.values.encode(value, serde)] for channel, place, value in writes
        ]
        return [
            _frame("writes", {"ns": ns, "id": id, "task": task, "path": path, "values": values})
        ]

    def tell_removed(self, removed: list[tuple[str, str]]) -> Words:
        """The event by which checkpoints are no more; the log still has them."""
        return [_frame("removed", [list(one) for one in removed])]

    def _shortened(self, ns: str, channel: str, encoded: Any) -> dict[str, Any]:
        latest = self._latest.get((ns, channel))
        if latest is None or not isinstance(encoded, list):
            return {"is": encoded}
        version, before = latest
        if encoded[: len(before)] == before:
            kept = len(before)
        else:
            pairs = zip(before, encoded, strict=False)
            kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if kept < _LISTED_MIN:
            return {"is": encoded}
        return {"of": version, "keep": kept, "add": encoded[kept:]}

    def _left_out(self, channel: str, encoded: Any) -> list[int]:
        """Events of messages that were in a channel, and no longer are: taken back by the graph."""
        latest = self._latest.get((_ROOT, channel))
        if latest is None or not isinstance(encoded, list):
            return []
        before = latest[1]
        if encoded[: len(before)] == before:
            return []
        names = [_name(one) for one in before]
        still = {_name(one) for one in encoded}
        return [seq for name in names if name and name not in still for seq in self._taken(name)]

    def _taken(self, name: str) -> list[int]:
        # Should it come back, it is told again.
        self.values.items.pop(name, None)
        return self._seqs.pop(name, None) or list(seqs_of(name))


_EMPTY = object()


def _version(checkpoint: Checkpoint, channel: str) -> Any:
    """The version of a channel at a checkpoint, of which a big number is told as a text."""
    version = checkpoint.body["channel_versions"].get(channel)
    return int(version["$i"]) if isinstance(version, dict) else version


def _name(encoded: Any) -> str | None:
    return encoded.get("$m") if isinstance(encoded, dict) else None


def _message_words(new: Items) -> Words:
    words: Words = []
    for name, item in new.items():
        (type, data), *rest = FORM.record(item)
        words += [(type, data | {"ref": name}), *rest]
    return words


def _frame(kind: str, told: Any) -> tuple[str, dict[str, Any]]:
    return "frame", {"direction": "stored", "tool": TOOL, kind: told}
