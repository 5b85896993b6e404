"""A framework's items as events, and back without changes.

One item is a *unit*: one event or a few, written together. They say what it says in our words, so
that everything that reads sessions can read it; the first of them carries which framework it is
from and, under ``raw``, what our words cannot carry. What others recorded in the same session has
no such mark, and is told in the framework's form as well as it can be.
"""

from __future__ import annotations

import json
import math
import operator
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast.formats import speak
from holdfast.integrations._place import Act, AdapterSession
from holdfast.model import Event
from holdfast.replay import Provider, from_dialect
from holdfast.session import Session

# The contents of a session's log, kept from one reading to the next, so that only new events are read.
Words = list[tuple[str, dict[str, Any]]]  # types and data of events to be
Drafts: TypeAlias = "Sequence[Event | tuple[str, dict[str, Any]]]"
Same: TypeAlias = Callable[[Any, Any], bool]


class LogReader(ABC):
    """Takes the events of a place in order, each of them once.

    A log that is another one than before (begun anew, repaired, redacted) is read from its
    beginning. Keep ``lock`` while looking at what was read, or acting on it.
    """

    def __init__(self, place: AdapterSession) -> None:
        self.place = place
        self.lock = threading.RLock()
        self._turn_to(None)

    def _turn_to(self, log: tuple[Any, ...] | None) -> None:
        self._log = log
        self._next = 0
        self._taking = -1
        self._begin_again()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the lock, having taken in what is new in the log."""
        with self.lock:
            self.catch_up()
            yield

    def catch_up(self) -> None:
        """Take in what is new in the log."""
        with self.lock:
            # Only this object writes to a session that it holds, so there may be nothing new to read.
            held = self.place.held()
            if held is not None and held == (self._taking, self._next - 1):
                return
            # A log that was created again or redacted is a different one: everything read before is discarded.
            if (log := self.place.log_id()) != self._log:
                self._turn_to(log)
            for event in self.place.events(self._next):
                self._next = event.seq + 1
                self._take(event)
            self._taking = held[0] if held else -1

    def take(self, recorded: Iterable[Event]) -> None:
        """Take in events that were just written, so that they need not be read."""
        with self.lock:
            # Only while the session is held can no other event have been written in between.
            held = self.place.held()
            if held is None or held[0] != self._taking:
                return  # others may have written since the last reading: the next one sees it all
            for event in self.place.whole(recorded):
                if event.seq == self._next:
                    self._next += 1
                    self._take(event)

    def recording(self, tell: Callable[[], Drafts]) -> Act:
        """Return an action that records what ``tell`` returns, called when no other writer can interfere."""

        def act(session: Session) -> list[Event]:
            with self.lock:
                self.catch_up()
                recorded = session.extend(tell())
                self.take(recorded)
                # Reads the events that `take` could not be sure of; otherwise this costs nothing.
                self.catch_up()
                return recorded

        return act

    def write(self, tell: Callable[[], Drafts]) -> None:
        """Record the pending events; they are on the medium when this returns."""
        self.place.write(self.recording(tell))

    @abstractmethod
    def _begin_again(self) -> None:
        """Forget everything: the log is read from its beginning."""

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Take in the next event of the log."""


LOST = "interrupted, outcome unknown"  # the result, for a model, of a call that has none

CONVERSATION = frozenset({"user", "assistant", "system", "thinking", "tool_call", "tool_result"})
_OF_UNITS = CONVERSATION | {"frame", "variable_set"}
_MARKS = frozenset({"adapter", "span", "raw"})

_encode = msgspec.json.Encoder().encode


class Unit(NamedTuple):
    """One item of the framework, or (``own`` is False) one event that somebody else recorded."""

    seqs: tuple[int, ...]
    own: bool
    item: Any
    run: str | None = None
    at: int = 0
    answers: frozenset[str] = frozenset()  # the calls to which an own item has the results

    @property
    def fresh(self) -> Any:
        """A copy of the item that callers may change."""
        return fresh(self.item)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of a neutral message as blocks: a text alone is one."""
        content = self.item["content"]
        return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def fresh(item: Any) -> Any:
    """Return a copy of plain data that shares nothing."""
    try:
        told = _encode(item)
    except (OverflowError, ValueError):  # a number that is too big for it, half a character
        return deepcopy(item)
    return deepcopy(item) if _has_no_number(told, item) else msgspec.json.decode(told)


_SURROGATE = re.compile("[\ud800-\udfff]")


def cleaned(item: Any) -> Any:
    """Return data that a line of the log can contain; the same object if it is plain already."""
    try:
        told = _encode(item)
    except UnicodeEncodeError:
        return _clean(item)
    except (OverflowError, TypeError, ValueError):
        return item  # a big number, or nothing that can be recorded, which the session tells
    return _clean(item) if b"\\u0000" in told or _has_no_number(told, item) else item


def _has_no_number(told: bytes, item: Any) -> bool:
    """Return whether data contains a number such as NaN, for which ``null`` was recorded."""
    return b"null" in told and not _is_finite(item)


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {_clean(name): _clean(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value.replace("\0", "\ufffd"))
    return value if _is_finite(value) else None


class Form(NamedTuple):
    """The conversion of one framework's items to events.

    ``tell`` gives the words of an item, ``[]`` if it says nothing to people. ``rebuild`` makes an item of such words
    alone; it decides what must be kept beside them, so what it gives for words once recorded may never change: a new
    way of telling gets a new ``name``, and what ``rebuild`` reads as well has its name in ``older``.
    """

    name: str
    tell: Callable[[Any], Words]
    rebuild: Callable[[Words], Any]
    older: tuple[str, ...] = ()

    def record(self, item: Any) -> Words:
        """Return the events of an item, marked and complete.

        What a line of the log cannot carry (NUL, halves of characters, numbers that are none) is
        replaced in the words, and kept as a text beside them.
        """
        plain = cleaned(item)
        words = self.tell(plain) or [stored()]
        first_type, first = words[0]
        mark: dict[str, Any] = {"adapter": self.name}
        if len(words) > 1:
            mark["span"] = len(words)
        rest = difference(self.rebuild(words), item)
        # The item cannot be restored from cleaned text, so the whole item is stored beside it.
        if plain is not item:
            rest = {"text": json.dumps(item)}
        if rest is not None:
            mark["raw"] = rest
        return [(first_type, first | mark), *words[1:]]

    def words(self, items: Iterable[Any]) -> Words:
        """Return the events of items, in order."""
        return [word for item in items for word in self.record(item)]

    def has(self, mark: Any) -> bool:
        """Return whether a mark in the log belongs to this form."""
        return mark == self.name or mark in self.older

    def amend(self, unit: Unit, item: Any) -> Words:
        """Return the event, if one is needed, that turns a unit into this item; its text stays."""
        change = difference(unit.item, item)
        return [] if change is None else [stored(amends=unit.seqs[0], by=self.name, change=change)]

    def read(self, events: list[Event]) -> Any:
        """Return the item that the events of one unit were recorded for."""
        plain = [{name: value for name, value in event.data.items() if name not in _MARKS} for event in events]
        words = [(event.type, data) for event, data in zip(events, plain, strict=True)]
        return apply(self.rebuild(words), events[0].data.get("raw"))


class UnitReader(LogReader):
    """Reads a log unit by unit: those of one form, and each event of others by itself."""

    def __init__(self, place: AdapterSession, form: Form) -> None:
        self.form = form
        super().__init__(place)

    def _begin_again(self) -> None:
        self._begun: list[Event] = []
        self._missing = 0

    def _take(self, event: Event) -> None:
        mark = event.data.get("adapter") if event.type in _OF_UNITS else ""
        if mark and self.form.has(mark):
            self._begun, self._missing = [event], event.data.get("span", 1)
        # Events of one unit are adjacent; an event with a mark of its own begins the next unit.
        elif self._missing and mark is None:
            self._begun.append(event)
        else:
            self._take_foreign(event)
            return
        self._missing -= 1
        if not self._missing:
            self._take_own(self._begun, self.form.read(self._begun))

    @abstractmethod
    def _take_own(self, events: list[Event], item: Any) -> None:
        """Take in an item of the form, and the events that recorded it."""

    @abstractmethod
    def _take_foreign(self, event: Event) -> None:
        """Take in an event that is not part of a unit."""


class Units(UnitReader):
    """The contents of a session, as units in order, without retracted ones."""

    def read(self) -> list[Unit]:
        """Return all units; the list belongs to the caller."""
        with self.reading():
            return list(self._units.values())

    def newest(self, count: int) -> list[Unit]:
        """Return the last few units in order, reading only as much as they need."""
        with self.reading():
            return list(islice(reversed(self._units.values()), count))[::-1]

    def _begin_again(self) -> None:
        super()._begin_again()
        self._units: dict[int, Unit] = {}
        self._firsts: dict[int, int] = {}

    def _take_own(self, events: list[Event], item: Any) -> None:
        seqs = tuple(event.seq for event in events)
        answers = frozenset(event.data["toolCallId"] for event in events if event.type == "tool_result")
        self._add(Unit(seqs, own=True, item=item, run=events[0].run, answers=answers))

    def _take_foreign(self, event: Event) -> None:
        if event.type == "frame":
            self._amend(event.data)
        elif event.type == "retracted":
            for seq in event.data.get("seqs", ()):
                # Retracting one event of a unit retracts the unit: a part of it is not an item of the framework.
                unit = self._units.pop(self._firsts.pop(seq, seq), None)
                if unit is not None:
                    self._drop(unit)
        elif event.type in CONVERSATION:
            self._add(Unit((event.seq,), own=False, item=event, run=event.run, at=event.timestamp))

    def _amend(self, data: dict[str, Any]) -> None:
        unit = self._units.get(data.get("amends", -1))
        if unit is not None and self.form.has(data.get("by")):
            self._units[unit.seqs[0]] = unit._replace(item=apply(unit.item, data["change"]))

    def _add(self, unit: Unit) -> None:
        first, *rest = unit.seqs
        self._units[first] = unit
        self._firsts.update(dict.fromkeys(rest, first))

    def _drop(self, unit: Unit) -> None:
        """Remove a retracted unit."""


def spoken(message: dict[str, Any], dialect: Provider = "neutral") -> Words:
    """Return the events for a message of a provider's dialect; neutral blocks that are None give none."""
    words: Words = []
    if dialect == "neutral":
        blocks = [block for block in message["content"] if block is not None]
        if not blocks:
            return words
        message = {"role": message["role"], "content": blocks}
    for said in from_dialect([message], dialect):
        content = said["content"]
        if isinstance(content, list):
            thoughts = [block for block in content if block.get("type") == "reasoning"]
            if thoughts:
                words.append(("thinking", {"content": thoughts}))
                content = [block for block in content if block.get("type") != "reasoning"]
        if content:
            words += [(draft.type, draft.data) for draft in speak(said["role"], content, None, None)]
    return words


def as_run(words: Words, run: str | None) -> list[Event]:
    """Return events as part of a run."""
    return [Event.make(type, data, run=run) for type, data in words]


def retract(units: Iterable[Unit]) -> Words:
    """Return the event that retracts units; none for none."""
    seqs = [seq for unit in units for seq in unit.seqs]
    return [("retracted", {"seqs": seqs})] if seqs else []


def stored(**told: Any) -> tuple[str, dict[str, Any]]:
    """Return the event for data that a framework keeps beside the conversation."""
    return "frame", {"direction": "stored", **told}


def alike(one: Iterable[Any], other: Iterable[Any], same: Same = operator.eq) -> int:
    """Return how many of the first items of two lists are the same."""
    return sum(1 for _ in takewhile(lambda pair: same(*pair), zip(one, other, strict=False)))


def voices(units: list[Unit]) -> list[Unit]:
    """Return the conversation without its runs; others' messages are neutral, neighbours of one side joined."""
    made: list[Unit] = []
    side = ""
    for unit in units:
        # Messages of sub-agents are in separate runs, which are not part of the conversation.
        if unit.run is not None:
            continue
        if unit.own:
            made.append(unit)
            side = ""
            continue
        type, data = unit.item.type, unit.item.data
        if type in ("user", "system"):
            made.append(unit._replace(item={"role": type, "content": data.get("content")}))
            side = ""
            continue
        before, side = side, "user" if type == "tool_result" else "assistant"
        content = _blocks_of(type, data)
        if side == before:
            whole = {"role": side, "content": [*made[-1].item["content"], *content]}
            made[-1] = made[-1]._replace(seqs=made[-1].seqs + unit.seqs, item=whole)
        else:
            made.append(unit._replace(item={"role": side, "content": content}))
    return made


def answered(voiced: list[Unit]) -> list[Unit]:
    """Return the units with a result for each call of others, since a model refuses calls without one.

    Nobody here can answer what waits elsewhere. Nothing of it is recorded: there the call goes on waiting.
    """
    known = {id for unit in voiced for id in (unit.answers if unit.own else _ids(unit, "tool_use_id"))}
    made: list[Unit] = []
    lost: list[dict[str, Any]] = []
    for unit in [*voiced, None]:
        if lost and unit is not None and not unit.own and _ids(unit, "tool_use_id"):
            made.append(unit._replace(item=unit.item | {"content": [*unit.item["content"], *lost]}))
            lost = []
            continue
        if lost:
            made.append(Unit((), own=False, item={"role": "user", "content": lost}))
        if unit is not None:
            made.append(unit)
            calls = [] if unit.own else _ids(unit, "id")
            told = {"type": "tool_result", "content": LOST, "is_error": True}
            lost = [{**told, "tool_use_id": id} for id in calls if id not in known]
    return made


def heard(units: list[Unit]) -> list[Unit]:
    """Return the conversation itself, each call of others with a result."""
    return answered(voices(units))


def _ids(unit: Unit, named_by: str) -> list[str]:
    """Return the calls (named by ``id``), or the answered ones (``tool_use_id``), in a neutral message."""
    kind = "tool_use" if named_by == "id" else "tool_result"
    return [block[named_by] for block in unit.blocks if block.get("type") == kind]


def text_of(content: Any) -> Any:
    """Return the text of a result made of blocks, with other kinds by name; anything else unchanged."""
    if not isinstance(content, list):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)


def blocks_of(words: Words) -> list[dict[str, Any]]:
    """Return the content of events as neutral blocks."""
    return [block for word in words for block in _blocks_of(*word)]


def _blocks_of(type: str, data: dict[str, Any]) -> list[dict[str, Any]]:
    if type == "tool_call":
        names = {"id": data.get("id"), "name": data.get("tool")}
        return [{"type": "tool_use", **names, "input": data.get("params") or {}}]
    if type == "tool_result":
        names = {"tool_use_id": data.get("toolCallId"), "content": data.get("result")}
        failed = {"is_error": True} if data.get("is_error") else {}
        return [{"type": "tool_result", **names, **failed}]
    content = data.get("content")
    if not isinstance(content, str):
        return list(content or ())
    if type != "thinking":
        return [{"type": "text", "text": content}]
    signature = {"signature": data["signature"]} if data.get("signature") else {}
    return [{"type": "thinking", "thinking": content, **signature}]


# The difference between two values, in as few bytes as possible.
#
# An event has the content of a framework's item in our form; beside it is only what this form does
# not contain. These forms are on disk: members may be added, but nothing may be changed.
def difference(base: Any, given: Any) -> dict[str, Any] | None:
    """Return the change that turns ``base`` into ``given``; None if they are the same."""
    if type(base) is type(given):
        if isinstance(given, dict):
            return _of_maps(base, given)
        if isinstance(given, list):
            return _of_lists(base, given)
        if base == given:
            return None
    return {"is": given}


def apply(base: Any, change: dict[str, Any] | None) -> Any:
    """Apply a ``change`` made by ``difference``."""
    if change is None:
        return base
    if "is" in change:
        return change["is"]
    if "text" in change:  # what the log cannot carry as it is
        return json.loads(change["text"])
    if "keep" in change:
        return [*base[: change["keep"]], *change["add"]]
    if isinstance(base, list):
        inside = change.get("at", {})
        return [apply(value, inside.get(str(n))) for n, value in enumerate(base)]
    gone, inside = change.get("del", ()), change.get("in", {})
    kept = {name: apply(base[name], inside.get(name)) for name in base if name not in gone}
    return kept | change.get("set", {})


def _of_maps(base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any] | None:
    inside = {
        name: change
        for name, value in given.items()
        if name in base and (change := difference(base[name], value)) is not None
    }
    parts = {
        "set": {name: value for name, value in given.items() if name not in base},
        "in": inside,
        "del": [name for name in base if name not in given],
    }
    return {name: part for name, part in parts.items() if part} or None


def _of_lists(base: list[Any], given: list[Any]) -> dict[str, Any] | None:
    # For different lengths: the first difference, and everything after it.
    if len(base) != len(given):
        kept = alike(base, given, lambda one, other: difference(one, other) is None)
        return {"keep": kept, "add": given[kept:]} if kept else {"is": given}
    pairs = enumerate(zip(base, given, strict=True))
    inside = {str(n): change for n, (a, b) in pairs if (change := difference(a, b)) is not None}
    return {"at": inside} if inside else None
