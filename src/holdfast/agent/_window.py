"""Keeping a request inside the model's window. The log is never cut: this is only a view of it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agent._engine import Engine
from holdfast.agent._reply import Ask, Usage
from holdfast.agent._run_log import RunLog, is_child
from holdfast.errors import TooLarge
from holdfast.model import Event
from holdfast.replay import estimate_tokens, recover
from holdfast.session import Session

RESULT_TOKENS_MAX = 25_000
_MEDIA_TOKENS = 1_600
_ROOM_FOR_RESULTS = 4  # one result takes at most this part of the window


def measure(messages: list[dict[str, Any]]) -> int:
    """About how many tokens a conversation has."""
    return sum(_measure(message) for message in messages)


def _measure(message: dict[str, Any]) -> int:
    content = message["content"]
    if isinstance(content, str):
        return estimate_tokens(content) + 1
    return sum(_measure_block(block) for block in content) + 1


def _measure_block(block: dict[str, Any]) -> int:
    kind = block["type"]
    if kind in ("image", "document"):
        return _MEDIA_TOKENS
    if kind == "tool_result" and isinstance(block["content"], list):
        return sum(_measure_block(part) for part in block["content"])
    text = block.get("text") or block.get("thinking") or block.get("content")
    if isinstance(text, str):
        return estimate_tokens(text)
    return estimate_tokens(str(block.get("input", "")) + str(block.get("name", "")))


def shorten_results(
    messages: list[dict[str, Any]], tokens_max: int = RESULT_TOKENS_MAX
) -> list[dict[str, Any]]:
    """The messages with overlong tool results cut, each with a note of how much is missing."""
    return [_shorten_message(message, tokens_max) for message in messages]


def _shorten_message(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return message
    blocks = [_shorten_block(block, tokens_max) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "content": blocks}


def _shorten_block(block: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    text = block.get("content")
    if block["type"] != "tool_result" or not isinstance(text, str):
        return block
    if len(text) <= tokens_max or estimate_tokens(text) <= tokens_max:
        return block
    shown = text.encode()[: 4 * tokens_max].decode("utf-8", "ignore")
    note = f"\n[cut: {len(text) - len(shown):,} of {len(text):,} characters are not shown here]"
    return {**block, "content": shown + note}


def fit_messages(messages: list[dict[str, Any]], tokens_max: int) -> list[dict[str, Any]]:
    """The first user turn and as much of the newest part as fits; calls keep their results.

    Raises TooLarge if not even the last words fit.
    """
    messages = shorten_results(messages, max(tokens_max // _ROOM_FOR_RESULTS, 16))
    if measure(messages) <= tokens_max:
        return messages
    messages = [*messages[:-1], _newest_words(messages[-1], tokens_max)]
    head = _opening(messages[0], tokens_max // 2)
    sizes = [_measure(message) for message in messages]
    start = _newest_that_fit(messages, sizes, tokens_max - _measure(head))
    if start < len(messages):
        return _after(head, messages[start:])
    if sizes[-1] > tokens_max or _answers(messages[-1]):
        raise TooLarge(
            f"the last message has about {sizes[-1]} tokens, and the window takes {tokens_max}",
            remedy="Shorten the message, or raise max_context_tokens.",
        )
    return messages[-1:]


def _after(head: dict[str, Any], rest: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The head before the rest; two user turns in a row become one."""
    if rest[0]["role"] == "assistant":
        return [head, *rest]
    return [{"role": "user", "content": [*_blocks(head), *_blocks(rest[0])]}, *rest[1:]]


def _newest_words(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    """The last of a user's messages that fit, if several came without an answer in between."""
    blocks = _blocks(message)
    if _measure(message) <= tokens_max or _answers(message):
        return message
    room, kept = tokens_max - 1, len(blocks)
    while kept and (room := room - _measure_block(blocks[kept - 1])) >= 0:
        kept -= 1
    return {**message, "content": blocks[kept:]} if kept < len(blocks) else message


def _newest_that_fit(messages: list[dict[str, Any]], sizes: list[int], tokens_max: int) -> int:
    room, start = tokens_max, len(messages)
    for index in range(len(messages) - 1, 0, -1):
        room -= sizes[index]
        if room < 0:
            break
        if not _answers(messages[index]):
            start = index
    return start


def _answers(message: dict[str, Any]) -> bool:
    """Whether a message holds results, so that it cannot stand without the one before it."""
    content = message["content"]
    return not isinstance(content, str) and any(b["type"] == "tool_result" for b in content)


def _opening(message: dict[str, Any], tokens_max: int) -> dict[str, Any]:
    """The first user turn if it is not too long, else a note that something is missing."""
    if message["role"] == "user" and not _answers(message) and _measure(message) <= tokens_max:
        return message
    return {"role": "user", "content": "(earlier messages are left out)"}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


# A summary in place of what was said long ago, recorded as an event; the log stays whole.


_KEPT_SHARE = 3  # a third of the window is kept word for word
_CHUNK_SHARE = 2
_WORDS = (
    "Summarise this conversation for yourself, so that you can go on with it without having it. "
    "Keep names, facts, decisions, open tasks and results of tools. Write plain text."
)


async def compact(talk: RunLog, engine: Engine, tokens_max: int, usage: Usage) -> bool:
    """Summarise the older turns of a session; whether there was anything to summarise."""
    events = list(talk.session.events())
    boundary = _boundary(events, tokens_max)
    if boundary is None:
        return False
    older = recover(_before(events, boundary), provider="neutral", incomplete="mark").messages
    summary = await _summarise(_transcript(older), engine, tokens_max, usage, talk.session)
    if not summary.strip():
        return False
    talk.append("compaction", {"summary": summary, "covers": [0, boundary - 1]})
    return True


def _boundary(events: list[Event], tokens_max: int) -> int | None:
    """The seq of the user's message before which everything is summarised."""
    done = max((_covered(e) for e in events if e.type == "compaction"), default=-1)
    starts = [e.seq for e in events if e.type == "user" and not is_child(e)][1:]
    candidates = [seq for seq in starts if seq > done + 1]
    room, kept = 4 * tokens_max // _KEPT_SHARE, len(events)
    while kept and (room := room - len(bytes(events[kept - 1].raw))) >= 0:
        kept -= 1
    oldest = events[kept].seq if kept < len(events) else events[-1].seq + 1
    fitting = [seq for seq in candidates if seq >= oldest]
    return fitting[0] if fitting else next(reversed(candidates), None)


def _covered(event: Event) -> int:
    """The last event that a summary stands for; -1 for what is no summary."""
    covers = event.data.get("covers")
    last = covers[-1] if isinstance(covers, list) and covers else None
    return last if isinstance(last, int) else -1


def _before(events: list[Event], seq: int) -> list[Event]:
    return [event for event in events if event.seq < seq]


def _transcript(messages: list[dict[str, Any]]) -> str:
    return "\n".join(_line(message) for message in messages)


def _line(message: dict[str, Any]) -> str:
    content = message["content"]
    text = content if isinstance(content, str) else " ".join(_block(block) for block in content)
    return f"{message['role']}: {text}"


def _block(block: dict[str, Any]) -> str:
    if block["type"] == "tool_use":
        return f"[calls {block['name']} {msgspec.json.encode(block['input']).decode()}]"
    if block["type"] == "tool_result":
        return f"[result: {str(block['content'])[:2000]}]"
    return str(block.get("text", ""))


async def _summarise(
    transcript: str, engine: Engine, tokens_max: int, usage: Usage, session: Session
) -> str:
    """Piece by piece if the transcript itself has no room in the window."""
    size = max(4 * tokens_max // _CHUNK_SHARE, 256)
    summary = ""
    for start in range(0, len(transcript), size):
        piece = transcript[start : start + size]
        earlier = f"Summary so far:\n{summary}\n\n" if summary else ""
        prompt = f"{_WORDS}\n\n{earlier}Conversation:\n{piece}"
        reply = await engine.request(Ask([{"role": "user", "content": prompt}]))
        usage.add(reply.usage)
        session.usage(**reply.usage.figures(), model=reply.model, purpose="summary")
        summary = reply.text
    return summary
