"""Where an agent lives between its sessions: which one is current, and its own documents."""

from __future__ import annotations

import datetime as dt
import warnings
from typing import Any

import msgspec

from holdfast.errors import AgentTypeMismatch, Conflict, HoldfastError, TooNew
from holdfast.library import Holdfast
from holdfast.model import Event, Notice
from holdfast.session import Session
from holdfast.storage import MUST_NOT_EXIST, Documents

__all__ = ["AgentHome", "RepairedWarning"]

_NAME = "agent.json"
_SET_ASIDE = "agent.damaged.json"
_VERSION = 1
_TRIES_MAX = 50


class RepairedWarning(UserWarning):
    """Something stored was damaged; what is whole was kept, and the agent goes on."""


class _Document(msgspec.Struct, omit_defaults=True):
    """``agents/<id>/agent.json``."""

    version: int = 0
    agent_id: str | None = None
    agent_type: str | None = None
    current_session: str | None = None
    created_at: str | None = None
    last_active_at: str | None = None


class AgentHome:
    """The documents of one agent, and the way to its sessions."""

    def __init__(self, hf: Holdfast, agent_id: str, agent_type: str) -> None:
        self.hf = hf
        self.agent_id = agent_id
        self.agent_type = agent_type
        self._told = False

    @property
    def documents(self) -> Documents:
        """The agent's documents: memory, instructions, permissions, the current session."""
        return self.hf.store.documents(f"agents/{self.agent_id}")

    def current(self) -> str | None:
        """The agent's current session, if it still exists.

        Raises AgentTypeMismatch if the stored agent is of another type, TooNew if a newer version
        wrote the document. A damaged document is set aside, and the newest session is taken.
        """
        found = self._read()[0]
        session_id = found.current_session
        if session_id is None or not self.hf.exists(session_id):
            return None
        return session_id

    def point_to(self, session_id: str) -> None:
        """Make a session the agent's current one."""
        for _ in range(_TRIES_MAX):
            document, etag = self._read()
            if document.current_session == session_id and document.version == _VERSION:
                return
            now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
            document.version = _VERSION
            document.agent_id, document.agent_type = self.agent_id, self.agent_type
            document.current_session = session_id
            document.created_at = document.created_at or now
            document.last_active_at = now
            try:
                self.documents.put(_NAME, msgspec.json.encode(document), if_match=etag)
            except Conflict:
                continue
            return
        raise Conflict(f"{_NAME} kept changing while it was written")

    def open_session(self, session_id: str | None, **options: Any) -> Session:
        """Open a session of this agent, repaired if need be; a new one without an id.

        Raises AgentTypeMismatch if the session was made by an agent of another type.
        """
        repaired: list[str] = []

        def listen(id: str, what: Event | Notice) -> None:
            if isinstance(what, Notice) and what.kind == "repaired":
                repaired.append(id)

        stop = self.hf.subscribe(listen)
        try:
            session = self.hf.session(
                session_id,
                repair="auto",
                agent_id=self.agent_id,
                agent_type=self.agent_type,
                **options,
            )
        finally:
            stop()
        self._check_session(session)
        if repaired:
            text = (
                f"session {session.id} was damaged and has been repaired; everything whole is kept"
            )
            warnings.warn(text, RepairedWarning, stacklevel=4)
        return session

    def _check_session(self, session: Session) -> None:
        stored = session.live_state.agent_type
        if stored is not None and stored != self.agent_type:
            session.close(save=False)
            raise self._mismatch(stored, session.id)

    def _mismatch(self, stored: str, session_id: str | None) -> AgentTypeMismatch:
        return AgentTypeMismatch(
            f"what is stored for {self.agent_id} belongs to an agent of type {stored!r},"
            f" not {self.agent_type!r}",
            stored=stored,
            session_id=session_id,
        )

    def _read(self) -> tuple[_Document, str]:
        found = self.documents.get(_NAME)
        if found is None:
            return _Document(), MUST_NOT_EXIST
        try:
            document = msgspec.json.decode(found[0], type=_Document)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            return self._lost(found[0], error), found[1]
        if document.version > _VERSION:
            raise TooNew(
                f"{_NAME} of {self.agent_id} has version {document.version},"
                f" and this Holdfast knows {_VERSION}"
            )
        if document.agent_type is not None and document.agent_type != self.agent_type:
            raise self._mismatch(document.agent_type, document.current_session)
        return document, found[1]

    def _lost(self, data: bytes, error: Exception) -> _Document:
        """The pointer is damaged: keep its bytes, and take the agent's newest session."""
        try:
            self.documents.put(_SET_ASIDE, data)
        except HoldfastError:
            pass  # the warning below tells of the damage all the same
        newest = self.hf.list(limit=1, agent_id=self.agent_id)
        if not self._told:
            self._told = True
            text = f"{_NAME} of {self.agent_id} is damaged ({error}); its newest session is taken"
            warnings.warn(text, RepairedWarning, stacklevel=5)
        return _Document(current_session=newest[0].session_id if newest else None)
