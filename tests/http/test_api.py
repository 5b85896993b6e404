"""The API over a real connection: everything that can be asked, and how it is refused."""

from __future__ import annotations

import json

import pytest


def make(client, **wish):
    """A session with two events."""
    made = client.post("/v1/sessions", json=wish)
    assert made.status_code == 201, made.text
    id = made.json()["session_id"]
    for role, text in (("user", "Where is the lighthouse?"), ("assistant", "On Fedje.")):
        event = {"type": role, "data": {"role": role, "content": text}}
        assert client.post(f"/v1/sessions/{id}/events", json=event).status_code == 200
    return id


def test_a_session_is_made_and_found(client):
    """Made with title and tags, it is at its address, in the list and in the search."""
    made = client.post("/v1/sessions", json={"id": "trip", "title": "A trip", "tags": ["sea"]})
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/sessions/trip"
    event = {"type": "user", "data": {"role": "user", "content": "Where is the lighthouse?"}}
    appended = client.post("/v1/sessions/trip/events", json=event).json()
    found = client.get("/v1/sessions/trip").json()
    assert (found["title"], found["tags"]) == ("A trip", ["sea"])
    [row] = client.get("/v1/sessions", params={"tag": "sea"}).json()["sessions"]
    assert row["session_id"] == "trip"
    [hit] = client.get("/v1/search", params={"q": "lighthouse"}).json()["hits"]
    assert (hit["session_id"], hit["seq"]) == ("trip", appended["seqs"][0])
    assert client.post("/v1/sessions", json={"id": "trip"}).status_code == 409


def test_sessions_that_failed_are_listed_by_their_status(client):
    """The status is one of those that can be asked for, and is told with each session."""
    make(client, id="fine")
    make(client, id="broken-off")
    for event in ({"type": "turn_start"}, {"type": "turn_end", "data": {"reason": "failed"}}):
        assert client.post("/v1/sessions/broken-off/events", json=event).status_code == 200
    [row] = client.get("/v1/sessions", params={"status": "failed"}).json()["sessions"]
    assert (row["session_id"], row["status"]) == ("broken-off", "failed")
    assert client.get("/v1/sessions", params={"status": "broken"}).status_code == 400


def test_lists_come_in_pages(client):
    """A cursor gives what follows, until there is nothing more."""
    made = {make(client) for _ in range(5)}
    found, after = [], None
    for _ in range(3):
        params = {"limit": 2} | ({"after": after} if after else {})
        page = client.get("/v1/sessions", params=params).json()
        found += [row["session_id"] for row in page["sessions"]]
        after = page["next"]
    assert set(found) == made
    assert after is None


def test_events_come_in_pages(client):
    """From start on, with next; types choose."""
    id = make(client)
    batch = {"events": [{"type": "note", "data": {"n": n}} for n in range(10)]}
    seqs = client.post(f"/v1/sessions/{id}/batch", json=batch).json()["seqs"]
    assert len(seqs) == 10
    start, found = 0, []
    while start is not None:
        page = client.get(f"/v1/sessions/{id}/events", params={"start": start, "limit": 3, "type": "note"}).json()
        found += [event["data"]["n"] for event in page["events"]]
        start = page["next"]
    assert found == list(range(10))


def test_long_texts_come_whole(client):
    """What is kept beside the log is part of its event."""
    id = make(client)
    text = "x" * 600_000
    event = {"type": "user", "data": {"role": "user", "content": text}}
    [seq] = client.post(f"/v1/sessions/{id}/events", json=event).json()["seqs"]
    page = client.get(f"/v1/sessions/{id}/events", params={"start": seq}).json()
    assert page["events"][0]["data"]["content"] == text


def test_state_and_messages_of_any_moment(client):
    """The state as it was, and a conversation that a provider takes."""
    id = make(client, title="Before")
    then = client.get(f"/v1/sessions/{id}").json()["event_count"] - 1
    assert client.patch(f"/v1/sessions/{id}", json={"title": "After"}).status_code == 200
    assert client.get(f"/v1/sessions/{id}/state").json()["title"] == "After"
    assert client.get(f"/v1/sessions/{id}/state", params={"at": then}).json()["title"] == "Before"
    told = client.get(f"/v1/sessions/{id}/messages", params={"provider": "openai"}).json()
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"]


def test_branches(client):
    """Fork, compare, merge and restore make sessions and leave the first as it is."""
    id = make(client)
    before = recorded(client, id)
    fork = client.post(f"/v1/sessions/{id}/fork", json={"title": "Other"}).json()["session_id"]
    client.post(
        f"/v1/sessions/{fork}/events", json={"type": "user", "data": {"role": "user", "content": "And the ferry?"}}
    )
    told = client.get(f"/v1/sessions/{id}/compare", params={"other": fork}).json()
    assert told["ancestor"]["session_id"]
    merged = client.post(f"/v1/sessions/{id}/merge", json={"other": fork})
    assert merged.status_code == 201, merged.text
    back = client.post(f"/v1/sessions/{id}/restore", json={"at": 3})
    assert back.status_code == 201, back.text
    assert len({id, fork, merged.json()["session_id"], back.json()["session_id"]}) == 4
    assert recorded(client, id) == before


def recorded(client, id):
    """The events but for those of a server that gives a session back when nobody uses it."""
    found = client.get(f"/v1/sessions/{id}/events").json()["events"]
    return [event for event in found if event["type"] not in {"opened", "closed"}]


def test_export_and_import(client):
    """What goes out as a bundle comes in again; a page goes out as a file, never as a page."""
    id = make(client, title="A trip")
    bundle = client.get(f"/v1/sessions/{id}/export", params={"format": "bundle"})
    assert bundle.headers["content-disposition"].startswith("attachment")
    page = client.get(f"/v1/sessions/{id}/export", params={"format": "html"})
    assert page.headers["content-security-policy"].startswith("sandbox")
    assert "text/html" not in page.headers["content-type"]
    assert client.delete(f"/v1/sessions/{id}").status_code == 204
    taken = client.post("/v1/import", content=bundle.content)
    assert taken.status_code == 200, taken.text
    [again] = taken.json()["sessions"]
    assert client.get(f"/v1/sessions/{again}").json()["title"] == "A trip"
    assert client.post("/v1/import", content=b"what is this").status_code == 422


def test_snapshots_figures_and_checks(client):
    """Snapshots, statistics, verification and repair answer for the space."""
    id = make(client)
    seq = client.post(f"/v1/sessions/{id}/snapshots").json()["seq"]
    [found] = client.get(f"/v1/sessions/{id}/snapshots").json()["snapshots"]
    assert found["seq"] == seq
    assert client.get("/v1/stats").json()["sessions"] == 1
    assert client.get(f"/v1/sessions/{id}/verify").json()["ok"] is True
    assert client.post(f"/v1/sessions/{id}/repair").json()["ok"] is True


def test_labels(client):
    """Title, tags, pin and legal hold; what is held cannot be deleted."""
    id = make(client)
    wish = {"title": "New", "add_tags": ["a", "b"], "pinned": True}
    told = client.patch(f"/v1/sessions/{id}", json=wish).json()["session"]
    assert (told["title"], told["tags"], told["pinned"]) == ("New", ["a", "b"], True)
    told = client.patch(f"/v1/sessions/{id}", json={"remove_tags": ["a"], "pinned": False}).json()
    assert (told["session"]["tags"], told["session"]["pinned"]) == (["b"], False)
    assert client.put(f"/v1/sessions/{id}/hold", json={"reason": "case 7"}).status_code == 200
    assert client.delete(f"/v1/sessions/{id}").status_code == 403
    assert client.put(f"/v1/sessions/{id}/hold", json={}).status_code == 200
    assert client.delete(f"/v1/sessions/{id}").status_code == 204


def test_delete_and_undelete(client):
    """Into the trash and back, also right after it was written to."""
    id = make(client)
    assert client.delete(f"/v1/sessions/{id}").status_code == 204
    assert client.get(f"/v1/sessions/{id}").status_code == 404
    [row] = client.get("/v1/trash").json()["sessions"]
    assert row["session_id"] == id
    assert client.post(f"/v1/trash/{id}/undelete").status_code == 200
    assert client.get(f"/v1/sessions/{id}").status_code == 200


def test_asking_again_does_nothing_twice(client):
    """With an Idempotency-Key: one session, one event, one fork; other words are refused."""
    keyed = {"idempotency-key": "once"}
    ids = {client.post("/v1/sessions", json={"title": "x"}, headers=keyed).json()["session_id"] for _ in range(3)}
    [id] = ids
    event = {"type": "note", "data": {"n": 1}}
    path = f"/v1/sessions/{id}/events"
    seqs = [client.post(path, json=event, headers=keyed).json()["seqs"] for _ in range(3)]
    assert seqs[0] == seqs[1] == seqs[2]
    other = client.post(path, json={"type": "note", "data": {"n": 2}}, headers=keyed)
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    batch = {"events": [event, event]}
    seqs = [client.post(f"/v1/sessions/{id}/batch", json=batch, headers=keyed).json()["seqs"] for _ in range(2)]
    assert seqs[0] == seqs[1]
    forks = {client.post(f"/v1/sessions/{id}/fork", json={}, headers=keyed).json()["session_id"] for _ in range(3)}
    assert len(forks) == 1
    assert len(client.get("/v1/sessions").json()["sessions"]) == 2


@pytest.mark.parametrize(
    ("method", "path", "given", "status", "code"),
    [
        ("GET", "/v1/sessions/none", {}, 404, "not_found"),
        ("GET", "/v1/nothing", {}, 404, "not_found"),
        ("GET", "/", {}, 404, "not_found"),
        ("GET", "/v1/sessions/", {}, 404, "not_found"),
        ("PUT", "/v1/sessions", {}, 405, "method"),
        ("DELETE", "/openapi.json", {}, 405, "method"),
        ("GET", "/v1/sessions/-x", {}, 400, "invalid_id"),
        ("GET", "/v1/sessions?limit=0", {}, 400, "usage"),
        ("GET", "/v1/sessions?limit=5&limit=6", {}, 400, "usage"),
        ("GET", "/v1/sessions?whatever=1", {}, 400, "usage"),
        ("GET", "/v1/sessions?after=nonsense", {}, 400, "usage"),
        ("GET", "/v1/sessions?since=nan", {}, 400, "usage"),
        ("GET", "/v1/search", {}, 400, "usage"),
        ("GET", "/v1/stats?tz=Nowhere/None", {}, 400, "usage"),
        ("POST", "/v1/sessions", {"content": b"{}"}, 415, "media"),
        ("POST", "/v1/sessions", {"json": {"wrong": 1}}, 422, "invalid_data"),
        ("POST", "/v1/sessions", {"json": []}, 422, "invalid_data"),
        ("POST", "/v1/sessions", {"json": {"id": "../x"}}, 422, "invalid_data"),
        ("POST", "/v1/sessions/none/events", {"json": {"type": "x"}}, 404, "not_found"),
        ("POST", "/v1/sessions/none/fork", {"json": {}}, 404, "not_found"),
        ("DELETE", "/v1/sessions/none", {}, 404, "not_found"),
        ("DELETE", "/v1/sessions/none/turns", {}, 404, "not_found"),
        ("POST", "/v1/trash/none/undelete", {}, 404, "not_found"),
        ("POST", "/v1/sessions/none/turns", {"json": {"prompt": "x"}}, 404, "not_found"),
    ],
)
def test_what_is_wrong_is_said(client, *, method, path, given, status, code):
    """A problem with a stable code, what to do, and the status that fits."""
    answer = client.request(method, path, **given)
    told = answer.json()
    assert (answer.status_code, told["status"], told["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "holdfast" not in told["detail"]
    assert told["remedy"].endswith(".")


def test_bodies_that_are_none(client):
    """No JSON, not Unicode, too deep: refused with 400, and the server goes on."""
    headers = {"content-type": "application/json"}
    for body in (b"", b"{", b"\xff", b'{"title": "\xff"}', b"[" * 100_000, b'{"title":1e999}'):
        answer = client.post("/v1/sessions", content=body, headers=headers)
        assert answer.status_code in {400, 422}, body[:20]


def test_a_secret_does_not_stand_in_the_way_of_a_key(serving, space, module_root):
    """What was recorded without it, under a key, is the same when it is sent again."""
    server = serving(kit=None, redaction="mark")
    with server.client(space) as client:
        id = make(client)
        secret = "ghp_" + "a8Kd03nVbq" * 3 + "Zx81Lw"
        event = {"type": "user", "data": {"role": "user", "content": f"my token is {secret}"}}
        path, headers = f"/v1/sessions/{id}/events", {"idempotency-key": "k"}
        answers = [client.post(path, json=event, headers=headers) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[0].json() == answers[1].json()
        assert secret not in client.get(path).text


@pytest.mark.parametrize("key", ["x" * 201, "a\tb", "\u00e9".encode("latin-1")])
def test_a_key_that_is_none(client, key):
    """An idempotency key is short and printable."""
    answer = client.post("/v1/sessions", json={}, headers={b"idempotency-key": key})
    assert (answer.status_code, answer.json()["code"]) == (400, "usage")
    assert client.get("/v1/sessions").json()["sessions"] == []


def test_branches_are_made_once_for_a_key(client):
    """Merges and restores too; a name that is taken is refused without a key."""
    id = make(client)
    fork = client.post(f"/v1/sessions/{id}/fork", json={"new_id": "fork"}).json()["session_id"]
    for path, wish in (("merge", {"other": fork}), ("restore", {"at": 2}), ("fork", {})):
        keyed = {"idempotency-key": "k"}
        made = {
            client.post(f"/v1/sessions/{id}/{path}", json=wish, headers=keyed).json()["session_id"] for _ in range(2)
        }
        assert len(made) == 1
        taken = client.post(f"/v1/sessions/{id}/{path}", json={**wish, "new_id": "fork"})
        assert taken.status_code == 409


def test_types_of_our_own_are_refused(client):
    """Nobody can claim what the session itself records."""
    id = make(client)
    for type in ("session_start", "opened", "closed"):
        answer = client.post(f"/v1/sessions/{id}/events", json={"type": type})
        assert answer.status_code == 400


def test_a_body_that_is_too_long(client):
    """413, before it is read, and while it is read."""
    id = make(client)
    path = f"/v1/sessions/{id}/events"
    headers = {"content-type": "application/json"}
    answer = client.post(path, content=b"x" * (17 << 20), headers=headers)
    assert answer.status_code == 413

    def parts():
        for _ in range(20):
            yield b"x" * (1 << 20)

    assert client.post(path, content=parts(), headers=headers).status_code == 413


def test_methods(client):
    """HEAD is GET without a body, OPTIONS tells what there is, 405 too."""
    assert client.head("/v1/sessions").status_code == 200
    assert client.head("/v1/sessions").content == b""
    told = client.options("/v1/sessions")
    assert (told.status_code, told.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert client.put("/v1/sessions").headers["allow"] == "GET, HEAD, OPTIONS, POST"
    id = make(client)
    assert client.head(f"/v1/sessions/{id}/follow").status_code == 200


def test_the_description_names_every_row(client):
    """It needs no token, and has each method of each path."""
    told = json.loads(client.get("/openapi.json", headers={"authorization": ""}).content)
    assert told["openapi"].startswith("3.1")
    assert "post" in told["paths"]["/v1/sessions/{id}/events"]
    assert told["paths"]["/v1/sessions"]["get"]["security"] == [{"token": []}]


def test_health(client):
    """Without a token; ready means that the store can be used."""
    for path in ("/healthz", "/readyz"):
        answer = client.get(path, headers={"authorization": ""})
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_guards_stand_before_it(client):
    """Foreign names and foreign pages come no further, and every answer has the headers."""
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 421
    refused = client.post("/v1/sessions", json={}, headers={"origin": "https://evil.example"})
    assert refused.status_code == 403
    assert client.get("/healthz").headers["x-content-type-options"] == "nosniff"
