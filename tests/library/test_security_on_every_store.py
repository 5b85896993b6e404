"""Sealing and redaction where sessions are not files: the same promises on every kind of store."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from pathlib import Path
from uuid import uuid4

import pytest
from sealed_sessions import ATTACKS, KEY, OTHER, QUICK, rewritten, told

import holdfast
from holdfast.errors import Damaged, KeyMissing, Tampered
from holdfast.security import fingerprint, read_key_document

KINDS = ("file", "sqlite", "postgres", "bucket")
TOKEN = "ghp_" + "q7Lk2Zx9Vb4Nm8Rt1Yw6Pc3Hd5Js0Fg2Ka4E"
SMALL = holdfast.Limits(blob_bytes_min=500)
GIVEN = "Rumpelstilzchen"


@pytest.fixture(params=KINDS)
def url(request, tmp_path):
    """The address of an empty store of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    if request.param == "bucket":
        return request.getfixturevalue("seaweed_server").url(uuid4().hex)
    tmp_path.chmod(0o700)
    return str(tmp_path / "s") if request.param == "file" else f"sqlite://{tmp_path}/store.db"


def stored(hf, id):
    """Every byte that the store gives out of a session, sealed or not."""
    store = getattr(hf.store, "inner", hf.store)
    documents = store.documents(f"sessions/{id}")
    found = [b"".join(store.log(f"sessions/{id}").read())]
    return b"\0".join([*found, *(documents.get(name)[0] for name in documents.names())])


def all_bytes(hf, url):
    """Every byte of the whole store as the medium has it, while the store is open."""
    store = getattr(hf.store, "inner", hf.store)
    if url.startswith("s3"):
        return b"\0".join(store.objects.get(one.path)[0] for one in store.objects.list(""))
    if url.startswith("postgres"):
        tables = "SELECT quote_ident(tablename) t FROM pg_tables WHERE schemaname=current_schema()"
        rows = [
            row["text"]
            for table in store.link.fetch(tables)
            for row in store.link.fetch(f"SELECT one::text AS text FROM {table['t']} one")
        ]
        # Bytes are given as hexadecimal digits.
        parts = [part for row in rows for part in row.replace('"', ",").split(",")]
        coded = [part.lstrip("\\")[1:] for part in parts if part.startswith("\\")]
        return "\0".join(rows).encode() + b"\0".join(bytes.fromhex(one) for one in coded if one)
    root = Path(url.removeprefix("sqlite://")).parent
    return b"\0".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def fill(hf, **options):
    """A session with secrets in words, pieces, a payload and a snapshot; a fork of it."""
    with hf.session("a", **QUICK, **options) as s:
        s.user(f"the token is {TOKEN}, tell {GIVEN}")
        s.append("delta", {"content": TOKEN[:9]})
        s.append("delta", {"content": TOKEN[9:]})
        s.assistant("fine")
        s.tool_result("c1", {"content": f"{GIVEN} {TOKEN}\n" * 20})
        s.snapshot()
    hf.fork("a", new_id="b")


def test_secrets_are_taken_out_of_a_session_and_its_fork(url):
    """Nothing the store gives out has them any more, nor does a search; the rest is as it was."""
    with holdfast.open(url, key=KEY, limits=SMALL) as hf:
        fill(hf, seal=not url.startswith("postgres"))
        types = [event.type for event in hf.events("a")]
        report = hf.redact("a", find=[GIVEN])
        assert TOKEN.encode() not in all_bytes(hf, url)
        assert GIVEN.encode() not in all_bytes(hf, url)
        assert bool(report.left) is url.startswith(("postgres", "s3"))
        assert set(report.sessions) == {"sessions/a", "sessions/b"}
        assert report.unreached == ()
        assert report.found["given"] > 1
    with holdfast.open(url, key=KEY) as hf:
        for id in ("a", "b"):
            told_now = str([event.data for event in hf.events(id)])
            assert TOKEN not in told_now
            assert GIVEN not in told_now
            bytes_now = stored(hf, id)
            assert TOKEN.encode() not in bytes_now
            assert GIVEN.encode() not in bytes_now
            assert hf.verify(id).ok
        assert [event.type for event in hf.events("a")] == [*types, "redacted"]
        assert hf.search(GIVEN) == []
        with hf.session("b", **QUICK) as s:
            s.user("on")


@pytest.mark.parametrize("kind", ["redact", "encrypt"])
def test_a_database_in_one_file_keeps_no_old_page(tmp_path, kind):
    """What was in the clear is gone from the file and from its log while the store is open."""
    tmp_path.chmod(0o700)
    url = f"sqlite://{tmp_path}/store.db"
    with holdfast.open(url, key=KEY, limits=SMALL) as hf:
        fill(hf)
        assert GIVEN.encode() in all_bytes(hf, url)
        done = hf.redact("a", find=[GIVEN]) if kind == "redact" else hf.keys.encrypt()
        assert done.left in ((), [])
        assert GIVEN.encode() not in all_bytes(hf, url)


@pytest.mark.req("S4-58")
@pytest.mark.req("S4-73")
def test_a_session_is_sealed_forked_rotated_and_opened_again(url):
    """With its key and no other; a fork has its keys from its first byte on."""
    with holdfast.open(url, key=KEY, seal=True, limits=SMALL) as hf:
        fill(hf)
        events = told(hf, "b")
        assert GIVEN.encode() not in stored(hf, "a") + stored(hf, "b")
        hf.keys.rotate(OTHER, data=True)
    with holdfast.open(url, key=OTHER) as hf:
        assert told(hf, "b") == events
        assert hf.keys.decrypt().failed == {}
        assert told(hf, "b") == events
        hf.keys.encrypt()
        assert GIVEN.encode() not in stored(hf, "a") + stored(hf, "b")
    with holdfast.open(url, key=KEY) as hf, pytest.raises(KeyMissing):
        list(hf.events("b"))


@pytest.mark.req("C18")
def test_after_erasing_no_copy_of_text_or_key_is_left(url):
    """Sealed or not: not in any byte of the store, while it is open; what stays is untouched."""
    with holdfast.open(url, key=KEY, limits=SMALL) as hf:
        fill(hf, seal=True)
        for id in ("plain", "other"):
            with hf.session(id, **QUICK, seal=False) as s:
                s.user(f"{GIVEN}s word" if id == "plain" else "stays")
        hf.list()
        inner = hf.store.inner
        rings = [hf.store.ring(f"sessions/{id}") for id in ("a", "b")]
        wraps = [inner.documents(f"sessions/{id}").get("seal.json")[0] for id in ("a", "b")]
        assert GIVEN.encode() in all_bytes(hf, url)
        assert all(wrap in all_bytes(hf, url) for wrap in wraps)
        done = [hf.erase(id) for id in ("a", "plain")]
        assert [one.keys_destroyed for one in done] == [2, 0]
        left = all_bytes(hf, url)
        secrets = [key.secret for ring in rings for key in ring.keys]
        for one in (GIVEN.encode(), TOKEN.encode(), *wraps, *secrets):
            assert one not in left
        assert [row.session_id for row in hf.list()] == ["other"]
        assert told(hf, "other")


def test_a_key_that_was_removed_opens_no_copy_that_the_store_still_holds(url):
    """Its wraps are out of every byte of the store, or the store says where they may be."""
    with holdfast.open(url, key=[KEY, OTHER], seal=True) as hf:
        with hf.session("a", **QUICK) as s:
            s.user("hello")
        inner = hf.store.inner.documents("sessions/a")
        wraps = read_key_document(inner.get("seal.json")[0]).wraps
        [gone] = [one for one in wraps if one.key == fingerprint(OTHER)]
        wrapped = b64encode(gone.wrapped)
        assert wrapped in all_bytes(hf, url)
        left = hf.keys.remove(gone.key).left
        assert wrapped not in all_bytes(hf, url)
        assert bool(left) is url.startswith(("postgres", "s3"))
    with holdfast.open(url, key=KEY) as hf:
        assert told(hf, "a")


@pytest.mark.req("C18")
def test_whatever_is_done_to_the_rows_of_a_sealed_session_is_noticed(url):
    """Lines of rows or objects swapped, doubled, left out, changed, plain, or another session's."""
    with holdfast.open(url, key=KEY, seal=True) as hf:
        for id in ("a", "b"):
            with hf.session(id, **QUICK) as s:
                s.user("one")
                s.user("two")
        inner = hf.store.inner
        rows = {id: b"".join(inner.log(f"sessions/{id}").read()).splitlines() for id in ("a", "b")}
        mixed = {"mixed": lambda lines: [*lines[:3], rows["b"][3], *lines[4:]]}
        for name, attack in (ATTACKS | mixed).items():
            lease, log = inner.lease("sessions/a"), inner.log("sessions/a")
            epoch = lease.acquire("attacker", 60_000)
            log.replace([rewritten(attack(rows["a"]))], epoch)
            log.close()
            lease.release()
            with pytest.raises(Tampered):
                list(hf.events("a"))
            assert hf.verify("a").tampered, name
            assert hf.verify("b").ok
        documents = [inner.documents(f"sessions/{id}") for id in ("a", "b")]
        documents[1].put("seal.json", documents[0].get("seal.json")[0])
        with pytest.raises(Tampered):
            list(hf.events("b"))
        assert {row.session_id for row in hf.list()} == {"a", "b"}


def test_a_row_that_is_no_row_of_ours_is_damage_and_stops_no_list(tmp_path):
    """A text where bytes belong, a piece that says it is packed: typed, and only this session."""
    tmp_path.chmod(0o700)
    place = tmp_path / "store.db"
    with holdfast.open(f"sqlite://{place}", key=KEY, seal=True) as hf:
        for id in ("a", "b"):
            with hf.session(id, **QUICK) as s:
                s.user("hello")
    for change in (
        "UPDATE pieces SET packed = 1 WHERE number = (SELECT min(number) FROM pieces)",
        "UPDATE pieces SET packed = 0, data = 'x' WHERE number = (SELECT min(number) FROM pieces)",
        "UPDATE documents SET data = 'x' WHERE id = (SELECT id FROM keys WHERE key = 'sessions/a')",
    ):
        with sqlite3.connect(place) as database:
            database.execute(change)
        database.close()
        with holdfast.open(f"sqlite://{place}", key=KEY) as hf:
            with pytest.raises(Damaged):
                list(hf.events("a"))
            assert {row.session_id for row in hf.list()} == {"a", "b"}
            assert told(hf, "b")
