"""Requests stay inside the model's window, and the log is never cut."""

from __future__ import annotations

import pytest

from holdfast.agent import Agent, Tool
from holdfast.agent._loop import fit_messages, measure, shorten_results
from holdfast.errors import TooLarge
from holdfast.replay import validate


def long_talk(session, turns=30, size=400):
    """A session of many turns, each with a call and its result."""
    for number in range(turns):
        session.user(f"question {number} " + "x" * size)
        call = session.tool_call("look", {"n": number})
        session.tool_result(call, "y" * size)
        session.assistant(f"answer {number}")


def tokens(request):
    """About how long a request was."""
    parts = [part for message in request for part in message.parts]
    return sum(len(str(getattr(p, "content", getattr(p, "args", "")))) // 4 + 1 for p in parts)


@pytest.mark.req("S1-35", "B-38", "S0-23")
async def test_a_window_keeps_the_first_turn_and_the_newest(hf, script, texts):
    """Every request fits, begins with the first question, and holds the newest words."""
    model = script("ok")
    agent = Agent(model.model, max_context_tokens=1000, strategy="window")
    with hf.session("s") as session:
        long_talk(session)
        before = session.state.message_count
        await agent.run("and now?", session=session)
        assert session.state.message_count == before + 2
    [request] = model.requests
    assert tokens(request) <= 1000
    said = texts(request)
    assert said[0].startswith("question 0 ")
    assert said[-1] == "and now?"
    assert "answer 29" in said


@pytest.mark.req("S1-35")
async def test_what_tools_are_said_to_do_takes_its_part_of_the_window(hf, script):
    """A long description leaves less room for the conversation."""

    def look(n: int) -> str:
        """Look."""
        return "y"

    wordy = Tool(look, description="d" * 2000)
    model = script("ok")
    with hf.session("s") as session:
        long_talk(session)
        agent = Agent(model.model, tools=[wordy], max_context_tokens=1000, strategy="window")
        await agent.run("and now?", session=session)
    assert tokens(model.requests[0]) <= 500


@pytest.mark.req("B-38")
async def test_without_a_strategy_everything_is_sent(hf, script, texts):
    """The default sends the whole conversation."""
    model = script("ok")
    with hf.session("s") as session:
        long_talk(session)
        await Agent(model.model).run("and now?", session=session)
    assert len([text for text in texts(model.requests[0]) if text.startswith("question")]) == 30


@pytest.mark.req("S0-23", "S1-35")
async def test_a_summary_stands_for_the_older_turns(hf, script, texts):
    """Older turns are summarised by the model, recorded as an event, and used from then on."""
    model = script("SUMMARY", "fine", "again")
    agent = Agent(model.model, max_context_tokens=3000, strategy="summarise")
    with hf.session("s") as session:
        long_talk(session)
        count = sum(1 for event in session.events() if event.type == "user")
        model.steps[:] = [lambda messages: "SUMMARY" if "Summarise" in texts(messages)[0] else "fine"]
        result = await agent.run("and now?", session=session)
        compactions = [event for event in session.events() if event.type == "compaction"]
        assert len(compactions) == 1
        assert compactions[0].data["summary"] == "SUMMARY"
        assert sum(1 for event in session.events() if event.type == "user") == count + 1
        assert validate(session.messages("anthropic"), "anthropic").valid
        first = session.messages()[0]
        assert "SUMMARY" in str(first)
        asked = len(model.requests)
        await agent.run("more", session=session)
        assert len(model.requests) == asked + 1
        assert session.state.usage.requests == len(model.requests)
    assert result.output == "fine"
    assert "SUMMARY" in texts(model.requests[-1])[0]
    assert all(tokens(request) <= 3000 for request in model.requests)


async def test_a_second_summary_follows_the_first(hf, script, texts):
    """When the talk has grown again, the next summary covers the first."""
    number = iter(range(100))

    def answer(messages):
        return f"SUM-{next(number)}" if "Summarise" in texts(messages)[0] else "fine"

    agent = Agent(script(answer).model, max_context_tokens=1200, strategy="summarise")
    with hf.session("s") as session:
        long_talk(session, turns=12)
        await agent.run("one", session=session)
        long_talk(session, turns=12)
        await agent.run("two", session=session)
        covers = [e.data["covers"] for e in session.events() if e.type == "compaction"]
        assert len(covers) == 2
        assert covers[0][1] < covers[1][1]
        assert str(session.messages()).count("SUM-") == 1


async def test_one_turn_alone_is_not_summarised(hf, script):
    """With nothing older to summarise, the window does what it can."""
    model = script("ok")
    agent = Agent(model.model, max_context_tokens=60, strategy="summarise")
    with hf.session("s") as session:
        await agent.run("x" * 100, session=session)
        assert "compaction" not in [event.type for event in session.events()]


async def test_an_empty_summary_is_not_recorded(hf, script, texts):
    """A model that gives no summary leaves the conversation as it was; the request still fits."""
    model = script(lambda messages: " " if "Summarise" in texts(messages)[0] else "fine")
    agent = Agent(model.model, max_context_tokens=1500, strategy="summarise")
    with hf.session("s") as session:
        long_talk(session)
        await agent.run("and now?", session=session)
        assert "compaction" not in [event.type for event in session.events()]
    assert tokens(model.requests[-1]) <= 1500


async def test_a_message_that_cannot_fit_is_a_clear_error(hf, script):
    """A prompt larger than the window is refused with a remedy, and the session goes on."""
    agent = Agent(script("ok").model, max_context_tokens=50, strategy="window")
    with hf.session("s") as session:
        with pytest.raises(TooLarge) as caught:
            await agent.run("x" * 1000, session=session)
        assert "max_context_tokens" in caught.value.remedy
        assert (await agent.run("short", session=session)).output == "ok"
        assert len(session.messages()) == 2


def user(text):
    """A user's message."""
    return {"role": "user", "content": text}


def assistant(text):
    """An assistant's message."""
    return {"role": "assistant", "content": text}


def test_a_pair_is_never_split():
    """The window never begins with a result whose call is left out."""
    call = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "r" * 60}
    messages = [
        user("start"),
        {"role": "assistant", "content": [{"type": "text", "text": "z" * 400}, call]},
        {"role": "user", "content": [result]},
        assistant("end"),
        user("last"),
    ]
    fitted = fit_messages(messages, 40)
    assert [message["role"] for message in fitted] == ["user", "assistant", "user"]
    assert fitted[0]["content"] == "start"
    assert fitted[1] == assistant("end")


def test_a_window_may_begin_in_the_middle():
    """If even the first turn has no room, a note stands in its place."""
    messages = [user("s" * 400), assistant("a"), user("b"), assistant("c"), user("d")]
    fitted = fit_messages(messages, 20)
    assert "left out" in fitted[0]["content"]
    assert [message["role"] for message in fitted] == ["user", "assistant", "user", "assistant", "user"]
    assert fit_messages(messages, 5) == [user("d")]


def test_two_user_turns_become_one():
    """The first turn and a window that begins with a user's words are joined."""
    messages = [user("s"), assistant("a" * 400), user("b"), assistant("c"), user("d")]
    fitted = fit_messages(messages, 16)
    assert [block["text"] for block in fitted[0]["content"]] == ["s", "b"]


def test_media_and_thoughts_are_measured():
    """Pictures have a price of their own; thoughts and calls count by their text."""
    blocks = [
        {"type": "image", "source": {}},
        {"type": "thinking", "thinking": "x" * 40},
        {"type": "tool_use", "id": "a", "name": "tool", "input": {"a": 1}},
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "y" * 4}]},
    ]
    assert 1600 < measure([{"role": "user", "content": blocks}]) < 1640


def test_only_long_results_are_shortened():
    """A short result stays the very same message; a long one ends with a note."""
    short = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    long = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "é" * 1000}]}
    kept, cut, text = shorten_results([short, long, user("z" * 900)], 100)
    assert kept is short
    assert text == user("z" * 900)
    assert cut["content"][0]["content"].startswith("é" * 200)
    assert "800 of 1,000 characters" in cut["content"][0]["content"]
