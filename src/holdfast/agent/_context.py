"""What a tool may use while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from holdfast.library import Holdfast
    from holdfast.session import Session

WEEK_MS = 7 * 24 * 3600 * 1000
_WAYS = ("tool_result", "user_message")


class Suspend(Exception):
    """Raised by a tool to end the turn until someone answers.

    The run's result then has a token; ``Agent.resume(token, value)`` goes on, with the value as the
    result of this call (``resume_as="tool_result"``) or as the user's next message.
    """

    def __init__(
        self, reason: str, *, resume_as: str = "tool_result", expires_in_ms: int = WEEK_MS
    ) -> None:
        super().__init__(reason)
        if resume_as not in _WAYS:
            raise UsageError(f"resume_as {resume_as!r} is none of {', '.join(_WAYS)}")
        self.reason = reason
        self.resume_as = resume_as
        self.expires_in_ms = expires_in_ms


class ToolContext:
    """The session in which a tool was called, and what belongs to it.

    A tool gets it by annotating its first parameter with this class.
    """

    def __init__(
        self,
        session: Session,
        *,
        agent: str,
        call_id: str,
        hf: Holdfast | None = None,
        memory_on: bool = True,
        deps: Any = None,
    ) -> None:
        self.session = session
        self.agent = agent
        """The name of the agent that called."""
        self.call_id = call_id
        self.hf = hf
        """The library with the agent's other sessions; None in a run without a session."""
        self.deps = deps
        """What the agent was made with for its tools."""
        self._memory_on = memory_on

    @property
    def variables(self) -> MutableMapping[str, Any]:
        """The session's variables; every change is recorded at once."""
        return self.session.variables

    @property
    def memory(self) -> Any:
        """The session's memory. Raises UsageError if the agent has none."""
        if not self._memory_on:
            raise UsageError(
                "this agent has no memory", remedy="Make it with Features(memory=True)."
            )
        return self.session.memory

    @property
    def todos(self) -> Any:
        """The session's todo list."""
        return self.session.todos
