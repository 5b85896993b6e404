"""A kill -9 in the middle of a real run of a framework, then the run that goes on.

Each program runs its framework with a scripted model. The first run is killed while the model
thinks about the second turn; the next one says what its model is given.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import warnings

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, project_key_for_directory, query
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage, ChatResponse, MockLLM
from llama_index.core.memory import ChatMemoryBuffer

import holdfast
from holdfast.integrations.autogen import HoldfastState
from holdfast.integrations.claude_sdk import HoldfastSessionStore
from holdfast.integrations.langchain import HoldfastChatMessageHistory
from holdfast.integrations.llama_index import HoldfastChatStore

SESSION = "0b1e7f5c-5e1b-4c0f-9d56-3f2c3f1a2b01"


def _think(say, hangs, seen):
    """What a model does: tell what it sees, and if it is to be killed, never come to an end."""
    say(seen)
    if hangs:
        time.sleep(600)


def _langchain(root, say, turns):
    def think(messages):
        _think(say, turns[0], [message.content for message in messages])
        return messages

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain has a newer way, and this one still works
        model = GenericFakeChatModel(messages=iter([AIMessage("yes")] * 2))
        chain = RunnableWithMessageHistory(
            RunnableLambda(think) | model, lambda name: HoldfastChatMessageHistory(name, root)
        )
    while turns:
        config = {"configurable": {"session_id": "trip"}}
        chain.invoke([HumanMessage("question")], config)
        turns.pop(0)


class _Scripted(MockLLM):
    def chat(self, messages, **_):
        _think(self._say, self._turns[0], [message.content for message in messages])
        return ChatResponse(message=ChatMessage("yes", role="assistant"))


def _llama_index(root, say, turns):
    store = HoldfastChatStore(root)
    memory = ChatMemoryBuffer.from_defaults(
        chat_store=store, chat_store_key="trip", token_limit=10_000, tokenizer_fn=str.split
    )
    model = _Scripted()
    model._say, model._turns = say, turns
    engine = SimpleChatEngine.from_defaults(llm=model, memory=memory)
    while turns:
        engine.chat("question")
        turns.pop(0)


class _Client(ChatCompletionClient):
    def __init__(self, say, turns):
        self._say, self._turns = say, turns

    async def create(self, messages, **_):
        _think(self._say, self._turns[0], [message.content for message in messages])
        usage = RequestUsage(1, 1)
        return CreateResult(finish_reason="stop", content="yes", usage=usage, cached=False)

    async def create_stream(self, messages, **options):
        yield await self.create(messages, **options)

    async def close(self):
        pass

    def actual_usage(self):
        return RequestUsage(0, 0)

    def count_tokens(self, _messages, **_):
        return 0

    total_usage, remaining_tokens = actual_usage, count_tokens

    @property
    def model_info(self):
        can = dict.fromkeys(("vision", "function_calling", "json_output", "structured_output"), False)
        return ModelInfo(family=ModelFamily.UNKNOWN, **can)

    capabilities = model_info


def _autogen(root, say, turns):
    async def talk():
        agent = AssistantAgent("helper", _Client(say, turns), system_message=None)
        state = HoldfastState("trip", root)
        await state.load(agent)
        while turns:
            await agent.run(task="question")
            await state.save(agent)
            turns.pop(0)

    asyncio.run(talk())


_CLI = """#!{python}
import json, os, sys, uuid
from pathlib import Path

session = os.environ["SESSION"]
path = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects", os.environ["PROJECT"], session + ".jsonl")
said = []
if any(argument.startswith("--resume") for argument in sys.argv):
    said = [json.loads(line)["message"]["content"] for line in path.read_text().splitlines()]

def tell(**message):
    print(json.dumps(message), flush=True)

def record(role, content):
    said.append(content)
    entry = {{"type": role, "uuid": str(uuid.uuid4()), "sessionId": session,
              "message": {{"role": role, "content": content}}}}
    tell(type="transcript_mirror", filePath=str(path), entries=[entry])

for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "control_request":
        answer = {{"subtype": "success", "request_id": asked["request_id"], "response": {{}}}}
        tell(type="control_response", response=answer)
    elif asked["type"] == "user":
        record("user", asked["message"]["content"])
        seen = json.dumps(said)
        if os.environ["HANGS"] == "True":
            continue
        record("assistant", "yes")
        about = dict(duration_ms=1, duration_api_ms=1, is_error=False, num_turns=1)
        tell(type="result", subtype="success", session_id=session, result=seen, **about)
"""


def _claude_sdk(root, say, turns):
    """The SDK with a program in the place of its own that answers by a script."""
    program = root.parent / "claude"
    program.write_text(_CLI.format(python=sys.executable))
    program.chmod(0o755)
    folder = root.parent / "config"
    about = {"SESSION": SESSION, "PROJECT": project_key_for_directory(str(root.parent))}

    class Store(HoldfastSessionStore):
        async def append(self, key, entries):
            await super().append(key, entries)
            if turns[0]:
                say([entry["message"]["content"] for entry in await self.load(key)])

    async def talk():
        store = Store(root)
        while turns:
            options = ClaudeAgentOptions(
                cli_path=program,
                cwd=root.parent,
                env={**about, "CLAUDE_CONFIG_DIR": str(folder), "HANGS": str(turns[0])},
                session_store=store,
                session_store_flush="eager",
                resume=SESSION if _begun(root) else None,
            )
            async for message in query(prompt="question", options=options):
                if isinstance(message, ResultMessage):
                    say(json.loads(message.result))
            turns.pop(0)

    asyncio.run(talk())


def _begun(root):
    with holdfast.open(root) as hf:
        return bool(hf.list())


def _run(program, root, turns):
    """A run in a process of its own; what its model saw comes line by line."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(reading)
            program(root, lambda seen: os.write(writing, json.dumps(seen).encode() + b"\n"), turns)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return pid, os.fdopen(reading)


_ONCE, _TWICE = ["question", "yes", "question"], ["question", "yes", "question", "question"]


@pytest.mark.parametrize(
    ("program", "given"), [(_langchain, _ONCE), (_llama_index, _TWICE), (_autogen, _ONCE), (_claude_sdk, _TWICE)]
)
def test_a_run_that_was_killed_goes_on(program, given, store_root):
    """The next run is given every turn that was recorded, and the log is whole and valid."""
    pid, lines = _run(program, store_root, [False, True])
    with lines:
        seen = [json.loads(lines.readline()) for _ in range(2)]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert seen == [["question"], _ONCE]
    pid, lines = _run(program, store_root, [False])
    with lines:
        assert json.loads(lines.readline()) == given
        assert os.waitpid(pid, 0)[1] == 0
    with holdfast.open(store_root) as hf:
        (about,) = hf.list()
        assert hf.verify(about.session_id).ok
        recovery = hf.recover(about.session_id)
        assert [one["role"] for one in recovery.messages][-2:] == ["user", "assistant"]
