"""Our neutral messages as the engine's own; the one place that knows both forms."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pydantic_ai import messages as pai

from holdfast.agent._reply import CallRequest, Reply, Speech, Usage
from holdfast.agent._tool_results import plain_text
from holdfast.model import decode_json
from holdfast.replay import estimate_tokens

_ANTHROPIC = "anthropic"
_GOOGLE = "google"
_REDACTED = "redacted_thinking"


class Converter:
    """Turns neutral messages into the engine's, remembering those it has turned before.

    The session hands out the same dict for a message that has not changed, so that a long
    conversation is converted once, not at every step.
    """

    def __init__(self) -> None:
        self._known: list[tuple[dict[str, Any], pai.ModelMessage]] = []

    def convert(self, messages: list[dict[str, Any]]) -> list[pai.ModelMessage]:
        """The engine's messages for these."""
        fresh: list[tuple[dict[str, Any], pai.ModelMessage]] = []
        for index, message in enumerate(messages):
            if index < len(self._known) and self._known[index][0] is message:
                fresh.append(self._known[index])
            else:
                before = messages[index - 1] if index else None
                fresh.append((message, _convert(message, before)))
        self._known = fresh
        return [converted for _, converted in fresh]


def _convert(message: dict[str, Any], before: dict[str, Any] | None) -> pai.ModelMessage:
    blocks = _blocks(message)
    if message["role"] == "assistant":
        parts = [part for block in blocks if (part := _response_part(block)) is not None]
        provider = next((p.provider_name for p in parts if getattr(p, "provider_name", None)), None)
        return pai.ModelResponse(parts=parts, provider_name=provider)
    names = {b["id"]: b["name"] for b in _blocks(before or {}) if b["type"] == "tool_use"}
    returned = [_return_part(b, names) for b in blocks if b["type"] == "tool_result"]
    said = [_user_content(block) for block in blocks if block["type"] != "tool_result"]
    requests: list[pai.ModelRequestPart] = [*returned]
    if said:
        lone = len(said) == 1 and isinstance(said[0], str)
        requests.append(pai.UserPromptPart(content=said[0] if lone else said))  # type: ignore[arg-type]  # a text only where it is alone
    return pai.ModelRequest(parts=requests)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _response_part(block: dict[str, Any]) -> pai.ModelResponsePart | None:
    if block["type"] == "text":
        return pai.TextPart(content=block["text"])
    if block["type"] == "thinking":
        return _thinking_part(block)
    if block["type"] == _REDACTED:
        return pai.ThinkingPart(
            content="", id=_REDACTED, signature=block["data"], provider_name=_ANTHROPIC
        )
    if block["type"] != "tool_use":
        return None
    signature = block.get("thought_signature")
    return pai.ToolCallPart(
        tool_name=block["name"],
        args=block["input"],
        tool_call_id=block["id"],
        provider_name=_GOOGLE if signature else None,
        provider_details={"thought_signature": signature} if signature else None,
    )


def _thinking_part(block: dict[str, Any]) -> pai.ThinkingPart:
    if "thought_signature" in block:
        return pai.ThinkingPart(
            content=block["thinking"],
            signature=block["thought_signature"],
            provider_name=_GOOGLE,
        )
    signature = block.get("signature")
    return pai.ThinkingPart(
        content=block["thinking"],
        signature=signature,
        provider_name=_ANTHROPIC if signature else None,
    )


def _return_part(block: dict[str, Any], names: dict[str, str]) -> pai.ToolReturnPart:
    content = block["content"]
    shown = content if isinstance(content, str) else [_user_content(part) for part in content]
    return pai.ToolReturnPart(
        tool_name=names.get(block["tool_use_id"], "tool"),
        content=shown,
        tool_call_id=block["tool_use_id"],
        outcome="failed" if block.get("is_error") else "success",
    )


def _user_content(block: dict[str, Any]) -> pai.UserContent:
    source = block.get("source", {})
    if block["type"] == "text":
        return str(block["text"])
    if source.get("type") == "base64":
        return _binary(source)
    if source.get("type") == "url":
        kind = pai.ImageUrl if block["type"] == "image" else pai.DocumentUrl
        return kind(url=source["url"])
    return str(source.get("data", f"[{block['type']}]"))


def _binary(source: dict[str, Any]) -> pai.UserContent:
    try:
        data = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError, TypeError):
        return "[a picture or document that could not be read]"
    return pai.BinaryContent(data=data, media_type=str(source.get("media_type")))


def read_reply(response: pai.ModelResponse) -> Reply:
    """What the engine's response says, in our words."""
    speech: list[Speech] = []
    calls: list[CallRequest] = []
    for part in response.parts:
        if isinstance(part, pai.TextPart) and part.content:
            speech.append(Speech("text", plain_text(part.content)))
        elif isinstance(part, pai.ThinkingPart) and (part.content or part.signature):
            speech.append(_read_thinking(part))
        elif isinstance(part, pai.ToolCallPart):
            calls.append(_read_call(part))
    usage = _read_usage(response, speech, calls)
    return Reply(speech, calls, usage, response.model_name, response.finish_reason)


def _read_thinking(part: pai.ThinkingPart) -> Speech:
    provider, text = part.provider_name or "", plain_text(part.content)
    if provider.startswith(_GOOGLE):
        return Speech("thinking", text, thought_signature=part.signature)
    if provider.startswith((_ANTHROPIC, "bedrock")):
        redacted = part.id == _REDACTED
        return Speech("thinking", text, signature=part.signature, redacted=redacted)
    # Others tie their signatures to ids on their own servers: of no use to a later process.
    return Speech("thinking", text)


def _read_call(part: pai.ToolCallPart) -> CallRequest:
    signature = (part.provider_details or {}).get("thought_signature")
    args, fault = _read_args(part.args)
    name, call_id = plain_text(part.tool_name), plain_text(part.tool_call_id)
    return CallRequest(call_id, name, args, fault, signature)


def _read_args(args: Any) -> tuple[dict[str, Any], str | None]:
    if args is None or args == "":
        return {}, None
    if isinstance(args, str):
        try:
            args = decode_json(args.encode("utf-8", "replace"))
        except ValueError as error:
            return {"malformed": args}, f"the arguments are not JSON: {error}"
    if not isinstance(args, dict):
        return {"malformed": args}, "the arguments are not an object"
    return args, None


def _read_usage(
    response: pai.ModelResponse, speech: list[Speech], calls: list[CallRequest]
) -> Usage:
    found = response.usage
    usage = Usage(
        input_tokens=found.input_tokens or 0,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=found.cache_read_tokens or 0,
        cache_write_tokens=found.cache_write_tokens or 0,
        requests=1,
    )
    if not usage.output_tokens:
        said = sum(estimate_tokens(part.text) for part in speech)
        asked = sum(estimate_tokens(f"{call.name}{call.args}") for call in calls)
        usage.output_tokens, usage.estimated = said + asked, True
    return usage
