"""The step store of the Pydantic AI harness, on our log."""

from __future__ import annotations

import asyncio
import hashlib
import math
from typing import Any, NamedTuple, TypeVar

import msgspec
from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, StepEvent, StepStore, ToolEffectRecord

from holdfast.errors import Conflict
from holdfast.integrations._history import missing
from holdfast.integrations._place import AdapterSession, Library, Recent, library_of, linked, unblocked
from holdfast.integrations._units import Drafts, UnitReader, Words, alike, apply, as_run, difference, fresh, stored
from holdfast.integrations.pydantic_ai import FORM, as_items, as_messages
from holdfast.model import Event
from holdfast.storage import MUST_NOT_EXIST

_Kind = TypeVar("_Kind")
_RUN = TypeAdapter(RunRecord)
_STEP = TypeAdapter(StepEvent)
_EFFECT = TypeAdapter(ToolEffectRecord)
_SNAPSHOT = TypeAdapter(ContinuableSnapshot)
_DOCUMENT = "run.json"


class HoldfastStepStore:
    """Runs, steps, snapshots and effects of tools, for ``StepPersistence(store=…)``.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. The runs of one conversation are one
    session, named by the conversation's id (or the run's, without one); their messages are its conversation, each
    recorded once however many snapshots hold it. What was given is on the medium when the call returns. Runs within a
    session that another framework began are found by their id and by their conversation, not by listing all runs.
    """

    def __init__(self, hf: Library = None) -> None:
        self._library = library = library_of(hf)
        self._conversation = Recent[str, StepLog](lambda name: StepLog(AdapterSession(library, TOOL, name), FORM))
        self._of_runs: dict[str, str] = {}

    # -- runs --------------------------------------------------------------------------------
    @unblocked
    def register_run(self, record: RunRecord) -> None:
        """Record a run, replacing its earlier record."""
        told = frame(record.run_id, "record", _dump(_RUN, record))
        self._settle(record.run_id, record.conversation_id).write(lambda: [told])

    @unblocked
    def get_run(self, *, run_id: str) -> RunRecord | None:
        """Return a run; None if it was never registered."""
        record = self._run(run_id).record
        return None if record is None else _RUN.validate_python(record)

    @unblocked
    def list_runs(self, *, parent_run_id: str | None = None, conversation_id: str | None = None) -> list[RunRecord]:
        """Return the runs, the earliest first: all, or those of a parent or of a conversation."""
        ids = {link["id"]: None for _, link in linked(self._library, TOOL)}
        if conversation_id is not None:
            ids[conversation_id] = None
        records: list[RunRecord] = []
        for conversation in map(self._conversation, ids):
            with conversation.reading():
                told = [run.record for run in conversation.runs.values() if run.record]
            records += [_RUN.validate_python(record) for record in told]
        chosen = [
            record
            for record in records
            if parent_run_id in (None, record.parent_run_id) and conversation_id in (None, record.conversation_id)
        ]
        return sorted(chosen, key=lambda record: record.started_at)

    # -- steps -------------------------------------------------------------------------------
    @unblocked
    def append_event(self, event: StepEvent) -> None:
        """Record a step; one whose idempotency key is known is not recorded again."""
        conversation = self._settle(event.run_id, event.conversation_id)

        def tell() -> Drafts:
            key = event.idempotency_key
            if key is not None and key in conversation.run(event.run_id).event_keys:
                return []
            return [frame(event.run_id, "step", _dump(_STEP, event))]

        conversation.write(tell)

    @unblocked
    def list_events(self, *, run_id: str) -> list[StepEvent]:
        """Return the steps of a run in their order."""
        return [_STEP.validate_python(event) for event in self._run(run_id).events]

    # -- snapshots ---------------------------------------------------------------------------
    async def save_snapshot(self, snapshot: ContinuableSnapshot) -> None:
        """Record a snapshot; one whose idempotency key is known or behind is not recorded."""
        # Converted to plain data before anything is awaited, because the run changes its messages meanwhile.
        await asyncio.to_thread(self._save, snapshot, _about(snapshot), as_items(snapshot.messages))

    async def latest_snapshot(self, *, run_id: str, include_interrupted: bool = False) -> ContinuableSnapshot | None:
        """Return the newest snapshot whose tool work was settled, or the newest of all."""
        found = await asyncio.to_thread(self._snapshots, run_id, slice(-1, None), include_interrupted)
        return found[0] if found else None

    async def list_snapshots(self, *, run_id: str, include_interrupted: bool = False) -> list[ContinuableSnapshot]:
        """Return the snapshots of a run in their order."""
        return await asyncio.to_thread(self._snapshots, run_id, slice(None), include_interrupted)

    # -- effects of tools --------------------------------------------------------------------
    @unblocked
    def record_tool_effect(self, record: ToolEffectRecord) -> None:
        """Record the state of a call, replacing its earlier record."""
        told = frame(record.run_id, "effect", _dump(_EFFECT, record))
        self._settle(record.run_id, None).write(lambda: [told])

    @unblocked
    def get_tool_effect(self, *, run_id: str, tool_call_id: str) -> ToolEffectRecord | None:
        """Return the record of a call; None if there is none."""
        found = self._run(run_id).effects.get(tool_call_id)
        return None if found is None else _EFFECT.validate_python(found)

    @unblocked
    def list_unresolved_tool_effects(self, *, run_id: str) -> list[ToolEffectRecord]:
        """Return the calls of a run that began and have no known end."""
        made = [_EFFECT.validate_python(effect) for effect in self._run(run_id).effects.values()]
        return [effect for effect in made if effect.status == "started"]

    def close(self) -> None:
        """Release all sessions to other processes now, rather than after the idle time."""
        for conversation in self._conversation.known().values():
            conversation.place.close()

    # -- inside ------------------------------------------------------------------------------
    def _run(self, run_id: str) -> StepRun:
        """Return the record of a run; an empty one if there is none."""
        conversation = self._find(run_id)
        return StepRun() if conversation is None else conversation.run(run_id)

    def _snapshots(self, run_id: str, which: slice, include_interrupted: bool) -> list[ContinuableSnapshot]:  # noqa: FBT001 - for a thread
        conversation = self._find(run_id)
        if conversation is None:
            return []
        with conversation.lock:
            found = {number: conversation.snapshots[number] for number in conversation.run(run_id).snapshots}
            chosen = [n for n, one in found.items() if include_interrupted or one.about["state"] == "complete"]
            return [_snapshot(conversation, number) for number in chosen[which]]

    def _find(self, run_id: str) -> StepLog | None:
        """Return the conversation of a run, up to date; None for an unknown run."""
        foreign_id = self._of_runs.get(run_id)
        if foreign_id is None:
            found = self._library.store.documents(_key(run_id)).get(_DOCUMENT)
            if found is None:
                return None
            foreign_id = self._of_runs[run_id] = msgspec.json.decode(found[0])["conversation"]
        conversation = self._conversation(foreign_id)
        conversation.catch_up()
        return conversation

    def _settle(self, run_id: str, conversation_id: str | None) -> StepLog:
        """Return the conversation of a run that may be new; it stays in the first that it was in."""
        found = self._find(run_id)
        if found is not None:
            return found
        # A separate document for each run, since the conversation is not known from the run's id.
        told = msgspec.json.encode({"conversation": conversation_id or run_id})
        try:
            self._library.store.documents(_key(run_id)).put(_DOCUMENT, told, if_match=MUST_NOT_EXIST)
        except Conflict:
            pass  # another process was quicker: its choice holds
        else:
            self._of_runs[run_id] = conversation_id or run_id
        return self._find(run_id) or self._conversation(conversation_id or run_id)

    def _save(self, snapshot: ContinuableSnapshot, about: dict[str, Any], items: list[dict[str, Any]]) -> None:
        run_id, key = snapshot.run_id, snapshot.idempotency_key
        conversation = self._settle(run_id, snapshot.conversation_id)

        def tell() -> Drafts:
            run = conversation.run(run_id)
            is_behind = key is not None and -1 < key_number(key) < run.newest_key
            if key is not None and (key in run.snapshot_keys or is_behind):
                return []
            return conversation.tell_snapshot(run_id, about, items)

        conversation.write(tell)


async def bring_over_runs(source: StepStore, hf: Library = None) -> int:
    """Record the runs that another step store holds, such as a SqliteStepStore.

    With their steps, snapshots and effects of tools; how many of all these. Done again, it records
    only what is new there: what is on record of the end of a call stays.
    """
    target, count = HoldfastStepStore(hf), 0
    try:
        for record in sorted(await source.list_runs(), key=lambda one: one.started_at):
            if await target.get_run(run_id=record.run_id) is None:
                await target.register_run(record)
                count += 1
            known = await target.list_events(run_id=record.run_id)
            for event in missing(known, await source.list_events(run_id=record.run_id), record.run_id):
                await target.append_event(event)
                count += 1
            count += await _bring_snapshots(source, target, record.run_id)
            count += await _bring_effects(source, target, record.run_id)
    finally:
        target.close()
    return count


async def _bring_snapshots(source: StepStore, target: HoldfastStepStore, run_id: str) -> int:
    """Copy the snapshots that the other store still has: it may keep only the newest."""
    on_record = await target.list_snapshots(run_id=run_id, include_interrupted=True)
    known = {msgspec.json.encode(_about(snapshot)) for snapshot in on_record}
    count = 0
    for snapshot in await _snapshots_of(source, run_id):
        about = msgspec.json.encode(_about(snapshot))
        if about not in known:
            known.add(about)
            await target.save_snapshot(snapshot)
            count += 1
    return count


async def _snapshots_of(source: StepStore, run_id: str) -> list[ContinuableSnapshot]:
    if hasattr(source, "list_snapshots"):  # the protocol does not ask for it
        listed: list[ContinuableSnapshot] = await source.list_snapshots(run_id=run_id, include_interrupted=True)
        return listed
    settled = await source.latest_snapshot(run_id=run_id)
    newest = await source.latest_snapshot(run_id=run_id, include_interrupted=True)
    return [snapshot for snapshot in (settled, newest) if snapshot is not None]


async def _bring_effects(source: StepStore, target: HoldfastStepStore, run_id: str) -> int:
    """Copy the records of the calls that the steps of a run name, and of those still open."""
    steps = await source.list_events(run_id=run_id)
    unresolved = await source.list_unresolved_tool_effects(run_id=run_id)
    calls = [step.tool_call_id for step in steps] + [effect.tool_call_id for effect in unresolved]
    count = 0
    for call in dict.fromkeys(filter(None, calls)):
        given = await source.get_tool_effect(run_id=run_id, tool_call_id=call)
        known = await target.get_tool_effect(run_id=run_id, tool_call_id=call)
        open_here = known is None or known.status == "started"
        if given is not None and open_here and given != known:
            await target.record_tool_effect(given)
            count += 1
    return count


def _about(snapshot: ContinuableSnapshot) -> dict[str, Any]:
    """Return all of a snapshot except its messages."""
    told = _SNAPSHOT.dump_python(snapshot, mode="json", exclude={"messages", "run_id"})
    return {name: value for name, value in told.items() if value is not None}


def _dump(kind: TypeAdapter[_Kind], value: _Kind) -> dict[str, Any]:
    made: dict[str, Any] = kind.dump_python(value, mode="json", exclude_none=True)
    return made


def _key(run_id: str) -> str:
    return f"shared/pydantic-ai-{hashlib.sha256(run_id.encode()).hexdigest()[:32]}"


def _snapshot(conversation: StepLog, number: int) -> ContinuableSnapshot:
    found = conversation.snapshots[number]
    made = _SNAPSHOT.validate_python({"run_id": found.run, **found.about, "messages": []})
    made.messages = as_messages(fresh(conversation.messages(number)))
    return made


# One conversation of the harness as a session: its messages are recorded once, its steps as frames.
#
# A snapshot is a list of messages that grows from step to step. It is recorded as its difference to
# the one before, with each message as the seq of its event, so n steps take O(n) bytes.
TOOL = "pydantic-ai"

_encode = msgspec.json.Encoder(order="deterministic").encode


class StepSnapshot(NamedTuple):
    """A recorded snapshot; ``about`` is all of it except its messages."""

    run: str
    about: dict[str, Any]
    of: int | None
    keep: int
    add: list[int]


class StepRun(msgspec.Struct):
    """The record of one run."""

    record: dict[str, Any] | None = None
    events: list[dict[str, Any]] = []
    event_keys: set[str] = set()
    snapshots: list[int] = []
    snapshot_keys: set[str] = set()
    newest_key: int = -1
    effects: dict[str, dict[str, Any]] = {}


class StepLog(UnitReader):
    """The contents of a conversation's log. Hold ``lock`` while reading or writing it."""

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

    def run(self, run_id: str) -> StepRun:
        """Return the record of a run; an empty one if there is none."""
        return self.runs.get(run_id) or StepRun()

    def messages(self, number: int) -> list[dict[str, Any]]:
        """Return the messages of a snapshot."""
        return [self.items[seq] for seq in self._listed(number)]

    def _listed(self, number: int) -> list[int]:
        latest = self._latest.get(self.snapshots[number].run)
        if latest is not None and latest[0] == number:
            return latest[1]
        steps = [self.snapshots[number]]
        while (before := steps[-1].of) is not None:
            steps.append(self.snapshots[before])
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
        """Return the snapshot of which the next one of a run is recorded as a change."""
        return self._latest.get(run_id) or self._latest.get(self._newest or "")

    def tell_snapshot(self, run_id: str, about: dict[str, Any], items: list[dict[str, Any]]) -> Drafts:
        """Return the events of a snapshot, to be recorded together: it refers back to earlier messages."""
        speaks = self._speaks(run_id)
        mark = None if speaks else run_id
        before, shared = self._before(run_id) or (None, [])
        listed, words = self._tell_messages(items, shared, mark)
        kept = alike(shared, listed)
        gone = self._left_out(shared[kept:], listed, words) if speaks else []
        back = [Event.make("retracted", {"seqs": gone})] if gone else []
        add = [one if isinstance(one, int) else one[0] - len(words) for one in listed[kept:]]
        change = {"keep": kept, "add": add} | ({"of": before} if kept else {})
        told = {"about": about, "messages": change} | ({"speaks": True} if speaks else {})
        return [*back, *as_run(words, mark), frame(run_id, "snapshot", told)]

    def _tell_messages(
        self, items: list[dict[str, Any]], shared: list[int], mark: str | None
    ) -> tuple[list[int | tuple[int]], Words]:
        """Return messages by their seqs, or by their places among those not recorded yet.

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
                    # The difference to the message that it replaces.
                    words.append(stored(tool=TOOL, amended=[key, difference(self.items[key], item)]))
                    after = self._root(key)
                else:
                    words += FORM.record(item)
                    after = math.inf
            listed.append(seq)
        return listed, words

    def _says(self, key: int, item: dict[str, Any], after: float) -> bool:
        """Return whether a recorded message has the text of an item, and follows the one before.

        The harness takes a snapshot of a request before it is sent, and of the same with all that
        belongs to it after that: its words are told already.
        """
        return self._stands(key, after) and FORM.tell(self.items[key]) == FORM.tell(item)

    def _stands(self, key: int, after: float) -> bool:
        return self._root(key) > after and self._root(key) not in self._retracted

    def _root(self, key: int) -> int:
        while key in self._amended:
            key = self._amended[key]
        return key

    def _speaks(self, run_id: str) -> bool:
        """Return whether a run is the conversation itself: the newest that no other run here began."""
        run = self.run(run_id)
        parent = (run.record or {}).get("parent_run_id")
        if parent in self.runs:
            return False
        return self._speaker == run_id or not run.snapshots

    def _on_record(self, mark: str | None, digest: bytes, after: float) -> int | None:
        for whose in (None, mark):
            key = self._known.get((whose, digest))
            # A message that was retracted and appears again is recorded again.
            if key is not None and self._stands(key, after):
                return key
        return None

    def _left_out(self, before: list[int], listed: list[int | tuple[int]], words: Words) -> list[int]:
        still = {self._root(one) for one in listed if isinstance(one, int)}
        still |= {self._root(data["amended"][0]) for _, data in words if "amended" in data}
        gone = {self._root(key) for key in before} - still - self._retracted
        return [seq for key in sorted(gone) for seq in self._spans[key]]


def frame(run_id: str, kind: str, told: Any) -> tuple[str, dict[str, Any]]:
    """Return the event for something that the harness recorded."""
    return stored(tool=TOOL, run=run_id, **{kind: told})


def key_number(key: str | None) -> int:
    """Return the number at the start of a key of the harness, which never decreases; -1 without one."""
    prefix, colon, _ = (key or "").partition(":")
    return int(prefix) if colon and prefix.isdecimal() else -1


def _digest(item: dict[str, Any]) -> bytes:
    return hashlib.blake2b(_encode(item), digest_size=16).digest()
