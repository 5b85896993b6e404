"""What an agent's own replay lacks of a conversation that it says it has loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ReplayedWords", "is_only_speech", "missing_end"]

Message = Mapping[str, Any]

_CHARS_MAX = 8 * 1024 * 1024
_COMPARED_CHARS = 200
_SAID = frozenset({"user_message_chunk", "agent_message_chunk"})
_DONE = frozenset({"completed", "failed"})


class ReplayedWords:
    """The words and the calls of a replay, however they are cut and in whatever order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._room = _CHARS_MAX
        self._calls: set[str] = set()
        self._results: set[str] = set()

    def take(self, update: Mapping[str, Any]) -> None:
        """One update of the replay."""
        kind, call = update.get("sessionUpdate"), update.get("toolCallId")
        content = update.get("content")
        if kind in _SAID and isinstance(content, dict):
            text = _bare(content.get("text"))
            self._room -= len(text)
            if self._room > 0:
                self._pieces.append(text)
        elif isinstance(call, str):
            self._calls.add(call)
            if update.get("status") in _DONE:
                self._results.add(call)

    def end(self) -> tuple[str, bool]:
        """All words, and whether all that came are among them."""
        return "".join(self._pieces), self._room > 0

    def has_call(self, id: Any) -> bool:
        """Whether the replay has a call."""
        return id in self._calls

    def has_result(self, id: Any) -> bool:
        """Whether the replay has the end of a call."""
        return id in self._results


def missing_end(messages: Sequence[Message], heard: ReplayedWords) -> Sequence[Message]:
    """The messages after the last one that the replay has."""
    said, is_whole = heard.end()
    if not is_whole:
        return ()  # nothing is told twice for want of memory
    ours = Counter(_bare(block.get("text")) for each in messages for block in _blocks(each))

    def holds(block: Message) -> bool | None:
        kind = block.get("type")
        if kind == "tool_use":
            return heard.has_call(block.get("id"))
        if kind == "tool_result":
            return heard.has_result(block.get("tool_use_id"))
        text = _bare(block.get("text"))
        # Agents put words of their own around it: the ends of it are compared, not the whole.
        ends = {text[:_COMPARED_CHARS], text[-_COMPARED_CHARS:]}
        ours[text] -= 1  # of the same words, those that were said last are missing first
        return all(said.count(end) > ours[text] for end in ends) if text else None

    for number in range(len(messages), 0, -1):
        held = [
            found for block in _blocks(messages[number - 1]) if (found := holds(block)) is not None
        ]
        if held and all(held):
            return messages[number:]
    return messages


def is_only_speech(messages: Sequence[Message]) -> bool:
    """Whether these are words of the agent and nothing else."""
    kinds = {block.get("type") for message in messages for block in _blocks(message)}
    return kinds <= {"text", "thinking"} and all(
        each.get("role") == "assistant" for each in messages
    )


def _blocks(message: Message) -> Sequence[Message]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else ()


def _bare(text: Any) -> str:
    """A text without its white space, in which replays differ."""
    return "".join(text.split()) if isinstance(text, str) else ""
