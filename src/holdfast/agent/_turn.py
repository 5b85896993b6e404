"""One turn: from a user's input to the agent's final answer, recorded from end to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from holdfast.agent._delegation import delegate_tools, resume_child
from holdfast.agent._execution import Executor
from holdfast.agent._plugins import Plugin
from holdfast.agent._reply import CallRequest
from holdfast.agent._result import RunResult
from holdfast.agent._run_log import RunLog, counted, is_child, new_run
from holdfast.agent._spec import Activity, RunPlace, Spec
from holdfast.agent._suspension import Suspension, Waiting, find_waiting, revoke, suspend
from holdfast.agent._tools import Tool
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.replay import is_complete
from holdfast.security import has_mark
from holdfast.session import Session, now_ms
from holdfast.storage import Documents, MemoryStore

Prompt = str | list[dict[str, Any]] | None
GO_ON = "(go on where you were interrupted)"


class AgentTurn:
    """One turn of one agent, on a session or on none."""

    def __init__(
        self,
        spec: Spec,
        session: Session | None,
        *,
        hf: Holdfast | None,
        documents: Documents | None,
        emit: Callable[[str], None] | None,
        plugins: Callable[[Session], list[Plugin]],
    ) -> None:
        self._spec = spec
        self._session = session
        self._hf = hf
        self._documents = documents
        self._emit = emit
        self._plugins = plugins
        self._reason = "failed"
        self._was_cut = False

    async def answer(self, prompt: Prompt, variables: Mapping[str, Any] | None) -> RunResult:
        """Answer a prompt, or go on without one."""
        _check_prompt(prompt)
        async with self._activity(superseding=True) as activity:
            if variables:
                activity.place.home.variables.update(variables)
            if prompt is None:
                self._go_on(activity.talk)
            else:
                activity.talk.user(prompt)
            return await self._run(activity, prompt)

    async def resume(self, token: str, value: Any) -> RunResult:
        """Go on with what a suspended run waited for."""
        if self._session is None:
            raise UsageError("only a run on a session can be resumed")
        waiting = find_waiting(self._session, token, now_ms())
        async with self._activity(superseding=False) as activity:
            # Once more, now that nobody else has the turn: a token works once.
            waiting = find_waiting(self._session, token, now_ms())
            self._take_up(activity.talk, waiting, value)
            return await self._run(activity, None)

    async def resume_delegate(self, agent: str, run: str) -> str:
        """Go on with a child's run."""
        child = next((each for each in self._spec.delegates if each.name == agent), None)
        if child is None:
            raise UsageError(f"{self._spec.name} has no delegate {agent!r}")
        async with self._activity(superseding=False) as activity:
            output = await resume_child(activity, child, run)
            self._reason = "completed"
            return output

    def _go_on(self, talk: RunLog) -> None:
        """Check that there is something to go on with: an open question, or a broken answer."""
        messages = talk.messages()
        if messages and not is_complete(messages):
            return
        if not messages or not self._was_cut:
            raise UsageError(
                "there is nothing to go on with: the agent had the last word",
                remedy="Give a prompt.",
                session_id=talk.session.id,
            )
        talk.user(GO_ON, synthetic=True)

    def _take_up(self, talk: RunLog, waiting: Waiting, value: Any) -> None:
        """Spend the token and record the answer, both or neither."""
        said: tuple[str, dict[str, Any]] = ("user", {"role": "user", "content": value})
        if waiting.resume_as == "tool_result" and waiting.call is not None:
            said = ("tool_result", {"toolCallId": waiting.call, "result": value})
        said[1].update(counted(value))
        talk.extend([("resumed", {"reason": "answered", "token": waiting.digest}), said])

    async def _run(self, activity: Activity, prompt: Prompt) -> RunResult:
        _remember_settings(activity)
        activity.host.tell("on_turn_start", activity.context(""), prompt)
        outcome = await activity.loop()
        suspension = self._suspend(activity, outcome.halts)
        activity.host.tell("on_turn_end", activity.context(""), outcome.output)
        activity.host.save()
        done = {"agent": self._spec.name, "duration": activity.elapsed_ms()}
        activity.talk.append("agent_complete", done)
        self._reason = "completed" if suspension is None else "suspended"
        return RunResult(
            output=outcome.output,
            session_id=None if self._session is None else self._session.id,
            usage=activity.usage,
            messages=activity.talk.messages(),
            suspended=suspension,
            notices=activity.place.home.untold_repairs(),
            finish_reason=outcome.finish_reason,
            run=activity.talk.run,
        )

    def _suspend(self, activity: Activity, halts: list[Any]) -> Suspension | None:
        if not halts:
            return None
        first, *others = halts
        for halt in others:
            refusal = {"error": True, "message": "another call waits for someone; try again later"}
            activity.talk.tool_result(halt.call_id, refusal, is_error=True)
        return suspend(activity.talk, first.call_id, first.wish, now_ms())

    # -- around it -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _activity(self, *, superseding: bool) -> AsyncIterator[Activity]:
        """The turn's block: its beginning and its end are on record, however it ends."""
        async with contextlib.AsyncExitStack() as stack:
            place = self._place(stack)
            await stack.enter_async_context(place.home.turns.of_agent())
            leftovers = find_leftovers(place.talks)
            talk = RunLog(place.talks, new_run(), self._spec.name)
            state = place.talks.live_state
            self._was_cut = state.unfinished
            if place.talks.restored and state.status in ("running", "interrupted"):
                place.talks.log_recovery()
            supersedes = superseding and place.talks.live_state.suspended
            begun = talk.append("turn_start", {"agent": self._spec.name})
            try:
                activity = self._begin(place, talk)
                if supersedes:
                    revoke(talk)
                await repeat_leftovers(leftovers, activity.tools, activity.executor)
                yield activity
            except BaseException as error:
                self._note_failure(talk, error)
                await self._end(talk, begun.seq, failing=True)
                raise
            await self._end(talk, begun.seq, failing=False)

    def _begin(self, place: RunPlace, talk: RunLog) -> Activity:
        talk.append("agent_start", {"agent": self._spec.name, "depth": 0})
        made: list[Activity] = []
        activity = Activity(
            spec=self._spec,
            place=place,
            talk=talk,
            emit=self._emit,
            plugins=self._plugins(place.home),
            extra_tools=delegate_tools(self._spec, lambda: made[0]),
        )
        made.append(activity)
        return activity

    def _place(self, stack: contextlib.AsyncExitStack) -> RunPlace:
        home = self._session
        if home is None or not self._spec.features.history:
            fleeting = Holdfast(MemoryStore(), timers=False)
            stack.callback(fleeting.close)
            talks = fleeting.session()
            home = talks if home is None else home
        else:
            talks = home
        if self._session is None:
            return RunPlace(home=home, talks=talks)
        return RunPlace(home=home, talks=talks, hf=self._hf, documents=self._documents)

    def _note_failure(self, talk: RunLog, error: BaseException) -> None:
        cancelled = isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit)
        self._reason = "cancelled" if cancelled else "failed"
        if isinstance(error, Exception):
            code = error.code if isinstance(error, HoldfastError) else type(error).__name__
            said = {"code": code, "message": str(error)[:2000]}
            with contextlib.suppress(HoldfastError):  # the store itself may be what failed
                talk.append("agent_error", {"agent": self._spec.name, "error": said})

    async def _end(self, talk: RunLog, turn: int, *, failing: bool) -> None:
        try:
            talk.append("turn_end", {"turn": turn, "reason": self._reason})
            await talk.abarrier()
        except HoldfastError:
            if not failing:
                raise


def _check_prompt(prompt: Prompt) -> None:
    if prompt is None:
        return
    if not isinstance(prompt, str | list):
        raise UsageError(f"a prompt is a text or a list of blocks, not {type(prompt).__name__}")
    if not prompt or (isinstance(prompt, str) and not prompt.strip()):
        raise UsageError("a prompt cannot be empty", remedy="Pass None to go on without one.")


def _remember_settings(activity: Activity) -> None:
    """Record instructions and configuration where they differ from what is stored."""
    spec, home = activity.spec, activity.place.home
    if not spec.features.history:
        return
    if spec.instructions is not None and spec.instructions != home.live_state.instructions:
        home.append("instructions", {"content": spec.instructions})
    wanted = {
        "model": spec.model.model_name,
        "max_context_tokens": spec.bounds.max_context_tokens,
        "strategy": spec.bounds.strategy,
    }
    known = home.live_state.config
    changed = {name: value for name, value in wanted.items() if known.get(name) != value}
    if changed:
        home.append("config", changed)


# What an earlier process left undone: calls whose outcome nobody knows.


def find_leftovers(session: Session) -> list[CallRequest]:
    """The top-level calls that a process which is gone had begun and not finished.

    To be asked before anything is appended: the first append notes the interruption, and from then
    on the calls count as interrupted.
    """
    state = session.live_state
    if not state.pending_calls or not state.open_turns:
        return []
    found = []
    for call in state.pending_calls.values():
        if not call.begun:
            continue
        event = next(session.events(call.seq))
        params = event.data.get("params")
        # With a mark in the place of a secret it would be another call than the one that was meant.
        whole = not has_mark(bytes(event.raw))
        if not is_child(event) and isinstance(params, dict) and whole:
            found.append(CallRequest(str(event.data["id"]), call.tool, params))
    return found


async def repeat_leftovers(
    leftovers: list[CallRequest], tools: dict[str, Tool], executor: Executor
) -> None:
    """Run again those that do no harm. The others stay without a result, and the model is told."""
    for call in leftovers:
        tool = tools.get(call.name)
        if tool is not None and tool.repeatable:
            await executor.repeat(call, call.id)
