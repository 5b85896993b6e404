"""Letting sessions go, and bringing them back from the trash."""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.library._finding import Finding
from holdfast.library._ground import LEASE_MS, session_key
from holdfast.model import Notice, check_id

__all__ = ["Trash"]

_TRASH_STEM_CHARS_MAX = 110
_INSTRUCTIONS = "custom_instructions.md"


class Trash(Finding):
    """Deleting sessions and agents."""

    def delete(self, id: str) -> None:
        """Put a session into the trash. Raises Locked while anyone has it open."""
        self._store.move(self._stored(id), self._free_trash_key(id))
        self._hub.publish(id, Notice("deleted", id))

    def undelete(self, id: str) -> None:
        """Bring the session of that id that was deleted last back from the trash."""
        newest = max(
            (
                entry
                for entry in self._store.entries("trash/")
                if _trashed_stem(entry.key) == _trash_stem(check_id(id))
            ),
            key=lambda entry: _trash_number(entry.key),
            default=None,
        )
        if newest is None:
            raise NotFound(f"there is no session {id} in the trash", session_id=check_id(id))
        self._store.move(newest.key, session_key(id))
        self._hub.publish(id, Notice("undeleted", id))

    def purge_agent(self, agent_id: str, instructions: bool = False) -> int:  # noqa: FBT001, FBT002
        """Put an agent's sessions into the trash and remove its documents; how many sessions.

        What a person wrote into ``custom_instructions.md`` stays unless ``instructions`` is true.
        Raises Locked, before anything is removed, while one of its sessions is open.
        """
        key = f"agents/{check_id(agent_id, what='agent id')}"
        sessions = [row.session_id for row in self.list(limit=None, agent_id=agent_id)]
        for id in sessions:
            self._check_unlocked(id)
        for id in sessions:
            self.delete(id)
        documents = self._store.documents(key)
        for name in documents.names():
            if instructions or name != _INSTRUCTIONS:
                documents.delete(name)
        return len(sessions)

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
    return int(key.rpartition("/")[2].partition(".")[0])
