"""Who wants to hear of events and notices, each kept apart from the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from holdfast.model import Event, Notice

__all__ = ["Hub", "Subscriber"]

Subscriber = Callable[[str, Event | Notice], None]
"""Called with the session's id and what happened."""


class Hub:
    """A list of subscribers. One that fails is told on to the others, and stays subscribed."""

    def __init__(self) -> None:
        self.listeners: tuple[Subscriber, ...] = ()

    def subscribe(self, listener: Subscriber) -> Callable[[], None]:
        """Add a subscriber; what comes back takes it off again."""
        self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(known for known in self.listeners if known is not listener)

        return unsubscribe

    def publish(self, session_id: str, item: Event | Notice) -> None:
        """Tell everyone, whatever any one of them does."""
        for listener in self.listeners:
            try:
                listener(session_id, item)
            except Exception as error:  # noqa: BLE001 - a subscriber must not disturb a session
                self._tell_others(listener, session_id, error)

    def _tell_others(self, failed: Subscriber, session_id: str, error: Exception) -> None:
        notice = Notice("subscriber_failed", session_id, {"error": repr(error)})
        for listener in self.listeners:
            if listener is not failed:
                with contextlib.suppress(Exception):  # there is no one left to tell
                    listener(session_id, notice)
