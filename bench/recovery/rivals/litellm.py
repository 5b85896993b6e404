"""LiteLLM: ``sanitize_messages_for_tool_calling`` with ``modify_params`` on."""

from __future__ import annotations

import json
import logging
from typing import Any

import litellm
from litellm.litellm_core_utils.prompt_templates.factory import sanitize_messages_for_tool_calling

from bench.recovery.rivals import Item, serve


def repair(history: list[Item]) -> list[Item]:
    """Repair a history, converted to OpenAI's chat messages."""
    return [_item(message) for message in sanitize_messages_for_tool_calling(_messages(history))]


def _messages(history: list[Item]) -> list[Any]:
    return [_message(item) for item in history]


def _message(item: Item) -> dict[str, Any]:
    if item["role"] == "tool":
        return {"role": "tool", "tool_call_id": item["id"], "content": item["text"]}
    message: dict[str, Any] = {"role": item["role"], "content": item["text"]}
    if item.get("calls"):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["input"])},
            }
            for call in item["calls"]
        ]
    return message


def _item(message: Any) -> Item:
    if message["role"] == "tool":
        return {"role": "tool", "id": message["tool_call_id"], "text": str(message["content"])}
    if message["role"] == "user":
        return {"role": "user", "text": message["content"]}
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "input": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls") or ()
    ]
    return {"role": "assistant", "text": message["content"], "calls": calls}


if __name__ == "__main__":
    logging.disable()
    litellm.modify_params = True
    serve(repair)
