"""The same library on every kind of store: what can be asked and done does not depend on it."""

from __future__ import annotations

import datetime as dt
import threading
import time
from uuid import uuid4

import pytest

import holdfast
from holdfast.catalog import Policy
from holdfast.errors import Locked, NotFound

QUICK = {"autosave_ms": 0, "snapshot_ms": 0}
DAY = 86_400
KINDS = ("file", "sqlite", "postgres", "bucket")


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    """The address of an empty store of each kind."""
    return place(request, request.param, tmp_path / "one")


def place(request, kind, folder):
    """Somewhere that nobody used before; the servers are started when they are needed."""
    if kind == "postgres":
        return request.getfixturevalue("postgres_url")
    if kind == "bucket":
        return request.getfixturevalue("seaweed_server").url(uuid4().hex)
    folder.mkdir(mode=0o700)
    folder.chmod(0o700)
    return str(folder / "store") if kind == "file" else f"sqlite://{folder}/store.db"


@pytest.fixture
def hf(url):
    """A store with three sessions."""
    with holdfast.open(url) as library:
        fill(library)
        yield library


def fill(hf):
    """Three sessions: of one agent, with tools, with a big payload; one is long over."""
    with hf.session("old", **QUICK, clock=lambda: 1_000_000_000_000, agent_id="bot") as s:
        s.user("where is the ancient harbour?")
        s.assistant("in the north", model="claude-x", usage={"input_tokens": 5, "output_tokens": 7})
    with hf.session("tools", **QUICK) as s:
        s.user("read src/auth/login.py")
        call = s.tool_call("Read", {"path": "src/auth/login.py"})
        s.tool_result(call, {"content": "def login():\n" + "    pass\n" * 40_000})
        s.assistant("it logs in 日本語")
    with hf.session("trip", **QUICK, agent_id="bot") as s:
        s.user("plan a trip to the harbour")
        s.memory.set("city", "Kyoto")
        s.snapshot()
        s.assistant("by train")


def ids(page):
    return [row.session_id for row in page]


def lines(hf, id):
    return b"".join(hf.store.log(f"sessions/{id}").read())


def hits(hf, query, **scope):
    return {(hit.session_id, hit.role) for hit in hf.search(query, limit=None, **scope)}


@pytest.mark.req("S2-75")
def test_lists_have_filters_and_pages(hf, url):
    """Newest first, by agent, time, tag and page; another who opens it sees the same."""
    assert ids(hf.list()) == ["trip", "tools", "old"]
    assert ids(hf.list(agent_id="bot")) == ["trip", "old"]
    assert ids(hf.list(until=dt.datetime(2005, 1, 1, tzinfo=dt.UTC))) == ["old"]
    first = hf.list(2)
    assert ids(hf.list(2, after=first.next)) == ["old"]
    assert hf.info("old").message_count == 2
    assert sorted(hf.session_ids("T")) == ["tools", "trip"]
    with holdfast.open(url) as other:
        assert other.list() == hf.list()
        with other.session("later", **QUICK) as s:
            s.user("by another")
        assert ids(hf.list(1)) == ["later"]
        assert hf.catalog_health().sessions == 4


def test_searches_find_words_phrases_parts_and_paths(hf):
    """Also what is kept beside the log, and what is said while a session is open."""
    assert hits(hf, "harbour") == {("old", "user"), ("trip", "user")}
    assert hits(hf, '"ancient harbour"') == {("old", "user")}
    assert hits(hf, "harbour -ancient") == {("trip", "user")}
    assert hits(hf, "src/auth/login.py") >= {("tools", "user"), ("tools", "tool_call")}
    assert hits(hf, "arbou") == {("old", "user"), ("trip", "user")}
    assert hits(hf, "本語") == {("tools", "assistant")}
    assert hits(hf, "def login", role="tool") == {("tools", "tool_result")}
    assert hits(hf, "harbour", agent_id="bot", session_id="trip") == {("trip", "user")}
    with hf.session("trip", **QUICK) as s:
        s.user("bring an umbrella")
        assert hits(hf, "umbrella") == {("trip", "user")}


def test_labels_are_set_found_and_taken_away(hf):
    """Tags, titles and pins, each recorded and in the list at once."""
    hf.tag("trip", "abroad", "ünï")
    hf.title("trip", "To Kyoto")
    hf.policies.pin("old")
    assert ids(hf.list(tags=["abroad", "ünï"])) == ["trip"]
    assert hf.info("trip").title == "To Kyoto"
    assert hf.info("old").pinned
    assert hits(hf, "Kyoto") == {("trip", "title")}
    hf.untag("trip", "abroad")
    assert hf.list(tags=["abroad"]) == []


def test_figures_add_up(hf):
    """Sessions, messages and tokens."""
    stats = hf.stats(tz="UTC")
    assert (stats.sessions, stats.messages) == (3, 7)
    assert (stats.input_tokens, stats.output_tokens) == (5, 7)
    assert hf.stats(agent_id="bot").sessions == 2
    assert hf.stats(until=dt.datetime(2005, 1, 1, tzinfo=dt.UTC)).sessions == 1


def test_a_prune_says_what_it_would_do_and_does_it(hf):
    """A dry run changes nothing; what goes is in the trash and can be had back."""
    policy = Policy(older_than_ms=1000 * DAY * 1000, action="delete")
    would = hf.prune(dry_run=True, policies=[policy])
    assert [one.session_id for one in would.decisions] == ["old"]
    assert ids(hf.list()) == ["trip", "tools", "old"]
    done = hf.prune(policies=[policy])
    assert done.failed == {}
    assert ids(hf.list()) == ["trip", "tools"]
    assert hits(hf, "ancient") == set()
    hf.undelete("old")
    assert ids(hf.list()) == ["trip", "tools", "old"]
    assert hits(hf, "ancient") == {("old", "user")}
    hf.delete("old")
    assert [one.session_id for one in hf.trash.list()] == ["old"]
    with pytest.raises(NotFound):
        hf.undelete("never")


def test_an_archived_session_is_read_searched_and_gone_on_with(hf):
    """Packed it says the same; writing to it unpacks it."""
    if not hf.store.capabilities.archives:
        pytest.skip("this store keeps no archive")
    before = lines(hf, "tools")
    hf.archive("tools")
    assert hf.info("tools").archived
    assert ids(hf.list(archived=True)) == ["tools"]
    assert lines(hf, "tools") == before
    assert ("tools", "user") in hits(hf, "src/auth/login.py")
    with hf.session("tools", **QUICK) as s:
        s.user("and further")
    assert hf.list(archived=True) == []
    assert hf.verify("tools").ok
    assert lines(hf, "tools").startswith(before)


def test_a_fork_shares_the_past_and_goes_its_own_way(hf):
    """Also its payloads; what is said in the one is not in the other."""
    new = hf.fork("tools", new_id="branch")
    with hf.session(new, **QUICK) as s:
        s.user("only in the branch")
    assert hits(hf, '"only in the branch"') == {("branch", "user")}
    assert hf.info("branch").parent == "tools"
    assert ids(hf.list(parent="tools")) == ["branch"]
    [result] = hf.events("branch", types=["tool_result"])
    [original] = hf.events("tools", types=["tool_result"])
    assert result.data == original.data
    assert hf.verify("branch").ok
    assert hf.compare("tools", "branch") is not None
    hf.delete("tools")
    assert hf.verify("branch").ok


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_goes_from_any_store_to_any_other(hf, kind, request, tmp_path):
    """Byte for byte, with all that belongs to it."""
    data = hf.export("tools", "bundle")
    assert "logs in" in hf.export("tools", "markdown")
    if kind == "postgres":
        server = request.getfixturevalue("postgres_server")
        target = f"{server.url}?schema=t{uuid4().hex}"
    else:
        target = place(request, kind, tmp_path / "two")
    with holdfast.open(target) as other:
        assert other.import_(data) == ["tools"]
        assert lines(other, "tools") == lines(hf, "tools")
        assert ("tools", "tool_result") in hits(other, "def login")
        assert other.recover("tools").messages == hf.recover("tools").messages


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_copied_to_any_other_store(hf, kind, request, tmp_path):
    """Sessions, snapshots and agents; the copy answers like the original."""
    if kind == "postgres":
        server = request.getfixturevalue("postgres_server")
        target = f"{server.url}?schema=t{uuid4().hex}"
    else:
        target = place(request, kind, tmp_path / "two")
    hf.tag("trip", "abroad")
    with holdfast.open(target) as other:
        done = hf.copy_to(other)
        assert (sorted(done.sessions), done.failed) == (["old", "tools", "trip"], {})
        assert ids(other.list()) == ids(hf.list())
        assert hits(other, "harbour") == hits(hf, "harbour")
        assert ids(other.list(tags=["abroad"])) == ["trip"]
        assert other.stats(tz="UTC").tokens == hf.stats(tz="UTC").tokens
        assert [one.seq for one in other.snapshots("trip")] == ([one.seq for one in hf.snapshots("trip")])
        assert all(other.verify(id).ok for id in ("old", "tools", "trip"))


@pytest.mark.req("S2-11")
def test_a_catalogue_is_made_anew_when_asked(hf):
    """And says the same afterwards."""
    before = (hf.list(None), hits(hf, "harbour"), hf.stats(tz="UTC"))
    assert hf.reindex().sessions == 3
    assert (hf.list(None), hits(hf, "harbour"), hf.stats(tz="UTC")) == before


@pytest.mark.req("S2-35")
def test_others_find_what_was_said_a_moment_ago(hf, url):
    """One writes; another library lists, searches and reads."""
    with hf.session("trip", **QUICK) as s, holdfast.open(url) as other:
        s.user("fresh words")
        s.flush()
        assert hits(other, "fresh") == {("trip", "user")}
        assert [*other.events("trip")][-1].data["content"] == "fresh words"
        with pytest.raises(Locked):
            other.delete("trip")


def test_what_was_just_appended_is_found_before_it_is_flushed(hf, monkeypatch):
    """Also on a store that sends later, and slowly."""
    sender = getattr(hf.store, "_sender", None)
    with hf.session("trip", **QUICK) as s:
        s.flush()
        if sender is not None:
            send = sender._send
            monkeypatch.setattr(sender, "_send", lambda some: (time.sleep(0.3), send(some))[1])
        s.user("bring a raincoat")
        assert hits(hf, "raincoat") == {("trip", "user")}


def test_many_threads_ask_at_once(hf):
    """Every one of them gets the whole answer."""
    answers = []

    def work():
        answers.append((ids(hf.list()), hits(hf, "harbour"), hf.stats().sessions))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = (["trip", "tools", "old"], {("old", "user"), ("trip", "user")}, 3)
    assert answers == [expected] * 6


def test_calls_that_came_in_messages_count(url):
    """Calls and results that were recorded as a provider's messages are counted and found."""
    call = {"name": "Book", "arguments": '{"to": "Rome"}'}
    use = {"type": "tool_use", "id": "c1", "name": "Book", "input": {"to": "Rome"}}
    no = {"type": "tool_result", "tool_use_id": "c1", "content": "no zebra", "is_error": True}
    histories = {
        "openai": [
            {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "c1", "content": "a zebra"},
        ],
        "anthropic": [{"role": "assistant", "content": [use]}, {"role": "user", "content": [no]}],
        "gemini": [
            {"role": "model", "parts": [{"functionCall": {"name": "Book", "args": {"to": "Rome"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "Book", "response": {"result": "zebra"}}}]},
        ],
    }
    with holdfast.open(url) as hf:
        for id, history in histories.items():
            with hf.session(id, **QUICK) as s, s.turn():
                s.user("book")
                for message in history:
                    s.record(message)
        (use,) = hf.stats().tools
        assert (use.name, use.calls, use.failures) == ("Book", 3, 1)
        everywhere = {*histories}
        assert hits(hf, "Rome", tool="Book") == {(id, "tool_call") for id in everywhere}
        assert hits(hf, "zebra", tool="Book") == {(id, "tool_result") for id in everywhere}
        assert hits(hf, "Rome", role="assistant") == set()
        for id in histories:
            (turn,) = hf.timeline(id).turns
            assert turn.tools == {"Book": 1}
