"""Whether a message as it was given says exactly what a message written anew says.

If so, the given one is handed on: with the members that only its sender knows the use of, and with
its text for arguments byte for byte.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["covers"]

_EXTRA: dict[str, frozenset[str]] = {
    "neutral": frozenset({"cache_control", "caller", "toolset_name"}),
    "anthropic": frozenset({"cache_control", "caller", "toolset_name"}),
    "openai": frozenset({"name", "refusal", "audio", "annotations", "detail"}),
    "openai-responses": frozenset(
        {"type", "id", "status", "phase", "annotations", "logprobs", "detail"}
    ),
    "gemini": frozenset(),
    "mistral": frozenset({"name"}),
    "pydantic-ai": frozenset(
        {"timestamp", "instructions", "run_id", "conversation_id", "metadata", "state", "usage"}
        | {"model_name", "provider_name", "provider_details", "finish_reason", "id", "outcome"}
    ),
}


def covers(given: Any, written: Any, provider: str) -> bool:
    """Whether ``given`` says what ``written`` says, and beside it only what does no harm."""
    if given is written:
        return True
    if isinstance(written, dict):
        return isinstance(given, dict) and _covers_dict(given, written, provider)
    if isinstance(written, list):
        return (
            isinstance(given, list)
            and len(given) == len(written)
            and all(covers(a, b, provider) for a, b in zip(given, written, strict=True))
        )
    return type(given) is type(written) and bool(given == written)


def _covers_dict(given: dict[str, Any], written: dict[str, Any], provider: str) -> bool:
    if not (_EXTRA[provider] | written.keys()).issuperset(given):
        return False
    return all(
        _covers_member(name, given.get(name), value, provider) for name, value in written.items()
    )


def _covers_member(name: str, given: Any, written: Any, provider: str) -> bool:
    if name == "arguments" and isinstance(given, str):
        return bool(json.loads(given) == json.loads(written))
    if name == "content" and written is None:
        return given is None or given == ""
    if name in {"content", "output"} and isinstance(written, str) and isinstance(given, list):
        return len(given) == 1 and _is_text(given[0], written, provider)
    if name == "role" and written == "system":
        return given in ("system", "developer")
    return covers(given, written, provider)


def _is_text(part: Any, text: str, provider: str) -> bool:
    """Whether a part is this text and nothing else, so that a string would say the same."""
    if not isinstance(part, dict) or part.get("text") != text:
        return False
    return ({"type", "text"} | _EXTRA[provider]).issuperset(part)
