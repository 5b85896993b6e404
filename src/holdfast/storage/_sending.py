"""Appends that are taken now and sent later: for stores on the other side of a network.

An append puts its bytes into the log's queue and returns. One thread of the store takes what all
logs have waiting and hands it to the backend as one batch, so that many sessions share each round
trip. What the backend cannot store kills that log for good: its next append or sync raises, and
``unsaved()`` has what was accepted and is not known to be stored.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from holdfast.errors import StoreError, Unavailable
from holdfast.storage.base import Log
from holdfast.storage.disk import forks

__all__ = ["Packet", "Sender", "SendingLog"]

_BATCH_BYTES_MAX = 4 << 20
_WAITING_BYTES_MAX = 64 << 20
_WAIT_FOR_ROOM_S = 30.0


class Packet(NamedTuple):
    """Lines of one log that are to be stored together: all of them or none."""

    key: str
    epoch: int
    start: int
    """The offset at which they belong: whoever finds the log at another length did not send it."""
    data: bytes


Send = Callable[[Sequence[Packet]], list[StoreError | None]]
"""Store a batch; for each packet None once it is stored, or why it is not and never will be.

Packets of one log come in order and next to each other; after one that failed the rest of that log
must fail too. It blocks, and tries again by itself as long as that makes sense.
"""


class Sender:
    """The one thread of a store that sends for all of its logs."""

    def __init__(self, send: Send, name: str) -> None:
        self._send = send
        self._name = name
        self._condition = threading.Condition()
        self._waiting: dict[SendingLog, None] = {}
        self._bytes = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._forks = forks.count

    def submit(self, log: SendingLog, size: int) -> None:
        """There is something to send. Waits only while far too much is waiting already."""
        self._renew_after_fork()
        with self._condition:
            if self._bytes > _WAITING_BYTES_MAX:
                self._wait_for_room()
            self._bytes += size
            self._waiting[log] = None
            self._start()
            self._condition.notify()

    def close(self) -> None:
        """Send what is waiting, then stop."""
        self._renew_after_fork()
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _wait_for_room(self) -> None:
        until = time.monotonic() + _WAIT_FOR_ROOM_S
        while self._bytes > _WAITING_BYTES_MAX:
            left = until - time.monotonic()
            if left <= 0:
                raise Unavailable(
                    f"{self._bytes:,} bytes are waiting to be sent, and the store takes none",
                    remedy="See why the store does not answer; nothing that was accepted is lost.",
                )
            self._condition.wait(left)

    def _renew_after_fork(self) -> None:
        """In a forked child there is no thread, and nothing that it would have to send."""
        if self._forks != forks.count:
            self._forks = forks.count
            self._condition, self._thread = threading.Condition(), None
            self._waiting, self._bytes = {}, 0

    def _start(self) -> None:
        self._closed = False
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            with contextlib.suppress(RuntimeError):  # the interpreter is about to end
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while logs := self._wait():
            batch = _next_batch(logs)
            packets = [packet for _, some in batch for packet in some]
            try:
                results = self._send(packets)
            except StoreError as error:
                results = [error] * len(packets)
            except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
                results = [Unavailable(f"sending failed: {error}")] * len(packets)
            self._settle(batch, results)

    def _wait(self) -> list[SendingLog]:
        """The logs that have something to send, whoever waited longest first; none at the end."""
        with self._condition:
            while True:
                # One that was served goes to the end: a busy log does not starve the others.
                self._waiting = {log: None for log in self._waiting if log.has_waiting}
                if self._waiting:
                    return list(self._waiting)
                if self._closed:
                    self._thread = None
                    return []
                self._condition.wait()

    def _settle(
        self, batch: list[tuple[SendingLog, list[Packet]]], results: list[StoreError | None]
    ) -> None:
        done = iter(results)
        sent = 0
        for log, packets in batch:
            errors = [next(done) for _ in packets]
            sent += log.settle(packets, errors)
        with self._condition:
            self._bytes -= sent
            for log, _ in batch:
                self._waiting.pop(log, None)
                self._waiting[log] = None
            self._condition.notify_all()


def _next_batch(logs: Iterable[SendingLog]) -> list[tuple[SendingLog, list[Packet]]]:
    batch: list[tuple[SendingLog, list[Packet]]] = []
    room = _BATCH_BYTES_MAX
    for log in logs:
        packets = log.take(room)
        if packets:
            batch.append((log, packets))
            room -= sum(len(packet.data) for packet in packets)
        if room <= 0:
            break
    return batch


class SendingLog(Log):
    """A log with a queue before it. A backend adds how its bytes are read and changed."""

    def __init__(self, sender: Sender, key: str) -> None:
        self._sender = sender
        self._key = key
        self._queue: list[Packet] = []
        self._end: int | None = None
        self._failed: StoreError | None = None
        self._state = threading.Condition()

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Accept the bytes. Raises what became of earlier ones, if they could not be stored."""
        if self._end is None:
            end = self.stored_size()
            with self._state:
                self._end = end if self._end is None else self._end
        with self._state:
            self._check()
            packet = Packet(self._key, epoch, self._end, bytes(data))
            self._queue.append(packet)
            self._end += len(data)
        self._sender.submit(self, len(data))

    def sync(self) -> None:
        """Return once everything that was accepted here is stored."""
        with self._state:
            while self._queue and self._failed is None:
                self._state.wait()
            self._check()

    def read(self, start: int = 0) -> Iterator[bytes]:
        """What is stored, after what waits here has been sent."""
        self._settled()
        yield from self.stored(start)

    def read_tail(self, max_bytes: int) -> tuple[int, bytes]:
        """The last bytes."""
        size = self.size()
        start = max(0, size - max_bytes)
        return start, b"".join(self.stored(start))

    def size(self) -> int:
        """How many bytes are stored, after what waits here has been sent."""
        self._settled()
        return self.stored_size()

    def cut(self, offset: int, epoch: int) -> None:
        """Send everything, then cut."""
        self.sync()
        self.cut_stored(offset, epoch)
        self._end = None

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Send everything, then replace."""
        self.sync()
        self.replace_stored(chunks, epoch)
        self._end = None

    def unsaved(self) -> bytes:
        """What was accepted and is not known to be stored."""
        with self._state:
            return b"".join(packet.data for packet in self._queue)

    def close(self) -> None:
        """Nothing is held open; what waits is still sent."""
        if self._failed is None and not self._queue:
            self._end = None

    @property
    def has_waiting(self) -> bool:
        """Whether there is something to send."""
        return bool(self._queue) and self._failed is None

    def take(self, room: int) -> list[Packet]:
        """For the sender: packets up to so many bytes, at least one; they stay in the queue."""
        with self._state:
            if self._failed is not None:
                return []
            taken: list[Packet] = []
            for packet in self._queue:
                if taken and len(packet.data) > room:
                    break
                taken.append(packet)
                room -= len(packet.data)
            return taken

    def settle(self, packets: list[Packet], errors: list[StoreError | None]) -> int:
        """For the sender: what became of the packets; how many bytes wait no more."""
        with self._state:
            stored = 0
            for error in errors:
                if error is not None:
                    self._failed = self._failed or error
                    break
                stored += 1
            size = sum(len(packet.data) for packet in packets[:stored])
            del self._queue[:stored]
            if self._failed is not None:
                # They stay in the queue as unsaved, but nobody is going to send them.
                size += sum(len(packet.data) for packet in self._queue)
            self._state.notify_all()
            return size

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed.with_traceback(None)

    def _settled(self) -> None:
        """Wait for what is under way; a log that failed can still be read as far as it came."""
        with self._state:
            while self._queue and self._failed is None:
                self._state.wait()

    @abstractmethod
    def stored(self, start: int) -> Iterator[bytes]:
        """The stored bytes from an offset on."""

    @abstractmethod
    def stored_size(self) -> int:
        """How many bytes are stored."""

    @abstractmethod
    def cut_stored(self, offset: int, epoch: int) -> None:
        """As ``Log.cut`` says, with nothing waiting."""

    @abstractmethod
    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """As ``Log.replace`` says, with nothing waiting."""
