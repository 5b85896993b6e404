"""OpenAI's two forms, and Mistral's.

Chat: calls beside the content, results as messages of their own. Mistral's is similar, with short ids and never words
and calls in one message. Responses: a flat list of items.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast.replay._blocks import Block, Note, call_block, describe, dump_json, read_block, result_block, text_block
from holdfast.replay._dialects._form import (
    WEB,
    Dialect,
    Growth,
    Message,
    Pair,
    begin_message,
    read_message,
    short_name,
    text_or_parts,
    url_of,
)
from holdfast.replay._text import call_key, clean_json, is_blank, mistral_id, name_key, openai_id, plain_text, type_name

NO_ANSWER = "(no answer)"  # inserted for Mistral's assistant between a result and the next user message


class _Chat(msgspec.Struct, frozen=True):
    """The differences between the chats of two providers."""

    fit_id: Callable[[str], str]
    takes_documents: bool
    takes_both: bool  # words and calls in one message, and a user's words right after a result


_OPENAI = _Chat(openai_id, takes_documents=True, takes_both=True)
_MISTRAL = _Chat(mistral_id, takes_documents=False, takes_both=False)


def _write_chat(chat: _Chat, role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    if role == "user":
        messages = _write_user(chat, blocks)
        return messages if chat.takes_both else _with_answer(messages)
    texts = [_text_part(block) for block in blocks if block["type"] == "text"]
    asked = [block for block in blocks if block["type"] == "tool_use"]
    calls = [{"id": chat.fit_id(one["id"]), "type": "function", "function": _function(one)} for one in asked]
    said: list[Message] = []
    if texts:
        said.append({"role": "assistant", "content": text_or_parts(texts)})
    if calls:
        if not (said and chat.takes_both):
            said.append({"role": "assistant", "content": None})
        said[-1]["tool_calls"] = calls
    return said


def _function(block: Block) -> Message:
    return {"name": short_name(block["name"]), "arguments": dump_json(block["input"])}


def _write_user(chat: _Chat, blocks: list[Block]) -> list[Message]:
    """Return results as tool messages, then everything else as one user message.

    A tool message accepts text only, so images and documents of a result go with the user's words.
    """
    messages: list[Message] = []
    parts: list[Message] = []
    for block in blocks:
        if block["type"] != "tool_result":
            parts.append(_chat_part(chat, block))
            continue
        shown = block["content"]
        if not isinstance(shown, str):
            told = [(one, _chat_part(chat, one)) for one in shown]
            parts += [part for _, part in told if part["type"] != "text"]
            shown = text_or_parts(
                [
                    part if part["type"] == "text" else {"type": "text", "text": f"(the {one['type']} that follows)"}
                    for one, part in told
                ]
            )
        messages.append({"role": "tool", "tool_call_id": chat.fit_id(block["tool_use_id"]), "content": shown})
    if parts:
        messages.append({"role": "user", "content": text_or_parts(parts)})
    return messages


def _text_part(block: Block) -> Message:
    return {"type": "text", "text": block["text"]}


def _chat_part(chat: _Chat, block: Block) -> Message:
    if block["type"] == "text":
        return _text_part(block)
    source = block["source"]
    if source["type"] == "text":
        return {"type": "text", "text": source["data"]}
    url = url_of(source)
    if block["type"] == "image" and url is not None:
        return {"type": "image_url", "image_url": {"url": url}}
    if chat.takes_documents and block["type"] == "document" and source["type"] == "base64":
        name = block.get("title", "document.pdf")
        return {"type": "file", "file": {"filename": name, "file_data": url}}
    return {"type": "text", "text": describe(block)}


def _results_first(messages: list[Message]) -> list[Message]:
    """Return the messages with those of tools before the user's."""
    # Each call must be answered before anything else. The sort is stable.
    return sorted(messages, key=lambda message: message["role"] not in {"tool", "function"})


def _with_answer(messages: list[Message]) -> list[Message]:
    """Return results first, and the user's words not right after one: some servers refuse that."""
    ordered = _results_first([one for one in messages if one.get("content") != NO_ANSWER])
    roles = [one["role"] for one in ordered]
    if "tool" in roles and "user" in roles:
        ordered.insert(roles.index("user"), {"role": "assistant", "content": NO_ANSWER})
    return ordered


def _read_mistral(message: Message, note: Note) -> list[Pair]:
    if message.get("role") == "assistant" and message.get("content") == NO_ANSWER:
        return []  # our own
    return read_chat(message, note)


def read_chat(message: Message, note: Note) -> list[Pair]:
    """Return the blocks of a chat message: words, calls, or a tool's result."""
    role = message.get("role")
    if role in {"tool", "function"}:
        key = call_key(message.get("tool_call_id"))
        # The old form has no ids: a result answers the call of its name.
        if key is None and role == "function":
            key = name_key(message.get("name"))
        return [("user", result_block(key, message.get("content"), note))]
    pairs = read_message(message, note)
    if role == "assistant":
        # The members in which other servers with this API report the model's thinking.
        given = plain_text(message.get("reasoning_content")) or plain_text(message.get("reasoning"))
        if given and not is_blank(given):
            pairs.insert(0, ("assistant", {"type": "thinking", "thinking": given}))
        pairs += [("assistant", block) for block in (*_read_sounds(message), *_read_calls(message, note))]
    return pairs


def _read_sounds(message: Message) -> list[Block]:
    """Return a refusal, and audio output, in words."""
    audio = message.get("audio")
    heard = None
    if isinstance(audio, dict):
        heard = plain_text(audio.get("transcript")) or f"(audio {plain_text(audio.get('id'))})"
    said = (plain_text(message.get("refusal")), heard)
    return [text_block(text) for text in said if text and not is_blank(text)]


def _read_calls(message: Message, note: Note) -> list[Block]:
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, (list, tuple)):
        note("invalid_structure", f"tool_calls is a {type_name(calls)}: dropped", None)
    found = [_read_call(call, note) for call in calls] if isinstance(calls, (list, tuple)) else []
    old = message.get("function_call")
    if isinstance(old, dict):
        found.append(call_block(name_key(old.get("name")), old.get("name"), old.get("arguments"), note))
    return [block for block in found if block is not None]


def _read_call(call: Any, note: Note) -> Block | None:
    function, custom = (call.get("function"), call.get("custom")) if isinstance(call, dict) else (None, None)
    # Such a tool takes plain text: wrap it in an object, like the arguments of all others.
    if isinstance(custom, dict):
        function = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
    if not isinstance(function, dict):
        note("invalid_structure", "a tool call without a function was dropped", call)
        return None
    return call_block(call_key(call.get("id")), function.get("name"), function.get("arguments"), note)


def _write_items(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    items = [item for block in blocks if (item := _item(block, role)) is not None]
    parts = [_item_part(b) for b in blocks if role == "user" and b["type"] != "tool_result"]
    if parts:
        lone = len(parts) == 1 and "text" in parts[0]
        items.append({"role": role, "content": parts[0]["text"] if lone else parts})
    return items


def _item(block: Block, role: str) -> Message | None:
    """Return the item for a block that is one by itself; None for a part of a message, or for nothing.

    An assistant's texts are messages of their own: a list of them would need the provider's ids.
    """
    kind = block["type"]
    if kind == "text" and role == "assistant":
        return {"role": "assistant", "content": block["text"]}
    if kind == "tool_use":
        return {"type": "function_call", "call_id": block["id"], **_function(block)}
    if kind == "tool_result":
        content = block["content"]
        if not isinstance(content, str):
            content = [_item_part(part) for part in content]
        return {"type": "function_call_output", "call_id": block["tool_use_id"], "output": content}
    return block if kind == "reasoning" else None


def _item_part(block: Block) -> Message:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block["source"]
    kind = source["type"]
    if kind == "text":
        return {"type": "input_text", "text": source["data"]}
    url = url_of(source)
    if block["type"] == "image":
        where = {"file_id": source["file_id"]} if url is None else {"image_url": url}
        return {"type": "input_image", "detail": "auto", **where}
    if kind == "base64":
        name = block.get("title", "document.pdf")
        return {"type": "input_file", "filename": name, "file_data": url}
    where = {"file_id": source["file_id"]} if url is None else {"file_url": url}
    return {"type": "input_file", **where}


def read_item(item: Message, note: Note) -> list[Pair]:
    kind = item.get("type")
    if kind == "function_call":
        key = call_key(item.get("call_id"))
        return [("assistant", call_block(key, item.get("name"), item.get("arguments"), note))]
    if kind == "function_call_output":
        return [("user", result_block(call_key(item.get("call_id")), item.get("output"), note))]
    if kind == "reasoning":
        block = read_block(item, note)
        return [] if block is None else [("assistant", block)]
    if kind is None or kind == "message":
        return read_message(item, note)
    if isinstance(kind, str) and kind in _TOOLS:
        return [("assistant", _read_known_tool(item, note))]
    if isinstance(kind, str) and kind.removesuffix("_output") in _TOOLS:
        return [("user", _read_tool_output(item, note))]
    if isinstance(kind, str) and kind in _SERVED:
        note("invalid_structure", f"a {kind} was put into words", None)
        return [(_SERVED[kind], text_block(_words(item)))] if _SERVED[kind] else []
    note("invalid_structure", f"an item of type {plain_text(kind)!r} was dropped", item)
    return []


# Calls that the program answers, by the member that says what to do.
_TOOLS = {
    "custom_tool_call": "input",
    "computer_call": "actions",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
# Items of the provider's own work, and their side; those meant for it alone have none.
_SERVED = {
    **dict.fromkeys(("code_interpreter_call", "file_search_call", "image_generation_call"), "assistant"),
    **dict.fromkeys(("web_search_call", "tool_search_call", "tool_search_output"), "assistant"),
    **dict.fromkeys(("mcp_approval_request", "mcp_call", "mcp_list_tools"), "assistant"),
    **dict.fromkeys(("compaction", "item_reference", "program", "program_output"), "assistant"),
    "mcp_approval_response": "user",
    **dict.fromkeys(("additional_tools", "compaction_trigger", "configuration_update"), ""),
}
ITEMS = frozenset(
    {"message", "function_call", "function_call_output", "reasoning", *_SERVED, *_TOOLS}
    | {f"{kind}_output" for kind in _TOOLS}
)
"""The types of items that are understood."""
_TELLING = ("name", "query", "queries", "code", "revised_prompt", "approve", "reason", "output")


def _read_known_tool(item: Message, note: Note) -> Block:
    """Return a call of a tool that the provider knows by kind, or of one that takes plain text."""
    kind = item["type"]
    todo = item.get(_TOOLS[kind])
    if todo is None:
        todo = item.get("action")
    given = {"input": todo} if isinstance(todo, (str, list)) else todo
    name = plain_text(item.get("name")) or kind.removesuffix("_call")
    return call_block(call_key(item.get("call_id")), name, given, note)


def _read_tool_output(item: Message, note: Note) -> Block:
    output = item.get("output")
    # It has the members of an image, under another type.
    if isinstance(output, dict) and output.get("type") == "computer_screenshot":
        output = [output | {"type": "input_image"}]
    key = call_key(item.get("call_id", item.get("id")))
    return result_block(key, output, note, failed=item.get("status") == "failed")


def _words(item: Message) -> str:
    """Return what the provider did, in words for others."""
    action = item.get("action")
    told = item | action if isinstance(action, dict) else item
    given = [told[name] for name in _TELLING if told.get(name) is not None]
    said = "; ".join(dump_json(clean_json(one)) if (text := plain_text(one)) is None else text for one in given)
    return f"({item['type']}: {said})" if said else f"({item['type']})"


OPENAI = Dialect(
    "openai",
    partial(_write_chat, _OPENAI),
    read_chat,
    has_system=True,
    growth=Growth(begin_message, _text_part),
    order=_results_first,
    systems="anywhere",
    schemes=WEB,
)
MISTRAL = msgspec.structs.replace(
    OPENAI,
    name="mistral",
    write=partial(_write_chat, _MISTRAL),
    read=_read_mistral,
    order=_with_answer,
    systems="first",
)
RESPONSES = Dialect("openai-responses", _write_items, read_item, has_system=True, systems="anywhere", schemes=WEB)
