"""One conversation of the harness as a session: its messages told once, its steps as frames.

A snapshot is a list of messages that grows from step to step. It is recorded as what it adds to the
one before, each message by the seq of the event that says it; so n steps take O(n) bytes.
"""

from __future__ import annotations

import hashlib
import math
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from holdfast.integrations._difference import apply, difference
from holdfast.integrations._place import AdapterSession
from holdfast.integrations._units import UnitReader, Words
from holdfast.integrations.pydantic_ai._messages import FORM
from holdfast.model import Event

TOOL = "pydantic-ai"

_encode = msgspec.json.Encoder(order="deterministic").encode


class StepSnapshot(NamedTuple):
    """A snapshot as it is on record; ``about`` is all of it but its messages."""

    run: str
    about: dict[str, Any]
    of: int | None
    keep: int
    add: list[int]


class StepRun:
    """What is on record of one run."""

    def __init__(self) -> None:
        self.record: dict[str, Any] | None = None
        self.events: list[dict[str, Any]] = []
        self.event_keys: set[str] = set()
        self.snapshots: list[int] = []
        self.snapshot_keys: set[str] = set()
        self.newest_key = -1
        self.effects: dict[str, dict[str, Any]] = {}


class StepLog(UnitReader):
    """What the log of a conversation says. Keep ``lock`` while reading or writing it."""

    def __init__(self, place: AdapterSession) -> None:
        super().__init__(FORM, place)

    def _begin_again(self) -> None:
        super()._begin_again()
        self.runs: dict[str, StepRun] = {}
        self.items: dict[int, dict[str, Any]] = {}
        self.snapshots: dict[int, StepSnapshot] = {}
        self._known: dict[tuple[str | None, bytes], int] = {}
        self._spans: dict[int, list[int]] = {}
        self._amended: dict[int, int] = {}
        self._retracted: set[int] = set()
        self._latest: dict[str, tuple[int, list[int]]] = {}
        self._speaker: str | None = None
        self._newest: str | None = None

    # -- reading -----------------------------------------------------------------------------

    def run(self, run_id: str) -> StepRun:
        """What is on record of a run; something empty if there is nothing."""
        return self.runs.get(run_id) or StepRun()

    def messages(self, number: int) -> list[dict[str, Any]]:
        """The messages of a snapshot."""
        return [self.items[seq] for seq in self._listed(number)]

    def _listed(self, number: int) -> list[int]:
        latest = self._latest.get(self.snapshots[number].run)
        if latest is not None and latest[0] == number:
            return latest[1]
        steps: list[StepSnapshot] = []
        at: int | None = number
        while at is not None:
            steps.append(self.snapshots[at])
            at = steps[-1].of
        listed: list[int] = []
        for step in reversed(steps):
            listed[step.keep :] = step.add
        return listed

    def _take_own(self, events: list[Event], item: Any) -> None:
        first = events[0]
        self.items[first.seq] = item
        self._known[first.run, _digest(item)] = first.seq
        self._spans[first.seq] = [one.seq for one in events]

    def _take_foreign(self, event: Event) -> None:
        if event.type == "retracted":
            self._retracted.update(event.data.get("seqs", ()))
        elif event.type == "frame" and event.data.get("tool") == TOOL:
            self._take_frame(event, event.data)

    def _take_frame(self, event: Event, data: dict[str, Any]) -> None:
        if "amended" in data:
            of, change = data["amended"]
            item = self.items[event.seq] = apply(self.items[of], change)
            self._amended[event.seq] = of
            self._known[event.run, _digest(item)] = event.seq
            return
        run = self.runs.setdefault(data["run"], StepRun())
        if "record" in data:
            run.record = data["record"]
        elif "step" in data:
            run.events.append(data["step"])
            run.event_keys.add(data["step"].get("idempotency_key"))
        elif "effect" in data:
            run.effects[data["effect"]["tool_call_id"]] = data["effect"]
        else:
            self._take_snapshot(event.seq, data["run"], run, data["snapshot"])

    def _take_snapshot(self, seq: int, run_id: str, run: StepRun, told: dict[str, Any]) -> None:
        of, keep = told["messages"].get("of"), told["messages"]["keep"]
        add = [one if one >= 0 else seq + one for one in told["messages"]["add"]]
        self.snapshots[seq] = StepSnapshot(run_id, told["about"], of, keep, add)
        before = self._before(run_id)
        follows = before is not None and before[0] == of
        whole = [*before[1][:keep], *add] if follows and before else self._listed(seq)
        self._latest[run_id] = (seq, whole)
        self._newest = run_id
        run.snapshots.append(seq)
        key = told["about"].get("idempotency_key")
        run.snapshot_keys.add(key)
        run.newest_key = max(run.newest_key, key_number(key))
        if told.get("speaks"):
            self._speaker = run_id

    def _before(self, run_id: str) -> tuple[int, list[int]] | None:
        """The snapshot that the next one of a run is told as a change of."""
        return self._latest.get(run_id) or self._latest.get(self._newest or "")

    # -- writing -----------------------------------------------------------------------------

    def tell_snapshot(
        self, run_id: str, about: dict[str, Any], items: list[dict[str, Any]]
    ) -> list[Event]:
        """The events of a snapshot, to be recorded together: it counts back to those before it."""
        speaks = self._speaks(run_id)
        mark = None if speaks else run_id
        before, shared = self._before(run_id) or (None, [])
        listed, words = self._tell_messages(items, shared, mark)
        pairs = zip(shared, listed, strict=False)
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        gone = self._left_out(shared[kept:], listed, words) if speaks else []
        events = [Event.make(type, data, run=mark) for type, data in words]
        if gone:
            events.insert(0, Event.make("retracted", {"seqs": gone}))
        add = [one if isinstance(one, int) else one[0] - len(words) for one in listed[kept:]]
        change = {"keep": kept, "add": add} | ({"of": before} if kept else {})
        told = {"about": about, "messages": change} | ({"speaks": True} if speaks else {})
        return [*events, frame(run_id, "snapshot", told)]

    def _tell_messages(
        self, items: list[dict[str, Any]], shared: list[int], mark: str | None
    ) -> tuple[list[int | tuple[int]], Words]:
        """Messages by their seqs, or by their places among the words of those not on record.

        Others read the log in its order: what stands behind a message that is told only now is told
        again, and so is what would stand before one that comes earlier.
        """
        words: Words = []
        listed: list[int | tuple[int]] = []
        fresh: dict[bytes, tuple[int]] = {}
        after: float = -1
        for place, item in enumerate(items):
            digest = _digest(item)
            seq = fresh.get(digest) or self._on_record(mark, digest, after)
            if isinstance(seq, int):
                after = self._root(seq)
            elif seq is None:
                seq = fresh[digest] = (len(words),)
                key = next(iter(shared[place : place + 1]), None)
                if key is not None and self._says(key, item, after):
                    words.append(self._amendment(key, item))
                    after = self._root(key)
                else:
                    words += FORM.record(item)
                    after = math.inf
            listed.append(seq)
        return listed, words

    def _says(self, key: int, item: dict[str, Any], after: float) -> bool:
        """Whether a message on record has the words of an item, and stands behind the one before.

        The harness takes a snapshot of a request before it is sent, and of the same with all that
        belongs to it after that: its words are told already.
        """
        stands = self._root(key) > after and self._root(key) not in self._retracted
        return stands and FORM.tell(self.items[key]) == FORM.tell(item)

    def _amendment(self, key: int, item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """How an item differs from the message in whose place it stands."""
        told = [key, difference(self.items[key], item)]
        return "frame", {"direction": "stored", "tool": TOOL, "amended": told}

    def _root(self, key: int) -> int:
        while key in self._amended:
            key = self._amended[key]
        return key

    def _speaks(self, run_id: str) -> bool:
        """Whether a run is the conversation itself: the newest that no other run here began."""
        run = self.run(run_id)
        parent = (run.record or {}).get("parent_run_id")
        if parent in self.runs:
            return False
        return self._speaker == run_id or not run.snapshots

    def _on_record(self, mark: str | None, digest: bytes, after: float) -> int | None:
        for whose in (None, mark):
            key = self._known.get((whose, digest))
            # What was taken back and comes again is told again.
            if (
                key is not None
                and after < self._root(key)
                and self._root(key) not in self._retracted
            ):
                return key
        return None

    def _left_out(
        self, before: list[int], listed: list[int | tuple[int]], words: Words
    ) -> list[int]:
        still = {self._root(one) for one in listed if isinstance(one, int)}
        still |= {self._root(data["amended"][0]) for _, data in words if "amended" in data}
        gone = {self._root(key) for key in before} - still - self._retracted
        return [seq for key in sorted(gone) for seq in self._spans[key]]


def frame(run_id: str, kind: str, told: Any) -> Event:
    """The event of something that the harness recorded."""
    return Event.make("frame", {"direction": "stored", "tool": TOOL, "run": run_id, kind: told})


def key_number(key: str | None) -> int:
    """The number at the start of a key of the harness; such keys never go back. -1 without one."""
    prefix, colon, _ = (key or "").partition(":")
    return int(prefix) if colon and prefix.isdecimal() else -1


def _digest(item: dict[str, Any]) -> bytes:
    return hashlib.blake2b(_encode(item), digest_size=16).digest()
