"""The parts of agents that need no session: a home, a model, habits. Loads no engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

from holdfast._config import Configuration
from holdfast.agent._engine import LateModel
from holdfast.agent._model_choice import INSTALL, ModelChoice, choose_model
from holdfast.errors import AgentTypeMismatch, Damaged, UsageError
from holdfast.library import Holdfast
from holdfast.model import check_id, fit_id
from holdfast.session import AGENT, AgentDocument, Session, point_agent, read_agent, read_or_begin
from holdfast.storage import Documents

if TYPE_CHECKING:
    from holdfast.agent import Agent, AgentFile, McpServers, PermissionRequest, Tool


class RepairedWarning(UserWarning):
    """Stored data was damaged; what is intact was kept, and the agent goes on."""


class AgentHome:
    """The documents of one agent, and access to its sessions."""

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
        """Return the agent's current session, if it still exists.

        Raises AgentTypeMismatch if the stored agent is of another type, TooNew if a newer version
        wrote the document. A damaged document is set aside, and the newest session is taken.
        """
        session_id = self._read()[0].current_session
        return session_id if session_id is not None and self.hf.exists(session_id) else None

    def point_to(self, session_id: str) -> None:
        """Make a session the agent's current one."""
        point_agent(self.documents, self.agent_id, session_id, agent_type=self.agent_type, read=self._read)

    def open_session(self, session_id: str | None, **options: Any) -> Session:
        """Open a session of this agent, repaired if need be; a new one without an id. Raises AgentTypeMismatch."""
        session = self.hf.session(
            session_id, repair="auto", agent_id=self.agent_id, agent_type=self.agent_type, **options
        )
        stored = session.live_state.agent_type
        if stored is not None and stored != self.agent_type:
            session.close(save=False)
            raise self._mismatch(stored, session.id)
        for notice in session.repairs:
            warnings.warn(f"session {session.id}: {notice.detail['what']}", RepairedWarning, stacklevel=4)
        for what in self._told:
            session.tell_repaired(what)
        return session

    def _mismatch(self, stored: str, session_id: str | None) -> AgentTypeMismatch:
        return AgentTypeMismatch(
            f"what is stored for {self.agent_id} belongs to an agent of type {stored!r}, not {self.agent_type!r}",
            stored=stored,
            session_id=session_id,
        )

    def _read(self) -> tuple[AgentDocument, str]:
        try:
            document, etag = read_agent(self.documents, self.agent_id)
        except Damaged:
            document, etag = read_or_begin(self.documents, AGENT, AgentDocument, self._tell, fresh=self._newest)
        if document.agent_type is not None and document.agent_type != self.agent_type:
            raise self._mismatch(document.agent_type, document.current_session)
        return document, etag

    def _newest(self) -> AgentDocument:
        """Return the replacement for a damaged pointer: the agent's newest session."""
        newest = self.hf.list(limit=1, agent_id=self.agent_id)
        session_id = newest[0].session_id if newest else None
        return AgentDocument(1, self.agent_id, self.agent_type, session_id)

    def _tell(self, what: str) -> None:
        text = f"agent {self.agent_id}: {what}, with its newest session"
        if text not in self._told:
            self._told.append(text)
            warnings.warn(text, RepairedWarning, stacklevel=7)


AGENT_TYPE = "agent"
_AGENT = "assistant"
_REPLY_TOKENS = 600  # the part of a small context that is reserved for the answer


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The model and the settings of the agents on it; ``make_model`` is called once, when it is needed."""

    WORDS: ClassVar[str] = "You are a helpful assistant. Answer briefly and plainly."
    """The instructions of a session that has none, unless others are configured."""

    make_model: Callable[[], Any]
    model_name: str = ""
    agent_id: str = _AGENT
    instructions: str | None = None
    """None for the default instructions; a session that has instructions then keeps them."""
    about: str = ""
    """The model that answers, in a sentence."""
    small_window: int | None = None
    """The context of the embedded model: it calls no tools, sees no images, and soon forgets."""
    is_guide: bool = False
    """True if the guide answers. It has its own tools and needs no instructions."""
    agents: Mapping[str, AgentFile] = field(default_factory=dict, repr=False, compare=False)
    """The agents that have files, by their ids."""
    late_model: LateModel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "late_model", LateModel(self.model_name, self.make_model))

    @classmethod
    def configured(cls, place: str | None, *, model: str | None, agent: str | None, **more: Any) -> Self:
        """Return the kit for options, environment and settings (those of the store ``place``). Raises UsageError."""
        from holdfast._config import configuration

        settings = configuration({} if place is None else {"store": place})
        agents = _agent_files()
        choice = _choice_for(agents, model, agent, settings)
        if choice.needs_engine and not choice.is_guide:  # now, and not at the first prompt
            raise UsageError(
                f"{choice.name or 'a model'} needs what is not installed", remedy=f"Install it with: {INSTALL}"
            )
        return cls.of(choice, settings, agent=agent, agents=agents, **more)

    @classmethod
    def of(cls, choice: ModelChoice, settings: Configuration, *, agent: str | None = None, **more: Any) -> Self:
        """Return the kit for a chosen model."""
        from holdfast.agent._embedded_model import CONTEXT_TOKENS

        window = settings.get("local.context_tokens", CONTEXT_TOKENS)
        return cls(
            make_model=choice.resolve,
            model_name=choice.name,
            agent_id=fit_id(agent or settings.get("agent", _AGENT)),
            instructions=settings.get("instructions"),
            about=choice.explain(),
            small_window=window if choice.is_local else None,
            is_guide=choice.is_guide,
            **more,
        )

    @property
    def is_plain(self) -> bool:
        """True if the model accepts neither images nor further tools, as the embedded model and the guide."""
        return self.small_window is not None or self.is_guide

    def model(self) -> Any:
        """Return the model; made at the first call, which may take a while and raise UsageError."""
        return self.late_model.get()

    def open_session(self, hf: Holdfast, session_id: str | None, **options: Any) -> Session:
        """Open a session for writing, or create one. Raises NotFound, Locked, AgentTypeMismatch."""
        owner = self.agent_id
        if session_id is not None:
            check_id(session_id)
            owner = hf.info(session_id).agent_id or owner
        resume = "auto" if session_id is None else "always"
        return AgentHome(hf, owner, AGENT_TYPE).open_session(session_id, resume=resume, **options)

    def agent(
        self,
        hf: Holdfast,
        session: Session,
        tools: Callable[[], Iterable[Tool]],
        permission: Callable[[Any], Any] | str,
        servers: McpServers | None = None,
    ) -> Agent:
        """Return an agent for one session. Raises UsageError if there is no such model."""
        from holdfast.agent import Agent

        return Agent(
            self.model(),
            agent_id=session.agent_id or self.agent_id,
            hf=hf,
            **{
                **self.habits(tools, instructed=bool(session.live_state.instructions), agent_id=session.agent_id),
                # An app that serves many users starts only its own.
                "mcp_servers": servers or (),
                "permission": permission,
            },
        )

    def habits(
        self,
        tools: Callable[[], Iterable[Tool]],
        *,
        instructed: bool,
        agent_id: str | None = None,
        configured: Mapping[str, Any] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Return an agent's settings on this model and by its file, as ``Agent`` takes them.

        ``instructed`` says that the session has instructions; ``configured`` are the MCP servers of the settings.
        """
        from holdfast.agent._agent_files import Crew
        from holdfast.agent._mcp_servers import servers_of, warn_of_server

        small = self.small_window
        if self.is_guide:
            return {"agent_type": AGENT_TYPE, "tools": tools()}
        file, configured = self.agents.get(agent_id or self.agent_id), configured or {}
        if file is not None and small is None:
            crew = Crew({each.name: each for each in self.agents.values()}, self.late_model, configured, tell)
            parts = crew.parts(file, tools())
            return {"agent_type": AGENT_TYPE, "description": file.description, **parts}
        servers = servers_of(configured, tell or warn_of_server) if small is None else None
        words = self.instructions or (None if instructed else self.WORDS)
        return {
            "mcp_servers": servers or (),
            "agent_type": AGENT_TYPE,
            "instructions": words if file is None else file.instructions or words,
            "limits": None if file is None else file.limits,
            # The embedded model cannot call tools, and their descriptions would fill its context.
            "tools": tools() if small is None else [],
            "max_context_tokens": None if small is None else max(small - _REPLY_TOKENS, 1),
            "strategy": "none" if small is None else "window",
        }

    def tool_names(self, tools: Callable[[], Iterable[Tool]]) -> frozenset[str]:
        """Return the names of the offered tools that the agent has, and of those that the guide brings."""
        own = self.model().tools if self.is_guide else ()
        return frozenset(tool.name for tool in (*self.habits(tools, instructed=True)["tools"], *own))


def _agent_files(tell: Callable[[str], None] | None = None) -> dict[str, AgentFile]:
    """Return the agents that have files, by their ids."""
    from holdfast.agent._agent_files import load_agents, warn_of_file

    return {fit_id(name): agent for name, agent in load_agents(tell=tell or warn_of_file).items()}


def _choice_for(
    agents: Mapping[str, AgentFile], model: str | None, agent: str | None, settings: Configuration
) -> ModelChoice:
    """Return the model for an agent: as asked for, as its file says, else the default.

    Raises UsageError if the agent was named, here or in the settings, and its file cannot be used: without the file's
    instructions, tools and limits it would be another agent.
    """
    from holdfast.agent._agent_files import check_read

    named = agent or settings.get("agent")
    file = agents.get(fit_id(named or _AGENT))
    if file is None and named:
        check_read(named, agents.values())
    if model is None and file is not None and file.model is not None:
        return choose_model(file.model, settings, reason=f"from {file.path}")
    return choose_model(model, settings)


class AgentMaker:
    """The chosen model, and agents on it; ``warn`` is called for repairs. Raises as ``choose_model`` does."""

    def __init__(
        self,
        library: Holdfast,
        place: str | None,
        *,
        model: str | None = None,
        agent: str | None = None,
        permission: Callable[[PermissionRequest], Any] | str | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        from holdfast._config import configuration

        self._library = library
        self.settings = configuration({} if place is None else {"store": place})
        agents = _agent_files(warn)
        self.choice: ModelChoice = _choice_for(agents, model, agent, self.settings).named()
        self._kit = Kit.of(self.choice, self.settings, agents=agents)
        self._asked_agent = agent
        self._permission = permission
        self._warn = warn

    @property
    def model(self) -> Any:
        """Return the model itself, made now if need be. Raises UsageError for an unknown one or a missing key."""
        return self._kit.model()

    def goes_on(self, session_id: str) -> bool:
        """Return whether a session was answered, is open nowhere, and its calls are of tools that agents have here."""
        from holdfast.agent import builtin_tools

        tools = self._kit.tool_names(lambda: builtin_tools(os.getcwd()))
        return bool(self._library.inbox.due(None, tools, session_id))

    def agent_for(self, session_id: str | None) -> str:
        """Return the requested agent, else the session's; any name becomes a valid id."""
        owner = self._asked_agent
        if not owner and self._is_there(session_id):
            owner = self._library.state(session_id).agent_id
        return fit_id(owner or self._kit.agent_id)

    def make(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        """Return an agent on that session; without one on its current session, or on a new one."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", RepairedWarning)
            if session_id is None and load:
                session_id = AgentHome(self._library, agent_id, AGENT_TYPE).current()
            agent = self._agent_on(agent_id, session_id, load=load)
        for warning in told:
            if issubclass(warning.category, RepairedWarning):
                self._warn(str(warning.message))
        return agent

    def _is_there(self, session_id: str | None) -> TypeGuard[str]:
        return session_id is not None and self._library.exists(session_id)

    def _agent_on(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        from holdfast.agent import Agent, PersistentSession, builtin_tools

        # With instructions of its own the session's do not matter.
        asks = self._kit.instructions is None and self._is_there(session_id)
        instructed = asks and bool(self._library.state(session_id or "").instructions)
        return Agent(
            self._kit.late_model,
            agent_id=agent_id,
            session_id=session_id,
            persistent_session=PersistentSession(storage=self._library, load_on_create=load),
            **{
                "permission": self._permission,
                **self._kit.habits(
                    lambda: builtin_tools(os.getcwd()),
                    instructed=instructed,
                    agent_id=agent_id,
                    configured=self.settings.get("mcp_servers", {}),
                    tell=self._warn,
                ),
            },
        )
