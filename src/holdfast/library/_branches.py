"""Branches: forking, rewinding, comparing and merging sessions. Originals stay as they are."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import DataError, SecurityError, StoreError
from holdfast.library._base import LEASE_MS, session_key
from holdfast.library._finder import Finding
from holdfast.library._views import of_known_format
from holdfast.model import Notice, has_blob_at, is_id
from holdfast.session import Draft, new_session_id, read_range

if TYPE_CHECKING:
    from holdfast.model import Event
    from holdfast.replay import Clash, Comparison, MergeReport, Told, TurnView
    from holdfast.session import Branches, Place

_GENERATIONS_MAX = 10_000
_SAID = ("user", "assistant")


class Forebear(msgspec.Struct, frozen=True):
    """A session from which another one was forked, after its event ``seq``."""

    session_id: str
    seq: int | None
    exists: bool


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """A session's place among its relatives."""

    session_id: str
    root: str
    """The first session of the line; the session itself if it is no fork."""
    parents: builtins.list[Forebear]
    """Its parent, the parent of that, and so on, as far as they are known."""
    children: builtins.list[str]


class Branching(Finding):
    """What makes sessions out of others."""

    def fork(
        self,
        id: str,
        at: int | None = None,
        *,
        new_id: str | None = None,
        title: str | None = None,
    ) -> str:
        """A new session with the events of this one up to ``at`` (default: all); its id.

        Works on a session that is open, here or elsewhere, and in the middle of a turn; inside a
        batch it takes the whole batch. The fork is at rest and has the state of that moment. On
        files it takes the same time at any length. Raises NotFound, Damaged (``at`` lies behind
        damage), UsageError (a negative ``at``, an id that is taken), InvalidId, TooNew.
        """
        return self._make(id, new_id, self._find(id, at), title=title)

    def restore(self, id: str, at: int, *, new_id: str | None = None) -> str:
        """Go back to an earlier moment: a fork at ``at`` that its agent goes on with; its id.

        The session itself stays. Its title is kept. Raises as ``fork`` does, and Locked while
        another process has it open, since that would make it the current one again.
        """
        from holdfast.session import point_agent

        key = self._stored(id)
        if self._open_here(id) is None:
            lease = self._store.lease(key)
            lease.acquire("restore", LEASE_MS)
            lease.release()
        agent_id = self.state(id).agent_id
        made = self._make(id, new_id, self._find(id, at), reason=None)
        if agent_id is not None and is_id(agent_id):
            point_agent(self._store.documents(f"agents/{agent_id}"), agent_id, made)
        return made

    def lineage(self, id: str) -> Lineage:
        """Where a session comes from, and which were forked from it. Never follows a circle."""
        parents: builtins.list[Forebear] = []
        self._stored(id)
        met, current = {id}, id
        for _ in range(_GENERATIONS_MAX):
            found = self._parent_of(current)
            if found is None or found.session_id in met:
                break
            parents.append(found)
            if not found.exists:
                break
            met.add(found.session_id)
            current = found.session_id
        rows = self._all(parent=id)
        return Lineage(
            session_id=id,
            root=self._root(current, parents),
            parents=parents,
            children=[row.session_id for row in rows if row.session_id != id],
        )

    def compare(self, a: str, b: str) -> Comparison:
        """Two sessions side by side since their last common event, as data.

        They are related if one log begins as the other does, so that copies compare too.
        """
        from holdfast.replay import compare

        return compare(self._told(a), self._told(b), cost=self._cost)

    def merge(
        self,
        a: str,
        b: str,
        *,
        turns: str | Sequence[int] = "all",
        policy: str = "ours",
        summary: Callable[[builtins.list[TurnView]], str] | None = None,
        ask: Callable[[Clash], str] | None = None,
        new_id: str | None = None,
        title: str | None = None,
    ) -> str:
        """A new session: a fork of ``a`` with what ``b`` did since they parted; its id.

        ``turns`` are all of them, those of the given numbers (as ``compare`` shows them), or a
        "summary" of them in one message, by ``summary`` or, without it, one line for each. Memory,
        variables and todos are merged with regard to what both had; where both changed the same,
        ``policy`` decides: ours, theirs, both, or ``ask``. ``merge_report`` tells what was done.
        Raises as ``fork`` does, and UsageError for turns that there are not and, with the policy
        "ask" and nobody to ask, for the conflicts.
        """
        from holdfast.replay import MergeBlobs, MergeWishes, plan_merge
        from holdfast.session import blob_loader

        place = self._find(a, None)
        ours, theirs = self._told(a, place.position.seq), self._told(b)
        run = f"merge-{new_session_id()}"
        plan = plan_merge(
            ours,
            theirs,
            MergeWishes(turns, policy, summary, ask),
            first_seq=place.position.seq + 1,
            run=run,
            blobs=MergeBlobs(
                blob_loader(self._store.documents(session_key(a))),
                blob_loader(self._store.documents(session_key(b))),
            ),
        )
        more = [
            Draft(one.type, one.data, one.run, one.key, one.timestamp or None)
            for one in plan.events
        ]
        more.append(Draft("merged", msgspec.to_builtins(plan.report), run))
        return self._make(a, new_id, place, title=title, reason="merge", run=run, more=more)

    def merge_report(self, id: str) -> MergeReport | None:
        """What the last merge in a session did, with its conflicts; None if there was none."""
        from holdfast.replay import MergeReport
        from holdfast.session import resolve_blobs

        events = self.events(id, types=("merged",), reverse=True, limit=1)
        for event in resolve_blobs(events, self._store.documents(session_key(id))):
            try:
                return msgspec.convert(event.data, MergeReport)
            except (msgspec.ValidationError, DataError):
                return None
        return None

    def _find(self, id: str, at: int | None) -> Place:
        self._check_open()
        self._stored(id)
        live = self._open_here(id)
        if live is not None:
            # What is in the store is enough where it cannot be flushed any more.
            with contextlib.suppress(StoreError):
                live.barrier()
        return self._branches.find(id, at)

    @cached_property
    def _branches(self) -> Branches:
        from holdfast.session import Branches

        return Branches(self._store, limits=self.limits, redactor=self._redactor())

    def _make(
        self,
        id: str,
        new_id: str | None,
        place: Place,
        *,
        title: str | None = None,
        reason: str | None = "fork",
        run: str | None = None,
        more: Sequence[Draft] = (),
    ) -> str:
        from holdfast.session import check_new_id, check_title

        check_title(title, self.limits)
        # An id of our own making is free; looking for one like it takes longer the more there are.
        made = new_session_id() if new_id is None else check_new_id(self._store, new_id)
        titled = [] if title is None else [Draft("title", {"title": title})]
        self._branches.make(id, made, place, reason=reason, run=run, more=[*more, *titled])
        notice = Notice("forked", made, {"parent": id, "at": place.position.seq - 1})
        self._hub.publish(made, notice)
        return made

    def _root(self, oldest: str, parents: builtins.list[Forebear]) -> str:
        """The first of the line, as the oldest one that is left tells it if others are gone."""
        if not parents or parents[-1].exists:
            return parents[-1].session_id if parents else oldest
        named = self.state(oldest).root
        return named if named is not None and is_id(named) else parents[-1].session_id

    def _parent_of(self, id: str) -> Forebear | None:
        try:
            found = self.state(id).parent
        except (DataError, SecurityError):
            return None
        if found is None or not is_id(found.session):
            return None
        return Forebear(found.session, found.seq, self.exists(found.session))

    def _told(self, id: str, stop: int | None = None) -> Told:
        from holdfast.replay import Told
        from holdfast.session import resolve_blobs

        key = self._stored(id)
        events = builtins.list(of_known_format(read_range(self._store.log(key), stop=stop)))
        documents = self._store.documents(key)
        for index, event in enumerate(events):
            # Long words, and what a long merge tells of its copies, are kept beside the log.
            is_long = event.type in _SAID and has_blob_at("content", bytes(event.raw))
            if event.type == "merged" or is_long:
                [events[index]] = resolve_blobs([event], documents)
        return Told(id, events)

    def _cost(self, events: builtins.list[Event]) -> float | None:
        from holdfast._config import load_prices
        from holdfast.catalog import Tally, cost_of

        return cost_of(Tally().feed(events), load_prices(self._settings.configuration))
