"""Retention: archiving, deletion by policies, and the bounds of a store."""

from __future__ import annotations

import builtins
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast._lazy import lazy_modules
from holdfast.errors import HoldfastError, Locked, SecurityError, TooLarge, UsageError
from holdfast.library import _finder, _trash, _views
from holdfast.library._core import Core, Progress, session_key
from holdfast.library._views import of_known_format
from holdfast.model import Notice, SessionMetadata
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.catalog import Policy, RetentionDecision
    from holdfast.library import _sessions
    from holdfast.library._trash import Trashed
    from holdfast.library.answers.store import Pruned
else:
    # A prune opens no session.
    (_sessions,) = lazy_modules("holdfast.library", "_sessions")

_REASON_CHARS_MAX = 2_000
_DAY_MS = 86_400_000
_TRASH_DAYS = 30
_SNAPSHOT_DAYS = 90
_PAGE = 1000


class Policies:
    """The retention policies and their exceptions: ``hf.policies``."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def list(self) -> builtins.list[Policy]:
        """Return the policies of the configuration, which ``hf.prune`` carries out."""
        from holdfast.catalog import read_policies

        return read_policies(self._core.settings.configuration.get("retention.policies", []))

    def pin(self, id: str) -> None:
        """Let no policy archive or delete a session."""
        _sessions.set_metadata(self._core, id, {"pinned": True})

    def unpin(self, id: str) -> None:
        """Let policies archive or delete a session again."""
        _sessions.set_metadata(self._core, id, {"pinned": None})

    def hold(self, id: str, reason: str) -> None:
        """Put a session under legal hold: neither a policy nor a person can delete it.

        Raises UsageError without a reason, and TooLarge for one that is too long.
        """
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError("a legal hold needs a reason")
        if len(reason) > _REASON_CHARS_MAX:
            raise TooLarge(
                f"the reason has {len(reason):,} characters, at most {_REASON_CHARS_MAX:,} are allowed", limit="reason"
            )
        _sessions.set_metadata(self._core, id, {"legal_hold": reason})

    def release(self, id: str) -> None:
        """End the legal hold of a session."""
        _sessions.set_metadata(self._core, id, {"legal_hold": None})


def archive(core: Core, id: str) -> None:
    key = core.stored(id)
    with contextlib.suppress(SecurityError):  # no key is needed for this
        for _ in of_known_format(_views.events(core, id, types=("session_start", "opened"))):
            pass
    core.store.archive(key)
    core.hub.publish(id, Notice("archived", id))


def unarchive(core: Core, id: str) -> None:
    core.store.unarchive(core.stored(id))
    core.hub.publish(id, Notice("unarchived", id))


def prune(core: Core, *, dry_run: bool, policies: Sequence[Policy] | None, progress: Progress | None) -> Pruned:
    from holdfast.catalog import live_limit, plan
    from holdfast.library.answers.store import Pruned

    chosen = Policies(core).list() if policies is None else _checked(policies)
    chosen.append(live_limit(core.limits.sessions_live_max))
    settings, now = core.settings.configuration, now_ms()
    days: int = settings.get("retention.snapshot_days", _SNAPSHOT_DAYS)
    before = now - days * _DAY_MS if days else 0
    aged: builtins.list[str] = []

    def rows() -> Iterator[SessionMetadata]:
        """Yield every session, and note the ids of those old enough to have old snapshots."""
        for row in _finder.all_sessions(core):
            if row.created_at < before and not row.open:
                aged.append(row.session_id)
            yield row

    found = plan(rows(), chosen, now)
    old = [(id, seqs) for id in aged if (seqs := _old_snapshots(core, id, before))]
    kept_ms = settings.get("retention.trash_days", _TRASH_DAYS) * _DAY_MS
    trashed = _trash.Trash(core).list() if kept_ms else []
    result = Pruned(
        dry_run=dry_run,
        decisions=found.decisions,
        spared=found.spared,
        emptied=[one for one in trashed if one.deleted_at and now - one.deleted_at > kept_ms],
        snapshots=sum(len(seqs) for _, seqs in old),
        failed={},
    )
    if not dry_run:
        _carry_out(core, result, old, progress)
    return result


def archive_excess(core: Core, until: float) -> bool:
    """Archive the least recently used sessions beyond the limit until a moment; return whether that was all."""
    from holdfast.catalog import protection

    page = _finder.list_sessions(core, core.limits.sessions_live_max, archived=False)
    while page.next is not None:
        page = _finder.list_sessions(core, _PAGE, archived=False, after=page.next)
        for row in page:
            if core.closed or time.monotonic() > until:
                return False
            if protection(row) is None:
                _tried(core, row.session_id, archive)
    return True


def _carry_out(
    core: Core, result: Pruned, old: builtins.list[tuple[str, builtins.list[int]]], progress: Progress | None
) -> None:
    total = len(result.decisions) + len(result.emptied) + len(old)
    done: builtins.list[RetentionDecision] = []
    for step, decision in enumerate(result.decisions, 1):
        act = archive if decision.action == "archive" else _archive_and_delete
        why = _tried(core, decision.session_id, act)
        if why is None:
            done.append(decision)
            _tell_pruned(core, decision.session_id, decision.action, decision.why)
        else:
            result.failed[decision.session_id] = why
        if progress is not None:
            progress(step, total)
    result.decisions = done
    result.emptied = _emptied(core, result.emptied, result.failed)
    for id, seqs in old:
        from holdfast.session import Snapshots

        snapshots = Snapshots(core.store.documents(session_key(id)))
        for seq in seqs:
            snapshots.drop(seq)
    if progress is not None:
        progress(total, total)


def _tried(core: Core, id: str, act: Callable[[Core, str], None]) -> str | None:
    """Return None on success, else the reason for the failure."""
    try:
        act(core, id)
    except Locked:
        return "it is open"
    except HoldfastError as error:
        return error.message
    return None


def _archive_and_delete(core: Core, id: str) -> None:
    _trash.check_not_held(core, id)
    if core.store.capabilities.archives:
        with contextlib.suppress(TooLarge):  # one that is too long to be archived goes as it is
            archive(core, id)
    _trash.delete(core, id)


def _emptied(core: Core, trashed: Sequence[Trashed], failed: dict[str, str]) -> builtins.list[Trashed]:
    """Remove sessions for good and return them; their forks keep only what they share with them."""
    from holdfast.session import detach_children

    gone: builtins.list[Trashed] = []
    detached = False
    with contextlib.suppress(HoldfastError):  # such as a fork that is open: then each by itself
        # Together: to find their forks all sessions of the store are looked at.
        if trashed:
            detach_children(core.store, *(one.key for one in trashed))
        detached = True
    for one in trashed:
        try:
            if not detached:
                detach_children(core.store, one.key)
            core.store.drop(one.key)
        except HoldfastError as error:
            failed[one.session_id] = error.message
        else:
            _tell_pruned(core, one.session_id, "empty", "too long in the trash")
            gone.append(one)
    return gone


def _tell_pruned(core: Core, id: str, action: str, reason: str) -> None:
    core.hub.publish(id, Notice("pruned", id, {"action": action, "reason": reason}))


def _old_snapshots(core: Core, id: str, before: int) -> builtins.list[int]:
    """Delete snapshots beyond their age, except the newest, which is still of use."""
    if not core.store.may_hold(session_key(id), "snapshots"):
        return []
    return [info.seq for info in _views.snapshots(core, id)[1:] if not info.whole or info.taken_at < before]


def _checked(policies: Sequence[Policy]) -> builtins.list[Policy]:
    from holdfast.catalog import Policy

    if not isinstance(policies, Sequence) or not all(isinstance(one, Policy) for one in policies):
        raise UsageError("policies are a list of holdfast.catalog.Policy")
    return builtins.list(policies)
