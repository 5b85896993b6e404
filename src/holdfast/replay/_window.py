"""A part of a conversation that fits into a model's window. The log is never cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.replay._blocks import Block
from holdfast.replay._pieces import MessageDraft
from holdfast.replay._usage import estimate_tokens
from holdfast.replay._values import dump_json

CountTokens = Callable[[str], int]

_IMAGE_TOKENS = 1_600  # what providers charge for a picture of usual size


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a window does not show: how much, and between which events."""

    messages: int
    calls: int
    tokens: int
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class TokenCount:
    """How long a conversation is, and how that is known.

    ``source`` names every source used: "usage" (the provider's own figures, as recorded), "counter"
    (the one passed in) or "estimate" (a token for every four bytes).
    """

    tokens: int
    source: str


@dataclass(frozen=True, slots=True)
class WindowDrafts:
    """The drafts to show, their length, and what is left out; None if everything is shown."""

    drafts: list[MessageDraft]
    count: TokenCount
    left_out: LeftOut | None


def fit_window(
    drafts: list[MessageDraft],
    window_tokens: int,
    usage: Mapping[int, dict[str, Any]],
    count_tokens: CountTokens | None,
) -> WindowDrafts:
    """The newest part of a conversation that fits, after its first user turn or latest summary.

    A call and its results are never parted. The first turn or summary is kept even if nothing else
    fits.
    """
    gauge = _Gauge(usage, count_tokens)
    costs = gauge.measure(drafts)
    total = sum(costs)
    if total <= window_tokens:
        return WindowDrafts(drafts, TokenCount(total, gauge.source), None)
    head_index = max((i for i, draft in enumerate(drafts) if draft.summary), default=0)
    head = _words_of(drafts[head_index])
    head_cost = gauge.count(head)
    start = _start(drafts, costs, head_index, window_tokens - head_cost)
    shown = _join(head, drafts[start:])
    count = TokenCount(head_cost + sum(costs[start:]), gauge.source)
    return WindowDrafts(shown, count, _left_out(drafts, costs, head_index, start))


def _start(drafts: list[MessageDraft], costs: list[int], head: int, room: int) -> int:
    """The earliest draft from which on everything fits, and before which a cut is allowed."""
    start = len(drafts)
    for index in range(len(drafts) - 1, head, -1):
        room -= costs[index]
        if room < 0:
            break
        if not _answers(drafts[index]):
            start = index
    return start


def _answers(draft: MessageDraft) -> bool:
    """Whether a draft holds results, so that it cannot stand without the one before it."""
    return bool(draft.blocks) and draft.blocks[0]["type"] == "tool_result"


def _words_of(draft: MessageDraft) -> MessageDraft:
    """A user's draft without the results in it."""
    words = MessageDraft(draft.role)
    for block, seq in zip(draft.blocks, draft.seqs, strict=True):
        if block["type"] != "tool_result":
            words.add(block, seq)
    return words


def _join(head: MessageDraft, rest: list[MessageDraft]) -> list[MessageDraft]:
    """The head and the rest; two user turns in a row become one."""
    if not rest or rest[0].role != head.role:
        return [head, *rest]
    both = MessageDraft(head.role)
    for draft in (head, rest[0]):
        for block, seq in zip(draft.blocks, draft.seqs, strict=True):
            both.add(block, seq)
    return [both, *rest[1:]]


def _left_out(
    drafts: list[MessageDraft], costs: list[int], head: int, start: int
) -> LeftOut | None:
    gone = [i for i in range(start) if i != head]
    seqs = [seq for i in gone for seq in drafts[i].seqs if seq >= 0]
    blocks = [block for i in gone for block in drafts[i].blocks]
    if not gone:
        return None
    return LeftOut(
        messages=len(gone),
        calls=sum(1 for block in blocks if block["type"] == "tool_use"),
        tokens=sum(costs[i] for i in gone),
        first_seq=min(seqs, default=-1),
        last_seq=max(seqs, default=-1),
    )


class _Gauge:
    """Measures drafts by the best figure there is for each."""

    def __init__(self, usage: Mapping[int, dict[str, Any]], count: CountTokens | None) -> None:
        self._usage = usage
        self._count = count
        self._sources: set[str] = set()

    @property
    def source(self) -> str:
        return "+".join(sorted(self._sources)) or "estimate"

    def measure(self, drafts: list[MessageDraft]) -> list[int]:
        """The tokens of each draft."""
        return [self._recorded(draft) or self.count(draft) for draft in drafts]

    def _recorded(self, draft: MessageDraft) -> int:
        """What the provider said it wrote, if it said so."""
        if draft.role != "assistant":
            return 0
        reports = [self._usage[seq] for seq in dict.fromkeys(draft.seqs) if seq in self._usage]
        tokens = sum(_output_tokens(report) for report in reports)
        if tokens:
            self._sources.add("usage")
        return tokens

    def count(self, draft: MessageDraft) -> int:
        """The tokens of a draft's text, counted or estimated."""
        self._sources.add("counter" if self._count else "estimate")
        return sum(self._count_block(block) for block in draft.blocks)

    def _count_block(self, block: Block) -> int:
        kind = block["type"]
        if kind in {"image", "document"}:
            return _IMAGE_TOKENS
        content = block.get("content")
        if kind == "tool_result" and isinstance(content, list):
            return sum(self._count_block(part) for part in content)
        return self._count_text(_text_of(block))

    def _count_text(self, text: str) -> int:
        if self._count is not None:
            return self._count(text)
        return estimate_tokens(text)


def _text_of(block: Block) -> str:
    kind = block["type"]
    if kind == "text":
        return str(block["text"])
    if kind == "thinking":
        return str(block["thinking"])
    if kind == "tool_result":
        return str(block["content"])
    if kind == "tool_use":
        return f"{block['name']} {dump_json(block['input'])}"
    return dump_json(block)


def _output_tokens(report: dict[str, Any]) -> int:
    for name in ("output_tokens", "completion_tokens", "outputTokens", "completionTokens"):
        tokens = report.get(name)
        if type(tokens) is int and tokens > 0:
            return tokens
    return 0
