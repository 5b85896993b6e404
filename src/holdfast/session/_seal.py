"""Sealing of one open session: found at opening, begun with the first event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.errors import Damaged, UsageError
from holdfast.model import (
    BEFORE_ALL,
    START,
    Event,
    Unseal,
    cut_body,
    decode_json,
    encode_line,
    end_of,
    has_blob,
    line_body,
    open_line,
    salvage,
)
from holdfast.security import KEY_DOCUMENT, Ring, Sealer, document_key, is_sealed_document, new_data_key
from holdfast.session._repair import gather, sealed_lines
from holdfast.session._sealed_store import (
    SealedDocuments,
    SealingStore,
    end_before,
    is_kept_open,
    is_plain_in_transit,
    missing_key,
    opener_of,
    sealing,
)
from holdfast.session.reader import references
from holdfast.storage import Documents, Log

if TYPE_CHECKING:
    from holdfast.session._writer import Writer
    from holdfast.storage import Store


class SessionSeal:
    """The data keys of one session, with which new events are sealed."""

    def __init__(self, store: Store, key: str, *, wanted: bool | None, exists: bool) -> None:
        """Raises KeyMissing, and UsageError if ``seal`` contradicts the session."""
        session_id = key.rpartition("/")[2]
        found = sealing(store)
        if found is None:
            raise missing_key(session_id)
        self._store: SealingStore = found
        self._key = key
        self._waiting: Ring | None = None
        self.sealer: Sealer | None = None
        is_sealed = found.is_sealed(key)
        if exists and wanted is not None and wanted != is_sealed:
            verb = "encrypt" if wanted else "decrypt"
            raise UsageError(
                f"session {session_id} is {'' if is_sealed else 'not '}sealed",
                remedy=f"Leave seal out, or run: holdfast {verb} {session_id}",
                session_id=session_id,
            )
        self._wanted = found.by_default if wanted is None else wanted

    def begin(self, log: Log, writer: Writer, *, staged: bool) -> None:
        """Decide before the first event of an opening whether events are sealed from then on."""
        ring = self._store.ring(self._key) or self._waiting
        if ring is None:
            if writer.position.offset or not self._wanted:
                return
            if staged:
                ring = self._waiting = Ring((new_data_key(1),))
                self._store.keys.wrap(ring)  # fail now if there is no key
            else:
                ring = self._store.new_ring(self._key)
            log.unseal = opener_of(ring)
        elif is_plain_in_transit(ring, log):
            return
        self.sealer = Sealer(ring.current, writer.epoch)
        before = writer.sealed_end if writer.has_staged() else end_before(log, writer.offset)
        writer.seal_with(self.sealer, before)

    def hand_over(self) -> None:
        """Store the keys before the staged events are written."""
        if self._waiting is not None:
            self._store.put_ring(self._key, self._waiting)
            self._waiting = None


def sealer_for(store: Store, key: str, log: Log, epoch: int) -> Sealer | None:
    """Return what seals new lines of a closed session; None if it is not sealed."""
    ring = _sealed_ring(store, key, log)
    return None if ring is None else Sealer(ring.current, epoch)


def _sealed_ring(store: Store, key: str, log: Log) -> Ring | None:
    found = sealing(store)
    ring = None if found is None else found.ring(key)
    return None if ring is None or is_plain_in_transit(ring, log) else ring


def rewriter_for(store: Store, key: str, log: Log, epoch: int) -> Sealer | None:
    """Return what seals the whole log anew, for the holder of its lease; None if it is not sealed.

    A fork's own key is for its own events only. If it has none for all of them, one is added to
    its ring first: if it is killed before the log is replaced, everything opens as before.
    """
    found, ring = sealing(store), _sealed_ring(store, key, log)
    if found is None or ring is None:
        return None
    whole = ring.for_whole_log()
    if whole is not ring:
        found.put_ring(key, whole)
        log.unseal = opener_of(whole)
    return Sealer(whole.current, epoch)


# Rewriting stored data in another form: sealed, unsealed, or under a new data key.
# Each operation works in repeatable steps: the keys that will be needed come first, then payloads, then the log in one
# step, then what is left of the old form is removed, and last the final keys are stored. Killed at any moment the
# session opens as before, and the same call continues.
_LEASE_MS = 60_000
_BLOBS = "blobs/"
_SNAPSHOTS = "snapshots/"


def encrypt_key(store: SealingStore, key: str) -> bool:
    """Seal an unsealed key with all its data; return whether there was anything to do.

    Raises Locked while a writer has it, Damaged for a log that has to be repaired first, KeyMissing
    without a key to seal with. The old bytes are gone afterwards, also from quarantine.
    """
    with store.lease(key).held("seal", _LEASE_MS) as epoch:
        ring = store.ring(key)
        if ring is not None and ring.state == "sealed":
            return False
        if ring is None:
            ring = Ring((new_data_key(1),))
        if ring.state != "rekeying":
            ring = store.put_ring(key, ring.for_whole_log()._replace(state="encrypting"))
        _rewrite(store, key, ring, epoch, sealed=True)
        store.put_ring(key, ring._replace(state="sealed"))
    return True


def decrypt_key(store: SealingStore, key: str) -> bool:
    """Unseal a key and all its data; return whether it was sealed. Raises Locked, Damaged, Tampered, KeyMissing."""
    with store.lease(key).held("seal", _LEASE_MS) as epoch:
        ring = store.ring(key)
        if ring is None:
            return False
        ring = store.put_ring(key, ring._replace(state="decrypting"))
        _rewrite(store, key, ring, epoch, sealed=False)
        store.inner.documents(key).delete(KEY_DOCUMENT)
    return True


def rekey_key(store: SealingStore, key: str, rotation: str = "") -> bool:
    """Seal a sealed key again with a new data key and forget the old one, unless this ``rotation`` has done so."""
    with store.lease(key).held("seal", _LEASE_MS) as epoch:
        ring = store.ring(key)
        if ring is None or (rotation and (ring.rotation, ring.state) == (rotation, "sealed")):
            return False
        if ring.state != "rekeying":
            number = 1 + max(one.number for one in ring.keys)
            generation = 1 + max(one.generation for one in ring.keys)
            fresh = new_data_key(number, generation=generation)
            ring = store.put_ring(key, Ring((*ring.keys, fresh), "rekeying"))
        _rewrite(store, key, ring, epoch, sealed=True)
        store.put_ring(key, Ring((ring.current,), rotation=rotation))
    return True


def _rewrite(store: SealingStore, key: str, ring: Ring, epoch: int, *, sealed: bool) -> None:
    log, raw = store.inner.log(key), store.inner.documents(key)
    opened = SealedDocuments(store, key)
    try:
        # Also if it is in its new form already: what a kill left beside it goes that way.
        if log.size():
            bodies = _bodies(log, opener_of(ring))
            _move_payloads(bodies, raw, opened, sealed=sealed)
            _remove(raw, _SNAPSHOTS)
            texts = ((event.seq, body) for event, body in bodies)
            lines = sealed_lines(texts, Sealer(ring.current, epoch)) if sealed else _plain_lines(texts)
            log.replace(gather(lines), epoch)
    finally:
        log.close()
    _move_documents(raw, opened, sealed=sealed)
    _remove_old(ring, raw, sealed=sealed)
    _remove(raw, "quarantine/")


def _bodies(log: Log, unseal: Unseal) -> list[tuple[Event, bytes]]:
    """Return every event with the body of its line. Raises Damaged if one is missing."""
    data = b"".join(log.read())
    found = salvage(data, START, chained=False)
    if found.gaps:
        gap = found.gaps[0]
        raise Damaged(
            f"the log is damaged at byte {gap.offset:,}", remedy="Run `holdfast repair` first.", seq=gap.first_seq
        )
    bodies = []
    before: bytes | None = BEFORE_ALL
    for line, (start, stop) in zip(found.lines, found.spans, strict=True):
        event = open_line(line, unseal, before)
        if line.sealed is None or line.type is not None:
            bodies.append((event, cut_body(data[start:stop]) or line_body(event)))
        else:
            bodies.append((event, unseal(line.seq, line.sealed, before)))
        before = end_of(line)
    found.trim([event.more for event, _ in bodies])
    return bodies[: len(found.lines)]


def _plain_lines(bodies: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    crc = 0
    for seq, body in bodies:
        line, crc = encode_line(seq, body, crc)
        yield line


def _move_payloads(bodies: list[tuple[Event, bytes]], raw: Documents, opened: Documents, *, sealed: bool) -> None:
    """Copy every payload that events refer to under its new name, before the log refers to it."""
    target = opened if sealed else raw
    done = set()
    for event, body in bodies:
        if not has_blob(body):
            continue
        for name in references(decode_json(bytes(event.raw))):
            found = None if name in done else opened.get(_BLOBS + name)
            done.add(name)
            if found is not None:
                target.put(_BLOBS + name, found[0])


def _move_documents(raw: Documents, opened: Documents, *, sealed: bool) -> None:
    """Rewrite everything that is neither derived nor a payload, such as an agent's memory."""
    for name in raw.names():
        if is_kept_open(name) or name.startswith((_BLOBS, _SNAPSHOTS)):
            continue
        found = opened.get(name)
        if found is not None:
            # A document that changes meanwhile, such as an agent's memory, is not lost: Conflict.
            (opened if sealed else raw).put(name, found[0], if_match=found[1])


def _remove_old(ring: Ring, raw: Documents, *, sealed: bool) -> None:
    """Remove payloads and snapshots in the form that the log no longer has."""
    for name in (*raw.names(_BLOBS), *raw.names(_SNAPSHOTS)):
        found = raw.get(name)
        if found is None:
            continue
        is_old = is_sealed_document(found[0]) is not sealed
        # A fork's payloads of its parent stay under the parent's key until it is sealed anew.
        if not is_old and sealed and name.startswith(_BLOBS) and ring.state == "rekeying":
            is_old = document_key(found[0]) != ring.current.number
        if is_old:
            raw.delete(name)


def _remove(raw: Documents, folder: str) -> None:
    for name in raw.names(folder):
        raw.delete(name)
