"""OpenAI Agents: ``drop_orphan_function_calls``, told that outputs may be dropped as well."""

from __future__ import annotations

import json
from typing import Any

from agents.run_internal.items import drop_orphan_function_calls

from bench.recovery.rivals import Item, serve


def repair(history: list[Item]) -> list[Item]:
    """Repair a history, converted to input items of the Responses API."""
    items = [part for item in history for part in _parts(item)]
    return _flat(drop_orphan_function_calls(items, output_pruning_indexes=set(range(len(items)))))


def _parts(item: Item) -> list[Any]:
    if item["role"] == "tool":
        return [{"type": "function_call_output", "call_id": item["id"], "output": item["text"]}]
    said = {"type": "message", "role": item["role"], "content": item["text"]}
    calls = [
        {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": json.dumps(call["input"])}
        for call in item.get("calls", ())
    ]
    return [said, *calls]


def _flat(parts: list[Any]) -> list[Item]:
    """Return the turns: calls belong to the text before them, with which every assistant turn begins."""
    history: list[Item] = []
    for part in parts:
        if part["type"] == "function_call_output":
            history.append({"role": "tool", "id": part["call_id"], "text": part["output"]})
        elif part["type"] == "message" and part["role"] == "user":
            history.append({"role": "user", "text": part["content"]})
        elif part["type"] == "message":
            history.append({"role": "assistant", "text": part["content"], "calls": []})
        else:
            arguments = json.loads(part["arguments"])
            call = {"id": part["call_id"], "name": part["name"], "input": arguments}
            history[-1]["calls"].append(call)
    return history


if __name__ == "__main__":
    serve(repair)
