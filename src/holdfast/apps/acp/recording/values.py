"""Values as they come over the wire, made into what a session records; they may be anything."""

from __future__ import annotations

import json
import math
import re
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from holdfast.apps.wire.frames import member, object_in, objects_in, text_in
from holdfast.model import Limits

_LIMITS = Limits()
_UNFIT = re.compile("[\0\ud800-\udfff]")
_WORDS = {math.inf: "Infinity", -math.inf: "-Infinity"}
# In the place of a value whose name stays: people see that there was one.
_HIDDEN = "***"
_DEPTH_MAX = 64
_ERROR_CHARS_MAX = 1000
_FIGURES = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "cachedReadTokens": "cache_read_tokens",
    "cachedWriteTokens": "cache_write_tokens",
    "thoughtTokens": "thought_tokens",
}
_NOTIFICATION = {"jsonrpc", "method", "params"}
_REQUEST = {"jsonrpc", "id", "method", "params"}


def clean(data: dict[str, Any], *, limits: Limits = _LIMITS) -> dict[str, Any]:
    """Return the data in the form that a session takes.

    U+0000 and lone surrogates become U+FFFD; NaN, infinities and endless integers become their text; what is nested
    too deep becomes its JSON text. Nothing is left out. What a session takes already comes back equal.
    """
    return {key: _clean(value, limits, limits.depth_max - 1) for key, value in _clean_keys(data).items()}


def _clean(value: Any, limits: Limits, depth: int) -> Any:
    if isinstance(value, str):
        return _UNFIT.sub("\ufffd", value)
    if isinstance(value, (dict, list, tuple)):
        if depth <= 0:
            return _UNFIT.sub("\ufffd", _json_text(value))
        if isinstance(value, dict):
            items = _clean_keys(value).items()
            return {key: _clean(item, limits, depth - 1) for key, item in items}
        return [_clean(item, limits, depth - 1) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else _WORDS.get(value, "NaN")
    if isinstance(value, int) and abs(value) >= 10**limits.integer_digits_max:
        return _digits(value)
    return value if value is None or isinstance(value, int) else _UNFIT.sub("\ufffd", str(value))


def _clean_keys(value: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in value.items():
        name = _UNFIT.sub("\ufffd", key if isinstance(key, str) else str(key))
        while name in found:
            name += "_"
        found[name] = item
    return found


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # longer than Python prints
        return hex(value)


def _json_text(value: Any) -> str:
    """Return the JSON of a value of any depth: encoders give up where a parser did not."""
    # With a stack of our own: what is nested so deep would exhaust the interpreter's.
    parts: list[str] = []
    waiting: list[Any] = [(value,)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        (item,) = item
        if isinstance(item, dict):
            pairs = [[f"{json.dumps(str(key))}:", (each,)] for key, each in item.items()]
            waiting += _bracketed("{", pairs, "}")
        elif isinstance(item, (list, tuple)):
            waiting += _bracketed("[", [[(each,)] for each in item], "]")
        elif isinstance(item, int) and not isinstance(item, bool):
            parts.append(_digits(item))
        else:
            parts.append(json.dumps(item, ensure_ascii=False, default=str))
    return "".join(parts)


def _bracketed(opening: str, groups: list[list[Any]], closing: str) -> list[Any]:
    """Return the parts of an object or array, last first."""
    parts: list[Any] = [opening]
    for number, group in enumerate(groups):
        parts += [",", *group] if number else group
    return [*parts, closing][::-1]


def mask_servers(servers: Any) -> Any:
    """Return a list of MCP servers without what opens doors: values of variables and headers."""
    if not isinstance(servers, list):
        return servers
    return [
        {key: _MASKS[key](each) if key in _MASKS else each for key, each in server.items()}
        if isinstance(server, dict)
        else server
        for server in servers
    ]


def without_secrets(value: Any, *, depth: int = _DEPTH_MAX) -> Any:
    """Return the value with every list of MCP servers in it masked."""
    if depth and isinstance(value, dict):
        return {
            key: mask_servers(each) if key == "mcpServers" else without_secrets(each, depth=depth - 1)
            for key, each in value.items()
        }
    if depth and isinstance(value, list):
        return [without_secrets(each, depth=depth - 1) for each in value]
    return value


def _mask_values(value: Any) -> Any:
    if isinstance(value, list):
        return [
            {key: each if key == "name" else _HIDDEN for key, each in item.items()}
            if isinstance(item, dict)
            else _HIDDEN
            for item in value
        ]
    return dict.fromkeys(value, _HIDDEN) if isinstance(value, dict) else _HIDDEN


def _mask_address(url: Any) -> Any:
    """Return an address without the password, query and fragment that it may hold."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        query = _HIDDEN if parts.query else ""
        return urlunsplit((parts.scheme, host, parts.path, query, ""))
    except (ValueError, AttributeError, TypeError):
        return _HIDDEN


_MASKS = {"env": _mask_values, "headers": _mask_values, "url": _mask_address}


def prompt_content(prompt: Any) -> str | list[dict[str, Any]]:
    """Return the content of a user message: text if it is only that, else blocks."""
    given = prompt if isinstance(prompt, list) else []
    blocks = [block for each in given if (block := neutral_block(each)) is not None]
    if all(block["type"] == "text" for block in blocks) and all(
        each.get("type") == "text" for each in given if isinstance(each, dict)
    ):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def neutral_block(block: Any) -> dict[str, Any] | None:
    """Return a content block as a conversation holds it; None for what is none."""
    kind = member(block, "type")
    if not isinstance(kind, str):
        return None
    if kind == "text":
        return {"type": "text", "text": text_in(block, "text")}
    if kind == "image" and text_in(block, "data"):
        source = {"type": "base64", "media_type": text_in(block, "mimeType") or "image/png", "data": block["data"]}
        return {"type": "image", "source": source}
    about = object_in(block, "resource") or block
    name = next((found for key in ("uri", "name", "mimeType") if (found := text_in(about, key))), "")
    named = f"[{kind}: {name}]" if name else f"[{kind}]"
    return {"type": "text", "text": "\n".join(filter(None, [named, text_in(about, "text")]))}


def tool_name(call: dict[str, Any]) -> str:
    """Return what a tool is called, as far as the frames about a call say."""
    meta, kind = object_in(call, "_meta"), text_in(call, "kind")
    names = [text_in(owner, "toolName") for owner in (*meta.values(), meta)]
    names += [text_in(call, "name"), "" if kind == "other" else kind, text_in(call, "title")]
    return next(filter(None, names), "tool")


def tool_output(call: dict[str, Any]) -> Any:
    """Return what a call gave: its texts as one, blocks if there is more, else its raw output."""
    given = objects_in(call, "content")
    parts = [part for each in given if (part := _output_part(each)) is not None]
    if parts and all(part.get("type") == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    if parts:
        return parts[0] if len(parts) == 1 and "path" in parts[0] else parts
    output = call.get("printed") or call.get("rawOutput")
    if output is not None:
        return output
    return "\n".join(f"[terminal: {text_in(each, 'terminalId')}]" for each in given)


def printed_in(meta: Any) -> str:
    """Return what a command printed, where an agent tells it beside the protocol (Codex, Claude)."""
    return "".join(text_in(meta, key, "data") for key in ("terminal_output", "terminal_output_delta"))


def places(locations: Any) -> dict[str, Any]:
    """Return what a call is about, if that is all that its agent tells of its parameters (Gemini)."""
    paths = [path for each in objects_in(locations) if (path := text_in(each, "path"))]
    return {"paths": paths} if paths else {}


def _output_part(part: dict[str, Any]) -> dict[str, Any] | None:
    if part.get("type") == "content":
        return neutral_block(part.get("content"))
    if part.get("type") == "diff":
        return {key: part[key] for key in ("path", "oldText", "newText") if key in part} or None
    return None


def is_plain_chunk(frame: Any, update: Any, content: Any, message_id: str | None) -> bool:
    """Return whether a frame can be rebuilt from its text, kind and message id."""
    params = frame["params"]
    return (
        len(content) == 2
        and len(update) == (2 if message_id is None else 3)
        and len(params) == 2
        and type(params.get("sessionId")) is str
        and frame.keys() == _NOTIFICATION
        and frame["jsonrpc"] == "2.0"
    )


def is_plain_prompt(frame: Any, params: Any, prompt: Any) -> bool:
    """Return whether a prompt can be rebuilt from its text."""
    return (
        isinstance(prompt, list)
        and len(prompt) == 1
        and isinstance(prompt[0], dict)
        and prompt[0].keys() == {"type", "text"}
        and prompt[0]["type"] == "text"
        and isinstance(prompt[0]["text"], str)
        and params.keys() == {"sessionId", "prompt"}
        and isinstance(params["sessionId"], str)
        and frame.keys() == _REQUEST
        and frame["jsonrpc"] == "2.0"
    )


def figures(usage: Any) -> dict[str, int]:
    """Return what a turn used, by the names that events have for it."""
    found = {name: member(usage, key) for key, name in _FIGURES.items()}
    return {name: count for name, count in found.items() if type(count) is int and count >= 0}


def decision(options: Any, chosen: str) -> str:
    """Return whether the option that was chosen allows or denies."""
    kinds = [text_in(option, "kind") for option in objects_in(options) if option.get("optionId") == chosen]
    return "allow" if ([*filter(None, kinds), chosen][0]).startswith("allow") else "deny"


def todo(entry: dict[str, Any]) -> dict[str, Any]:
    """Return one entry of a plan."""
    text, status = text_in(entry, "content"), text_in(entry, "status")
    known = status in {"pending", "in_progress", "completed"}
    return {"content": text, "status": status if known else "pending", "activeForm": text}


def message(error: Any) -> str:
    """Return what an error says."""
    told = member(error, "message")
    return told if isinstance(told, str) else _json_text(error)[:_ERROR_CHARS_MAX]
