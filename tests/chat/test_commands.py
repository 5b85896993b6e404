"""The commands of a chat that begin with a slash."""

from __future__ import annotations

import pytest

from holdfast.apps.cli._slash import COMMANDS


def test_help_lists_every_command_and_no_other(run):
    """Each command is listed; those that do not exist yet are not."""
    out = run("chat", text="/help\n").out
    assert all(f"/{name}" in out for name in COMMANDS)
    assert "/merge" not in out


def test_list_marks_the_current_session(run, hf):
    """The agent's sessions, newest first, the current one with a star."""
    run("chat", "--new", "--session", "first", text="one\n")
    out = run("chat", "--new", "--session", "second", text="two\n/list\n").out
    [line] = [line for line in out.splitlines() if "second" in line]
    assert line.startswith("*")
    assert "first" in out
    assert "There are no sessions yet" in run("chat", "--agent", "nobody", text="/list\n").out


def test_load_and_new_switch(run, hf):
    """/load goes on with another session, /new begins one."""
    run("chat", "--new", "--session", "first", text="one\n")
    done = run("chat", "--new", "--session", "second", text="two\n/load fir\nmore\n/new\nfresh\n")
    assert done.out.splitlines() == ["1: you said two", "2: you said more", "1: you said fresh"]
    assert "Restored session first" in done.err
    assert len(hf.list()) == 3


def test_fork_goes_on_in_a_copy(run, hf):
    """/fork leaves the session as it is and goes on in a fork, from now or from an event."""
    said = "one\n/fork\ntwo\n/fork x\n/fork 999\n"
    done = run("chat", "--new", "--session", "first", text=said)
    assert done.out.splitlines() == ["1: you said one", "2: you said two"]
    assert "takes the number of an event" in done.err
    assert "no event 999" in done.err
    [made] = hf.lineage("first").children
    history = hf.session(made, read_only=True).history
    assert [turn["content"] for turn in history][::2] == ["one", "two"]
    assert "two" not in str(hf.recover("first").messages)


def test_a_session_that_cannot_be_loaded_leaves_the_chat_as_it_was(run, hf):
    """/load of a session that belongs to another type of agent says so; the chat goes on."""
    run("chat", "--new", "--session", "mine", text="one\n")
    with hf.session("typed", agent_id="other", agent_type="task-agent") as session:
        session.user("x")
    done = run("chat", text="/load typed\ntwo\n")
    assert "'task-agent'" in done.err
    assert done.out.splitlines() == ["2: you said two"]
    assert hf.info("mine").message_count == 4


def test_a_loaded_session_stays_with_its_agent(run, hf):
    """/load of another agent's session goes on as that agent; the own pointer is not bent."""
    run("chat", "--agent", "cook", "--new", "--session", "soup", text="soup\n")
    run("chat", "--new", "--session", "mine", text="one\n")
    assert run("chat", text="/load soup\nsalt\n").out.splitlines() == ["2: you said salt"]
    assert "Restored session mine" in run("chat", text="two\n").err
    assert "Restored session soup" in run("chat", "--agent", "cook", text="pepper\n").err


def test_a_new_session_has_the_instructions_that_every_new_one_has(run, model):
    """/new in a restored session begins one as `--new` would, instructions included."""
    run("chat", text="one\n")
    run("chat", text="two\n/new\nthree\n")
    systems = [request.messages[0]["content"] for request in model.requests]
    assert len(systems) == 3
    assert set(systems) == {"You are a helpful assistant. Answer briefly and plainly."}


@pytest.mark.req("S0-69")
@pytest.mark.parametrize("name", ["My Assistant", "../../elsewhere"])
def test_an_agent_may_have_any_name(run, store_root, name):
    """A name that is no id is made into one, always the same, and never becomes a path."""
    run("chat", "--agent", name, text="one\n")
    assert run("chat", "--agent", name, text="two\n").out == "2: you said two\n"
    assert not (store_root.parent / "elsewhere").exists()
    assert len(list((store_root / "agents").iterdir())) == 1


@pytest.mark.req("B-32")
def test_title_tag_and_info(run, hf):
    """Title and tags are recorded; /info shows them with the model."""
    done = run("chat", text="one\n/title A trip\n/title\n/tag a b\n/tag -a\n/info\n")
    [row] = hf.list()
    assert (row.title, row.tags) == ("A trip", ("b",))
    assert done.out.count("A trip") == 3
    assert "Model: openai:scripted" in done.out


def test_the_title_comes_by_itself(run, hf):
    """The first message, cut at 50 characters, is the title until there is another."""
    run("chat", text=f"{'word ' * 30}\n")
    title = hf.list()[0].title
    assert title.startswith("word word")
    assert len(title) <= 51


def test_memory_todos_and_history_show_what_there_is(run, hf):
    """Each shows what the session holds, or says that there is nothing."""
    empty = run("chat", text="one\n/memory\n/todos\n").out
    assert "Nothing is remembered yet." in empty
    assert "There are no todos." in empty
    with hf.session(hf.list()[0].session_id) as session:
        session.memory.set("theme", "dark", description="what I like")
        session.todos.write([{"content": "book", "status": "in_progress", "activeForm": "…"}])
    full = run("chat", text="/memory\n/todos\n/history\n").out
    assert "theme: dark  (session" in full
    assert "[>] book" in full
    assert "you said one" in full


def test_delete_needs_someone_to_say_yes(run, hf):
    """Through a pipe nobody can confirm, so nothing is deleted."""
    assert "Nothing was deleted." in run("chat", text="one\n/delete\n").out
    assert len(hf.list()) == 1


@pytest.mark.parametrize("line", ["/title x", "/info", "/memory", "/delete"])
def test_before_the_first_message_there_is_no_session(run, line):
    """What needs a session says so."""
    done = run("chat", text=f"{line}\n")
    assert "there is no session yet" in done.err


def test_a_misspelt_command(run):
    """It is answered with the nearest one and is not sent to the model."""
    done = run("chat", text="/titel x\n/load\n")
    assert "there is no command /titel; did you mean /title?" in done.err
    assert "/load needs the id of a session" in done.err
    assert done.out == ""


def test_what_is_wrong_is_told_in_words_of_the_chat(run, hf):
    """Each remedy is something to type here; nothing of it is recorded."""
    done = run("chat", text="one\n/undo\n/search\n/help me\n/back 7\n/load\n")
    assert "/help takes no arguments" in done.err
    assert "/back alone" in done.err
    assert "--help" not in done.err
    [row] = hf.list()
    assert {event.type for event in hf.events(row.session_id)}.isdisjoint({"agent_error", "turn_failed"})
    assert row.message_count == 2


def test_continue_goes_on_with_what_was_interrupted(run, hf):
    """A message without an answer is answered without a new one; else there is nothing to do."""
    with hf.session("mine", agent_id="assistant") as session:
        session.user("unanswered")
    done = run("chat", "--session", "mine", text="/continue\n/continue\n")
    assert "The last answer was interrupted. /continue finishes it." in done.err
    assert done.out == "1: you said unanswered\n"
    assert "there is nothing to continue" in done.err


def test_an_answer_that_was_cut_in_the_middle_is_told_of(run, hf):
    """After a kill in the middle of an answer, with words on record, the chat says so."""
    session = hf.session("mine", agent_id="assistant")
    session.append("turn_start", {"agent": "assistant"}, run="r-1")
    session.user("tell me", run="r-1")
    session.delta("Once upon", run="r-1", agent="assistant")
    session._journal.writer.dead = RuntimeError("killed")
    session.close()
    done = run("chat", "--session", "mine", text="/continue\n")
    assert "The last answer was interrupted. /continue finishes it." in done.err
    assert done.out == "2: you said (go on where you were interrupted)\n"


def test_export_writes_a_file(run, hf, tmp_path, monkeypatch):
    """/export writes the session as its file's name says, and replaces nothing."""
    monkeypatch.chdir(tmp_path)
    said = "one\n/export page.html\n/export page.html\n/export\n/export\n/export all.zip\n"
    done = run("chat", "--new", "--session", "first", text=said)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "you said one" in (tmp_path / "first.md").read_text(encoding="utf-8")
    assert (tmp_path / "first-2.md").is_file()
    assert "page.html exists already" in done.err
    assert ".zip" in done.err
    assert not (tmp_path / "all.zip").exists()


def test_cost_is_by_the_list_of_prices_where_the_provider_names_none(run):
    """/cost gives the tokens of each model, and what they cost in all."""
    lines = run("chat", env={"HOLDFAST_MODEL": "openai:gpt-4o"}, text="one\n/cost\n").out.splitlines()
    assert lines[1].startswith("gpt-4o: ")
    assert lines[2].startswith("in all, by the list of prices: $0.0")
