"""Comparison of two sessions: where they diverged, and what each did since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.model import Event
from holdfast.replay._fold import fold
from holdfast.replay._state import LoadBlob, State, read_recorded, total_cost
from holdfast.replay._turns import TurnEvents, TurnView, common_prefix, read_history, split_turns, tokens_of, tool_acts

Cost = Callable[[list[Event]], float | None]  # returns the cost of the requests in these events; None if it is unknown

# Beyond this number of pairs, turns are simply matched in order.
_PAIRS_MAX = 4_000_000


class SessionEvents(NamedTuple):
    """A session by its id and its events."""

    session_id: str
    events: Sequence[Event]


class Ancestor(msgspec.Struct, frozen=True, kw_only=True):
    """The common part of two sessions: the events up to ``seq``."""

    session_id: str
    """The session in which the last common event was recorded."""
    seq: int
    turns: int
    """The number of shared turns; a fork may have cut the last."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two sessions. Figures cover its events since the ancestor, unless stated otherwise."""

    session_id: str
    title: str | None = None
    event_count: int = 0
    """In the whole session."""
    turns: int = 0
    tokens: int = 0
    tokens_in_all: int = 0
    cost: float | None = None
    """In US dollars; None if it is unknown."""


class TurnPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two matching turns, or one without a counterpart."""

    a: TurnView | None = None
    b: TurnView | None = None
    same_question: bool = False


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of calls and failures of one tool on each side."""

    tool: str
    a: int = 0
    b: int = 0
    a_failed: int = 0
    b_failed: int = 0


class FileUse(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that each side used on a file."""

    path: str
    a: list[str] = []
    b: list[str] = []


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A variable, memory entry or todo in which the sides differ, and what each did to it."""

    kind: str
    name: str
    base: Any = None
    a: Any = None
    b: Any = None
    a_did: str = "kept"
    b_did: str = "kept"
    conflict: bool = False


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sessions compared since their last common event."""

    a: Side
    b: Side
    ancestor: Ancestor | None = None
    turns: list[TurnPair] = []
    tools: list[ToolUse] = []
    files: list[FileUse] = []
    changes: list[Change] = []

    @property
    def same(self) -> bool:
        """True if neither side did anything that the other did not."""
        return not self.turns and not self.changes


def compare(a: SessionEvents, b: SessionEvents, *, cost: Cost | None = None) -> Comparison:
    """Compare two sessions. Never raises about content."""
    shared = common_prefix(a.events, b.events)
    own_a, own_b = ([event for event in side.events if event.seq > shared] for side in (a, b))
    # The common part is the same in either log: one of them gives the base.
    base, state_a, state_b = fold(a.events, at=shared), fold(a.events), fold(b.events)
    segment = read_history(*a).segment_of(shared) if shared >= 0 else None
    common = split_turns(event for event in a.events if event.seq <= shared)
    ancestor = segment and Ancestor(session_id=segment.session, seq=shared, turns=len(common))
    turns_a, turns_b = split_turns(own_a), split_turns(own_b)
    (calls_a, failed_a), (calls_b, failed_b) = _count_calls(own_a), _count_calls(own_b)
    files_a, files_b = _count_files(own_a), _count_files(own_b)
    return Comparison(
        a=_side(a, state_a, turns_a, cost),
        b=_side(b, state_b, turns_b, cost),
        ancestor=ancestor,
        turns=pair_turns(turns_a, turns_b),
        tools=[
            ToolUse(tool=tool, a=calls_a[tool], b=calls_b[tool], a_failed=failed_a[tool], b_failed=failed_b[tool])
            for tool in sorted({*calls_a, *calls_b})
        ],
        files=[
            FileUse(path=path, a=files_a.get(path, []), b=files_b.get(path, []))
            for path in sorted({*files_a, *files_b})
        ],
        changes=[
            Change(
                kind=one.kind,
                name=one.name,
                base=value_of(one.kind, one.base),
                a=value_of(one.kind, one.ours),
                b=value_of(one.kind, one.theirs),
                a_did=one.did(one.ours),
                b_did=one.did(one.theirs),
                conflict=one.conflict,
            )
            for one in differences(base, state_a, state_b)
        ],
    )


def _side(told: SessionEvents, state: State, turns: list[TurnEvents], cost: Cost | None) -> Side:
    events = [event for turn in turns for event in turn.events]
    used = tokens_of(events)
    return Side(
        session_id=told.session_id,
        title=state.shown_title,
        event_count=len(told.events),
        turns=len(turns),
        tokens=sum(tokens.total_tokens for tokens in used.values()),
        tokens_in_all=state.usage.total_tokens,
        cost=total_cost(used.values()) if cost is None else cost(events),
    )


def pair_turns(a: list[TurnEvents], b: list[TurnEvents]) -> list[TurnPair]:
    """Pair the turns of both in their order; turns with the same first words are paired."""
    left, right = [turn.view() for turn in a], [turn.view() for turn in b]
    parts: Sequence[tuple[str, int, int, int, int]] = [("replace", 0, len(left), 0, len(right))]
    if len(left) * len(right) <= _PAIRS_MAX:
        from difflib import SequenceMatcher  # a fork and a merge load this module too, and compare nothing

        asked = ([turn.user for turn in left], [turn.user for turn in right])
        parts = SequenceMatcher(None, *asked, autojunk=False).get_opcodes()
    # Turns with the same question are paired, others in the order in which they came.
    return [
        TurnPair(a=one, b=other, same_question=tag == "equal")
        for tag, i, j, k, n in parts
        for one, other in zip_longest(left[i:j], right[k:n])
    ]


def _count_calls(events: Iterable[Event]) -> tuple[Counter[str], Counter[str]]:
    acts = list(tool_acts(events))
    return Counter(act.tool for act in acts if act.what == "call"), Counter(act.tool for act in acts if act.failed)


def _count_files(events: Iterable[Event]) -> dict[str, list[str]]:
    """Return the tools used on each file, each once, in order."""
    found: dict[str, dict[str, None]] = {}
    for act in tool_acts(events):
        for path in act.files:
            found.setdefault(path, {})[act.tool] = None
    return {path: list(tools) for path, tools in found.items()}


# The differences of two states against their common base: variables, memory and todos by name.
Did = Literal["kept", "set", "removed"]
KINDS = ("variable", "memory", "todo")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Holding(msgspec.Struct, frozen=True):
    """One entry of a state, in a form that can be compared."""

    mark: bytes
    data: Any  # a variable's recorded value, a memory entry, or a todo


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One name under which the two sides have different entries."""

    kind: str
    name: str
    base: Holding | None
    ours: Holding | None
    theirs: Holding | None

    @property
    def conflict(self) -> bool:
        """True if both sides changed it, each in its own way."""
        return self.did(self.ours) != "kept" and self.did(self.theirs) != "kept"

    def did(self, side: Holding | None) -> Did:
        """Return what a side did with it since they diverged."""
        if _mark(side) == _mark(self.base):
            return "kept"
        return "removed" if side is None else "set"


def differences(base: State, ours: State, theirs: State) -> Iterator[Difference]:
    """Return all differences of two states, by kind and name."""
    for kind in KINDS:
        before, left, right = (kept_of(state, kind) for state in (base, ours, theirs))
        for name in [*left, *(name for name in right if name not in left)]:
            parted, one, other = before.get(name), left.get(name), right.get(name)
            if _mark(one) != _mark(other):
                yield Difference(kind=kind, name=name, base=parted, ours=one, theirs=other)


def kept_of(state: State, kind: str) -> dict[str, Holding]:
    """Return the entries of a state of one kind, by name; a todo's name is its text."""
    if kind == "variable":
        return {name: Holding(bytes(raw), raw) for name, raw in state.encoded.items()}
    if kind == "memory":
        about = {key: (one.description, one.scope, one.priority, one.pinned) for key, one in state.memory.items()}
        return {key: Holding(bytes(one.raw) + _encode(about[key]), one) for key, one in state.memory.items()}
    found: dict[str, Holding] = {}
    for todo in state.todos:
        # Two todos may have the same text: the second gets a number.
        name = free_name(str(todo.get("content")), found, "{} ({})")
        # A rewritten list gets new ids; its items are identified by their text.
        found[name] = Holding(_encode({name: value for name, value in todo.items() if name != "id"}), todo)
    return found


def free_name(name: str, taken: Container[str], form: str = "{}-{}") -> str:
    """Return the name, or the first free one with a number."""
    number, free = 2, name
    while free in taken:
        free, number = form.format(name, number), number + 1
    return free


def _mark(kept: Holding | None) -> bytes | None:
    return None if kept is None else kept.mark


def value_of(kind: str, kept: Holding | None, load: LoadBlob | None = None) -> Any:
    """Return an entry as a plain value, without its metadata; ``load`` resolves references."""
    if kept is None:
        return None
    if kind == "variable":
        return read_recorded(kept.data, load)
    return kept.data.read(load) if kind == "memory" else kept.data
