"""Holdfast."""

from __future__ import annotations

import sys

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import holdfast
from bench.approval.programs.paying import pay_bill
from holdfast.agent import tool

STORE, WHAT = sys.argv[1:]


def answer(messages, _info):
    """Stand in for a language model: call the tool, then report its result."""
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"Result: {last.content}")])
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": 90})])


# The program
@tool(permission="suspend")
def pay(amount: int) -> str:
    """Pay a bill."""
    return pay_bill(STORE, amount)


hf = holdfast.open(STORE)
agent = holdfast.Agent(FunctionModel(answer), tools=[pay], hf=hf)
if WHAT == "ask":
    with hf.session("bill") as s:
        agent.run_sync("Pay the bill", session=s)
elif WHAT == "approve":
    answers = {question.id: True for question in hf.waiting()}
    print(agent.resume_sync("bill", answers=answers).output)
else:
    with hf.session("bill") as s:
        print(agent.run_sync(None, session=s).output)
