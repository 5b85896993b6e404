"""Reading one part of a message, in any provider's form, as a neutral block.

Neutral blocks have Anthropic's form. Readers here take any Python value, return a block that is valid by itself or
None, and report through ``note`` what they could not keep.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from holdfast.model import BLOB_KEY
from holdfast.replay._text import call_key, clean_json, clean_text, is_base64, is_blank, plain_text, template, type_name

Block = dict[str, Any]
Note = Callable[[str, str, Any], None]  # takes an issue's type, its detail and the omitted content

# Accepted by all providers; other types are described in words.
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
# The only kind of file that all providers accept.
_PDF = "application/pdf"


def describe(block: Block) -> str:
    """Return an image or document in words, for a provider that cannot take it."""
    source = block["source"]
    what = block.get("title") or source.get("media_type") or block["type"]
    where = source.get("url") or source.get("file_id")
    return f"({what} at {where})" if where else f"({what}, not shown here)"


def read_image(part: Block, note: Note) -> Block | None:
    """Return an ``image``, ``image_url`` or ``input_image`` part as a neutral image, or None."""
    given, url = part.get("source"), part.get("image_url")
    if isinstance(given, dict):
        source = _source(given)
    else:
        source = _url_source(url.get("url") if isinstance(url, dict) else url) or _pick(part, "file", "file_id")
    if source is None:
        note("invalid_block", "an image without usable data was dropped", None)
        return None
    if source["type"] == "base64" and source["media_type"] not in IMAGE_TYPES:
        note("invalid_block", f"an image of type {source['media_type']} was replaced by text", None)
        return {"type": "text", "text": f"({source['media_type']}, not shown here)"}
    return {"type": "image", "source": source}


def _source(given: Block) -> Block | None:
    """Return a neutral source from a neutral source: known members only, each of them a text."""
    kind = given.get("type")
    if kind == "base64":
        return _data_source(given.get("media_type"), given.get("data"))
    if kind == "url":
        return _pick(given, "url", "url")
    return _pick(given, "file", "file_id") if kind == "file" else None


def _pick(given: Block, kind: str, member: str) -> Block | None:
    value = plain_text(given.get(member))
    return {"type": kind, member: value} if value else None


def _data_source(media: Any, data: Any) -> Block | None:
    media_type = plain_text(media)
    # Encoders may break lines, and providers refuse that.
    text = "".join(data.split()) if isinstance(data, str) else ""
    if not media_type or not is_base64(text):
        return None
    return {"type": "base64", "media_type": media_type, "data": text}


def _url_source(value: Any) -> Block | None:
    """Return a source for a URL; a ``data:`` URL contains the bytes itself."""
    url = plain_text(value)
    if not url:
        return None
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    head, _, data = url[5:].partition(",")
    return _data_source(head.partition(";")[0], data)


def read_document(part: Block, note: Note) -> Block | None:
    """Return a ``document``, ``file`` or ``input_file`` part as a neutral document, or None."""
    source = _document_source(part)
    if source is None:
        note("invalid_block", "a document without usable data was dropped", None)
        return None
    block: Block = {"type": "document", "source": source}
    for member in ("title", "context"):
        text = plain_text(part.get(member))
        if text:
            block[member] = text
    name = _file_of(part).get("filename")
    if isinstance(name, str) and name:
        block["title"] = plain_text(name)
    return block


def _file_of(part: Block) -> Block:
    """Return the member that holds an OpenAI file: the part itself in the Responses API."""
    inner = part.get("file")
    return inner if isinstance(inner, dict) else part


def _document_source(part: Block) -> Block | None:
    given = part.get("source")
    if not isinstance(given, dict):
        file = _file_of(part)
        source = _url_source(file.get("file_data") or file.get("file_url")) or _pick(file, "file", "file_id")
    elif given.get("type") in {"text", "content"}:
        # A document that is given as text, or as texts and images.
        content = given.get("data" if given["type"] == "text" else "content")
        text = plain_text(content)
        if isinstance(content, list) and given["type"] == "content":
            texts = (plain_text(one.get("text")) for one in content if isinstance(one, dict))
            text = "\n".join(one for one in texts if one)
        blank = text is None or is_blank(text)
        return None if blank else {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = _source(given)
    return source if source is None or source.get("media_type", _PDF) == _PDF else None


# Arguments and results of tools, as providers accept them.
NO_OUTPUT = "(no output)"  # the model's text for a tool without output: providers refuse an empty text

_TEXTS = frozenset({"text", "input_text", "output_text"})
_IMAGES = frozenset({"image", "image_url", "input_image"})
_DOCUMENTS = frozenset({"document", "file", "input_file"})
_PARTS = _TEXTS | _IMAGES | _DOCUMENTS


def dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def blob_text(reference: dict[str, Any]) -> str:
    """Return the text in place of a payload that is kept beside the log and was not loaded."""
    media = plain_text(reference.get("media")) or "data"
    return f"({media} kept apart as {plain_text(reference[BLOB_KEY]) or 'a blob'})"


def read_input(value: Any, note: Note) -> dict[str, Any]:
    """Return a call's arguments as an object; anything else is put under ``value``."""
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):  # else it is a text that holds no JSON
            value = None if is_blank(value) else json.loads(value)
    if value is None:
        return {}
    cleaned = clean_json(value)
    if cleaned is not value:
        note("invalid_value", "a tool call's arguments were made plain JSON", None)
    return cleaned if isinstance(cleaned, dict) else {"value": cleaned}


def read_result(value: Any, note: Note) -> tuple[str | list[dict[str, Any]], bool]:
    """Return a tool's result as text or blocks, and whether it says itself that it failed."""
    failed = False
    if isinstance(value, dict):
        failed = value.get("error") is True
        # A wrapper without information of its own.
        if BLOB_KEY not in value and value.keys() == {"content"}:
            value = value["content"]
    kinds = [item.get("type") for item in value if isinstance(item, dict)] if isinstance(value, (list, tuple)) else []
    found: str | list[Block]
    if kinds and len(kinds) == len(value) and all(isinstance(kind, str) and kind in _PARTS for kind in kinds):
        found = [block for item in value if (block := _read_part(item, note)) is not None]
    else:
        found = _result_text(value, note)
    if not found or (isinstance(found, str) and is_blank(found)):
        note("empty_result", f"an empty tool result now reads {NO_OUTPUT!r}", None)
        found = NO_OUTPUT
    return found, failed


# There may be millions of them: copies of a template take half the memory of dicts made one by one.
_CALL = template(type="tool_use", id=None, name="", input=None)
_RESULT = template(type="tool_result", tool_use_id=None, content="")


def call_block(key: str | None, name: Any, given: Any, note: Note) -> Block:
    """Return a tool call, whichever way its provider writes it."""
    block = _CALL.copy()
    block["id"], block["name"] = key, plain_text(name) or ""
    block["input"] = read_input(given, note)
    return block


def result_block(key: str | None, given: Any, note: Note, *, failed: bool = False) -> Block:
    """Return the result of a call; one that says itself that it ``failed`` is an error."""
    block = _RESULT.copy()
    block["tool_use_id"] = key
    block["content"], says_failed = read_result(given, note)
    if failed or says_failed:
        block["is_error"] = True
    return block


def text_result(key: str, text: str) -> Block:
    """Return the result of a call whose text is clean and not blank."""
    block = _RESULT.copy()
    block["tool_use_id"], block["content"] = key, text
    return block


def _result_text(value: Any, note: Note) -> str:
    if isinstance(value, str):
        text = clean_text(value)
        if text is not value:
            note("invalid_text", "broken characters in a tool result were replaced", None)
        return text
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return ""
    if isinstance(value, dict) and BLOB_KEY in value:
        return blob_text(value)
    return dump_json(clean_json(value))


def _read_part(part: dict[str, Any], note: Note) -> dict[str, Any] | None:
    kind = part["type"]
    if kind in _IMAGES:
        return read_image(part, note)
    if kind in _DOCUMENTS:
        return read_document(part, note)
    text = plain_text(part.get("text"))
    if text is None or is_blank(text):
        note("empty_block", "an empty part of a tool result was dropped", None)
        return None
    if text is not part.get("text") or kind != "text":
        note("invalid_text", "a part of a tool result was made well-formed", None)
    return {"type": "text", "text": text}


OWNERS: Mapping[str, str] = {
    "reasoning": "openai-responses",
    **dict.fromkeys(("redacted_thinking", "server_tool_use", "mcp_tool_use", "mcp_tool_result"), "anthropic"),
    **dict.fromkeys(("advisor_tool_result", "tool_search_tool_result"), "anthropic"),
    **dict.fromkeys(("web_fetch_tool_result", "web_search_tool_result"), "anthropic"),
    **dict.fromkeys(("bash_code_execution_tool_result", "code_execution_tool_result"), "anthropic"),
    "text_editor_code_execution_tool_result": "anthropic",
}
"""Blocks that only one provider understands; they are kept for that one and left out for others."""

SERVER_CALLS = frozenset({"server_tool_use", "mcp_tool_use"})
"""Calls that their provider runs itself; the result follows the call in the same turn."""

_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_TEXT = template(type="text", text="")


def is_soft(block: Block) -> bool:
    """Return whether a block cannot be alone in a message: thinking, and blocks of one provider only."""
    kind = block["type"]
    return kind == "thinking" or kind in OWNERS


def is_thought(block: Block) -> bool:
    """Return whether a block is thinking, with which no message may end."""
    return block["type"] in _THOUGHTS


def code_of(block: Block) -> str | None:
    """Return the id of the server tool whose code makes a call; None for a call of the model itself."""
    caller = block.get("caller")
    return caller["tool_id"] if caller else None


def is_paused(blocks: list[Block]) -> bool:
    """Return whether a message ends with a call that its provider has yet to run: it was paused there."""
    return bool(blocks) and blocks[-1]["type"] in SERVER_CALLS


def text_block(text: str) -> Block:
    block = _TEXT.copy()
    block["text"] = text
    return block


def read_content(content: Any, note: Note) -> list[Block]:
    """Return the blocks of a message's content: a string, a list of parts, or a single part."""
    if isinstance(content, str):
        text = clean_text(content)
        if text is not content:
            note("invalid_text", "broken characters were replaced", None)
        return [] if is_blank(text) else [text_block(text)]
    if content is None:
        return []
    parts = content if isinstance(content, (list, tuple)) else (content,)
    blocks = (read_block(part, note) for part in parts)
    return [block for block in blocks if block is not None]


def read_block(part: Any, note: Note) -> Block | None:
    """Return one part as a neutral block; None if nothing of it can be kept."""
    try:
        if isinstance(part, str):
            return _read_text({"type": "text", "text": part}, note)
        if not isinstance(part, dict):
            note("invalid_block", f"a {type_name(part)} is not a content block: dropped", None)
            return None
        if BLOB_KEY in part:
            return text_block(blob_text(part))
        kind = part.get("type")
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        if reader is not None:
            return reader(part, note)
        if isinstance(part.get("text"), str):
            note("invalid_block", "a block of unknown type was kept as text", None)
            return _read_text(part, note)
        note("invalid_block", "a block of unknown type was dropped", part)
    except Exception as error:  # noqa: BLE001 - an object that fights back is no block
        note("invalid_block", f"an unreadable block was dropped ({type_name(error)})", None)
    return None


def _check_members(part: Block, known: frozenset[str], note: Note) -> None:
    if not known.issuperset(part):
        note("unknown_member", f"members that a {part.get('type')} block has not: dropped", None)


_TEXT_MEMBERS = frozenset({"type", "text", "cache_control", "citations", "thought_signature"})


def _read_text(part: Block, note: Note) -> Block | None:
    given = part.get("text", part.get("refusal"))
    if not isinstance(given, str):
        note("invalid_block", "a text block without a text was dropped", None)
        return None
    text = clean_text(given)
    if is_blank(text):
        note("empty_block", "an empty text block was dropped", None)
        return None
    if text is not given or part["type"] != "text":
        note("invalid_text", "a text was made well-formed", None)
    else:
        _check_members(part, _TEXT_MEMBERS, note)
    block = text_block(text)
    if isinstance(part.get("citations"), list) and part["citations"]:
        block["citations"] = clean_json(part["citations"])
    return sign(block, part)


def sign(block: Block, part: Block, name: str = "thought_signature") -> Block:
    """Return the block with the signature of a part, under whatever name, if that is well-formed."""
    signature = part.get(name)
    if isinstance(signature, str) and is_base64(signature):
        block["thought_signature"] = signature
    return block


def _read_thinking(part: Block, note: Note) -> Block | None:
    text = plain_text(part.get("thinking"))
    signature = plain_text(part.get("signature"))
    if text is None or (is_blank(text) and not signature):
        note("invalid_block", "an empty thinking block was dropped", None)
        return None
    _check_members(part, frozenset({"type", "thinking", "signature", "thought_signature"}), note)
    block = {"type": "thinking", "thinking": text}
    if signature:
        block["signature"] = signature
    return sign(block, part)


def _read_redacted(part: Block, note: Note) -> Block | None:
    data = plain_text(part.get("data"))
    if not data:
        note("invalid_block", "a redacted thinking block without data was dropped", None)
        return None
    return {"type": "redacted_thinking", "data": data}


_REASONING_MEMBERS = ("id", "summary", "content", "encrypted_content")


def _read_reasoning(part: Block, note: Note) -> Block | None:
    block: Block = {"type": "reasoning"}
    block |= {name: clean_json(part[name]) for name in _REASONING_MEMBERS if part.get(name)}
    # The provider refuses any other id, and with it the whole request.
    named = isinstance(block.get("id"), str) and block["id"].startswith("rs")
    if not named or not isinstance(block.setdefault("summary", []), list):
        note("invalid_block", "a reasoning item without an id or a summary was dropped", None)
        return None
    return block


def _read_owned(part: Block, note: Note) -> Block | None:
    # Without an id a call and its result could never be paired.
    key = call_key(part.get("id") if "id" in part else part.get("tool_use_id"))
    if key is None:
        note("invalid_block", f"a {part['type']} block without an id was dropped", part)
        return None
    block: Block = clean_json(part)
    return {name: value for name, value in block.items() if name != "cache_control"}


_HINTS = {"cache_control", "caller", "toolset_name"}  # only meaningful to Anthropic
_CALL_MEMBERS = frozenset({"type", "id", "name", "input", "thought_signature"} | _HINTS)
_RESULT_MEMBERS = frozenset({"type", "tool_use_id", "content", "is_error"} | _HINTS)


def _read_call(part: Block, note: Note) -> Block:
    block = call_block(call_key(part.get("id")), part.get("name"), part.get("input"), note)
    _check_members(part, _CALL_MEMBERS, note)
    caller = part.get("caller")
    if isinstance(caller, dict) and isinstance(caller.get("tool_id"), str):
        block["caller"] = clean_json(caller)
    return sign(block, part)


def _read_tool_result(part: Block, note: Note) -> Block:
    key, failed = call_key(part.get("tool_use_id")), part.get("is_error") is True
    _check_members(part, _RESULT_MEMBERS, note)
    return result_block(key, part.get("content"), note, failed=failed)


def _read_words(part: Block, note: Note) -> Block | None:
    """Return something that only one provider takes, in words for the others."""
    note("invalid_block", f"a {part['type']} was put into words", None)
    texts = [plain_text(part.get(name)) for name in ("title", "source", "file_id", "tool_name")]
    content = part.get("content")
    if isinstance(content, list):
        texts += [plain_text(one.get("text")) for one in content if isinstance(one, dict)]
    said = "\n".join(text for text in texts if text)
    return text_block(f"({part['type']}: {said})" if said else f"({part['type']})")


_READERS: dict[str, Callable[[Block, Note], Block | None]] = {
    **dict.fromkeys(OWNERS, _read_owned),
    **dict.fromkeys(_TEXTS | {"refusal"}, _read_text),
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "reasoning": _read_reasoning,
    "tool_use": _read_call,
    "tool_result": _read_tool_result,
    **dict.fromkeys(_IMAGES, read_image),
    **dict.fromkeys(_DOCUMENTS, read_document),
    **dict.fromkeys(("search_result", "container_upload", "input_audio"), _read_words),
}
