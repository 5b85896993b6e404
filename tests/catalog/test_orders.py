"""Lists in every order and narrowed by text: the same as sorting all of them by hand."""

from __future__ import annotations

import random
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.catalog import EVERYTHING, Filter, _catalog
from holdfast.catalog._filter import NEWEST, SORTS, Order, arranged, folded, read_order, text_of, words_in
from holdfast.catalog._index import IndexUpdate, PlainIndex, Row, Trace
from holdfast.errors import UsageError
from holdfast.model import SessionMetadata
from holdfast.storage.memory import MemoryStore

ORDERS = [Order(name, descending) for name in SORTS for descending in (True, False)]
TITLES = (None, "", "Ärger mit der Tür", "arger", "Zebra", "zebra 2", "\x00odd", "日本語", "x" * 300)
TAGS = ("ops", "Über", "release-notes", "a b")


def rows(count=60, seed=1):
    """Sessions with few different figures, so that many are alike in something."""
    rng = random.Random(seed)
    return [
        SessionMetadata(
            session_id=f"s{number:03d}",
            title=rng.choice(TITLES),
            tags=tuple(rng.sample(TAGS, rng.randrange(3))),
            auto_tags=tuple(rng.sample(("python", "Docs"), rng.randrange(2))),
            created_at=rng.choice((0, 5, 1 << 70)),
            updated_at=rng.choice((-(1 << 70), 3, 7, 1 << 70)),
            message_count=rng.randrange(4),
            total_tokens=rng.choice((0, 10, 1 << 80)),
            size_bytes=rng.randrange(3),
            agent_id=rng.choice((None, "Bot", "helper")),
            cost=rng.choice((None, 0.0, 0.1, 0.25, 1e300, -1.0)),
            archived=rng.random() < 0.3,
        )
        for number in range(count)
    ]


def filled(index, found):
    """An index with these rows."""
    index.write([IndexUpdate(row=Row(one, Trace(etag="e")), state=b"", tally=b"") for one in found])
    return index


INDEXES = {"sqlite": lambda: _catalog.open_in_memory(MemoryStore()), "plain": PlainIndex}
FILTERS = (
    EVERYTHING,
    Filter(text=words_in("ZEBRA")),
    Filter(text=words_in("arger bot")),
    Filter(tags=frozenset(["Über"]), archived=False),
    Filter(agent_id="helper", text=words_in("s0")),
    Filter(since=3, until=7),
    Filter(tags=frozenset(["python"]), auto_tags=False),
)


def paged(index, wanted, order, limit=7):
    """All ids, asked for page by page."""
    found, after = [], None
    while True:
        page = index.page(wanted, limit, after, order)
        found += [row.session_id for row in page]
        if page.next is None:
            return found
        from holdfast.catalog import read_cursor

        after = read_cursor(page.next, order)


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_pages_of_every_order_are_the_sorted_list(kind, order):
    """Page by page, with every filter: what sorting by hand gives, and what asking for all does."""
    everyone = rows()
    index = filled(INDEXES[kind](), everyone)
    for wanted in FILTERS:
        expected = [row.session_id for row in arranged(filter(wanted.admits, everyone), order)]
        assert paged(index, wanted, order) == expected
        assert [row.session_id for row in index.page(wanted, None, None, order)] == expected
    assert len(expected) < len(everyone)


def test_an_order_follows_what_changes():
    """A session that is written again stands in its new place, and one that is gone in none."""
    everyone = rows(20)
    index = filled(INDEXES["sqlite"](), everyone)
    changed = SessionMetadata(session_id="s000", title="AAA", total_tokens=99, cost=5.0)
    version = index.get("s000").version
    index.write([IndexUpdate(row=Row(changed, Trace()), state=b"", tally=b"", version=version)])
    index.write([], ["s001"])
    expected = [changed, *everyone[2:]]
    for order in ORDERS:
        assert paged(index, EVERYTHING, order) == [row.session_id for row in arranged(expected, order)]


def test_names_of_orders():
    """A name alone goes the usual way; what is none is refused with what there is."""
    assert read_order("updated") is NEWEST
    assert read_order("updated:desc") is NEWEST
    assert read_order("title") == Order("title", descending=False)
    assert read_order("tokens:asc") == Order("tokens", descending=False)
    for wrong in ("", "size:", "size:up", "Title", ":asc", "a" * 100, None):
        with pytest.raises(UsageError, match="no order"):
            read_order(wrong)


@given(st.text(max_size=40), st.text(max_size=8))
def test_folding_never_harms(text, part):
    """Folded text can be kept by any database, and what was a part stays one."""
    once = folded(text)
    assert not any(ord(char) < 32 or 0xD800 <= ord(char) < 0xE000 for char in once)
    meta = SessionMetadata(session_id="a", title=text + part)
    assert all(word in text_of(meta) for word in words_in(part)) or not part.isascii()


def test_case_and_accents_are_put_aside():
    """As people type: without either."""
    assert folded("ÉCOLE Straße ﬁ") == "ecole strasse fi"
    assert words_in("  Über  über a ") == ("uber", "a")


@pytest.mark.req("S2-6")
def test_a_list_sorted_and_narrowed(store_root):
    """Through the library: sort, text, both with filters, and cursors that fit their order only."""
    with holdfast.open(store_root) as hf:
        for number, title in enumerate(("Crème brûlée", "apple pie", "Banana bread")):
            with hf.session(f"s{number}", title=title, agent_id="cook") as session:
                for _ in range(number):
                    session.user("more")
                session.tag("food")
        assert [row.title for row in hf.list(sort="title")] == [
            "apple pie", "Banana bread", "Crème brûlée"]  # fmt: skip
        assert [row.message_count for row in hf.list(sort="messages")] == [2, 1, 0]
        assert [row.message_count for row in hf.list(sort="messages:asc")] == [0, 1, 2]
        assert [row.title for row in hf.list(text="BRULEE creme")] == ["Crème brûlée"]
        assert [row.session_id for row in hf.list(text="cook food s", sort="created:asc")] == [
            "s0", "s1", "s2"]  # fmt: skip
        assert not hf.list(text="cook nobody")
        assert not hf.list(text="apple", agent_id="other")
        page = hf.list(1, sort="title", text="an")
        assert [row.title for row in page] == ["Banana bread"]
        page = hf.list(1, sort="title", text="e")
        rest = hf.list(sort="title", text="e", after=page.next)
        assert [row.title for row in rest] == ["Banana bread", "Crème brûlée"]
        page = hf.list(1, sort="title")
        for sort in ("updated", "tokens", "title:desc"):
            with pytest.raises(UsageError, match="no cursor"):
                hf.list(1, sort=sort, after=page.next)
        with pytest.raises(UsageError, match="is a text"):
            hf.list(text=5)


def test_automatic_tags_do_not_count_where_they_are_off():
    """Neither for a text nor for a tag, and pages are still full."""
    everyone = rows(40)
    index = filled(INDEXES["sqlite"](), everyone)
    wanted = Filter(text=("python",), auto_tags=False)
    assert paged(index, wanted, NEWEST) == []
    assert len(index.page(Filter(text=("python",)), 5, None)) == 5


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE sessions SET tokens = tokens + 1 WHERE id = 'b'",
        "UPDATE sessions SET title = x'61' WHERE id = 'b'",
        "UPDATE sessions SET text = x'61' WHERE id = 'b'",
        "UPDATE sessions SET agent = x'61' WHERE id = 'b'",
    ],
)
def test_what_was_changed_by_hand_is_noticed(store_root, harm):
    """After a check a sorted or narrowed list is what the logs say, whatever happened before."""
    with holdfast.open(store_root) as hf:
        for id in "abc":
            with hf.session(id, title=f"title {id}", agent_id="cook") as session:
                session.user("hello")
        hf.list()
    connection = sqlite3.connect(store_root / "catalog.db")
    connection.execute(harm)
    connection.commit()
    connection.close()
    with holdfast.open(store_root) as hf:
        assert hf.catalog_health(check=True).mended == 1
        assert [row.session_id for row in hf.list(sort="title:desc")] == ["c", "b", "a"]
        assert len(hf.list(sort="tokens")) == 3
        assert [row.session_id for row in hf.list(text="title b")] == ["b"]
        assert len(hf.list(agent_id="cook", sort="size")) == 3


def test_other_prices_move_sessions(store_root):
    """Costs that are computed anew are sorted anew."""

    def fill(hf):
        for id, model in (("a", "dear"), ("b", "cheap")):
            with hf.session(id) as session:
                session.assistant("hi", usage={"input_tokens": 10**6, "output_tokens": 1},
                                  model=model)  # fmt: skip

    def ordered(first, second):
        config = store_root.parent / "prices.toml"
        config.write_text(f"[prices.dear]\ninput = {first}\noutput = 1\n[prices.cheap]\ninput = {second}\noutput = 1\n")
        with holdfast.open(store_root, config=str(config)) as hf:
            if not hf.exists("a"):
                fill(hf)
            return [row.session_id for row in hf.list(sort="cost")]

    assert ordered(9, 1) == ["a", "b"]
    assert ordered(1, 9) == ["b", "a"]
    assert ordered(9, 1) == ["a", "b"]


def test_forks_are_found_without_reading_everything(store_root, monkeypatch):
    """The relatives of a session cost what they are, not what the store is."""
    from holdfast.catalog.sqlite.index import SqliteIndex

    with holdfast.open(store_root) as hf:
        with hf.session("a") as session:
            session.user("hello")
        forks = [hf.fork("a") for _ in range(3)]
        hf.list()
        monkeypatch.setattr(SqliteIndex, "_all", lambda _self: pytest.fail("all rows were read"))
        assert sorted(hf.lineage("a").children) == sorted(forks)
