"""A store that decrypts sealed keys transparently: readers and writers above it need not know.

A key is sealed if it has a document with data keys (``seal.json``). Its log then knows how its
lines are opened (``Log.unseal``), and its documents are decrypted and encrypted on the way. Copies of
a session as stored are made with the inner store, which knows nothing of this.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from holdfast.errors import Conflict, HoldfastError, KeyMissing, SecurityError, Tampered
from holdfast.model import BEFORE_ALL, SEALED_END_BYTES, sealed_end
from holdfast.security import (
    KEY_DOCUMENT,
    KeyDocument,
    Opener,
    Ring,
    is_sealed_document,
    new_data_key,
    open_document,
    read_key_document,
    seal_document,
)
from holdfast.storage import MUST_NOT_EXIST, Documents, Log, Store

_BLOBS = "blobs/"
_SNAPSHOTS = "snapshots/"
_FIRST_BYTES = 64
# Documents that the store itself writes, or that are needed before anything can be opened.
_NEVER_SEALED = (KEY_DOCUMENT, "deleted.json", "copied.json", "quarantine/")
_RINGS_MAX = 1024


class KeyHolder(Protocol):
    """Holds the keys that wrap data keys."""

    def unwrap(self, document: KeyDocument) -> Ring:
        """Return the data keys. Raises KeyMissing or Tampered."""

    def wrap(self, ring: Ring) -> KeyDocument:
        """Return the data keys wrapped under the keys that are in use now. Raises KeyMissing."""


def _passed_on(name: str) -> Any:
    def call(self: SealingStore, *args: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*args, **options)

    call.__name__, call.__doc__ = name, getattr(Store, name).__doc__
    return call


class SealingStore(Store):
    """A store together with keys."""

    has_keys = True

    def __init__(self, inner: Store, keys: KeyHolder, *, by_default: bool = False) -> None:
        self.inner = inner
        self.url = inner.url
        self.capabilities = inner.capabilities
        self.space = inner.space
        self.by_default = by_default
        """True if new sessions are encrypted."""
        self.keys = keys
        self._rings: dict[bytes, Ring] = {}

    @property
    def identity(self) -> str:
        """The identity of the inner store: it holds the same data."""
        return self.inner.identity

    # The required methods of a store; its optional ones are passed on in the same way, below.
    lease, exists, clash, sync, entries = map(_passed_on, ("lease", "exists", "clash", "sync", "entries"))
    move, drop, location, check, close = map(_passed_on, ("move", "drop", "location", "check", "close"))

    def ring(self, key: str) -> Ring | None:
        """Return the data keys of a key; None if it is not sealed. Raises KeyMissing, Tampered."""
        found = self.inner.documents(key).get(KEY_DOCUMENT)
        return None if found is None else self._read(found[0])

    def is_sealed(self, key: str) -> bool:
        """Return whether the data of a key is sealed now. Raises KeyMissing, Tampered."""
        ring = self.ring(key)
        return ring is not None and not is_plain_in_transit(ring, self.inner.log(key))

    def new_ring(self, key: str) -> Ring:
        """Create and keep the data keys for a key that has no data yet. Raises KeyMissing."""
        return self.put_ring(key, Ring((new_data_key(1),)), if_match=MUST_NOT_EXIST)

    def put_ring(self, key: str, ring: Ring, *, if_match: str | None = None) -> Ring:
        """Keep data keys; return the existing ones if only new ones were to be kept."""
        data = self.keys.wrap(ring).encode()
        documents = self.inner.documents(key)
        try:
            documents.put(KEY_DOCUMENT, data, if_match=if_match)
        except Conflict:
            found = documents.get(KEY_DOCUMENT)
            if found is None or if_match != MUST_NOT_EXIST:
                raise
            return self._read(found[0])
        return ring

    def _read(self, data: bytes) -> Ring:
        ring = self._rings.get(data)
        if ring is None:
            ring = self.keys.unwrap(read_key_document(data))
            if len(self._rings) >= _RINGS_MAX:
                self._rings.clear()
            self._rings[data] = ring
        return ring

    def forget_keys(self) -> None:
        self._rings.clear()

    def log(self, key: str) -> Log:
        """Return the log, which decrypts its lines if the keys are at hand, and else raises what is missing."""
        log = self.inner.log(key)
        try:
            ring = self.ring(key)
        except SecurityError as error:
            log.unseal = _Closed(error)
        else:
            log.unseal = None if ring is None else opener_of(ring)
        return log

    def documents(self, key: str) -> Documents:
        return SealedDocuments(self, key)

    def may_seal(self, key: str) -> bool:
        """Return whether documents of a key without data keys are sealed from the first on."""
        if not self.by_default or key.rpartition("/")[0].rpartition("/")[2] in ("sessions", "trash"):
            return False  # a session is sealed, or not, when its first event is recorded
        return not self.inner.documents(key).names()


# Optional methods of a store are passed on, including future ones.
for _name in dir(Store):
    if _name[0] != "_" and _name not in vars(SealingStore) and callable(getattr(Store, _name)):
        setattr(SealingStore, _name, _passed_on(_name))


class _Closed:
    """Used as the opener if the key is missing: raises the error when a line is to be opened."""

    def __init__(self, error: HoldfastError) -> None:
        self._error = error

    def __call__(self, seq: int, sealed: bytes, before: bytes | None) -> bytes:
        raise self._error


def opener_of(ring: Ring) -> Opener:
    opener = Opener(ring.keys)
    if not ring.is_open:
        opener.sealed_from = min(key.first for key in ring.keys)
    return opener


def sealing(store: Store) -> SealingStore | None:
    return store if isinstance(store, SealingStore) else None


def within(store: Store) -> Store:
    """Return the store as it is on the medium, where sealed data stays sealed."""
    return store.inner if isinstance(store, SealingStore) else store


class SealedDocuments(Documents):
    """The documents of one key. A name below ``blobs/`` no longer reveals the payload."""

    def __init__(self, store: SealingStore, key: str) -> None:
        self._store = store
        self._key = key
        self._inner = store.inner.documents(key)
        self._ring: Ring | None = None

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        ring = self._known(name)
        if ring is None and not name.startswith(_NEVER_SEALED) and self._store.may_seal(self._key):
            ring = self._ring = self._store.new_ring(self._key)
        if ring is not None and ring.state != "decrypting":
            key = ring.current
            data, name = seal_document(key, name, data), stored_name(key.secret, name)
        return self._inner.put(name, data, if_match=if_match, sync=sync)

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Read a document. Raises Tampered if it is not what was sealed there."""
        ring = self._known(name)
        if ring is None:
            return self._inner.get(name)
        kept = (self._inner.get(stored) for stored in _stored_names(ring, name))
        found = next((one for one in kept if one is not None), None)
        if found is None:
            return None
        data, etag = found
        if not ring.is_open or is_sealed_document(data):
            return open_document(ring.keys, name, data), etag
        # A plain snapshot of a sealed log cannot be trusted.
        if name.startswith(_SNAPSHOTS) and not is_plain_in_transit(ring, self._store.inner.log(self._key)):
            raise Tampered(f"{name} is not sealed, beside a sealed log", document=name)
        return found

    def names(self, prefix: str = "") -> list[str]:
        return self._inner.names(prefix)

    def delete(self, name: str) -> bool:
        found = [self._inner.delete(stored) for stored in self.stored_names([name])]
        return any(found)

    def stored_names(self, names: Iterable[str]) -> set[str]:
        """Return the names under which these may be stored; those of payloads are disguised."""
        found: set[str] = set()
        for name in names:
            ring = self._known(name)
            found.update([name] if ring is None else _stored_names(ring, name))
        return found

    def _known(self, name: str) -> Ring | None:
        """Return the data keys, if a document of that name is sealed with them."""
        if name.startswith(_NEVER_SEALED):
            return None
        if self._ring is None or self._ring.state != "sealed":
            self._ring = self._store.ring(self._key)
        return self._ring


def is_plain_in_transit(ring: Ring, log: Log) -> bool:
    """Return whether a log that is being sealed or unsealed is plain at the moment."""
    if not ring.is_open:
        return False
    return b',"sealed":"' not in next(log.read(), b"")[:_FIRST_BYTES]


def is_kept_open(name: str) -> bool:
    """Return whether a document is never sealed: the store's own, and the data keys themselves."""
    return name.startswith(_NEVER_SEALED)


def stored_name(secret: bytes, name: str) -> str:
    """Return the name under which a sealed document is stored: that of a payload must not reveal it."""
    if not name.startswith(_BLOBS):
        return name
    digest = hmac.digest(secret, b"holdfast name 1\0" + name.encode(), hashlib.sha256)
    return _BLOBS + digest.hex()


def _stored_names(ring: Ring, name: str) -> Iterator[str]:
    yield from dict.fromkeys(stored_name(key.secret, name) for key in reversed(ring.keys))
    if ring.is_open and name.startswith(_BLOBS):
        yield name


def end_before(log: Log, offset: int) -> bytes:
    """Return the end of the sealed line that ends at ``offset``; zeros if it is not sealed, or there is none."""
    start = offset - SEALED_END_BYTES
    return sealed_end(next(log.read(start), b"")[:SEALED_END_BYTES]) if start >= 0 else BEFORE_ALL


def missing_key(session_id: str) -> KeyMissing:
    return KeyMissing(
        f"session {session_id} is to be sealed, and no key is set",
        remedy="Set one: holdfast.open(key=…), HOLDFAST_KEY, or `key` in your config.toml.",
        session_id=session_id,
    )
