"""Keeping a request inside the model's window. The log is never cut: this is only a view of it."""

from __future__ import annotations

from typing import Any

from holdfast.errors import TooLarge
from holdfast.replay import estimate_tokens

__all__ = ["fit_messages", "measure", "shorten_results"]

RESULT_TOKENS_MAX = 25_000
_MEDIA_TOKENS = 1_600
_ROOM_FOR_RESULTS = 4  # one result takes at most this part of the window


def measure(messages: list[dict[str, Any]]) -> int:
    """About how many tokens a conversation has."""
    return sum(_measure(message) for message in messages)


def _measure(message: dict[str, Any]) -> int:
    content = message["content"]
    if isinstance(content, str):
        return estimate_tokens(content) + 1
    return sum(_measure_block(block) for block in content) + 1


def _measure_block(block: dict[str, Any]) -> int:
    kind = block["type"]
    if kind in ("image", "document"):
        return _MEDIA_TOKENS
    if kind == "tool_result" and isinstance(block["content"], list):
        return sum(_measure_block(part) for part in block["content"])
    text = block.get("text") or block.get("thinking") or block.get("content")
    if isinstance(text, str):
        return estimate_tokens(text)
    return estimate_tokens(str(block.get("input", "")) + str(block.get("name", "")))


def shorten_results(
    messages: list[dict[str, Any]], tokens_max: int = RESULT_TOKENS_MAX
) -> list[dict[str, Any]]:
    """The same messages with overlong tool results cut, each with a note of how much is missing."""
    return [_shorten_message(message, tokens_max) for message in messages]


def _shorten_message(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return message
    blocks = [_shorten_block(block, tokens_max) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "content": blocks}


def _shorten_block(block: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    text = block.get("content")
    if block["type"] != "tool_result" or not isinstance(text, str):
        return block
    if len(text) <= tokens_max or estimate_tokens(text) <= tokens_max:
        return block
    shown = text.encode()[: 4 * tokens_max].decode("utf-8", "ignore")
    note = f"\n[cut: {len(text) - len(shown):,} of {len(text):,} characters are not shown here]"
    return {**block, "content": shown + note}


def fit_messages(messages: list[dict[str, Any]], tokens_max: int) -> list[dict[str, Any]]:
    """The first user turn and as much of the newest part as fits; calls keep their results.

    Raises TooLarge if not even the last words fit.
    """
    messages = shorten_results(messages, max(tokens_max // _ROOM_FOR_RESULTS, 16))
    if measure(messages) <= tokens_max:
        return messages
    messages = [*messages[:-1], _newest_words(messages[-1], tokens_max)]
    head = _opening(messages[0], tokens_max // 2)
    sizes = [_measure(message) for message in messages]
    start = _newest_that_fit(messages, sizes, tokens_max - _measure(head))
    if start < len(messages):
        return _after(head, messages[start:])
    if sizes[-1] > tokens_max or _answers(messages[-1]):
        raise TooLarge(
            f"the last message has about {sizes[-1]} tokens, and the window takes {tokens_max}",
            remedy="Shorten the message, or raise max_context_tokens.",
        )
    return messages[-1:]


def _after(head: dict[str, Any], rest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The head before the rest; two user turns in a row become one."""
    if rest[0]["role"] == "assistant":
        return [head, *rest]
    return [{"role": "user", "content": [*_blocks(head), *_blocks(rest[0])]}, *rest[1:]]


def _newest_words(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    """The last of a user's messages that fit, if several came without an answer in between."""
    blocks = _blocks(message)
    if _measure(message) <= tokens_max or _answers(message):
        return message
    room, kept = tokens_max - 1, len(blocks)
    while kept and (room := room - _measure_block(blocks[kept - 1])) >= 0:
        kept -= 1
    return {**message, "content": blocks[kept:]} if kept < len(blocks) else message


def _newest_that_fit(messages: list[dict[str, Any]], sizes: list[int], tokens_max: int) -> int:
    room, start = tokens_max, len(messages)
    for index in range(len(messages) - 1, 0, -1):
        room -= sizes[index]
        if room < 0:
            break
        if not _answers(messages[index]):
            start = index
    return start


def _answers(message: dict[str, Any]) -> bool:
    """Whether a message holds results, so that it cannot stand without the one before it."""
    content = message["content"]
    return not isinstance(content, str) and any(b["type"] == "tool_result" for b in content)


def _opening(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    """The first user turn if it is not too long, else a note that something is missing."""
    if message["role"] == "user" and not _answers(message) and _measure(message) <= tokens_max:
        return message
    return {"role": "user", "content": "(earlier messages are left out)"}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
