"""The inbox by the command: list, approve, deny, from another process than the one that asks and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

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
    assert told.stdout.startswith("allow"), told.stderr
    assert "No tool calls are waiting" in holdfast("waiting").stderr
    if dies:
        assert program("resume", dies).returncode == -signal.SIGKILL
    assert program("resume", "").stdout == "completed\n"
    assert out.read_text() == effects
