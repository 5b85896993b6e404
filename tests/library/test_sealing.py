"""Sealed sessions in the library: as any other with the key, closed without it, on every store."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from uuid import uuid4

import pytest
from sealed_sessions import KEY, OTHER, QUICK, SECRET, brief, files_with, say, told

import holdfast
from holdfast.agent._permissions import StandingApprovals
from holdfast.agent._spec import read_custom
from holdfast.errors import Conflict, Forbidden, InvalidData, KeyMissing, StoreFull, Tampered, UsageError
from holdfast.session import SealingStore, read_agent, sealing, within
from holdfast.storage import MemoryStore, Store

pytestmark = pytest.mark.stores(seal=True, key=KEY)

KINDS = ("memory", "file", "sqlite", "postgres", "bucket")


@pytest.fixture
def folder(tmp_path):
    """The path of a store of files."""
    return str(tmp_path / "store")


@pytest.mark.req("S4-58", "S4-73", "S4-57")
def test_nothing_of_a_sealed_session_is_readable_in_the_store(hf, folder):
    """Not in log, payloads, snapshots, memory, or catalogue; nor is it in any name."""
    say(hf, "a")
    hf.fork("a", new_id="b")
    hf.list()
    hf.search(SECRET)
    hf.close()
    assert files_with(folder, SECRET, SECRET.lower(), KEY) == []
    assert list(Path(folder).rglob(f"*{SECRET}*")) == []


def test_a_sealed_session_goes_on_as_any_other(hf):
    """State, messages, payloads, keys of events, batches: the same after opening it again."""
    say(hf, "a")
    with hf.session("a", **QUICK) as s:
        assert s.restored
        assert s.title == f"The {SECRET}"
        assert s.variables["word"] == s.memory.get("word") == SECRET
        first = s.append("usage", {"input_tokens": 3}, key="once")
        assert first.seq < s.seq
        s.user("more")
    assert hf.verify("a").ok
    assert hf.verify("a").sealed
    assert hf.keys.is_sealed("a")
    assert hf.recover("a").messages[-1]["content"] == "more"
    assert hf.state("a", at=3).event_count == 4
    assert [event.type for event in hf.events("a", reverse=True, limit=1)] == ["closed"]


@pytest.mark.parametrize("kind", KINDS)
def test_sealed_sessions_on_every_store(request, kind, tmp_path):
    """Recorded, forked, listed, found, rewrapped, unsealed and erased, wherever they are kept."""
    where = place(request, kind, tmp_path)
    with holdfast.open(where, seal=True, key=KEY) as hf:
        say(hf, "a")
        hf.fork("a", at=5, new_id="b")
        before = told(hf, "a")
        assert {row.title for row in hf.list()} == {f"The {SECRET}", f"The {SECRET} (fork)"}
        assert {hit.session_id for hit in hf.search("about")} == {"a", "b"}
        with holdfast.open(within(hf.store)) as closed:
            assert {row.state for row in closed.list()} == {"sealed"}
            with pytest.raises(KeyMissing):
                list(closed.events("a"))
        hf.keys.rotate(data=True)
        assert told(hf, "a") == before
        assert hf.verify("a").ok
        assert len(hf.keys.decrypt(["a"]).changed) == 1
        assert told(hf, "a") == before
        assert not hf.keys.is_sealed("a")
        assert hf.erase("a").erased == ("sessions/a", "sessions/b")
        assert hf.list() == []


def place(request, kind, folder):
    if kind == "memory":
        return MemoryStore()
    if kind == "postgres":
        return request.getfixturevalue("postgres_url")
    if kind == "bucket":
        return request.getfixturevalue("seaweed_server").url(uuid4().hex)
    made = folder / "one"
    made.mkdir(mode=0o700)
    return str(made / "store") if kind == "file" else f"sqlite://{made}/store.db"


def test_what_is_staged_is_sealed_when_it_is_saved(hf, folder):
    """Nothing is on disk before, and then nothing readable."""
    s = hf.session("a", **QUICK, staged=True)
    s.user(SECRET)
    s.tool_result("c", SECRET * 40_000)
    assert not hf.exists("a")
    assert [event.type for event in s.events()][-1] == "tool_result"
    s.flush()
    s.user("more")
    s.close()
    assert files_with(folder, SECRET) == []
    assert hf.recover("a").messages[0]["content"][0]["text"] == SECRET


def test_an_event_that_could_not_be_written_is_told_with_the_error(hf, monkeypatch):
    """After StoreFull it goes on; the line before stays the line before."""
    with hf.session("a", **QUICK) as s:
        s.user("one")
        real = s._journal.writer.log.append
        for write in (lambda: s.user("lost"), lambda: s.extend([("user", {"content": "lost"})] * 2)):
            monkeypatch.setattr(s._journal.writer.log, "append", refuse)
            with pytest.raises(StoreFull):
                write()
            monkeypatch.setattr(s._journal.writer.log, "append", real)
            s.user("two")
    assert hf.verify("a").ok
    assert b"lost" not in b"".join(event.raw for event in hf.events("a"))


def refuse(*_):
    raise StoreFull


def test_unsealed_events_are_on_the_error_of_a_store_that_fails_later():
    """What a sealed session could not save can be saved elsewhere, in the clear."""
    from holdfast.testing import DeferredStore

    store = DeferredStore()
    hf = holdfast.open(store, seal=True, key=KEY)
    s = hf.session("a", **QUICK)
    s.user(SECRET)
    store.fail_after = 0
    with pytest.raises(holdfast.errors.StoreError) as caught:
        deque(map(s.user, ["second", "third"]))
    assert SECRET in {event.data.get("content") for event in caught.value.unsaved}


def test_one_session_may_be_sealed_and_another_not(folder):
    """Per session, whatever the store's default; what is there stays as it is."""
    with holdfast.open(folder, key=KEY) as hf:
        brief(hf, "plain", SECRET)
        brief(hf, "sealed", SECRET, seal=True)
        assert [hf.keys.is_sealed(id) for id in ("plain", "sealed")] == [False, True]
    with holdfast.open(folder, key=KEY, seal=True) as hf:
        with hf.session("plain", **QUICK) as s:
            s.user("more")
        assert not hf.keys.is_sealed("plain")
        for id, seal, verb in (("plain", True, "encrypt"), ("sealed", False, "decrypt")):
            with pytest.raises(UsageError) as caught:
                hf.session(id, seal=seal)
            assert verb in caught.value.remedy
    with holdfast.open(folder) as hf, pytest.raises(KeyMissing):
        hf.session("new", seal=True)


def test_settings_name_the_key(folder, monkeypatch):
    """`seal` and `key` from the environment or a configuration; a project may not say the key."""
    monkeypatch.setenv("HOLDFAST_KEY", "env:MY_KEY")
    monkeypatch.setenv("HOLDFAST_SEAL", "true")
    monkeypatch.setenv("MY_KEY", KEY.hex())
    with holdfast.open(folder) as hf:
        hf.session("a", **QUICK).user(SECRET)
        assert hf.keys.is_sealed("a")
    monkeypatch.delenv("HOLDFAST_KEY")
    with pytest.raises(UsageError, match="no key is set"):
        holdfast.open(folder)


def test_a_project_may_not_name_a_key(tmp_path, monkeypatch):
    """It could run a command, or have a stranger's key seal what is mine."""
    (tmp_path / "holdfast.toml").write_text("key = 'command:steal'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    with pytest.raises(Forbidden, match="key may not come from a project"):
        holdfast.open("memory:")


def test_another_key_opens_nothing_and_says_which_would(hf, folder):
    """KeyMissing with the fingerprint, everywhere; lists show the session as sealed."""
    say(hf, "a")
    hf.close()
    with holdfast.open(folder, key=OTHER) as other:
        for look in (other.session, other.state, other.recover, other.verify, other.events):
            if look == other.verify:
                assert not look("a").opened
                continue
            with pytest.raises(KeyMissing, match="another key: given"):
                list(look("a"))
        [row] = other.list()
        assert (row.state, row.title, row.tags) == ("sealed", None, ())
        assert other.search(SECRET) == []
        [foreign] = other.keys.list()
        assert not foreign.available
        assert other.keys.check() != {}


def test_lists_and_searches_have_sealed_sessions_in_their_places(hf):
    """Filters, order, pages, and hits beside those of the index."""
    for number in range(6):
        clock = 1_700_000_000_000 + number * 1000
        with hf.session(f"s{number}", **QUICK, seal=bool(number % 2), clock=lambda c=clock: c) as s:
            s.user(f"word {number}")
            s.tag("odd" if number % 2 else "even")
    assert [row.session_id for row in hf.list()] == ["s5", "s4", "s3", "s2", "s1", "s0"]
    assert [row.session_id for row in hf.list(tags=["odd"])] == ["s5", "s3", "s1"]
    seen, page = [], hf.list(limit=2)
    while page:
        seen += [row.session_id for row in page]
        page = hf.list(limit=2, after=page.next) if page.next else []
    assert seen == ["s5", "s4", "s3", "s2", "s1", "s0"]
    assert {hit.session_id for hit in hf.search("word")} == {f"s{n}" for n in range(6)}
    assert [hit.session_id for hit in hf.search("word", session_id="s3")] == ["s3"]
    assert len(hf.search("word", limit=4)) == 4
    with hf.session("s1", **QUICK) as s:
        s.user("later")
    assert hf.info("s1").message_count == 2
    assert [row.message_count for row in hf.list(tags=["odd"]) if row.session_id == "s1"] == [2]


def test_followers_see_sealed_events(hf):
    """Those that are there and those that come."""
    with hf.session("a", **QUICK) as s:
        s.user("one")
        follower = hf.follow("a")
        assert [event.type for event in follower.poll()] == ["session_start", "opened", "user"]
        s.user("two")
        assert [event.data["content"] for event in follower.poll()] == ["two"]


def test_a_follower_goes_on_when_a_session_is_sealed_under_it(folder):
    """The log is another one, with the same events."""
    with holdfast.open(folder, key=KEY) as hf:
        with hf.session("a", **QUICK) as s:
            s.user("one")
        follower = hf.follow("a")
        assert len(follower.poll()) == 4
        hf.keys.encrypt(["a"])
        with hf.session("a", **QUICK) as s:
            s.user("two")
        assert [event.data.get("content") for event in follower.poll()][:2] == [None, "two"]


def test_spaces_are_sealed_too(hf, folder):
    """A space of a sealed store has the same keys."""
    inside = hf.space("anna")
    inside.session("a", **QUICK).user(SECRET)
    assert inside.keys.is_sealed("a")
    inside.close()
    assert files_with(folder, SECRET) == []


def test_documents_of_agents_are_sealed_from_the_first_on(hf, folder):
    """Memory, permissions, pointer, instructions; a plain one in their place is Tampered."""
    documents = hf.store.documents("agents/bot")
    for name in ("custom_instructions.md", "permissions.json", "plugins/x.json"):
        documents.put(name, SECRET.encode())
        assert documents.get(name)[0] == SECRET.encode()
    assert files_with(folder, SECRET) == []
    etag = documents.get("permissions.json")[1]
    documents.put("permissions.json", b"new", if_match=etag)
    with pytest.raises(Conflict):
        documents.put("permissions.json", b"late", if_match=etag)
    within(hf.store).documents("agents/bot").put("permissions.json", b'{"allow":"all"}')
    with pytest.raises(Tampered):
        documents.get("permissions.json")
    assert documents.delete("permissions.json")
    assert documents.get("permissions.json") is None


def test_documents_of_an_agent_that_were_there_stay_as_they_are(folder):
    """Until they are encrypted: what a person wrote can still be edited."""
    with holdfast.open(folder) as hf:
        hf.store.documents("agents/bot").put("custom_instructions.md", b"be kind")
    with holdfast.open(folder, seal=True, key=KEY) as hf:
        documents = hf.store.documents("agents/bot")
        documents.put("memory.json", b"{}")
        assert within(hf.store).documents("agents/bot").get("memory.json")[0] == b"{}"
        assert "agents/bot" in hf.keys.encrypt().changed
        assert hf.store.documents("agents/bot").get("custom_instructions.md")[0] == b"be kind"
        assert within(hf.store).documents("agents/bot").get("memory.json")[0] != b"{}"


def test_a_store_with_keys_is_a_store_in_everything_else():
    """Whatever a store can do is passed on, also what is added one day."""
    inner = MemoryStore()
    store = SealingStore(inner, holdfast.open(inner, key=KEY)._core.keychain)
    own = {"log", "documents", "ring", "new_ring", "put_ring", "forget_keys", "may_seal"}
    for name in dir(Store):
        if callable(getattr(Store, name)) and name[0] != "_" and name not in own:
            assert getattr(SealingStore, name) is not getattr(Store, name), name
    assert store.identity == inner.identity
    assert sealing(inner) is None
    assert within(inner) is inner


def test_the_lines_of_a_sealed_log_are_named_as_what_they_are(hf, tmp_path):
    """Exported as lines, byte for byte, they open nowhere else: an import says so, and what to export instead."""
    say(hf, "a")
    (tmp_path / "a.jsonl").write_text(hf.export("a", "jsonl"))
    with holdfast.open("memory:") as other, pytest.raises(InvalidData, match="sealed session") as refused:
        other.import_(tmp_path / "a.jsonl")
    assert "bundle" in refused.value.remedy


def test_copies_and_bundles_stay_sealed(hf, folder, tmp_path):
    """To another store, to a file and back; with the key they open there, without it not."""
    say(hf, "a")
    before = told(hf, "a")
    bundle = str(tmp_path / "a.bundle")
    hf.export("a", "bundle", to=bundle)
    assert files_with(bundle, SECRET) == []
    other = str(tmp_path / "other")
    with holdfast.open(other, key=KEY) as copy:
        assert hf.copy_to(copy).sessions == ["a"]
        assert told(copy, "a") == before
        assert files_with(other, SECRET) == []
    with holdfast.open(tmp_path / "third", key=KEY) as third:
        assert third.import_(bundle) == ["a"]
        assert told(third, "a")[: len(before)] == before
        assert third.import_(bundle) == ["a"]
    with holdfast.open(tmp_path / "fourth") as fourth, pytest.raises(KeyMissing):
        fourth.import_(bundle)
    part = str(tmp_path / "part.bundle")
    hf.export("a", "bundle", to=part, at=6)
    with holdfast.open(tmp_path / "fifth", key=KEY) as fifth:
        fifth.import_(part)
        assert told(fifth, "a")[:7] == before[:7]


def test_a_deleted_session_is_sealed_in_the_trash_and_comes_back(hf, folder):
    """The trash is part of the store."""
    say(hf, "a")
    before = told(hf, "a")
    hf.delete("a")
    assert files_with(folder, SECRET) == []
    hf.undelete("a")
    assert told(hf, "a") == before
    hf.archive("a")
    assert told(hf, "a") == before


def test_a_fork_has_a_key_of_its_own(hf):
    """What is written in the fork opens with another data key than what stands in the parent."""
    say(hf, "a")
    hf.fork("a", new_id="b")
    with hf.session("b", **QUICK) as s:
        s.user("only here")
    ours, theirs = hf.store.ring("sessions/b"), hf.store.ring("sessions/a")
    assert theirs.current.secret != ours.current.secret
    assert ours.keys[0].secret == theirs.keys[0].secret
    assert ours.keys[0].stop == ours.current.first
    assert hf.verify("b").ok
    hf.merge("a", "b", new_id="c")
    assert hf.keys.is_sealed("c")
    assert hf.compare("a", "b") is not None


def test_without_the_key_nobody_replaces_what_is_sealed(hf, folder):
    """Memory, pointer, permissions, instructions of a sealed agent: KeyMissing, and untouched."""
    documents = hf.store.documents("agents/bot")
    names = ("memory.json", "agent.json", "permissions.json", "custom_instructions.md")
    for name in names:
        documents.put(name, b"{}")
    raw = within(hf.store).documents("agents/bot")
    before = [raw.get(name) for name in names]
    hf.close()
    with holdfast.open(folder) as closed:
        s = closed.session("new", **QUICK, agent_id="bot")
        with pytest.raises(KeyMissing):
            s.memory.get("word")
        plain = closed.store.documents("agents/bot")
        for read in (
            lambda: read_agent(plain, "bot"),
            lambda: read_custom(plain),
            lambda: StandingApprovals(plain, print)._load(),
        ):
            with pytest.raises(KeyMissing):
                read()
        assert [plain.get(name) for name in names] == before


def test_purging_an_agent_leaves_its_instructions_readable(hf):
    """What a person wrote stays, and so does the key that opens it."""
    documents = hf.store.documents("agents/bot")
    documents.put("custom_instructions.md", b"be kind")
    documents.put("memory.json", b"{}")
    hf.purge_agent("bot")
    assert hf.store.documents("agents/bot").get("custom_instructions.md")[0] == b"be kind"
    hf.purge_agent("bot", instructions=True)
    assert within(hf.store).documents("agents/bot").names() == []


def test_sealed_sessions_stand_where_they_belong_in_every_order(folder):
    """Open and sealed ones in one list, page by page, narrowed by text or not."""
    from holdfast.catalog._filter import SORTS, arranged, read_order

    with holdfast.open(folder) as hf:
        for number in range(4):
            with hf.session(f"open-{number}", title=f"Tür {number}", **QUICK) as session:
                session.user("x" * (50 - 10 * number))
    with holdfast.open(folder, seal=True, key=KEY) as hf:
        for number in range(4):
            with hf.session(f"shut-{number}", title=f"Tür {number} {SECRET}", **QUICK) as session:
                for _ in range(number):
                    session.user("x" * 25)
        everyone = [hf.info(id) for id in hf.session_ids()]
        for name in (*SORTS, *(f"{name}:asc" for name in SORTS), "title:desc"):
            order = read_order(name)
            expected = [row.session_id for row in arranged(everyone, order)]
            for text in (None, "TUR"):
                found, after = [], None
                while True:
                    page = hf.list(3, sort=name, text=text, after=after)
                    found += [row.session_id for row in page]
                    after = page.next
                    if after is None:
                        break
                assert found == expected, (name, text)


def test_the_trash_tells_no_title_of_a_sealed_session(hf, folder):
    """What lies beside its log in the trash is not sealed with it."""
    with hf.session("a", title=f"about {SECRET}", **QUICK) as session:
        session.user("hello")
    hf.delete("a")
    assert [(one.session_id, one.title) for one in hf.trash.list()] == [("a", None)]
    hf.close()
    assert files_with(folder, SECRET) == []


def test_what_was_exported_open_is_sealed_where_it_comes_back(hf, folder, tmp_path):
    """Its words are in no file of a store whose sessions are sealed, here and elsewhere; twice is once."""
    say(hf, "a")
    exported = hf.export("a", "json").encode()
    (again,) = hf.import_(exported)
    assert [again, *(row.session_id for row in hf.list())] == ["a", "a"]
    with holdfast.open(tmp_path / "other", key=OTHER, seal=True) as other:
        (made,) = other.import_(exported)
        assert other.import_(exported) == [made]
        assert other.keys.is_sealed(made)
        assert other.verify(made).ok
        assert other.recover(made).messages == hf.recover("a").messages
    hf.close()
    assert files_with(str(tmp_path / "other"), SECRET, SECRET.lower()) == files_with(folder, SECRET) == []


def test_what_goes_on_with_a_sealed_session_is_sealed(hf, folder):
    """A longer export of a session that is sealed here is added to it, and not beside it in the clear."""
    say(hf, "a")
    early = hf.export("a", "json").encode()
    with hf.session("a") as s:
        s.user(f"more of the {SECRET}")
    late, messages = hf.export("a", "json").encode(), hf.recover("a").messages
    hf.erase("a")
    assert hf.import_(early) == hf.import_(late) == ["a"]
    assert hf.recover("a").messages == messages
    hf.close()
    assert files_with(folder, SECRET) == []


def test_sealed_sessions_count_for_whoever_has_the_key(hf, folder):
    """Tokens, messages and tools of sealed sessions are in the statistics, by any choice; without the key none is."""
    with hf.session("a", agent_id="clerk") as s:
        s.user("Hello")
        s.append("usage", {"input_tokens": 30, "output_tokens": 4, "model": "m"})
        s.tag("work")
    for found in (hf.stats(), hf.stats(tags=["work"]), hf.stats(agent_id="clerk"), hf.stats(model="m")):
        assert (found.sessions, found.tokens, found.unreadable) == (1, 34, 0)
    assert hf.stats().messages == 1
    hf.close()
    with holdfast.open(folder) as closed:
        assert (closed.stats().tokens, closed.stats().unreadable) == (0, 1)
