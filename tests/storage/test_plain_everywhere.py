"""Plain logs, as other tools write them, on every store: opened, read, gone on with, all alike."""

from __future__ import annotations

from uuid import uuid4

import pytest

import holdfast
from holdfast.storage import open_store

KEY = "sessions/old"
LINES = (
    b'{"type":"user","timestamp":1,"data":{"role":"user","content":"list the files"}}\n'
    b'{"type":"tool_call","timestamp":2,"data":{"id":"c1","tool":"ls","params":{}}}\n'
    b'{ "data": {"toolCallId": "c1", "tool": "ls", "result": "a.txt"}, "type": "tool_result" }\n'
    b'{"type":"assistant","timestamp":4,"data":{"role":"assistant","content":"one: a.txt"}}'
)


def _put(url):
    """The log as it is, without the last newline, in a store that knows nothing of it."""
    store = open_store(url)
    lease = store.lease(KEY)
    epoch = lease.acquire("another tool", 60_000)
    log = store.log(KEY)
    log.append(LINES, 0, 4, epoch)
    log.sync()
    log.close()
    lease.release()
    store.close()


@pytest.fixture(params=["file", "sqlite", "postgres", "moto"])
def url(request, tmp_path):
    """A store with a plain log in it."""
    places = {"file": str(tmp_path / "store"), "sqlite": f"sqlite://{tmp_path}/store.db"}
    if request.param == "postgres":
        found = request.getfixturevalue("postgres_url")
    elif request.param == "moto":
        found = request.getfixturevalue("seaweed_server").url(uuid4().hex)
    else:
        found = places[request.param]
    _put(found)
    return found


def test_a_plain_log_is_read_as_it_is(url):
    """Numbered by line, nothing is written by reading, and it verifies as far as it can be."""
    with holdfast.open(url) as hf:
        events = list(hf.events("old"))
        assert [(event.seq, event.type) for event in events] == [
            (0, "user"),
            (1, "tool_call"),
            (2, "tool_result"),
            (3, "assistant"),
        ]
        assert hf.verify("old").ok
        assert [row.session_id for row in hf.list()] == ["old"]
        assert [hit.session_id for hit in hf.search("files")] == ["old"]
    store = open_store(url)
    assert b"".join(store.log(KEY).read()) == LINES
    store.close()


def test_a_plain_log_goes_on_as_a_session(url):
    """What is added is chained after the plain lines, which stay byte for byte."""
    with holdfast.open(url) as hf:
        with hf.session("old") as session:
            assert session.restored
            session.user("and now?")
        with hf.session("old") as session:
            session.assistant("still one")
            roles = [message["role"] for message in session.messages("anthropic")]
            assert roles == ["user", "assistant", "user", "assistant", "user", "assistant"]
        events = list(hf.events("old"))
        assert [event.seq for event in events] == list(range(len(events)))
        assert hf.verify("old").ok
    store = open_store(url)
    assert b"".join(store.log(KEY).read()).startswith(LINES + b"\n")
    store.close()


def test_a_plain_log_is_followed_forked_and_copied(url, tmp_path):
    """A branch and a copy in another store have the same bytes; a follower hears what is added."""
    with holdfast.open(url) as hf, holdfast.open(str(tmp_path / "other")) as other:
        followed = hf.follow("old")
        # The last line has no end yet: it may be half of one, and is told when there is more.
        assert [next(followed).seq for _ in range(3)] == [0, 1, 2]
        with hf.session("old") as session:
            session.user("more")
            session.flush()
            while (heard := next(followed)).type != "user":
                pass
            assert heard.data["content"] == "more"
        followed.close()
        fork = hf.fork("old", at=3)
        assert [event.data for event in hf.events(fork)][:4] == [event.data for event in hf.events("old")][:4]
        hf.copy_to(other)
        assert list(other.events("old")) == list(hf.events("old"))
