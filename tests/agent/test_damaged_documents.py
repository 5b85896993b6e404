"""Documents of an agent that cannot be read: set aside, told, and gone on without."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.agent import Agent, Tool
from holdfast.apps.cli import cli
from holdfast.errors import StoreError, UsageError
from holdfast.model import Notice

DAMAGE = {"cut": b'{"ver', "not text": b"\xff\xfe\x00", "empty": b"", "another": b'["a list"]'}
NAMES = ("memory.json", "permissions.json", "agent.json", "plugins/lasting.json")
CASES = [(name, "cut") for name in NAMES] + [("memory.json", how) for how in DAMAGE if how != "cut"]
names = pytest.mark.parametrize("name", NAMES)


class Lasting:
    """A plugin whose state belongs to the agent."""

    name, version, scope = "lasting", 1, "persistent"

    def __init__(self):
        self.turns = 0

    def get_state(self):
        return {"turns": self.turns}

    def restore_state(self, state, version):
        self.turns = state["turns"]

    def on_turn_start(self, context, prompt):
        self.turns += 1


def deploy() -> str:
    """Deploy."""
    return "deployed"


def make(hf, script):
    """An agent that has one of each document; it deploys once in a run."""
    return Agent(
        script([("deploy", {})], "done").model,
        agent_id="bot",
        hf=hf,
        persistent_session=True,
        features={"in_context_memory": True},
        plugins=[Lasting],
        tools=[Tool(deploy, needs_permission=True)],
        permission=lambda _: "always",
    )


def begin(hf, script):
    """Let the agent run once, and remember something; its session."""
    with make(hf, script) as agent:
        agent.run_sync("go")
        agent.session.memory.set("k", 1, description="one", scope="persistent")
        return agent.session_id


def place(store_root, name):
    return store_root / "agents" / "bot" / name


def asides(hf):
    documents = hf.store.documents("agents/bot")
    return [documents.get(name)[0] for name in documents.names("quarantine/")]


@pytest.mark.req("S0-64", "S0-80")
@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.filterwarnings("ignore::holdfast.agent.RepairedWarning")
def test_a_damaged_document_stops_no_agent(hf, script, store_root, caplog, case):
    """It is set aside with a warning, the caller is told, and the rest is as it was."""
    (name, damage), id, heard = case, begin(hf, script), []
    place(store_root, name).write_bytes(DAMAGE[damage])
    hf.subscribe(lambda _, what: heard.append(what) if isinstance(what, Notice) else None)
    with make(hf, script) as agent:
        result = agent.run_sync("again")
        assert (result.output, agent.session_id) == ("done", id)
        assert agent.session.memory.get("k") == (None if name == "memory.json" else 1)
        agent.session.memory.set("new", 2, scope="persistent")
        assert agent.run_sync("on").notices == []
    [notice] = result.notices
    assert name in notice.detail["what"]
    assert [what for what in heard if what.kind == "repaired"] == [notice]
    assert name in caplog.text
    assert asides(hf) == [DAMAGE[damage]]
    with make(hf, script) as agent:
        assert agent.run_sync("later").notices == []
        assert agent.session_id == id
        assert agent.session.memory.get("new") == 2
    assert len(asides(hf)) == 1


@pytest.mark.req("S0-80")
@names
def test_doctor_names_it_and_repair_mends_it(hf, script, store_root, name):
    """The command says which document, with what to do; that done, all is well."""
    begin(hf, script)
    place(store_root, name).write_bytes(b"{")

    def run(*arguments):
        return CliRunner(env={"HOLDFAST_STORE": str(store_root)}).invoke(cli, list(arguments))

    sick = run("doctor")
    assert sick.exit_code == 4
    assert f"{name} of bot cannot be read" in sick.stdout
    assert "holdfast repair --agent bot" in sick.stdout
    assert hf.agents.damaged() == {"bot": [name]}
    mended = run("repair", "--agent", "bot", "--json")
    assert mended.exit_code == 0
    assert list(json.loads(mended.stdout)["documents"]) == [name]
    assert "nothing to repair" in run("repair", "--agent", "bot").stdout
    assert run("doctor").exit_code == 0
    assert asides(hf) == [b"{"]
    with make(hf, script) as agent:  # nothing is told: nothing is damaged any more
        assert agent.run_sync("again").notices == []


@pytest.mark.parametrize("arguments", [["repair"], ["repair", "a", "--agent", "b"]])
def test_repair_takes_a_session_or_an_agent(arguments, store_root):
    """Neither, or both, is wrong usage, with what to do."""
    done = CliRunner(env={"HOLDFAST_STORE": str(store_root)}).invoke(cli, arguments)
    assert done.exit_code == 2
    assert "--agent" in done.stderr


def test_what_is_set_right_while_others_write_is_theirs(hf):
    """A document that somebody mended meanwhile is taken as it is now."""
    documents = hf.store.documents("agents/default")
    documents.put("memory.json", b"{")
    put = type(documents).put

    def mend(self, name, data, **options):
        put(self, name, data, **options)
        if name.startswith("quarantine/"):
            put(self, "memory.json", b'{"version":1,"entries":{}}')

    with hf.session("a") as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(documents), "put", mend)
        assert session.memory.get("k") is None
    assert documents.get("memory.json")[0] == b'{"version":1,"entries":{}}'


def test_a_store_that_cannot_be_written_is_read_all_the_same(hf, monkeypatch, caplog):
    """What cannot be set aside counts as empty, and is told once."""
    documents = hf.store.documents("agents/default")
    documents.put("memory.json", b"{")

    def refuse(*_args, **_options):
        raise StoreError("the disk is read-only")

    with hf.session("a") as session:
        monkeypatch.setattr(type(documents), "put", refuse)
        assert session.memory.get("k") is None
        assert session.memory.entries() == {}
        monkeypatch.undo()
    assert caplog.text.count("could not be set aside") == 1
    assert documents.get("memory.json")[0] == b"{"


def test_whoever_only_reads_changes_nothing(hf):
    """A session that was opened to read leaves a damaged document where it is."""
    with hf.session("a") as session:
        session.user("hi")
    documents = hf.store.documents("agents/default")
    documents.put("memory.json", b"{")
    with hf.session("a", read_only=True) as session:
        assert session.memory.get("k") is None
        assert "memory.json" in session.repairs[0].detail["what"]
    assert documents.names() == ["memory.json"]


def test_an_agent_is_named_by_an_id(hf):
    """What is no id is refused before anything is looked for."""
    with pytest.raises((UsageError, holdfast.errors.InvalidId)):
        hf.agents.repair("../else")
    assert hf.agents.repair("nobody") == {}
