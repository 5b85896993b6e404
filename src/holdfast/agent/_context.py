"""The context of a running tool, and the conversion of its result to data that can be recorded."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from holdfast.library import Holdfast
    from holdfast.session import Session


WEEK_MS = 7 * 24 * 3600 * 1000
_WAYS = ("tool_result", "user_message")
_ENDS = ("deny", "allow")


class Suspend(Exception):
    """Raised by a tool to end the turn until there is an answer.

    The run's result then has a token; ``Agent.resume(token, value)`` continues, with the value as the
    result of this call (``resume_as="tool_result"``) or as the user's next message. With ``until`` it waits for a
    time, with ``event`` for ``hf.inbox.signal``. Returned by a permission callback it lets the call wait for
    an approval; ``on_expiry``, "deny" or "allow", is the answer if none comes in time.
    """

    def __init__(
        self,
        reason: str = "",
        *,
        resume_as: str = "tool_result",
        expires_in_ms: int | None = WEEK_MS,
        on_expiry: str = "deny",
        until: datetime | None = None,
        event: str | None = None,
    ) -> None:
        super().__init__(reason)
        if resume_as not in _WAYS:
            raise UsageError(f"resume_as {resume_as!r} is none of {', '.join(_WAYS)}")
        if on_expiry not in _ENDS:
            raise UsageError(f"on_expiry {on_expiry!r} is none of {', '.join(_ENDS)}")
        if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
            raise UsageError(f"until is a datetime with a time zone, not {until!r:.60}", remedy="datetime.now(UTC) + …")
        if event is not None and (not isinstance(event, str) or not event or until is not None):
            raise UsageError("event is a name, and what waits for one waits for no time")
        self.on_expiry = on_expiry
        self.until = None if until is None else math.ceil(until.timestamp() * 1000)
        self.event = event
        self.reason = reason
        self.resume_as = resume_as
        self.expires_in_ms = expires_in_ms


@dataclass(eq=False)
class ToolContext:
    """The session in which a tool was called; a tool gets it by annotating its first parameter with this class."""

    session: Session
    _: KW_ONLY
    agent: str
    """The name of the calling agent."""
    call_id: str
    hf: Holdfast | None = None
    """The library with the agent's other sessions; None in a run without a session."""
    memory_on: bool = True
    deps: Any = None
    """The ``deps`` that the agent was created with."""

    @property
    def variables(self) -> MutableMapping[str, Any]:
        """The session's variables; every change is recorded at once."""
        return self.session.variables

    @property
    def memory(self) -> Any:
        """The session's memory. Raises UsageError if the agent has none."""
        if not self.memory_on:
            raise UsageError("this agent has no memory", remedy="Make it with Features(memory=True).")
        return self.session.memory

    @property
    def todos(self) -> Any:
        """The session's todo list."""
        return self.session.todos


# Results of tools, as data that can be recorded and shown to a model.

_DEPTH_MAX = 48
_BINARY_SHOWN_BYTES = 1024
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def plain_result(value: Any) -> Any:
    """Return a result as JSON data; what JSON cannot express becomes text. Never raises."""
    try:
        return _plain(value, 0)
    except Exception as error:  # noqa: BLE001 - a result of any kind must not end the run
        return f"[a result of type {type(value).__name__} that cannot be shown: {error}]"


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int):
        return value if isinstance(value, bool) or value is None else _plain_int(value)
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _plain_bytes(bytes(value))
    if depth >= _DEPTH_MAX:
        return plain_text(str(value)[:_BINARY_SHOWN_BYTES])
    if isinstance(value, dict):
        return {plain_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return _plain_object(value, depth)


def _plain_int(value: int) -> int | str:
    return int(value) if abs(value) < 1 << 63 else str(value)


def plain_text(text: str) -> str:
    """Return the text without NUL and lone surrogates, which no log and no provider accepts."""
    return text.replace("\0", _REPLACEMENT).encode("utf-8", "replace").decode()


def _plain_bytes(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        shown = data[:_BINARY_SHOWN_BYTES].hex(" ")
        more = "…" if len(data) > _BINARY_SHOWN_BYTES else ""
        return f"[binary, {len(data)} bytes] {shown}{more}"
    return plain_text(text)


def _plain_object(value: Any, depth: int) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return _plain(dump(mode="json"), depth + 1)
    try:
        return _plain(msgspec.to_builtins(value, enc_hook=str), depth + 1)
    except (TypeError, ValueError, RecursionError):
        return plain_text(str(value))
