"""OpenAI's Responses form: a flat list of items."""

from __future__ import annotations

from holdfast.replay._blocks import Block, Note, read_block, text_block
from holdfast.replay._dialects._form import WEB, Dialect, Message, Pair, data_url
from holdfast.replay._dialects.neutral import read_message
from holdfast.replay._ids import call_key, fit_name
from holdfast.replay._text import clean_json, clean_text, plain_text
from holdfast.replay._values import dump_json, read_input, read_result

__all__ = ["ITEMS", "RESPONSES", "read_item"]


def _fit_name(name: str) -> str:
    return fit_name(name, 64)


def _write(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    items = [item for block in blocks if (item := _item(block, role)) is not None]
    parts = [_part(b) for b in blocks if role == "user" and b["type"] != "tool_result"]
    if parts:
        lone = len(parts) == 1 and "text" in parts[0]
        items.append({"role": role, "content": parts[0]["text"] if lone else parts})
    return items


def _item(block: Block, role: str) -> Message | None:
    """The item for a block that is one by itself; None for a part of a message, or for nothing.

    An assistant's texts are messages of their own: a list of them would need the provider's ids.
    """
    kind = block["type"]
    if kind == "text" and role == "assistant":
        return {"role": "assistant", "content": block["text"]}
    if kind == "tool_use":
        return {
            "type": "function_call",
            "call_id": block["id"],
            "name": _fit_name(block["name"]),
            "arguments": dump_json(block["input"]),
        }
    if kind == "tool_result":
        content = block["content"]
        if not isinstance(content, str):
            content = [_part(part) for part in content]
        return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": content}
    return block if kind == "reasoning" else None


def _part(block: Block) -> Message:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["source"]
    kind = source["type"]
    if kind == "text":
        return {"type": "input_text", "text": source["data"]}
    if block["type"] == "image":
        if kind == "file":
            return {"type": "input_image", "detail": "auto", "file_id": source["file_id"]}
        url = data_url(source) if kind == "base64" else source["url"]
        return {"type": "input_image", "detail": "auto", "image_url": url}
    return _file_part(block, source)


def _file_part(block: Block, source: Block) -> Message:
    if source["type"] == "base64":
        name = block.get("title", "document.pdf")
        return {"type": "input_file", "filename": name, "file_data": data_url(source)}
    if source["type"] == "url":
        return {"type": "input_file", "file_url": source["url"]}
    return {"type": "input_file", "file_id": source["file_id"]}


def read_item(item: Message, note: Note) -> list[Pair]:
    """What one item says."""
    kind = item.get("type")
    if kind == "function_call":
        return [("assistant", _read_call(item, note))]
    if kind == "function_call_output":
        return [("user", _read_output(item, note))]
    if kind == "reasoning":
        block = read_block(item, note)
        return [] if block is None else [("assistant", block)]
    if kind is None or kind == "message":
        return read_message(item, note)
    if isinstance(kind, str) and kind in _TOOLS:
        return [("assistant", _read_tool(item, note))]
    if isinstance(kind, str) and kind.removesuffix("_output") in _TOOLS:
        return [("user", _read_tool_output(item, note))]
    if isinstance(kind, str) and kind in _SERVED:
        note("invalid_structure", f"a {kind} was put into words", None)
        return [(_SERVED[kind], text_block(_words(item)))] if _SERVED[kind] else []
    note("invalid_structure", f"an item of type {plain_text(kind)!r} was dropped", item)
    return []


def _read_call(item: Message, note: Note) -> Block:
    return {
        "type": "tool_use",
        "id": call_key(item.get("call_id")),
        "name": plain_text(item.get("name")) or "",
        "input": read_input(item.get("arguments"), note),
    }


def _read_output(item: Message, note: Note) -> Block:
    content, failed = read_result(item.get("output"), note)
    key = call_key(item.get("call_id"))
    block: Block = {"type": "tool_result", "tool_use_id": key, "content": content}
    if failed:
        block["is_error"] = True
    return block


# Calls that the program answers, by the member that tells what to do.
_TOOLS = {
    "custom_tool_call": "input",
    "computer_call": "actions",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
# What the provider did by itself, and on whose side it stands; what is for it alone is on no side.
_SERVED = {
    "code_interpreter_call": "assistant",
    "compaction": "assistant",
    "file_search_call": "assistant",
    "image_generation_call": "assistant",
    "item_reference": "assistant",
    "mcp_approval_request": "assistant",
    "mcp_approval_response": "user",
    "mcp_call": "assistant",
    "mcp_list_tools": "assistant",
    "program": "assistant",
    "program_output": "assistant",
    "tool_search_call": "assistant",
    "tool_search_output": "assistant",
    "web_search_call": "assistant",
    "additional_tools": "",
    "compaction_trigger": "",
    "configuration_update": "",
}
ITEMS = frozenset(
    {"message", "function_call", "function_call_output", "reasoning", *_SERVED, *_TOOLS}
    | {f"{kind}_output" for kind in _TOOLS}
)
"""The types of items that are understood."""
_TELLING = ("name", "query", "queries", "code", "revised_prompt", "approve", "reason", "output")


def _read_tool(item: Message, note: Note) -> Block:
    """A call of a tool that the provider knows by kind, or of one that takes plain text."""
    kind = item["type"]
    todo = item.get(_TOOLS[kind])
    if todo is None:
        todo = item.get("action")
    return {
        "type": "tool_use",
        "id": call_key(item.get("call_id")),
        "name": plain_text(item.get("name")) or kind.removesuffix("_call"),
        "input": read_input({"input": todo} if isinstance(todo, (str, list)) else todo, note),
    }


def _read_tool_output(item: Message, note: Note) -> Block:
    output = item.get("output")
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        output = [output | {"type": "input_image"}]
    named = item.get("call_id", item.get("id"))
    block = _read_output({"call_id": named, "output": output}, note)
    if item.get("status") == "failed":
        block["is_error"] = True
    return block


def _words(item: Message) -> str:
    """What the provider did, in words for others."""
    action = item.get("action")
    told = item | action if isinstance(action, dict) else item
    given = [told[name] for name in _TELLING if told.get(name) is not None]
    said = "; ".join(one if isinstance(one, str) else dump_json(clean_json(one)) for one in given)
    return clean_text(f"({item['type']}: {said})" if said else f"({item['type']})")


RESPONSES = Dialect(
    "openai-responses", _write, read_item, has_system=True, systems="anywhere", schemes=WEB
)
