"""What an agent says of a session before it has told how that is called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator

from holdfast.apps.wire.frames import Frame

__all__ = ["Early"]

_FRAMES_MAX = 1_000


class Early:
    """Frames about ids that nobody knows yet, while someone waits for the agent to name one.

    ``deliver`` is given what was kept, in order, once it is known what it is about, or known that
    nobody waits for it any more.
    """

    def __init__(self, deliver: Callable[[list[Frame]], None]) -> None:
        self._deliver = deliver
        self._kept: list[tuple[str, Frame]] = []
        self._waiting = 0

    def keep(self, agent_id: str, frame: Frame) -> bool:
        """Keep a frame for later; False if there is nothing to wait for, or no room."""
        if not self._waiting or len(self._kept) >= _FRAMES_MAX:
            return False
        self._kept.append((agent_id, frame))
        return True

    @contextlib.contextmanager
    def expecting(self, known: Container[str]) -> Iterator[None]:
        """While the agent is asked for a session; at the end its id is among the ``known`` ones."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            kept, self._kept = self._kept, []
            due = [frame for id, frame in kept if id in known or not self._waiting]
            self._kept = [(id, frame) for id, frame in kept if id not in known and self._waiting]
            if due:
                self._deliver(due)

    def forget(self) -> None:
        """The agent that said it is gone."""
        self._kept = []
