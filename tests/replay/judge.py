"""A judge of message lists, written from the providers' pages and sharing no code with src.

It is kept as plain as possible: every list is taken apart into turns of words, calls and results,
and the same few questions are asked of all of them.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise

ALTERNATING = {"neutral", "anthropic", "gemini", "pydantic-ai"}
IDS = {
    "neutral": r"[A-Za-z0-9_-]{1,64}",
    "anthropic": r"[A-Za-z0-9_-]{1,64}",
    "openai": r"\S{1,40}",
    "openai-responses": r"\S{1,64}",
    "gemini": r"\S{1,64}",
    "mistral": r"[A-Za-z0-9]{9}",
    "pydantic-ai": r"[A-Za-z0-9_-]{1,64}",
}


def problems(messages, provider):
    """Everything that is wrong with a list; empty if it may be sent."""
    found = []
    if not isinstance(messages, list):
        return ["not a list"]
    try:
        text = json.dumps(messages, allow_nan=False)
        json.dumps(messages, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        return [f"not JSON: {error}"]
    if "\\u0000" in text:
        found.append("NUL")
    turns = [turn for message in messages for turn in take_apart(message, provider)]
    turns = [turn for turn in turns if turn[0] != "system"]
    found += _order_problems(turns, provider)
    found += _pair_problems(turns, provider)
    found += _part_problems(turns, provider)
    return found


def _order_problems(turns, provider):
    if turns and turns[0][0] != "user":
        yield "does not begin with a user"
    if provider in ALTERNATING:
        for one, two in pairwise(turns):
            if one[0] == two[0]:
                yield f"two turns of {one[0]}"


def _pair_problems(turns, provider):
    open_calls, seen = [], set()
    for who, parts in turns:
        results = [part[1] for part in parts if part[0] == "result"]
        others = [part for part in parts if part[0] != "result"]
        if open_calls and who == "user" and not results:
            yield f"calls without results: {open_calls}"
        if who == "assistant" and open_calls and provider != "openai-responses":
            yield f"calls without results: {open_calls}"
        for identity in results:
            if identity in open_calls:
                open_calls.remove(identity)
            else:
                yield f"result without call: {identity}"
        if results and others and parts[0][0] != "result":
            yield "results do not come first"
        if others and who == "user" and open_calls:
            yield f"calls without results: {open_calls}"
        for part in parts:
            if part[0] == "call":
                if part[1] in seen:
                    yield f"id used twice: {part[1]}"
                seen.add(part[1])
                open_calls.append(part[1])
    if open_calls:
        yield f"calls without results at the end: {open_calls}"


def _part_problems(turns, provider):
    for _who, parts in turns:
        if not parts:
            yield "empty turn"
        if provider in {"neutral", "anthropic"} and parts and parts[-1][0] == "thought":
            yield "ends with thinking"
        kinds = [part[0] for part in parts]
        if "call" in kinds and "text" in kinds[kinds.index("call") :]:
            yield "words after a call"
        for part in parts:
            if part[0] in {"text", "result"} and not str(part[-1]).strip():
                yield f"empty {part[0]}"
            if part[0] in {"call", "result"} and not re.fullmatch(IDS[provider], str(part[1])):
                yield f"malformed id: {part[1]!r}"
            if part[0] == "call" and not re.fullmatch(r"[A-Za-z0-9_.:-]{1,128}", part[2]):
                yield f"malformed name: {part[2]!r}"
            if part[0] == "call" and not isinstance(part[3], dict):
                yield "arguments are no object"


def take_apart(message, provider):
    """The turns of one message, as (who, parts); a part is a tuple whose first item is its kind."""
    return {
        "neutral": _blocks,
        "anthropic": _blocks,
        "openai": _chat,
        "mistral": _chat,
        "openai-responses": _item,
        "gemini": _gemini,
        "pydantic-ai": _pydantic_ai,
    }[provider](message)


def _text_of(content, key="text"):
    if isinstance(content, str):
        return content
    return " ".join(part.get(key, "(media)") for part in content)


def _blocks(message):
    content = message["content"]
    if isinstance(content, str):
        return [(message["role"], [("text", content)])]
    parts = []
    for block in content:
        kind = block["type"]
        if kind == "text":
            parts.append(("text", block["text"]))
        elif kind == "tool_use":
            parts.append(("call", block["id"], block["name"], block["input"]))
        elif kind == "tool_result":
            parts.append(("result", block["tool_use_id"], _text_of(block["content"])))
        elif kind in {"thinking", "redacted_thinking", "reasoning"}:
            parts.append(("thought", block))
        else:
            parts.append(("media", block))
    return [(message["role"], parts)]


def _chat(message):
    role, content = message["role"], message.get("content")
    if role in {"system", "developer"}:
        return [("system", [])]
    if role == "tool":
        return [("user", [("result", message["tool_call_id"], _text_of(content))])]
    parts = []
    if isinstance(content, str) and (content or "tool_calls" not in message):
        parts.append(("text", content))
    elif isinstance(content, list):
        parts += [("text", p["text"]) if p["type"] == "text" else ("media", p) for p in content]
    for call in message.get("tool_calls") or []:
        function = call["function"]
        name, arguments = function["name"], json.loads(function["arguments"])
        parts.append(("call", call["id"], name, arguments))
    return [(role, parts)]


def _item(item):
    kind = item.get("type", "message")
    if kind == "function_call":
        call = ("call", item["call_id"], item["name"], json.loads(item["arguments"]))
        return [("assistant", [call])]
    if kind == "function_call_output":
        return [("user", [("result", item["call_id"], _text_of(item["output"]))])]
    if kind == "reasoning":
        return [("assistant", [("thought", item)])]
    content = item["content"]
    if item["role"] in {"system", "developer"}:
        return [("system", [])]
    if isinstance(content, str):
        return [(item["role"], [("text", content)])]
    return [(item["role"], [("text", p["text"]) if "text" in p else ("media", p) for p in content])]


def _gemini(content):
    parts = []
    for part in content["parts"]:
        if "functionCall" in part:
            call = part["functionCall"]
            parts.append(("call", call["id"], call["name"], call["args"]))
        elif "functionResponse" in part:
            answer = part["functionResponse"]
            parts.append(("result", answer["id"], json.dumps(answer["response"])))
        elif part.get("thought"):
            parts.append(("thought", part))
        else:
            parts.append(("text", part["text"]) if "text" in part else ("media", part))
    return [({"user": "user", "model": "assistant"}[content["role"]], parts)]


def _pydantic_ai(message):
    parts = []
    for part in message["parts"]:
        kind = part["part_kind"]
        if kind == "tool-call":
            args = part["args"] if isinstance(part["args"], dict) else json.loads(part["args"])
            parts.append(("call", part["tool_call_id"], part["tool_name"], args))
        elif kind == "tool-return":
            parts.append(("result", part["tool_call_id"], str(part["content"])))
        elif kind == "thinking":
            parts.append(("thought", part))
        elif kind != "system-prompt":
            content = part["content"]
            parts.append(("text", content if isinstance(content, str) else str(content)))
    return [({"request": "user", "response": "assistant"}[message["kind"]], parts)]
