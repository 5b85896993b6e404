"""JSON from elsewhere is taken only if an append would take it."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given

from holdfast.errors import InvalidData, TooLarge
from holdfast.model import Limits, decode_json, decode_strict, encode_data
from holdfast.testing.strategies import json_values

LIMITS = Limits()


@given(json_values())
def test_what_an_append_takes_an_import_takes(value):
    """Any recordable value is decoded, in whatever way its JSON is written."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        found = decode_strict(text.encode(), LIMITS)
        assert found == value
        encode_data({"value": found}, Limits(depth_max=65))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"a":1,"a":2}', "'a' occurs twice"),
        (b'{"x":[{"a":1,"b":2,"a":1}]}', "'a' occurs twice"),
        (b'{"a":1,"\\u0061":2}', "'a' occurs twice"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"-Infinity", "Infinity"),
        (b"1e999", "inf"),
        (b"[-1e999]", "inf"),
        (b'"\\ud800"', "surrogates"),
        (b'{"\\uDC00":1}', "surrogates"),
        (b'"\\ud83d\\ud83d"', "surrogates"),
        (b'"\\u0000"', "NUL"),
        (b'{"\\u0000":1}', "NUL"),
        (b"[" * 65 + b"]" * 65, "levels"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "levels"),
        (b"[" * 100_000, "levels"),
        (b'{"a":' * 100_000, "levels"),
        (b"1" * 65, "digits"),
        (b"-" + b"1" * 65, "digits"),
        (b"[" + b"1" * 100_000 + b"]", "digits"),
        (b'"\xff"', "JSON"),
        (b'"\xed\xa0\x80"', "JSON"),
        (b"\xef\xbb\xbf{}", "JSON"),
        ("{}".encode("utf-16"), "JSON"),
        (b"", "JSON"),
        (b"{} {}", "JSON"),
        (b"{'a':1}", "JSON"),
        (b'"\n"', "JSON"),
        (b"[1,]", "JSON"),
    ],
)
def test_what_an_append_would_refuse_is_refused(raw, words):
    """A typed data error that says why; never a value that was bent."""
    with pytest.raises(InvalidData, match=words):
        decode_strict(raw, LIMITS)


def test_what_is_at_the_limits_is_taken():
    """64 levels, 64 digits, surrogates in pairs, empty keys."""
    assert decode_strict(b"[" * 64 + b"]" * 64, LIMITS)
    assert decode_strict(b"-" + b"1" * 64, LIMITS) == -int("1" * 64)
    assert decode_strict(b'"\\ud83d\\udc4b"', LIMITS) == "👋"
    assert decode_strict(b'{"":1,"$blob":2}', LIMITS) == {"": 1, "$blob": 2}


def test_a_value_that_is_too_large_is_refused_before_it_is_parsed():
    """TooLarge says how much there was."""
    with pytest.raises(TooLarge) as caught:
        decode_strict(b"[" + b" " * 100, Limits(blob_bytes_max=100))
    assert caught.value.needed_bytes == 101


@pytest.mark.parametrize(
    "make",
    [
        lambda n: b"[" + b"[]," * n + b"[]]",
        lambda n: b"[" * n,
        lambda n: b"9" * n,
        lambda n: b"{" + b'"a":1,' * n + b'"b":1}',
        lambda n: b"{" + b",".join(b'"%d":1' % i for i in range(n // 4)) + b',"0":1}',
        lambda n: b"[" + b"9" * 60 + b",1" * n + b"]",
    ],
)
def test_a_bomb_costs_no_more_than_its_size(make):
    """Time and memory stay in proportion to the bytes, whether it is taken or not."""
    raw = make(60_000)
    tracemalloc.start()
    before = time.process_time()
    try:
        decode_strict(raw, LIMITS)
    except InvalidData:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - before < 10
    assert peak < 40 * len(raw) + 1_000_000


def test_the_lenient_decoder_is_for_recorded_bytes_only():
    """Why imports need their own: the quick decoder keeps the last of two equal keys."""
    assert decode_json(b'{"a":1,"a":2}') == {"a": 2}
