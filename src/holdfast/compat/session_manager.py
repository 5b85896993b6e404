"""Sessions with answers instead of exceptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.model import SessionMetadata
from holdfast.session import Session

_log = logging.getLogger("holdfast.compat")


class SessionManager:
    """Creates, saves, loads, lists, deletes and exports sessions, one of which is the current one.

    What cannot be done is logged and answered with False, None or nothing; no failure of a store or
    of a session's data is raised. Use :class:`~holdfast.Holdfast` to be told why.
    """

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self.current: Session | None = None

    def create_session(self, title: str | None = None) -> Session | None:
        """Begin a session, which is listed from now on, and make it the current one."""
        with _told("create a session"):
            session = self._hf.session(title=title)
            try:
                # A session is on record with its first event; this one is to be found at once.
                session.append("metadata", {"begun_by": "session_manager"})
                session.flush()
            except BaseException:
                session.close()
                raise
            return self._take(session)
        return None

    def save_session(self, session: Session | None = None) -> bool:
        """Put a session, else the current one, on the medium; whether that was done."""
        chosen = session or self.current
        if chosen is not None:
            with _told(f"save {chosen.id}"):
                chosen.flush()
                return True
        return False

    def load_session(self, session_id: str) -> Session | None:
        """Open a session and make it the current one; None if there is none that can be read."""
        with _told(f"load {session_id}"):
            return self._take(self._hf.session(session_id, resume="always"))
        return None

    def list_sessions(self, limit: int | None = None) -> list[SessionMetadata]:
        """Return what is known of the sessions, the last changed first."""
        with _told("list the sessions"):
            return list(self._hf.list(limit))
        return []

    def delete_session(self, session_id: str) -> bool:
        """Put a session into the trash; whether there was one that could be."""
        with _told(f"delete {session_id}"):
            if self.current is not None and self.current.id == session_id:
                self._leave()
            self._hf.delete(session_id)
            return True
        return False

    def export_to_markdown(self, session: Session | None = None) -> str:
        """Return a session, else the current one, as Markdown; nothing if there is none."""
        chosen = session or self.current
        if chosen is not None:
            with _told(f"export {chosen.id}"):
                return str(self._hf.export(chosen.id, "markdown"))
        return ""

    def close(self) -> None:
        """Give the current session back."""
        with _told("close the current session"):
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, session: Session) -> Session:
        try:
            self._leave()
        finally:
            self.current = session
        return session

    def _leave(self) -> None:
        session, self.current = self.current, None
        if session is not None:
            session.close()


@contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except HoldfastError as error:
        _log.warning("could not %s: %s", what, error)
