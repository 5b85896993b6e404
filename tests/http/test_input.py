"""The WebSocket: one session for each connection, continued by its id, shared by nobody."""

from __future__ import annotations

import contextlib
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

PATIENCE_S = 120


def closing_code(socket):
    """Why the server closed a connection, whatever it says before."""
    try:
        while True:
            socket.recv(timeout=PATIENCE_S)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else 1006


@pytest.mark.req("S1-29", "S1-30")
def test_the_connection_is_a_session(server, space, talk):
    """The greeting names the session; what is said there is in the session of that id."""
    token = server.token(space)
    with server.input(token) as socket, server.client(token=token) as client:
        hello = talk.hear(socket, "session.connected")
        id = hello["session_id"]
        assert hello["subscribed_components"] == []
        talk.say(socket, {"type": "user_input", "input": "Hello?"})
        assert talk.hear(socket, "agent.response")["output"] == "hello there "
        roles = [m["role"] for m in client.get(f"/v1/sessions/{id}/messages").json()["messages"]]
    assert roles == ["user", "assistant"]


@pytest.mark.req("S1-30")
def test_coming_back_goes_on(server, space, talk):
    """With its id a client is in the same session, with all that was said."""
    token = server.token(space)
    with server.input(token) as socket:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, "first words")  # plain text is what a user says
        talk.hear(socket, "agent.response")
    with server.input(token, f"?session_id={id}") as socket:
        hello = talk.hear(socket)
        assert (hello["session_id"], hello["restored"]) == (id, True)
        talk.say(socket, {"type": "input", "data": "second words"})
        talk.hear(socket, "agent.response")
    with server.client(token=token) as client:
        told = client.get(f"/v1/sessions/{id}/messages").json()["messages"]
    assert [m["role"] for m in told] == ["user", "assistant"] * 2


def test_coming_back_before_anything_was_said(server, space, talk):
    """An id that was given out and never used is still its client's."""
    token = server.token(space)
    with server.input(token) as socket:
        id = talk.hear(socket)["session_id"]
    with server.input(token, f"?session_id={id}") as socket:
        hello = talk.hear(socket)
        assert (hello["session_id"], hello["restored"]) == (id, False)


@pytest.mark.req("S1-31")
def test_two_clients_share_nothing(server, space, talk):
    """Each connection has its own session; a name that both might choose is refused."""
    token = server.token(space)
    with server.input(token) as one, server.input(token) as other:
        ids = {talk.hear(one)["session_id"], talk.hear(other)["session_id"]}
        assert len(ids) == 2
        talk.say(one, {"type": "subscribe", "components": ["*"]})
        talk.say(other, {"type": "append", "event": "note", "data": {"n": 1}})
        talk.hear(other, "session.appended")
        talk.hear(one, "session.subscribed")
        with pytest.raises(TimeoutError):
            one.recv(timeout=0.8)
    for name in ("default", "session", "1", "..%2fx", "a" * 200):
        with pytest.raises(InvalidStatus) as refused:
            server.input(token, f"?session_id={name}")
        assert refused.value.response.status_code in {400, 404}


def test_a_misspelt_parameter_begins_no_session(server, space):
    """Who means to go on with a session is told, as in requests of any other kind."""
    with pytest.raises(InvalidStatus) as refused:
        server.input(server.token(space), "?sesion_id=trip")
    assert refused.value.response.status_code == 400
    assert b"sesion_id" in refused.value.response.body


def test_the_id_of_another_space_is_nothing(server, space, talk):
    """Who knows the id of a session elsewhere gets an empty one of that name, or none."""
    mine, theirs = server.token(space), server.token(f"{space}x")
    with server.input(mine) as socket:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, {"type": "append", "event": "note", "data": {"n": 1}})
        talk.hear(socket, "session.appended")
    with server.input(theirs, f"?session_id={id}") as socket:
        assert talk.hear(socket)["restored"] is False
    with server.client(token=mine) as client:
        client.post("/v1/sessions", json={"id": "named"})
    with pytest.raises(InvalidStatus):
        server.input(theirs, "?session_id=named")


def test_events_are_sent_to_who_subscribes(server, space, talk):
    """Of the types asked for, whoever records them, from then on."""
    token = server.token(space)
    with server.input(token) as socket, server.client(token=token) as client:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, {"type": "append", "event": "note", "data": {"n": 1}})
        talk.hear(socket, "session.appended")
        talk.say(socket, {"type": "subscribe", "components": ["mark"]})
        told = talk.hear(socket, "session.subscribed")
        assert told["subscribed_components"] == ["mark"]
        for type in ("note", "mark"):
            client.post(f"/v1/sessions/{id}/events", json={"type": type, "data": {"n": 2}})
        found = talk.hear(socket, "session.event")
    assert (found["type"], found["data"]) == ("mark", {"n": 2})


def test_an_append_with_a_key_counts_once(server, space, talk):
    """Sent again after a broken connection, it is not recorded again."""
    token = server.token(space)
    with server.input(token) as socket:
        id = talk.hear(socket)["session_id"]
        wish = {"type": "append", "event": "note", "data": {"n": 1}, "key": "k"}
        talk.say(socket, wish)
        first = talk.hear(socket, "session.appended")
    with server.input(token, f"?session_id={id}") as socket:
        talk.say(socket, wish)
        assert talk.hear(socket, "session.appended") == first


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "append"},
        {"type": "append", "event": "note", "data": [1]},
        {"type": "append", "event": "opened"},
        {"type": "append", "event": "note", "key": ""},
        {"type": "append", "event": "note", "key": "k" * 600},
        {"type": "user_input", "input": 5},
        {"type": "whatever"},
        {"type": 5},
        {"type": "subscribe", "components": [f"x{number}" for number in range(101)]},
        {"type": "subscribe", "components": ["x" * 201]},
        b"bytes",
    ],
)
def test_what_is_wrong_is_said_and_the_connection_goes_on(server, space, talk, wrong):
    """Each is answered with a problem, and the next message as if nothing had been."""
    with server.input(server.token(space)) as socket:
        talk.hear(socket)
        talk.say(socket, wrong)
        assert talk.hear(socket)["status"] in {400, 413, 422}
        talk.say(socket, {"type": "append", "event": "note", "data": {"n": 1}})
        assert talk.hear(socket, "session.appended")["seq"] > 0


def test_a_turn_goes_on_while_its_client_is_away(serving, space, talk):
    """Who comes back hears the rest of it."""
    gate = threading.Event()
    server = serving(gate)
    token = server.token(space)
    with server.input(token) as socket:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, "tell me")
        assert talk.hear(socket, "agent.piece")["text"] == "so far "
        talk.say(socket, "and more")
        assert talk.hear(socket, "error")["code"] == "busy"
    with server.input(token, f"?session_id={id}") as socket:
        assert talk.hear(socket)["status"] == "running"
        gate.set()
        assert talk.hear(socket, "agent.response")["output"] == "so far all "


def test_a_turn_can_be_cancelled(serving, space, talk):
    """By a message; the connection goes on."""
    server = serving(threading.Event())
    with server.input(server.token(space)) as socket:
        talk.hear(socket)
        talk.say(socket, "tell me")
        talk.hear(socket, "agent.piece")
        talk.say(socket, {"type": "cancel"})
        assert talk.hear(socket, "session.cancelled")["stopped"] is True
        talk.say(socket, {"type": "cancel"})
        assert talk.hear(socket, "session.cancelled")["stopped"] is False


def test_tools_are_approved_by_message(serving, space, talk, tmp_path):
    """As over HTTP; for the session if that is said, and then it is not asked again."""
    (tmp_path / space).mkdir()
    looking = [("list_directory", {"path": "."})]
    server = serving(looking, looking, "done", root=str(tmp_path))
    with server.input(server.token(space)) as socket:
        talk.hear(socket)
        talk.say(socket, "look")
        asked = talk.hear(socket, "agent.tool_request_approval")
        talk.say(socket, {"type": "tool_approve", "tool_id": "none", "approved": True})
        assert talk.hear(socket, "error")["code"] == "not_found"
        approval = {"tool_id": asked["tool_id"], "approved": True, "scope": "session"}
        talk.say(socket, {"type": "tool_approve", **approval})
        told = talk.hear(socket, "agent.response", "agent.tool_request_approval")
        assert told.get("output") == "done "


def test_a_server_that_stops_says_so(serving, space, talk):
    """The turn is told to be interrupted, and the connection is closed to be opened again."""
    server = serving(threading.Event())
    token = server.token(space)
    with server.input(token) as socket:
        talk.hear(socket)
        talk.say(socket, "tell me")
        talk.hear(socket, "agent.piece")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert closing_code(socket) == 1012
        stopping.join()


def test_a_word_while_it_works(serving, space, talk):
    """Over the socket or over HTTP it is recorded and heard in the same turn; without a turn it is refused."""
    server = serving(threading.Event(), "calm", "well")  # which never goes on by itself
    token = server.token(space)
    with server.input(token) as socket, server.client(token=token) as client:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, {"type": "steer", "input": "hello?"})
        assert talk.hear(socket, "error")["code"] == "not_found"
        talk.say(socket, "tell me")
        talk.hear(socket, "agent.piece")
        over_http = client.put(f"/v1/sessions/{id}/turns", json={"text": "in French"})
        assert over_http.status_code == 204
        talk.say(socket, {"type": "steer", "input": "stop that", "interrupt": True})
        assert talk.hear(socket, "agent.response")["output"] == "calm "
        found = client.get(f"/v1/sessions/{id}/events", params={"type": "steer"}).json()["events"]
        words = [(event["data"]["content"], event["data"].get("interrupt")) for event in found]
        assert words == [("in French", None), ("stop that", True)]
        assert client.put(f"/v1/sessions/{id}/turns", json={"text": "late"}).status_code == 404
        assert client.put(f"/v1/sessions/{id}/turns", json={"text": 7}).status_code == 422


def test_without_a_model_words_are_recorded(serving, space, talk):
    """A server without an agent keeps what is said, and says when it is safe."""
    server = serving(kit=None)
    token = server.token(space)
    with server.input(token) as socket, server.client(token=token) as client:
        id = talk.hear(socket)["session_id"]
        talk.say(socket, "hello")
        seq = talk.hear(socket, "input.received")["seq"]
        found = client.get(f"/v1/sessions/{id}/events", params={"type": "user"}).json()
        [event] = found["events"]
        assert (event["seq"], event["data"]["content"]) == (seq, "hello")
        turn = client.post(f"/v1/sessions/{id}/turns", json={"prompt": "x"})
        assert (turn.status_code, turn.json()["code"]) == (501, "no_model")


def test_a_token_is_needed(server, space):
    """No token, a wrong one, one in the address, a foreign page: no connection."""
    token = server.token(space)
    url = f"{server.url.replace('http', 'ws')}/input"
    for address, headers, status in (
        (url, {}, 401),
        (url, {"authorization": "Bearer hf_x_y"}, 401),
        (f"{url}?token={token}", {}, 401),
        (url, {"authorization": f"Bearer {token}", "origin": "http://evil.example"}, 403),
    ):
        with pytest.raises(InvalidStatus) as refused:
            connect(address, additional_headers=headers, open_timeout=PATIENCE_S)
        assert refused.value.response.status_code == status


def test_a_browser_says_its_token_as_a_protocol(server, space, talk):
    """Where no header can be set; the server chooses the other protocol, so it is not echoed."""
    token = server.token(space)
    url = f"{server.url.replace('http', 'ws')}/input"
    with connect(url, subprotocols=["holdfast", f"bearer.{token}"]) as socket:
        assert socket.subprotocol == "holdfast"
        assert talk.hear(socket)["session_id"]


def test_who_may_read_may_not_write(server, space, talk):
    """A token that may read only can subscribe, and no more."""
    with server.input(server.token(space, "read")) as socket:
        talk.hear(socket)
        for message in ("hi", {"type": "append", "event": "note"}, {"type": "cancel"}):
            talk.say(socket, message)
            assert talk.hear(socket)["code"] == "scope"
        talk.say(socket, {"type": "subscribe", "components": ["*"]})
        assert talk.hear(socket)["subscribed_components"] == ["*"]


# -- hostile frames ----------------------------------------------------------------------------

SHAPES = st.dictionaries(
    st.sampled_from(["type", "input", "data", "components", "event", "key", "tool_id", "x"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=6,
    )
    | st.sampled_from(["user_input", "append", "subscribe", "tool_approve", "cancel", "note"]),
    max_size=6,
)
FRAMES = (
    st.text(max_size=200)
    | st.binary(max_size=200)
    | SHAPES.map(json.dumps)
    | st.sampled_from(["", " ", "{", "[]", "null", "[" * 5000, '{"type":' * 500, "\x00", "\ud800"])
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(frames=st.lists(FRAMES, min_size=1, max_size=8))
def test_no_frame_breaks_it(server, talk, frames):
    """Whatever is sent, the connection answers afterwards."""
    with server.input(server.token("fuzz")) as socket:
        talk.hear(socket)
        for frame in frames:
            text = frame.encode("utf-8", "replace").decode() if isinstance(frame, str) else frame
            socket.send(text)
        talk.say(socket, {"type": "subscribe", "components": ["last-of-all"]})
        while "last-of-all" not in talk.hear(socket, "session.subscribed")["subscribed_components"]:
            pass


def test_a_frame_that_is_too_long_ends_the_connection(server, space, talk):
    """Closed with the code for it; the server goes on."""
    with server.input(server.token(space)) as socket:
        talk.hear(socket)
        with contextlib.suppress(ConnectionClosed):  # it may be told while it is still sending
            socket.send("x" * (40 << 20))
        assert closing_code(socket) in {1009, 1006}
    with server.input(server.token(space)) as socket:
        talk.hear(socket)
