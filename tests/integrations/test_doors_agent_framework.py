"""Microsoft Agent Framework: a kill in a tool, an approval elsewhere, forks, what others read."""

from __future__ import annotations

import asyncio
import json

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    Executor,
    FunctionInvocationLayer,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    tool,
)

import holdfast
from holdfast.integrations.agent_framework import (
    HoldfastAgentSessionStore,
    HoldfastCheckpointStorage,
    HoldfastHistoryProvider,
)

ALL = ["a berth, please", "I book it.", "berth in Marstal", "You have a berth in Marstal"]


class _Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    async def _answer(self, messages):
        self.seen = [[content.type for content in message.contents] for message in messages]
        last = messages[-1].contents[0]
        if last.type == "function_result":
            said = [f"You have a {last.result}"]
        else:
            name = f"call-{len(messages)}"
            call = Content.from_function_call(name, "book", arguments={"port": "Marstal"})
            said = [Content.from_text("I book it."), call]
        return ChatResponse(messages=[Message("assistant", said)])

    def _inner_get_response(self, *, messages, **_):
        return self._answer(messages)


def _agent(hf, harbour, say, *, asks=False, **options):
    def book(port: str) -> str:
        """Book a berth, which can be seen outside."""
        return harbour.book(port, say)

    mode = "always_require" if asks else "never_require"
    tools = [tool(book, approval_mode=mode)]
    provider = HoldfastHistoryProvider(hf)
    return Agent(_Scripted(), tools=tools, context_providers=[provider], **options)


def test_kill_in_a_tool(processes, readers, harbour):
    """A run is recorded when it has ended: nothing is on record, and the tool runs again."""

    def run(say):
        with holdfast.open(harbour.store) as hf:
            agent = _agent(hf, harbour, say)
            session = agent.create_session(session_id="trip")
            say(asyncio.run(agent.run("a berth, please", session=session)).text)

    processes.killed(run)
    with holdfast.open(harbour.store) as hf:
        assert not hf.list()
    processes.finished(run)
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", *ALL)


def test_kill_in_a_tool_when_each_call_of_the_model_is_recorded(processes, readers, harbour):
    """The call is on record without a result; whoever goes on has one for the model."""
    each = {"require_per_service_call_history_persistence": True}

    def run(say, asked):
        with holdfast.open(harbour.store) as hf:
            agent = _agent(hf, harbour, say, **each)
            session = agent.create_session(session_id="trip")
            asyncio.run(agent.run(asked, session=session))
            say(agent.client.seen)

    processes.killed(lambda say: run(say, "a berth, please"))
    readers.all_have("trip", "a berth, please", "I book it.", "Marstal")
    (seen,) = processes.finished(lambda say: run(say, "well?"))
    turn = [["text"], ["text", "function_call"], ["function_result"]]
    assert seen == turn * 2
    assert harbour.booked == ["Marstal"] * 2
    readers.all_have("trip", *ALL)


def test_approval_in_another_process(processes, readers, harbour):
    """With the session kept as well, the answer in another process runs the tool, once."""

    async def ask(hf, say):
        agent = _agent(hf, harbour, say, asks=True)
        session = agent.create_session(session_id="trip")
        response = await agent.run("a berth, please", session=session)
        await HoldfastAgentSessionStore(hf).set("trip", session)
        (request,) = response.user_input_requests
        say(request.to_dict())
        say.wait()

    async def approve(hf, say, request):
        agent = _agent(hf, harbour, say, asks=True)
        session = await HoldfastAgentSessionStore(hf).get("trip")
        answer = Content.from_dict(request).to_function_approval_response(approved=True)
        say((await agent.run(Message("user", [answer]), session=session)).text)

    def on_store(act, *given):
        with holdfast.open(harbour.store) as hf:
            asyncio.run(act(hf, *given))

    (request,) = processes.killed(lambda say: on_store(ask, say))
    assert request["function_call"]["name"] == "book"
    readers.all_have("trip", "a berth, please", "I book it.", "Marstal")
    harbour.repair("trip")  # to open it, which repairs what a crash left, spoils nothing
    assert processes.finished(lambda say: on_store(approve, say, request)) == [ALL[-1]]
    assert harbour.booked == ["Marstal"]
    readers.all_have("trip", *ALL)


class _Step(Executor):
    @handler
    async def go(self, text: str, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(f"{text}, {self.id}")


def _workflow(storage, second):
    one, two, three = _Step(id="one"), _Step(id=second), _Step(id="three")
    builder = WorkflowBuilder(start_executor=one, name="plan", checkpoint_storage=storage)
    return builder.add_edge(one, two).add_edge(two, three).build()


async def _checkpoints(storage):
    found = await storage.list_checkpoints(workflow_name="plan")
    return {one.checkpoint_id: one.to_dict() for one in found}


async def test_fork(readers, harbour):
    """A workflow goes on twice from one checkpoint; a fork of a session is one of its own."""
    with holdfast.open(harbour.store) as hf:
        storage = HoldfastCheckpointStorage(hf)
        await _workflow(storage, "two").run("begun")
        before = await _checkpoints(storage)
    first = next(iter(before))
    with holdfast.open(harbour.store) as hf:
        storage = HoldfastCheckpointStorage(hf)
        await _workflow(storage, "two").run(checkpoint_id=first)
        after = await _checkpoints(storage)
        assert before.items() <= after.items()
        again = [one for id, one in after.items() if id not in before]
        told = [json.dumps(one["messages"], default=str) for one in before.values()]
        assert [json.dumps(one["messages"], default=str) for one in again] == told[1:]

        provider = HoldfastHistoryProvider(hf)
        await provider.save_messages("trip", [Message("user", ["begun"])])
        hf.fork("trip", new_id="other")
        for id, word in (("trip", "harbour"), ("other", "lighthouse")):
            await provider.save_messages(id, [Message("user", [word])])
            assert [one.text for one in await provider.get_messages(id)] == ["begun", word]
    readers.keep_apart(("trip", "harbour", ["begun"]), ("other", "lighthouse", ["begun"]))


async def test_what_search_sees(readers, harbour):
    """Texts, thoughts, calls and results; not properties, and not what workflows pass on."""
    with holdfast.open(harbour.store) as hf:
        provider = HoldfastHistoryProvider(hf)
        call = Content.from_function_call("call-1", "book", arguments='{"port": "Marstal"}')
        beside = {"note": "beside it"}
        said = [
            Message("user", ["a berth, please"], additional_properties=beside),
            Message("assistant", [Content.from_text("I book it."), call]),
            Message("tool", [Content.from_function_result("call-1", result="at the quay")]),
        ]
        await provider.save_messages("trip", said)
        await _workflow(HoldfastCheckpointStorage(hf), "two").run("passed on")
        assert not hf.search("beside")
        assert not hf.search('"passed on"')
    readers.all_have("trip", "a berth, please", "I book it.", "Marstal", "at the quay")
