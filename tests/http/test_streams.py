"""Events as they come, turns word by word, and what becomes of them when nobody listens."""

from __future__ import annotations

import threading
import time

import pytest
from tests.scripts import make_kit

from holdfast.apps.http import _turns


def begin(client, **wish):
    """A session that is there."""
    return client.post("/v1/sessions", json=wish).json()["session_id"]


def note(client, id, n):
    """One more event; its number."""
    event = {"type": "note", "data": {"n": n}}
    return client.post(f"/v1/sessions/{id}/events", json=event).json()["seqs"][0]


def read(talk, stream, count):
    """So many notes of a stream: their ids and what they say."""
    found = []
    for name, data, id in talk.events(stream):
        if name == "note":
            found.append((int(id), data["data"]["n"]))
        if len(found) == count:
            break
    return found


def test_followers_hear_what_comes(client, talk):
    """What is there, then what is added, each with its number as id."""
    id = begin(client)
    seqs = [note(client, id, 0)]
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        adding = threading.Thread(target=lambda: seqs.extend(note(client, id, n) for n in (1, 2)))
        adding.start()
        found = read(talk, stream, 3)
        adding.join()
    assert found == [(seqs[0], 0), (seqs[1], 1), (seqs[2], 2)]


def test_a_follower_goes_on_where_it_was(client, talk):
    """Last-Event-ID gives what came after it, and nothing twice; it counts more than start."""
    id = begin(client)
    seqs = [note(client, id, n) for n in range(6)]
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        first = read(talk, stream, 3)
    headers = {"last-event-id": str(first[-1][0])}
    with client.stream("GET", f"/v1/sessions/{id}/follow?start=0", headers=headers) as stream:
        rest = read(talk, stream, 3)
    assert [n for _, n in first + rest] == list(range(6))
    assert [seq for seq, _ in first + rest] == seqs
    for wrong in ("x", "-1", "1.5", "9" * 40):
        answer = client.get(f"/v1/sessions/{id}/follow", headers={"last-event-id": wrong})
        assert answer.status_code == 400


def test_what_others_write_is_heard(client, server, space, talk):
    """Also of another process: here by another way to the same store."""
    id = begin(client)
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        with server.hf.space(space) as beside, beside.session(id) as session:
            session.append("note", {"n": 7})
        assert read(talk, stream, 1)[0][1] == 7


def test_a_long_past_comes_in_pages(client, talk):
    """More events than are read at once, in order and each once."""
    id = begin(client)
    for _ in range(2):
        batch = {"events": [{"type": "note", "data": {"n": n}} for n in range(700)]}
        assert client.post(f"/v1/sessions/{id}/batch", json=batch).status_code == 200
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        found = read(talk, stream, 1400)
    assert [n for _, n in found] == [*range(700), *range(700)]


def test_silence_is_told_from_the_end(client, monkeypatch):
    """While nothing happens a comment comes now and then, so that nobody takes it for broken."""
    monkeypatch.setattr("holdfast.apps.http._stream._HEARTBEAT_S", 0.05)
    id = begin(client)
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        assert any(line.startswith(": ") for line in stream.iter_lines())


def test_a_stream_ends_with_its_session(client, talk):
    """Deleted: the stream says so and ends."""
    id = begin(client)
    with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
        events = talk.events(stream)
        next(events)
        time.sleep(0.1)
        assert client.delete(f"/v1/sessions/{id}").status_code == 204
        *_, last = events
    assert last[:2] == ("stream.end", {"reason": "gone"})


def test_a_stream_ends_with_its_server(serving, space, talk):
    """It says so at once, and keeps the server from nothing."""
    server = serving(kit=None)
    with server.client(space) as client:
        id = begin(client)
        with client.stream("GET", f"/v1/sessions/{id}/follow") as stream:
            events = talk.events(stream)
            next(events)
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            *_, last = events
            stopping.join()
    assert last[:2] == ("stream.end", {"reason": "stopping"})


# -- turns -------------------------------------------------------------------------------------


def streamed(client, talk, id, **wish):
    """The events of a turn."""
    headers = {"accept": "text/event-stream"}
    with client.stream("POST", f"/v1/sessions/{id}/turns", json=wish, headers=headers) as stream:
        assert stream.status_code == 200
        return [(name, data) for name, data, _ in talk.events(stream)]


def test_a_turn_is_streamed_and_on_record(client, talk):
    """Word by word to who accepts events; the session has question and answer."""
    id = begin(client)
    told = streamed(client, talk, id, prompt="Hello?")
    assert "".join(data["text"] for name, data in told if name == "piece") == "hello there "
    name, done = told[-1]
    assert (name, done["output"], done["session_id"]) == ("done", "hello there ", id)
    roles = [m["role"] for m in client.get(f"/v1/sessions/{id}/messages").json()["messages"]]
    assert roles == ["user", "assistant"]


def test_a_turn_as_a_whole(client):
    """As JSON to who does not accept events; asked again with its key, the same answer."""
    id = begin(client)
    headers = {"idempotency-key": "t1"}
    path = f"/v1/sessions/{id}/turns"
    answers = [client.post(path, json={"prompt": "Hi"}, headers=headers).json() for _ in range(2)]
    assert [answer["output"] for answer in answers] == ["hello there "] * 2
    assert answers[1]["reason"] == "recorded"
    users = client.get(f"/v1/sessions/{id}/events", params={"type": "user"}).json()["events"]
    assert len(users) == 1


def test_a_turn_that_a_limit_stopped_says_so(serving, space):
    """By its status, and the name of the limit."""
    server = serving(kit=make_kit([("recall", {})], limits={"tokens": 1}))
    with server.client(space) as client:
        answer = client.post(f"/v1/sessions/{begin(client)}/turns", json={"prompt": "Hi"}).json()
    assert (answer["status"], answer["reason"], answer["output"]) == ("stopped", "tokens", "")


def test_nothing_to_go_on_with(client):
    """A turn without a prompt is refused where nothing was interrupted; so is an empty one."""
    id = begin(client)
    path = f"/v1/sessions/{id}/turns"
    for wish in ({"prompt": None}, {"prompt": " "}, {"prompt": []}, {"resume_token": "x"}):
        answer = client.post(path, json=wish)
        assert answer.status_code in {400, 409}, (wish, answer.text)


def test_a_turn_is_resumed_by_its_token_alone(client):
    """A token with a prompt, or one that was never given out, is refused; the session is usable."""
    id = begin(client)
    path = f"/v1/sessions/{id}/turns"
    both = client.post(path, json={"prompt": "x", "resume_token": "y"})
    assert (both.status_code, both.json()["code"]) == (400, "usage")
    never = client.post(path, json={"resume_token": "y", "value": 1})
    assert (never.status_code, never.json()["code"]) == (409, "resume_token_invalid")
    assert client.post(path, json={"prompt": "x"}).json()["output"] == "hello there "


def test_a_mistake_of_ours_is_said(serving, space, talk, monkeypatch):
    """As an internal error, whole or streamed; it is in the log, and the next turn works."""
    server = serving("fine")
    turns = server.service.turns
    own, fails = turns._make_agent, [True, True]

    def broken(*arguments):
        if fails:
            fails.pop()
            raise ZeroDivisionError("not for clients to know")
        return own(*arguments)

    monkeypatch.setattr(turns, "_make_agent", broken)
    with server.client(space) as client:
        id = begin(client)
        answer = client.post(f"/v1/sessions/{id}/turns", json={"prompt": "x"})
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "not for clients" not in answer.text
        [(name, data)] = streamed(client, talk, id, prompt="x")
        assert (name, data["code"]) == ("error", "internal")
        assert streamed(client, talk, id, prompt="x")[-1][0] == "done"


def test_one_turn_at_a_time(serving, space, talk):
    """A second one is refused while the first goes on; the first can be cancelled."""
    gate = threading.Event()
    server = serving(gate)
    with server.client(space) as client:
        id = begin(client)
        headers = {"accept": "text/event-stream"}
        path = f"/v1/sessions/{id}/turns"
        with client.stream("POST", path, json={"prompt": "x"}, headers=headers) as stream:
            events = talk.events(stream)
            assert next(events)[0] == "piece"
            assert client.post(path, json={"prompt": "y"}).json()["code"] == "busy"
            assert client.delete(f"/v1/sessions/{id}/turns").status_code == 204
            *_, last = events
        assert last[0] == "cancelled"
        assert client.get(f"/v1/sessions/{id}").json()["status"] == "idle"


def test_a_client_that_leaves_does_not_stop_its_turn(serving, space, talk):
    """The turn goes on, and its answer is in the session."""
    gate = threading.Event()
    server = serving(gate)
    with server.client(space) as client:
        id = begin(client)
        headers = {"accept": "text/event-stream"}
        path = f"/v1/sessions/{id}/turns"
        with client.stream("POST", path, json={"prompt": "x"}, headers=headers) as stream:
            assert next(talk.events(stream))[0] == "piece"
        gate.set()
        for _ in range(2_400):
            said = client.get(f"/v1/sessions/{id}/events", params={"type": "assistant"}).json()
            if said["events"]:
                break
            time.sleep(0.05)
        assert said["events"][0]["data"]["content"] == "so far all "


@pytest.mark.parametrize("approved", [True, False])
def test_tools_wait_for_an_answer(serving, space, talk, tmp_path, approved):
    """A tool that needs approval is asked for, by its id, and does what was answered."""
    (tmp_path / space).mkdir()
    (tmp_path / space / "found.txt").write_text("a shell")
    server = serving([("list_directory", {"path": "."})], "done", root=str(tmp_path))
    with server.client(space) as client:
        id = begin(client)
        headers = {"accept": "text/event-stream"}
        path = f"/v1/sessions/{id}/turns"
        with client.stream("POST", path, json={"prompt": "look"}, headers=headers) as stream:
            names = []
            for name, data, _ in talk.events(stream):
                names.append(name)
                if name == "tool_request_approval":
                    assert data["tool_name"] == "list_directory"
                    wrong = client.put(f"/v1/sessions/{id}/approvals/none", json={"approved": True})
                    assert wrong.status_code == 404
                    answer = client.put(f"/v1/sessions/{id}/approvals/{data['tool_id']}", json={"approved": approved})
                    assert answer.status_code == 204
        assert names[0] == "tool_request_approval"
        assert names[-1] == "done"
        [result] = client.get(f"/v1/sessions/{id}/events", params={"type": "tool_result"}).json()["events"]
        assert ("found.txt" in str(result["data"])) is approved


@pytest.mark.req("S4-4")
def test_a_server_that_stops_puts_turns_off(serving, space, talk):
    """The turn is told to be interrupted; another server goes on with it, nothing is lost."""
    gate = threading.Event()
    first = serving(gate)
    token = first.token(space)
    headers = {"accept": "text/event-stream"}
    with first.client(token=token) as client:
        id = begin(client)
        path = f"/v1/sessions/{id}/turns"
        with client.stream("POST", path, json={"prompt": "tell me"}, headers=headers) as stream:
            events = talk.events(stream)
            assert next(events)[1]["text"] == "so far "
            stopping = threading.Thread(target=first.stop)
            stopping.start()
            *_, last = events
            stopping.join()
        assert last[0] == "interrupted"
    first.hf.close()
    second = serving("and the rest")
    with second.client(token=token) as client:
        assert client.get(f"/v1/sessions/{id}").json()["status"] == "interrupted"
        answer = client.post(f"/v1/sessions/{id}/turns", json={"prompt": None}).json()
        assert answer["output"] == "and the rest "
        told = client.get(f"/v1/sessions/{id}/messages").json()["messages"]
        assert "so far" in str(told)
        assert "tell me" in str(told[0])
        assert client.get(f"/v1/sessions/{id}/verify").json()["ok"] is True


@pytest.mark.parametrize(
    "prompt",
    [
        [{}],
        [{"type": 5}],
        [{"type": "text"}],
        [{"type": "text", "text": 5}],
        [{"type": "image"}],
        [{"type": "image", "source": 5}],
        [{"type": "image", "source": {"type": "url"}}],
        [{"type": "image", "source": {"type": "url", "url": 5}}],
        [{"type": "image", "source": {"type": "base64", "data": 5}}],
        [{"type": "tool_result", "tool_use_id": [], "content": [5]}],
        [{"type": "document", "source": {"type": "file", "path": "/etc/passwd"}}],
        [],
        "",
        " ",
        "\u0000",
    ],
)
def test_any_prompt_is_answered(client, prompt):
    """What is no message is refused, or told as it is; it is never a mistake of the server's."""
    id = begin(client)
    answer = client.post(f"/v1/sessions/{id}/turns", json={"prompt": prompt})
    assert answer.status_code in {200, 400, 422}, answer.text
    assert "root:" not in answer.text
    note(client, id, 1)


def test_a_question_that_nobody_answers_stays(serving, space, tmp_path, monkeypatch):
    """After a while the turn ends, and the question waits on; nobody has said no."""
    monkeypatch.setattr(_turns, "_HOLD_S", 0.05)
    (tmp_path / space).mkdir()
    server = serving([("list_directory", {"path": "."})], "done", root=str(tmp_path))
    with server.client(space) as client:
        id = begin(client)
        answer = client.post(f"/v1/sessions/{id}/turns", json={"prompt": "look"}).json()
        found = client.get(f"/v1/sessions/{id}/events", params={"type": "tool_result"}).json()
        status = client.get(f"/v1/sessions/{id}").json()["status"]
    assert (answer["status"], [one["tool"] for one in answer["waiting"]]) == ("waiting", ["list_directory"])
    assert (found["events"], status) == ([], "waiting")
