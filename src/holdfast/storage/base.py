"""The contract of a store: what every backend provides, and what each call promises.

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
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import InvalidId, NotFound, UsageError
from holdfast.model import Unseal, check_id

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.storage.postgres.link import ServerLink


# The properties of a store and its keys, as plain values.
class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a backend; the contract suite checks that they are true."""

    stores: bool = True
    """Appended data is still there after its lease is released."""
    survives_kill: bool = False
    """An append that returned survives kill -9 of the process."""
    syncs: bool = False
    """A sync that returned survives power loss."""
    can_steal: bool = False
    """A lease can be taken over from a living holder, which is then fenced."""
    defers: bool = False
    """An append is accepted now and sent later, so that it may fail later."""
    shared: bool = False
    """Several processes see the same keys."""
    archives: bool = False
    """A log can be kept compressed, transparently for readers."""
    unique: bool = False
    """Of sessions that differ only by case only one can be created, also concurrently; else ``clash`` is used."""


class Entry(msgspec.Struct, frozen=True, order=True):
    """One key that has a log, with what a list needs without opening it. ``modified`` is Unix ms."""

    key: str
    size: int
    modified: int
    etag: str
    folder: str = ""
    """The mark that ``Store.folders`` returns; empty where a single look does not tell it."""


class Stamp(msgspec.Struct, frozen=True):
    """The state of a log at a moment. ``modified`` is in nanoseconds."""

    inode: int
    size: int
    modified: int


class Pieces(msgspec.Struct, frozen=True):
    """Some bytes of one log, and its state just before they were read, if that has a stamp."""

    stamp: Stamp | None
    data: Sequence[bytes]


class Changes(msgspec.Struct, frozen=True):
    """The keys that may have changed since a mark was taken. It may include unchanged keys, but misses no change.

    ``keys`` are those whose log may have changed, None for all of them. ``listed`` says that keys
    may have been added or removed from outside the store: compare with ``Store.folders``.
    """

    mark: str
    keys: frozenset[str] | None
    listed: bool


MUST_NOT_EXIST = ""
"""The ``if_match`` of a put that must create the document: it fails if there is one of that name."""

BLOBS = "blobs/"  # documents that lines may refer to are below this

# Small enough to stay in the cache and to leave no hole in memory, large enough that the number of calls does not
# matter.
CHUNK_BYTES = 1 << 18


class Log(ABC):
    """The append-only bytes of one key. Only the holder of the lease writes."""

    unseal: Unseal | None = None
    """Decrypts sealed lines for readers; set by the code that has the key."""

    @abstractmethod
    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Add complete lines at the end, all of them or none.

        Returns once they are as safe as ``capabilities`` says. Never waits for a disk. Raises
        StoreFull (nothing was added, try again when there is space), Fenced, or another
        StoreError; an exception of any kind means that nothing was added, or that the log is dead.
        """

    @abstractmethod
    def sync(self) -> None:
        """Return once everything in the log is on the medium, whatever object appended it.

        Documents that were put without a sync are on the medium before it. Raises SyncFailed or
        another StoreError; after that the log accepts no more appends.
        """

    @abstractmethod
    def read(self, start: int = 0) -> Iterator[bytes]:
        """Yield the bytes from offset ``start`` to the end, in chunks; nothing if there is no log."""

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """Return the last bytes and the offset at which they begin."""
        start = max(0, self.size() - max_bytes)
        return start, b"".join(self.read(start))

    def read_part(self, start: int, stop: int) -> bytes:
        """Return the bytes between two offsets, or as many of them as there are."""
        chunks, missing = [], stop - start
        for chunk in self.read(start):
            chunks.append(chunk[:missing])
            missing -= len(chunk)
            if missing <= 0:
                break
        return b"".join(chunks)

    @abstractmethod
    def size(self) -> int:
        """Return the number of bytes in the log; 0 if there is none."""

    @abstractmethod
    def cut(self, offset: int, epoch: int) -> None:
        """Copy the bytes from ``offset`` on to quarantine, then remove them from the log.

        Durable when it returns. A crash leaves them in the log, or in quarantine, or in both.
        """

    @abstractmethod
    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Replace the whole log by a new generation; the old bytes go to quarantine.

        Durable when it returns. A crash leaves the old one or the new one, never a mixture.
        """

    def overwrite(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Replace the whole log by a new generation and keep nothing of the old one, also of what branches share.

        Like ``replace``; if that leaves the old bytes in quarantine, the caller has to remove them.
        """
        self.replace(chunks, epoch)

    @abstractmethod
    def generation(self) -> str:
        """Return a mark that changes when the log is replaced, so that followers start again.

        A cut leaves it unchanged, unless the bytes are shared with a branch: only bytes that no
        reader has taken are cut. Archiving and detaching may change it, with the same bytes.
        """

    def settled(self) -> int:
        """Return how many bytes this very log is known to have had on the medium; 0 if nothing is known.

        A log with fewer has lost some: no crash takes back what was synced.
        """
        return 0

    def damage(self) -> str:
        """Return what is wrong with how the log is kept, as a sentence; empty if nothing is known.

        For damage that its bytes do not show, such as an archive without its end. Reads everything.
        """
        return ""

    @abstractmethod
    def unsaved(self) -> bytes:
        """Return the bytes appended through this object that are not known to be on the medium."""

    @abstractmethod
    def close(self) -> None:
        """Release the open resources of the log. Does not sync."""


class Documents(ABC):
    """Small named byte strings of one key, replaced atomically."""

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
        """Return the bytes and their etag, or None."""

    @abstractmethod
    def names(self, prefix: str = "") -> list[str]:
        """Return the names that begin with ``prefix``, sorted."""

    @abstractmethod
    def delete(self, name: str) -> bool:
        """Remove a document; return whether there was one."""


class Lease(ABC):
    """The right to write one key's log, held by one writer at a time."""

    settled: int | None = None
    """An upper bound of ``Log.settled``, if taking the lease reveals one."""

    @abstractmethod
    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take the lease and return its epoch, higher than every earlier one. Raises Locked, naming a known holder.

        Called inside the ``try`` whose end releases it: an interrupt may come just after it was taken.
        """

    @abstractmethod
    def renew(self, ttl_ms: int) -> None:
        """Keep the lease. Raises Fenced if it was lost."""

    @abstractmethod
    def release(self) -> None:
        """Release the lease. Does nothing if it is not held."""

    @contextmanager
    def held(self, owner: str, ttl_ms: int) -> Iterator[int]:
        """Hold the lease during a ``with`` block, which gets the epoch. Raises Locked."""
        try:
            yield self.acquire(owner, ttl_ms)
        finally:
            try:
                self.release()
            finally:
                self.release()  # again, in case the first was interrupted


class Store(ABC):
    """The logs and documents of many keys."""

    url: str
    capabilities: Capabilities
    has_keys = False
    """True if encrypted data is decrypted transparently, as only the session room's store does."""
    space: str | None = None
    """The name of the space that this store is; None if it is not a space."""

    @property
    def identity(self) -> str:
        """Equal for two store objects exactly if they hold the same keys."""
        return self.url if self.capabilities.shared else f"{self.url}#{id(self)}"

    @abstractmethod
    def log(self, key: str) -> Log:
        """Return the log of a key. Opens and creates nothing yet."""

    @abstractmethod
    def documents(self, key: str) -> Documents:
        """Return the documents of a key."""

    @abstractmethod
    def lease(self, key: str) -> Lease:
        """Return the lease of a key."""

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Return whether the key has a log."""

    @abstractmethod
    def clash(self, key: str) -> str | None:
        """Return a key with a log that differs from this one only by case, if there is one.

        A store that keeps sessions ``unique`` raises InvalidId in ``move``, ``branch`` and the lease of a session
        without a log, where another such key has a log or is about to get it.
        """

    @abstractmethod
    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Sync these logs, by key, on the store's own thread: one call serves all waiters."""

    @abstractmethod
    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Yield every key with a log in a folder such as ``sessions/``, in no order; invalid names are skipped.

        Read lazily where possible: memory should not grow with the number of keys.
        """

    def entry(self, key: str) -> Entry | None:
        """Return the entry of one key; None if it has no log."""
        folder = folder_of(check_key(key))
        return next((entry for entry in self.entries(folder) if entry.key == key), None)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        """Return every key in a folder, also those without a log, with a mark of the thing that has that name.

        Another thing of the same name has another mark, as far as that can be told cheaply.
        """
        return {entry.key: "" for entry in self.entries(prefix)}

    def stamp(self, key: str) -> Stamp | None:
        """Return a value that changes whenever the key's log does, obtained without opening it.

        None if that is not possible; then a caller that caches what it read has to read it again.
        """
        return None

    def read_pieces(self, starts: Mapping[str, Sequence[int]], size: int) -> dict[str, Pieces]:
        """Return ``size`` bytes of logs, or what there is of them, at these places of each, read quickly.

        A key is left out if only the log itself can answer, also to report what is wrong.
        """
        return {}

    def kept_open(self, key: str) -> AbstractContextManager[bool]:
        """Keep the way to a key open for this thread during the block.

        The block gets whether the log exists, as from ``exists``. It speeds up several calls about one
        key in a row; no result changes by it.
        """
        return nullcontext(self.exists(key))

    def may_hold(self, key: str, folder: str) -> bool:
        """Return whether a key may have documents in a folder, without listing names; False only if that is certain."""
        return True

    def changes(self, mark: str, prefix: str = "sessions/") -> Changes:
        """Return what may have changed in a folder of keys since ``mark``, and the current mark.

        ``mark`` comes from an earlier call; any other value asks to compare everything. The cost must not grow with
        the number of unchanged keys. A store that cannot tell returns this each time, as here.
        """
        return Changes("", None, listed=True)

    def catalog_place(self) -> str | None:
        """Return the path of a file in which a catalogue of this store may be kept; None for in memory."""
        return None

    def space_catalog_place(self, space: str) -> str | None:
        """Return the path of a file for the catalogue of one space; None for in memory."""
        return None

    def lend_catalog(self) -> ServerLink | None:
        """Return access to a database in which a shared catalogue of this store may be kept.

        None if there is none, as in nearly all stores: then ``catalog_place`` says where it is. The
        store keeps owning it, and closes it.
        """
        return None

    @abstractmethod
    def move(self, key: str, to: str) -> None:
        """Rename a key with all its data. Durable when it returns.

        Raises NotFound if it has neither log nor documents, Conflict if ``to`` is taken, Locked while a writer has
        one of the two. A session is taken when it has a log; documents without one are left over from a crash at
        its beginning, and are replaced. Anything else is taken when it has either.
        """

    @abstractmethod
    def drop(self, key: str) -> None:
        """Remove a key with all its data, for good. Raises NotFound, and Locked while in use.

        A crash leaves the whole key or nothing visible of it; dropping it again then removes
        the bytes that are left.
        """

    def drop_all(self, keys: Sequence[str]) -> None:
        """Remove many keys, one after the other, each as ``drop`` does; on return they are gone for good."""
        for key in keys:
            self.drop(key)

    def forget(self, key: str) -> None:
        """Remove the remains of a lease at a key without a log, if possible; any other key stays unchanged."""
        check_key(key)

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Create a key ``to`` whose log begins with the first ``size`` bytes of this key's log.

        ``size`` is the end of a complete line; a writer may have the key meanwhile. Nothing that is done to either
        of the two afterwards affects the other. The documents below ``blobs/``, which lines may refer to, are
        included; others are not. ``documents`` are those that the new key has from its first moment on. Durable when
        it returns; a crash leaves the whole new key or nothing visible of it. Raises NotFound if there is no log,
        UsageError for a size below 1, Conflict if the log is shorter than that or ``to`` is taken, Locked if another
        caller is about to create ``to``.
        """
        from holdfast.storage._pieces import copy_branch

        copy_branch(self, key, to, size, documents or {})

    def base_size(self, key: str) -> int:
        """Return how many bytes of the log are still in files that other keys share; 0 if none are."""
        check_key(key)
        return 0

    def detach(self, key: str) -> None:
        """Make sure that a key shares no bytes with any other; does nothing if it never did.

        Its log stays the same to the byte: only then are the bytes of dropped keys that shared them
        really gone. Durable when it returns; a crash leaves it shared or not, complete either way.
        Raises NotFound if there is no log, and Locked while a writer has it.
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")

    def archive(self, key: str) -> None:
        """Keep the log compressed from now on; does nothing if it is already.

        Readers notice nothing; the first change by a writer takes it out of the archive. The old bytes are removed
        once the new ones are on the medium, have been read back and are the same. Raises NotFound if there is no log,
        Locked while a writer has it, TooLarge for a log beyond the limit of unpacking, and UsageError from a
        store that cannot archive (see ``capabilities``).
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")
        raise UsageError("this store does not archive", remedy="Archive sessions kept in files.")

    def unarchive(self, key: str) -> None:
        """Take the log out of the archive; does nothing if it is not archived.

        Damaged parts of it read as zero bytes, and the damaged archive goes to quarantine.
        Raises NotFound if there is no log, and Locked while a writer has it.
        """
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")

    def is_archived(self, key: str) -> bool:
        """Return whether the log is kept compressed now."""
        check_key(key)
        return False

    def scrub(self) -> list[str]:
        """Make sure that no removed data is left in the store's own bytes.

        Returns what could not be reached, one sentence each: versions that a bucket keeps, pages
        that a server has not reused yet. May take long.
        """
        return []

    def wait(self, key: str, seconds: float) -> None:
        """Return after this time, or as soon as the store learns that the key's log has grown."""
        time.sleep(seconds)

    @abstractmethod
    def location(self, key: str) -> str:
        """Return where a person would look for the key."""

    @abstractmethod
    def check(self) -> None:
        """Raise Unavailable or Forbidden if the store cannot be used."""

    @abstractmethod
    def close(self) -> None:
        """Stop the store's thread and release all resources. Does nothing the second time."""


# The names of keys and documents, and the etags of documents.
_KINDS = ("sessions", "agents", "shared", "trash")
_DOCUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z", re.ASCII)
_DOCUMENT_DEPTH_MAX = 3
# Files of a key that are not documents, on every backend: one set of names for all.
_NOT_DOCUMENTS = re.compile(
    r"(lock|own\.jsonl|base\.json|base(\.[0-9]+)?\.jsonl|events\.jsonl(\.new|\.zst|\.zst\.new)?)\Z", re.ASCII
)


def check_key(key: str) -> str:
    """Return ``key`` if it is well-formed; raise InvalidId otherwise."""
    parts = key.split("/")
    if parts[0] == "spaces" and len(parts) > 2:
        check_id(parts[1], what="space")
        parts = parts[2:]
    if len(parts) != 2 or parts[0] not in _KINDS:
        raise InvalidId(f"{key[:80]!a} is not a key: expected <kind>/<id>", id=key)
    check_id(parts[1], what=f"{parts[0].removesuffix('s')} id")
    return key


def is_key(key: str) -> bool:
    """Return whether a text is a well-formed key."""
    try:
        check_key(key)
    except InvalidId:
        return False
    return True


def needs_log(key: str) -> bool:
    """Return whether a key is a session, which does not exist without its log."""
    return key.split("/")[-2] in ("sessions", "trash")


def is_session(key: str) -> bool:
    """Return whether a key is a session in use, whose id is unique case-insensitively."""
    return key.split("/")[-2] == "sessions"


def clashing(key: str, other: str) -> InvalidId:
    """Return the error for a new session whose id differs only by case from an existing one."""
    new, name = (one.rpartition("/")[2] for one in (key, other))
    what = f"{new} differs only by case from the session {name}"
    return InvalidId(what, remedy=f"Use {name}, or another id.", session_id=new)


def check_clash(store: Store, key: str) -> None:
    """Raise InvalidId for a new session whose id differs from an existing one only by case."""
    other = store.clash(key)
    if other is not None:
        raise clashing(key, other)


def check_made(store: Store, key: str) -> None:
    """Raise InvalidId as ``check_clash`` does for a session to be created, unless the store checks that itself."""
    if not store.capabilities.unique and not store.exists(key):
        check_clash(store, key)


def check_prefix(prefix: str) -> tuple[str, ...]:
    """Return the parts of a folder of keys, such as ``sessions/``; raise InvalidId if it is not one."""
    if not prefix.endswith("/"):
        raise InvalidId(f"{prefix!a} is not a folder of keys: expected <kind>/", id=prefix)
    return tuple(check_key(prefix + "x").split("/")[:-1])


def is_document_name(name: str) -> bool:
    """Return whether ``name`` is a safe relative name that no other file of a key has."""
    parts = name.split("/")
    for part in parts:
        if not _DOCUMENT.match(part) or ".." in part:
            return False
    return len(parts) <= _DOCUMENT_DEPTH_MAX and not _NOT_DOCUMENTS.match(parts[0].lower())


def check_document_name(name: str) -> str:
    """Return ``name`` if it is a safe relative name; raise InvalidId otherwise."""
    if not is_document_name(name):
        raise InvalidId(f"{name[:80]!a} is not a document name", id=name)
    return name


def folder_of(key: str) -> str:
    """Return the folder of keys that a key is in, such as ``sessions/``."""
    return key.rpartition("/")[0] + "/"


def etag_of(data: bytes) -> str:
    """Return the etag of a document with these bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()[:32]
