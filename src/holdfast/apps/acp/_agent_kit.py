"""What our agent is made of, before it has a session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.apps.acp._agent_modes import ASK
from holdfast.library import Holdfast
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.agent import Agent, Tool

__all__ = ["AGENT_TYPE", "Kit", "window_of"]

AGENT_TYPE = "agent"
INSTRUCTIONS = (
    "You are a helpful assistant in a code editor. The user sees your answers, what your tools do,"
    " and the files as you change them. Use your tools to look before you answer, change only what"
    " was asked for, and answer briefly and plainly."
)
_REPLY_TOKENS = 600  # what is kept free of a small context for the answer
_WINDOWS = (
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gemini", 1_048_576),
)


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The model and how the agents on it work; ``make_model`` is called once, when it is needed."""

    make_model: Callable[[], Any]
    agent_id: str = "assistant"
    instructions: str | None = None
    """None for our own words; a session that has instructions then keeps them."""
    mode: str = ASK
    about: str = ""
    """Which model it is, in a sentence."""
    small_window: int | None = None
    """The context of the embedded model: it calls no tools, sees no images, and forgets soon."""
    _made: list[Any] = field(default_factory=list)
    _making: threading.Lock = field(default_factory=threading.Lock)

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

    def agent(
        self,
        hf: Holdfast,
        session: Session,
        tools: Callable[[], Iterable[Tool]],
        permission: Callable[[Any], Any],
    ) -> Agent:
        """An agent for one session."""
        from holdfast.agent import Agent

        instructions = self.instructions
        if instructions is None and not session.live_state.instructions:
            instructions = INSTRUCTIONS
        small = self.small_window
        return Agent(
            self.model(),
            agent_id=session.agent_id or self.agent_id,
            agent_type=AGENT_TYPE,
            hf=hf,
            instructions=instructions,
            # The embedded model cannot call tools, and their description would fill its context.
            tools=[] if self.is_small else tools(),
            max_context_tokens=None if small is None else max(small - _REPLY_TOKENS, 1),
            strategy="none" if small is None else "window",
            permission=permission,
        )


def window_of(kit: Kit, model: str | None) -> int | None:
    """How many tokens a model takes at once; None if that is not known."""
    if kit.small_window is not None or not model:
        return kit.small_window
    return next((size for name, size in _WINDOWS if name in model), None)
