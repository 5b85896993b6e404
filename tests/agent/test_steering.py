"""A word to an agent while it works."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, Host, LateModel, tool
from holdfast.errors import UsageError


def said(session, type):
    return [event.data["content"] for event in session.events() if event.type == type]


@pytest.mark.parametrize("streams", [False, True])
def test_a_word_during_a_tool_reaches_the_model_before_its_next_step(hf, script, texts, streams):
    """What is said while a tool runs stands after its result in the next request."""
    agents = []

    def look() -> str:
        """Look."""
        agents[0].steer("in Rome, please")
        return "sunny"

    model = script([("look", {})], "Rome it is")
    agents.append(Agent(model.model, tools=[look]))
    with hf.session("s") as session:
        if streams:

            async def read():
                async with agents[0].run_stream("Weather?", session=session) as stream:
                    return [piece async for piece in stream]

            assert "".join(asyncio.run(read())).strip() == "Rome it is"
        else:
            assert agents[0].run_sync("Weather?", session=session).output == "Rome it is"
        assert texts(model.requests[1])[-2:] == ["sunny", "in Rome, please"]
        assert said(session, "steer") == ["in Rome, please"]
        assert session.messages("anthropic")[2]["content"][1] == {"type": "text", "text": "in Rome, please"}


def test_a_word_during_the_last_answer_is_answered_too(hf, script, texts):
    """The run does not end while something was not heard, and the word stands after the answer that it missed."""
    agents = []

    def first(_messages):
        agents[0].steer("and Rome?")
        return "Paris is sunny"

    model = script(first, "Rome too")
    agents.append(Agent(model.model))
    with hf.session("s") as session:
        assert agents[0].run_sync("Weather?", session=session).output == "Rome too"
    assert texts(model.requests[1]) == ["Weather?", "Paris is sunny", "and Rome?"]


def test_an_interrupt_cancels_the_tools_and_goes_on(hf, script, texts):
    """The tool is cancelled and told as such; the new word follows in the same run."""
    agents = []

    async def dig() -> str:
        """Dig."""
        threading.Thread(target=agents[0].steer, args=("stop digging",), kwargs={"interrupt": True}).start()
        await asyncio.sleep(60)
        return "never"

    model = script([("dig", {})], "stopped")
    agents.append(Agent(model.model, tools=[dig]))
    with hf.session("s") as session:
        result = agents[0].run_sync("Dig", session=session)
        [failed] = [event.data for event in session.events() if event.type == "tool_result"]
        turns = [event.data["reason"] for event in session.events() if event.type == "turn_end"]
    assert result.output == "stopped"
    assert failed["is_error"]
    assert failed["result"]["cancelled"]
    assert "whether it took effect is unknown" in failed["result"]["message"]
    assert texts(model.requests[1])[-1] == "stop digging"
    assert turns == ["completed"]


def test_an_interrupted_answer_stays_as_far_as_it_came(hf):
    """Words that were streamed are kept, and the next answer follows the new word."""
    requests = []

    async def stream(messages, _info):
        requests.append(messages)
        if len(requests) == 1:
            yield "Once upon "
            await asyncio.sleep(60)
        yield "Short."

    async def tell():
        agent = Agent(FunctionModel(stream_function=stream))
        with hf.session("s") as session:
            async with agent.run_stream("A tale", session=session) as answer:
                pieces = []
                async for piece in answer:
                    pieces.append(piece)
                    if len(pieces) == 1:
                        answer.steer("shorter", interrupt=True)
            return pieces, answer.result, session.messages("neutral")

    pieces, result, messages = asyncio.run(tell())
    assert pieces == ["Once upon ", "Short."]
    assert result.output == "Short."
    assert [message["content"] for message in messages] == ["A tale", "Once upon ", "shorter", "Short."]


def test_a_delegate_is_part_of_the_step_that_is_interrupted(hf, script):
    """An interrupt stops what another agent was asked for; the first agent hears the word."""
    agents = []

    async def dig() -> str:
        """Dig."""
        agents[0].steer("never mind", interrupt=True)
        await asyncio.sleep(60)
        return "never"

    child = Agent(script([("dig", {})], "no").model, name="digger", tools=[dig])
    agents.append(Agent(script([("ask_digger", {"task": "dig"})], "fine").model, delegates=[child]))
    with hf.session("s") as session:
        assert agents[0].run_sync("Dig", session=session).output == "fine"
        assert session.messages("neutral")[-2]["content"][-1]["text"] == "never mind"


def test_without_a_run_there_is_nobody_to_hear(script):
    """A word before or after a run is refused, with what to do instead."""
    agent = Agent(script("hello").model)
    with pytest.raises(UsageError, match="no run is under way"):
        agent.steer("hi")
    stream = agent.run_stream("hi")
    asyncio.run(_read(stream))
    for speak in (agent.steer, stream.steer):
        with pytest.raises(UsageError, match="no run is under way"):
            speak("hi")


async def _read(stream):
    return [piece async for piece in stream]


def test_a_word_is_a_text(script):
    """Nothing is recorded of what is no text."""
    stream = Agent(script("hello").model).run_stream("hi")
    for wrong in ("  ", "", None, 1):
        with pytest.raises(UsageError, match="not empty"):
            stream.steer(wrong)


def test_a_word_before_the_run_begins_is_heard_by_it(hf, script, texts):
    """A stream that has not begun takes words, and records them with its beginning."""
    model = script("hello")
    with hf.session("s") as session:
        stream = Agent(model.model).run_stream("hi", session=session)
        stream.steer("and be brief")
        asyncio.run(_read(stream))
    assert texts(model.requests[0]) == ["['hi', 'and be brief']"]


def test_of_several_runs_one_is_named_by_its_session(hf, script):
    """With two runs under way the session says which one is meant."""
    agents = []
    found = []

    async def look() -> str:
        """Look."""
        await barrier.wait()
        try:
            agents[0].steer("which?")
        except UsageError as error:
            found.append(str(error))
        agents[0].steer("you", session="b")
        await barrier.wait()
        return "seen"

    async def both():
        nonlocal barrier
        barrier = asyncio.Barrier(2)
        with hf.session("a") as a, hf.session("b") as b:
            await asyncio.gather(agents[0].run("x", session=a), agents[0].run("y", session=b))
            return said(a, "steer"), said(b, "steer")

    barrier = None
    seen = script("ok")

    def answer(messages, info):
        return seen._answer(messages, info) if len(messages) > 2 else script([("look", {})])._answer(messages, info)

    model = FunctionModel(answer)
    agents.append(Agent(model, tools=[look]))
    assert asyncio.run(both()) == ([], ["you", "you"])
    assert found == ["several runs are under way"] * 2


def test_a_hosted_turn_is_steered(hf, script):
    """Host and turn pass a word on; without a turn the host says that there was none."""

    async def serve():
        host = Host()
        assert not await host.steer("s", "hi")
        gate = asyncio.Event()

        @tool
        async def look() -> str:
            """Look."""
            gate.set()
            await asyncio.sleep(60)
            return "never"

        agent = Agent(script([("look", {})], "heard").model, tools=[look])
        with hf.session("s") as session:

            async def work(turn):
                return await turn.stream(agent.run_stream("hi", session=session), session)

            turn = host.begin("s", work)
            await turn.steer("early")  # heard by the agent that is still being made
            assert said(session, "steer") == ["early"]
            await gate.wait()
            assert await host.steer("s", "enough", interrupt=True)
            result = await turn.finish()
            with pytest.raises(UsageError, match="no agent is at work"):
                await turn.steer("too late")
        await host.aclose()
        return result

    assert asyncio.run(serve()).output.strip() == "heard"


@pytest.mark.parametrize("streams", [False, True])
def test_a_word_before_the_agent_works_is_refused_if_it_never_does(hf, script, streams):
    """Who said it is told, whether the turn failed before it had an agent or before the run began."""

    async def serve():
        host = Host()
        gate = asyncio.Event()

        def broken():
            raise UsageError("no such model")

        async def work(turn):
            await gate.wait()
            if not streams:
                raise UsageError("no such model")
            with hf.session("s") as session:
                return await turn.stream(Agent(LateModel("late", broken)).run_stream("hi", session=session), session)

        turn = host.begin("s", work)
        word = asyncio.ensure_future(turn.steer("early"))
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(UsageError, match="could hear this"):
            await word
        await turn.wait()
        assert turn.ended == "failed"
        await host.aclose()

    asyncio.run(serve())


def test_a_stream_that_fails_before_it_began_tells_what_was_said_to_it(script):
    """Whoever keeps the stream can say it again."""
    stream = Agent(script("never").model).run_stream("")
    stream.steer("early")
    with pytest.raises(UsageError, match="empty"):
        asyncio.run(_read(stream))
    assert stream.unsaid == ["early"]
    with pytest.raises(UsageError, match="no run"):
        stream.steer("late")


_KILLED = """
import sys, threading, os, signal
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
import holdfast
from holdfast import Agent

def look() -> str:
    "Look."
    agent.steer("in Rome, please")
    os.kill(os.getpid(), signal.SIGKILL)

agent = Agent(FunctionModel(lambda m, i: ModelResponse([ToolCallPart("look", {})])), tools=[look])
with holdfast.open(sys.argv[1]).session("s") as session:
    agent.run_sync("Weather?", session=session)
"""


def test_a_word_survives_the_death_of_the_process_before_it_was_heard(store_root, script, texts):
    """After kill -9 the word is on record, and the next run hears it before anything else."""
    done = subprocess.run([sys.executable, "-c", _KILLED, str(store_root)], check=False)
    assert done.returncode == -signal.SIGKILL
    model = script("Rome it is")
    with holdfast.open(store_root) as library, library.session("s") as session:
        assert said(session, "steer") == ["in Rome, please"]
        Agent(model.model).run_sync("And tomorrow?", session=session)
        assert said(session, "user") == ["Weather?", "in Rome, please", "And tomorrow?"]
        assert not session.live_state.unheard
    assert "in Rome, please" in texts(model.requests[0])[-1]


def test_a_word_that_no_run_heard_can_be_taken_back(hf):
    """A retracted word is not told to the model any more."""
    with hf.session("s") as session:
        word = session.append("steer", {"content": "no"})
        session.user("hello", steer=17)
        assert session.live_state.unheard == [word.seq]
        session.append("retracted", {"seqs": [word.seq]})
        assert session.live_state.unheard == []
