"""What two sessions kept, against what they had in common: variables, memory and todos by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from holdfast.replay._state import LoadBlob, MemoryEntry, State, read_recorded

__all__ = ["KINDS", "Difference", "Kept", "differences", "kept_of"]

Did = Literal["kept", "set", "removed"]
KINDS = ("variable", "memory", "todo")
_encode = msgspec.json.Encoder(order="deterministic").encode


class Kept(msgspec.Struct, frozen=True):
    """One thing that a state holds, in a form that tells whether two are the same."""

    mark: bytes
    data: Any
    """A variable's recorded value, a memory entry, or a todo."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One name under which the two sides do not hold the same."""

    kind: str
    name: str
    base: Kept | None
    ours: Kept | None
    theirs: Kept | None

    @property
    def conflict(self) -> bool:
        """Whether both sides changed it, each in its own way."""
        return self.did(self.ours) != "kept" and self.did(self.theirs) != "kept"

    def did(self, side: Kept | None) -> Did:
        """What a side did with it since they parted."""
        if _mark(side) == _mark(self.base):
            return "kept"
        return "removed" if side is None else "set"


def differences(base: State, ours: State, theirs: State) -> Iterator[Difference]:
    """Everything in which the two states differ, by kind and name."""
    for kind in KINDS:
        before, left, right = (kept_of(state, kind) for state in (base, ours, theirs))
        for name in [*left, *(name for name in right if name not in left)]:
            if _mark(left.get(name)) != _mark(right.get(name)):
                yield _difference(kind, name, before, left, right)


def _difference(
    kind: str,
    name: str,
    base: Mapping[str, Kept],
    ours: Mapping[str, Kept],
    theirs: Mapping[str, Kept],
) -> Difference:
    return Difference(
        kind=kind, name=name, base=base.get(name), ours=ours.get(name), theirs=theirs.get(name)
    )


def kept_of(state: State, kind: str) -> dict[str, Kept]:
    """What a state holds of one kind, by name; a todo's name is its text."""
    if kind == "variable":
        return {name: Kept(bytes(raw), raw) for name, raw in state.encoded.items()}
    if kind == "memory":
        return {key: Kept(_memory_mark(entry), entry) for key, entry in state.memory.items()}
    found: dict[str, Kept] = {}
    for todo in state.todos:
        found[_free(found, str(todo.get("content")))] = Kept(_todo_mark(todo), todo)
    return found


def _todo_mark(todo: dict[str, Any]) -> bytes:
    # A list that is written again gets new ids; its items are known by their text.
    return _encode({name: value for name, value in todo.items() if name != "id"})


def _memory_mark(entry: MemoryEntry) -> bytes:
    about = (entry.description, entry.scope, entry.priority, entry.pinned)
    return bytes(entry.raw) + _encode(about)


def _free(taken: Mapping[str, Any], name: str) -> str:
    """The name, or one with a number where a list has the same text twice."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


def _mark(kept: Kept | None) -> bytes | None:
    return None if kept is None else kept.mark


def value_of(kind: str, kept: Kept | None, load: LoadBlob | None = None) -> Any:
    """What is kept as a plain value; a variable in its recorded form, without what is beside it."""
    if kept is None:
        return None
    if kind == "variable":
        return read_recorded(kept.data, load)
    return kept.data.read(load) if kind == "memory" else kept.data
