"""The common parts of all dialects, the neutral form, and Anthropic's.

Anthropic's form is the neutral one, without what it does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.replay._blocks import OWNERS, Block, Note, describe, read_content, text_block
from holdfast.replay._text import fit_name, plain_text, template, type_name

_MEDIA = frozenset({"image", "document"})
_NAME_CHARS_MAX = 64
WEB = frozenset({"http", "https"})  # addresses that a provider on the internet can fetch

Provider = Literal["neutral", "anthropic", "openai", "openai-responses", "gemini", "mistral", "pydantic-ai"]
"""The form of a conversation; "neutral" is our own."""
Message = dict[str, Any]
Write = Callable[[str, list[Block], list[Block]], list[Message]]
Pair = tuple[str, Block]  # the speaker (user, assistant or system) and a neutral block


class Fragment(NamedTuple):
    """The messages of one or a few events in a draft, with the first of them."""

    seq: int
    messages: list[Message]
    is_result: bool


class Growth(msgspec.Struct, frozen=True):
    """The functions that extend a message in place.

    ``begin(role)`` gives it and its list, which takes the values of ``part(block)``.
    """

    begin: Callable[[str], tuple[Message, list[Any]]]
    part: Callable[[Block], Any]
    texts_only: bool = True  # whether only messages of nothing but texts can grow


class Dialect(msgspec.Struct, frozen=True):
    """The form in which one provider takes a conversation.

    ``write(role, blocks, before)`` gives the messages for one neutral message; ``before`` are the blocks of the
    previous one. The list of blocks may become the message's own. ``read(message, note)`` gives the blocks of a
    message.
    """

    name: Provider
    write: Write
    read: Callable[[Message, Note], list[Pair]]
    has_system: bool = False  # whether system prompts are in the list
    growth: Growth | None = None  # how a long message can grow without being rewritten; None if it cannot
    join: Callable[[list[Fragment]], list[Message]] | None = None
    """Makes one message of a draft's fragments, where turns must alternate."""
    order: Callable[[list[Message]], list[Message]] | None = None
    """Puts the messages of a user's draft into the required order."""
    systems: Literal["nowhere", "first", "anywhere"] = "nowhere"
    """The allowed places in the list for system messages that were recorded as messages."""
    schemes: frozenset[str] | None = None
    """The accepted schemes for addresses of images and documents; None for any."""

    def __post_init__(self) -> None:
        if self.schemes is not None:
            msgspec.structs.force_setattr(self, "write", partial(_write_reachable, self.write, self.schemes))

    def unreached(self, block: Block) -> list[str]:
        """Return the addresses in a block that the provider could not fetch."""
        if self.schemes is None or not holds_media([block]):
            return []
        media = block["content"] if block["type"] == "tool_result" else [block]
        return [one["source"]["url"] for one in media if not _is_reached(one, self.schemes)]


def _write_reachable(
    write: Write, schemes: frozenset[str], role: str, blocks: list[Block], before: list[Block]
) -> list[Message]:
    """Write with a description in place of what the provider could not fetch."""
    if holds_media(blocks):
        blocks = [named(one, schemes) for one in blocks]
    return write(role, blocks, before)


def holds_media(blocks: Iterable[Block]) -> bool:
    """Return whether an image or a document may be among blocks, or in a result among them."""
    # Every block of a conversation is checked, and nearly none has any: a loop makes no calls.
    for block in blocks:
        kind = block["type"]
        if kind in _MEDIA or (kind == "tool_result" and type(block["content"]) is not str):
            return True
    return False


def named(block: Block, schemes: frozenset[str]) -> Block:
    """Return a block with only the names of images and documents that could not be fetched."""
    if block["type"] == "tool_result":
        content = block["content"]
        if isinstance(content, str) or all(_is_reached(one, schemes) for one in content):
            return block
        return block | {"content": [named(one, schemes) for one in content]}
    return block if _is_reached(block, schemes) else {"type": "text", "text": describe(block)}


def _is_reached(block: Block, schemes: frozenset[str]) -> bool:
    source = block.get("source") if block["type"] in _MEDIA else None
    if source is None or source["type"] != "url":
        return True
    scheme, separator, rest = source["url"].partition("://")
    return scheme.lower() in schemes and bool(separator and rest)


def begin_message(role: str) -> tuple[Message, list[Any]]:
    """Return an empty message with a list as its content, and that list."""
    content: list[Any] = []
    return {"role": role, "content": content}, content


def joined(member: str, fragments: list[Fragment], *, in_order: bool = False) -> list[Message]:
    """Return the last message with every ``member`` of all fragments joined; ``in_order``: as events came."""
    given = [message for one in (sorted(fragments) if in_order else fragments) for message in one.messages]
    parts: list[Any] = []
    for message in given:
        said = message[member]
        parts += [text_block(said)] if isinstance(said, str) else said
    return [{**given[-1], member: parts}]


def call_names(before: Iterable[Block]) -> dict[str, str]:
    return {block["id"]: block["name"] for block in before if block["type"] == "tool_use"}


def url_of(source: Block) -> str | None:
    """Return the address of a source, with the bytes in it if they are available; None if it has none."""
    if source["type"] == "base64":
        return f"data:{source['media_type']};base64,{source['data']}"
    return source.get("url")


def short_name(name: str) -> str:
    """Return the name of a tool as all but Anthropic accept it."""
    return fit_name(name, _NAME_CHARS_MAX)


def result_text(content: str | list[Block]) -> str:
    """Return a tool result as text; images and documents in words."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] if block["type"] == "text" else describe(block) for block in content)


def text_or_parts(parts: list[Message], key: str = "text") -> str | list[Message]:
    """Return a single text as a string, everything else as a list of parts."""
    if len(parts) == 1 and key in parts[0] and len(parts[0]) == 2:
        text: str = parts[0][key]
        return text
    return parts


# The neutral form and Anthropic's.
_MESSAGES = {role: template(role=role, content=None) for role in ("user", "assistant", "system")}
_COMMON = frozenset({"text", "tool_use", "tool_result"})  # accepted by all, unless they are signed
_HTTPS = frozenset({"https"})  # the only addresses that Anthropic fetches
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


def bare_text(block: Block) -> bool:
    """Return whether a block is a text and nothing more, so that a string says the same."""
    return block["type"] == "text" and len(block) == 2


def _write_neutral(role: str, blocks: list[Block], _before: list[Block]) -> list[Message]:
    message = _MESSAGES[role].copy()
    message["content"] = blocks[0]["text"] if len(blocks) == 1 and bare_text(blocks[0]) else blocks
    return [message]


def _write_anthropic(role: str, blocks: list[Block], before: list[Block]) -> list[Message]:
    for block in blocks:
        if block["type"] not in _COMMON or "thought_signature" in block:
            blocks = [own for each in blocks if (own := _keep_anthropic(each)) is not None]
            break
    return _write_neutral(role, blocks, before)


def _keep_anthropic(block: Block) -> Block | None:
    """Return a block as Anthropic accepts it: without other providers' signatures; None for their blocks."""
    kind = block["type"]
    if OWNERS.get(kind, "anthropic") != "anthropic":
        return None
    if kind == "thinking" and "signature" not in block:
        return None
    if "thought_signature" in block:
        return {name: value for name, value in block.items() if name != "thought_signature"}
    return block


def read_message(message: Message, note: Note) -> list[Pair]:
    role = message.get("role")
    side = _ROLES.get(role) if isinstance(role, str) else None
    if side is None:
        shown = plain_text(role) if isinstance(role, str) else type_name(role)
        note("invalid_structure", f"a message of role {shown!r} was dropped", message)
        return []
    return [(side, block) for block in read_content(message.get("content"), note)]


_NEUTRAL_GROWTH = Growth(begin_message, lambda block: block, texts_only=False)
NEUTRAL = Dialect("neutral", _write_neutral, read_message, growth=_NEUTRAL_GROWTH)
ANTHROPIC = Dialect(
    "anthropic",
    _write_anthropic,
    read_message,
    growth=Growth(begin_message, lambda block: _keep_anthropic(named(block, _HTTPS)), texts_only=False),
    schemes=_HTTPS,
    join=partial(joined, "content"),
)
