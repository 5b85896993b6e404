"""Turns of one log as events of another: with other numbers, runs and call ids, nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.errors import InvalidData
from holdfast.model import Event, decode_json, fill_references
from holdfast.replay._compare import Told
from holdfast.replay._routing import Router
from holdfast.replay._state import LoadBlob
from holdfast.replay._text import clean_json
from holdfast.replay._turns import Turn, data_of

__all__ = ["Copied", "copy_turns"]

_LIFE = frozenset({"agent_start", "agent_iteration", "agent_complete", "agent_error"})
_PLAIN_LIFE = _LIFE | {"delegation", "delegation_complete"}


class Copied(NamedTuple):
    """The events, and where the first and the last of each turn stand."""

    events: list[Event]
    places: list[tuple[int, int]]


def copy_turns(
    turns: list[Turn], a: Told, b: Told, *, first_seq: int, run: str, load: LoadBlob | None = None
) -> Copied:
    """Turns of ``b`` as events that go into a fork of ``a`` from ``first_seq`` on.

    What the top-level agent of ``b`` said stands under ``run``, what others said under names below
    it; ids of calls that ``a`` has used get new names; numbers of events that an event refers to
    are those of the copies.
    """
    copier = _Copier(a, b, first_seq, run, load)
    places = []
    for turn in turns:
        first = copier.next_seq
        for event in turn.events:
            copier.take(event)
        copier.end_turn(turn)
        places.append((first, max(first, copier.next_seq - 1)))
    return Copied(copier.events, places)


class _Copier:
    def __init__(self, a: Told, b: Told, first_seq: int, run: str, load: LoadBlob | None) -> None:
        self.events: list[Event] = []
        self._first_seq = first_seq
        self._run = run
        self._load = load
        self._runs = _runs_of(b.events)
        self._taken = set(_call_ids(a.events))
        self._keys = {event.key for event in a.events}
        self._seqs: dict[int, int] = {}
        self._calls: dict[str, str] = {}
        self._open: set[str] = set()

    @property
    def next_seq(self) -> int:
        return self._first_seq + len(self.events)

    def take(self, event: Event) -> None:
        if event.run is None and event.type in _PLAIN_LIFE:
            return  # without a run it would speak of the agents of the other log
        data = self._data(event)
        if data is None:
            return
        copy = self._make(event, data)
        if copy is None:
            return
        self._seqs[event.seq] = self.next_seq
        self._keys.add(copy.key)
        self.events.append(copy)
        if event.type == "turn_start":
            self._open.add(copy.run or "")
        elif event.type == "turn_end":
            self._open.discard(copy.run or "")

    def end_turn(self, turn: Turn) -> None:
        """A turn that was still going on there has ended here."""
        timestamp = turn.events[-1].timestamp
        for run in sorted(self._open):
            self.events.append(
                Event.make("turn_end", {"reason": "merged"}, timestamp=timestamp, run=run)
            )
        self._open.clear()

    def _make(self, event: Event, data: dict[str, Any]) -> Event | None:
        """The copy; None for an event of a foreign log that has not even a proper type."""
        key = event.key if event.key not in self._keys else None
        for tried in (data, clean_json(data)):
            try:
                return Event.make(
                    event.type, tried, timestamp=event.timestamp, run=self._name(event), key=key
                )
            except InvalidData:
                continue
        return None

    def _name(self, event: Event) -> str:
        below = self._runs.get(event.seq)
        return self._run if below is None else f"{self._run}.{below}"

    def _data(self, event: Event) -> dict[str, Any] | None:
        """The data as it reads in the other log; None for what means nothing there."""
        found = data_of(event)
        if b'"$blob":' in bytes(event.raw) and self._load is not None and found:
            found = fill_references(decode_json(event.raw), self._load)
        data = dict(found)
        if event.type == "compaction":
            return self._with_covers(data)
        if isinstance(data.get("covers_from"), int):
            data["covers_from"] = self._seqs.get(data["covers_from"], data["covers_from"])
        if event.type == "retracted":
            seqs = data.get("seqs")
            gone = [seq for seq in seqs if _is_int(seq)] if isinstance(seqs, list) else []
            data["seqs"] = [self._seqs[seq] for seq in gone if seq in self._seqs]
        if event.type in ("tool_call", "tool_result"):
            label = "id" if event.type == "tool_call" else "toolCallId"
            if isinstance(data.get(label), str):
                data[label] = self._call(data[label], is_call=event.type == "tool_call")
        elif isinstance(data.get("content"), list):
            data["content"] = [self._block(block) for block in data["content"]]
        return data

    def _with_covers(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """A summary covers what of its events was copied, and never what stands before."""
        covers = data.get("covers")
        if not (isinstance(covers, list) and len(covers) == 2 and all(map(_is_int, covers))):
            return None
        here = [to for seq, to in self._seqs.items() if covers[0] <= seq <= covers[1]]
        return {**data, "covers": [min(here), max(here)]} if here else None

    def _block(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        label = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
        if label is None or not isinstance(block.get(label), str):
            return block
        return {**block, label: self._call(block[label], is_call=label == "id")}

    def _call(self, id: str, *, is_call: bool) -> str:
        """The id of a call here: a new one where the other log has used it, always the same."""
        if is_call and id not in self._calls:
            number, free = 2, id
            while free in self._taken:
                free, number = f"{id}-{number}", number + 1
            self._taken.add(free)
            self._calls[id] = free
        return self._calls.get(id, id)


def _runs_of(events: Sequence[Event]) -> dict[int, str]:
    """The runs of the events that are not of the top-level one, by seq."""
    router = Router()
    found: dict[int, str | None] = {}
    owned: dict[str, str | None] = {}
    for event in events:
        try:
            deliveries = router.route(event)
        except Exception:  # noqa: BLE001 - whatever a foreign log holds, it is copied
            deliveries = []
        for run, what in deliveries:
            if isinstance(what, Event):
                found[what.seq] = run
                if what.run is not None:
                    owned[what.run] = run
    for event in events:
        if event.seq not in found and event.run is not None:
            found[event.seq] = owned.get(event.run, event.run)
    return {seq: run for seq, run in found.items() if run is not None and run[:1] != "\0"}


def _call_ids(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        data = data_of(event)
        if event.type == "tool_call" and isinstance(data.get("id"), str):
            yield data["id"]
        content = data.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and isinstance(block.get("id"), str):
                yield block["id"]


def _is_int(value: Any) -> bool:
    return type(value) is int
