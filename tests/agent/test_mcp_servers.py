"""Tools of MCP servers are tools of the agent: asked for, recorded, and gone with it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import holdfast
import holdfast.agent._mcp_servers as mcp_servers
from holdfast.agent import Agent, McpServer, McpServerWarning, Runtime
from holdfast.errors import UsageError

PROGRAM = str(Path(__file__).with_name("mcp_program.py"))
PATIENCE_S = 60


@pytest.fixture
def calls(tmp_path):
    """The file into which the server writes what was called."""
    place = tmp_path / "calls"
    place.write_text("")
    return place


@pytest.fixture
def box(calls):
    """The server as a program, by what an agent is given."""
    env = {"BOX_WORD": "open sesame"}
    return {"name": "box", "command": sys.executable, "args": [PROGRAM, "stdio", str(calls)], "env": env}


def called(calls):
    """The tools that were called, in their order."""
    return [line.split()[0] for line in calls.read_text().splitlines()]


def is_there(pid):
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def offered(script):
    """The names that the model was told last."""
    return {tool.name for tool in script.infos[-1].function_tools}


def results(messages):
    """The results in a conversation, in their order."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


async def test_its_tools_are_called_and_recorded(hf, script, box, calls):
    """A tool that only reads runs unasked; one that may change something asks, and its no reaches the model."""
    asked = []
    model = script([("box_look", {"what": "gold"}), ("box_put", {"what": "hat"})], [("box_spoil", {})], "done")
    agent = Agent(model.model, mcp_servers=[box], permission=lambda request: asked.append(request.tool))
    with hf.session("s") as session:
        async with agent:
            result = await agent.run("go", session=session)
        told = [event.data for event in session.events() if event.type in ("tool_call", "tool_result")]
    assert asked == ["box_put"]
    assert called(calls) == ["look"]
    look, put, spoil = results(result.messages)
    assert look == "gold is here; open sesame"
    assert "not allow box_put" in str(put)
    assert "it is locked" in str(spoil)
    assert [data.get("tool") for data in told if "tool" in data] == ["box_look", "box_put", "box_spoil"]
    assert not is_there(int(calls.read_text().split()[1]))  # gone with the agent


def test_it_serves_runs_of_any_thread_and_is_one_process(script, box, calls):
    """The plain form has a loop for each thread; the server stays the same until the agent is closed."""
    from concurrent.futures import ThreadPoolExecutor

    model = script(*[[("box_look", {"what": "gold"})], "done"] * 3)
    with Agent(model.model, mcp_servers={"box": {name: box[name] for name in box if name != "name"}}) as agent:
        agent.run_sync("one")
        agent.run_sync("two")
        with ThreadPoolExecutor(1) as threads:
            threads.submit(agent.run_sync, "three").result()
    assert called(calls) == ["look"] * 3
    assert len({line.split()[1] for line in calls.read_text().splitlines()}) == 1


def test_one_that_dies_fails_the_call_and_is_back_in_the_next_run(script, box, calls, capfd):
    """The model hears that the outcome is not known; the run goes on, and the next one has a new process."""
    model = script([("box_die", {})], [("box_look", {"what": "it"})], "oh", [("box_look", {"what": "it"})], "well")
    with Agent(model.model, mcp_servers=[box]) as agent:
        with pytest.warns(McpServerWarning, match=r"box failed .*It said last: .*the lid fell, …") as told:
            first = agent.run_sync("one")
        second = agent.run_sync("two")
    assert len(told) == 1
    assert "the lid" not in capfd.readouterr().err  # nothing disturbs what is drawn
    died, gone = map(str, results(first.messages))
    assert "the MCP server box failed" in died
    assert "not known" in died
    assert "is gone" in gone
    assert (first.output, second.output) == ("oh", "well")
    assert "it is here" in str(results(second.messages))
    assert called(calls) == ["die", "look"]


def test_one_that_cannot_start_is_told_and_the_others_work(script, box, capfd):
    """By its name, why, and what to do; never by its address, which may hold secrets."""
    broken = McpServer("broken", command="/no/such/thing-83")
    far = McpServer("far", url="http://127.0.0.1:9/thing-83")
    code = "import os, sys; sys.exit('no key ' + os.environ['KEY'] + chr(27))"
    wordy = McpServer("wordy", command=sys.executable, args=["-c", code], env={"KEY": "thing-83"})
    model = script([("box_look", {"what": "gold"})], "done")
    servers = [broken, far, wordy, box]
    with Agent(model.model, mcp_servers=servers) as agent, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert agent.run_sync("go").output == "done"
    said = [str(one.message) for one in told if one.category is McpServerWarning]
    named = [f"The MCP server {server.name}" for server in (broken, far, wordy)]
    assert [text.split(" could")[0] for text in said] == named
    assert "It said last: no key …\N{SYMBOL FOR ESCAPE}" in said[2]
    assert "no key" not in capfd.readouterr().err
    assert "there is no such command" in said[0]
    assert "by hand" in said[0]
    assert "thing-83" not in str(said)


async def seen(hf, type):
    """Wait for an event of session ``s`` on the medium; what it says."""
    async with asyncio.timeout(PATIENCE_S):
        while not (hf.exists("s") and list(hf.events("s", types=[type]))):  # noqa: ASYNC110 - the medium has no event
            await asyncio.sleep(0.01)
    return [event.data["content"] for event in hf.events("s", types=[type])]


STUCK = McpServer("stuck", command=sys.executable, args=["-c", "import sys; sys.stdin.read()"])


async def test_a_prompt_is_on_record_before_servers_are_waited_for(hf, script):
    """A kill while a server starts does not lose the user's words, which are asked once by whoever goes on."""
    with hf.session("s") as session:
        async with Agent(script("never").model, mcp_servers=[STUCK]) as agent:
            run = asyncio.ensure_future(agent.run("keep me", session=session))
            assert await seen(hf, "user") == ["keep me"]
            run.cancel()
            await asyncio.wait([run])
        assert [event.data["reason"] for event in session.events() if event.type == "turn_end"] == ["cancelled"]
        model = script("hello")
        assert (await Agent(model.model).run(None, session=session)).output == "hello"
        assert [message["content"] for message in session.messages("neutral")] == ["keep me", "hello"]


async def test_a_prompt_in_the_place_of_an_answer_is_kept_as_well(hf, script, box, texts):
    """Of a session that waits it is heard after the call that is given up, also by a later process."""
    with hf.session("s") as session:
        async with Agent(script([("box_put", {"what": "hat"})]).model, mcp_servers=[box], permission="suspend") as one:
            assert (await one.run("go", session=session)).waiting
        async with Agent(script("never").model, mcp_servers=[STUCK]) as agent:
            run = asyncio.ensure_future(agent.run("never mind", session=session))
            assert await seen(hf, "steer") == ["never mind"]
            run.cancel()
            await asyncio.wait([run])
        model = script("fine")
        async with Agent(model.model) as agent:
            await agent.run("at all", session=session)
    given_up, said = texts(model.requests[0])[-2:]
    assert "interrupted" in given_up
    assert said == "['never mind', 'at all']"


@pytest.fixture
def net(calls):
    """The server by HTTP, in a process of its own."""
    with subprocess.Popen([sys.executable, PROGRAM, "http", str(calls)], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/mcp"
        process.terminate()


async def test_one_by_http_and_a_choice_of_its_tools(script, net):
    """A streamable address works as a command does; only the tools that are named are offered."""
    model = script([("net_put", {"what": "hat"})], "done")
    given = McpServer("net", url=net, asks="never", tools=["look", "put"])
    async with Agent(model.model, mcp_servers=[given]) as agent:
        result = await agent.run("go")
    assert results(result.messages) == ["hat is in the box"]
    assert offered(model) == {"net_look", "net_put"}


def test_one_by_http_that_dies_is_told_as_well(script, net):
    """Its connection may end before the call does: that is no reason to say nothing."""
    model = script([("box_die", {})], [("box_look", {"what": "it"})], "oh")
    far = {"name": "box", "url": net}
    with Agent(model.model, mcp_servers=[far]) as agent, pytest.warns(McpServerWarning, match="box failed") as told:
        first = agent.run_sync("one")
    assert len(told) == 1
    died, gone = map(str, results(first.messages))
    assert "not known" in died
    assert "is gone" in gone


def test_names_never_meet_and_delegates_have_their_own(script, box, calls):
    """The agent's own tool keeps its name; a delegate's server serves the delegate, and ends with the agent."""

    def box_look() -> str:
        """The agent's own."""
        return "mine"

    helper = script([("box_look", {"what": "gold"})], "found")
    lead = script([("ask_helper", {"task": "look"}), ("box_look", {})], "done")
    child = Agent(helper.model, name="helper", mcp_servers=[box])
    with Agent(lead.model, delegates=[child], tools=[box_look], mcp_servers=[box]) as agent:
        assert results(agent.run_sync("go").messages) == ["found", "mine"]
    assert {"box_look", "box_look_2", "box_put", "ask_helper"} <= offered(lead)
    assert called(calls) == ["look"]


@pytest.mark.parametrize("other", ["box_look", "box!"])
def test_a_tool_never_has_the_name_of_one_of_another_server(script, box, other):
    """What was allowed to one is not allowed to another whose name begins alike, be it there or not."""
    model = script("done")
    servers = [{**box, "tools": ["look_again"]}, {"name": other, "command": "/no/such/thing"}]
    with Agent(model.model, mcp_servers=servers) as agent, pytest.warns(McpServerWarning):
        agent.run_sync("go")
    [name] = offered(model)
    assert name.startswith("box_look_again_")


def test_what_a_server_does_wrong_is_not_shown(script, box, monkeypatch, capfd):
    """Lines that are no messages end up in no terminal, where people may be reading."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    code = "print('no message', flush=True); import sys; sys.exit(1)"
    wrong = {"name": "wrong", "command": sys.executable, "args": ["-c", code]}
    model = script("done")
    with Agent(model.model, mcp_servers=[wrong]) as agent, pytest.warns(McpServerWarning, match="wrong"):
        assert agent.run_sync("go").output == "done"
    assert capfd.readouterr().err == ""


def test_what_was_approved_days_later_is_called_once(hf, script, box, calls):
    """A call that waits is carried out by the process that gets the answer, with a server of its own."""
    first = Agent(script([("box_put", {"what": "hat"})]).model, mcp_servers=[box], permission="suspend", hf=hf)
    with first as agent, hf.session("s") as session:
        [one] = agent.run_sync("go", session=session).waiting
    assert called(calls) == []
    hf.answer(one.id, True)
    later = Agent(script("done").model, mcp_servers=[box], permission="suspend", hf=hf)
    with later, Runtime(later, hf) as runtime:
        assert runtime.wake_due_sync() == ["s"]
    assert called(calls) == ["put"]
    assert [event.data["result"] for event in hf.events("s", types=["tool_result"])] == ["hat is in the box"]


def test_a_program_that_never_closes_leaves_no_process(tmp_path, calls):
    """What is still open when a program ends is ended with it, quietly."""
    code = f"""
import sys
from pydantic_ai.models.test import TestModel
import holdfast
agent = holdfast.Agent(TestModel(call_tools=["box_look"]), mcp_servers={{"box": {{
    "command": sys.executable, "args": [{PROGRAM!r}, "stdio", {str(calls)!r}]}}}})
print(agent.run_sync("go").output)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "is here" in done.stdout
    assert "Traceback" not in done.stderr
    pid = int(calls.read_text().split()[1])
    until = time.monotonic() + PATIENCE_S
    while is_there(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_kill_in_the_middle_of_a_call_leaves_its_outcome_unknown(store_root, script, calls, texts):
    """After kill -9 the run that goes on tells the model so."""
    code = f"""
import sys, holdfast
from pydantic_ai.models.test import TestModel
box = {{"command": sys.executable, "args": [{PROGRAM!r}, "stdio", {str(calls)!r}], "asks": "never"}}
agent = holdfast.Agent(TestModel(call_tools=["box_strike"]), mcp_servers={{"box": box}})
with holdfast.open({str(store_root)!r}).session("s") as session:
    agent.run_sync("go", session=session)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, check=False)
    assert done.returncode == -signal.SIGKILL
    model = script("I see")
    with holdfast.open(store_root) as hf, hf.session("s") as session:
        assert Agent(model.model).run_sync(None, session=session).output == "I see"
    [told] = [text for text in texts(model.requests[0]) if "interrupted" in text]
    assert "unknown" in told
    assert called(calls) == ["strike"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("box", "mcp_servers are a list"),
        ([7], "a McpServer or a dict"),
        ([{"name": "a"}], "either a command or a url"),
        ([{"name": "a", "command": "x", "url": "http://y"}], "either a command or a url"),
        ([{"name": "a", "url": "ftp://y"}], "begins with http"),
        ([{"name": "a", "command": "x", "wat": 1}], "wat"),
        ([{"name": "a", "command": "x", "asks": "sometimes"}], "sometimes"),
        ([McpServer("a", command="x", asks="sometimes")], "sometimes"),
        ([McpServer("a", command="x"), McpServer("a", command="y")], "two MCP servers have the name"),
        ({"a": 7}, "a McpServer or a dict"),
    ],
)
def test_what_is_no_server_is_refused_at_once(script, given, told):
    """With what it has to have, before anything is started."""
    with pytest.raises(UsageError, match=told):
        Agent(script("hi").model, mcp_servers=given)


def test_without_the_package_the_extra_is_named(script, monkeypatch):
    """Whoever lacks it is told what to install, and not when the first run begins."""
    monkeypatch.setattr(mcp_servers, "can_use_servers", lambda: False)
    with pytest.raises(UsageError) as caught:
        Agent(script("hi").model, mcp_servers=[{"name": "a", "command": "x"}])
    assert "holdfast[mcp]" in caught.value.remedy


def test_settings_name_servers_but_not_those_of_a_project(tmp_path, monkeypatch):
    """A project that may be a stranger's starts no program."""
    from holdfast._config import configuration
    from holdfast.errors import Forbidden

    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    given = '[mcp_servers.box]\ncommand = "box"\n'
    assert configuration({"mcp_servers": {"box": {"command": "box"}}}).get("mcp_servers") == {"box": {"command": "box"}}
    with pytest.raises(UsageError, match="must be a table"):
        configuration({"mcp_servers": {"box": 7}})
    (tmp_path / "holdfast.toml").write_text(given)
    with pytest.raises(Forbidden, match="it may start programs"):
        configuration()
