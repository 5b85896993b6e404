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


FAMILY = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
HEART = "\N{HEAVY BLACK HEART}\ufe0f\u200d\N{FIRE}"
CODER = "\N{WOMAN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}\u200d\N{PERSONAL COMPUTER}"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
VOWELLED = "\u0645\u064e\u200c\u064f\u062e"
HINDI = "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937"
SINHALA = "\u0dc1\u0dca\u200d\u0dbb\u0dd3"


@pytest.mark.parametrize("text", [FAMILY, HEART, CODER, PERSIAN, VOWELLED, HINDI, SINHALA, f"a {FAMILY}, {PERSIAN}"])
def test_what_is_written_with_joiners_stays(text):
    """Families, flaming hearts and words of Persian, Hindi and Sinhala read as they were written."""
    assert neutralise(text) == neutralise_line(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("a\u200db", "\u200d", "\N{WOMAN}\u200d", "\N{WOMAN}\u200d\u200d\N{GIRL}", "\u0645\u200c ", "pass\u200cword"),
        # After a letter that is tied to nothing, beyond signs without end, between a picture and a letter, or lines.
        *("\u0631\u200c\u0645", "\u0645" + "\u064e" * 40 + "\u200c\u0645", "\N{WOMAN}\u200da", "\u2500\u200d\u2500"),
    ],
)
def test_what_joins_nothing_is_made_visible(text):
    """Between other characters a joiner only hides something."""
    assert not {"\u200c", "\u200d"} & set(neutralise(text))


_AROUND_JOINERS = "a\n\x1b\u034f\u200b\u200c\u200d\u202e\ufe0f\N{WOMAN}\u0645\u0631\u064e\u0915\u094d"


@given(st.text(st.sampled_from(_AROUND_JOINERS)))
def test_joiners_let_nothing_else_pass(text):
    """Whatever stands around them, only single joiners that join stay, each in its place, and once is enough."""
    shown = neutralise(text)
    assert len(shown) == len(text)
    assert neutralise(shown) == shown
    assert "\n" not in neutralise_line(text)
    hidden = {"Cc", "Cf"}
    for at, char in enumerate(shown):
        if char != "\n" and unicodedata.category(char) in hidden:
            assert char in "\u200c\u200d"
            assert at
            assert text[at - 1 : at + 1] not in ("a" + char, "\u200c" + char, "\u200d" + char, "\u202e" + char)


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
