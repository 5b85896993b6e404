"""Strands Agents on our log: a repository for ``RepositorySessionManager(session_repository=…)``.

``HoldfastSessionRepository()`` in place of ``FileSessionManager``'s folder. A session of Strands is
one of ours: the messages of its first agent are the conversation, those of further agents are runs
within it, and the state of agents is kept with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from holdfast.errors import Fenced
from holdfast.integrations._difference import apply, difference
from holdfast.integrations._place import AdapterSession, Library, library_of
from holdfast.integrations._recent import Recent
from holdfast.integrations._strands_messages import (
    FORM,
    as_message,
    micros_of,
    repaired,
    time_of,
)
from holdfast.integrations._units import Unit, Units, Words, fresh
from holdfast.model import Event
from holdfast.session import Session as Written

if TYPE_CHECKING:
    from strands.multiagent.base import MultiAgentBase

__all__ = ["HoldfastSessionRepository", "Overtaken", "bring_over"]

_TOOL = "strands"
_AGENT = "agent"


class Overtaken(Fenced, SessionException):
    """Another process has recorded a message of this number: two went on with one conversation."""


class _Kept(Units):
    """One session of Strands: where it is, its messages, and what is known of its agents."""

    def __init__(self, place: AdapterSession) -> None:
        super().__init__(FORM, place)

    def _begin_again(self) -> None:
        super()._begin_again()
        self.numbered: dict[tuple[str | None, int], dict[str, Any]] = {}
        """The messages that Strands recorded, by run and number."""
        self.mixed: set[str | None] = set()
        """The runs in which others said something as well."""
        self.session: dict[str, Any] | None = None
        self.states: dict[tuple[str, str], dict[str, Any]] = {}
        """What is on record of agents (``agent``) and of groups of them (``multi_agent``)."""

    def _add(self, unit: Unit) -> None:
        super()._add(unit)
        if unit.own:
            self.numbered[unit.run, unit.item["message_id"]] = unit.item
        else:
            self.mixed.add(unit.run)

    def _drop(self, unit: Unit) -> None:
        if unit.own:
            self.numbered.pop((unit.run, unit.item["message_id"]), None)

    def _take_foreign(self, event: Event) -> None:
        if event.type != "frame" or event.data.get("tool") != _TOOL:
            super()._take_foreign(event)
            return
        data = event.data
        if "session" in data:
            self.session = data["session"]
        else:
            key = (data.get("of", _AGENT), data["id"])
            state = apply(self.states.get(key, {}), data.get("change"))
            changed = {"updated_at": time_of(data["at"])} if "at" in data else {}
            self.states[key] = state | changed

    def run_of(self, agent_id: str) -> str | None:
        """The run of an agent: the first one speaks for the session itself."""
        agents = [id for kind, id in self.states if kind == _AGENT]
        return None if not agents or agents[0] == agent_id else agent_id

    def told(self, agent_id: str, words: Words) -> list[Event]:
        """Words as what an agent says."""
        run = self.run_of(agent_id)
        return [Event.make(type, data, run=run) for type, data in words]

    def items(self, agent_id: str) -> list[dict[str, Any]]:
        """The messages of an agent as plain data, with what others recorded among them."""
        run = self.run_of(agent_id)
        units = [unit for unit in self.read() if unit.run == run]
        made: list[dict[str, Any]] = []
        last = -1
        for own, some in groupby(units, key=lambda unit: unit.own):
            items = [unit.item for unit in some]
            if not own:
                made += [{"message": message} for message in as_message(items)]
                continue
            for item in items:
                if item["message_id"] > last:
                    made.append(item)
                    last = item["message_id"]
                else:  # put in the place of another, later
                    later = [one.get("message_id", -1) > item["message_id"] for one in made]
                    made.insert(later.index(True), item)
        return repaired(made, f"{self.place.id}/{run}")

    def at(self, agent_id: str, number: int) -> dict[str, Any] | None:
        """The message of a number; None if there is none."""
        run = self.run_of(agent_id)
        if run not in self.mixed:
            return self.numbered.get((run, number))
        return next((one for one in self.items(agent_id) if one["message_id"] == number), None)

    def messages(self, agent_id: str) -> list[SessionMessage]:
        """The messages of an agent as the framework has them."""
        return [SessionMessage.from_dict(fresh(item)) for item in self.items(agent_id)]


class HoldfastSessionRepository(SessionRepository):
    """Sessions of Strands, in a Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. A message is on the
    medium when ``create_message`` returns. A call whose result never came is answered, when the
    messages are listed, with one that says so; but one in the last message is left alone, because
    it may wait for a person, and Strands itself answers it when something else is said.
    """

    def __init__(self, hf: Library = None) -> None:
        self._library = library_of(hf)
        self._kept: Recent[str, _Kept] = Recent()

    # -- sessions ----------------------------------------------------------------------------

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """A new session. Raises SessionException if there is one of this id."""
        kept = self._read(session.session_id)

        def tell() -> list[Event]:
            if kept.session is not None:
                raise SessionException(f"Session {session.session_id} already exists")
            return [_frame(session=session.to_dict())]

        self._write(kept, tell)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """A session, also one that another framework began; None if there is none."""
        kept = self._read(session_id)
        if kept.session is not None:
            return Session.from_dict(kept.session | {"session_id": session_id})
        if self._library.exists(kept.place.id):
            return Session(session_id=session_id, session_type=SessionType.AGENT)
        return None

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Move a session to the trash; ``hf.undelete`` brings it back."""
        kept = self._read(session_id)
        if not self._library.exists(kept.place.id):
            raise SessionException(f"Session {session_id} does not exist")
        self._kept.pop(session_id)
        kept.place.close()
        self._library.delete(kept.place.id)

    # -- agents ------------------------------------------------------------------------------

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Record an agent of a session."""
        self._record(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """An agent as it was recorded last; None if there is none."""
        found = self._read(session_id).states.get((_AGENT, agent_id))
        return None if found is None else SessionAgent.from_dict(fresh(found))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Record what changed of an agent. Raises SessionException if there is none."""
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            agent = session_agent.agent_id
            raise SessionException(f"Agent {agent} in session {session_id} does not exist")
        session_agent.created_at = before.created_at
        self._record(session_id, _AGENT, session_agent.agent_id, session_agent.to_dict())

    # -- messages ----------------------------------------------------------------------------

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Record a message. Raises Overtaken if another process recorded one of its number."""
        number = session_message.message_id
        _check_number(number)
        kept, item = self._read(session_id), session_message.to_dict()

        def tell() -> list[Event]:
            known = kept.at(agent_id, number)
            if known is None:
                return kept.told(agent_id, FORM.record(item))
            if known["message"] == item["message"]:
                return []  # recorded by another framework, and handed on to this one
            raise Overtaken(
                f"message {number} of agent {agent_id} in session {session_id} is another one",
                session_id=kept.place.id,
            )

        self._write(kept, tell)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """A message by its number; None if there is none."""
        _check_number(message_id)
        kept = self._read(session_id)
        with kept.lock:
            item = kept.at(agent_id, message_id)
        return None if item is None else SessionMessage.from_dict(fresh(item))

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Put a message in the place of another; the log keeps both."""
        number = session_message.message_id
        before = self.read_message(session_id, agent_id, number)
        if before is None:
            raise SessionException(f"Message {number} does not exist")
        session_message.created_at = before.created_at
        kept = self._read(session_id)

        def tell() -> list[Event]:
            run = kept.run_of(agent_id)
            old = [
                seq
                for unit in kept.read()
                if unit.own and unit.run == run and unit.item["message_id"] == number
                for seq in unit.seqs
            ]
            words = [("retracted", {"seqs": old}), *FORM.record(session_message.to_dict())]
            return kept.told(agent_id, words)

        self._write(kept, tell)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """The messages of an agent in their order, every call but the last with its result.

        A result that was lost is put in as a message with a number below zero, always the same.
        """
        kept = self._read(session_id)
        if (_AGENT, agent_id) not in kept.states:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        found = kept.messages(agent_id)
        return found[offset : None if limit is None else offset + limit]

    def messages(self, session_id: str) -> list[Any]:
        """The conversation of a session, whatever recorded it, for ``Agent(messages=…)``."""
        kept = self._read(session_id)
        agents = [id for kind, id in kept.states if kind == _AGENT]
        found = kept.messages(agents[0] if agents else "")
        return [message.to_message() for message in found]

    # -- groups of agents --------------------------------------------------------------------

    def create_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Record the state of a group of agents."""
        state = multi_agent.serialize_state()
        self._record(session_id, "multi_agent", multi_agent.id, state)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """The state of a group as it was recorded last; None if there is none."""
        found = self._read(session_id).states.get(("multi_agent", multi_agent_id))
        return None if found is None else cast("dict[str, Any]", fresh(found))

    def update_multi_agent(
        self, session_id: str, multi_agent: MultiAgentBase, **kwargs: Any
    ) -> None:
        """Record what changed of a group. Raises SessionException if there is none."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            id = multi_agent.id
            raise SessionException(f"MultiAgent state {id} in session {session_id} does not exist")
        self.create_multi_agent(session_id, multi_agent)

    # -- inside ------------------------------------------------------------------------------

    def _read(self, session_id: str) -> _Kept:
        kept = self._kept.get(
            session_id, lambda: _Kept(AdapterSession(self._library, _TOOL, session_id))
        )
        with kept.lock:
            kept.catch_up()
        return kept

    def _record(self, session_id: str, kind: str, id: str, state: dict[str, Any]) -> None:
        kept = self._read(session_id)

        def tell() -> list[Event]:
            before = kept.states.get((kind, id))
            change = difference(before or {}, state)
            if before is not None and change is None:
                return []
            of = {"of": kind} if kind != _AGENT else {}
            at = micros_of(state.get("updated_at"))
            if before is None or at is None:
                return [_frame(**of, id=id, change=change)]
            rest = difference(before, state | {"updated_at": before.get("updated_at")})
            return [_frame(**of, id=id, at=at, **({"change": rest} if rest else {}))]

        self._write(kept, tell)

    def _write(self, kept: _Kept, tell: Callable[[], list[Event]]) -> None:
        """Record what is to be told, which is asked when nobody else can write any more."""

        def record(session: Written) -> list[Event]:
            with kept.lock:
                kept.catch_up()
                recorded = session.extend(tell())
                kept.take(recorded)
                return recorded

        kept.place.write(record)


def bring_over(
    source: SessionRepository,
    session_id: str,
    hf: Library = None,
    *,
    agent_ids: Sequence[str] = ("default",),
) -> int:
    """Record a session that another repository holds, such as a FileSessionManager.

    How many messages of these agents were recorded. Done again, it records only what is new there.
    """
    target, count = HoldfastSessionRepository(hf), 0
    session = source.read_session(session_id)
    if session is None:
        raise SessionException(f"Session {session_id} does not exist")
    if target.read_session(session_id) is None:
        target.create_session(session)
    for agent_id in agent_ids:
        agent = source.read_agent(session_id, agent_id)
        if agent is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        target.create_agent(session_id, agent)
        known = {one.message_id for one in target.list_messages(session_id, agent_id)}
        for message in source.list_messages(session_id, agent_id):
            if message.message_id not in known:
                target.create_message(session_id, agent_id, message)
                count += 1
    return count


def _frame(**told: Any) -> Event:
    return Event.make("frame", {"direction": "stored", "tool": _TOOL, **told})


def _check_number(message_id: Any) -> None:
    if not isinstance(message_id, int):
        raise ValueError(f"message_id=<{message_id}> | message id must be an integer")
