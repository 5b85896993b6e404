"""Holdfast: ``holdfast.sanitize``, through Anthropic's messages."""

from __future__ import annotations

from typing import Any

import holdfast
from bench.recovery.histories import Item

__all__ = ["repair"]


def repair(history: list[Item], incomplete: str) -> list[Item]:
    """Repair a history with our function."""
    found = holdfast.sanitize(_messages(history), provider="anthropic", incomplete=incomplete)
    return [item for message in found.messages for item in _items(message)]


def _messages(history: list[Item]) -> list[Any]:
    messages: list[Any] = []
    for item in history:
        role = "assistant" if item["role"] == "assistant" else "user"
        joins = item["role"] == "tool" and messages and _has_results(messages[-1])
        if joins:
            messages[-1]["content"] += _blocks(item)
        else:
            messages.append({"role": role, "content": _blocks(item)})
    return messages


def _has_results(message: Any) -> bool:
    return bool(message["content"][-1]["type"] == "tool_result")


def _blocks(item: Item) -> list[Any]:
    if item["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": item["id"], "content": item["text"]}]
    calls = [{"type": "tool_use", **call} for call in item.get("calls", ())]
    return [{"type": "text", "text": item["text"]}, *calls]


def _items(message: Any) -> list[Item]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    if message["role"] == "assistant":
        calls = [
            {"id": block["id"], "name": block["name"], "input": block["input"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        return [{"role": "assistant", "text": "\n".join(texts), "calls": calls}]
    return [
        {"role": "user", "text": block["text"]}
        if block["type"] == "text"
        else {"role": "tool", "id": block["tool_use_id"], "text": _text(block["content"])}
        for block in blocks
    ]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content)
