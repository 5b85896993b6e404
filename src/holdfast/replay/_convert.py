"""From the neutral form to a provider's and back, as it stands, without repair."""

from __future__ import annotations

from typing import Any

from holdfast.replay._blocks import Block
from holdfast.replay._dialects import Message, dialect_of
from holdfast.replay._dialects.neutral import NEUTRAL
from holdfast.replay._reading import admit

__all__ = ["from_dialect", "to_dialect"]


def to_dialect(messages: list[Message], provider: str) -> list[Message]:
    """Neutral messages in a provider's form.

    What the provider cannot carry is put into words or left out (docs/reference/provider-rules.md).
    Raises UsageError for an unknown provider.
    """
    dialect = dialect_of(provider)
    written: list[Message] = []
    before: list[Block] = []
    for side, blocks in _turns(messages, "neutral"):
        if side == "system":
            written += [{"role": "system", "content": block["text"]} for block in blocks]
        else:
            written += dialect.write(side, blocks, before)
            before = blocks
    return written


def from_dialect(messages: list[Message], provider: str) -> list[Message]:
    """A provider's messages in neutral form; what is no message of that provider is passed over.

    Raises UsageError for an unknown provider.
    """
    return [
        message
        for side, blocks in _turns(messages, provider)
        for message in NEUTRAL.write(side, blocks, [])
    ]


def _turns(messages: list[Message], provider: str) -> list[tuple[str, list[Block]]]:
    """Who says what; neighbouring messages of one side are one turn."""
    dialect = dialect_of(provider)
    turns: list[tuple[str, list[Block]]] = []
    for message in messages:
        for side, block in dialect.read(message, _ignore):
            pair = admit(side, block, _ignore)
            if pair is None:
                continue
            if not turns or turns[-1][0] != pair[0]:
                turns.append((pair[0], []))
            turns[-1][1].append(pair[1])
    return turns


def _ignore(type: str, detail: str, content: Any) -> None:
    """Take no notice."""
