"""What a store keeps: archive, prune, the trash, legal hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.catalog import Policy
from holdfast.errors import Forbidden, Locked, NotFound
from holdfast.library import Holdfast
from holdfast.storage import MemoryStore

pytestmark = pytest.mark.stores(timers=False)

DAY_MS = 86_400_000


def fill(hf, session_id, *, days=0, words=20, **options):
    """A session whose last event was so many days ago."""
    then = int(time.time() * 1000) - days * DAY_MS
    with hf.session(session_id, clock=lambda: then, **options) as s:
        s.user(f"about {session_id}")
        s.assistant("some words that repeat themselves " * words)


def ids(hf, **options):
    return sorted(row.session_id for row in hf.list(limit=None, **options))


@pytest.mark.req("S2-91")
def test_an_archived_session_is_small_and_reads_as_before(hf):
    """Archiving keeps every event and every answer, in about a third of the space or less."""
    fill(hf, "a", words=2000)
    before = [event.seq for event in hf.events("a")], hf.recover("a").messages, hf.state("a")
    size = os.path.getsize(os.path.join(hf.location("a"), "events.jsonl"))
    hf.archive("a")
    assert ([event.seq for event in hf.events("a")], hf.recover("a").messages) == before[:2]
    assert hf.state("a").to_json() == before[2].to_json()
    assert os.listdir(hf.location("a")).count("events.jsonl") == 0
    assert os.path.getsize(os.path.join(hf.location("a"), "events.jsonl.zst")) < size / 3
    assert hf.info("a").archived
    assert hf.verify("a").ok


def test_going_on_with_an_archived_session_takes_it_out(hf):
    """A writer finds what was there and adds to it."""
    fill(hf, "a")
    hf.archive("a")
    with hf.session("a") as s:
        s.user("go on")
    assert not hf.info("a").archived
    assert hf.recover("a").messages[-1]["content"] == "go on"
    hf.archive("a")
    hf.unarchive("a")
    assert not hf.info("a").archived


def test_an_open_session_is_not_archived(hf):
    """Archiving waits for nobody: a session that is in use is refused."""
    with hf.session("a") as s:
        s.user("x")
        with pytest.raises(Locked):
            hf.archive("a")
    with pytest.raises(NotFound):
        hf.archive("b")


@pytest.mark.req("S2-103")
def test_beyond_the_limit_the_least_recently_used_are_archived_by_prune(store_root):
    """More live sessions than the limit: the oldest are compressed, none is deleted."""
    with Holdfast(store_root, timers=False, limits=holdfast.Limits(sessions_live_max=3)) as hf:
        for n in range(5):
            fill(hf, f"s{n}", days=n)
        done = hf.prune()
        assert sorted(one.session_id for one in done.decisions) == ["s3", "s4"]
        assert ids(hf, archived=True) == ["s3", "s4"]
        assert len(ids(hf)) == 5
        assert hf.prune().decisions == []


@pytest.mark.req("S2-91")
@pytest.mark.req("S2-103")
@pytest.mark.req("S2-112")
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "just ends"])
def test_the_limit_keeps_itself_where_programs_live_for_a_moment(store_root, closes):
    """Nobody need call prune: short programs leave no more live sessions than the limit.

    What one has no time for at its end, which is short on a busy machine, the next does.
    """
    code = f"""
import sys, holdfast
hf = holdfast.open(sys.argv[1], limits=holdfast.Limits(sessions_live_max=2))
with hf.session(sys.argv[2]) as s:
    s.user("hello")
{"hf.close()" if closes else ""}
"""
    for n in range(20):
        subprocess.run([sys.executable, "-c", code, store_root, f"s{n:02}"], check=True)
        with Holdfast(store_root, timers=False) as hf:
            found, archived = sorted(ids(hf)), sorted(ids(hf, archived=True))
        if n >= 3 and len(found) - len(archived) <= 2:
            break
    assert found == [f"s{one:02}" for one in range(n + 1)]
    assert archived == found[:-2]
    logs = [path.name for path in sorted(store_root.glob("sessions/s*/events*"))]
    assert logs == ["events.jsonl.zst"] * (n - 1) + ["events.jsonl"] * 2


def test_a_program_that_makes_no_session_keeps_no_house(store_root):
    """Going on with sessions that are there archives nothing, however many there are."""
    with Holdfast(store_root, timers=False) as hf:
        for n in range(4):
            fill(hf, f"s{n}", days=n)
    with holdfast.open(store_root, limits=holdfast.Limits(sessions_live_max=2)) as hf:
        with hf.session("s0") as s:
            s.user("more")
        assert hf.recover("s0").messages
    with Holdfast(store_root, timers=False) as hf:
        assert ids(hf, archived=True) == []


def test_a_dry_run_says_what_would_go_and_changes_nothing(hf):
    """With dry_run the plan is told, and every byte stays."""
    fill(hf, "old", days=100)
    fill(hf, "new")
    plan = hf.prune(dry_run=True, policies=[Policy(older_than_ms=90 * DAY_MS, action="delete")])
    assert [(one.session_id, one.action) for one in plan.decisions] == [("old", "delete")]
    assert "last used 100 days ago" in plan.decisions[0].why
    assert ids(hf) == ["new", "old"]
    assert hf.trash.list() == []


def test_a_store_that_cannot_archive_still_lets_go():
    """A policy that deletes does so without the archive, and what went can be brought back."""
    store = MemoryStore()
    store.capabilities = msgspec.structs.replace(store.capabilities, archives=False)
    with Holdfast(store, timers=False) as library:
        fill(library, "old", days=100)
        done = library.prune(policies=[Policy(keep=0, action="delete")])
        assert ([one.session_id for one in done.decisions], done.failed) == (["old"], {})
        assert [one.session_id for one in library.trash.list()] == ["old"]
        library.undelete("old")
        assert ids(library) == ["old"]


def test_what_someone_else_put_into_the_trash_is_brought_back_last(hf, store_root):
    """A folder that no deletion of ours made has no number; it is taken when no other is left."""
    for words in (1, 2):
        fill(hf, "a", words=words)
        hf.delete("a")
    os.rename(Path(store_root, "trash", "0.a"), Path(store_root, "trash", "old.a"))
    sizes = []
    for _ in range(2):
        hf.undelete("a")
        sizes.append(len(hf.recover("a").messages[-1]["content"]))
        hf.store.drop("sessions/a")
    assert sizes[0] > sizes[1]


def test_what_a_policy_deletes_can_be_brought_back(hf):
    """Deletion by a policy is a way into the trash, compressed, and back."""
    fill(hf, "old", days=100)
    messages = hf.recover("old").messages
    hf.prune(policies=[Policy(keep=0, action="delete")])
    assert ids(hf) == []
    assert [one.session_id for one in hf.trash.list()] == ["old"]
    hf.undelete("old")
    assert hf.recover("old").messages == messages


def test_kept_sessions_are_named_with_what_keeps_them(hf):
    """Pinned, held, tagged-keep and open sessions stay, and it is said why."""
    for name in ("pinned", "held", "tagged", "open"):
        fill(hf, name, days=500)
    with hf.session("pinned") as s:
        s.append("metadata", {"pinned": True})
    with hf.session("held") as s:
        s.append("metadata", {"legal_hold": "case 7"})
    with hf.session("tagged") as s:
        s.tag("keep")
    with hf.session("open") as s:
        s.user("still at it")
        done = hf.prune(policies=[Policy(keep=0, action="delete")])
    assert done.decisions == []
    assert {one.session_id: one.why for one in done.spared} == {
        "pinned": "it is pinned",
        "held": "it is under legal hold",
        "tagged": "it is tagged keep",
        "open": "it is open",
    }


def test_legal_hold_keeps_people_from_deleting_too(hf):
    """A held session is deleted by nobody until it is released."""
    fill(hf, "a", agent_id="bot")
    with hf.session("a") as s:
        s.append("metadata", {"legal_hold": "case 7"})
    with pytest.raises(Forbidden, match="legal hold"):
        hf.delete("a")
    with pytest.raises(Forbidden, match="legal hold"):
        hf.purge_agent("bot")
    with hf.session("a") as s:
        s.append("metadata", {"legal_hold": None})
    hf.delete("a")
    assert ids(hf) == []


def backdate(hf, key, days):
    """Let a session have been deleted so long ago."""
    documents = hf.store.documents(key)
    note = json.loads(documents.get("deleted.json")[0])
    note["at"] -= days * DAY_MS
    documents.put("deleted.json", msgspec.json.encode(note))


def test_the_trash_is_emptied_of_what_is_older_than_thirty_days(hf):
    """After its days a deleted session is gone for good, with its snapshots and blobs."""
    for name in ("a", "b"):
        fill(hf, name)
        hf.delete(name)
    key = next(one.key for one in hf.trash.list() if one.session_id == "a")
    backdate(hf, key, 31)
    planned = hf.prune(dry_run=True)
    assert [one.session_id for one in planned.emptied] == ["a"]
    assert len(hf.trash.list()) == 2
    hf.prune()
    assert [one.session_id for one in hf.trash.list()] == ["b"]
    assert not os.path.exists(hf.store.location(key))
    with pytest.raises(NotFound):
        hf.undelete("a")


def test_the_trash_is_emptied_in_one_look_at_all_sessions(hf, monkeypatch):
    """Forks of all that go are looked for together; where one is open, what it begins with stays, and the rest goes."""
    for name in ("a", "b", "c", "other"):
        fill(hf, name)
    fork, looked, look = hf.fork("c"), [], hf.store.base_size
    monkeypatch.setattr(hf.store, "base_size", lambda key: looked.append(key) or look(key))
    for name in ("a", "b"):
        hf.delete(name)
    for one in hf.trash.list():
        backdate(hf, one.key, 31)
    assert len(hf.prune().emptied) == 2
    assert looked.count("sessions/other") == 1
    fill(hf, "d")
    for name in ("c", "d"):
        hf.delete(name)
        backdate(hf, next(one.key for one in hf.trash.list() if one.session_id == name), 31)
    with hf.session(fork):
        done = hf.prune()
    assert ([one.session_id for one in done.emptied], [*done.failed]) == (["d"], ["c"])
    assert [one.session_id for one in hf.prune().emptied] == ["c"]
    assert hf.verify(fork).ok


def test_a_policy_also_deletes_what_is_too_long_to_be_archived(hf, monkeypatch):
    """It would be archived on its way to the trash, to take less room there; that it cannot be keeps nothing."""
    monkeypatch.setattr("holdfast.storage.files.archive.ARCHIVE_BYTES_MAX", 3)
    fill(hf, "a", days=9)
    done = hf.prune(policies=[Policy(keep=0, action="delete")])
    assert (done.failed, [one.session_id for one in hf.trash.list()]) == ({}, ["a"])


def test_what_lies_in_the_trash_since_nobody_knows_when_stays(hf):
    """Without a note of when it was deleted, nothing leaves the trash for good."""
    fill(hf, "a", days=400)
    hf.delete("a")
    hf.store.documents(hf.trash.list()[0].key).delete("deleted.json")
    assert hf.trash.list()[0].deleted_at == 0
    assert hf.prune().emptied == []
    hf.undelete("a")
    assert ids(hf) == ["a"]


def test_the_trash_can_be_kept_for_ever(store_root):
    """trash_days = 0 never empties it."""
    config = {"retention": {"trash_days": 0}}
    with holdfast.open(store_root, config=config) as hf:
        fill(hf, "a")
        hf.delete("a")
        backdate(hf, hf.trash.list()[0].key, 10_000)
        assert hf.prune().emptied == []


def test_a_fork_survives_its_parent_and_keeps_none_of_its_later_words(hf):
    """Removing a parent for good leaves its branches whole, and its later bytes nowhere."""
    fill(hf, "parent")
    child = hf.fork("parent")
    with hf.session("parent") as s:
        s.user("a secret said later")
    before = hf.recover(child).messages
    hf.delete("parent")
    backdate(hf, hf.trash.list()[0].key, 31)
    hf.prune()
    assert hf.trash.list() == []
    assert hf.recover(child).messages == before
    files = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.dirname(hf.location(child)))
        for name in names
    ]
    assert files
    assert not any(b"a secret said later" in Path(path).read_bytes() for path in files)


@pytest.mark.req("S4-59")
def test_old_snapshots_go_but_the_newest(store_root):
    """Snapshots beyond their age are removed; one stays for a quick opening."""
    config = {"retention": {"snapshot_days": 10}}
    with holdfast.open(store_root, config=config) as hf:
        then = int(time.time() * 1000) - 20 * DAY_MS
        with hf.session("a", clock=lambda: then) as s:
            for n in range(4):
                s.user(f"message {n}")
                s.snapshot()
        count = len(hf.snapshots("a"))
        assert count >= 4
        assert hf.prune(dry_run=True).snapshots == count - 1
        assert len(hf.snapshots("a")) == count
        hf.prune()
        assert len(hf.snapshots("a")) == 1
        assert hf.state("a").message_count == 4


def test_one_that_fails_does_not_keep_the_others(hf, monkeypatch):
    """What cannot be archived is named with its reason; the rest is done, and counted."""
    for name in ("a", "b"):
        fill(hf, name, days=5)
    real = hf.store.archive

    def archive(key):
        if key.endswith("/a"):
            raise holdfast.errors.StoreFull("no room")
        real(key)

    monkeypatch.setattr(hf.store, "archive", archive)
    steps = []
    done = hf.prune(policies=[Policy(keep=0)], progress=lambda *step: steps.append(step))
    assert done.failed == {"a": "no room"}
    assert [one.session_id for one in done.decisions] == ["b"]
    assert steps[-1][0] == steps[-1][1]


def test_policies_come_from_the_settings(store_root):
    """What the configuration says counts when nothing is given."""
    config = {"retention": {"policies": [{"tag": "scratch", "keep": 0, "action": "delete"}]}}
    with holdfast.open(store_root, config=config) as hf:
        fill(hf, "a")
        fill(hf, "b")
        with hf.session("b") as s:
            s.tag("scratch")
        hf.prune()
        assert ids(hf) == ["a"]


def test_the_trash_tells_titles(hf):
    """What was deleted is told by its title, as far as that was written down."""
    with hf.session("a", title="The trip to Lisbon") as session:
        session.user("hello")
    hf.delete("a")
    [one] = hf.trash.list()
    assert (one.session_id, one.title) == ("a", "The trip to Lisbon")
    assert one.size_bytes > 0
    note = hf.store.documents(one.key)
    note.put("deleted.json", b'{"id":"a","at":5}')  # as earlier versions wrote it
    assert [(one.title, one.deleted_at) for one in hf.trash.list()] == [(None, 5)]
