"""Queries on the bridge: streamed, approved, cancelled, refused; never left without an answer."""

from __future__ import annotations

import asyncio
import sys

import pytest

from holdfast.agent import Kit, resolve_model
from holdfast.errors import UsageError

TOOLS = ["tool_result"]
LOOKING = [("list_directory", {"path": "."})]


def streamed(told):
    """The words that were streamed."""
    return "".join(each["content"] for each in told if each["type"] == "stream_token")


@pytest.mark.req("S2-42")
def test_the_first_words(ask):
    """The bridge says which protocol, version and model there is."""
    answer = ask({"type": "initialize", "demo_mode": False})
    assert answer["type"] == "initialized"
    assert (answer["protocol_version"], answer["demo_mode"]) == (1, False)
    assert answer["model"] == "a script"


@pytest.mark.req("S2-50")
def test_each_query_is_recorded_with_an_estimate_of_its_tokens(hf, talk, kit_of):
    """A session is made, the user's message and the answer are saved, both with their tokens."""
    for word in ("hello", "and again"):
        *_, last = talk({"type": "query", "query": word}, kit=kit_of("I am here"))
        asked, answer = hf.events(last["session_id"], types={"user", "assistant"})
        assert (asked.data["content"], answer.data["content"]) == (word, "I am here ")
        assert asked.data["token_count_estimated"] is True
        assert asked.data["token_count"] > 0
        assert answer.data["token_count"] > 0
        assert hf.info(last["session_id"]).total_tokens > 0


def test_a_query_that_a_limit_stopped_says_so(talk, kit_of):
    """By the name of the limit, beside an answer that has no words."""
    *_, last = talk({"type": "query", "query": "hello"}, kit=kit_of([("recall", {})], limits={"tokens": 1}))
    assert (last["type"], last["response"], last["limit"]) == ("query_result", "", "tokens")


@pytest.mark.req("S2-10", "S2-42", "S2-51")
def test_a_query_is_streamed_and_answered(hf, talk, kit_of):
    """The words come one by one, then whole; the session began with them, and is on record."""
    assert hf.list() == []
    *told, last = talk({"type": "query", "query": "hello"}, kit=kit_of("I am here"))
    assert streamed(told) == "I am here "
    assert last == {"type": "query_result", "response": "I am here ", "session_id": last["session_id"]}
    said = [message["content"] for message in hf.recover(last["session_id"]).messages]
    assert "hello" in str(said[0])
    assert "I am here" in str(said[1])


@pytest.mark.req("S2-42")
def test_a_query_by_json_rpc(talk, kit_of):
    """The result is the response; the words come as notifications."""
    *told, last = talk(
        {"jsonrpc": "2.0", "id": 5, "method": "agent.query", "params": {"query": "hello"}}, kit=kit_of("I am here")
    )
    assert {each["method"] for each in told} == {"stream.token"}
    assert "".join(each["params"]["content"] for each in told) == "I am here "
    assert last["id"] == 5
    assert last["result"]["response"] == "I am here "


def test_the_agent_knows_the_session_that_was_loaded(hf, talk):
    """An earlier system restored a session for display only."""
    with hf.session("trip") as session:
        session.user("my cat is called Minka")
        session.assistant("noted")
    seen = []

    def make():
        from pydantic_ai.models.function import FunctionModel

        async def stream(messages, info):
            seen.append(str(messages))
            yield "Minka"

        return FunctionModel(stream_function=stream)

    _, *_, last = talk(
        {"type": "session_load", "session_id": "trip"},
        {"type": "query", "query": "what is she called?"},
        kit=Kit(make_model=make),
    )
    assert last["session_id"] == "trip"
    assert "my cat is called Minka" in seen[0]


def test_demo_mode_needs_no_model(hf, talk):
    """What a front end sees and what is recorded are the same as with one."""

    def make():
        raise AssertionError("no model is asked")

    _, *told, last = talk(
        {"type": "initialize", "demo_mode": True}, {"type": "query", "query": "hello  there"}, kit=Kit(make_model=make)
    )
    assert streamed(told) == last["response"]
    assert "hello  there" in last["response"]
    assert hf.info(last["session_id"]).message_count == 2
    assert hf.state(last["session_id"]).status == "idle"


@pytest.mark.req("S2-42")
@pytest.mark.parametrize("approved", [True, False])
async def test_a_tool_is_approved_or_not(hf, connect, approved):
    """The tool waits for the answer, which is recorded with what came of it."""
    client = await connect(LOOKING, "done")
    await client.say(type="query", query="remember that", id="q1")
    asked = await client.hear("tool_request_approval")
    assert (asked["tool_name"], asked["params"]) == ("list_directory", {"path": "."})
    assert asked["id"] == "q1"
    await client.say(type="tool_approve", tool_id=asked["tool_id"], approved=approved)
    told = await client.hear("tool_approved")
    assert told == {"type": "tool_approved", "tool_id": asked["tool_id"], "success": True}
    result = await client.hear("query_result")
    assert result["response"] == "done "
    [outcome] = hf.events(result["session_id"], types=["tool_result"])
    assert outcome.data.get("is_error", False) is not approved


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_an_approval_may_count_for_longer(hf, connect, scope):
    """The tool is asked for once; the next call of it runs, and the answer comes."""
    client = await connect(LOOKING, LOOKING, "done")
    await client.say(type="query", query="look twice")
    asked = await client.hear("tool_request_approval")
    await client.say(type="tool_approve", tool_id=asked["tool_id"], approved=True, scope=scope)
    last = await client.hear("tool_request_approval", "query_result")
    assert last["type"] == "query_result"
    results = hf.events(last["session_id"], types=["tool_result"])
    assert [event.data.get("is_error", False) for event in results] == [False, False]


@pytest.mark.req("S2-42")
def test_approving_what_does_not_wait(ask):
    """The answer is no, with the reason."""
    answer = ask({"type": "tool_approve", "tool_id": "nothing", "approved": True})
    assert (answer["type"], answer["success"]) == ("tool_approved", False)
    assert answer["error"]["code"] == "not_found"


def test_nobody_is_left_to_approve(hf, talk, kit_of):
    """When a client has closed its side, the query ends with the question, which waits in the inbox."""
    *_, last = talk({"type": "query", "query": "x"}, kit=kit_of(LOOKING, "done"))
    assert last["type"] == "query_result"
    assert [one["tool"] for one in last["waiting"]] == ["list_directory"]
    [one] = hf.waiting(session=last["session_id"])
    hf.answer(one.id, True)
    load = {"type": "session_load", "session_id": last["session_id"]}
    *_, last = talk(load, {"type": "resume"}, kit=kit_of("done"))
    assert last["response"] == "done "
    assert hf.waiting() == []


async def test_a_tool_that_waits_when_nobody_is_left(hf, connect):
    """It is left to the inbox then, and the query ends."""
    client = await connect(LOOKING, "done")
    await client.say(type="query", query="look")
    asked = await client.hear("tool_request_approval")
    client.writer.write_eof()
    [one] = (await client.hear("query_result"))["waiting"]
    assert [one["id"]] == [asked["question"]] == [one.id for one in hf.waiting()]


async def test_a_question_is_answered_elsewhere(hf, connect):
    """It is in the inbox before the client hears of it; with an answer from there the client's dialog closes."""
    client = await connect(LOOKING, "done")
    await client.say(type="query", query="look", id="q1")
    asked = await client.hear("tool_request_approval")
    [one] = hf.waiting()
    assert (one.id, one.args) == (asked["question"], {"path": "."})
    hf.answer(one.id, False, by="ada", because="not there")
    settled = await client.hear("tool_request_settled")
    assert (settled["tool_id"], settled["id"]) == (asked["tool_id"], "q1")
    result = await client.hear("query_result")
    assert (result["response"], "waiting" in result) == ("done ", False)
    late = await client.ask(type="tool_approve", tool_id=asked["tool_id"], approved=True)
    assert late["success"] is False
    assert "not there" in str(hf.recover(result["session_id"]).messages)


async def test_a_word_while_a_call_waits(hf, connect):
    """It is recorded, and heard when the query goes on; there is no step that it could stop."""
    client = await connect(LOOKING, "calm")
    await client.say(type="query", query="look")
    asked = await client.hear("tool_request_approval")
    assert (await client.ask(type="steer", text="quickly"))["success"] is True
    assert (await client.ask(type="steer", text="stop", interrupt=True))["code"] == "usage"
    await client.say(type="tool_approve", tool_id=asked["tool_id"], approved=True)
    id = (await client.hear("query_result"))["session_id"]
    assert [event.data["content"] for event in hf.events(id, types=["user"])] == ["look", "quickly"]


async def test_a_query_is_cancelled(hf, connect):
    """It is answered as cancelled, what was said is kept, and the next one is answered."""
    client = await connect(asyncio.Event(), "again")
    await client.say(type="query", query="first", id=1)
    token = await client.hear("stream_token")
    await client.say(type="cancel", id=2)
    answers = [await client.hear("cancelled", "error") for _ in range(2)]
    assert {answer["id"]: answer["type"] for answer in answers} == {1: "error", 2: "cancelled"}
    assert next(each for each in answers if each["id"] == 1)["code"] == "cancelled"
    await client.say(type="query", query="second")
    assert (await client.hear("query_result"))["session_id"] == token["session_id"]
    assert "so far" in str(hf.recover(token["session_id"]).messages)


async def test_a_word_while_it_answers(hf, connect):
    """It is recorded, the step is stopped for it, and the query is answered with what came of it."""
    client = await connect(asyncio.Event(), "calm")
    assert (await client.ask(type="steer", text="hello?"))["success"] is False
    await client.say(type="query", query="first", id=1)
    token = await client.hear("stream_token")
    await client.say(type="steer", text="stop that", interrupt=True, id=2)
    answers = [await client.hear("steered", "query_result", "error") for _ in range(2)]
    assert {answer["id"]: answer["type"] for answer in answers} == {1: "query_result", 2: "steered"}
    [word] = hf.events(token["session_id"], types=["steer"])
    assert word.data["content"] == "stop that"
    assert "calm" in str(hf.recover(token["session_id"]).messages)


def test_cancelling_nothing(ask):
    """The answer is no."""
    answer = ask({"type": "cancel"})
    assert (answer["type"], answer["success"]) == ("cancelled", False)


async def test_one_query_at_a_time(hf, connect):
    """Meanwhile another one, and another session, are refused; reading is not."""
    with hf.session("trip") as session:
        session.user("x")
    gate = asyncio.Event()
    client = await connect(gate)
    await client.say(type="query", query="first")
    token = await client.hear("stream_token")
    for message in (
        {"type": "query", "query": "second"},
        {"type": "session_load", "session_id": "trip"},
        {"type": "session_create"},
    ):
        assert (await client.ask(**message))["code"] == "busy"
    mine = await client.ask(type="session_delete", session_id=token["session_id"])
    assert (mine["code"], mine["request"]) == ("busy", "session_delete")
    assert len((await client.ask(type="session_list"))["sessions"]) == 2
    assert "first" in (await client.ask(type="session_export", format="text"))["content"]
    gate.set()
    assert (await client.hear("query_result"))["response"] == "so far all "


async def test_a_client_that_goes_away_stops_its_query(hf, connect):
    """The session is given back, with what was said."""
    client = await connect(asyncio.Event())
    await client.say(type="query", query="first")
    token = await client.hear("stream_token")
    client.served.cancel()
    await asyncio.wait([client.served])
    with hf.session(token["session_id"], resume="always") as session:
        assert session.live_state.status != "running"
        assert "so far" in str(session.messages())


async def test_connections_have_sessions_of_their_own(hf, connect):
    """An earlier system gave all clients one current session."""
    one, other = await connect("1"), await connect("2")
    ids = {(await each.ask(type="session_create"))["session_id"] for each in (one, other)}
    for each in (one, other):
        await each.say(type="query", query="x")
        ids.add((await each.hear("query_result"))["session_id"])
    assert len(ids) == 2


async def test_two_connections_on_one_session_take_turns(hf, connect):
    """Both are answered, and everything is in the log."""
    with hf.session("trip") as session:
        session.user("x")
        session.assistant("y")
    clients = [await connect("1"), await connect("2")]
    for number, client in enumerate(clients):
        await client.ask(type="session_load", session_id="trip")
        await client.say(type="query", query=f"question {number}")
    for client in clients:
        assert (await client.hear("query_result"))["session_id"] == "trip"
    assert hf.info("trip").message_count == 6


@pytest.mark.parametrize(
    ("kit", "code"),
    [
        (lambda kit_of: kit_of(RuntimeError("out of order")), "model_failed"),
        (lambda _: Kit(make_model=_raising(UsageError("no such model"))), "usage"),
        (lambda _: Kit(make_model=_raising(ZeroDivisionError("oops"))), "internal"),
    ],
)
def test_a_query_that_fails_is_answered(talk, kit_of, kit, code):
    """Whatever goes wrong, the client is told, and can go on."""
    *told, listed = talk({"type": "query", "query": "hello"}, {"type": "session_list"}, kit=kit(kit_of))
    answers = {each["type"]: each for each in (*told, listed)}
    assert answers["error"]["code"] == code
    assert "session_list_result" in answers


def test_an_engine_that_is_not_installed_is_named(talk, monkeypatch):
    """The query is answered with the package that is missing and the command that installs it."""
    monkeypatch.delitem(sys.modules, "holdfast.agent._providers", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    told = talk({"type": "query", "query": "hello"}, kit=Kit(make_model=lambda: resolve_model("openai:gpt-5")))
    error = next(each for each in told if each["type"] == "error")
    assert error["code"] == "usage"
    assert "needs the package pydantic_ai" in error["message"]
    assert "holdfast[agent]" in error["remedy"]


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_query_is_refused(ask, hf, text):
    """And begins no session."""
    assert ask({"type": "query", "query": text})["code"] == "usage"
    assert hf.list() == []


def _raising(error):
    def make():
        raise error

    return make
