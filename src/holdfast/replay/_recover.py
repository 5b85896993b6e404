"""From a log to a list of messages with which an agent goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import length_hint

from holdfast.model import Event
from holdfast.replay._blocks import Block
from holdfast.replay._conversation import Conversation
from holdfast.replay._dialects import Dialect, Message, dialect_of, holds_media
from holdfast.replay._issues import Issue, recovery_line, unreached
from holdfast.replay._native import NativeMessages, last_systems, write_draft
from holdfast.replay._pieces import NOWHERE, MessageDraft
from holdfast.replay._sanitize import sanitize
from holdfast.replay._text import MANY, collector_paused
from holdfast.replay._window import LeftOut, TokenCount, WindowDrafts, fit_window


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovered conversation.

    ``messages`` is valid for the provider; ``system`` is the system prompt, apart; ``issues`` tells
    what was changed or is not shown; ``left_out`` what a window had no room for (None without one).
    ``count`` is how long the messages are, if a window was asked for.
    """

    messages: list[Message]
    system: str | None = None
    issues: list[Issue] = field(default_factory=list)
    recovered: bool = True
    left_out: LeftOut | None = None
    count: TokenCount | None = None
    session_id: str | None = None

    @property
    def log_line(self) -> str:
        """What to write to a log about this recovery."""
        return recovery_line(self.session_id or "unnamed", self.issues)


def recover(
    events: Iterable[Event],
    provider: str = "anthropic",
    incomplete: str = "mark",
    window_tokens: int | None = None,
    at: int | None = None,
    *,
    count_tokens: Callable[[str], int] | None = None,
    session_id: str | None = None,
) -> Recovery:
    """The top-level conversation of a log, ready to be sent to a provider.

    ``at`` stops after that event; ``window_tokens`` keeps as much of the newest part as fits,
    counted with ``count_tokens`` if given. About what the events hold it never raises; UsageError
    for an unknown provider or way with incomplete calls.
    """
    dialect = dialect_of(provider)
    with collector_paused(length_hint(events, MANY)):
        conversation = _read(events, incomplete, at)
        issues = conversation.issues
        if window_tokens is None:
            messages, window = conversation.messages(provider), None
            found = conversation.thread.drafts()
            if holds_media(found.flat):
                issues += unreached(found, dialect)
        else:
            drafts = conversation.thread.drafts()
            window = fit_window(list(drafts), window_tokens, conversation.usage, count_tokens)
            messages = _render(window.drafts, drafts.told, dialect)
            issues += unreached(window.drafts, dialect)
            issues += _complaints(window, window_tokens)
        if incomplete != "keep":
            checked = sanitize(messages, provider, incomplete)
            messages = checked.messages
            issues += checked.issues
    return Recovery(
        messages,
        conversation.system,
        issues,
        left_out=window.left_out if window else None,
        count=window.count if window else None,
        session_id=session_id,
    )


def _read(events: Iterable[Event], incomplete: str, at: int | None) -> Conversation:
    conversation = Conversation(incomplete=incomplete)
    feed = conversation.feed
    for number, event in enumerate(events):
        if at is not None:
            seq = getattr(event, "seq", NOWHERE)  # a foreign iterable may hold anything
            if (number if seq == NOWHERE else seq) > at:
                break
        feed(event)
    return conversation


def _complaints(window: WindowDrafts, window_tokens: int) -> list[Issue]:
    tokens = window.count.tokens
    if tokens <= window_tokens:
        return []
    detail = f"the first turn alone takes {tokens} of {window_tokens} tokens"
    return [Issue("window_too_small", "list", detail)]


class _Shown:
    """The drafts in a window."""

    def __init__(self, drafts: list[MessageDraft], told: NativeMessages) -> None:
        self._drafts = drafts
        self.told = told

    def __len__(self) -> int:
        return len(self._drafts)

    def role(self, index: int) -> str:
        return self._drafts[index].role

    def blocks(self, index: int) -> list[Block]:
        return self._drafts[index].blocks

    def seqs(self, index: int) -> Sequence[int]:
        return self._drafts[index].seqs


def _render(drafts: list[MessageDraft], told: NativeMessages, dialect: Dialect) -> list[Message]:
    """The messages for these drafts."""
    shown = _Shown(drafts, NativeMessages() if dialect.name == "neutral" else told)
    messages: list[Message] = []
    at = 0
    for index in range(len(drafts)):
        written, at = write_draft(dialect, shown, index, at)
        messages += written
    return messages + last_systems(dialect, shown, at)
