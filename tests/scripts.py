"""A model that follows a script, for the tests of what speaks to agents over a wire."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from holdfast.agent import AgentFile, Kit, RunLimits


def make_kit(*steps, limits=None):
    """What agents on a scripted model are made of; without steps it says hi."""
    kit = Kit(make_model=lambda: scripted(*(steps or ("hi",))), about="a script")
    if limits is not None:
        file = AgentFile(name=kit.agent_id, path="a.md", instructions="", limits=RunLimits(**limits))
        kit = replace(kit, agents={kit.agent_id: file})
    return kit


def scripted(*steps):
    """A model whose answers are texts, lists of calls ``(tool, args)``, errors, or events.

    An event, of asyncio or of threads, is waited for after a first word. The last is repeated.
    """
    count = 0

    async def stream(messages, info):
        nonlocal count
        step = steps[min(count, len(steps) - 1)]
        count += 1
        if hasattr(step, "is_set"):
            yield "so far "
            while not step.is_set():  # noqa: ASYNC110 - another thread may set it
                await asyncio.sleep(0.01)
            step = "all"
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            for word in step.split(" "):
                yield f"{word} "
            return
        for number, (name, args) in enumerate(step):
            call = f"call-{count}-{number}"
            yield {number: DeltaToolCall(name=name, json_args=json.dumps(args), tool_call_id=call)}

    return FunctionModel(stream_function=stream, model_name="scripted")
