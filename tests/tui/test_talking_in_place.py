"""Talking on sessions: answers, permissions, stopping, switching."""

from __future__ import annotations

import threading

import pytest

from holdfast.testing.model_server import AskForTool, Say

LONG = Say("begin " + "word " * 4_000, pause_s=0.05)


async def say(seat, text):
    """Type a message and send it."""
    await seat.type(text)
    await seat.press("enter")


@pytest.mark.req("S2-7")
@pytest.mark.req("S2-107")
async def test_talking_on_a_restored_session(sit, hf, trip, model):
    """The answer is shown and recorded; the line of status says what the session is."""
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "hello")
        await seat.sees("you said hello", "restored", "openai:scripted")
        await seat.press("escape", "escape")
        await seat.sees("↺")
    said = [event.data["content"] for event in hf.events(trip, types=["assistant"])]
    assert said[-1] == "you said hello"
    assert not hf.info(trip).open


async def test_a_new_session(sit, hf, model):
    """It is there with the first message, and is not called restored."""
    async with sit() as seat:
        await seat.press("n")
        assert not hf.list()
        await say(seat, "first words")
        shown = await seat.sees("you said first words", "1 session")
        assert "restored" not in shown
    [row] = hf.list()
    assert row.message_count == 2


def tracked(seat):
    """What the app knows of its current session."""
    found = seat.app.tracking
    return found.session_id, found.is_restored, found.message_count


@pytest.mark.req("S2-9", "S2-37", "S2-38", "S2-39", "S2-40", "S2-41")
async def test_the_app_tracks_its_session(sit, hf, trip, model):
    """No session at first; a new one and a restored one, with what was said counted; then none."""
    before = hf.info(trip).message_count
    async with sit() as seat:
        assert tracked(seat) == (None, False, 0)
        await seat.sees("Trip to Lisbon")
        assert seat.app.tracking.known[trip].title == "Trip to Lisbon"
        await seat.press("n")
        new, *rest = tracked(seat)
        assert (new == trip, *rest) == (False, False, 0)
        await say(seat, "first words")
        await seat.sees("you said first words")
        assert tracked(seat) == (new, False, 1)
        await seat.press("escape", "escape")
        await seat.until(lambda: tracked(seat) == (None, False, 0))
        await seat.press("end", "c")
        await seat.until(lambda: tracked(seat) == (trip, True, before))
        await say(seat, "hello")
        await seat.sees("you said hello")
        assert tracked(seat) == (trip, True, before + 1)


async def test_stop(sit, hf, trip, model):
    """Ctrl+X ends an answer; what was said is kept, and the next one can begin."""
    answers = iter([LONG, Say("calm")])
    model.follow(lambda request: next(answers))
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "tell")
        await seat.sees("begin word", "answering")
        await seat.press("ctrl+x")
        await seat.misses("answering")
        await say(seat, "and now")
        await seat.sees("calm")
    reasons = [event.data["reason"] for event in hf.events(trip, types=["turn_end"])]
    assert reasons[0] == "cancelled"


@pytest.mark.req("S2-8")
@pytest.mark.req("S2-85")
async def test_switching_leaves_the_answer_running(sit, hf, trip, fill, model):
    """Another session is read meanwhile; the answer comes to its end, and that is told."""
    fill(1)
    gate = threading.Event()

    def slow(request):
        gate.wait(120)
        return Say("at last")

    model.follow(slow)
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("down", "c")
        await say(seat, "think")
        await seat.sees("answering")
        await seat.press("escape", "escape")
        await seat.sees("▶")
        await seat.until(lambda: seat.app.screen.sessions.choose("note-000"))
        await seat.press("enter")
        await seat.sees("words of note 0")
        gate.set()
        await seat.sees("answered")
        await seat.until(lambda: not hf.info(trip).open)
    said = [event.data["content"] for event in hf.events(trip, types=["assistant"])]
    assert said[-1] == "at last"


@pytest.mark.parametrize("key", ["y", "n"])
async def test_a_tool_asks_for_permission(sit, hf, trip, model, key):
    """A dialog names the tool and its arguments; the answer goes on with what was decided."""
    answers = iter([AskForTool("read_file", {"path": "a.txt"}), Say("done")])
    model.follow(lambda request: next(answers))
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "read it")
        await seat.sees("May the agent use read_file?", "path = 'a.txt'")
        assert [one.tool for one in hf.waiting()] == ["read_file"]
        await seat.press(key)
        await seat.sees("done")
    [found] = [event.data["decision"] for event in hf.events(trip, types=["permission"])]
    assert found == ("allow" if key == "y" else "deny")


async def test_a_question_waits_in_the_inbox(sit, hf, trip, model):
    """Answered elsewhere its dialog closes; closed unanswered, or with the app, it waits, and a new word ends that."""
    ask = AskForTool("read_file", {"path": "a.txt"})
    answers = iter([ask, Say("first"), ask, Say("second"), ask])
    model.follow(lambda request: next(answers))
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "read it")
        await seat.sees("May the agent use read_file?")
        hf.answer(hf.waiting()[0].id, True, by="ada")
        await seat.misses("May the agent")
        await seat.sees("first")
        await say(seat, "again")
        await seat.sees("May the agent use read_file?")
        await seat.press("escape")
        await seat.misses("May the agent")
        assert len(hf.waiting()) == 1
        await say(seat, "never mind")
        await seat.sees("second")
        assert hf.waiting() == []
        await say(seat, "read it")
        await seat.sees("May the agent use read_file?")
    assert len(hf.waiting()) == 1
    assert hf.verify(trip).ok
    answers = iter([Say("third")])
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("w")
        await seat.sees("read_file", 'path = "a.txt"')
        await seat.press("y")
        await seat.until(lambda: hf.info(trip).status == "idle")
    assert [event.data["content"] for event in hf.events(trip, types=["assistant"])][-1] == "third"


async def test_a_stopped_answer_asks_no_more(sit, hf, trip, model):
    """Its dialog closes with it; the question is left to the inbox."""
    model.follow(lambda request: AskForTool("read_file", {"path": "a.txt"}))
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "read it")
        await seat.sees("May the agent use read_file?")
        assert seat.app.talks.stop(trip)
        await seat.misses("May the agent")
    assert len(hf.waiting()) == 1
    assert not hf.info(trip).open


async def test_a_model_that_fails_is_told(sit, trip, monkeypatch):
    """Without a server to talk to there is a sentence, the app goes on, and the words can be sent again."""
    monkeypatch.setenv("HOLDFAST_MODEL", "no-such-provider:x")
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("ctrl+x")
        await seat.press("c")
        await say(seat, "hello")
        await seat.sees("no-such-provider")
        await seat.until(lambda: seat.app.query_one("#say").value == "hello")


async def test_leaving_in_the_middle_of_an_answer(sit, hf, trip, model):
    """Quitting stops the answer; the session is whole and free, and a word that was not heard yet is kept."""
    model.follow(lambda request: LONG)
    async with sit(session_id=trip) as seat:
        await seat.sees("Just so.")
        await seat.press("c")
        await say(seat, "tell")
        await seat.sees("begin word")
        await say(seat, "again")
        await seat.until(lambda: list(hf.events(trip, types=["steer"])))
    assert hf.verify(trip).ok
    assert not hf.info(trip).open


@pytest.mark.req("S2-53")
async def test_what_was_typed_comes_back(sit, trip, model, tmp_path, monkeypatch):
    """Arrow keys go through what was typed, also in an earlier run; a blank keeps a line out."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for number in range(2):
        async with sit(session_id=trip) as seat:
            await seat.press("c")
            if number == 0:
                await say(seat, "first words")
                await seat.sees("you said first words")
                await say(seat, " secret words")
                await seat.sees("you said secret words")
            line = seat.app.screen.query_one("#say")
            await seat.until(lambda line=line: line._lines)
            await seat.press("up")
            assert line.value == "first words"
            await seat.press("down")
            assert line.value == ""
            await seat.press("escape")


async def test_a_word_while_it_works(sit, hf, trip, model):
    """What is sent while an answer comes is heard in the same turn; Ctrl+X with words typed stops the step for them."""
    held = threading.Event()
    asked = []

    def answer(request):
        asked.append(str(request.messages[-1]))
        if len(asked) == 1:
            held.wait(60)
            return Say("first")
        return LONG if len(asked) == 2 else Say("calm")

    model.follow(answer)
    async with sit() as seat:
        await seat.sees("Trip to Lisbon")
        await seat.press("c")
        await say(seat, "tell me much")
        await seat.until(lambda: asked)
        await say(seat, "in French")
        await seat.until(lambda: list(hf.events(trip, types=["steer"])))
        held.set()
        await seat.sees("begin word")
        assert "in French" in asked[1]
        await seat.type("stop that")
        await seat.press("ctrl+x")
        await seat.sees("calm")
        assert "stop that" in asked[2]
    words = [(event.data["content"], event.data.get("interrupt")) for event in hf.events(trip, types=["steer"])]
    assert words == [("in French", None), ("stop that", True)]
    assert [event.data["reason"] for event in hf.events(trip, types=["turn_end"])] == ["completed"]
