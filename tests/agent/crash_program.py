"""A task of several tools, killed with -9 at every point and gone on with until it ends.

Run as a program, because it forks: each attempt is a child that kills itself at its N-th step, and
a second child that goes on. Prints one JSON object for each N.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path

from pydantic_ai.messages import ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from holdfast.agent import Agent, PersistentSession, _loop, tool
from holdfast.replay import validate
from holdfast.session import Session

STEPS = (1, 2, 3)
# Each word is to be recorded on its own, without much waiting.
_loop.HOLD_S = 0.001
ATTEMPTS_MAX = 4


class Killer:
    """Kills this process, with no chance to clean up, at its N-th step."""

    def __init__(self, at):
        self.at = at
        self.count = 0

    def step(self):
        """One more step; maybe the last."""
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self):
        """Make everything that the session does a step."""
        for name in ("append", "extend"):
            setattr(Session, name, self._around(getattr(Session, name)))
        for name in ("aflush", "abarrier"):
            setattr(Session, name, self._around_awaited(getattr(Session, name)))

    def _around_awaited(self, method):
        async def around(session):
            self.step()
            await method(session)
            self.step()

        return around

    def _around(self, method):
        def around(session, *args, **options):
            self.step()
            done = method(session, *args, **options)
            self.step()
            return done

        return around


def tools(killer, effects):
    """One tool with a side effect that must happen once, and one that only looks."""

    @tool
    def note(step: int) -> str:
        """Do a step."""
        killer.step()
        with effects.open("a") as file:
            file.write(f"{step}\n")
        killer.step()
        return f"did {step}"

    @tool(read_only=True)
    def look() -> str:
        """See which steps have been done."""
        killer.step()
        return effects.read_text() if effects.exists() else ""

    return [note, look]


def decide(messages):
    """What a sensible model would do next: a list of calls, or None when all is done."""
    parts = [part for message in messages for part in message.parts]
    number = 2 * sum(isinstance(part, ToolCallPart) for part in parts)
    results = {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}
    for step in STEPS:
        calls = [p for p in parts if isinstance(p, ToolCallPart) and p.args == {"step": step}]
        if not calls:
            more = [("look", {}, f"c{number + 1}")] if step == 2 else []
            return [("note", {"step": step}, f"c{number}"), *more]
        last = calls[-1]
        if results[last.tool_call_id] == f"did {step}":
            continue
        # Only a look that was asked for after the interruption tells what became of the step.
        own = int(last.tool_call_id[1:])
        looks = [p for p in parts if isinstance(p, ToolCallPart) and p.args == {}]
        later = [results[p.tool_call_id] for p in looks if int(p.tool_call_id[1:]) > own + 1]
        seen = [result for result in later if "interrupted" not in result]
        if not seen:
            return [("look", {}, f"c{number + 1}")]
        if str(step) not in seen[-1].split():
            return [("note", {"step": step}, f"c{number + 1}")]
    return None


async def answer(messages, info):
    """The model: streams calls or the last words."""
    calls = decide(messages)
    if calls is None:
        for word in ("all ", "is ", "done"):
            yield word
            await asyncio.sleep(0.004)
        return
    for index, (name, args, call_id) in enumerate(calls):
        yield {index: DeltaToolCall(name=name, json_args=json.dumps(args), tool_call_id=call_id)}


async def go_on(root, effects, killer):
    """Begin the task or go on with it, whatever state it is in."""
    killer.watch()
    agent = Agent(
        FunctionModel(stream_function=answer),
        agent_id="worker",
        persistent_session=PersistentSession(storage=str(root)),
        tools=tools(killer, effects),
    )
    messages = agent.session.messages("anthropic") if agent.session else []
    assert validate(messages, "anthropic").valid, messages
    asked = any(m["role"] == "user" for m in messages)
    unfinished = asked and messages[-1]["role"] == "user"
    stream = agent.run_stream(None if unfinished else "Do all the steps.")
    async for _ in stream:
        killer.step()
    messages = agent.session.messages("anthropic")
    assert validate(messages, "anthropic").valid, messages
    await agent.aclose()


def in_child(root, effects, at):
    """Run once in a child of its own; its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            asyncio.run(go_on(root, effects, Killer(at)))
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def trial(folder, at):
    """Kill the task at its N-th step, then go on until it ends."""
    folder.mkdir(mode=0o700)
    root, effects = folder / "store", folder / "effects"
    root.mkdir(mode=0o700)
    codes = [in_child(root, effects, at)]
    while codes[-1] != 0 and len(codes) < ATTEMPTS_MAX:
        codes.append(in_child(root, effects, 0))
    done = effects.read_text().split() if effects.exists() else []
    return {"at": at, "codes": codes, "effects": done}


async def import_all(effects):
    """Do once, before any fork, what every child would have to import and build."""
    model = FunctionModel(stream_function=answer)
    async for _ in Agent(model, tools=tools(Killer(0), effects)).run_stream("go"):
        pass


def main():
    """One trial for each step, until a trial ends without having been killed."""
    folder = Path(sys.argv[1])
    asyncio.run(import_all(folder / "warm"))
    gc.freeze()
    gc.disable()
    first, stride = int(sys.argv[2]), int(sys.argv[3])
    at = first
    while True:
        found = trial(folder / f"{at}", at)
        print(json.dumps(found), flush=True)  # noqa: T201 - read by the test
        if found["codes"][0] == 0:
            return
        at += stride


if __name__ == "__main__":
    main()
