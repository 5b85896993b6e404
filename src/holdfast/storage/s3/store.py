"""The store in a bucket: S3 and compatible services, by conditional writes alone.

A name is an object that maps a key to an id; all data of a key is below that id, so a move writes two
small objects however much data the key has. The bucket must honour preconditions: that is tested when
the store is first used, and one that ignores them is refused, since it would lose data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from holdfast.errors import Conflict, HoldfastError, InvalidId, NotFound, StoreError, Unavailable
from holdfast.storage._deferred import Packet, Sender, joined
from holdfast.storage._leases import LeasedStore
from holdfast.storage._pieces import check_branch, first_bytes
from holdfast.storage.base import Capabilities, Entry, check_key, check_prefix, needs_log
from holdfast.storage.s3.key import (
    AtOnce,
    Listing,
    Name,
    Named,
    Names,
    ObjectDocuments,
    ObjectLease,
    ObjectLog,
    Spellings,
    check_free,
    renew_one,
)
from holdfast.storage.s3.log import HEAD_BYTES, LogObjects
from holdfast.storage.s3.objects import open_objects
from holdfast.storage.urls import cache_place

_LEASE_MS = 30_000


class ObjectStore(LeasedStore):
    """Everything below one prefix of one bucket."""

    capabilities = Capabilities(syncs=True, shared=True, can_steal=True, defers=True, archives=True, unique=True)

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.objects = open_objects(url)
        self.names = Names(self.objects)
        self.spellings = Spellings(self.objects, self.names)
        self._at_once = AtOnce()
        self._listing = Listing(self.objects, self.names, self._at_once)
        self._sender = Sender(self._send, "holdfast-sender")
        self._writing: dict[str, LogObjects] = {}
        self._checked = False

    def log(self, key: str) -> ObjectLog:
        self.check()
        return ObjectLog(self, self._sender, check_key(key))

    def documents(self, key: str) -> ObjectDocuments:
        self.check()
        return ObjectDocuments(self, check_key(key))

    def lease(self, key: str) -> ObjectLease:
        self.check()
        return ObjectLease(self, check_key(key), claims=True)

    def exists(self, key: str) -> bool:
        named = self.names.get(check_key(key))
        return named is not None and LogObjects(self.objects, named.name.folder).exists()

    def clash(self, key: str) -> str | None:
        return next((other for other in self.spellings.others(check_key(key)) if self.exists(other)), None)

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """Yield every key with a log; unchanged ones are not requested again."""
        check_prefix(prefix)
        self._sender.catch_up()
        yield from self._listing.entries(prefix)

    def entry(self, key: str) -> Entry | None:
        """Return the entry of one key, with what this process has appended to it."""
        self._sender.catch_up(key)
        named = self.names.get(check_key(key))
        return None if named is None else self._listing.entry(key, named.name)

    def folders(self, prefix: str = "sessions/") -> dict[str, str]:
        check_prefix(prefix)
        return {key: one.etag for key, one in self.names.listed(prefix)}

    def catalog_place(self) -> str | None:
        """Return a place in the user's cache directory: a bucket cannot contain a shared index."""
        return cache_place(self._address)

    def space_catalog_place(self, space: str) -> str | None:
        return cache_place(f"{self._address}#spaces/{space}")

    @property
    def _address(self) -> str:
        """Without the keys, which change; with the server, which may be one of several."""
        base, _, query = self.url.partition("?")
        return f"{base}?{dict(parse_qsl(query)).get('endpoint', '')}"

    def move(self, key: str, to: str) -> None:
        """Write two small objects, however much data the key has."""
        check_key(to)
        named = self._has_something(key)
        # Its release also forgets what the writer knew of the key.
        with ObjectLease(self, key).held("move", _LEASE_MS):
            self._clear_the_way(to)
            self.spellings.check(to, key)
            self._rename(key, to, named)
            try:
                self.spellings.check(to, key)  # one that was created meanwhile did not see this one
            except InvalidId:
                if (moved := self.names.get(to)) is not None:
                    self._rename(to, key, moved)
                raise

    def _rename(self, key: str, to: str, named: Named) -> None:
        id = named.name.id
        if not self.names.swap(key, named.etag, Name(id, to=to)):
            raise Conflict(f"{key} changed while it was being moved")
        taken = not self.names.claim(to, Name(id))
        moving = self.names.raw(key)[0]
        if moving is not None and moving.name == Name(id, to=to):
            self.names.swap(key, moving.etag, Name(id) if taken else None)
        if taken:
            raise Conflict(f"{to} is taken")

    def drop(self, key: str) -> None:
        """Close it to writers first, then remove the folder of the name."""
        left = self.names.raw(check_key(key))[0]
        if left is not None and LogObjects(self.objects, left.name.folder).head().sealed:
            self.bury(key, left.name.folder)
            return
        self._seal(key, self._has_something(key))

    def branch(self, key: str, to: str, size: int, *, documents: Mapping[str, bytes] | None = None) -> None:
        """Make a copy below a new id, which exists once it has its name."""
        check_branch(self, key, to, size)
        named = self.names.get(key)
        if named is None:
            raise NotFound(f"there is no log at {key}")
        self._clear_the_way(to)
        self.spellings.check(to)
        name = Name(uuid4().hex)
        source, copy = LogObjects(self.objects, named.name.folder), LogObjects(self.objects, name.folder)
        try:
            copy.replace(first_bytes(source.read(0), size), 0, to)
            if copy.size() != size:
                raise Conflict(f"the log of {key} is shorter than {size:,} bytes")
            for one in list(self.objects.list(f"{source.folder}/doc/blobs/")):
                found = self.objects.get(one.path)
                if found is not None:
                    self.objects.put(one.path.replace(source.folder, copy.folder, 1), found.data)
            for one_name, data in (documents or {}).items():
                self.objects.put(f"{name.folder}/doc/{one_name}", data)
            if not self.names.claim(to, name):
                raise Conflict(f"{to} is taken")
            try:
                self.spellings.check(to)  # one that was created meanwhile did not see this one
            except InvalidId:
                self.names.swap(to, self.names.raw(to)[1], None)
                raise
        except (Conflict, InvalidId):
            self._remove(name.folder)
            raise

    def is_archived(self, key: str) -> bool:
        named = self.names.get(check_key(key))
        return named is not None and LogObjects(self.objects, named.name.folder).head().archived

    def scrub(self) -> list[str]:
        """Return a reminder about old versions: it cannot be seen from here whether a bucket keeps them."""
        return ["A bucket that keeps versions still has the old ones; remove them there."]

    def location(self, key: str) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}#{check_key(key)}"

    def check(self) -> None:
        """Test once whether the bucket honours preconditions. Raises Unavailable if not."""
        if self._checked:
            return
        path = f"probe/{uuid4().hex}"
        objects = self.objects
        first = objects.create(path, b"1")
        twice = objects.create(path, b"2")
        etag = (objects.get(path) or (b"", "", 0))[1]
        objects.swap(path, b"3", etag)
        swapped = objects.swap(path, b"4", etag)
        objects.delete(path)
        if not first or twice or swapped:
            raise Unavailable(
                "this bucket ignores preconditions: two writers would overwrite each other",
                remedy="Use a server that honours If-None-Match and If-Match.",
            )
        self._checked = True

    def close(self) -> None:
        self._sender.close()
        super().close()
        self._at_once.close()

    def forget_writing(self, key: str) -> None:
        """Read everything again the next time this key is written."""
        self._writing.pop(key, None)

    def bury(self, key: str, folder: str) -> None:
        """Finish an interrupted drop."""
        named = self.names.raw(key)[0]
        if named is None or named.name.folder != folder:
            return
        if not named.name.gone:
            self.names.swap(key, named.etag, Name(named.name.id, gone=True))
        self._remove(folder)
        named = self.names.raw(key)[0]
        if named is not None and named.name.folder == folder:
            self.names.swap(key, named.etag, None)
        self.forget_writing(key)

    # -- inside ------------------------------------------------------------------------------
    def _has_something(self, key: str) -> Named:
        named = self.names.get(check_key(key))
        if named is not None:
            folder = named.name.folder
            noted = next(iter(self.objects.list(f"{folder}/doc/")), None) is not None
            if noted or LogObjects(self.objects, folder).exists():
                check_free(self.objects, key, folder)
                return named
        raise NotFound(f"no such file or directory: {key}")

    def _clear_the_way(self, to: str) -> None:
        """Remove the remains of a free key. Raises Conflict and Locked."""
        named = self.names.get(to)
        if named is not None:
            self._check_not_taken(to, named.name.folder)
            check_free(self.objects, to, named.name.folder)
            self._seal(to, named, only_rest=True)

    def _check_not_taken(self, to: str, folder: str) -> None:
        noted = next(iter(self.objects.list(f"{folder}/doc/")), None) is not None
        if LogObjects(self.objects, folder).exists() or (noted and not needs_log(to)):
            raise Conflict(f"{to} is taken")

    def _seal(self, key: str, named: Named, *, only_rest: bool = False) -> None:
        """Take a key out of use for good, under its lease; then remove all its data."""
        folder = named.name.folder
        lease = ObjectLease(self, key)
        try:
            epoch = lease.acquire("drop", _LEASE_MS)
            if lease.folder != folder:
                raise Conflict(f"{key} changed while it was being removed")
            if only_rest:  # a writer may have begun just before
                self._check_not_taken(key, folder)
            if not LogObjects(self.objects, folder).seal(epoch):
                raise Conflict(f"{key} changed while it was being removed")
        except BaseException:
            lease.release()
            raise
        lease.abandon()
        self.bury(key, folder)

    def _remove(self, folder: str) -> None:
        """Remove everything of a folder but its fences, its head and its lease."""
        kept, fences = (f"{folder}/lease", f"{folder}/head"), f"{folder}/log/"
        found = [one for one in self.objects.list(f"{folder}/") if one.path not in kept]
        self.objects.delete(*(one.path for one in found if one.size > HEAD_BYTES or not one.path.startswith(fences)))

    def _repack(self, key: str, *, archived: bool) -> None:
        """Put all objects of the log into compressed packs, or remove the mark: packs are read as they are."""
        if not self.exists(key):
            raise NotFound(f"there is no log at {key}")
        lease = ObjectLease(self, key)
        with lease.held("archive", _LEASE_MS):
            log = LogObjects(self.objects, lease.folder)
            if archived:
                log.compact(archive=True)
            else:
                log.unarchive()

    def _send(self, packets: Sequence[Packet]) -> list[StoreError | None]:
        runs = joined(packets)
        by_key: dict[str, list[int]] = {}
        for number, run in enumerate(runs):
            by_key.setdefault(run[0].key, []).append(number)
        found: dict[int, StoreError | None] = {}
        # Those of one log one after the other.
        for some in self._at_once.map(lambda one: {n: self._send_run(runs[n]) for n in one}, by_key.values()):
            found.update(some)
        return [found[number] for number, run in enumerate(runs) for _ in run]

    def _send_run(self, run: list[Packet]) -> StoreError | None:
        whole = run[0]._replace(data=b"".join(packet.data for packet in run))
        error: StoreError | None
        try:
            pieces = self._writing.get(whole.key)
            if pieces is None:
                pieces = self._writing[whole.key] = LogObjects(self.objects, self.names.made(whole.key).folder)
            error = pieces.append(whole)
        except StoreError as failure:
            error = failure
        except HoldfastError as failure:  # it must not affect the other logs of the batch
            error = Unavailable(failure.message, remedy=failure.remedy)
        if error is not None:
            self.forget_writing(whole.key)
        return error

    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        def lost(one: tuple[str, tuple[int, int]]) -> str:
            key, (epoch, ttl_ms) = one
            try:
                named = self.names.get(key)
                if named and renew_one(self.objects, named.name.folder, epoch, ttl_ms):
                    return ""
            except HoldfastError:
                return ""  # the next round may succeed; until then the term runs on
            return key

        return set(self._at_once.map(lost, held.items())) - {""}
