"""Calls of a framework's tools as durable steps: a call takes effect once, even if the process is killed during it.

A framework that goes on after a crash either runs the same call again, or asks the model anew, whose call then has
another id. So a call is known by its id, and its *twin* by what it is: one of the same tool with the same arguments
that began and whose result is not in the conversation. A twin is not run again. The model is told what became of it,
once, and an identical call after that runs.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

import holdfast
from holdfast.errors import OutcomeUnknown, ResultNotStored, UsageError
from holdfast.integrations._place import AdapterSession
from holdfast.integrations._units import LOST
from holdfast.replay import StepState
from holdfast.session import Session, StepCall, encode_arguments

Unknown: TypeAlias = Literal["tell", "rerun"] | Callable[[OutcomeUnknown], Any]
"""The handling of a call with an unknown outcome: tell the model, run it again, or look it up with this function."""

# Results that frameworks and adapters insert for interrupted calls: they do not say what the call did.
_PUT_IN = frozenset({LOST, "Tool was interrupted.", "The tool call was interrupted before a result was produced."})
_REMEMBERED = 4096  # calls of this process: enough for all that one run makes

Stored: TypeAlias = dict[str, Any]
"""The stored result of a step: ``value``, or the text that the model gets instead (``told``)."""


class ToolCall(NamedTuple):
    """One call of a tool, as a model made it."""

    id: str
    tool: str
    args: Any


class ResultForm(NamedTuple):
    """The form of a framework's tool results: how they are stored, and how a text replaces one for the model."""

    tell: Callable[[str, ToolCall], Any]
    encode: Callable[[Any], Any] = lambda value: value
    decode: Callable[[Any, ToolCall], Any] = lambda value, _: value
    names: Callable[[str], str] | None = None
    """For a framework that does not pass the call's id to a tool: returns the tool's own name for the model's name."""


class DurableCalls:
    """Runs tool calls, each of them once."""

    def __init__(self, unknown: Unknown, form: ResultForm) -> None:
        if not callable(unknown) and unknown not in ("tell", "rerun"):
            raise UsageError(f'unknown is "tell", "rerun" or a function, not {unknown!r}')
        self._unknown, self._form = unknown, form
        self._mine: dict[str, None] = {}  # steps that this process is at, has ended or found answered: none is a twin

    def run(self, place: AdapterSession, call: ToolCall, act: Callable[[], Any]) -> Any:
        """Make a call, or return its earlier outcome. The session is held meanwhile."""
        with place.writing() as session:
            plan = _Plan(self, session, place, call)
            try:
                stored = _kept(partial(session.steps.run, plan.step(plan.doing(act))))
                if plan.twin is not None:
                    session.steps.run(plan.own_step(stored))
            except BaseException:
                plan.forget()
                raise
            return plan.result(stored)

    async def arun(self, place: AdapterSession, call: ToolCall, act: Callable[[], Awaitable[Any]]) -> Any:
        """Do what ``run`` does, without blocking the event loop."""
        async with place.awriting() as session:
            plan = _Plan(self, session, place, call)
            try:
                try:
                    stored = await session.steps.arun(plan.step(plan.adoing(act)))
                except ResultNotStored as error:
                    stored = _unkept(error)
                if plan.twin is not None:
                    await session.steps.arun(plan.own_step(stored))
            except BaseException:
                plan.forget()
                raise
            return plan.result(stored)


def _kept(run: Callable[[], Stored]) -> Stored:
    try:
        return run()
    except ResultNotStored as error:
        return _unkept(error)


def _unkept(error: ResultNotStored) -> Stored:
    return {"told": f"This call was carried out, but its result was not kept. {error.message}"}


class _Plan:
    """The plan for one call: run it, or finish its twin."""

    def __init__(self, calls: DurableCalls, session: Session, place: AdapterSession, call: ToolCall) -> None:
        session.steps.begin()  # what others did since is known only to who holds the session
        self._calls, self._session, self._place, self._call = calls, session, place, call
        self._blank = StepCall("-", _nothing, (), {}, call.tool, "rerun", None, _encoded(call.tool, call.args))
        self._kind = f"call:{call.tool}:{self._blank.digest(session.live_state.first_log or '')}:"
        self._key = self._kind + call.id
        self._mine = calls._mine  # noqa: SLF001 - they are one thing
        self.twin = None if self._key in session.live_state.steps else self._find_twin()
        self._mine[self._key] = None
        while len(self._mine) > _REMEMBERED:
            self._mine.pop(next(iter(self._mine)))
        self._live: list[Any] = []

    def _find_twin(self) -> str | None:
        alike = {key: one for key, one in self._session.live_state.steps.items() if key.startswith(self._kind)}
        told = {one.parent for one in alike.values()}
        open_ = [key for key, one in alike.items() if key not in told and key not in self._mine]
        answered = self._answered({key: alike[key] for key in open_ if alike[key].status == "done"})
        self._mine.update(dict.fromkeys(answered))  # what is answered stays so: it is looked for once
        return next((key for key in open_ if key not in answered and alike[key].status != "failed"), None)

    def _answered(self, done: dict[str, StepState]) -> set[str]:
        """Return the finished calls whose results are in the conversation."""
        names = self._calls._form.names  # noqa: SLF001 - they are one thing
        found, calls = set[str](), {one.call: key for key, one in done.items()} if names is None else {}
        first = 0 if names is not None else min((one.result_seq for one in done.values()), default=0)
        events = sorted(self._place.events(first), key=attrgetter("seq")) if done else []
        for event in events:
            data = event.data
            if event.type == "tool_call" and names is not None and self._is_alike(names(data["tool"]), data):
                calls[data["id"]] = ""
            if event.type != "tool_result" or _text(data.get("result")) in _PUT_IN or data["toolCallId"] not in calls:
                continue
            # Without an id each result answers one call, the oldest that had ended by then.
            before = (key for key, one in done.items() if one.result_seq < event.seq and key not in found)
            key = calls[data["toolCallId"]] or next(before, "")
            if key and done[key].result_seq < event.seq:
                found.add(key)
        return found

    def _is_alike(self, name: str, data: dict[str, Any]) -> bool:
        return name == self._call.tool and _encoded(name, data.get("params") or {}) == self._blank.arguments

    def step(self, act: Callable[[], Any]) -> StepCall:
        """Return the step that produces an outcome: that of the call, or of its twin."""
        key = self.twin or self._key
        policy: Any = "rerun" if self._calls._unknown == "rerun" else self._resolve  # noqa: SLF001 - as above
        return self._step_of(key, act)._replace(unknown=policy, call=key.removeprefix(self._kind), renewable=True)

    def own_step(self, stored: Stored) -> StepCall:
        """Return the step that gives the call the outcome of its twin, which is thereby settled."""
        return self._step_of(self._key, lambda: stored)._replace(call=self._call.id, parent=self.twin)

    def _step_of(self, key: str, act: Callable[[], Any]) -> StepCall:
        return self._blank._replace(key=key, fn=act)

    def doing(self, act: Callable[[], Any]) -> Callable[[], Stored]:
        """Return a function that runs the tool; its result is stored as plain data, and passed on unchanged."""
        return lambda: self._acted(act())

    def adoing(self, act: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Stored]]:
        """Do what ``doing`` does for a tool that is awaited."""

        async def acted() -> Stored:
            return self._acted(await act())

        return acted

    def _acted(self, value: Any) -> Stored:
        self._live.append(value)
        try:
            return {"value": self._calls._form.encode(value)}  # noqa: SLF001 - as above
        except Exception as error:  # noqa: BLE001 - the tool has acted, and that must be on record
            return {"told": f"This call was carried out, but its result was not kept: {error}"}

    def _resolve(self, error: OutcomeUnknown) -> Any:
        begun = datetime.fromtimestamp((error.begun_at or 0) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        ask = self._calls._unknown  # noqa: SLF001 - as above
        if not callable(ask):
            text = (
                f"Outcome unknown: a call of {self._call.tool} with these arguments began at {begun} and was cut off. "
                "It was not run again. Find out whether it took effect before you call it again."
            )
            return {"told": text}
        known = OutcomeUnknown(error.message, **error.fields, call=self._call.id, arguments=self._call.args)
        found = ask(known)
        return self._awaited(found) if inspect.isawaitable(found) else self._found(found)

    async def _awaited(self, found: Awaitable[Any]) -> Any:
        return self._found(await found)

    def _found(self, value: Any) -> Any:
        return value if value is holdfast.RERUN else self._acted(value)

    def forget(self) -> None:
        """Forget a call that was abandoned or failed, so that an identical one does not count as its twin."""
        self._mine.pop(self._key, None)

    def result(self, stored: Stored) -> Any:
        """Return the result for the framework."""
        form = self._calls._form  # noqa: SLF001 - as above
        if self._live:
            return self._live[-1]
        if "told" in stored:
            return form.tell(stored["told"], self._call)
        return form.decode(stored.get("value"), self._call)


def _encoded(tool: str, args: Any) -> bytes:
    """Encode the arguments of a call; a model may also send lone surrogates, and numbers such as NaN."""
    try:
        return encode_arguments(tool, {"args": args})
    except UsageError:
        return json.dumps(args, sort_keys=True, default=str).encode()


def _nothing() -> None:
    """Do nothing: the function of a step that only has arguments."""


def _text(result: Any) -> str:
    """Return the text of a result, whatever form it has."""
    if isinstance(result, list):
        return "".join(str(part.get("text", "")) for part in result if isinstance(part, dict))
    return result if isinstance(result, str) else msgspec.json.encode(result, enc_hook=str).decode()
