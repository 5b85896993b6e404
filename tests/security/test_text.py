"""Text of strangers is made harmless before anyone looks at it."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.security import escape_json, neutralise, neutralise_line

CONTROLS = [chr(code) for code in range(0x20) if chr(code) not in "\n\t"]
C1 = [chr(code) for code in range(0x80, 0xA0)]
DIRECTIONS = list("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
ZERO_WIDTH = list("\u00ad\u034f\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff")
SEPARATORS = list("\u2028\u2029")
TAGS = [chr(code) for code in (0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xE01EF)]
HARMFUL = [*CONTROLS, "\x7f", *C1, *DIRECTIONS, *ZERO_WIDTH, *SEPARATORS, *TAGS]


@pytest.mark.parametrize("character", HARMFUL, ids=lambda character: f"U+{ord(character):04X}")
def test_each_harmful_character_becomes_a_visible_one(character):
    """A control, a direction mark or something invisible is replaced by one printable character."""
    shown = neutralise(f"a{character}b")
    assert len(shown) == 3
    assert shown[0] + shown[2] == "ab"
    assert shown[1] != character
    assert shown[1].isprintable()


def test_every_format_character_of_unicode_is_shown():
    """No character of the categories control, format, separator or surrogate comes through."""
    hidden = ("Cc", "Cf", "Zl", "Zp", "Cs")
    # Prepended number signs of some scripts are of the category format, yet they have a shape.
    shaped = {chr(code) for code in (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2)}
    shaped |= {chr(code) for code in (0x110BD, 0x110CD)}
    slipped = [
        hex(code)
        for code in range(0x110000)
        if unicodedata.category(character := chr(code)) in hidden
        and character not in "\n\t"
        and character not in shaped
        and neutralise(character) == character
    ]
    assert slipped == []


@pytest.mark.parametrize(
    "text",
    [
        "plain words\n\tand a tab",
        "Grüße, 漢字, العربية, हिन्दी, ไทย",
        "❤️ 🏳️ 👍🏽",
        "e\u0301 combining",
        "¡“quoted” — dashes…!",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    """Text of every script, emoji, newlines and tabs are not touched."""
    assert neutralise(text) == text


def test_a_sequence_loses_its_power_and_stays_readable():
    """An escape sequence is shown as the characters it consists of."""
    assert neutralise("\x1b]52;c;aGk=\x07\x1b[2J\rx") == "␛]52;c;aGk=␇␛[2J␍x"


def test_joined_emoji_get_a_tie():
    """A joiner, common in emoji, is shown by a mark that reads well."""
    assert neutralise("👩\u200d💻") == "👩⁀💻"


def test_a_line_stays_one_line():
    """Where one line is expected, newlines and tabs are shown as well."""
    assert neutralise_line("a\nb\tc") == "a␊b␉c"
    assert neutralise_line("abc") == "abc"


@given(st.text(st.characters()))
def test_neutralising_is_one_to_one_and_idempotent(text):
    """Each character gives one character, and a second pass changes nothing."""
    shown = neutralise(text)
    assert len(shown) == len(text)
    assert neutralise(shown) == shown
    assert all(c.isprintable() or c in "\n\t" or ord(c) > 0x9F for c in shown)
    assert "\n" not in neutralise_line(text)


@given(st.recursive(st.text(st.characters()), st.lists, max_leaves=5))
def test_an_escaped_document_keeps_its_value(value):
    """Escaping changes how a document is written and not what it says."""
    document = escape_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(document) == json.loads(json.dumps(value))
    assert neutralise(document) == document


def test_an_escape_above_the_basic_plane_is_a_pair():
    """A hidden tag character is written as the two escapes that JSON knows for it."""
    assert escape_json('"\U000e0041"') == '"\\udb40\\udc41"'


@pytest.mark.req("S2-98")
@pytest.mark.parametrize(
    "text", ['say "hi"\\', "two\nlines\r\n", "\x07\x1b[31m\x7f", "\u2028\u2029\x85", "</script>\t{}[]"]
)
def test_special_characters_are_escaped_in_the_log(tmp_path, text):
    """One line for each event, whatever is in it; nothing raw that ends a line or starts a code."""
    with holdfast.open(tmp_path / "store") as hf:
        with hf.session("a") as session:
            session.user(text)
            session.title = text
        data = b"".join(hf.store.log("sessions/a").read())
        events = list(hf.events("a"))
        assert data.count(b"\n") == len(events) == len(data.splitlines())
        assert not any(byte < 0x20 and byte != 0x0A for byte in data)
        assert next(event.data["content"] for event in events if event.type == "user") == text
        assert hf.verify("a").ok
