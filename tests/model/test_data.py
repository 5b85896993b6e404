"""What an event may hold, and what is refused before anything is written."""

from __future__ import annotations

import collections
import enum
import json
import math
from typing import NamedTuple

import pytest
from hypothesis import given

from holdfast.errors import InvalidData, TooLarge
from holdfast.model import (
    Event,
    Limits,
    _data,
    blob_name,
    decode_json,
    encode_data,
    encode_with_blobs,
    fill_references,
    is_reference,
    read_blob,
)
from holdfast.testing.strategies import json_values

LIMITS = Limits()
SMALL = Limits(blob_bytes_min=300, blob_bytes_max=1_000)


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Level(enum.StrEnum):
    HIGH = "high"


class Share(float, enum.Enum):
    HALF = 0.5


class Pair(NamedTuple):
    a: int
    b: tuple


class Pretender:
    """Equal to a string that is a known key, and none."""

    def __eq__(self, other):
        return other == "content"

    def __hash__(self):
        return hash("content")


def nest(levels: int, kind: type = dict):
    """A map with this many levels of maps or lists, itself being the first."""
    value = {} if kind is dict else []
    for _ in range(levels - 2):
        value = {"a": value} if kind is dict else [value]
    return {"a": value}


@given(json_values())
def test_json_comes_back_as_it_was(value):
    """Any JSON value is recorded and read back equal, also with keys that look like ours."""
    found = Event.make("user", {"value": value}).data["value"]
    assert found == value
    assert repr(found) == repr(value)  # 1 is not 1.0, and -0.0 not 0.0


@given(json_values())
def test_recorded_json_is_json_for_everyone(value):
    """Another parser reads the same value out of the bytes."""
    raw = encode_data({"value": [value]}, LIMITS)
    assert "$" in str(value) or json.loads(raw) == {"value": [value]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "inf"),
        (Real("nan"), "nan"),
        ("a\0b", "NUL"),
        ({"k\0": 1}, "NUL"),
        ({"a": {"k\0": 1}}, "NUL"),
        (["\0"], "NUL"),
        ("\ud800", "surrogate"),
        ({"\udc00": 1}, "surrogate"),
        ("x\ud83d", "surrogate"),
        ({1: 2}, "keys must be strings"),
        ({None: 2}, "keys must be strings"),
        ({("a",): 2}, "keys must be strings"),
        (10**64, "digits"),
        (-(10**64), "digits"),
        (10**4300, "digits"),
        (10**5000, "digits"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (object(), "object"),
        (1j, "complex"),
        ({Pretender(): 1}, "JSON|keys"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_has_no_faithful_form_for_is_refused(value, words):
    """A typed error that names the trouble; never a silent null, never a crash."""
    for data in ({"value": value}, {"a": [{"b": value}]}):
        with pytest.raises(InvalidData, match=words):
            encode_data(data, LIMITS)
        with pytest.raises(InvalidData):
            encode_with_blobs(data, LIMITS)
        with pytest.raises(InvalidData):
            Event.make("user", data)


def test_the_message_names_the_place():
    """A user finds the value in a large structure."""
    with pytest.raises(InvalidData, match=r"data\.a\[1\]\.b is nan"):
        encode_data({"a": [0, {"b": math.nan}]}, LIMITS)


@pytest.mark.parametrize("data", [None, [], "text", 5, [("a", 1)]])
def test_data_is_a_map(data):
    """Nothing else can be the data of an event."""
    with pytest.raises(InvalidData, match="map"):
        encode_data(data, LIMITS)
    with pytest.raises(InvalidData, match="map"):
        encode_with_blobs(data, LIMITS)


@pytest.mark.parametrize("kind", [dict, list])
def test_nesting_is_bounded(kind):
    """64 levels are taken, 65 are not, and 100,000 do not crash."""
    raw = encode_data(nest(64, kind), LIMITS)
    assert decode_json(raw) == nest(64, kind)
    for levels in (65, 66, 100_000):
        with pytest.raises(InvalidData, match="64 levels"):
            encode_data(nest(levels, kind), LIMITS)
        with pytest.raises(InvalidData, match="64 levels"):
            encode_with_blobs(nest(levels, kind), LIMITS)


def test_a_value_that_holds_itself_is_refused():
    """A cycle is nesting without end, however wide."""
    cycle: list = []
    cycle += [cycle, cycle, cycle]
    with pytest.raises(InvalidData, match="levels"):
        encode_data({"a": cycle}, LIMITS)


def test_the_deepest_limit_that_can_be_set_works():
    """A raised limit is honoured, and a deep stack below it gives a typed error."""
    deep = Limits(depth_max=250)
    assert encode_data(nest(250, list), deep)

    def below(frames: int):
        return encode_data(nest(250, list), deep) if frames == 0 else below(frames - 1)

    with pytest.raises(InvalidData, match="levels"):
        below(700)


@pytest.mark.parametrize("number", [10**64 - 1, 1 - 10**64, 2**63, -(2**63) - 1, 2**63 - 1, 0])
def test_long_integers_are_kept_exactly(number):
    """64 digits are taken; none becomes a float."""
    assert decode_json(encode_data({"n": number}, LIMITS)) == {"n": number}


def test_values_of_derived_classes_are_stored_as_what_they_extend():
    """Strings, numbers, maps and lists of other classes lose only their class."""
    data = collections.OrderedDict(text=Text("t"), whole=Whole(5), real=Real(1.5), level=Level.HIGH, half=Share.HALF)
    data["pair"] = Pair(1, (2,))
    data[Text("key")] = collections.defaultdict(list, {"x": [True, None]})
    assert decode_json(encode_data(data, LIMITS)) == {
        "text": "t",
        "whole": 5,
        "real": 1.5,
        "level": "high",
        "half": 0.5,
        "pair": [1, [2]],
        "key": {"x": [True, None]},
    }


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"{", b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b'"\xff"', b"01"),
        *(b"'a'", b"[" * 100_000, b"1" * 5_000, b"{} {}", b'{"a":1,}', b"\xef\xbb\xbf{}", b'"\x00"'),
    ],
)
def test_recorded_bytes_that_are_not_json_give_a_typed_error(raw):
    """InvalidData, whatever they are."""
    with pytest.raises(InvalidData):
        decode_json(raw)


# --- blobs ---


def test_big_texts_leave_the_line():
    """A long text becomes a blob of text wherever it is; the rest stays."""
    data = {"result": {"a": ["x" * 301, "short"]}, "id": "c"}
    raw, blobs = encode_with_blobs(data, SMALL)
    (payload,) = blobs.values()
    assert payload == b"x" * 301
    reference = {"$blob": blob_name(payload), "bytes": 301, "media": "text/plain"}
    assert decode_json(raw) == {"result": {"a": [reference, "short"]}, "id": "c"}


def test_members_of_many_small_parts_leave_the_line():
    """A member that is big as a whole becomes a blob of JSON."""
    raw, blobs = encode_with_blobs({"list": list(range(120)), "id": "c"}, SMALL)
    (name,) = blobs
    reference = {"$blob": name, "bytes": len(blobs[name]), "media": "application/json"}
    assert decode_json(raw) == {"list": reference, "id": "c"}
    assert read_blob(blobs[name], "application/json") == list(range(120))


def test_small_data_has_no_blobs():
    """What fits stays in the line."""
    assert encode_with_blobs({"a": ("b", 1)}, SMALL) == (b'{"a":["b",1]}', {})


def test_a_part_above_the_limit_is_refused():
    """TooLarge says which limit and how much there was."""
    with pytest.raises(TooLarge) as caught:
        encode_with_blobs({"a": "x" * 1_001}, SMALL)
    assert caught.value.limit == "blob_bytes_max"
    assert caught.value.needed_bytes == 1_001


@pytest.mark.parametrize("text", ["\ud800" * 400, "\ud800"])
def test_a_lone_surrogate_in_a_blob_is_refused(text):
    """Big or small, the text is not valid Unicode."""
    with pytest.raises(InvalidData, match="surrogate"):
        encode_with_blobs({"a": text}, SMALL)


@pytest.mark.parametrize(
    ("payload", "media"), [(b"\xff", "text/plain"), (b"{", "application/json"), (b"x", "image/png"), (b"x", "None")]
)
def test_blobs_that_cannot_be_read_give_a_typed_error(payload, media):
    """Bytes of another kind than they claim, and kinds of later versions."""
    with pytest.raises(InvalidData):
        read_blob(payload, media)


def test_only_a_reference_is_one():
    """A name of 64 digits and a size; a user's own map with such a key is none."""
    reference = {"$blob": "0" * 64, "bytes": 5}
    assert is_reference(reference)
    for other in ({"$blob": "0" * 64}, {"$blob": "x", "bytes": 1}, {"$blob": 5, "bytes": 1}, [], 5):
        assert not is_reference(other)
    lookalike = Event.make("user", {"v": [reference, {"a": reference}]}).data["v"]
    assert lookalike == [reference, {"a": reference}]
    assert not is_reference(lookalike[0])
    assert not is_reference(lookalike[1]["a"])


@pytest.mark.parametrize("key", ["$blob", "$$blob", "$$$blob", "$blobs", "blob", "$"])
def test_keys_that_look_like_ours_are_escaped_and_come_back(key):
    """In the line `$blob` is always a reference; in the data keys are the user's."""
    data = {key: 1, "list": [{key: {key: 2}}]}
    event = Event.make("user", data)
    assert (b'"$blob"' in event.raw) is False
    assert event.data == data


def test_references_are_filled_down_to_the_last():
    """A blob of JSON may hold references and escaped keys again; a user's lookalike stays."""
    mine = {"$blob": "0" * 64, "bytes": 5}
    data = {"big": {"text": "y" * 350, "list": list(range(120)), "mine": mine}, "mine": mine}
    raw, blobs = encode_with_blobs(data, SMALL)
    assert len(blobs) == 2

    def load(reference):
        return read_blob(blobs[reference["$blob"]], reference["media"])

    assert fill_references(decode_json(raw), load) == data
    unfilled = Event("user", raw=raw).data
    assert is_reference(unfilled["big"])
    assert not is_reference(unfilled["mine"])


def test_the_memory_of_keys_is_bounded(monkeypatch):
    """Keys that a hostile import invents are not kept for ever, and are still checked."""
    monkeypatch.setattr(_data, "_plain_keys", set())
    monkeypatch.setattr(_data, "_KEYS_KEPT_MAX", 5)
    for number in range(20):
        assert encode_data({f"k{number}": number}, LIMITS)
    assert len(_data._plain_keys) == 5
    with pytest.raises(InvalidData):
        encode_data({"k\0": 1}, LIMITS)


def test_there_is_an_end_to_what_references_bring():
    """Each payload is asked for once; too many, too much or too deep, and a text stands there."""
    asked = []

    def load(reference):
        asked.append(reference["bytes"])
        return ["x", *([again] if reference["bytes"] == 1 else [])]

    again = {"$blob": "0" * 64, "bytes": 1}
    assert str(fill_references(again, load)).count("x") == 4
    assert asked == [1]
    big = {"$blob": "1" * 64, "bytes": 1 << 28}
    assert fill_references([big] * 3, load) == [["x"], ["x"], f"[{1 << 28} bytes that are too many]"]
    odd = {"$blob": "2" * 64, "bytes": "many"}
    assert fill_references(odd, load) == ["x"]
    deep = []
    for _ in range(300):
        deep = [deep]
    assert "nested too deeply" in str(fill_references(deep, load))
