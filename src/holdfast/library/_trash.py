"""Deleting sessions, restoring them from the trash, and erasing them."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Forbidden, HoldfastError, NotFound, StoreError
from holdfast.library import _finder, _views
from holdfast.library._core import LEASE_MS, Core, session_key
from holdfast.model import Notice, SessionMetadata, check_id
from holdfast.security import KEY_DOCUMENT
from holdfast.session import now_ms
from holdfast.storage import check_made

if TYPE_CHECKING:
    from holdfast.replay import State
    from holdfast.storage import Entry

# The number makes the key longer than the id is, so the longest ids are cut.
_TRASH_STEM_CHARS_MAX = 110
_INSTRUCTIONS = "custom_instructions.md"
_NOTE = "deleted.json"


class Trashed(msgspec.Struct, frozen=True):
    """A session in the trash: its id, when it was deleted, and its key."""

    session_id: str
    deleted_at: int
    size_bytes: int
    key: str
    title: str | None = None
    """The title when it was deleted; None if no note of it was written."""


class _Note(msgspec.Struct, omit_defaults=True):
    id: str
    at: int
    title: str | None = None


def delete(core: Core, id: str) -> None:
    row, number = check_not_held(core, id), 0
    # An earlier deleted session of the same id must not be in the way.
    while core.store.exists(key := f"trash/{number}.{_trash_stem(id)}"):
        number += 1
    # The catalogue does not know the title of a sealed session, and no note may contain it.
    title = core.catalog.info(id).title if core.store.has_keys else row.title
    core.store.move(core.stored(id), key)
    _note(core, key, id, title)
    core.hub.publish(id, Notice("deleted", id))


def undelete(core: Core, id: str) -> None:
    core.check_open()
    stem = _trash_stem(check_id(id))
    found = (entry for entry in core.store.entries("trash/") if _trashed_stem(entry.key) == stem)
    newest = max(found, key=lambda entry: _trash_number(entry.key), default=None)
    if newest is None:
        remedy = "hf.trash.list() tells what is; `holdfast undelete -` takes the last one."
        raise NotFound(f"there is no session {id} in the trash", remedy=remedy, session_id=check_id(id))
    check_made(core.store, session_key(id))
    core.store.move(newest.key, session_key(id))
    core.store.documents(session_key(id)).delete(_NOTE)
    core.hub.publish(id, Notice("undeleted", id))


class Trash:
    """The deleted sessions that can be restored: ``hf.trash``."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def list(self) -> builtins.list[Trashed]:
        """Return the sessions that can be restored, the last deleted first.

        ``deleted_at`` is 0 and ``title`` None if they were not noted; a sealed session has no title here.
        """
        core = self._core
        core.check_open()
        found = [_trashed(core, entry.key, entry.size) for entry in core.store.entries("trash/")]
        return sorted(found, key=lambda one: one.deleted_at, reverse=True)

    def family(self, id: str) -> builtins.list[str]:
        """Return the keys of the forks that ``hf.erase`` would take along."""
        return _kin_of(self._core, copies_of(self._core, check_id(id)), Origins(self._core))


def purge_agent(core: Core, agent_id: str, *, instructions: bool) -> int:
    key = f"agents/{check_id(agent_id, what='agent id')}"
    found = [row.session_id for row in _finder.all_sessions(core, agent_id=agent_id)]
    # The logs decide what is deleted; the catalogue only says where to look.
    sessions = [id for id in found if _views.state(core, id).agent_id == agent_id]
    for id in sessions:
        check_not_held(core, id)
        core.check_unlocked(session_key(id), "purge")
    for id in sessions:
        delete(core, id)
    documents = core.inner.documents(key)
    names = documents.names()
    # Instructions written by a person may be sealed; keep their key, so that they stay readable.
    stay = () if instructions or _INSTRUCTIONS not in names else (_INSTRUCTIONS, KEY_DOCUMENT)
    for name in names:
        if name not in stay:
            documents.delete(name)
    if names:
        core.inner.scrub()  # removed memory must not stay in the store's own bytes
    return len(sessions)


def _note(core: Core, key: str, id: str, title: str | None = None) -> _Note:
    """Note when it was deleted; after a crash before that it only stays longer."""
    note = _Note(id, now_ms(), title)
    with contextlib.suppress(StoreError):
        core.store.documents(key).put(_NOTE, msgspec.json.encode(note), sync=False)
    return note


def retitle(core: Core, key: str, find: Callable[[], str | None]) -> None:
    """Change or remove the title in the note of a deleted session; notes stay readable where the rest is sealed."""
    documents = core.inner.documents(key)
    if (found := documents.get(_NOTE)) is not None:
        with contextlib.suppress(msgspec.MsgspecError):
            note = msgspec.json.decode(found[0], type=_Note)
            title = note.title and find()
            if title != note.title:
                documents.put(_NOTE, msgspec.json.encode(_Note(note.id, note.at, title)), if_match=found[1])


def title_of(core: Core, key: str) -> str | None:
    """Return the title that a log gives, if it can be read."""
    state = state_of(core, key)
    return None if state is None else state.shown_title


def _trashed(core: Core, key: str, size: int) -> Trashed:
    found = core.store.documents(key).get(_NOTE)
    try:
        note = msgspec.json.decode(b"" if found is None else found[0], type=_Note)
    except msgspec.MsgspecError:
        note = _Note(_trashed_stem(key), 0)
    return Trashed(note.id, note.at, size, key, note.title)


def check_not_held(core: Core, id: str) -> SessionMetadata:
    row = _finder.info(core, id)
    if row.held:
        raise _held(id)
    return row


def _held(id: str) -> Forbidden:
    remedy = f"Release it first: holdfast pin {id} --release"
    return Forbidden(f"session {id} is under legal hold", session_id=id, remedy=remedy)


def _trash_stem(id: str) -> str:
    """Return the id, or a shorter name for it where the number would make it too long."""
    if len(id) <= _TRASH_STEM_CHARS_MAX:
        return id
    from hashlib import sha256

    return f"{id[: _TRASH_STEM_CHARS_MAX - 33]}-{sha256(id.encode()).hexdigest()[:32]}"


def _trashed_stem(key: str) -> str:
    return key.rpartition("/")[2].partition(".")[2]


def _trash_number(key: str) -> int:
    """Return the number of a deleted session, higher for a later one; what somebody else put there counts as oldest."""
    number = key.rpartition("/")[2].partition(".")[0]
    return int(number) if number.isdecimal() else -1


# Erasing: a session goes for good, with every copy of it that this store has.
_FOLDERS = ("sessions/", "trash/")
_MARKS = (b'"session_start"', b'"opened"', b'"forked"', b'"merged"', b'"metadata"')
_ELSEWHERE = "Copies in other stores, exports and backups are not known here."


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an erasure, and what it could not reach."""

    session_id: str
    erased: tuple[str, ...]
    """The keys in the store that are gone: the session, its forks, what lay in the trash."""
    keys_destroyed: int
    """The number of sealed ones among them; without its data keys no copy of such a session can be read."""
    unreached: tuple[str, ...]
    """Places that hold, or may hold, some of it still; one sentence each."""


def erase(core: Core, id: str, *, forks: bool = True) -> Erased:
    mine = copies_of(core, check_id(id))
    if not mine:
        core.inner.scrub()  # remove what an interrupted erasure left hidden
        raise NotFound(f"there is no session {id}, also not in the trash", session_id=id)
    origins = Origins(core)
    found = _kin_of(core, mine, origins)
    chosen = [*mine, *found] if forks else mine
    for key in chosen:
        _check_free(core, key, origins)
    unreached = _told_apart(core, mine, chosen, [] if forks else found, origins)
    destroyed = sum([core.inner.documents(key).delete(KEY_DOCUMENT) for key in chosen])
    # Forks before the session that they share bytes with: an interrupted erasure finds them again.
    core.inner.drop_all(chosen[len(mine) :])
    core.inner.drop_all(mine)
    core.catalog.forget()
    unreached += [*core.inner.scrub(), _ELSEWHERE]
    core.hub.publish(id, Notice("erased", id))
    return Erased(session_id=id, erased=tuple(chosen), keys_destroyed=destroyed, unreached=tuple(unreached))


def copies_of(core: Core, id: str) -> builtins.list[str]:
    """Return the session under its id, and all that were deleted under it."""
    keys = [session_key(id)] if core.inner.exists(session_key(id)) else []
    return [*keys, *(one.key for one in Trash(core).list() if one.session_id == id)]


def _kin_of(core: Core, mine: builtins.list[str], origins: Origins) -> builtins.list[str]:
    """Return the keys of every other session that has events of these: forks, their forks, copies."""
    found = {entry.key: origins.of(entry) for folder in _FOLDERS for entry in core.inner.entries(folder)}
    own = {origin.logs[-1] for key in mine if (origin := found.get(key)) and origin.logs}
    return sorted(key for key, origin in found.items() if origin and key not in mine and own & {*origin.logs})


class Origin(msgspec.Struct, frozen=True):
    """The origin of a session."""

    logs: tuple[str, ...]
    """The log itself, last, preceded by those it was forked from."""
    parent: str | None
    """The session that it was forked from."""
    merged: frozenset[str]
    """The sessions whose events were taken over."""
    may_be_held: bool
    """True if its log mentions a legal hold."""


class Origins:
    """The origins of sessions, read from their logs; a log is read again only when it has changed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known: dict[str, tuple[str, Origin | None]] = {}

    def of(self, entry: Entry) -> Origin | None:
        """Return the origin in the log of an entry; None if it cannot be read."""
        known = self._known.get(entry.key)
        return known[1] if known is not None and known[0] == entry.etag else self._read(entry.key, entry.etag)

    def is_held(self, key: str) -> bool:
        """Return whether the log of a session puts it under legal hold."""
        origin = self._known[key][1] if key in self._known else self._read(key)
        if origin is None or not origin.may_be_held:
            return False
        state = state_of(self._core, key)
        return state is not None and bool(state.metadata.get("legal_hold"))

    def _read(self, key: str, etag: str = "") -> Origin | None:
        found = _origin_of(self._core, key)
        self._known[key] = (etag, found)
        return found


def _origin_of(core: Core, key: str) -> Origin | None:
    from holdfast.session import marked_events

    logs, merged, parent, forked, may_be_held = builtins.list[str](), set[str](), None, False, False
    try:
        for event in _views.of_known_format(marked_events(core.store.log(key), *_MARKS)):
            if event.type in ("session_start", "forked"):
                log = event.data.get("log")
                logs += [str(log)] if log else []
            if event.type == "forked":
                forked, parent = True, event.data.get("session")
            elif event.type == "merged" and isinstance(other := event.data.get("session"), str):
                merged.add(other)
            may_be_held = may_be_held or event.type == "metadata"
    except HoldfastError:
        return None
    ids = logs if forked else logs[:1]
    return Origin(tuple(ids), parent if isinstance(parent, str) else None, frozenset(merged), may_be_held)


def state_of(core: Core, key: str) -> State | None:
    from holdfast.session import load

    with contextlib.suppress(HoldfastError):
        return load(core.store.log(key), core.store.documents(key), tolerant=True).fold.state
    return None


def name_of(core: Core, key: str) -> str:
    return key.rpartition("/")[2] if key.startswith("sessions/") else _trashed(core, key, 0).session_id


def _check_free(core: Core, key: str, origins: Origins) -> None:
    """Raise Locked while it is open, Forbidden while it is under legal hold."""
    if origins.is_held(key):
        raise _held(name_of(core, key))
    with core.inner.lease(key).held("erase", LEASE_MS):
        pass


def _told_apart(
    core: Core, mine: builtins.list[str], chosen: builtins.list[str], spared: builtins.list[str], origins: Origins
) -> builtins.list[str]:
    """Return sentences about sessions that stay and hold events of these; ``chosen`` are erased too."""
    from holdfast.session import detach_children

    detach_children(core.inner, *chosen)
    told = [f"{key} begins with the same events and was left." for key in spared]
    names = {name_of(core, key) for key in mine}
    closed, merged = [], []
    for entry in (entry for folder in _FOLDERS for entry in core.inner.entries(folder)):
        origin = origins.of(entry)
        if origin is None:
            closed.append(f"{entry.key} could not be read; it may have events of it.")
        elif entry.key.startswith("sessions/") and names & origin.merged:
            merged.append(f"{entry.key} was merged with it and holds events of it.")
    return told + closed + merged
