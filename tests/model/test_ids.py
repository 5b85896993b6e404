"""Ids: safe as a file name everywhere, sorted by time, and never two for one."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import InvalidId
from holdfast.model import RANDOM_BYTES, check_id, fit_id, fold_id, is_id, make_id

GRAMMAR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

HOSTILE = [
    "../x",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "..",
    ".",
    "a..b",
    ".hidden",
    "-rf",
    "_x",
    "",
    "\0",
    "a\0b",
    "a\n",
    "a b",
    " a",
    "a ",
    "a.",
    "a" * 129,
    "a" * 10_000,
    "CON",
    "con",
    "con.txt",
    "CON.a.b",
    "Nul",
    "aux.jsonl",
    "prn",
    "COM1",
    "com0.x",
    "lpt9",
    "ünïcode",
    "а",  # Cyrillic, looks like a
    "ａ",  # full width
    "a\u200b",
    "a\u202eb",
    "٣",
    "é",
    "e\u0301",
    "\u212a",  # the Kelvin sign, which folds to k
    "COM¹",
    "a:b",
    "a*",
    "~",
    "%2e%2e",
    "\ud800",
    "a\x7f",
]  # fmt: skip


@pytest.mark.req("S2-99")
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_ids_are_refused(text):
    """Nothing that could leave its place or collide on some system is an id."""
    assert not is_id(text)
    with pytest.raises(InvalidId) as caught:
        check_id(text)
    assert caught.value.id == text
    assert len(str(caught.value)) < 300
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [None, 5, b"a", ["a"], object()])
def test_only_text_is_an_id(value):
    """Other things are refused by their kind."""
    assert not is_id(value)
    with pytest.raises(InvalidId, match="string"):
        check_id(value)


@pytest.mark.req("S2-99")
@pytest.mark.parametrize(
    "text",
    [
        *("a", "Z", "0", "trip-planner", "2024-01-05_120000", "a" * 128, "con-1", "console"),
        *("a.b-c_d", "com10", "0d9f2a36-7f0e-4c6b-9a51-3f6f4e2f9b1a", "nul_", "a.con"),
    ],
)
def test_ordinary_ids_are_taken_as_they_are(text):
    """Names that people and other tools give fit."""
    assert check_id(text) is text
    assert fit_id(text) is text


def test_the_error_says_what_kind_of_id():
    """A caller that checks another id says so."""
    with pytest.raises(InvalidId, match="agent id"):
        check_id("a/b", what="agent id")


@given(st.text())
def test_the_grammar_is_the_rule(text):
    """An id matches the grammar; what matches is an id but for dots and devices."""
    if is_id(text):
        assert GRAMMAR.fullmatch(text)
    elif GRAMMAR.fullmatch(text):
        device = re.match(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)", text)
        assert ".." in text or text.endswith(".") or device


@given(st.text() | st.sampled_from(HOSTILE) | st.from_regex(GRAMMAR, fullmatch=True))
def test_any_foreign_id_finds_one_that_fits(foreign):
    """The stand-in is well-formed, always the same, and stays as it is when fitted again."""
    found = fit_id(foreign)
    assert is_id(found)
    assert fit_id(foreign) == found
    assert fit_id(found) == found
    assert (found == foreign) == is_id(foreign)


@given(st.text(max_size=6), st.text(max_size=6))
def test_two_foreign_ids_never_share_a_stand_in(one, other):
    """Different texts, also such as differ only in case or in what is cut off."""
    assume(one != other)
    assert fit_id(one) != fit_id(other)
    assert fit_id(f"/{one}") != fit_id(f"/{other}")
    assert fold_id(fit_id(f"/{one}")) != fold_id(fit_id(f"/{other}"))


def test_stand_ins_are_readable_and_known():
    """A person recognises the session; another implementation finds the same id."""
    assert fit_id("/Users/me/My Project!") == "users-me-my-project-f8d0cffa1ab53ee52b5709ab77382cf4"
    assert fit_id("///").startswith("x-")
    assert fit_id("").startswith("x-")
    assert fit_id("/" + "a" * 10_000).startswith("a" * 64 + "-")
    assert len({fit_id(text) for text in HOSTILE}) == len(HOSTILE)


def test_ids_are_compared_without_regard_to_case():
    """Two names that some file system takes for one are one."""
    assert fold_id("Trip") == fold_id("tRIP") == "trip"


@given(st.integers(0, 2**50 - 1), st.integers(0, 2**50 - 1), st.binary(min_size=10, max_size=10))
def test_generated_ids_sort_by_time(one, other, random):
    """The order of names is the order of milliseconds, whatever the random part."""
    first, second = make_id(one, random), make_id(other, bytes(10))
    assert is_id(first)
    assert len(first) == 26
    assert fold_id(first) == first
    if one != other:
        assert (one < other) == (first < second)


@pytest.mark.req("S2-25")
@given(st.sets(st.binary(min_size=10, max_size=10), max_size=50))
def test_generated_ids_of_one_millisecond_differ(randoms):
    """All 80 random bits are in the id, so that two in one millisecond never collide."""
    assert len({make_id(1, random) for random in randoms}) == len(randoms)


@pytest.mark.unmeasured
def test_many_ids_in_one_millisecond_do_not_collide():
    """100,000 at once, as a hundred processes would make them."""
    assert len({make_id(7, os.urandom(RANDOM_BYTES)) for _ in range(100_000)}) == 100_000


@pytest.mark.parametrize(("time_ms", "random"), [(-1, bytes(10)), (2**50, bytes(10)), (0, bytes(9)), (0, bytes(11))])
def test_an_id_needs_a_time_and_ten_random_bytes(time_ms, random):
    """Anything else would not sort or not be unique."""
    with pytest.raises(InvalidId):
        make_id(time_ms, random)
