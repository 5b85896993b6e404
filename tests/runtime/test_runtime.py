"""The runtime: sessions by id, words to the agent, observers, idle sessions put away."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from holdfast import Agent, Runtime
from holdfast.errors import UsageError
from holdfast.library import Holdfast
from holdfast.model import Event, Notice


def spoken(messages):
    """What users said, in the order in which the model was given it."""
    return [str(part.content) for message in messages for part in message.parts if part.part_kind == "user-prompt"]


def echo(messages, _info):
    return ModelResponse(parts=[TextPart(" | ".join(spoken(messages)))])


@pytest.fixture
def runtime(hf):
    with Runtime(Agent(FunctionModel(echo), agent_id="echo"), hf) as made:
        yield made


@pytest.mark.req("S1-13")
@pytest.mark.req("S1-14")
def test_one_id_is_one_object(runtime):
    """The same id gives the same session; the map shows what is in memory."""
    first = runtime.session("a")
    assert runtime.session("a") is first
    assert runtime._get_or_create_session("a") is first
    assert runtime.sessions == {"a": first}


@pytest.mark.req("S1-15")
async def test_sessions_do_not_mix(runtime):
    """What is said in one session is unknown in another, also at the same time."""
    one, two = runtime.session("one"), runtime.session("two")
    await asyncio.gather(
        runtime.process_user_input("I am Alice", "cli", one), runtime.process_user_input("I am Bob", "cli", two)
    )
    answers = await asyncio.gather(
        runtime.process_user_input("who?", "cli", one), runtime.process_user_input("who?", "cli", two)
    )
    assert answers == ["I am Alice | who?", "I am Bob | who?"]


@pytest.mark.req("S1-18")
@pytest.mark.req("S1-19")
async def test_words_are_on_record_before_anything_is_done(hf):
    """When the model is asked, the user's turn and its source are in the log already."""
    seen = []

    def look(messages, info):
        seen.extend(event for event in hf.events("s"))
        return echo(messages, info)

    with Runtime(Agent(FunctionModel(look)), hf) as runtime:
        await runtime.process_user_input("hello", "slack", runtime.session("s"))
    assert [e.data["content"] for e in seen if e.type == "user"] == ["hello"]
    assert [e.data["source"] for e in seen if e.type == "input"] == ["slack"]


@pytest.mark.req("S1-18")
async def test_a_function_can_be_the_agent(hf):
    """A plain or async function answers; both turns are recorded by the runtime."""

    def answer(text, source, session):
        assert [turn["content"] for turn in session.history][-1] == text
        return f"{source}: {text}"

    async def answer_later(text, source, session):
        return answer(text, source, session)

    for number, function in enumerate([answer, answer_later]):
        with Runtime(function, hf) as runtime:
            assert await runtime.process_user_input("hi", "cli", f"f{number}") == "cli: hi"
            history = runtime.session(f"f{number}").history
        assert [turn["role"] for turn in history] == ["user", "assistant"]


def test_what_is_no_agent(hf):
    """Something that cannot answer is refused at once."""
    with pytest.raises(UsageError, match="neither an agent nor a function"):
        Runtime(42, hf)
    with pytest.raises(UsageError, match="idle_ms"):
        Runtime(print, hf, idle_ms=-1)


@pytest.mark.req("S1-16")
@pytest.mark.req("S1-17")
@pytest.mark.req("S1-46")
@pytest.mark.parametrize("word", ["exit", ";", " exit "])
async def test_the_loop_answers_until_an_exit_word(runtime, hf, word):
    """Lines are answered on one session, empty ones passed over, until an exit word comes."""
    lines = iter(["My name is Alice", "", "What is my name?", word, "never read"])
    said = []
    assert await runtime.input_loop(lambda: next(lines), said.append) == 2
    assert said == ["My name is Alice", "My name is Alice | What is my name?"]
    assert [row.session_id for row in hf.list()] == ["cli_session"]
    assert next(lines) == "never read"


async def test_the_loop_reads_standard_input(runtime, monkeypatch, capsys):
    """By default lines come from standard input and answers go to standard output."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    assert await runtime.input_loop(session_id="mine") == 2
    assert capsys.readouterr().out == "one\none | two\n"


async def test_an_async_source_of_lines_and_a_failure(hf):
    """A failure is written and the next line is answered."""
    failures = iter([True, False])

    def answer(text, source, session):
        if next(failures):
            raise UsageError("no")
        return "yes"

    lines = iter(["a", "b"])

    async def read():
        for line in lines:
            return line
        raise EOFError

    said = []
    with Runtime(answer, hf) as runtime:
        assert await runtime.input_loop(read, said.append) == 2
    assert said[0].startswith("error: no")
    assert said[1] == "yes"


@pytest.mark.req("S1-20")
@pytest.mark.req("S1-5")
async def test_observers_hear_what_fits_their_pattern(runtime, hf):
    """A wildcard on the types of events and notices, of one session or all, through one bus."""
    turns, everything, other = [], [], []
    stop = runtime.subscribe("turn_*", lambda where, what: turns.append((where, what.type)))
    runtime.subscribe("*", lambda where, what: everything.append(what))
    runtime.subscribe("user", lambda where, what: other.append(what), session_id="other")
    assert len(hf._core.hub.listeners) == 3
    await runtime.process_user_input("hi", "cli", "s")
    assert turns == [("s", "turn_start"), ("s", "turn_end")]
    assert {"user", "assistant"} <= {what.type for what in everything if isinstance(what, Event)}
    stop()
    await runtime.process_user_input("again", "cli", "other")
    assert len(turns) == 2
    assert [event.data["content"] for event in other] == ["again"]
    runtime.close()
    with hf.session("s"):
        pass
    assert not any(isinstance(what, Notice) for what in turns)
    assert hf._core.hub.listeners == ()


@pytest.mark.req("S1-34", "S2-87")
async def test_idle_sessions_are_put_away_and_nothing_is_lost(hf):
    """After half an hour a session is closed; the next words open it again, with its past."""
    now = [1_000_000]
    with Runtime(Agent(FunctionModel(echo)), hf, clock=lambda: now[0]) as runtime:
        old = runtime.session("a")
        await runtime.process_user_input("one", "cli", old)
        now[0] += 29 * 60 * 1000
        runtime.session("b")
        assert runtime.put_away_idle() == []
        now[0] += 60 * 1000
        assert runtime.put_away_idle() == ["a"]
        assert old.closed
        assert list(runtime.sessions) == ["b"]
        assert await runtime.process_user_input("two", "cli", old) == "one | two"
        assert runtime.session("a") is not old


async def test_a_session_in_use_is_not_put_away(hf):
    """However long an answer takes, its session stays."""
    now = [0]
    put_away = []

    def slow(text, source, session):
        now[0] += 10**9
        put_away.extend(runtime.put_away_idle())
        return "done"

    with Runtime(slow, hf, clock=lambda: now[0]) as runtime:
        assert await runtime.process_user_input("hi", "cli", "s") == "done"
        assert put_away == []
        assert runtime.put_away_idle() == []


async def test_idle_sessions_go_by_themselves(hf):
    """The timer does it without anyone asking."""
    with Runtime(print, hf, idle_ms=2_000) as runtime:  # a busy machine may pause
        session = runtime.session("a")
        session.user("hi")
        for _ in range(6000):
            if session.closed:
                break
            await asyncio.sleep(0.02)
        assert session.closed
        assert runtime.sessions == {}


async def test_closing_gives_everything_back(store_root):
    """After close the sessions are closed, another process may write them, and use is refused."""
    hf = Holdfast(store_root, timers=False)
    async with Runtime(print, hf) as runtime:
        session = runtime.session("a")
        session.user("hi")
    runtime.close()
    assert session.closed
    with pytest.raises(UsageError, match="closed"):
        runtime.session("a")
    hf.session("a").close()
    hf.close()


async def test_without_a_library_it_opens_its_own(store_root, monkeypatch):
    """The configured store is used, and closed with the runtime."""
    monkeypatch.setenv("HOLDFAST_STORE", str(store_root))
    with Runtime(lambda text, source, session: "yes") as runtime:
        await runtime.process_user_input("hi")
    with Holdfast(store_root) as hf:
        assert [row.session_id for row in hf.list()] == ["cli_session"]
