"""Mistral's chat form: like OpenAI's, with short ids and never words and calls in one message."""

from __future__ import annotations

from holdfast.replay._blocks import Block
from holdfast.replay._dialects._form import (
    Dialect,
    Growth,
    Message,
    begin_message,
    data_url,
    text_or_parts,
)
from holdfast.replay._dialects.openai import read_chat, text_part, write_calls, write_user
from holdfast.replay._ids import fit_name, mistral_id

__all__ = ["MISTRAL"]


def _fit_name(name: str) -> str:
    return fit_name(name, 64)


def _write(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    if role == "user":
        return write_user(blocks, mistral_id, _media_part)
    messages: list[Message] = []
    texts = [text_part(block) for block in blocks if block["type"] == "text"]
    if texts:
        messages.append({"role": "assistant", "content": text_or_parts(texts)})
    calls = write_calls(blocks, mistral_id, _fit_name)
    if calls:
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    return messages


def _media_part(block: Block) -> Message | None:
    source = block["source"]
    kind = source["type"]
    if kind == "text":
        return {"type": "text", "text": source["data"]}
    if block["type"] == "image" and kind in {"base64", "url"}:
        url = data_url(source) if kind == "base64" else source["url"]
        return {"type": "image_url", "image_url": {"url": url}}
    return None


MISTRAL = Dialect(
    "mistral", _write, read_chat, has_system=True, growth=Growth(begin_message, text_part)
)
