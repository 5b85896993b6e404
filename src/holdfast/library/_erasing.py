"""Erasing: a session goes for good, with every copy of it that this store has."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Forbidden, HoldfastError, NotFound
from holdfast.library._ground import LEASE_MS, session_key
from holdfast.library._trash import Trash
from holdfast.model import Notice, check_id

if TYPE_CHECKING:
    from holdfast.replay import State

__all__ = ["Erased", "Erasing"]

_FOLDERS = ("sessions/", "trash/")
_ELSEWHERE = "Copies in other stores, exports and backups are not known here."


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and what could not be reached."""

    session_id: str
    erased: tuple[str, ...]
    """The keys in the store that are gone: the session, its forks, what lay in the trash."""
    keys_destroyed: int
    """How many of them were sealed; without its data keys no copy of such a one can be read."""
    unreached: tuple[str, ...]
    """What holds, or may hold, some of it still; one sentence each."""


class Erasing(Trash):
    """Letting go for good."""

    def erase(self, id: str, *, forks: bool = True) -> Erased:
        """Destroy a session, in use or in the trash, so that nothing of it is left in the store.

        The data keys go first, then log, snapshots, payloads and quarantine; then the same for
        every fork of it, since it begins with the same events, unless ``forks`` is false; then the
        index is made anew. What could not be reached is told. Raises NotFound; before anything is
        destroyed Locked while one of them is open, and Forbidden while one is under legal hold.
        Broken off, the same call goes on.
        """
        mine = self._copies_of(check_id(id))
        if not mine:
            self._inner.scrub()  # what an erasure that was broken off left out of sight
            raise NotFound(f"there is no session {id}, also not in the trash", session_id=id)
        found = self._kin_of(mine)
        chosen = [*mine, *found] if forks else mine
        for key in chosen:
            self._check_free(key)
        unreached = self._told_apart(mine, [] if forks else found)
        destroyed = sum([self._destroy_keys(key) for key in chosen])
        # Forks before what they share bytes with: an erasure that is broken off finds them again.
        for key in reversed(chosen):
            self._inner.drop(key)
        self.reindex()
        unreached += [*self._inner.scrub(), _ELSEWHERE]
        self._hub.publish(id, Notice("erased", id))
        return Erased(
            session_id=id,
            erased=tuple(chosen),
            keys_destroyed=destroyed,
            unreached=tuple(unreached),
        )

    def family(self, id: str) -> builtins.list[str]:
        """The keys of the forks that ``erase`` would take along."""
        return self._kin_of(self._copies_of(check_id(id)))

    def _copies_of(self, id: str) -> builtins.list[str]:
        """The session under its id, and all that were deleted under it."""
        keys = [session_key(id)] if self._inner.exists(session_key(id)) else []
        return [*keys, *(one.key for one in self.trash() if one.session_id == id)]

    def _kin_of(self, mine: builtins.list[str]) -> builtins.list[str]:
        """Every other session that has events of these: forks, their forks, copies."""
        own = {ids[-1] for key in mine if (ids := self._log_ids(key))}
        others = [
            entry.key
            for folder in _FOLDERS
            for entry in self._inner.entries(folder)
            if entry.key not in mine
        ]
        return [key for key in sorted(others) if own & set(self._log_ids(key))]

    def _log_ids(self, key: str) -> builtins.list[str]:
        """The log that a session is, last, and before it those that it was forked from."""
        from holdfast.session import read_range

        state = self._state_of(key)
        if state is None:
            return []
        limit = 1 if state.parent is None else None
        log = self._store.log(key)
        events = read_range(log, types=("session_start", "forked"), limit=limit)
        with contextlib.suppress(HoldfastError):
            return [str(event.data["log"]) for event in events if event.data.get("log")]
        return []

    def _state_of(self, key: str) -> State | None:
        from holdfast.session import load

        with contextlib.suppress(HoldfastError):
            log, documents = self._store.log(key), self._store.documents(key)
            return load(log, documents, tolerant=True).fold.state
        return None

    def _name_of(self, key: str) -> str:
        if key.startswith("sessions/"):
            return key.rpartition("/")[2]
        return self._trashed(key, 0).session_id

    def _check_free(self, key: str) -> None:
        """Raise Locked while it is open, Forbidden while it is under legal hold."""
        state = self._state_of(key)
        if state is not None and state.metadata.get("legal_hold"):
            raise Forbidden(
                f"session {self._name_of(key)} is under legal hold",
                session_id=self._name_of(key),
                remedy=f"Release it first: holdfast pin {self._name_of(key)} --release",
            )
        lease = self._inner.lease(key)
        lease.acquire("erase", LEASE_MS)
        lease.release()

    def _destroy_keys(self, key: str) -> bool:
        from holdfast.security import KEY_DOCUMENT

        return self._inner.documents(key).delete(KEY_DOCUMENT)

    def _told_apart(
        self, mine: builtins.list[str], spared: builtins.list[str]
    ) -> builtins.list[str]:
        """What stays and holds events of these."""
        from holdfast.session import detach_children

        for key in mine:
            detach_children(self._inner, key)
        told = [f"{key} begins with the same events and was left." for key in spared]
        told += [
            f"{key} could not be read; it may have events of it." for key in self._unreadable()
        ]
        names = {self._name_of(key) for key in mine}
        told += [f"{key} was merged with it and holds events of it." for key in self._merged(names)]
        return told

    def _unreadable(self) -> Iterator[str]:
        """What nobody can look into here."""
        for folder in _FOLDERS:
            for entry in builtins.list(self._inner.entries(folder)):
                if self._state_of(entry.key) is None:
                    yield entry.key

    def _merged(self, names: set[str]) -> Iterator[str]:
        from holdfast.session import read_range

        for entry in builtins.list(self._inner.entries("sessions/")):
            with contextlib.suppress(HoldfastError):
                log = self._store.log(entry.key)
                for event in read_range(log, types=("merged",)):
                    if event.data.get("session") in names:
                        yield entry.key
                        break
