"""How one session is sealed while it is open: found at opening, begun with the first event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import UsageError
from holdfast.session._sealed_store import (
    SealingStore,
    end_before,
    is_plain_in_transit,
    missing_key,
    opener_of,
    sealing,
)

if TYPE_CHECKING:
    from holdfast.security import Ring, Sealer
    from holdfast.session._writer import Writer
    from holdfast.storage import Log, Store


class SessionSeal:
    """The data keys of one session, and what new events are sealed with."""

    def __init__(self, store: Store, key: str, *, wanted: bool | None, exists: bool) -> None:
        """Raises KeyMissing, and UsageError for a session that is not as it is wanted."""
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
        """Before the first event of an opening: what is written from here on is sealed, or not."""
        ring = self._store.ring(self._key) or self._waiting
        if ring is None:
            if writer.position.offset or not self._wanted:
                return
            ring = self._begin_ring(staged=staged)
            log.unseal = opener_of(ring)
        elif is_plain_in_transit(ring, log):
            return
        from holdfast.security import Sealer

        self.sealer = Sealer(ring.current, writer.epoch)
        before = writer.sealed_end if writer.has_staged() else end_before(log, writer.offset)
        writer.seal_with(self.sealer, before)

    def _begin_ring(self, *, staged: bool) -> Ring:
        if not staged:
            return self._store.new_ring(self._key)
        from holdfast.security import Ring, new_data_key

        self._waiting = Ring((new_data_key(1),))
        self._store.keys.wrap(self._waiting)  # to hear now if there is no key
        return self._waiting

    def hand_over(self) -> None:
        """Before what was staged is written: its keys."""
        if self._waiting is not None:
            self._store.put_ring(self._key, self._waiting)
            self._waiting = None


def sealer_for(store: Store, key: str, log: Log, epoch: int) -> Sealer | None:
    """What seals new lines of a key that is at rest; None for one that is not sealed."""
    found = sealing(store)
    ring = None if found is None else found.ring(key)
    if ring is None or is_plain_in_transit(ring, log):
        return None
    from holdfast.security import Sealer

    return Sealer(ring.current, epoch)


def rewriter_for(store: Store, key: str, log: Log, epoch: int) -> Sealer | None:
    """What seals the whole log anew, for who holds its lease; None for one that is not sealed.

    A fork's own key is for its own events only. Where it has none for all of them, one is put into
    its ring first: killed before the log is replaced, everything opens as before.
    """
    found = sealing(store)
    ring = None if found is None else found.ring(key)
    if found is None or ring is None or is_plain_in_transit(ring, log):
        return None
    from holdfast.security import Sealer

    whole = ring.for_whole_log()
    if whole is not ring:
        found.put_ring(key, whole)
        log.unseal = opener_of(whole)
    return Sealer(whole.current, epoch)
