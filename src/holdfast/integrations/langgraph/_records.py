"""The records of a thread of a graph: checkpoints, writes of tasks, removals.

A message is told when it is first seen: in what a run was given, in what a task wrote, or in the
list of a checkpoint. Only the graph knows whether what was given or written becomes part of its
list, and in which order. So with the next checkpoint all of it is settled: it stays, it gets its
id, it is taken back, or it is told again in the order of the graph. The conversation is that of the
newest checkpoint: one that goes on from an older checkpoint takes back what the other branch said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from holdfast.integrations._units import Words, alike, difference, stored
from holdfast.integrations.langchain import FORM, reference
from holdfast.integrations.langgraph._thread import INPUT, ROOT, TOOL, GraphThread, Items, is_listed, names_in

if TYPE_CHECKING:
    from langgraph.checkpoint.serde.base import SerializerProtocol as Typed

    from holdfast.integrations.langgraph._thread import Checkpoint, Version

_LISTED_MIN = 4  # a list that shares fewer items with the one before is told whole


class NewCheckpoint:
    """A checkpoint of a thread that is to be recorded after its ``parent``, if it has one."""

    def __init__(self, thread: GraphThread, ns: str, parent: str | None, serde: Typed) -> None:
        self._thread = thread
        self._ns = ns
        self._parent = parent
        self._serde = serde
        self._new: Items = {}
        self._said: list[str] = []  # the messages that its channels have and those before it had not
        self._gone: list[str] = []

    def words(
        self, checkpoint: Mapping[str, Any], metadata: Mapping[str, Any], versions: Mapping[str, Version]
    ) -> Words:
        """Return the events of the checkpoint."""
        values = self._thread.values
        body = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        about = {"metadata": values.encode(dict(metadata), self._serde), "body": values.encode(body, self._serde)}
        told = [self._told(channel, version, checkpoint) for channel, version in versions.items()]
        amended = self._settle() if self._ns == ROOT else []
        if self._ns == ROOT and self._parent != self._thread.newest(ROOT):
            # Retract the messages of other branches, and record those of this branch again.
            found = self._thread.checkpoints[ROOT].get(self._parent or "")
            gone, self._new = _turned(self._thread, found, self._spoken(checkpoint), self._new)
            self._gone += gone
        back = _retracted(self._thread, self._gone)
        return [*amended, *back, *_message_words(self._new), self._frame(about, told)]

    def _frame(self, about: dict[str, Any], told: list[Any]) -> tuple[str, dict[str, Any]]:
        thread, ns, parent = self._thread, self._ns, self._parent
        newest = thread.newest(ns)
        made: dict[str, Any] = {"ns": ns} if ns else {}
        if newest is None:
            made |= about | ({"parent": parent} if parent else {})
        else:
            before = thread.checkpoints[ns][newest]
            base = {"metadata": before.metadata, "body": before.body}
            made |= {"change": difference(base, about)}
            made |= {"parent": parent} if parent != newest else {}
        return _frame("checkpoint", made | {"values": told})

    def _told(self, channel: str, version: Version, checkpoint: Mapping[str, Any]) -> list[Any]:
        named: list[Any] = [channel]
        if checkpoint["channel_versions"].get(channel) != version:
            named.append(self._thread.values.encode(version, self._serde))
        speaks = self._ns == ROOT and channel in self._thread.speaking
        if speaks:
            self._gone += self._removed(channel)
        if channel in checkpoint["channel_values"]:
            return [*named, self._value(channel, checkpoint["channel_values"][channel])]
        if speaks:
            self._said += _written(self._thread, channel, self._parent or "", [], self._new)
        return [*named, {"empty": True}] if len(named) > 1 else named

    def _value(self, channel: str, value: Any) -> dict[str, Any]:
        values, speaking = self._thread.values, self._thread.speaking
        if self._ns == ROOT and channel == INPUT and isinstance(value, dict):
            heard = any(name in speaking for name in value)
            return {"is": values.encode(value, self._serde, self._new if heard else None)}
        encoded = values.encode(value, self._serde, self._new if is_listed(value) else None)
        if isinstance(encoded, list):
            return self._list(channel, encoded)
        if isinstance(encoded, dict) and isinstance(encoded.get("~s"), list):
            return {**self._list(channel, encoded["~s"]), "snapshot": True}
        return {"is": encoded}

    def _list(self, channel: str, encoded: list[Any]) -> dict[str, Any]:
        latest = self._thread.latest.get((self._ns, channel))
        before = latest[1] if latest else []
        if encoded[: len(before)] == before:
            kept = len(before)
        else:
            kept = alike(before, encoded)
            still = set(names_in(encoded))
            if self._ns == ROOT:
                self._gone += [name for name in names_in(before[kept:]) if name not in still]
        added = encoded[kept:]
        self._said += names_in(added)
        return {"is": encoded} if kept < _LISTED_MIN else {"keep": kept, "add": added}

    def _removed(self, channel: str) -> list[str]:
        """Return the messages of a delta channel that were removed since its parent."""
        thread, id = self._thread, self._parent or ""
        if not any(_removes(write.value) for write in thread.ordered_writes(ROOT, id)):
            return []
        seed, passed = thread.stretch(ROOT, id, channel)
        before = _spelt(thread, channel, seed, passed[:-1], {})
        now = set(_written(thread, channel, id, before, {}))
        return [name for name in before if name not in now]

    def _spoken(self, checkpoint: Mapping[str, Any]) -> Iterator[str]:
        """Yield the messages in the checkpoint's channels that contain the conversation."""
        thread, values, new = self._thread, checkpoint["channel_values"], self._new
        told = {
            channel: partial(thread.values.encode, values[channel], self._serde, new)
            for channel in thread.speaking
            if channel in values
        }
        return _spoken(thread, checkpoint["channel_versions"], told, self._parent, new)

    def _settle(self) -> Words:
        """Compare messages that were recorded early with those that the graph has now."""
        announced = self._thread.still_announced(self._parent or "")
        if not announced:
            return []
        got_ids = _got_ids(self._thread, announced, self._new)
        taken = [got_ids.get(name, name) for name in announced]
        said = set(self._said)
        still = [name for name in taken if name in said]
        order = [name for name in self._said if name in self._new or name in still]
        # In the order of the graph they can stay where they were recorded; otherwise all are recorded again.
        if order[: len(still)] == still:
            self._gone += [one for one, now in zip(announced, taken, strict=True) if now not in said]
            named = {one: now for one, now in got_ids.items() if now in said}
            return _amended(self._thread, named, self._new)
        self._gone += announced
        known = self._thread.values.items
        again = {name: self._new.get(name) or known[name] for name in order}
        others = {name: item for name, item in self._new.items() if name not in again}
        self._new = again | others
        return []


def writes_words(
    thread: GraphThread, writes: list[tuple[str, int, Any]], *, ns: str, id: str, task: str, path: str, serde: Typed
) -> Words:
    """Return the events for the writes of a task at a checkpoint."""
    new: Items = {}
    # A graph that does not wait for its checkpoints may be ahead of them: its messages are then recorded with
    # the checkpoint, because otherwise they would precede earlier messages.
    spoken = thread.speaking if ns == ROOT and id == thread.newest(ns) else ()
    values = [
        [channel, place, thread.values.encode(value, serde, new if channel in spoken else None)]
        for channel, place, value in writes
    ]
    # A fast graph may assign a message its id while the write is being recorded.
    got_ids = _got_ids(thread, thread.still_announced(id), new)
    amended = _amended(thread, got_ids, new)
    told: dict[str, Any] = {"ns": ns} if ns else {}
    told |= {"id": id} if id != thread.newest(ns) else {}
    told |= {"task": task, "path": path, "values": values}
    return [*amended, *_message_words(new), _frame("writes", told)]


def removed_words(thread: GraphThread, removed: Collection[tuple[str, str]]) -> Words:
    """Return the events that remove checkpoints; the newest one left has the conversation."""
    told = [_frame("removed", [list(one) for one in removed])]
    left = {id for id in thread.checkpoints.get(ROOT, {}) if (ROOT, id) not in removed}
    newest = max(left, default=None)
    if newest == thread.newest(ROOT):
        return told
    one = thread.checkpoints[ROOT].get(newest or "")
    new: Items = {}
    spoken: Iterable[str] = ()
    if one is not None:
        on_record = {channel: partial(thread.encoded, ROOT, one, channel) for channel in one.values}
        spoken = _spoken(thread, one.body["channel_versions"], on_record, one.parent, new)
    gone, new = _turned(thread, one, spoken, new)
    return [*_retracted(thread, gone), *_message_words(new), *told]


def _spoken(
    thread: GraphThread, channels: Iterable[str], told: Mapping[str, Callable[[], Any]], parent: str | None, new: Items
) -> Iterator[str]:
    """Yield the messages in a checkpoint's conversation channels: as recorded there, or since its parent."""
    for channel in channels:
        if channel not in thread.speaking or channel == INPUT:
            continue
        if channel in told:
            yield from names_in(told[channel]())
        else:
            yield from _spelt(thread, channel, *thread.stretch(ROOT, parent, channel), new)


def _turned(
    thread: GraphThread, found: Checkpoint | None, spoken: Iterable[str], new: Items
) -> tuple[list[str], Items]:
    """Return what to retract and what to record, in order, so that others read the branch's conversation.

    ``found`` is the checkpoint of that branch after which all that was said is another one's.
    """
    names = list(dict.fromkeys(spoken))
    values = thread.values
    kept = len(list(takewhile(lambda name: name in values.standing, names)))
    missing = names[kept:]
    others = set(thread.said_after(found.seq if found else -1)) - set(names[:kept])
    again = {name: new.get(name) or values.items[name] for name in missing}
    rest = {name: item for name, item in new.items() if name not in again}
    return [*others, *missing], again | rest


def _spelt(thread: GraphThread, channel: str, seed: Checkpoint | None, passed: list[str], new: Items) -> list[str]:
    """Return the messages of a delta channel, from a value and the writes since."""
    names = list(names_in(thread.encoded(ROOT, seed, channel))) if seed is not None else []
    for id in passed:
        names = _written(thread, channel, id, names, new)
    return names


def _written(thread: GraphThread, channel: str, id: str, before: list[str], new: Items) -> list[str]:
    """Return the messages of a delta channel with the writes at a checkpoint."""
    values, names = thread.values, list(before)
    for write in thread.ordered_writes(ROOT, id):
        if write.channel != channel:
            continue
        for one in write.value if isinstance(write.value, list) else [write.value]:
            if _removes(one):
                gone = one["~v"]["data"]["id"]
                known = {name: (new.get(name) or values.items[name])["data"] for name in names}
                names = [name for name in names if known[name].get("id") != gone]
            elif isinstance(one, dict) and len(one) == 1 and "~v" in one:
                names.append(reference(one["~v"]))
                if names[-1] not in values.standing:
                    new[names[-1]] = one["~v"]
            else:
                names += names_in(one)
    return names


def _removes(told: Any) -> bool:
    """Return whether a written value removes messages."""
    if isinstance(told, list):
        return any(map(_removes, told))
    item = told.get("~v") if isinstance(told, dict) and len(told) == 1 else None
    return isinstance(item, dict) and item.get("type") == "remove"


def _retracted(thread: GraphThread, gone: Iterable[str]) -> Words:
    standing = thread.values.standing
    seqs = [seq for name in dict.fromkeys(gone) for seq in standing.get(name, ())]
    return [("retracted", {"seqs": seqs})] if seqs else []


def _message_words(new: Items) -> Words:
    words: Words = []
    for name, item in new.items():
        (type, data), *rest = FORM.record(item)
        words += [(type, data | {"ref": name}), *rest]
    return words


def _got_ids(thread: GraphThread, announced: list[str], new: Items) -> dict[str, str]:
    """Return the new ids of messages that were announced without one."""
    known = thread.values.items
    without = {name for name in announced if known[name]["data"].get("id") is None}
    found = {}
    for name, item in new.items() if without else ():
        before = reference({**item, "data": item["data"] | {"id": None}})
        if before in without:
            found[before] = name
    return found


def _amended(thread: GraphThread, got_ids: dict[str, str], new: Items) -> Words:
    """Return the events that give messages their ids; they are no longer new."""
    values, words = thread.values, []
    for name, now in got_ids.items():
        change = difference(values.items[name], new.pop(now))
        words.append(stored(amends=values.standing[name][0], by=FORM.name, change=change))
    return words


def _frame(kind: str, told: Any) -> tuple[str, dict[str, Any]]:
    return stored(tool=TOOL, **{kind: told})
