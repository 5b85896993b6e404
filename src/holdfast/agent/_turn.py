"""One turn: from a user's input to the agent's final answer, with the agents that it calls."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.agent._result import CallRequest, RunResult, Suspension, find_waiting, revoke, suspend
from holdfast.agent._run_log import RunLog, counted, is_child, new_run
from holdfast.agent._spec import Activity, PluginHost, RunPlace, SessionPlugins, Spec
from holdfast.agent._tools import Tool
from holdfast.errors import AgentError, HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.replay import is_complete
from holdfast.security import has_mark
from holdfast.session import Session, now_ms
from holdfast.storage import Documents, MemoryStore

DEPTH_MAX = 8
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def check_delegates(spec: Spec) -> None:
    """Raises UsageError if two delegates, or a delegate and a tool, would be called alike."""
    names = [tool.name for tool in spec.tools] + [tool_name(each.name) for each in spec.delegates]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(
            f"two things that {spec.name} may call have the name {twice[0]!r}",
            remedy="Give each delegate a name of its own.",
        )


def _delegate_tool(child: Spec, parent: Activity) -> Tool:
    async def ask(task: str) -> str:
        return await delegate(parent, child, task)

    about = child.description or f"Give a task to the agent {child.name}."
    schema = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "All that it needs to know."}},
        "required": ["task"],
        "additionalProperties": False,
    }
    return Tool(ask, name=tool_name(child.name), description=about, schema=schema)


def tool_name(agent: str) -> str:
    return "ask_" + _UNFIT.sub("_", agent)[:60]


async def delegate(parent: Activity, child: Spec, task: str) -> str:
    """Let the child do the task, in the parent's session; what it answers."""
    if not isinstance(task, str) or not task.strip():
        raise UsageError(f"a task for {child.name} is a text that is not empty")
    if parent.depth + 1 > DEPTH_MAX:
        raise AgentError(f"agents called each other {DEPTH_MAX} deep")
    # A run of its own in the log of the parent: what a crash leaves of either is found together.
    run = new_run(child=True)
    who = {"parent": parent.spec.name, "child": child.name}
    parent.talk.append("delegation", {**who, "task": task, "child_run": run})
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    activity = _activity(parent, child, talk)
    talk.append("agent_start", _start(parent, child) | {"task": task})
    talk.user(task, agent=child.name, parent=parent.spec.name)
    output = await _finish(activity)
    parent.talk.append("delegation_complete", {**who, "child_run": run, "result": output})
    return output


async def resume_child(parent: Activity, child: Spec, run: str) -> str:
    """Go on with a child's run that an earlier process left, from its own part of the log."""
    events = list(parent.talk.session.events())
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    talk.replay(events)
    if not talk.messages():
        raise UsageError(f"there is no run {run} of {child.name} in this session")
    activity = _activity(parent, child, talk)
    talk.append("agent_start", _start(parent, child) | {"resumed": True})
    return await _finish(activity)


def _start(parent: Activity, child: Spec) -> dict[str, Any]:
    return {"agent": child.name, "parent": parent.spec.name, "depth": parent.depth + 1}


def _activity(parent: Activity, child: Spec, talk: RunLog) -> Activity:
    # The person who may be asked sits with the first agent.
    child = replace(child, permission=child.permission or parent.spec.permission)
    return Activity(
        spec=child,
        place=parent.place,
        talk=talk,
        host=PluginHost([], parent.place.home),
        delegate_tool=_delegate_tool,
        depth=parent.depth + 1,
        usage=parent.usage,
    )


async def _finish(activity: Activity) -> str:
    talk, name = activity.talk, activity.spec.name
    try:
        outcome = await activity.loop()
        if outcome.halts:
            raise AgentError(f"{name} wants to wait for someone; only the first agent can")
    except HoldfastError as error:
        talk.append("agent_error", {"agent": name, "error": {"code": error.code, "message": str(error)}})
        raise
    talk.append("agent_complete", {"agent": name, "duration": activity.elapsed_ms()})
    return outcome.output


# One turn: from a user's input to the agent's final answer, recorded from end to end.

Prompt = str | list[dict[str, Any]] | None
GO_ON = "(go on where you were interrupted)"


@dataclass
class AgentTurn:
    """One turn of one agent, on a session or on none."""

    spec: Spec
    session: Session | None
    hf: Holdfast | None
    documents: Documents | None
    emit: Callable[[str], None] | None
    plugins: SessionPlugins
    _reason: str = "failed"
    _was_cut: bool = False

    async def answer(self, prompt: Prompt, variables: Mapping[str, Any] | None) -> RunResult:
        if not isinstance(prompt, str | list | None):
            raise UsageError(f"a prompt is a text or a list of blocks, not {type(prompt).__name__}")
        if prompt is not None and (not prompt or (isinstance(prompt, str) and not prompt.strip())):
            raise UsageError("a prompt cannot be empty", remedy="Pass None to go on without one.")
        async with self._activity(superseding=True) as activity:
            if variables:
                activity.place.home.variables.update(variables)
            if prompt is None:
                self._go_on(activity.talk)
            else:
                activity.talk.user(prompt)
            return await self._run(activity, prompt)

    async def resume(self, token: str, value: Any) -> RunResult:
        if self.session is None:
            raise UsageError("only a run on a session can be resumed")
        find_waiting(self.session, token, now_ms())
        async with self._activity(superseding=False) as activity:
            # Once more, now that nobody else has the turn: a token works once.
            waiting = find_waiting(self.session, token, now_ms())
            said: tuple[str, dict[str, Any]] = ("user", {"role": "user", "content": value})
            if waiting.resume_as == "tool_result" and waiting.call is not None:
                said = ("tool_result", {"toolCallId": waiting.call, "result": value})
            said[1].update(counted(value))
            # The token is spent and the answer is recorded, both or neither.
            activity.talk.extend([("resumed", {"reason": "answered", "token": waiting.digest}), said])
            return await self._run(activity, None)

    async def resume_delegate(self, agent: str, run: str) -> str:
        child = next((each for each in self.spec.delegates if each.name == agent), None)
        if child is None:
            raise UsageError(f"{self.spec.name} has no delegate {agent!r}")
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

    async def _run(self, activity: Activity, prompt: Prompt) -> RunResult:
        _remember_settings(activity)
        activity.host.tell("on_turn_start", activity.context(""), prompt)
        outcome = await activity.loop()
        suspension = self._suspend(activity, outcome.halts)
        activity.host.tell("on_turn_end", activity.context(""), outcome.output)
        activity.host.save()
        activity.talk.append("agent_complete", {"agent": self.spec.name, "duration": activity.elapsed_ms()})
        self._reason = "completed" if suspension is None else "suspended"
        return RunResult(
            output=outcome.output,
            session_id=None if self.session is None else self.session.id,
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

    @contextlib.asynccontextmanager
    async def _activity(self, *, superseding: bool) -> AsyncIterator[Activity]:
        """The turn's block: its beginning and its end are on record, however it ends."""
        async with contextlib.AsyncExitStack() as stack:
            place = self._place(stack)
            await stack.enter_async_context(place.home.turns.of_agent())
            # Before the first append: that notes the interruption, and then they count as ended.
            leftovers = find_leftovers(place.talks)
            talk = RunLog(place.talks, new_run(), self.spec.name)
            state = place.talks.live_state
            self._was_cut = state.unfinished
            if place.talks.restored and state.status in ("running", "interrupted"):
                place.talks.log_recovery()
            # Asked before the turn begins: its first event ends the suspension.
            supersedes = superseding and place.talks.live_state.suspended
            begun = talk.append("turn_start", {"agent": self.spec.name})
            try:
                talk.append("agent_start", {"agent": self.spec.name, "depth": 0})
                activity = Activity(
                    spec=self.spec,
                    place=place,
                    talk=talk,
                    # Without a session nothing of them is kept for good.
                    host=replace(self.plugins.host(place.home, self.documents), documents=place.documents),
                    delegate_tool=_delegate_tool,
                    emit=self.emit,
                )
                if supersedes:
                    revoke(talk)
                for call in leftovers:
                    # Those that do no harm again. The others stay without a result, and the model is told.
                    if call.name in activity.tools and activity.tools[call.name].repeatable:
                        await activity.executor.repeat(call, call.id)
                yield activity
            except BaseException as error:
                self._note_failure(talk, error)
                await self._end(talk, begun.seq, failing=True)
                raise
            await self._end(talk, begun.seq, failing=False)

    def _place(self, stack: contextlib.AsyncExitStack) -> RunPlace:
        home = talks = self.session
        if talks is None or not self.spec.features.history:
            fleeting = Holdfast(MemoryStore(), timers=False)
            stack.callback(fleeting.close)
            talks = fleeting.session()
        if home is None:
            return RunPlace(home=talks, talks=talks)
        return RunPlace(home=home, talks=talks, hf=self.hf, documents=self.documents)

    def _note_failure(self, talk: RunLog, error: BaseException) -> None:
        cancelled = isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit)
        self._reason = "cancelled" if cancelled else "failed"
        if isinstance(error, Exception):
            code = error.code if isinstance(error, HoldfastError) else type(error).__name__
            said = {"code": code, "message": str(error)[:2000]}
            with contextlib.suppress(HoldfastError):  # the store itself may be what failed
                talk.append("agent_error", {"agent": self.spec.name, "error": said})

    async def _end(self, talk: RunLog, turn: int, *, failing: bool) -> None:
        try:
            talk.append("turn_end", {"turn": turn, "reason": self._reason})
            await talk.abarrier()
        except HoldfastError:
            if not failing:
                raise


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


def find_leftovers(session: Session) -> list[CallRequest]:
    """The top-level calls that a process which is gone had begun and not finished: nobody knows their outcome.

    To be asked before anything is appended: the first append notes the interruption, and from then on they count as
    interrupted.
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
