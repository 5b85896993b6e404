"""The step store of the Pydantic AI harness on our log."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)
from pydantic_core import to_jsonable_python

import holdfast
from holdfast.integrations.pydantic_ai import HoldfastStepStore

_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def _agent(store):
    def scripted(messages, info):
        if len(messages) % 4 == 1:
            calls = [ToolCallPart("look", {"n": n}, f"c{n}-{len(messages)}") for n in (1, 2)]
            return ModelResponse(parts=[TextPart("I look."), *calls])
        return ModelResponse(parts=[TextPart(f"{len(messages)} messages seen")])

    agent = Agent(FunctionModel(scripted), capabilities=[StepPersistence(store=store)])

    @agent.tool_plain
    def look(n: int) -> str:
        return f"tree {n}"

    return agent


def test_it_is_a_step_store(hf):
    """The harness recognises it by its protocol, and the module lacks what it lacks."""
    assert isinstance(HoldfastStepStore(hf), StepStore)
    from holdfast.integrations import pydantic_ai

    with pytest.raises(AttributeError):
        _ = pydantic_ai.HoldfastNothing


async def test_a_real_run_is_a_session_like_any_other(hf):
    """Steps, effects and snapshots are there, and the conversation can be recovered."""
    store = HoldfastStepStore(hf)
    result = await _agent(store).run("Look around", conversation_id="trip")
    (run,) = await HoldfastStepStore(hf).list_runs(conversation_id="trip")
    other = HoldfastStepStore(hf)
    kinds = [event.kind for event in await other.list_events(run_id=run.run_id)]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_completed")
    assert kinds.count("tool_call_completed") == 2
    assert not await other.list_unresolved_tool_effects(run_id=run.run_id)
    assert (await other.get_tool_effect(run_id=run.run_id, tool_call_id="c1-1")).status == ("completed")
    assert await continue_run(other, run_id=run.run_id) == result.all_messages()
    assert [message["role"] for message in hf.recover("trip").messages] == [*("user", "assistant", "user", "assistant")]
    assert {hit.role for hit in hf.search("tree")} == {"tool_result"}


async def test_runs_of_one_conversation_tell_each_message_once(hf):
    """The second run is given the first one's messages, and adds its own."""
    store = HoldfastStepStore(hf)
    agent = _agent(store)
    first = await agent.run("Look", conversation_id="trip")
    second = await agent.run("Again", message_history=first.all_messages(), conversation_id="trip")
    said = [event.data["content"] for event in hf.events("trip", types={"user"})]
    assert said == ["Look", "Again"]
    runs = await HoldfastStepStore(hf).list_runs(conversation_id="trip")
    assert await continue_run(HoldfastStepStore(hf), run_id=runs[-1].run_id) == (second.all_messages())
    assert await continue_run(HoldfastStepStore(hf), run_id=runs[0].run_id) == first.all_messages()


def _message(n, text):
    parts = [UserPromptPart(text, timestamp=_TIME)] if n % 2 else [TextPart(text)]
    kind = ModelRequest if n % 2 else ModelResponse
    return kind(parts=parts, timestamp=_TIME)


async def test_bytes_grow_with_what_is_new(hf, store_root):
    """Four times the steps of a growing history take about four times the bytes."""
    store, sizes = HoldfastStepStore(hf), {}
    for steps in (50, 200):
        messages = []
        for n in range(steps):
            messages.append(_message(n, f"{n} " + "x" * 200))
            await store.save_snapshot(ContinuableSnapshot(run_id=f"r{steps}", step_index=n, messages=list(messages)))
        files = (store_root / "sessions" / f"r{steps}").rglob("*.jsonl")
        sizes[steps] = sum(file.stat().st_size for file in files)
    assert math.log(sizes[200] / sizes[50], 4) < 1.1


async def test_a_history_that_was_cut_takes_the_place_of_the_long_one(hf):
    """Recover shows what the newest snapshot has; older snapshots keep what they had."""
    store = HoldfastStepStore(hf)
    long = [_message(1, "one"), _message(2, "two"), _message(3, "three")]
    for messages in (long, [_message(1, "in short"), long[2]], long):
        await store.save_snapshot(ContinuableSnapshot(run_id="r", step_index=0, messages=messages, conversation_id="c"))
        said = [block for one in hf.recover("c", "neutral").messages for block in [one["content"]]]
        assert len(said) >= len(messages) - 1
    snapshots = await HoldfastStepStore(hf).list_snapshots(run_id="r")
    assert [len(one.messages) for one in snapshots] == [3, 2, 3]
    assert snapshots[0].messages == snapshots[2].messages == long


async def test_what_a_run_within_a_run_says_is_told_apart(hf):
    """The messages of a delegate are not those of the conversation, and are there."""
    store = HoldfastStepStore(hf)
    await store.register_run(RunRecord(run_id="outer", conversation_id="c"))
    await store.register_run(RunRecord(run_id="inner", conversation_id="c", parent_run_id="outer"))
    for run, text in (("outer", "to the agent"), ("inner", "to its helper")):
        await store.save_snapshot(
            ContinuableSnapshot(run_id=run, step_index=0, conversation_id="c", messages=[_message(1, text)])
        )
    assert [message["content"] for message in hf.recover("c").messages] == ["to the agent"]
    inner = await HoldfastStepStore(hf).latest_snapshot(run_id="inner")
    assert inner.messages == [_message(1, "to its helper")]


_IDS = st.sampled_from(["r1", "r2"])
_CONVERSATIONS = st.sampled_from([None, "c1", "c2"])
_KEYS = st.sampled_from([None, "k", "0:a", "1:a", "1:b", "2:a", "x:y"])
_TIMES = st.integers(0, 9).map(lambda n: _TIME + timedelta(seconds=n))
_DEEDS = st.one_of(
    st.builds(
        RunRecord,
        run_id=_IDS,
        conversation_id=_CONVERSATIONS,
        parent_run_id=st.sampled_from([None, "r1", "r9"]),
        started_at=_TIMES,
        metadata=st.dictionaries(st.sampled_from("ab"), st.text("xy", max_size=2), max_size=1),
    ),
    st.builds(
        StepEvent,
        run_id=_IDS,
        kind=st.just("run_started"),
        step_index=st.integers(0, 3),
        timestamp=_TIMES,
        conversation_id=_CONVERSATIONS,
        idempotency_key=_KEYS,
    ),
    st.builds(
        ToolEffectRecord,
        run_id=_IDS,
        tool_call_id=st.sampled_from("ab"),
        tool_name=st.just("look"),
        status=st.sampled_from(["started", "completed", "failed"]),
        started_at=_TIMES,
        idempotency_key=_KEYS,
    ),
    st.builds(
        ContinuableSnapshot,
        run_id=_IDS,
        step_index=st.integers(0, 3),
        messages=st.lists(st.builds(_message, st.integers(0, 1), st.sampled_from("abc")), max_size=5),
        conversation_id=_CONVERSATIONS,
        timestamp=_TIMES,
        state=st.sampled_from(["complete", "interrupted"]),
        idempotency_key=_KEYS,
    ),
)


async def _do(store, deed):
    doing = {
        RunRecord: store.register_run,
        StepEvent: store.append_event,
        ToolEffectRecord: store.record_tool_effect,
        ContinuableSnapshot: store.save_snapshot,
    }
    await doing[type(deed)](deed)


async def _all_of(store):
    found = {"runs": await store.list_runs()}
    for name in ("c1", "c2", "c9"):
        found[name] = await store.list_runs(conversation_id=name)
    found["children"] = await store.list_runs(parent_run_id="r1")
    for run in ("r1", "r2", "r9"):
        found[run] = [
            await store.get_run(run_id=run),
            await store.list_events(run_id=run),
            await store.latest_snapshot(run_id=run),
            await store.latest_snapshot(run_id=run, include_interrupted=True),
            await store.list_snapshots(run_id=run),
            await store.list_snapshots(run_id=run, include_interrupted=True),
            await store.list_unresolved_tool_effects(run_id=run),
            await store.get_tool_effect(run_id=run, tool_call_id="a"),
        ]
    return found


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=st.lists(_DEEDS, min_size=1, max_size=12))
def test_it_answers_as_the_store_of_the_harness(tmp_path_factory, deeds):
    """After any deeds the same answers as the store in memory, also from a new object."""

    async def compare():
        with holdfast.open(tmp_path_factory.mktemp("store")) as hf:
            ours, theirs = HoldfastStepStore(hf), InMemoryStepStore()
            for deed in deeds:
                await _do(ours, deed)
                await _do(theirs, deed)
            expected = await _all_of(theirs)
            assert _sorted(await _all_of(ours)) == _sorted(expected)
            ours.close()
            assert _sorted(await _all_of(HoldfastStepStore(hf))) == _sorted(expected)

    asyncio.run(compare())


def _sorted(found):
    """Runs of the same start, and effects, have no order that anybody promises."""
    plain = to_jsonable_python(found)
    return {
        name: [sorted(map(repr, one)) if isinstance(one, list) else one for one in value]
        if name.startswith("r") and name != "runs"
        else sorted(map(repr, value))
        for name, value in plain.items()
    }


async def test_others_read_a_fork_in_its_order(hf):
    """An answer that another branch got as well stands behind the question of this one."""
    store = HoldfastStepStore(hf)
    agent = Agent(
        FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("Done.")])),
        capabilities=[StepPersistence(store=store)],
    )
    await agent.run("one", conversation_id="trip")
    (begun,) = await store.list_runs()
    for word in ("two", "three"):
        before = await continue_run(store, run_id=begun.run_id)
        await agent.run(word, message_history=before, conversation_id="trip")
    said = [message["content"] for message in hf.recover("trip", "neutral").messages]
    assert said == ["one", "Done.", "three", "Done."]


async def test_others_read_a_shortened_history_in_its_order(hf):
    """A summary that takes the place of the beginning stands before what was kept."""
    store = HoldfastStepStore(hf)
    asked = [ModelRequest(parts=[UserPromptPart(word)]) for word in ("one", "two")]
    done = [ModelResponse(parts=[TextPart(word)]) for word in ("first", "second")]
    whole = [asked[0], done[0], asked[1], done[1]]
    short = [ModelRequest(parts=[UserPromptPart("in short")]), done[0], *whole[2:]]
    for messages in (whole, short):
        await store.save_snapshot(
            ContinuableSnapshot(run_id="r", step_index=0, messages=messages, conversation_id="trip")
        )
    said = [message["content"] for message in hf.recover("trip", "neutral").messages]
    assert said == ["in short", "first", "two", "second"]
    again = await HoldfastStepStore(hf).latest_snapshot(run_id="r", include_interrupted=True)
    assert again.messages == short


_PROGRAM = """
    import asyncio, sys, time
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai_harness.step_persistence import StepPersistence
    from holdfast.integrations.pydantic_ai import HoldfastStepStore

    def scripted(messages, info):
        return ModelResponse(parts=[ToolCallPart("look", {}, f"c{len(messages)}")])

    store = HoldfastStepStore(sys.argv[1])
    agent = Agent(FunctionModel(scripted), capabilities=[StepPersistence(store=store)])
    times = []

    @agent.tool_plain
    def look() -> str:
        times.append(1)
        if len(times) == 3:
            print("waiting", flush=True)
            time.sleep(600)
        return "a tree"

    asyncio.run(agent.run("Look", conversation_id="trip"))
"""


async def test_a_run_that_was_killed_can_be_continued(store_root):
    """After a kill -9 in a tool its effect is unresolved, and the run goes on before it."""
    program = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(store_root)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as first:  # noqa: ASYNC220 - waited for
        assert first.stdout.readline() == "waiting\n"
        os.kill(first.pid, signal.SIGKILL)
    with holdfast.open(store_root) as hf:
        store = HoldfastStepStore(hf)
        (run,) = await store.list_runs(conversation_id="trip")
        (effect,) = await store.list_unresolved_tool_effects(run_id=run.run_id)
        assert effect.tool_call_id == "c5"
        history = await continue_run(store, run_id=run.run_id)
        result = await _agent(store).run("And?", message_history=history, conversation_id="trip")
        assert result.output.endswith("messages seen")
        assert hf.verify("trip").ok
        prompts = [event.data["content"] for event in hf.events("trip", types={"user"})]
        assert prompts == ["Look", "And?"]
