"""Which agent talks on a session, and how it is made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast._config import configuration
from holdfast.agent import (
    AGENT_TYPE,
    Agent,
    AgentHome,
    Kit,
    ModelChoice,
    PersistentSession,
    RepairedWarning,
    builtin_tools,
    choose_model,
)
from holdfast.model import fit_id

if TYPE_CHECKING:
    from holdfast.agent import PermissionRequest
    from holdfast.library import Holdfast

__all__ = ["AgentMaker"]


class AgentMaker:
    """The model that was asked for, and agents on it. Raises UsageError as ``choose_model`` does.

    ``warn`` is told of what was repaired.
    """

    def __init__(
        self,
        library: Holdfast,
        place: str | None,
        *,
        model: str | None = None,
        agent: str | None = None,
        permission: Callable[[PermissionRequest], Any] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._library = library
        self.settings = configuration({} if place is None else {"store": place})
        self.choice: ModelChoice = choose_model(model, self.settings).named()
        self._kit = Kit.of(self.choice, self.settings)
        self._asked_agent = agent
        self._permission = permission
        self._warn = warn

    @property
    def model(self) -> Any:
        """The model itself. Raises UsageError for an unknown one or a missing key."""
        return self._kit.model()

    def agent_for(self, session_id: str | None) -> str:
        """The agent that was asked for, else the session's; any name becomes an id that fits."""
        return fit_id(self._asked_agent or self._agent_of(session_id))

    def make(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        """An agent on that session; without one on its current session, or on a new one."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RepairedWarning)
            if session_id is None and load:
                session_id = AgentHome(self._library, agent_id, AGENT_TYPE).current()
            agent = self._agent_on(agent_id, session_id, load=load)
        for warning in told:
            if issubclass(warning.category, RepairedWarning):
                self._warn(str(warning.message))
        return agent

    def _agent_of(self, session_id: str | None) -> str:
        """The agent that a session belongs to, else the configured one."""
        if session_id is not None and self._library.exists(session_id):
            owner = self._library.state(session_id).agent_id
            if owner:
                return owner
        return self._kit.agent_id

    def _agent_on(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        return Agent(
            self.model,
            agent_id=agent_id,
            session_id=session_id,
            persistent_session=PersistentSession(storage=self._library, load_on_create=load),
            permission=self._permission,
            **self._kit.habits(
                lambda: builtin_tools(os.getcwd()), instructed=self._has_instructions(session_id)
            ),
        )

    def _has_instructions(self, session_id: str | None) -> bool:
        if self._kit.instructions is not None or session_id is None:
            return False  # then it does not matter
        if not self._library.exists(session_id):
            return False
        return bool(self._library.state(session_id).instructions)
