"""Gemini's form: contents with parts; results are parts of a user's content."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.replay._blocks import Block, Note, call_block, dump_json, read_block, result_block, sign, text_block
from holdfast.replay._dialects._form import WEB, Dialect, Growth, Message, call_names, joined, result_text, short_name
from holdfast.replay._text import call_key, clean_json, clean_text, is_blank, name_key, plain_text, type_name

_ROLES = {"user": "user", "model": "assistant", "assistant": "assistant", "function": "user"}


def _fit_name(name: str) -> str:
    # A digit or a dash may not come first.
    name = short_name(name)
    return name if name[0].isalpha() or name[0] == "_" else short_name(f"_{name}")


def _write(role: str, blocks: list[Block], before: list[Block]) -> list[Message]:
    names = call_names(before)
    parts: list[Message] = []
    media: list[Message] = []
    for block in blocks:
        part = _part(block, names)
        if part is not None:
            parts.append(part)
        if block["type"] == "tool_result" and not isinstance(block["content"], str):
            media += [_media_part(b) for b in block["content"] if b["type"] != "text"]
    # Media of results follow all responses: those come first, and hold texts only.
    results = sum(1 for block in blocks if block["type"] == "tool_result")
    parts[results:results] = media
    return [{"role": "user" if role == "user" else "model", "parts": parts}] if parts else []


def _part(block: Block, names: dict[str, str]) -> Message | None:
    kind = block["type"]
    if kind == "text":
        return _grow(block)
    if kind == "thinking":
        # Without its signature a thought is useless to the provider, and others' have none.
        signed = "thought_signature" in block
        return _sign({"text": block["thinking"], "thought": True}, block) if signed else None
    if kind == "tool_use":
        call = {"id": block["id"], "name": _fit_name(block["name"]), "args": block["input"]}
        return _sign({"functionCall": call}, block)
    if kind == "tool_result":
        identity = block["tool_use_id"]
        name = _fit_name(names.get(identity, "unknown_tool"))
        key = "error" if block.get("is_error") else "output"
        response = {key: result_text(block["content"])}
        return {"functionResponse": {"id": identity, "name": name, "response": response}}
    return _media_part(block) if kind in {"image", "document"} else None


def _sign(part: Message, block: Block) -> Message:
    if "thought_signature" in block:
        part["thoughtSignature"] = block["thought_signature"]
    return part


def _media_part(block: Block) -> Message:
    source = block["source"]
    if source["type"] == "base64":
        return {"inlineData": {"mimeType": source["media_type"], "data": source["data"]}}
    if source["type"] == "text":
        return {"text": source["data"]}
    if source["type"] == "url":
        # The provider requires a type, which an address does not give.
        kind = "application/pdf" if block["type"] == "document" else "image/png"
        return {"fileData": {"mimeType": kind, "fileUri": source["url"]}}
    return {"text": result_text([block])}


def read_gemini(content: Message, note: Note) -> list[tuple[str, Block]]:
    """Return the blocks of one content. Parts may have names in either spelling."""
    role = content.get("role", "user")
    side = _ROLES.get(role) if isinstance(role, str) else None
    parts = content.get("parts")
    if side is None or not isinstance(parts, (list, tuple)):
        note("invalid_structure", "a content without a known role or parts was dropped", content)
        return []
    blocks = (_read_part(part, note) for part in parts)
    return [(side, block) for block in blocks if block is not None]


def _get(part: Message, camel: str, snake: str) -> Any:
    return part.get(camel, part.get(snake))


def _read_part(part: Any, note: Note) -> Block | None:
    if not isinstance(part, dict):
        note("invalid_block", f"a {type_name(part)} is not a part: dropped", None)
        return None
    call = _get(part, "functionCall", "function_call")
    if isinstance(call, dict):
        key = call_key(call.get("id")) or name_key(call.get("name"))
        return _read_sign(call_block(key, call.get("name"), call.get("args"), note), part)
    answer = _get(part, "functionResponse", "function_response")
    if isinstance(answer, dict):
        # A result. Without ids, the calls of one name are answered in their order.
        given, failed = answer.get("response"), False
        # Results are wrapped under these names; other members belong to the result.
        if isinstance(given, dict) and given.keys() in ({"output"}, {"result"}, {"error"}):
            ((name, given),) = given.items()
            failed = name == "error"
        key = call_key(answer.get("id")) or name_key(answer.get("name"))
        return result_block(key, given, note, failed=failed)
    return _read_text(part, note) if isinstance(part.get("text"), str) else _read_media(part, note)


def _read_text(part: Message, note: Note) -> Block | None:
    text = clean_text(part["text"])
    if is_blank(text):
        note("empty_block", "an empty part was dropped", None)
        return None
    is_thought = part.get("thought") is True
    return _read_sign({"type": "thinking", "thinking": text} if is_thought else text_block(text), part)


def _read_sign(block: Block, part: Message) -> Block:
    return sign(block, part, "thoughtSignature" if "thoughtSignature" in part else "thought_signature")


def _read_media(part: Message, note: Note) -> Block | None:
    inline, file = _get(part, "inlineData", "inline_data"), _get(part, "fileData", "file_data")
    given = inline if isinstance(inline, dict) else file
    if not isinstance(given, dict):
        # What the provider did by itself, in words for others.
        for camel, snake in _SERVED.items():
            given = _get(part, camel, snake)
            if isinstance(given, dict):
                note("invalid_block", f"a part of kind {snake} was put into words", None)
                said = plain_text(given.get("code")) or plain_text(given.get("output"))
                return text_block(f"({snake}: {said or dump_json(clean_json(given))})")
        note("invalid_block", "a part of unknown kind was dropped", part)
        return None
    media = plain_text(_get(given, "mimeType", "mime_type")) or ""
    source = {"type": "base64", "media_type": media, "data": given.get("data")}
    if given is file:
        source = {"type": "url", "url": _get(file, "fileUri", "file_uri")}
    kind = "document" if media == "application/pdf" else "image"
    return read_block({"type": kind, "source": source}, note)


_SERVED = {
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "toolCall": "tool_call",
    "toolResponse": "tool_response",
}


def _begin(role: str) -> tuple[Message, list[Any]]:
    parts: list[Any] = []
    return {"role": "user" if role == "user" else "model", "parts": parts}, parts


def _grow(block: Block) -> Message:
    return _sign({"text": block["text"]}, block)


# The parts may be in the order in which they came.
_JOIN = partial(joined, "parts", in_order=True)
GEMINI = Dialect("gemini", _write, read_gemini, growth=Growth(_begin, _grow), join=_JOIN, schemes=WEB | {"gs"})
