"""Pydantic AI: ``repair_messages``."""

from __future__ import annotations

from typing import Any

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from bench.recovery.rivals import Item, serve


def repair(history: list[Item]) -> list[Item]:
    """Repair a history, converted to model messages."""
    return [item for message in repair_messages(_messages(history)) for item in _items(message)]


def _messages(history: list[Item]) -> list[Any]:
    return [_message(item) for item in history]


def _message(item: Item) -> Any:
    if item["role"] == "user":
        return ModelRequest(parts=[UserPromptPart(item["text"])])
    if item["role"] == "tool":
        part = ToolReturnPart(tool_name="read", content=item["text"], tool_call_id=item["id"])
        return ModelRequest(parts=[part])
    calls = [ToolCallPart(call["name"], call["input"], call["id"]) for call in item["calls"]]
    return ModelResponse(parts=[TextPart(item["text"]), *calls])


def _items(message: Any) -> list[Item]:
    if isinstance(message, ModelResponse):
        text = " ".join(part.content for part in message.parts if isinstance(part, TextPart))
        calls = [
            {"id": part.tool_call_id, "name": part.tool_name, "input": part.args}
            for part in message.parts
            if isinstance(part, ToolCallPart)
        ]
        return [{"role": "assistant", "text": text, "calls": calls}]
    return [
        {"role": "tool", "id": part.tool_call_id, "text": str(part.content)}
        if isinstance(part, ToolReturnPart)
        else {"role": "user", "text": str(part.content)}
        for part in message.parts
    ]


if __name__ == "__main__":
    serve(repair)
