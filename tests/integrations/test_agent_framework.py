"""The Microsoft Agent Framework on our log."""

from __future__ import annotations

import asyncio
import math

import pytest
from agent_framework import (
    AgentSession,
    Content,
    Executor,
    FileHistoryProvider,
    Message,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    handler,
)
from agent_framework.exceptions import WorkflowCheckpointException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.integrations.agent_framework import (
    HoldfastAgentSessionStore,
    HoldfastCheckpointStorage,
    HoldfastHistoryProvider,
)

_SAID = [
    Message("system", ["Be kind."]),
    Message("user", ["Hello"], author_name="me"),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="Hm."),
            Content.from_text("I look"),
            Content.from_function_call("c1", "look", arguments='{"n": 1}'),
            Content.from_function_call("c2", "look", arguments={"n": 2}),
        ],
    ),
    Message("tool", [Content.from_function_result("c1", result="a tree")]),
    Message("tool", [Content.from_function_result("c2", result="x", exception="oh")]),
    Message("user", [Content.from_uri("https://example.org/a.png", media_type="image/png")]),
    Message("assistant", [Content.from_function_call("c3", "look", arguments="not json")]),
]


async def test_messages_come_back_as_they_went_in(hf):
    """All kinds, as plain data the same, also from another object."""
    await HoldfastHistoryProvider(hf).save_messages("trip", _SAID)
    again = await HoldfastHistoryProvider(hf).get_messages("trip")
    assert [message.to_dict() for message in again] == [message.to_dict() for message in _SAID]
    calls = [event.data["id"] for event in hf.events("trip", types={"tool_call"})]
    assert calls == ["c1", "c2", "c3"]


async def test_without_a_session_there_is_nothing(hf):
    """A run without a session is neither recorded nor given anything."""
    provider = HoldfastHistoryProvider(hf)
    await provider.save_messages(None, _SAID)
    assert await provider.get_messages(None) == []
    assert hf.list() == []


async def test_what_others_recorded_is_part_of_it(hf):
    """Calls of one answer are one message, and so are their results."""
    with hf.session("trip") as s:
        s.user("Hello")
        calls = [s.tool_call("Read", {"path": path}) for path in "ab"]
        s.tool_result(calls[0], "text")
        s.tool_result(calls[1], [{"type": "text", "text": "more"}], is_error=True)
        s.assistant("Done")
    messages = await HoldfastHistoryProvider(hf).get_messages("trip")
    assert [str(message.role) for message in messages] == ["user", "assistant", "tool", "assistant"]
    assert [content.call_id for content in messages[2].contents] == [
        content.call_id for content in messages[1].contents
    ]


async def test_sessions_are_kept_with_their_state(hf):
    """Set, get, set again and delete; an empty id is refused."""
    store = HoldfastAgentSessionStore(hf)
    session = AgentSession(session_id="trip")
    for n in range(3):
        session.state["seen"] = [*session.state.get("seen", []), n]
        await store.set("trip", session)
    again = await HoldfastAgentSessionStore(hf).get("trip")
    assert again.to_dict() == session.to_dict()
    assert await store.get("other") is None
    await store.delete("trip")
    await store.delete("trip")
    assert await store.get("trip") is None
    with pytest.raises(ValueError, match="non-empty"):
        await store.get("")


def _checkpoint(n, **more):
    return WorkflowCheckpoint(
        workflow_name="flow",
        graph_signature_hash="g",
        checkpoint_id=f"c{n}",
        timestamp=f"2026-01-01T00:00:0{n}+00:00",
        state={"seen": list(range(n)), "when": ("a", n)},
        iteration_count=n,
        **more,
    )


async def test_checkpoints_are_kept_as_what_changed(hf):
    """Each comes back as it was saved, the newest is known, a removed one is gone."""
    storage = HoldfastCheckpointStorage(hf)
    for n in range(5):
        assert await storage.save(_checkpoint(n)) == f"c{n}"
    other = HoldfastCheckpointStorage(hf)
    assert await other.load("c3") == _checkpoint(3)
    assert await other.get_latest(workflow_name="flow") == _checkpoint(4)
    assert await other.get_latest(workflow_name="nothing") is None
    assert await other.delete("c4")
    assert not await other.delete("c4")
    assert await storage.list_checkpoint_ids(workflow_name="flow") == ["c0", "c1", "c2", "c3"]
    assert len(await storage.list_checkpoints(workflow_name="flow")) == 4
    with pytest.raises(WorkflowCheckpointException):
        await HoldfastCheckpointStorage(hf).load("c4")


class _Own:
    pass


async def test_no_class_is_loaded_that_the_framework_does_not_allow(hf):
    """A value of a foreign class is refused when it is saved, unless its class is named."""
    checkpoint = _checkpoint(1)
    checkpoint.state["own"] = _Own()
    with pytest.raises(WorkflowCheckpointException):
        await HoldfastCheckpointStorage(hf).save(checkpoint)
    name = f"{_Own.__module__}:{_Own.__qualname__}"
    storage = HoldfastCheckpointStorage(hf, allowed_checkpoint_types=[name])
    await storage.save(checkpoint)
    assert isinstance((await storage.load("c1")).state["own"], _Own)


class _Step(Executor):
    def __init__(self, id, ran):
        super().__init__(id)
        self._ran = ran

    @handler
    async def go(self, text: str, ctx: WorkflowContext[str]) -> None:
        self._ran.append(self.id)
        await ctx.send_message(text + self.id)


def _workflow(hf, ran):
    steps = [_Step(name, ran) for name in "abc"]
    builder = WorkflowBuilder(start_executor=steps[0], name="flow", checkpoint_storage=HoldfastCheckpointStorage(hf))
    return builder.add_edge(steps[0], steps[1]).add_edge(steps[1], steps[2]).build()


async def test_a_workflow_goes_on_from_a_checkpoint(hf):
    """A real workflow: from a checkpoint in its middle only the rest of it runs."""
    ran = []
    await _workflow(hf, ran).run("x")
    assert ran == ["a", "b", "c"]
    found = await HoldfastCheckpointStorage(hf).list_checkpoints(workflow_name="flow")
    middle = next(one for one in found if one.iteration_count == 1)
    ran.clear()
    await _workflow(hf, ran).run(checkpoint_id=middle.checkpoint_id)
    assert ran == ["b", "c"]


_PROGRAM = """
    import asyncio, sys, time
    from agent_framework import Executor, WorkflowBuilder, WorkflowContext, handler
    from holdfast.integrations.agent_framework import HoldfastCheckpointStorage

    storage, hangs = HoldfastCheckpointStorage(sys.argv[1]), sys.argv[2] == "hang"

    class Step(Executor):
        @handler
        async def go(self, text: str, ctx: WorkflowContext[str]) -> None:
            if self.id == "b" and hangs:
                print("waiting", flush=True)
                time.sleep(600)
            print(text + self.id, flush=True)
            await ctx.send_message(text + self.id)

    async def main():
        a, b = Step("a"), Step("b")
        builder = WorkflowBuilder(start_executor=a, name="flow", checkpoint_storage=storage)
        flow = builder.add_edge(a, b).build()
        if hangs:
            await flow.run("x")
        else:
            latest = await storage.get_latest(workflow_name="flow")
            await flow.run(checkpoint_id=latest.checkpoint_id)

    asyncio.run(main())
"""


def test_a_workflow_that_was_killed_goes_on_where_it_was(programs):
    """A kill -9 in the second step; the next process runs that step, and not the first again."""
    assert programs.killed(_PROGRAM) == "xa\n"
    assert programs.finished(_PROGRAM, "go on") == "xab\n"


class _Mine(Message):
    """A message of somebody's own class."""


async def test_what_no_line_can_carry_comes_back(hf):
    """Numbers that are none, NUL and halves of characters; people read a sign in their place."""
    properties = {"far": float("inf"), "big": 2**80, "no": [float("-inf"), None]}
    said = [
        Message("user", ["a\0b\ud800"], additional_properties=properties),
        Message("assistant", [Content.from_function_call("c", "f", arguments={"n": float("inf")})]),
    ]
    await HoldfastHistoryProvider(hf).save_messages("trip", said)
    found = await HoldfastHistoryProvider(hf).get_messages("trip")
    assert [one.to_dict() for one in found] == [one.to_dict() for one in said]
    assert hf.recover("trip").messages[0]["content"] == "a\ufffdb\ufffd"
    number = Message("user", ["n"], additional_properties={"n": float("nan")})
    await HoldfastHistoryProvider(hf).save_messages("other", [number])
    (again,) = await HoldfastHistoryProvider(hf).get_messages("other")
    assert math.isnan(again.additional_properties["n"])


async def test_a_message_of_another_class_comes_back_as_a_message(hf):
    """Only the framework's own class is made; what it says is whole."""
    provider = HoldfastHistoryProvider(hf)
    await provider.save_messages("trip", [_Mine("user", ["Hello"], message_id="m1")])
    (found,) = await provider.get_messages("trip")
    assert (type(found), found.text, found.message_id) == (Message, "Hello", "m1")


async def test_what_a_compaction_excluded_is_not_loaded_where_that_is_asked_for(hf):
    """With ``skip_excluded`` as with the framework's own providers; the conversation has it."""
    out = Message("user", ["old"], additional_properties={"_excluded": True})
    said = [out, Message("user", ["new"])]
    await HoldfastHistoryProvider(hf).save_messages("trip", said)
    assert len(await HoldfastHistoryProvider(hf).get_messages("trip")) == 2
    (left,) = await HoldfastHistoryProvider(hf, skip_excluded=True).get_messages("trip")
    assert left.text == "new"


@pytest.mark.filterwarnings("ignore:.*FILE_HISTORY")
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from(range(6)), max_size=4), max_size=5))
def test_messages_that_are_handed_over_again_are_left_out_as_by_the_framework(tmp_path_factory, batches):
    """Whatever is saved in whichever parts, the same history as in the framework's own files."""
    known = [Message(role, [text]) for role in ("user", "assistant") for text in "ab"]
    known += [Message("user", ["a"], message_id="m1"), Message("assistant", ["a"], message_id="m2")]

    async def play():
        with holdfast.open(tmp_path_factory.mktemp("store")) as hf:
            ours = HoldfastHistoryProvider(hf)
            theirs = FileHistoryProvider(tmp_path_factory.mktemp("files"))
            for batch in batches:
                for provider in (ours, theirs):
                    await provider.save_messages("s", [known[number] for number in batch])
            found = [[one.to_dict() for one in await who.get_messages("s")] for who in (ours, theirs)]
            assert found[0] == found[1]

    asyncio.run(play())
