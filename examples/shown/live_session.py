"""Conversations that go on: the eight checks of a live session, and the command's memory.

Shows S1-46 (S1-37 to S1-45). A scripted model answers:

    python examples/shown/live_session.py
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile

import holdfast
from holdfast.agent import Agent, ToolContext, tool
from holdfast.testing.model_server import AskForTool, Request, Say, ScriptedModel


def answer(request: Request) -> Say | AskForTool:
    """Remembers what it was sent, asks back for a city, and doubles numbers by a tool."""
    words = str(request.messages[-1])
    said = str(request.messages)
    if "flight" in words:
        return Say("To which city?")
    if "Lisbon" in words:
        return Say("A flight to Lisbon, then." if "flight" in said else "Lisbon is lovely.")
    if "Set x" in words:
        return AskForTool("set_x", {"value": 10})
    if "my name?" in words:
        return Say("Alice." if "Alice" in said else "I do not know it.")
    return Say("Good.")


@tool
def set_x(context: ToolContext, value: int) -> str:
    """Set x.

    Args:
        value: What x becomes.
    """
    context.session.variables["x"] = value
    return "set"


async def conversations(hf: holdfast.Holdfast) -> None:
    """One check a line."""
    agent = Agent("openai:scripted", tools=[set_x])
    runtime = holdfast.Runtime(agent, hf)
    a, b = runtime.session("a"), runtime.session("b")
    print("S1-37 a new session is empty:", a.history == [] and dict(a.variables) == {})
    a.user("one")
    a.assistant("two")
    print("S1-38 two turns, in order:", [turn["role"] for turn in a.history])
    print("S1-39 the same id, the same session:", runtime.session("a") is a)
    print("S1-40 the other one heard nothing:", b.history == [])
    print("S1-41 without a session:", (await agent.run("What is my name?")).output)
    await agent.run("I am Alice.", session=b)
    print("S1-42 with a session:", (await agent.run("What is my name?", session=b)).output)
    await agent.run("Set x to 10.", session=b)
    print("S1-43 a variable of the turn before:", repr(b.variables["x"]))
    c = runtime.session("c")
    for words in ("Book a flight.", "Lisbon."):
        print("S1-45 user:", words)
        print("      agent:", (await agent.run(words, session=c)).output)
    print("S1-44 two turns make", len(c.history), "entries")
    runtime.close()


def command(store: str) -> None:
    """Two inputs of one chat, and a chat of another process."""
    chat = [sys.executable, "-m", "holdfast", "chat", "--store", store]
    chat += ["--model", "openai:scripted", "--session", "talk"]
    for words, begin in ("I am Alice.", ["--new"]), ("What is my name?", []):
        done = subprocess.run(
            [*chat, *begin], input=f"{words}\nexit\n", capture_output=True, text=True, check=True, timeout=100
        )
        print("S1-46 the command,", f"{words!r}:", done.stdout.strip().splitlines()[-1].strip())


def main() -> None:
    """Show each of them on a store that goes with the program."""
    with ScriptedModel(answer) as model, tempfile.TemporaryDirectory() as folder:
        os.environ |= {"OPENAI_BASE_URL": model.openai_url, "OPENAI_API_KEY": "none"}
        with holdfast.open(f"{folder}/store") as hf:
            asyncio.run(conversations(hf))
        command(f"{folder}/store")


if __name__ == "__main__":
    main()
