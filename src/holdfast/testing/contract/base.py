"""What all parts of the store contract share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.storage import Log, Store

__all__ = ["ContractBase", "read_all", "refused", "run_together"]

T = TypeVar("T")
_THREAD_WAIT_S = 60.0


class ContractBase:
    """Makes stores for the contracts and closes them."""

    KEY = "sessions/alpha"

    def make_store(self) -> Store:
        """A new and empty store. Every backend says how."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store:
        """The place opened once more, beside the other; by default the object itself."""
        return store

    def teardown_method(self) -> None:
        """Close what was opened."""
        for store in self.__dict__.pop("_opened", ()):
            store.close()

    def fresh(self) -> Store:
        """A store that is closed when the contract is done."""
        return self._noted(self.make_store())

    def again(self, store: Store) -> Store:
        """The store opened again, closed when the contract is done."""
        return self._noted(self.reopen(store))

    def kept(self, store: Store, stored: T, nothing: T) -> T:
        """What a contract expects: the first of a store that stores, the second of one that not."""
        return stored if store.capabilities.stores else nothing

    def write(self, store: Store, key: str, *lines: bytes) -> Log:
        """A log with these lines, synced and closed again; the object can be read."""
        log = store.log(key)
        lease = store.lease(key)
        epoch = lease.acquire("contract", 60_000)
        for seq, line in enumerate(lines):
            log.append(line, seq, 1, epoch)
        log.sync()
        log.close()
        lease.release()
        return log

    def _noted(self, store: Store) -> Store:
        self.__dict__.setdefault("_opened", []).append(store)
        return store


def read_all(log: Log, start: int = 0) -> bytes:
    """The bytes of a log from an offset on."""
    return b"".join(log.read(start))


@contextmanager
def refused(kind: type[BaseException], **fields: object) -> Iterator[None]:
    """The block must raise exactly this kind of error, with these fields."""
    try:
        yield
    except kind as error:
        for name, value in fields.items():
            assert getattr(error, name) == value, f"{name} is {getattr(error, name)!r}"
        return
    raise AssertionError(f"this should have raised {kind.__name__}")


def run_together(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(0)`` to ``work(count - 1)`` in threads; the first error of any comes out."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_THREAD_WAIT_S)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
