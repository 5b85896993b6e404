"""Search in the index of a store: what is found, in which order, and never what is not there."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.catalog import Asked, Snippet, scan_logs
from holdfast.catalog import _search as search_module
from holdfast.catalog._recall import Recaller
from holdfast.catalog._search import Candidate, make_snippet
from holdfast.catalog.sqlite.search import add, create_tables, forget, is_worn
from holdfast.model import Event


@pytest.fixture
def connection():
    """The tables of the search, empty."""
    found = sqlite3.connect(":memory:")
    create_tables(found)
    yield found
    found.close()


def user(seq, text):
    """A user's words."""
    return Event.make("user", {"content": text}, seq=seq, timestamp=seq)


def rows(connection, word):
    """The (session, seq) that the index has for a word."""
    select = (
        "SELECT session, seq FROM said_words JOIN said ON id = said_words.rowid"
        " WHERE said_words MATCH ? ORDER BY session, seq"
    )
    return list(connection.execute(select, (word,)))


# -- the tables -----------------------------------------------------------------------------------


def test_batches_add_up(connection):
    """A session may come in any number of batches; streams and tools go on across them."""
    add(connection, 7, [user(0, "one")])
    add(connection, 7, [Event.make("delta", {"content": "strea"}, seq=1)])
    assert rows(connection, "strea") == [(7, 1)]
    add(connection, 7, [Event.make("delta", {"content": "ming"}, seq=2)])
    assert rows(connection, "strea") == []
    assert rows(connection, "streaming") == [(7, 1)]
    final = {"content": "final", "covers_from": 1}
    add(connection, 7, [Event.make("assistant", final, seq=3)])
    assert rows(connection, "streaming") == []
    add(connection, 7, [Event.make("tool_call", {"id": "c", "tool": "Bash"}, seq=4)])
    add(connection, 7, [Event.make("tool_result", {"toolCallId": "c", "result": "done"}, seq=5)])
    assert connection.execute("SELECT name FROM said WHERE seq = 5").fetchone() == ("Bash",)


def test_what_counts_no_more_is_dropped_later_too(connection):
    """Retractions, titles and tags reach what earlier batches added."""
    tag = Event.make("tag", {"tag": "blue"}, seq=2)
    add(connection, 1, [user(0, "wrong"), Event.make("title", {"title": "old"}, seq=1), tag])
    add(connection, 1, [Event.make("retracted", {"seqs": [0]}, seq=3)])
    add(connection, 1, [Event.make("title", {"title": "new"}, seq=4)])
    add(connection, 1, [Event.make("untag", {"tag": "blue"}, seq=5)])
    assert [rows(connection, word) for word in ("wrong", "old", "blue")] == [[], [], []]
    assert rows(connection, "new") == [(1, 4)]


def test_forgotten_sessions_are_not_found(connection):
    """A row of the index is never given to another event, even if the last ones were forgotten."""
    add(connection, 1, [user(0, "first")])
    add(connection, 2, [user(0, "second")])
    forget(connection, 2)
    add(connection, 2, [user(0, "third")])
    assert rows(connection, "second") == []
    assert rows(connection, "third") == [(2, 0)]
    assert rows(connection, "first") == [(1, 0)]


def test_an_index_wears_out(connection):
    """When most of many rows are dead, the index says so."""
    for row in range(3):
        add(connection, row, [user(seq, "word") for seq in range(5000)])
    assert not is_worn(connection)
    forget(connection, 0)
    forget(connection, 1)
    assert is_worn(connection)


def test_a_time_beyond_all_columns(connection):
    """A foreign log may name any time."""
    add(connection, 1, [Event("user", 0, 1 << 70, b'{"content":"late"}')])
    assert rows(connection, "late") == [(1, 0)]


# -- what is found --------------------------------------------------------------------------------

WORDS = [
    *["alpha", "beta", "gamma", "error", "Error", "login", "log_in", "src/auth/login.py"],
    *["foo_bar", "a->b", "日本語", "検索", "Straße", "été", "👍", "שלום", "don't", "x.y", "C++", "42"],
]
QUERIES = st.one_of(
    st.sampled_from([*WORDS, "src/auth", "ogin.p", "->", "++", "alph*", "語", '"alpha beta"', "*et*"]),
    st.lists(st.sampled_from([*WORDS, "OR", "-beta", '"beta gamma"', "lo*"]), max_size=4).map(" ".join),
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A store full of words, some of them said twice, streamed, retracted or hidden in tools."""
    source = random.Random(7)

    def words(count=6):
        return " ".join(source.choices(WORDS, k=source.randint(1, count)))

    with holdfast.open(tmp_path_factory.mktemp("corpus")) as hf:
        for number in range(12):
            with hf.session(f"s{number}") as s:
                s.title = words(2)
                s.tag("even" if number % 2 == 0 else "odd")
                for _ in range(6):
                    said = s.user(words())
                    s.append("delta", {"content": words()})
                    s.append("delta", {"content": words()})
                    if source.random() < 0.5:
                        s.assistant(words(), covers_from=said.seq + 1)
                    elif source.random() < 0.5:
                        s.append("interrupted", {})
                    call = s.tool_call("Read" if source.random() < 0.5 else "Bash", {"q": words()})
                    s.tool_result(call, {"content": words(30)})
                    if source.random() < 0.2:
                        s.append("retracted", {"seqs": [said.seq], "replacement": words()})
        yield hf


def summary(hits):
    """What hits say, whatever their order."""
    return sorted((hit.session_id, hit.seq, hit.role, hit.tool, hit.timestamp, hit.snippet) for hit in hits)


@given(query=QUERIES, role=st.sampled_from([None, "user", "tool"]), tag=st.sampled_from([(), ["odd"]]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.req("S2-58")
def test_search_equals_a_scan_of_all_logs(corpus, query, role, tag):
    """The index finds exactly what reading every event finds."""
    found = corpus.search(query, role=role, tags=tag, limit=None)
    roles = {"tool": ("tool_call", "tool_result"), None: ()}.get(role, (role,))
    asked = Asked(query=query, roles=roles, limit=None)
    assert summary(found) == summary(scan_logs(corpus.store, corpus.list(None, tag), asked))


def test_many_hits_come_in_pages(hf, monkeypatch):
    """More hits than a page are all found, and a limit takes the best of them."""
    monkeypatch.setattr(search_module, "_PAGE_ROWS", 5)
    with hf.session("s") as s:
        for number in range(23):
            s.user(f"word {number}")
    assert len(hf.search("word", limit=None)) == 23
    assert len(hf.search("word", limit=7)) == 7
    assert hf.search("word", limit=0) == []


def test_not_everything_is_looked_at(hf, monkeypatch):
    """A query that the index cannot help with reads a bounded number of events, newest first."""
    monkeypatch.setattr(search_module, "_PAGE_ROWS", 5)
    monkeypatch.setattr(search_module, "EXAMINED_MAX", 10)
    with hf.session("s") as s:
        for number in range(23):
            s.user(f"{number} =>" if number < 5 else f"{number} ->")
    assert len(hf.search("->", limit=2)) == 2
    assert hf.search("=>", limit=2) == []
    assert len(hf.search("=>", limit=None)) == 5


def test_better_and_newer_come_first(hf):
    """A short text about it beats a long one, and of two alike the newer is first."""
    with hf.session("s") as s:
        s.append(Event.make("user", {"content": "rare " + "x " * 200}, timestamp=1_000))
        s.append(Event.make("user", {"content": "rare old"}, timestamp=1_000))
        s.append(Event.make("user", {"content": "rare new"}, timestamp=90 * 86_400_000))
        s.user("else")
    hits = hf.search("rare")
    assert [hit.snippet.text[:8] for hit in hits] == ["rare new", "rare old", "rare x x"]
    assert hits == hf.search("rare")
    assert hits[0].score > hits[1].score > hits[2].score


# -- the log is the truth -------------------------------------------------------------------------


def test_a_lying_index_shows_nothing(hf):
    """Words that the index has and the log has not are not shown."""
    with hf.session("s") as s:
        s.user("the truth")

    def lie(index):
        connection = index.connection
        connection.execute("INSERT INTO said VALUES (99, 1, 2, NULL, 0, 0, 0, 0, NULL, 0)")
        connection.execute("INSERT INTO said VALUES (98, 1, 77, NULL, 0, 0, 0, 0, NULL, 0)")
        connection.execute("INSERT INTO said VALUES (97, 55, 0, NULL, 0, 0, 0, 0, NULL, 0)")
        connection.execute("INSERT INTO said VALUES (96, 1, 0, 2, 0, 0, 0, 0, NULL, 0)")
        for id in range(96, 100):
            connection.execute("INSERT INTO said_words (rowid, text) VALUES (?, 'lie')", (id,))
        return index.search(hf.store, Asked(query="lie"))

    assert hf._core.catalog.answer(lie) == []
    assert [hit.seq for hit in hf.search("truth")] == [2]


def test_a_wrong_place_is_gone_round(hf):
    """A line is found by its number even if the index errs about its place."""
    with hf.session("s") as s:
        for number in range(30):
            s.user(f"number {number}")

    def displace(index):
        index.connection.execute("UPDATE said SET place = place + 100000")
        return index.search(hf.store, Asked(query='"number 7"'))

    assert [hit.snippet.text for hit in hf._core.catalog.answer(displace)] == ["number 7"]


def test_a_damaged_line_is_not_shown(hf):
    """Bytes that changed after they were written are never shown as what was said."""
    with hf.session("s") as s:
        s.user("an honest word")
        s.user("another word")
    assert len(hf.search("honest")) == 1
    log = Path(hf.location("s"), "events.jsonl")
    log.write_bytes(log.read_bytes().replace(b"honest", b"h0nest"))

    def stale(_index):
        found = Candidate(1, 1, 2, None, 0, 0, "user", None)
        return Recaller(hf.store, lambda _: "sessions/s").recall(found)

    assert hf._core.catalog.answer(stale) is None
    assert hf.search("honest") == hf.search("h0nest") == []
    assert [hit.seq for hit in hf.search("another")] == [3]


def test_long_lines_and_blobs(hf):
    """Text beyond one read, and text kept beside the log, is found."""
    with hf.session("s") as s:
        s.user("é\n" * 60_000 + "needle" + "\n" * 100_000)
        s.user("pad " * 100_000 + "haystack " + "pad " * 100)
        s.user("after")
    assert [hit.seq for hit in hf.search("needle")] == [2]
    assert "<haystack>" in hf.search("haystack")[0].snippet.marked("<", ">")
    assert [hit.seq for hit in hf.search("after")] == [4]


@pytest.mark.parametrize("damage", ["said_words_data", "said_words_idx", "said"])
def test_a_broken_table_is_made_anew(hf, damage):
    """Where the tables of the search are torn, the index is made again and the answer is right."""
    with hf.session("s") as s:
        s.user("something rare")
    assert len(hf.search("rare")) == 1
    hf._core.catalog.answer(lambda index: index.connection.execute(f"DROP TABLE {damage}"))
    assert len(hf.search("rare")) == 1


# -- snippets -------------------------------------------------------------------------------------


def test_a_snippet_shows_the_place():
    """A long text is cut around what was found; the ranges are of the snippet."""
    text = "lead " * 100 + "the needle here" + " tail" * 100
    at = text.index("needle")
    snippet = make_snippet(text, [(at, at + 6)])
    assert snippet.marked("[", "]").count("[needle]") == 1
    assert snippet.text.startswith("…")
    assert snippet.text.endswith("…")
    assert len(snippet.text) < 170
    assert str(snippet) == snippet.text


def test_a_snippet_is_harmless_and_of_one_line():
    """Newlines, controls and marks of direction never reach a terminal."""
    snippet = make_snippet("a\n\tb\x1b[31m\u202ec\x9b x", [(4, 5)])
    assert snippet.text.isprintable()
    assert "\n" not in snippet.text
    assert snippet.text.startswith("a b ")


def test_a_snippet_prefers_where_most_is():
    """Of many places the window shows those that are close together."""
    text = "foo" + " x" * 300 + " foo bar baz"
    spans = [(0, 3), (604, 607), (608, 611), (612, 615)]
    assert len(make_snippet(text, spans).ranges) == 3


def test_parts_of_a_snippet():
    """The parts give the text back."""
    snippet = Snippet("ab cd", ((0, 2), (3, 5)))
    assert list(snippet.parts()) == [("ab", True), (" ", False), ("cd", True)]
    assert snippet.marked() == "**ab** **cd**"


@given(st.text(max_size=300), st.data())
def test_any_text_has_a_snippet(text, data):
    """Whatever the text, ranges lie within the snippet and in order."""
    cuts = sorted(set(data.draw(st.lists(st.integers(0, len(text)), max_size=8))))
    spans = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    snippet = make_snippet(text, spans, chars=40)
    flat = [place for pair in snippet.ranges for place in pair]
    assert flat == sorted(flat)
    assert all(0 <= place <= len(snippet.text) for place in flat)
    assert "\n" not in snippet.text
