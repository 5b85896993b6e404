"""An agent that asks for persistence finds its context again; one that does not, has none."""

from __future__ import annotations

import asyncio
import json
import pathlib
import runpy
import subprocess
import sys

import pytest

import holdfast
from holdfast.agent import Agent, Features, PersistentSession, RepairedWarning, memory_tools
from holdfast.errors import AgentTypeMismatch, Conflict, Forbidden, Locked, StoreError, TooNew, UsageError
from holdfast.library import Holdfast
from holdfast.session import Session

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"

HOLDER = """
import holdfast, sys
session = holdfast.open(sys.argv[1]).session(sys.argv[2])
session.user("mine")
print("open", flush=True)
input()
"""


def agent_file(store_root, agent_id="bot", name="agent.json"):
    """The path of an agent's document."""
    return store_root / "agents" / agent_id / name


@pytest.mark.req("S0-55", "B-23")
@pytest.mark.req("S0-5", "S0-76")
async def test_the_first_run_starts_empty_and_saves_by_itself(hf, script, store_root):
    """Nothing is stored before the first run; afterwards everything is, without a call to save."""
    agent = Agent(script("Hello").model, agent_id="bot", persistent_session=True, hf=hf)
    assert agent.session is None
    assert list(store_root.iterdir()) == []
    await agent.run("Hi")
    pointer = json.loads(agent_file(store_root).read_bytes())
    assert pointer["current_session"] == agent.session_id
    assert (pointer["version"], pointer["agent_type"]) == (1, "agent")
    agent.close()


@pytest.mark.req("S0-3", "S0-56", "S0-52", "S3-42", "S3-44")
@pytest.mark.req("S1-36", "S0-76")
async def test_a_second_agent_of_the_id_has_the_whole_context(script, texts, store_root):
    """Another object with the same id, in another library, goes on where the first one was."""
    with Agent(
        script("Hello Alice").model, agent_id="bot", persistent_session=PersistentSession(storage=str(store_root))
    ) as agent:
        await agent.run("My name is Alice")
    model = script("You are Alice")
    with Agent(model.model, agent_id="bot", persistent_session=PersistentSession(storage=str(store_root))) as again:
        assert again.session.restored
        result = await again.run("Who am I?")
    assert texts(model.requests[0]) == ["My name is Alice", "Hello Alice", "Who am I?"]
    assert result.session_id == agent.session_id or agent.session_id is None


class Counter:
    """A plugin that counts turns."""

    name = "counter"
    version = 1

    def __init__(self):
        self.turns = 0

    def get_state(self):
        """What is kept."""
        return {"turns": self.turns}

    def restore_state(self, state, _version):
        """Take it back."""
        self.turns = state["turns"]

    def on_turn_start(self, _context, _prompt):
        """Count."""
        self.turns += 1


@pytest.mark.req("S0-2", "S0-16", "S0-46")
@pytest.mark.parametrize("with_memory", [True, False])
async def test_all_that_an_agent_has_comes_back_if_its_feature_is_on(script, store_root, with_memory):
    """Words, memory, plugin, tools, permissions, variables, todos; memory only with its feature."""
    model = script([("remember", {"key": "name", "value": "Alice"})], "noted", "again")
    options = {
        "agent_id": "bot",
        "persistent_session": PersistentSession(storage=str(store_root)),
        "features": Features(memory=with_memory),
        "tools": memory_tools(),
    }
    with Agent(model.model, plugins=[Counter()], **options) as agent:
        await agent.run("I am Alice")
        agent.block_tool("delete_everything")
        agent.configure_tools(enabled={"forget": False})
        agent.session.variables["city"] = "Lisbon"
        agent.session.todos.write([{"content": "book a flight"}])
        said = agent.session.messages()
    plugin = Counter()
    with Agent(script("yes").model, plugins=[plugin], **options) as again:
        state = again.session.state
        assert again.session.messages() == said
        assert again.session.memory.get("name") == ("Alice" if with_memory else None)
        assert state.permissions.blocklist == ["delete_everything"]
        assert state.tools.enabled == {"forget": False}
        assert again.session.variables["city"] == "Lisbon"
        assert [todo["content"] for todo in state.todos] == ["book a flight"]
        await again.run("go on")
    assert plugin.turns == 2


@pytest.mark.req("S0-57")
@pytest.mark.req("S0-53")
async def test_manual_mode_stores_only_what_is_saved(script, store_root):
    """With autosave off and load off, load() and save() do the work and nothing else does."""
    manual = PersistentSession(storage=str(store_root), autosave_ms=0, save_on_close=False, load_on_create=False)
    agent = Agent(script("one").model, agent_id="bot", persistent_session=manual)
    assert agent.load() is False
    await agent.run("first")
    assert list(store_root.iterdir()) == []
    agent.save()
    await agent.run("second, not saved")
    agent.close()

    again = Agent(script("two").model, agent_id="bot", persistent_session=manual)
    assert again.session is None
    assert again.load() is True
    assert [turn["content"] for turn in again.session.history] == ["first", "one"]
    again.close()


@pytest.mark.req("S0-48", "S0-49", "S0-59")
async def test_a_staged_agent_saves_a_last_time_when_it_closes(script, store_root):
    """With autosave off and save on close, everything is stored at the end."""
    kept = PersistentSession(storage=str(store_root), autosave_ms=0)
    agent = Agent(script("one").model, agent_id="bot", persistent_session=kept)
    await agent.run("first")
    assert list(store_root.iterdir()) == []
    await agent.aclose()
    with Agent(script("x").model, agent_id="bot", persistent_session=kept) as again:
        assert len(again.session.history) == 2


@pytest.mark.req("S0-58")
async def test_autosave_flushes_while_the_agent_lives_and_stops_with_it(script, store_root, monkeypatch):
    """The timer flushes what is dirty, and after close it does nothing any more."""
    flushed = []
    flush = Session.flush
    monkeypatch.setattr(Session, "flush", lambda self: (flushed.append(self.id), flush(self)))
    kept = PersistentSession(storage=str(store_root), autosave_ms=20)
    agent = Agent(script("one").model, agent_id="bot", persistent_session=kept)
    await agent.run("first")
    flushed.clear()
    agent.session.variables["x"] = 1
    for _ in range(12000):
        if flushed:
            break
        await asyncio.sleep(0.01)
    assert flushed == [agent.session_id]  # dirty once, flushed once
    agent.close()
    flushed.clear()
    await asyncio.sleep(0.06)
    assert flushed == []


@pytest.mark.req("S0-4", "S0-47", "S0-60")
async def test_a_store_of_ones_own_keeps_the_agent(script):
    """A store that is written from the contract, and shares no code with ours, is the backend."""
    example = runpy.run_path(str(EXAMPLES / "custom_storage.py"))
    bucket = example["Bucket"]()
    for word in ("first", "second"):
        kept = PersistentSession(storage=example["BucketStore"](bucket, prefix="app"))
        async with Agent(script(word).model, agent_id="bot", persistent_session=kept) as agent:
            await agent.run(word)
            history = [turn["content"] for turn in agent.session.history]
    assert history == ["first", "first", "second", "second"]
    assert any(name.startswith("app/agents/bot/") for name in bucket.names("app"))


@pytest.mark.req("S0-50")
async def test_load_on_create_can_be_switched_off(hf, script):
    """Without it the agent starts afresh, and the earlier session stays."""
    with Agent(script("one").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        first = (await agent.run("first")).session_id
    fresh = PersistentSession(load_on_create=False)
    with Agent(script("two").model, agent_id="bot", persistent_session=fresh, hf=hf) as again:
        second = (await again.run("second")).session_id
    assert first != second
    assert hf.exists(first)


@pytest.mark.req("S0-45")
def test_the_feature_flag_switches_persistence_on_too(hf, script):
    """Features(persistent_session=True) is the same as persistent_session=True."""
    flagged = Agent(script("x").model, agent_id="bot", features=Features(persistent_session=True), hf=hf)
    flagged.run_sync("hi")
    assert flagged.session is not None
    flagged.close()
    assert Agent(script("x").model, agent_id="bot", hf=hf).session is None


@pytest.mark.req("S0-40", "S0-41", "S0-42", "S0-43", "S0-44", "S0-48", "S0-49", "S0-50")
def test_defaults_are_those_of_the_design():
    """Every feature and setting has its documented default."""
    features = Features()
    assert (features.memory, features.history, features.permissions) == (True, True, True)
    assert not features.in_context_memory
    assert not features.persistent_instructions
    assert not features.persistent_session
    kept = PersistentSession()
    assert (kept.autosave_ms, kept.save_on_close, kept.load_on_create) == (30_000, True, True)
    assert kept.storage is None


@pytest.mark.req("S0-12", "S0-13")
async def test_a_stored_agent_of_another_type_is_refused(hf, script):
    """An agent type that differs is a typed error, and what is stored is not touched."""
    with Agent(script("x").model, agent_id="bot", agent_type="task-agent", persistent_session=True, hf=hf) as agent:
        session_id = (await agent.run("hi")).session_id
    before = list(hf.events(session_id))
    with pytest.raises(AgentTypeMismatch) as caught:
        Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf)
    assert caught.value.stored == "task-agent"
    assert len(list(hf.events(session_id))) == len(before)


@pytest.mark.req("S0-13")
async def test_a_session_of_another_agent_type_is_refused(hf, script):
    """Also when the session is named by its id."""
    with Agent(script("x").model, agent_type="other", session_id="shared", persistent_session=True, hf=hf) as agent:
        await agent.run("hi")
    with pytest.raises(AgentTypeMismatch):
        Agent(script("x").model, agent_id="new", session_id="shared", hf=hf)
    with hf.session("shared") as session:  # it was given back
        assert session.restored


@pytest.mark.req("S0-54", "S0-69")
def test_an_odd_agent_id_is_mapped_to_a_safe_one(hf, script, store_root):
    """An id with odd characters never becomes a path."""
    agent = Agent(script("x").model, agent_id="../My Bot!", persistent_session=True, hf=hf)
    agent.run_sync("hi")
    assert agent.agent_id.startswith("my-bot-")
    assert [path.name for path in (store_root / "agents").iterdir()] == [agent.agent_id]
    assert agent.name == "../My Bot!"
    agent.close()


@pytest.mark.req("S0-63")
def test_a_deleted_session_means_a_fresh_start(hf, script):
    """If the current session is gone, the agent begins another one, without an error."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        gone = agent.run_sync("hi").session_id
    hf.delete(gone)
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as again:
        assert again.session is None
        assert again.run_sync("hi").session_id != gone


@pytest.mark.req("S0-64", "B-11")
def test_a_damaged_pointer_is_set_aside_and_the_newest_session_taken(hf, script, store_root):
    """A damaged agent.json never stops the agent: it warns, keeps the bytes and goes on."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        known = agent.run_sync("hi").session_id
    agent_file(store_root).write_bytes(b'{"version": 1, "curr')
    with pytest.warns(RepairedWarning):
        again = Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf)
    assert again.session.id == known
    again.run_sync("on we go")
    again.close()
    [aside] = agent_file(store_root).parent.glob("quarantine/agent.json-*")
    assert aside.read_bytes().endswith(b"curr")


@pytest.mark.req("S0-64", "B-11")
def test_a_damaged_session_is_repaired_with_a_warning(hf, script):
    """A session with damage in the middle is repaired; what is whole is there, and it goes on."""
    with Agent(script("one").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        agent.run_sync("hi")
        session_id = agent.run_sync("again").session_id
    log = hf.location(session_id)
    path = pathlib.Path(log)
    path = path / "events.jsonl" if path.is_dir() else path
    lines = path.read_bytes().splitlines(keepends=True)
    spot = next(i for i, line in enumerate(lines) if b'"user"' in line)
    lines[spot] = lines[spot][:20] + b"#" * 10 + lines[spot][30:]
    path.write_bytes(b"".join(lines))
    with pytest.warns(RepairedWarning):
        again = Agent(script("two").model, agent_id="bot", persistent_session=True, hf=hf)
    assert again.run_sync("still here?").output == "two"
    assert "again" in [turn["content"] for turn in again.session.history]
    again.close()


@pytest.mark.req("S0-61", "S0-62", "S0-65", "B-12")
def test_versions_of_the_pointer(hf, script, store_root):
    """A pointer without a version is taken, one of a newer version is refused untouched."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        known = agent.run_sync("hi").session_id
    path = agent_file(store_root)
    path.write_text(json.dumps({"current_session": known}))
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as again:
        assert again.session.id == known
    newer = json.dumps({"version": 99, "current_session": known})
    path.write_text(newer)
    with pytest.raises(TooNew):
        Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf)
    assert path.read_text() == newer


@pytest.mark.req("S0-66")
def test_a_store_that_cannot_be_used_is_a_clear_error(script, tmp_path):
    """Errors of the store reach the caller as typed errors with a remedy."""
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises((StoreError, Forbidden)) as caught:
        Agent(
            script("x").model, persistent_session=PersistentSession(storage=str(tmp_path / "file" / "store"))
        ).run_sync("hi")
    assert caught.value.remedy


@pytest.mark.req("S0-72", "S0-73", "B-33")
def test_a_second_writer_is_told_who_has_the_session(script, store_root):
    """Another library that has the session open makes the agent raise Locked."""
    kept = PersistentSession(storage=str(store_root))
    agent = Agent(script("x").model, agent_id="bot", persistent_session=kept)
    session_id = agent.run_sync("hi").session_id
    agent.close()
    held = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store_root), session_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert held.stdout.readline()
        with pytest.raises(Locked):
            Agent(script("x").model, agent_id="bot", persistent_session=kept)
    finally:
        held.communicate(b"\n", timeout=120)


def test_explicit_instructions_win_over_stored_ones(hf, script):
    """What the caller says goes; without it, what was stored is used again."""
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf}
    model = script("x")
    with Agent(model.model, instructions="be brief", **options) as agent:
        agent.run_sync("one")
    with Agent(model.model, **options) as agent:
        agent.run_sync("two")
    with Agent(model.model, instructions="be long", **options) as agent:
        agent.run_sync("three")
    with Agent(model.model, **options) as agent:
        agent.run_sync("four")
    told = [info.instructions for info in model.infos]
    assert told == ["be brief", "be brief", "be long", "be long"]


@pytest.mark.req("S0-23")
def test_the_configuration_is_kept(hf, script):
    """Model, window and strategy are part of the state."""
    agent = Agent(script("x").model, max_context_tokens=128_000, strategy="window")
    with hf.session("s") as session:
        agent.run_sync("hi", session=session)
        expected = {"model": "script", "max_context_tokens": 128_000, "strategy": "window"}
        assert session.state.config == expected


@pytest.mark.req("S0-46", "S0-43")
def test_without_history_the_conversation_is_not_kept(hf, script, texts):
    """With history off nothing of what was said is stored, and other state is."""
    from holdfast.agent import builtin_tools

    model = script([("set_variable", {"name": "x", "value": 1})], "one", "two")
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf}
    features = Features(history=False)
    with Agent(model.model, tools=builtin_tools(), features=features, **options) as agent:
        agent.run_sync("secret words")
        assert agent.session.variables["x"] == 1
        assert agent.session.history == []
        agent.run_sync("more")
    assert texts(model.requests[-1]) == ["more"]


@pytest.mark.req("B-2", "S3-44")
def test_a_session_id_alone_is_enough_to_go_on(script, texts, store_root, monkeypatch):
    """Naming a session asks for persistence: the same id continues it."""
    monkeypatch.setenv("HOLDFAST_STORE", str(store_root))
    with Agent(script("one").model, session_id="task-7") as agent:
        agent.run_sync("first")
    model = script("two")
    with Agent(model.model, session_id="task-7") as again:
        again.run_sync("second")
        assert again.session_id == "task-7"
    assert texts(model.requests[0]) == ["first", "one", "second"]


def test_a_new_session_leaves_the_old_one(hf, script):
    """new_session begins another session, which becomes the current one."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        first = agent.run_sync("one").session_id
        agent.new_session()
        second = agent.run_sync("two").session_id
    assert first != second
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as again:
        assert again.session.id == second


@pytest.mark.req("S0-30", "B-39")
def test_purging_an_agent_removes_its_sessions_and_documents(hf, script, store_root):
    """Sessions go to the trash, documents go, and what a person wrote stays unless asked."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        session_id = agent.run_sync("one").session_id
        agent.custom_instructions = "be kind"
        agent.session.memory.set("k", 1, scope="persistent")
        with pytest.raises(Locked):
            hf.purge_agent("bot")
    assert hf.purge_agent("bot") == 1
    assert not hf.exists(session_id)
    assert hf.store.documents("agents/bot").names() == ["custom_instructions.md"]
    hf.undelete(session_id)
    assert hf.purge_agent("bot", instructions=True) == 1
    assert hf.store.documents("agents/bot").names() == []


def test_only_a_persistent_agent_can_be_saved(script):
    """save, load and instructions of an agent without persistence name the way out."""
    agent = Agent(script("x").model)
    for act in (agent.save, agent.load, agent.new_session, lambda: agent.custom_instructions):
        with pytest.raises(UsageError, match="not persistent"):
            act()
    assert agent.status == "idle"


@pytest.mark.parametrize(
    "wrong",
    [
        {"persistent_session": "yes"},
        {"strategy": "magic"},
        {"strategy": "window"},
        {"max_context_tokens": 0},
        {"max_iterations": 0},
        {"max_iterations": "many"},
        {"persistent_session": {"autosave": 0}},
        {"features": {"magic": True}},
        {"features": 5},
        {"tools": 5},
        {"plugins": "one"},
        {"delegates": [5]},
        {"hf": "memory:"},
    ],
)
def test_wrong_settings_are_refused(script, wrong):
    """A setting that makes no sense is a UsageError when the agent is made."""
    with pytest.raises(UsageError):
        Agent(script("x").model, **wrong)


@pytest.mark.req("S0-53")
def test_settings_may_be_given_as_dicts(hf, script):
    """By the names that PersistentSession and Features have."""
    keep = {"storage": hf, "autosave_ms": 0, "save_on_close": False}
    agent = Agent(script("x").model, persistent_session=keep, features={"in_context_memory": True})
    agent.run_sync("Hello")
    assert agent.spec.features.in_context_memory
    assert not hf.exists(agent.session_id)
    agent.save()
    assert hf.exists(agent.session_id)
    agent.close()


@pytest.mark.parametrize("wrong", [-1, "soon", True])
def test_a_wrong_autosave_interval_is_refused(wrong):
    """The interval is a whole number of milliseconds, at least 0."""
    with pytest.raises(UsageError):
        PersistentSession(autosave_ms=wrong)


def test_a_library_given_as_storage_is_not_closed(hf, script):
    """What the caller opened stays open when the agent closes."""
    with Agent(script("x").model, agent_id="bot", persistent_session=PersistentSession(storage=hf)) as agent:
        agent.run_sync("hi")
    assert hf.session("other").id == "other"


@pytest.mark.req("S0-70", "B-28")
def test_credentials_are_not_stored(script, store_root, monkeypatch):
    """Keys in the environment and in the model's settings never reach the store."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with Agent(
        script("fine").model,
        agent_id="bot",
        persistent_session=PersistentSession(storage=str(store_root)),
        model_settings={"extra_headers": {"authorization": "sk-very-secret"}},
        deps={"key": "sk-very-secret"},
    ) as agent:
        agent.run_sync("hello")
    stored = [path.read_bytes() for path in store_root.rglob("*") if path.is_file()]
    assert stored
    assert not any(b"sk-very-secret" in data for data in stored)


def test_a_pointer_that_never_settles_is_a_conflict(hf, script, monkeypatch):
    """If another writer always wins, the agent says so instead of trying for ever."""
    agent = Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf)
    documents = type(hf.store.documents("agents/bot"))

    def lose(self, *args, **options):
        raise Conflict

    monkeypatch.setattr(documents, "put", lose)
    with pytest.raises(Conflict):
        agent.run_sync("hi")
    monkeypatch.undo()
    agent.close()


def test_saving_before_the_first_run_is_harmless(hf, script):
    """There is nothing to save yet; loading twice opens once."""
    with Agent(script("x").model, agent_id="bot", persistent_session=True, hf=hf) as agent:
        agent.save()
        assert hf.list() == []
        agent.run_sync("hi")
        assert agent.load()
        assert agent.load()
    agent.close()


def test_agent_is_a_name_of_the_package():
    """holdfast.Agent is this class, and importing holdfast alone does not load the engine."""
    assert holdfast.Agent is Agent
    probe = "import holdfast, sys; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_same_session_is_shared_within_a_process(store_root, script):
    """Two agents of one id in one process write to one session."""
    with Holdfast(store_root, timers=False) as library:
        one = Agent(script("1").model, agent_id="bot", persistent_session=True, hf=library)
        one.run_sync("a")
        two = Agent(script("2").model, agent_id="bot", persistent_session=True, hf=library)
        two.run_sync("b")
        assert one.session is two.session
        assert len(one.session.history) == 4
        one.close()
        assert not two.session.closed
        two.close()
