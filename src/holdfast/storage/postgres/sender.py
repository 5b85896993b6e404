"""Appending to a PostgreSQL store: one fenced statement for all logs that have lines."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import StoreError, Unavailable
from holdfast.storage._deferred import Dispatch, Packet, SendingLog, joined, next_batch
from holdfast.storage._leases import stale
from holdfast.storage._pieces import unpacked, zstd_module
from holdfast.storage.postgres.link import ServerLink
from holdfast.storage.postgres.tables import LOCKED, READ, repack

if TYPE_CHECKING:
    from uuid import UUID

    from asyncpg import Connection

# A head that moved on, or belongs to another epoch, gives no row, and then nothing of that log is stored. One key may
# occur twice, from a writer that lost it and from the one that has it now: so each row is identified by its number, and
# not by its key. The bytes are not in what is sorted and joined: they are read once, when they are stored.
_APPEND = """
WITH input AS (
    SELECT n.id, i.epoch, i.start, i.size, i.number
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[])
        WITH ORDINALITY AS i(key, epoch, start, size, number)
    JOIN names n USING (key)
    ORDER BY n.id
), moved AS (
    UPDATE heads h
    SET size = h.size + i.size, modified = clock_timestamp(),
        version = pg_current_xact_id(), generation = greatest(h.generation, 1)
    FROM input i
    WHERE h.id = i.id AND h.epoch = i.epoch AND h.size = i.start AND NOT h.archived
    RETURNING h.id, h.generation, i.start, i.size, i.number
), stored AS (
    INSERT INTO pieces (id, generation, start, size, data, packed)
    SELECT m.id, m.generation, m.start, m.size, ($5::bytea[])[m.number],
        ($6::boolean[])[m.number]
    FROM moved m
)
SELECT m.number, m.id FROM moved m
"""
# The same for lines of one log whose id is known: the server then reads one partition only. An outdated id has another
# epoch, or no head at all, and gives no row.
_APPEND_ONE = """
WITH moved AS (
    UPDATE heads
    SET size = size + $4, modified = clock_timestamp(),
        version = pg_current_xact_id(), generation = greatest(generation, 1)
    WHERE id = $1 AND epoch = $2 AND size = $3 AND NOT archived
    RETURNING generation
)
INSERT INTO pieces (id, generation, start, size, data, packed)
SELECT $1, m.generation, $3, $4, $5, $6 FROM moved m
RETURNING true
"""
_KNOWN_MAX = 4_096


class LinkSender(Dispatch):
    """Sends on the thread of the link itself: a waiter for a batch wakes one thread, not two."""

    def __init__(self, link: ServerLink) -> None:
        super().__init__("holdfast-sender")
        self._link = link
        self._is_called = self._is_driving = False
        self.known: dict[str, UUID] = {}
        """The ids of logs by their keys; an outdated one is harmless."""
        self._send = partial(send, link, known=self.known)

    def close(self) -> None:
        """Return once everything in the queue was sent, or has failed."""
        self._renew_after_fork()
        with self._lock:
            while self._is_at_work:
                self._condition.wait()

    @property
    def _is_at_work(self) -> bool:
        return self._is_called or self._is_driving

    def _start(self) -> bool:
        if not self._is_at_work:
            try:
                self._run()
            except RuntimeError:  # the interpreter is about to end
                return False
            self._is_called = True
        return True

    def _run(self) -> None:
        """Run on the thread of the link instead of one of its own."""
        self._link.begin(self._drive)

    def _forget(self) -> None:
        super()._forget()
        self._is_called = self._is_driving = False

    def _serve(self) -> None:
        said = "PostgreSQL cannot be reached any more: no thread can be started"
        while logs := [log for log in tuple(self._waiting) if log.has_waiting]:
            self._settle(next_batch(logs)[0], Unavailable(said))

    async def _drive(self) -> None:
        with self._lock:
            self._is_called = False
            if self._is_driving:
                return  # the caller was interrupted, and called again
            self._is_driving = True
        try:
            while logs := self._next():
                batch, packets = next_batch(logs)
                try:
                    results: list[StoreError | None] | Exception = await self._send(packets)
                except CancelledError:
                    self._settle(batch, Unavailable("the store was closed meanwhile", outcome="unknown"))
                    raise
                except Exception as error:  # noqa: BLE001 - it belongs to those who wait
                    results = error
                self._settle(batch, results)
        except CancelledError:
            # The link was closed meanwhile: the rest is sent by the next thread.
            with self._lock:
                self._is_driving = False
                begun = not self._ready() or self._start()
                self._condition.notify_all()
            if not begun:
                self._serve()
            raise

    def _next(self) -> list[SendingLog]:
        with self._lock:
            logs = self._ready()
            if not logs:
                self._is_driving = False
                self._condition.notify_all()
            return logs


async def send(
    link: ServerLink, packets: Sequence[Packet], known: dict[str, UUID] | None = None
) -> list[StoreError | None]:
    """Store a batch, and check what a broken connection did. ``known`` keeps the ids of logs between batches."""
    ids = {} if known is None else known
    runs = joined(packets)
    whole = [run[0]._replace(data=b"".join(packet.data for packet in run)) for run in runs]
    changed: set[str] = set()
    found = await link.tried(lambda connection: _send(connection, whole, ids, changed))
    link.say(changed)
    return [error for run, error in zip(runs, found, strict=True) for _ in run]


async def _send(
    connection: Connection, packets: list[Packet], known: dict[str, UUID], changed: set[str]
) -> list[StoreError | None]:
    # It may be the second try after a lost connection. What the first one stored does not fit a second time, gives no
    # row, and is then found in its place.
    id = known.get(packets[0].key) if len(packets) == 1 else None
    if id is not None:  # the only packet of a batch, by the id that its log had before
        at = (packets[0].epoch, packets[0].start, len(packets[0].data))
        if await connection.fetchval(_APPEND_ONE, id, *at, *pack(packets[0].data)):
            changed.add(str(id))
            return [None]
    rows = await connection.fetch(_APPEND, *_columns(packets))
    for row in rows:
        note_id(known, packets[row["number"] - 1].key, row["id"])
    changed.update(str(row["id"]) for row in rows)
    stored = {row["number"] for row in rows}
    return [
        None if number in stored else await _outcome(connection, packet) for number, packet in enumerate(packets, 1)
    ]


def note_id(known: dict[str, UUID], key: str, id: UUID) -> None:
    """Keep the id of a key, dropping old ones."""
    if len(known) > _KNOWN_MAX:
        known.clear()
    known[key] = id


def _columns(packets: list[Packet]) -> tuple[list[Any], ...]:
    pieces = [pack(packet.data) for packet in packets]
    return (
        [packet.key for packet in packets],
        [packet.epoch for packet in packets],
        [packet.start for packet in packets],
        [len(packet.data) for packet in packets],
        [data for data, _ in pieces],
        [is_packed for _, is_packed in pieces],
    )


async def _outcome(connection: Connection, packet: Packet) -> StoreError | None:
    """Return why a packet was not stored; None if it is there, stored by an earlier try."""
    async with connection.transaction():
        # Locked: another process that takes the key over meanwhile must not lose what is added then.
        head = await connection.fetchrow(LOCKED, packet.key)
        if head is None:
            return stale(packet.key)
        if head["archived"] and head["epoch"] == packet.epoch:
            await repack(connection, head, archived=False)
            rows = await connection.fetch(_APPEND, *_columns([packet]))
            return None if rows else stale(packet.key)
        if head["size"] < packet.start + len(packet.data):
            return stale(packet.key)
        for row in await connection.fetch(READ, head["id"], head["generation"], packet.start, 1):
            data = bytes(row["data"])
            plain = unpacked(data, row["size"]) if row["packed"] else data
            if row["start"] == packet.start and plain == packet.data:
                return None
        return stale(packet.key)


# Pieces that a PostgreSQL server would store uncompressed, packed before they are sent.
# The server compresses only rows of more than two thousand bytes, and most turns are shorter: then each byte is sent,
# written to its log, and kept in a page. Packed, a turn takes about half of that; packing takes a hundredth of the time
# of an append, and unpacking about as long as reading a row.
_LEAST_BYTES = 1_000  # shorter ones save little, and take as long to unpack
_MOST_BYTES = 1_960  # longer ones are compressed by the server
_WORTH = 0.8
_LEVEL = 1
_WINDOW_LOG = 11  # more than the longest of them, and a compressor that takes little memory

# One for each thread: a child process must not take over one that was in use.
_of_thread = threading.local()


def pack(data: bytes) -> tuple[bytes, bool]:
    """Return what to store of a piece, and whether that is packed."""
    size = len(data)
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        return data, False
    compressor = _compressor()
    compressor.set_pledged_input_size(size)  # the frame then has the size, which is checked at the end
    packed: bytes = compressor.compress(data, compressor.FLUSH_FRAME)
    return (packed, True) if len(packed) < size * _WORTH else (data, False)


def _compressor() -> Any:
    found = getattr(_of_thread, "compressor", None)
    # A compressor that was interrupted in a frame cannot be used any more.
    if found is None or found.last_mode != found.FLUSH_FRAME:
        zstd = zstd_module()
        parameter = zstd.CompressionParameter
        options = {parameter.compression_level: _LEVEL, parameter.window_log: _WINDOW_LOG}
        found = _of_thread.compressor = zstd.ZstdCompressor(options=options)
    return found
