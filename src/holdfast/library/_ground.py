"""What every part of the facade stands on: the store, how it is set, and the keys of sessions."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from holdfast._config import Given, Settings, settle
from holdfast.errors import NotFound, UsageError
from holdfast.model import Limits, check_id
from holdfast.session import Hub, Timers
from holdfast.storage import Store, shown_url

__all__ = ["LEASE_MS", "Ground", "session_key"]

LEASE_MS = 30_000
"""How long work on a closed session (repair, a purge) may take before others may take over."""


class Ground:
    """One store with its settings, and those who listen to it."""

    def __init__(
        self,
        where: str | os.PathLike[str] | Store | None = None,
        *,
        config: Given = None,
        limits: Limits | None = None,
        timers: bool = True,
        redaction: str = "off",
        space: str | None = None,
    ) -> None:
        self._settings: Settings = settle(where, config, limits, space)
        self._store = self._settings.store
        self._redaction = redaction
        """How secrets are treated where no setting says it; apps say "mark"."""
        self._hub = Hub()
        self._timers = Timers() if timers else None
        self._closed = False
        self._store.check()

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._store

    @property
    def url(self) -> str:
        """The store's address."""
        return self._store.url

    @property
    def closed(self) -> bool:
        """Whether it was closed; then it opens and reads nothing any more."""
        return self._closed

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._settings.limits

    def __repr__(self) -> str:
        inside = "" if self._store.space is None else f" space {self._store.space}"
        return f"<Holdfast {shown_url(self.url)}{inside}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._store.capabilities.shared:
            raise UsageError(f"{self.url} lives in this process and cannot be pickled")
        space = self._store.space
        make = type(self) if space is None else partial(type(self), space=space)
        return make, (self.url,)

    def _redactor(self) -> Any:
        """What replaces secrets in what is recorded; None if they are recorded as they are."""
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this Holdfast is closed")

    def _stored(self, id: str) -> str:
        key = session_key(id)
        if not self._store.exists(key):
            raise NotFound(f"there is no session {id}", session_id=id)
        return key


def session_key(id: str) -> str:
    """The key of a session; InvalidId if the id is not one."""
    return f"sessions/{check_id(id)}"
