"""The types of requests, shared by the code and the description."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from holdfast.apps.render.questions import decided
from holdfast.model import Status, check_id

Id = Annotated[
    str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", description="An id of a session.", title="id")
]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1, description="The number of an event.")]
_Text = Annotated[str, msgspec.Meta(max_length=10_000)]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=1000)]
_Seconds = Annotated[float, msgspec.Meta(ge=-(10**11), le=10**12, description="Unix time in seconds.")]


class _Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of request bodies: an unknown name is an error that names it."""


class _Naming(_Given, frozen=True, kw_only=True):
    """A body with ids in it: all are checked with the rest, and wrong ones refused alike."""

    def __post_init__(self) -> None:
        for name in ("id", "agent_id", "other", "new_id"):
            if (given := getattr(self, name, None)) is not None:
                check_id(given)


class Nothing(_Given, frozen=True, kw_only=True):
    """No parameters."""


class ListAsked(_Given, frozen=True, kw_only=True):
    """Which sessions to list."""

    limit: _Limit = 50
    after: _Text | None = None
    tag: list[_Text] = []
    since: _Seconds | None = None
    until: _Seconds | None = None
    agent_id: _Text | None = None
    model: _Text | None = None
    status: Status | None = None
    parent: _Text | None = None
    archived: bool | None = None


class Search(_Given, frozen=True, kw_only=True):
    """The parameters of a search."""

    q: _Text
    session_id: Id | None = None
    tag: list[_Text] = []
    since: _Seconds | None = None
    until: _Seconds | None = None
    agent_id: _Text | None = None
    role: _Text | None = None
    tool: _Text | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class EventsAsked(_Given, frozen=True, kw_only=True):
    """Which events; ``next`` of an answer is the ``start`` of the following page."""

    start: Seq = 0
    limit: _Limit = 100
    type: list[_Text] = []


class StateAsked(_Given, frozen=True, kw_only=True):
    """The state after which event; without it the newest."""

    at: Seq | None = None


class MessagesAsked(_Given, frozen=True, kw_only=True):
    """For which provider, and what becomes of calls without a result."""

    provider: _Text = "neutral"
    incomplete: Literal["drop", "mark", "keep"] = "mark"
    window_tokens: Annotated[int, msgspec.Meta(ge=1, le=10**9)] | None = None
    at: Seq | None = None


class StatsAsked(_Given, frozen=True, kw_only=True):
    """Which figures."""

    since: _Seconds | None = None
    until: _Seconds | None = None
    tag: list[_Text] = []
    agent_id: _Text | None = None
    model: _Text | None = None
    tz: _Text = "UTC"
    by: Literal["day", "week", "month"] = "day"


class Export(_Given, frozen=True, kw_only=True):
    """In which form."""

    format: _Text = "markdown"
    at: Seq | None = None
    zone: _Text = "UTC"


class Import(_Given, frozen=True, kw_only=True):
    """The format of the imported bytes."""

    format: _Text = "auto"


class Follow(_Given, frozen=True, kw_only=True):
    """From which event on; ``Last-Event-ID`` counts more."""

    start: Seq = 0


class Comparing(_Given, frozen=True, kw_only=True):
    """With which other session."""

    other: Id


class NewSession(_Naming, frozen=True, kw_only=True):
    """A session to be made."""

    id: Id | None = None
    title: _Text | None = None
    agent_id: Id | None = None
    tags: list[_Text] = []


class Append(_Given, frozen=True, kw_only=True):
    """One event to be recorded; with a key that was used before, nothing is."""

    type: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    data: dict[str, Any] = {}
    run: _Text | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] | None = None


class AppendMany(_Given, frozen=True, kw_only=True):
    """Events that are recorded together: all of them or none."""

    events: Annotated[list[Append], msgspec.Meta(min_length=1, max_length=1000)]


class Forking(_Naming, frozen=True, kw_only=True):
    """A fork: after which event, and what it is called."""

    at: Seq | None = None
    new_id: Id | None = None
    title: _Text | None = None


class Resuming(_Naming, frozen=True, kw_only=True):
    """Going back to the moment after an event."""

    at: Seq
    new_id: Id | None = None


class MergeRequest(_Naming, frozen=True, kw_only=True):
    """The parts of another session to merge."""

    other: Id
    turns: Literal["all", "summary"] | list[int] = "all"
    policy: Literal["ours", "theirs", "both"] = "ours"
    new_id: Id | None = None
    title: _Text | None = None


class Labels(_Given, frozen=True, kw_only=True):
    """The labels to change; omitted ones stay."""

    title: _Text | None = None
    add_tags: list[_Text] = []
    remove_tags: list[_Text] = []
    pinned: bool | None = None


class Hold(_Given, frozen=True, kw_only=True):
    """A legal hold with its reason, or null to end it."""

    reason: _Text | None = None


class TurnRequest(_Given, frozen=True, kw_only=True):
    """The prompt for the agent; null to continue what was interrupted."""

    prompt: str | list[dict[str, Any]] | None = None
    resume_token: _Text | None = None
    value: Any = None


class WordGiven(_Given, frozen=True, kw_only=True):
    """A message for the agent while it works; with ``interrupt`` the current step is stopped for it."""

    text: _Text
    interrupt: bool = False


class ApprovalRequest(_Given, frozen=True, kw_only=True):
    """The decision on a tool call, and the scope of an approval."""

    approved: bool
    scope: Literal["once", "session", "always"] = "once"


class WaitingAsked(_Given, frozen=True, kw_only=True):
    """Which questions: all, or those of an agent or a session."""

    agent: _Text | None = None
    session: Id | None = None


class AnswerRequest(_Given, frozen=True, kw_only=True):
    """An answer: ``args`` belong to edit, ``result`` to result, and ``because`` is told to the model."""

    decision: Literal["allow", "deny", "edit", "result"]
    args: dict[str, Any] | None = None
    result: Any = None
    because: _Text | None = None
    scope: Literal["once", "session", "always"] = "once"

    @property
    def given(self) -> Any:
        """The answer as the library takes it. Raises UsageError for edit without arguments."""
        return decided(self.decision, self.args, self.result)


class OutsideAnswer(AnswerRequest, frozen=True, kw_only=True):
    """An answer by somebody outside, whom a token lets answer one question."""

    token: _Text


class TokenWish(_Given, frozen=True, kw_only=True):
    """For whom a token is, and how long it counts."""

    holder: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    expires_in_ms: Annotated[int, msgspec.Meta(ge=1, le=10**12)] | None = None


class TokenGiven(_Given, frozen=True, kw_only=True):
    """The token that is to answer nothing any more."""

    token: _Text


class SignalGiven(_Given, frozen=True, kw_only=True):
    """The result for the calls that wait for the event."""

    value: Any = None
