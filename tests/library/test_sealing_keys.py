"""Sealing what is there, taking the seal off, and changing keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from sealed_sessions import KEY, OTHER, PLAIN, QUICK, SECRET, brief, files_with, log_of, say, told

import holdfast
from holdfast.errors import Conflict, KeyMissing, NotFound, UsageError
from holdfast.session import _seal, resolve_blobs, within

pytestmark = pytest.mark.stores(seal=True, key=KEY)


@pytest.fixture
def folder(tmp_path):
    """The path of a store of files."""
    return str(tmp_path / "store")


def test_a_session_is_sealed_and_unsealed_with_all_it_has(folder):
    """The same events before and after, and nothing readable in between."""
    with holdfast.open(folder, key=KEY) as hf:
        say(hf, "a")
        hf.fork("a", new_id="b")
        hf.list()
        before = told(hf, "a"), told(hf, "b")
        found = hf.keys.encrypt(["a"])
        assert (found.changed, found.relatives) == (["sessions/a"], ["sessions/b"])
        found = hf.keys.encrypt()
        assert found.changed == ["sessions/b", "agents/bot"]
        assert files_with(folder, SECRET, SECRET.lower()) == []
        assert (told(hf, "a"), told(hf, "b")) == before
        assert hf.verify("a").ok
        assert hf.keys.encrypt(["a"]).unchanged == ["sessions/a"]
        assert set(hf.keys.decrypt().changed) == {"sessions/a", "sessions/b", "agents/bot"}
        assert (told(hf, "a"), told(hf, "b")) == before
        assert hf.verify("a").ok
        assert not hf.keys.is_sealed("a")
        with hf.session("a", **QUICK) as s:
            assert s.memory.get("word") == SECRET
    with holdfast.open(folder) as plain:
        assert told(plain, "b") == before[1]


def test_what_a_late_writer_left_in_the_old_form_goes_too(folder, monkeypatch):
    """A snapshot of one that was overtaken; a payload that is gone when it is looked at."""
    with holdfast.open(folder, key=KEY) as hf:
        say(hf, "a")
        [snapshot] = (log_of(folder).parent / "snapshots").iterdir()
        late, gone = snapshot.read_bytes(), "blobs/" + "0" * 64
        documents = hf.store.inner.documents("sessions/a")
        names, gather = type(documents).names, _seal.gather

        def overtaken(lines):
            snapshot.write_bytes(late)
            return gather(lines)

        def listed(self, prefix=""):
            return [*names(self, prefix), *([gone] if prefix == "blobs/" else [])]

        monkeypatch.setattr(_seal, "gather", overtaken)
        monkeypatch.setattr(type(documents), "names", listed)
        assert "sessions/a" in hf.keys.encrypt().changed
        assert not snapshot.exists()
        assert files_with(folder, SECRET) == []


def test_plain_logs_of_other_hands_are_sealed_too(folder):
    """Lines without numbers and checksums get both, inside the seal."""
    with holdfast.open(folder, key=KEY) as hf:
        brief(hf, "x", "hello")
        other = Path(folder) / "sessions" / "plain"
        other.mkdir(mode=0o700)
        (other / "events.jsonl").write_bytes(PLAIN + b"\n" + PLAIN + b"\n")
        (other / "events.jsonl").chmod(0o600)
        before = told(hf, "plain")
        assert hf.keys.encrypt(["plain"]).changed == ["sessions/plain"]
        assert told(hf, "plain") == before
        assert files_with(folder, "attacker") == []


def test_what_cannot_be_sealed_is_told_and_left(folder):
    """Open, or damaged; the others are done."""
    with holdfast.open(folder, key=KEY) as hf:
        say(hf, "good")
        say(hf, "bad")
        held = hf.session("held", **QUICK)
        held.user(SECRET)
        lines = log_of(folder, "bad").read_bytes().splitlines(keepends=True)
        log_of(folder, "bad").write_bytes(b"".join([*lines[:3], b"rubbish\n", *lines[4:]]))
        found = hf.keys.encrypt()
        assert "sessions/good" in found.changed
        assert set(found.failed) == {"sessions/bad", "sessions/held"}
        steps = []
        with pytest.raises(NotFound):
            hf.keys.encrypt(["nobody"])
        hf.keys.encrypt(["good"], progress=lambda done, total: steps.append((done, total)))
        assert steps == [(1, 1)]
    with holdfast.open(folder) as plain, pytest.raises(KeyMissing):
        plain.keys.encrypt()


def test_rotation_lets_the_new_key_open_and_the_old_one_not(hf, folder):
    """Sessions, trash and agents; what an earlier, broken off, call did is no obstacle."""
    say(hf, "a")
    say(hf, "gone")
    hf.delete("gone")
    before = told(hf, "a")
    with pytest.raises(UsageError):
        hf.keys.rotate()
    with pytest.raises(KeyMissing):
        hf.keys.rotate("env:NO_SUCH_KEY")
    found = hf.keys.rotate(OTHER)
    assert len(found.changed) == 3
    assert hf.keys.rotate(OTHER).changed == []
    hf.close()
    with holdfast.open(folder, key=KEY) as old, pytest.raises(KeyMissing):
        list(old.events("a"))
    with holdfast.open(folder, key=OTHER) as new:
        assert told(new, "a") == before
        new.undelete("gone")
        assert new.keys.check() == {}
        with new.session("a", **QUICK) as s:
            assert s.memory.get("word") == SECRET


def test_rotation_of_data_changes_every_sealed_byte(hf, folder):
    """A data key that someone has seen opens nothing any more, in no file."""
    say(hf, "a")
    before = told(hf, "a")
    old_key = hf.store.ring("sessions/a").current
    old = {path.read_bytes() for path in Path(folder).rglob("sessions/a/**/*") if path.is_file()}
    hf.keys.rotate(OTHER, data=True)
    new = {path.read_bytes() for path in Path(folder).rglob("sessions/a/**/*") if path.is_file()}
    assert {data for data in old & new if data and b'"pid"' not in data} == set()
    with holdfast.open(folder, key=OTHER) as again:
        assert told(again, "a") == before
        assert again.store.ring("sessions/a").current.id != old_key.id
        assert len(again.store.ring("sessions/a").keys) == 1
        assert again.verify("a").ok


def test_more_keys_may_open_the_same(hf, folder):
    """Added, told, removed; the last one stays."""
    say(hf, "a")
    [only] = hf.keys.list()
    assert (only.sealed, only.alone, only.available) == (2, 2, True)
    with pytest.raises(UsageError, match="no other key"):
        hf.keys.remove(only.id)
    with pytest.raises(NotFound):
        hf.keys.remove("0" * 16)
    assert len(hf.keys.add(OTHER).changed) == 2
    assert hf.keys.add(OTHER).changed == []
    with holdfast.open(folder, key=OTHER) as other:
        assert len(told(other, "a")) > 5
        other.keys.remove(only.id)
        [left] = other.keys.list()
        assert left.id != only.id
    hf.store.forget_keys()
    with pytest.raises(KeyMissing):
        list(hf.events("a"))


def test_keys_that_were_spoilt_hide_no_others(hf, folder):
    """They are named, and what else is sealed is told, rewrapped and opened as before."""
    for id in ("a", "b"):
        brief(hf, id, "hello")
    log_of(folder).with_name("seal.json").write_bytes(b"[]")
    [only] = hf.keys.list()
    assert only.sealed == 1
    assert set(hf.keys.check()) == {"sessions/a"}
    found = hf.keys.rotate(OTHER)
    assert (found.changed, set(found.failed)) == (["sessions/b"], {"sessions/a"})
    with holdfast.open(folder, key=OTHER) as again:
        assert told(again, "b")


def test_without_any_key_there_is_nothing_to_check(folder):
    """KeyMissing says so; keys can still be told."""
    with holdfast.open(folder) as hf:
        assert hf.keys.list() == []
        hf.keys.ask_passphrase(str)
        with pytest.raises(KeyMissing):
            hf.keys.check()


def test_redaction_of_a_sealed_session_keeps_it_sealed(hf, folder):
    """Old payloads go, those that are still named stay, and it opens as before."""
    with hf.session("a", **QUICK) as s:
        s.tool_result("one", {"content": "harmless " * 40_000})
        s.tool_result("two", {"content": SECRET * 40_000})
        s.snapshot()
    hf.redact("a", find=[SECRET])
    assert hf.keys.is_sealed("a")
    assert hf.verify("a").ok
    events = resolve_blobs(hf.events("a"), hf.store.documents("sessions/a"))
    texts = str([event.data for event in events])
    assert SECRET not in texts
    assert "harmless harmless" in texts
    blobs = within(hf.store).documents("sessions/a").names("blobs/")
    assert len(blobs) == 2
    assert files_with(folder, SECRET, "harmless") == []


def test_keys_that_change_under_a_change_are_tried_again(hf, monkeypatch):
    """Two at once: each is done, or told as failed; nothing is lost."""
    say(hf, "a")
    documents = type(within(hf.store).documents("sessions/a"))
    real, refused = documents.put, []

    def put(self, name, data, **options):
        if name == "seal.json" and options.get("if_match") and len(refused) < 2:
            refused.append(name)
            raise Conflict("someone was quicker")
        return real(self, name, data, **options)

    monkeypatch.setattr(documents, "put", put)
    assert len(hf.keys.add(OTHER).changed) == 2
    refused.clear()
    monkeypatch.setattr("holdfast.library._keys._TRIES_MAX", 2)
    assert list(hf.keys.rotate(OTHER).failed) == ["sessions/a"]
    assert len(told(hf, "a")) > 5


def test_what_nobody_opened_before_is_forgotten(hf, monkeypatch):
    """Of very many rings only so many are kept; one that is in transit is not sealed twice."""
    monkeypatch.setattr("holdfast.session._sealed_store._RINGS_MAX", 1)
    monkeypatch.setattr("holdfast.library._finder._KEPT_MAX", 1)
    for id in ("a", "b", "c"):
        with hf.session(id, **QUICK) as s:
            s.user("hello")
    assert len(hf.list()) == len(hf.list()) == 3
    assert hf.keys.decrypt(["a"]).changed == ["sessions/a"]
    assert hf.keys.decrypt(["a"]).unchanged == ["sessions/a"]
    assert hf.keys.rotate(data=True).unchanged == ["sessions/a"]


@pytest.mark.parametrize("to", [None, OTHER])
def test_a_rotation_that_was_broken_off_does_nothing_twice(tmp_path, to):
    """Until it has come to its end; the next one begins with everything again."""

    class Stopped(Exception):
        """The process ends here."""

    def stop(done, _):
        if done == 2:
            raise Stopped

    with holdfast.open(tmp_path / "store", key=KEY, seal=True) as hf:
        for id in "abcd":
            brief(hf, id, "hello")
        with pytest.raises(Stopped):
            hf.keys.rotate(to, data=True, progress=stop)
    keys = [KEY] if to is None else [KEY, OTHER]
    with holdfast.open(tmp_path / "store", key=keys) as hf:
        before = {id: hf.store.ring(f"sessions/{id}").keys for id in "abcd"}
        found = hf.keys.rotate(to, data=True)
        assert found.changed == ["sessions/c", "sessions/d"]
        assert found.unchanged == ["sessions/a", "sessions/b"]
        after = {id: hf.store.ring(f"sessions/{id}").keys for id in "abcd"}
        assert [id for id in "abcd" if before[id] != after[id]] == ["c", "d"]
        assert len(hf.keys.rotate(to, data=True).changed) == 4
        assert [event.data["content"] for event in hf.events("a", types=("user",))] == ["hello"]


def test_a_rotation_of_long_ago_is_not_gone_on_with(tmp_path):
    """What may have been seen since then gets new keys too."""
    with holdfast.open(tmp_path / "store", key=KEY, seal=True) as hf:
        brief(hf, "a", "hello")
        hf.keys.rotate(data=True)
        done = hf.store.ring("sessions/a").rotation
        place = hf.store.inner.documents("shared/rotation")
        place.put("current.txt", f"{done} 1000".encode())
        assert hf.keys.rotate(data=True).changed == ["sessions/a"]
        assert place.names() == []


def test_what_sessions_share_follows_every_change_of_keys(folder):
    """Events from elsewhere, fingerprints of redaction and what adapters share: sealed, unsealed, under another key."""
    token = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"
    marking = {"redaction": {"mode": "mark"}}
    with holdfast.open(folder, key=KEY, config=marking) as hf:
        with hf.session("a") as s:
            s.user(token)
        hf.inbox.signal("payment", SECRET)
        hf.store.documents("shared/adapter").put("state.json", SECRET.encode())
        shared = ["shared/adapter", "shared/redaction", "shared/signals"]
        assert hf.keys.encrypt().changed == ["sessions/a", *shared]
        assert files_with(folder, SECRET) == []
        assert hf.keys.check() == {}
        hf.keys.rotate(OTHER)
    with holdfast.open(folder, key=OTHER, config=marking) as hf:
        assert hf.keys.check() == {}
        assert hf.store.documents("shared/adapter").get("state.json")[0] == SECRET.encode()
        with hf.session("b") as s:
            s.user(token)  # with the same mark as before the rotation
            s.append("suspended", {"id": "0" * 12, "kind": "event", "event": "payment", "call": "c"})
            hf.inbox.take_signals("b", s.live_state.asks)
        marks = {event.data["content"] for id in ("a", "b") for event in hf.events(id) if event.type == "user"}
        assert len(marks) == 1
        answers = hf.store.documents("sessions/b")
        assert SECRET.encode() in answers.get(answers.names("answers/")[0])[0]
        assert "shared/adapter" in hf.keys.decrypt().changed
    with holdfast.open(folder) as plain:
        assert plain.store.documents("shared/adapter").get("state.json")[0] == SECRET.encode()
