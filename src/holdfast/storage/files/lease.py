"""The right to write, as a lock on a file: no time-out, and no stealing while the holder lives."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import HoldfastError, Locked
from holdfast.storage.base import Lease
from holdfast.storage.disk import Disk, forks
from holdfast.storage.files.journal import Touched
from holdfast.storage.files.tree import LOCK_NAME, Tree, held, let_go, reading, translated

# The holder's description has a fixed size, so that writing it needs no new space on a full disk.
_CARD_BYTES = 512
_NAME_MAX = 100  # characters of the plain names on it


class FileLease(Lease):
    """``lock`` of one key. The kernel releases it when the holder dies, however it dies.

    The epoch is kept in the file and not synced: power loss may set it back. Here the lock alone
    keeps other writers out, and the epoch only distinguishes one opening from another.
    """

    def __init__(
        self,
        tree: Tree,
        parts: tuple[str, ...],
        touched: Touched | None = None,
        claim: Callable[[FileLease], None] | None = None,
    ) -> None:
        """``claim`` is called for a log that may not exist yet, before it is created."""
        self._tree = tree
        self._claim = claim
        self._touched = touched
        self._disk = tree.disk
        self._parts = parts
        self.key = "/".join(parts)
        self._descriptor: int | None = None
        self._forks = forks.count
        self._epoch = 0

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Take the lock. ``ttl_ms`` is for stores with expiring leases; here they do not expire."""
        if self._descriptor is not None and self._forks == forks.count:
            return self._epoch
        try:
            descriptor = self._take()
            card = _read_card(self._disk, descriptor)
            epoch = card.get("epoch")
            self._epoch = epoch + 1 if isinstance(epoch, int) else 1
            noted = card.get("settled")
            match noted:
                case [str(), int(size)]:
                    self.settled = size
                case _:
                    self.settled = 0
            self._write_card(descriptor, owner, noted)
            if noted is None and self._claim is not None:
                self._claim(self)
            if self._touched is not None:
                self._touched.note(self.key, held=True)
        except BaseException as error:
            self.release()
            if isinstance(error, OSError) and not isinstance(error, HoldfastError):
                raise translated(error, f"locking {self.key}") from error
            raise
        return self._epoch

    def renew(self, ttl_ms: int) -> None:
        """Do nothing: the lock is held until it is released."""

    def release(self) -> None:
        """Close the lock file, which releases the lock."""
        descriptor, self._descriptor = self._descriptor, None
        # In a forked child the lock was released already, and the number may be another file's.
        if descriptor is not None and self._forks == forks.count:
            try:
                if self._touched is not None:
                    self._touched.note(self.key, held=False)
            finally:
                let_go(self._disk, descriptor)

    def _take(self) -> int:
        while True:
            with self._tree.opened(self._parts, create=True) as directory:
                assert directory is not None
                try:
                    descriptor = self._disk.open_lock(LOCK_NAME, directory)
                except FileNotFoundError:
                    self._tree.walk_again(self._parts)
                    continue  # the key was dropped together with its directory
                try:
                    if not self._disk.lock(descriptor):
                        raise self._locked(descriptor)
                    node = self._disk.node(descriptor)
                    # By its name, from the root of the store on, and not by the directory at hand.
                    named = self._tree.node_below(f"{self.key}/{LOCK_NAME}")
                    if node.links > 1:
                        # It is another file as well, perhaps in a backup: that one stays unchanged.
                        self._disk.unlink(LOCK_NAME, directory)
                    elif named is not None and named.inode == node.inode:
                        # Noted at once: an interrupt on the way out must not lose it.
                        self._descriptor, self._forks = descriptor, forks.count
                        return descriptor
                except BaseException:
                    let_go(self._disk, descriptor)
                    raise
            # The key was moved away between opening and locking: this lock guards nothing.
            let_go(self._disk, descriptor)
            self._tree.walk_again(self._parts)

    def _locked(self, descriptor: int) -> Locked:
        card = _read_card(self._disk, descriptor)
        session_id, pid, host = self._parts[-1], card.get("pid"), card.get("host")
        holder = f"process {pid} on {host}" if pid else "another process"
        return Locked(
            f"session {session_id} is open for writing in {holder}", session_id=session_id, pid=pid, host=host
        )

    def _write_card(self, descriptor: int, owner: str, settled: Any) -> None:
        card = {
            "pid": os.getpid(),
            "host": os.uname().nodename[:_NAME_MAX].encode("ascii", "replace").decode(),
            "owner": owner[:_NAME_MAX].encode("ascii", "replace").decode(),
            "epoch": self._epoch,
        }
        if settled is not None:
            card["settled"] = settled
        try:
            self._disk.write(descriptor, msgspec.json.encode(card).ljust(_CARD_BYTES))
        except OSError:
            # The card only describes the holder; the lock itself is held.
            return


def note_settled(disk: Disk, directory: int, mark: str, size: int) -> None:
    """Note in the lock file that so many bytes of the log of this mark are on the medium.

    For the holder of the lease. It is not synced, and disk errors are ignored: if the note is
    missing, or older, a loss merely goes unnoticed.
    """
    try:
        with held(disk, disk.open_lock(LOCK_NAME, directory)) as descriptor:
            _put_note(disk, descriptor, [mark, size])
    except OSError:
        return


def forget_settled(disk: Disk, directory: int, known: str = "") -> None:
    """Remove the note for good before another log comes: an old note must not measure it. Lets OSError through.

    One of the mark ``known`` may come back after power loss: it applies to no other log.
    """
    mark = read_settled(disk, directory)[0]
    if not mark:
        return
    with held(disk, disk.open_lock(LOCK_NAME, directory)) as descriptor:
        _put_note(disk, descriptor, None)
        if mark != known:
            disk.sync(descriptor)


def _put_note(disk: Disk, descriptor: int, note: list[Any] | None) -> None:
    card = _read_card(disk, descriptor)
    card.pop("settled", None)
    text = msgspec.json.encode(card if note is None else card | {"settled": note})
    if disk.node(descriptor).links == 1 and len(text) <= _CARD_BYTES:
        disk.write(descriptor, text.ljust(_CARD_BYTES))


def read_settled(disk: Disk, directory: int) -> tuple[str, int]:
    """Return the last note: the mark of a log, and its size; an empty mark if there is none."""
    try:
        with reading(disk, LOCK_NAME, directory) as descriptor:
            noted = _read_card(disk, descriptor).get("settled")
        return msgspec.convert(noted, tuple[str, int])
    except (FileNotFoundError, msgspec.ValidationError):
        return "", 0


def _read_card(disk: Disk, descriptor: int) -> dict[str, Any]:
    try:
        card = msgspec.json.decode(disk.read_at(descriptor, _CARD_BYTES, 0))
    except msgspec.DecodeError:
        return {}
    return card if isinstance(card, dict) else {}
