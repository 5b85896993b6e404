"""Strands: ``RepositorySessionManager._fix_broken_tool_use``."""

from __future__ import annotations

import logging
from typing import Any

from strands.session.repository_session_manager import RepositorySessionManager

from bench.recovery.rivals import Item, serve


def repair(history: list[Item]) -> list[Item]:
    """Repair a history with their method, which uses nothing of its object."""
    fix = RepositorySessionManager._fix_broken_tool_use  # noqa: SLF001 - what is compared
    return _flat(fix(None, _messages(history)))  # type: ignore[arg-type]  # it uses none


def _messages(history: list[Item]) -> list[Any]:
    """Put the results of one turn into one user message, as Strands does."""
    messages: list[Any] = []
    for item in history:
        role = "assistant" if item["role"] == "assistant" else "user"
        joins = item["role"] == "tool" and messages and "toolResult" in messages[-1]["content"][-1]
        if joins:
            messages[-1]["content"] += _blocks(item)
        else:
            messages.append({"role": role, "content": _blocks(item)})
    return messages


def _blocks(item: Item) -> list[Any]:
    if item["role"] == "tool":
        content = [{"text": item["text"]}]
        return [{"toolResult": {"toolUseId": item["id"], "status": "success", "content": content}}]
    calls = [
        {"toolUse": {"toolUseId": call["id"], "name": call["name"], "input": call["input"]}}
        for call in item.get("calls", ())
    ]
    return [{"text": item["text"]}, *calls]


def _flat(messages: list[Any]) -> list[Item]:
    history: list[Item] = []
    for message in messages:
        texts = [block["text"] for block in message["content"] if "text" in block]
        if message["role"] == "assistant":
            used = [block["toolUse"] for block in message["content"] if "toolUse" in block]
            calls = [{"id": use["toolUseId"], "name": use["name"], "input": use["input"]} for use in used]
            history.append({"role": "assistant", "text": " ".join(texts), "calls": calls})
            continue
        results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        history += [
            {"role": "tool", "id": result["toolUseId"], "text": result["content"][0]["text"]} for result in results
        ]
        history += [{"role": "user", "text": text} for text in texts]
    return history


if __name__ == "__main__":
    logging.disable()
    serve(repair)
