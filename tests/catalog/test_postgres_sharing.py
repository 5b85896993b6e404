"""The catalogue in PostgreSQL: one for all machines, mended when broken, elsewhere if it must."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest
from postgres_sessions import QUICK, found, ids, run, say

import holdfast
from holdfast.catalog import _catalog, _catch_up
from holdfast.catalog._faults import IndexDamaged, IndexMoved
from holdfast.catalog._prices import Price, Prices
from holdfast.catalog.postgres.index import PostgresIndex
from holdfast.errors import Unavailable
from holdfast.storage.postgres import link

pytestmark = pytest.mark.stores("postgres")


# -- one for all machines --------------------------------------------------------------------


def test_what_one_has_read_no_other_reads(hf, postgres_url, monkeypatch):
    """The index and its mark are in the database: another machine asks and reads no log."""
    say(hf, "a", "hello there")
    assert ids(hf.list()) == ["a"]

    def unwanted(*_, **__):
        raise AssertionError("a log was read")

    monkeypatch.setattr("holdfast.catalog._look.look", unwanted)
    with holdfast.open(postgres_url) as other:
        assert ids(other.list()) == ["a"]
        assert found(other.search("hello"))
        assert "PostgreSQL" in (other.catalog_health().place or "")


def test_what_went_and_came_back_is_known_everywhere(hf, postgres_url):
    """Deleted, renamed by the trash, brought back, and made anew under the same id."""
    say(hf, "a", "first words")
    say(hf, "b", "other")
    with holdfast.open(postgres_url) as other:
        assert ids(other.list()) == ["b", "a"]
        hf.delete("a")
        assert ids(other.list()) == ids(hf.list()) == ["b"]
        assert other.search("first") == []
        hf.undelete("a")
        assert sorted(ids(other.list())) == ["a", "b"]
        assert found(other.search("first"))
        hf.delete("a")
        say(hf, "a", "second words")
        assert other.search("first") == []
        assert found(other.search("second"))


def test_what_was_just_appended_is_found_before_it_is_flushed(hf, monkeypatch):
    """A question waits for what this process has under way, however slowly it is sent."""
    store, send = hf.store, hf.store._sender._send

    def slowly(packets):
        time.sleep(0.3)
        return send(packets)

    with hf.session("a", **QUICK) as s:
        s.flush()
        monkeypatch.setattr(store._sender, "_send", slowly)
        s.user("umbrella")
        assert len(hf.search("umbrella")) == 1
        s.user("raincoat")
        assert hf.info("a").message_count == 2
        assert store.entry("sessions/a").size == len(b"".join(store.log("sessions/a").read()))


def test_each_machine_shows_costs_by_its_own_prices(hf, postgres_url):
    """Whoever wrote the row, with whatever prices."""
    with hf.session("a", **QUICK) as s:
        s.user("hello")
        s.assistant("hi", model="house", usage={"input_tokens": 1_000_000, "output_tokens": 0})
    assert hf.list()[0].cost is None
    with holdfast.open(postgres_url) as other:
        index = other._core.catalog.answer(lambda index: index)
        index.prices = Prices({"house": Price(input=3.0, output=1.0)})
        assert [row.cost for row in other.list()] == [3.0]
        assert index.get("a").row.meta.cost == 3.0
        with other.session("a", **QUICK) as s:
            s.user("more")
        assert [row.cost for row in other.list()] == [3.0]
    assert hf.list()[0].cost is None
    assert hf.info("a").cost is None
    index = hf._core.catalog._lent
    [row] = hf.list()
    assert index._repriced(row, b"") == index._repriced(row, b"of another version") == row


def test_what_went_is_told_by_name_until_it_is_long_ago(hf, monkeypatch):
    """Nobody compares all names for it; who was away for long compares them once."""
    for name in "abc":
        say(hf, name, "words")
    store = hf.store
    mark = store.changes("").mark
    quiet = store.changes(mark)
    assert quiet.keys is not None  # more than did change is allowed: a message was under way
    assert not quiet.listed
    hf.delete("a")
    assert "sessions/a" in store.changes(mark).keys
    assert not store.changes(mark).listed
    run(hf.url, "UPDATE removals SET at = at - interval '8 days'")
    monkeypatch.setattr("holdfast.storage.postgres.store._FORGET_CHANCE", 2.0)
    hf.delete("b")
    assert run(hf.url, "SELECT key FROM removals") == [("sessions/b",)]
    assert store.changes(mark).keys is None
    assert store.changes("nonsense").keys is None
    assert store.changes(f"{mark.partition(':')[0]}:{'9' * 40}").keys is None
    assert ids(hf.list()) == ["c"]


def test_many_that_feed_and_ask_at_once_leave_a_right_index(postgres_url):
    """Four with their own connections write, list and search together; nothing is lost or twice."""
    troubles = []

    def work(number):
        try:
            with holdfast.open(postgres_url) as hf:
                for turn in range(6):
                    say(hf, f"w{number}-{turn}", f"common words {number} turn{turn}")
                    assert f"w{number}-{turn}" in ids(hf.list())
                    assert found(hf.search(f"turn{turn}", f"w{number}-{turn}"))
        except Exception as error:  # noqa: BLE001 - told below
            troubles.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    with holdfast.open(postgres_url) as hf:
        before = (ids(hf.list(None)), found(hf.search("common", limit=None)))
        assert len(before[0]) == len(before[1]) == 24
        assert hf.reindex().sessions == 24
        assert (ids(hf.list(None)), found(hf.search("common", limit=None))) == before
        assert hf.catalog_health().mended == 0


def test_an_older_look_does_not_undo_a_newer_one(hf, postgres_url):
    """Two that read the same session find out by its version, and the slower one looks again."""
    say(hf, "a", "one")
    hf.list()
    index = PostgresIndex(hf.store.link)
    kept = index.get("a")
    from holdfast.catalog import look

    with hf.session("a", **QUICK) as s:
        s.user("two")
    entry = hf.store.entry("sessions/a")
    slow = look(hf.store, entry, kept)
    assert found(hf.search("two"))
    assert index.write([slow]) == ["a"]
    assert len(hf.search("two")) == 1


def test_a_session_that_came_back_is_not_taken_out(hf):
    """Who found it gone writes so only if it still is."""
    say(hf, "a", "one")
    hf.list()
    index = PostgresIndex(hf.store.link)
    index.write([], gone=["a", "never"])
    assert index.count() == 1
    assert index.get("never") is None


def test_an_index_made_anew_by_another_is_not_believed_halfway(hf, postgres_url, monkeypatch):
    """While one machine empties it, another that was about to answer begins again."""
    for name in "abc":
        say(hf, name, "words")
    assert len(hf.list()) == 3
    with holdfast.open(postgres_url) as other:
        other.list()
        index = other._core.catalog._lent
        real = PostgresIndex.page
        seen = []

        def page(self, *arguments):
            if self is index and not seen:
                seen.append(True)
                PostgresIndex(hf.store.link).clear()
            return real(self, *arguments)

        monkeypatch.setattr(PostgresIndex, "page", page)
        assert len(other.list()) == 3
        assert other.catalog_health().mended == 0


def test_writing_after_others_emptied_it_begins_again(hf):
    """What was read for the old index is not put into the new one."""
    say(hf, "a", "one")
    hf.list()
    index = hf._core.catalog._lent
    PostgresIndex(hf.store.link).clear()
    with pytest.raises(IndexMoved):
        index.write([], mark="x")
    with pytest.raises(IndexMoved):
        index.check_unmoved()
    assert ids(hf.list()) == ["a"]
    PostgresIndex(hf.store.link).clear()
    assert hf._core.catalog.feed("a") == {"a": True}
    assert found(hf.search("one"))


def test_two_may_make_it_anew_at_once(hf, postgres_url, monkeypatch):
    """Both end with an index that is whole."""
    for number in range(30):
        say(hf, f"s{number}", "words")
    monkeypatch.setattr(_catch_up, "_BATCH_SESSIONS", 3)
    with holdfast.open(postgres_url) as other:
        threads = [threading.Thread(target=one.reindex) for one in (hf, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(hf.list(None)) == len(other.list(None)) == 30
        assert len(other.search("words", limit=None)) == 30


def test_starters_at_once_make_the_tables_once(postgres_url):
    """Whoever comes first makes them; the others wait and find them."""
    with holdfast.open(postgres_url) as hf:
        say(hf, "a", "one")
    libraries = [holdfast.open(postgres_url) for _ in range(6)]
    answers = []
    threads = [threading.Thread(target=lambda one=one: answers.append(ids(one.list()))) for one in libraries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in libraries:
        one.close()
    assert answers == [["a"]] * 6


# -- whatever happens to it ------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE catalog_sessions",
        "DROP TABLE catalog_said",
        "DROP TABLE catalog_state",
        "DELETE FROM catalog_state",
        "DROP TABLE catalog_words, catalog_folds, catalog_labels",
        "ALTER TABLE catalog_state DROP COLUMN mark",
        "ALTER TABLE catalog_state DROP COLUMN version",
        "UPDATE catalog_sessions SET data = '\\x00'::bytea",
        "UPDATE catalog_sessions SET trace = '\\x00'::bytea",
        "UPDATE catalog_folds SET state = '\\x00'::bytea",
        "DELETE FROM catalog_folds",
        "UPDATE catalog_state SET mark = 'nonsense'",
        "TRUNCATE catalog_sessions, catalog_said; ",
    ],
)
@pytest.mark.parametrize("reopened", [False, True])
def test_whatever_is_broken_is_made_anew(postgres_url, damage, reopened):
    """Tables that are missing, changed or lie: lists and searches are right all the same."""
    with holdfast.open(postgres_url) as hf:
        for name in "ab":
            say(hf, name, f"words of {name}", tags=["t"])
        expected = hf.list(None)
        before = run(postgres_url, "SELECT 1 FROM catalog_state")
        assert before
        run(postgres_url, damage)
        if "TRUNCATE" in damage:
            run(postgres_url, "UPDATE catalog_state SET mark = ''")
        if not reopened:
            _check_all(hf, expected)
    if reopened:
        with holdfast.open(postgres_url) as again:
            _check_all(again, expected)


def _check_all(hf, expected):
    with hf.session("a", **QUICK) as s:
        s.user("more words")
    assert sorted(ids(hf.list(None))) == sorted(ids(expected))
    assert sorted(ids(hf.list(tags=["t"]))) == ["a", "b"]
    assert {hit.session_id for hit in hf.search("words", limit=None)} == {"a", "b"}
    assert len(hf.search("words", limit=None)) == 3
    hf.stats()
    hf.reindex()
    assert sorted(ids(hf.list(None))) == sorted(ids(expected))


def test_a_tally_that_is_missing_is_noticed(hf):
    """Figures are right or made anew, never without a session."""
    say(hf, "a", "one")
    hf.stats()
    index = hf._core.catalog._lent
    run(hf.url, "DELETE FROM catalog_folds")
    with pytest.raises(IndexDamaged):
        list(index.tallies())
    assert hf.stats().sessions == 1
    assert hf.catalog_health().mended == 1


@pytest.mark.parametrize(
    "lie",
    [
        "UPDATE catalog_said SET words = '''lie'':1'::tsvector WHERE session = 'a'",
        "DELETE FROM catalog_said WHERE session = 'b' AND role = 'user'",
        "UPDATE catalog_said SET seq = seq + 1 WHERE session = 'a' AND role = 'user'",
        "UPDATE catalog_sessions SET agent = NULL WHERE id = 'b'",
        "UPDATE catalog_sessions SET updated = updated - 1 WHERE id = 'a'",
        "UPDATE catalog_labels SET tag = 'other' WHERE id = 'a'",
        "DELETE FROM catalog_labels",
    ],
)
def test_an_index_that_lies_is_found_by_a_check(hf, lie):
    """What is well-formed and not what rows and logs say makes the index anew."""
    say(hf, "a", "the truth", tags=["one"], agent_id="cook")
    say(hf, "b", "nothing but the truth", agent_id="cook")
    expected = found(hf.search("truth"))
    assert hf.catalog_health(check=True).mended == 0
    run(hf.url, lie)
    assert hf.catalog_health(check=True).mended == 1
    assert found(hf.search("truth")) == expected
    assert ids(hf.list(10, agent_id="cook")) == ["b", "a"]
    assert ids(hf.list(10, tags=["one"])) == ["a"]


def test_a_long_session_is_compared_in_parts(hf, monkeypatch):
    """However many parts there are, what fits is no lie, and what does not is found."""
    monkeypatch.setattr("holdfast.catalog.postgres.rows._SAID_AT_ONCE", 3)
    say(hf, "a", *(f"word {number}" for number in range(10)))
    assert hf.catalog_health(check=True).mended == 0
    run(hf.url, "UPDATE catalog_said SET time = time + 1 WHERE seq = 7")
    assert hf.catalog_health(check=True).mended == 1


def test_machines_share_the_time_of_a_comparison(hf, postgres_url):
    """When one has begun, no other has to for an hour."""
    say(hf, "a", "hello")
    hf.list()
    run(postgres_url, "UPDATE catalog_state SET audited = 0")
    with holdfast.open(postgres_url) as other:
        other.list()
        assert hf._core.catalog._is_audit_due()
        assert not other._core.catalog._is_audit_due()


def test_hits_are_what_the_log_says(hf):
    """An index that lies about where something was said leads to nothing."""
    say(hf, "a", "truth")
    assert found(hf.search("truth"))
    run(hf.url, "UPDATE catalog_said SET words = '''lie'':1'::tsvector WHERE role = 'user'")
    assert hf.search("lie") == []
    run(hf.url, "UPDATE catalog_said SET words = '''truth'':1'::tsvector, seq = 999")
    assert hf.search("truth") == []


def test_a_session_that_left_the_index_amid_a_search_is_no_hit(hf):
    """What was said in it is passed over."""
    say(hf, "a", "truth")
    assert found(hf.search("truth"))
    run(hf.url, "DELETE FROM catalog_sessions")
    index = hf._core.catalog._lent
    from holdfast.catalog import Asked

    assert index.search(hf.store, Asked(query="truth")) == []


def test_a_lost_connection_is_told_and_got_over(hf, monkeypatch):
    """No answer is better than half of one; the next question is answered."""
    say(hf, "a", "one")
    hf.list()
    real = link.ServerLink.run

    def broken(self, work, *, again=True):
        raise Unavailable("PostgreSQL: gone")

    monkeypatch.setattr(link.ServerLink, "run", broken)
    for ask in (hf.list, lambda: hf.search("one", limit=3), hf.stats, hf.reindex):
        with pytest.raises(Unavailable):
            ask()
    assert hf._core.catalog.feed("a") == {"a": True}
    monkeypatch.setattr(link.ServerLink, "run", real)
    assert ids(hf.list()) == ["a"]


def test_the_server_may_restart_between_questions(hf, postgres_url):
    """Connections that were ended are made again."""
    say(hf, "a", "one")
    hf.list()
    run(
        postgres_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'holdfast' AND pid <> pg_backend_pid()",
    )
    assert ids(hf.list()) == ["a"]
    assert found(hf.search("one"))


# -- where it may not be ---------------------------------------------------------------------


@pytest.fixture
def guest(postgres_server, postgres_url):
    """The address for a role that owns nothing; what it may do is granted by the tests."""
    schema = postgres_url.partition("schema=")[2]
    role = f"guest_{uuid4().hex[:12]}"
    run(postgres_url, f"CREATE ROLE {role} LOGIN")
    with holdfast.open(postgres_url) as owner:
        say(owner, "a", "words of the owner")
    for grant in (
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    ):
        run(postgres_url, grant)
    return postgres_url.replace("holdfast@", f"{role}@")


def test_a_role_that_may_make_no_tables_has_its_own_file(guest, monkeypatch):
    """Lists and searches are right, and the health says what to grant."""
    with holdfast.open(guest) as hf:
        assert ids(hf.list()) == ["a"]
        assert found(hf.search("owner"))
        health = hf.catalog_health()
        assert health.place is not None
        assert health.place.endswith(".db")
        assert "grant" in (health.trouble or "")
        say(hf, "b", "words of the guest")
        assert ids(hf.list()) == ["b", "a"]
        assert hf.reindex().sessions == 2
        hf.stats()
        monkeypatch.setattr(_catalog, "_REFUSED_S", 0.0)
        hf.reindex()
        assert found(hf.search("guest"))


def test_a_role_that_may_write_rows_shares_the_index(guest, postgres_url):
    """Tables that the owner made are used by who may write to them."""
    schema = postgres_url.partition("schema=")[2]
    role = guest.partition("//")[2].partition("@")[0]
    with holdfast.open(postgres_url) as owner:
        owner.list()
    run(postgres_url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
    with holdfast.open(guest) as hf:
        say(hf, "b", "words of the guest")
        assert ids(hf.list()) == ["b", "a"]
        assert "PostgreSQL" in (hf.catalog_health().place or "")
        assert hf.reindex().sessions == 2
        assert ids(hf.list()) == ["b", "a"]
        assert hf.catalog_health().trouble is None
        # To make tables again is more than that.
        run(postgres_url, "DROP TABLE catalog_said")
        assert found(hf.search("guest"))
        assert "grant" in (hf.catalog_health().trouble or "")
    with holdfast.open(postgres_url) as owner:
        assert found(owner.search("guest"))


def test_a_role_that_may_only_read_the_index_has_its_own_file(guest, postgres_url):
    """What it cannot bring up to date it does not use."""
    schema = postgres_url.partition("schema=")[2]
    role = guest.partition("//")[2].partition("@")[0]
    with holdfast.open(postgres_url) as owner:
        owner.list()
        run(postgres_url, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
        with holdfast.open(guest) as hf:
            say(owner, "b", "news")
            assert ids(hf.list()) == ["b", "a"]
            assert found(hf.search("news"))


def test_tables_of_a_newer_version_are_left_alone(hf, postgres_url):
    """An older program does not undo what a newer one made; it has its own file."""
    say(hf, "a", "one")
    hf.list()
    run(postgres_url, "UPDATE catalog_state SET version = 99")
    with holdfast.open(postgres_url) as older:
        assert ids(older.list()) == ["a"]
        assert "newer" in (older.catalog_health().trouble or "")
    assert run(postgres_url, "SELECT version FROM catalog_state") == [(99,)]


def test_without_the_extension_parts_of_words_are_found_all_the_same(postgres_server):
    """A role that cannot have pg_trgm finds as much, and the health says what would help."""
    name = f"d{uuid4().hex[:12]}"
    run(postgres_server.url, f"CREATE ROLE {name} LOGIN")
    run(postgres_server.url, f"CREATE DATABASE {name}")
    base = postgres_server.url.rpartition("/")[0]
    run(f"{base}/{name}", "CREATE SCHEMA holdfast")
    run(f"{base}/{name}", f"GRANT USAGE, CREATE ON SCHEMA holdfast TO {name}")
    url = f"{base}/{name}".replace("holdfast@", f"{name}@")
    with holdfast.open(url) as hf:
        say(hf, "a", "we hold fast: holdfast")
        assert len(hf.search("*oldf")) == 1
        health = hf.catalog_health()
        assert "PostgreSQL" in (health.place or "")
        assert "pg_trgm" in (health.trouble or "")
    run(f"{base}/{name}", "CREATE EXTENSION pg_trgm SCHEMA public")
    with holdfast.open(url) as hf:
        assert len(hf.search("*oldf")) == 1
        assert hf.catalog_health().trouble is None
