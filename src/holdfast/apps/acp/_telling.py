"""What an agent is told that has lost a conversation, or did not see how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["WINDOW_TOKENS", "interruption_note", "transcript_note"]

WINDOW_TOKENS = 24_000
"""How much of the past an agent is told at most; the newest of it."""

_RESULT_CHARS = 4_000
_SEEN_CHARS = 2_000

_ABOUT = (
    "[Note of the session keeper, not of the user. This conversation began before this session of"
    " yours, which knows nothing of it. Here is what was said and done so far, oldest first{cut}."
    " Take it as your own past: do not answer it, do not repeat its actions, and go on with the"
    " user's message that follows this note.]"
)
_CUT = "; what came before it is left out"
_ABOUT_END = (
    "[Note of the session keeper, not of the user. Your record of this conversation lacks its end."
    " Here is what was said and done after what you know, oldest first. Take it as your own past:"
    " do not answer it, do not repeat its actions, and go on with the user's message that follows"
    " this note.]"
)


def transcript_note(
    messages: Iterable[Mapping[str, Any]], *, cut: bool = False, end_only: bool = False
) -> str:
    """A conversation in neutral form as a text for a model that was not there.

    ``cut``: it does not begin with the beginning; ``end_only``: the model knows what came before.
    """
    about = _ABOUT_END if end_only else _ABOUT.format(cut=_CUT if cut else "")
    lines = [about, "<conversation>"]
    for message in messages:
        speaker = "User" if message.get("role") == "user" else "Assistant"
        lines += _told(speaker, message.get("content"))
    lines.append("</conversation>")
    return "\n".join(lines)


def _told(speaker: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return [f"{speaker}: {content}"]
    if not isinstance(content, list):
        return []
    return [line for block in content if (line := _told_block(speaker, block))]


def _told_block(speaker: str, block: Mapping[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return f"{speaker}: {block.get('text', '')}"
    if kind == "tool_use":
        params = json.dumps(block.get("input"), ensure_ascii=False)
        return f"Assistant used {block.get('name')}: {_short(params, _RESULT_CHARS)}"
    if kind == "tool_result":
        label = "It failed" if block.get("is_error") else "It gave"
        return f"{label}: {_short(_text_of(block.get('content')), _RESULT_CHARS)}"
    if kind in ("image", "document"):
        return f"{speaker}: [{kind}]"
    return ""  # thoughts are the thinker's own


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block.get("text", f"[{block.get('type')}]") for block in content]
        return "\n".join(map(str, texts))
    return json.dumps(content, ensure_ascii=False)


def interruption_note(calls: Iterable[str], seen: str) -> str:
    """What the agent has to know of a turn that never ended: what ran, and what the user saw."""
    parts = ["[Note of the session keeper, not of the user. Your last turn was cut off."]
    calls = list(calls)
    if calls:
        parts.append(
            "These tool calls had begun, and whether they took effect is unknown:"
            f" {'; '.join(calls)}. Check before you do any of it again."
        )
    if seen.strip():
        parts.append(f"The user had seen this much of your answer: {_short(seen, _SEEN_CHARS)!r}.")
    parts.append("Go on with the user's message that follows this note.]")
    return " ".join(parts)


def _short(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} […{len(text) - 2 * half:,} characters left out…] {text[-half:]}"
