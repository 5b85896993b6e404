"""The verbs of a session: one short method for each thing that is worth recording."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.errors import TooLarge, UsageError
from holdfast.model import Event, Limits
from holdfast.session._clock import new_call_id
from holdfast.session._tool import ToolRun
from holdfast.session._turn import Turn, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN_ROLES = frozenset({"user", "assistant", "system"})
_ROLES = _OWN_ROLES | {"developer", "function", "model", "tool"}
# What OpenAI's assistant says beside the content.
_SAID_BESIDE = frozenset({"tool_calls", "function_call", "refusal", "audio"})


class Recorder(ABC):
    """Everything that a session can be told, in terms of ``append``."""

    limits: Limits
    """What may be recorded."""
    turns: Turns
    """Who has the turn, and who waits for it."""

    @abstractmethod
    def append(
        self,
        event: Event | str,
        data: dict[str, Any] | None = None,
        *,
        run: str | None = None,
        key: str | None = None,
    ) -> Event:
        """Record one event."""

    @abstractmethod
    def extend(self, events: Iterable[Event | tuple[str, dict[str, Any]]]) -> list[Event]:
        """Record several events with one write; a reader sees all of them or none."""

    def _record(
        self,
        type: str,
        data: dict[str, Any],
        run: str | None = None,
        key: str | None = None,
        _timestamp: int | None = None,
    ) -> Event:
        """``append`` for the verbs below, whose types are well-formed."""
        return self.append(type, data, run=run, key=key)

    @abstractmethod
    def barrier(self) -> None:
        """Do not go on before what was recorded is safe."""

    @abstractmethod
    async def abarrier(self) -> None:
        """Wait until what was recorded is safe, without blocking the event loop."""

    def record(self, message: Any, *, run: str | None = None) -> list[Event]:
        """Record a message as a provider's library gives or takes it; the events that say it.

        Takes messages and whole answers of OpenAI (chat completions, Responses), Anthropic, Gemini
        and Mistral, objects or plain data, or a list of messages. ``messages`` gives that provider
        the same message back. All of it is recorded, or nothing: InvalidData names what is not
        understood.
        """
        from holdfast.replay import tell

        words = tell(message)
        said = next((data for type, data in words if type == "assistant"), None)
        if said is not None:
            self._cover(said, run)
        if run is None:
            return self.extend(words)
        return self.extend([Event.make(type, data, run=run) for type, data in words])

    def _cover(self, said: dict[str, Any], run: str | None) -> None:
        """Let a final message name the pieces that were streamed of it, unless it does already."""
        if "covers_from" not in said:
            first = self._streamed_from(said.get("content"), run)
            if first is not None:
                said["covers_from"] = first

    def _streamed_from(self, content: Any, run: str | None) -> int | None:
        """The first streamed piece of a run that is of this content, if that is known here."""
        return None

    def user(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """What the user said: text or blocks. ``extra`` members are recorded with it."""
        data = {"role": "user", "content": content}
        if extra:
            data.update(extra)
        return self._record("user", data, run)

    def assistant(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """What the agent said; ``usage``, ``model`` and ``agent`` are members worth giving.

        It takes the place of what was streamed of it by ``delta``. With ``tool_calls`` and the like
        it is OpenAI's message, as ``record`` takes it.
        """
        data = {"role": "assistant", "content": content}
        if extra and not _SAID_BESIDE.isdisjoint(extra):
            data = _assistant_message(data, extra)
        if extra:
            data.update(extra)
        self._cover(data, run)
        return self._record("assistant", data, run)

    def system(self, content: Any, *, run: str | None = None, **extra: Any) -> Event:
        """The system prompt, from here on."""
        return self.append("system", {"role": "system", "content": content, **extra}, run=run)

    def thinking(
        self, content: str, *, signature: str | None = None, run: str | None = None, **extra: Any
    ) -> Event:
        """What the agent thought, with the provider's signature if there is one."""
        data = {"content": content, **extra}
        if signature is not None:
            data["signature"] = signature
        return self.append("thinking", data, run=run)

    def delta(self, content: str, *, run: str | None = None, **extra: Any) -> Event:
        """A piece of an answer as it was streamed to the user."""
        return self.append("delta", {"content": content, **extra}, run=run)

    def tool_call(
        self,
        tool: str,
        params: Any = None,
        *,
        id: str | None = None,
        run: str | None = None,
        **extra: Any,
    ) -> Event:
        """The agent's intent to use a tool. The returned event's ``id`` names the call.

        With the ``id`` of a call in an assistant message it is that call. Without one it is the
        call that the last assistant message asks for with this tool and these arguments, if there
        is exactly one without a result; else a new one.
        """
        if id is None:
            id = self._asked_call(tool, params, run) or new_call_id()
        data = {"id": id, "tool": tool, "params": params}
        if extra:
            data.update(extra)
        return self._record("tool_call", data, run)

    def _asked_call(self, tool: str, params: Any, run: str | None) -> str | None:
        """The id of the open call of the last assistant message that fits; None for a new call."""
        return None

    def tool_result(
        self,
        call: Event | str,
        result: Any = None,
        *,
        is_error: bool = False,
        run: str | None = None,
        **extra: Any,
    ) -> Event:
        """What a tool gave; ``call`` is the event of its call, or the call's id."""
        if isinstance(call, Event):
            run = call.run if run is None else run
            call = _call_id(call)
        data = {"toolCallId": call, "result": result}
        if extra:
            data.update(extra)
        if is_error:
            data["is_error"] = True
        return self._record("tool_result", data, run)

    def tool(
        self,
        tool: str,
        params: Any = None,
        *,
        id: str | None = None,
        run: str | None = None,
        **extra: Any,
    ) -> ToolRun:
        """Use a tool inside a ``with`` (or ``async with``) block.

        The intent is on disk before the block runs; what the block puts into ``call.result``, or
        the error or cancellation that ends it, is recorded after it. Which call it is follows from
        ``id``, or from the last assistant message, as for :meth:`tool_call`.
        """
        return ToolRun(self, tool, params, id=id, run=run, extra=extra)

    def turn(self, *, run: str | None = None) -> Turn:
        """A ``with`` (or ``async with``) block around one turn, flushed at its end.

        Turns of one run are kept apart: whoever comes while one is going on in this process, in
        any thread or task, waits until it has ended. A turn inside of a turn is a part of it.
        """
        return Turn(self, run=run)

    def add_turn(self, role: str, content: Any = None, **message: Any) -> Event:
        """Record a turn by its role, or a message by its members: ``add_turn(**message)``.

        A message of a provider is recorded as ``record`` does it; its last event comes back.
        """
        if not isinstance(role, str) or role not in _ROLES:
            raise UsageError(f"{role!r:.60} is not a role: use one of {', '.join(sorted(_ROLES))}")
        if message or isinstance(content, list) or role not in _OWN_ROLES:
            return self.record({"role": role, "content": content, **message})[-1]
        return self.append(role, {"role": role, "content": content})

    def usage(self, **figures: Any) -> Event:
        """Tokens and cost that belong to no single message."""
        return self.append("usage", figures)

    def tag(self, *tags: str) -> None:
        """Add tags; one that is there already changes nothing."""
        self._tags("tag", tags)

    def untag(self, *tags: str) -> None:
        """Take tags away."""
        self._tags("untag", tags)

    def link(self, kind: str, id: str) -> Event:
        """Note the id under which another system knows this session."""
        return self.append("link", {"kind": kind, "id": id})

    def _tags(self, type: str, tags: Iterable[str]) -> None:
        for tag in tags:
            if not isinstance(tag, str) or not tag.strip():
                raise UsageError("a tag is a text that is not empty")
            if len(tag) > self.limits.tag_chars_max:
                raise TooLarge(
                    f"the tag has {len(tag):,} characters,"
                    f" at most {self.limits.tag_chars_max:,} are allowed",
                    limit="tag_chars_max",
                )
        for tag in tags:
            self.append(type, {"tag": tag})


def _assistant_message(data: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The data of an event for OpenAI's message; what is no member of that is taken out."""
    from holdfast.replay import tell

    beside = {name: extra.pop(name) for name in _SAID_BESIDE.intersection(extra)}
    ((_, told),) = tell(data | beside)
    return told


def _call_id(call: Event) -> str:
    found = call.id
    if call.type != "tool_call" or found is None:
        raise UsageError(f"event {call.seq} is a {call.type}, not a tool call")
    return found
