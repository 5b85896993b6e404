"""Letting sessions go, and bringing them back from the trash."""

from __future__ import annotations

import builtins
import contextlib

import msgspec

from holdfast.errors import Forbidden, NotFound, StoreError
from holdfast.library._finding import Finding
from holdfast.library._ground import LEASE_MS, session_key
from holdfast.model import Notice, SessionMetadata, check_id
from holdfast.session import now_ms

__all__ = ["Trash", "Trashed"]

# The number makes the key longer than the id is, so the longest ids are cut.
_TRASH_STEM_CHARS_MAX = 110
_INSTRUCTIONS = "custom_instructions.md"
_NOTE = "deleted.json"
_KEYS = "seal.json"


class Trashed(msgspec.Struct, frozen=True):
    """A session in the trash: which it was, when it was deleted, and where it lies."""

    session_id: str
    deleted_at: int
    size_bytes: int
    key: str
    title: str | None = None
    """Its title when it was deleted; None where nobody wrote it down."""


class _Note(msgspec.Struct, omit_defaults=True):
    id: str
    at: int
    title: str | None = None


class Trash(Finding):
    """Deleting sessions and agents."""

    def delete(self, id: str) -> None:
        """Put a session into the trash. Raises Locked while anyone has it open.

        One that is under legal hold is refused: Forbidden.
        """
        row = self._check_not_held(id)
        key = self._free_trash_key(id)
        # Of a sealed session the catalogue knows no title, and no note may have one.
        title = self._catalog.info(id).title if self._store.has_keys else row.title
        self._store.move(self._stored(id), key)
        self._note(key, id, title)
        self._hub.publish(id, Notice("deleted", id))

    def undelete(self, id: str) -> None:
        """Bring the session of that id that was deleted last back from the trash."""
        self._check_open()
        stem = _trash_stem(check_id(id))
        newest = max(
            (entry for entry in self._store.entries("trash/") if _trashed_stem(entry.key) == stem),
            key=lambda entry: _trash_number(entry.key),
            default=None,
        )
        if newest is None:
            raise NotFound(
                f"there is no session {id} in the trash",
                remedy="hf.trash() tells what is; `holdfast undelete -` takes the last one.",
                session_id=check_id(id),
            )
        self._store.move(newest.key, session_key(id))
        self._store.documents(session_key(id)).delete(_NOTE)
        self._hub.publish(id, Notice("undeleted", id))

    def trash(self) -> builtins.list[Trashed]:
        """The sessions that can still be brought back, the last deleted first.

        ``deleted_at`` is 0 where nobody wrote it down, and ``title`` None, as it is of sealed ones.
        """
        self._check_open()
        found = [self._trashed(entry.key, entry.size) for entry in self._store.entries("trash/")]
        return sorted(found, key=lambda one: one.deleted_at, reverse=True)

    def purge_agent(self, agent_id: str, instructions: bool = False) -> int:  # noqa: FBT001, FBT002 - called so since the first version
        """Put an agent's sessions into the trash and remove its documents; how many sessions.

        What a person wrote into ``custom_instructions.md`` stays unless ``instructions`` is true.
        Raises Locked, before anything is removed, while one of its sessions is open, and Forbidden
        while one is under legal hold.
        """
        key = f"agents/{check_id(agent_id, what='agent id')}"
        found = [row.session_id for row in self._all(agent_id=agent_id)]
        # What is let go is what the logs say; the catalogue only says where to look.
        sessions = [id for id in found if self.state(id).agent_id == agent_id]
        for id in sessions:
            self._check_not_held(id)
            self._check_unlocked(id)
        for id in sessions:
            self.delete(id)
        documents = self._inner.documents(key)
        names = documents.names()
        # What a person wrote may be sealed; then it stays readable.
        stay = () if instructions or _INSTRUCTIONS not in names else (_INSTRUCTIONS, _KEYS)
        for name in names:
            if name not in stay:
                documents.delete(name)
        return len(sessions)

    def _note(self, key: str, id: str, title: str | None = None) -> _Note:
        """Write down when it was deleted; a crash before that only makes it stay for longer."""
        note = _Note(id, now_ms(), title)
        with contextlib.suppress(StoreError):
            self._store.documents(key).put(_NOTE, msgspec.json.encode(note), sync=False)
        return note

    def _trashed(self, key: str, size: int) -> Trashed:
        found = self._store.documents(key).get(_NOTE)
        try:
            note = msgspec.json.decode(b"" if found is None else found[0], type=_Note)
        except msgspec.MsgspecError:
            note = _Note(_trashed_stem(key), 0)
        return Trashed(note.id, note.at, size, key, note.title)

    def _check_not_held(self, id: str) -> SessionMetadata:
        row = self.info(id)
        if row.held:
            raise Forbidden(
                f"session {id} is under legal hold",
                session_id=id,
                remedy=f"Release it first: holdfast pin {id} --release",
            )
        return row

    def _check_unlocked(self, id: str) -> None:
        lease = self._store.lease(session_key(id))
        lease.acquire("purge", LEASE_MS)
        lease.release()

    def _free_trash_key(self, id: str) -> str:
        """A session that was deleted before, and made anew, must not stand in the way."""
        number = 0
        while self._store.exists(key := _trash_key(id, number)):
            number += 1
        return key


def _trash_key(id: str, number: int) -> str:
    return f"trash/{number}.{_trash_stem(id)}"


def _trash_stem(id: str) -> str:
    """The id, or a shorter name that stands for it where the number would make it too long."""
    if len(id) <= _TRASH_STEM_CHARS_MAX:
        return id
    from hashlib import sha256

    digest = sha256(id.encode()).hexdigest()[:32]
    return f"{id[: _TRASH_STEM_CHARS_MAX - 33]}-{digest}"


def _trashed_stem(key: str) -> str:
    return key.rpartition("/")[2].partition(".")[2]


def _trash_number(key: str) -> int:
    """The higher, the later it was deleted; what someone else put there is older than all."""
    number = key.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdecimal() else -1
