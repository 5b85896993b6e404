"""Real agents behind the proxy, against a scripted model and without a network.

`make test` runs the quickest of them, `make test-peers` all; see ``tests/peers.py``.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

pytestmark = [pytest.mark.peers, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")]
rarely = pytest.mark.skipif(os.environ.get("PEERS") != "all", reason="run by `make test-peers`")

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
NOTES = "plant QUINCES in autumn"
FIRST, SECOND = "Read notes.txt and remember HELIOTROPE.", "And how does it GO_ON?"
THIRD, FOURTH = "Tell me a LONG_TALE.", "What was the LAST_WORD?"
DEPLOY, DEPLOYED = "Deploy, as in SAXIFRAGE.", "touch deployed && sleep 60"
TALE = " ".join(f"w{number}" for number in range(400))


class Agent:
    """One real agent: how it is installed, set up and started, and with what tool it reads."""

    peer: tuple[object, ...]
    arguments: tuple[str, ...] = ()
    provider = "openai"
    ways = frozenset({"load"})
    """How it gets a session back after it was killed."""
    in_one_minute = False
    """Whether what its load does depends on the clock."""
    result = "QUINCES"
    """What the model must know of the tool's result; Gemini never tells it its client."""

    def set_up(self, home: Path, model: ScriptedModel) -> dict[str, str]:
        """Write its settings; what its environment needs."""
        raise NotImplementedError

    def reads(self, path: Path) -> AskForTool:
        """The call with which the model reads a file."""
        raise NotImplementedError

    def runs(self, command: str) -> AskForTool:
        """The call with which the model runs a command."""
        about = {"description": "deploys", "is_background": False}
        return AskForTool("run_shell_command", {"command": command, **about})


class Qwen(Agent):
    peer = ("qwen", "@qwen-code/qwen-code", "0.15.10", "qwen")
    arguments = ("--acp",)

    def set_up(self, home, model):
        return {
            "OPENAI_API_KEY": "dummy",
            "OPENAI_BASE_URL": model.openai_url,
            "OPENAI_MODEL": "scripted",
            # It would take a proxy for loopback, too.
            "HTTPS_PROXY": "",
            "https_proxy": "",
        }

    def reads(self, path):
        return AskForTool("read_file", {"file_path": str(path)})


class NewerQwen(Qwen):
    peer = ("qwen", "@qwen-code/qwen-code", "0.24.4", "qwen", True)


class Opencode(Agent):
    peer = ("opencode", "opencode-ai", "1.18.33", "opencode")
    arguments = ("acp",)

    def set_up(self, home, model):
        limit = {"context": 100_000, "output": 8_000}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": model.openai_url, "apiKey": "dummy"},
            "models": {"scripted": {"tool_call": True, "limit": limit}},
        }
        settings = {
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "autoupdate": False,
            "share": "disabled",
            "provider": {"scripted": provider},
        }
        folder = home / ".config" / "opencode"
        folder.mkdir(parents=True)
        (folder / "opencode.json").write_text(json.dumps(settings))
        quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in quiet}

    def reads(self, path):
        return AskForTool("read", {"filePath": str(path)})


class AskingOpencode(Opencode):
    """It asks before it runs a command only if it is told to."""

    def set_up(self, home, model):
        found = super().set_up(home, model)
        place = home / ".config" / "opencode" / "opencode.json"
        settings = json.loads(place.read_text()) | {"permission": {"bash": "ask"}}
        place.write_text(json.dumps(settings))
        return found

    def runs(self, command):
        return AskForTool("bash", {"command": command, "description": "deploys"})


class Claude(Agent):
    peer = ("claude-agent-acp", "@agentclientprotocol/claude-agent-acp", "0.49.0", "claude-agent-acp")
    provider = "anthropic"
    ways = frozenset({"load", "new"})  # killed at once, it may not have written anything

    def set_up(self, home, model):
        return {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }

    def reads(self, path):
        return AskForTool("Read", {"file_path": str(path)})


class NewerClaude(Claude):
    peer = (*Claude.peer[:2], "0.99.0", "claude-agent-acp", True)


class Gemini(Agent):
    peer = ("gemini-cli", "@google/gemini-cli", "0.61.0", "gemini")
    arguments = ("--acp",)
    provider = "gemini"
    ways = frozenset({"new"})
    in_one_minute = True
    result = r"Assistant used read: {\"paths\": "

    def set_up(self, home, model):
        return {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}

    def reads(self, path):
        return AskForTool("read_file", {"file_path": str(path)})


class OlderGemini(Gemini):
    arguments = ("--experimental-acp",)


CODEX_SETTINGS = """
model = "scripted"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 1
stream_max_retries = 1
"""


class Codex(Agent):
    peer = ("codex-acp-zed", "@zed-industries/codex-acp", "0.16.0", "codex-acp")
    provider = "openai-responses"

    def set_up(self, home, model):
        (home / ".codex").mkdir()
        settings = CODEX_SETTINGS.format(url=model.openai_url)
        (home / ".codex" / "config.toml").write_text(settings)
        return dict.fromkeys(("OPENAI_API_KEY", "CODEX_API_KEY", "SCRIPTED_KEY"), "dummy")

    def reads(self, path):
        return AskForTool("exec_command", {"cmd": f"cat {path}"})


class NewerCodex(Codex):
    peer = ("codex-acp", "@agentclientprotocol/codex-acp", "2.6.0", "codex-acp", True)


ALL = [Qwen, NewerQwen, Opencode, Claude, NewerClaude, Gemini, Codex, NewerCodex]
QUICK = (Qwen,)


class Bench:
    """A home, a project, a scripted model, and an agent behind the proxy."""

    def __init__(self, agent: Agent, root: Path, peers, start) -> None:
        self.agent, self.peers, self._start = agent, peers, start
        self.home, self.work, self.store = root / "home", root / "work", root / "store"
        self.home.mkdir()
        self.work.mkdir()
        (self.work / "notes.txt").write_text(f"{NOTES}\n")
        found = peers.install(peers.Peer(*agent.peer))
        self.model = ScriptedModel(self._step, strict=False)
        self.env = peers.environment(self.home, found.path) | agent.set_up(self.home, self.model)
        self.command = [str(found.command), *agent.arguments]

    def _step(self, request):
        """What the model says: by the newest words of the user, or to a result."""
        if not request.body.get("tools"):
            return Say('{"reasoning": "short", "model_choice": "flash", "title": "A talk"}')
        asked = newest_words(request)
        # What an agent is told of the past has older prompts in it: the last one counts.
        newest = max((FIRST, SECOND, THIRD, FOURTH, DEPLOY), key=asked.rfind)
        if newest not in asked:
            return Say("The answer is PERSIMMONS.")  # to what the tool gave
        if newest == FIRST:
            return self.agent.reads(self.work / "notes.txt")
        if newest == DEPLOY:
            return self.agent.runs(DEPLOYED)
        return Say(TALE, pause_s=0.01) if newest == THIRD else Say("It goes on.")

    def editor(self, *, proxied=True):
        """An editor with the agent, behind the proxy or not."""
        before = [HOLDFAST, "--store", str(self.store), "acp", "proxy", "--"] if proxied else []
        editor = self._start([*before, *self.command], env=self.env, cwd=self.work)
        editor.on_frame = lambda frame: serve_files(editor, frame)
        editor.hello = editor.initialize()
        return editor

    def crash(self, editor):
        """Kill agent and proxy, as a loss of power does."""
        self.peers.kill(self.home)
        editor.process.wait()

    def ways(self, id):
        """How the agent got the session, each time."""
        with holdfast.open(self.store) as hf:
            return [event.data["how"] for event in hf.events(id, types={"link"})]

    def received(self):
        """The newest conversation that the model was given, as text."""
        talks = [asked for asked in self.model.requests if asked.body.get("tools")]
        assert talks[-1].provider == self.agent.provider
        return json.dumps(talks[-1].messages, ensure_ascii=False)


def serve_files(editor, frame):
    """What an editor does when its files are asked for."""
    if frame.get("method") == "fs/read_text_file":
        answer = {"content": Path(frame["params"]["path"]).read_text()}
        editor.send({"jsonrpc": "2.0", "id": frame["id"], "result": answer})


def newest_words(request):
    """The newest message, whoever it is from; not what an agent says on its own behalf."""
    said = [one for one in request.messages if one.get("role") not in ("system", "developer")]
    return json.dumps(said[-1], ensure_ascii=False)


def in_order(text, *words):
    """Whether all of these are in a text, one after another."""
    places = [text.find(word) for word in words]
    assert -1 not in places, (dict(zip(words, places, strict=True)), text[-4000:])
    assert places == sorted(places)


def text_of(updates, kind="agent_message_chunk"):
    """The text of all chunks of one kind, joined."""
    return "".join(u["content"].get("text", "") for u in updates if u["sessionUpdate"] == kind)


@pytest.fixture
def bench_of(tmp_path, peers, start):
    """A bench for an agent; its processes end with the test."""
    benches = []

    def make(agent):
        benches.append(Bench(agent(), tmp_path, peers, start))
        benches[-1].model.start()
        return benches[-1]

    yield make
    for bench in benches:
        bench.model.stop()
        peers.kill(bench.home)


def named(agent):
    """How a test names an agent."""
    return f"{agent.peer[0]}-{agent.peer[2]}"


@pytest.mark.req("S4-55", "S4-78")
@pytest.mark.parametrize("agent", QUICK, ids=named)
def test_a_killed_session_goes_on(bench_of, agent):
    """Killed after a turn and in one: the editor gets what it had seen, the model what was said."""
    is_killed_and_goes_on(bench_of(agent), agent)


@rarely
@pytest.mark.req("S4-55")
@pytest.mark.parametrize("agent", [agent for agent in ALL if agent not in QUICK], ids=named)
def test_a_killed_session_of_others_goes_on(bench_of, agent):
    """What holds for the quickest agent holds for all of them."""
    is_killed_and_goes_on(bench_of(agent), agent)


def is_killed_and_goes_on(bench, agent):
    """Kill a session twice, and look at what the editor and the model have afterwards."""
    editor = bench.editor()
    if agent.in_one_minute:
        within_a_minute()
    id = editor.new(bench.work)
    assert editor.prompt(id, FIRST)["stopReason"] == "end_turn"
    bench.crash(editor)

    editor = bench.editor()
    replayed, _ = editor.load(id, bench.work)
    assert text_of(replayed, "user_message_chunk") == FIRST
    assert "The answer is PERSIMMONS." in text_of(replayed)
    assert [update["status"] for update in replayed if "status" in update][-1] == "completed"
    assert editor.prompt(id, SECOND)["stopReason"] == "end_turn"
    in_order(bench.received(), "HELIOTROPE", agent.result, "PERSIMMONS", SECOND)

    start = len(editor.seen)
    editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": THIRD}])
    editor.until(lambda _: " w20 " in text_of(editor.updates(start)))
    bench.crash(editor)
    seen = text_of(editor.updates(start))

    editor = bench.editor()
    replayed, _ = editor.load(id, bench.work)
    assert seen in text_of(replayed)
    assert text_of(replayed, "user_message_chunk") == FIRST + SECOND + THIRD
    assert editor.prompt(id, FOURTH)["stopReason"] == "end_turn"
    in_order(bench.received(), "HELIOTROPE", "PERSIMMONS", SECOND, THIRD, " w20 ", FOURTH)
    assert editor.end() == 0
    assert bench.peers.are_gone(bench.home, 5)
    first, *later = bench.ways(id)
    assert first == "new"
    assert len(later) == 2
    assert agent.ways >= set(later)


@rarely
@pytest.mark.parametrize(
    "agent", [Qwen, NewerQwen, Gemini, AskingOpencode], ids=lambda agent: f"{agent.peer[0]}-{agent.peer[2]}"
)
@pytest.mark.parametrize("is_allowed", [True, False], ids=["running", "asked"])
def test_a_killed_command_is_told_as_it_was(bench_of, agent, is_allowed):
    """The command itself, once, and whether it may have run: to the editor and to the model."""
    bench = bench_of(agent)
    editor = bench.editor()
    editor.option = "allow_once" if is_allowed else None
    id = editor.new(bench.work)
    editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": DEPLOY}])
    editor.until(lambda frame: frame.get("method") == "session/request_permission")
    if is_allowed:
        until((bench.work / "deployed").exists)
    bench.crash(editor)
    assert (bench.work / "deployed").exists() == is_allowed

    editor = bench.editor()
    replayed, _ = editor.load(id, bench.work)
    calls = [update for update in replayed if "toolCallId" in update]
    assert len({update["toolCallId"] for update in calls}) == 1
    assert DEPLOYED in [update["title"] for update in calls if "title" in update][-1]
    shown = "interrupted, outcome unknown" if is_allowed else "not run: nobody answered"
    assert shown in json.dumps(calls[-1]["content"])
    with holdfast.open(bench.store) as hf:
        blocks = [b for m in hf.recover(id, "neutral").messages for b in m["content"]]
    [call] = [b for b in blocks if isinstance(b, dict) and b["type"] == "tool_use"]
    assert DEPLOYED in json.dumps(call["input"])

    assert editor.prompt(id, FOURTH)["stopReason"] == "end_turn"
    told = "These tool calls had begun" if is_allowed else "These did not run, because nobody"
    received = bench.received()
    note = received[received.rindex("Your last turn was cut off.") :]
    in_order(note, told, DEPLOYED, f" in {bench.work}.", FOURTH)
    assert DEPLOY in received


@rarely
@pytest.mark.parametrize("agent", [Codex, NewerCodex, Opencode, Gemini], ids=lambda agent: agent.peer[0])
def test_no_agent_outlives_the_proxy(bench_of, agent):
    """Only the proxy is killed: the agent ends with it, even one that waits for ever."""
    bench = bench_of(agent)
    editor = bench.editor()
    editor.prompt(editor.new(bench.work), FIRST)
    editor.kill()
    assert bench.peers.are_gone(bench.home, 10)


@rarely
@pytest.mark.req("S4-55")
def test_gemini_by_the_older_name_of_its_option(bench_of):
    """``--experimental-acp`` is the same agent."""
    bench = bench_of(OlderGemini)
    editor = bench.editor()
    assert editor.prompt(editor.new(bench.work), FIRST)["stopReason"] == "end_turn"


@rarely
@pytest.mark.req("S4-55")
def test_gemini_loses_a_session_by_loading_it(bench_of):
    """Without the proxy: the reason why nobody should trust its load (as of this version)."""
    bench = bench_of(Gemini)
    editor = bench.editor(proxied=False)
    within_a_minute()
    id = editor.new(bench.work)
    editor.prompt(id, FIRST)
    bench.crash(editor)
    editor = bench.editor(proxied=False)
    editor.fail("session/load", sessionId=id, cwd=str(bench.work), mcpServers=[])
    kept = "".join(place.read_text() for place in bench.home.glob(".gemini/tmp/*/chats/*.jsonl"))
    assert '"$set":{"messages":[' in kept  # what was there is replaced


@rarely
@pytest.mark.req("S4-55")
def test_gemini_whose_load_works_loses_nothing_either(bench_of):
    """In a later minute its own load works, once; what it deletes then is told to it."""
    bench = bench_of(Gemini)
    editor = bench.editor()
    id = editor.new(bench.work)
    editor.prompt(id, FIRST)
    bench.crash(editor)
    next_minute()
    for prompt in (SECOND, FOURTH):
        editor = bench.editor()
        editor.load(id, bench.work)
        assert editor.prompt(id, prompt)["stopReason"] == "end_turn"
        in_order(bench.received(), "HELIOTROPE", "PERSIMMONS", prompt)
        bench.crash(editor)
    assert bench.ways(id) == ["new", "load", "new"]


def until(happened, within_s=60):
    """Wait for something."""
    end = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def next_minute():
    """Wait for another minute on the clock."""
    time.sleep(60.5 - time.time() % 60)


def within_a_minute():
    """Return when half a minute and more of this one is left."""
    if time.time() % 60 > 25:
        next_minute()


# --- a real client --------------------------------------------------------------------------------

ACPX = ("acpx", "acpx", "0.19.1", "acpx", True)


class Acpx:
    """A client that keeps a process of its own for each session, and takes it up when that dies."""

    def __init__(self, root: Path, peers, agent: list[str], **env: str) -> None:
        self.peers, self.home, self.work = peers, root / "client", root / "work"
        self.home.mkdir()
        self.work.mkdir(exist_ok=True)
        found = peers.install(peers.Peer(*ACPX))
        self._env = peers.environment(self.home, found.path) | env
        # Its command line has one text for a command.
        self._command = [str(found.command), "--agent", shlex.join(agent), "--ttl", "120"]

    def start(self, *words):
        """Run it."""
        return subprocess.Popen(
            [*self._command, "--approve-all", *words],
            env=self._env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words):
        """Run it to its end; what it printed."""
        process = self.start(*words)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, (out, errors)
        return out

    def crash(self):
        """Kill the client, its keeper of sessions, and all that those have started."""
        self.peers.kill(self.home)


@pytest.fixture
def acpx(tmp_path, peers):
    """The client, driving a command."""
    clients = []

    def make(agent, **env):
        clients.append(Acpx(tmp_path, peers, agent, **env))
        return clients[-1]

    yield make
    for client in clients:
        client.crash()


@rarely
def test_acpx_through_the_proxy_is_killed_and_comes_back(acpx, agent_command, journal, tmp_path):
    """A real client reconnects: the agent knows what was said, and that its turn was cut off."""
    agent = agent_command("--load", "yes", "--resume", "missing")
    store = str(tmp_path / "store")
    client = acpx([HOLDFAST, "--store", store, "acp", "proxy", "--", *agent])
    id = client.run("sessions", "new").strip()
    client.run("my name is Alice")
    client.crash()
    assert "Alice" in client.run("who am I?")

    waiting = client.start("wait here")
    until(lambda: "wait here" in json.dumps(journal("session/prompt")))
    client.crash()
    waiting.communicate()
    assert "Alice" in client.run("go on")
    note, asked = journal("session/prompt")[-1]["params"]["prompt"]
    assert "was cut off" in note["text"]
    assert asked["text"] == "go on"
    assert id in client.run("sessions", "list")
    with holdfast.open(store) as hf:
        said = [event.data["content"] for event in hf.events(id, types={"user"})]
        assert said == ["my name is Alice", "who am I?", "wait here", "go on"]
        assert hf.verify(id).ok


@rarely
def test_acpx_with_our_own_agent_is_killed_and_comes_back(acpx, tmp_path):
    """The model of our agent gets what was said before the kill."""
    with ScriptedModel(lambda _: Say("I remember QUINCES.")) as model:
        agent = [HOLDFAST, "--store", str(tmp_path / "store"), "acp", "agent"]
        env = {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "dummy"}
        client = acpx([*agent, "--model", "openai:scripted"], **env)
        id = client.run("sessions", "new").strip()
        assert "QUINCES" in client.run("Remember HELIOTROPE")
        client.crash()
        assert "QUINCES" in client.run("What was it?")
        received = json.dumps(model.requests[-1].messages)
        in_order(received, "HELIOTROPE", "I remember QUINCES", "What was it?")
        assert not model.refused
        assert id in client.run("sessions", "list")
