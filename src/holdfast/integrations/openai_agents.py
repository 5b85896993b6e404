"""OpenAI Agents on our log: a session for ``Runner.run(agent, "…", session=…)``.

``HoldfastSession("trip-planner")`` in place of ``SQLiteSession("trip-planner")`` is the whole
change. What was added is on the medium when ``add_items`` returns; what is popped or cleared is
retracted in the log, and erased by nothing but ``hf.erase``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from holdfast._lazy import load
from holdfast.errors import InvalidData, UsageError
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._history import MessageHistory, missing
from holdfast.integrations._place import Library
from holdfast.integrations._units import Form, Unit, Words, answered, heard, retract, spoken, voices
from holdfast.replay import to_dialect

if TYPE_CHECKING:
    from agents import FunctionTool, RunContextWrapper, SessionSettings, TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs, Session
    from agents.tool_context import ToolContext

__all__ = ["HoldfastSession", "NotSerialisable", "SessionClosed", "bring_over", "durable"]

Items: TypeAlias = "list[TResponseInputItem]"
Compact: TypeAlias = "Callable[[Items, OpenAIResponsesCompactionArgs | None], Items | Awaitable[Items | None] | None]"

_DIALECT: Final = "openai-responses"


class NotSerialisable(InvalidData, TypeError):
    """An item is not JSON: a TypeError, as other sessions of the SDK raise; nothing was written."""


class SessionClosed(UsageError, RuntimeError):
    """The session was closed: a RuntimeError, as other sessions of the SDK raise it."""

    remedy = "Make another HoldfastSession for the same session_id."


class HoldfastSession:
    """A conversation of OpenAI Agents, kept as a session of Holdfast.

    ``hf`` is a Holdfast, a store URL or path, or None for the default place. Any number of these
    may be made for one ``session_id``, in any number of processes: they write in turn.

    ``compact``, if given, is called at the end of each turn with all items and the runner's
    arguments; what it returns takes their place, None leaves them. The log keeps both.
    """

    def __init__(
        self,
        session_id: str,
        hf: Library = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        compact: Compact | None = None,
    ) -> None:
        settings = load("agents.memory.session_settings")
        self.session_id = session_id
        given = session_settings
        self.session_settings: SessionSettings = (
            settings.SessionSettings() if given is None else settings.coerce_session_settings(given)
        )
        if compact is not None:
            # The runner asks for this name, and calls it at the end of each turn.
            self.run_compaction = partial(self._run_compaction, compact)
        self._history = MessageHistory(_FORM, hf, "openai-agents", session_id)
        self._place, self._units = self._history.place, self._history.units
        self._closed = False

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """Return the newest items, up to the given or configured limit; calls of others without a result get one."""
        from agents.memory.session_settings import resolve_session_limit

        self._check_open()
        newest = resolve_session_limit(limit, self.session_settings)
        items = _items(answered(self._history.read()))
        return cast("Items", items if newest is None else items[-newest:] if newest > 0 else [])

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Record items, all or none of them; they are on the medium when this returns."""
        self._check_open()
        try:
            if items:
                await self._history.aappend([*map(_as_map, items)])
        # The runner expects the errors of its own sessions; nothing was written.
        except InvalidData as error:
            raise NotSerialisable(error.message, **error.fields) from error

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Retract the newest item and return it; None if there is none."""
        self._check_open()
        async with self._place.awriting() as session:
            units = [unit for unit in self._units.read() if unit.run is None]
            if not units:
                return None
            session.extend(retract(units[-1:]))
            await session.abarrier()
        items = _items(voices(units[-1:]))
        return cast("TResponseInputItem", items[-1]) if items else None

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Retract everything. The log keeps it; the conversation starts again."""
        self._check_open()
        await self._place.awrite(lambda session: session.extend(retract(self._units.read())))

    async def _run_compaction(self, compact: Compact, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        async with self._place.awriting() as session:
            units = self._units.read()
            chosen = compact(cast("Items", _items(heard(units))), args)
            items = await chosen if isawaitable(chosen) else chosen
            if items is None:
                return
            session.extend([*retract(units), *_FORM.words(map(_as_map, items))])
            await session.abarrier()

    def close(self) -> None:
        """Release the session to other processes now. The object cannot be used afterwards."""
        self._closed = True
        self._place.close()

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(f"session {self.session_id} is closed", session_id=self._place.id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def durable(tool: FunctionTool, *, session: HoldfastSession, unknown: Unknown = "tell") -> FunctionTool:
    """Return a tool whose effect happens once for each call, even if the process is killed during it.

    Intent and result are kept in ``session``, which keeps the conversation. A call that was cut off is not run again,
    under whatever id it comes: the model is told that its outcome is unknown. With ``unknown="rerun"`` it runs again;
    a function gets an OutcomeUnknown with ``arguments``, and returns the result it looked up, or ``holdfast.RERUN``.
    """
    calls = DurableCalls(unknown, ResultForm(lambda text, _: text, _plain_output))
    made, invoke = copy.copy(tool), tool.on_invoke_tool
    place = session._place  # noqa: SLF001 - of this module

    async def on_invoke_tool(context: ToolContext[Any], arguments: str) -> Any:
        try:
            args = json.loads(arguments or "{}")
        except ValueError:
            args = arguments  # the tool says what is wrong with it
        call = ToolCall(context.tool_call_id, context.tool_name, args)
        return await calls.arun(place, call, lambda: invoke(context, arguments))

    made.on_invoke_tool = on_invoke_tool
    return made


def _plain_output(output: Any) -> Any:
    """Return an output as the runner would: one that is not JSON becomes its text."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(output, fallback=str)


async def bring_over(source: Session, hf: Library = None) -> int:
    """Record the new items of another session of the SDK, such as a SQLiteSession; return their number."""
    target = HoldfastSession(source.session_id, hf)
    known = _items(target._history.read())  # noqa: SLF001 - of this module
    items = missing(known, await source.get_items(), source.session_id)
    await target.add_items(items)
    target.close()
    return len(items)


def _as_map(item: Any) -> dict[str, Any]:
    """Return an item as a map: items are typed dicts, but some callers pass the SDK's objects."""
    if isinstance(item, dict):
        return item
    return cast("dict[str, Any]", item.model_dump(exclude_unset=True))


def _items(voiced: list[Unit]) -> list[dict[str, Any]]:
    """Return the items for the runner: its own unchanged, those of others in its form."""
    told = ([unit.fresh] if unit.own else to_dialect([unit.item], _DIALECT) for unit in voiced)
    return [item for items in told for item in items]


def _rebuild(words: Words) -> dict[str, Any]:
    """Return the item that the runner would make from such text, if any."""
    type, data = words[0]
    if type == "tool_call":
        return {
            "type": "function_call",
            "call_id": data["id"],
            "name": data["tool"],
            "arguments": json.dumps(data["params"], ensure_ascii=False),
        }
    if type == "tool_result":
        return {"type": "function_call_output", "call_id": data["toolCallId"], "output": _parts(data["result"])}
    if type == "thinking":
        return dict(data["content"][0]) if isinstance(data["content"], list) else {}
    if type == "assistant" and isinstance(data["content"], str):
        text = {"type": "output_text", "text": data["content"], "annotations": [], "logprobs": []}
        return {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {} if type == "frame" else {"role": type, "content": _parts(data["content"])}


def _parts(content: Any) -> Any:
    """Return blocks as the parts of an input; a text unchanged."""
    return [_part(block) for block in content] if isinstance(content, list) else content


def _part(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "input_text", "text": block["text"]}
    source = block.get("source") or {}
    if block["type"] == "image" and source.get("type") == "base64":
        url = f"data:{source['media_type']};base64,{source['data']}"
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return block


_FORM = Form("openai-agents/1", partial(spoken, dialect=_DIALECT), _rebuild)
