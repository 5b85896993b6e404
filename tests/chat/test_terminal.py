"""The chat at a real terminal: typed into, interrupted, killed, and taken up again."""

from __future__ import annotations

import os
import re
import signal

import pytest

from holdfast.testing.model_server import AskForTool, Say

LONG = Say("begin " + "word " * 4_000, pause_s=0.05)


def kill(hf):
    """Kill the process that has the one session open, with -9."""
    [row] = hf.list()
    pids = [event.data["pid"] for event in hf.events(row.session_id, types=["opened"])]
    os.kill(pids[-1], signal.SIGKILL)


def start(terminal):
    """Start the chat on an empty screen; what it shows when it is ready."""
    terminal.wipe()
    terminal.type("holdfast chat")
    return terminal.wait_for_prompt()


@pytest.mark.req("S1-16")
@pytest.mark.req("S2-54")
@pytest.mark.req("S2-55")
def test_quit_and_kill_and_it_goes_on(terminal, hf):
    """Typed, left, taken up; killed with -9, taken up again: nothing that was said is lost."""
    start(terminal)
    terminal.say("first words", "1: you said first words")
    terminal.say("exit", "is saved; `holdfast chat` continues it.")
    shown = start(terminal)
    assert "Restored session" in shown
    assert re.search(r"\(2 messages, (just now|\d+ min ago)\)", shown)
    assert "1: you said first words" in shown  # the history is on the screen again
    terminal.say("second words", "2: you said second words")
    terminal.wait_for_prompt()
    kill(hf)
    terminal.wait_for("Killed")
    assert "(4 messages" in start(terminal)
    terminal.say("third words", "3: you said third words")
    terminal.wait_for_prompt()
    terminal.press("C-d")
    terminal.wait_for("is saved;")
    [row] = hf.list()
    assert row.message_count == 6
    assert hf.verify(row.session_id).ok


def test_ctrl_c_stops_the_answer_and_keeps_what_was_said(terminal, model, hf):
    """The words that were seen stay, the interruption is on record, the chat goes on."""
    answers = iter([LONG, Say("calm")])
    model.follow(lambda request: next(answers))
    start(terminal)
    terminal.say("tell me much", "begin word word")
    terminal.press("C-c")
    terminal.wait_for("(stopped; what was said is kept)")
    [row] = hf.list()
    events = list(hf.events(row.session_id))
    assert [event.data["reason"] for event in events if event.type == "turn_end"] == ["cancelled"]
    said = "".join(event.data["content"] for event in events if event.type == "delta")
    assert said.startswith("begin word word")
    terminal.say("and now?", "calm")
    assert "begin word" in str(model.requests[1].messages)
    assert model.refused == []
    terminal.wait_for_prompt()
    terminal.press("C-c")
    terminal.wait_for("(Ctrl-D or /exit to leave)")
    terminal.say("exit", "is saved;")


def test_ctrl_z_puts_it_aside_and_fg_brings_it_back(terminal, hf):
    """Stopped in mid answer and brought back, it goes on, and keys are drawn where they belong."""
    terminal.type("HOLDFAST_GUIDE_WORD_MS=20 holdfast --color never chat --model guide")
    terminal.wait_for("› ")
    terminal.type("kill")
    terminal.wait_for("two, three")
    terminal.press("C-z")
    terminal.wait_for("Stopped")
    terminal.type("fg")
    terminal.press("-l", "more")
    terminal.wait_for("› more")
    terminal.press("C-u")
    shown = terminal.wait_for("nobody killed me this time")
    assert "\nmore" not in shown  # the shell's way of showing keys is not left behind
    terminal.press("C-d")
    terminal.wait_for("is saved;")
    [row] = hf.list()
    assert row.status == "idle"


def test_what_was_typed_comes_back_and_a_session_can_go(terminal, hf, tmp_path):
    """Up and Ctrl-R find earlier lines, but none after a blank; /delete asks and goes on afresh."""
    start(terminal)
    terminal.say("remember this line", "1: you said remember this line")
    terminal.say(" forget this line", "2: you said forget this line")
    terminal.say(" exit", "is saved;")
    start(terminal)
    terminal.press("Up")
    terminal.wait_for("you> remember this line")
    terminal.press("Enter")
    terminal.wait_for("3: you said remember this line")
    terminal.wait_for_prompt()
    terminal.press("C-r", "m", "b", "e")
    terminal.wait_for("(reverse-i-search)`mbe': remember this line")
    terminal.press("Enter")
    terminal.wait_for("4: you said remember this line")
    terminal.say(" /delete", "to the trash? [y/N]")
    terminal.type("y")
    terminal.wait_for("Bring it back with: holdfast undelete")
    terminal.say(" two", "1: you said two")
    assert len(hf.list()) == 1
    history = tmp_path / "xdg_state_home" / "holdfast" / "history"
    assert history.read_text() == "remember this line\n"


def test_a_tool_asks_for_permission(terminal, model, own_place, hf):
    """Before a file is read the user is asked; the answer is on record; No is told to the model."""
    (own_place / "a.txt").write_text("the secret is 42")
    read = AskForTool("read_file", {"path": "a.txt"})
    answers = iter([read, Say("done"), read, Say("refused")])
    model.follow(lambda request: next(answers))
    start(terminal)
    terminal.say("read a.txt", "May the agent use read_file(path='a.txt')?")
    terminal.type("y")
    terminal.wait_for("done")
    assert "the secret is 42" in str(model.requests[1].messages)
    terminal.say("again", "again")
    terminal.wait_for("May the agent use read_file", 2)
    terminal.type("n")
    terminal.wait_for("refused")
    [row] = hf.list()
    decisions = [e.data["decision"] for e in hf.events(row.session_id, types=["permission"])]
    assert decisions == ["allow", "deny"]


def test_a_question_is_in_the_inbox_while_it_is_asked(terminal, model, own_place, hf):
    """It can be left waiting, is asked again after kill -9, and is withdrawn when it is answered elsewhere."""
    (own_place / "a.txt").write_text("the secret is 42")
    read = AskForTool("read_file", {"path": "a.txt"})
    answers = iter([read, Say("first done"), read, Say("second done"), read, Say("third done")])
    model.follow(lambda request: next(answers))
    start(terminal)
    terminal.say("read a.txt", "May the agent use read_file(path='a.txt')?")
    terminal.wait_for("(Enter: later):")
    terminal.press("C-z")
    terminal.wait_for("Stopped")
    terminal.type("kill -9 %1; clear; holdfast --color never chat --plain")
    terminal.wait_for("a call waits for an answer: Enter shows it")
    terminal.say("", "May the agent use read_file(path='a.txt')?")
    terminal.type("y")
    terminal.wait_for("first done")
    terminal.say("again", "again")
    terminal.wait_for("(Enter: later):", 2)
    [one] = hf.waiting()
    hf.answer(one.id, True, by="ada")
    terminal.wait_for("answered elsewhere")
    terminal.wait_for("second done")
    terminal.say("once more", "once more")
    terminal.wait_for("(Enter: later):", 3)
    terminal.type("")
    terminal.wait_for("waits for an answer (read_file)")
    terminal.say("/exit", "continues it")
    [one] = hf.waiting()
    hf.answer(one.id, True, by="ada")
    terminal.type("clear; holdfast --color never chat --plain")
    terminal.wait_for("answered: Enter goes on")
    terminal.say("", "third done")
    assert hf.waiting() == []
