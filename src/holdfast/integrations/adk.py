"""Google's Agent Development Kit on our log: a service for ``Runner(session_service=…)``.

``HoldfastSessionService()`` in place of ``DatabaseSessionService(url)`` is the whole change. A
session of the kit is one of ours: its events are the conversation, its state the variables. State
of a user and of an app outlives sessions, and is kept in documents beside them.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Self

from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.tools import BaseTool, FunctionTool
from pydantic_core import to_jsonable_python

from holdfast.integrations._adk_events import FORM, VARIABLE, Announced, Shared, Values, by_owner, events_of, variables
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._place import SESSIONS, AdapterSession, Library, Recent, library_of, linked, unblocked
from holdfast.integrations._units import CONVERSATION, Unit, Units, Words, stored
from holdfast.model import Event as Recorded
from holdfast.session import Session as Written

__all__ = ["HoldfastSessionService", "bring_over", "durable"]

_TOOL = "adk"


class _KitSession(Units):
    """One session of the kit: its place and its contents."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.variables: dict[str, Any] = {}
        self.changed_at = 0
        self.created = False
        self._read_by_others: dict[int, None] = {}
        self._results: dict[str, int] = {}  # the result of each call that others read

    def _take(self, event: Recorded) -> None:
        self.changed_at = event.timestamp
        if event.type in CONVERSATION:
            self._read_by_others[event.seq] = None
            if event.type == "tool_call":
                self._results.pop(event.data["id"], None)  # another call with the id of an earlier
            elif event.type == "tool_result":
                self._results[event.data["toolCallId"]] = event.seq
        elif event.type == VARIABLE:
            self.variables[event.data["name"]] = event.data["value"]
        elif event.type == "variable_delete":
            self.variables.pop(event.data["name"], None)
        elif event.type == "frame" and event.data.get("tool") == _TOOL:
            self.created = True
        super()._take(event)

    def _take_foreign(self, event: Recorded) -> None:
        if event.type == "retracted":
            for seq in event.data.get("seqs", ()):
                self._read_by_others.pop(seq, None)
            if FORM.has(event.data.get("by")):
                return  # for others: the kit has all its events, and leaves out what it will
        super()._take_foreign(event)

    def taken_back_by(self, item: dict[str, Any]) -> Words:
        """Return what others no longer read once an event of the kit is recorded.

        That is what the event rewinds, and an earlier result of a call that it has a result of, by
        which the kit says that the call waits.
        """
        parts = (item.get("content") or {}).get("parts") or []
        calls = (part.get("functionResponse", {}).get("id") for part in parts)
        before = (self._results.get(call) for call in calls)
        seqs = [seq for seq in before if seq in self._read_by_others]
        rewound = item.get("actions", {}).get("rewindBeforeInvocationId")
        if rewound:
            units = (unit for unit in self.read() if unit.own)
            begun = (unit.seqs[0] for unit in units if unit.item.get("invocationId") == rewound)
            first = next(begun, math.inf)
            seqs += [seq for seq in self._read_by_others if seq >= first]
        return [("retracted", {"seqs": seqs, "by": FORM.name})] if seqs else []


class HoldfastSessionService(BaseSessionService):
    """Sessions of the kit, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. An event is on the
    medium when ``append_event`` returns. With ``adopt``, an id under which another framework began
    a session names that session; without it, sessions are found by app, user and id alone. A name
    as ``adopt`` is that of the agent that goes on: to it, what others answered is its own.
    """

    def __init__(self, hf: Library = None, *, adopt: bool | str = False) -> None:
        self._library = library = library_of(hf)
        self._author = adopt if isinstance(adopt, str) else "model"
        self._shared = Shared(library)

        def make(named: tuple[str, str, str]) -> _KitSession:
            place = AdapterSession(library, _TOOL, named[2], scope=json.dumps(named[:2]))
            if adopt and not place.exists():
                plain = AdapterSession(library, _TOOL, named[2])
                place = plain if plain.exists() else place
            return _KitSession(place, FORM)

        self._kept = Recent(make)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session. Raises AlreadyExistsError if one with this id exists."""
        session_id = (session_id or "").strip() or str(uuid.uuid4())
        kept = self._of(app_name, user_id, session_id)
        taken = AlreadyExistsError(f"Session with id {session_id} already exists.")
        if kept.place.exists():
            raise taken
        given = by_owner(_plain(state or {}))

        def create(written: Written, shared: Words) -> Sequence[Recorded]:
            kept.catch_up()
            if kept.created:
                raise taken
            return written.extend([*variables(given["session"]), stored(tool=_TOOL), *shared])

        await self._write(kept, _owned(app_name, user_id, given), create)
        return await asyncio.to_thread(self._read, app_name, user_id, session_id)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session with its events (all, or those that ``config`` selects); None if there is none."""
        session_id = session_id.strip()
        if not self._of(app_name, user_id, session_id).place.exists():
            return None
        read = await asyncio.to_thread(self._read, app_name, user_id, session_id)
        if config is not None:
            read.events = _chosen(read.events, config)
        return read

    @unblocked
    def list_sessions(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> ListSessionsResponse:
        """Return the sessions without their events, the last used one at the end.

        ``newest_first``, ``limit`` and ``offset`` are ours: pages of the sessions used last. Of
        sessions that are not on the page only the beginning is read.
        """
        written = {entry.key: entry.modified for entry in self._library.store.entries(SESSIONS)}
        chosen: list[tuple[int, str, str]] = []
        for id, link in linked(self._library, _TOOL):
            app, user = json.loads(link.get("scope") or "[null, null]")
            if app == app_name and user_id in (None, user):
                chosen.append((written.get(SESSIONS + id, 0), user, link["id"]))
        chosen.sort(reverse=newest_first)
        # Pages of sessions by their time of change; within a page, by the time in the sessions themselves.
        page = chosen[offset : None if limit is None else offset + limit]
        found = [self._read(app_name, user, id, whole=False) for _, user, id in page]
        found.sort(key=lambda one: (one.last_update_time, one.user_id, one.id), reverse=newest_first)
        return ListSessionsResponse(sessions=found)

    @unblocked
    def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Move a session to the trash; ``hf.undelete`` brings it back."""
        session_id = session_id.strip()
        place = self._of(app_name, user_id, session_id).place
        self._kept.pop((app_name, user_id, session_id))
        place.close()
        if place.exists():
            for key in (_key(app_name), _key(app_name, user_id)):
                self._shared.settle(key)
            place.delete()

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that all sessions of a user share, without its prefix."""
        return await asyncio.to_thread(self._shared.read, _key(app_name, user_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Record an event. Raises StaleSessionError if others wrote since the session was read."""
        if event.partial:
            return event
        kept = self._of(session.app_name, session.user_id, session.id)
        if kept.place.held() is None and not kept.place.exists():
            raise SessionNotFoundError(f"Session {session.id} not found.")
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        item = _plain(event.model_dump(mode="json", by_alias=True, exclude_none=True))
        given = by_owner(item.get("actions", {}).get("stateDelta", {}))

        def append(written: Written, shared: Words) -> Sequence[Recorded]:
            with kept.lock:
                units = kept.newest(_RETRIED)
                # A runner that was interrupted delivers its last events again.
                if any(unit.own and unit.item == item for unit in units):
                    return []
                _check_not_stale(session, units)
                gone = kept.taken_back_by(item)
                recorded = written.extend([*gone, *FORM.record(item), *shared])
                kept.take(recorded)
                session._storage_update_marker = _marker(kept.newest(1))  # noqa: SLF001 - the kit's
                return recorded

        if not await self._write(kept, _owned(session.app_name, session.user_id, given), append):
            return event
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    async def close(self) -> None:
        """Release all sessions to other processes now, rather than after the idle time."""
        for kept in self._kept.known().values():
            await asyncio.to_thread(kept.place.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _of(self, app_name: str, user_id: str, session_id: str) -> _KitSession:
        return self._kept((app_name, user_id, session_id))

    def _read(self, app_name: str, user_id: str, session_id: str, *, whole: bool = True) -> Session:
        """Read a session; if not ``whole``, without its events, of which only the last is read then."""
        kept = self._of(app_name, user_id, session_id)
        with kept.lock:
            units = kept.read() if whole else kept.newest(1)
            app, user = self._shared.read(_key(app_name)), self._shared.read(_key(app_name, user_id))
            scoped = {State.APP_PREFIX + name: value for name, value in app.items()}
            scoped |= {State.USER_PREFIX + name: value for name, value in user.items()}
            state, changed_at = copy.deepcopy(kept.variables) | scoped, kept.changed_at / 1000
        events = events_of(units, self._author)
        at = events[-1].timestamp if events else changed_at
        session = Session(app_name=app_name, user_id=user_id, id=session_id, state=state, last_update_time=at)
        if whole:
            session.events = events
            session._storage_update_marker = _marker(units)  # noqa: SLF001 - where the kit keeps it
        return session

    async def _write(self, kept: _KitSession, shared: dict[str, Values], act: Callable[[Written, Words], Any]) -> bool:
        """Record events with their changes of shared state, all or nothing; return whether there were any."""
        async with kept.place.awriting() as written:
            announced = Announced(self._shared, {})
            if shared:
                await written.abarrier()  # a session that is being made is there before it is named
                changes = {key: written.redacted(values) for key, values in shared.items()}
                announced = await asyncio.to_thread(self._shared.announce, changes, kept.place.id, written.seq)
            try:
                recorded = act(written, announced.words)
            # Even if the task is cancelled: an announcement must not remain without its event.
            except BaseException:
                await asyncio.to_thread(announced.end, happened=False)
                raise
            if recorded:
                await written.abarrier()
        if shared:
            await asyncio.to_thread(announced.end, happened=bool(recorded))
        return bool(recorded)


def durable(
    tool: BaseTool | Callable[..., Any], *, session: HoldfastSessionService, unknown: Unknown = "tell"
) -> BaseTool:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    Intent and result are kept in the session that ``session``, the runner's service, keeps. A call that was cut off is
    not run again, under whatever id it comes: the model is told that its outcome is unknown. With ``unknown="rerun"``
    it runs again; a function gets an OutcomeUnknown with ``arguments``, and returns the result it looked up, or
    ``holdfast.RERUN``. What a tool changes in the state of the kit is not part of its result.
    """
    return _DurableTool(tool if isinstance(tool, BaseTool) else FunctionTool(tool), session, unknown)


class _Asks(Exception):
    """The tool asks a person first; the same call is made again later."""


class _DurableTool(BaseTool):
    """A tool, each call of which is a step of a session."""

    def __init__(self, inner: BaseTool, service: HoldfastSessionService, unknown: Unknown) -> None:
        super().__init__(name=inner.name, description=inner.description, is_long_running=inner.is_long_running)
        self._inner, self._service = inner, service
        self._calls = DurableCalls(unknown, ResultForm(lambda text, _: {"error": text}, _plain_result))

    def _get_declaration(self) -> Any:
        return self._inner._get_declaration()  # noqa: SLF001 - as the kit's own wrappers do

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:
        return bool(await self._inner.check_require_confirmation(args, tool_context))

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Make a call of the model."""
        about = tool_context.session
        place = self._service._of(about.app_name, about.user_id, about.id).place  # noqa: SLF001 - of this module
        asking: list[Any] = []

        async def act() -> Any:
            result = await self._inner.run_async(args=args, tool_context=tool_context)
            actions = tool_context.actions
            if actions.requested_tool_confirmations or actions.requested_auth_configs:
                asking.append(result)
                raise _Asks
            return result

        call = ToolCall(tool_context.function_call_id, self.name, _plain(args))
        try:
            return await self._calls.arun(place, call, act)
        except _Asks:
            return asking[-1]


def _plain_result(result: Any) -> Any:
    return to_jsonable_python(result, serialize_unknown=True)


async def bring_over(
    source: BaseSessionService, app_name: str, hf: Library = None, *, user_id: str | None = None
) -> int:
    """Record the new events of an app's sessions in another service, and their state; return the number of events."""
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
        # Shared state has its current values, not those of the session's last event.
        now = _owned(app_name, listed.user_id, by_owner(_plain(session.state)))
        with target._of(app_name, listed.user_id, listed.id).place.writing() as written:  # noqa: SLF001 - of this module
            for key, values in now.items():
                target._shared.set(key, written.redacted(values))  # noqa: SLF001 - of this module
    return count


_RETRIED = 16  # an event that is delivered again comes soon after the first time


def _owned(app_name: str, user_id: str, given: dict[str, Values]) -> dict[str, Values]:
    """Return the changes of shared state by the document in which they are stored."""
    found = {_key(app_name): given["app"], _key(app_name, user_id): given["user"]}
    return {key: values for key, values in found.items() if values}


def _key(*names: str) -> str:
    """Return the document for the state of an app, or of one of its users."""
    return f"shared/adk-{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:32]}"


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value as JSON; anything that JSON cannot express becomes its text."""
    made: dict[str, Any] = to_jsonable_python(value, serialize_unknown=True)
    return made


def _check_not_stale(session: Session, units: list[Unit]) -> None:
    marker = session._storage_update_marker  # noqa: SLF001 - where the kit keeps it
    if marker is not None and marker != _marker(units):
        # With the message of the kit's own services, by which programs may recognise it.
        raise StaleSessionError(f"session {session.id} has been modified in storage since it was loaded: read it again")


def _marker(units: list[Unit]) -> str:
    return str(units[-1].seqs[-1] if units else -1)


def _chosen(events: list[Event], config: GetSessionConfig) -> list[Event]:
    if config.num_recent_events is not None:
        events = events[-config.num_recent_events :] if config.num_recent_events else []
    if config.after_timestamp is not None:
        older = [n for n, event in enumerate(events) if event.timestamp < config.after_timestamp]
        events = events[older[-1] + 1 :] if older else events
    return events
