"""The inbox of a server: questions outlive turns, clients and the server itself, and answers let sessions go on."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import time

import pytest
from tests.scripts import scripted

from holdfast.agent import Agent, Suspend, Tool
from holdfast.apps.http._spaces import Spaces
from holdfast.errors import DataError

LOOK = [("list_directory", {"path": "."})]


@pytest.fixture
def folder(tmp_path, space):
    """What agents of the space may read."""
    (tmp_path / space).mkdir()
    (tmp_path / space / "found.txt").write_text("a shell")
    return str(tmp_path)


def run(agent, prompt, session):
    """How a run ends, on a model that streams."""

    async def drive():
        async with agent.run_stream(prompt, session=session) as stream:
            async for _ in stream:
                pass
        return stream.result

    return asyncio.run(drive())


def begin(client):
    """A new session."""
    return client.post("/v1/sessions", json={}).json()["session_id"]


def until(check):
    """What the check gives, once it gives something."""
    for _ in range(1_200):
        if found := check():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


def ask(server, client, space):
    """A session with an agent of its own whose call waits; its question."""
    id = begin(client)
    with server.hf.space(space) as hf, hf.session(id) as session:
        agent = Agent(scripted(LOOK), tools=[Tool(lambda path: path, name="list_directory", permission="suspend")])
        run(agent, "look", session)
    [one] = client.get("/v1/waiting", params={"session": id}).json()["waiting"]
    return one


def results(client, id):
    """The results of a session's calls."""
    return client.get(f"/v1/sessions/{id}/events", params={"type": "tool_result"}).json()["events"]


def test_a_question_outlives_its_server(serving, space, talk, folder):
    """A server that stops denies nothing; the next one has the same question, and its answer lets the session go on."""
    first = serving(LOOK, "done", root=folder)
    token = first.token(space)
    with first.client(token=token) as client:
        id = begin(client)
        headers = {"accept": "text/event-stream"}
        with client.stream("POST", f"/v1/sessions/{id}/turns", json={"prompt": "look"}, headers=headers) as stream:
            told = talk.events(stream)
            asked = next(told)[1]
            first.stop()
            *_, last = told
    assert last[0] == "interrupted"
    second = serving("done", root=folder)
    with second.client(token=token) as client:
        [one] = client.get("/v1/waiting").json()["waiting"]
        assert (one["id"], one["call"], one["args"]) == (asked["question"], asked["tool_id"], {"path": "."})
        counts = client.put(f"/v1/waiting/{one['id']}", json={"decision": "allow"})
        assert (counts.status_code, counts.json()["decision"]) == (200, "allow")
        [result] = until(lambda: results(client, id))
        assert "found.txt" in str(result["data"])
        until(lambda: client.get(f"/v1/sessions/{id}").json()["status"] == "idle")
        assert client.get("/v1/waiting").json()["waiting"] == []


def test_an_answer_from_another_process_reaches_a_turn_that_is_held(serving, space, talk, folder):
    """Answered in the store, by whatever program, the turn of the client goes on."""
    server = serving(LOOK, "done", root=folder)
    with server.client(space) as client:
        id = begin(client)
        headers = {"accept": "text/event-stream"}
        with client.stream("POST", f"/v1/sessions/{id}/turns", json={"prompt": "look"}, headers=headers) as stream:
            told = talk.events(stream)
            asked = next(told)[1]
            with server.hf.space(space) as hf:
                hf.answer(asked["question"], True, by="ada", via="cli")
            *_, last = told
    assert (last[0], last[1]["output"], last[1].get("waiting")) == ("done", "done ", None)


def test_the_server_wakes_what_was_answered_while_it_was_away(serving, space, folder):
    """An answered session that nobody resumed is found by the server, by itself."""
    first = serving(root=folder)
    token = first.token(space)
    with first.client(token=token) as client:
        one = ask(first, client, space)
        with first.hf.space(space) as hf:
            hf.answer(one["id"], False, by="ada", because="not now")
    second = serving("done", root=folder)
    with second.client(token=token) as client:
        [result] = until(lambda: results(client, one["session_id"]))
        assert "not now" in str(result["data"])


def test_a_long_turn_and_a_broken_space_keep_nobody_waiting(serving, space, folder, monkeypatch):
    """All that is due goes on at once, in every space that can be read."""
    first = serving(root=folder)
    token = first.token(space)
    first.token(f"a{space}")
    with first.client(token=token) as client, first.hf.space(space) as hf:
        asked = [ask(first, client, space) for _ in range(2)]
        for one in asked:
            hf.answer(one["id"], False, by="ada")
    first.stop()
    use = Spaces.use

    def broken(spaces, name):
        if name == f"a{space}":
            raise DataError("this space is broken")
        return use(spaces, name)

    monkeypatch.setattr(Spaces, "use", broken)
    answers = threading.Event()
    second = serving(answers, root=folder)
    with second.client(token=token) as client:
        for one in asked:
            until(lambda asked=one: results(client, asked["session_id"]))
        assert not answers.is_set()  # both models are at work
        answers.set()


def test_a_session_of_another_agent_is_left_to_it(serving, space):
    """A server does not go on with a call of a tool that it does not have: that would refuse what was approved."""
    server = serving("done")
    with server.client(space) as client:
        id = begin(client)
        agent = Agent(scripted([("pay", {})], "thanks"), tools=[Tool(lambda: "paid", name="pay", permission="suspend")])
        with server.hf.space(space) as hf, hf.session(id) as session:
            run(agent, "go", session)
        [one] = client.get("/v1/waiting").json()["waiting"]
        assert client.put(f"/v1/waiting/{one['id']}", json={"decision": "allow"}).status_code == 200
        with server.hf.space(space) as hf:
            assert (hf.inbox.due(), server.service.turns.due(hf, space)) == ([id], [])
            with hf.session(id) as session:
                assert run(agent, None, session).output == "thanks "
        assert [one["data"]["result"] for one in results(client, id)] == ["paid"]


@pytest.mark.parametrize(("name", "is_woken"), [(None, True), ("assistant", True), ("cashier", False)])
def test_what_a_time_or_a_webhook_wakes_needs_no_tool(serving, space, name, is_woken):
    """The value is the result of the call; a session of an agent with another name is left to that agent."""
    first = serving()
    first.service.turns._kit = None
    token = first.token(space)

    def pay(late: bool) -> str:
        """Wait for the bank, or for a time."""
        raise Suspend(until=dt.datetime.now(dt.UTC)) if late else Suspend(event="paid-17")

    with first.client(token=token) as client, first.hf.space(space) as hf:
        ids = [begin(client), begin(client)]
        for id, late in zip(ids, (False, True), strict=True):
            agent = Agent(scripted([("pay", {"late": late})]), tools=[pay], name=name)
            with hf.session(id) as session:
                run(agent, "go", session)
        assert client.post("/v1/signals/paid-17", json={"value": 5}).json() == {"sessions": ids[:1]}
    first.stop()
    second = serving("done", root=None)
    with second.client(token=token) as client, second.hf.space(space) as hf:
        if not is_woken:
            assert (sorted(hf.inbox.due()), second.service.turns.due(hf, space)) == (sorted(ids), [])
            return
        for id in ids:
            until(lambda one=id: client.get(f"/v1/sessions/{one}").json()["status"] == "idle")
        assert [one["data"]["result"] for one in results(client, ids[0])] == [5]


def test_wrong_answers_are_refused(serving, space, folder):
    """What is no answer, and another one than the first, which is shown."""
    server = serving(root=folder)
    server.service.turns._kit = None
    with server.client(space) as client:
        path = f"/v1/waiting/{ask(server, client, space)['id']}"
        for wrong, status in (("edit", 400), ("maybe", 422)):
            assert client.put(path, json={"decision": wrong}).status_code == status
        assert client.put("/v1/waiting/none", json={"decision": "deny"}).status_code == 400
        for said, status in (("allow", 200), ("allow", 200), ("deny", 409)):
            told = client.put(path, json={"decision": said})
            assert told.status_code == status
        assert "allowed by token" in told.json()["detail"]
        late = client.post(f"{path}/tokens", json={"holder": "vendor"})
        assert (late.status_code, late.json()["code"]) == (409, "question_settled")


def test_somebody_outside_answers_one_question(serving, space, folder):
    """A token of the question is enough, and is by its holder; revoked, or wrong, it answers nothing."""
    server = serving(root=folder)
    server.service.turns._kit = None
    with server.client(space) as client:
        one = ask(server, client, space)
        path, wish = f"/v1/waiting/{one['id']}/tokens", {"holder": "vendor"}
        gone, good = (client.post(path, json=wish).json()["token"] for _ in range(2))
        assert client.post("/v1/answers/revoke", json={"token": gone}).status_code == 204
        client.headers.pop("authorization")
        for wrong in (gone, "none"):
            told = client.post("/v1/answers", json={"token": wrong, "decision": "allow"})
            assert (told.status_code, told.json()["detail"]) == (400, "this token answers no question")
        counts = client.post("/v1/answers", json={"token": good, "decision": "result", "result": 4}).json()
        assert (counts["by"], counts["via"], counts["result"]) == ("vendor", "token", 4)


def test_a_webhook_tells_what_sessions_wait_for(serving, space):
    """Its value is the result of the call; one that comes early is kept."""
    server = serving()
    server.service.turns._kit = None

    def pay() -> str:
        """Wait for the bank."""
        raise Suspend(event="paid-17")

    with server.client(space) as client:
        id = begin(client)
        assert client.post("/v1/signals/paid-17", json={"value": 3}).json() == {"sessions": []}
        with server.hf.space(space) as hf:
            agent = Agent(scripted([("pay", {})], [("pay", {})], "done"), tools=[pay], hf=hf)
            with hf.session(id) as session:
                assert run(agent, "go", session).status == "waiting"
            assert client.post("/v1/signals/paid-17", json={"value": 5}).json() == {"sessions": [id]}
            with hf.session(id) as session:
                assert run(agent, None, session).output == "done "
        assert [one["data"]["result"] for one in results(client, id)] == [3, 5]


def test_the_inbox_on_a_websocket(serving, space, talk, folder):
    """Who comes back is told the open questions, lists them, and answers one."""
    first = serving(root=folder)
    token = first.token(space)
    with first.client(token=token) as client:
        one = ask(first, client, space)
    server = serving("done", root=folder)
    with server.input(token, f"?session_id={one['session_id']}") as socket:
        talk.hear(socket)
        assert talk.hear(socket, "agent.tool_request_approval")["question"] == one["id"]
        talk.say(socket, {"type": "waiting"})
        assert [each["id"] for each in talk.hear(socket, "session.waiting")["waiting"]] == [one["id"]]
        talk.say(socket, {"type": "answer", "id": one["id"], "decision": "maybe"})
        assert talk.hear(socket, "error")["code"] == "invalid_data"
        talk.say(socket, {"type": "answer", "id": one["id"], "decision": "allow"})
        assert talk.hear(socket, "session.answered")["decision"] == "allow"
        assert talk.hear(socket, "agent.response")["output"] == "done "


def test_whoever_is_connected_hears_what_an_answer_elsewhere_brought(serving, space, talk, folder):
    """All connections of a session hear its turns, also one that another client's answer began."""
    server = serving("done", root=folder)
    token = server.token(space)
    with server.client(token=token) as client:
        one = ask(server, client, space)
        with server.input(token, f"?session_id={one['session_id']}") as socket:
            talk.hear(socket, "agent.tool_request_approval")
            client.put(f"/v1/waiting/{one['id']}", json={"decision": "allow"})
            told = talk.hear(socket, "agent.response")
    assert (told["output"], told["status"]) == ("done ", "completed")
