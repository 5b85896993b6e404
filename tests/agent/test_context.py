"""What an agent carries with it: memory, instructions, plugins, todos and the built-in tools."""

from __future__ import annotations

import os

import pytest

from holdfast.agent import Agent, Features, PluginWarning, builtin_tools, file_tools, memory_tools, todo_tool
from holdfast.agent import _spec as plugins_module
from holdfast.errors import Forbidden, NotFound, TooLarge, UsageError
from holdfast.replay import recover_todos
from holdfast.storage.outside import Folder


async def use(hf, script, tools, *steps, id="s", **options):
    """Let a scripted model use tools; what they gave, in the order of the calls."""
    agent = Agent(script(*steps, "done").model, tools=tools, **options)
    with hf.session(id, agent_id="bot") as session:
        await agent.run("go", session=session)
        events = list(session.events())
    found = {e.data["toolCallId"]: e.data["result"] for e in events if e.type == "tool_result"}
    return [found[e.data["id"]] for e in events if e.type == "tool_call"]


# -- memory ------------------------------------------------------------------------------------


@pytest.mark.req("B-44")
async def test_remember_and_recall(hf, script):
    """Session memory is the session's, persistent memory the agent's; recall finds both."""
    lasting = {"key": "name", "value": "Alice", "description": "the user", "scope": "persistent"}
    found = await use(
        hf,
        script,
        memory_tools(),
        [("remember", {"key": "x", "value": [1, 2]})],
        [("remember", lasting)],
        [("recall", {"key": "x"}), ("recall", {}), ("recall", {"key": "nothing"})],
    )
    assert found[2] == [1, 2]
    assert found[3] == {"x": "", "name": "the user"}
    assert found[4] == "nothing is remembered under nothing"
    later = await use(hf, script, memory_tools(), [("recall", {"key": "name"})], [("recall", {"key": "x"})], id="t")
    assert later == ["Alice", "nothing is remembered under x"]


async def test_forgetting(hf, script):
    """What is forgotten is gone; forgetting nothing says so."""
    steps = [[("remember", {"key": "x", "value": 1})], [("forget", {"key": "x"})]]
    found = await use(hf, script, memory_tools(), *steps, [("forget", {"key": "x"})])
    assert found[1:] == ["forgot x", "nothing was remembered under x"]


async def test_memory_has_limits(hf, script, monkeypatch):
    """An entry that is too large, or a full memory, is an error that says so."""
    from holdfast.agent import _builtin

    monkeypatch.setattr(_builtin, "MEMORY_BYTES_MAX", 100)
    big = {"key": "big", "value": "x" * 70_000}
    found = await use(
        hf,
        script,
        memory_tools(),
        [("remember", big)],
        [("remember", {"key": "a", "value": "x" * 60})],
        [("remember", {"key": "a", "value": "y" * 60})],
        [("remember", {"key": "b", "value": "x" * 60})],
    )
    assert "at most 65,536" in found[0]["message"]
    assert found[1:3] == ["remembered a", "remembered a"]
    assert "full" in found[3]["message"]


@pytest.mark.req("S0-41", "S0-22")
async def test_in_context_memory_is_part_of_the_instructions(hf, script):
    """With the feature on, the model is told what is remembered, the important first."""
    model = script("ok")
    shown = Features(in_context_memory=True)
    with hf.session("s", agent_id="bot") as session:
        session.memory.set("city", "Paris", description="where to go")
        session.memory.set("rule", {"max": 5}, priority="critical")
        session.memory.set("long", "x" * 20_000)
        session.memory.set("first", "p", pinned=True, priority="low")
        await Agent(model.model, instructions="be kind", features=shown).run("go", session=session)
        await Agent(model.model, instructions="be kind").run("go", session=session)
    lines = model.infos[0].instructions.splitlines()
    assert lines == [
        "be kind",
        "",
        "What you remember:",
        "- first: p",
        '- rule: {"max":5}',
        "- city (where to go): Paris",
        "- long: (use recall to read it)",
    ]
    assert model.infos[1].instructions == "be kind"


async def test_in_context_memory_stays_short(hf, script):
    """Many entries never fill the window: the rest is only hinted at."""
    model = script("ok")
    with hf.session("s") as session:
        for number in range(50):
            session.memory.set(f"key-{number:02}", "x" * 400)
        await Agent(model.model, features=Features(in_context_memory=True)).run("go", session=session)
    assert len(model.infos[0].instructions) < 9_000
    assert model.infos[0].instructions.endswith("(more: use recall)")


# -- instructions ------------------------------------------------------------------------------


@pytest.mark.req("S0-8", "S0-42")
async def test_a_person_may_edit_the_instructions_between_runs(hf, script, store_root):
    """custom_instructions.md is read at each run, and never written by a run."""
    model = script("ok")
    options = {"agent_id": "bot", "persistent_session": True, "hf": hf}
    features = Features(persistent_instructions=True)
    with Agent(model.model, instructions="be kind", features=features, **options) as agent:
        await agent.run("one")
        agent.custom_instructions = "  speak French  "
        await agent.run("two")
        path = store_root / "agents" / "bot" / "custom_instructions.md"
        assert path.read_text() == "speak French\n"
        path.write_text("speak German\n")
        await agent.run("three")
        assert agent.custom_instructions == "speak German"
        agent.custom_instructions = None
        await agent.run("four")
    with Agent(model.model, **options) as agent:
        agent.custom_instructions = "unheard"
        await agent.run("five")
    assert [info.instructions for info in model.infos] == [
        "be kind",
        "be kind\n\nspeak French",
        "be kind\n\nspeak German",
        "be kind",
        "be kind",
    ]


# -- plugins -----------------------------------------------------------------------------------


class Counter:
    """A plugin that counts turns and tools."""

    name = "counter"
    version = 2

    def __init__(self):
        self.turns = 0
        self.seen = []
        self.restored = None

    def get_state(self):
        """What is kept."""
        return {"turns": self.turns}

    def restore_state(self, state, version):
        """Take it back."""
        self.turns = state["turns"]
        self.restored = version

    def on_turn_start(self, context, prompt):
        """Count."""
        self.turns += 1
        self.seen.append(("start", prompt))

    def on_turn_end(self, context, output):
        """Note."""
        self.seen.append(("end", output))

    def on_tool(self, context, name, args):
        """Note."""
        self.seen.append(("tool", name, args))


@pytest.mark.req("S0-17", "S0-22")
async def test_a_plugin_gets_its_state_back_and_hears_of_turns(hf, script):
    """State is kept with the session, with its version; hooks are called in order."""
    plugin = Counter()
    model = script([("TodoWrite", {"todos": []})], "done")
    with hf.session("s") as session:
        agent = Agent(model.model, plugins=[plugin], tools=[todo_tool()])
        await agent.run("go", session=session)
        kept = session.state.plugins["counter"]
        assert (kept.state, kept.version) == ({"turns": 1}, 2)
    assert plugin.seen == [("start", "go"), ("tool", "TodoWrite", {"todos": []}), ("end", "done")]
    again = Counter()
    with hf.session("s") as session:
        await Agent(script("x").model, plugins=[again]).run("go", session=session)
        states = [e for e in session.events() if e.type == "plugin_state"]
    assert (again.turns, again.restored, len(states)) == (2, 2, 2)


@pytest.mark.req("S0-17")
async def test_state_of_an_unknown_plugin_survives(hf, script):
    """What belongs to a plugin that is not here stays in the session as it was."""
    with hf.session("s") as session:
        session.append("plugin_state", {"name": "foreign", "state": {"x": 1}, "version": "3b"})
        await Agent(script("x").model, plugins=[Counter()]).run("go", session=session)
    assert hf.state("s").plugins["foreign"].state == {"x": 1}


async def test_a_class_gives_each_session_its_own_plugin(hf, script):
    """Given as a class, a plugin of one session never sees another's turns."""
    agent = Agent(script("x").model, plugins=[Counter])
    with hf.session("a") as a, hf.session("b") as b:
        await agent.run("1", session=a)
        await agent.run("2", session=a)
        await agent.run("3", session=b)
    turns = [hf.state(id).plugins["counter"].state["turns"] for id in "ab"]
    assert turns == [2, 1]


async def test_a_plugin_that_fails_never_disturbs_the_agent(hf, script):
    """Its failure is a warning, and the answer comes all the same."""

    class Broken(Counter):
        name = "broken"

        def on_turn_start(self, context, prompt):
            raise RuntimeError("no")

    with hf.session("s") as session, pytest.warns(PluginWarning, match="broken failed"):
        result = await Agent(script("fine").model, plugins=[Broken()]).run("go", session=session)
    assert result.output == "fine"


async def test_a_plugin_with_nothing_to_keep_leaves_no_trace(hf, script):
    """A state of None is not recorded, and an unchanged one only once."""

    class Silent(Counter):
        def get_state(self):
            return None

    with hf.session("s") as session:
        await Agent(script("x").model, plugins=[Silent()]).run("go", session=session)
        assert session.state.plugins == {}


@pytest.mark.req("S0-7", "S0-34")
async def test_a_lasting_plugin_has_one_state_for_all_sessions_of_the_agent(hf, script, store_root):
    """With scope persistent the state is a document of the agent, and no event."""

    class Lasting(Counter):
        scope = "persistent"

    options = {"agent_id": "bot", "persistent_session": True, "hf": hf}
    with Agent(script("x").model, plugins=[Lasting], **options) as agent:
        await agent.run("one")
        agent.new_session()
        await agent.run("two")
        assert agent.session.state.plugins == {}
    path = store_root / "agents" / "bot" / "plugins" / "counter.json"
    assert path.read_bytes() == b'{"name":"counter","state":{"turns":2},"version":2}'
    path.write_bytes(b"{")
    agent = Agent(script("x").model, plugins=[Lasting], **options)
    [notice] = (await agent.run("three")).notices
    assert notice.detail["what"].startswith("plugins/counter.json is damaged")
    agent.close()
    assert b'"turns":1' in path.read_bytes()
    [aside] = path.parents[1].glob("quarantine/plugins-counter.json-*")
    assert aside.read_bytes() == b"{"
    hf.purge_agent("bot")
    assert not path.exists()


def test_plugins_are_found_by_name(script, monkeypatch):
    """An installed plugin is found through its entry point; a wrong one is refused."""

    class Point:
        name = "counter"

        def load(self):
            return Counter

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()])
    [found] = plugins_module.find_plugins(["counter"])
    assert isinstance(found, Counter)
    with pytest.raises(UsageError) as caught:
        Agent(script("x").model, plugins=["missing"])
    assert "counter" in caught.value.remedy
    with pytest.raises(UsageError):
        Agent(script("x").model, plugins=[object()])
    with pytest.raises(UsageError):
        Agent(script("x").model, plugins=[Counter(), Counter()])


# -- todos -------------------------------------------------------------------------------------


def todo(content, status="pending", **more):
    """One item of a list."""
    return {"content": content, "status": status, "activeForm": content + "ing", **more}


@pytest.mark.req("S3-67", "S3-69", "S3-70", "S3-71", "S3-41")
async def test_todos_are_recovered_and_the_last_list_wins(hf, script):
    """Each call holds the whole list; opened again, the session has the last one, with ids."""
    first = [("TodoWrite", {"todos": [todo("book", "in_progress"), todo("pack")]})]
    second = [("TodoWrite", {"todos": [todo("book", "completed"), todo("pack", "in_progress")]})]
    await use(hf, script, [todo_tool()], first, second)
    with hf.session("s") as session:
        assert [(t["content"], t["status"]) for t in session.todos] == [("book", "completed"), ("pack", "in_progress")]
        assert all(len(item["id"]) == 8 for item in session.todos)
    assert [t["content"] for t in recover_todos(hf.events("s"))] == ["book", "pack"]


@pytest.mark.req("S3-68")
@pytest.mark.parametrize(
    "wrong",
    [
        [todo("a", "in_progress"), todo("b", "in_progress")],
        [todo("Same"), todo("same ")],
        [{"content": " ", "status": "pending"}],
        "not a list",
    ],
)
async def test_a_list_that_breaks_a_rule_changes_nothing(hf, script, wrong):
    """The model is told, and the list before it stays, also after a restart."""
    good = [("TodoWrite", {"todos": [todo("good")]})]
    found = await use(hf, script, [todo_tool()], good, [("TodoWrite", {"todos": wrong})])
    assert found[1]["error"]
    with hf.session("s") as session:
        assert [item["content"] for item in session.todos] == ["good"]


@pytest.mark.req("S3-72")
async def test_todos_are_in_the_log_alone(hf, script, store_root):
    """No file for todos is written anywhere."""
    await use(hf, script, [todo_tool()], [("TodoWrite", {"todos": [todo("x")]})])
    assert not [path for path in store_root.rglob("*") if "todo" in path.name.lower()]


# -- variables and past sessions ---------------------------------------------------------------


async def test_variables_by_tool(hf, script):
    """A variable that the model sets can be read by it and by the program."""
    found = await use(
        hf,
        script,
        builtin_tools(),
        [("set_variable", {"name": "x", "value": 10})],
        [("get_variable", {"name": "x"}), ("get_variable", {"name": "y"}), ("get_variable", {})],
    )
    assert found == ["x is set", 10, "there is no variable y", {"x": 10}]


async def test_past_sessions_can_be_searched(hf, script):
    """The agent finds what was said in its other sessions, and nothing of the current one."""
    with hf.session("old", agent_id="bot", title="Budget talk") as session:
        session.user("My favourite colour is a very dark green")
    with hf.session("stranger", agent_id="other") as session:
        session.user("green too")
    steps = [[("recall_sessions", {"query": word})] for word in ("GREEN colour", "budget", "red")]
    agent = Agent(script(*steps, "done").model, tools=builtin_tools(), hf=hf)
    with hf.session("s", agent_id="bot") as session:
        await agent.run("which green colour?", session=session)
        found = [e.data["result"] for e in session.events() if e.type == "tool_result"]
    assert found[0][0]["session"] == "old"
    assert "dark green" in found[0][0]["text"]
    assert found[1] == [{"session": "old", "title": "Budget talk"}]
    assert found[2] == "nothing about red was found"
    alone = Agent(script([("recall_sessions", {"query": "x"})], "done").model, tools=builtin_tools())
    result = await alone.run("go")
    assert "no past conversations" in str(result.messages[2])


# -- files -------------------------------------------------------------------------------------


async def test_files_are_read_with_permission_only(hf, script, tmp_path):
    """read_file and list_directory ask; inside the directory they work."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("hello")
    steps = [[("list_directory", {})], [("read_file", {"path": "sub/a.txt"})]]
    denied = await use(hf, script, file_tools(str(tmp_path)), *steps, id="denied")
    assert all("Permission denied" in result["message"] for result in denied)
    allowed = {"permission": lambda request: "session"}
    found = await use(hf, script, file_tools(str(tmp_path)), *steps, id="allowed", **allowed)
    assert found[0] == ["store/", "sub/"]
    assert found[1] == "hello"


@pytest.fixture
def folder(tmp_path):
    """A directory with a file, a link out of it, a pipe and something binary."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("hello")
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "link").symlink_to("/etc")
    (root / "alias").symlink_to("a.txt")
    (tmp_path / "outside.txt").write_text("secret")
    return root


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../outside.txt", Forbidden),
        ("/etc/passwd", Forbidden),
        ("link/passwd", Forbidden),
        ("alias", Forbidden),
        (".", NotFound),
        ("missing", NotFound),
        ("missing/deep", NotFound),
        ("a.txt/deeper", Forbidden),
        ("a\0b", UsageError),
    ],
)
def test_nothing_outside_of_the_directory_can_be_read(folder, path, error):
    """No path, absolute, upward or through a symlink, leads out of the directory."""
    with pytest.raises(error):
        Folder(str(folder)).read(path, 1000)


def test_what_is_inside_can_be_read(folder):
    """Files of the directory are read, up to a size; of anything else it is said what it is."""
    inside = Folder(str(folder))
    assert inside.read("a.txt", 5) == b"hello"
    assert inside.read(str(folder / "a.txt"), 5) == b"hello"
    with pytest.raises(TooLarge):
        inside.read("a.txt", 4)
    assert [entry.name for entry in inside.names()] == ["a.txt", "alias", "binary", "link"]
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    for name, said in {
        "sub": "a directory",
        "alias": "a symlink, which is not followed",
        "pipe": "no plain file",
    }.items():
        with pytest.raises(Forbidden, match=f"{name} is {said}"):
            inside.read(name, 10)


async def test_a_binary_file_is_refused_with_a_reason(hf, script, folder):
    """What is not text is not shown as text."""
    allowed = {"permission": lambda request: True}
    steps = [[("read_file", {"path": "binary"})]]
    [found] = await use(hf, script, file_tools(str(folder)), *steps, **allowed)
    assert "not text" in found["message"]


def test_file_tools_come_only_with_a_root():
    """Without a directory there are no tools that read files."""
    names = {tool.name for tool in builtin_tools()}
    assert "read_file" not in names
    assert {"TodoWrite", "remember", "recall_sessions"} <= names
    assert "remember" not in {tool.name for tool in builtin_tools(memory=False)}
    assert "read_file" in {tool.name for tool in builtin_tools(".")}
