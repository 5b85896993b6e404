"""From a log to the list of messages with which an agent continues, as far as a window has room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import length_hint
from typing import Any

import msgspec

from holdfast.model import Event
from holdfast.replay._blocks import Block, dump_json
from holdfast.replay._conversation import Conversation, View
from holdfast.replay._dialects import dialect_of
from holdfast.replay._dialects._form import Dialect, Message, Provider, holds_media
from holdfast.replay._messages import sanitize
from holdfast.replay._native import NativeMessages
from holdfast.replay._pieces import NOWHERE, Drafts, Incomplete, Issue, MessageDraft, recovery_line, unreached
from holdfast.replay._state import Tokens, add_usage, estimate_tokens
from holdfast.replay._text import MANY, collector_paused

# A part of a conversation that fits into a model's window. The log is never cut.
_IMAGE_TOKENS = 1_600  # the price of an image of usual size at providers


class LeftOut(msgspec.Struct, frozen=True):
    """The messages that a window leaves out: their number, and the events between which they are."""

    messages: int
    calls: int
    tokens: int
    first_seq: int
    last_seq: int


class TokenCount(msgspec.Struct, frozen=True):
    """The length of a conversation, and how it was measured.

    ``source`` names every source used: "usage" (the provider's own figures, as recorded), "counter" (the one passed
    in) or "estimate" (a token for every four bytes).
    """

    tokens: int
    source: str


class WindowDrafts(msgspec.Struct, frozen=True):
    """The drafts to show, their length, and what is left out; None if everything is shown."""

    drafts: list[MessageDraft]
    count: TokenCount
    left_out: LeftOut | None


def fit_window(
    drafts: list[MessageDraft],
    window_tokens: int,
    usage: Mapping[int, dict[str, Any]],
    count_tokens: Callable[[str], int] | None,
) -> WindowDrafts:
    """Return the newest part of a conversation that fits, after its first user turn or latest summary.

    A call and its results are never separated. The first turn or summary is kept even if nothing else fits.
    """
    gauge = _Gauge(usage, count_tokens)
    costs = [gauge.recorded(draft) or gauge.count(draft) for draft in drafts]
    total = sum(costs)
    if total <= window_tokens:
        return WindowDrafts(drafts, TokenCount(total, gauge.source), None)
    # The task is in the first turn or in the summary: without it the newest part means little.
    head_index = max((i for i, draft in enumerate(drafts) if draft.summary), default=0)
    head = _joined([drafts[head_index]], without="tool_result")
    head_cost = gauge.count(head)
    # The earliest draft from which on everything fits, and before which a cut is allowed.
    room = window_tokens - head_cost
    start = len(drafts)
    for index in range(len(drafts) - 1, head_index, -1):
        room -= costs[index]
        if room < 0:
            break
        # Between a call and its results there can be no cut.
        if not (drafts[index].blocks and drafts[index].blocks[0]["type"] == "tool_result"):
            start = index
    shown = [head, *drafts[start:]]
    if len(shown) > 1 and shown[1].role == head.role:
        shown[:2] = [_joined(shown[:2])]  # two user turns in a row become one
    count = TokenCount(head_cost + sum(costs[start:]), gauge.source)
    return WindowDrafts(shown, count, _left_out(drafts, costs, head_index, start))


def _joined(drafts: list[MessageDraft], without: str = "") -> MessageDraft:
    """Return one draft with the blocks of several of one side, except for those of one type."""
    told = [pair for draft in drafts for pair in zip(draft.blocks, draft.seqs, strict=True)]
    kept = [(block, seq) for block, seq in told if block["type"] != without]
    return MessageDraft(drafts[0].role, [block for block, _ in kept], [seq for _, seq in kept])


def _left_out(drafts: list[MessageDraft], costs: list[int], head: int, start: int) -> LeftOut | None:
    gone = [i for i in range(start) if i != head]
    seqs = [seq for i in gone for seq in drafts[i].seqs if seq >= 0]
    if not gone:
        return None
    return LeftOut(
        messages=len(gone),
        calls=sum(block["type"] == "tool_use" for i in gone for block in drafts[i].blocks),
        tokens=sum(costs[i] for i in gone),
        first_seq=min(seqs, default=-1),
        last_seq=max(seqs, default=-1),
    )


class _Gauge:
    """Measures drafts by the best figure available for each."""

    def __init__(self, usage: Mapping[int, dict[str, Any]], count: Callable[[str], int] | None) -> None:
        self._usage = usage
        self._count = count
        self._sources: set[str] = set()

    @property
    def source(self) -> str:
        return "+".join(sorted(self._sources)) or "estimate"

    def recorded(self, draft: MessageDraft) -> int:
        """Return the provider's own count, if recorded."""
        if draft.role != "assistant":
            return 0
        used: dict[str, Tokens] = {}
        for seq in dict.fromkeys(draft.seqs):
            add_usage(used, self._usage.get(seq, {}))
        tokens = used[""].output_tokens
        if tokens:
            self._sources.add("usage")
        return tokens

    def count(self, draft: MessageDraft) -> int:
        """Return the tokens of a draft's text, counted or estimated."""
        self._sources.add("counter" if self._count else "estimate")
        return sum(self._count_block(block) for block in draft.blocks)

    def _count_block(self, block: Block) -> int:
        kind = block["type"]
        if kind in {"image", "document"}:
            return _IMAGE_TOKENS
        content = block.get("content")
        if kind == "tool_result" and isinstance(content, list):
            return sum(self._count_block(part) for part in content)
        return (self._count or estimate_tokens)(_text_of(block))


def _text_of(block: Block) -> str:
    match block["type"]:
        case "text" | "thinking" as kind:
            return str(block[kind])
        case "tool_result":
            return str(block["content"])
        case "tool_use":
            return f"{block['name']} {dump_json(block['input'])}"
    return dump_json(block)


class Recovery(msgspec.Struct, frozen=True):
    """A recovered conversation.

    ``messages`` is valid for the provider; ``system`` is the system prompt, apart; ``issues`` lists what was changed
    or is not shown; ``left_out`` what did not fit into a window (None without one). ``count`` is the length of the
    messages, if a window was given.
    """

    messages: list[Message]
    system: str | None = None
    issues: list[Issue] = []
    recovered: bool = True
    left_out: LeftOut | None = None
    count: TokenCount | None = None
    session_id: str | None = None

    @property
    def log_line(self) -> str:
        """The line to log about this recovery."""
        return recovery_line(self.session_id or "unnamed", self.issues)


def recover(
    events: Iterable[Event],
    provider: Provider = "neutral",
    incomplete: Incomplete = "mark",
    window_tokens: int | None = None,
    at: int | None = None,
    *,
    count_tokens: Callable[[str], int] | None = None,
    session_id: str | None = None,
) -> Recovery:
    """Return the top-level conversation of a log, ready to be sent to a provider.

    ``at`` stops after that event; ``window_tokens`` keeps as much of the newest part as fits, counted with
    ``count_tokens`` if given. It never raises about the content of events; UsageError for an unknown provider or
    treatment of incomplete calls.
    """
    dialect = dialect_of(provider)
    with collector_paused(length_hint(events, MANY)):
        conversation = Conversation(incomplete=incomplete)
        conversation.feed_all(events if at is None else _up_to(events, at))
        issues = conversation.issues
        if window_tokens is None:
            messages, window = conversation.messages(provider), None
            drafts = conversation.thread.drafts()
            if holds_media(drafts.flat):
                issues += unreached(drafts, dialect)
        else:
            drafts = conversation.thread.drafts()
            window = fit_window(list(drafts), window_tokens, conversation.usage, count_tokens)
            messages = _render(window.drafts, drafts.told, dialect)
            issues += unreached(window.drafts, dialect)
            if (tokens := window.count.tokens) > window_tokens:
                detail = f"the first turn alone takes {tokens} of {window_tokens} tokens"
                issues.append(Issue("window_too_small", "list", detail))
        system = conversation.system
        del conversation, drafts  # of a long log they are large, and the rest needs memory too
        # The drafts are valid by construction; this proves it, by rules that share no code with it.
        if incomplete != "keep":
            checked = sanitize(messages, provider, incomplete)
            messages = checked.messages
            issues += checked.issues
    left_out, count = (window.left_out, window.count) if window else (None, None)
    return Recovery(messages, system, issues, left_out=left_out, count=count, session_id=session_id)


def _up_to(events: Iterable[Event], at: int) -> Iterator[Event]:
    for number, event in enumerate(events):
        seq = getattr(event, "seq", NOWHERE)  # a foreign iterable may hold anything
        if (number if seq == NOWHERE else seq) > at:
            return
        yield event


def _render(drafts: list[MessageDraft], told: NativeMessages, dialect: Dialect) -> list[Message]:
    """Return the messages for these drafts."""
    page = Drafts()
    page.told = told
    for draft in drafts:
        for block, seq in zip(draft.blocks, draft.seqs, strict=True):
            page.add(draft.role, block, seq)
    return View(dialect).hand_out(page)
