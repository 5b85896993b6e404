"""Finding sessions among many."""

from __future__ import annotations

import builtins
from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.errors import KeyMissing, StoreError, TooNew
from holdfast.library._reading import Reading
from holdfast.model import SessionMetadata
from holdfast.replay import status_of
from holdfast.session import is_alive, load
from holdfast.storage import Entry

if TYPE_CHECKING:
    import datetime as dt

__all__ = ["Finding"]


class Finding(Reading):
    """What can be asked of all sessions together."""

    def list(
        self,
        limit: int | None = 50,
        tags: Collection[str] = (),
        since: float | dt.datetime | None = None,
        until: float | dt.datetime | None = None,
        agent_id: str | None = None,
    ) -> builtins.list[SessionMetadata]:
        """The sessions, newest first; ``since`` and ``until`` are datetimes or Unix seconds."""
        wanted = frozenset(tags)
        first, last = _ms(since), _ms(until)
        found: builtins.list[SessionMetadata] = []
        entries = sorted(self._store.entries(), key=lambda entry: entry.modified, reverse=True)
        for entry in entries:
            if limit is not None and len(found) >= limit:
                break
            row = self._metadata(entry)
            if (
                wanted <= frozenset(row.tags)
                and (first is None or row.updated_at >= first)
                and (last is None or row.updated_at <= last)
                and (agent_id is None or row.agent_id == agent_id)
            ):
                found.append(row)
        return sorted(found, key=lambda row: row.updated_at, reverse=True)

    def info(self, id: str) -> SessionMetadata:
        """One session as ``list`` would show it."""
        key = self._stored(id)
        size = self._store.log(key).size()
        return self._metadata(Entry(key, size, 0, ""))

    def _metadata(self, entry: Entry) -> SessionMetadata:
        id = entry.key.rpartition("/")[2]
        log, documents = self._store.log(entry.key), self._store.documents(entry.key)
        try:
            loaded = load(log, documents, tolerant=True)
        except TooNew:
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="too_new")
        except KeyMissing:
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="sealed")
        except StoreError:
            # One log that cannot be read must not hide all the others.
            return SessionMetadata(session_id=id, size_bytes=entry.size, state="unreadable")
        state = loaded.fold.state
        return SessionMetadata(
            session_id=id,
            title=state.shown_title,
            tags=tuple(state.tags),
            created_at=state.created_at,
            updated_at=state.updated_at,
            message_count=state.message_count,
            total_tokens=state.usage.total_tokens,
            event_count=state.event_count,
            size_bytes=entry.size,
            agent_id=state.agent_id,
            parent=state.parent.session if state.parent else None,
            status=status_of(state, alive=is_alive(state)),
            state="damaged" if loaded.gaps else "ok",
        )


def _ms(when: float | dt.datetime | None) -> int | None:
    if when is None:
        return None
    seconds = when if isinstance(when, (int, float)) else when.timestamp()
    return int(seconds * 1000)
