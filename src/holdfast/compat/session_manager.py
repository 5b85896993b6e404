"""Sessions with answers instead of exceptions."""

from __future__ import annotations

import logging
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
        try:
            session = self._hf.session(title=title)
            try:
                # A session is on record with its first event; this one is to be found at once.
                session.append("metadata", {"begun_by": "session_manager"})
                session.flush()
            except BaseException:
                session.close()
                raise
        except HoldfastError as error:
            _failed("create a session", error)
            return None
        return self._take(session)

    def save_session(self, session: Session | None = None) -> bool:
        """Put a session, else the current one, on the medium; whether that was done."""
        chosen = session or self.current
        if chosen is None:
            return False
        try:
            chosen.flush()
        except HoldfastError as error:
            _failed(f"save {chosen.id}", error)
            return False
        return True

    def load_session(self, session_id: str) -> Session | None:
        """Open a session and make it the current one; None if there is none that can be read."""
        try:
            return self._take(self._hf.session(session_id, resume="always"))
        except HoldfastError as error:
            _failed(f"load {session_id}", error)
            return None

    def list_sessions(self, limit: int | None = None) -> list[SessionMetadata]:
        """Return what is known of the sessions, the last changed first."""
        try:
            return list(self._hf.list(limit))
        except HoldfastError as error:
            _failed("list the sessions", error)
            return []

    def delete_session(self, session_id: str) -> bool:
        """Put a session into the trash; whether there was one that could be."""
        try:
            if self.current is not None and self.current.id == session_id:
                self._leave()
            self._hf.delete(session_id)
        except HoldfastError as error:
            _failed(f"delete {session_id}", error)
            return False
        return True

    def export_to_markdown(self, session: Session | None = None) -> str:
        """Return a session, else the current one, as Markdown; nothing if there is none."""
        chosen = session or self.current
        if chosen is None:
            return ""
        try:
            return str(self._hf.export(chosen.id, "markdown"))
        except HoldfastError as error:
            _failed(f"export {chosen.id}", error)
            return ""

    def close(self) -> None:
        """Give the current session back."""
        try:
            self._leave()
        except HoldfastError as error:
            _failed("close the current session", error)

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


def _failed(what: str, error: HoldfastError) -> None:
    _log.warning("could not %s: %s", what, error)
