"""Where an agent lives between its sessions: which one is current, and its own documents."""

from __future__ import annotations

import warnings
from typing import Any

from holdfast.errors import AgentTypeMismatch, Damaged
from holdfast.library import Holdfast
from holdfast.session import (
    AGENT,
    AgentDocument,
    Session,
    point_agent,
    read_agent,
    read_or_begin,
)
from holdfast.storage import Documents


class RepairedWarning(UserWarning):
    """Something stored was damaged; what is whole was kept, and the agent goes on."""


class AgentHome:
    """The documents of one agent, and the way to its sessions."""

    def __init__(self, hf: Holdfast, agent_id: str, agent_type: str) -> None:
        self.hf = hf
        self.agent_id = agent_id
        self.agent_type = agent_type
        self._told: list[str] = []

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
        point_agent(
            self.documents,
            self.agent_id,
            session_id,
            agent_type=self.agent_type,
            read=self._read,
        )

    def open_session(self, session_id: str | None, **options: Any) -> Session:
        """Open a session of this agent, repaired if need be; a new one without an id.

        Raises AgentTypeMismatch if the session was made by an agent of another type.
        """
        session = self.hf.session(
            session_id,
            repair="auto",
            agent_id=self.agent_id,
            agent_type=self.agent_type,
            **options,
        )
        self._check_session(session)
        for notice in session.repairs:
            text = f"session {session.id}: {notice.detail['what']}"
            warnings.warn(text, RepairedWarning, stacklevel=4)
        for what in self._told:
            session.tell_repaired(what)
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

    def _read(self) -> tuple[AgentDocument, str]:
        try:
            document, etag = read_agent(self.documents, self.agent_id)
        except Damaged:
            document, etag = read_or_begin(
                self.documents, AGENT, AgentDocument, self._tell, fresh=self._newest
            )
        if document.agent_type is not None and document.agent_type != self.agent_type:
            raise self._mismatch(document.agent_type, document.current_session)
        return document, etag

    def _newest(self) -> AgentDocument:
        """What takes the place of a damaged pointer: the agent's newest session."""
        newest = self.hf.list(limit=1, agent_id=self.agent_id)
        return AgentDocument(
            version=1,
            agent_id=self.agent_id,
            agent_type=self.agent_type,
            current_session=newest[0].session_id if newest else None,
        )

    def _tell(self, what: str) -> None:
        text = f"agent {self.agent_id}: {what}, with its newest session"
        if text not in self._told:
            self._told.append(text)
            warnings.warn(text, RepairedWarning, stacklevel=7)
