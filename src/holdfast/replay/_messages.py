"""Reading a message of any dialect, or of none, as pairs of a side and a neutral block."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from holdfast.model import Event
from holdfast.replay._blocks import Block, Note, is_soft, text_block
from holdfast.replay._dialects import DIALECTS, Dialect, Message, Pair, dialect_of
from holdfast.replay._dialects.neutral import NEUTRAL
from holdfast.replay._dialects.responses import ITEMS
from holdfast.replay._media import describe
from holdfast.replay._text import type_name
from holdfast.replay._usage import TODO_TOOLS, read_todos
from holdfast.replay._values import read_result

_CHAT = frozenset({"tool_calls", "function_call", "refusal", "audio", "reasoning_content"})
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ITEM_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def read_message(message: Any, note: Note) -> tuple[Dialect, list[Pair]]:
    """What a message says, and the dialect it is in. Anything that is no message says nothing."""
    if not isinstance(message, dict):
        note("invalid_structure", f"a {type_name(message)} is not a message: dropped", None)
        return DIALECTS["neutral"], []
    dialect = recognise(message)
    pairs = (admit(side, block, note) for side, block in dialect.read(message, note))
    return dialect, [pair for pair in pairs if pair is not None]


def recognise(message: Message) -> Dialect:
    """The dialect whose marks a message bears; the neutral one if it bears none."""
    if "parts" in message:
        return DIALECTS["pydantic-ai" if "kind" in message else "gemini"]
    role, kind = message.get("role"), message.get("type")
    if isinstance(kind, str) and (kind in ITEMS or role is None):
        return DIALECTS["openai-responses"]
    tool = isinstance(role, str) and role in {"tool", "function"}
    if tool or not _CHAT.isdisjoint(message):
        return DIALECTS["openai"]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    # Of the dict itself: an object that fights back is no block, and no reason to drop the rest.
    found = [dict.get(one, "type") for one in parts if isinstance(one, dict)]
    kinds = {kind for kind in found if isinstance(kind, str)}
    if kinds & _ITEM_PARTS:
        return DIALECTS["openai-responses"]
    return DIALECTS["openai" if kinds & _CHAT_PARTS else "neutral"]


def admit(side: str, block: Block, note: Note) -> Pair | None:
    """A block on the side where it may stand; None if it may stand on none."""
    kind = block["type"]
    if kind == "tool_use":
        return "assistant", block
    if kind == "tool_result":
        return "user", block
    if side != "assistant" and is_soft(block):
        note("invalid_block", f"a {kind} block outside an assistant's turn was dropped", block)
        return None
    if side != "user" and kind in {"image", "document"}:
        note("invalid_block", f"a {kind} outside a user's turn was put into words", block)
        return side, text_block(describe(block))
    return side, block


# From the neutral form to a provider's and back, as it stands, without repair.


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


# Questions about a list of messages, and the small answers that callers need to go on.


def has_incomplete_tool_call(messages: list[Message]) -> bool:
    """Whether the list ends with a call that has no result."""
    return last_tool_call(messages) is not None


def last_tool_call(messages: list[Message]) -> dict[str, Any] | None:
    """The call with which the list ends, as ``{id, name, input}``; the first if there are several.

    Of parallel calls that are answered in part, the first one without a result. None if the list
    ends otherwise.
    """
    answered: set[Any] = set()
    for message in reversed(messages):
        pairs = _read(message)
        calls = [block for _, block in pairs if block["type"] == "tool_use"]
        if calls:
            return next((_call(call) for call in calls if call["id"] not in answered), None)
        if not pairs or any(block["type"] != "tool_result" for _, block in pairs):
            return None
        answered |= {block["tool_use_id"] for _, block in pairs}
    return None


def _call(block: Block) -> dict[str, Any]:
    return {"id": block["id"], "name": block["name"], "input": block["input"]}


def is_complete(messages: list[Message]) -> bool:
    """Whether the assistant had the last word: it spoke last and waits for no result."""
    if not messages:
        return False
    pairs = _read(messages[-1])
    return bool(pairs) and all(
        side == "assistant" and block["type"] != "tool_use" for side, block in pairs
    )


def tool_result_message(
    tool_call_id: str, result: Any, *, is_error: bool = False, provider: str = "neutral"
) -> Message:
    """The message that answers a call. Raises UsageError for an unknown provider."""
    content, failed = read_result(result, _ignore)
    block: Block = {"type": "tool_result", "tool_use_id": tool_call_id, "content": content}
    if failed or is_error:
        block["is_error"] = True
    return dialect_of(provider).write("user", [block], [])[0]


def recover_todos(
    events: Iterable[Event], names: Collection[str] = TODO_TOOLS
) -> list[dict[str, Any]]:
    """The todos as last written, by a call to one of these tools or by a ``todo_update`` event.

    Names are compared without regard to case. Empty if there are none, or if the last ones are
    malformed.
    """
    wanted = {name.lower() for name in names}
    todos: list[dict[str, Any]] = []
    for event in events:
        try:
            if event.type == "todo_update":
                todos = read_todos(event.data)
            elif event.type == "tool_call" and str(event.data.get("tool")).lower() in wanted:
                todos = read_todos(event.data.get("params"))
        except Exception:  # noqa: BLE001, S112 - an unreadable event says nothing about todos
            continue
    return todos


def _read(message: Any) -> list[Pair]:
    try:
        return read_message(message, _ignore)[1]
    except Exception:  # noqa: BLE001 - what cannot be read says nothing
        return []
