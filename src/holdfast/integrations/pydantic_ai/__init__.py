"""Pydantic AI on our log: durable message histories, and runs that are recorded step by step.

.. code-block:: python

    history = HoldfastHistory("trip-planner")
    result = await history.run(agent, "Plan a trip")  # in place of agent.run("Plan a trip", …)

Each step is on the medium before the next begins, so that a run that was killed goes on from the
last one. ``HoldfastStepStore`` is the store for ``StepPersistence`` of the harness.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, cast

from pydantic_ai import DeferredToolRequests, FunctionToolset, ModelRequestNode, Tool, ToolApproved, UserError
from pydantic_ai.messages import SYNTHESIZED_TOOL_RETURN_METADATA_KEY as _PUT_IN
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolCallPart, ToolReturnPart, repair_messages
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_core import to_jsonable_python

from holdfast._lazy import lazy
from holdfast.errors import Fenced, UsageError
from holdfast.integrations._calls import DurableCalls, ResultForm, ToolCall, Unknown
from holdfast.integrations._history import missing
from holdfast.integrations._place import AdapterSession, Library
from holdfast.integrations._units import Form, Unit, Units, Words, alike, blocks_of, heard, retract, spoken, stored
from holdfast.replay import to_dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai import Agent, AgentRun, AgentRunResult
    from pydantic_ai.messages import ModelMessage, ModelRequest

    from holdfast.integrations.pydantic_ai._store import HoldfastStepStore, bring_over_runs
    from holdfast.model import Event
    from holdfast.session import Session

__all__ = ["HoldfastHistory", "HoldfastStepStore", "bring_over", "bring_over_runs", "durable"]

_TOOL = "pydantic-ai"
_WAITS = "waits"
_APPROVED = "approved"

__getattr__ = lazy(__name__, {"_store": "HoldfastStepStore bring_over_runs"})  # the harness is a package of its own


class _Conversation(Units):
    """The conversation, and the states of its calls."""

    def _begin_again(self) -> None:
        super()._begin_again()
        self.calls: dict[str, str] = {}
        """The latest state of a call without a result: waiting, or approved."""
        self.misspoken: set[int] = set()  # the first events of units whose words say another thing than the unit does

    def _take_foreign(self, event: Event) -> None:
        if event.type == "frame" and FORM.has(event.data.get("by")):
            self.calls.update(event.data.get("calls", {}))
        super()._take_foreign(event)

    def _amend(self, data: dict[str, Any]) -> None:
        first = data.get("amends", -1)
        before = self._units.get(first)
        super()._amend(data)
        if before is not None and FORM.tell(before.item) != FORM.tell(self._units[first].item):
            self.misspoken.add(first)  # an answer that took the place of what was asked

    def _drop(self, unit: Unit) -> None:
        self.misspoken.discard(unit.seqs[0])


class HoldfastHistory:
    """The messages of one conversation, kept as a session of ``hf``: a Holdfast, a store URL or path, or None."""

    def __init__(self, session_id: str, hf: Library = None) -> None:
        self.session_id = session_id
        self._place = AdapterSession(hf, _TOOL, session_id)
        self._units = _Conversation(self._place, FORM)

    def messages(self) -> list[ModelMessage]:
        """Return the recorded messages, including those of others, for ``agent.run(…, message_history=…)``."""
        return as_messages([one.item for one in told_by(self._units.read())])

    async def append(self, messages: Sequence[ModelMessage]) -> list[int]:
        """Record messages, such as ``result.new_messages()``, on the medium; the seqs of their events."""
        return [event.seq for event in await self._record(FORM.words(as_items(list(messages))))]

    async def replace(self, messages: Sequence[ModelMessage]) -> None:
        """Replace all recorded messages; the log keeps the old ones."""
        words = FORM.words(as_items(list(messages)))
        await self._place.awrite(lambda session: session.extend([*retract(self._units.read()), *words]))

    async def run(self, agent: Agent[Any, Any], prompt: Any, **options: Any) -> AgentRunResult[Any]:
        """Run an agent on the history, each step recorded before the next. Takes what run takes.

        Without a prompt it goes on: with what was said last, or with the results of calls that
        waited (``deferred_tool_results``). A call that a crash left without a result is not run
        again; the model is told that it was interrupted.
        """
        async with self.iter(agent, prompt, **options) as steps:
            async for _ in steps:
                pass
        return cast("AgentRunResult[Any]", steps.run.result)

    def iter(self, agent: Agent[Any, Any], prompt: Any, **options: Any) -> AbstractAsyncContextManager[Steps]:
        """Run an agent step by step: ``async with history.iter(…) as steps``, then loop over it."""
        return Steps(self, agent, prompt, options)

    def close(self) -> None:
        """Release the session to other processes now, rather than after the idle time."""
        self._place.close()

    async def _record(self, words: Words, after: int | None = None) -> list[Event]:
        """Record events; if ``after`` is given, only if it is still the last unit."""
        recorded: list[Event] = []

        def act(session: Session) -> list[Event]:
            if after not in (None, self._newest()):
                told = f"another run went on with conversation {self.session_id} meanwhile"
                remedy = "Run the agent again: it goes on from what was said there."
                raise Fenced(told, session_id=self._place.id, remedy=remedy)
            recorded.extend(session.extend(words))
            self._units.take(recorded)
            return recorded

        await self._place.awrite(act)
        return recorded

    def _newest(self) -> int:
        """Return the last event of the conversation; -1 if it has not begun."""
        return max((unit.seqs[-1] for unit in self._units.newest(1)), default=-1)


class Steps:
    """A run that records each step before the next; raises Fenced once another went on with the conversation."""

    def __init__(self, history: HoldfastHistory, agent: Agent[Any, Any], prompt: Any, options: dict[str, Any]) -> None:
        self._history = history
        self._kept = history._units  # noqa: SLF001 - they are one thing
        self._agent = agent
        self._prompt = prompt
        self._options = options
        self._told: list[RecordedMessage] = []
        self._messages: list[ModelMessage] = []
        self._approved: list[str] = []
        self._at = -1
        self.run: AgentRun[Any, Any]

    async def __aenter__(self) -> Self:
        units = self._kept.read()
        told = told_by(units)
        self._messages = as_messages([one.item for one in told])
        items = as_items(self._messages)
        self._told = [one._replace(item=item) for one, item in zip(told, items, strict=True)]
        self._at = units[-1].seqs[-1] if units else -1
        before = self._prepared()
        # A crash left calls without results: the results that the model is given are recorded.
        await self._record(before)
        options = {"message_history": before or None, **self._options}
        self._making = self._agent.iter(self._prompt, **options)
        self.run = await self._making.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            waiting = _said_of(self._waiting(error), _WAITS)
            await self._record(self.run.ctx.state.message_history, waiting)
        finally:
            await self._making.__aexit__(kind, error, trace)

    async def __aiter__(self) -> AsyncIterator[Any]:
        about = _said_of(self._approved, _APPROVED)
        async for node in self.run:
            messages = self.run.ctx.state.message_history
            if isinstance(node, ModelRequestNode) and node.request.parts:
                # It is about to be sent: tool results must not be lost together with the answer.
                messages = [*messages, node.request]
            await self._record(messages, about)
            about = []
            yield node

    def _prepared(self) -> list[ModelMessage]:
        """Return the recorded messages in a form from which a run can continue.

        Calls that wait are left alone as long as they may be answered. Raises UsageError if a call
        is approved a second time: it was begun, and no result came.
        """
        results = self._options.get("deferred_tool_results")
        answered = set() if results is None else {*results.approvals, *results.calls}
        messages = _opened(self._messages, answered)
        open_ones = {id: self._kept.calls.get(id) for id in _open_calls(messages)}
        if results is not None:
            answers = results.approvals.items()
            self._approved = [id for id, one in answers if one is True or isinstance(one, ToolApproved)]
            for id in self._approved:
                if open_ones.get(id) == _APPROVED:
                    told = f"call {id} was approved before, and nobody knows whether it took effect"
                    raise UsageError(told, remedy="Go on with run(agent, None): the model is told of it.")
        waits = self._prompt is None and _WAITS in open_ones.values()
        return repair_messages(messages, repair_last_response=results is None and not waits)

    def _waiting(self, error: BaseException | None) -> list[str]:
        """Return the calls that wait for an answer from outside: the run ended with them, or refused answers."""
        if isinstance(error, UserError):
            return self._approved
        result = self.run.result
        if result is None or not isinstance(result.output, DeferredToolRequests):
            return []
        return [call.tool_call_id for call in (*result.output.calls, *result.output.approvals)]

    async def _record(self, messages: Sequence[ModelMessage], more: Words | None = None) -> None:
        """Record the new parts of messages, and further events."""
        # The last one may have been completed since then; those before it are unchanged.
        same = alike(self._messages[:-1], messages, operator.is_)
        # An amended message is recorded again, so nothing may be skipped as unchanged.
        if self._kept.misspoken:
            same = 0
        items = as_items(list(messages[same:]))
        stay, words, new = changes(self._told[same:], items, self._kept.misspoken)
        drafts = [FORM.record(item) for item in new]
        if to_write := [*words, *chain(*drafts), *(more or ())]:
            recorded = await self._history._record(to_write, self._at)  # noqa: SLF001 - they are one thing
            self._at = self._history._newest()  # noqa: SLF001 - as above
            seqs = (event.seq for event in recorded[len(words) :])
            for item, draft in zip(new, drafts, strict=True):
                unit = Unit(tuple(islice(seqs, len(draft))), own=True, item=item)
                stay.append(RecordedMessage(item, unit.seqs, unit))
        self._told[same:] = stay
        self._messages = list(messages)


def durable(
    tool: Tool[Any] | Callable[..., Any] | AbstractToolset[Any], *, session: HoldfastHistory, unknown: Unknown = "tell"
) -> AbstractToolset[Any]:
    """Return a toolset (``toolsets=[…]``) in which the effect of a tool happens once for each call.

    It takes a function, a Tool or a toolset. Intent and result are kept in ``session``, which keeps the conversation.
    A call that was cut off is not run again, under whatever id it comes: the model is told that its outcome is
    unknown. With ``unknown="rerun"`` it runs again; a function gets an OutcomeUnknown with ``arguments``, and returns
    the result it looked up, or ``holdfast.RERUN``.
    """
    wrapped = tool if isinstance(tool, AbstractToolset) else FunctionToolset([tool])
    calls = DurableCalls(unknown, ResultForm(lambda text, _: text, to_jsonable_python))
    return _DurableToolset(wrapped, calls, session._place)  # noqa: SLF001 - of this module


@dataclass
class _DurableToolset(WrapperToolset[Any]):
    calls: DurableCalls
    place: AdapterSession

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        call = ToolCall(ctx.tool_call_id, name, _args_of(ctx, name, tool_args))
        return await self.calls.arun(self.place, call, lambda: self.wrapped.call_tool(name, tool_args, ctx, tool))


def _args_of(ctx: Any, name: str, tool_args: dict[str, Any]) -> Any:
    """Return the model's arguments: validated ones may differ each time, through defaults and the order of sets."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            # A toolset may have added a prefix to the name; a tool that calls other tools makes its own calls.
            is_call = isinstance(part, ToolCallPart) and part.tool_call_id == ctx.tool_call_id
            if is_call and part.tool_name.endswith(name):
                return part.args_as_dict()
    return to_jsonable_python(tool_args, fallback=str)


def _said_of(calls: Sequence[str], what: str) -> Words:
    """Return the known state of calls, besides the messages."""
    return [stored(by=FORM.name, calls=dict.fromkeys(calls, what))] if calls else []


def _after_response(messages: list[ModelMessage]) -> int:
    """Return where the messages after the last response begin; 0 if there is none."""
    return max((n for n, one in enumerate(messages, 1) if isinstance(one, ModelResponse)), default=0)


def _open_calls(messages: list[ModelMessage]) -> list[str]:
    """Return the calls of the last response that have no result."""
    end = _after_response(messages)
    calls = [part for one in messages[end - 1 : end] for part in one.parts]
    results = {getattr(part, "tool_call_id", None) for one in messages[end:] for part in one.parts}
    ids = [part.tool_call_id for part in calls if isinstance(part, ToolCallPart)]
    return [id for id in ids if id not in results]


def _opened(messages: list[ModelMessage], answered: set[str]) -> list[ModelMessage]:
    """Return the messages without inserted results for calls that are answered only now."""
    made = messages[: _after_response(messages)]
    for one in messages[len(made) :]:
        parts = [part for part in one.parts if not _is_put_in(part, answered)]
        if len(parts) == len(one.parts):
            made.append(one)
        elif parts:
            made.append(replace(cast("ModelRequest", one), parts=cast("Any", parts)))
    return made


def _is_put_in(part: Any, answered: set[str]) -> bool:
    made_up = isinstance(part, ToolReturnPart) and isinstance(part.metadata, dict)
    return made_up and _PUT_IN in part.metadata and part.tool_call_id in answered


async def bring_over(source: Sequence[ModelMessage] | str | bytes, session_id: str, hf: Library = None) -> int:
    """Record a message history from elsewhere, or its JSON; return the number of messages.

    The JSON is that of ``result.all_messages_json()`` and of ``ModelMessagesTypeAdapter``. Done again, it records
    only what is new there. Raises UsageError if that is no history, or if what is on record is another conversation.
    """
    items = as_items(_messages(source))
    target = HoldfastHistory(session_id, hf)
    try:
        new = missing(as_items(target.messages()), items, session_id)
        if new:
            await target.append(as_messages(new))
    finally:
        target.close()
    return len(new)


def _messages(source: Sequence[ModelMessage] | str | bytes) -> list[ModelMessage]:
    try:
        if isinstance(source, (str, bytes)):
            return ModelMessagesTypeAdapter.validate_json(source)
        return ModelMessagesTypeAdapter.validate_python(list(source))
    except (TypeError, ValueError) as error:  # pydantic's own error is a ValueError
        raise UsageError("what is brought over is a list of messages or its JSON") from error


# Messages of Pydantic AI as events, and back.
_DIALECT: Final = "pydantic-ai"
_PLAIN_PART = dict.fromkeys(("id", "provider_name", "provider_details"))
_PLAIN_RESPONSE: dict[str, Any] = {
    **dict.fromkeys(("provider_name", "provider_url", "provider_details", "provider_response_id", "finish_reason")),
    **dict.fromkeys(("metadata", "workspace_ref", "history_digest", "failed_attempts")),
    "state": "complete",
}


def as_items(messages: list[ModelMessage]) -> list[dict[str, Any]]:
    """Return messages as plain data."""
    items: list[dict[str, Any]] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return items


def as_messages(items: list[dict[str, Any]]) -> list[ModelMessage]:
    """Return plain data as messages."""
    return ModelMessagesTypeAdapter.validate_python(items)


class RecordedMessage(NamedTuple):
    """A recorded message: its unit, or (None) the events of others that contain it."""

    item: dict[str, Any]
    seqs: tuple[int, ...]
    unit: Unit | None


def told_by(units: list[Unit]) -> list[RecordedMessage]:
    """Return the messages for an agent: its own unchanged, those of others in its form, a result for each call."""
    told: list[RecordedMessage] = []
    for own, some in groupby(heard(units), key=lambda unit: unit.own):
        stretch = list(some)
        if own:
            told += [RecordedMessage(unit.fresh, unit.seqs, unit) for unit in stretch]
        else:
            seqs = tuple(seq for unit in stretch for seq in unit.seqs)
            said = to_dialect([unit.item for unit in stretch], _DIALECT)
            told += [RecordedMessage(item, seqs, None) for item in said]
    return told


def changes(
    told: list[RecordedMessage], items: list[dict[str, Any]], misspoken: Collection[int] = ()
) -> tuple[list[RecordedMessage], Words, list[dict[str, Any]]]:
    """Return the changes after which these items are recorded: nothing that is recorded already.

    Returns what stays, the words by which it is completed and the rest is taken back, and the items that are new. An
    item is told already if what is on record says the same, be it as one message or as several; what its unit lacks
    beside the words is added to it. ``misspoken`` are units whose words say another thing than they hold.
    """
    stay: list[RecordedMessage] = []
    words: Words = []
    at = 0
    for item in items:
        same = _that_say(told[at:], item, misspoken)
        if not same:
            break
        unit = same[0].unit if len(same) == 1 else None
        if unit is not None and same[0].item != item:
            words += FORM.amend(unit, item)
            unit = unit._replace(item=item)
        seqs = tuple(dict.fromkeys(seq for one in same for seq in one.seqs))
        stay.append(RecordedMessage(item, seqs, unit))
        at += len(same)
    while stay and at < len(told) and stay[-1].unit is None and stay[-1].seqs == told[at].seqs:
        stay.pop()  # others said it in one stretch, which stays or goes as one
        at -= 1
    known = {seq for one in stay for seq in one.seqs}
    gone = dict.fromkeys(seq for one in told[at:] for seq in one.seqs if seq not in known)
    if gone:
        words.append(("retracted", {"seqs": list(gone)}))
    return stay, words, items[len(stay) :]


def _that_say(told: list[RecordedMessage], item: dict[str, Any], misspoken: Collection[int]) -> list[RecordedMessage]:
    """Return the first recorded messages if they have the content of an item; empty if not."""
    words = _tell(item)
    said: Words = []
    for number, one in enumerate(told, 1):
        if one.seqs[0] in misspoken:
            return []
        said += _tell(one.item)
        if said == words:
            return told[:number]
        if len(said) >= len(words):
            return []
    return []


def _tell(item: dict[str, Any]) -> Words:
    words = spoken(item, _DIALECT)
    usage = item.get("usage") or {}
    spent = {name: usage[name] for name in ("input_tokens", "output_tokens") if usage.get(name)}
    about = {"usage": spent, "model": item.get("model_name")}
    for type, data in words:
        if type == "assistant":
            data.update({name: value for name, value in about.items() if value})
            break
    return words


def _rebuild(words: Words) -> dict[str, Any]:
    type, data = words[0]
    if type == "frame":
        return {}
    if type in ("user", "system", "tool_result"):
        parts = [_request_part(*word) for word in words]
        return {"kind": "request", "parts": parts, "metadata": None, "state": "complete"}
    said = next((data for type, data in words if type == "assistant"), data)
    made = {"kind": "response", "parts": [_response_part(block) for block in blocks_of(words)], **_PLAIN_RESPONSE}
    return made | ({"model_name": said["model"]} if "model" in said else {})


def _request_part(type: str, data: dict[str, Any]) -> dict[str, Any]:
    if type == "user":
        return {"part_kind": "user-prompt", "content": data["content"]}
    if type == "system":
        plain = {"dynamic_ref": None, "scope": "conversation", "metadata": None}
        return {"part_kind": "system-prompt", "content": data["content"], **plain}
    names = {"tool_call_id": data["toolCallId"], "content": data["result"]}
    plain = {"tool_kind": None, "metadata": None, "outcome": "success", "retry": None}
    return {"part_kind": "tool-return", **names, **plain}


def _response_part(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "text":
        return {"part_kind": "text", "content": block["text"], "citations": None, **_PLAIN_PART}
    if kind == "thinking":
        return {
            "part_kind": "thinking",
            "content": block["thinking"],
            "signature": block.get("signature"),
            **_PLAIN_PART,
        }
    if kind == "tool_use":
        names = {"tool_name": block["name"], "args": block["input"], "tool_call_id": block["id"]}
        return {"part_kind": "tool-call", **names, "tool_kind": None, **_PLAIN_PART}
    return block


FORM = Form("pydantic-ai/1", _tell, _rebuild)
