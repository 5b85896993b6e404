"""The store that stores nothing and costs nothing: for agents that are not to be kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import NotFound
from holdfast.storage.base import (
    Capabilities,
    Documents,
    Entry,
    Lease,
    Log,
    Store,
    check_document_name,
    check_key,
    check_prefix,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["NoStore"]


class NoStore(Store):
    """Takes everything, keeps nothing, finds nothing."""

    capabilities = Capabilities(stores=False)
    url = "none:"

    def log(self, key: str) -> Log:
        """A log that forgets."""
        check_key(key)
        return _NoLog()

    def documents(self, key: str) -> Documents:
        """Documents that are forgotten."""
        check_key(key)
        return _NoDocuments()

    def lease(self, key: str) -> Lease:
        """A lease that everyone gets."""
        check_key(key)
        return _NoLease()

    def exists(self, key: str) -> bool:
        """Never."""
        check_key(key)
        return False

    def clash(self, key: str) -> str | None:
        """Never."""
        check_key(key)
        return None

    def sync(self, logs: Mapping[str, Log]) -> Future[None]:
        """Done at once."""
        from concurrent.futures import Future

        result: Future[None] = Future()
        result.set_result(None)
        return result

    def entries(self, prefix: str = "sessions/") -> Iterator[Entry]:
        """None."""
        check_prefix(prefix)
        return iter(())

    def move(self, key: str, to: str) -> None:
        """There is nothing to move."""
        check_key(key)
        check_key(to)
        raise NotFound(f"there is nothing at {key}")

    def drop(self, key: str) -> None:
        """There is nothing to drop."""
        check_key(key)
        raise NotFound(f"there is nothing at {key}")

    def location(self, key: str) -> str:
        """Nowhere."""
        check_key(key)
        return "none:"

    def check(self) -> None:
        """Nothing can be wrong with nothing."""

    def close(self) -> None:
        """Nothing is held."""


class _NoLog(Log):
    """A log without bytes."""

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Forget the data."""

    def sync(self) -> None:
        """Nothing to sync."""

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Nothing to read."""
        return iter(())

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """No bytes at the beginning."""
        return 0, b""

    def size(self) -> int:
        """No bytes."""
        return 0

    def cut(self, offset: int, epoch: int) -> None:
        """Nothing to cut."""

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Forget the new one too."""

    def generation(self) -> str:
        """Always the same nothing."""
        return ""

    def unsaved(self) -> bytes:
        """Nothing is waiting."""
        return b""

    def close(self) -> None:
        """Nothing is open."""


class _NoDocuments(Documents):
    """Documents that are not there."""

    def put(self, name: str, data: bytes, *, if_match: str | None = None, sync: bool = True) -> str:
        """Forget it."""
        check_document_name(name)
        return ""

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Nothing."""
        check_document_name(name)
        return None

    def names(self, prefix: str = "") -> list[str]:
        """None."""
        return []

    def delete(self, name: str) -> bool:
        """There was none."""
        check_document_name(name)
        return False


class _NoLease(Lease):
    """Nothing to guard."""

    def acquire(self, owner: str, ttl_ms: int) -> int:
        """Granted."""
        return 1

    def renew(self, ttl_ms: int) -> None:
        """Still granted."""

    def release(self) -> None:
        """Given back."""
