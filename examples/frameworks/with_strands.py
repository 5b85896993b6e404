"""Strands Agents with a session that stays: run it twice, the second run knows the first.

The model is scripted, so that this needs no key; with a real one, leave `model=` out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager

from holdfast.integrations.strands import HoldfastSessionRepository


class Scripted(Model):
    """Says how many messages it was given."""

    def update_config(self, **_: Any) -> None:
        """Nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Nothing is set."""
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        """Not needed here."""
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """One answer."""
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": f"I was given {len(messages)} messages."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def main() -> None:
    """One turn of a conversation."""
    manager = RepositorySessionManager("trip-planner", HoldfastSessionRepository())
    agent = Agent(model=Scripted(), session_manager=manager, callback_handler=None)
    print(str(agent("Plan a trip")).strip())


if __name__ == "__main__":
    main()
