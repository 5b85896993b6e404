"""One turn: from a user's input to the agent's final answer, with the delegates that it calls."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec.structs import replace as replace_struct

from holdfast.agent._context import ToolContext
from holdfast.agent._engine import engine_of
from holdfast.agent._execution import Parked
from holdfast.agent._interjections import Steering
from holdfast.agent._limits import load_prices_for
from holdfast.agent._loop import LoopOutcome
from holdfast.agent._result import RunResult, RunStatus, Usage, blocks_of, find_waiting, revoke, suspension_of
from holdfast.agent._run_log import NOTHING, RunLog, Unasked, counted, find_leftovers, find_unasked, is_of, new_run
from holdfast.agent._spec import Activity, PluginHost, RunPlace, SessionPlugins, Spec
from holdfast.agent._tools import Tool
from holdfast.errors import AgentError, HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event
from holdfast.replay import AskState, is_complete
from holdfast.session import (
    Edited,
    Result,
    Session,
    Waiting,
    documents_of,
    give_answers,
    kept_answers,
    now_ms,
    overdue,
    read_answer,
    resolve_blobs,
    take_answers,
    waiting_of,
)
from holdfast.storage import Documents, MemoryStore

DEPTH_MAX = 8
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def check_delegates(spec: Spec) -> None:
    """Raises UsageError if two delegates, or a delegate and a tool, have the same name."""
    names = [tool.name for tool in spec.tools] + _delegating(spec)
    names += [] if spec.output is None else list(spec.output.ways)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(
            f"two things that {spec.name} may call have the name {twice[0]!r}",
            remedy="Give each delegate a name of its own.",
        )


def _delegate_tool(child: Spec, parent: Activity) -> Tool:
    async def ask(context: ToolContext, task: str) -> str:
        return await delegate(parent, child, task, context.call_id)

    about = child.description or f"Give a task to the agent {child.name}."
    schema = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "All that it needs to know."}},
        "required": ["task"],
        "additionalProperties": False,
    }
    return Tool(ask, name=tool_name(child.name), description=about, schema=schema)


def _delegating(spec: Spec) -> list[str]:
    """Return the names of the calls by which an agent delegates."""
    return [tool_name(each.name) for each in spec.delegates]


def tool_name(agent: str) -> str:
    return "ask_" + _UNFIT.sub("_", agent)[:60]


async def delegate(parent: Activity, child: Spec, task: str, call_id: str) -> str:
    """Let the child do the task, in the parent's session; return its answer."""
    if not isinstance(task, str) or not task.strip():
        raise UsageError(f"a task for {child.name} is a text that is not empty")
    if parent.depth + 1 > DEPTH_MAX:
        raise AgentError(f"agents called each other {DEPTH_MAX} deep")
    # A run of its own in the log of the parent: after a crash both are found together.
    run = new_run(child=True)
    who = {"parent": parent.spec.name, "child": child.name}
    parent.talk.append("delegation", {**who, "task": task, "child_run": run, "call": call_id})
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    activity = await _activity(parent, child, talk, call_id)
    talk.append("agent_start", _start(parent, child) | {"task": task})
    talk.user(task, agent=child.name, parent=parent.spec.name)
    output = await _finish(activity)
    parent.talk.append("delegation_complete", {**who, "child_run": run, "result": output})
    return output


async def resume_child(parent: Activity, child: Spec, run: str) -> str:
    """Continue a child's run that an earlier process left, from its own part of the log."""
    events = list(parent.talk.session.events())
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    talk.replay(events)
    if not talk.messages():
        raise UsageError(f"there is no run {run} of {child.name} in this session")
    activity = await _activity(parent, child, talk)
    talk.append("agent_start", _start(parent, child) | {"resumed": True})
    return await _finish(activity)


def _start(parent: Activity, child: Spec) -> dict[str, Any]:
    return {"agent": child.name, "parent": parent.spec.name, "depth": parent.depth + 1}


async def _activity(parent: Activity, child: Spec, talk: RunLog, call_id: str | None = None) -> Activity:
    # The person who can be asked is at the first agent.
    child = replace(await child.equipped(), permission=child.permission or parent.spec.permission)
    return Activity(
        spec=child,
        place=parent.place,
        talk=talk,
        host=PluginHost([], parent.place.home),
        delegate_tool=_delegate_tool,
        depth=parent.depth + 1,
        payer=parent.meter,
        prices=parent.prices if child.bounds.limits.cost is None else load_prices_for(child.bounds.limits, []),
        path=(*parent.path, talk.run),
        above=(*parent.above, *(() if call_id is None else (call_id,))),
    )


async def _finish(activity: Activity, unasked: Unasked = NOTHING) -> str:
    """Let a delegate work until it is done; return its answer. Raises Parked if its calls wait for an answer."""
    talk, name = activity.talk, activity.spec.name
    try:
        if waiting := await _ask_now(activity, unasked):
            raise Parked(waiting)
        outcome = await activity.loop()
        if outcome.waiting:
            raise Parked(outcome.waiting)
        if outcome.limit:
            raise AgentError(f"{name} was stopped: the limit of {outcome.limit} was reached")
    except HoldfastError as error:
        talk.append("agent_error", {"agent": name, "error": {"code": error.code, "message": str(error)}})
        raise
    talk.append("agent_complete", {"agent": name, "duration": activity.elapsed_ms()})
    return outcome.output


async def carry_on(activity: Activity) -> list[Waiting]:
    """Carry out the answers to questions of a run, in the runs below it first; return what it still waits for."""
    session, depth = activity.talk.session, len(activity.path)
    tried: set[str] = set()
    while True:
        await asyncio.to_thread(_take_in, activity)
        mine = {
            id: ask for id, ask in session.live_state.asks.items() if tuple(ask.path[:depth]) == activity.path
        }  # fmt: skip
        if await asyncio.to_thread(activity.executor.answer_covered, mine):
            continue
        due = {id: ask for id, ask in mine.items() if not ask.is_open and id not in tried}
        if not due:
            break
        tried.update(due)
        for run in dict.fromkeys(ask.path[depth] for ask in due.values() if len(ask.path) > depth):
            call = next(ask.above[depth] for ask in due.values() if ask.path[depth : depth + 1] == [run])
            await _go_on_below(activity, run, call)
        own = {id: ask for id, ask in due.items() if len(ask.path) == depth and not (ask.begun or ask.done)}
        await activity.executor.carry_out(own)
    return [waiting_of(session.id, id, ask, read_args(session, ask)) for id, ask in mine.items() if ask.is_open]


async def _ask_now(activity: Activity, unasked: Unasked) -> list[Waiting]:
    """Ask about the calls that were left unasked, in the runs below first; return what the run waits for."""
    for run, call in unasked.below:
        await _go_on_below(activity, run, call)
    return [*await carry_on(activity), *await activity.executor.make(unasked.calls)]


async def _check_has_tools(spec: Spec, session: Session) -> None:
    """Raise UsageError if a call was approved that this agent has no tool for: it would refuse what another can do."""
    # Nothing is recorded here: what a killed process left is found by the first append.
    kept = await asyncio.to_thread(kept_answers, documents_of(session)) if session.live_state.asks else {}
    for id, ask in session.live_state.asks.items():
        if ask.kind != "permission" or ask.begun or ask.done:
            continue
        answer = kept.get(id) or overdue(id, ask, now_ms())
        said = None if answer is None else answer.decision
        if ask.answered >= 0:
            said = next(session.events(ask.answered)).data.get("decision")
        if said in ("allow", "edit") and await _tool_of(spec, ask, session.events) is None:
            raise UsageError(
                f"{spec.name} has no tool {ask.tool!r}, of which a call was approved",
                remedy="Go on with the agent that has it: the approval is kept. A new message ends it.",
                session_id=session.id,
            )


def _take_in(activity: Activity) -> None:
    session, hf = activity.talk.session, activity.place.hf
    if hf is not None and any(ask.is_open and ask.event for ask in session.live_state.asks.values()):
        session.flush()  # or they would not be found
        hf.inbox.take_signals(session.id, session.live_state.asks)
    take_answers(session)


def read_args(session: Session, ask: AskState) -> Any:
    """Return the arguments of a waiting call, from the log."""
    if ask.call_seq < 0:
        return None
    return session.as_said(next(session.events(ask.call_seq))).data.get("params")


async def _go_on_below(parent: Activity, run: str, call: str) -> None:
    """Continue a delegate's run, unless its call has a result; its end is that result."""
    events = list(parent.talk.session.events())
    begun = next((e for e in events if e.type == "delegation" and e.data.get("child_run") == run), None)
    own, since = parent.talk.run if parent.talk.is_child else None, -1 if begun is None else begun.seq
    results = (e for e in events if e.type == "tool_result" and e.seq > since and is_of(e, own))
    if any(result.data.get("toolCallId") == call for result in results):
        return
    name = None if begun is None else begun.data.get("child")
    child = next((each for each in parent.spec.delegates if each.name == name), None)
    if child is None:
        message = f"the agent {name} is not there any more; whether this call took effect is unknown"
        parent.talk.tool_result(call, {"error": True, "message": message}, is_error=True)
        return
    talk = RunLog(parent.talk.session, run, child.name, child=True)
    talk.replay(events)
    said = talk.messages()
    if not said and begun is not None:  # it was killed before it heard its task
        talk.user(begun.data.get("task"), agent=child.name, parent=parent.spec.name)
    try:
        if child.output is None and is_complete(said):  # or before its answer was passed on
            output = "".join(block["text"] for block in blocks_of(said[-1]) if block["type"] == "text")
        else:
            unasked = find_unasked(parent.talk.session, run, delegates=_delegating(child))
            output = await _finish(await _activity(parent, child, talk, call), unasked)
    except Parked:
        return
    except HoldfastError as error:
        parent.talk.tool_result(call, {"error": True, "message": f"{type(error).__name__}: {error}"}, is_error=True)
        return
    who = {"parent": parent.spec.name, "child": child.name, "child_run": run}
    parent.talk.append("delegation_complete", {**who, "result": output})
    parent.talk.tool_result(call, output)


# One turn: from a user's input to the agent's final answer, recorded from end to end.

Prompt = str | list[dict[str, Any]] | None
_LAST_EVENTS = 64
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
    steering: Steering = field(default_factory=Steering)
    _reason: str = "failed"
    _limit: str | None = None
    _carried: bool = False
    _is_recorded: bool = False
    """True if the prompt is recorded already, possibly as a message that the model sees later."""
    _unasked: Unasked = NOTHING

    async def answer(self, prompt: Prompt, variables: Mapping[str, Any] | None) -> RunResult:
        if not isinstance(prompt, str | list | None):
            raise UsageError(f"a prompt is a text or a list of blocks, not {type(prompt).__name__}")
        if prompt is not None and (not prompt or (isinstance(prompt, str) and not prompt.strip())):
            raise UsageError("a prompt cannot be empty", remedy="Pass None to go on without one.")
        if prompt is None:
            self._check_going_on()
            if self.session is not None:
                await _check_has_tools(self.spec, self.session)
        async with self._activity(prompt, variables) as activity:
            if prompt is None:
                await asyncio.to_thread(_take_in, activity)
                await _check_has_tools(self.spec, activity.talk.session)
            waiting = await carry_on(activity)
            if prompt is None:
                if not waiting and not self._carried and not any(self._unasked):
                    self._go_on(activity.talk)
                return await self._run(activity, None, waiting)
            if waiting or activity.talk.session.live_state.suspended:
                revoke(activity.talk)
            if self._carried or self._is_recorded:
                self.steering.hear(activity.talk)
            if not self._is_recorded:
                activity.talk.user(prompt)
            return await self._run(activity, prompt)

    async def answer_asks(self, answers: Mapping[str, Any], by: str) -> RunResult:
        """Continue a waiting session with the answers given here and elsewhere."""
        session = self.session
        if session is None:
            raise UsageError("only a run on a session can be resumed")
        check_answers(answers)
        given = [read_answer(id, said, by=by, redacted=session.redacted) for id, said in answers.items()]
        asks, documents = session.live_state.asks, documents_of(session)
        await check_edits(self.spec, answers, asks, session.events)
        recorded = lambda: resolve_blobs(session.events(), documents)  # noqa: E731 - used once
        await asyncio.to_thread(give_answers, session.id, asks, documents, recorded, given)
        if given and not self._can_go_on():
            return self._known_result(session)  # they were given before, and everything is done
        return await self.answer(None, None)

    def _known_result(self, session: Session) -> RunResult:
        """Return the result of a run that has nothing left to do."""
        messages = session.messages()
        value = None if self.spec.output is None else self.spec.output.find(messages)
        last = messages[-1] if messages and messages[-1]["role"] == "assistant" else {}
        said = "".join(block["text"] for block in blocks_of(last) if block["type"] == "text")
        return RunResult(output=value[0] if value else said, session_id=session.id, usage=Usage(), messages=messages)

    async def resume(self, token: str, value: Any) -> RunResult:
        if self.session is None:
            raise UsageError("only a run on a session can be resumed")
        found = find_waiting(self.session, token, now_ms())
        ask = self.session.live_state.asks.get(found.id or "")
        if ask is not None and ask.path:
            # A delegate's: its run continues first.
            return await self.answer_asks({found.id or "": Result(value)}, "token")
        async with self._activity() as activity:
            # Once more, now that this caller has the turn: a token works once.
            waiting = find_waiting(self.session, token, now_ms())
            said: tuple[str, dict[str, Any]] = ("user", {"role": "user", "content": value})
            if waiting.resume_as == "tool_result" and waiting.call is not None:
                said = ("tool_result", {"toolCallId": waiting.call, "result": value})
            said[1].update(counted(value))
            # The token is spent and the answer is recorded, both or neither.
            activity.talk.extend([("resumed", {"reason": "answered", "token": waiting.digest}), said])
            return await self._run(activity, None, await carry_on(activity))

    async def resume_delegate(self, agent: str, run: str) -> str:
        child = next((each for each in self.spec.delegates if each.name == agent), None)
        if child is None:
            raise UsageError(f"{self.spec.name} has no delegate {agent!r}")
        async with self._activity() as activity:
            output = await resume_child(activity, child, run)
            self._reason = "completed"
            return output

    def _can_go_on(self) -> bool:
        """Return whether there is something to continue: an open question, or an incomplete answer."""
        session = self.session if self.spec.features.history else None
        if session is None:
            return False
        # Calls that waited for a person, or never began, are carried out without asking the model.
        state = session.live_state
        return bool(state.asks or state.pending_calls) or can_go_on(session)

    def _check_going_on(self) -> None:
        """Check that there is something to continue. Records nothing."""
        if not self._can_go_on():
            is_new = self.session is None or not self.session.live_state.message_count
            raise UsageError(
                f"there is nothing to continue: {'nothing was said' if is_new else 'the last answer is complete'}",
                remedy="Give a prompt.",
                session_id=None if self.session is None else self.session.id,
            )

    def _go_on(self, talk: RunLog) -> None:
        """Continue: an incomplete answer needs a prompt, an open question does not."""
        messages, output = talk.messages(), self.spec.output
        if is_complete(messages) and (output is None or output.find(messages) is None):
            talk.user(GO_ON, synthetic=True)

    async def _run(self, activity: Activity, prompt: Prompt, waiting: Sequence[Waiting] = ()) -> RunResult:
        _remember_settings(activity)
        activity.host.tell("on_turn_start", activity.context(""), prompt)
        if prompt is None and any(self._unasked):
            waiting = await _ask_now(activity, self._unasked)
        outcome = LoopOutcome("", list(waiting), "suspended")
        # The model is asked once every call of its last answer has a result.
        while not outcome.waiting:
            outcome = await activity.loop()
            if not outcome.waiting:
                break
            outcome = await self._waited(activity, outcome)
        activity.host.tell("on_turn_end", activity.context(""), outcome.output)
        activity.host.save()
        activity.talk.append("agent_complete", {"agent": self.spec.name, "duration": activity.elapsed_ms()})
        status: RunStatus = "waiting" if outcome.waiting else "stopped" if outcome.limit else "completed"
        self._reason, self._limit = "suspended" if status == "waiting" else status, outcome.limit
        return RunResult(
            output=outcome.value[0] if outcome.value else outcome.output,
            session_id=None if self.session is None else self.session.id,
            usage=activity.meter.usage,
            messages=activity.talk.messages(),
            suspended=suspension_of(activity.talk.session, outcome.waiting),
            status=status,
            limit=outcome.limit,
            waiting=outcome.waiting,
            notices=activity.place.home.untold_repairs(),
            finish_reason=outcome.finish_reason,
            run=activity.talk.run,
        )

    async def _waited(self, activity: Activity, outcome: LoopOutcome) -> LoopOutcome:
        """Take the answers that came while other calls went on; return the outcome with what is still open."""
        tokens = {one.id: one.token for one in outcome.waiting}
        waiting = [replace_struct(one, token=tokens.get(one.id)) for one in await carry_on(activity)]
        return LoopOutcome(outcome.output, waiting, outcome.finish_reason)

    @contextlib.asynccontextmanager
    async def _activity(
        self, prompt: Prompt = None, variables: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Activity]:
        """Return the turn's block: its beginning and its end are recorded, however it ends."""
        prices = load_prices_for(self.spec.bounds.limits, _models(self.spec))
        async with contextlib.AsyncExitStack() as stack:
            place = self._place(stack)
            await stack.enter_async_context(place.home.turns.of_agent())
            # Before the first append: that records the interruption, and then they count as ended.
            leftovers, self._unasked = find_leftovers(place.talks, _delegating(self.spec))
            self._carried = bool(place.talks.live_state.asks)
            talk = RunLog(place.talks, new_run(), self.spec.name)
            state = place.talks.live_state
            if place.talks.restored and state.status in ("running", "interrupted"):
                place.talks.log_recovery()
            begun = talk.append("turn_start", {"agent": self.spec.name})
            try:
                talk.append("agent_start", {"agent": self.spec.name, "depth": 0})
                if variables:
                    place.home.variables.update(variables)
                if prompt is not None and self.spec.servers is not None:
                    await self._record_first(talk, prompt, is_next=not leftovers)
                activity = Activity(
                    spec=await self.spec.equipped(),
                    place=place,
                    talk=talk,
                    # Without a session nothing of them is kept for good.
                    host=replace(self.plugins.host(place.home, self.documents), documents=place.documents),
                    delegate_tool=_delegate_tool,
                    emit=self.emit,
                    steering=self.steering,
                    prices=prices,
                )
                for call in leftovers:
                    # The harmless ones run again. The others stay without a result, and the model is told.
                    if call.name in activity.tools and activity.tools[call.name].repeatable:
                        await activity.executor.repeat(call, call.id)
                # Messages left by an earlier process come before the new prompt, but after the results of waiting
                # calls: those follow the answer that asked for them.
                if not self._carried:
                    self.steering.hear(talk)
                self.steering.begin(talk, place.home.id)
                yield activity
            except BaseException as error:
                self.steering.end()
                self._note_failure(talk, error)
                await self._end(talk, begun.seq, failing=True)
                raise
            self.steering.end()
            await self._end(talk, begun.seq, failing=False)

    async def _record_first(self, talk: RunLog, prompt: Prompt, *, is_next: bool) -> None:
        """Record the prompt before servers are waited for, so that a kill does not lose it.

        If results of earlier calls come first, it is kept as a message to be seen later.
        """
        if is_next and not self._carried and not talk.session.live_state.suspended:
            self.steering.hear(talk)
            talk.user(prompt)
        else:
            self.steering.keep(talk, prompt)
        self._is_recorded = True
        await talk.abarrier()

    def _place(self, stack: contextlib.AsyncExitStack) -> RunPlace:
        home = talks = self.session
        if talks is None or not self.spec.features.history:
            fleeting = Holdfast(MemoryStore(), timers=False)
            stack.callback(fleeting.close)
            talks = fleeting.session()
        if home is None:
            return RunPlace(home=talks, talks=talks, lasts=False)
        return RunPlace(home=home, talks=talks, hf=self.hf, documents=self.documents, lasts=talks is home)

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
            limit = {} if self._limit is None else {"limit": self._limit}
            talk.append("turn_end", {"turn": turn, "reason": self._reason, **limit})
            await talk.abarrier()
        except HoldfastError:
            if not failing:
                raise


async def _tool_of(spec: Spec, ask: AskState, events: Callable[[], Iterable[Event]]) -> Tool | None:
    """Return the tool of a waiting call, which may be a delegate's; None if it is not there."""
    if ask.path:
        children = {each.name: each for each in spec.delegates}
        begun = {e.data.get("child_run"): e.data.get("child") for e in events() if e.type == "delegation"}
        for run in ask.path:
            child = children.get(str(begun.get(run)))
            if child is None:
                return None
            spec, children = child, {each.name: each for each in child.delegates}
    own = getattr(engine_of(spec.model, spec.model_settings, spec.remake), "tools", ())
    tools = (*(await spec.equipped()).tools, *own, *(() if spec.output is None else spec.output.tools))
    return next((tool for tool in tools if tool.name == ask.tool), None)


async def check_edits(
    spec: Spec, answers: Mapping[str, Any], asks: Mapping[str, AskState], events: Callable[[], Iterable[Event]]
) -> None:
    """Raise UsageError for other arguments that the tool, if it is here, does not take."""
    for id, given in answers.items():
        if isinstance(given, Edited) and isinstance(given.args, dict) and id in asks and asks[id].is_open:
            tool = await _tool_of(spec, asks[id], events)
            if tool is not None:
                tool.check_args(given.args)


def check_answers(answers: object) -> None:
    """Raises UsageError unless the answers are a mapping by the ids of their questions."""
    if not isinstance(answers, Mapping):
        raise UsageError(f"answers are a dict, not {type(answers).__name__}", remedy="{id: True}")


def can_go_on(session: Session) -> bool:
    """Return whether a session has an open question, or an answer that was cut off, stopped or failed."""
    messages = session.messages()
    if not messages or not is_complete(messages) or session.live_state.unfinished:
        return bool(messages)
    # Stopped by its user: then the turn's end is among the last events, with no message since.
    for event in session.newest(max(session.seq - _LAST_EVENTS, 0)):
        if event.type == "turn_end":
            return event.data.get("reason") == "cancelled"
        if event.type in ("user", "assistant"):
            break
    return False


def _models(spec: Spec) -> list[str]:
    """Yield the models of an agent and of its delegates."""
    return [spec.model.model_name, *(name for child in spec.delegates for name in _models(child))]


def _remember_settings(activity: Activity) -> None:
    """Record instructions and configuration where they differ from the stored ones."""
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
