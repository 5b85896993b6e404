"""A summary in place of what was said long ago, recorded as an event; the log stays whole."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.agent._engine import Engine
from holdfast.agent._reply import Ask, Usage
from holdfast.agent._talk import Talk, is_child
from holdfast.model import Event
from holdfast.replay import recover
from holdfast.session import Session

__all__ = ["compact"]

_KEPT_SHARE = 3  # a third of the window is kept word for word
_CHUNK_SHARE = 2
_WORDS = (
    "Summarise this conversation for yourself, so that you can go on with it without having it. "
    "Keep names, facts, decisions, open tasks and results of tools. Write plain text."
)


async def compact(talk: Talk, engine: Engine, tokens_max: int, usage: Usage) -> bool:
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
