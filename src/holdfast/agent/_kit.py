"""What agents are made of before there is a session: a home, a model, habits. Loads no engine."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

import msgspec

from holdfast._config import Configuration
from holdfast.errors import AgentTypeMismatch, Damaged, ModelFailed, UsageError
from holdfast.library import Holdfast
from holdfast.model import check_id, fit_id
from holdfast.session import AGENT, AgentDocument, Session, point_agent, read_agent, read_or_begin
from holdfast.storage import Documents

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from holdfast.agent import Agent, PermissionRequest, Tool


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
        session_id = self._read()[0].current_session
        return session_id if session_id is not None and self.hf.exists(session_id) else None

    def point_to(self, session_id: str) -> None:
        """Make a session the agent's current one."""
        point_agent(self.documents, self.agent_id, session_id, agent_type=self.agent_type, read=self._read)

    def open_session(self, session_id: str | None, **options: Any) -> Session:
        """Open a session of this agent, repaired if need be; new without an id. Raises AgentTypeMismatch."""
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
        """What takes the place of a damaged pointer: the agent's newest session."""
        newest = self.hf.list(limit=1, agent_id=self.agent_id)
        session_id = newest[0].session_id if newest else None
        return AgentDocument(1, self.agent_id, self.agent_type, session_id)

    def _tell(self, what: str) -> None:
        text = f"agent {self.agent_id}: {what}, with its newest session"
        if text not in self._told:
            self._told.append(text)
            warnings.warn(text, RepairedWarning, stacklevel=7)


# Which model a conversation gets when nobody hands one over, and why.

# A key in the environment, and the model that it opens.
_KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai:gpt-5"),
    ("GEMINI_API_KEY", "google:gemini-flash-latest"),
    ("GOOGLE_API_KEY", "google:gemini-flash-latest"),
)
_COMPATIBLE = "openai"
_OLLAMA_PORT = 11434
_WAIT_S = 10
_CHANGE = "change it with --model, HOLDFAST_MODEL or `model` in holdfast.toml"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was chosen and the reason; nothing is loaded before ``resolve``."""

    name: str
    """As ``--model`` would take it; empty if the server is to be asked for its model."""
    reason: str
    base_url: str | None = None
    api_key: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is the embedded model."""
        return self.name.partition(":")[0] == "local"

    def explain(self) -> str:
        """One honest line: which model it is, why, and how to change that."""
        if self.is_local:
            return (
                f"Model: {self.name or 'local'}, embedded in this program ({self.reason}). It is"
                " tiny: good to try things out, not to rely on. For a better one set"
                " ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model."
            )
        server = f" at {self.base_url}" if self.base_url else ""
        return f"Model: {self.name or 'the first'}{server} ({self.reason}; {_CHANGE})."

    def named(self) -> ModelChoice:
        """This choice with a name: a server that was given without one is asked what it has."""
        if self.name or self.base_url is None:
            return self
        name = f"{_COMPATIBLE}:{_first_model(self.base_url, self.api_key)}"
        return msgspec.structs.replace(self, name=name)

    def resolve(self) -> Model:
        """The model itself. Raises UsageError for an unknown one or a missing key."""
        if self.base_url is not None:
            return _compatible(self.named().name.rpartition(":")[2], self.base_url, self.api_key)
        from holdfast.agent._engine import resolve_model

        return resolve_model(self.name)


def choose_model(
    given: str | None, settings: Configuration, environment: Mapping[str, str] | None = None
) -> ModelChoice:
    """What was given, else the configuration, else a key in the environment, else the local one."""
    environment = os.environ if environment is None else environment
    if given:
        return _asked_for(given, "as asked for", settings, environment)
    if configured := settings.get("model"):
        return _asked_for(configured, f"from {settings.origin('model')}", settings, environment)
    if base_url := settings.get("base_url"):
        return _at(base_url, "", f"base_url from {settings.origin('base_url')}", environment)
    return _from_environment(environment) or ModelChoice(name="local:smollm2", reason="no API key is set")


def _asked_for(name: str, reason: str, settings: Configuration, environment: Mapping[str, str]) -> ModelChoice:
    prefix, colon, rest = name.partition(":")
    base_url = settings.get("base_url") or environment.get("OPENAI_BASE_URL")
    if base_url and prefix != "local" and (not colon or prefix == _COMPATIBLE):
        return _at(base_url, f"{_COMPATIBLE}:{rest or prefix}", reason, environment)
    if prefix == "ollama" and rest:
        return _at(_ollama_url(environment), f"ollama:{rest}", reason, environment)
    return ModelChoice(name=name, reason=reason)


def _from_environment(environment: Mapping[str, str]) -> ModelChoice | None:
    # The key of OpenAI may be meant for a server of another make: then its address decides.
    for variable, name in _KEYS:
        if not environment.get(variable):
            continue
        if variable == "OPENAI_API_KEY" and environment.get("OPENAI_BASE_URL"):
            break
        return ModelChoice(name=name, reason=f"{variable} is set")
    if environment.get("OPENAI_BASE_URL"):
        return _at(environment["OPENAI_BASE_URL"], "", "OPENAI_BASE_URL is set", environment)
    for variable in ("OLLAMA_BASE_URL", "OLLAMA_HOST"):
        if environment.get(variable):
            return _at(_ollama_url(environment), "", f"{variable} is set", environment)
    return None


def _at(base_url: str, name: str, reason: str, environment: Mapping[str, str]) -> ModelChoice:
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not the address of a server", remedy="Begin it with http:// or https://.")
    key = environment.get("OPENAI_API_KEY") or None
    return ModelChoice(name=name, reason=reason, base_url=base_url.rstrip("/"), api_key=key)


def _ollama_url(environment: Mapping[str, str]) -> str:
    given = environment.get("OLLAMA_BASE_URL") or environment.get("OLLAMA_HOST") or "127.0.0.1"
    if "://" not in given:
        host, _, port = given.partition(":")
        host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - where to knock, not to listen
        given = f"http://{host}:{port or _OLLAMA_PORT}"
    given = given.rstrip("/")
    return given if given.endswith("/v1") else f"{given}/v1"


def _compatible(name: str, base_url: str, api_key: str | None) -> Model:
    """A model of a server that speaks as OpenAI's does. Raises UsageError if the engine is not installed."""
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise UsageError(
            f"the agent's engine is not installed ({error.name})",
            remedy="Install it with: pip install 'holdfast[agent]'",
        ) from error
    # A server without keys takes any; the client insists on one.
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
        raise ModelFailed(
            f"the server at {base_url} does not answer: {error}",
            remedy="Check that it runs and that its address is right.",
            reason="connection",
        ) from error
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise UsageError(
            f"the server at {base_url} does not tell which models it has", remedy="Name one with --model."
        ) from error


AGENT_TYPE = "agent"
_AGENT = "assistant"
_REPLY_TOKENS = 600  # what is kept free of a small context for the answer


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The model and how the agents on it work; ``make_model`` is called once, when it is needed."""

    WORDS: ClassVar[str] = "You are a helpful assistant. Answer briefly and plainly."
    """The instructions of a session that has none, unless others are configured."""

    make_model: Callable[[], Any]
    agent_id: str = _AGENT
    instructions: str | None = None
    """None for our own words; a session that has instructions then keeps them."""
    about: str = ""
    """Which model it is, in a sentence."""
    small_window: int | None = None
    """The context of the embedded model: it calls no tools, sees no images, and forgets soon."""
    _made: list[Any] = field(default_factory=list)
    _making: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def configured(cls, place: str | None, *, model: str | None, agent: str | None, **more: Any) -> Self:
        """The kit that options, environment and settings (those of the store ``place``) ask for. Raises UsageError."""
        from holdfast._config import configuration

        settings = configuration({} if place is None else {"store": place})
        return cls.of(choose_model(model, settings), settings, agent=agent, **more)

    @classmethod
    def of(cls, choice: ModelChoice, settings: Configuration, *, agent: str | None = None, **more: Any) -> Self:
        """The kit for a model that was chosen."""
        from holdfast.agent._embedded_model import CONTEXT_TOKENS

        window = settings.get("local.context_tokens", CONTEXT_TOKENS)
        return cls(
            make_model=choice.resolve,
            agent_id=fit_id(agent or settings.get("agent", _AGENT)),
            instructions=settings.get("instructions"),
            about=choice.explain(),
            small_window=window if choice.is_local else None,
            **more,
        )

    @property
    def is_small(self) -> bool:
        """Whether the model is the embedded one."""
        return self.small_window is not None

    def model(self) -> Any:
        """The model; made at the first call, which may take a while and raise UsageError."""
        # Sessions begin in threads: the embedded model must not be loaded twice.
        with self._making:
            if not self._made:
                self._made.append(self.make_model())
            return self._made[0]

    def open_session(self, hf: Holdfast, session_id: str | None, **options: Any) -> Session:
        """Open a session to write, or make one. Raises NotFound, Locked, AgentTypeMismatch."""
        owner = self.agent_id
        if session_id is not None:
            check_id(session_id)
            owner = hf.info(session_id).agent_id or owner
        resume = "auto" if session_id is None else "always"
        return AgentHome(hf, owner, AGENT_TYPE).open_session(session_id, resume=resume, **options)

    def agent(
        self, hf: Holdfast, session: Session, tools: Callable[[], Iterable[Tool]], permission: Callable[[Any], Any]
    ) -> Agent:
        """An agent for one session. Raises UsageError if there is no such model."""
        from holdfast.agent import Agent

        return Agent(
            self.model(),
            agent_id=session.agent_id or self.agent_id,
            hf=hf,
            permission=permission,
            **self.habits(tools, instructed=bool(session.live_state.instructions)),
        )

    def habits(self, tools: Callable[[], Iterable[Tool]], *, instructed: bool) -> dict[str, Any]:
        """An agent's habits on this model, as ``Agent`` takes them; ``instructed`` if the session has instructions."""
        small = self.small_window
        return {
            "agent_type": AGENT_TYPE,
            "instructions": self.instructions or (None if instructed else self.WORDS),
            # The embedded model cannot call tools, and their description would fill its context.
            "tools": tools() if small is None else [],
            "max_context_tokens": None if small is None else max(small - _REPLY_TOKENS, 1),
            "strategy": "none" if small is None else "window",
        }


class AgentMaker:
    """The model that was asked for, and agents on it; ``warn`` hears of repairs. Raises as ``choose_model`` does."""

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

        with needs_agent():
            import_module("holdfast.agent._agent")  # now, and not with the first message

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
        owner = self._asked_agent
        if not owner and self._is_there(session_id):
            owner = self._library.state(session_id).agent_id
        return fit_id(owner or self._kit.agent_id)

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

    def _is_there(self, session_id: str | None) -> TypeGuard[str]:
        return session_id is not None and self._library.exists(session_id)

    def _agent_on(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        from holdfast.agent import Agent, PersistentSession, builtin_tools

        # With instructions of its own it does not matter what the session has.
        asks = self._kit.instructions is None and self._is_there(session_id)
        instructed = asks and bool(self._library.state(session_id or "").instructions)
        return Agent(
            self.model,
            agent_id=agent_id,
            session_id=session_id,
            persistent_session=PersistentSession(storage=self._library, load_on_create=load),
            permission=self._permission,
            **self._kit.habits(lambda: builtin_tools(os.getcwd()), instructed=instructed),
        )


@contextmanager
def needs_agent() -> Iterator[None]:
    """Around the import of what talks: a part that is not installed is told with its command."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent,local]'",
        ) from error
