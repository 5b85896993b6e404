"""How a turn of our agent ended, in the protocol's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.agent import RunResult

__all__ = ["end_of"]

_STOPS = {"length": "max_tokens", "content_filter": "refusal"}


def end_of(result: RunResult) -> dict[str, Any]:
    """The answer to a prompt: why it stopped, and what it used."""
    usage = result.usage
    figures = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }
    if usage.cache_read_tokens:
        figures["cachedReadTokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        figures["cachedWriteTokens"] = usage.cache_write_tokens
    reason = _STOPS.get(result.finish_reason or "", "end_turn")
    return {"stopReason": reason, "usage": figures}
