"""What every part of the facade stands on: the store, how it is set, and the keys of sessions."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast._config import Given, Settings, settle
from holdfast.errors import NotFound, UsageError
from holdfast.model import Limits, check_id
from holdfast.session import Hub, Timers
from holdfast.storage import Store, shown_url

if TYPE_CHECKING:
    from holdfast.library._keychain import GivenKey, KeyChain
    from holdfast.session import Session

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
        seal: bool | None = None,
        key: GivenKey | KeyChain | None = None,
    ) -> None:
        self._settings: Settings = settle(where, config, limits, space)
        self._inner = self._settings.store
        """The store as it is on the medium; what is sealed stays so in it."""
        self._keychain: KeyChain | None = None
        self._store = self._with_keys(key, seal=seal)
        self._redaction = redaction
        """How secrets are treated where no setting says it; apps say "mark"."""
        self._hub = Hub()
        self._timers = Timers() if timers else None
        self._closed = False
        self._store.check()
        self._warn_of_strangers()

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

    def _with_keys(self, key: GivenKey | KeyChain | None, *, seal: bool | None) -> Store:
        """The store, with the keys that were given or are set."""
        configuration = self._settings.configuration
        given = configuration.get("key") if key is None else key
        by_default = configuration.get("seal", False) if seal is None else seal
        if self._inner.has_keys or not (given or by_default):
            return self._inner
        if not given:
            raise UsageError(
                "new sessions are to be sealed, and no key is set",
                remedy="Set one: holdfast.open(key=…), HOLDFAST_KEY, or `key` in config.toml.",
            )
        from holdfast.library._keychain import KeyChain, as_sources
        from holdfast.session import SealingStore

        if not isinstance(given, KeyChain):
            given = KeyChain(as_sources(given), self._inner)
        self._keychain = given
        return SealingStore(self._inner, given, by_default=bool(by_default))

    def _redactor(self) -> Any:
        """What replaces secrets in what is recorded; None if they are recorded as they are."""
        return None

    def _warn_of_strangers(self) -> None:
        """Tell a program whose store is the folder of another system that it is none of ours."""

    def _given_keys(self) -> dict[str, Any]:
        """The keys, for another object of this kind."""
        if self._keychain is None:
            return {}
        return {"key": self._keychain, "seal": getattr(self._store, "by_default", False)}

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this Holdfast is closed")

    def _open_here(self, id: str) -> Session | None:
        """The session, if this process has it open."""
        return None

    def _stored(self, id: str) -> str:
        self._check_open()
        key = session_key(id)
        if not self._store.exists(key):
            raise NotFound(f"there is no session {id}", session_id=id)
        return key


def session_key(id: str) -> str:
    """The key of a session; InvalidId if the id is not one."""
    return f"sessions/{check_id(id)}"
