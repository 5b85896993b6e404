"""Text as it is searched."""

from __future__ import annotations

import sqlite3
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog._query import fold, original_spans, words_of

any_text = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("aA -_/é日👍\u0301\0"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Could NOT connect", ["could", "not", "connect"]),
        ("src/auth/login_form.py:12", ["src", "auth", "login", "form", "py", "12"]),
        ("Ärger ÉCOLE straße ﬁn", ["arger", "ecole", "strasse", "fin"]),
        ("ΣΊΣΥΦΟΣ Σίσυφος", ["σισυφοσ", "σισυφοσ"]),
        ("Привет, МИР", ["привет", "мир"]),
        ("שָׁלוֹם مُحَمَّد", ["שלום", "محمد"]),
        ("東京で検索", ["東", "京", "で", "検", "索"]),
        ("한국어를", ["한", "국", "어", "를"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("👍🏽 a→b", ["👍", "🏽", "a", "→", "b"]),
        ("─── │x│ ⠋", ["x"]),
        ("half\ud800torn", ["half", "torn"]),
    ],
)
def test_words_of_many_scripts(text, words):
    """Case, accents and points do not count; scripts without spaces are cut into characters."""
    assert words_of(fold(text)) == words


latin_and_greek = st.characters(categories=["L", "N", "Z"], max_codepoint=0x1FFF).filter(
    lambda char: not 0x400 <= ord(char) < 0x1E00
)


@given(st.text(latin_and_greek))
def test_forms_of_unicode_do_not_matter(text):
    """A letter with its accent and the two one after the other are the same."""
    apart = unicodedata.normalize("NFD", text)
    assert words_of(fold(unicodedata.normalize("NFC", apart))) == words_of(fold(apart))


@given(any_text)
def test_the_index_cuts_words_the_same_way(text):
    """SQLite finds in folded text the very words that we see in it."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, content = '', tokenize = ascii)")
        connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, row)")
        connection.execute("INSERT INTO t (rowid, x) VALUES (1, ?)", (fold(text),))
        found = {term for (term,) in connection.execute("SELECT term FROM v")}
    connection.close()
    assert found == set(words_of(fold(text)))


@given(any_text, any_text)
def test_folding_goes_character_by_character(left, right):
    """A part of a text, folded, is a part of the folded text."""
    assert fold(left + right) == fold(left) + fold(right)


@given(any_text)
def test_places_lead_back_to_the_text(text):
    """Where a word is in folded text, the same word is in the text."""
    folded = fold(text)
    at = 0
    for word in words_of(folded):
        at = folded.index(word, at)
        [(begin, end)] = original_spans(text, [(at, at + len(word))])
        assert word in fold(text[begin:end])
        at += len(word)
