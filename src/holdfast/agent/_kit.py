"""What the agents of a server are made of, before there is a session. Light: loads no engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from holdfast.agent._home import AgentHome
from holdfast.library import Holdfast
from holdfast.model import check_id, fit_id
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast._config import Configuration
    from holdfast.agent import Agent, Tool
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
        """As the options, the environment and the settings say. Raises UsageError.

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
        """The same for a model that was chosen."""
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
