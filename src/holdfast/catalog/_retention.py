"""Retention policies over the rows of the catalogue: which sessions may go, and why. Pure; does nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from holdfast.errors import UsageError
from holdfast.model import SessionMetadata

KEEP_TAG = "keep"  # no policy applies to a session with this tag

Action = Literal["archive", "delete"]

_DAY_MS = 86_400_000
_AGE = re.compile(r"(\d{1,6}) ?(h|d|w|y)\Z", re.ASCII)
_AGE_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "y": 365}
_SIZE = re.compile(r"(\d{1,9}) ?([KMGT]?)i?B?\Z", re.ASCII | re.IGNORECASE)
_SIZE_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: of sessions with its tag and agent, or of all, those beyond an age, a number or a size go."""

    tag: str | None = None
    agent: str | None = None
    older_than_ms: int | None = None
    keep: int | None = None
    """The number of newest sessions that stay."""
    size_bytes: int | None = None
    """The newest stay while their logs have no more bytes than this together."""
    action: Action = "archive"
    name: str = ""
    """The name to report as the reason, instead of the rule itself."""

    def speaks_of(self, row: SessionMetadata) -> bool:
        return (self.tag is None or self.tag in row.tags or self.tag in row.auto_tags) and (
            self.agent is None or self.agent == row.agent_id
        )


class RetentionDecision(msgspec.Struct, frozen=True):
    """The action for one session, and the reason as a person would say it."""

    session_id: str
    action: Action
    why: str
    size_bytes: int
    updated_at: int
    title: str | None = None


class Spared(msgspec.Struct, frozen=True):
    """A session that a policy would let go, and what keeps it."""

    session_id: str
    why: str


class RetentionPlan(msgspec.Struct, frozen=True):
    """The result of a set of policies."""

    decisions: list[RetentionDecision] = []
    spared: list[Spared] = []


def live_limit(sessions_max: int) -> Policy:
    """Return the rule that always applies: beyond a number of sessions, the least recently used are archived."""
    return Policy(keep=sessions_max, name=f"more than {sessions_max:,} sessions are not archived")


def plan(rows: Iterable[SessionMetadata], policies: Sequence[Policy], now_ms: int) -> RetentionPlan:
    """Return the decisions of the policies on these sessions, which come newest first.

    If several apply to one session, deletion takes precedence over archiving, and then the first.
    A session that is open, pinned, tagged ``keep`` or under legal hold is spared.
    """
    # One pass, so that a hundred thousand rows need not be in memory together.
    rules = [_Rule(policy) for policy in sorted(policies, key=lambda p: p.action == "archive")]
    result = RetentionPlan([], [])
    for row in rows:
        said = [(rule.policy, why) for rule in rules if (why := rule.look_at(row, now_ms))]
        if not said:
            continue
        kept = protection(row)
        if kept is None:
            policy, why = said[0]
            about = (row.size_bytes, row.updated_at, row.title)
            result.decisions.append(RetentionDecision(row.session_id, policy.action, why, *about))
        else:
            result.spared.append(Spared(row.session_id, kept))
    return result


def protection(row: SessionMetadata) -> str | None:
    """Return why no policy may let this session go; None if one may."""
    if row.held:
        return "it is under legal hold"
    if row.pinned:
        return "it is pinned"
    if KEEP_TAG in row.tags:
        return f"it is tagged {KEEP_TAG}"
    if row.open:
        return "it is open"
    if row.state not in ("ok", "damaged"):
        return "it cannot be read"
    return None


class _Rule:
    """A policy, with its counts of the sessions so far."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._count = 0
        self._size = 0

    def look_at(self, row: SessionMetadata, now_ms: int) -> str | None:
        """Return why the policy lets the session go; None if it does not."""
        policy = self.policy
        if not policy.speaks_of(row) or (policy.action == "archive" and row.archived):
            return None
        self._count += 1
        self._size += row.size_bytes
        why = _reason(policy, row, self._count, self._size, now_ms)
        named = [("tag", policy.tag), ("agent", policy.agent)]
        about = " and ".join(f"{what} {name}" for what, name in named if name is not None)
        return why and (policy.name or (f"{why} (of {about})" if about else why))


def _reason(policy: Policy, row: SessionMetadata, count: int, size: int, now_ms: int) -> str | None:
    age = now_ms - row.updated_at
    if policy.older_than_ms is not None and age > policy.older_than_ms:
        return f"last used {age // _DAY_MS:,} days ago, over {policy.older_than_ms / _DAY_MS:g}"
    if policy.keep is not None and count > policy.keep:
        return f"beyond the newest {policy.keep:,}"
    if policy.size_bytes is not None and size > policy.size_bytes:
        return f"the newer ones fill {policy.size_bytes:,} bytes"
    return None


# -- policies as people write them ------------------------------------------------------------
class _Written(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    tag: str | None = None
    agent: str | None = None
    older_than: str | None = None
    keep: int | None = None
    size: str | int | None = None
    action: Action = "archive"


def read_policies(written: Any) -> list[Policy]:
    """Return the policies in a list of tables. Raises UsageError, naming the table, for an invalid member."""
    if not isinstance(written, list):
        raise UsageError("retention policies are a list of tables")
    return [_read(number, table) for number, table in enumerate(written, 1)]


def _read(number: int, table: Any) -> Policy:
    try:
        given = msgspec.convert(table, _Written)
        policy = Policy(
            tag=given.tag,
            agent=given.agent,
            older_than_ms=None if given.older_than is None else age_ms(given.older_than),
            keep=given.keep,
            size_bytes=None if given.size is None else size_in_bytes(given.size),
            action=given.action,
        )
    except (msgspec.ValidationError, UsageError) as error:
        raise UsageError(f"retention policy {number}: {error}") from error
    if policy.older_than_ms is None and policy.keep is None and policy.size_bytes is None:
        raise UsageError(f"retention policy {number} names no bound: give older_than, keep or size")
    if policy.keep is not None and policy.keep < 0:
        raise UsageError(f"retention policy {number}: keep must be 0 or more, not {policy.keep}")
    return policy


def age_ms(text: str) -> int:
    """Return ``90d``, ``12h``, ``6w`` or ``1y`` in milliseconds; raise UsageError for anything else."""
    found = _AGE.match(text.strip())
    if found is None:
        raise UsageError(f"{text[:40]!a} is no age: write 90d, 12h, 6w or 1y")
    return int(int(found[1]) * _AGE_DAYS[found[2]] * _DAY_MS)


def size_in_bytes(value: str | int) -> int:
    """Return ``500MB``, ``2G`` or a number of bytes; raise UsageError for anything else."""
    found = _SIZE.match(str(value).strip())
    if found is None:
        raise UsageError(f"{str(value)[:40]!a} is no size: write 500MB, 2GB or a number of bytes")
    factor: int = 1024 ** _SIZE_POWER[found[2].upper()]
    return int(found[1]) * factor
