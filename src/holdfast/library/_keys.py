"""Sealing existing sessions, unsealing them, and changing keys."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import (
    Conflict,
    DataError,
    HoldfastError,
    KeyMissing,
    Locked,
    NotFound,
    SecurityError,
    Tampered,
    TooNew,
    UsageError,
)
from holdfast.library import _finder
from holdfast.library._core import Core, Progress, check_text, session_key
from holdfast.model import Notice, check_id
from holdfast.security import KEY_DOCUMENT

if TYPE_CHECKING:
    from holdfast.library._keychain import GivenKey, KeyChain
    from holdfast.security import KeyDocument, Ring
    from holdfast.session import SealingStore

_FOLDERS = ("sessions/", "trash/", "agents/", "shared/")
_TRIES_MAX = 5
_SHARED = "shared/"
_ROTATION, _CURRENT = "shared/rotation", "current.txt"
_OPEN = (_ROTATION, "shared/sealing")
_ROTATION_MS_MAX = 86_400_000

Step = Callable[["SealingStore", str], bool]

_MAKE_KEY = (
    "Make one with `holdfast keys new keyring`, then set HOLDFAST_KEY=keyring, `key` in your"
    " config.toml, or holdfast.open(key=…)."
)


class Resealed(msgspec.Struct, kw_only=True):
    """The outcome of rewriting sessions and agents, by their keys."""

    changed: builtins.list[str]
    unchanged: builtins.list[str]
    failed: dict[str, str]
    """Those that failed, and why; the same call can be repeated for them."""
    relatives: builtins.list[str]
    """Sessions that share events with those that were asked for, but were not asked for themselves."""
    left: builtins.list[str] = []
    """Places beyond the store's reach that may still hold the replaced bytes; one sentence each."""


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A key that opens sealed sessions of the store."""

    id: str
    """Its fingerprint, which reveals nothing of the key."""
    source: str
    """The source from which it was read when it was used."""
    sealed: int
    """The number of sessions and agents it opens."""
    alone: int
    """The number of those that no other key opens."""
    available: bool
    """True if the key can be read now."""


class Keys:
    """Encryption at rest, and its keys: ``hf.keys``."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def is_sealed(self, id: str) -> bool:
        """Return whether a session is sealed; this needs no key. Raises NotFound.

        With the key, a session whose sealing was interrupted before its log was rewritten is recognised.
        """
        from holdfast.session import sealing

        key = self._core.stored(id)
        found, store = self._core.inner.documents(key).get(KEY_DOCUMENT), sealing(self._core.store)
        if found is None or store is None:
            return found is not None
        try:
            return store.is_sealed(key)
        except SecurityError:
            return True

    def encrypt(self, ids: Collection[str] | None = None, *, progress: Progress | None = None) -> Resealed:
        """Seal existing sessions with all their data; None for everything in the store.

        The log is rewritten into a new generation and the old one destroyed. With None the trash,
        the documents of agents and shared documents are sealed too. If it is interrupted, every session
        still opens, and the same call continues. Raises KeyMissing if no key is set, or it is not available.
        """
        from holdfast.library._trash import retitle
        from holdfast.session import encrypt_key

        self._chained().current()  # fail now if there is no such key

        def encrypt(store: SealingStore, key: str) -> bool:
            retitle(self._core, key, lambda: None)
            return encrypt_key(store, key)

        return self._each(ids, encrypt, "sealed", progress)

    def decrypt(self, ids: Collection[str] | None = None, *, progress: Progress | None = None) -> Resealed:
        """Unseal sessions with all their data; None for everything in the store."""
        from holdfast.session import decrypt_key

        return self._each(ids, decrypt_key, "unsealed", progress)

    def rotate(self, to: GivenKey | None = None, *, data: bool = False, progress: Progress | None = None) -> Resealed:
        """Wrap all data keys under ``to`` and under nothing else; the old key then opens nothing.

        With ``data`` everything sealed is sealed again with new data keys, under ``to`` or the keys that are set:
        do that when a data key may have been exposed. If it is interrupted, everything opens with the old key or
        the new one, and the same call continues; within a day it skips what has new data keys already.
        """
        from holdfast.session import rekey_key

        if to is None and not data:
            raise UsageError("there is nothing to rotate", remedy="Name a new key, or ask for data.")
        rotation = self._begin_rotation() if data else ""

        def rekey(store: SealingStore, key: str) -> bool:
            return rekey_key(store, key, rotation)

        if to is None:
            return self._end_rotation(self._each(None, rekey, "rekeyed", progress))
        fresh = self._chain(to)
        fresh.current()  # fail now if there is no such key
        old = self._sealing_store()
        # What an earlier, interrupted call has done opens with the new key already.
        both = _under(old, self._chain(fresh.sources + self._chained().sources))

        def rewrap(store: SealingStore, key: str) -> bool:
            done = self._rewrap(store, key, lambda ring, _: fresh.wrap(ring))
            return (rekey(_under(store, fresh), key) if data else done) or done

        return self._end_rotation(self._each(None, rewrap, "rekeyed", progress, store=both))

    def _begin_rotation(self) -> str:
        """Return the name of the rotation that is under way, or of a new one."""
        from holdfast.session import now_ms

        documents, now = self._core.inner.documents(_ROTATION), now_ms()
        found = documents.get(_CURRENT)
        text = b"" if found is None else found[0]
        id, _, begun = text.decode("ascii", "replace").partition(" ")
        if begun.isdecimal() and 0 <= now - int(begun) < _ROTATION_MS_MAX:
            return id
        id = os.urandom(16).hex()
        documents.put(_CURRENT, f"{id} {now}".encode())
        return id

    def _end_rotation(self, result: Resealed) -> Resealed:
        if not result.failed:
            self._core.inner.documents(_ROTATION).delete(_CURRENT)
        return result

    # -- keys ----------------------------------------------------------------------------------
    def list(self) -> builtins.list[KeyInfo]:
        """Return the keys that open sealed sessions here, without opening anything."""
        chain = self._core.keychain
        at_hand = set() if chain is None else {one.id for one in chain.available()}
        found: dict[str, KeyInfo] = {}
        for document in self._key_documents():
            for wrap in document.wraps:
                known = found.get(wrap.key)
                found[wrap.key] = KeyInfo(
                    id=wrap.key,
                    source=wrap.source,
                    sealed=1 + (known.sealed if known else 0),
                    alone=(len(document.wraps) == 1) + (known.alone if known else 0),
                    available=wrap.key in at_hand,
                )
        return builtins.list(found.values())

    @staticmethod
    def new(source: str) -> str:
        """Make a random key, keep it where ``source`` says, and return its fingerprint.

        ``source`` is ``keyring:NAME`` or ``file:PATH``. Raises Forbidden if there is a key already.
        """
        from holdfast.library._keychain import make_key

        return make_key(source)

    def add(self, key: GivenKey, *, progress: Progress | None = None) -> Resealed:
        """Let another key, such as one for emergencies, open everything that is sealed.

        Later sessions are wrapped under the keys that are set: name it there as well.
        """
        from holdfast.security import KeyDocument

        fresh = self._chain(key).current()

        def add(ring: Ring, document: KeyDocument) -> KeyDocument:
            ours = {one.id for one in fresh}
            more = KeyDocument.wrapped(ring, fresh).wraps
            return KeyDocument(wraps=[*(w for w in document.wraps if w.key not in ours), *more])

        return self._each(None, lambda store, key: self._rewrap(store, key, add), None, progress)

    def remove(self, id: str, *, progress: Progress | None = None) -> Resealed:
        """Revoke a key, by its fingerprint.

        Raises UsageError, before anything is changed, if something would have no key left.
        """
        from holdfast.security import KeyDocument

        check_text("a key", id)
        known = next((one for one in self.list() if one.id == id), None)
        if known is None:
            raise NotFound(f"no session is sealed with a key {str(id)[:40]}")
        if known.alone:
            remedy = "Add another key first: holdfast keys add SOURCE."
            raise UsageError(f"{known.alone:,} sessions or agents open with no other key", remedy=remedy)

        def take(_: Ring, document: KeyDocument) -> KeyDocument:
            return KeyDocument(wraps=[wrap for wrap in document.wraps if wrap.key != id])

        done = self._each(None, lambda store, key: self._rewrap(store, key, take), None, progress)
        # A leftover copy of the old wrapped keys in the store's own bytes would still open with it.
        done.left = self._core.inner.scrub()
        return done

    def check(self) -> dict[str, str]:
        """Return the sealed keys of the store that do not open with the keys that are set, with the reason."""
        store = self._sealing_store()
        found = {}
        for key in self._all_keys():
            try:
                store.ring(key)
            except HoldfastError as error:
                found[key] = error.message
        return found

    def ask_passphrase(self, ask: Callable[[str], str]) -> None:
        """Set the function that is called when a passphrase is needed and not set; it gets the prompt."""
        if self._core.keychain is not None:
            self._core.keychain.ask = ask

    # -- inside --------------------------------------------------------------------------------
    def _sealing_store(self) -> SealingStore:
        from holdfast.session import sealing

        store = sealing(self._core.store)
        if store is None:
            raise KeyMissing("no key is set", remedy=_MAKE_KEY)
        return store

    def _chained(self) -> KeyChain:
        if self._core.keychain is None:
            raise KeyMissing("no key is set", remedy=_MAKE_KEY)
        return self._core.keychain

    def _chain(self, given: GivenKey) -> KeyChain:
        from holdfast.library._keychain import KeyChain, as_sources

        ask = None if self._core.keychain is None else self._core.keychain.ask
        return KeyChain(as_sources(given), self._core.inner, ask=ask)

    def _each(
        self,
        ids: Collection[str] | None,
        step: Step,
        notice: str | None,
        progress: Progress | None,
        *,
        store: SealingStore | None = None,
    ) -> Resealed:
        store = store or self._sealing_store()
        if ids is None:
            keys = builtins.list(self._all_keys())
        else:
            keys = [self._core.stored(check_id(id)) for id in dict.fromkeys(ids)]
        result = Resealed(changed=[], unchanged=[], failed={}, relatives=[])
        for number, key in enumerate(keys, 1):
            try:
                done = step(store, key)
            except (DataError, KeyMissing, Tampered, Locked, Conflict) as error:
                result.failed[key] = error.message
            else:
                (result.changed if done else result.unchanged).append(key)
                if done and notice is not None:
                    id = key.rpartition("/")[2]
                    self._core.hub.publish(id, Notice(notice, id))
            if progress is not None:
                progress(number, len(keys))
        if notice is not None and result.changed:
            if ids is not None:
                forks = (_finder.all_sessions(self._core, parent=key.rpartition("/")[2]) for key in result.changed)
                related = dict.fromkeys(session_key(row.session_id) for rows in forks for row in rows)
                result.relatives = [key for key in related if key not in result.changed]
            # Deleted rows leave their words in the pages of an index; only a new index is free of them.
            _finder.reindex(self._core)
            result.left = self._core.inner.scrub()
        return result

    def _all_keys(self) -> Iterator[str]:
        self._core.check_open()
        for folder in _FOLDERS:
            for key in sorted(self._core.inner.folders(folder)):
                # A shared folder has no log; parts of it have to be read before anything can be opened.
                if folder != _SHARED or (key not in _OPEN and self._core.inner.documents(key).names()):
                    yield key

    def _key_documents(self) -> Iterator[KeyDocument]:
        for key in self._all_keys():
            found = self._core.inner.documents(key).get(KEY_DOCUMENT)
            if found is None:
                continue
            from holdfast.security import read_key_document

            # A damaged one must not hide the others; check names it.
            with contextlib.suppress(Tampered, TooNew):
                yield read_key_document(found[0])

    def _rewrap(self, store: SealingStore, key: str, change: Callable[[Ring, KeyDocument], KeyDocument]) -> bool:
        """Replace the document of a key; return whether that changed who can open it."""
        from holdfast.security import read_key_document

        documents = store.inner.documents(key)
        for _ in range(_TRIES_MAX):
            found = documents.get(KEY_DOCUMENT)
            if found is None:
                return False
            old = read_key_document(found[0])
            ring = store.ring(key)
            if ring is None:
                break
            new = change(ring, old)
            if {wrap.key for wrap in old.wraps} == {wrap.key for wrap in new.wraps}:
                return False
            try:
                documents.put(KEY_DOCUMENT, new.encode(), if_match=found[1])
            except Conflict:
                continue
            return True
        raise Conflict(f"the keys of {key} are being changed by someone else")


def _under(store: SealingStore, chain: KeyChain) -> SealingStore:
    return type(store)(store.inner, chain, by_default=store.by_default)
