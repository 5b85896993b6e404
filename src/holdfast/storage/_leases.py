"""Holders of expiring leases, and the one thread that keeps renewing them."""

from __future__ import annotations

import contextlib
import os
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from uuid import uuid4
from weakref import WeakKeyDictionary

import msgspec

from holdfast.errors import Fenced, HoldfastError, Locked, StoreError
from holdfast.storage._worker import FlushingStore, Worker
from holdfast.storage.base import Lease, check_key
from holdfast.storage.disk import Disk, forks, is_running

_RENEWALS_PER_TERM = 3


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lease."""

    pid: int
    host: str
    owner: str = ""
    space: str = ""  # where the process id is valid: containers may share a host name
    started: int = 0  # when it started, by its machine's clock: another process may get the same id later

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Holder:
        """Return the holder in the stored bytes; an unknown one if they cannot be read."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError:
            return cls(0, "")

    def is_gone(self) -> bool:
        """Return whether it was a process of this machine that has ended: then there is no need to wait.

        A process of another container, or of an earlier boot of the system, cannot be seen from here
        and does not count as gone.
        """
        if self.host != os.uname().nodename or self.pid <= 0:
            return False
        disk = Disk()
        if self.space != disk.process_space():
            return False
        if not is_running(self.pid):
            return True
        began = disk.process_start(self.pid)
        return bool(self.started and began and began != self.started)


def this_holder(owner: str) -> Holder:
    """Return this process as a holder."""
    disk, pid = Disk(), os.getpid()
    return Holder(pid, os.uname().nodename, owner[:100], disk.process_space(), disk.process_start(pid))


def locked(key: str, holder: Holder) -> Locked:
    """Return the error for a key that another holder has."""
    session_id = key.rpartition("/")[2]
    return Locked(
        f"session {session_id} is open for writing in process {holder.pid} on {holder.host}",
        session_id=session_id,
        pid=holder.pid,
        host=holder.host,
    )


def stale(key: str) -> Fenced:
    """Return the error for a writer whose lease is over."""
    session_id = key.rpartition("/")[2]
    return Fenced(f"another writer has taken {session_id} over", session_id=session_id)


class Renewer(Worker):
    """Renews every lease that this process holds at one store, all of them with one call.

    ``renew`` is given the keys with their epochs and terms and returns the keys that are lost; those are not renewed
    any more, and their holder learns of it with the next append. The thread starts with the first lease and ends with
    the last; a lease without references is not renewed either.
    """

    def __init__(self, renew: Callable[[Mapping[str, tuple[int, int]]], set[str]]) -> None:
        super().__init__("holdfast-renewer")
        self._renew = renew
        self._held: WeakKeyDictionary[Lease, tuple[str, int, int]] = WeakKeyDictionary()

    def keep(self, lease: Lease, key: str, epoch: int, term_ms: int) -> None:
        self._renew_after_fork()
        with self._lock:
            self._held[lease] = (key, epoch, term_ms)
            self._closed = False
            self._start()
            self._condition.notify()

    def let_go(self, lease: Lease) -> None:
        self._renew_after_fork()
        with self._lock:
            self._held.pop(lease, None)

    def close(self) -> None:
        """Stop; the leases then expire."""
        self._renew_after_fork()
        with self._lock:
            self._held.clear()
        super().close()

    def _forget(self) -> None:
        self._held = WeakKeyDictionary()

    def _run(self) -> None:
        while self._wait():
            with self._lock:
                held = {key: (epoch, term_ms) for key, epoch, term_ms in self._held.values()}
            try:
                lost = self._renew(held) if held else set()
            except Exception:  # noqa: BLE001, S112 - others rely on this thread
                continue  # the next round may succeed; until then the term runs on
            with self._lock:
                for lease in [one for one, kept in self._held.items() if kept[0] in lost]:
                    del self._held[lease]

    def _wait(self) -> bool:
        """Wait until a renewal is due; False if there is nothing more to renew."""
        with self._lock:
            begun = time.monotonic()
            while True:
                # Evaluated at once: a lease without references may disappear at any moment.
                terms = [term_ms for _, _, term_ms in self._held.values()]
                if self._closed or not terms:
                    self._thread = None
                    return False
                left = begun + min(terms) / 1000 / _RENEWALS_PER_TERM - time.monotonic()
                if left <= 0:
                    return True
                self._condition.wait(left)


class RenewedLease(Lease):
    """A lease that its store's renewer keeps while it is held."""

    def __init__(self, renewer: Renewer, key: str) -> None:
        self._renewer = renewer
        self._key = key
        self._holder: Holder | None = None
        self._trying: Holder | None = None
        """The holder for which it is being taken; kept after an interrupt, when the outcome is unknown."""
        self._epoch = 0
        self._forks = forks.count

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take it, also from a holder whose term has expired or whose process on this machine has ended."""
        if self._is_held and self._trying is None:
            self.renew(ttl_ms)
            return self._epoch
        # A mark of its own, so that a second try recognises what an interrupted first one did.
        self._trying = holder = self._trying or this_holder(f"{owner[:60]} {uuid4().hex}")
        try:
            epoch = self._take(holder, ttl_ms)
        except HoldfastError:
            self._trying = None
            raise
        self._holder, self._epoch, self._forks = holder, epoch, forks.count
        if ttl_ms > 0:
            self._renewer.keep(self, self._key, epoch, ttl_ms)
        self._trying = None
        return epoch

    def release(self) -> None:
        """Release it; does nothing if another holder has it by now."""
        if self._trying is not None and self._forks == forks.count:
            with contextlib.suppress(HoldfastError):  # taken by another holder, or out of reach
                self.acquire("", 0)
        if self._is_held:
            self._renewer.let_go(self)
            with contextlib.suppress(StoreError):  # out of reach, it expires
                self._give_back()
        # Last: after an interrupt before it, the next call continues.
        self._holder = None

    @property
    def _is_held(self) -> bool:
        # In a forked child it belongs to the parent, which goes on writing.
        return self._holder is not None and self._forks == forks.count

    @abstractmethod
    def _take(self, holder: Holder, ttl_ms: int) -> int:
        """Put the holder into the store and return the epoch, also if it is there already. Raises Locked."""

    @abstractmethod
    def _give_back(self) -> None:
        """Remove the holder from the store, if it is still this one."""


class LeasedStore(FlushingStore):
    """A store whose leases expire unless its renewer extends them."""

    def __init__(self, gather_s: float = 0.0) -> None:
        super().__init__(gather_s)
        self.renewer = Renewer(self._renew_all)

    def exists(self, key: str) -> bool:
        return self.entry(key) is not None

    def archive(self, key: str) -> None:
        self._repack(check_key(key), archived=True)

    def unarchive(self, key: str) -> None:
        self._repack(check_key(key), archived=False)

    def close(self) -> None:
        super().close()
        self.renewer.close()

    @abstractmethod
    def _renew_all(self, held: Mapping[str, tuple[int, int]]) -> set[str]:
        """Extend these leases, given with epoch and term; return the keys whose lease is lost."""

    @abstractmethod
    def _repack(self, key: str, *, archived: bool) -> None:
        """Rewrite a log that has no writer, compressed or not. Raises NotFound and Locked."""
