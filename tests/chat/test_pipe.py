"""The chat through a pipe: each line a message, the answers on standard output."""

from __future__ import annotations

import os
import re

import pytest

from holdfast.testing.model_server import Fail, Say


def types(hf, id):
    return [event.type for event in hf.events(id)]


def only(hf):
    """The one session that there is."""
    [row] = hf.list()
    return row


def only_answer(hf):
    """The last answer of the one session, as recorded."""
    [*_, answer] = hf.events(only(hf).session_id, types=["assistant"])
    content = answer.data["content"]
    return content if isinstance(content, str) else content[-1]["text"]


@pytest.mark.req("S1-18")
def test_each_line_is_a_message_and_is_recorded(run, hf):
    """Answers come in order on standard output, everything else on standard error."""
    done = run("chat", text="hello\n\nagain\n")
    assert done.code == 0
    assert done.out == "1: you said hello\n2: you said again\n"
    assert "Model: openai:scripted" in done.err
    assert "New session, stored in" in done.err
    row = only(hf)
    assert (row.message_count, row.agent_id, row.title) == (4, "assistant", "hello")


def test_an_answer_that_comes_word_by_word_is_one_line(run, hf, monkeypatch):
    """Its last word, which may come after the answer is on record, stands with the others."""
    monkeypatch.setenv("HOLDFAST_GUIDE_WORD_MS", "25")
    out = run("chat", "--model", "guide", text="My name is Alice\n").out
    assert out == f"{only_answer(hf)}\n"


@pytest.mark.req("S1-17")
@pytest.mark.parametrize("word", ["exit", ";", "/exit", "  exit  "])
def test_exit_words_end_it(run, hf, word):
    """After an exit word nothing is read any more."""
    assert run("chat", text=f"one\n{word}\ntwo\n").out == "1: you said one\n"


@pytest.mark.req("S2-51")
def test_without_a_message_there_is_no_session(run, hf):
    """A chat in which nothing was said leaves nothing behind."""
    assert run("chat", text="exit\n").code == 0
    assert hf.list() == []


@pytest.mark.req("S2-1")
@pytest.mark.req("S2-52")
@pytest.mark.req("S1-46")
@pytest.mark.req("B-2")
def test_the_next_chat_goes_on_and_says_so(run, hf):
    """Without options the agent's current session is taken up, with its messages counted."""
    run("chat", text="one\n")
    done = run("chat", text="two\n")
    assert done.out == "2: you said two\n"
    told = rf"Restored session {only(hf).session_id[:7]} “one” \(2 messages, (just now|\d+ min ago)\)"
    assert re.search(told, done.err)


def test_new_begins_afresh_and_is_current_from_then_on(run, hf):
    """--new leaves the old session alone; the next chat goes on with the new one."""
    run("chat", text="one\n")
    assert run("chat", "--new", text="two\n").out == "1: you said two\n"
    assert run("chat", text="three\n").out == "2: you said three\n"
    assert len(hf.list()) == 2


@pytest.mark.parametrize("option", ["--session", "--restore", "--continue"])
def test_a_session_by_the_beginning_of_its_id(run, hf, option):
    """A named session is gone on with, and belongs to its own agent."""
    with hf.session("trip-planner", agent_id="planner") as session:
        session.user("plan")
        session.assistant("done")
    done = run("chat", option, "trip", text="more\n")
    assert done.out == "2: you said more\n"
    assert "Restored session trip-planner" in done.err
    assert len(hf.list()) == 1


def test_a_session_that_is_not_there(run, hf):
    """An unknown id is refused with the nearest one, and nothing is made."""
    hf.session("trip-planner").user("plan")
    done = run("chat", "--session", "trip-planer", text="more\n")
    assert done.code == 3
    assert "did you mean trip-planner?" in done.err
    assert len(hf.list()) == 1


def test_new_with_an_id(run, hf):
    """--new --session gives the new session its id, and refuses one that exists."""
    assert run("chat", "--new", "--session", "mine", text="one\n").code == 0
    assert only(hf).session_id == "mine"
    again = run("chat", "--new", "--session", "mine", text="two\n")
    assert again.code == 2
    assert "there is a session mine already" in again.err


def test_agents_have_sessions_of_their_own(run, hf):
    """--agent separates: each agent goes on with its own current session."""
    run("chat", "--agent", "a", text="one\n")
    run("chat", "--agent", "b", text="two\n")
    assert run("chat", "--agent", "a", text="three\n").out == "2: you said three\n"
    assert {row.agent_id for row in hf.list()} == {"a", "b"}


def test_a_failing_model_leaves_the_session_intact(run, model, hf):
    """The failure is told with a remedy, the chat goes on, the exit code says that it happened."""
    answers = iter([Fail(400, "no"), Say("better")])
    model.follow(lambda request: next(answers))
    done = run("chat", text="one\ntwo\n")
    assert done.code == 1
    assert "error: " in done.err
    assert "Traceback" not in done.err
    assert done.out == "better\n"
    assert hf.verify(only(hf).session_id).ok
    assert [request.refused for request in model.requests] == [[], []]


def test_a_damaged_session_is_repaired_with_a_warning(run, hf, store_root):
    """A bad record in the middle: warned, mended, going on."""
    run("chat", text="one\ntwo\nthree\n")
    id = only(hf).session_id
    path = store_root / "sessions" / id / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"you said two"', b"", 1).replace(b"two", b"tXo", 1))
    assert not hf.verify(id).ok
    done = run("chat", text="four\n")
    assert done.code == 0
    assert "was damaged and has been repaired" in done.err
    assert done.out.endswith("you said four\n")
    assert hf.verify(id).ok


def test_what_the_model_says_cannot_reach_into_the_terminal(run, model):
    """Escape sequences in an answer are shown, not obeyed."""
    model.follow(lambda request: Say("red \x1b[31m and \x9b2J and \u202e"))
    out = run("chat", text="one\n").out
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "\u202e" not in out
    assert "␛[31m" in out


def test_words_that_begin_with_a_slash(run):
    """A path is no command, and two slashes say one."""
    done = run("chat", text="/usr/bin is what?\n//help me\n")
    assert done.out == "1: you said /usr/bin is what?\n2: you said /help me\n"


def test_an_unknown_model_and_a_missing_key(run, hf):
    """Both are told in a sentence with what to do, before anything is recorded."""
    for name in ("nosuch:thing", "anthropic:claude-sonnet-4-5"):
        done = run("chat", "--model", name, text="one\n")
        assert done.code == 2
        assert "error: " in done.err
        assert "Traceback" not in done.err
    assert "ANTHROPIC_API_KEY" in done.err
    assert hf.list() == []


def test_a_session_that_another_process_has(run, hf, store_root):
    """It is refused with the holder's process."""
    run("chat", "--new", "--session", "mine", text="one\n")
    lease = hf.store.lease("sessions/mine")
    lease.acquire("other", 1000)
    done = run("chat", text="two\n")
    lease.release()
    assert done.code == 4
    assert str(os.getpid()) in done.err


def test_configured_instructions_reach_the_model(run, model, hf, own_place):
    """`instructions` and `agent` of the project's file count; stored ones stay otherwise."""
    (own_place / "holdfast.toml").write_text('agent = "pirate"\ninstructions = "Talk so."\n')
    run("chat", text="one\n")
    assert "Talk so." in str(model.requests[0].body)
    (own_place / "holdfast.toml").write_text('agent = "pirate"\n')
    run("chat", text="two\n")
    assert "Talk so." in str(model.requests[1].body)
    assert only(hf).agent_id == "pirate"


def test_bytes_that_are_no_text(run, hf):
    """NUL and broken UTF-8 become marks; the message is answered and recorded."""
    done = run("chat", text=b"one \x00 two \xff\xfe\n")
    assert done.code == 0
    assert done.out == "1: you said one \ufffd two \ufffd\ufffd\n"
    assert run("run", "-", text=b"\xff\x00").out == "2: you said \ufffd\ufffd\n"


@pytest.mark.req("S3-75")
def test_a_chat_that_keeps_nothing_remembers_while_it_lasts(run, model):
    """On `none:` the model is sent the whole chat, as on `memory:`; the next one begins afresh."""
    sent = []
    for store in ("memory:", "none:"):
        done = run("chat", text="one\n/history\ntwo\n", env={"HOLDFAST_STORE": store})
        assert done.code == 0
        assert done.out.endswith("2: you said two\n")
        sent.append([request.body for request in model.requests])
        model.requests.clear()
    assert sent[0] == sent[1]
    assert run("chat", text="three\n", env={"HOLDFAST_STORE": "none:"}).out == "1: you said three\n"


def test_a_chat_whose_log_is_lost_says_so_and_goes_on(run, hf, store_root):
    """The user is told that the session was repaired; verify tells it still when it has gone on."""
    run("chat", text="one\n")
    id = only(hf).session_id
    [log] = store_root.rglob("events.jsonl")
    log.write_bytes(b"")
    done = run("chat", text="two\n")
    assert done.code == 0
    assert done.out == "1: you said two\n"
    assert "its log was damaged and has been repaired" in done.err
    assert "lost for good" in run("verify", id).out
