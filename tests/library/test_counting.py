"""Statistics and timelines through the facade."""

from __future__ import annotations

import datetime as dt

import pytest

import holdfast
from holdfast.errors import NotFound, UsageError
from holdfast.storage.memory import MemoryStore


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A configuration of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def work(library, id, *, model="gpt-4o", tokens=1_000_000, agent_id=None):
    """A session with one turn."""
    with library.session(id, agent_id=agent_id) as session, session.turn():
        session.user("deploy with docker and kubernetes")
        call = session.tool_call("Bash", {"command": "kubectl get pods"})
        session.tool_result(call, "no", is_error=True)
        session.assistant("done", model=model, usage={"input_tokens": tokens})


@pytest.fixture(params=["files", "memory"])
def library(request, store_root):
    """Two sessions in a store."""
    place = store_root if request.param == "files" else MemoryStore()
    with holdfast.open(place) as found:
        work(found, "a", agent_id="one")
        work(found, "b", model="mystery", tokens=7)
        yield found


@pytest.mark.req("S2-64", "S2-65", "S2-66", "C10")
def test_stats(library):
    """Tokens, cost, activity, tools and topics of all sessions."""
    stats = library.stats(tz="UTC")
    assert (stats.sessions, stats.turns, stats.tokens, stats.cost) == (2, 2, 1_000_007, 2.5)
    assert (stats.unpriced_tokens, stats.unpriced_models) == (7, ["mystery"])
    assert sum(stats.hours) == stats.messages == 6
    assert [(one.tag, one.sessions) for one in stats.topics] == [("devops", 2)]
    assert (stats.tools[0].name, stats.tools[0].failure_rate) == ("Bash", 1.0)


def test_stats_are_of_this_moment(library):
    """What was just recorded is counted, also of a session that is still open."""
    with library.session("c") as session:
        session.usage(model="gpt-4o", input_tokens=3)
        assert library.stats().tokens == 1_000_010


def test_filters(library):
    """Time, tags, agent and model."""
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert library.stats(since=tomorrow).sessions == 0
    assert library.stats(until=tomorrow, agent_id="one").sessions == 1
    assert library.stats(tags=["devops"], model="mystery").tokens == 7
    assert library.stats(tags=["travel"]).sessions == 0


@pytest.mark.parametrize("given", [{"by": "year"}, {"tz": "Nowhere/Land"}, {"tags": "one"}])
def test_wrong_questions(library, given):
    """A period, zone or list of tags that is none is refused."""
    with pytest.raises(UsageError):
        library.stats(**given)


def test_own_prices(store_root):
    """A table in the settings changes what is known."""
    prices = {"mystery": {"input": 10, "output": 10}}
    with holdfast.open(store_root, config={"prices": prices}) as library:
        work(library, "a", model="mystery")
        assert library.stats().cost == 10.0
        assert library.timeline("a").cost == 10.0


def test_automatic_tags_switched_off(store_root):
    """With the setting off there are none: in statistics, lists and filters."""
    with holdfast.open(store_root, config={"catalog": {"auto_tags": False}}) as library:
        work(library, "a")
        library.tag("a", "mine")
        assert [one.tag for one in library.stats().topics] == ["mine"]
        assert (library.info("a").auto_tags, library.list()[0].auto_tags) == ((), ())
        assert library.list(tags=["devops"]) == []
        assert len(library.list(tags=["mine"], limit=1)) == 1
    with holdfast.open(store_root) as library:
        assert len(library.list(tags=["devops"])) == 1


def test_timeline(library):
    """The turns of one session."""
    (turn,) = library.timeline("a").turns
    assert (turn.tokens, turn.cost, turn.tools, turn.failures) == (1_000_000, 2.5, {"Bash": 1}, 1)
    assert turn.prompt == "deploy with docker and kubernetes"
    with pytest.raises(NotFound):
        library.timeline("nobody")


def test_a_damaged_catalogue_is_gone_round(store_root):
    """Figures that were changed in the index are noticed, and read from the logs again."""
    import sqlite3

    with holdfast.open(store_root) as library:
        work(library, "a")
        before = library.stats()
    with sqlite3.connect(store_root / "catalog.db") as database:
        (tally,) = database.execute("SELECT tally FROM folds").fetchone()
        broken = bytearray(tally)
        broken[len(broken) // 2] ^= 1
        database.execute("UPDATE folds SET tally = ?", (bytes(broken),))
    database.close()
    with holdfast.open(store_root) as library:
        assert library.stats() == before


def test_a_catalogue_without_figures_is_made_anew(store_root):
    """Rows that are missing from the index come back from the logs."""
    import sqlite3

    with holdfast.open(store_root) as library:
        work(library, "a")
        before = library.stats()
    with sqlite3.connect(store_root / "catalog.db") as database:
        database.execute("DELETE FROM folds")
    database.close()
    with holdfast.open(store_root) as library:
        assert library.stats() == before


def _spend(hf, id="s", model="my-model"):
    with hf.session(id) as s, s.turn():
        s.user("hello")
        s.assistant("hi", model=model, usage={"input_tokens": 1_000_000, "output_tokens": 0})


def test_lists_show_costs_by_the_users_prices(tmp_path, monkeypatch):
    """A list, one session and the statistics agree, also after the prices changed."""
    paid = {"prices": {"my-model": {"input": 2.0, "output": 1.0}}}
    dearer = {"prices": {"my-model": {"input": 3.0, "output": 1.0}}}
    with holdfast.open(tmp_path, config=paid) as hf:
        _spend(hf)
        _spend(hf, "other", "nobody-knows")
        assert {m.session_id: m.cost for m in hf.list()} == {"s": 2.0, "other": None}
        assert hf.info("s").cost == hf.stats().cost == 2.0
    monkeypatch.setattr("holdfast.catalog._look.look", None)  # no log is read for it
    with holdfast.open(tmp_path, config=dearer) as hf:
        assert hf.info("s").cost == 3.0
        assert {m.session_id: m.cost for m in hf.list()} == {"s": 3.0, "other": None}
        assert [m.cost for m in hf.list(None) if m.session_id == "s"] == [3.0]
        with holdfast.open(tmp_path, config=paid) as beside:
            assert beside.info("s").cost == 2.0
        assert {m.session_id: m.cost for m in hf.list()} == {"s": 3.0, "other": None}
    with holdfast.open(tmp_path) as hf:
        assert [m.cost for m in hf.list()] == [None, None]
        assert hf.catalog_health().mended == 0


def test_a_price_table_with_a_mistake_stops_no_list(tmp_path, monkeypatch):
    """Lists go on with the prices that come with this version; statistics say what is wrong."""
    wrong = tmp_path / "prices.toml"
    wrong.write_text('["gpt-4o"]\ninput = -1\n')
    monkeypatch.setattr("holdfast._config._settings.prices_file", lambda: str(wrong))
    with holdfast.open(tmp_path / "store") as hf:
        _spend(hf, model="gpt-4o")
        assert hf.list()[0].cost == 2.5
        with pytest.raises(UsageError):
            hf.stats()
