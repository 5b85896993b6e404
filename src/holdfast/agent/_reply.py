"""What a model says, in our own words: no type of the engine goes beyond its edge."""

from __future__ import annotations

from typing import Any

import msgspec


class Speech(msgspec.Struct, frozen=True):
    """Words of a model: its answer (``text``) or its thoughts (``thinking``)."""

    kind: str
    text: str
    signature: str | None = None
    thought_signature: str | None = None
    """Google's form of a signature; only the provider that made one may see it again."""
    redacted: bool = False
    """The provider showed no words: the signature is all there is."""


class CallRequest(msgspec.Struct, frozen=True):
    """A tool call that the model asks for. ``fault`` says why its arguments cannot be read."""

    id: str
    name: str
    args: dict[str, Any]
    fault: str | None = None
    thought_signature: str | None = None


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of one request or of several. ``estimated`` if no provider told them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """What went in and what came out."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage) -> None:
        """Count another request."""
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cache_read_tokens += other.cache_read_tokens
        self.cache_write_tokens += other.cache_write_tokens
        self.requests += other.requests
        self.estimated = self.estimated or other.estimated

    def figures(self) -> dict[str, Any]:
        """What is recorded of it, without what is zero or false."""
        found: dict[str, Any] = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        for name in ("cache_read_tokens", "cache_write_tokens", "estimated"):
            if getattr(self, name):
                found[name] = getattr(self, name)
        return found


class Reply(msgspec.Struct, frozen=True):
    """One answer of a model: words, then calls."""

    speech: list[Speech]
    calls: list[CallRequest]
    usage: Usage
    model: str | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The answer without thoughts."""
        return "".join(part.text for part in self.speech if part.kind == "text")


class Ask(msgspec.Struct, frozen=True):
    """One request to a model: the conversation in neutral form, and what goes with it."""

    messages: list[dict[str, Any]]
    instructions: str | None = None
    tools: tuple[Any, ...] = ()
    """Definitions that the engine made from our tools."""
