"""What recovery had to change, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.replay._dialects import Dialect
    from holdfast.replay._pieces import MessageDraft


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that was wrong and what was done about it.

    ``type`` is a stable word (docs/explanation/recovery.md lists them), ``where`` names the event
    or the message, ``detail`` is a sentence. ``content`` holds what is not among the messages, so
    that a text or a completed call is always either there or here.
    """

    type: str
    where: str
    detail: str
    content: Any = field(default=None, compare=False)


class IssueList(list[Issue]):
    """A list of issues with a shorthand for adding one. ``unit`` is what numbers count."""

    unit = "event"

    def place(self, number: int) -> str:
        """The name of a place."""
        return f"{self.unit} {number}"

    def note(self, type: str, where: str, detail: str, content: Any = None) -> None:
        """Add an issue."""
        self.append(Issue(type, where, detail, content))


def format_issues(issues: Iterable[Issue]) -> str:
    """All issues as one line of text; "No issues found" if there are none.

    Raises UsageError for what are no issues.
    """
    try:
        found = [f"[{issue.type}] {issue.detail}" for issue in issues]
    except (TypeError, AttributeError):
        raise UsageError(
            f"issues are a list of Issue, not {issues!r:.40}",
            remedy="Give those of a result: holdfast.sanitize(…).issues.",
        ) from None
    if not found:
        return "No issues found"
    return f"Sanitized {len(found)} issue(s): {'; '.join(found)}"


def unreached(drafts: Iterable[MessageDraft], dialect: Dialect, unit: str = "event") -> list[Issue]:
    """An issue for each image or document that the provider could not fetch, and that is named."""
    return [
        Issue("unreachable", f"{unit} {seq}", f"{url[:200]} is only named: not for {dialect.name}")
        for draft in drafts
        for seq, block in zip(draft.seqs, draft.blocks, strict=True)
        for url in dialect.unreached(block)
    ]


def recovery_line(session_id: str, issues: Iterable[Issue]) -> str:
    """The line for a log: which session was recovered and what was changed."""
    return f"Session {session_id} recovery: {format_issues(issues)}"
