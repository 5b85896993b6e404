"""Importing bundles: the same bytes, without trusting more of them than can be checked."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import closing, suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import Damaged, InvalidData, KeyMissing, SecurityError
from holdfast.library._core import LEASE_MS, Core, session_key
from holdfast.library._imports import Outcome
from holdfast.library._redaction import RedactedLog, referenced
from holdfast.library._trash import state_of
from holdfast.model import Event, LineReader, Unseal, blob_name, is_id, running_checksum
from holdfast.replay import Fold, check_format
from holdfast.session import Snapshots, gather, opener_of, read_range, resolve_blobs, rewriter_for, sealing, within
from holdfast.storage import MemoryStore, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.formats import Bounds, BundledSession, OwnSession
    from holdfast.security import Redactor

_ID_CHARS_MAX = 100
_DIGEST_CHARS = 10
_SNAPSHOTS = "snapshots/"
_BLOBS = "blobs/"
_QUARANTINE = "quarantine/"


class Unpacked(NamedTuple):
    """A session of a bundle: its id here, the outcome, and what was left out."""

    session_id: str
    outcome: Outcome  # imported, updated or unchanged
    events: int
    problems: tuple[str, ...] = ()


def unpack(
    core: Core, data: bytes, *, passphrase: str | None = None, bounds: Bounds | None = None, dry_run: bool = False
) -> list[Unpacked]:
    """Import the sessions of a bundle, byte for byte.

    A session that is here already is left alone, or goes on with what the bundle has more of it; if the two went
    different ways, the bundle's becomes a session of its own. Snapshots come in only if the log gives the same state.
    Standing permissions do not: they are taken back by one more event. Raises InvalidData, Damaged, TooLarge, TooNew,
    KeyMissing or Tampered before anything is written.
    """
    from holdfast.formats import read_bundle
    from holdfast.security import is_sealed_file, open_with_passphrase

    if is_sealed_file(data[:64]):
        data = open_with_passphrase(data, passphrase)
    return bring_whole(core, read_bundle(data, bounds).sessions, dry_run=dry_run)


def bring_whole(core: Core, sessions: Iterable[BundledSession | OwnSession], *, dry_run: bool) -> list[Unpacked]:
    """Import sessions of Holdfast, wherever their bytes come from."""
    redactor = core.redactor()
    checked = [_Checked(session, _opener(core, session), redactor) for session in sessions]
    return [_bring(core, one, dry_run=dry_run) for one in checked]


class _Checked:
    """One checked session of the bundle."""

    def __init__(self, session: BundledSession | OwnSession, unseal: Unseal | None, redactor: Redactor | None) -> None:
        self.id = session.id
        self.log = session.log()
        self.documents = {name: session.document(name) for name in session.documents}
        self.problems: list[str] = []
        self.sealed = unseal is not None
        if self.sealed:
            # Snapshots are only as trustworthy as whoever sealed them; the log is what counts.
            self.documents = {name: data for name, data in self.documents.items() if not name.startswith(_SNAPSHOTS)}
        else:
            # Keep only blobs whose content matches their name: others would replace intact ones.
            blobs = [name for name in self.documents if name.startswith(_BLOBS)]
            for name in [one for one in blobs if blob_name(self.documents[one]) != one.removeprefix(_BLOBS)]:
                del self.documents[name]
                self.problems.append(f"{name[:80]} is not what its name says and was left out")
        reader = LineReader(unseal=unseal)
        events = [*reader.feed(self.log), *reader.finish()]
        if not events:
            raise InvalidData(f"the log of session {session.id} holds no event")
        for event in events:
            check_format(event)
        self.events = len(events)
        lost = self.log.count(b"\n") - len(events)
        if lost > 0:
            self.problems.append(f"{lost:,} lines of the log are damaged; all others are readable")
        if redactor is not None and unseal is None:
            events = self._redact(events, redactor)
        self.whole = RedactedLog(events, {}, Counter(), set())
        self.payloads = referenced(events) if unseal is None else set()
        fold = self._check_snapshots(events)
        self.created_at, self.log_id = fold.state.created_at, fold.state.log
        permissions = fold.state.permissions
        self.approves = bool(permissions.approvals or permissions.allowlist)

    def _redact(self, events: list[Event], redactor: Redactor) -> list[Event]:
        """Remove secrets from the log and its blobs, and drop the documents derived from them."""
        from holdfast.library._redaction import without_secrets

        documents = MemoryStore().documents(session_key("x"))
        for name, data in self.documents.items():
            documents.put(name, data)
        found = without_secrets(events, resolve_blobs(events, documents), redactor)
        if found.changed:
            self.log = b"".join(found.lines())
            kept = {f"{_BLOBS}{name}" for name in referenced(found.events)}
            fresh = {f"{_BLOBS}{name}": payload for name, payload in found.blobs.items()}
            self.documents = {
                name: data
                for name, data in (self.documents | fresh).items()
                if name in kept or not name.startswith((_BLOBS, _SNAPSHOTS, _QUARANTINE))
            }
        return found.events

    def _check_snapshots(self, events: list[Event]) -> Fold:
        """Keep the snapshots that agree with the log: opening a session trusts them."""
        documents = MemoryStore().documents(session_key("x"))
        for name, data in self.documents.items():
            if name.startswith(_SNAPSHOTS):
                documents.put(name, data)
        snapshots = Snapshots(documents)
        wanted = set(snapshots.seqs())
        fold, good = Fold(), set()
        for event in events:
            fold.apply(event)
            if event.seq in wanted and self._agrees(snapshots, event.seq, fold):
                good.add(f"{_SNAPSHOTS}{event.seq}.json")
        for name in [name for name in self.documents if name.startswith(_SNAPSHOTS)]:
            if name not in good:
                del self.documents[name]
                self.problems.append(f"{name} is not what the log gives and was left out")
        return fold

    def _agrees(self, snapshots: Snapshots, seq: int, fold: Fold) -> bool:
        try:
            found = snapshots.load(seq)
        except Damaged:
            return False
        covered = self.log[: found.offset]
        return (
            len(covered) == found.offset
            and covered.endswith(b"\n")
            and running_checksum([covered], found.offset) == found.position.crc
            and found.state == fold.state
        )


def _opener(core: Core, session: BundledSession | OwnSession) -> Unseal | None:
    """Return what decrypts a sealed session; None for an open one. Raises KeyMissing, Tampered."""
    from holdfast.security import KEY_DOCUMENT, read_key_document
    from holdfast.session import opener_of, sealing

    if KEY_DOCUMENT not in session.documents:
        return None
    store = sealing(core.store)
    if store is None:
        raise KeyMissing(f"session {session.id} is sealed", session_id=session.id)
    return opener_of(store.keys.unwrap(read_key_document(session.document(KEY_DOCUMENT))))


def _bring(core: Core, session: _Checked, *, dry_run: bool) -> Unpacked:
    store = within(core.store)
    id, begun = _place(core, store, session)
    seals = _is_to_be_sealed(core, id, session)
    if begun == len(session.log) or begun < 0:
        return Unpacked(id, "unchanged", 0, tuple(session.problems))
    outcome: Outcome = "updated" if begun else "imported"
    if not dry_run:
        if seals:
            _write_sealed(core, id, session)
        else:
            _write(store, id, session, begun)
        if session.approves:  # approvals that come with a file do not count here
            # Repair a damaged log here in the copy: otherwise its approvals would take effect after a later repair.
            from holdfast.library._sessions import open_session

            with open_session(core, id, resume="always", repair="auto") as opened:
                opened.append(Event.make("permission", {"approvals": {}, "allowlist": []}))
    documents = (core.store if seals else store).documents(session_key(id))
    names = {f"{_BLOBS}{name}" for name in session.payloads} - session.documents.keys()
    count = sum(documents.get(name) is None for name in names)
    problems = (*session.problems, *([f"{count:,} large payloads of it are not in the source"] if count else []))
    return Unpacked(id, outcome, session.log.count(b"\n", begun), problems)


def _place(core: Core, store: Store, session: _Checked) -> tuple[str, int]:
    """Return the id here, also if the file has another name, and how many bytes are there; -1 if there are more."""
    digest = hashlib.sha256(session.log).hexdigest()[:_DIGEST_CHARS]
    own = (session.id, f"{session.id[:_ID_CHARS_MAX]}-{digest}")
    for id in chain(own, _created_with(core, session)):
        key = session_key(id)
        if not is_id(id) or not store.exists(key):
            continue
        state = state_of(core, key)
        if state is not None and state.log not in (None, session.log_id):
            continue  # a fork begins with the bytes of another one
        there = _bytes_there(core, key, session)
        if there.startswith(session.log):
            return id, len(session.log) if there == session.log else -1
        if session.log.startswith(there):
            return id, len(there)
    for id in own:
        key = session_key(id)
        if not store.exists(key) and store.clash(key) is None:
            return id, 0
    raise InvalidData(f"session {session.id} is here already, in another form")


def _created_with(core: Core, session: _Checked) -> Iterator[str]:
    """Return the sessions here that began in the same millisecond; the catalogue is asked last."""
    if session.created_at > 0:
        yield from core.catalog.created_at(session.created_at)


def _bytes_there(core: Core, key: str, session: _Checked) -> bytes:
    """Return the log that is here; a sealed one decrypted, so that it can be compared with an open one."""
    if not session.sealed and (found := sealing(core.store)) is not None:
        with suppress(SecurityError):
            if found.is_sealed(key):
                return b"".join(RedactedLog([*read_range(found.log(key))], {}, Counter(), set()).lines())
    return b"".join(within(core.store).log(key).read())


def _is_to_be_sealed(core: Core, id: str, session: _Checked) -> bool:
    """Return whether an unsealed session is sealed on import: if its target is, or new sessions are.

    Raises KeyMissing.
    """
    found, key = sealing(core.store), session_key(id)
    if found is None or session.sealed:
        return False
    return found.is_sealed(key) if found.exists(key) else found.by_default


def _write_sealed(core: Core, id: str, session: _Checked) -> None:
    """Write documents and log sealed from the first byte on, without the snapshots of the open log."""
    if any(event.seq != seq for seq, event in enumerate(session.whole.events)):
        raise Damaged(
            f"the log of session {session.id} is damaged, and what is damaged cannot be sealed",
            remedy="Bring it into a store whose sessions are not sealed, and run `holdfast repair` there first.",
        )
    store, key = sealing(core.store), session_key(id)
    assert store is not None
    log, documents = store.log(key), store.documents(key)
    with store.lease(key).held("import", LEASE_MS) as epoch, closing(log):
        if (ring := store.ring(key)) is None:
            ring = store.new_ring(key)
        log.unseal = opener_of(ring)
        sealer = rewriter_for(store, key, log, epoch)
        for name in documents.names(_SNAPSHOTS):
            documents.delete(name)  # a snapshot must never know more than the log it belongs to
        for name, data in session.documents.items():
            if not name.startswith((_SNAPSHOTS, _QUARANTINE)):
                documents.put(name, data)
        log.overwrite(gather(session.whole.lines(sealer)), epoch)


def _write(store: Store, id: str, session: _Checked, begun: int) -> None:
    """Write the documents first: no line may refer to a payload that is not there yet."""
    key = session_key(id)
    documents, log = store.documents(key), store.log(key)
    with store.lease(key).held("import", LEASE_MS) as epoch, closing(log):
        late = [name for name in session.documents if name.startswith(_SNAPSHOTS)]
        for name in [name for name in session.documents if name not in late]:
            # A payload may repair a damaged one here; whether a sealed one is intact cannot be seen.
            if (name.startswith(_BLOBS) and not session.sealed) or documents.get(name) is None:
                documents.put(name, session.documents[name])
        rest = session.log[begun:]
        log.append(rest, session.log.count(b"\n", 0, begun), rest.count(b"\n"), epoch)
        log.sync()
        for name in late:
            documents.put(name, session.documents[name])
