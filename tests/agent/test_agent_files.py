"""Agents as Markdown files: found, read with care, and used by their names."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai.models.function import FunctionModel

import holdfast
from holdfast.agent import Agent, AgentFileWarning, Kit, builtin_tools, load_agents
from holdfast.agent._agent_files import read_agent_file
from holdfast.errors import UsageError

REVIEWER = """\
---
name: reviewer
description: "Reviews changes: quickly, and without mercy"
model: test
tools: Read, TodoWrite, Bash
delegates: [finder]
permission: suspend
limits:
  tokens: 5000
  cost: 0.5
---

You review changes.

---
Be brief.
"""
FINDER = """\
---
# written for another tool
name: finder
description: >
  Finds things
  in files.
tools:
- read_file
model: sonnet
color: purple
---
You find things.
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with a folder for agents, and a user with one."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".holdfast" / "agents").mkdir(parents=True)
    (project / "deep" / "down").mkdir(parents=True)
    (tmp_path / "config" / "holdfast" / "agents").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(project / "deep" / "down")
    return project / ".holdfast" / "agents"


@pytest.fixture
def own(tmp_path, project):
    """The user's folder for agents."""
    return tmp_path / "config" / "holdfast" / "agents"


def loaded(folder=None):
    """The agents, and what was told meanwhile."""
    told = []
    return load_agents(folder, tell=told.append), told


def test_files_of_the_project_and_the_user_are_found(project, own):
    """From anywhere in the project; its file counts before the user's of the same name."""
    (project / "reviewer.md").write_text(REVIEWER)
    (own / "reviewer.md").write_text("---\nname: reviewer\n---\nmine")
    (own / "helper.md").write_text("---\ndescription: helps\n---\nYou help.")
    agents, told = loaded()
    assert sorted(agents) == ["helper", "reviewer"]
    reviewer = agents["reviewer"]
    assert reviewer.path == str(project / "reviewer.md")
    assert reviewer.description == "Reviews changes: quickly, and without mercy"
    assert reviewer.tools == ["Read", "TodoWrite", "Bash"]
    assert (reviewer.limits.tokens, reviewer.limits.cost) == (5000, 0.5)
    assert reviewer.instructions == "You review changes.\n\n---\nBe brief."
    assert told == []


def test_a_file_of_another_tool_loads_and_what_is_not_known_is_told(project):
    """Its name, description, tools and short model are taken; a member that is not known is named with its line."""
    (project / "finder.md").write_text(FINDER)
    agents, told = loaded()
    finder = agents["finder"]
    assert (finder.description, finder.tools, finder.model) == ("Finds things in files.", ["read_file"], None)
    assert told == [f"{project / 'finder.md'}, line 10: 'color' is not known here, and left out"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("You help.", "line 1: it does not begin with a front matter"),
        ("---\nname: x\nYou help.", "line 3: its front matter does not end"),
        ("---\nname: x\nYou help.\n---\n", "line 3: this is no `key: value`: 'You help.'"),
        ("---\nname: x\n\ttools: y\n---\n", "line 3: tabs cannot indent"),
        ("---\nname: x\nname: y\n---\n", "line 3: name is there twice"),
        ("---\nname: [x]\n---\n", "line 2: name: it is a text"),
        ("---\nname: ''\n---\n", "line 2: name is empty"),
        ("---\n\ntools:\n  a: 1\n---\n", "line 3: tools: it is a list of names"),
        ("---\nlimits:\n  steps: 3\n---\n", "line 2: limits: limits has no setting 'steps'"),
        ("---\nlimits: {tokens\n---\n", "line 2: this list or table cannot be read"),
        ("---\npermission: always\n---\n", "line 2: permission: it is one of ask, suspend"),
        ("---\nmcp_servers:\n  git:\n    args: []\n---\n", "line 2: mcp_servers: the MCP server git"),
        (b"---\nname: \xff\n---\n", "line 2: it is not UTF-8"),
    ],
)
def test_one_that_cannot_be_read_is_named_with_its_line(project, text, told):
    """And left out; the others load."""
    (project / "bad.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    (project / "good.md").write_text("---\n---\nYou are good.")
    agents, said = loaded()
    assert list(agents) == ["good"]
    [line] = said
    assert line.startswith(str(project / "bad.md"))
    assert told in line


def test_a_symlink_is_followed_in_the_folder_of_the_user_only(project, own, tmp_path):
    """A user may keep the files elsewhere; those of a project may come from a stranger, and lead anywhere."""
    kept = tmp_path / "kept.md"
    kept.write_text("---\nname: kept\n---\nYou are kept.")
    for place in (project, own):
        (place / "link.md").symlink_to(kept)
        (place / "loop.md").symlink_to("loop.md")
    agents, told = loaded()
    assert {name: agent.path for name, agent in agents.items()} == {"kept": str(own / "link.md")}
    refused = [project / "link.md", project / "loop.md", own / "loop.md"]
    assert told == [
        f"{path} cannot be read: {path.name} is a symlink, which is not followed; the agent is left out"
        for path in refused
    ]


def test_a_project_starts_no_programs(project, own):
    """MCP servers that are described in a project's file are only named; those in the user's own file count."""
    text = "---\nname: {}\nmcp_servers:\n  git:\n    command: uvx\n    args: [mcp-server-git]\n---\n"
    (project / "a.md").write_text(text.format("a"))
    (own / "b.md").write_text(text.format("b"))
    agents, told = loaded()
    assert agents["a"].mcp_servers == ["git"]
    assert agents["b"].mcp_servers == {"git": {"command": "uvx", "args": ["mcp-server-git"]}}
    assert "line 3: a project's file starts no programs" in told[0]


def test_it_becomes_an_agent_with_its_delegates(project, hf, script):
    """With the tools that it names and that there are; what there is not is told, and the run works."""
    (project / "reviewer.md").write_text(
        REVIEWER.replace("model: test\n", "").replace("TodoWrite, ", "").replace("  cost: 0.5\n", "")
    )
    (project / "finder.md").write_text(FINDER.replace("color: purple\n", "delegates: reviewer\n"))

    def read_file(path: str) -> str:
        """Read a file."""
        return "text"

    model = script([("ask_finder", {"task": "look"})], "found", "done")
    agents = load_agents()
    with pytest.warns(AgentFileWarning, match="there is no tool 'Bash' here"):
        agent = agents["reviewer"].agent(model.model, tools=[read_file])
    with hf.session("s") as session:
        result = agent.run_sync("go", session=session)
        assert session.live_state.instructions == "You review changes.\n\n---\nBe brief."
    assert result.output == "done"
    assert {tool.name for tool in model.infos[0].function_tools} == {"read_file", "ask_finder"}
    assert {tool.name for tool in model.infos[1].function_tools} == {"read_file"}


def test_a_delegate_is_given_by_its_name(project, script):
    """An agent asks one that has a file, on its own model if the file names none."""
    (project / "helper.md").write_text("---\ndescription: Helps\ntools: []\n---\nYou help.")
    model = script([("ask_helper", {"task": "help"})], "helped", "done")
    assert Agent(model.model, delegates=["helper"]).run_sync("go").output == "done"
    with pytest.raises(UsageError, match="no agent 'nobody' has a file"):
        Agent(model.model, delegates=["nobody"])


def test_a_file_without_a_model_needs_one(project):
    """It is said which file, and what to do."""
    (project / "helper.md").write_text("---\n---\nYou help.")
    with pytest.raises(UsageError, match="names no model"):
        load_agents()["helper"].agent()
    assert isinstance(load_agents()["helper"].agent(FunctionModel(lambda *_: None)), Agent)


@pytest.mark.parametrize("noise", ["---\n" + "a:\n  " * 50 + "---", "---\n- a\n---", "---\nx: |\n---", "---\n:\n---"])
def test_strange_front_matters_end_in_an_answer(noise):
    """Whatever stands there, it is read or refused."""
    with contextlib.suppress(UsageError):
        assert read_agent_file(noise, "x.md").name == "x"


def test_run_uses_an_agent_by_its_name(project, tmp_path):
    """`holdfast run --agent NAME` has the file's model and instructions; a broken file is told, and nothing runs."""
    (project / "shouter.md").write_text("---\nmodel: test\ntools: []\n---\nYou shout.")
    (project / "bad.md").write_text("nothing")
    command = [str(Path(sys.executable).with_name("holdfast")), "--store", str(tmp_path / "store")]
    done = subprocess.run(
        [*command, "run", "hello", "--agent", "shouter", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOLDFAST_MODEL": "anthropic:nothing"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"model": "test"' in done.stdout
    assert "bad.md, line 1: it does not begin with a front matter" in done.stderr
    assert '"status": "completed"' in done.stdout
    with holdfast.open(tmp_path / "store") as hf:
        [row] = hf.list()
        assert (row.agent_id, hf.state(row.session_id).instructions) == ("shouter", "You shout.")


@pytest.mark.filterwarnings("ignore")
def test_an_agent_whose_file_cannot_be_used_is_not_another_one(project, own, monkeypatch):
    """Who asks for it by name gets no agent without its words, tools and limits; a good file of the user's counts."""
    (project / "bad.md").write_text("nothing")
    (project / "other.md").write_text("---\nname: named\nmodel: test\n---\n")
    with pytest.raises(UsageError, match="the agent bad has a file that cannot be used"):
        Kit.configured(None, model="test", agent="bad")
    with pytest.raises(UsageError, match="the agent bad has a file that cannot be used"):
        Agent("test", delegates=["bad"])
    monkeypatch.setenv("HOLDFAST_AGENT", "bad")
    with pytest.raises(UsageError, match="the agent bad has a file that cannot be used"):
        Kit.configured(None, model="test", agent=None)
    assert Kit.configured(None, model="test", agent="other").agent_id == "other"
    (own / "bad.md").write_text("---\nmodel: test\n---\nMine.")
    assert Kit.configured(None, model=None, agent="bad").agents["bad"].instructions == "Mine."


def test_on_the_embedded_model_it_keeps_its_words_and_limits(project):
    """Which calls no tools, and has a small window."""
    (project / "shouter.md").write_text('---\nlimits: {"tokens": 9}\n---\nYou shout.')
    kit = dataclasses.replace(Kit.configured(None, model="test", agent="shouter"), small_window=4096)
    habits = kit.habits(list, instructed=False)
    assert (habits["instructions"], habits["limits"].tokens, habits["tools"]) == ("You shout.", 9, [])


def test_run_tells_that_a_limit_stopped_it(project, tmp_path):
    """What has no answer has not succeeded."""
    (project / "thrifty.md").write_text('---\nmodel: test\ntools: TodoWrite\nlimits: {"tokens": 1}\n---\n')
    command = [str(Path(sys.executable).with_name("holdfast")), "--store", str(tmp_path / "store"), "run", "hello"]
    done = subprocess.run([*command, "--agent", "thrifty"], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "stopped at its limit of tokens" in done.stderr


def test_a_store_is_not_disturbed_by_files_of_agents(project):
    """A project's folder is its store too: what looks at all agents of the store passes over their files."""
    (project / "helper.md").write_text("---\n---\nYou help.")
    with holdfast.open(project.parent) as hf:
        Agent("test", agent_id="helper", persistent_session=True, hf=hf).run_sync("hi")
        assert hf.agents.damaged() == {}
        assert list(hf.store.folders("agents/")) == ["agents/helper"]


def test_every_app_makes_it_from_its_kit(project):
    """What serves agents to editors, browsers and programs has the file's model, words, tools and limits."""
    (project / "shouter.md").write_text('---\nmodel: test\ntools: read_file\nlimits: {"tokens": 9}\n---\nYou shout.')
    kit = Kit.configured(None, model=None, agent="shouter")
    habits = kit.habits(lambda: builtin_tools("."), instructed=True)
    assert (kit.model_name, habits["instructions"], habits["limits"].tokens) == ("test", "You shout.", 9)
    assert [tool.name for tool in habits["tools"]] == ["read_file"]
