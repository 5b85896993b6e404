"""Keeping a store within its bounds: archive, and what policies let go."""

from __future__ import annotations

import builtins
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, Locked, SecurityError, UsageError
from holdfast.library._base import session_key
from holdfast.library._trash import Trash, Trashed
from holdfast.library._views import of_known_format
from holdfast.model import Notice, SessionMetadata
from holdfast.session import Snapshots, now_ms

if TYPE_CHECKING:
    from holdfast.catalog import Decision, Policy
    from holdfast.library.answers.care import Pruned

_DAY_MS = 86_400_000
_TRASH_DAYS = 30
_SNAPSHOT_DAYS = 90
_PAGE = 1000

Progress = Callable[[int, int], None]
"""Called with how many steps are done, of how many."""


class Retention(Trash):
    """What a store keeps, and for how long."""

    _made = False
    """Whether a session was made since the limit was last looked at."""

    def archive(self, id: str) -> None:
        """Compress a session's log; every reader goes on as before, a writer restores it first.

        Raises Locked while anyone has it open, TooNew for what a newer version wrote. Harmless if
        it is archived already.
        """
        key = self._stored(id)
        with contextlib.suppress(SecurityError):  # what is sealed needs no key for this
            for _ in of_known_format(self.events(id, types=("session_start", "opened"))):
                pass
        self._store.archive(key)
        self._hub.publish(id, Notice("archived", id))

    def unarchive(self, id: str) -> None:
        """Take a session out of the archive. Opening it to write does so by itself."""
        self._store.unarchive(self._stored(id))
        self._hub.publish(id, Notice("unarchived", id))

    def prune(
        self,
        *,
        dry_run: bool = False,
        policies: Sequence[Policy] | None = None,
        progress: Progress | None = None,
    ) -> Pruned:
        """Do what the policies say, empty the trash of what is too old, and drop old snapshots.

        ``policies`` replace those of the configuration. Beyond ``limits.sessions_live_max`` the
        least recently used are archived whatever the policies say. Nothing else is deleted, and
        what is goes to the trash. Open, pinned, held sessions and those tagged ``keep`` stay.
        """
        from holdfast.catalog import live_limit, plan
        from holdfast.library.answers.care import Pruned

        chosen = self._policies() if policies is None else _checked(policies)
        chosen.append(live_limit(self.limits.sessions_live_max))
        now = now_ms()
        before = self._oldest_snapshot(now)
        aged: builtins.list[str] = []
        found = plan(self._noting_aged(aged, before), chosen, now)
        old = [(id, seqs) for id in aged if (seqs := self._old_snapshots(id, before))]
        result = Pruned(
            dry_run=dry_run,
            decisions=found.decisions,
            spared=found.spared,
            emptied=self._too_long_in_trash(now),
            snapshots=sum(len(seqs) for _, seqs in old),
            failed={},
        )
        if not dry_run:
            self._carry_out(result, old, progress)
        return result

    def _housekeep(self, seconds: float = math.inf) -> None:
        """When sessions were made: archive the least recently used beyond the limit.

        On a thread of its own, or for some seconds when the library is closed or the program ends,
        so whatever goes wrong is left to the next time.
        """
        made, self._made = self._made, False
        if not made or self._closed or not self._store.capabilities.archives:
            return
        with contextlib.suppress(HoldfastError):
            if self._may_exceed():
                self._archive_excess(time.monotonic() + seconds)

    def _may_exceed(self) -> bool:
        """Whether there are more sessions than may be live; those in the archive count as well."""
        beyond = islice(self._store.entries(), self.limits.sessions_live_max, None)
        return next(beyond, None) is not None

    def _archive_excess(self, until: float) -> None:
        from holdfast.catalog import protection

        page = self.list(self.limits.sessions_live_max, archived=False)
        while page.next is not None:
            page = self.list(_PAGE, archived=False, after=page.next)
            for row in page:
                if self._closed or time.monotonic() > until:
                    return
                if protection(row) is None:
                    self._tried(row.session_id, self.archive)

    def _policies(self) -> builtins.list[Policy]:
        from holdfast.catalog import read_policies

        return read_policies(self._settings.configuration.get("retention.policies", []))

    def _rows(self, *, archived: bool | None = None) -> Iterator[SessionMetadata]:
        """Every session, newest first, a page at a time."""
        page = self.list(_PAGE, archived=archived)
        while True:
            yield from page
            if page.next is None:
                return
            page = self.list(_PAGE, archived=archived, after=page.next)

    def _carry_out(
        self,
        result: Pruned,
        old: builtins.list[tuple[str, builtins.list[int]]],
        progress: Progress | None,
    ) -> None:
        total = len(result.decisions) + len(result.emptied) + len(old)
        done: builtins.list[Decision] = []
        for step, decision in enumerate(result.decisions, 1):
            act = self.archive if decision.action == "archive" else self._archive_and_delete
            why = self._tried(decision.session_id, act)
            if why is None:
                done.append(decision)
                self._tell_pruned(decision.session_id, decision.action, decision.why)
            else:
                result.failed[decision.session_id] = why
            if progress is not None:
                progress(step, total)
        result.decisions = done
        result.emptied = [one for one in result.emptied if self._empty(one, result.failed)]
        for id, seqs in old:
            snapshots = Snapshots(self._store.documents(session_key(id)))
            for seq in seqs:
                snapshots.drop(seq)
        if progress is not None:
            progress(total, total)

    def _tried(self, id: str, act: Callable[[str], None]) -> str | None:
        """None if it worked, else why it did not."""
        try:
            act(id)
        except Locked:
            return "it is open"
        except HoldfastError as error:
            return error.message
        return None

    def _archive_and_delete(self, id: str) -> None:
        self._check_not_held(id)
        if self._store.capabilities.archives:
            self.archive(id)
        self.delete(id)

    # -- the trash ---------------------------------------------------------------------------

    def _too_long_in_trash(self, now: int) -> builtins.list[Trashed]:
        days = self._settings.configuration.get("retention.trash_days", _TRASH_DAYS)
        if not days:
            return []
        return [
            one for one in self.trash() if one.deleted_at and now - one.deleted_at > days * _DAY_MS
        ]

    def _empty(self, one: Trashed, failed: dict[str, str]) -> bool:
        """Remove a session for good; its forks keep what they share with it, and nothing more."""
        from holdfast.session import detach_children

        try:
            detach_children(self._store, one.key)
            self._store.drop(one.key)
        except HoldfastError as error:
            failed[one.session_id] = error.message
            return False
        self._tell_pruned(one.session_id, "empty", "too long in the trash")
        return True

    def _tell_pruned(self, id: str, action: str, reason: str) -> None:
        self._hub.publish(id, Notice("pruned", id, {"action": action, "reason": reason}))

    # -- snapshots ---------------------------------------------------------------------------

    def _oldest_snapshot(self, now: int) -> int:
        """Before this, snapshots are too old; 0 if they never are."""
        days: int = self._settings.configuration.get("retention.snapshot_days", _SNAPSHOT_DAYS)
        return now - days * _DAY_MS if days else 0

    def _noting_aged(self, aged: builtins.list[str], before: int) -> Iterator[SessionMetadata]:
        """Every session; the ids of those that are old enough to have old snapshots are kept."""
        for row in self._rows():
            if row.created_at < before and not row.open:
                aged.append(row.session_id)
            yield row

    def _old_snapshots(self, id: str, before: int) -> builtins.list[int]:
        """Snapshots beyond their age, without the newest, which is of use."""
        if not self._store.may_hold(session_key(id), "snapshots"):
            return []
        return [
            info.seq for info in self.snapshots(id)[1:] if not info.whole or info.taken_at < before
        ]


def _checked(policies: Sequence[Policy]) -> builtins.list[Policy]:
    from holdfast.catalog import Policy

    if not isinstance(policies, Sequence) or not all(isinstance(one, Policy) for one in policies):
        raise UsageError("policies are a list of holdfast.catalog.Policy")
    return builtins.list(policies)
