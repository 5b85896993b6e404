"""Carrying out the calls of one answer: checked, permitted, recorded before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.agent._context import Suspend, ToolContext, plain_result
from holdfast.agent._permissions import Gate, args_digest
from holdfast.agent._result import CallRequest
from holdfast.agent._run_log import RunLog
from holdfast.agent._tools import Tool
from holdfast.errors import DataError, UsageError
from holdfast.model import is_reference
from holdfast.security import has_mark
from holdfast.session import Session, ToolRun, now_ms

_RESULTS_MAX = 1000  # of one open session; beyond it the oldest go


class _Results:
    """What tools gave in one session."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The tools whose results were read from the log; later ones are put here."""
        self.known: dict[tuple[str, str], tuple[Any, int]] = {}
        """By name and arguments, the result and its time; the newest stand last."""

    def put(self, key: tuple[str, str], result: Any, time: int) -> None:
        self.known.pop(key, None)
        self.known[key] = result, time
        if len(self.known) > _RESULTS_MAX:
            del self.known[next(iter(self.known))]


# Beside the session and not in the run: every run of an open session shares what was read.
_of_sessions: WeakKeyDictionary[Session, _Results] = WeakKeyDictionary()


class ResultCache:
    """What idempotent tools gave in this session: read from the log once while it is open, then kept up to date."""

    def __init__(self, session: Session, names: Collection[str], clock: Callable[[], int] = now_ms) -> None:
        self._session = session
        self._names = frozenset(names)
        self._clock = clock

    def find(self, tool: Tool, args: dict[str, Any]) -> tuple[Any] | None:
        """The result of an earlier call, alone in a tuple; None if there is none fresh enough."""
        found = self._results().known.get((tool.name, args_digest(args)))
        if found is None or found[1] + tool.cache_ms <= self._clock():
            return None
        return (found[0],)

    def keep(self, tool: Tool, args: dict[str, Any], result: Any) -> None:
        self._results().put((tool.name, args_digest(args)), result, self._clock())

    def _results(self) -> _Results:
        results = _of_sessions.setdefault(self._session, _Results())
        if unread := self._names - results.names:
            self._read(unread, results)
            results.names |= unread
        return results

    def _read(self, names: Collection[str], results: _Results) -> None:
        calls: dict[str, tuple[str, str]] = {}
        for event in self._session.events():
            data = event.data
            tool, params = data.get("tool"), data.get("params")
            if event.type == "tool_call" and isinstance(tool, str) and tool in names:
                if isinstance(params, dict):
                    calls[str(data.get("id"))] = (tool, args_digest(params))
            elif event.type == "tool_result" and not data.get("is_error"):
                key = calls.get(str(data.get("toolCallId")))
                result = data.get("result")
                # A result with a mark in it is not what the tool gave.
                whole = not is_reference(result) and not has_mark(bytes(event.raw))
                if key is not None and whole and not data.get("cached"):
                    results.put(key, result, event.timestamp)


class Halt(msgspec.Struct, frozen=True):
    """A call that asked for the turn to end until someone answers."""

    call_id: str
    wish: Any


class _Plan(msgspec.Struct):
    """What is to become of one call: run it, or answer it at once."""

    request: CallRequest
    tool: Tool | None = None
    args: dict[str, Any] = {}
    refusal: str | None = None
    cached: Any = None
    is_cached: bool = False

    @property
    def runs(self) -> bool:
        return self.refusal is None and not self.is_cached


@dataclass(frozen=True, kw_only=True)
class Executor:
    """Runs the calls of one agent in one run."""

    talk: RunLog
    tools: dict[str, Tool]
    gate: Gate
    context: Callable[[str], ToolContext]
    cache: ResultCache | None = None
    timeout_ms: int | None = None
    watch: Callable[[str, dict[str, Any]], None] = lambda _name, _args: None

    async def execute(self, calls: list[CallRequest], extra: dict[str, Any]) -> list[Halt]:
        """Make these calls, in parallel; ``extra`` is recorded with the first.

        Every intent is on the medium before any of them runs. A tool that fails, however it fails,
        gives a result that says so. Returns the calls that ask for the turn to end.
        """
        plans = [await self._plan(call) for call in calls]
        runs = [self._open(plan, extra if number == 0 else {}) for number, plan in enumerate(plans)]
        try:
            # All intents first, with one sync for all: after a crash it is known what may have run.
            await asyncio.gather(*(run.__aenter__() for run in runs if run is not None))
            pairs = list(zip(plans, runs, strict=True))
            for plan, run in pairs:
                if run is None:
                    self._answer(plan)
            work = [self._perform(plan, run) for plan, run in pairs if run is not None]
            return [halt for halt in await _all(work) if halt is not None]
        except BaseException as error:
            for run in runs:
                # Begun and never run, because the run was stopped in between.
                if run is not None and run.event is not None and run.result_event is None:
                    await run.__aexit__(type(error), error, error.__traceback__)
            raise

    async def repeat(self, call: CallRequest, call_id: str) -> None:
        """Run a call of unknown outcome again and record its result; for tools that say that this does no harm."""
        plan = await self._plan(call)
        if not plan.runs or plan.tool is None:
            return
        try:
            result = await self._call(plan.tool, plan.args, call_id)
        except (Exception, Suspend) as error:  # noqa: BLE001 - whatever it raised is its result
            message = f"{type(error).__name__}: {error}"
            self.talk.tool_result(call_id, {"error": True, "message": message}, is_error=True)
        else:
            self.talk.tool_result(call_id, plain_result(result), repeated=True)
            self._keep(plan, plain_result(result))

    async def _plan(self, call: CallRequest) -> _Plan:
        tool = self.tools.get(call.name)
        if tool is None:
            names = ", ".join(sorted(self.tools)[:20])
            return _Plan(call, refusal=f"there is no tool {call.name!r}" + (f"; there are: {names}" if names else ""))
        if call.fault is not None:
            return _Plan(call, tool, refusal=call.fault)
        try:
            args = tool.check_args(call.args)
        except UsageError as error:
            return _Plan(call, tool, refusal=str(error))
        verdict = await self.gate.check(tool, call.args, call.id)
        if not verdict.allowed:
            return _Plan(call, tool, refusal=f"Permission denied: {verdict.reason}")
        plan = _Plan(call, tool, args)
        if self.cache is not None and tool.cache_ms:
            found = self.cache.find(tool, call.args)
            if found is not None:
                plan.cached, plan.is_cached = found[0], True
        return plan

    def _open(self, plan: _Plan, extra: dict[str, Any]) -> ToolRun | None:
        """The block around a call that runs; any other is recorded here."""
        call = plan.request
        known = {"id": call.id, "agent": self.talk.agent, **extra}
        if call.thought_signature:
            known["thought_signature"] = call.thought_signature
        params = plain_result(call.args)
        if plan.runs:
            return ToolRun(self.talk, call.name, params, **known)
        self.talk.tool_call(call.name, params, **known)
        return None

    def _answer(self, plan: _Plan) -> None:
        if plan.is_cached:
            self.talk.tool_result(plan.request.id, plan.cached, cached=True)
            return
        refusal = {"error": True, "message": plan.refusal}
        self.talk.tool_result(plan.request.id, refusal, is_error=True)
        if plan.tool is not None and plan.tool.on_refused is not None:
            plan.tool.on_refused(self.context(plan.request.id))

    async def _perform(self, plan: _Plan, run: ToolRun) -> Halt | None:
        assert plan.tool is not None
        try:
            run.result = plain_result(await self._call(plan.tool, plan.args, run.id))
        except Suspend as wish:
            if wish.resume_as == "user_message":
                run.result = f"suspended: {wish.reason}"
                await run.__aexit__(None, None, None)
            return Halt(run.id, wish)
        except BaseException as error:
            await run.__aexit__(type(error), error, error.__traceback__)
            # Libraries cancel tasks of their own; that is a failure of the tool, not the end of the turn.
            task = asyncio.current_task()
            is_own = isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()
            if not isinstance(error, Exception) and not is_own:
                raise  # the run was cancelled: that is recorded, and the caller is told
            return None
        try:
            await run.__aexit__(None, None, None)
        except DataError:
            return None  # what cannot be stored is recorded as an error
        self._keep(plan, run.result)
        return None

    def _keep(self, plan: _Plan, result: Any) -> None:
        if self.cache is not None and plan.tool is not None and plan.tool.cache_ms:
            self.cache.keep(plan.tool, plan.request.args, result)

    async def _call(self, tool: Tool, args: dict[str, Any], call_id: str) -> Any:
        self.watch(tool.name, args)
        timeout_ms = tool.timeout_ms or self.timeout_ms
        work = tool.call(self.context(call_id), args)
        if timeout_ms is None:
            return await work
        try:
            return await asyncio.wait_for(work, timeout_ms / 1000)
        except TimeoutError as error:
            raise TimeoutError(f"{tool.name} did not return within {timeout_ms} ms and was given up") from error


async def _all(work: list[Any]) -> list[Any]:
    """The results of all; a cancellation reaches each of them and waits until they have ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        # Each records its own end; none may be left behind by a turn that is over.
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return [task.result() for task in tasks]
