"""A logger for agents of any make: everything recorded in order, nothing ever raised."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, Self
from uuid import uuid4

import msgspec

from holdfast.errors import InvalidData, StoreError, UsageError
from holdfast.library import Holdfast
from holdfast.session import Repair, Session

_log = logging.getLogger("holdfast")
_IDS_MAX = 10_000  # tool calls whose ids are known; a result comes soon after its call
_WAITING_MAX = 1000  # events kept while the store takes none; an agent must not fill the memory


class EventLogger:
    """Records what an agent does, and never disturbs it: no call raises or waits for a disk.

    A failure is counted in ``errors``, kept in ``last_error`` and told to the log ``holdfast``. Events that the store
    refuses (it is full, or another process writes the session) wait here, at most a thousand of them, and are
    recorded in their order once it takes them again. Any thread may call any method. The session is opened at the
    first event and mended if it is damaged.
    """

    def __init__(self, library: Holdfast, session_id: str, *, repair: Repair = "auto") -> None:
        self.session_id = session_id
        self.errors = 0
        """How often something could not be recorded when it was logged."""
        self.last_error: Exception | None = None
        self._library = library
        self._repair: Repair = repair
        self._session: Session | None = None
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._lock = threading.RLock()
        self._failing = False
        self._closed = False
        self._call_ids: dict[str, str] = {}
        self._open_calls: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def log_user_message(self, content: Any, **extra: Any) -> None:
        """What the user said: text or blocks."""
        self.log("user", {"role": "user", "content": content, **extra})

    def log_assistant_message(self, agent: str | None, content: Any, **extra: Any) -> None:
        """What an agent said; ``usage`` and ``model`` are members worth giving."""
        self.log("assistant", _named(agent, {"role": "assistant", "content": content, **extra}))

    def log_system_message(self, content: Any, **extra: Any) -> None:
        """The system prompt, from here on."""
        self.log("system", {"role": "system", "content": content, **extra})

    def log_thinking(self, agent: str | None, content: str, signature: str | None = None) -> None:
        """What an agent thought, with the provider's signature if there is one."""
        self.log("thinking", _present(content=content, signature=signature, agent=agent))

    def log_tool_call(self, agent: str | None, tool: str, params: Any = None, tool_id: str | None = None) -> str:
        """The intent to use a tool; the id under which it is recorded (else a random one), to give with its result."""
        recorded = _as_text(tool_id) if tool_id else str(uuid4())
        with self._lock:
            self._note_id(recorded, recorded)
            self._open_calls[_as_text(agent), _as_text(tool)].append(recorded)
        self.log("tool_call", _named(agent, {"id": recorded, "tool": tool, "params": params}))
        return recorded

    def log_tool_result(
        self, agent: str | None, tool: str, tool_id: str | None, result: Any = None, *, is_error: bool = False
    ) -> None:
        """What a tool gave; ``tool_id`` is what ``log_tool_call`` returned.

        One that it never saw, or None, belongs to the oldest call of that agent and tool that has no result yet.
        """
        call_id = self._recorded_id(agent, tool, tool_id)
        self.log("tool_result", {"toolCallId": call_id, "result": result, **({"is_error": True} if is_error else {})})

    @property
    def call_ids(self) -> dict[str, str]:
        """The ids of tool calls that were given, and those under which they are recorded; the newest ten thousand."""
        with self._lock:
            return dict(self._call_ids)

    def log_agent_start(
        self, agent: str, task: Any = None, *, parent: str | None = None, depth: int | None = None
    ) -> None:
        """An agent begins."""
        self.log("agent_start", _present(agent=agent, task=task, parent=parent, depth=depth))

    def log_agent_iteration(self, agent: str, iteration: int | None = None) -> None:
        """One round of an agent's loop."""
        self.log("agent_iteration", _present(agent=agent, iteration=iteration))

    def log_agent_complete(self, agent: str, duration: float | None = None) -> None:
        """An agent has finished, after ``duration`` milliseconds."""
        self.log("agent_complete", _present(agent=agent, duration=duration))

    def log_agent_error(self, agent: str, error: BaseException | str) -> None:
        """An agent has failed."""
        self.log("agent_error", {"agent": agent, "error": error})

    def log_delegation(self, parent: str, child: str, task: Any = None) -> None:
        """One agent gives work to another."""
        self.log("delegation", _present(parent=parent, child=child, task=task))

    def log_delegation_complete(self, parent: str, child: str, result: Any = None) -> None:
        """The work that was given away is done."""
        self.log("delegation_complete", _present(parent=parent, child=child, result=result))

    def log_todo_update(self, todos: Sequence[dict[str, Any]]) -> None:
        """The whole list of todos as it is now."""
        self.log("todo_update", {"todos": todos})

    def log(self, type: str, data: dict[str, Any] | None = None) -> None:
        """Any event by its type and data. What JSON does not know is recorded as its text."""
        # One lock for queue and store: threads log in the order in which they come.
        with self._lock:
            try:
                if self._closed:
                    raise UsageError("this logger is closed; the event was not recorded")
                self._waiting.append((type, _plain({} if data is None else data)))
                self._write_waiting()
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
                self._failed(error)

    def flush(self) -> bool:
        """Whether everything that was logged is on the medium now. Waits for the disk."""
        with self._lock:
            try:
                self._write_waiting()
                if self._session is not None:
                    self._session.flush()
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
                self._failed(error)
                return False
            return not self._waiting

    def close(self) -> bool:
        """Record what waits, flush, and give the session back; whether all of it is safe."""
        with self._lock:
            if self._closed:
                return not self._waiting
            safe = self.flush()
            self._closed = True
            self._let_go()
            return safe

    @property
    def waiting(self) -> int:
        """How many events the store has not taken yet."""
        return len(self._waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<EventLogger {self.session_id} errors={self.errors}>"

    def _write_waiting(self) -> None:
        while self._waiting:
            type, data = self._waiting[0]
            try:
                self._opened().append(type, data)
            except StoreError:
                raise  # the store's trouble: the event waits for better times
            except Exception:
                self._waiting.popleft()  # the event's own fault: it would fail for ever
                raise
            self._waiting.popleft()
            self._failing = False

    def _opened(self) -> Session:
        if self._session is None or self._session.closed or self._session.orphaned:
            self._session = self._library.session(self.session_id, repair=self._repair)
        return self._session

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        self.last_error = error
        # The oldest go: whoever reads the log later needs what happened last.
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popleft()
        if not self._failing:  # a full disk is told once, not with every event
            _log.warning("session %s: an event was not recorded: %s", self.session_id, error)
        self._failing = True
        if isinstance(error, StoreError) and error.unsaved is not None:
            self._let_go()  # that session object is dead for good; the next event opens it anew

    def _let_go(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
            self.errors += 1
            self.last_error = error

    def _note_id(self, given: str, recorded: str) -> None:
        self._call_ids[given] = recorded
        while len(self._call_ids) > _IDS_MAX:
            del self._call_ids[next(iter(self._call_ids))]

    def _recorded_id(self, agent: str | None, tool: str, given: str | None) -> str:
        with self._lock:
            name = _as_text(given) if given else ""
            waiting = self._open_calls[_as_text(agent), _as_text(tool)]
            recorded = self._call_ids.get(name)
            if recorded is None:
                recorded = waiting[0] if waiting else name or str(uuid4())
                if name:
                    self._note_id(name, recorded)
            if recorded in waiting:
                waiting.remove(recorded)
            return recorded


def _named(agent: str | None, data: dict[str, Any]) -> dict[str, Any]:
    return data if agent is None else {**data, "agent": agent}


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """A copy of ``data`` that the caller cannot change any more, in plain JSON values."""
    try:
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data, enc_hook=_as_text))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidData(f"the event cannot be written as JSON: {error}") from error
    return copy


def _as_text(value: Any) -> str:
    """The text of anything, also of what refuses to have one."""
    try:
        text = str(value)
        return f"{type(value).__name__}: {text}" if isinstance(value, BaseException) else text
    except Exception:  # noqa: BLE001 - a value of the agent must not disturb the agent
        return f"<{type(value).__name__}>"
