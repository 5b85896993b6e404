"""The contract of a store: what every backend gives, and what each call promises.

A store knows keys and bytes, never events. A key is ``sessions/<id>``, ``agents/<id>``,
``shared/<name>`` or ``trash/<name>``, each optionally inside ``spaces/<space>/``. Each key has one
append-only log, some small documents, and one lease. Stores are synchronous code and safe to call
from any thread.

``holdfast.testing.StoreContract`` is this text as tests: a backend that passes it is a store.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import InvalidId
from holdfast.model import check_id

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "MUST_NOT_EXIST",
    "Capabilities",
    "Documents",
    "Entry",
    "Lease",
    "Log",
    "Store",
    "check_document_name",
    "check_key",
    "check_prefix",
    "is_document_name",
    "needs_log",
]

MUST_NOT_EXIST = ""
"""As ``if_match``: put the document only if there is none of that name."""

# Small enough to stay in the cache and to leave no hole in memory, large enough that the number of
# calls does not count.
CHUNK_BYTES = 1 << 18
_KINDS = ("sessions", "agents", "shared", "trash")
_DOCUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z", re.ASCII)
_DOCUMENT_DEPTH_MAX = 3
# Files of a key that are not documents, on whatever backend: one set of names for all.
_NOT_DOCUMENTS = frozenset(["events.jsonl", "events.jsonl.new", "events.jsonl.zst", "lock"])


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do; the contract suite checks that it is true."""

    stores: bool = True
    """What is appended can be read again."""
    survives_kill: bool = False
    """An append that returned survives kill -9 of the process."""
    syncs: bool = False
    """A sync that returned survives power loss."""
    can_steal: bool = False
    """A lease can be taken over from a holder that lives; the holder is then fenced."""
    defers: bool = False
    """An append is accepted now and sent later, so that it may fail later."""
    shared: bool = False
    """Several processes see the same keys."""


class Entry(NamedTuple):
    """One key that has a log: what a list needs without opening it. ``modified`` is Unix ms."""

    key: str
    size: int
    modified: int
    etag: str


class Log(ABC):
    """The append-only bytes of one key. Only the holder of the lease writes."""

    @abstractmethod
    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Add whole lines at the end, all of them or none.

        Returns once they are as safe as ``capabilities`` says. Never waits for a disk. Raises
        StoreFull (nothing was added, try again when there is space), Fenced, or another
        StoreError; an exception of any kind means that nothing was added, or that the log is dead.
        """

    @abstractmethod
    def sync(self) -> None:
        """Return once everything in the log is on the medium, whoever appended it.

        Documents that were put without a sync are on the medium before it. Raises SyncFailed or
        another StoreError; after that the log takes no more appends.
        """

    @abstractmethod
    def read(self, start: int = 0) -> Iterator[bytes]:
        """The bytes from offset ``start`` to the end, in chunks; none if there is no log."""

    @abstractmethod
    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes and the offset at which they begin."""

    @abstractmethod
    def size(self) -> int:
        """How many bytes the log has; 0 if there is none."""

    @abstractmethod
    def cut(self, offset: int, epoch: int) -> None:
        """Set the bytes from ``offset`` on aside in quarantine, then remove them from the log.

        Durable when it returns. A crash leaves them in the log, or in quarantine, or in both.
        """

    @abstractmethod
    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Put a new generation in the place of the whole log; the old bytes go to quarantine.

        Durable when it returns. A crash leaves the old one or the new one, never a mixture.
        """

    @abstractmethod
    def generation(self) -> str:
        """A mark that changes when the log was replaced, so that followers start again.

        A cut leaves it as it is: only bytes that no reader has taken are cut.
        """

    @abstractmethod
    def unsaved(self) -> bytes:
        """The bytes appended through this object that are not known to be on the medium."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what the log holds open. Does not sync."""


class Documents(ABC):
    """Small named bytes of one key, replaced atomically."""

    @abstractmethod
    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Store ``data`` under ``name`` and return its etag.

        A reader sees the old bytes or the new, never a part. Durable when it returns, unless
        ``sync`` is false: then it is durable with the next sync of the key's log, and before it;
        until then power loss may leave anything under a name that is new, and the old bytes or
        the new under one that is not.
        Raises Conflict if ``if_match`` is given and is not the etag of what is there
        (``MUST_NOT_EXIST`` for nothing).
        """

    @abstractmethod
    def get(self, name: str) -> tuple[bytes, str] | None:
        """The bytes and their etag, or None."""

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """The names that begin with ``prefix``, sorted."""

    @abstractmethod
    def delete(self, name: str) -> bool:
        """Remove a document; whether there was one."""


class Lease(ABC):
    """The right to write one key's log, held by one writer at a time."""

    @abstractmethod
    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take the lease and return its epoch, which is higher than every earlier one.

        Raises Locked, with what is known of the holder, while another one has it.
        """

    @abstractmethod
    def renew(self, ttl_ms: int) -> None:
        """Keep the lease. Raises Fenced if it was lost."""

    @abstractmethod
    def release(self) -> None:
        """Give the lease back. Harmless if it is not held."""


class Store(ABC):
    """Where logs and documents live."""

    url: str
    capabilities: Capabilities

    @property
    def identity(self) -> str:
        """Two store objects with the same identity hold the same keys."""
        return self.url if self.capabilities.shared else f"{self.url}#{id(self)}"

    @abstractmethod
    def log(self, key: str) -> Log:
        """The log of a key. Opens and creates nothing yet."""

    @abstractmethod
    def documents(self, key: str) -> Documents:
        """The documents of a key."""

    @abstractmethod
    def lease(self, key: str) -> Lease:
        """The lease of a key."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Whether the key has a log."""

    @abstractmethod
    def clash(self, key: str) -> str | None:
        """A key with a log that differs from this one only by case, if there is one."""

    @abstractmethod
    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Sync these logs, by key, on the store's own thread: one call serves all that wait."""

    @abstractmethod
    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log in a folder, such as ``sessions/`` or ``spaces/x/trash/``; no order.

        What is there and is not a key of ours is passed over.
        """

    @abstractmethod
    def move(self, key: str, to: str) -> None:
        """Give a key with all it has another name. Durable when it returns.

        Raises NotFound if it has neither log nor documents, Conflict if ``to`` is taken, Locked
        while a writer has one of the two. A session is taken when it has a log; documents without
        one are what a crash left of its beginning, and give way. Anything else is taken when it
        has either.
        """

    @abstractmethod
    def drop(self, key: str) -> None:
        """Remove a key with all it has, for good. Raises NotFound, and Locked while in use.

        A crash leaves the whole key or none of it that can be seen; dropping it again then removes
        the bytes that are left.
        """

    @abstractmethod
    def location(self, key: str) -> str:
        """Where a person would look for the key."""

    @abstractmethod
    def check(self) -> None:
        """Raise Unavailable or Forbidden if the store cannot be used as it is."""

    @abstractmethod
    def close(self) -> None:
        """Stop the store's thread and let go of everything. Harmless the second time."""


def check_key(key: str) -> str:
    """``key`` itself if it is well-formed; InvalidId otherwise."""
    parts = key.split("/")
    if parts[0] == "spaces" and len(parts) > 2:
        check_id(parts[1], what="space")
        parts = parts[2:]
    if len(parts) != 2 or parts[0] not in _KINDS:
        raise InvalidId(f"{key[:80]!a} is not a key: expected <kind>/<id>", id=key)
    check_id(parts[1], what=f"{parts[0].removesuffix('s')} id")
    return key


def needs_log(key: str) -> bool:
    """Whether a key is a session, which is nothing without its log."""
    return key.split("/")[-2] in ("sessions", "trash")


def check_prefix(prefix: str) -> tuple[str, ...]:
    """The parts of a folder of keys, such as ``sessions/``; InvalidId if it is not one."""
    if not prefix.endswith("/"):
        raise InvalidId(f"{prefix!a} is not a folder of keys: expected <kind>/", id=prefix)
    return tuple(check_key(prefix + "x").split("/")[:-1])


def is_document_name(name: str) -> bool:
    """Whether ``name`` is a safe relative name that no other file of a key has."""
    parts = name.split("/")
    return (
        len(parts) <= _DOCUMENT_DEPTH_MAX
        and all(_DOCUMENT.match(part) and ".." not in part for part in parts)
        and parts[0].lower() not in _NOT_DOCUMENTS
    )


def check_document_name(name: str) -> str:
    """``name`` itself if it is a safe relative name; InvalidId otherwise."""
    if not is_document_name(name):
        raise InvalidId(f"{name[:80]!a} is not a document name", id=name)
    return name
