"""Appends that are accepted now and sent later: for stores on the other side of a network.

An append puts its bytes into the log's queue and returns. One thread of the store takes the queued
bytes of all logs and hands them to the backend as one batch, so that many sessions share each round
trip. A packet that the backend cannot store kills its log for good: the next append or sync raises, and
``unsaved()`` has what was accepted and is not known to be stored. Only a full store does not: the queue
is kept, the next append or sync raises StoreFull, and the one after that tries again.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

from holdfast.errors import StoreError, StoreFull, Unavailable
from holdfast.storage._worker import Signal, Worker
from holdfast.storage.base import Log
from holdfast.storage.disk import forks

_BATCH_BYTES_MAX = 4 << 20
_WAITING_BYTES_MAX = 64 << 20
_WAIT_FOR_ROOM_S = 30.0


class Packet(NamedTuple):
    """Lines of one log that are stored together: all of them or none."""

    key: str
    epoch: int
    start: int  # the offset at which they belong: if the log has another length there, another writer was active
    data: bytes

    @property
    def end(self) -> int:
        """The offset after them."""
        return self.start + len(self.data)


def joined(packets: Sequence[Packet]) -> list[list[Packet]]:
    """Return the packets in runs that may be stored as one: of one log and epoch, each after the last.

    Two objects of one log may have taken lines for the same place. They are never joined: the
    second one must find the place taken, and fail.
    """
    runs: list[list[Packet]] = []
    for packet in packets:
        last = runs[-1][-1] if runs else None
        if last and packet[:3] == (last.key, last.epoch, last.start + len(last.data)):
            runs[-1].append(packet)
        else:
            runs.append([packet])
    return runs


Send = Callable[[Sequence[Packet]], list[StoreError | None]]
"""Stores a batch; returns for each packet None once it is stored, or the error because of which it never will be.

Packets of one log come in order and next to each other; after one that failed the rest of that log
must fail too. It blocks, and retries by itself as long as that makes sense.
"""


class Dispatch(Worker):
    """The queued bytes of all logs of a store. Subclasses add the sending."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._waiting: dict[SendingLog, None] = {}
        self._bytes = 0

    def wait_for_room(self) -> None:
        """Return at once, unless far too much is queued already. Raises Unavailable."""
        if self._bytes <= _WAITING_BYTES_MAX:
            return
        self._renew_after_fork()
        until = time.monotonic() + _WAIT_FOR_ROOM_S
        with self._lock:
            while self._bytes > _WAITING_BYTES_MAX:
                left = until - time.monotonic()
                if left <= 0:
                    raise Unavailable(
                        f"{self._bytes:,} bytes are waiting to be sent, and the store takes none",
                        remedy="See why the store does not answer; nothing that was accepted is lost.",
                    )
                self._condition.wait(left)

    def submit(self, log: SendingLog, size: int = 0) -> None:
        """Note that a log has something to send, of which ``size`` bytes are new."""
        if self._forks != forks.count:
            self._renew_after_fork()
        with self._lock:
            # It may be sent already: then its bytes were subtracted before they are added here.
            self._bytes += size
            if self._is_at_work and log in self._waiting:
                return  # it is checked again before the thread rests
            self._closed = False
            started = self._start()
            self._condition.notify_all()
            # Last: after an interrupt here the next caller wakes the thread again.
            self._waiting[log] = None
        if not started:
            self._serve()

    def catch_up(self, key: str | None = None) -> None:
        """Wait until everything accepted before the call, of all logs or of one, was sent or has failed."""
        self._renew_after_fork()
        with self._lock:
            logs = [log for log in self._waiting if key is None or log.key == key]
        for log in logs:
            log.catch_up()

    @property
    def _is_at_work(self) -> bool:
        return self._thread is not None

    def _forget(self) -> None:
        self._waiting, self._bytes = {}, 0

    @abstractmethod
    def _serve(self) -> None:
        """Send everything here and now, if there can be no thread."""

    def _ready(self) -> list[SendingLog]:
        """Return the logs that have something to send, the longest waiting first; with the condition held."""
        # A log that was served goes to the end: a busy one does not starve the others.
        self._waiting = {log: None for log in self._waiting if log.has_waiting}
        return list(self._waiting)

    def _settle(self, batch: Batch, results: list[StoreError | None] | BaseException) -> None:
        """Report the results to each log; an error applies to all of them."""
        count = sum(len(packets) for _, packets in batch)
        if isinstance(results, list) and len(results) != count:
            results = RuntimeError("not every packet was answered for")
        if isinstance(results, BaseException):
            error = results
            if not isinstance(error, StoreError):
                error = Unavailable(f"sending failed: {str(error) or type(error).__name__}", outcome="unknown")
            results = [error] * count
        done = iter(results)
        sent = sum(log.settle(packets, [next(done) for _ in packets]) for log, packets in batch)
        with self._lock:
            self._bytes -= sent
            for log, _ in batch:
                self._waiting.pop(log, None)
                self._waiting[log] = None
            self._condition.notify_all()


class Sender(Dispatch):
    """The one thread of a store that sends for all of its logs; when closed, it sends what is queued."""

    def __init__(self, send: Send, name: str) -> None:
        super().__init__(name)
        self._send = send

    def _run(self) -> None:
        while logs := self._wait():
            self._send_some(logs)

    def _serve(self) -> None:
        while logs := [log for log in tuple(self._waiting) if log.has_waiting]:
            self._send_some(logs)

    def _send_some(self, logs: list[SendingLog]) -> None:
        batch, packets = next_batch(logs)
        try:
            results: list[StoreError | None] | BaseException = self._send(packets)
        except BaseException as error:  # noqa: BLE001 - it belongs to those who wait
            results = error
        self._settle(batch, results)

    def _wait(self) -> list[SendingLog]:
        """Return the logs that have something to send; none at the end."""
        with self._lock:
            while True:
                if logs := self._ready():
                    return logs
                if self._closed:
                    self._thread = None
                    return []
                self._condition.wait()


def next_batch(logs: Iterable[SendingLog]) -> tuple[Batch, list[Packet]]:
    """Return the packets to send together, of each log as many as there is room for; and all of them in one list."""
    batch: Batch = []
    room = _BATCH_BYTES_MAX
    for log in logs:
        if packets := log.take(room):
            batch.append((log, packets))
            room -= sum(len(packet.data) for packet in packets)
        if room <= 0:
            break
    return batch, [packet for _, packets in batch for packet in packets]


Batch = list[tuple["SendingLog", list[Packet]]]


class SendingLog(Log):
    """A log with a queue before it. A backend adds how its bytes are read and changed."""

    def __init__(self, sender: Dispatch, key: str) -> None:
        self._sender = sender
        self.key = key
        self._queue: list[Packet] = []
        self._end: int | None = None
        """The stored size, once it is known; queued bytes come after it."""
        self._failed: StoreError | None = None
        self._full: StoreFull | None = None
        self._state = Signal()
        self._lock = self._state.lock
        self._forks = forks.count

    def append(self, data: bytes, first_seq: int, count: int, epoch: int) -> None:
        """Accept the bytes. Raises the error of earlier ones, if they could not be stored."""
        if self._forks != forks.count:
            self._renew_after_fork()
        self._check()
        if self._end is None:
            end = self.stored_size()
            with self._lock:
                self._end = end if self._end is None else self._end
        # Before they are accepted: refused bytes must not be sent later.
        self._sender.wait_for_room()
        with self._lock:
            self._check()
            # The queue alone determines the end: an interrupt could come between it and a separate number.
            self._queue.append(Packet(self.key, epoch, self._accepted(), bytes(data)))
        self._sender.submit(self, len(data))

    def sync(self) -> None:
        """Return once everything that was accepted here is stored."""
        self._settled()
        self._check()

    def read(self, start: int = 0) -> Iterator[bytes]:
        """Yield what is stored, after the queue was sent."""
        self._settled()
        yield from self.stored(start)

    def size(self) -> int:
        self._settled()
        return self.stored_size()

    def cut(self, offset: int, epoch: int) -> None:
        self.sync()
        self.cut_stored(offset, epoch)
        self._end = None

    def replace(self, chunks: Iterable[bytes], epoch: int) -> None:
        self.sync()
        self.replace_stored(chunks, epoch)
        self._end = None

    def unsaved(self) -> bytes:
        """Return the bytes that were accepted and are not known to be stored."""
        self._renew_after_fork()
        with self._lock:
            return b"".join(packet.data for packet in self._queue)

    def close(self) -> None:
        """Do nothing that loses bytes: the queue is still sent."""
        if self._failed is None and not self._queue:
            self._end = None

    def catch_up(self) -> None:
        """Wait until everything accepted before the call was sent, or has failed."""
        with self._lock:
            end = self._accepted()
            while self.has_waiting and self._queue[0].start < end:
                self._state.wait()

    @property
    def has_waiting(self) -> bool:
        return bool(self._queue) and self._failed is None and self._full is None

    def take(self, room: int) -> list[Packet]:
        """Return packets of at most that many bytes, at least one, to the sender; they stay in the queue."""
        with self._lock:
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
        """Take the results of packets from the sender; return the number of bytes removed from the queue."""
        failed = next((error for error in errors if error is not None), None)
        stored = len(errors) if failed is None else errors.index(failed)
        with self._lock:
            if failed is not None:
                # A copy of the error: it carries this log's unsaved bytes, and other logs failed with it too.
                mine = copy(failed)
                mine.fields = dict(failed.fields)
                mine.__cause__ = failed.__cause__
                if isinstance(mine, StoreFull):
                    self._full = mine
                else:
                    self._failed = mine
            size = sum(len(packet.data) for packet in packets[:stored])
            if stored:
                self._end = packets[stored - 1].end
                del self._queue[:stored]
            if self._failed is not None:
                # They stay in the queue as unsaved, but will not be sent.
                size += sum(len(packet.data) for packet in self._queue)
            self._state.notify_all()
            return size

    def _accepted(self) -> int:
        """Return where the log ends with all accepted bytes, as far as it is known."""
        return self._queue[-1].end if self._queue else self._end or 0

    def _check(self) -> None:
        if self._failed is None and self._full is None:
            return
        with self._lock:
            if self._failed is not None:
                raise self._failed.with_traceback(None)
            full, self._full = self._full, None
            if full is not None:
                raise full  # raised once; the next call tries again

    def _settled(self) -> None:
        """Wait for what is being sent; a failed log can still be read as far as it was stored."""
        self._renew_after_fork()
        if self.has_waiting:
            self._sender.submit(self)  # it may have been full at the last try
        with self._lock:
            while self.has_waiting:
                self._state.wait()

    def _renew_after_fork(self) -> None:
        """Empty the queue in a forked child: the parent sends it."""
        if self._forks != forks.count:
            self._forks = forks.count
            self._state = Signal()
            self._lock = self._state.lock
            self._queue, self._end = [], None

    @abstractmethod
    def stored(self, start: int) -> Iterator[bytes]:
        """Yield the stored bytes from an offset on."""

    @abstractmethod
    def stored_size(self) -> int:
        """Return the number of stored bytes."""

    @abstractmethod
    def cut_stored(self, offset: int, epoch: int) -> None:
        """Implement ``Log.cut``, with an empty queue."""

    @abstractmethod
    def replace_stored(self, chunks: Iterable[bytes], epoch: int) -> None:
        """Implement ``Log.replace``, with an empty queue."""
