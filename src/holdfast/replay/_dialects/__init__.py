"""The dialects of providers, one module each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from holdfast.errors import UsageError
from holdfast.replay._dialects._form import ANTHROPIC, NEUTRAL, Dialect, Provider
from holdfast.replay._dialects.gemini import GEMINI
from holdfast.replay._dialects.openai import MISTRAL, OPENAI, RESPONSES
from holdfast.replay._dialects.pydantic_ai import PYDANTIC_AI

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect for dialect in (NEUTRAL, ANTHROPIC, OPENAI, RESPONSES, GEMINI, MISTRAL, PYDANTIC_AI)
}
PROVIDERS: tuple[str, ...] = get_args(Provider)


def dialect_of(provider: str) -> Dialect:
    """Return the dialect of this name. Raises UsageError for an unknown one."""
    found = DIALECTS.get(provider) if isinstance(provider, str) else None
    if found is None:
        raise UsageError(f"unknown provider {provider!r}: one of {', '.join(PROVIDERS)}")
    return found
