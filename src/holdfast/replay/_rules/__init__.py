"""Each provider's rules for a list of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import UsageError
from holdfast.replay._rules._base import Rules
from holdfast.replay._rules.anthropic import AnthropicRules, NeutralRules
from holdfast.replay._rules.gemini import GeminiRules
from holdfast.replay._rules.openai import MistralRules, OpenAIRules, ResponsesRules
from holdfast.replay._rules.pydantic_ai import PydanticAIRules

if TYPE_CHECKING:
    from holdfast.replay._dialects._form import Provider

__all__ = ["Validation", "check_alone", "goes_on", "validate"]

_RULES: Mapping[str, type[Rules]] = {
    "neutral": NeutralRules,
    "anthropic": AnthropicRules,
    "openai": OpenAIRules,
    "openai-responses": ResponsesRules,
    "gemini": GeminiRules,
    "mistral": MistralRules,
    "pydantic-ai": PydanticAIRules,
}


class Validation(msgspec.Struct, frozen=True):
    """The result of checking a list of messages against a provider's rules, with each broken rule."""

    valid: bool
    errors: list[str] = []


def validate(messages: Any, provider: Provider = "anthropic", *, errors_max: int | None = None) -> Validation:
    """Check a list of messages against a provider's rules; stop after ``errors_max`` errors.

    The empty list is valid: a fresh start. A list may end with either side, because the next turn is still to come.
    Never raises for anything in ``messages``; UsageError for an unknown provider.
    """
    rules_type = _RULES.get(provider) if isinstance(provider, str) else None
    if rules_type is None:
        raise UsageError(f"unknown provider {provider!r}: one of {', '.join(_RULES)}")
    if not issubclass(type(messages), list):  # isinstance would call the value's own code
        return Validation(False, ["the messages are not a list"])
    rules = rules_type()
    for message in list.__iter__(messages):
        try:
            rules.check(message)
        except Exception:  # noqa: BLE001 - a value that cannot even be looked at breaks every rule
            rules.fail("unreadable")
        rules.index += 1
        if errors_max is not None and len(rules.errors) >= errors_max:
            return Validation(False, rules.errors[:errors_max])
    rules.end()
    return Validation(not rules.errors, rules.errors)


def check_alone(messages: list[Any], provider: str) -> Rules:
    """Check the rules that a few messages can break by themselves, whatever is before and after them."""
    # Of several the order among them counts, so only a single one is checked without its context.
    return _check(messages, provider, alone=len(messages) == 1)


def goes_on(messages: list[Any], provider: str) -> bool:
    """Return whether messages follow the rules as the end of a list whose beginning does."""
    rules = _check(messages, provider, alone=False)
    rules.end()
    return not rules.errors


def _check(messages: list[Any], provider: str, *, alone: bool) -> Rules:
    rules = _RULES[provider]()
    rules.alone = alone
    rules.begun = rules.continued = True
    for message in messages:
        try:
            rules.check(message)
        except Exception:  # noqa: BLE001 - as above
            rules.fail_unknown("unreadable")
        rules.index += 1
    return rules
