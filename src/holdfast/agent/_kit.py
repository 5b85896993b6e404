"""What agents are made of, before there is a session. Light: loads no engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from holdfast.agent._home import AgentHome, RepairedWarning
from holdfast.errors import UsageError
from holdfast.library import Holdfast
from holdfast.model import check_id, fit_id
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast._config import Configuration
    from holdfast.agent import Agent, PermissionRequest, Tool
    from holdfast.agent._models import ModelChoice

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
    def configured(
        cls, place: str | None, *, model: str | None, agent: str | None, **more: Any
    ) -> Self:
        """The kit that the options, the environment and the settings ask for. Raises UsageError.

        ``place`` is the store that was asked for, since a project's settings may name others.
        """
        from holdfast._config import configuration
        from holdfast.agent._models import choose_model

        settings = configuration({} if place is None else {"store": place})
        return cls.of(choose_model(model, settings), settings, agent=agent, **more)

    @classmethod
    def of(
        cls, choice: ModelChoice, settings: Configuration, *, agent: str | None = None, **more: Any
    ) -> Self:
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
        self,
        hf: Holdfast,
        session: Session,
        tools: Callable[[], Iterable[Tool]],
        permission: Callable[[Any], Any],
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
        """How an agent on this model works, as ``Agent`` takes it.

        ``instructed``: the session has instructions, and keeps them unless others are configured.
        """
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
        from holdfast._config import configuration
        from holdfast.agent._models import choose_model

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
        return fit_id(self._asked_agent or self._agent_of(session_id))

    def make(self, agent_id: str, session_id: str | None, *, load: bool) -> Agent:
        """An agent on that session; without one on its current session, or on a new one."""
        import warnings

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
        from holdfast.agent import Agent, PersistentSession, builtin_tools

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


# Before something is said: what has to be installed.


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
