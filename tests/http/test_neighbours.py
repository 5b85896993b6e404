"""Neighbours that mean harm: streams and sockets across spaces, and how secrets are compared at every door."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

import holdfast
from holdfast.apps.gate.secret import same_secret
from holdfast.apps.http import tokens
from holdfast.session import new_session_id

APPS = Path(holdfast.__file__).parent / "apps"
DOORS = ("http/tokens.py", "web/_page.py", "mcp/run.py")
SECRET = "neighbour-secret-4711"


def refusal(server, token, id):
    """The status, headers and body of a refused WebSocket, and of a refused stream, without the id and the date."""
    with pytest.raises(InvalidStatus) as caught, server.input(token, f"?session_id={id}"):
        pass
    found = caught.value.response
    with server.client(token=token) as client:
        answer = client.get(f"/v1/sessions/{id}/follow")
    told = [
        (found.status_code, dict(found.headers), found.body),
        (answer.status_code, dict(answer.headers), answer.content),
    ]
    return [
        (status, sorted(name.lower() for name in headers), body.replace(id.encode(), b"ID"))
        for status, headers, body in told
    ]


def test_a_session_of_another_space_is_refused_as_one_that_is_nowhere(server, space, monkeypatch):
    """The same words on socket and stream, and no other space is even looked into: nothing to measure."""
    with server.client(f"{space}x") as theirs:
        theirs.post("/v1/sessions", json={"id": "diary", "title": SECRET})
    token = server.token(space)
    looked, use = [], server.service.spaces.use
    monkeypatch.setattr(server.service.spaces, "use", lambda name: looked.append(name) or use(name))
    there = refusal(server, token, "diary")
    steps = len(looked)
    nowhere = refusal(server, token, "dairy")
    assert there == nowhere
    assert SECRET not in repr(there)
    assert {status for status, _, _ in there} == {404}
    assert set(looked) == {space}
    assert len(looked) == 2 * steps > 0


def test_the_same_id_in_two_spaces_is_heard_in_its_own_only(server, space, talk):
    """Socket and stream on an id that another space uses too: what is said there is not heard here."""
    id, other = new_session_id(), f"{space}x"
    said = {"type": "note", "data": {"text": SECRET}}
    own = {"type": "note", "data": {"text": "own"}}
    with server.client(other) as theirs, server.client(space) as mine:
        theirs.post("/v1/sessions", json={"id": id})
        with server.input(server.token(space), f"?session_id={id}") as socket:
            talk.hear(socket, "session.connected")
            talk.say(socket, {"type": "subscribe", "components": ["*"]})
            mine.post("/v1/sessions", json={"id": id})
            with mine.stream("GET", f"/v1/sessions/{id}/follow") as stream:
                events = talk.events(stream)
                next(events)
                assert theirs.post(f"/v1/sessions/{id}/events", json=said).status_code == 200
                assert mine.post(f"/v1/sessions/{id}/events", json=own).status_code == 200
                heard = []
                while not heard or "own" not in repr(heard[-1]):
                    heard.append(next(events))
            told = []
            while not told or "own" not in repr(told[-1]):
                told.append(talk.hear(socket))
        talk_of_theirs = repr(heard) + repr(told) + mine.get(f"/v1/sessions/{id}/events").text
    assert SECRET not in talk_of_theirs


def test_a_question_of_another_space_can_neither_be_seen_nor_answered(server, space, talk):
    """By requests, sockets, tokens and webhooks it is a question that is nowhere; it stays open."""
    there, nowhere, id = "0123456789ab", "0123456789ac", new_session_id()
    with server.client(f"{space}x") as theirs, server.client(space) as mine:
        for client in (theirs, mine):
            client.post("/v1/sessions", json={"id": id})
        said = {"id": there, "kind": "permission", "tool": SECRET, "call": "c", "event": "paid"}
        assert theirs.post(f"/v1/sessions/{id}/events", json={"type": "suspended", "data": said}).status_code == 200
        token = theirs.post(f"/v1/waiting/{there}/tokens", json={"holder": "vendor"}).json()["token"]
        told = []
        for ask, given in ((there, token), (nowhere, token.replace(there, nowhere))):
            answers = [
                mine.get("/v1/waiting", params={"session": id}),
                mine.put(f"/v1/waiting/{ask}", json={"decision": "deny"}),
                mine.post(f"/v1/waiting/{ask}/tokens", json={"holder": "me"}),
                mine.post("/v1/answers/revoke", json={"token": given}),
                mine.post("/v1/signals/paid", json={"value": 1}),
            ]
            with server.input(server.token(space), f"?session_id={id}") as socket:
                greeting = talk.hear(socket, "session.connected")
                talk.say(socket, {"type": "answer", "id": ask, "decision": "deny"})
                heard = [greeting.get("waiting"), talk.hear(socket, "error")]
            told.append(f"{[(one.status_code, one.text) for one in answers]} {heard}".replace(ask, "ASK"))
        assert told[0] == told[1]
        assert SECRET not in told[0]
        assert [one["id"] for one in theirs.get("/v1/waiting").json()["waiting"]] == [there]
        counts = theirs.post("/v1/answers", json={"token": token, "decision": "allow"}).json()
        assert counts["by"] == "vendor"


@pytest.mark.parametrize("kind", ["wrong secret", "no such id", "no token"])
def test_every_token_is_compared_once_whether_it_exists_or_not(server, space, monkeypatch, kind):
    """On HTTP, WebSocket and event streams: in constant time, also where there is nothing to compare with."""
    good = server.token(space)
    mark, id, secret = good.split("_", 2)
    given = {"wrong secret": f"{mark}_{id}_{secret[::-1]}", "no such id": f"{mark}_x{id}_{secret}", "no token": "x"}[
        kind
    ]
    compared, real = [], tokens.same_secret
    monkeypatch.setattr(tokens, "same_secret", lambda *two: compared.append(two) or real(*two))
    with server.client(token=given) as client:
        assert client.get("/v1/stats").status_code == 401
    assert len(compared) == 1
    with pytest.raises(InvalidStatus) as caught, server.input(given):
        pass
    assert caught.value.response.status_code == 401
    assert len(compared) == 2
    with server.client(token=given) as client, client.stream("GET", "/v1/sessions/a/follow") as stream:
        assert stream.status_code == 401
    assert len(compared) == 3
    assert {len(one) for two in compared for one in two} == {len(compared[0][0])}  # digests, all of one length


def test_every_door_compares_in_constant_time():
    """HTTP and WebSocket, the link of the web app and MCP call one function, which is the library's for it."""
    assert "hmac.compare_digest" in inspect.getsource(same_secret)
    for door in DOORS:
        names = {
            node.func.id
            for node in ast.walk(parsed(APPS / door))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "same_secret" in names, door


def test_no_app_compares_a_secret_otherwise():
    """No ==, != or in on what is called a secret, a link, a password or a digest, in any app."""
    found = [
        f"{path.relative_to(APPS)}:{node.lineno}"
        for path in sorted(APPS.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Compare)
        and any(isinstance(one, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for one in node.ops)
        and any(is_secret(one) for one in (node.left, *node.comparators))
    ]
    assert found == []


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def is_secret(node):
    """Whether a name or an attribute is called as secrets are called here."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return any(word in name.lower() for word in ("secret", "password", "form_token", "digest", "_wanted", "_links"))
