"""Whatever is done to a sealed session is noticed, and verify says who, what and where."""

from __future__ import annotations

import os
from zlib import crc32

import msgspec
import pytest
from sealed_sessions import ATTACKS, KEY, PLAIN, QUICK, SECRET, brief, files_with, log_of, rewritten, say, spoil, told

import holdfast
from holdfast.errors import KeyMissing, Tampered, UsageError
from holdfast.security import Ring, new_data_key

pytestmark = pytest.mark.stores(seal=True, key=KEY)


@pytest.fixture
def folder(tmp_path):
    """The path of a store of files."""
    return str(tmp_path / "store")


@pytest.mark.parametrize("attack", ATTACKS)
def test_whatever_is_done_to_the_lines_is_noticed(hf, folder, attack):
    """With all checksums and numbers put right: Tampered, and verify says what and where."""
    with hf.session("a", **QUICK) as s:
        for number in range(5):
            s.user(f"message {number}")
    hf.close()
    log = log_of(folder)
    log.write_bytes(rewritten(ATTACKS[attack](log.read_bytes().splitlines())))
    with holdfast.open(folder, key=KEY) as again:
        for look in (again.events, again.session, again.state):
            with pytest.raises(Tampered):
                list(look("a"))
        report = again.verify("a")
        assert not report.ok
        assert report.tampered[0].size > 0
        assert any("Tampered with" in text for text in report.explain())
        if attack in ("changed", "plain"):
            assert report.tampered[0].seq == 3
            assert f"process {os.getpid()}" in report.tampered[0].who
        again.list()


def in_transit(hf, folder, state="encrypting"):
    """Put back the keys as they were while the session was sealed: they allow a plain log."""
    keys = hf.store.keys.wrap(hf.store.ring("sessions/a")._replace(state=state)).encode()
    log_of(folder).with_name("seal.json").write_bytes(keys)
    hf.store.forget_keys()


def disguised(lines):
    """A plain first line that gives itself the end of the one that it replaces."""
    sealed = msgspec.json.decode(lines[0])["sealed"]
    return [msgspec.json.encode(msgspec.json.decode(PLAIN) | {"sealed": sealed}), *lines[1:]]


@pytest.mark.parametrize("state", ["encrypting", "decrypting"])
def test_keys_of_long_ago_let_nothing_plain_into_a_sealed_log(hf, folder, state):
    """Genuine keys of when the log was still plain do not make it readable line by line again."""
    with hf.session("a", **QUICK) as s:
        s.user("message")
    brief(hf, "b", "hello")
    in_transit(hf, folder, state)
    log = log_of(folder)
    lines = log.read_bytes().splitlines()
    assert len(told(hf, "a")) == len(lines)
    for name in ("plain at the end", "plain", "disguised"):
        log.write_bytes(rewritten((ATTACKS | {"disguised": disguised})[name](lines)))
        for look in (hf.events, hf.session, hf.state):
            with pytest.raises(Tampered):
                list(look("a"))
        assert not hf.verify("a").ok, name
        assert set(hf.keys.encrypt(["a"]).failed) == {"sessions/a"}
    found = hf.keys.rotate(data=True)
    assert set(found.failed) == {"sessions/a"}
    assert found.changed == ["sessions/b"]


def test_a_plain_snapshot_beside_a_sealed_log_is_nobodys_word(hf, folder):
    """Whatever the keys allow: the state comes from lines that are authenticated."""
    with hf.session("a", **QUICK) as s:
        s.user("I owe you ten")
        s.snapshot()
    [snapshot] = (log_of(folder).parent / "snapshots").iterdir()
    plain = hf.store.documents("sessions/a").get(f"snapshots/{snapshot.name}")[0]
    inner = msgspec.json.decode(plain)["snapshot"]
    inner["state"]["title"] = "You owe me six"
    text = msgspec.json.encode(inner)
    snapshot.write_bytes(b'{"snapshot":%b,"check":"%08x"}' % (text, crc32(text)))
    in_transit(hf, folder)
    assert hf.state("a").title is None
    assert False in hf.verify("a").snapshots.values()


def test_a_session_whose_sealing_was_broken_off_is_not_called_sealed(folder):
    """It is in the clear, and says so; if it is damaged too, it is repaired and then sealed."""
    with holdfast.open(folder, key=KEY) as hf:
        with hf.session("a", **QUICK, seal=False) as s:
            for number in range(5):
                s.user(f"message {number}")
        hf.store.put_ring("sessions/a", Ring((new_data_key(1),), "encrypting"))
        assert (hf.keys.is_sealed("a"), hf.verify("a").sealed) == (False, False)
        with pytest.raises(UsageError, match="not sealed"):
            hf.session("a", seal=True)
        lines = log_of(folder).read_bytes().splitlines(keepends=True)
        log_of(folder).write_bytes(b"".join([*lines[:4], b"rubbish\n", *lines[5:]]))
        assert "damaged" in hf.keys.encrypt(["a"]).failed["sessions/a"]
        assert [gap.first_seq for gap in hf.repair("a")] == [4]
        events = told(hf, "a")
        assert events[2][2]["content"] == "message 0"
        assert hf.keys.encrypt(["a"]).failed == {}
        assert (hf.keys.is_sealed("a"), told(hf, "a")) == (True, events)
    with holdfast.open(folder, key=bytes(range(1, 33))) as other:
        assert other.keys.is_sealed("a")


def test_a_line_of_another_session_is_noticed(hf, folder):
    """Each session has keys of its own."""
    for id in ("a", "b"):
        with hf.session(id, **QUICK) as s:
            s.user("message")
    hf.close()
    a, b = (log_of(folder, id).read_bytes().splitlines() for id in ("a", "b"))
    log_of(folder, "a").write_bytes(rewritten([*a[:2], b[2], *a[3:]]))
    with holdfast.open(folder, key=KEY) as again, pytest.raises(Tampered):
        list(again.events("a"))


def test_a_log_cut_before_its_snapshot_is_noticed(hf, folder):
    """A whole log that is shorter than a snapshot knows."""
    say(hf, "a")
    hf.close()
    log = log_of(folder)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:4]))
    with holdfast.open(folder, key=KEY) as again:
        with pytest.raises(holdfast.errors.Damaged):
            again.session("a")
        assert not again.verify("a").ok


def test_a_document_in_the_place_of_another_is_noticed(hf, folder):
    """Snapshots and payloads belong where they were written."""
    say(hf, "a")
    with hf.session("a", **QUICK) as s:
        s.user("more")
        s.snapshot()
    hf.close()
    first, second = sorted((log_of(folder).parent / "snapshots").iterdir())
    second.write_bytes(first.read_bytes())
    [blob] = (log_of(folder).parent / "blobs").iterdir()
    blob.write_bytes(first.read_bytes())
    with holdfast.open(folder, key=KEY) as again:
        report = again.verify("a")
        assert False in report.snapshots.values()
        assert report.missing_blobs != []
        assert again.state("a").title == f"The {SECRET}"


@pytest.mark.parametrize("spoilt", [b"", b"HFSEAL", b'{"snapshot":{}}'])
def test_a_snapshot_that_was_spoilt_stops_nobody(hf, folder, spoilt):
    """The log says the same; verify names it, and repair takes it away."""
    say(hf, "a")
    hf.close()
    [snapshot] = (log_of(folder).parent / "snapshots").iterdir()
    snapshot.write_bytes(spoilt)
    with holdfast.open(folder, key=KEY) as again:
        assert False in again.verify("a").snapshots.values()
        with again.session("a", **QUICK) as s:
            assert s.title == f"The {SECRET}"
        again.repair("a")
        assert again.verify("a").ok


def test_a_changed_log_is_noticed_by_the_digest_of_its_snapshot(folder):
    """A plain log whose checksums were made to fit: its snapshot knows the bytes."""
    with holdfast.open(folder) as hf, hf.session("a", **QUICK) as s:
        s.user("I owe you ten")
        s.snapshot()
    log = log_of(folder)
    lines = log.read_bytes().replace(b"ten", b"six").splitlines()
    data = rewritten(lines)
    log.write_bytes(data)
    snapshot = next((log.parent / "snapshots").iterdir())
    envelope = msgspec.json.decode(snapshot.read_bytes())
    inner = envelope["snapshot"]
    inner["crc"] = f"{crc32(data[: inner['offset']]):08x}"
    text = msgspec.json.encode(inner)
    snapshot.write_bytes(b'{"snapshot":%b,"check":"%08x"}' % (text, crc32(text)))
    with holdfast.open(folder) as hf:
        report = hf.verify("a")
    assert not report.ok
    assert report.tampered[0].offset == 0
    assert "snapshot" in report.tampered[0].what


@pytest.mark.parametrize("by", ["repair", "opening"])
def test_a_damaged_sealed_fork_is_repaired_for_all_of_its_events(hf, folder, by):
    """Those that it shares with its parent are under a key that may seal them, and still open."""
    say(hf, "a")
    hf.fork("a", new_id="b")
    brief(hf, "b", "one more")
    events = told(hf, "b")
    hf.store.inner.detach("sessions/b")
    hf.close()
    log = log_of(folder, "b")
    lines = log.read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b'"sealed":"', b'"sealed":"AA')
    log.write_bytes(b"".join(lines))
    with holdfast.open(folder, key=KEY) as again:
        if by == "repair":
            assert len(again.repair("b")) == 1
        with again.session("b", **QUICK, repair="auto") as s:
            s.user("on")
        found = told(again, "b")
        assert found[:5] == events[:5]
        assert found[6 : len(events)] == events[6:]
        assert again.verify("b").ok
        again.fork("b", new_id="c")
        assert told(again, "c")[: len(found)] == found


def test_a_fork_of_a_session_that_is_being_sealed_is_sealed_whole(folder):
    """The fork of a log that was still plain: its first events come under a key that fits them."""
    with holdfast.open(folder, key=KEY) as hf:
        brief(hf, "a", "hello", seal=False)
        hf.store.put_ring("sessions/a", Ring((new_data_key(1),), "encrypting"))
        hf.fork("a", new_id="b")
        events = told(hf, "b")
        assert hf.keys.encrypt().failed == {}
        assert told(hf, "b") == events
        assert told(hf, "a") == events[: len(told(hf, "a"))]
        assert hf.verify("b").ok


def test_a_damaged_sealed_log_is_repaired_with_its_key(hf, folder):
    """Damage and tampering cost what they hit; all else is sealed again."""
    with hf.session("a", **QUICK) as s:
        for number in range(6):
            s.user(f"message {number}")
    hf.close()
    log = log_of(folder)
    lines = log.read_bytes().splitlines(keepends=True)
    lines[4] = b"rubbish\n"
    log.write_bytes(b"".join(lines))
    with holdfast.open(folder) as closed, pytest.raises(KeyMissing):
        closed.repair("a")
    with holdfast.open(folder, key=KEY) as again:
        with pytest.raises(holdfast.errors.Damaged):
            again.session("a")
        assert [gap.first_seq for gap in again.repair("a")] == [4]
        assert again.verify("a").ok
        assert [event.type for event in again.events("a")][4] == "repaired"
        assert again.repair("a") == []
    spoiled = log.read_bytes().splitlines()
    spoiled[3] = spoil(spoiled[3])
    log.write_bytes(rewritten(spoiled))
    with holdfast.open(folder, key=KEY) as again:
        assert [gap.first_seq for gap in again.repair("a")] == [3]
        with again.session("a", **QUICK) as s:
            s.user("on")
        assert again.verify("a").ok


def test_damage_is_repaired_at_opening_if_that_is_wanted(hf, folder):
    """As for any other session, and still sealed."""
    with hf.session("a", **QUICK) as s:
        for number in range(6):
            s.user(f"{SECRET} {number}")
    hf.close()
    lines = log_of(folder).read_bytes().splitlines(keepends=True)
    log_of(folder).write_bytes(b"".join([*lines[:3], b"rubbish\n", *lines[4:]]))
    with holdfast.open(folder, key=KEY) as again:
        with again.session("a", **QUICK, repair="auto") as s:
            s.user("on")
        assert again.verify("a").ok
    assert files_with(folder, SECRET) == []


def test_a_torn_line_of_a_sealed_log_is_set_aside(hf, folder):
    """As after any crash."""
    with hf.session("a", **QUICK) as s:
        s.user("one")
    hf.close()
    with log_of(folder).open("ab") as file:
        file.write(b'{"seq":4,"sealed":"AAAA')
    with holdfast.open(folder, key=KEY) as again:
        with again.session("a", **QUICK) as s:
            s.user("two")
        assert again.verify("a").ok
        assert [event.data["content"] for event in again.events("a", types=["user"])][-1] == "two"


def test_verify_without_the_key_compares_checksums(hf, folder):
    """And says that it could do no more."""
    say(hf, "a")
    hf.close()
    with holdfast.open(folder) as closed:
        report = closed.verify("a")
        assert (report.ok, report.sealed, report.opened) == (True, True, False)
        assert "key is not available" in " ".join(report.explain())
    log_of(folder).write_bytes(log_of(folder).read_bytes().replace(b'"seq":3', b'"seq":9'))
    with holdfast.open(folder) as closed:
        assert not closed.verify("a").ok


@pytest.mark.req("C18")
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_session_that_was_put_back_is_told_by_a_head_kept_elsewhere(folder, key):
    """Grown, torn or archived a log has what its head stands for; put back it has not."""
    with holdfast.open(folder, key=key, seal=key is not None) as hf:
        brief(hf, "a", "Monday")
        old = log_of(folder).read_bytes()
        brief(hf, "a", "Tuesday")
        head = hf.verify("a").head
        assert hf.verify("a", head=head).kept
        brief(hf, "a", "Wednesday")
        log_of(folder).write_bytes(whole := log_of(folder).read_bytes() + b'{"seq":99,"ty')
        torn = hf.verify("a", head=head)
        assert torn.ok
        assert torn.torn_bytes
        assert torn.head != head
        assert hf.verify("a", head=torn.head).kept
        copy = log_of(folder).with_suffix(".old")
        copy.write_bytes(old)
        copy.replace(log_of(folder))  # in place, it would be known to have had more
        report = hf.verify("a", head=head)
        assert (report.kept, report.ok, hf.verify("a").ok) == (False, False, True)
        assert "put back to an earlier state" in "".join(report.explain())
        log_of(folder).write_bytes(whole[: -len(b'{"seq":99,"ty')])
        hf.archive("a")
        assert hf.verify("a", head=torn.head).ok
    with holdfast.open(folder) as keyless:
        assert keyless.verify("a", head=head).kept
        assert keyless.verify("a").head == torn.head


@pytest.mark.parametrize("head", ["", "0-" + "0" * 64, "7", "7-xyz", "9" * 40 + "-" + "0" * 64])
def test_a_head_that_is_none_is_refused(hf, head):
    """Only what a report gave is taken for a head."""
    brief(hf, "b", "Monday")
    with pytest.raises(UsageError):
        hf.verify("b", head=head)
