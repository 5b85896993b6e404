"""The store contract: logs and leases."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import Locked
from holdfast.storage import Log, Store

# The common base of all parts of the store contract.
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)
_THREAD_WAIT_S = 60.0


class ContractBase:
    """Makes stores for the contracts and closes them."""

    KEY = "sessions/alpha"

    def make_store(self) -> Store:
        """Return a new and empty store; each backend implements this."""
        raise NotImplementedError

    def reopen(self, store: Store) -> Store:
        """Return the store opened a second time, beside the first; by default the object itself."""
        return store

    def teardown_method(self) -> None:
        """Close all opened stores."""
        for store in self.__dict__.pop("_opened", ()):
            store.close()

    def fresh(self, *lines: bytes) -> Store:
        """Return a store that is closed after the test; lines, if given, are in the log of ``KEY``."""
        store = self._noted(self.make_store())
        if lines:
            self.write(store, self.KEY, *lines)
        return store

    def again(self, store: Store) -> Store:
        """Return the store opened again, closed after the test."""
        return self._noted(self.reopen(store))

    def kept(self, store: Store, stored: T, nothing: T) -> T:
        """Return the expected value: the first for a store that stores, the second for one that does not."""
        return stored if store.capabilities.stores else nothing

    def writer(self, store: Store) -> tuple[Log, int]:
        """Return the log of ``KEY``, and the epoch of a lease taken on it."""
        return store.log(self.KEY), store.lease(self.KEY).acquire("me", 60_000)

    def write(self, store: Store, key: str, *lines: bytes) -> Log:
        """Return a log with these lines, synced and closed; the object can still be read."""
        log = store.log(key)
        lease = store.lease(key)
        epoch = lease.acquire("contract", 60_000)
        for seq, line in enumerate(lines):
            log.append(line, seq, 1, epoch)
        log.sync()
        log.close()
        lease.release()
        return log

    def content(self, store: Store, name: str, key: str | None = None) -> bytes | None:
        """Return the bytes of a document of ``KEY``, or of another key; None if it is not there."""
        found = store.documents(key or self.KEY).get(name)
        return found and found[0]

    def quarantined(self, store: Store) -> list[bytes | None]:
        """Return the bytes that were removed from the log of ``KEY`` and set aside."""
        return [self.content(store, name) for name in store.documents(self.KEY).names("quarantine/")]

    def _noted(self, store: Store) -> Store:
        self.__dict__.setdefault("_opened", []).append(store)
        return store


def read_all(log: Log, start: int = 0) -> bytes:
    """Return the bytes of a log from an offset on."""
    return b"".join(log.read(start))


def refused(kind: type[E], call: Callable[..., object], *arguments: object, **options: object) -> E:
    """Make a call, which must raise this kind of error, and return the error."""
    try:
        call(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"this should have raised {kind.__name__}")


def run_together(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(0)`` to ``work(count - 1)`` in threads, and raise the first error."""
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


ONE, TWO, THREE = b'{"a":1}\n', b'{"b":22}\n', b'{"c":333}\n'
_BIG = 3 * (1 << 20) + 7


class LogContract(ContractBase):
    """Contracts 1 to 21."""

    def test_c01_append_is_read_back(self) -> None:
        """An append is read back at once, byte for byte."""
        log, epoch = self.writer(self.fresh())
        odd = bytes(range(256)) + b"\n"
        log.append(odd, 0, 1, epoch)
        assert read_all(log) == odd

    def test_c02_appends_keep_their_order(self) -> None:
        """Appends are read in the order in which they were made."""
        store = self.fresh()
        lines = [b"%d\n" % number for number in range(200)]
        log = self.write(store, self.KEY, *lines)
        assert read_all(log) == self.kept(store, b"".join(lines), b"")

    def test_c03_batch(self) -> None:
        """Several lines can be one append."""
        log, epoch = self.writer(self.fresh())
        log.append(ONE + TWO + THREE, 0, 3, epoch)
        assert read_all(log) == ONE + TWO + THREE

    def test_c04_read_from_offset(self) -> None:
        """Reading can begin at any byte, and returns nothing at or after the end."""
        store = self.fresh()
        log = self.write(store, self.KEY, ONE, TWO)
        whole = self.kept(store, ONE + TWO, b"")
        for start in (0, 1, len(ONE), len(ONE) + 3, len(ONE + TWO), 10_000):
            assert read_all(log, start) == whole[start:]

    def test_c05_big_log(self) -> None:
        """A log of several chunks is read whole."""
        store = self.fresh()
        big = b"x" * _BIG + b"\n"
        log = self.write(store, self.KEY, ONE, big)
        assert read_all(log) == self.kept(store, ONE + big, b"")

    def test_c06_read_tail(self) -> None:
        """The tail comes with the offset at which it begins."""
        store = self.fresh()
        log = self.write(store, self.KEY, ONE, TWO)
        whole = self.kept(store, ONE + TWO, b"")
        for size in (0, 1, len(TWO), 10_000):
            start = max(0, len(whole) - size)
            assert log.read_tail(size) == (start, whole[start:])
            assert log.read_part(start, start + 7) == whole[start : start + 7]

    def test_c07_size(self) -> None:
        """The size is that of all appends, and 0 without one."""
        store = self.fresh()
        assert store.log(self.KEY).size() == 0
        log = self.write(store, self.KEY, ONE, TWO)
        assert log.size() == self.kept(store, len(ONE + TWO), 0)

    def test_c08_missing_log(self) -> None:
        """A log that does not exist reads as empty, and reading does not create it."""
        store = self.fresh()
        log = store.log(self.KEY)
        assert read_all(log) == b""
        assert log.read_tail(10) == (0, b"")
        assert log.read_part(0, 10) == b""
        assert log.generation() == ""
        assert log.unsaved() == b""
        assert not store.exists(self.KEY)
        assert list(store.entries()) == []

    def test_c09_sync_makes_nothing(self) -> None:
        """Syncing and closing a log that does not exist is harmless and does not create it."""
        store = self.fresh()
        log = store.log(self.KEY)
        log.sync()
        log.close()
        assert not store.exists(self.KEY)

    def test_c10_reopen(self) -> None:
        """Synced bytes are there after the store was opened again, and appends continue."""
        store = self.fresh(ONE)
        store = self.again(store)
        assert read_all(store.log(self.KEY)) == self.kept(store, ONE, b"")
        self.write(store, self.KEY, TWO)
        store = self.again(store)
        assert read_all(store.log(self.KEY)) == self.kept(store, ONE + TWO, b"")

    def test_c11_two_objects(self) -> None:
        """Every object for a key is the same log."""
        store = self.fresh()
        reader = store.log(self.KEY)
        self.write(store, self.KEY, ONE)
        assert read_all(reader) == self.kept(store, ONE, b"")
        self.write(store, self.KEY, TWO)
        assert read_all(reader) == self.kept(store, ONE + TWO, b"")

    def test_c12_keys_are_apart(self) -> None:
        """The logs of two keys are independent, in spaces too."""
        store = self.fresh()
        keys = ("sessions/a", "sessions/b", "agents/a", "spaces/one/sessions/a", "shared/a")
        for key in keys:
            self.write(store, key, key.encode() + b"\n")
        for key in keys:
            assert read_all(store.log(key)) == self.kept(store, key.encode() + b"\n", b"")

    def test_c13_cut(self) -> None:
        """A cut removes the bytes from an offset on, and keeps them in quarantine."""
        store = self.fresh(ONE, TWO, THREE[:4])
        log, epoch = self.writer(store)
        log.cut(len(ONE + TWO), epoch)
        log.close()
        store = self.again(store)
        assert read_all(store.log(self.KEY)) == self.kept(store, ONE + TWO, b"")
        assert self.quarantined(store) == self.kept(store, [THREE[:4]], [])

    def test_c14_cut_nothing(self) -> None:
        """A cut at the end changes nothing and keeps nothing."""
        store = self.fresh(ONE)
        log = store.log(self.KEY)
        log.cut(log.size(), store.lease(self.KEY).acquire("me", 60_000))
        assert read_all(log) == self.kept(store, ONE, b"")
        assert store.documents(self.KEY).names() == []

    def test_c15_append_after_cut(self) -> None:
        """After a cut, appends continue at the cut, with the same object."""
        store = self.fresh(ONE, TWO[:3])
        log, epoch = self.writer(store)
        log.cut(len(ONE), epoch)
        log.append(THREE, 1, 1, epoch)
        log.sync()
        whole = self.kept(store, ONE, b"") + THREE
        assert read_all(log) == whole
        assert log.size() == len(whole)

    def test_c16_replace(self) -> None:
        """A replaced log has the new bytes only; the old ones are in quarantine."""
        store = self.fresh(ONE, TWO)
        log, epoch = self.writer(store)
        log.replace(iter([THREE, ONE]), epoch)
        log.append(TWO, 2, 1, epoch)
        log.sync()
        log.close()
        store = self.again(store)
        assert read_all(store.log(self.KEY)) == THREE + ONE + TWO
        assert self.quarantined(store) == self.kept(store, [ONE + TWO], [])

    def test_c17_replace_reads_the_old(self) -> None:
        """The new bytes may be made from the old ones while they are read."""
        store = self.fresh(ONE, TWO)
        log = store.log(self.KEY)
        chunks = (chunk.upper() for chunk in log.read())
        log.replace(chunks, store.lease(self.KEY).acquire("me", 60_000))
        assert read_all(log) == self.kept(store, (ONE + TWO).upper(), b"")

    def test_c18_generation(self) -> None:
        """The generation changes with a replace, and with nothing else."""
        store = self.fresh()
        log, epoch = self.writer(store)
        log.append(ONE + TWO, 0, 2, epoch)
        log.sync()
        first = log.generation()
        log.append(THREE, 2, 1, epoch)
        log.cut(len(ONE + TWO), epoch)
        assert log.generation() == first
        log.replace([ONE], epoch)
        assert log.generation() != first
        assert store.log(self.KEY).generation() == log.generation()

    def test_c19_unsaved(self) -> None:
        """After a sync nothing is unsaved; before it, the appends that wait for it are."""
        store = self.fresh()
        log, epoch = self.writer(store)
        log.append(ONE, 0, 1, epoch)
        log.sync()
        assert log.unsaved() == b""
        log.append(TWO, 1, 1, epoch)
        log.append(THREE, 2, 1, epoch)
        if store.capabilities.defers:  # some of it may have gone by itself already
            assert (TWO + THREE).endswith(log.unsaved())
        else:
            assert log.unsaved() == (TWO + THREE if store.capabilities.syncs else b"")
        log.sync()
        assert log.unsaved() == b""

    def test_c20_close(self) -> None:
        """Closing a log is harmless twice, and it can be read and appended to again."""
        store = self.fresh()
        log, epoch = self.writer(store)
        log.append(ONE, 0, 1, epoch)
        log.close()
        log.close()
        assert read_all(log) == ONE
        log.append(TWO, 1, 1, epoch)
        log.sync()
        assert read_all(log) == ONE + TWO

    def test_c21_reading_while_appending(self) -> None:
        """A reader beside a writer sees a prefix of what was appended, never anything else."""
        store = self.fresh()
        log, epoch = self.writer(store)
        lines = [b"%06d %s\n" % (number, b"x" * (number % 91)) for number in range(400)]
        done = threading.Event()

        def work(number: int) -> None:
            if number:
                reader = store.log(self.KEY)
                while not done.is_set():
                    assert b"".join(lines).startswith(read_all(reader))
                return
            try:
                for seq, line in enumerate(lines):
                    log.append(line, seq, 1, epoch)
                log.sync()
            finally:
                done.set()

        run_together(3, work)
        assert read_all(store.log(self.KEY)) == b"".join(lines)


class LeaseContract(ContractBase):
    """Contracts 22 to 28."""

    def test_c22_epoch_grows(self) -> None:
        """Each acquisition of the lease has a higher epoch than the previous one."""
        store = self.fresh()
        epochs = []
        for lease in [store.lease(self.KEY) for _ in range(3)]:
            epochs.append(lease.acquire("me", 60_000))
            lease.release()
        assert epochs[0] >= 1
        assert (epochs[0] < epochs[1] < epochs[2]) == self.kept(store, True, False)

    def test_c23_epoch_survives_reopening(self) -> None:
        """The epoch grows also when the store was opened again in between."""
        store = self.fresh(ONE)
        lease = store.lease(self.KEY)
        first = lease.acquire("me", 60_000)
        lease.release()
        lease = self.again(store).lease(self.KEY)
        assert (lease.acquire("me", 60_000) > first) == self.kept(store, True, False)

    def test_c24_locked(self) -> None:
        """While one has the lease another gets Locked, with the known details of the holder."""
        store = self.fresh()
        first, other = store.lease(self.KEY), store.lease(self.KEY)
        first.acquire("me", 60_000)
        assert refused(Locked, other.acquire, "you", 60_000).session_id == "alpha"

    def test_c25_release(self) -> None:
        """A released lease can be taken; releasing twice, or without holding it, is harmless."""
        store = self.fresh()
        first, second = store.lease(self.KEY), store.lease(self.KEY)
        second.release()
        first.acquire("me", 60_000)
        second.release()  # not its own: the holder keeps it
        refused(Locked, second.acquire, "you", 60_000)
        first.release()
        first.release()
        assert second.acquire("you", 60_000) >= 1

    def test_c26_acquire_again(self) -> None:
        """The holder may ask again: it keeps its epoch, and can renew."""
        store = self.fresh()
        lease = store.lease(self.KEY)
        epoch = lease.acquire("me", 60_000)
        assert lease.acquire("me", 60_000) == epoch
        lease.renew(60_000)
        assert lease.acquire("me", 60_000) == epoch

    def test_c27_leases_are_apart(self) -> None:
        """The leases of different keys are independent."""
        store = self.fresh()
        keys = ("sessions/a", "sessions/b", "agents/a", "spaces/one/sessions/a")
        for key in keys:
            assert store.lease(key).acquire("me", 60_000) > 0

    def test_c28_one_of_many(self) -> None:
        """Of several concurrent requests, one gets the lease."""
        store = self.fresh()
        leases, got = [store.lease(self.KEY) for _ in range(8)], list[int]()

        def work(number: int) -> None:
            with contextlib.suppress(Locked):
                got.append(leases[number].acquire(f"thread {number}", 60_000))

        run_together(8, work)
        assert len(got) == 1
