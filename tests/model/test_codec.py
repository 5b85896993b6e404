"""The codec of variables: what goes in comes out equal, what cannot is named, nothing is run."""

from __future__ import annotations

import copy
import enum
import math
import pickle  # noqa: TID251 - records must survive it
import threading
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidData
from holdfast.model import Limits, Record, decode_value, encode_data, encode_value
from holdfast.model._values import _KINDS

pytestmark = pytest.mark.req("B-29")


class Colour(enum.Enum):
    RED = "red"
    GREEN = ("g", 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    y: object = None
    norm: float = field(init=False, default=0.0)


@dataclass(frozen=True)
class Fixed:
    tags: frozenset


def stored(value):
    """The value after a trip through the log's own encoder, as a reopened session sees it."""
    encoded, lost = encode_value(value)
    assert lost == []
    raw = encode_data({"name": "x", "value": encoded}, Limits())
    assert b'blob":' not in raw
    return msgspec.json.decode(raw)["value"]


def round_trip(value, *classes):
    """The value as a reopened session gives it."""
    return decode_value(stored(value), classes)


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - the untyped form is the one under test

EXAMPLES = [
    datetime(2025, 11, 15, 10, 30, 1, 5),  # noqa: DTZ001 - naive ones are stored too
    datetime(2025, 11, 15, tzinfo=UTC),
    datetime(2025, 11, 15, 23, tzinfo=timezone(timedelta(hours=-3, minutes=-30, seconds=7))),
    date(1, 1, 1),
    time(23, 59, tzinfo=UTC),
    timedelta(days=-1, microseconds=1),
    b"\x00\xff",
    bytearray(b"abc"),
    {1, "a", (2, 3)},
    frozenset({frozenset(), "x"}),
    (1, [2, (3,)]),
    (),
    Path("a/b c"),
    PurePosixPath("/etc/\x00odd"),
    PureWindowsPath(r"C:\x\y"),
    Decimal("1.10"),
    Decimal("-Infinity"),
    UUID(int=7),
    complex(1.5, -0.0),
    {1: "one", None: 2, (1, 2): 3, 2.5: b"4", 10**5000: 5},
    {"$type": "set", "items": [1]},
    {"$blob": "0" * 64, "bytes": 3},
    {"a\x00b": 1, "\ud800": 2},
    float("inf"),
    float("-inf"),
    2**63,
    -(2**63) - 1,
    10**5000,
    "nul \x00 here",
    "lone \ud800 surrogate",
    -(2**63),
    2**63 - 1,
    -0.0,
    True,
    None,
    [True, 1, "1", 1.0],
]


@pytest.mark.parametrize("value", EXAMPLES, ids=lambda value: type(value).__name__)
def test_each_kind_reads_back_equal_and_of_its_own_type(value):
    """A stored value comes back equal and of the same type."""
    found = round_trip(value)
    assert found == value
    assert type(found) is type(value)


def test_nan_comes_back_as_nan():
    """NaN, which equals nothing, is still NaN after the trip; a complex part too."""
    assert math.isnan(round_trip(float("nan")))
    assert math.isnan(round_trip([complex(float("nan"), 1.0)])[0].real)


@pytest.mark.parametrize(
    "value",
    [
        OrderedDict(a=1),
        defaultdict(list, a=[1]),
        Pair(1, {2}),
        type("Words", (list,), {})([1, 2]),
        type("Name", (str,), {})("x"),
        type("Count", (int,), {})(5),
        type("Ratio", (float,), {})(0.5),
        type("Moment", (datetime,), {})(2025, 1, 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_subclasses_of_builtins_read_back_equal(value):
    """A subclass of a builtin is stored as what it extends, which equals it."""
    assert round_trip(value) == value


def test_plain_json_is_stored_as_it_is():
    """Values that JSON has a form for are not tagged: the log stays readable."""
    plain = {"a": [1, 2.5, "x", None, True, {"b": []}]}
    assert encode_value(plain) == (plain, [])


def test_a_dataclass_comes_back_as_itself_only_when_its_class_is_given():
    """Without the class a record with the same fields comes back; with it, the same object."""
    point = Point(1, {2: Fixed(frozenset({3}))})
    point.norm = 2.5
    record = round_trip(point)
    assert isinstance(record, Record)
    assert (record.x, record.norm, record.y[2].tags) == (1, 2.5, frozenset({3}))
    assert round_trip(point, Point, Fixed) == point
    assert round_trip(point, Point, Fixed).norm == 2.5


def test_a_record_is_stored_again_as_what_it_was():
    """Storing a record writes the bytes of the original, so the class can be given later."""
    record = round_trip(Point(1))
    assert stored(record) == stored(Point(1))
    assert round_trip(record, Point) == Point(1)


def test_records_compare_copy_and_pickle():
    """A record is an ordinary value: equal by class and fields, copied and pickled whole."""
    record = round_trip(Point(1, [2]))
    assert copy.deepcopy(record) == pickle.loads(pickle.dumps(record)) == record
    assert record != Record("other.Class", {"x": 1, "y": [2], "norm": 0.0})
    assert record != {"x": 1, "y": [2], "norm": 0.0}
    assert repr(record).endswith("Point', {'x': 1, 'y': [2], 'norm': 0.0})")


def test_a_class_that_changed_since_still_gives_its_fields():
    """Fields that went are dropped, new ones get their default; if that fails, a record comes."""
    name = f"{Point.__module__}.Point"
    gone = {"$type": "object", "class": name, "fields": {"x": 1, "z": 2}}
    missing = {"$type": "object", "class": name, "fields": {"y": 2}}
    assert decode_value(gone, [Point]) == Point(1)
    assert decode_value(missing, [Point]) == Record(name, {"y": 2})


def test_enum_members_need_their_class_to_come_back():
    """With the class the same member comes back, without it its plain value."""
    assert round_trip([Colour.GREEN, Level.HIGH], Colour, Level) == [Colour.GREEN, Level.HIGH]
    assert round_trip(Colour.GREEN, Colour) is Colour.GREEN
    assert round_trip([Colour.RED, Colour.GREEN, Level.HIGH]) == ["red", ("g", 2), 3]


def test_an_enum_that_changed_since_gives_the_plain_value():
    """A member that no longer exists, or a class that is no enum now, gives the stored value."""
    name = f"{Colour.__module__}.Colour"
    gone = {"$type": "enum", "class": name, "name": "BLUE", "value": "blue"}
    assert decode_value(gone, [Colour]) == "blue"
    assert decode_value({**gone, "class": class_of(Point)}, [Point]) == "blue"
    held = {"$type": "object", "class": name, "fields": {}}
    assert decode_value(held, [Colour]) == Record(name, {})


def class_of(kind):
    """The stored name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


class NoOffset(tzinfo):
    def utcoffset(self, when):
        raise RuntimeError


def test_what_cannot_be_stored_is_named_and_left_out():
    """Each part without a stored form is named by its path, the rest is kept."""
    cycle: list = [1]
    cycle.append(cycle)
    value = {
        "ok": 1,
        "lock": threading.Lock(),
        "call": [0, lambda: None, 2],
        "cycle": cycle,
        "set": {1, test_nan_comes_back_as_nan},
        "odd": datetime(2025, 1, 1, tzinfo=NoOffset()),
        "keys": {1: "a", 2: object(), Colour: "b"},
        "class": Point,
        "inner": Point(1, iter([])),
    }
    encoded, lost = encode_value(value)
    assert lost[:5] == ["$.lock", "$.call[1]", "$.cycle[1]", "$.set{}", "$.odd"]
    assert lost[5:] == ["$.keys[2]", "$.keys[EnumType]", "$.class", "$.inner.y"]
    found = decode_value(encoded)
    assert found.pop("inner").x == 1
    assert found == {"ok": 1, "call": [0, None, 2], "cycle": [1, None], "set": {1}, "keys": {1: "a"}}


def test_a_value_that_cannot_be_stored_at_all_is_null():
    """The path of the value itself is `$`, and it is named once."""
    assert encode_value(threading.Lock()) == (None, ["$"])
    assert encode_value(NoValue.LOCK) == (None, ["$"])
    assert encode_value(NoPath()) == (None, ["$"])


class NoValue(enum.Enum):
    LOCK = threading.Lock()


class NoPath:
    def __fspath__(self):
        return "a"


def test_the_same_object_twice_is_no_cycle():
    """Only a value inside itself is a cycle; sharing is stored twice."""
    shared = [1]
    assert encode_value([shared, shared, (shared,)])[1] == []


class Hostile(dict):
    def __iter__(self):
        raise RuntimeError

    items = keys = __iter__


def test_a_value_whose_own_methods_fail_does_no_harm():
    """Overridden methods are not consulted, and one that must be and fails loses only itself."""
    assert encode_value(Hostile(a=1)) == ({"a": 1}, [])


@given(depth=st.integers(0, 80), form=st.sampled_from([list, tuple, dict, "pairs", "point", "enum"]))
def test_nesting_beyond_the_limit_is_lost_not_an_error(depth, form):
    """However deep a value is, what is stored can be appended, and the loss is named."""
    value: object = {1.5, Decimal(2)} if depth % 2 else complex(math.inf, 1.0)
    for _ in range(depth):
        value = {
            list: lambda inner: [inner],
            tuple: lambda inner: (inner,),
            dict: lambda inner: {"k": inner},
            "pairs": lambda inner: {1: inner},
            "point": Point,
            "enum": lambda inner: [Colour.GREEN, inner, Path("a"), frozenset({date(2025, 1, 1)})],
        }[form](value)
    encoded, lost = encode_value(value)
    encode_data({"name": "x", "value": encoded}, Limits())
    assert depth_of(encoded) <= 60
    assert bool(lost) == (decode_value(encoded, [Point, Colour]) != value)


def depth_of(value):
    """How many maps and lists lie inside each other."""
    if isinstance(value, dict):
        return 1 + max((depth_of(item) for item in value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@pytest.mark.parametrize("levels", range(6))
@pytest.mark.parametrize(
    "value",
    [b"", (1,), {1}, {1: 1}, {"a": 1}, [1], Point(1), Colour.RED, Record("a.B", {"$": 1})],
    ids=lambda value: type(value).__name__,
)
def test_a_stored_form_never_exceeds_the_levels_it_was_given(levels, value):
    """Tags count as nesting: the stored form fits, or the value is lost."""
    encoded, lost = encode_value(value, depth_max=levels)
    assert depth_of(encoded) <= levels
    assert lost in ([], ["$"])
    assert (lost == []) == (decode_value(encoded, [Point, Colour]) == value)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | st.datetimes(timezones=st.none() | st.timezones().map(lambda zone: UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.sampled_from([Colour.RED, Colour.GREEN, Level.HIGH])
    | st.text("abc/.").map(PurePosixPath)
    # Of some shares pathlib itself makes another path, given its text.
    | st.text("abc\\:").map(PureWindowsPath).filter(lambda p: PureWindowsPath(str(p)) == p)
)
KEYS = st.recursive(
    LEAVES.filter(lambda value: not isinstance(value, bytearray)),
    lambda inner: st.lists(inner, max_size=2).map(tuple) | st.frozensets(inner, max_size=2),
    max_leaves=3,
)
VALUES = st.recursive(
    LEAVES | st.binary().map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.sampled_from(["$type", "$blob", "$$blob"]), inner)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
        | inner.map(lambda value: Point(1, value))
    ),
    max_leaves=12,
)


@given(VALUES)
def test_any_nested_value_reads_back_equal(value):
    """Whatever is nested in whatever: stored, read and equal, and the same bytes each time."""
    assert round_trip(value, Colour, Level, Point) == value
    assert stored(value) == stored(round_trip(value, Colour, Level, Point))


TAGS = [*_KINDS, "nonsense"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.fixed_dictionaries(
            {"$type": st.sampled_from(TAGS) | inner},
            optional={
                "value": inner | st.sampled_from(["zz", "nan", "1", "0x1_0", "2025-01-01"]),
                "items": inner | st.lists(st.lists(inner, min_size=2, max_size=2), max_size=2),
                "class": inner | st.just(class_of(Point)) | st.just("os.system"),
                "fields": inner,
                "flavour": inner | st.just("posix"),
            },
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_hostile_stored_data_gives_values_never_a_crash(value):
    """Any JSON decodes to something that can be stored again without loss."""
    before = copy.deepcopy(value)
    found = decode_value(value, [Point, Colour])
    assert value == before
    assert encode_value(found)[1] == []


@pytest.mark.parametrize(
    "value",
    [
        {"$type": "set", "items": [[1]]},
        {"$type": "set", "items": "abc"},
        {"$type": "dict", "items": [[1, 2, 3]]},
        {"$type": "dict", "items": ["ab"]},
        {"$type": "int", "value": "0x1_0"},
        {"$type": "int", "value": "12"},
        {"$type": "float", "value": "1.5"},
        {"$type": "timedelta", "value": [10**10, 0, 0]},
        {"$type": "timedelta", "value": [1.5, 0, 0]},
        {"$type": "bytes", "value": "?"},
        {"$type": "uuid", "value": 7},
        {"$type": "decimal", "value": "1e5 apples"},
        {"$type": "path", "value": "a", "flavour": "amiga"},
        {"$type": "object", "class": "os.system", "fields": [1]},
        {"$type": ["set"], "items": []},
        {"$type": "from a later version", "value": 1},
        {"$type": "complex", "value": [1, 2]},
        {"$type": "tuple"},
    ],
    ids=str,
)
def test_a_malformed_tag_stays_the_plain_map_that_it_is(value):
    """What the codec never wrote is given as recorded."""
    assert decode_value(value) == value


def test_a_tag_never_imports_or_calls_what_it_names():
    """A class named in the data is not looked up anywhere: only its fields come back."""
    hostile = {"$type": "object", "class": "subprocess.Popen", "fields": {"args": ["true"]}}
    assert decode_value(hostile) == Record("subprocess.Popen", {"args": ["true"]})


def test_nesting_too_deep_to_follow_is_a_data_error():
    """Ten thousand levels give InvalidData, not a crash of the interpreter."""
    value: list = []
    for _ in range(10_000):
        value = [value]
    with pytest.raises(InvalidData, match="too deep"):
        decode_value(value)
