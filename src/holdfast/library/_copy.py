"""Copying sessions and agents to another store: resumable, and verified by checksum."""

from __future__ import annotations

import builtins
import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import msgspec

from holdfast.errors import Conflict, Damaged, HoldfastError, UsageError
from holdfast.library._core import LEASE_MS, Core, Progress
from holdfast.model import LazyDecoder, named_blobs, running_checksum
from holdfast.security import KEY_DOCUMENT
from holdfast.storage import MUST_NOT_EXIST, Documents, Log, Store, check_made, etag_of, open_store

_PIECE_BYTES = 1 << 20
# Kept with an agent's documents: the digests of those that came by a copy, so that the next copy may replace them.
_BROUGHT = "copied.json"


class Copied(msgspec.Struct, kw_only=True):
    """The result of a copy."""

    sessions: builtins.list[str]
    """Sessions that are now the same in the other store."""
    unchanged: builtins.list[str]
    """Sessions of which the other store already had everything."""
    agents: builtins.list[str]
    size_bytes: int
    failed: dict[str, str]
    """Sessions that could not be copied, and why; the other store keeps what it had of them."""


def copy_to(
    core: Core, other: str | os.PathLike[str] | Store | Core, ids: Collection[str] | None, progress: Progress | None
) -> Copied:
    core.check_open()
    target, mine = _opened(other)
    if target.identity == core.inner.identity:
        raise UsageError("the other store is this one")
    try:
        return _copy_all(core, target, ids, progress)
    finally:
        if mine:
            target.close()


def _copy_all(core: Core, target: Store, ids: Collection[str] | None, progress: Progress | None) -> Copied:
    result = Copied(sessions=[], unchanged=[], agents=[], size_bytes=0, failed={})
    keys = None if ids is None else [core.stored(id) for id in dict.fromkeys(ids)]

    def sizes() -> Iterator[tuple[str, int]]:
        """Yield the keys, each with the length of its log; a whole store is listed each time, never kept in memory."""
        if keys is None:
            return ((entry.key, entry.size) for entry in core.inner.entries())
        return ((key, core.inner.log(key).size()) for key in keys)

    total = 0 if progress is None else sum(size for _, size in sizes())
    done = 0
    for key, length in sizes():
        id = key.rpartition("/")[2]
        done += length
        try:
            size = _copy_key(core.inner, target, key)
            (result.sessions if size else result.unchanged).append(id)
            result.size_bytes += size
        except HoldfastError as error:
            result.failed[id] = error.message
        if progress is not None:
            progress(done, max(total, done))
    if ids is None:
        result.sessions.sort()
        result.unchanged.sort()
    for key in sorted(core.inner.folders("agents/")) if ids is None else ():
        id = key.rpartition("/")[2]
        try:
            result.size_bytes += _copy_lasting(core.inner.documents(key), target.documents(key))
            result.agents.append(id)
        except HoldfastError as error:
            result.failed[f"agent {id}"] = error.message
    return result


def _opened(other: str | os.PathLike[str] | Store | Core) -> tuple[Store, bool]:
    """Return the other store, and whether it was opened here."""
    if isinstance(other, Core):
        return other.inner, False  # sealed sessions are copied sealed
    if isinstance(other, Store):
        from holdfast.session import within

        return within(other), False
    store = open_store(other)
    store.check()
    return store, True


def _copy_key(source: Store, target: Store, key: str) -> int:
    """Copy one session; return how many bytes were missing there."""
    log, other = source.log(key), target.log(key)
    size, there = _whole_size(log), _compared(key, log, other)
    check_made(target, key)
    with target.lease(key).held("copy", LEASE_MS) as epoch:
        if other.size() != there:  # another process was quicker
            there = _compared(key, log, other)
        _copy_documents(source.documents(key), target.documents(key), KEY_DOCUMENT)
        # Blobs go before the lines that refer to them; snapshots, which describe the lines, go after.
        copied = _copy_documents(source.documents(key), target.documents(key), "blobs/")
        sent = 0
        for piece in _lines(log, there, size):
            other.append(piece, 0, piece.count(b"\n"), epoch)
            sent += len(piece)
        other.sync()
        copied += _copy_documents(source.documents(key), target.documents(key))
        arrived = running_checksum(other.read(), size) == running_checksum(log.read(), size)
        if not arrived or other.size() != size:
            raise Damaged(f"{key.rpartition('/')[2]} did not arrive as it was sent")
        other.close()
    if source.is_archived(key) and target.capabilities.archives and not target.is_archived(key):
        target.archive(key)
    return sent + copied


def _compared(key: str, log: Log, other: Log) -> int:
    """Return how many bytes of the log the other store already has. Raises Conflict if the two differ."""
    here, there = _whole_size(log), other.size()
    common = min(here, there)
    if running_checksum(log.read(), common) != running_checksum(other.read(), common):
        raise Conflict(f"{key.rpartition('/')[2]} is another session in the other store")
    if there > here:
        raise Conflict(f"{key.rpartition('/')[2]} went on in the other store")
    return there


def _copy_documents(source: Documents, target: Documents, prefix: str = "") -> int:
    """Copy the documents of a log that is identical in the other store; they replace those there."""
    size = 0
    for name in source.names(prefix):
        found, there = source.get(name), target.get(name)
        if found is not None and (there is None or there[0] != found[0]):
            target.put(name, found[0])
            size += len(found[0])
    return size


def _copy_lasting(source: Documents, target: Documents) -> int:
    """Copy the documents of an agent, which change; return how many bytes were missing there.

    Raises Conflict, after all others, for those that someone changed over there: such a one is
    neither what is here nor what an earlier copy brought.
    """
    size, differing = 0, []
    for name in source.names():
        found, there = source.get(name), target.get(name)
        if name == _BROUGHT or found is None or (there and there[0] == found[0]):
            continue
        brought: dict[str, builtins.list[str]] = {}
        with contextlib.suppress(msgspec.MsgspecError):
            noted = target.get(_BROUGHT)
            brought = msgspec.json.decode(noted[0], type=dict[str, builtins.list[str]]) if noted else {}
        if there and etag_of(there[0]) not in brought.get(name, ()):
            differing.append(name)
            continue
        # Written before the document, so that an interrupted copy does not look like a change.
        digests = [etag_of(data[0]) for data in (there, found) if data]
        target.put(_BROUGHT, msgspec.json.encode({**brought, name: digests}))
        target.put(name, found[0], if_match=there[1] if there else MUST_NOT_EXIST)
        size += len(found[0])
    if differing:
        named = " and another ".join(differing)
        raise Conflict(f"the other store has another {named}, which was left as it is there")
    return size


def _whole_size(log: Log) -> int:
    """Return the size of the log's complete lines: a writer may be in the middle of one."""
    size = log.size()
    tail = _PIECE_BYTES
    while True:
        start, data = log.read_tail(min(tail, size))
        end = data.rfind(b"\n") + 1
        if end or not start:
            return start + end
        tail *= 2


def _lines(log: Log, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes between two ends of lines, in pieces that end with a line."""
    rest = b""
    left = stop - start
    for chunk in log.read(start):
        rest += chunk[:left]
        left -= min(left, len(chunk))
        if len(rest) >= _PIECE_BYTES and (end := rest.rfind(b"\n") + 1):
            yield rest[:end]
            rest = rest[end:]
        if not left:
            break
    if rest:
        yield rest


# The bytes of a session as stored, for a copy that can be opened elsewhere.
_SNAPSHOT = re.compile(r"snapshots/(\d+)\.json\Z")
# Quarantined bytes are for the owner to look at; they may be what was redacted.
_KEPT_BACK = "quarantine/"


class _Numbered(msgspec.Struct):
    type: str | None = None
    seq: int | None = None


_decoder = LazyDecoder(_Numbered)


def log_lines(log: Log, size: int, at: int | None) -> Iterator[bytes]:
    """Yield the lines within ``size`` bytes, up to event ``at``; in a plain log the last may lack its newline."""
    rest, read, number = b"", 0, 0
    for chunk in log.read():
        part = chunk[: size - read]
        read += len(part)
        end = part.rfind(b"\n") + 1
        if not end:
            rest += part
            continue
        whole, rest = rest + part[:end], part[end:]
        if at is None:
            yield whole
            continue
        kept, number, ended = _until(whole, number, at)
        if kept:
            yield kept
        if ended:
            return
    if _is_plain(rest) and (at is None or number <= at):
        yield rest


def own_documents(
    log: Log, documents: Documents, last_seq: int, at: int | None, size: int
) -> Mapping[str, Callable[[], bytes]]:
    """Yield the documents that belong to the log up to there, by name: snapshots, blobs, the rest."""
    # The lines of a sealed log are not readable here, so the payloads they refer to are unknown.
    blobs = None
    if at is not None and log.unseal is None:
        blobs = {f"blobs/{name}" for chunk in log_lines(log, size, at) for name in named_blobs(chunk)}

    def belongs(name: str) -> bool:
        snapshot = _SNAPSHOT.match(name)
        if snapshot:
            return int(snapshot[1]) <= last_seq
        return not name.startswith(_KEPT_BACK) and (blobs is None or name in blobs or not name.startswith("blobs/"))

    def read(name: str) -> bytes:
        found = documents.get(name)
        return b"" if found is None else found[0]

    return {name: partial(read, name) for name in documents.names() if belongs(name)}


def _is_plain(line: bytes) -> bool:
    try:
        found = _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return found.type is not None and found.seq is None


def _until(lines: bytes, number: int, at: int) -> tuple[bytes, int, bool]:
    """Return the lines up to event ``at``, how many were seen, and whether that was the end."""
    kept = 0
    for line in lines.splitlines(keepends=True):
        try:
            seq = _decoder.decode(line).seq
        except (msgspec.MsgspecError, ValueError):
            seq = None
        if (number if seq is None else seq) > at:
            return lines[:kept], number, True
        number += 1
        kept += len(line)
    return lines, number, False
