"""Reading sessions: their events, state, conversation and snapshots. Nothing here writes."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast._lazy import lazy_modules
from holdfast.errors import HoldfastError, NotFound, UsageError
from holdfast.library._core import Core, limit_of, one_of_each, session_key, whole
from holdfast.model import Event, Notice

if TYPE_CHECKING:
    import datetime as dt

    from holdfast import replay, session
    from holdfast.storage import Log
else:
    # Every verb asks whether a session exists; only some of them read it.
    replay, session = lazy_modules("holdfast", "replay session")


class SnapshotInfo(msgspec.Struct, frozen=True):
    """One snapshot of a session: the events it covers, and whether it is intact."""

    seq: int
    taken_at: int
    whole: bool


def exists(core: Core, id: str) -> bool:
    core.check_open()
    return core.store.exists(session_key(id))


def location(core: Core, id: str) -> str:
    return core.store.location(session_key(id))


def last_modified(core: Core, id: str) -> dt.datetime | None:
    from datetime import UTC, datetime

    if not exists(core, id):
        return None
    newest = next(events(core, id, reverse=True, limit=1), None)
    if newest is None:
        return None
    try:
        return datetime.fromtimestamp(newest.timestamp / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        # The clock was wrong by thousands of years; this is the nearest time that can be expressed.
        return datetime(9999 if newest.timestamp > 0 else 1, 1, 1, tzinfo=UTC)


def events(
    core: Core,
    id: str,
    start: int = 0,
    stop: int | None = None,
    types: Collection[str] | None = None,
    reverse: bool = False,
    limit: int | None = None,
) -> Iterator[Event]:
    start, stop = whole("start", start), None if stop is None else whole("stop", stop)
    limit = limit_of(limit, "events")
    if types is not None:
        types = {types} if isinstance(types, str) else one_of_each("types", types)
    log = core.store.log(core.stored(id))
    return session.read_range(log, start=start, stop=stop, types=types, reverse=reverse, limit=limit)


def follow(core: Core, id: str, start: int | None = None) -> session.Follower:
    return session.Follower(core.store, core.stored(id), 0 if start is None else whole("start", start))


def state(core: Core, id: str, at: int | None = None) -> replay.State:
    key = core.stored(id)
    log, documents = core.store.log(key), core.store.documents(key)
    if at is None:
        state = session.load(log, documents, tolerant=True).fold.state
        state.alive = session.is_alive(state)
        return state
    return session.load_state_at(log, documents, reached(log, id, at)).state


def recover(
    core: Core,
    id: str,
    provider: replay.Provider = "neutral",
    incomplete: replay.Incomplete = "mark",
    window_tokens: int | None = None,
    at: int | None = None,
) -> replay.Recovery:
    from holdfast._tokens import token_counter

    if window_tokens is not None:
        window_tokens = whole("window_tokens", window_tokens)
    # Nothing of it is stored yet, but the process that has it open sees a session.
    live = core.open_here(id) if at is None else None
    if live is not None and live.seq < 0:
        return replay.recover((), provider=provider, incomplete=incomplete, session_id=id)
    key = core.stored(id)
    log = core.store.log(key)
    events = session.read_range(log, stop=None if at is None else reached(log, id, at) + 1)
    found = replay.recover(
        session.resolve_blobs(of_known_format(events), core.store.documents(key)),
        provider=provider,
        incomplete=incomplete,
        window_tokens=window_tokens,
        count_tokens=token_counter(provider) if window_tokens is not None else None,
        session_id=id,
    )
    if found.issues:
        types = dict(Counter(issue.type for issue in found.issues))
        core.hub.publish(id, Notice("recovered", id, {"issues": types}))
        session.log_recovery(core.store, id, found.issues)
    return found


def snapshots(core: Core, id: str) -> builtins.list[SnapshotInfo]:
    kept = session.Snapshots(core.store.documents(core.stored(id)))
    found = []
    for seq in kept.seqs():
        try:
            found.append(SnapshotInfo(seq, kept.load(seq).taken_at, whole=True))
        except HoldfastError:
            found.append(SnapshotInfo(seq, 0, whole=False))
    return found


def of_known_format(events: Iterator[Event]) -> Iterator[Event]:
    """Yield the events unchanged. Raises TooNew for an event of an unknown format."""
    for event in events:
        replay.check_format(event)
        yield event


def reached(log: Log, id: str, at: Any) -> int:
    """Return the number of an event that the log has. Raises NotFound if it has none, UsageError."""
    asked = whole("at", at)
    if asked < 0:
        raise UsageError(f"an event is named by its number from 0 on, not {asked}")
    newest = next(session.read_range(log, reverse=True, limit=1), None)
    if newest is None:
        raise NotFound(f"session {id} has no events", remedy="Record something in it first.", session_id=id, seq=asked)
    if asked > newest.seq:
        raise NotFound(
            f"there is no event {asked} in {id}; the last is {newest.seq}",
            remedy="Choose an earlier one.",
            session_id=id,
            seq=asked,
        )
    return asked
