"""What a person typed, as something that can be looked for."""

from __future__ import annotations

import re
import sqlite3

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.catalog._query import QUERY_CHARS_MAX, TERMS_MAX, Term, fold, read_query

hostile = st.text(st.characters() | st.sampled_from('"*^:()-+{}AND OR NOT NEAR\0\n日👍é_/\\'), max_size=60)


def fits(query, text):
    """Whether a text fits, as typed and without widening."""
    return read_query(query).spans(fold(text)) is not None


@pytest.mark.parametrize(
    ("query", "yes", "no"),
    [
        ("auth error", "Error in AUTH", "only an error"),
        ("error", "the error.", "errors"),
        ("error?", "the error", "errors"),
        ("err*", "many errors", "terror"),
        ('"not connect"', "could not, connect", "connect not"),
        ('"not conn"*', "could not connect", "not a connection"),
        ("error -debug", "error here", "error in debug"),
        ('error -"in debug"', "debug error", "error in debug"),
        ("error -a.py", "error in b.py", "error in a.py"),
        ("error -err*", "nothing", "error"),
        ("login OR signin", "please signin", "please log in"),
        ("a login OR signin", "a signin", "signin"),
        ("src/auth", "in src/auth/login.py", "in src auth"),
        ("SRC/Auth/log", "src/auth/login.py", "mysrc/auth/login.py"),
        ("foo_bar", "x.foo_bar_baz()", "foo bar"),
        ("->", "a->b", "a - > b"),
        ("--force", "push --force", "push -force"),
        ("/auth/", "src/auth/x", "src/auth"),
        ('"a.b c"', "x a.b   c", "a.bc"),
        ('"a.b"', "a.b/c", "a.bc"),
        ("don't", "I don’t know", "do not"),
        ("検索", "全文検索です", "検と索"),
        ("東京 検索", "検索は東京", "東京だけ"),
        ("👍", "ok 👍🏽", "👎"),
        ("→", "a → b", "a -> b"),
        ("bücher", "BUCHER", "büch"),
        ("שלום", "שָׁלוֹם", "של"),
        ("*fast", "holdfaster", "slow"),
        ("*oldf*", "holdfast", "old"),
        ("*", "a * b", "a b"),
        ("OR", "this or that", "neither"),
        ("a OR", "a or b", "a b"),
        ("AND NOT NEAR", "near not and", "near and"),
        ('5" disk', '5" disk', "5 disk"),
        ("title:foo", "title:foo", "foo"),
        ("^foo", "^foo", "foo"),
        ("-", "a - b", "a b"),
        ("--", "a -- b", "a - b"),
    ],
)
def test_what_fits(query, yes, no):
    """Each kind of term fits what it should, and nothing else."""
    assert fits(query, yes) == ("-err*" not in query)
    assert not fits(query, no)


@pytest.mark.parametrize("query", ["", "   ", '""', '" "', "-foo", '-"foo bar"', "\ud800"])
def test_nothing_to_look_for(query):
    """A query without a wanted term asks for nothing."""
    assert not read_query(query)


def test_inside_words_only_when_asked():
    """Widening looks inside of words, and makes no difference where there is nothing to widen."""
    query = read_query("ogin.py oldf")
    assert query.spans("login.py holdfast") is None
    assert query.widened().spans("login.py holdfast") == [(1, 8), (10, 17)]
    assert read_query("検索 -> /x").widened() is None


def test_where_it_is():
    """The places of all terms are told in order, overlapping ones as one."""
    query = read_query('foo "foo bar" b*')
    assert query.spans("baz foo bar") == [(0, 3), (4, 11)]


def test_long_queries_are_cut():
    """Neither many words nor long ones make a query without bounds."""
    query = read_query("word " * 10_000)
    assert len(query.groups) == TERMS_MAX
    assert len(read_query("x" * 10_000).groups[0][0].words[0]) == QUERY_CHARS_MAX


def test_what_the_index_is_asked():
    """Terms become phrases of the index; what it cannot judge is left to the text."""

    def ask(typed):
        return read_query(typed).index_match(lambda word, _: [f"x{word}", f"y{word}"])

    assert ask("a b") == '"a" AND "b"'
    assert ask('a* OR "b c"') == '("a"* OR "b c")'
    assert ask("a.b -c -d.e") == '("a b"*) NOT "c"'
    assert ask("->") is None
    assert ask("-> a") == '"a"'
    assert ask("*fast") == '("xfast" OR "yfast")'
    assert ask("*a.b") == '("xa b"* OR "ya b"*)'
    assert read_query("*q").index_match(lambda *_: []) == '""'


@pytest.mark.parametrize(
    ("query", "hint"),
    [("->", b"->"), ("++", b"++"), ("x ==", b"=="), ("foo", None), ("++ OR --", None), ('"\\\\"', None)],
)
def test_bytes_that_every_fitting_line_has(query, hint):
    """Only signs that JSON writes plainly, or by code, are looked for in the bytes of a line."""
    assert read_query(query).raw_hint == hint


@pytest.fixture(scope="module")
def table():
    """An index of a few texts."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, content = '', tokenize = ascii)")
        texts = ["a b c and or not near", "日本 👍 é_/", 'x:y ^z "quoted" (a)']
        for row, text in enumerate(texts):
            connection.execute("INSERT INTO t (rowid, x) VALUES (?, ?)", (row, fold(text)))
        yield connection, [fold(text) for text in texts]
    connection.close()


@given(typed=hostile)
@example(typed='"')
@example(typed="NEAR(a b, 2)")
@example(typed="a AND AND OR ^ * :")
@example(typed="\0")
@settings(max_examples=300)
def test_every_text_is_a_query(table, typed):
    """No text is an error, for us or the index; whatever fits is among what the index gives."""
    connection, texts = table
    asked = read_query(typed)
    for query in (asked, asked.widened() or asked):
        if not query:
            continue
        words = [word for (word,) in _vocabulary(connection)]
        match = query.index_match(
            lambda part, open_end, words=words: [
                word for word in words if (part in word if open_end else word.endswith(part))
            ]
        )
        fitting = {row for row, text in enumerate(texts) if query.spans(text) is not None}
        if match is not None:
            select = "SELECT rowid FROM t WHERE t MATCH ?"
            assert fitting <= {row for (row,) in connection.execute(select, (match,))}


def _vocabulary(connection):
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.v USING fts5vocab (main, t, row)")
    return connection.execute("SELECT term FROM temp.v")


@given(
    words=st.lists(st.sampled_from(["a", "ab", "b1", "é", "aa"]), min_size=1, max_size=3),
    signs=st.lists(st.sampled_from([" ", "-", ".", "  ", "/"]), min_size=3, max_size=3),
    spoken=st.booleans(),
    inside=st.booleans(),
    prefix=st.booleans(),
    text=st.text(st.sampled_from("ab1é -./\n"), max_size=40),
)
@example(words=["a"], signs=[" "] * 3, spoken=True, inside=False, prefix=False, text="aa a")
@example(words=["aa"], signs=[" "] * 3, spoken=True, inside=True, prefix=False, text="aaaa")
def test_looking_by_hand_and_by_pattern(*, words, signs, spoken, inside, prefix, text):
    """Short texts are looked through without a pattern, and what is found is the same."""
    literal = "".join(word + sign for word, sign in zip(words, signs, strict=False)).strip()
    term = Term(tuple(words), None if spoken else literal, inside=inside, prefix=prefix)
    by_pattern = [match.span() for match in re.finditer(term.pattern(), text)]
    assert [*term.spans(text)] == by_pattern
    assert [*term.spans(text + " " * 10_000)] == by_pattern


def test_no_pattern_is_compiled_for_a_short_text(monkeypatch):
    """A query that nobody asked before costs no compilation where events are short."""
    monkeypatch.setattr(Term, "pattern", None)
    assert fits('said "quite so" -never* src/a', "it was said: quite so, in src/a.py")
