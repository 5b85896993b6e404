"""Complete answers of providers: their messages, and their metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.errors import InvalidData
from holdfast.replay._dialects._form import Message

_PIECES = ("content_block_", "message_start", "message_delta", "message_stop", "response.")


class ProviderAnswer(NamedTuple):
    """Messages in a provider's form and, for an answer, members for its event."""

    messages: list[Any]
    about: dict[str, Any] = {}  # noqa: RUF012 - never changed


def open_answer(value: Message) -> ProviderAnswer:
    """Return the contents of a complete answer; a bare message as it is.

    Raises InvalidData for an answer that has no message, or several to choose from, and for pieces of a stream.
    """
    kind = str(value.get("object") or value.get("type") or "")
    if kind.endswith((".chunk", ".delta", ".done", ".added")) or kind.startswith(_PIECES):
        raise InvalidData(
            f"a {kind:.60} is a piece of a stream, not a message",
            remedy="Record pieces with s.delta(text), and the whole message when it has ended.",
        )
    # Marks that only complete answers have come first: a message may have any other member.
    for mark, opened in _ANSWERS.items():
        if mark in value:
            return opened(value)
    if value.get("object") == "response" or ("type" not in value and "output" in value):
        return _open_response(value)
    if value.get("type") == "message" and ("model" in value or "usage" in value):
        return _open_message(value)
    if isinstance(value.get("message"), dict):
        return _open_choice(value)
    if isinstance(value.get("content"), dict):
        return _open_candidate(value)
    return ProviderAnswer([value])


def _only(value: Message, name: str) -> Message:
    """Return the one item of a list. Raises InvalidData if there is none, or a choice."""
    # Taking one of several would silently lose the others: the caller has to choose.
    items = value[name]
    if not isinstance(items, list) or len(items) != 1 or not isinstance(items[0], dict):
        count = len(items) if isinstance(items, list) else "no"
        raise InvalidData(
            f"the answer has {count} {name} where one is expected",
            remedy=f"Record the one that you go on with: s.record(answer.{name}[0]).",
        )
    found: Message = items[0]
    return found


def _about(**members: Any) -> dict[str, Any]:
    return {name: member for name, member in members.items() if member not in (None, {}, [])}


def _rest(value: Message, *taken: str) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name not in taken and one is not None}


def _open_completion(value: Message) -> ProviderAnswer:
    messages, about = _open_choice(_only(value, "choices"))
    usage = _usage(value.get("usage"), cache=("prompt_tokens_details", "cached_tokens"))
    own = _about(model=value.get("model"), usage=usage, response_id=value.get("id"))
    return ProviderAnswer(messages, about | own)


def _open_choice(value: Message) -> ProviderAnswer:
    if not isinstance(value.get("message"), dict):
        raise InvalidData("the choice has no message", remedy="Record a whole answer.")
    rest = _rest(value, "message", "finish_reason", "index")
    return ProviderAnswer([value["message"]], _about(stop_reason=value.get("finish_reason"), metadata=rest))


def _open_response(value: Message) -> ProviderAnswer:
    items = value.get("output")
    if not isinstance(items, list):
        raise InvalidData("the response has no list of output items")
    reason = value.get("incomplete_details")
    stopped = (reason.get("reason") if isinstance(reason, dict) else None) or value.get("status")
    usage = _usage(value.get("usage"), cache=("input_tokens_details", "cached_tokens"))
    about = _about(model=value.get("model"), usage=usage, stop_reason=stopped, response_id=value.get("id"))
    return ProviderAnswer(items, about)


def _open_message(value: Message) -> ProviderAnswer:
    rest = _rest(value, "id", "type", "role", "content", "model", "usage", "stop_reason", "stop_sequence")
    about = _about(
        model=value.get("model"),
        usage=_usage(value.get("usage")),
        stop_reason=value.get("stop_reason"),
        stop_sequence=value.get("stop_sequence"),
        response_id=value.get("id"),
        metadata=rest,
    )
    return ProviderAnswer([{"role": value.get("role"), "content": value.get("content")}], about)


def _open_generated(value: Message) -> ProviderAnswer:
    messages, about = _open_candidate(_only(value, "candidates"))
    told = value.get("usageMetadata", value.get("usage_metadata"))
    own = _about(
        model=value.get("modelVersion", value.get("model_version")),
        usage=_gemini_usage(told) if isinstance(told, dict) else None,
        response_id=value.get("responseId", value.get("response_id")),
    )
    return ProviderAnswer(messages, about | own)


def _open_candidate(value: Message) -> ProviderAnswer:
    content = value.get("content")
    if not isinstance(content, dict):
        content = {"role": "model", "parts": []}  # such as for an answer that was blocked
    reason = value.get("finishReason", value.get("finish_reason"))
    rest = _rest(value, "content", "finishReason", "finish_reason", "index")
    content = {"role": "model", **content}
    return ProviderAnswer([content], _about(stop_reason=reason, metadata=rest))


def _usage(told: Any, cache: tuple[str, str] | None = None) -> dict[str, Any] | None:
    """Return the provider's figures, with the tokens read from its cache under our name."""
    if not isinstance(told, dict):
        return None
    figures = _rest(told)
    details = figures.get(cache[0]) if cache else None
    cached = details.get(cache[1]) if cache and isinstance(details, dict) else None
    return figures | ({"cache_read_tokens": cached} if cached else {})


_GEMINI_FIGURES = {
    "input_tokens": ("promptTokenCount", "prompt_token_count"),
    "tool_tokens": ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "output_tokens": ("candidatesTokenCount", "candidates_token_count"),
    "thoughts_tokens": ("thoughtsTokenCount", "thoughts_token_count"),
    "total_tokens": ("totalTokenCount", "total_token_count"),
    "cache_read_tokens": ("cachedContentTokenCount", "cached_content_token_count"),
}


def _gemini_usage(told: Message) -> dict[str, Any]:
    """Return Gemini's figures under our names: thinking is output, what its tools read is input."""
    figures = {
        name: found
        for name, names in _GEMINI_FIGURES.items()
        if (found := next((told[one] for one in names if type(told.get(one)) is int), 0))
    }
    for part, whole in (("tool_tokens", "input_tokens"), ("thoughts_tokens", "output_tokens")):
        if part in figures:
            figures[whole] = figures.get(whole, 0) + figures[part]
    return figures


_ANSWERS: dict[str, Callable[[Message], ProviderAnswer]] = {"choices": _open_completion, "candidates": _open_generated}
