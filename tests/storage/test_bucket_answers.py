"""Writes to a bucket whose answers are lost, wrong, slow or doubled: each is known as one's own, or as another's."""

from __future__ import annotations

import threading
from contextlib import closing
from uuid import uuid4

import pytest
from answering_proxy import AnsweringProxy
from campaign_log import FULL, record

import holdfast
from holdfast.errors import Conflict, HoldfastError, Unavailable
from holdfast.storage.s3 import objects
from holdfast.storage.s3.store import ObjectStore

KEY = "sessions/a"
DONE = ("lost", "error", "doubled", "slow")
WRITERS, TURNS = 3, 60 if FULL else 12
PART = 0.2


@pytest.fixture
def proxy(seaweed_server):
    with closing(AnsweringProxy(seaweed_server.port, seed=7)) as one:
        yield one


@pytest.fixture
def documents(seaweed_server, proxy):
    """The documents of one key, by way of the proxy and straight."""
    url = seaweed_server.url(uuid4().hex)
    with closing(ObjectStore(proxy.url(url))) as one, closing(ObjectStore(url)) as two:
        one.check()
        two.documents(KEY).put("other", b"")  # so that the key has its name
        yield one.documents(KEY), two.documents(KEY)


def fault_next(proxy, fault, meanwhile):
    """The next write has a fault; right after it was done, or before it is tried again, others are at work."""
    proxy.meanwhile = meanwhile
    proxy.next_writes = [fault]


@pytest.mark.parametrize("since", [0, 1, 20])
@pytest.mark.parametrize("fault", DONE)
def test_a_put_that_was_done_is_no_conflict(documents, proxy, fault, since):
    """Whatever became of the answer, and however many have written over it since."""
    one, two = documents

    def others():
        etag = two.get("count")[1]
        for number in range(since):
            etag = two.put("count", b"%d" % (2 + number), if_match=etag)

    etag = one.put("count", b"0", if_match="")
    fault_next(proxy, fault, others)
    one.put("count", b"1", if_match=etag)
    assert proxy.faults[fault] == 1
    assert two.get("count")[0] == b"%d" % (1 + since)


@pytest.mark.parametrize("old", [b"", b"0"])
def test_the_same_bytes_of_another_are_a_conflict(documents, proxy, old, monkeypatch):
    """A put that was not done, while another one put the same bytes: one of the two has changed nothing."""
    one, two = documents
    etag = two.put("count", old, if_match="") if old else ""
    proxy.next_writes = ["refused"]
    tried = []
    monkeypatch.setattr(objects.time, "sleep", lambda _: tried or tried.append(two.put("count", b"1", if_match=etag)))
    with pytest.raises(Conflict):
        one.put("count", b"1", if_match=etag)
    assert len(tried) == 1


def test_a_second_try_does_not_undo_what_came_after_the_first(documents, proxy):
    """Done, and taken back by another to the bytes that were there before: it is not done again."""
    one, two = documents
    etag = two.put("switch", b"off", if_match="")
    fault_next(proxy, "lost", lambda: two.put("switch", b"off", if_match=two.get("switch")[1]))
    one.put("switch", b"on", if_match=etag)
    assert two.get("switch")[0] == b"off"


def test_what_nobody_can_tell_any_more_is_told_as_such(documents, proxy):
    """Lost, and then replaced without a condition: neither done nor a conflict, but unknown."""
    one, two = documents
    etag = one.put("count", b"0", if_match="")
    fault_next(proxy, "lost", lambda: two.put("count", b"other"))
    with pytest.raises(Unavailable) as caught:
        one.put("count", b"1", if_match=etag)
    assert caught.value.outcome == "unknown"
    assert caught.value.remedy


def test_counting_with_all_faults_counts_right(seaweed_server):
    """Of many who count in one document, with answers of every kind, none loses a change or makes two."""
    url = seaweed_server.url(uuid4().hex)
    errors = []

    def count(store):
        documents = store.documents(KEY)
        for _ in range(TURNS):
            while True:
                found = documents.get("count")
                try:
                    documents.put("count", b"%d" % (int(found[0]) + 1), if_match=found[1])
                    break
                except Conflict:
                    continue
                except HoldfastError as error:
                    errors.append(error)
                    return

    with closing(AnsweringProxy(seaweed_server.port, seed=11, part=PART)) as proxy, closing(ObjectStore(url)) as plain:
        plain.documents(KEY).put("count", b"0")
        stores = [ObjectStore(proxy.url(url)) for _ in range(WRITERS)]
        threads = [threading.Thread(target=count, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for store in stores:
            store.close()
        assert errors == []
        assert plain.documents(KEY).get("count")[0] == b"%d" % (WRITERS * TURNS)
        assert sum(proxy.faults.values()) > TURNS * PART
    record("bucket answers", sum(proxy.faults.values()))


def test_a_log_with_all_faults_has_every_line_once(seaweed_server):
    """Sessions write and flush, with answers of every kind: each line is there once, in order."""
    url = seaweed_server.url(uuid4().hex)
    with closing(AnsweringProxy(seaweed_server.port, seed=5, part=PART)) as proxy:
        with holdfast.open(proxy.url(url)) as hf:
            for id in ("a", "b"):
                with hf.session(id, autosave_ms=0, snapshot_ms=0) as session:
                    for number in range(TURNS):
                        session.user(f"{id} {number}")
                        session.flush()
        assert sum(proxy.faults.values()) > TURNS * PART
    with holdfast.open(url) as hf:
        for id in ("a", "b"):
            said = [event.data["content"] for event in hf.events(id, types=["user"])]
            assert said == [f"{id} {number}" for number in range(TURNS)]
            assert hf.verify(id).ok
    record("bucket answers", sum(proxy.faults.values()))
