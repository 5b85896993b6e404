"""The command itself: with the official SDK as the editor, and killed in the middle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import acp
import pytest
from acp import schema

from holdfast.library import Holdfast
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

COMMAND = str(Path(sys.executable).with_name("holdfast"))
PATIENCE_S = 120


@pytest.fixture
def environment(store_root, monkeypatch):
    """What the command needs to reach the store and a scripted model."""

    def environment(model):
        return {
            **{k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")},
            "HOLDFAST_STORE": str(store_root),
            "HOLDFAST_MODEL": "openai:scripted",
            "OPENAI_BASE_URL": model.openai_url,
        }

    return environment


class Zed(acp.Client):
    """An editor over the SDK."""

    def __init__(self):
        self.updates = []
        self.asked = []
        self.files = {}

    async def session_update(self, session_id, update, **_):
        """Notes what is shown."""
        self.updates.append(update)

    async def request_permission(self, options, session_id, tool_call, **_):
        """Says yes."""
        self.asked.append(tool_call)
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        )

    async def read_text_file(self, path, session_id, **_):
        """A file as it is here."""
        if path not in self.files:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, content, path, session_id, **_):
        """Keeps it."""
        self.files[path] = content
        return schema.WriteTextFileResponse()


def words(updates, kind):
    """The text of all chunks of a kind."""
    return "".join(u.content.text for u in updates if u.session_update == kind)


async def test_the_official_client_works_with_the_command(environment, store_root, tmp_path):
    """Initialize, new, a prompt with a tool and a diff, list, and load in a second process."""
    steps = [AskForTool("write_file", {"path": "a.txt", "content": "x"}), Say("It is written.")]
    lends = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))
    with ScriptedModel(steps) as model:
        env = environment(model)
        options = {"env": env, "use_unstable_protocol": True}
        zed = Zed()
        async with acp.spawn_agent_process(zed, COMMAND, "acp", "agent", **options) as (conn, _):
            hello = await conn.initialize(protocol_version=1, client_capabilities=lends)
            assert hello.agent_capabilities.load_session
            made = await conn.new_session(cwd=str(tmp_path), mcp_servers=[])
            prompt = [acp.text_block("Write it")]
            answer = await conn.prompt(session_id=made.session_id, prompt=prompt)
            assert answer.stop_reason == "end_turn"
            assert answer.usage.output_tokens > 0
        assert words(zed.updates, "agent_message_chunk") == "It is written."
        assert zed.asked[0].content[0].new_text == "x"
        assert zed.files == {str(tmp_path / "a.txt"): "x"}
        again = Zed()
        async with acp.spawn_agent_process(again, COMMAND, "acp", "agent", **options) as (conn, _):
            await conn.initialize(protocol_version=1)
            listed = await conn.list_sessions(cwd=str(tmp_path))
            assert [each.session_id for each in listed.sessions] == [made.session_id]
            await conn.load_session(cwd=str(tmp_path), session_id=made.session_id, mcp_servers=[])
            await conn.close_session(session_id=made.session_id)
        shown = {update.session_update for update in again.updates}
        assert {"user_message_chunk", "tool_call", "tool_call_update"} <= shown
        assert words(again.updates, "agent_message_chunk") == "It is written."


class Raw:
    """The command with its pipes, frame by frame."""

    def __init__(self, process):
        self.process = process
        self.shown = ""
        self.numbers = iter(range(1, 1000))

    @classmethod
    async def start(cls, env, *arguments):
        """Start it."""
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        made = cls(
            await asyncio.create_subprocess_exec(
                COMMAND, "acp", "agent", *arguments, env=env, stderr=asyncio.subprocess.PIPE, **pipes
            )
        )
        await made.call("initialize", protocolVersion=1)
        return made

    def ask(self, method, **params):
        """Send a request; its number."""
        number = next(self.numbers)
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        return number

    async def frame(self):
        """The next frame."""
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)
        assert line, (await self.process.stderr.read()).decode()
        frame = json.loads(line)
        update = frame.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "agent_message_chunk":
            self.shown += update["content"]["text"]
        return frame

    async def call(self, method, **params):
        """Ask, and wait for the answer."""
        number = self.ask(method, **params)
        while (frame := await self.frame()).get("id") != number:
            pass
        assert "error" not in frame, frame
        return frame["result"]


STORY = " ".join(f"word-{number}" for number in range(2_400))


@pytest.mark.req("C14")
async def test_after_kill_9_every_word_that_was_shown_is_replayed(environment, tmp_path):
    """Killed while it streams; another process loads the session, and the model has it."""
    with ScriptedModel([Say(STORY, pause_s=0.05), Say("I remember.")]) as model:
        env = environment(model)
        first = await Raw.start(env)
        made = await first.call("session/new", cwd=str(tmp_path), mcpServers=[])
        id = made["sessionId"]
        first.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "A story"}])
        while len(first.shown) < 100:
            await first.frame()
        first.process.kill()
        await first.process.communicate()
        second = await Raw.start(env)
        await second.call("session/load", sessionId=id, cwd=str(tmp_path), mcpServers=[])
        assert second.shown.startswith(first.shown)
        prompt = [{"type": "text", "text": "Go on"}]
        answer = await second.call("session/prompt", sessionId=id, prompt=prompt)
        assert answer["stopReason"] == "end_turn"
        assert first.shown.strip() in json.dumps(model.requests[-1].messages)
        assert not model.refused
        await second.process.communicate(b"")
        assert second.process.returncode == 0


@pytest.mark.parametrize("end", ["eof", "SIGTERM"])
async def test_it_ends_in_good_order(environment, store_root, tmp_path, end):
    """A running turn is recorded as cancelled, the session is closed, the exit code is 0."""
    with ScriptedModel([Say(STORY, pause_s=0.05)]) as model:
        agent = await Raw.start(environment(model), "--mode", "auto")
        made = await agent.call("session/new", cwd=str(tmp_path), mcpServers=[])
        assert made["modes"]["currentModeId"] == "auto"
        id = made["sessionId"]
        agent.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "A story"}])
        while not agent.shown:
            await agent.frame()
        if end == "eof":
            agent.process.stdin.close()
        else:
            agent.process.send_signal(signal.Signals[end])
        _, errors = await asyncio.wait_for(agent.process.communicate(), PATIENCE_S)
        assert agent.process.returncode == 0
        assert b"Traceback" not in errors
    with Holdfast(store_root) as hf:
        assert [e.data["reason"] for e in hf.events(id, types=("turn_end",))] == ["cancelled"]
        assert next(hf.events(id, reverse=True, limit=1)).type == "closed"
