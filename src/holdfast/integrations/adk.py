"""Google's Agent Development Kit on our log: a service for ``Runner(session_service=…)``.

``HoldfastSessionService()`` in place of ``DatabaseSessionService(url)`` is the whole change. A
session of the kit is one of ours: its events are the conversation, its state the variables. State
of a user and of an app outlives sessions, and is kept in documents beside them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import uuid
from typing import Any

import msgspec
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from pydantic_core import to_jsonable_python

from holdfast.errors import Conflict
from holdfast.integrations._place import Library, Place, library_of, linked
from holdfast.integrations._units import Form, Unit, Units, Words, blocks_of, spoken, voices
from holdfast.replay import to_dialect
from holdfast.storage import MUST_NOT_EXIST

__all__ = ["HoldfastSessionService", "bring_over"]

_TOOL = "adk"
_ATTEMPTS = 50
_VARIABLE = "variable_set"


class _Kept:
    """One session of the kit: where it is, and what it holds."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.units = Units(_FORM, place)


class HoldfastSessionService(BaseSessionService):
    """Sessions of the kit, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. An event is on the
    medium when ``append_event`` returns. With ``adopt``, an id under which another framework began
    a session names that session; without it, sessions are found by app, user and id alone. A name
    as ``adopt`` is that of the agent that goes on: to it, what others answered is its own.
    """

    def __init__(self, hf: Library = None, *, adopt: bool | str = False) -> None:
        self._library = library_of(hf)
        self._adopt = bool(adopt)
        self._author = adopt if isinstance(adopt, str) else "model"
        self._kept: dict[tuple[str, str, str], _Kept] = {}
        self._lock = threading.Lock()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session. Raises AlreadyExistsError if there is one of this id."""
        session_id = (session_id or "").strip() or str(uuid.uuid4())
        kept = self._of(app_name, user_id, session_id)
        if self._library.exists(kept.place.id):
            raise AlreadyExistsError(f"Session with id {session_id} already exists.")
        given = _split(_plain(state or {}))
        async with kept.place.awriting() as session:
            words = [
                (_VARIABLE, {"name": name, "value": v}) for name, v in given["session"].items()
            ]
            session.extend([*words, ("frame", {"direction": "stored", "tool": _TOOL})])
            await session.abarrier()
        await asyncio.to_thread(self._share, app_name, user_id, given)
        return await asyncio.to_thread(self._read, kept, app_name, user_id, session_id)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """A session with its events (all, or those that ``config`` asks for); None if none."""
        session_id = session_id.strip()
        kept = self._of(app_name, user_id, session_id)
        if not self._library.exists(kept.place.id):
            return None
        read = await asyncio.to_thread(self._read, kept, app_name, user_id, session_id)
        if config is not None:
            read.events = _chosen(read.events, config)
        return read

    async def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> ListSessionsResponse:
        """Sessions without their events, the one used last at the end.

        ``newest_first``, ``limit`` and ``offset`` are ours: pages of the sessions used last.
        """
        found = await asyncio.to_thread(self._list, app_name, user_id)
        if newest_first:
            found.reverse()
        end = None if limit is None else offset + limit
        return ListSessionsResponse(sessions=found[offset:end])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Move a session to the trash; ``hf.undelete`` brings it back."""
        session_id = session_id.strip()
        kept = self._of(app_name, user_id, session_id)
        with self._lock:
            self._kept.pop((app_name, user_id, session_id), None)
        await asyncio.to_thread(kept.place.close)
        if self._library.exists(kept.place.id):
            await asyncio.to_thread(self._library.delete, kept.place.id)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that all sessions of a user share, without its prefix."""
        return await asyncio.to_thread(self._shared, _user_key(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Record an event. Raises StaleSessionError if others wrote since the session was read."""
        if event.partial:
            return event
        kept = self._of(session.app_name, session.user_id, session.id)
        if kept.place.held_seq() is None and not self._library.exists(kept.place.id):
            raise SessionNotFoundError(f"Session {session.id} not found.")
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        item = _plain(event.model_dump(mode="json", by_alias=True, exclude_none=True))
        async with kept.place.awriting() as written:
            units = kept.units.read()
            if any(unit.own and unit.item == item for unit in units[-_RETRIED:]):
                return event
            marker = session._storage_update_marker  # noqa: SLF001 - where the kit keeps it
            if marker is not None and marker != _marker(units):
                raise StaleSessionError(
                    f"session {session.id} has grown since it was read: read it again"
                )
            kept.units.take(written.extend(_FORM.record(item)))
            await written.abarrier()
            session._storage_update_marker = _marker(kept.units.read())  # noqa: SLF001
        shared = _split(item.get("actions", {}).get("stateDelta", {}))
        await asyncio.to_thread(self._share, session.app_name, session.user_id, shared)
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    # -- inside ------------------------------------------------------------------------------

    def _of(self, app_name: str, user_id: str, session_id: str) -> _Kept:
        key = (app_name, user_id, session_id)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                scope = json.dumps([app_name, user_id])
                place = Place(self._library, _TOOL, session_id, scope=scope)
                if self._adopt and not self._library.exists(place.id):
                    plain = Place(self._library, _TOOL, session_id)
                    place = plain if self._library.exists(plain.id) else place
                kept = self._kept[key] = _Kept(place)
            return kept

    def _read(self, kept: _Kept, app_name: str, user_id: str, session_id: str) -> Session:
        units = kept.units.read()
        state = self._library.state(kept.place.id)
        session = Session(
            app_name=app_name,
            user_id=user_id,
            id=session_id,
            state=state.variables | self._scoped(app_name, user_id),
            events=_events(units, self._author),
            last_update_time=state.updated_at / 1000,
        )
        if session.events:
            session.last_update_time = session.events[-1].timestamp
        session._storage_update_marker = _marker(units)  # noqa: SLF001 - where the kit keeps it
        return session

    def _list(self, app_name: str, user_id: str | None) -> list[Session]:
        found: list[Session] = []
        for _, link in linked(self._library, _TOOL):
            app, user = json.loads(link.get("scope") or "[null, null]")
            if app == app_name and user_id in (None, user):
                session = self._read(self._of(app, user, link["id"]), app, user, link["id"])
                session.events = []
                found.append(session)
        return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

    def _scoped(self, app_name: str, user_id: str) -> dict[str, Any]:
        app = self._shared(_app_key(app_name))
        user = self._shared(_user_key(app_name, user_id))
        named = {State.APP_PREFIX + name: value for name, value in app.items()}
        return named | {State.USER_PREFIX + name: value for name, value in user.items()}

    def _share(self, app_name: str, user_id: str, given: dict[str, dict[str, Any]]) -> None:
        self._merge(_app_key(app_name), given["app"])
        self._merge(_user_key(app_name, user_id), given["user"])

    def _shared(self, key: str) -> dict[str, Any]:
        found = self._library.store.documents(key).get(_DOCUMENT)
        return {} if found is None else msgspec.json.decode(found[0])

    def _merge(self, key: str, values: dict[str, Any]) -> None:
        """Put values into a document that others may be changing at the same time."""
        if not values:
            return
        documents = self._library.store.documents(key)
        for left in reversed(range(_ATTEMPTS)):
            found = documents.get(_DOCUMENT)
            data, etag = found or (b"{}", MUST_NOT_EXIST)
            merged = msgspec.json.decode(data) | values
            try:
                documents.put(_DOCUMENT, msgspec.json.encode(merged), if_match=etag)
            except Conflict:
                if not left:
                    raise
            else:
                return


async def bring_over(
    source: BaseSessionService, app_name: str, hf: Library = None, *, user_id: str | None = None
) -> int:
    """Record the sessions of an app that another service holds, with their state.

    How many events were recorded. Done again, it records only what is new there.
    """
    target, count = HoldfastSessionService(hf), 0
    for listed in (await source.list_sessions(app_name=app_name, user_id=user_id)).sessions:
        named = {"app_name": app_name, "user_id": listed.user_id}
        session = await source.get_session(**named, session_id=listed.id)
        if session is None:
            continue
        known = await target.get_session(**named, session_id=listed.id)
        if known is None:
            said = {name for event in session.events for name in event.actions.state_delta}
            first = {name: value for name, value in session.state.items() if name not in said}
            known = await target.create_session(**named, state=first, session_id=listed.id)
        recorded = {event.id for event in known.events}
        for event in session.events:
            if event.id not in recorded:
                await target.append_event(known, event)
                count += 1
        # What several sessions share is as it is now, not as the last of their events left it.
        target._share(app_name, listed.user_id, _split(_plain(session.state)))  # noqa: SLF001
    return count


_DOCUMENT = "state.json"
_RETRIED = 16  # an event that is delivered again comes soon after the first time


def _app_key(app_name: str) -> str:
    return f"shared/adk-{_digest(app_name)}"


def _user_key(app_name: str, user_id: str) -> str:
    return f"shared/adk-{_digest(app_name, user_id)}"


def _digest(*names: str) -> str:
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """A value as JSON has it; what JSON has no form for becomes its text."""
    made: dict[str, Any] = to_jsonable_python(value, serialize_unknown=True)
    return made


def _split(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A change of state by whom it belongs to; what is only for now belongs to nobody."""
    parts: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for name, value in delta.items():
        if name.startswith(State.APP_PREFIX):
            parts["app"][name.removeprefix(State.APP_PREFIX)] = value
        elif name.startswith(State.USER_PREFIX):
            parts["user"][name.removeprefix(State.USER_PREFIX)] = value
        elif not name.startswith(State.TEMP_PREFIX):
            parts["session"][name] = value
    return parts


def _marker(units: list[Unit]) -> str:
    return str(units[-1].seqs[-1] if units else -1)


def _chosen(events: list[Event], config: GetSessionConfig) -> list[Event]:
    if config.num_recent_events is not None:
        events = events[-config.num_recent_events :] if config.num_recent_events else []
    if config.after_timestamp is not None:
        older = [n for n, event in enumerate(events) if event.timestamp < config.after_timestamp]
        events = events[older[-1] + 1 :] if older else events
    return events


def _events(units: list[Unit], author: str) -> list[Event]:
    """What the runner gets: its own events as they came, what others said in its form."""
    made: list[Event] = []
    for unit in voices(units):
        if unit.own:
            made.append(Event.model_validate(unit.item))
        else:
            made += _told_by_others(unit, author)
    return made


def _told_by_others(unit: Unit, author: str) -> list[Event]:
    said = unit.item
    asked = said["role"] == "user" and not _results(said)
    about = {
        "id": f"holdfast-{unit.seqs[0]}",
        "author": "user" if asked else author,
        "timestamp": unit.at / 1000,
    }
    contents = to_dialect([said], "gemini") if said["role"] != "system" else []
    return [Event.model_validate({**about, "content": content}) for content in contents]


def _results(said: dict[str, Any]) -> bool:
    content = said["content"]
    return isinstance(content, list) and any(one["type"] == "tool_result" for one in content)


def _tell(item: dict[str, Any]) -> Words:
    content = item.get("content")
    words = spoken(content, "gemini") if isinstance(content, dict) else []
    usage = item.get("usageMetadata") or {}
    counts = {"input_tokens": "promptTokenCount", "output_tokens": "candidatesTokenCount"}
    spent = {name: usage[theirs] for name, theirs in counts.items() if usage.get(theirs)}
    for type, data in words:
        if type == "assistant" and spent:
            data["usage"] = spent
    delta = _split(item.get("actions", {}).get("stateDelta", {}))["session"]
    changes: Words = [(_VARIABLE, {"name": name, "value": value}) for name, value in delta.items()]
    if changes and not words:
        words = [("frame", {"direction": "stored"})]
    return [*words, *changes]


def _rebuild(words: Words) -> dict[str, Any]:
    delta = {data["name"]: data["value"] for type, data in words if type == _VARIABLE}
    actions = {
        "stateDelta": delta,
        "artifactDelta": {},
        "requestedAuthConfigs": {},
        "requestedToolConfirmations": {},
    }
    item: dict[str, Any] = {"actions": actions, "nodeInfo": {"path": ""}}
    said = [word for word in words if word[0] not in (_VARIABLE, "frame")]
    if said:
        role = "user" if said[0][0] in ("user", "tool_result") else "model"
        parts = [_part(block) for word in said for block in blocks_of(*word)]
        item["content"] = {"role": role, "parts": parts}
    return item


def _part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"text": block["text"]}
    if kind == "tool_use":
        call = {"id": block["id"], "name": block["name"], "args": block["input"]}
        return {"functionCall": call}
    if kind == "tool_result":
        response = {"result": block["content"]}
        return {"functionResponse": {"id": block["tool_use_id"], "response": response}}
    return block


_FORM = Form("adk/1", _tell, _rebuild)
