"""Executing the calls of one answer: checked, permitted, recorded before and after."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from holdfast.agent._context import Suspend, ToolContext, plain_result
from holdfast.agent._permissions import Gate, Verdict, args_digest
from holdfast.agent._result import CallRequest, new_token
from holdfast.agent._run_log import RunLog
from holdfast.agent._tools import Tool
from holdfast.errors import DataError, HoldfastError, UsageError
from holdfast.model import Event, is_reference
from holdfast.replay import AskState
from holdfast.security import has_mark
from holdfast.session import (
    Answer,
    RecordedCall,
    Session,
    Waiting,
    ask_id,
    documents_of,
    now_ms,
    put_answer,
    waiting_of,
    whole_event,
)

_RESULTS_MAX = 1000  # of one open session; beyond it the oldest are dropped


class _Results:
    """The results of tools in one session."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        """The tools whose results were read from the log; later ones are added here."""
        self.known: dict[tuple[str, str], tuple[Any, int]] = {}
        """By name and arguments, the result and its time; the newest come last."""

    def put(self, key: tuple[str, str], result: Any, time: int) -> None:
        self.known.pop(key, None)
        self.known[key] = result, time
        if len(self.known) > _RESULTS_MAX:
            del self.known[next(iter(self.known))]


# Kept with the session and not with the run: all runs of an open session share what was read.
_of_sessions: WeakKeyDictionary[Session, _Results] = WeakKeyDictionary()


class ResultCache:
    """Results of idempotent tools in this session: read from the log once while it is open, then kept up to date."""

    def __init__(self, session: Session, names: Collection[str], clock: Callable[[], int] = now_ms) -> None:
        self._session = session
        self._names = frozenset(names)
        self._clock = clock

    def find(self, tool: Tool, args: dict[str, Any]) -> tuple[Any] | None:
        """Return the result of an earlier call, alone in a tuple; None if none is fresh enough."""
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
                # A result with a redaction mark is not the tool's result.
                whole = not is_reference(result) and not has_mark(bytes(event.raw))
                if key is not None and whole and not data.get("cached"):
                    results.put(key, result, event.timestamp)


class Parked(Exception):
    """Raised by a delegate whose calls wait: the call of the delegate then waits as well."""

    def __init__(self, waiting: list[Waiting]) -> None:
        super().__init__("a delegate waits for someone")
        self.waiting = waiting


class _Plan(msgspec.Struct):
    """The plan for one call: run it, or answer it at once."""

    request: CallRequest
    tool: Tool | None = None
    args: dict[str, Any] = {}
    refusal: str | None = None
    cached: Any = None
    is_cached: bool = False
    verdict: Verdict = Verdict(True)
    edited: bool = False

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
    path: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    watch: Callable[[str, dict[str, Any]], None] = lambda _name, _args: None
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a person is asked: one question at a time."""

    async def execute(
        self, calls: list[CallRequest], words: Sequence[tuple[str, dict[str, Any]]], extra: dict[str, Any]
    ) -> list[Waiting]:
        """Execute the calls of an answer in parallel; its words are recorded before them, ``extra`` with the first.

        Every intent is on the medium before any call runs, and before anybody is asked. A tool that fails, however
        it fails, gives a result that says so. Returns the calls that wait for an answer.
        """
        plans = [self._plan(call) for call in calls]
        intents = [self._intent(plan, extra if number == 0 else {}) for number, plan in enumerate(plans)]
        # With one append for all: after a crash the log has the whole answer, or nothing of it.
        recorded = self.talk.extend([*words, *intents])
        runs = [RecordedCall(self.talk, event) for event in recorded[len(words) :]]
        pairs = list(zip(plans, runs, strict=True))
        try:
            await self.talk.abarrier()
            for plan, run in pairs:
                if not plan.runs:
                    run.result_event = self._answer(plan)
            return [one for some in await _all([self._carry(*pair) for pair in pairs if pair[0].runs]) for one in some]
        except BaseException:
            waiting = {ask.call for ask in self.talk.session.live_state.asks.values()}
            for run in runs:
                # Begun but never run, because the run was stopped in between.
                if run.result_event is None and run.id not in waiting:
                    told = {"error": True, "message": "cancelled before it ran", "cancelled": True}
                    with contextlib.suppress(HoldfastError):  # if that cannot be recorded, the call stays open
                        self.talk.tool_result(run.id, told, is_error=True)
            raise

    async def make(self, calls: Iterable[tuple[CallRequest, Event]]) -> list[Waiting]:
        """Execute calls that another process recorded and certainly did not begin."""

        async def one(call: CallRequest, event: Event) -> list[Waiting]:
            plan, run = self._plan(call), RecordedCall(self.talk, event)
            if not plan.runs:
                self._answer(plan)
                return []
            if not plan.verdict.asks:
                await self._begin(event)
            return await self._carry(plan, run)

        return [found for some in await _all([one(*pair) for pair in calls]) for found in some]

    def answer_covered(self, asks: dict[str, AskState]) -> bool:
        """Answer open questions of this run that an approval of another call covers; return whether there were any."""
        found, session = False, self.talk.session
        for id, ask in asks.items():
            tool = self.tools.get(ask.tool)
            is_mine = tuple(ask.path) == self.path and ask.is_open and ask.kind == "permission"
            if is_mine and tool is not None and ask.call_seq >= 0:
                args = session.as_said(next(session.events(ask.call_seq))).data.get("params")
                if isinstance(args, dict) and self.gate.is_approved(tool, args):
                    answer = Answer(id=id, decision="allow", by="an approval", via="approval", at=now_ms())
                    put_answer(documents_of(session), answer)
                    found = True
        return found

    async def carry_out(self, asks: dict[str, AskState]) -> list[Waiting]:
        """Carry out the answers to questions of this run. An answer permits one execution, recorded under it."""
        session, work = self.talk.session, []
        for id, ask in asks.items():
            answer = session.as_said(next(session.events(ask.answered)))
            found = self._settled(id, ask, answer)
            if found is not None:
                work.append(found)
        if work:
            await self.talk.abarrier()
        return [one for some in await _all([self._perform(*pair) for pair in work]) for one in some]

    def _settled(self, id: str, ask: AskState, answer: Event) -> tuple[_Plan, RecordedCall] | None:
        """Return what to run after an answer, with its beginning recorded; None if the answer is the result."""
        said, call = answer.data, ask.call or ""
        decision = said.get("decision")
        reason = said.get("reason") or f"the user did not allow {ask.tool or 'it'}"
        if ask.kind != "permission" or decision == "result":
            value = said.get("result") if decision == "result" else decision != "deny"
            failed = decision == "deny"
            told = {"error": True, "message": f"refused: {reason}"} if failed else value
            if call and ask.resume_as == "tool_result":
                self.talk.tool_result(call, told, is_error=failed, by=said.get("by"))
            self.talk.append("resumed", {"reason": "answered", "ids": [id]})
            if not call:  # the session slept, and its program has ended
                self.talk.user(f"({value}; go on)", synthetic=True)
            elif ask.resume_as != "tool_result":
                self.talk.user(reason if failed else value)
            return None
        event = self.talk.session.as_said(next(self.talk.session.events(ask.call_seq)))
        edited = decision == "edit"
        args = said.get("args") if edited else event.data.get("params")
        plan = self._checked(CallRequest(call, ask.tool, args if isinstance(args, dict) else {}))
        plan.edited = edited
        if edited and plan.refusal is not None:
            plan.refusal = f"allowed with other arguments, and not run, because they do not fit: {plan.refusal}"
        if decision == "deny":
            plan.refusal = f"Permission denied: {reason}"
        elif has_mark(bytes((answer if edited else event).raw)):
            # The arguments have changed since they were approved.
            plan.refusal = (
                "allowed, but not run: its arguments held secrets, which are not kept; make the call once more"
            )
        if plan.refusal is not None:
            self._answer(plan)
            return None
        if said.get("scope") == "always":
            self.gate.allow_always(ask.tool, str(said.get("by", "user")))
        self.talk.append("step", {"step": call, "name": ask.tool, "call": call, "answer": id, "begin": True})
        return plan, RecordedCall(self.talk, event)

    async def _begin(self, event: Event) -> None:
        self.talk.append("step", {"step": event.id, "name": event.data.get("tool"), "call": event.id, "begin": True})
        await self.talk.abarrier()

    async def _carry(self, plan: _Plan, run: RecordedCall) -> list[Waiting]:
        """Run a recorded call, or ask about it first."""
        if not plan.verdict.asks:
            return await self._perform(plan, run)
        assert plan.tool is not None
        async with self.asking:
            # What was answered about a call beside it may hold for this one.
            verdict = self.gate.check(plan.tool, plan.request.args)
            if verdict.asks:
                verdict = await self.gate.ask(plan.tool, plan.request.args, run.id, expired=verdict.expired)
            elif verdict.allowed and run.event is not None:
                await self._begin(run.event)
        if verdict.allowed:
            return await self._perform(plan, run)
        if verdict.wish is not None:
            return [await self._park(run, plan.request, verdict.wish, "permission")]
        plan.refusal = f"Permission denied: {verdict.reason}"
        run.result_event = self._answer(plan)
        return []

    async def _park(self, run: RecordedCall, call: CallRequest, wish: Suspend, kind: str) -> Waiting:
        """Record durably that a call waits."""
        assert run.event is not None
        session, now = self.talk.session, now_ms()
        id = ask_id(session.live_state.log, self.talk.run, run.id, kind)
        expires_at = None if wish.expires_in_ms is None else now + wish.expires_in_ms
        data: dict[str, Any] = {
            "id": id,
            "kind": kind,
            "call": run.id,
            "tool": call.name,
            "digest": args_digest(call.args),
            "reason": wish.reason,
            "agent": self.talk.agent,
            "expires_at": expires_at if kind in ("permission", "input") else None,
            "on_expiry": None if wish.on_expiry == "deny" else wish.on_expiry,
            "until": wish.until,
            "event": wish.event,
            "resume_as": wish.resume_as,
            "replayable": False if has_mark(bytes(whole_event(run.event, documents_of(session)).raw)) else None,
            "path": list(self.path) or None,
            "above": list(self.above) or None,
            # A call recorded by an ended process is no longer known to be open.
            "call_seq": None if run.id in session.live_state.pending_calls else run.event.seq,
        }
        token = None
        if kind != "permission":
            token, data["token"] = new_token()
        known = {name: value for name, value in data.items() if value is not None}
        if id not in session.live_state.asks:
            self.talk.append("suspended", known)
        await session.aflush()
        return waiting_of(session.id, id, session.live_state.asks[id], call.args, token)

    async def repeat(self, call: CallRequest, call_id: str) -> None:
        """Run a call of unknown outcome again and record its result; only for tools that declare this harmless."""
        plan = self._plan(call)
        if not plan.runs or plan.tool is None or plan.verdict.asks:
            return
        try:
            result = await self._call(plan.tool, plan.args, call_id)
        except (Exception, Suspend) as error:  # noqa: BLE001 - whatever it raised is its result
            message = f"{type(error).__name__}: {error}"
            self.talk.tool_result(call_id, {"error": True, "message": message}, is_error=True)
        else:
            self.talk.tool_result(call_id, plain_result(result), repeated=True)
            self._keep(plan, plain_result(result))

    def _checked(self, call: CallRequest) -> _Plan:
        """Return the call with its tool, or with the reason why no tool takes it."""
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
        return _Plan(call, tool, args)

    def _plan(self, call: CallRequest) -> _Plan:
        plan = self._checked(call)
        tool = plan.tool
        if tool is None or plan.refusal is not None:
            return plan
        plan.verdict = self.gate.check(tool, call.args)
        if plan.verdict.asks:
            return plan
        if not plan.verdict.allowed:
            plan.refusal = f"Permission denied: {plan.verdict.reason}"
        elif self.cache is not None and tool.cache_ms:
            found = self.cache.find(tool, call.args)
            if found is not None:
                plan.cached, plan.is_cached = found[0], True
        return plan

    def _intent(self, plan: _Plan, extra: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the event that records a call before it is made."""
        call = plan.request
        known = {"id": call.id, "tool": call.name, "params": plain_result(call.args), "agent": self.talk.agent, **extra}
        if call.thought_signature:
            known["thought_signature"] = call.thought_signature
        if plan.runs and plan.verdict.asks:
            known["begun"] = False
        return "tool_call", known

    def _answer(self, plan: _Plan) -> Event:
        if plan.is_cached:
            return self.talk.tool_result(plan.request.id, plan.cached, cached=True)
        refusal = {"error": True, "message": plan.refusal}
        told = self.talk.tool_result(plan.request.id, refusal, is_error=True)
        if plan.tool is not None and plan.tool.on_refused is not None:
            plan.tool.on_refused(self.context(plan.request.id))
        return told

    async def _perform(self, plan: _Plan, run: RecordedCall) -> list[Waiting]:
        assert plan.tool is not None
        try:
            run.result = plain_result(await self._call(plan.tool, plan.args, run.id))
            if plan.edited:
                run.result = {"executed_with": plain_result(plan.request.args), "result": run.result}
        except Parked as parked:
            return parked.waiting
        except Suspend as wish:
            if wish.resume_as == "user_message":
                run.result = f"suspended: {wish.reason}"
                run.end()
            kind = "time" if wish.until is not None else "event" if wish.event is not None else "input"
            return [await self._park(run, plan.request, wish, kind)]
        except BaseException as error:
            run.end(error)
            # Libraries cancel tasks of their own; that is a failure of the tool, not the end of the turn.
            task = asyncio.current_task()
            is_own = isinstance(error, asyncio.CancelledError) and task is not None and not task.cancelling()
            if not isinstance(error, Exception) and not is_own:
                raise  # the run was cancelled: that is recorded, and the caller gets it
            return []
        try:
            run.end()
        except DataError:
            return []  # a result that cannot be stored is recorded as an error
        self._keep(plan, run.result)
        return []

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
            told = f"{tool.name} did not return within {timeout_ms} ms and was given up"
            raise TimeoutError(f"{told}; whether it took effect is unknown") from error


async def _all(work: list[Any]) -> list[Any]:
    """Await all and return their results; a cancellation reaches each of them and waits until they have ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        # Each records its own end; none may outlive its turn.
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return [task.result() for task in tasks]
