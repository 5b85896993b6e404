"""One step from data to line, and that its compiled form gives the very same bytes."""

from __future__ import annotations

import importlib
import math
import random
import sys
import types
import zlib
from pathlib import Path
from time import time_ns

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidData
from holdfast.model import (
    Event,
    Limits,
    _maker,
    encode_data,
    encode_event_line,
    encode_line,
    line_body,
    line_maker,
    make_line,
)
from holdfast.model._line import line_head
from holdfast.testing.strategies import json_values

SOURCE = Path(_maker.__file__).with_name("_line_maker.c")
DEPTH = Limits().depth_max
STAMP = 1_701_234_568_456


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Map(dict):
    pass


class Point(msgspec.Struct):
    x: int


def clock() -> int:
    return STAMP * 1_000_000 + 999_999


@pytest.fixture(scope="module")
def compiled():
    """The compiled step; bound to what the pure one uses."""
    try:
        found = importlib.import_module(_maker._COMPILED)
    except ImportError:
        pytest.skip("the compiled part was not built here: no compiler, or HOLDFAST_PURE")
    if zlib.crc32(SOURCE.read_bytes()) != found.SOURCE:
        pytest.skip("the compiled part is of another source: install the project again")
    return line_maker()


@pytest.fixture(autouse=True, scope="module")
def known_type():
    line_head("user")


def nested(depth: int, *, in_lists: bool) -> dict:
    value = 1
    for _ in range(depth - 1):
        value = [value] if in_lists else {"a": value}
    return {"a": value}


odd = st.one_of(
    st.text(st.characters(), max_size=20),  # lone surrogates and NUL among them
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.binary(max_size=3),
    st.text(max_size=5).map(Text),
    st.integers(-5, 5).map(Whole),
    st.floats(0, 1).map(Real),
    st.sampled_from([Point(1), (1, 2), {1}, None, True, False, "\x7f", "\0", "\\", "é\n", "💾"]),
)
keys = st.one_of(
    st.text(st.characters(), max_size=6), st.sampled_from(["a", "$blob", "$", "a$", Text("role"), 1, None, "k\0"])
)
anything = st.recursive(
    odd,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(st.text(max_size=3), inner, max_size=2).map(Map),
    ),
    max_leaves=12,
)
things = st.one_of(st.dictionaries(keys, anything, max_size=4), anything, json_values())


def recorded(data) -> bytes | str:
    """The bytes of data as an append gives them, or why it gives none."""
    try:
        return encode_data(data, Limits())
    except InvalidData as error:
        return str(error)


@pytest.mark.parametrize("data", [{}, {"role": "user", "content": "hello"}, {"a": [1, {"b": 1.5}]}])
def test_the_step_makes_the_line_that_the_parts_of_it_make(data):
    """Event, line and checksum are those of encoding the data and then the line."""
    event, line, crc = make_line("user", data, 7, 123, clock, DEPTH)
    assert (line, crc) == encode_event_line(7, "user", STAMP, event.raw, 123)
    assert event == Event("user", 7, STAMP, encode_data(data, Limits()))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("a.new.type", {}),
        (["user"], {}),
        ("user", [1]),
        ("user", {"a": math.nan}),
        ("user", {"a": "\ud800"}),
        ("user", {"$blob": "x"}),
        ("user", nested(DEPTH + 1, in_lists=False)),
    ],
)
def test_what_is_unusual_is_left_to_who_looks_closer(kind, data):
    """No line is made of a type that is new, or of data that is not plain."""
    assert make_line(kind, data, 0, 0, clock, DEPTH) is None


@given(things)
@example({"a": -0.0, "b": 1e16, "c": 5e-324, "d": 123456789.125})
@example({"a": [1 << 63]})
@example({"a": [(1 << 63) - 1, -(1 << 63)]})
@example({"".join(map(chr, range(1, 0x100))).replace("$", ""): "".join(map(chr, range(1, 0x900)))})
@example({"a": "x" * 70_000, "b": "\x01" * 3_000, "c": '"' * 9_000})
def test_both_forms_give_the_same_for_whatever_they_are_given(compiled, data):
    """The compiled step gives what the pure one gives, and nothing where it is not sure."""
    pure, quick = (make("user", data, 5, 9, clock, DEPTH) for make in (make_line, compiled))
    assert quick is None or quick == pure
    if quick is not None:
        assert recorded(data) == quick[0].raw
        assert type(quick[0].raw) is type(quick[1]) is bytes


@given(json_values())
def test_the_compiled_step_takes_all_that_is_plain(compiled, value):
    """It is not the long way in disguise: plain JSON goes through it."""
    data = {"content": value}
    pure = make_line("user", data, 5, 9, clock, DEPTH)
    assert compiled("user", data, 5, 9, clock, DEPTH) == pure


@pytest.mark.parametrize("in_lists", [False, True])
def test_both_forms_draw_the_line_at_the_same_depth(compiled, in_lists):
    """What is nested as deep as it may be is taken, one level more is not."""
    for limit in (1, 2, DEPTH, 250, 10_000):
        for depth in (1, 2, 3, DEPTH, DEPTH + 1, 250):
            data = nested(depth, in_lists=in_lists)
            made = [make("user", data, 5, 9, clock, limit) for make in (make_line, compiled)]
            assert made[0] == made[1]
            assert (made[0] is not None) == (depth <= limit)


def test_the_checksum_is_the_same_for_lines_of_every_length(compiled):
    """From the shortest to several kilobytes, after any checksum."""
    source = random.Random(5)
    for size in (*range(200), *range(200, 9_000, 97)):
        data, crc = {"a": "x" * size}, source.getrandbits(32)
        seq = source.getrandbits(source.randrange(1, 63))
        made = make_line("user", data, seq, crc, time_ns, DEPTH)
        stamp = made[0].timestamp
        assert compiled("user", data, seq, crc, lambda: stamp * 1_000_000, DEPTH) == made  # noqa: B023


def test_a_time_before_1970_is_rounded_as_python_does(compiled):
    """The same millisecond on both sides of zero."""
    for ns in (-1, -999_999, -1_000_000, -1_000_001, 0, 999_999, 1_000_000):
        told = make_line("user", {}, 0, 0, lambda: ns, DEPTH)  # noqa: B023
        assert compiled("user", {}, 0, 0, lambda: ns, DEPTH) == told  # noqa: B023


def test_data_that_changes_meanwhile_is_no_danger(compiled):
    """Whatever runs during the step may change the data: it is read before, or held."""
    data = {"a": ["x" * 100] * 50, "b": {"c": 1.5}}

    def meddling() -> int:
        data.clear()
        return 0

    event, _, _ = compiled("user", data, 0, 0, meddling, DEPTH)
    assert event.data == {"a": ["x" * 100] * 50, "b": {"c": 1.5}}
    assert data == {}


def test_errors_of_the_clock_and_wrong_arguments_are_raised(compiled):
    """What is not the data's fault is not swallowed, and breaks nothing."""
    with pytest.raises(ZeroDivisionError):
        compiled("user", {}, 0, 0, lambda: 1 // 0, DEPTH)
    for wrong in (
        ("user", {}, 0, 0, clock),
        ("user", {}, "0", 0, clock, DEPTH),
        ("user", {}, 0, None, clock, DEPTH),
        ("user", {}, 0, 0, clock, "deep"),
        ("user", {}, 0, 0, lambda: "now", DEPTH),
        ("user", {}, 0, 0, None, DEPTH),
    ):
        with pytest.raises(TypeError):
            compiled(*wrong)
    for big in (1 << 80, -1):
        with pytest.raises(OverflowError):
            compiled("user", {}, 1 << 80, big, clock, DEPTH)


def test_the_step_keeps_nothing_alive(compiled):
    """Reference counts are as before, whether a line was made or not."""
    for data in ({"a": ["text", 1.5, {"b": None}]}, {"a": math.nan}, {"a": "\ud800"}, {"a": {1: 2}}):
        value = data["a"]
        before = sys.getrefcount(data), sys.getrefcount(value), sys.getrefcount(Event)
        for _ in range(50):
            compiled("user", data, 300, 70_000, clock, DEPTH)
        assert (sys.getrefcount(data), sys.getrefcount(value), sys.getrefcount(Event)) == before


def stand_in(monkeypatch, abi) -> types.ModuleType:
    module = types.ModuleType("stand_in")
    module.ABI = abi
    module.bind = lambda *given: setattr(module, "bound", given)
    module.make_line = lambda *given: None
    monkeypatch.setitem(sys.modules, "stand_in", module)
    return module


def test_a_compiled_part_of_this_code_is_used(monkeypatch):
    """It gets the class, the heads and the encoder that the pure step uses."""
    module = stand_in(monkeypatch, _maker._ABI)
    found = line_maker(compiled="stand_in")
    assert found is module.make_line
    assert module.bound == (Event, _maker.LINE_HEADS, _maker.encode_plain)


@pytest.mark.parametrize("abi", [0, None, "1", -1])
def test_a_compiled_part_of_other_code_is_not_used(monkeypatch, abi):
    """One that was left by another version does no harm."""
    stand_in(monkeypatch, abi)
    assert line_maker(compiled="stand_in") is make_line


def test_without_a_compiled_part_the_pure_step_is_used(monkeypatch):
    """Where none was built, and where none is wanted."""
    assert line_maker(compiled="holdfast.model._never_built") is make_line
    stand_in(monkeypatch, _maker._ABI)
    assert line_maker(pure=True, compiled="stand_in") is make_line


@pytest.mark.parametrize(("run", "key"), [("r-1", None), (None, "k"), ('ä"', "k")])
def test_a_line_with_a_run_or_a_key_is_the_general_one(run, key):
    """The step takes a run and a key too, and makes the line that the general way makes."""
    event, line, crc = make_line("user", {"a": 1}, 7, 99, clock, DEPTH, run, key)
    assert event == Event.make("user", {"a": 1}, seq=7, timestamp=STAMP, run=run, key=key)
    assert (line, crc) == encode_line(7, line_body(event), 99)


def test_a_run_that_is_none_makes_no_line():
    """What no reader would take back as a run or key is refused."""
    with pytest.raises(InvalidData, match="run"):
        make_line("user", {}, 0, 0, clock, DEPTH, "a\0b", None)
