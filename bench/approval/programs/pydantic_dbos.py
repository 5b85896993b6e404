"""Pydantic AI on DBOS, its workflows in SQLite."""

from __future__ import annotations

import asyncio
import sys

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from bench.approval.programs.paying import pay_bill

STORE, WHAT = sys.argv[1:]


def answer(messages, _info):
    """Stand in for a language model: call the tool, then report its result."""
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"Result: {last.content}")])
    return ModelResponse(parts=[ToolCallPart("pay", {"amount": 90})])


# The program
agent = Agent(
    FunctionModel(answer), name="clerk", output_type=[str, DeferredToolRequests], capabilities=[DBOSDurability()]
)


@agent.tool_plain(requires_approval=True)
@DBOS.step()
def pay(amount: int) -> str:
    """Pay a bill."""
    return pay_bill(STORE, amount)


@DBOS.workflow()
async def settle(prompt: str) -> str:
    """Ask, wait for a person, go on."""
    result = await agent.run(prompt)
    while isinstance(result.output, DeferredToolRequests):
        await DBOS.set_event_async("waiting", [call.tool_call_id for call in result.output.approvals])
        approvals = await DBOS.recv_async("answers", timeout_seconds=86_400)
        answers = DeferredToolResults(approvals=approvals)
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
    return result.output


async def main():
    """Start the workflow, answer it, or wait for its end; DBOS itself continues interrupted workflows."""
    if WHAT == "ask":
        with SetWorkflowID("bill"):
            await DBOS.start_workflow_async(settle, "Pay the bill")
        await DBOS.get_event_async("bill", "waiting")
        return
    if WHAT == "approve":
        waiting = await DBOS.get_event_async("bill", "waiting")
        await DBOS.send_async("bill", dict.fromkeys(waiting, True), "answers")
    handle = await DBOS.retrieve_workflow_async("bill")
    print(await handle.get_result())


DBOS(config={"name": "clerk", "system_database_url": f"sqlite:///{STORE}/dbos.sqlite"})
DBOS.launch()
asyncio.run(main())
