"""Tokens: shown once, kept as digests, scoped, expiring, revoked; and spaces that nobody leaves."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import threading
import time
from urllib.parse import quote

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from holdfast.apps.gate.limits import Buckets
from holdfast.apps.http import _service, _socket, _turns
from holdfast.apps.http._operations import ENDPOINTS
from holdfast.apps.http.tokens import TokenBook, widest_scope
from holdfast.errors import Damaged, InvalidId, NotFound, UsageError
from holdfast.session import now_ms
from holdfast.storage import FileStore, MemoryStore

SECRET = "zanzibar"
SAFE = "/%?;:@\\*.~=&"


# -- the book ----------------------------------------------------------------------------------


def test_only_a_digest_is_kept(store_root):
    """What is at rest does not let anybody in."""
    store = FileStore(store_root)
    text, token = TokenBook(store).create("alice", "read")
    kept = b"".join(path.read_bytes() for path in store_root.rglob("*") if path.is_file())
    secret = text.rpartition("_")[2]
    assert text.encode() not in kept
    assert secret.encode() not in kept
    assert token.digest.encode() in kept
    assert TokenBook(store).find(f"hf_{token.id}_{token.digest}") is None
    store.close()


def test_a_token_is_found_by_itself_alone():
    """Not by its id, a part, another's secret, or what looks like it."""
    book = TokenBook(MemoryStore())
    text, token = book.create("alice", "write")
    other, _ = book.create("bob", "write")
    assert book.find(text) == token
    mark, id, secret = text.split("_", 2)
    for wrong in (
        "", "hf", "hf__", text[:-1], text + "x", text.upper(), f"hf_{id}_", f"hf_{id}_{secret} ",
        f"xx_{id}_{secret}", f"hf_{id}_{other.split('_', 2)[2]}", f"{mark}_{secret}_{id}",
        "hf_\ud800_x", "\0", id, secret,
    ):  # fmt: skip
        assert book.find(wrong) is None, wrong


def test_a_token_ends():
    """By its date, or because it was revoked; revoking again changes nothing."""
    now = [0.0]
    book = TokenBook(MemoryStore(), clock=lambda: now[0])
    old, _ = book.create("alice", "read", expires_at=now_ms() - 1)
    assert book.find(old) is None
    text, token = book.create("alice", "read", expires_at=now_ms() + 60_000)
    assert book.find(text) is not None
    gone = book.revoke(token.id)
    assert book.find(text) is None
    assert book.revoke(token.id) == gone
    assert book.all()[0].id == token.id
    with pytest.raises(NotFound):
        book.revoke("none")


def test_other_servers_notice_within_a_second():
    """What was read is believed for that long."""
    store, now = MemoryStore(), [0.0]
    here, there = TokenBook(store), TokenBook(store, clock=lambda: now[0])
    text, token = here.create("alice", "read")
    assert there.find(text) is not None
    here.revoke(token.id)
    assert there.find(text) is not None
    now[0] += 1.1
    assert there.find(text) is None


def test_tokens_made_at_once_are_all_there():
    """By compare-and-swap: nobody overwrites another's."""
    store = MemoryStore()
    threads = [threading.Thread(target=lambda: TokenBook(store).create("alice", "read")) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(TokenBook(store).all()) == 8


def test_what_is_no_token_is_refused():
    """Wrong spaces, scopes and labels, before anything is written."""
    book = TokenBook(MemoryStore())
    for space in ("", "../x", "A", "a/b"):
        with pytest.raises(InvalidId):
            book.create(space, "read")
    for scope in ("", "root", "READ"):
        with pytest.raises(UsageError):
            book.create("alice", scope)
    with pytest.raises(UsageError):
        book.create("alice", "read", label="x" * 101)
    assert book.all() == []
    assert widest_scope("read,admin, write") == "admin"
    with pytest.raises(UsageError):
        widest_scope("read,root")
    with pytest.raises(UsageError):
        widest_scope(" , ")


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"tokens": [{}]}', b"\xff"])
def test_a_damaged_book_lets_nobody_in(damage):
    """Damaged, and never overwritten."""
    store = MemoryStore()
    store.documents("shared/tokens").put("tokens.json", damage)
    book = TokenBook(store)
    for ask in (book.all, lambda: book.find("hf_a_b"), lambda: book.create("alice", "read")):
        with pytest.raises(Damaged):
            ask()
    assert store.documents("shared/tokens").get("tokens.json")[0] == damage


# -- at the door -------------------------------------------------------------------------------

ROWS = [row for row in ENDPOINTS if row.scope is not None]


def name_of(row):
    """The name of a row, for pytest."""
    return row.name


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_every_row_asks_for_a_token(server, client, row):
    """Without one, and with a wrong one: 401, whatever is asked."""
    path = row.path.replace("{id}", "x").replace("{call}", "y")
    for given in ("", "Bearer", "Bearer hf_a_b", "Basic dTpw", "bearer"):
        answer = client.request(row.method, path, headers={"authorization": given})
        assert (answer.status_code, answer.json()["code"]) == (401, "token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("row", [row for row in ROWS if row.scope != "read"], ids=name_of)
def test_every_row_asks_for_its_scope(server, space, row):
    """A token that may less is refused with 403, before anything is looked at."""
    path = row.path.replace("{id}", "x").replace("{call}", "y")
    all_but = ["read", "write", "admin"]
    less = {"write": ["read"], "admin": ["read", "write"], "metrics": all_but}[row.scope]
    for scope in less:
        with server.client(space, scope) as client:
            answer = client.request(row.method, path, json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "scope")


def test_who_guesses_too_often_waits(serving, space):
    """After some wrong tokens from one address the answer is 429; a good token still works."""
    server = serving(kit=None)
    server.service._failures = Buckets(1, 30)
    with server.client(space) as client:
        wrong = [client.get("/v1/stats", headers={"authorization": f"Bearer hf_{n}_x"}).status_code for n in range(40)]
        assert wrong[0] == 401
        assert wrong[-1] == 429
        assert client.get("/v1/stats").status_code == 200


def test_who_asks_too_often_waits(serving, space):
    """By token, with Retry-After; another token is not held up."""
    server = serving(kit=None)
    server.service._buckets = Buckets(0.01, 3)
    with server.client(space) as client, server.client(space) as other:
        answers = [client.get("/v1/trash") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].headers["retry-after"]
        assert other.get("/v1/trash").status_code == 200


def test_a_revoked_token_ends_what_it_opened(server, space, talk):
    """Streams and sockets that are open already end too, within a second or so."""
    token = server.token(space)
    with server.client(token=token) as client, server.input(token) as socket, server.input(token) as silent:
        talk.hear(socket)
        talk.hear(silent)
        talk.say(silent, {"type": "subscribe", "components": ["*"]})
        id = client.post("/v1/sessions", json={}).json()["session_id"]
        with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
            events = talk.events(stream)
            next(events)
            server.service.tokens.revoke(token.split("_")[1])
            *_, last = events
        assert last[:2] == ("stream.end", {"reason": "token"})
        for each in (socket, silent):  # also those that say nothing
            assert talk.hear(each, "error")["code"] == "token"
            with pytest.raises(ConnectionClosed) as closed:
                each.recv(timeout=120)
            assert closed.value.rcvd.code == 1008


def test_a_revoked_token_says_nothing_more(server, space, talk, monkeypatch):
    """Also between two looks at it a message is not obeyed."""
    monkeypatch.setattr(_socket, "_LOOK_S", 60)
    token = server.token(space)
    with server.input(token) as socket:
        talk.hear(socket)
        server.service.tokens.revoke(token.split("_")[1])
        talk.say(socket, {"type": "append", "event": "note"})
        assert talk.hear(socket)["code"] == "token"


def test_a_revoked_token_hears_no_more_of_a_turn(serving, space, talk):
    """The stream ends with the reason; the turn itself goes on, and is recorded."""
    gate = threading.Event()
    server = serving(gate)
    token = server.token(space)
    headers = {"accept": "text/event-stream"}
    with server.client(token=token) as client, server.client(space) as other:
        id = client.post("/v1/sessions", json={}).json()["session_id"]
        path = f"/v1/sessions/{id}"
        asked = {"json": {"prompt": "tell me"}, "headers": headers}
        with client.stream("POST", f"{path}/turns", **asked) as stream:
            events = talk.events(stream)
            assert next(events)[0] == "piece"
            server.service.tokens.revoke(token.split("_")[1])
            gate.set()
            [last] = events
        assert (last[0], last[1]["code"]) == ("error", "token")
        until = time.monotonic() + 120
        while other.get(path).json()["status"] != "idle" and time.monotonic() < until:
            time.sleep(0.02)
        assert "so far all" in other.get(f"{path}/messages").text


def test_one_space_takes_not_all_places(serving, space, talk, monkeypatch):
    """Of streams and of turns each space may have a part; others still come in."""
    monkeypatch.setattr(_service, "_STREAMS_OF_SPACE_MAX", 1)
    monkeypatch.setattr(_turns, "_TURNS_OF_SPACE_MAX", 1)
    gate = threading.Event()
    server = serving(gate)
    token = server.token(space)
    with server.client(token=token) as client, server.input(token) as socket:
        talk.hear(socket)
        talk.say(socket, "tell me")
        talk.hear(socket, "agent.piece")
        id = client.post("/v1/sessions", json={}).json()["session_id"]
        refused = [
            client.get(f"/v1/sessions/{id}/follow"),
            client.post(f"/v1/sessions/{id}/turns", json={"prompt": "me too"}),
        ]
        with pytest.raises(InvalidStatus):
            server.input(token)
        with server.input(server.token(f"{space}-other")) as other:
            talk.hear(other)
            talk.say(other, "tell me")
            assert talk.hear(other, "agent.piece")
        gate.set()
    assert [answer.json()["code"] for answer in refused] == ["busy", "busy"]
    assert [answer.status_code for answer in refused] == [503, 503]


def test_who_may_write_lifts_no_legal_hold(server, space, client, talk):
    """Neither by an event, nor among several, nor over a WebSocket; and makes none."""
    client.post("/v1/sessions", json={"id": "held"})
    client.put("/v1/sessions/held/hold", json={"reason": "case 7"})
    lifting = {"type": "metadata", "data": {"legal_hold": None}}
    token = server.token(space, "write")
    with server.client(token=token) as writer:
        assert writer.put("/v1/sessions/held/hold", json={}).status_code == 403
        refused = [
            writer.post("/v1/sessions/held/events", json=lifting),
            writer.post("/v1/sessions/held/batch", json={"events": [{"type": "note"}, lifting]}),
            writer.delete("/v1/sessions/held"),
        ]
    assert [answer.status_code for answer in refused] == [403, 403, 403]
    with server.input(token, "?session_id=held") as socket:
        talk.hear(socket)
        talk.say(socket, {"type": "append", "event": "metadata", "data": lifting["data"]})
        assert talk.hear(socket)["code"] == "scope"
    assert client.get("/v1/sessions/held").json()["held"]


def test_messages_count_as_requests(serving, space, talk):
    """A flood on one connection is told to wait, and the connection goes on."""
    server = serving(kit=None)
    token = server.token(space)
    with server.input(token) as socket:
        talk.hear(socket)
        now = [0.0]
        server.service._buckets = Buckets(1, 2, clock=lambda: now[0])
        for _ in range(4):
            talk.say(socket, {"type": "append", "event": "note"})
        codes = [talk.hear(socket).get("code") for _ in range(4)]
        assert codes == [None, None, "too_many", "too_many"]
        now[0] = 1
        talk.say(socket, {"type": "append", "event": "note"})
        assert talk.hear(socket)["seq"]


def test_who_did_what_is_written_down(server, space, client, caplog):
    """One line for each request, with token, space, session and status, and no word of content."""
    with caplog.at_level(logging.INFO, "holdfast.audit"):
        client.post("/v1/sessions", json={"id": "diary", "title": SECRET})
        event = {"type": "user", "data": {"role": "user", "content": SECRET}}
        client.post("/v1/sessions/diary/events", json=event)
        client.get("/v1/search", params={"q": SECRET})
        client.get("/v1/stats", headers={"authorization": "Bearer wrong"})
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    told = [(line["action"], line["space"], line["session"], line["status"]) for line in lines]
    assert told == [
        ("post_sessions", space, None, 201),
        ("post_sessions_id_events", space, "diary", 200),
        ("get_search", space, None, 200),
        ("get_stats", None, None, 401),
    ]
    assert lines[0]["made"] == "diary"
    assert lines[0]["token"]
    assert SECRET not in caplog.text


# -- spaces ------------------------------------------------------------------------------------


def tricks(other):
    """Ids by which somebody might try to reach what another space has."""
    steps = ("../", "..%2f", "%2e%2e%2f", "..\\", "....//", "%252e%252e%252f", "/", "%00", ";/", "?")
    ends = (f"spaces/{other}/sessions/diary", f"{other}/sessions/diary", f"{other}/diary", "diary")
    for head in ("", "diary/", "sessions/", f"spaces/{other}/"):
        for step in steps:
            for end in ends:
                yield head + step + end
                yield quote(head + step + end, safe="")
                yield head + step * 3 + end
    yield from (f"{other}:diary", f"{other}.diary", f"diary@{other}", "DIARY", "dıary", "*", "..", "~")


@contextlib.contextmanager
def as_is(server, token):
    """Requests as they are written: other clients would straighten the path before it is sent."""

    def ask(path):
        connection.request("GET", quote(path, safe=SAFE), headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    with contextlib.closing(http.client.HTTPConnection(server.url.removeprefix("http://"))) as connection:
        yield ask


def test_nobody_reaches_another_space(server, space):
    """Hundreds of ids on every path, and every other way to name something: nothing comes out."""
    other = f"{space}x"
    with server.client(other) as theirs:
        theirs.post("/v1/sessions", json={"id": "diary", "title": SECRET, "tags": [SECRET]})
        said = {"type": "user", "data": {"role": "user", "content": SECRET * 100_000}}
        theirs.post("/v1/sessions/diary/events", json=said)
        made = theirs.post("/v1/sessions/diary/fork", json={"new_id": "fork"})
        assert made.status_code == 201
        theirs.delete("/v1/sessions/fork")
        before = theirs.get("/v1/sessions/diary/events?type=user&type=note&type=title").content
    tails = ("", "/events", "/state", "/export?format=bundle", "/follow", "/messages")
    tried = 0
    with server.client(space) as mine, as_is(server, server.token(space)) as asked:
        for number, trick in enumerate(tricks(other)):
            status, content = asked(f"/v1/sessions/{trick}{tails[number % len(tails)]}")
            assert SECRET.encode() not in content
            assert status in {400, 404}, (trick, status)
            tried += 1
        for params in ({"tag": SECRET}, {"agent_id": other}, {"parent": "diary"}, {}):
            assert mine.get("/v1/sessions", params=params).json()["sessions"] == []
        assert mine.get("/v1/search", params={"q": SECRET}).json()["hits"] == []
        assert mine.get("/v1/search?q=x&session_id=diary").status_code == 404
        assert mine.get("/v1/stats").json()["sessions"] == 0
        assert mine.get("/v1/trash").json()["sessions"] == []
        assert mine.post("/v1/trash/fork/undelete").status_code == 404
        mine.post("/v1/sessions", json={"id": "own"})
        for path, wish in (
            ("compare?other=diary", None), ("merge", {"other": "diary"}), ("fork", {"at": 99}),
            ("merge", {"other": f"../{other}/sessions/diary"}),
        ):  # fmt: skip
            method = "GET" if wish is None else "POST"
            answer = mine.request(method, f"/v1/sessions/own/{path}", json=wish)
            assert answer.status_code >= 400
            assert SECRET.encode() not in answer.content
        for method, tail in (("DELETE", ""), ("PATCH", ""), ("POST", "/events")):
            body = {"type": "note"} if tail else {"title": "mine"}
            answer = mine.request(method, f"/v1/sessions/diary{tail}", json=body)
            assert answer.status_code == 404
    with server.client(other) as theirs:
        assert theirs.get("/v1/sessions/diary/events?type=user&type=note&type=title").content == before
    assert tried > 400


def test_the_same_id_is_another_session_elsewhere(server, space):
    """Two spaces may use the same names; also the same idempotency keys."""
    found = set()
    for name in (space, f"{space}x"):
        with server.client(name) as client:
            client.post("/v1/sessions", json={"id": "diary", "title": name})
            keyed = {"idempotency-key": "k"}
            event = {"type": "note", "data": {"of": name}}
            path = "/v1/sessions/diary/events"
            assert client.post(path, json=event, headers=keyed).status_code == 200
            found.add(client.get("/v1/sessions/diary").json()["title"])
    assert found == {space, f"{space}x"}
