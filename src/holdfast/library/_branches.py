"""Branches: forking, rewinding, comparing and merging sessions. Originals stay as they are."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import DataError, SecurityError, StoreError
from holdfast.library import _finder, _views
from holdfast.library._core import Core, session_key
from holdfast.library._views import of_known_format
from holdfast.model import Event, Notice, has_blob_at, is_id
from holdfast.session import Draft, new_session_id, read_range

if TYPE_CHECKING:
    from holdfast.replay import Comparison, MergeReport, SessionEvents
    from holdfast.session import EventEnd

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
    parents: list[Forebear]
    """The parent, its parent, and so on, as far as they are known."""
    children: list[str]


def fork(core: Core, id: str, at: int | None = None, *, new_id: str | None = None, title: str | None = None) -> str:
    return _make(core, id, new_id, _find(core, id, at), title)


def restore(core: Core, id: str, at: int, *, new_id: str | None = None) -> str:
    from holdfast.session import point_agent

    key = core.stored(id)
    if core.open_here(id) is None:
        core.check_unlocked(key, "restore")
    agent_id = _views.state(core, id).agent_id
    made = _make(core, id, new_id, _find(core, id, at), reason=None)
    if agent_id is not None and is_id(agent_id):
        point_agent(core.store.documents(f"agents/{agent_id}"), agent_id, made)
    return made


def lineage(core: Core, id: str) -> Lineage:
    parents: list[Forebear] = []
    core.stored(id)
    met, current = {id}, id
    for _ in range(_GENERATIONS_MAX):
        found = _parent_of(core, current)
        if found is None or found.session_id in met:
            break
        parents.append(found)
        if not found.exists:
            break
        met.add(found.session_id)
        current = found.session_id
    children = [row.session_id for row in _finder.all_sessions(core, parent=id) if row.session_id != id]
    return Lineage(session_id=id, root=_root(core, current, parents), parents=parents, children=children)


def compare(core: Core, a: str, b: str) -> Comparison:
    from holdfast._config import load_prices
    from holdfast.catalog import Tally, cost_of
    from holdfast.replay import compare

    def cost(events: list[Event]) -> float | None:
        return cost_of(Tally().feed_usage(events), load_prices(core.settings.configuration))

    return compare(_told(core, a), _told(core, b), cost=cost)


def merge(core: Core, a: str, b: str, *wishes: Any, new_id: str | None, title: str | None) -> str:
    from holdfast.replay import MergeBlobs, MergeWishes, plan_merge
    from holdfast.session import blob_loader

    place = _find(core, a, None)
    run = f"merge-{new_session_id()}"
    plan = plan_merge(
        _told(core, a, place.position.seq),
        _told(core, b),
        MergeWishes(*wishes),
        first_seq=place.position.seq + 1,
        run=run,
        blobs=MergeBlobs(*(blob_loader(core.store.documents(session_key(one))) for one in (a, b))),
    )
    more = [Draft(one.type, one.data, one.run, one.key, one.timestamp or None) for one in plan.events]
    more.append(Draft("merged", msgspec.to_builtins(plan.report), run))
    return _make(core, a, new_id, place, title, *more, reason="merge", run=run)


def merge_report(core: Core, id: str) -> MergeReport | None:
    from holdfast.replay import MergeReport
    from holdfast.session import resolve_blobs

    events = _views.events(core, id, types=("merged",), reverse=True, limit=1)
    for event in resolve_blobs(events, core.store.documents(session_key(id))):
        try:
            return msgspec.convert(event.data, MergeReport)
        except (msgspec.ValidationError, DataError):
            return None
    return None


def _find(core: Core, id: str, at: int | None) -> EventEnd:
    core.stored(id)
    live = core.open_here(id)
    if live is not None:
        # If the store can no longer be flushed, what it already holds is enough.
        with contextlib.suppress(StoreError):
            live.barrier()
    return core.branches.find(id, at)


def _make(
    core: Core, id: str, new_id: str | None, place: EventEnd, title: str | None = None, *more: Draft, **how: str | None
) -> str:
    from holdfast.session import check_new_id, check_title

    check_title(title, core.limits)
    # A generated id is free; looking for one like it takes longer the more there are.
    made = new_session_id() if new_id is None else check_new_id(core.store, new_id)
    titled = [] if title is None else [Draft("title", {"title": title})]
    core.branches.make(id, made, place, more=[*more, *titled], **{"reason": "fork", **how})
    core.hub.publish(made, Notice("forked", made, {"parent": id, "at": place.position.seq - 1}))
    return made


def _root(core: Core, oldest: str, parents: list[Forebear]) -> str:
    """Return the first session of the line, or the oldest known one if the first is gone."""
    if not parents or parents[-1].exists:
        return parents[-1].session_id if parents else oldest
    named = _views.state(core, oldest).root
    return named if named is not None and is_id(named) else parents[-1].session_id


def _parent_of(core: Core, id: str) -> Forebear | None:
    try:
        found = _views.state(core, id).parent
    except (DataError, SecurityError):
        return None
    if found is None or not is_id(found.session):
        return None
    return Forebear(found.session, found.seq, _views.exists(core, found.session))


def _told(core: Core, id: str, stop: int | None = None) -> SessionEvents:
    from holdfast.replay import SessionEvents
    from holdfast.session import resolve_blobs

    key = core.stored(id)
    events = list(of_known_format(read_range(core.store.log(key), stop=stop)))
    documents = core.store.documents(key)
    for index, event in enumerate(events):
        # Long texts, and the details of long merges, are kept beside the log.
        is_long = event.type in _SAID and has_blob_at("content", bytes(event.raw))
        if event.type == "merged" or is_long:
            [events[index]] = resolve_blobs([event], documents)
    return SessionEvents(id, events)
