"""What is typed at a real terminal while an answer comes."""

from __future__ import annotations

import threading
import time

import pytest

from holdfast.testing.model_server import AskForTool, Say

LONG = Say("begin " + "word " * 4_000, pause_s=0.05)


@pytest.fixture
def gate(model):
    """Makes the model wait with the answer that has the word ``held`` in it, until the gate is set."""
    gate = threading.Event()

    def follow(*steps):
        answers = iter(steps)

        def answer(request):
            step = next(answers)
            if isinstance(step, Say) and "held" in step.text:
                gate.wait(60)
            return step

        model.follow(answer)
        return gate

    yield follow
    gate.set()


def wait_until(is_so):
    """Wait until something is so, and return it."""
    until = time.monotonic() + 60
    while not (found := is_so()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def words_of(hf):
    """What was said to the agent while it worked, once something was, and whether that stopped its step."""

    def said():
        return [event for row in hf.list() for event in hf.events(row.session_id, types=["steer"])]

    return [(event.data["content"], event.data.get("interrupt")) for event in wait_until(said)]


def test_a_line_is_heard_before_the_next_step(terminal, model, gate, hf):
    """Typed while it answers, a line is answered in the same turn; a command waits for the end of it."""
    opened = gate(Say("held"), Say("bien sûr"))
    terminal.type("holdfast chat --plain")
    terminal.say("tell me much", "tell me much")
    wait_until(lambda: model.requests)
    terminal.type("in French")
    assert words_of(hf) == [("in French", None)]
    terminal.type("/info")
    opened.set()
    terminal.wait_for("bien sûr")
    terminal.wait_for("messages")
    terminal.wait_for_prompt()
    assert "in French" in str(model.requests[1].messages)
    [row] = hf.list()
    assert len(list(hf.events(row.session_id, types=["turn_start"]))) == 1
    assert model.refused == []


def test_escape_stops_the_step_for_what_was_typed(terminal, model, hf):
    """On a drawn screen the line stands below the answer, and Escape says it at once; what was said stays."""
    answers = iter([LONG, Say("calm")])
    model.follow(lambda request: next(answers))
    terminal.type("holdfast --color never chat")
    terminal.wait_for("› ")
    terminal.type("tell me much")
    terminal.wait_for("begin word word")
    terminal.press("-l", "wrong")
    terminal.press("BSpace", "Left")
    terminal.press("-l", "! stop")
    terminal.wait_for("› wron! stop")
    terminal.wait_for("Esc stops the step for it")
    terminal.press("Escape")
    shown = terminal.wait_for("calm")
    assert "› wron! stop" in shown
    assert words_of(hf) == [("wron! stop", True)]
    assert "begin word word" in str(model.requests[1].messages)
    assert model.refused == []


def test_questions_and_unfinished_lines_lose_nothing(terminal, model, gate, own_place, hf):
    """A question for permission gets its answer, a line its hearing, and what was not finished is at the prompt."""
    (own_place / "a.txt").write_text("the secret is 42")
    opened = gate(AskForTool("read_file", {"path": "a.txt"}), Say("held"), Say("as you say"), Say("fine"))
    terminal.type("holdfast --color never chat")
    terminal.wait_for("› ")
    terminal.type("read a.txt")
    terminal.wait_for("(Enter: later):")
    terminal.type("y")
    terminal.wait_for("working")
    terminal.type("shorter")
    assert words_of(hf) == [("shorter", None)]
    terminal.press("-l", "half a")
    terminal.wait_for("› half a")
    opened.set()
    terminal.wait_for("as you say")
    terminal.wait_for("tokens")  # the line below the prompt
    terminal.press("-l", " line")
    terminal.press("Enter")
    terminal.wait_for("fine")
    assert "half a line" in str(model.requests[3].messages[-1])
