"""Which agent talks on a session, and how it is made. Shared by the chat and the terminal app."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast._config import configuration
from holdfast.agent import Agent, PersistentSession, RepairedWarning
from holdfast.agent._builtin import builtin_tools
from holdfast.agent._home import AgentHome
from holdfast.agent._local import CONTEXT_TOKENS
from holdfast.agent._models import ModelChoice, choose_model
from holdfast.model import fit_id

if TYPE_CHECKING:
    from holdfast.agent import PermissionRequest
    from holdfast.library import Holdfast

__all__ = ["AgentMaker"]

DEFAULT_AGENT = "assistant"
_TYPE = "agent"
_INSTRUCTIONS = "You are a helpful assistant. Answer briefly and plainly."
_REPLY_TOKENS = 600  # what is kept free of a small context for the answer


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
        self._asked_agent = agent
        self._permission = permission
        self._warn = warn

    @cached_property
    def model(self) -> Any:
        """The model itself. Raises UsageError for an unknown one or a missing key."""
        return self.choice.resolve()

    def agent_for(self, session_id: str | None) -> str:
        """The agent that was asked for, else the session's; any name becomes an id that fits."""
        return fit_id(self._asked_agent or self._agent_of(session_id))

    def make(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        """An agent on that session; without one on its current session, or on a new one."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RepairedWarning)
            if session_id is None and load:
                session_id = AgentHome(self._library, agent_id, _TYPE).current()
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
        name: str = self.settings.get("agent", DEFAULT_AGENT)
        return name

    def _agent_on(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        local = self.choice.is_local
        context = self.settings.get("local.context_tokens", CONTEXT_TOKENS)
        return Agent(
            self.model,
            agent_id=agent_id,
            agent_type=_TYPE,
            session_id=session_id,
            persistent_session=PersistentSession(storage=self._library, load_on_create=load),
            instructions=self._instructions(session_id),
            # The embedded model cannot call tools, and their description would fill its context.
            tools=[] if local else builtin_tools(os.getcwd()),
            max_context_tokens=context - _REPLY_TOKENS if local else None,
            strategy="window" if local else "none",
            permission=self._permission,
        )

    def _instructions(self, session_id: str | None) -> str | None:
        """What is configured; a session that has instructions of its own keeps them."""
        configured: str | None = self.settings.get("instructions")
        if configured is None and session_id is not None and self._library.exists(session_id):
            return None if self._library.state(session_id).instructions else _INSTRUCTIONS
        return configured or _INSTRUCTIONS
