"""The state that every part of the facade shares: one opened store, its settings, and live sessions."""

from __future__ import annotations

import contextlib
import operator
import os
import threading
import time
from collections.abc import Callable
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

import msgspec

from holdfast._config import Settings
from holdfast.errors import HoldfastError, NotFound, UsageError
from holdfast.model import Limits, check_id
from holdfast.session import Hub
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.catalog import Catalog, Feeder, Prices
    from holdfast.library._finder import SealedBooks
    from holdfast.library._keychain import GivenKey, KeyChain
    from holdfast.model import Gap
    from holdfast.security import Redactor
    from holdfast.session import Branches, Observers, Session, Timers

Progress = Callable[[int, int], None]
"""Called with the amount done and the total."""
_LIMIT_MAX = 2**40  # more than any store holds; a database does not count much further


def whole(name: str, value: Any) -> int:
    """Return a whole number, also of another library's type. Raises UsageError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} is a whole number, not {value!r:.40}") from None


def limit_of(value: Any, things: str) -> int | None:
    """Return the most ``things`` to return; None for all. Raises UsageError unless it is a count."""
    if value is None:
        return None
    found = whole("a limit", value)
    if found < 0:
        raise UsageError(f"a limit is a number of {things}, not {found}")
    return min(found, _LIMIT_MAX)


def check_text(name: str, value: Any) -> None:
    """Raise UsageError unless the value is a text or None."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is a text, not {type(value).__name__}")


def check_path(name: str, value: Any) -> None:
    """Raise UsageError unless the value can be the path of a file."""
    if not isinstance(value, (str, os.PathLike)):
        raise UsageError(f"{name} is a path, not {type(value).__name__}")
    with contextlib.suppress(UnicodeEncodeError):
        if b"\0" not in os.fsencode(value):
            return
    raise UsageError(f"{name} is a path, which {os.fspath(value)[:40]!a} can be none of")


def check_function(name: str, value: Any) -> None:
    """Raise UsageError unless the value is callable or None."""
    if value is not None and not callable(value):
        raise UsageError(f"{name} is a function, not {type(value).__name__}")


def one_of_each(name: str, values: Any) -> frozenset[str]:
    """Return texts that were given as a collection. Raises UsageError for anything else."""
    if isinstance(values, str):
        raise UsageError(f"{name} are a list of texts, not one text", remedy=f"Give [{values!r}].")
    try:
        found = list(values)
    except TypeError:
        found = [None]
    if not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name} are a list of texts, not {values!r:.40}")
    return frozenset(found)


# The state that every part of the facade shares: one opened store, its settings, keys and listeners.
CHORE_S = 1.0  # how long one round of housekeeping may take before the thread rests or the program ends
LEASE_MS = 30_000  # the lease for work on a closed session (repair, a purge); after it others may take over
_OURS = {"sessions", "spaces"}


class LiveSessions:
    """The sessions that this process has open: one object for each, by store and id."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.sessions: WeakValueDictionary[tuple[str, str], Session] = WeakValueDictionary()

    def find(self, identity: str, id: str) -> Session | None:
        """Return the session if it is open here and can be used."""
        with self.lock:
            session = self.sessions.get((identity, id))
        return None if session is None or session.closed or session.orphaned else session

    def of(self, identity: str) -> list[Session]:
        with self.lock:
            return [one for key, one in self.sessions.items() if key[0] == identity]

    def begin_in_child(self) -> None:
        """Replace the lock in a forked child: the thread that held it does not exist there."""
        self.lock = threading.RLock()


live = LiveSessions()
os.register_at_fork(after_in_child=live.begin_in_child)


class Core:
    """One store with its settings, keys, catalogue and observers."""

    def __init__(
        self,
        settings: Settings,
        *,
        timers: bool = True,
        redaction: str = "off",
        seal: bool | None = None,
        key: GivenKey | KeyChain | None = None,
    ) -> None:
        self.settings = settings
        self.inner = settings.store  # the store as it is on the medium; sealed data stays sealed in it
        self.keychain: KeyChain | None = None
        self.store = self._with_keys(key, seal=seal)
        self.redaction_default = redaction  # how secrets are treated unless a setting says otherwise; apps say "mark"
        self.hub = Hub()
        self.timers: Timers | None = None
        if timers:
            from holdfast.session import Timers

            self.timers = Timers()
        self.observers: Observers | None = None
        self.is_heard = False  # whether the observers receive what sessions publish
        self.has_new_sessions = False  # whether a session was created since the limit of live ones was last checked
        self.closed = False
        self.store.check()
        self._warn_of_strangers()

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    @property
    def redaction(self) -> str:
        mode: str = self.settings.configuration.get("redaction.mode", self.redaction_default)
        return mode

    def redactor(self) -> Redactor | None:
        """Return what replaces secrets in recorded events; None if redaction is off."""
        return None if self.redaction == "off" else self._own_redactor

    def redacted(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return data that is stored beside logs, redacted as this store's sessions redact events."""
        redactor = self.redactor()
        return data if redactor is None else redactor.data("", data).data

    @cached_property
    def _own_redactor(self) -> Redactor:
        from holdfast.library._redactor import make_redactor

        return make_redactor(self, {}, mode=self.redaction)

    @cached_property
    def feeder(self) -> Feeder:
        """The background thread that keeps the catalogue up to date."""
        from holdfast.catalog import Feeder

        me = ref(self)  # the thread must not keep an unused store open

        def chore() -> None:
            core = me()
            if core is not None:
                core.housekeep()

        configuration = self.settings.configuration

        @cache
        def prices() -> Prices:
            """Return the user's prices; ``stats`` reports a mistake in the table, lists must not fail because of it."""
            from holdfast._config import load_prices
            from holdfast.catalog import Prices

            try:
                return load_prices(configuration)
            except UsageError:
                return Prices()

        auto_tags = configuration.get("catalog.auto_tags", True)
        return Feeder(self.inner, chore=chore, auto_tags=bool(auto_tags), prices=prices)

    @property
    def catalog(self) -> Catalog:
        """The catalogue of the store. Raises UsageError after ``close``."""
        self.check_open()
        return self.feeder.catalog

    @cached_property
    def sealed_books(self) -> SealedBooks:
        """Lists and searches of sealed sessions, for callers who have the key."""
        from holdfast.library._finder import SealedBooks

        return SealedBooks(self.store, self.feeder)

    @cached_property
    def branches(self) -> Branches:
        from holdfast.session import Branches

        return Branches(self.store, limits=self.limits, redactor=self.redactor)

    @cached_property
    def prices(self) -> Prices:
        """Return the user's prices. Raises UsageError for a table with a mistake."""
        from holdfast._config import load_prices

        return load_prices(self.settings.configuration)

    def housekeep(self, seconds: float = CHORE_S) -> None:
        """Archive sessions beyond the limit of live ones, for at most ``seconds``, if any were created here.

        On a thread of its own, or when the library is closed or the program ends, so whatever goes
        wrong, or takes longer, is left to the next time.
        """
        made, self.has_new_sessions = self.has_new_sessions, False
        if not made or self.closed or not self.store.capabilities.archives:
            return
        with contextlib.suppress(HoldfastError):
            # Count archived sessions too: then the catalogue is not needed to be sure.
            if next(islice(self.store.entries(), self.limits.sessions_live_max, None), None) is not None:
                from holdfast.library._retention import archive_excess

                self.has_new_sessions = not archive_excess(self, time.monotonic() + seconds)

    def within(self, space: str) -> Core:
        """Return the core of one space of this store. Raises InvalidId."""
        from holdfast.storage import SpaceStore

        self.check_open()
        inside = SpaceStore(self.inner, space, owns=False)
        keys: dict[str, Any] = {}
        if self.keychain is not None:
            keys = {"key": self.keychain, "seal": getattr(self.store, "by_default", False)}
        settings = msgspec.structs.replace(self.settings, store=inside)
        made = Core(settings, timers=self.timers is not None, redaction=self.redaction_default, **keys)
        if self.observers is not None:
            made.observers = self.observers.within(space)
        return made

    def close(self) -> None:
        if self.closed:
            return
        self.housekeep()
        self.closed = True
        # Called in the reverse order: sessions first, then what serves them, the store last.
        with contextlib.ExitStack() as rest:
            rest.callback(self.store.close)
            rest.callback(self.feeder.close)
            if self.timers is not None:
                rest.callback(self.timers.close)
            # A session that fails to close must not keep the others open.
            for session in live.of(self.store.identity):
                if session.store is self.store:
                    rest.callback(session.close_for_all)

    def check_open(self) -> None:
        if self.closed:
            raise UsageError("this Holdfast is closed")

    def open_here(self, id: str) -> Session | None:
        return live.find(self.store.identity, id)

    def stored(self, id: str) -> str:
        """Return the key of a session that exists. Raises NotFound, InvalidId."""
        self.check_open()
        key = session_key(id)
        if not self.store.exists(key):
            raise NotFound(f"there is no session {id}", session_id=id)
        return key

    def check_unlocked(self, key: str, purpose: str) -> None:
        """Raise Locked while anyone has it open."""
        with self.store.lease(key).held(purpose, LEASE_MS):
            pass

    def lost_whole(self, id: str) -> Gap | None:
        """Return what the catalogue knew of a log that has no events any more."""
        return self.catalog.lost_whole(id) if self.inner.capabilities.stores else None

    def _with_keys(self, key: GivenKey | KeyChain | None, *, seal: bool | None) -> Store:
        """Return the store with the keys that were given or are set."""
        configuration = self.settings.configuration
        given = configuration.get("key") if key is None else key
        by_default = configuration.get("seal", False) if seal is None else seal
        if self.inner.has_keys or not (given or by_default):
            return self.inner
        if not given:
            remedy = "Set one: holdfast.open(key=…), HOLDFAST_KEY, or `key` in config.toml."
            raise UsageError("new sessions are to be sealed, and no key is set", remedy=remedy)
        from holdfast.library._keychain import KeyChain, as_sources
        from holdfast.session import SealingStore

        if not isinstance(given, KeyChain):
            given = KeyChain(as_sources(given), self.inner)
        self.keychain = given
        return SealingStore(self.inner, given, by_default=bool(by_default))

    def _warn_of_strangers(self) -> None:
        """Warn if the store is a folder of another system."""
        path = getattr(self.inner, "path", None)
        # A look at the folder itself is enough for our own stores and empty ones: loading the readers takes longer than
        # everything else at an opening.
        if path is None or not os.path.isdir(path):
            return
        names = os.listdir(path)
        if names and _OURS.isdisjoint(names):
            from holdfast.library._imports import warn_of_strangers

            warn_of_strangers(self)


def session_key(id: str) -> str:
    """Return the key of a session; InvalidId if the id is not one."""
    return f"sessions/{check_id(id)}"
