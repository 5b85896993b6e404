"""Streamed answers: words as they come, on record as they come."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.models.function import DeltaThinkingPart, FunctionModel

from holdfast.agent import Agent, _loop
from holdfast.agent._run_log import RunLog
from holdfast.errors import ModelFailed, StoreFull, UsageError
from holdfast.replay import validate


def streaming(stream):
    """A model that streams what the function yields."""
    return FunctionModel(stream_function=stream, model_name="stream")


@pytest.fixture
def patient(monkeypatch):
    """Pieces are put together for as long as it takes, also on a busy machine."""
    monkeypatch.setattr(_loop, "HOLD_S", 60)


async def test_words_come_one_by_one_and_the_result_at_the_end(hf, script):
    """The pieces add up to the answer, and the result is there when they have ended."""
    agent = Agent(script("one two three").model)
    with hf.session("s") as session:
        async with agent.run_stream("go", session=session) as stream:
            with pytest.raises(UsageError):
                _ = stream.result
            pieces = [piece async for piece in stream]
        assert pieces == ["one ", "two ", "three "]
        assert stream.result.output == "one two three "
        assert session.messages()[-1] == {"role": "assistant", "content": "one two three "}


@pytest.mark.req("S2-86")
async def test_pieces_are_put_together_and_the_final_event_covers_them(hf, script, patient):
    """Quick pieces share an event; the final one names the first it covers."""
    agent = Agent(script("one two three").model)
    with hf.session("s") as session:
        async for _ in agent.run_stream("go", session=session):
            pass
        events = list(session.events())
    deltas = [event for event in events if event.type == "delta"]
    [final] = [event for event in events if event.type == "assistant"]
    assert [event.data["content"] for event in deltas] == ["one two three "]
    assert final.data["covers_from"] == deltas[0].seq


async def test_a_word_is_on_record_within_the_hold(hf):
    """A word is recorded after 50 ms, before the next piece comes."""
    seen = []

    async def slow(messages, info):
        yield "first"
        for _ in range(600):  # a loaded machine takes its time
            await asyncio.sleep(0.05)
            seen[:] = [e.data["content"] for e in session.events() if e.type == "delta"]
            if seen:
                break
        yield " second"

    with hf.session("s") as session:
        async for _ in Agent(streaming(slow)).run_stream("go", session=session):
            pass
    assert seen == ["first"]
    assert _loop.HOLD_S == 0.05


@pytest.mark.req("S3-44")
async def test_nobody_sees_a_word_before_it_is_on_record(hf):
    """Whenever the process dies, the words that a user had seen are in the log."""

    async def words(messages, info):
        for number in range(60):
            yield f"w{number} "
            await asyncio.sleep(0.003)

    shown = ""
    with hf.session("s") as session:
        async for piece in Agent(streaming(words)).run_stream("go", session=session):
            shown += piece
            kept = "".join(e.data["content"] for e in session.events() if e.type == "delta")
            assert kept.startswith(shown)
    assert shown.split() == [f"w{number}" for number in range(60)]


async def test_words_that_the_store_refuses_are_not_lost_in_a_timer(hf, monkeypatch):
    """If the store takes nothing for a while, the words are held and recorded once it does."""
    refusals = iter([StoreFull("no space"), StoreFull("no space")])
    record = RunLog.delta

    def delta(talk, *args, **data):
        refusal = next(refusals, None)
        if refusal is not None:
            raise refusal
        return record(talk, *args, **data)

    async def slow(messages, info):
        yield "first "
        await asyncio.sleep(0.12)
        yield "second "
        await asyncio.sleep(0.12)

    monkeypatch.setattr(_loop, "HOLD_S", 0.01)
    monkeypatch.setattr(RunLog, "delta", delta)
    with hf.session("s") as session:
        stream = Agent(streaming(slow)).run_stream("go", session=session)
        pieces = [piece async for piece in stream]
        kept = [e.data["content"] for e in session.events() if e.type == "delta"]
    assert pieces == ["first ", "second "]
    assert kept == ["first second "]


async def test_a_kibibyte_is_recorded_at_once(hf, patient):
    """A long piece does not wait for the clock."""

    async def much(messages, info):
        for _ in range(4):
            yield "x" * 600

    with hf.session("s") as session:
        async for _ in Agent(streaming(much)).run_stream("go", session=session):
            pass
        sizes = [len(e.data["content"]) for e in session.events() if e.type == "delta"]
    assert sizes == [1200, 1200]


async def test_thoughts_are_streamed_to_the_log_and_not_to_the_reader(hf, patient):
    """Thinking is recorded as its own kind; the reader gets the answer only."""

    async def thoughtful(messages, info):
        yield {0: DeltaThinkingPart(content="let me ")}
        yield {0: DeltaThinkingPart(content="think")}
        yield "answer"

    with hf.session("s") as session:
        stream = Agent(streaming(thoughtful)).run_stream("go", session=session)
        pieces = [piece async for piece in stream]
        events = list(session.events())
        assert session.live_state.streaming == {}
    assert pieces == ["answer"]
    kinds = [(e.data.get("kind", "text"), e.data["content"]) for e in events if e.type == "delta"]
    assert kinds == [("thinking", "let me think"), ("text", "answer")]
    [thought] = [e.data for e in events if e.type == "thinking"]
    assert thought["content"] == "let me think"


async def test_leaving_the_block_stops_the_answer_and_keeps_what_was_said(hf):
    """A stream that is left early ends the turn as cancelled; the words seen stay."""

    async def endless(messages, info):
        while True:
            yield "word "
            await asyncio.sleep(0.01)

    with hf.session("s") as session:
        async with Agent(streaming(endless)).run_stream("go", session=session) as stream:
            async for _ in stream:
                break
        events = list(session.events())
        assert session.messages()[-1]["role"] == "assistant"
        assert "word" in session.messages()[-1]["content"]
    assert events[-1].data["reason"] == "cancelled"


async def test_a_stream_that_breaks_keeps_what_was_said(hf, script):
    """If the provider fails in the middle, the words are kept and the session goes on."""

    async def breaking(messages, info):
        yield "half an "
        raise ConnectionError("line cut")

    with hf.session("s") as session:
        stream = Agent(streaming(breaking)).run_stream("go", session=session)
        with pytest.raises(ModelFailed, match="line cut"):
            async for _ in stream:
                pass
        with pytest.raises(ModelFailed):
            _ = stream.result
        assert session.messages()[-1]["content"] == "half an "
        assert (await Agent(script("whole").model).run("on", session=session)).output == "whole"
        assert validate(session.messages("anthropic"), "anthropic").valid


async def test_tools_are_called_in_a_streamed_run(hf, script):
    """A streamed answer may call tools, with the last words streamed after them."""

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = Agent(script([("add", {"a": 1, "b": 2})], "it is 3").model, tools=[add])
    with hf.session("s") as session:
        pieces = [piece async for piece in agent.run_stream("go", session=session)]
        assert "".join(pieces).strip() == "it is 3"
        call = next(e for e in session.events() if e.type == "tool_call")
    assert call.data["usage"]["output_tokens"] >= 1


async def test_a_stream_that_was_never_read_can_be_stopped(script):
    """Stopping what has not begun, or has ended, is harmless."""
    stream = Agent(script("x").model).run_stream("go")
    await stream.stop()
    async with stream:
        async for _ in stream:
            pass
    assert stream.result.session_id is None
