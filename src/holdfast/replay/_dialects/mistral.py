"""Mistral's chat form: like OpenAI's, with short ids and never words and calls in one message."""

from __future__ import annotations

from holdfast.replay._blocks import Block, Note
from holdfast.replay._dialects._form import (
    WEB,
    Dialect,
    Growth,
    Message,
    Pair,
    begin_message,
    data_url,
    text_or_parts,
)
from holdfast.replay._dialects.openai import (
    read_chat,
    results_first,
    text_part,
    write_calls,
    write_user,
)
from holdfast.replay._ids import fit_name, mistral_id

__all__ = ["MISTRAL"]

NO_ANSWER = "(no answer)"
"""What the assistant says between a result and what the user says next."""


def _fit_name(name: str) -> str:
    return fit_name(name, 64)


def _write(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    if role == "user":
        return _with_answer(write_user(blocks, mistral_id, _media_part))
    messages: list[Message] = []
    texts = [text_part(block) for block in blocks if block["type"] == "text"]
    if texts:
        messages.append({"role": "assistant", "content": text_or_parts(texts)})
    calls = write_calls(blocks, mistral_id, _fit_name)
    if calls:
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    return messages


def _with_answer(messages: list[Message]) -> list[Message]:
    """Results first, and the user's words not right after one: some servers refuse that."""
    ordered = results_first([one for one in messages if one.get("content") != NO_ANSWER])
    roles = [one["role"] for one in ordered]
    if "tool" in roles and "user" in roles:
        ordered.insert(roles.index("user"), {"role": "assistant", "content": NO_ANSWER})
    return ordered


def _read(message: Message, note: Note) -> list[Pair]:
    if message.get("role") == "assistant" and message.get("content") == NO_ANSWER:
        return []  # ours
    return read_chat(message, note)


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
    "mistral",
    _write,
    _read,
    has_system=True,
    growth=Growth(begin_message, text_part),
    order=_with_answer,
    systems="first",
    schemes=WEB,
)
