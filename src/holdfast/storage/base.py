"""The contract of a store: what every backend gives, and what each call promises.

A store knows keys and bytes, never events. A key is ``sessions/<id>``, ``agents/<id>``, ``shared/<name>`` or
``trash/<name>``, each optionally inside ``spaces/<space>/``. Each key has one append-only log, some small documents,
and one lease. Stores are synchronous code and safe to call from any thread.

``holdfast.testing.StoreContract`` is this text as tests: a backend that passes it is a store.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.errors import InvalidId, NotFound, UsageError
from holdfast.model import Unseal, check_id

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.storage.postgres.link import ServerLink


# What a store tells of itself and of its keys, as plain values.
class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do; the contract suite checks that it is true."""

    stores: bool = True
    """What was appended is there after its lease is given back."""
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
    archives: bool = False
    """A log can be kept compressed, unnoticed by whoever reads it."""
    unique: bool = False
    """Of sessions that differ only by case one can be made, also at the same moment; elsewhere ``clash`` is asked."""


class Entry(NamedTuple):
    """One key that has a log: what a list needs without opening it. ``modified`` is Unix ms."""

    key: str
    size: int
    modified: int
    etag: str
    folder: str = ""
    """In ``Store.entries`` the mark that ``Store.folders`` gives."""


class Stamp(NamedTuple):
    """How a log was at a moment. ``modified`` is in nanoseconds."""

    inode: int
    size: int
    modified: int


class Pieces(NamedTuple):
    """Some bytes of one log, and how it was just before they were read."""

    stamp: Stamp
    data: Sequence[bytes]


class Changes(NamedTuple):
    """What may have changed since a mark was taken; more than did change is allowed, less is not.

    ``keys`` are those whose log may have changed, None for all of them. ``listed`` says that keys
    may have come or gone by other hands than a store's: compare with ``Store.folders``.
    """

    mark: str
    keys: frozenset[str] | None
    listed: bool


MUST_NOT_EXIST = ""
"""As ``if_match``: put the document only if there is none of that name."""

BLOBS = "blobs/"  # documents that lines may name lie below this

# Small enough to stay in the cache and to leave no hole in memory, large enough that the number of
# calls does not count.
CHUNK_BYTES = 1 << 18


class Log(ABC):
    """The append-only bytes of one key. Only the holder of the lease writes."""

    unseal: Unseal | None = None
    """What opens the lines that are sealed, for readers; whoever has the key puts it here."""

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

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes and the offset at which they begin."""
        start = max(0, self.size() - max_bytes)
        return start, b"".join(self.read(start))

    def read_part(self, start: int, stop: int) -> bytes:
        """The bytes between two offsets, or as many of them as there are."""
        chunks, missing = [], stop - start
        for chunk in self.read(start):
            chunks.append(chunk[:missing])
            missing -= len(chunk)
            if missing <= 0:
                break
        return b"".join(chunks)

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

    def overwrite(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Put a new generation in the place of the whole log, of which nothing is to stay, also not what others share.

        As ``replace``; where that leaves the old bytes in quarantine, they are the caller's to remove.
        """
        self.replace(chunks, epoch)

    @abstractmethod
    def generation(self) -> str:
        """A mark that changes when the log was replaced, so that followers start again.

        A cut leaves it as it is, unless the bytes are shared with a branch: only bytes that no
        reader has taken are cut. Archiving and detaching may change it, with the same bytes.
        """

    def settled(self) -> int:
        """How many bytes this very log is known to have had on the medium; 0 if nothing is known.

        A log that has fewer has lost some: no crash takes back what was synced.
        """
        return 0

    def damage(self) -> str:
        """What is wrong with how the log is kept, as a sentence; empty if nothing is known.

        For what its bytes cannot show, such as an archive that lacks its end. Reads everything.
        """
        return ""

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

        A reader sees the old bytes or the new, never a part. Durable when it returns, unless ``sync`` is false: then
        it is durable with the next sync of the key's log, and before it; until then power loss may leave anything
        under a name that is new, and the old bytes or the new under one that is not. Raises Conflict if ``if_match``
        is given and is not the etag of what is there (``MUST_NOT_EXIST`` for nothing).
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

    settled: int | None = None
    """What ``Log.settled`` may say at the most, where taking the lease tells that already."""

    @abstractmethod
    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take the lease; its epoch is higher than every earlier one. Raises Locked, with what is known of a holder.

        Called inside the ``try`` whose end releases it: an interrupt may come just after it was taken.
        """

    @abstractmethod
    def renew(self, ttl_ms: int) -> None:
        """Keep the lease. Raises Fenced if it was lost."""

    @abstractmethod
    def release(self) -> None:
        """Give the lease back. Harmless if it is not held."""

    @contextmanager
    def held(self, owner: str, ttl_ms: int) -> Iterator[int]:
        """Hold the lease for the length of a ``with`` block; its epoch. Raises Locked."""
        try:
            yield self.acquire(owner, ttl_ms)
        finally:
            try:
                self.release()
            finally:
                self.release()  # again, in case the first was interrupted


class Store(ABC):
    """Where logs and documents live."""

    url: str
    capabilities: Capabilities
    has_keys = False
    """Whether what is sealed is opened on the way, as only the session room's store does."""
    space: str | None = None
    """The name of the space that this store is; None if it is no space."""

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
        """A key with a log that differs from this one only by case, if there is one.

        A store that keeps sessions ``unique`` raises InvalidId in ``move``, ``branch`` and the lease of a session
        without a log, where such a one has a log or is about to get it.
        """

    @abstractmethod
    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Sync these logs, by key, on the store's own thread: one call serves all that wait."""

    @abstractmethod
    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Every key with a log in a folder such as ``sessions/``, in no order; what is no key is passed over.

        Read as they are taken where that can be: what is held meanwhile should not grow with the number of keys.
        """

    def entry(self, key: str) -> Entry | None:
        """The entry of one key; None if it has no log."""
        folder = folder_of(check_key(key))
        return next((entry for entry in self.entries(folder) if entry.key == key), None)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Every key in a folder, also one without a log, and a mark of what has that name.

        Another thing of the same name has another mark, as far as that can be told at a glance.
        """
        return {entry.key: "" for entry in self.entries(prefix)}

    def stamp(self, key: str) -> Stamp | None:
        """What changes whenever the key's log does, told without opening it.

        None where that cannot be told; then whoever remembers what it read has to read it again.
        """
        return None

    def read_pieces(self, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
        """``size`` bytes of logs, or what there is of them, at these places of each, read quickly.

        A key is left out where only the log itself can be asked, also to learn what is wrong.
        """
        return {}

    def kept_open(self, key: str) -> AbstractContextManager[bool]:
        """Keep at hand, while this thread is inside of the block, what leads to a key.

        Gives whether its log is there, as ``exists`` does. For whoever asks for several things of
        one key in a row; no answer changes by it.
        """
        return nullcontext(self.exists(key))

    def may_hold(self, key: str, folder: str) -> bool:
        """Whether a key may have documents in a folder, without asking for names; False only where that is certain."""
        return True

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """What may have changed in a folder of keys since ``mark``, and the mark of now.

        ``mark`` is what an earlier call gave; anything else asks to compare everything. The cost must not grow with
        the number of keys that did not change. A store that cannot tell says so each time, as here.
        """
        return Changes("", None, listed=True)

    def catalog_place(self) -> str | None:
        """The path of a file in which a catalogue of this store may be kept; None for in memory."""
        return None

    def space_catalog_place(self, space: str) -> str | None:
        """The path of a file for the catalogue of one space; None for in memory."""
        return None

    def lend_catalog(self) -> ServerLink | None:
        """The way to a database in which a catalogue of this store may be kept, shared by all.

        None if there is none, as nearly everywhere: then ``catalog_place`` says where it is. It
        stays the store's, which closes it.
        """
        return None

    @abstractmethod
    def move(self, key: str, to: str) -> None:
        """Give a key with all it has another name. Durable when it returns.

        Raises NotFound if it has neither log nor documents, Conflict if ``to`` is taken, Locked while a writer has
        one of the two. A session is taken when it has a log; documents without one are what a crash left of its
        beginning, and give way. Anything else is taken when it has either.
        """

    @abstractmethod
    def drop(self, key: str) -> None:
        """Remove a key with all it has, for good. Raises NotFound, and Locked while in use.

        A crash leaves the whole key or none of it that can be seen; dropping it again then removes
        the bytes that are left.
        """

    def drop_all(self, keys: Sequence[str]) -> None:
        """Remove many keys, one after the other, as ``drop`` does each; what is removed is gone for good on return."""
        for key in keys:
            self.drop(key)

    def forget(self, key: str) -> None:
        """Remove what a lease left of a key that has no log, where that can be seen; any other key stays as it is."""
        check_key(key)

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Make a key ``to`` whose log begins with the first ``size`` bytes of this key's log.

        ``size`` is where a line ends that is whole; a writer may have the key meanwhile. Whatever is done to either
        of the two afterwards, the other one does not notice. The documents below ``blobs/``, which lines may name,
        come along; others do not. ``documents`` are those that the new key has from its first moment on. Durable when
        it returns; a crash leaves the whole new key or none that can be seen. Raises NotFound if there is no log,
        UsageError for a size below 1, Conflict if the log is shorter than that or ``to`` is taken, Locked if someone
        is about to make ``to``.
        """
        from holdfast.storage._pieces import copy_branch

        copy_branch(self, key, to, size, documents or {})

    def base_size(self, key: str) -> int:
        """How many bytes of the log still lie in files that other keys share; 0 if none do."""
        check_key(key)
        return 0

    def detach(self, key: str) -> None:
        """See to it that a key shares no bytes with any other; harmless if it never did.

        Its log stays the same to the byte: only then does what the other keys held go for good
        when they are dropped. Durable when it returns; a crash leaves it shared or not, whole
        either way. Raises NotFound if there is no log, and Locked while a writer has it.
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")

    def archive(self, key: str) -> None:
        """Keep the log compressed from now on; harmless if it is.

        Every reader goes on as before; the first change by a writer takes it out of the archive. The old bytes go
        when the new ones are on the medium, have been read back and are the same. Raises NotFound if there is no log,
        Locked while a writer has it, TooLarge for a log beyond what would be unpacked again, and UsageError from a
        store that cannot archive (see ``capabilities``).
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")
        raise UsageError("this store does not archive", remedy="Archive sessions kept in files.")

    def unarchive(self, key: str) -> None:
        """Take the log out of the archive; harmless if it is not there.

        What is damaged in it reads as bytes of zero, and the damaged archive goes to quarantine.
        Raises NotFound if there is no log, and Locked while a writer has it.
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")

    def is_archived(self, key: str) -> bool:
        """Whether the log is kept compressed now."""
        check_key(key)
        return False

    def scrub(self) -> list[str]:
        """See to it that nothing of what was removed is left in the store's own bytes.

        Returns what could not be reached, one sentence each: versions that a bucket keeps, pages
        that a server has not reused yet. May take long.
        """
        return []

    def wait(self, key: str, seconds: float) -> None:
        """Return after this time, or as soon as the store hears that the key's log went on."""
        time.sleep(seconds)

    @abstractmethod
    def location(self, key: str) -> str:
        """Where a person would look for the key."""

    @abstractmethod
    def check(self) -> None:
        """Raise Unavailable or Forbidden if the store cannot be used as it is."""

    @abstractmethod
    def close(self) -> None:
        """Stop the store's thread and let go of everything. Harmless the second time."""


# What keys and documents are called, and how one version of a document is told from another.
_KINDS = ("sessions", "agents", "shared", "trash")
_DOCUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z", re.ASCII)
_DOCUMENT_DEPTH_MAX = 3
# Files of a key that are not documents, on whatever backend: one set of names for all.
_NOT_DOCUMENTS = re.compile(
    r"(lock|own\.jsonl|base\.json|base(\.[0-9]+)?\.jsonl|events\.jsonl(\.new|\.zst|\.zst\.new)?)\Z", re.ASCII
)


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


def is_key(key: str) -> bool:
    """Whether a text is a well-formed key."""
    try:
        check_key(key)
    except InvalidId:
        return False
    return True


def needs_log(key: str) -> bool:
    """Whether a key is a session, which is nothing without its log."""
    return key.split("/")[-2] in ("sessions", "trash")


def is_session(key: str) -> bool:
    """Whether a key is a session in use, whose id is unique without regard to case."""
    return key.split("/")[-2] == "sessions"


def clashing(key: str, other: str) -> InvalidId:
    """Return the error for a new session whose id differs only by case from another one's."""
    new, name = (one.rpartition("/")[2] for one in (key, other))
    what = f"{new} differs only by case from the session {name}"
    return InvalidId(what, remedy=f"Use {name}, or another id.", session_id=new)


def check_prefix(prefix: str) -> tuple[str, ...]:
    """The parts of a folder of keys, such as ``sessions/``; InvalidId if it is not one."""
    if not prefix.endswith("/"):
        raise InvalidId(f"{prefix!a} is not a folder of keys: expected <kind>/", id=prefix)
    return tuple(check_key(prefix + "x").split("/")[:-1])


def is_document_name(name: str) -> bool:
    """Whether ``name`` is a safe relative name that no other file of a key has."""
    parts = name.split("/")
    for part in parts:
        if not _DOCUMENT.match(part) or ".." in part:
            return False
    return len(parts) <= _DOCUMENT_DEPTH_MAX and not _NOT_DOCUMENTS.match(parts[0].lower())


def check_document_name(name: str) -> str:
    """``name`` itself if it is a safe relative name; InvalidId otherwise."""
    if not is_document_name(name):
        raise InvalidId(f"{name[:80]!a} is not a document name", id=name)
    return name


def folder_of(key: str) -> str:
    """The folder of keys that a key is in, such as ``sessions/``."""
    return key.rpartition("/")[0] + "/"


def etag_of(data: bytes) -> str:
    """The etag of a document with these bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()[:32]
