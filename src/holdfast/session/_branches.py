"""Branches: sessions that begin with the events of another one.

A fork shares its parent's bytes up to a place and goes on from there with events of its own, the
first of which is ``forked``. Neither can change the other. Reading the parent needs no lease.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict, Damaged, HoldfastError, InvalidId, NotFound, UsageError
from holdfast.model import Event, Limits, check_id, read_line
from holdfast.session._clock import Clock, now_ms, random_hex
from holdfast.session._offsets import EventEnd, find_place, has_place, line_at
from holdfast.session._snapshots import Snapshots
from holdfast.session._writer import Draft, Writer
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.security import Redactor

_LEASE_MS = 30_000
_LOG_ID_BYTES = 16


class Branches:
    """Makes sessions out of others, in one store."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits | None = None,
        clock: Clock = now_ms,
        redactor: Redactor | None = None,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._limits = limits
        self._clock = clock

    def find(self, session_id: str, at: int | None = None) -> EventEnd:
        """Where a fork at this event would begin. Raises as ``find_place`` does, and UsageError."""
        if at is not None and (type(at) is not int or at < 0):
            raise UsageError(f"an event is named by its number from 0 on, not {at!r}")
        try:
            return self._find(session_id, at)
        except Damaged:
            # A session that was replaced by another while it was read looks like this, once.
            return self._find(session_id, at)

    def _find(self, session_id: str, at: int | None) -> EventEnd:
        key = f"sessions/{session_id}"
        try:
            return find_place(self._store.log(key), self._store.documents(key), at)
        except NotFound as error:
            error.fields["session_id"] = session_id
            raise

    def make(
        self,
        parent_id: str,
        new_id: str,
        place: EventEnd,
        *,
        reason: str | None = "fork",
        run: str | None = None,
        more: Sequence[Draft] = (),
    ) -> None:
        """Make a session of a parent's events up to a place, and what comes after ``forked``.

        All of it is written as one batch, and durable when it returns. If that fails nothing of
        the new session stays, except after a crash in between: then it is a mere copy. Raises
        Conflict if the parent was deleted and made anew, or rewritten, since the place was found.
        """
        key, to = f"sessions/{parent_id}", f"sessions/{new_id}"
        data = {
            "session": parent_id,
            "seq": place.position.seq - 1,
            "root": self._root_of(key, place),
            "log": random_hex(_LOG_ID_BYTES),
            "reason": reason,
        }
        found = {name: value for name, value in data.items() if value is not None}
        drafts = [Draft("forked", found, run), *map(self._redacted, more)]
        try:
            self._store.branch(
                key,
                to,
                place.position.offset,
                # From the first moment: a crash must not leave events that nothing opens.
                documents=_keys_for(self._store, key, place.position.seq),
            )
        except Conflict as error:
            taken = self._store.exists(to)
            raise (_taken(new_id) if taken else _replaced(parent_id)) from error
        try:
            if not has_place(self._store.log(to), place):
                raise _replaced(parent_id)
            self._write(key, to, place, drafts)
        except BaseException:
            self._store.drop(to)
            raise

    def _write(self, source: str, key: str, place: EventEnd, drafts: list[Draft]) -> None:
        lease = self._store.lease(key)
        epoch = lease.acquire("fork", _LEASE_MS)
        log, documents = self._store.log(key), self._store.documents(key)
        try:
            writer = Writer(
                log,
                documents,
                position=place.position,
                epoch=epoch,
                limits=self._limits,
                clock=self._clock,
            )
            if place.open_line:
                writer.end_open_line()
            if self._store.has_keys:
                _seal(self._store, key, writer)
            writer.check(drafts)
            if place.snapshot is not None:
                # What it knows is true of the fork as well, which then opens as quickly.
                Snapshots(self._store.documents(source)).lend(place.snapshot.seq, documents)
            writer.extend(drafts)
            writer.sync()
        finally:
            log.close()
            lease.release()

    def _redacted(self, draft: Draft) -> Draft:
        if self._redactor is None:
            return draft
        return draft._replace(data=self._redactor.data(draft.type, draft.data).data)

    def _root_of(self, key: str, place: EventEnd) -> str | None:
        """The root that the parent names, as far as that can be told without reading it all."""
        base = self._store.base_size(key)
        if base:
            log = self._store.log(key)
            data = _data(read_line(line_at(log, base), log.unseal))
            root = data.get("root") or data.get("session")
            if isinstance(root, str):
                return root
        return None if place.snapshot is None else place.snapshot.state.root


def _keys_for(store: Store, source: str, first: int) -> dict[str, bytes]:
    """The keys of a fork of a sealed session: a new one, and the parent's for what they share."""
    if not store.has_keys:
        return {}
    from holdfast.security import KEY_DOCUMENT, Ring, inherited, new_data_key
    from holdfast.session._sealed_store import sealing

    sealed = sealing(store)
    ring = None if sealed is None else sealed.ring(source)
    if sealed is None or ring is None:
        return {}
    number = 1 + max(one.number for one in ring.keys)
    own = new_data_key(number, first=first)
    whole = Ring((*inherited(ring.keys, first), own), ring.state)
    return {KEY_DOCUMENT: sealed.keys.wrap(whole).encode()}


def _seal(store: Store, key: str, writer: Writer) -> None:
    from holdfast.session._seal import sealer_for
    from holdfast.session._sealed_store import end_before

    sealer = sealer_for(store, key, writer.log, writer.epoch)
    if sealer is not None:
        writer.seal_with(sealer, end_before(writer.log, writer.offset))


def check_new_id(store: Store, new_id: str) -> str:
    """The id, if a session can be made under it. Raises InvalidId, UsageError."""
    key = f"sessions/{check_id(new_id)}"
    if store.exists(key):
        raise _taken(new_id)
    other = store.clash(key)
    if other is not None:
        name = other.rpartition("/")[2]
        raise InvalidId(
            f"{new_id} differs only by case from the session {name}",
            remedy="Choose another id.",
            session_id=new_id,
        )
    return new_id


def detach_children(store: Store, key: str) -> list[str]:
    """Give every session that shares bytes recorded in this one its own copy of them; their keys.

    To be called before the bytes of ``key`` are to be gone for good: after it no branch, in use or
    in the trash, holds on to them in this session's files. Raises Locked, with the branches before
    it done, while one of them is open.
    """
    if not store.exists(key):
        return []
    offset = store.base_size(key)
    own = line_at(store.log(key), offset)
    above = key.rpartition("/")[0]
    space = above.rpartition("/")[0] + "/" if "/" in above else ""
    done = []
    for folder in ("sessions/", "trash/"):
        for entry in list(store.entries(space + folder)):
            if entry.key == key or store.base_size(entry.key) <= offset:
                continue
            # The first line that this session recorded itself names its log, which is unique.
            if line_at(store.log(entry.key), offset) == own:
                store.detach(entry.key)
                done.append(entry.key)
    return done


def _taken(new_id: str) -> UsageError:
    return UsageError(
        f"there is a session {new_id} already",
        remedy="Choose another id, or leave it out to get a new one.",
        session_id=new_id,
    )


def _replaced(session_id: str) -> Conflict:
    return Conflict(
        f"session {session_id} was replaced by another while it was being forked",
        remedy="Fork it again.",
        session_id=session_id,
    )


def _data(event: Event | None) -> dict[str, Any]:
    try:
        return {} if event is None else event.data
    except HoldfastError:
        return {}
