"""Storms of kill -9 over approvals: who asks and acts, and who answers, are processes that die at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import threading
import time

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

import pydantic_ai.direct  # noqa: F401 - so that no process of the storm has to load it
from campaign_log import FULL, record
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from test_step_storms import Outside, killed_after, spawned

import holdfast
from holdfast.agent import Agent, Tool
from holdfast.errors import UsageError
from holdfast.session import is_due

NAMES = {"files": "files", "sqlite": "SQLite", "postgres": "PostgreSQL"}
ROUNDS = {"files": 4000, "sqlite": 3000, "postgres": 3000} if FULL else {"files": 4}
TURNS = 8  # of one session, with two calls each, every other time of a delegate; then the storm takes another
LIFE_S = 0.15  # at most, of a process that was told to begin: long enough for several turns


def agent_for(outside, id):
    """An agent that acts twice in each turn, with permission, and then is done; its delegate does so in every other."""

    def act(what: str) -> str:
        """Act."""
        outside.note(outside.effects, f"{id}/{what}")
        time.sleep(0.01)  # the rest of its work, in which it may be killed
        return f"did {what}"

    def model(*, delegates):
        def answer(messages, _info):
            for part in messages[-1].parts:
                if isinstance(part, ToolReturnPart) and "unknown" in str(part.content):
                    outside.note(outside.told, f"{id}/{part.tool_call_id}")
            asked = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
            turn = str(asked[-1].content)
            if "UserPromptPart" not in [type(part).__name__ for part in messages[-1].parts] or turn[0] != "t":
                return ModelResponse(parts=[TextPart(f"done {turn}")])
            if delegates and int(turn[1:]) % 2:
                return ModelResponse(parts=[ToolCallPart("ask_scout", {"task": turn}, f"{turn}-scout")])
            return ModelResponse(parts=[ToolCallPart("act", {"what": f"{turn}-{n}"}, f"{turn}-{n}") for n in "ab"])

        return FunctionModel(answer)

    tools = [Tool(act, needs_permission=True)]
    scout = Agent(model(delegates=False), name="scout", tools=tools)
    return Agent(model(delegates=True), tools=tools, delegates=[scout], permission="suspend")


def act_on(address, id, outside, ready):
    """All turns of a session, waiting for whoever answers, as far as this process lives; tells when it begins."""

    async def turns(hf):
        agent = agent_for(outside, id)
        with hf.session(id, wait_ms=60_000) as session:
            os.write(ready, b".")
            while session.live_state.turns == 0 or not is_done(session):
                if session.live_state.asks and not is_due(session):
                    await asyncio.sleep(0.005)
                    continue
                # Killed before anything was said there is nothing to continue.
                if session.live_state.asks or (session.live_state.unfinished and session.messages()):
                    await agent.run(None, session=session)
                else:
                    await agent.run(f"t{said(session)}", session=session)

    with holdfast.open(address) as hf:
        asyncio.run(turns(hf))


def said(session):
    """How many turns were asked for by the user, not by the agent of its delegate."""
    asked = [event.data for event in session.events() if event.type == "user"]
    return len([data for data in asked if not data.get("synthetic") and "parent" not in data])


def is_done(session):
    """Whether the last turn has come to its end."""
    state = session.live_state
    return said(session) >= TURNS and not state.asks and not state.unfinished


def answer_all(address, id):
    """Allow what waits, again and again, as far as this process lives, and the one that began it."""
    parent = os.getppid()
    with holdfast.open(address) as hf:
        while os.getppid() == parent:
            if hf.exists(id):
                for one in hf.waiting(session=id):
                    # One that was carried out since it was listed is not there any more.
                    with contextlib.suppress(UsageError):
                        hf.answer(one.id, True, by="ada", session_id=id)
            time.sleep(0.005)


def warm_up(folder):
    """Load what the processes of the storm use: each is a fork of this one, and has no time to do it itself."""
    outside = Outside(folder)
    with holdfast.open(str(folder / "store")) as hf:
        agent = agent_for(outside, "warm")
        with hf.session("warm") as session:
            for turn in ("t0", "t1"):
                asyncio.run(agent.run(turn, session=session))
                for one in hf.waiting(session="warm"):
                    hf.answer(one.id, True, session_id="warm")
                asyncio.run(agent.run(None, session=session))
    assert threading.active_count() == 1, "a fork would lose a thread"
    gc.freeze()  # so that no collection of a fork copies all of this


def in_child(work, *arguments):
    """What a process of its own finds: a fork of one that has met a server may hang in what that left."""
    out, into = os.pipe()
    pid = spawned(lambda: os.write(into, json.dumps(work(*arguments)).encode()))
    os.close(into)
    with os.fdopen(out) as said:
        found = said.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROUNDS)
def test_storm_over_approvals(kind, tmp_path, request):
    """Killed at any moment: no approved call is made twice, and each is begun under its answer."""
    if kind == "postgres":
        pytest.importorskip("asyncpg")
        address = request.getfixturevalue("postgres_url")
    else:
        address = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else str(tmp_path / "store")
    (tmp_path / "warm").mkdir()
    warm_up(tmp_path / "warm")
    chance, kills, sessions, doubled, lost, unknown = random.Random(), 0, 0, 0, 0, 0
    while kills < ROUNDS[kind]:
        (tmp_path / f"s{sessions}").mkdir()
        id, outside = f"s{sessions}", Outside(tmp_path / f"s{sessions}")
        sessions += 1
        is_over = False
        while not is_over:
            answering = spawned(answer_all, address, id)
            begun, ready = os.pipe()
            acting = spawned(act_on, address, id, outside, ready)
            os.close(ready)
            os.read(begun, 1)  # killed before that it has done nothing
            os.close(begun)
            if kills < ROUNDS[kind]:
                is_over = not killed_after(acting, chance.uniform(0, LIFE_S))
                kills += not is_over
            else:
                is_over = os.waitpid(acting, 0)[1] == 0
                assert is_over
            kills += killed_after(answering, 0)
        done = outside.lines(outside.effects)
        doubled += len(done) - len(set(done))
        told = outside.lines(outside.told)
        found = in_child(read_end, address, id, *({name.partition("/")[2] for name in each} for each in (done, told)))
        lost += found[0]
        unknown += found[1]
    record(
        "approvals", kills, wrong=doubled + lost, note=f"{kills:,} on {NAMES[kind]} with {unknown:,} unknown, all told"
    )
    assert (doubled, lost) == (0, 0), f"{kills} kills, {unknown} unknown"
    assert unknown or not FULL, "no kill has met a call in the middle of its work"


def read_end(address, id, done, told):
    """How many calls of a session at rest were lost, and how many are unknown; what else must hold is asserted."""
    with holdfast.open(address) as hf, hf.session(id, wait_ms=60_000) as session:
        events = list(session.events())
    calls = {event.data["id"] for event in events if event.type == "tool_call" and event.data["tool"] == "act"}
    begun = {event.data["call"]: event.data.get("answer") for event in events if event.type == "step"}
    begun = {call: answer for call, answer in begun.items() if call in calls}
    answers = {event.data["id"]: event.data for event in events if event.type == "permission"}
    results = {event.data["toolCallId"] for event in events if event.type == "tool_result"} & calls
    questions = [event.data["id"] for event in events if event.type == "suspended"]
    assert len(questions) == len(set(questions)), "asked twice"
    for call, answer in begun.items():
        assert (answers[answer]["call"], answers[answer]["by"]) == (call, "ada"), "begun without its answer"
    assert results <= done <= set(begun), "a result without an effect, or an effect that nobody allowed"
    unknown = set(begun) - results
    # Of a delegate that was killed with its call the one that asked it is told.
    assert all(call in told or f"{call[:-2]}-scout" in told for call in unknown), "an unknown outcome is told to nobody"
    return len(calls - set(begun)), len(unknown)
