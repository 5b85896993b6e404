"""Merging one session into another: which turns, as which events, and whose state wins.

Pure: the plan has the events to be recorded after a fork of the first session. The sessions themselves stay
unchanged.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.errors import InvalidData, UsageError
from holdfast.model import Event, decode_json, fill_references, has_blob
from holdfast.replay._calls import blocks_of
from holdfast.replay._compare import Difference, Holding, SessionEvents, differences, free_name, kept_of, value_of
from holdfast.replay._fold import fold
from holdfast.replay._runs import Router
from holdfast.replay._state import LoadBlob, State
from holdfast.replay._text import clean_json
from holdfast.replay._turns import (
    WORDS,
    Copy,
    Descent,
    TurnEvents,
    TurnView,
    common_prefix,
    data_of,
    read_history,
    split_turns,
    text_of,
)

Policy = Literal["ours", "theirs", "both", "ask"]
POLICIES = ("ours", "theirs", "both", "ask")
_LINE_CHARS_MAX = 300


class Clash(msgspec.Struct, frozen=True, kw_only=True):
    """A variable, memory entry or todo that both sides changed, each in its own way."""

    kind: str
    name: str
    base: Any = None
    ours: Any = None
    theirs: Any = None
    taken: str = ""
    """ours, theirs or both; empty until it is decided."""


Ask = Callable[[Clash], str]
"""Decides a clash: ours, theirs or both."""
Summarise = Callable[[list[TurnView]], str]  # puts turns into words


class MergeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a merge; the data of its ``merged`` event."""

    session: str
    """The session that was merged into a fork of the other."""
    seq: int = -1
    """Its last event at that time."""
    log: str | None = None
    base: int = -1
    """The last common event; -1 if there was none."""
    turns: str = "all"
    """all, chosen or summary."""
    merged_turns: int = 0
    policy: str = "ours"
    conflicts: list[Clash] = []
    taken: list[str] = []
    """Names of entries that were taken over without a conflict, such as ``variable x``."""
    copies: list[Copy] = []


class MergePlan(NamedTuple):
    """The events to record after the fork, and the report."""

    events: list[Event]
    report: MergeReport


class MergeWishes(NamedTuple):
    """The caller's options of a merge."""

    turns: str | Sequence[int] = "all"
    policy: str = "ours"
    summary: Summarise | None = None
    ask: Ask | None = None


class MergeBlobs(NamedTuple):
    """Functions that load payloads kept beside each log."""

    ours: LoadBlob | None = None
    theirs: LoadBlob | None = None


Words = tuple[str, int, str]  # the words and their time: the same in every copy of an event


def _words(event: Event) -> Words:
    return event.type, event.timestamp, text_of(data_of(event).get("content"))


def _is_known(turn: TurnEvents, ours: Descent, theirs: Descent, heard: dict[Words, list[int]]) -> bool:
    """Return whether ours has a turn, by descent or by an earlier merge, as far as it can be verified."""
    # A claimed origin proves nothing: a copied file continues under the same name. If it has words they must be found
    # there too.
    places = [place for one in theirs.origins(turn) for place in ours.places(one)]
    if not places or not turn.has_words:
        return bool(places)
    said = [heard.get(_words(event), []) for event in turn.events if event.type in WORDS]
    return any(bisect_left(seqs, first) < bisect_right(seqs, last) for seqs in said for first, last in places)


def plan_merge(
    a: SessionEvents,
    b: SessionEvents,
    wishes: MergeWishes,
    *,
    first_seq: int,
    run: str,
    blobs: MergeBlobs | None = None,
) -> MergePlan:
    """Return what to record, from ``first_seq`` on, so that a fork of ``a`` includes the work of ``b``.

    ``run`` is the run of the copied turns; the fork's own ``forked`` event has it too. Raises UsageError for
    turns that do not exist, and for undecided clashes.
    """
    _check(wishes)
    blobs = blobs or MergeBlobs()
    shared, ours, theirs = common_prefix(a.events, b.events), read_history(*a), read_history(*b)
    heard: dict[Words, list[int]] = {}
    for event in a.events:
        if event.type in WORDS:
            heard.setdefault(_words(event), []).append(event.seq)
    # They keep the numbers under which a comparison shows them.
    turns = split_turns(event for event in b.events if event.seq > shared)
    chosen = _chosen([turn for turn in turns if not _is_known(turn, ours, theirs, heard)], wishes.turns)
    from_b, from_a = _merged_up_to(ours, theirs, shared), _merged_up_to(theirs, ours, shared)
    # The side that merged the other since they diverged has the newer common state.
    is_ours_newer = from_a > shared >= from_b
    base = fold(a.events, at=from_a) if is_ours_newer else fold(b.events, at=max(shared, from_b))
    state_a = fold(a.events)
    found = list(differences(base, state_a, fold(b.events)))
    clashes = _decide([_clash(one, blobs) for one in found if one.conflict], wishes)
    if wishes.turns == "summary":
        copied, places = _summary(chosen, b, wishes, run), []
    else:
        copier = _Copier(a, b, first_seq, run, blobs.theirs)
        places, copied = [copier.copy(turn) for turn in chosen], copier.events
    settled = _settle(found, clashes, b.session_id, state_a, blobs)
    report = MergeReport(
        session=b.session_id,
        seq=b.events[-1].seq if b.events else -1,
        log=theirs.segments[-1].log,
        base=shared,
        turns=wishes.turns if isinstance(wishes.turns, str) else "chosen",
        merged_turns=len(chosen),
        policy=wishes.policy,
        conflicts=clashes,
        taken=[f"{one.kind} {one.name}" for one in found if _is_taken(one)],
        copies=[
            Copy(one.log, one.first, one.last, *place)
            for turn, place in zip(chosen, places, strict=False)
            for one in theirs.origins(turn)
        ],
    )
    return MergePlan([*copied, *settled], report)


def _check(wishes: MergeWishes) -> None:
    if wishes.policy not in POLICIES:
        raise UsageError(f"{wishes.policy!r} is not a policy: use one of {', '.join(POLICIES)}")
    numbers = wishes.turns if isinstance(wishes.turns, (list, tuple, range, set, frozenset)) else [None]
    if wishes.turns not in ("all", "summary") and not all(type(one) is int for one in numbers):
        raise UsageError(f"turns={wishes.turns!r}: use 'all', 'summary' or a list of numbers")


def _chosen(fresh: list[TurnEvents], wanted: str | Sequence[int]) -> list[TurnEvents]:
    if isinstance(wanted, str):
        return fresh
    known = {turn.number: turn for turn in fresh}
    unknown = [number for number in wanted if number not in known]
    if unknown:
        there = ", ".join(map(str, known)) or "none"
        raise UsageError(
            f"there is no new turn {unknown[0]!r}; there are: {there}",
            remedy="`holdfast compare` shows the turns with their numbers.",
        )
    return [known[number] for number in sorted(set(wanted))]


def _merged_up_to(into: Descent, other: Descent, shared: int) -> int:
    """Return how much of the other log had been merged into one, by the other's own numbers."""
    ends = {(segment.log, segment.session): segment.last for segment in other.segments}
    merged = [min(merge.seq, ends.get((merge.log, merge.session), shared)) for merge in into.merges]
    return max([shared, *merged])


def _clash(found: Difference, blobs: MergeBlobs) -> Clash:
    return Clash(
        kind=found.kind,
        name=found.name,
        base=value_of(found.kind, found.base, blobs.theirs),
        ours=value_of(found.kind, found.ours, blobs.ours),
        theirs=value_of(found.kind, found.theirs, blobs.theirs),
    )


def _decide(clashes: list[Clash], wishes: MergeWishes) -> list[Clash]:
    if wishes.policy != "ask":
        return [msgspec.structs.replace(one, taken=wishes.policy) for one in clashes]
    if not clashes:
        return []
    if wishes.ask is None:
        listed = "\n".join(f"{one.kind} {one.name}" for one in clashes)
        raise UsageError(
            f"both sessions changed {len(clashes)} of the same things:\n{listed}",
            remedy="Choose a policy: ours, theirs or both; or give a function that decides.",
            conflicts=clashes,
        )
    decided = []
    for clash in clashes:
        answer = wishes.ask(clash)
        if answer not in POLICIES[:-1]:
            raise UsageError(f"{answer!r} decides nothing: answer ours, theirs or both")
        decided.append(msgspec.structs.replace(clash, taken=answer))
    return decided


def _is_taken(found: Difference) -> bool:
    return not found.conflict and found.did(found.theirs) != "kept"


def _settle(found: list[Difference], clashes: list[Clash], other: str, ours: State, blobs: MergeBlobs) -> list[Event]:
    """Return the events that change the state as it was decided."""
    decided = {(one.kind, one.name): one.taken for one in clashes}
    events: list[Event] = []
    todos = {name: kept.data for name, kept in kept_of(ours, "todo").items()}
    for one in found:
        taken = decided.get((one.kind, one.name)) or ("theirs" if _is_taken(one) else "ours")
        beside = taken == "both" and one.ours is not None
        # They removed it: there is nothing to keep beside ours.
        if taken == "ours" or (beside and one.theirs is None):
            continue
        name = f"{one.name}@{other}" if beside else one.name
        if one.kind != "todo":
            name = free_name(name, kept_of(ours, one.kind)) if beside else name
            events.append(_set(one.kind, name, one.theirs, blobs))
        elif one.theirs is None:
            todos.pop(name, None)
        else:
            todos[name] = one.theirs.data
    if todos or ours.todos or any(one.kind == "todo" for one in found):
        # Also where nothing changed: a copied call that writes todos must not be the last to do so.
        events.append(Event.make("todo_update", {"todos": list(todos.values())}))
    return events


def _set(kind: str, name: str, kept: Holding | None, blobs: MergeBlobs) -> Event:
    label = "name" if kind == "variable" else "key"
    if kept is None:
        return Event.make(f"{kind}_delete", {label: name})
    data = {label: name, "value": value_of(kind, kept, blobs.theirs)}
    if kind == "memory":
        names = ("description", "scope", "priority", "pinned")
        data |= {name: getattr(kept.data, name) for name in names} | {"sizeBytes": kept.data.size_bytes}
    return Event.make(f"{kind}_set", data)


def _summary(turns: list[TurnEvents], b: SessionEvents, wishes: MergeWishes, run: str) -> list[Event]:
    """Return one user message in place of the turns."""
    if not turns:
        return []
    views = [turn.view() for turn in turns]
    text = (wishes.summary or summary_text)(views)
    if not isinstance(text, str) or not text.strip():
        raise UsageError("a summary is a text that is not empty")
    head = f"[Merged from session {b.session_id}: a summary of {len(turns)} turns]"
    data = {"content": f"{head}\n{text}", "metadata": {"merged_from": b.session_id}}
    return [Event.make("user", data, run=run)]


def summary_text(turns: list[TurnView]) -> str:
    """Return each turn in up to three lines: the question, the tools, the answer."""
    lines: list[str] = []
    for turn in turns:
        said = {"asked": turn.user, "tools": ", ".join(dict.fromkeys(turn.tools)), "answered": turn.answer}
        told = [f"{what}: {_line(text)}" for what, text in said.items() if text]
        first, *more = told or ["(nothing that can be put into words)"]
        lines += [f"{turn.number}. {first}", *(f"   {line}" for line in more)]
    return "\n".join(lines)


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LINE_CHARS_MAX else words[: _LINE_CHARS_MAX - 1] + "…"


# Copies of a log's turns in another log: with other numbers, runs and call ids, otherwise unchanged.
_LIFE = frozenset({"agent_start", "agent_iteration", "agent_complete", "agent_error"})
_PLAIN_LIFE = _LIFE | {"delegation", "delegation_complete"}


class _Copier:
    """Copies turns of ``b`` into events for a fork of ``a`` from ``first_seq`` on.

    The words of ``b``'s top-level agent get the run ``run``, those of others names below it; call ids that
    ``a`` has used are replaced; references to event numbers are changed to the copies'.
    """

    def __init__(self, a: SessionEvents, b: SessionEvents, first_seq: int, run: str, load: LoadBlob | None) -> None:
        self.events: list[Event] = []
        self._first_seq = first_seq
        self._run = run
        self._load = load
        self._runs = _runs_of(b.events)
        self._taken = set(_call_ids(a.events))
        # An idempotency key belongs to one event of a log: a second one goes without.
        self._keys = {event.key for event in a.events}
        self._seqs: dict[int, int] = {}
        self._calls: dict[str, str] = {}
        self._open: set[str] = set()

    def copy(self, turn: TurnEvents) -> tuple[int, int]:
        """Copy a turn; return the places of its first and its last event."""
        first = self._first_seq + len(self.events)
        for event in turn.events:
            self._take(event)
        # A turn that was still going on there ends here: else the fork would begin in mid-turn, and its next open would
        # call it interrupted.
        for run in sorted(self._open):
            ended = {"reason": "merged"}
            self.events.append(Event.make("turn_end", ended, timestamp=turn.events[-1].timestamp, run=run))
        self._open.clear()
        return first, max(first, self._first_seq + len(self.events) - 1)

    def _take(self, event: Event) -> None:
        if event.run is None and event.type in _PLAIN_LIFE:
            return  # without a run it would refer to the agents of the other log
        data = self._data(event)
        copy = None if data is None else self._make(event, data)
        if copy is None:
            return
        self._seqs[event.seq] = self._first_seq + len(self.events)
        self._keys.add(copy.key)
        self.events.append(copy)
        if event.type == "turn_start":
            self._open.add(copy.run or "")
        elif event.type == "turn_end":
            self._open.discard(copy.run or "")

    def _make(self, event: Event, data: dict[str, Any]) -> Event | None:
        """Return the copy; None for an event of a foreign log without a proper type."""
        key = event.key if event.key not in self._keys else None
        below = self._runs.get(event.seq)
        run = self._run if below is None else f"{self._run}.{below}"
        # A foreign log may hold what an append refuses: then as much of it as JSON can express.
        for tried in (data, clean_json(data)):
            try:
                return Event.make(event.type, tried, timestamp=event.timestamp, run=run, key=key)
            except InvalidData:
                continue
        return None

    def _data(self, event: Event) -> dict[str, Any] | None:
        """Return the data as it reads in the other log; None for data without meaning there."""
        found = data_of(event)
        if has_blob(bytes(event.raw)) and self._load is not None and found:
            found = fill_references(decode_json(event.raw), self._load)
        data = dict(found)
        if event.type == "compaction":
            match data.get("covers"):
                # A summary covers its copied events, and never earlier ones.
                case [int(first), int(last)]:
                    here = [to for seq, to in self._seqs.items() if first <= seq <= last]
                    return {**data, "covers": [min(here), max(here)]} if here else None
            return None
        if isinstance(data.get("covers_from"), int):
            data["covers_from"] = self._seqs.get(data["covers_from"], data["covers_from"])
        if event.type == "retracted":
            seqs = data.get("seqs")
            gone = [seq for seq in seqs if type(seq) is int] if isinstance(seqs, list) else []
            data["seqs"] = [self._seqs[seq] for seq in gone if seq in self._seqs]
        if event.type in ("tool_call", "tool_result"):
            label = "id" if event.type == "tool_call" else "toolCallId"
            if isinstance(data.get(label), str):
                data[label] = self._call(data[label], is_call=event.type == "tool_call")
        elif isinstance(data.get("content"), list):
            data["content"] = [self._block(block) for block in data["content"]]
        return data

    def _block(self, block: Any) -> Any:
        if not isinstance(block, dict):
            return block
        label = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
        if label is None or not isinstance(block.get(label), str):
            return block
        return {**block, label: self._call(block[label], is_call=label == "id")}

    def _call(self, id: str, *, is_call: bool) -> str:
        """Return the id of a call here: a new one if this log has used it, always the same."""
        if is_call and id not in self._calls:
            self._calls[id] = free_name(id, self._taken)
            self._taken.add(self._calls[id])
        return self._calls.get(id, id)


def _runs_of(events: Sequence[Event]) -> dict[int, str]:
    """Return the runs of the events that are not of the top-level one, by seq."""
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
    # An event outside conversations was delivered to none: it goes with its run.
    for event in events:
        if event.seq not in found and event.run is not None:
            found[event.seq] = owned.get(event.run, event.run)
    return {seq: run for seq, run in found.items() if run is not None and run[:1] != "\0"}


def _call_ids(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        data = data_of(event)
        if event.type == "tool_call" and isinstance(data.get("id"), str):
            yield data["id"]
        for _, block in blocks_of(data.get("content")):
            if isinstance(block.get("id"), str):
                yield block["id"]
