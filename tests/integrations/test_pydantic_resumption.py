"""Runs of Pydantic AI that go on in another process: approvals, a last word without an answer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import (
    Agent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
    UserError,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from holdfast.integrations._units import Unit
from holdfast.integrations.pydantic_ai import FORM, HoldfastHistory, RecordedMessage, as_items, changes

PROMPT = ModelRequest(parts=[UserPromptPart("Delete x and look")])
CALLS = ModelResponse(parts=[ToolCallPart("delete", {"path": "x"}, "c1"), ToolCallPart("look", {}, "c2")])
CALL = ModelResponse(parts=CALLS.parts[:1])


class Desk:
    """An agent with a tool that needs approval, one that does not, and one that is elsewhere."""

    def __init__(self, calls=CALLS):
        self.done, self.seen, self._calls = [], [], calls
        self.agent = Agent(FunctionModel(self._answer), output_type=[str, DeferredToolRequests])
        self.agent.tool_plain(requires_approval=True)(self.delete)
        self.agent.tool_plain(self.look)
        self.agent.tool_plain(self.send)

    def delete(self, path: str) -> str:
        self.done.append(path)
        return f"deleted {path}"

    def look(self) -> str:
        self.done.append("look")
        return "a tree"

    def send(self) -> str:
        raise CallDeferred

    def _answer(self, messages, info):
        self.seen = messages
        results = [part for one in messages for part in one.parts if part.part_kind != "tool-call"]
        if any(isinstance(part, ToolReturnPart) for part in results):
            return ModelResponse(parts=[TextPart("All is done.")])
        return self._calls


async def _asked(hf, calls=CALLS):
    """A first process, which ends with calls that wait."""
    desk = Desk(calls)
    result = await HoldfastHistory("trip", hf).run(desk.agent, "Delete x and look")
    assert isinstance(result.output, DeferredToolRequests)
    return desk


def _shown(store_root):
    command = [sys.executable, "-m", "holdfast", "show", "trip", "--store", str(store_root)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _types(hf):
    types = {"user", "assistant", "tool_call", "tool_result", "retracted"}
    return [event.type for event in hf.events("trip", types=types)]


def _results(messages):
    parts = [part for one in messages for part in one.parts if part.part_kind == "tool-return"]
    return {part.tool_call_id: part.content for part in parts}


@pytest.mark.parametrize(
    ("answer", "done", "told"),
    [
        (True, ["x"], "deleted x"),
        (ToolApproved(override_args={"path": "y"}), ["y"], "deleted y"),
        (False, [], "The tool call was denied."),
        (ToolDenied("Keep it."), [], "Keep it."),
    ],
)
async def test_an_approval_is_given_to_another_object(hf, answer, done, told):
    """The tool runs when it is approved, and only then; the model is told once what came of it."""
    assert (await _asked(hf)).done == ["look"]
    desk = Desk()
    results = DeferredToolResults(approvals={"c1": answer})
    result = await HoldfastHistory("trip", hf).run(desk.agent, None, deferred_tool_results=results)
    assert result.output == "All is done."
    assert desk.done == done
    assert _results(desk.seen) == {"c1": told, "c2": "a tree"}
    assert HoldfastHistory("trip", hf).messages() == result.all_messages()
    recovery = hf.recover("trip")
    assert not recovery.issues
    assert [hit.role for hit in hf.search("All is done")] == ["assistant"]


async def test_the_result_of_a_call_that_was_made_elsewhere_is_given(hf):
    """An external call gets the value that was brought for it."""
    await _asked(hf, ModelResponse(parts=[ToolCallPart("send", {}, "c3")]))
    desk = Desk()
    results = DeferredToolResults(calls={"c3": "sent at noon"})
    await HoldfastHistory("trip", hf).run(desk.agent, None, deferred_tool_results=results)
    assert _results(desk.seen) == {"c3": "sent at noon"}
    assert hf.search("sent at noon")


async def test_a_call_that_waits_goes_on_waiting(hf):
    """A run without a prompt and without answers asks again, and spoils nothing."""
    await _asked(hf, CALL)
    desk = Desk()
    result = await HoldfastHistory("trip", hf).run(desk.agent, None)
    assert [call.tool_call_id for call in result.output.approvals] == ["c1"]
    assert not list(hf.events("trip", types={"tool_result", "retracted"}))
    results = DeferredToolResults(approvals={"c1": True})
    await HoldfastHistory("trip", hf).run(desk.agent, None, deferred_tool_results=results)
    assert desk.done == ["x"]


async def test_something_else_that_is_said_gives_a_waiting_call_up(hf):
    """A new prompt closes it: the model is told that it was interrupted, and it is not run."""
    await _asked(hf)
    desk = Desk()
    await HoldfastHistory("trip", hf).run(desk.agent, "Never mind")
    assert desk.done == []
    assert "interrupted" in _results(desk.seen)["c1"]
    assert {issue.type for issue in hf.recover("trip").issues} == {"retracted"}


async def test_an_approval_is_accepted_where_the_call_was_closed_before(hf):
    """Sessions in which a waiting call was taken for interrupted can still be answered."""
    history = HoldfastHistory("trip", hf)
    returned = ModelRequest(parts=[ToolReturnPart("look", "a tree", "c2")])
    await history.append(repair_messages([PROMPT, CALLS, returned]))
    desk = Desk()
    results = DeferredToolResults(approvals={"c1": True})
    await HoldfastHistory("trip", hf).run(desk.agent, None, deferred_tool_results=results)
    assert desk.done == ["x"]
    assert _results(desk.seen) == {"c1": "deleted x", "c2": "a tree"}
    recovered = hf.recover("trip", "neutral").messages[-2]["content"]
    assert {one["tool_use_id"]: one["content"] for one in recovered} == _results(desk.seen)


async def test_answers_that_were_refused_can_be_given_again(hf):
    """What the framework refuses has begun nothing."""
    both = ModelResponse(parts=[CALLS.parts[0], ToolCallPart("delete", {"path": "y"}, "c4")])
    await _asked(hf, both)
    desk = Desk()
    history = HoldfastHistory("trip", hf)
    half = DeferredToolResults(approvals={"c1": True})
    with pytest.raises(UserError):
        await history.run(desk.agent, None, deferred_tool_results=half)
    assert desk.done == []
    whole = DeferredToolResults(approvals={"c1": True, "c4": False})
    await HoldfastHistory("trip", hf).run(desk.agent, None, deferred_tool_results=whole)
    assert desk.done == ["x"]


_APPROVED_AND_KILLED = """
    import asyncio, sys, time
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from holdfast.integrations.pydantic_ai import HoldfastHistory

    store, mode = sys.argv[1:]

    def answer(messages, info):
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("delete", {}, "c1")])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    agent = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete() -> str:
        print("effect", flush=True)
        if mode == "hang":
            print("waiting", flush=True)
            time.sleep(600)
        return "deleted"

    async def main():
        history = HoldfastHistory("trip", store)
        if mode == "ask":
            await history.run(agent, "Delete it")
        elif mode in ("hang", "again"):
            yes = DeferredToolResults(approvals={"c1": True})
            await history.run(agent, None, deferred_tool_results=yes)
        else:
            print((await history.run(agent, None)).output)

    asyncio.run(main())
"""


def test_an_approved_call_that_was_killed_is_not_made_twice(programs):
    """Approved again, it is refused; going on, the model is told that it was interrupted."""
    programs.finished(_APPROVED_AND_KILLED, "ask")
    assert programs.killed(_APPROVED_AND_KILLED) == "effect\n"
    refused = programs.failed(_APPROVED_AND_KILLED, "again")
    assert "call c1 was approved before" in refused
    assert not refused.startswith("effect")
    told = programs.finished(_APPROVED_AND_KILLED, "go on")
    assert told == "The tool call was interrupted before a result was produced.\n"


# -- a last word without an answer ----------------------------------------------------------------


async def test_a_question_without_an_answer_is_answered_once(hf):
    """A run without a prompt records the answer as words, and the question no second time."""
    await HoldfastHistory("trip", hf).append([ModelRequest(parts=[UserPromptPart("Hello?")])])
    agent = Agent(TestModel(custom_output_text="ANSWER"), instructions="Be kind.")
    result = await HoldfastHistory("trip", hf).run(agent, None)
    assert result.output == "ANSWER"
    assert _types(hf) == [*("user", "assistant")]
    assert hf.recover("trip", "neutral").messages == [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "ANSWER"},
    ]
    assert len(hf.search("ANSWER")) == 1
    assert HoldfastHistory("trip", hf).messages() == result.all_messages()


async def test_a_question_that_others_recorded_is_answered(hf):
    """It stays the one that it is, in the words of whoever recorded it."""
    with hf.session("trip") as session:
        session.user("Hello?")
    agent = Agent(TestModel(custom_output_text="ANSWER"), instructions="Be kind.")
    await HoldfastHistory("trip", hf).run(agent, None)
    assert _types(hf) == [*("user", "assistant")]


async def test_a_call_that_was_killed_is_told_and_not_made_again(hf, store_root):
    """Without a prompt the run goes on: the result says so, and every surface has the call."""
    await HoldfastHistory("trip", hf).append([PROMPT, CALL])
    desk = Desk()
    result = await HoldfastHistory("trip", hf).run(desk.agent, None)
    assert result.output == "All is done."
    assert desk.done == []
    assert _types(hf) == [*("user", "tool_call", "tool_result", "assistant")]
    assert not hf.recover("trip").issues
    shown = _shown(store_root)
    assert "not in the log" not in shown
    assert "interrupted before a result" in shown
    assert "All is done." in shown


async def test_a_prompt_after_results_that_nobody_saw_is_answered_in_words(hf):
    """A result and a prompt are sent as one; what is recorded are both, and the answer."""
    returned = ModelRequest(parts=[ToolReturnPart("delete", "deleted x", "c1")])
    await HoldfastHistory("trip", hf).append([PROMPT, CALL, returned])
    await HoldfastHistory("trip", hf).run(Desk().agent, "Go on")
    assert _types(hf) == [*("user", "tool_call", "tool_result", "user", "assistant")]
    assert len(hf.search("All is done")) == 1


async def test_an_answer_that_stands_behind_other_words_is_told_anew(hf):
    """Sessions in which an answer took the place of a repeated question are mended by a run."""
    question = ModelRequest(parts=[UserPromptPart("Hello?")])
    answer = as_items([ModelResponse(parts=[TextPart("ANSWER")])])[0]
    history = HoldfastHistory("trip", hf)
    (_, second) = await history.append([question, question])
    (unit,) = [unit for unit in history._units.read() if unit.seqs[0] == second]
    history.close()
    with hf.session("trip") as session:
        session.extend(FORM.amend(unit, answer))
    assert not hf.search("ANSWER")
    await HoldfastHistory("trip", hf).run(Agent(TestModel(custom_output_text="MORE")), "And?")
    said = [message["content"] for message in hf.recover("trip", "neutral").messages]
    assert [one if isinstance(one, str) else one[0]["text"] for one in said] == [*("Hello?", "ANSWER", "And?", "MORE")]
    assert hf.search("ANSWER")


async def test_a_history_that_is_shortened_in_a_run_is_recorded_so(hf):
    """What a processor of histories leaves is what is on record."""
    history = HoldfastHistory("trip", hf)
    for number in range(3):
        await history.run(Agent(TestModel(custom_output_text=f"a{number}")), f"q{number}")
    short = Agent(TestModel(custom_output_text="a3"), capabilities=[ProcessHistory(lambda messages: messages[-1:])])
    result = await history.run(short, "q3")
    assert HoldfastHistory("trip", hf).messages() == result.all_messages()


_MESSAGES = st.lists(
    st.sampled_from(
        as_items(
            [
                ModelRequest(parts=[UserPromptPart("a")]),
                ModelRequest(parts=[UserPromptPart("a")], instructions="Be kind."),
                ModelRequest(parts=[UserPromptPart("a"), UserPromptPart("b")]),
                ModelRequest(parts=[UserPromptPart("b")]),
                ModelResponse(parts=[TextPart("c")]),
                ModelResponse(parts=[]),
            ]
        )
    ),
    max_size=6,
)


def _words(items):
    return [word for item in items for word in FORM.tell(item)]


@given(before=_MESSAGES, after=_MESSAGES, own=st.booleans())
def test_what_is_recorded_makes_one_history_of_another(before, after, own):
    """What stays and what is new say together what is to be said, and the rest is taken back."""
    units = [Unit((n,), own=True, item=item) for n, item in enumerate(before)]
    told = [RecordedMessage(unit.item, unit.seqs if own else (0, 1), unit if own else None) for unit in units]
    stay, words, new = changes(told, after)
    assert _words([one.item for one in stay] + new) == _words(after)
    kept = {seq for one in stay for seq in one.seqs}
    gone = [seq for type, data in words if type == "retracted" for seq in data["seqs"]]
    assert kept.isdisjoint(gone)
    assert kept.union(gone) == {seq for one in told for seq in one.seqs}
    said = [word for one in told if kept.issuperset(one.seqs) for word in FORM.tell(one.item)]
    assert said == _words([one.item for one in stay])
    if before == after:
        assert words == new == []
