"""Subscribers to events and notices, each isolated from the others."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from holdfast.model import Event, Notice

Subscriber = Callable[[str, Event | Notice], None]
"""Called with the session's id and what happened."""


class Hub:
    """A list of subscribers. The failure of one is reported to the others, and it stays subscribed."""

    def __init__(self) -> None:
        self.listeners: tuple[Subscriber, ...] = ()

    def subscribe(self, listener: Subscriber) -> Callable[[], None]:
        """Add a subscriber; return a function that removes it."""
        self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            self.listeners = tuple(known for known in self.listeners if known is not listener)

        return unsubscribe

    def publish(self, session_id: str, item: Event | Notice) -> None:
        """Call every subscriber, whatever any one of them does."""
        for listener in self.listeners:
            try:
                listener(session_id, item)
            except Exception as error:  # noqa: BLE001 - a subscriber must not disturb a session
                notice = Notice("subscriber_failed", session_id, {"error": repr(error)})
                for other in self.listeners:
                    if other is not listener:
                        with contextlib.suppress(Exception):  # there is no subscriber left to report to
                            other(session_id, notice)


class Outbox:
    """A queue between one session and its hub: delivered in order, and never under the session's lock."""

    def __init__(self, session_id: str, hub: Hub) -> None:
        self.hub = hub
        self.waiting: deque[Event | Notice] = deque()
        self._session_id = session_id
        self._delivery = threading.Lock()

    def put(self, item: Event | Notice) -> None:
        """Queue something, if there are subscribers."""
        if self.hub.listeners:
            self.waiting.append(item)

    def notify(self, kind: str, **detail: Any) -> None:
        self.put(Notice(kind, self._session_id, detail))
        self.deliver()

    def deliver(self) -> None:
        """Deliver what is queued; the thread that is at it does it for all."""
        while self.waiting and self._delivery.acquire(blocking=False):
            try:
                while self.waiting:
                    self.hub.publish(self._session_id, self.waiting.popleft())
            finally:
                self._delivery.release()


class Repairs:
    """Damage of one session that was found and repaired, reported once each."""

    def __init__(self, session_id: str, outbox: Outbox) -> None:
        self.notices: list[Notice] = []
        self._session_id = session_id
        self._outbox = outbox
        self._answered = 0
        self._lock = threading.Lock()

    def tell(self, what: str, detail: dict[str, Any]) -> None:
        import logging

        if any(notice.detail["what"] == what for notice in self.notices):
            return
        notice = Notice("repaired", self._session_id, {"what": what, **detail})
        self.notices.append(notice)
        logging.getLogger("holdfast").warning("session %s: %s", self._session_id, what)
        self._outbox.put(notice)
        self._outbox.deliver()

    def untold(self) -> list[Notice]:
        with self._lock:
            answered, self._answered = self._answered, len(self.notices)
        return self.notices[answered:]
