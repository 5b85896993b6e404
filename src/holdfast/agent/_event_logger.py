"""A logger for any kind of agent: everything is recorded in order, and nothing ever raises."""

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
_IDS_MAX = 10_000  # tool calls whose ids are remembered; a result comes soon after its call
_WAITING_MAX = 1000  # events kept while the store refuses them; an agent must not fill the memory


class EventLogger:
    """Records what an agent does without disturbing it: no call raises or waits for a disk.

    A failure is counted in ``errors``, kept in ``last_error`` and logged to ``holdfast``. Events that the store
    refuses (it is full, or another process writes the session) wait here, at most a thousand of them, and are
    recorded in their order once it accepts them again. Any thread may call any method. The session is opened at the
    first event and repaired if it is damaged.
    """

    def __init__(self, library: Holdfast, session_id: str, *, repair: Repair = "auto") -> None:
        self.session_id = session_id
        self.errors = 0
        """The number of events that could not be recorded when they were logged."""
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
        """Log the user's message: text or blocks."""
        self.log("user", {"role": "user", "content": content, **extra})

    def log_assistant_message(self, agent: str | None, content: Any, **extra: Any) -> None:
        """Log an agent's message; ``usage`` and ``model`` are members worth giving."""
        self.log("assistant", _named(agent, {"role": "assistant", "content": content, **extra}))

    def log_system_message(self, content: Any, **extra: Any) -> None:
        """Log the system prompt, from here on."""
        self.log("system", {"role": "system", "content": content, **extra})

    def log_thinking(self, agent: str | None, content: str, signature: str | None = None) -> None:
        """Log an agent's thinking, with the provider's signature if there is one."""
        self.log("thinking", _present(content=content, signature=signature, agent=agent))

    def log_tool_call(self, agent: str | None, tool: str, params: Any = None, tool_id: str | None = None) -> str:
        """Log the intent to use a tool; return the id of the record (else a random one), for its result."""
        recorded = _as_text(tool_id) if tool_id else str(uuid4())
        with self._lock:
            self._note_id(recorded, recorded)
            self._open_calls[_as_text(agent), _as_text(tool)].append(recorded)
        self.log("tool_call", _named(agent, {"id": recorded, "tool": tool, "params": params}))
        return recorded

    def log_tool_result(
        self, agent: str | None, tool: str, tool_id: str | None, result: Any = None, *, is_error: bool = False
    ) -> None:
        """Log the result of a tool; ``tool_id`` is what ``log_tool_call`` returned.

        An unknown id, or None, means the oldest call of that agent and tool that has no result yet.
        """
        call_id = self._recorded_id(agent, tool, tool_id)
        self.log("tool_result", {"toolCallId": call_id, "result": result, **({"is_error": True} if is_error else {})})

    @property
    def call_ids(self) -> dict[str, str]:
        """The given ids of tool calls, with the ids under which they are recorded; the newest ten thousand."""
        with self._lock:
            return dict(self._call_ids)

    def log_agent_start(
        self, agent: str, task: Any = None, *, parent: str | None = None, depth: int | None = None
    ) -> None:
        """Log that an agent begins."""
        self.log("agent_start", _present(agent=agent, task=task, parent=parent, depth=depth))

    def log_agent_iteration(self, agent: str, iteration: int | None = None) -> None:
        """Log one round of an agent's loop."""
        self.log("agent_iteration", _present(agent=agent, iteration=iteration))

    def log_agent_complete(self, agent: str, duration: float | None = None) -> None:
        """Log that an agent has finished, after ``duration`` milliseconds."""
        self.log("agent_complete", _present(agent=agent, duration=duration))

    def log_agent_error(self, agent: str, error: BaseException | str) -> None:
        """Log that an agent has failed."""
        self.log("agent_error", {"agent": agent, "error": error})

    def log_delegation(self, parent: str, child: str, task: Any = None) -> None:
        """Log that one agent delegates work to another."""
        self.log("delegation", _present(parent=parent, child=child, task=task))

    def log_delegation_complete(self, parent: str, child: str, result: Any = None) -> None:
        """Log that delegated work is done."""
        self.log("delegation_complete", _present(parent=parent, child=child, result=result))

    def log_todo_update(self, todos: Sequence[dict[str, Any]]) -> None:
        """Log the whole list of todos as it is now."""
        self.log("todo_update", {"todos": todos})

    def log(self, type: str, data: dict[str, Any] | None = None) -> None:
        """Log any event by its type and data. Values that JSON cannot express are recorded as text."""
        # One lock for queue and store: events of threads are recorded in the order in which they come.
        with self._lock:
            try:
                if self._closed:
                    raise UsageError("this logger is closed; the event was not recorded")
                self._waiting.append((type, _plain({} if data is None else data)))
                self._write_waiting()
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on
                self._failed(error)

    def flush(self) -> bool:
        """Flush; return whether everything that was logged is on the medium. Waits for the disk."""
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
        """Record what waits, flush, and release the session; return whether all of it is safe."""
        with self._lock:
            if self._closed:
                return not self._waiting
            safe = self.flush()
            self._closed = True
            self._let_go()
            return safe

    @property
    def waiting(self) -> int:
        """The number of events that the store has not accepted yet."""
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
                raise  # the store is at fault: the event waits until it recovers
            except Exception:
                self._waiting.popleft()  # the event itself is at fault: it would always fail
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
        # The oldest go: a reader of the log most needs what happened last.
        while len(self._waiting) > _WAITING_MAX:
            self._waiting.popleft()
        if not self._failing:  # a full disk is reported once, not with every event
            _log.warning("session %s: an event was not recorded: %s", self.session_id, error)
        self._failing = True
        if isinstance(error, StoreError) and error.unsaved is not None:
            self._let_go()  # that session object is unusable for good; the next event opens it anew

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
    """Return a copy of ``data`` in plain JSON values, which the caller cannot change any more."""
    try:
        copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data, enc_hook=_as_text))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidData(f"the event cannot be written as JSON: {error}") from error
    return copy


def _as_text(value: Any) -> str:
    """Return any object as text, even if its own conversion fails."""
    try:
        text = str(value)
        return f"{type(value).__name__}: {text}" if isinstance(value, BaseException) else text
    except Exception:  # noqa: BLE001 - a value of the agent must not disturb the agent
        return f"<{type(value).__name__}>"
