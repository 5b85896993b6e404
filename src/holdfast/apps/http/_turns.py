"""Turns of agents: each goes on whether or not its client listens, and is put off at the end."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.agent import AGENT_TYPE, AgentHome, HostedTurn, Kit, Message, Scope
from holdfast.apps.http._call import EVENT_STREAM, JSON, Call, Refused, problem, told_problem
from holdfast.apps.http._requests import TurnRequest
from holdfast.apps.http._spaces import LEASE_MS, BoundedThreads, Spaces
from holdfast.apps.http._stream import sse
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.library.answers import encoded
from holdfast.library.answers.turns import ToolSettled, TurnAnswer, TurnEnded, TurnPiece
from holdfast.session import Session, is_due

if TYPE_CHECKING:
    from holdfast.agent import Agent, RunResult, RunStream

_HOLD_S = 300.0  # how long a turn that a client began is held open for an answer; the question itself stays
_TURNS_OF_SPACE_MAX = 32
_GO_ON = TurnRequest(prompt=None)
Hear = Callable[[HostedTurn], None]


class RunningTurns:
    """The turns that run here, at most one of a session."""

    def __init__(
        self, kit: Kit | None, spaces: Spaces, threads: BoundedThreads, *, root: str | None = None, turns_max: int = 64
    ) -> None:
        """``root`` has a folder for each space whose agents may read the files in it."""
        self._kit = kit
        self._root = root
        self._spaces = spaces
        self._threads = threads
        self._host = spaces.host
        self._turns_max = turns_max
        self._listeners: dict[tuple[str, str], list[Hear]] = {}

    @property
    def can_answer(self) -> bool:
        """Return whether there is a model."""
        return self._kit is not None

    def begin(self, space: str, id: str, wish: TurnRequest, *, key: str | None = None) -> HostedTurn:
        """Begin a turn. Raises Refused while one goes on, or where none can be."""
        kit = self._kit
        if kit is None:
            raise Refused(501, "no_model", "this server has no model", "Start it with --model.")
        if self._host.turn((space, id)) is not None:
            raise Refused(409, "busy", "a turn of this session is going on", "Follow it, or cancel it first.")
        if not self._takes_turn_of(space):
            raise Refused(503, "busy", "the server takes no more turns now", "Try again later.")
        return self._begin(space, id, lambda turn: self._answer(turn, wish, key, kit))

    def _begin(self, space: str, id: str, work: Callable[[HostedTurn], Awaitable[TurnAnswer]]) -> HostedTurn:
        turn = self._host.begin((space, id), work)
        for hear in self._listeners.get((space, id), ()):
            hear(turn)
        return turn

    @contextlib.contextmanager
    def heard_by(self, space: str, id: str, hear: Hear) -> Iterator[None]:
        """Pass every turn of a session to ``hear``, beginning with the current one, whichever app starts it."""
        if (turn := self._host.turn((space, id))) is not None:
            hear(turn)
        listeners = self._listeners.setdefault((space, id), [])
        listeners.append(hear)
        try:
            yield
        finally:
            listeners.remove(hear)
            if not listeners:
                self._listeners.pop((space, id), None)

    def _takes_turn_of(self, space: str) -> bool:
        turns = self._host.turns
        of_space = sum(turn.key[0] == space for turn in turns)
        # One space must not take all turns of a server that others pay for as well.
        return self._host.takes_turns and len(turns) < self._turns_max and of_space < _TURNS_OF_SPACE_MAX

    async def approve(self, space: str, id: str, call: str, *, approved: bool, scope: Scope, by: str) -> None:
        """Let a tool run, or not, durably. Raises Refused if none waits under that id."""

        def give(hf: Holdfast) -> bool:
            found = [one.id for one in hf.waiting(session=id) if one.call == call] if hf.exists(id) else []
            for ask in found[:1]:
                hf.answer(ask, approved, by=by, via="http", scope=scope, session_id=id)
            return bool(found)

        async with self._spaces.use(space) as hf:
            if not await self._threads.run(give, hf):
                raise Refused(404, "not_found", "no tool of that id waits here")
        await self.wake(space, id)

    async def steer(self, space: str, id: str, text: str, *, interrupt: bool) -> None:
        """Let the agent that works hear a word before its next step. Raises Refused if no turn goes on here."""
        turn = self._host.turn((space, id))
        if turn is None:
            raise Refused(404, "not_found", "no turn of this session goes on here", "Begin one with it.")
        await turn.steer(text, interrupt=interrupt)

    async def wake(self, space: str, id: str) -> HostedTurn | None:
        """Let a session go on that was answered: the turn that waits for it, else a new one, which is returned.

        A session of another agent is left to it: the agent here would refuse what was approved.
        """
        turn, kit = self._host.turn((space, id)), self._kit
        if turn is not None:
            turn.news.set()
        elif kit is not None and self._takes_turn_of(space):
            async with self._spaces.use(space) as hf:
                is_for_us = await self._threads.run(self.due, hf, space, id)
            # It may have begun meanwhile.
            if is_for_us and self._host.turn((space, id)) is None:
                return self._begin(space, id, lambda turn: self._answer(turn, None, None, kit))
        return None

    def due(self, hf: Holdfast, space: str, session: str | None = None) -> list[str]:
        """Return the sessions of a space that are answered or due, and that are for the agent here."""
        from holdfast.agent import builtin_tools

        assert self._kit is not None
        tools = self._kit.tool_names(lambda: builtin_tools(self._folder(space)))
        # With its name also what slept without a call: that is for the agent whose session it is.
        found = [hf.inbox.due(agent, tools, session) for agent in (None, self._kit.agent_id)]
        return list(dict.fromkeys(id for ids in found for id in ids))

    async def _answer(self, turn: HostedTurn, wish: TurnRequest | None, key: str | None, kit: Kit) -> TurnAnswer:
        try:
            return await self._run(turn, wish, key, kit)
        except (HoldfastError, Refused) as error:
            if wish is None:  # nobody asked for it who would be told
                logging.getLogger("holdfast.http").warning("session %s could not go on: %s", turn.key[1], error)
            raise
        except Exception as error:
            logging.getLogger("holdfast.http").exception("a turn of session %s failed", turn.key[1])
            raise Refused(500, "internal", "the server made a mistake") from error

    async def _run(self, turn: HostedTurn, wish: TurnRequest | None, key: str | None, kit: Kit) -> TurnAnswer:
        """Run a turn that a client requested, or that continues a session with a new answer."""
        space, id = turn.key
        async with self._spaces.use(space) as hf, self._spaces.session(space, id, partial(_open, kit)) as session:
            # A client that heard no answer asks again with its key, and must not pay twice.
            if wish is not None and key is not None:
                wish, recorded = await self._threads.run(_take_key, session, wish, key)
                if recorded is not None:
                    return recorded
            # Another server may have gone on with it while we waited for the session.
            if wish is None and not await self._threads.run(is_due, session):
                return TurnAnswer(session_id=id, output="", status="completed")
            agent = await self._threads.run(self._make_agent, kit, hf, session, space)
            stream = _stream(agent, wish or _GO_ON, session)
            hold_s = 0 if wish is None else _HOLD_S
            return _answered(session, await turn.carry(agent, stream, session, durable=True, hold_s=hold_s))

    def _make_agent(self, kit: Kit, hf: Holdfast, session: Session, space: str) -> Agent:
        from holdfast.agent import builtin_tools

        return kit.agent(hf, session, lambda: builtin_tools(self._folder(space)), "suspend")

    def _folder(self, space: str) -> str | None:
        folder = None if self._root is None else os.path.join(self._root, space)
        return folder if folder is not None and os.path.isdir(folder) else None


def heard(turn: HostedTurn) -> AsyncIterator[Message]:
    """Yield the messages of a turn from now on, in the form for clients."""
    # Listened to at once: a generator would begin only with its first item, and miss the rest.
    return _shown(turn.key[1], turn.listen())


async def _shown(id: str, told: AsyncIterator[Message]) -> AsyncIterator[Message]:
    async for name, value in told:
        match name:
            case "piece":
                yield name, TurnPiece(session_id=id, text=value)
            case "question":
                yield "tool_request_approval", value
            case "settled":
                yield "tool_request_settled", ToolSettled(session_id=id, tool_id=value.tool_id, question=value.question)
            case "failed":
                yield "error", told_problem(value)
            case "done":
                yield name, value
            case _:
                yield name, TurnEnded(session_id=id, reason=name)


def _open(kit: Kit, hf: Holdfast, id: str) -> Session:
    """The session of an agent, made if it is not there yet."""
    if hf.exists(id):
        return kit.open_session(hf, id, lease_ms=LEASE_MS)
    return AgentHome(hf, kit.agent_id, AGENT_TYPE).open_session(id, lease_ms=LEASE_MS)


def _stream(agent: Agent, wish: TurnRequest, session: Session) -> RunStream:
    if wish.resume_token is not None:
        if wish.prompt is not None:
            raise UsageError("a turn is resumed with a value, not with a prompt")
        return agent.resume_stream(wish.resume_token, wish.value, session=session)
    return agent.run_stream(wish.prompt, session=session)


def _answered(session: Session, result: RunResult) -> TurnAnswer:
    usage = msgspec.to_builtins(result.usage)
    answer = TurnAnswer(session_id=session.id, output=result.output, status="completed", usage=usage)
    if result.waiting:
        open_ones = [msgspec.structs.replace(one, token=None) for one in result.waiting]
        answer = msgspec.structs.replace(answer, status="waiting", waiting=open_ones)
    if result.limit is not None:
        answer = msgspec.structs.replace(answer, status="stopped", reason=result.limit)
    if (waits := result.suspended) is None:
        return answer
    how = {"resume_token": waits.token, "resume_as": waits.resume_as, "reason": waits.reason}
    return msgspec.structs.replace(answer, status="suspended", **how)


def _take_key(session: Session, wish: TurnRequest, key: str) -> tuple[TurnRequest, TurnAnswer | None]:
    """Return a turn that was requested before: continued if it was interrupted, else with its answer."""
    mark = f"turn.{key}"
    begun = session.live_state.keys.get(mark)
    if begun is None:
        session.append("metadata", {"last_turn_key": key}, key=mark)
        return wish, None
    said = [event for event in session.events(begun) if event.type in {"user", "assistant"}]
    if not said:
        return wish, None  # it ended before a word was said
    # It was cut: going on with it needs no prompt, which is on record.
    if session.live_state.unfinished or said[-1].type == "user":
        return TurnRequest(prompt=None), None
    said_last = said[-1].data.get("content")
    output = said_last if isinstance(said_last, str) else ""
    return wish, TurnAnswer(session_id=session.id, output=output, status="completed", reason="recorded")


# Turns over HTTP: asked for, streamed, approved, stopped.
async def begin_turn(call: Call) -> Response:
    """The answer of the agent: word by word to who accepts events, else as a whole.

    A client that leaves does not stop the turn; what was said is in the session.
    """
    id = call.id
    await call.service.threads.run(call.hf.info, id)  # there must be one
    turn = call.service.turns.begin(call.space, id, call.body, key=call.key)
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        return StreamingResponse(_told(call, heard(turn)), 200, media_type=EVENT_STREAM)
    await turn.wait()
    if isinstance(turn.error, (HoldfastError, Refused)):
        return problem(turn.error)
    answered = turn.result
    if answered is None:
        answered = TurnAnswer(session_id=id, output="", status="interrupted", reason=turn.ended)
    return Response(encoded(answered), 200, media_type=JSON)


async def approve(call: Call) -> Response:
    """An answer to the question whether a tool may run."""
    assert call.token is not None
    tool, said, by = call.request.path_params["call"], call.body, call.token.who
    await call.service.turns.approve(call.space, call.id, tool, approved=said.approved, scope=said.scope, by=by)
    return Response(None, 204)


async def cancel(call: Call) -> Response:
    """The end of a turn that goes on. Raises Refused if none does."""
    if not await call.service.spaces.host.cancel((call.space, call.id)):
        raise Refused(404, "not_found", "no turn of this session goes on here")
    return Response(None, 204)


async def steer(call: Call) -> Response:
    """Send a message to the working agent. Raises Refused if no turn is running."""
    await call.service.turns.steer(call.space, call.id, call.body.text, interrupt=call.body.interrupt)
    return Response(None, 204)


async def _told(call: Call, told: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    """Each message, for as long as the token counts; the turn itself goes on."""
    assert call.token is not None
    async for name, data in told:
        if not await call.service.is_still_good(call.token):
            yield sse("error", encoded(told_problem(Refused(401, "token", "it counts no more"))))
            return
        yield sse(name, encoded(data))
