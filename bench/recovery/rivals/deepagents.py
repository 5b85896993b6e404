"""deepagents: ``PatchToolCallsMiddleware``."""

from __future__ import annotations

from typing import Any

from deepagents.middleware.patch_tool_calls import PatchToolCallsMiddleware
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage

from bench.recovery.rivals import Item, serve


def repair(history: list[Item]) -> list[Item]:
    """Repair a history, converted to LangChain's messages; the middleware returns None if it changes nothing."""
    messages = [_message(item) for item in history]
    change: Any = PatchToolCallsMiddleware().before_agent({"messages": messages}, None)  # type: ignore[arg-type]  # it asks nothing of its runtime
    if change is not None:
        messages = [one for one in change["messages"] if not isinstance(one, RemoveMessage)]
    return [_item(message) for message in messages]


def _message(item: Item) -> Any:
    if item["role"] == "user":
        return HumanMessage(item["text"])
    if item["role"] == "tool":
        return ToolMessage(item["text"], tool_call_id=item["id"])
    calls = [
        {"id": call["id"], "name": call["name"], "args": call["input"], "type": "tool_call"} for call in item["calls"]
    ]
    return AIMessage(item["text"], tool_calls=calls)


def _item(message: Any) -> Item:
    if isinstance(message, HumanMessage):
        return {"role": "user", "text": message.content}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "id": message.tool_call_id, "text": message.content}
    calls = [{"id": call["id"], "name": call["name"], "input": call["args"]} for call in message.tool_calls]
    return {"role": "assistant", "text": message.content, "calls": calls}


if __name__ == "__main__":
    serve(repair)
