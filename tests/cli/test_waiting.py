"""The inbox by the command: list, approve, deny, from another process than the one that asks and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from holdfast.agent import Agent, Suspend, tool
from holdfast.apps.http.tokens import TokenBook

PROGRAM = """
import sys
import holdfast
from holdfast.agent import Agent, tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

store, out, verb, dies = sys.argv[1:]


@tool(permission="suspend")
def act(what: str) -> str:
    if dies == "inside":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    with open(out, "a") as file:
        file.write(what)
    if dies == "after":
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    return "acted"


def answer(messages, info):
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("act", {"what": "x"})])
    return ModelResponse(parts=[TextPart("done")])


with holdfast.open(store) as hf:
    agent = Agent(FunctionModel(answer), tools=[act], hf=hf)
    if verb == "ask":
        with hf.session("s") as s:
            print(agent.run_sync("go", session=s).status)
    else:
        print(agent.resume_sync("s", answers={}).status)
"""


@pytest.mark.parametrize(("dies", "effects"), [("", "x"), ("inside", ""), ("after", "x")])
def test_asked_approved_and_done_by_three_processes(tmp_path, dies, effects):
    """The tool runs at most once, also when its process is killed inside of it, and is then told as unknown."""
    store, out = tmp_path / "store", tmp_path / "out"
    out.write_text("")

    def run(*command):
        return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "USER": "ada"})

    def program(verb, dies):
        return run(sys.executable, "-c", PROGRAM, str(store), str(out), verb, dies)

    def holdfast(*args):
        return run(sys.executable, "-m", "holdfast", "--store", str(store), *args)

    assert program("ask", "").stdout == "waiting\n"
    [one] = json.loads(holdfast("waiting", "--json").stdout)["waiting"]
    assert (one["session_id"], one["tool"], one["args"]) == ("s", "act", {"what": "x"})
    told = holdfast("approve", one["id"][:5])
    assert told.stdout == f"Allowed: {one['id']}\n", told.stderr
    assert "No tool calls are waiting" in holdfast("waiting").stderr
    if dies:
        assert program("resume", dies).returncode == -signal.SIGKILL
    assert program("resume", "").stdout == "completed\n"
    assert out.read_text() == effects


@tool(permission="suspend")
def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Edit."""
    return path + old_string + new_string


def ask_person(question: str) -> str:
    """Ask."""
    raise Suspend(question)


EDIT = ("edit_file", {"path": "a.py", "old_string": "one\ntwo", "new_string": "one\nthree"})
ASK = ("ask_person", {"question": "When?"})


@pytest.fixture
def asked(library):
    """The ids of two questions of one answer: to change a file, and to say something."""
    model = FunctionModel(lambda *_: ModelResponse(parts=[ToolCallPart(*EDIT), ToolCallPart(*ASK)]))
    with library.session("work", title="The work") as s:
        Agent(model, name="coder", tools=[edit_file, ask_person], hf=library).run_sync("go", session=s)
    return [one.id for one in library.waiting()]


def test_a_question_is_shown_in_full_before_it_is_answered(run, asked):
    """The list says when it was asked; one of it shows every argument, as a diff where it edits a file."""
    assert [line.split()[0] for line in run("waiting").out.splitlines()] == ["ID", *asked]
    assert "just now" in run("waiting").out
    shown = run("waiting", asked[0][:6]).out
    for part in ("edit_file", "The work", "coder", "path = a.py", "  -two", "  +three", "   one"):
        assert part in shown
    assert json.loads(run("waiting", asked[1], "--json").out)["waiting"][0]["args"] == {"question": "When?"}


def test_an_answer_is_told_in_words_and_another_one_is_refused(run, library, asked):
    """The beginning of an id is enough, also to hear that it was answered; a text answers a tool that asks."""
    edit, ask = asked
    assert run("deny", edit[:6], "--because", "no").out == f"Denied: {edit}\n"
    assert run("deny", edit[:6]).out == f"Denied: {edit}\n"
    refused = run("approve", edit[:6])
    assert (refused.code, "answered already: denied by" in refused.err) == (2, True)
    assert "answered already: denied by" in run("waiting", edit[:6]).err
    assert run("approve", ask, "--edit").code == 2
    assert run("approve", ask, "--answer", "at noon").out == f"Answered: {ask}\n"
    assert library.waiting() == []


def test_an_empty_id_answers_nothing(run, library, asked):
    """A script whose variable is empty must not approve the only call that waits."""
    run("deny", asked[1])
    assert run("approve", "").code == 2
    assert [one.id for one in library.waiting()] == [asked[0]]


def waits(hf, ask):
    """Leave a session whose call waits."""
    with hf.session(f"bill-{ask[:4]}") as s:
        s.append("tool_call", {"id": "c1", "tool": "pay", "params": {"amount": 90}, "begun": False})
        s.append("suspended", {"id": ask, "kind": "permission", "call": "c1", "tool": "pay"})


def test_questions_in_spaces_are_hinted_at(run, library):
    """The list has those of its own space; the others are counted, and how to see them is said."""
    for name in ("alice", "bob", "eve"):
        TokenBook(library.store).create(name, "write")
        if name != "eve":
            with library.space(name) as space:
                waits(space, "aaaaaaaaaaaa")
    told = run("waiting").err
    assert "Waiting in spaces: 1 in alice, 1 in bob." in told
    assert "HOLDFAST_SPACE=alice holdfast waiting" in told
    assert json.loads(run("waiting", "--json").out) == {"waiting": []}


def test_badly_typed_arguments_are_kept(run, library, monkeypatch):
    """Who edits is told what is wrong and where, and goes on with what was typed; else nothing is answered."""
    waits(library, "aaaaaaaaaaaa")
    typed = iter(["{no json", '{"amount": 80}', "[1]"])
    seen = []
    monkeypatch.setattr("click.edit", lambda text, **_: seen.append(text) or next(typed))
    monkeypatch.setattr("click.confirm", lambda text, **_: seen.append(text) or True)
    monkeypatch.setattr("holdfast.apps.cli._app.App.can_ask", True)
    assert "Allowed with your arguments" in run("approve", "aaaa", "--edit").out
    assert "line 1 column 2" in seen[1]
    assert seen[2] == "{no json"
    waits(library, "bbbbbbbbbbbb")
    monkeypatch.setattr("holdfast.apps.cli._app.App.can_ask", False)
    assert "no JSON object" in run("approve", "bbbb", "--edit").err
    assert [one.id for one in library.waiting()] == ["bbbbbbbbbbbb"]
