"""The catalogue in PostgreSQL gives the same answers as on SQLite."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from postgres_sessions import QUICK, found, ids, say

import holdfast
from holdfast.catalog import Filter, _search
from holdfast.catalog._filter import SORTS
from holdfast.catalog._query import fold, read_query
from holdfast.catalog.postgres.rows import match_of, vector_of

pytestmark = pytest.mark.stores("postgres")


def _at(seconds):
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


# -- the same as on SQLite -------------------------------------------------------------------

_TEXTS = (
    "could not connect to the holdfast server: src/auth/login.py line 42",
    "日本語のテキストを検索する 東京",
    "Müller's naïve café — ÉCOLE",
    "a->b(); x[1] = 'quoted \"deep\"' ; 100% _under_score_",
    "'; DROP TABLE catalog_said; -- \\ % _ $1 {} {0}",
    "connect connecting reconnect disconnected",
    "שלום עולם 👍🏽 → €5",
    "the quick brown fox jumps over the lazy dog",
    "the dog jumps the fox; quick, brown and lazy",
    "a bell \x07 and \u2028 line",
)
_QUERIES = (
    *("connect", "connect*", "*connect", "reconn", '"could not connect"', '"quick brown"*'),
    *("the fox", "fox -lazy", 'dog -"brown fox"', "server OR dog", "onnec", "*old", "fast"),
    *("src/auth/login.py", "auth/log", "login.py", "a->b()", "->", "100%", "_under", "'", "\\"),
    *("日本", "本語", "京", "検索 東京", "naive cafe", "ecole", "👍", "→", "€5", "שלום"),
    *('"', "-", "*", "OR", "'; DROP TABLE catalog_said; --", "{}", "$1", "\x00", "", "words", "zq"),
    *("Read", "path", "title", "urgent", "streamed piece", "gone", "take back", "changed", "w7 w8 w9"),
    *('"w16500 w16501"', '"again other"', "xyzzy", "*yzzy tail", "nothing here at all"),
)


def _fill(hf, seed):
    """Sessions of all kinds, the same for the same seed."""
    rng = random.Random(seed)
    for number in range(24):
        now = [1_700_000_000_000 + rng.randrange(50) * 1000]
        agent = rng.choice([None, "bot", "a" * 100])
        options = {} if agent is None else {"agent_id": agent}
        with hf.session(f"S{number:02d}", **QUICK, clock=lambda now=now: now[0], **options) as s:
            for _ in range(rng.randrange(1, 5)):
                _say_something(s, rng)
                now[0] += 10
            if rng.random() < 0.5:
                s.tag(*rng.sample(["urgent", "ops", "ünï", "ü" * 150], 2))
            if rng.random() < 0.3:
                s.title = f"title {rng.choice(_TEXTS)}"[:60]


def _say_something(s, rng):
    kind = rng.randrange(5)
    text = " ".join(rng.sample(_TEXTS, rng.randrange(1, 3)))
    if kind == 0:
        call = s.tool_call(rng.choice(["Read", "Grep"]), {"path": "src/auth", "q": text})
        s.tool_result(call, {"content": text})
    elif kind == 1:
        s.assistant(text)
    else:
        s.user(text)


def _add_odd_ones(hf):
    """Texts beyond what PostgreSQL keeps of one, and words that went again."""
    many = " ".join(f"w{number}" for number in range(17_000))
    say(hf, "long", many, at=1_700_000_100_000)
    say(hf, "repeated", "again " * 300 + "again other", at=1_700_000_200_000)
    say(hf, "giant", "q" * 700 + "xyzzy tail " + "words", at=1_700_000_300_000)
    with hf.session("changed", **QUICK, clock=lambda: 1_700_000_400_000) as s:
        s.user("said and gone")
        s.tag("urgent")
        hf.catalog_health()  # it is in the index by now
        s.untag("urgent")
        s.title = "first title"
        hf.catalog_health()
        s.title = "changed title"
        s.delta("streamed ", run="r")
        hf.catalog_health()
        s.delta("piece", run="r")
        gone = s.user("take this back")
        hf.catalog_health()
        s.append("retracted", {"seqs": [gone.seq, 1 << 70], "reason": "test"})


@pytest.fixture(scope="module")
def pair(postgres_server):
    """The same sessions in memory and in PostgreSQL."""
    url = f"{postgres_server.url}?schema=t{uuid4().hex}"
    with holdfast.open("memory:") as plain, holdfast.open(url) as shared:
        for hf in (plain, shared):
            _fill(hf, 7)
            _add_odd_ones(hf)
        yield plain, shared


def test_every_search_finds_what_sqlite_finds(pair):
    """Words, phrases, beginnings, parts, signs, other scripts and nonsense: the same hits."""
    plain, shared = pair
    for query in _QUERIES:
        expected = found(plain.search(query, limit=None))
        assert found(shared.search(query, limit=None)) == expected, query
    assert found(plain.search("connect", limit=None))


@pytest.mark.parametrize(
    "scope",
    [
        {"session_id": "S03"},
        {"tags": ["ops"]},
        {"tags": ["urgent", "ünï"]},
        {"tags": ["ü" * 150]},
        {"agent_id": "bot"},
        {"agent_id": "bot", "tags": ["ops"], "role": "user"},
        {"role": "tool"},
        {"role": "title"},
        {"tool": "Grep"},
        {"since": _at(1_700_000_020)},
        {"until": _at(1_700_000_020)},
        {"model": "none"},
    ],
)
def test_every_scope_is_that_of_sqlite(pair, scope):
    """Where to look is understood alike."""
    plain, shared = pair
    for query in ("connect", "the", "日本", "->", "onnec"):
        expected = found(plain.search(query, limit=None, **scope))
        assert found(shared.search(query, limit=None, **scope)) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"tags": ["ops"]},
        {"tags": ["urgent", "ünï"]},
        {"tags": ["ü" * 150]},
        {"tags": ["no such tag"]},
        {"agent_id": "bot"},
        {"agent_id": "a" * 100, "tags": ["ops"]},
        {"since": _at(1_700_000_010), "until": _at(1_700_000_030)},
        {"status": "idle"},
        {"status": "running"},
        {"status": "interrupted"},
        {"archived": False},
        {"archived": True},
        {"model": "x"},
        {"parent": "S01"},
        {"since": _at(-60_000_000_000), "until": _at(250_000_000_000)},
        *({"sort": f"{name}:{way}"} for name in SORTS for way in ("asc", "desc")),
        {"sort": "title", "tags": ["ops"], "text": "s1"},
        {"sort": "size", "agent_id": "bot", "status": "idle"},
        *({"text": text} for text in ("ÜNI", "100%", "_under", "\\", "s0 bot", "日本", "no such")),
    ],
)
def test_every_page_is_that_of_sqlite(pair, wanted):
    """The same sessions in the same order, all at once and page by page."""
    plain, shared = pair
    expected = ids(plain.list(None, **wanted))
    assert ids(shared.list(None, **wanted)) == expected
    pages, after = [], None
    while True:
        page = shared.list(4, **wanted, after=after)
        pages += ids(page)
        assert len(page) <= 4
        if page.next is None:
            break
        after = page.next
    assert pages == expected


def test_own_tags_alone_fill_a_page(pair):
    """Where automatic tags do not count, those that have the tag only by itself take no place."""
    _, shared = pair
    index = shared._core.catalog.answer(lambda index: index)
    tags = {tag for row in shared.list(None) for tag in row.auto_tags}
    assert tags
    for tag in tags:
        own = Filter(tags=frozenset([tag]), auto_tags=False)
        assert list(index.page(own, 3, None)) == list(index.page(own, None, None))[:3]
        assert all(tag in row.tags for row in index.page(own, None, None))
    both = Filter(tags=frozenset(["ops", "urgent"]), auto_tags=False)
    assert ids(index.page(both, None, None)) == ids(shared.list(None, tags=["ops", "urgent"]))


def test_rows_ids_and_figures_are_those_of_sqlite(pair):
    """What a list shows of each session, what an id may be cut to, and what is counted."""
    plain, shared = pair

    def rows(hf):
        odd = {"created_at", "size_bytes"}
        return [
            {name: getattr(row, name) for name in row.__struct_fields__ if name not in odd} for row in hf.list(None)
        ]

    assert rows(shared) == rows(plain)
    for prefix in ("", "s0", "S1", "zzz", "\x00", "ch"):
        assert sorted(shared.session_ids(prefix)) == sorted(plain.session_ids(prefix))
    assert shared.catalog_health().sessions == plain.catalog_health().sessions
    assert shared.stats(tz="UTC") == plain.stats(tz="UTC")


def test_pages_of_hits_and_of_figures_join(pair, monkeypatch):
    """However few rows are asked for at once, nothing is left out."""
    plain, shared = pair
    monkeypatch.setattr(_search, "_PAGE_ROWS", 3)
    monkeypatch.setattr("holdfast.catalog.postgres.index._ROWS_AT_ONCE", 3)
    assert found(shared.search("the", limit=None)) == found(plain.search("the", limit=None))
    assert ids(shared.list(None)) == ids(plain.list(None))
    assert shared.stats(tz="UTC") == plain.stats(tz="UTC")
    assert len(shared.search("the", limit=2)) == 2
    monkeypatch.setattr(_search, "EXAMINED_MAX", 3)
    assert len(shared.search("the", limit=2)) == 2


_WORDS = st.sampled_from(
    ["a", "b", "ab", "abc", "b2", "é", "日", "本", "->", ".", "'", "\\", '"', "-", "*", "OR", "\x00"]
)
_TYPED = st.lists(_WORDS | st.text(max_size=4), max_size=6).map(" ".join)


@pytest.fixture(scope="module")
def ask(postgres_server):
    """One value, by a connection that stays."""
    asyncpg = pytest.importorskip("asyncpg")
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(postgres_server.url))
    yield lambda statement, *values: loop.run_until_complete(connection.fetchval(statement, *values))
    loop.run_until_complete(connection.close())
    loop.close()


@given(st.lists(_WORDS | st.text(max_size=4), max_size=12).map(" ".join), _TYPED)
@example("a " * 300 + "b", '"a b"')
@example("q" * 600 + " b", '"qq b"')
@example("q" * 600, "q" * 600)
@example("q" * 600, "-" + "q" * 550 + " qq*")
def test_no_text_that_fits_slips_the_index(ask, text, typed):
    """Whatever is said and asked: what fits by its words is among what PostgreSQL offers."""
    for query in (read_query(typed), read_query(typed).widened()):
        if not query or query.spans(fold(text)) is None:
            continue
        vector = vector_of(text)

        def expand(part, open_end, words=vector.words):
            return ["GIANT", *(word for word in words if part in word)]

        match = match_of(query, expand)
        if match is not None:
            fits = "SELECT $1::text::tsvector @@ $2::text::tsquery"
            assert ask(fits, vector.text, match)


def test_a_text_with_more_words_than_can_be_kept_is_offered_always():
    """A text of a million different signs fits no index, and is read instead."""
    huge = " ".join(f"w{number:09d}" for number in range(95_000))
    assert vector_of(huge).text == "'HUGE'"
    assert "'HUGE'" in (match_of(read_query("anything"), lambda *_: []) or "")
    many = " ".join(f"w{number:09d}" for number in range(60_000))
    assert "'LONG'" in vector_of(many).text
    assert len(vector_of(many).words) == 60_000
