"""One thread of a graph as a session: its messages as conversation, its checkpoints as frames.

A checkpoint tells only what is new: what changed since the newest one, of a list that grew only what was added, and a
message, wherever it stands, once in the log and by its name after that. What is written here is told in
`_records.py`. These forms are on disk: they may gain members, and never change.

A value belongs to the checkpoint that told it, and to those that went on from there without a new one. Its version
alone does not name it: in early logs branches of a thread gave the same versions to different values.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage, RemoveMessage
from langgraph.checkpoint.serde import types as langgraph_types

from holdfast.integrations._units import CONVERSATION, Unit, UnitReader, apply, fresh, voices
from holdfast.integrations.langchain import FORM, Known, Model, from_item, plain, reference, seqs_of, told_by_others
from holdfast.model import Event

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol as Typed

TOOL = "langgraph"
ROOT = ""
INPUT = "__start__"  # the channel that holds what a run was given, until it is spread over the others
_EMPTY = {"empty": True}

Version: TypeAlias = "str | int | float"


class Value(NamedTuple):
    """A channel's value as recorded by a checkpoint: whole, or as a change to an earlier list."""

    told: dict[str, Any]
    before: Value | None = None

    def encoded(self) -> Any:
        """Return the whole value."""
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
    """A recorded checkpoint, encoded."""

    seq: int  # the event that tells it
    id: str
    parent: str | None
    metadata: dict[str, Any]
    body: dict[str, Any]
    values: dict[str, Value]  # the values of its channels; a channel of changes may have none

    def version(self, channel: str) -> Any:
        """Return the version of a channel."""
        return _number(self.body["channel_versions"].get(channel))


class ChannelWrite(NamedTuple):
    """A write of a task to a channel before the next checkpoint."""

    task: str
    channel: str
    value: Any
    path: str


class GraphThread(UnitReader):
    """The contents of a thread's log. Hold ``lock`` while reading or writing it."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.values = Values()
        self.checkpoints: dict[str, dict[str, Checkpoint]] = {}
        self.parents: set[tuple[str, str | None]] = set()
        """The checkpoints, by namespace and id, that are parents of existing ones."""
        self._newest: dict[str, str | None] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], ChannelWrite]] = {}
        self.latest: dict[tuple[str, str], tuple[Value, list[Any]]] = {}
        """The last recorded value of channels that contain a list, and the list."""
        self.speaking: set[str] = set()  # channels of the graph itself that hold messages: the conversation
        self.announced: dict[str, list[str]] = {}
        """Messages that were recorded at a checkpoint before the graph included them."""
        self._told: dict[tuple[str, str, Version | None], Value] = {}  # the last value told of a channel's version
        self._names: dict[int, str] = {}
        self._fresh: list[str] = []

    def newest(self, ns: str) -> str | None:
        """Return the id of the newest checkpoint of a namespace: ids grow."""
        return self._newest.get(ns)

    def lineage(self, ns: str, id: str | None) -> Iterator[Checkpoint]:
        """Yield a checkpoint and its ancestors, nearest first, each once."""
        checkpoints, seen = self.checkpoints.get(ns, {}), set()
        while id in checkpoints and id not in seen:
            seen.add(id)
            yield checkpoints[id]
            id = checkpoints[id].parent

    def stretch(self, ns: str, id: str | None, channel: str) -> tuple[Checkpoint | None, list[str]]:
        """Return where the value of a channel after a checkpoint is assembled from.

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
        """Return messages that were recorded at a checkpoint, are not used yet, and are still valid."""
        return [name for name in self.announced.get(id, ()) if name in self.values.standing]

    def channel_value(self, ns: str, checkpoint: Checkpoint, channel: str, serde: Typed) -> Any:
        """Return the value of a channel at a checkpoint."""
        encoded = self.encoded(ns, checkpoint, channel)
        is_snapshot = "snapshot" in checkpoint.values[channel].told
        return self.values.decode({"~s": encoded} if is_snapshot else encoded, serde)

    def encoded(self, ns: str, checkpoint: Checkpoint, channel: str) -> Any:
        """Return the value of a channel at a checkpoint, as recorded."""
        value, latest = checkpoint.values[channel], self.latest.get((ns, channel))
        return latest[1] if latest is not None and latest[0] is value else value.encoded()

    def said_after(self, seq: int) -> list[str]:
        """Return the messages of the graph in the conversation that were recorded after an event."""
        standing = self.values.standing
        return [name for name, seqs in standing.items() if seqs[0] > seq and seqs[0] in self._names]

    def ordered_writes(self, ns: str, id: str) -> list[ChannelWrite]:
        """Return the writes at a checkpoint, in the order in which a live run applies them."""
        stored = self.writes.get((ns, id), {})
        return [stored[key] for key in sorted(stored, key=lambda key: (stored[key].path, *key))]

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
        """Give a message its new id; messages under the old one keep it."""
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
        newest = self.newest(ns)
        if newest is None or "change" not in told:
            about, parent = told, told.get("parent")
        else:
            before = self.checkpoints[ns][newest]
            about = apply({"metadata": before.metadata, "body": before.body}, told["change"])
            parent = told.get("parent", newest)
        body = about["body"]
        id = body["id"]
        versions = {name: _number(one) for name, one in body["channel_versions"].items()}
        for channel, *rest in told["values"]:
            version = _number(rest[0]) if len(rest) == 2 else versions.get(channel)
            self._told[ns, channel, version] = self._value(ns, channel, rest[-1] if rest else _EMPTY)
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

    def _belonging(self, ns: str, versions: dict[str, Version], parent: str | None, new: set[str]) -> dict[str, Value]:
        """Return the values of a checkpoint: new ones, its parent's, or else the last recorded ones."""
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
        """Return the recorded value of a channel, on which later values may build."""
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
    """Return a version as given: the log has large numbers as text."""
    return int(next(iter(version.values()))) if isinstance(version, dict) else version


def names_in(encoded: Any) -> Iterator[str]:
    """Yield the messages that a value refers to, in order."""
    if isinstance(encoded, list):
        for one in encoded:
            yield from names_in(one)
    elif isinstance(encoded, dict):
        name = encoded.get("~m") or encoded.get("$m")
        if isinstance(name, str) and len(encoded) == 1:
            yield name
        else:
            yield from names_in(list(encoded.values()))


# Values of a graph's channels as JSON; each message is recorded once and then referred to.
#
# Plain data stays readable. A message of the conversation is ``{"~m": reference}``, where the reference of one that
# others recorded is an id that names its events; one that is not part of it is ``{"~v": item}``. A tuple is ``{"~t":
# […]}``, a snapshot of a channel of changes ``{"~s": value}``, a number that JSON readers would round ``{"~i":
# "…"}``, and anything else ``{"~x": [type, base64]}`` as the graph's own serialiser gives it. A map with keys that
# JSON lacks, or that look like these, is told as pairs: ``{"~d": [[key, value]]}``. Early logs have ``$`` for ``~``.
Items = dict[str, dict[str, Any]]  # messages as plain data, by reference

_INT_MAX = 2**63
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKS = frozenset(sign + kind for sign in "~$" for kind in "mvstxdi")
# An experiment of the framework: not all of its versions have it.
_Snapshot: Any = getattr(langgraph_types, "_DeltaSnapshot", None)
_SNAPSHOTS = () if _Snapshot is None else (_Snapshot,)


class Values:
    """Encodes and decodes, and remembers which messages are on record."""

    def __init__(self) -> None:
        self.items: Items = {}  # the messages on record, also those that were taken back
        self.standing: dict[str, tuple[int, ...]] = {}
        """The messages in the conversation, and the events that record them."""
        self.told: dict[int, Event] = {}  # what others told, by seq
        self.known = Known()
        self._models: dict[str, Model] = {}

    def encode(self, value: Any, serde: Typed, new: Items | None = None) -> Any:
        """Encode a value as JSON. With ``new``, messages that are not in the conversation go there."""
        return _ValueEncoder(self, serde, new).encode(value)

    def decode(self, value: Any, serde: Typed) -> Any:
        """Decode a value."""
        if isinstance(value, list):
            return [self.decode(item, serde) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            mark, inner = next(iter(value.items()))
            if mark in _MARKS:
                return self._decode_marked(mark[1], inner, serde)
        return {key: self.decode(item, serde) for key, item in value.items()}

    def told_by_others(self, id: str | None) -> dict[str, Any] | None:
        """Return the message whose id names events of others; None for any other id."""
        seqs = seqs_of(id)
        if not seqs or not all(seq in self.told for seq in seqs):
            return None
        units = [Unit((seq,), own=False, item=self.told[seq]) for seq in seqs]
        made = [message for unit in voices(units) for message in told_by_others(unit)]
        found = plain(made[0]) if len(made) == 1 else None
        return None if found is None else found[0]

    def _decode_marked(self, kind: str, inner: Any, serde: Typed) -> Any:
        if kind == "m":
            return self._message(inner)
        if kind == "v":
            return from_item(fresh(inner))
        if kind == "x":
            return serde.loads_typed((inner[0], base64.b64decode(inner[1])))
        if kind == "i":
            return int(inner)
        parts = self.decode(inner, serde)
        if kind == "s":
            return _Snapshot(parts)
        return tuple(parts) if kind == "t" else dict(parts)

    def _message(self, name: str) -> BaseMessage:
        """Return a recorded message as an object of the caller's own."""
        model = self._models.get(name)
        if model is None:
            item = self.items.get(name) or self.told_by_others(name) or {}
            model = self._models[name] = Model(from_item(item))
        message = model.twin()
        self.known.add(message, model, name)
        return message


class _ValueEncoder:
    """Encodes the values of one event."""

    def __init__(self, values: Values, serde: Typed, new: Items | None) -> None:
        self._values = values
        self._serde = serde
        self._new = new

    def encode(self, value: Any) -> Any:
        """Encode a value as JSON. Only exactly the plain types: a subclass may be more than its value."""
        own = self._own.get(type(value))
        if own is not None:
            return own(self, value)
        return self._message(value) if isinstance(value, BaseMessage) else self._foreign(value)

    def _map(self, value: dict[Any, Any]) -> Any:
        if all(type(key) is str and key not in _MARKS and _is_clean(key) for key in value):
            return {key: self.encode(item) for key, item in value.items()}
        return {"~d": [[self.encode(key), self.encode(item)] for key, item in value.items()]}

    def _message(self, message: BaseMessage) -> Any:
        values, new = self._values, self._new
        name = values.known.reference(message)
        item = values.items.get(name or "")
        if name is None or item is None:
            made = plain(message)
            if made is None:
                return self._foreign(message)
            item, model = made
            name = self._named(message, item)
            values.known.add(message, model, name)
        if new is None or isinstance(message, RemoveMessage):
            return {"~m": name} if name in values.items else {"~v": item}
        if name not in values.standing:
            new[name] = item
        return {"~m": name}

    def _named(self, message: BaseMessage, item: dict[str, Any]) -> str:
        values = self._values
        if item != values.told_by_others(message.id):
            return reference(item)
        name = str(message.id)
        values.items[name] = item
        values.standing[name] = seqs_of(name)
        return name

    def _foreign(self, value: Any) -> Any:
        type, data = self._serde.dumps_typed(value)
        return {"~x": [type, base64.b64encode(data).decode()]}

    _own: ClassVar[dict[type, Callable[[_ValueEncoder, Any], Any]]] = {
        type(None): lambda _, value: value,
        bool: lambda _, value: value,
        str: lambda self, value: value if _is_clean(value) else self._foreign(value),
        int: lambda _, value: value if -_INT_MAX <= value < _INT_MAX else {"~i": str(value)},
        float: lambda self, value: value if math.isfinite(value) else self._foreign(value),
        list: lambda self, value: [self.encode(item) for item in value],
        tuple: lambda self, value: {"~t": [self.encode(item) for item in value]},
        dict: _map,
        _Snapshot: lambda self, value: {"~s": self.encode(value.value)},
    }


def is_listed(value: Any) -> bool:
    """Return whether a channel's value is a list, or a snapshot of one: it may contain a conversation."""
    return isinstance(value.value if isinstance(value, _SNAPSHOTS) else value, list)


def _is_clean(text: str) -> bool:
    """Return whether a line of the log can carry the text unchanged."""
    return "\0" not in text and (text.isascii() or not _SURROGATE.search(text))
