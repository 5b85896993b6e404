"""Our agent on one end of a socket, an editor that does as it is told on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

from holdfast.apps.acp.agent.editor import EditorKit
from holdfast.apps.acp.agent.server import AgentServer
from holdfast.apps.wire.frames import RpcError
from holdfast.apps.wire.peer import Peer
from holdfast.apps.wire.pipes import Pipe

PATIENCE_S = 120


class Script:
    """A model that follows a script, and remembers what it was asked.

    A step is a text, a list of calls ``(name, args)`` or ``(name, args, id)``, an exception, an
    ``asyncio.Event`` to wait for before the next step of the same answer, or a dict with
    ``thinking`` (one thought or several) and ``text``. The last step is repeated.
    """

    def __init__(self, *steps, name="claude-script"):
        self.steps = list(steps)
        self.requests = []
        self.count = 0
        self.model = FunctionModel(stream_function=self._stream, model_name=name)

    async def _stream(self, messages, info):
        self.requests.append((messages, info))
        step = self.steps[min(self.count, len(self.steps) - 1)]
        self.count += 1
        while isinstance(step, tuple):  # words, an event to wait for, and what comes then
            words, event, step = step
            yield words
            await event.wait()
        if isinstance(step, Exception):
            raise step
        if isinstance(step, dict):
            thoughts = step["thinking"]
            for place, thought in enumerate([thoughts] if isinstance(thoughts, str) else thoughts):
                yield {place: DeltaThinkingPart(content=thought)}
            step = step["text"]
        if isinstance(step, str):
            for word in step.split(" "):
                yield word + " "
            return
        for number, call in enumerate(step):
            name, args, *given = call
            call_id = given[0] if given else f"call-{self.count}-{number}"
            yield {number: DeltaToolCall(name=name, json_args=json.dumps(args), tool_call_id=call_id)}


class Desktop:
    """An editor: what it shows, what it lends, and how its user answers."""

    def __init__(self, pipe):
        self.updates = []
        self.requests = []
        self.files = {}
        self.option = "allow_once"
        self.output = "done\n"
        self.exit_status = {"exitCode": 0, "signal": None}
        self.hang = None
        self.asked = asyncio.Event()
        self.news = asyncio.Event()
        self.peer = Peer(
            pipe,
            methods={
                "session/request_permission": self._permit,
                "fs/read_text_file": self._read,
                "fs/write_text_file": self._write,
                "terminal/create": self._note({"terminalId": "term-1"}),
                "terminal/wait_for_exit": self._wait,
                "terminal/output": self._output,
                "terminal/kill": self._note({}),
                "terminal/release": self._note({}),
            },
            listeners={"session/update": self._update},
        )
        self.pipe = pipe

    def _update(self, params):
        self.updates.append((params["sessionId"], params["update"]))
        self.news.set()

    def _note(self, answer):
        async def note(params):
            self.requests.append(params)
            return answer

        return note

    async def _permit(self, params):
        self.requests.append(params)
        self.asked.set()
        if self.hang is not None:
            await self.hang.wait()
        if isinstance(self.option, dict):
            return self.option
        if self.option == "error":
            raise RpcError(-32000, "no user is here")
        return {"outcome": {"outcome": "selected", "optionId": self.option}}

    async def _read(self, params):
        self.requests.append(params)
        if params["path"] not in self.files:
            raise RpcError(-32002, "no such file")
        return {"content": self.files[params["path"]]}

    async def _write(self, params):
        self.files[params["path"]] = params["content"]

    async def _wait(self, params):
        if self.hang is not None:
            self.asked.set()
            await self.hang.wait()
        return self.exit_status

    async def _output(self, params):
        return {"output": self.output, "truncated": False, "exitStatus": self.exit_status}

    # -- what a test says --------------------------------------------------------------------

    async def call(self, method, **params):
        """The answer to a request."""
        return await self.peer.request(method, params, timeout_s=PATIENCE_S)

    async def fail(self, method, **params):
        """The error that a request is answered with."""
        with pytest.raises(RpcError) as caught:
            await self.call(method, **params)
        return caught.value

    async def new(self, cwd):
        """A new session's id."""
        return (await self.call("session/new", cwd=str(cwd), mcpServers=[]))["sessionId"]

    def prompt(self, id, text):
        """Say something; to be awaited."""
        blocks = text if isinstance(text, list) else [{"type": "text", "text": text}]
        return self.call("session/prompt", sessionId=id, prompt=blocks)

    async def shown(self, kind="agent_message_chunk"):
        """Wait until something of a kind is shown."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.of(kind):
                self.news.clear()
                await self.news.wait()

    def of(self, kind, id=None):
        """The updates of one kind."""
        return [update for session, update in self.updates if update["sessionUpdate"] == kind and id in (None, session)]

    def text(self, kind="agent_message_chunk"):
        """The words of all chunks of a kind."""
        return "".join(update["content"]["text"] for update in self.of(kind))


async def _ends():
    one, other = socket.socketpair()
    for end in (one, other):
        reader, writer = await asyncio.open_connection(sock=end)
        yield Pipe(reader, writer)


@pytest.fixture
def script():
    """Makes a scripted model."""
    return Script


@pytest.fixture
async def serve(hf):
    """Starts our agent on a script, and gives the editor at the other end."""
    async with contextlib.AsyncExitStack() as stack:

        async def serve(*steps, lends=(), greets=True, library=hf, **options):
            model = steps[0] if steps and isinstance(steps[0], Script) else Script(*steps or ("hi",))
            kit = EditorKit(make_model=lambda: model.model, **options)
            mine, theirs = [end async for end in _ends()]
            server = AgentServer(library, kit, mine)
            desktop = Desktop(theirs)
            tasks = [asyncio.ensure_future(each.run()) for each in (server, desktop.peer)]
            stack.push_async_callback(asyncio.sleep, 0)
            stack.callback(mine.close)
            stack.push_async_callback(asyncio.gather, *tasks)
            stack.callback(theirs.close)
            desktop.script, desktop.server, desktop.served = model, server, tasks[0]
            if greets:
                can = {
                    "fs": {"readTextFile": "read" in lends, "writeTextFile": "write" in lends},
                    "terminal": "terminal" in lends,
                }
                desktop.hello = await desktop.call("initialize", protocolVersion=1, clientCapabilities=can)
            return desktop

        yield serve
