"""Looking inside of words: which words of the index hold what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.catalog.sqlite.search import Expander
from holdfast.storage.sqlite.connection import connect


def made(words):
    """A full-text table with these words, as the index has it."""
    connection = connect(None)
    connection.execute("CREATE VIRTUAL TABLE said_words USING fts5 (text, tokenize = 'ascii')")
    connection.execute("CREATE VIRTUAL TABLE said_vocabulary USING fts5vocab (said_words, row)")
    insert = "INSERT INTO said_words (text) VALUES (?)"
    connection.executemany(insert, [(word,) for word in words])
    return connection


@given(
    words=st.sets(st.text("ab1é", min_size=1, max_size=5), max_size=30),
    letters=st.text("ab1é", min_size=1, max_size=3),
    open_end=st.booleans(),
)
def test_kept_words_and_asked_ones(words, letters, open_end):
    """Words that are kept give what the table gives when there are too many to keep."""
    connection = made(words)
    expected = sorted(word for word in words if (letters in word if open_end else word.endswith(letters)))
    for chars_max in (1 << 20, 0):
        found = Expander(chars_max).expand(connection, letters, open_end=open_end)
        assert sorted(found) == expected


@pytest.mark.parametrize("chars_max", [1 << 20, 0])
def test_no_more_than_can_be_asked_for(chars_max):
    """Of very many words a thousand are given."""
    connection = made(f"x{number}" for number in range(1500))
    assert len(Expander(chars_max).expand(connection, "x", open_end=True)) == 1000


def test_the_words_are_read_once():
    """While nothing changes, the table is not read again; after a change it is."""
    connection = made(["holdfast"])
    statements = []
    connection.set_trace_callback(statements.append)
    expander = Expander()
    for letters, found in (("fast", 1), ("none", 0), ("old", 1)):
        assert len(expander.expand(connection, letters, open_end=True)) == found
    assert sum("said_vocabulary" in one for one in statements) == 1
    connection.execute("INSERT INTO said_words (text) VALUES ('breakfast')")
    assert len(expander.expand(connection, "fast", open_end=True)) == 2


def test_what_others_say_meanwhile(tmp_path):
    """A word that another library adds is found inside, though the words were read before."""
    with holdfast.open(tmp_path) as hf, holdfast.open(tmp_path) as other:
        with hf.session("a") as s:
            s.user("a zebrafish")
        assert len(hf.search("brafi")) == 1
        assert hf.search("kkatoo") == []
        with other.session("b") as s:
            s.user("a cockkatoo")
        assert len(other.search("kkatoo")) == 1  # which writes it to the index
        assert len(hf.search("kkatoo")) == 1
