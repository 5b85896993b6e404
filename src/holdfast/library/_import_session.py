"""Recording one foreign session: its id, its origin, and only what is new."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import TooLarge
from holdfast.formats import Foreign, ForeignDraft, fit_drafts, fit_value, session_id_of
from holdfast.library import _sessions, _views
from holdfast.library._core import Core
from holdfast.library._imports import ImportedSession, Outcome
from holdfast.model import VERSION, Event, fit_id, is_reference
from holdfast.replay import State
from holdfast.session import Draft as EventDraft
from holdfast.session import Session, now_ms

_BATCH_EVENTS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_PROBLEMS_MAX = 20
_PROBLEM_CHARS_MAX = 300
_TITLE_CHARS_MAX = 2_000
_NAME_CHARS_MAX = 100
_LINE_BYTES = 150  # the parts of a line other than its data


class ImportOrigin(msgspec.Struct, frozen=True):
    """The origin of an imported session: the name of the file without its folder, and its digest."""

    name: str
    sha256: str | None
    modified: int = 0


class _Clock:
    """Follows the source's time, so that a session is as old here as it was there."""

    def __init__(self, stamp: int) -> None:
        self.stamp = stamp
        self._latest = stamp

    def __call__(self) -> int:
        return self.stamp

    def pass_to(self, stamp: int | None) -> int:
        """Return the time of the next event: its own, or that of the one before it."""
        self.stamp = stamp or self.stamp
        self._latest = max(self._latest, self.stamp)
        return self.stamp

    def end(self) -> None:
        """Set the clock to the latest time seen: the last event says when a session was changed."""
        self.stamp = self._latest


def bring(core: Core, foreign: Foreign, origin: ImportOrigin, *, dry_run: bool) -> ImportedSession:
    """Record what a foreign session has and ours lacks; nothing here is changed, nor opened without need."""
    id = session_id_of(foreign.tool, foreign.foreign_id, foreign.scope)
    known = _views.state(core, id) if _views.exists(core, id) else None
    keys = [draft.key for draft in fit_drafts(foreign)] if known is not None and foreign.other_scope else []
    # It shares nothing with the session that has its id here.
    if known is not None and keys and not any(key in known.keys for key in keys):
        id = session_id_of(foreign.tool, foreign.foreign_id, foreign.other_scope)
        known = _views.state(core, id) if _views.exists(core, id) else None
    drafts = list(_drafts(foreign, known))
    fresh = drafts
    if known is not None:
        fresh = [draft for draft in drafts if draft.key not in known.keys]
        fresh = [*revisions(drafts, known, partial(_views.events, core), id), *fresh]
        fresh += returns(drafts, known, partial(_views.events, core), id)
    outcome: Outcome = "imported" if known is None else "updated" if fresh else "unchanged"
    if fresh and not dry_run:
        _fit_size(core, fresh, foreign)
        _record(core, id, [_imported(foreign, origin), *fresh], foreign, origin)
    return ImportedSession(
        session_id=id,
        tool=foreign.tool,
        foreign_id=fit_value(foreign.foreign_id),
        outcome=outcome,
        source=origin.name,
        title=fit_value(foreign.title),
        events=len(fresh),
        problems=_told(foreign.problems),
    )


def _drafts(foreign: Foreign, known: State | None) -> Iterator[ForeignDraft]:
    yield ForeignDraft("link", {"kind": foreign.tool, "id": fit_value(foreign.foreign_id)}, key="i.link")
    # The session's drafts, with those about the session as a whole at the end.
    drafts = list(foreign.drafts)
    if foreign.cwd:
        drafts.append(ForeignDraft("metadata", {"cwd": foreign.cwd}, key=f"cwd.{foreign.cwd}"))
    if foreign.title and _may_title(foreign.title, known):
        title = foreign.title[:_TITLE_CHARS_MAX]
        drafts.append(ForeignDraft("title", {"title": title}, key=f"title.{title}"))
    drafts += [ForeignDraft("tag", {"tag": tag}, key=f"tag.{tag}") for tag in foreign.tags if tag.strip()]
    fitted = (_numbered(draft, known) for draft in fit_drafts(msgspec.structs.replace(foreign, drafts=drafts)))
    yield from (draft for draft in fitted if draft is not None)


def _numbered(draft: ForeignDraft, known: State | None) -> ForeignDraft | None:
    """Return the draft; a retraction gets the numbers of the events here, and is None if there are none."""
    if draft.type != "retracted" or "keys" not in draft.data:
        return draft
    here = known.keys if known is not None else {}
    seqs = sorted(here[key] for key in draft.data["keys"] if key in here)
    return ForeignDraft("retracted", {"seqs": seqs}, draft.timestamp, key=draft.key) if seqs else None


def _may_title(title: str, known: State | None) -> bool:
    """Return whether a title may be set: one that a person gave here is not overwritten."""
    if known is None or known.title is None:
        return True
    drafts = [ForeignDraft("title", {"title": text}, key=f"title.{text}") for text in (known.title, title)]
    keys = [draft.key for draft in fit_drafts(Foreign("", "", drafts))]
    return keys[0] in known.keys or keys[1] in known.keys


def _imported(foreign: Foreign, origin: ImportOrigin) -> ForeignDraft:
    data: dict[str, Any] = {
        "format": foreign.tool,
        "tool": foreign.tool,
        "version": foreign.version,
        "source": origin.name,
        "foreign_id": foreign.foreign_id,
        "sha256": origin.sha256,
        "imported_at": now_ms(),
        "by": VERSION,
        "trust": "imported",  # written by a stranger: nothing in it is an instruction
        "problems": list(_told(foreign.problems)) or None,
    }
    if foreign.parent:
        data["parent"] = foreign.parent
        data["parent_session"] = session_id_of(foreign.tool, foreign.parent)
    told = {name: fit_value(value) for name, value in data.items() if value is not None}
    return ForeignDraft("imported", told)


def _told(problems: list[str]) -> tuple[str, ...]:
    told = [fit_value(text[:_PROBLEM_CHARS_MAX]) for text in problems[:_PROBLEMS_MAX]]
    if len(problems) > _PROBLEMS_MAX:
        told.append(f"and {len(problems) - _PROBLEMS_MAX:,} more")
    return tuple(told)


def _fit_size(core: Core, drafts: list[ForeignDraft], foreign: Foreign) -> None:
    """Make the session fit, without the source lines if need be. Raises TooLarge if it still does not."""
    most = core.limits.session_bytes_max
    if sum(_size(draft, core.limits.blob_bytes_min) for draft in drafts) < most:
        return
    for draft in drafts:
        draft.data.pop("raw", None)
    foreign.problems.append("the source lines were left out: with them the session is too large")
    needed = sum(_size(draft, core.limits.blob_bytes_min) for draft in drafts)
    if needed >= most:
        raise TooLarge(
            f"the session would have {needed:,} bytes, at most {most:,} are allowed",
            remedy="Raise session_bytes_max in the configuration; nothing was recorded.",
            limit="session_bytes_max",
            needed_bytes=needed,
        )


def _size(draft: ForeignDraft, blob_bytes_min: int) -> int:
    """Return about how many bytes the event takes in the log; large parts are kept beside it."""
    return min(len(msgspec.json.encode(draft.data)), blob_bytes_min) + _LINE_BYTES


def _record(core: Core, id: str, drafts: list[ForeignDraft], foreign: Foreign, origin: ImportOrigin) -> None:
    first = next((draft.timestamp for draft in drafts if draft.timestamp), None)
    clock = _Clock(foreign.created_at or first or origin.modified or now_ms())
    limits = msgspec.structs.replace(core.limits, message_bytes_max=core.limits.blob_bytes_max)
    options: dict[str, Any] = {"autosave_ms": 0, "snapshot_ms": 0, "durability": "os"}
    if foreign.agent_id:
        options["agent_id"] = fit_id(foreign.agent_id)
    if foreign.provider_type:
        options["provider_type"] = fit_value(foreign.provider_type[:_NAME_CHARS_MAX])
    with _sessions.open_session(core, id, clock=clock, limits=limits, **options) as session:
        # Appended alone: what is recorded at the opening gets the time at which the source began.
        _extend(session, drafts[:1], clock)
        for batch in _batches(drafts[1:]):
            _extend(session, batch, clock)
        clock.end()


def _extend(session: Session, batch: list[ForeignDraft], clock: _Clock) -> None:
    events: list[Any] = [
        EventDraft(draft.type, draft.data, draft.run, draft.key, clock.pass_to(draft.timestamp)) for draft in batch
    ]
    session.extend(events)


def _batches(drafts: list[ForeignDraft]) -> Iterator[list[ForeignDraft]]:
    batch: list[ForeignDraft] = []
    size = 0
    for draft in drafts:
        batch.append(draft)
        size += len(str(draft.data.get("raw", ""))) + _LINE_BYTES
        if len(batch) >= _BATCH_EVENTS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# Changes in a source since it was imported, under the keys of that import.
Events = Callable[..., Iterator[Event]]

_BODIES = dict.fromkeys(("user", "assistant", "thinking"), "content") | {"tool_call": "params", "tool_result": "result"}
_VALUES = {"title": ("title", ""), "memory_set": ("memory", "key"), "variable_set": ("variable", "name")}
"""Types that set a value, with the member that names the value."""
_DIGEST_CHARS = 16


def revisions(drafts: list[ForeignDraft], known: State, events: Events, id: str) -> list[ForeignDraft]:
    """Return the last imported message in its present form if the source changed it, with its old form retracted."""
    here = [draft for draft in drafts if draft.type in _BODIES and draft.key in known.keys]
    last = max(here, key=lambda draft: known.keys[draft.key or ""], default=None)
    return [*([] if last is None else _revised(last, known, events, id)), *_outgrown(drafts, known, events, id)]


def _revised(draft: ForeignDraft, known: State, events: Events, id: str) -> list[ForeignDraft]:
    """Return a draft whose event here differs: another text, or other arguments."""
    data = msgspec.json.encode(draft.data.get(_BODIES[draft.type]), order="sorted")
    key = f"{draft.key}~{hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]}"
    # Its keys: of the first import and of the correction.
    again = f"{draft.key}~"
    names = (name for name in known.keys if name.startswith(again) and not name.endswith("~back"))
    seq = max(known.keys[name] for name in (draft.key or "", *names))
    recorded = next(events(id, seq, seq + 1), None)
    if key in known.keys or recorded is None or recorded.type != draft.type:
        return []
    body = _BODIES[draft.type]
    before: Any = recorded.data.get(body)
    if is_reference(before) or before == draft.data.get(body):
        return []
    return [_taken_back(seq, draft, key), ForeignDraft(draft.type, draft.data, draft.timestamp, draft.run, key)]


def _outgrown(drafts: list[ForeignDraft], known: State, events: Events, id: str) -> list[ForeignDraft]:
    """Retract words that a new draft begins with, where the source does not identify messages."""
    new = next((d for d in drafts if d.type in _BODIES and d.key not in known.keys), None)
    if new is None or not isinstance(new.data.get("content"), str):
        return []
    recorded = next(events(id, types=list(_BODIES), reverse=True, limit=1), None)
    if recorded is None or recorded.type != new.type:
        return []
    said = recorded.data.get("content")
    key = next((key for key, seq in known.keys.items() if seq == recorded.seq), None)
    gone = key is not None and key.startswith("i.") and key not in {d.key for d in drafts}
    if gone and isinstance(said, str) and said and new.data["content"].startswith(said):
        return [_taken_back(recorded.seq, new, f"{new.key}~")]
    return []


def _taken_back(seq: int, draft: ForeignDraft, key: str) -> ForeignDraft:
    return ForeignDraft("retracted", {"seqs": [seq]}, draft.timestamp, key=f"{key}~back")


def returns(drafts: list[ForeignDraft], known: State, events: Events, id: str) -> list[ForeignDraft]:
    """Return the values that the source set back to earlier ones; what a person changed here since stays."""
    latest = {_name(draft): draft for draft in drafts if draft.type in _VALUES}
    wanted = {name: draft for name, draft in latest.items() if draft.key in known.keys and not _holds(draft, known)}
    if not wanted:
        return []
    found = []
    for event in events(id, types=list(_VALUES), reverse=True):
        draft = wanted.pop(_name(event), None)
        if draft is not None and (event.key or "").startswith("i."):
            again = f"{draft.key}~{event.seq}"
            found.append(ForeignDraft(draft.type, draft.data, draft.timestamp, draft.run, again))
    return found


def _name(one: ForeignDraft | Event) -> tuple[str, str]:
    return _VALUES[one.type][0], str(one.data.get(_VALUES[one.type][1], ""))


def _holds(draft: ForeignDraft, known: State) -> bool:
    """Return whether the value that a draft sets is in effect, or is gone."""
    if draft.type == "title":
        return known.title in (None, draft.data["title"])
    if draft.type == "memory_set":
        entry = known.memory.get(draft.data["key"])
        return entry is None or is_reference(entry.value) or entry.value == draft.data.get("value")
    encoded = known.encoded.get(draft.data["name"])
    return encoded is None or msgspec.json.decode(encoded) == draft.data["value"]
