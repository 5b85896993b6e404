"""Hypothesis strategies for events and logs, and for damage to the bytes of a log.

For the property tests of stores, adapters and tools that work with sessions. Hypothesis is needed
only when one of these is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from holdfast.model import BLOB_KEY, BODIES, FORMAT_VERSION, Event, encode_line, line_body

if TYPE_CHECKING:
    from hypothesis import strategies as st
    from hypothesis.strategies import DrawFn, SearchStrategy
else:

    class _Strategies:
        """Hypothesis's strategies, loaded when one of them is first used."""

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("hypothesis.strategies"), name)

    st = _Strategies()

__all__ = ["damaged_bytes", "encode_log", "event_data", "events", "json_values", "logs"]

_TIME_MS_MAX = 1 << 42  # some way beyond the year 2100
_INTEGER_MAX = 1 << 53
_DIGITS_MAX = 64
_SHARED = frozenset({"metadata", "usage", "raw"})


@cache
def json_values(max_leaves: int = 20) -> SearchStrategy[Any]:
    """Return values that an event may contain: any JSON without NUL and lone surrogates."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.integers(1 - 10**_DIGITS_MAX, 10**_DIGITS_MAX - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _texts()
    )
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(_keys(), inner), max_leaves=max_leaves)


@cache
def event_data(type: str) -> SearchStrategy[dict[str, Any]]:
    """Return data for an event of this type: the members it needs, perhaps others and unknown ones."""
    fields = msgspec.structs.fields(BODIES[type]) if type in BODIES else ()
    members = {field.name: _member(field) for field in fields}
    required = {field.name: members[field.name] for field in fields if field.required}
    optional = {name: members[name] for name in members.keys() - required - _SHARED}
    shared = {name: members[name] for name in members.keys() & _SHARED - required.keys()}
    # Common and unknown members are added only now and then, because they slow down the search.
    extras = st.fixed_dictionaries({}, optional=shared) | st.dictionaries(
        _keys().filter(lambda key: key not in members), json_values(4), max_size=3
    )
    return st.builds(
        lambda extra, data: extra | data,
        st.integers(0, 9).flatmap(lambda roll: st.just({}) if roll else extras),
        st.fixed_dictionaries(required, optional=optional),
    )


def events(type: str | None = None) -> SearchStrategy[Event]:
    """Return single events of the given type, or of any type, including unknown ones."""

    @st.composite
    def build(draw: DrawFn) -> Event:
        name = type or draw(st.sampled_from([*BODIES, "x.unknown"]))
        return Event.make(
            name,
            draw(event_data(name)),
            timestamp=draw(st.integers(0, _TIME_MS_MAX)),
            run=draw(st.none() | st.sampled_from(["run-1", "run-2"])),
            key=draw(st.none() | _texts(max_size=20)),
        )

    return build()


def logs(max_turns: int = 4) -> SearchStrategy[list[Event]]:
    """Return whole conversations as an agent records them: turns, parallel tool calls, state, numbered.

    Each tool call has one result, in any order, within its turn; ids and keys occur once.
    """

    @st.composite
    def build(draw: DrawFn) -> list[Event]:
        found = [("session_start", {"format": FORMAT_VERSION})]
        for turn in range(draw(st.integers(0, max_turns))):
            found += draw(_turns(turn))
        return [Event.make(type, data, seq=seq, timestamp=seq) for seq, (type, data) in enumerate(found)]

    return build()


def encode_log(events: Sequence[Event]) -> bytes:
    """Return the bytes of a log with these events, numbered from 0."""
    crc, lines = 0, []
    for seq, event in enumerate(events):
        line, crc = encode_line(seq, line_body(event), crc)
        lines.append(line)
    return b"".join(lines)


def damaged_bytes(log: bytes, max_accidents: int = 3) -> SearchStrategy[bytes]:
    """Return logs with random damage, sometimes without any."""

    @st.composite
    def build(draw: DrawFn) -> bytes:
        found = log
        for _ in range(draw(st.integers(0, max_accidents))):
            accident = draw(st.sampled_from(_ACCIDENTS))
            start, stop = sorted(draw(st.tuples(*[st.integers(0, len(found))] * 2)))
            found = accident(found, start, stop)
        return found

    return build()


def _flip(log: bytes, start: int, stop: int) -> bytes:
    flipped = bytes([log[start] ^ (1 << stop % 8)]) if start < len(log) else b""
    return log[:start] + flipped + log[start + 1 :]


def _whole_lines(change: Callable[[list[bytes], int, int], object]) -> Callable[..., bytes]:
    """Return a kind of damage that affects whole lines instead of bytes."""

    def strike(log: bytes, start: int, stop: int) -> bytes:
        lines = log.splitlines(keepends=True)
        if lines:
            change(lines, start % len(lines), stop % len(lines))
        return b"".join(lines)

    return strike


def _swap(lines: list[bytes], a: int, b: int) -> None:
    lines[a], lines[b] = lines[b], lines[a]


_ACCIDENTS: list[Callable[[bytes, int, int], bytes]] = [
    _flip,
    lambda log, start, _: log[:start],  # cut off
    lambda log, start, stop: log[:start] + log[stop:],  # a part is missing
    lambda log, start, stop: log[:start] + bytes(stop - start) + log[stop:],  # zeros instead
    lambda log, start, stop: log[:start] + bytes(stop - start) + log[start:],  # zeros between
    lambda log, start, stop: log[:stop] + log[start:],  # a part twice
    lambda log, start, _: log.replace(b"\n", b"", 1 + start % 3),  # lines glued together
    lambda log, start, _: log[:start] + b"\n" + log[start:],
    _whole_lines(lambda lines, a, b: lines.insert(a, lines[b])),
    _whole_lines(lambda lines, a, _: lines.pop(a)),
    _whole_lines(lambda lines, a, b: lines.insert(a, lines[b][: len(lines[b]) // 2])),
    _whole_lines(_swap),
]


@cache
def _turns(turn: int) -> SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    @st.composite
    def build(draw: DrawFn) -> list[tuple[str, dict[str, Any]]]:
        found = [("turn_start", {"turn": turn}), ("user", draw(event_data("user")))]
        for step in range(draw(st.integers(0, 2))):
            found += draw(_tool_steps(f"call-{turn}-{step}"))
        state = st.sampled_from(["variable_set", "memory_set", "todo_update", "usage", "title"])
        found += [(type, draw(event_data(type))) for type in [*draw(st.lists(state, max_size=2)), "assistant"]]
        return [*found, ("turn_end", {"turn": turn, "reason": "completed"})]

    return build()


@cache
def _tool_steps(prefix: str) -> SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    """Return some calls at once, then their results in any order."""

    @st.composite
    def build(draw: DrawFn) -> list[tuple[str, dict[str, Any]]]:
        ids = [f"{prefix}-{index}" for index in range(draw(st.integers(1, 3)))]
        calls = [("tool_call", draw(event_data("tool_call")) | {"id": id}) for id in ids]
        # Tools run concurrently, and end in any order.
        order = draw(st.permutations(ids))
        results = [("tool_result", draw(event_data("tool_result")) | {"toolCallId": id}) for id in order]
        return calls + results

    return build()


@cache
def _texts(max_size: int | None = None) -> SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=max_size)


@cache
def _keys() -> SearchStrategy[str]:
    return _texts(max_size=12) | st.sampled_from([BLOB_KEY, f"${BLOB_KEY}", "crc", "seq", "type"])


def _member(field: msgspec.structs.FieldInfo) -> SearchStrategy[Any]:
    """Return values for one member of an event's data, by its type in the body."""
    parts = get_args(field.type)
    # The only union of a text and a list is a message's content.
    if str not in parts or not any(get_origin(part) is list for part in parts):
        return _of_type(field.type)
    return _texts() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": _texts()}), max_size=3)


@cache
def _of_type(kind: Any) -> SearchStrategy[Any]:
    simple: dict[Any, SearchStrategy[Any]] = {
        Any: json_values(6),
        str: _texts(),
        int: st.integers(0, _INTEGER_MAX),
        float: st.floats(0, allow_infinity=False),
        bool: st.booleans(),
        type(None): st.none(),
        dict: st.dictionaries(_keys(), json_values(4), max_size=3),
    }
    found = simple.get(get_origin(kind) or kind)
    if found is not None:
        return found
    if get_origin(kind) is list:
        return st.lists(_of_type(get_args(kind)[0]), max_size=4)
    return st.one_of([_of_type(part) for part in get_args(kind)])
