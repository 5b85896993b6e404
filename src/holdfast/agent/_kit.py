"""The parts of agents that need no session: a home, a model, habits. Loads no engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

import msgspec

from holdfast._config import Configuration
from holdfast.agent._engine import INSTALL, LateModel
from holdfast.errors import AgentTypeMismatch, Damaged, ModelFailed, UsageError
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


# The model of a conversation for which none is given, and the reason.

# A key in the environment, and the model that it selects.
_KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai:gpt-5"),
    ("GEMINI_API_KEY", "google:gemini-flash-latest"),
    ("GOOGLE_API_KEY", "google:gemini-flash-latest"),
)
_COMPATIBLE = "openai"
_OLLAMA = "ollama"
GUIDE = "guide"
_GUIDE_ANSWERS = "the guide answers; it is part of Holdfast and not a language model"
_FOR_A_MODEL = "To talk to a model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or use --model."
_WAIT_S = 10
_CHANGE = "change it with --model, HOLDFAST_MODEL or `model` in holdfast.toml"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers, and the reason; nothing is loaded before ``resolve``."""

    name: str
    """The value for ``--model``; empty if the server is asked for its model."""
    reason: str
    base_url: str | None = None
    api_key: str | None = None
    lacks: str = ""
    """A model that was found but lacks its library; the guide answers meanwhile."""

    @property
    def is_local(self) -> bool:
        """True for the embedded model."""
        return self.name.partition(":")[0] == "local"

    @property
    def is_guide(self) -> bool:
        """True for the guide, which is not a language model."""
        return self.name.partition(":")[0] == GUIDE

    @property
    def needs_engine(self) -> bool:
        """True if the model that was requested or found needs the extra ``agent``, which is missing."""
        return bool(self.lacks) or not (self.is_guide or _has_engine())

    def explain(self) -> str:
        """Return one line: which model answers, why, and how to change that."""
        if self.lacks:
            missing = f"the library that talks to it is not installed: {INSTALL}"
            return f"{self.lacks}, but {missing}. Until then {_GUIDE_ANSWERS}."
        if self.is_guide:
            return f"{_GUIDE_ANSWERS[0].upper()}{_GUIDE_ANSWERS[1:]} ({self.reason}). {_FOR_A_MODEL}"
        if self.is_local:
            return (
                f"Model: {self.name or 'local'}, embedded in this program ({self.reason}). It is"
                f" tiny: good for trying things out, not for relying on. {_FOR_A_MODEL}"
            )
        server = f" at {self.base_url}" if self.base_url else ""
        return f"Model: {self.name or 'the first'}{server} ({self.reason}; {_CHANGE})."

    def explain_briefly(self) -> str:
        """Return which model answers and why, short enough for a line of a terminal."""
        if self.lacks:
            return self.explain()
        if self.is_guide:
            return f"The guide answers; it is not a language model ({self.reason})"
        return f"Model: {self.name or 'the first'} ({self.reason})"

    def named(self) -> ModelChoice:
        """Return this choice with a name: a server that was given without one is asked for its models."""
        if self.name or self.base_url is None:
            return self
        name = f"{_COMPATIBLE}:{_first_model(self.base_url, self.api_key)}"
        return msgspec.structs.replace(self, name=name)

    def resolve(self) -> Any:
        """Return the model itself. Raises UsageError for an unknown one or a missing key."""
        if self.base_url is not None:
            # The names of Ollama's models contain a colon themselves.
            return _compatible(self.named().name.partition(":")[2], self.base_url, self.api_key)
        from holdfast.agent._engine import resolve_model

        return resolve_model(self.name)


def choose_model(
    given: str | None,
    settings: Configuration,
    environment: Mapping[str, str] | None = None,
    *,
    reason: str = "as requested",
) -> ModelChoice:
    """Return the model: as given, as configured, by a key in the environment, by a server here, else the guide.

    The servers get a fifth of a second to answer, unless the setting ``model_servers`` is false.
    """
    environment = os.environ if environment is None else environment
    if given:
        return _asked_for(given, reason, settings, environment)
    if configured := settings.get("model"):
        return _asked_for(configured, f"from {settings.origin('model')}", settings, environment)
    if base_url := settings.get("base_url"):
        return _at(base_url, "", f"base_url from {settings.origin('base_url')}", environment)
    asks = settings.get("model_servers", True)
    found = _from_environment(environment) or (_from_servers(environment) if asks else None)
    if found is None:
        servers = "no model server runs here" if asks else "model servers are not asked"
        return ModelChoice(name=GUIDE, reason=f"no API key is set and {servers}")
    if not _has_engine():
        return ModelChoice(name=GUIDE, reason=found.reason, lacks=found.reason)
    return found


def _has_engine() -> bool:
    return find_spec("pydantic_ai") is not None


def _from_servers(environment: Mapping[str, str]) -> ModelChoice | None:
    from holdfast.agent._model_servers import best_model, served_models

    best = best_model(served_models(environment))
    if best is None:
        return None
    prefix = _OLLAMA if best.server == "Ollama" else _COMPATIBLE
    # Without a key: it must not get those of providers.
    return ModelChoice(name=f"{prefix}:{best.name}", reason=f"{best.server} runs on this machine", base_url=best.url)


def _asked_for(name: str, reason: str, settings: Configuration, environment: Mapping[str, str]) -> ModelChoice:
    prefix, colon, rest = name.partition(":")
    base_url = settings.get("base_url") or environment.get("OPENAI_BASE_URL")
    if base_url and prefix not in ("local", GUIDE) and (not colon or prefix == _COMPATIBLE):
        return _at(base_url, f"{_COMPATIBLE}:{rest or prefix}", reason, environment)
    if prefix == _OLLAMA and rest:
        from holdfast.agent._model_servers import ollama_root

        return _at(f"{ollama_root(environment)}/v1", name, reason, environment)
    return ModelChoice(name=name, reason=reason)


def _from_environment(environment: Mapping[str, str]) -> ModelChoice | None:
    # The key of OpenAI may be meant for a compatible server: then its address decides.
    for variable, name in _KEYS:
        if not environment.get(variable):
            continue
        if variable == "OPENAI_API_KEY" and environment.get("OPENAI_BASE_URL"):
            break
        return ModelChoice(name=name, reason=f"{variable} is set")
    if environment.get("OPENAI_BASE_URL"):
        return _at(environment["OPENAI_BASE_URL"], "", "OPENAI_BASE_URL is set", environment)
    return None


def _at(base_url: str, name: str, reason: str, environment: Mapping[str, str]) -> ModelChoice:
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not the address of a server", remedy="Begin it with http:// or https://.")
    key = environment.get("OPENAI_API_KEY") or None
    return ModelChoice(name=name, reason=reason, base_url=base_url.rstrip("/"), api_key=key)


def _compatible(name: str, base_url: str, api_key: str | None) -> Any:
    """Return a model of a server with OpenAI's API. Raises UsageError if the engine is not installed."""
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise UsageError(
            f"the agent's engine is not installed ({error.name})", remedy=f"Install it with: {INSTALL}"
        ) from error
    # A server without keys accepts any; the client insists on one.
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=base_url, api_key=api_key or "-"))


def _first_model(base_url: str, api_key: str | None) -> str:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    request = Request(f"{base_url}/models")  # noqa: S310 - http or https, checked before
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urlopen(request, timeout=_WAIT_S) as answer:  # noqa: S310 - checked to be http or https
            listed: Any = msgspec.json.decode(answer.read(1 << 20))
        return str(listed["data"][0]["id"])
    except (URLError, OSError) as error:
        cause = getattr(error, "reason", error)
        raise ModelFailed(
            f"the server at {base_url} does not answer: {getattr(cause, 'strerror', None) or cause}",
            remedy="Check that it runs and that its address is right.",
            reason="connection",
        ) from error
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise UsageError(
            f"the server at {base_url} does not tell which models it has", remedy="Name one with --model."
        ) from error


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
        """Return the names of the offered tools that the agent has."""
        return frozenset(tool.name for tool in self.habits(tools, instructed=True)["tools"])


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
        permission: Callable[[PermissionRequest], Any] | None = None,
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
