"""OpenAI Agents, its session in SQLite."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agents import Agent, Model, ModelResponse, Runner, RunState, SQLiteSession, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from bench.approval.programs.paying import pay_bill

STORE, WHAT = sys.argv[1:]


class Scripted(Model):
    """A stand-in for a language model: it calls the tool, then reports its result."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        """Answer."""
        results = [one["output"] for one in input if one.get("type") == "function_call_output"]
        call = ResponseFunctionToolCall(type="function_call", call_id="call-1", name="pay", arguments='{"amount": 90}')
        said = ResponseOutputText(type="output_text", text=f"Result: {results[-1:]}", annotations=[])
        about = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
        output = [ResponseOutputMessage(**about, content=[said]) if results else call]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    async def stream_response(self, *args, **kwargs):
        """Unused."""
        yield


# The program
@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay a bill."""
    return pay_bill(STORE, amount)


agent = Agent("clerk", model=Scripted(), tools=[pay])
session = SQLiteSession("bill", f"{STORE}/sessions.db")
waiting = Path(STORE, "waiting.json")
if WHAT == "ask":
    result = Runner.run_sync(agent, "Pay the bill", session=session)
    waiting.write_text(json.dumps(result.to_state().to_json()), encoding="utf-8")
else:
    state = asyncio.run(RunState.from_json(agent, json.loads(waiting.read_text(encoding="utf-8"))))
    for item in state.get_interruptions():
        state.approve(item)
    result = Runner.run_sync(agent, state, session=session)
    waiting.unlink()
    print(result.final_output)
