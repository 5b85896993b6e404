"""What a session has to tell: delivered in order, and never under the session's lock."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from holdfast.model import Event, Notice
from holdfast.session._hub import Hub

__all__ = ["Outbox"]


class Outbox:
    """A queue between one session and its hub."""

    def __init__(self, session_id: str, hub: Hub) -> None:
        self.hub = hub
        self.waiting: deque[Event | Notice] = deque()
        self._session_id = session_id
        self._delivery = threading.Lock()

    def put(self, item: Event | Notice) -> None:
        """Queue something, if anyone listens."""
        if self.hub.listeners:
            self.waiting.append(item)

    def notify(self, kind: str, **detail: Any) -> None:
        """Tell of something that is not an event."""
        self.put(Notice(kind, self._session_id, detail))
        self.deliver()

    def deliver(self) -> None:
        """Tell what is queued; whoever is at it does it for all."""
        while self.waiting and self._delivery.acquire(blocking=False):
            try:
                while self.waiting:
                    self.hub.publish(self._session_id, self.waiting.popleft())
            finally:
                self._delivery.release()
