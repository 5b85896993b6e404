"""The items of the Responses API, as Codex keeps them."""

from __future__ import annotations

import re
from typing import Any

from holdfast.formats.readers._book import Entry
from holdfast.formats.readers._shape import (
    between,
    block_text,
    data_url_block,
    first_text,
    items,
    json_value,
    mapping,
    text,
)

__all__ = ["ITEM_TYPES", "cwd_in", "is_noise", "tell_item"]

Item = dict[str, Any]

_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
ITEM_TYPES = _CALLS | _OUTPUTS | {"message", "reasoning", "web_search_call"}
_NOISE = re.compile(
    r"\s*(?:<(environment_context|user_instructions|permissions[ _]instructions|turn_aborted"
    r"|user_shell_command|user_action|skills?(?:_instructions)?|subagent_notification|collaboration_mode"
    r"|apps_instructions|plugins_instructions|model_switch|personality_spec|hook_prompt"
    r"|INSTRUCTIONS|environments_instructions|realtime_conversation|goal_context"
    r"|recommended_plugins)\b|# AGENTS\.md instructions)"
)
_FAILED = re.compile(r"\A(?:Exit code: |(?:.*\n){0,4}?Process exited with code )(?!0\b)\d+")
_FAILED_LOOKED_AT = 400


def is_noise(words: str) -> bool:
    """Whether the tool says this itself, in the user's place."""
    return _NOISE.match(words) is not None


def cwd_in(item: Item) -> str | None:
    """The working directory, where the tool tells the model of it."""
    words = block_text(item.get("content")) if item.get("role") == "user" else ""
    if not words.lstrip().startswith("<environment_context>"):
        return None
    return first_text(between(words, "<cwd>", "</cwd>"))


def tell_item(item: Item, model: str | None, entry: Entry) -> None:
    """What one item says."""
    kind = text(item.get("type")) or ("message" if "role" in item else "")
    if kind == "message":
        _tell_message(item, model, entry)
    elif kind == "reasoning":
        _tell_reasoning(item, entry)
    elif kind in _CALLS:
        _tell_call(item, entry)
    elif kind in _OUTPUTS:
        _tell_output(item, entry)
    elif kind == "web_search_call":
        id = first_text(item.get("id")) or entry.key
        entry.call(id, "web_search", item.get("action"))
        entry.result(id, {"status": item.get("status")}, is_error=item.get("status") == "failed")
    else:
        entry.kind = text(kind) or None


def _tell_message(item: Item, model: str | None, entry: Entry) -> None:
    role = item.get("role")
    content = item.get("content")
    if role == "assistant":
        entry.assistant(block_text(content), model)
    elif role == "user":
        entry.kind = "context"
        kinds = mapping(item.get("internal_chat_message_metadata_passthrough"))
        names = items(kinds.get("content_item_kinds"))
        parts = [content] if isinstance(content, str) else items(content)
        entry.user(
            [block for n, part in enumerate(parts) if (block := _said(part, names[n : n + 1]))]
        )
    else:
        entry.kind = text(role) or None


def _said(part: Any, kinds: list[Any]) -> Item | None:
    """A part of a user's message in our form; None if it is not the user's."""
    if kinds and isinstance(kinds[0], str) and not kinds[0].startswith(("user", "unknown")):
        return None
    part = {"type": "input_text", "text": part} if isinstance(part, str) else mapping(part)
    if "image_url" in part:
        url = part["image_url"]
        return data_url_block(mapping(url).get("url") if isinstance(url, dict) else url)
    words = text(part.get("text"))
    return None if is_noise(words) or not words else {"type": "text", "text": words}


def _tell_reasoning(item: Item, entry: Entry) -> None:
    id = first_text(item.get("id"))
    if id and id.startswith("rs") and (item.get("encrypted_content") or item.get("summary")):
        names = ("id", "summary", "content", "encrypted_content")
        kept = {name: item[name] for name in names if item.get(name)}
        entry.thinking([{"type": "reasoning", "summary": [], **kept}])
        return
    entry.thinking(block_text(item.get("summary")) or block_text(item.get("content")))


def _tell_call(item: Item, entry: Entry) -> None:
    kind = item["type"]
    id = first_text(item.get("call_id"), item.get("id")) or entry.key
    if kind == "function_call":
        entry.call(id, item.get("name"), json_value(item.get("arguments")))
    elif kind == "custom_tool_call":
        entry.call(id, item.get("name"), {"input": item.get("input")})
    elif kind == "local_shell_call":
        entry.call(id, "local_shell", item.get("action"))
    else:
        entry.call(id, "tool_search", json_value(item.get("arguments")))


def _tell_output(item: Item, entry: Entry) -> None:
    id = first_text(item.get("call_id"), item.get("id")) or entry.key
    output = item.get("output", item.get("tools"))
    failed = False
    if isinstance(output, dict):
        failed = output.get("success") is False
        output = output.get("content_items") or output.get("content")
    if isinstance(output, list):
        output = [block for part in output if (block := _output_block(part))]
    elif isinstance(output, str):
        output, failed = _unwrap(output, failed=failed)
    entry.result(id, output, is_error=failed)


def _output_block(part: Any) -> Any:
    part = mapping(part)
    if "image_url" in part:
        return data_url_block(part["image_url"])
    words = part.get("text")
    return {"type": "text", "text": words} if isinstance(words, str) else part or None


def _unwrap(output: str, *, failed: bool) -> tuple[str, bool]:
    """The output of a command, and whether it failed; earlier versions kept both as JSON."""
    inner = json_value(output) if output.startswith("{") else None
    if isinstance(inner, dict) and isinstance(inner.get("output"), str):
        code = mapping(inner.get("metadata")).get("exit_code")
        return inner["output"], failed or (isinstance(code, int) and code != 0)
    return output, failed or _FAILED.match(output[:_FAILED_LOOKED_AT]) is not None
