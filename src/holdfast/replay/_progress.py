"""Reducers for current work: messages, calls, turns, opening and closing.

A reducer takes the state, an event and, from the writer, the event's data as the caller gave it. That data is only
read: the state keeps texts and numbers, or values from the recorded bytes. These run inside every append, so they
decode no content and do as little as they can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from holdfast.model import Event, LazyDecoder
from holdfast.replay._calls import blocks_of
from holdfast.replay._state import (
    WHY_NOT_RUN,
    AskState,
    OpenedBy,
    PendingCall,
    State,
    StepState,
    Turning,
    read_todos,
    spend,
)
from holdfast.replay._upcast import Steps, check_format

Data = dict[str, Any] | None
Reducer = Callable[[State, Event, Data], None]

_TITLE_CHARS_MAX = 50
_TITLE_CHARS_READ = 1000
# Longer results of steps are read from the log when they are asked for.
_STEP_VALUE_BYTES_MAX = 1024
# The usual place of a result's id; the rest of the data, often long, need not be parsed.
_match_result = re.compile(rb'\{"toolCallId":"([^"\\]*)"[,}]').match
# The bytes show whether a message has such blocks: inside a text the quotes are escaped.
_asks = re.compile(rb'"tool_use"').search
_answers = re.compile(rb'"tool_result"').search


class _Said(msgspec.Struct, gc=False):
    content: Any = None


class _Heard(msgspec.Struct, gc=False):
    steer: int | None = None


class _Spent(msgspec.Struct, gc=False):
    usage: Any = None
    model: Any = None
    metadata: Any = None


class _Call(_Spent, kw_only=True, gc=False):
    id: str
    tool: str
    amends: Any = None
    begun: Any = None


class _Result(msgspec.Struct, gc=False):
    toolCallId: str  # noqa: N815 - the name in recorded logs


class _Thought(msgspec.Struct, gc=False):
    covers_from: int | None = None


class _Retracted(msgspec.Struct):
    seqs: list[int]


class _Turn(msgspec.Struct):
    turn: int | str | None = None
    reason: str = "completed"


class _Step(msgspec.Struct, gc=False):
    step: str
    name: str = ""
    digest: str = ""
    attempt: int = 1
    parent: str | None = None
    call: str | None = None
    begin: bool = False


class _StepResult(msgspec.Struct, gc=False):
    step: str
    ok: bool = False
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: dict[str, Any] | None = None
    retry_at: int = 0
    cancelled: bool = False
    unstored: str | None = None


class _Ask(msgspec.Struct, gc=False):
    id: str | None = None
    token: str | None = None
    kind: str = "input"
    call: str | None = None
    tool: str | None = None
    agent: str | None = None
    path: list[str] = []
    above: list[str] = []
    reason: str | None = None
    digest: str | None = None
    expires_at: int | None = None
    on_expiry: str = "deny"
    until: int | None = None
    event: str | None = None
    replayable: bool = True
    resume_as: str = "tool_result"
    call_seq: int | None = None


class _Resumed(msgspec.Struct, gc=False):
    token: str | None = None
    ids: list[str] | None = None


class _Opened(msgspec.Struct):
    epoch: int = 0
    pid: int | None = None
    host: str | None = None
    version: str | None = None
    format: int | None = None


_said_decoder = LazyDecoder(_Said)
_heard_decoder = LazyDecoder(_Heard)
_spent_decoder = LazyDecoder(_Spent)
_call_decoder = LazyDecoder(_Call)
_result_decoder = LazyDecoder(_Result)
_thought_decoder = LazyDecoder(_Thought)
_retracted_decoder = LazyDecoder(_Retracted)
_turn_decoder = LazyDecoder(_Turn)
_step_decoder = LazyDecoder(_Step)
_NO_VALUE = msgspec.Raw(b"null")
_step_result_decoder = LazyDecoder(_StepResult)
_ask_decoder = LazyDecoder(_Ask)
_resumed_decoder = LazyDecoder(_Resumed)
_opened_decoder = LazyDecoder(_Opened)


def fresh_data(event: Event) -> dict[str, Any]:
    """Return the event's data, decoded for the state alone: others may hold the event's own copy."""
    return Event(event.type, event.seq, 0, event.raw).data


def _user(state: State, event: Event, _data: Data) -> None:
    state.message_count += 1
    if (state.pending_calls or state.deferred_calls or state.asks) and _answers(event.raw):
        for kind, block in blocks_of(_said_decoder.decode(event.raw).content):
            if kind == "tool_result":
                _settle(state, block.get("tool_use_id"))
    if state.unheard and (heard := _heard_decoder.decode(event.raw).steer) in state.unheard:
        state.unheard.remove(heard)
    if state.title_auto is None:
        # From the recorded bytes: a long text is elsewhere there, and must give the same title.
        state.title_auto = _title_of(_said_decoder.decode(event.raw).content)


def _steer(state: State, event: Event, _data: Data) -> None:
    state.unheard.append(event.seq)


def _title_of(content: Any) -> str | None:
    """Return the first words of a message, on one line."""
    if isinstance(content, list):
        texts = (block.get("text") for block in content if isinstance(block, dict))
        content = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    if not isinstance(content, str):
        return None
    words = " ".join(content[:_TITLE_CHARS_READ].split())
    if len(words) > _TITLE_CHARS_MAX:
        words = words[: _TITLE_CHARS_MAX - 1].rstrip() + "…"
    return words or None


def _assistant(state: State, event: Event, data: Data) -> None:
    state.message_count += 1
    if state.streaming:
        state.streaming.pop(event.run or "", None)
    if _asks(event.raw):
        # Its calls are open, unless events of their own began them.
        calls = state.pending_calls
        for kind, block in blocks_of(_said_decoder.decode(event.raw).content):
            id, tool = block.get("id"), block.get("name")
            if kind == "tool_use" and isinstance(id, str) and isinstance(tool, str) and id not in calls:
                calls[id] = PendingCall(tool, event.seq, "announced")
        state.asked[event.run or ""] = event.seq
    elif state.asked:
        state.asked.pop(event.run or "", None)
    if data is None:
        spent = _spent_decoder.decode(event.raw)
        if spent.usage is not None or spent.metadata is not None:
            spend(state.usage_by_model, spent.usage, spent.model, spent.metadata)
    elif "usage" in data or "metadata" in data:
        spend(state.usage_by_model, data.get("usage"), data.get("model"), data.get("metadata"))


def _settle(state: State, call: Any) -> None:
    if not isinstance(call, str):
        return
    if state.pending_calls.pop(call, None) is None:
        state.deferred_calls.pop(call, None)
    for ask in state.asks.values():
        ask.done = ask.done or (ask.call == call and ask.resume_as == "tool_result")
    if state.asks and not state.open_turns:
        _forget_used(state)


def _forget_used(state: State) -> None:
    """Remove the questions that are no longer needed."""
    for id in [id for id, ask in state.asks.items() if ask.begun or ask.done]:
        del state.asks[id]


def _system(state: State, _event: Event, _data: Data) -> None:
    state.message_count += 1


def _thinking(state: State, event: Event, _data: Data) -> None:
    first = state.streaming.get(event.run or "") if state.streaming else None
    if first is None:
        return
    covers_from = _thought_decoder.decode(event.raw).covers_from
    if covers_from is not None and covers_from <= first:
        del state.streaming[event.run or ""]


def _delta(state: State, event: Event, _data: Data) -> None:
    run = event.run or ""
    if run not in state.streaming:
        state.streaming[run] = event.seq


def tool_call_reducer(todo_tools: Collection[str]) -> Reducer:
    """Return the reducer of tool calls, given the names, in lower case, of tools that write todos."""
    names = frozenset(todo_tools)

    def tool_call(state: State, event: Event, data: Data) -> None:
        # The writer's data only if it is well-formed: the recorded bytes decide what counts.
        call = tool = amends = begun = None
        if data is not None:
            call, tool, amends, begun = data.get("id"), data.get("tool"), data.get("amends"), data.get("begun")
        if type(call) is str and type(tool) is str:
            if data is not None and ("usage" in data or "metadata" in data):
                spend(state.usage_by_model, data.get("usage"), data.get("model"), data.get("metadata"))
        else:
            body = _call_decoder.decode(event.raw)
            call, tool, amends, begun = body.id, body.tool, body.amends, body.begun
            if body.usage is not None or body.metadata is not None:
                spend(state.usage_by_model, body.usage, body.model, body.metadata)
        known = state.pending_calls.get(call) if amends is True else None
        stage = known.stage if known is not None else "asked" if begun is False else "begun"
        state.pending_calls[call] = PendingCall(tool, event.seq, stage)
        if tool.lower() in names:
            state.todos = read_todos(fresh_data(event).get("params"))

    return tool_call


def _todo_update(state: State, event: Event, _data: Data) -> None:
    state.todos = read_todos(fresh_data(event))


def _tool_result(state: State, event: Event, data: Data) -> None:
    state.message_count += 1
    # No call waits for it, so its id need not be searched in a possibly long text.
    if not state.pending_calls and not state.deferred_calls and not state.asks:
        return
    call = None if data is None else data.get("toolCallId")
    if type(call) is not str:
        found = _match_result(event.raw)
        call = found[1].decode() if found else _result_decoder.decode(event.raw).toolCallId
    _settle(state, call)


def _retracted(state: State, event: Event, _data: Data) -> None:
    gone = set(_retracted_decoder.decode(event.raw).seqs)
    for calls in (state.pending_calls, state.deferred_calls):
        for name in [name for name, call in calls.items() if call.seq in gone]:
            del calls[name]
    for id in [id for id, ask in state.asks.items() if ask.seq in gone or ask.call_seq in gone]:
        del state.asks[id]
    state.unheard = [seq for seq in state.unheard if seq not in gone]
    for places in (state.streaming, state.asked):
        for run in [run for run, seq in places.items() if seq in gone]:
            del places[run]


def _turn_start(state: State, event: Event, _data: Data) -> None:
    turn = _turn_decoder.decode(event.raw).turn
    state.open_turns[event.run or ""] = Turning(event.seq if turn is None else turn, event.seq, event.timestamp)
    state.turns += 1
    _forget_nameless(state)
    state.interrupted_at = state.failed_at = -1


def _turn_end(state: State, event: Event, _data: Data) -> None:
    reason = _turn_decoder.decode(event.raw).reason
    run = event.run or ""
    state.open_turns.pop(run, None)
    state.streaming.pop(run, None)
    if state.open_turns:
        return
    # A turn that ended well leaves its open calls to be answered later; an interrupted one does not.
    if reason in ("completed", "suspended"):
        _defer(state, asked=reason == "suspended")
    state.pending_calls.clear()
    state.streaming.clear()
    _forget_used(state)
    if reason != "suspended":
        _forget_nameless(state)
    if reason in ("failed", "error"):
        state.failed_at = state.message_count


def _forget_nameless(state: State) -> None:
    """Remove the questions of logs that give them no ids: there, a turn ends them."""
    for id in [id for id in state.asks if "@" in id]:
        del state.asks[id]


def _agent_error(state: State, _event: Event, _data: Data) -> None:
    # Within a turn its end decides: an agent may recover from the error of a delegate.
    if not state.open_turns:
        state.failed_at = state.message_count


def _suspended(state: State, event: Event, _data: Data) -> None:
    told = msgspec.structs.asdict(_ask_decoder.decode(event.raw))
    given = {name: value for name, value in told.items() if value is not None}
    # In a log without ids it has its token, or nothing, as an identity.
    id = given.pop("id", None) or f"{given.get('token', '')[:16]}@{event.seq}"
    if id in state.asks:
        return
    call = state.pending_calls.get(given.get("call", "")) or state.deferred_calls.get(given.get("call", ""))
    place: dict[str, Any] = {"seq": event.seq, "asked_at": event.timestamp, "run": event.run}
    # A call that an earlier process recorded without asking about it is named by its place.
    said = given.pop("call_seq", -1)
    place["call_seq"] = call.seq if call is not None else said if said < event.seq else -1
    state.asks[id] = AskState(**given, **place)


def _resumed(state: State, event: Event, _data: Data) -> None:
    """Continue: with the answer of a token, with those named, or, if none is named, without any."""
    body = _resumed_decoder.decode(event.raw)
    for id, ask in list(state.asks.items()):
        if ask.token == body.token if body.token is not None else body.ids is None or id in body.ids:
            del state.asks[id]


def _step(state: State, event: Event, _data: Data) -> None:
    body = _step_decoder.decode(event.raw)
    key = body.step
    if body.begin:
        call = body.call or ""
        # Not a step of its own: a call that was recorded before begins, and ends with its result.
        pending = state.pending_calls.get(call) or state.deferred_calls.pop(call, None)
        if pending is not None:
            state.pending_calls[call] = msgspec.structs.replace(pending, stage="begun")
        for ask in state.asks.values():
            ask.begun = ask.begun or ask.call == call
        return
    known = state.steps.get(key)
    state.steps[key] = StepState(
        name=body.name,
        digest=body.digest,
        seq=event.seq,
        begun_at=event.timestamp,
        raw=_NO_VALUE,
        attempt=body.attempt,
        parent=body.parent,
        call=body.call,
        log=None if known is None else known.log,
    )
    state.open_steps[key] = event.seq


def _step_result(state: State, event: Event, _data: Data) -> None:
    body = _step_result_decoder.decode(event.raw)
    state.open_steps.pop(body.step, None)
    step = state.steps.get(body.step)
    if step is None:
        return
    step.result_seq, step.retry_at, step.unstored = event.seq, body.retry_at, body.unstored
    if body.ok:
        step.status = "done"
        step.is_long = len(body.value) > _STEP_VALUE_BYTES_MAX
        if not step.is_long:
            step.raw = msgspec.Raw(bytes(body.value))  # a copy: a view would keep the whole line
        return
    step.status = "unknown" if body.cancelled else "failed"
    error = body.error or {}
    step.error = str(error.get("message", ""))
    step.kinds = [str(kind) for kind in error.get("kinds", ())]


def opened_reducer(steps: Steps) -> Reducer:
    """Return the reducer of ``opened``, given the known formats."""

    def opened(state: State, event: Event, _data: Data) -> None:
        body = _opened_decoder.decode(event.raw)
        if body.format is not None:
            state.format = check_format(body.format, steps)
        state.epoch, state.alive = body.epoch, True
        state.last_open = OpenedBy(event.seq, event.timestamp, body.epoch, body.pid, body.host, body.version)

    return opened


def _closed(state: State, event: Event, _data: Data) -> None:
    """Handle a close: an open turn is interrupted, lone calls stay open."""
    if state.last_open is not None:
        state.last_open.closed = True
    if state.asks and _rests(state):
        return
    if state.open_turns or state.streaming or state.open_steps:
        interrupted(state, event)
    if state.pending_calls:
        _defer(state, asked=True)
        state.pending_calls.clear()


def _rests(state: State) -> bool:
    """Return whether it was left waiting in order; where questions have no ids, also in mid-turn."""
    return state.suspended and (not state.open_turns or any("@" in id for id in state.asks))


def _defer(state: State, *, asked: bool) -> None:
    """Leave the open calls to be answered later: not the refused ones, and those asked about only if ``asked``."""
    for name, call in state.pending_calls.items():
        if call.stage not in WHY_NOT_RUN or (asked and call.stage == "asked"):
            state.deferred_calls[name] = call


def interrupted(state: State, _event: Event, _data: Data = None) -> None:
    """Mark everything open as interrupted."""
    state.open_turns.clear()
    state.pending_calls.clear()
    state.streaming.clear()
    state.open_steps.clear()
    state.interrupted_at = state.message_count


PROGRESS: dict[str, Reducer] = {
    "user": _user,
    "steer": _steer,
    "assistant": _assistant,
    "system": _system,
    "thinking": _thinking,
    "delta": _delta,
    "todo_update": _todo_update,
    "tool_result": _tool_result,
    "retracted": _retracted,
    "turn_start": _turn_start,
    "turn_end": _turn_end,
    "agent_error": _agent_error,
    "suspended": _suspended,
    "resumed": _resumed,
    "step": _step,
    "step_result": _step_result,
    "closed": _closed,
    "interrupted": interrupted,
}


def needs_interruption(state: State) -> dict[str, Any] | None:
    """Return the data of the ``interrupted`` event that the next writer records; None if none is due.

    Due when the log ends in mid-turn and was not closed: the working process has died. A suspended session
    is not interrupted, it waits. Call it before the first append of a new open; once the event is applied, the result
    is None.
    """
    if not state.mid_turn or (state.asks and _rests(state)):
        return None
    turn, calls = state.open_turn, state.pending_calls
    # A call that waits, or that called a delegate which does, is not over.
    waiting = {name for ask in state.asks.values() for name in (*ask.above, "" if ask.begun else ask.call)}
    not_run = [name for name, call in calls.items() if call.stage in WHY_NOT_RUN and name not in waiting]
    return {
        "turn": None if turn is None else turn.turn,
        "calls": [name for name in calls if name not in not_run and name not in waiting],
        **({"not_run": not_run} if not_run else {}),
        "streaming": state.uncovered_delta,
        "reason": "the process ended in mid-turn",
    }
