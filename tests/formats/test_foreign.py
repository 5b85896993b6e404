"""Foreign sessions: their ids, times and values on the way to becoming ours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.formats import (
    READERS,
    Foreign,
    ForeignDraft,
    Reader,
    Source,
    all_readers,
    claims,
    fit_drafts,
    fit_value,
    frame,
    places_of,
    read_time,
    reader_for,
    reader_of,
    session_id_of,
)
from holdfast.formats.readers._values import as_json, as_text, join, member, memories, speak
from holdfast.model import Event, is_id


@given(st.sampled_from(tuple(READERS)), st.text(max_size=300))
def test_ids_are_well_formed_and_stable(tool, foreign):
    """Any foreign id has one id here, and it is valid."""
    id = session_id_of(tool, foreign)
    assert is_id(id)
    assert session_id_of(tool, foreign) == id


def test_ids_do_not_collide():
    """Tools, case and characters that are not allowed keep two sessions apart."""
    pairs = [(tool, id) for tool in ("codex", "pi") for id in ("a", "A", "a/", "a.", "ä", "", "a-b", "a_b")]
    found = [session_id_of(*pair).lower() for pair in pairs]
    assert len(set(found)) == len(pairs)
    assert found[0].startswith("codex-a-")


@pytest.mark.parametrize(
    ("given", "stamp"),
    [
        ("2026-02-20T10:00:00.123456789Z", 1771581600123),
        ("2026-02-20T12:00:00.9+02:00", 1771581600900),
        ("2026-02-20 10:00:00+00:00", 1771581600000),
        (1771581600, 1771581600000),
        (1771581600.25, 1771581600250),
        (1771581600123, 1771581600123),
        (1771581600123456, 1771581600123),
        (1771581600123456789, 1771581600123),
        ("1771581600", 1771581600000),
        ("1771581600123", 1771581600123),
        ("yesterday", None),
        ("", None),
        (None, None),
        (True, None),
        (0, None),
        (-5, None),
        (math.nan, None),
        (math.inf, None),
        (1e300, None),
        ([], None),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_as_tools_write_them(given, stamp):
    """ISO with any fraction and zone, and numbers of any unit; what is no time is none."""
    assert read_time(given) == stamp


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
    )
)
def test_any_value_can_be_recorded(value):
    """What is made fit passes the strict checks of an append."""
    Event.make("frame", {"value": fit_value(value)})


def test_values_that_are_replaced():
    """NUL, half a surrogate, endless numbers and too deep nesting have the nearest form."""
    deep = value = []
    for _ in range(100):
        value.append([])
        value = value[0]
    assert fit_value("a\0b") == "a\u2400b"
    assert fit_value("\ud800") == "?"
    assert fit_value(math.inf) == "inf"
    assert fit_value(10**70) == hex(10**70)
    assert fit_value({1: (b"x",)}) == {"1": ["b'x'"]}
    assert isinstance(fit_value(deep, 5)[0][0][0][0][0], str)
    endless = []
    endless.append(endless)
    assert "deep" in str(fit_value(endless, 3))


def drafts(*given, **about):
    """The fitted drafts of a session."""
    return list(fit_drafts(Foreign("tool", "x", list(given), **about)))


def test_keys_are_stable_and_tell_repetitions_apart():
    """The same content has the same key at the same repetition, also in a grown source."""
    ok = [ForeignDraft("user", {"content": "ok"}) for _ in range(2)]
    first = [draft.key for draft in drafts(*ok)]
    assert len(set(first)) == 2
    grown = drafts(ForeignDraft("user", {"content": "ok"}), *ok, ForeignDraft("user", {"content": "ok"}, key="k" * 300))
    assert [draft.key for draft in grown[:2]] == first
    assert len(grown[3].key) < 100


def test_times_are_carried_on():
    """A draft without a time has that of the one before it, the first that of the session."""
    found = drafts(frame("tool", "a"), frame("tool", "b", 5), frame("tool", "c"), created_at=3)
    assert [draft.timestamp for draft in found] == [3, 5, 5]


def test_types_that_would_act_become_frames():
    """Permissions, plugins and settings are kept as they came, and are nothing more."""
    [found] = drafts(ForeignDraft("permission", {"tool": "rm", "decision": "allow"}))
    assert found.type == "frame"
    assert found.data["frame"] == {"tool": "rm", "decision": "allow"}
    [large] = drafts(ForeignDraft("title", {"title": "x" * 300_000}))
    assert (large.type, large.data["type"]) == ("frame", "title")


def test_calls_that_were_left_open_are_settled():
    """A call without a result ends its turn, so that the session is idle and not waiting."""
    call = ForeignDraft("tool_call", {"id": "c", "tool": "t"})
    assert [draft.type for draft in drafts(call)] == ["tool_call", "turn_end"]
    answered = drafts(call, ForeignDraft("tool_result", {"toolCallId": "c"}))
    assert [draft.type for draft in answered] == ["tool_call", "tool_result"]
    turns = drafts(ForeignDraft("turn_start", {}, run="r"), ForeignDraft("turn_start", {}))
    assert {draft.run for draft in turns[2:]} == {"r", None}
    assert len(drafts(ForeignDraft("turn_start", {}), ForeignDraft("turn_end", {}))) == 2


def test_raw_bytes_are_kept_whole():
    """A source line that is no text is kept as base64."""
    [found] = drafts(frame("tool", b"a\xff"))
    assert found.data["raw"] == {"base64": "Yf8="}


def test_every_reader_is_one():
    """The registry knows its readers by name, and each has what a reader needs."""
    for name, reader in zip(READERS, all_readers(), strict=True):
        assert isinstance(reader, Reader)
        assert reader_of(name) is reader_of(name.replace("_", "-")) is reader
        assert reader.tool == name.replace("_", "-")
        assert places_of(reader.tool) == READERS[name]
    with pytest.raises(UsageError):
        reader_of("notepad")


@given(st.binary(max_size=400) | st.sampled_from([b"{}", b"[]", b"null", b"0", b'[{"role":"x"}]']))
def test_no_reader_claims_noise(data):
    """Bytes that nobody wrote are nobody's, and no reader stumbles over them."""
    for name in ("x.json", "x.jsonl", "events.jsonl", "x.db"):
        assert reader_for(Source.of_bytes(name, data)) is None


def test_a_reader_that_stumbles_claims_nothing():
    """A reader that fails while it looks does not stop the search."""

    class Clumsy:
        tool, places = "clumsy", ()

        def claims(self, source):
            raise KeyError(source.name)

    assert not claims(Clumsy(), Source.of_bytes("x", b""))


def test_speaking():
    """Words together are one event; calls, results and thoughts are their own, in order."""
    content = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "tool_use", "id": "c", "name": "n", "input": {}, "thought_signature": "g"},
        {"type": "tool_result", "tool_use_id": "c", "content": "r", "is_error": True},
        5,
    ]
    found = speak("assistant", content, 7, "raw", model="m", usage=None)
    assert [draft.type for draft in found] == ["assistant", "thinking", "tool_call", "tool_result", "assistant"]
    assert found[0].data == {"content": content[:2], "model": "m"}
    assert (found[0].raw, found[1].raw) == ("raw", None)
    assert found[2].data["thought_signature"] == "g"
    assert found[3].data["is_error"] is True
    assert found[4].data["content"] == "5"
    [nothing] = speak("user", None, None, None)
    assert nothing.data == {"content": ""}
    [odd] = speak("narrator", "once", None, None)
    assert (odd.type, odd.data["metadata"]) == ("user", {"role": "narrator"})


def test_joining_two_accounts():
    """All of the first, and what only the second has after what it follows there."""
    assert join(list("abcd"), "bxd", key=str) == list("abxcd")
    assert join([], "ab", key=str) == ["a", "b"]
    assert join(list("aa"), "aaa", key=str) == list("aaa")


def test_small_things():
    """Ways through maps, texts of values and values of texts."""
    assert member({"a": {"b": 1}}, "a", "b") == 1
    assert member({"a": 1}, "a", "b") is None
    assert (as_text(None), as_text({"a": 1}), as_text(math.nan)) == ("", '{"a":1}', "null")
    assert as_text(object).startswith("<class")
    assert (as_json('{"a":1}'), as_json("{"), as_json(5)) == ({"a": 1}, "{", 5)
    entries = [{"key": "k", "sizeBytes": "many"}, {"value": 1}, "x"]
    [only] = memories(entries, 3)
    assert ("sizeBytes" in only.data, only.timestamp) == (False, 3)
    assert list(memories("none", None)) == []
