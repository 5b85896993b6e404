"""Turns of agents: each goes on whether or not its client listens, and is put off at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.agent import AGENT_TYPE, AgentHome, Kit
from holdfast.apps.http._call import Call, as_json
from holdfast.apps.http._desk import LEASE_MS, Desk, Spaces
from holdfast.apps.http._endpoints import EVENT_STREAM, JSON
from holdfast.apps.http._problems import Refused, problem, problem_fields
from holdfast.apps.http._shapes import Answered, Turn
from holdfast.apps.http._stream import sse
from holdfast.apps.http._threads import Threads
from holdfast.apps.talk.questions import Questions, Scope
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import Holdfast
from holdfast.session import Session, uncancelled

if TYPE_CHECKING:
    from holdfast.agent import Agent, Decision, PermissionRequest, RunResult, RunStream


Message = tuple[str, dict[str, Any]]
"""What a turn tells: a name, and what belongs to it."""

_LOGGER = logging.getLogger("holdfast.http")
_APPROVAL_S = 300.0
_TURNS_MAX = 64
_TURNS_OF_SPACE_MAX = 32
_STOPPING = "the server was stopped in mid-turn"


class Running:
    """One turn. Everyone who listens hears all that is told from then on."""

    def __init__(self, space: str, id: str) -> None:
        self.space = space
        self.id = id
        self.task: asyncio.Task[None] | None = None
        self.is_put_off = False
        self.answered: Answered | None = None
        self.error: HoldfastError | Refused | None = None
        self.questions = Questions()
        self._queues: list[asyncio.Queue[Message | None]] = []
        self._ended = False

    def tell(self, name: str, data: dict[str, Any]) -> None:
        """Tell everyone who listens."""
        for queue in self._queues:
            queue.put_nowait((name, data))

    def end(self) -> None:
        """Nothing more will be told."""
        self._ended = True
        for queue in self._queues:
            queue.put_nowait(None)

    def listen(self) -> AsyncIterator[Message]:
        """What is told from now on, until the end."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        if self._ended:
            queue.put_nowait(None)
        self._queues.append(queue)
        return self._heard(queue)

    async def _heard(self, queue: asyncio.Queue[Message | None]) -> AsyncIterator[Message]:
        try:
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._queues.remove(queue)


class Turns:
    """The turns that run here, at most one of a session."""

    def __init__(
        self,
        kit: Kit | None,
        desk: Desk,
        spaces: Spaces,
        threads: Threads,
        *,
        root: str | None = None,
        turns_max: int = _TURNS_MAX,
    ) -> None:
        """``root`` has a folder for each space whose agents may read files, in it only."""
        self._kit = kit
        self._root = root
        self._desk = desk
        self._spaces = spaces
        self._threads = threads
        self._turns_max = turns_max
        self._running: dict[tuple[str, str], Running] = {}
        self._stopped = False

    @property
    def can_answer(self) -> bool:
        """Whether there is a model."""
        return self._kit is not None

    def running(self, space: str, id: str) -> Running | None:
        """The turn of a session that goes on here."""
        return self._running.get((space, id))

    def begin(self, space: str, id: str, wish: Turn, *, key: str | None = None) -> Running:
        """Begin a turn. Raises Refused while one goes on, or where none can be."""
        if self._kit is None:
            raise Refused(501, "no_model", "this server has no model", "Start it with --model.")
        if (space, id) in self._running:
            raise Refused(
                409, "busy", "a turn of this session is going on", "Follow it, or cancel it first."
            )
        of_space = sum(other == space for other, _ in self._running)
        is_full = len(self._running) >= self._turns_max or of_space >= _TURNS_OF_SPACE_MAX
        if self._stopped or is_full:
            raise Refused(503, "busy", "the server takes no more turns now", "Try again later.")
        running = Running(space, id)
        self._running[space, id] = running
        running.task = asyncio.ensure_future(self._turn(running, wish, key, self._kit))
        return running

    def approve(
        self, space: str, id: str, call: str, *, approved: bool, scope: Scope = "once"
    ) -> None:
        """Let a tool run, or not. Raises Refused if none waits under that id."""
        running = self._running.get((space, id))
        if running is None or not running.questions.answer(call, approved=approved, scope=scope):
            raise Refused(404, "not_found", "no tool of that id waits here")

    async def cancel(self, space: str, id: str) -> bool:
        """Stop the turn of a session; whether there was one."""
        running = self._running.get((space, id))
        if running is None or running.task is None:
            return False
        running.task.cancel()
        await asyncio.wait([running.task])
        return True

    async def stop(self) -> None:
        """Put all turns off: what was said is kept, and each can be gone on with elsewhere."""
        self._stopped = True
        tasks = []
        for running in list(self._running.values()):
            running.is_put_off = True
            if running.task is not None:
                running.task.cancel()
                tasks.append(running.task)
        if tasks:
            await asyncio.wait(tasks)

    # -- one turn ------------------------------------------------------------------------------

    async def _turn(self, running: Running, wish: Turn, key: str | None, kit: Kit) -> None:
        try:
            await self._answer(running, wish, key, kit)
        except (HoldfastError, Refused) as error:
            _fail(running, error)
        except Exception:
            _LOGGER.exception("a turn of session %s failed", running.id)
            _fail(running, Refused(500, "internal", "the server made a mistake"))
        except asyncio.CancelledError:
            name = "interrupted" if running.is_put_off else "cancelled"
            running.answered = Answered(
                session_id=running.id, output="", status="interrupted", reason=name
            )
            running.tell(name, {"session_id": running.id, "reason": name})
        finally:
            del self._running[running.space, running.id]
            running.end()

    async def _answer(self, running: Running, wish: Turn, key: str | None, kit: Kit) -> None:
        opening = partial(_open, kit)
        async with (
            self._spaces.use(running.space, self._threads) as hf,
            self._desk.session(running.space, running.id, opening) as session,
        ):
            if key is not None:
                wish, recorded = await self._threads.run(_take_key, session, wish, key)
                if recorded is not None:
                    self._done(running, recorded)
                    return
            agent = await self._threads.run(self._make_agent, kit, hf, session, running)
            try:
                await self._run(running, wish, agent, session)
            except asyncio.CancelledError:
                if running.is_put_off:
                    await uncancelled(_put_off(session))
                raise
            finally:
                await uncancelled(agent.aclose())

    async def _run(self, running: Running, wish: Turn, agent: Agent, session: Session) -> None:
        defers = session.store.capabilities.defers
        async with _stream(agent, wish, session) as stream:
            async for piece in stream:
                if defers:  # what a client has seen survives the death of this process
                    await session.aflush()
                running.tell("piece", {"session_id": session.id, "text": piece})
        await session.aflush()
        self._done(running, _answered(session, stream.result))

    def _done(self, running: Running, answered: Answered) -> None:
        running.answered = answered
        running.tell("done", msgspec.to_builtins(answered))

    def _make_agent(self, kit: Kit, hf: Holdfast, session: Session, running: Running) -> Agent:
        from holdfast.agent import builtin_tools

        folder = None if self._root is None else os.path.join(self._root, running.space)
        root = folder if folder is not None and os.path.isdir(folder) else None
        return kit.agent(hf, session, lambda: builtin_tools(root), self._asking(running))

    def _asking(self, running: Running) -> Callable[[PermissionRequest], Awaitable[Decision]]:
        return partial(self._permission, running)

    async def _permission(self, running: Running, request: PermissionRequest) -> Decision:
        async def tell(asked: dict[str, Any]) -> None:
            running.tell("tool_request_approval", asked)

        return await running.questions.ask(request, tell, wait_s=_APPROVAL_S)


def _fail(running: Running, error: HoldfastError | Refused) -> None:
    running.error = error
    status, code, detail, remedy, more = problem_fields(error)
    told = {"status": status, "code": code, "detail": detail, "remedy": remedy, **more}
    running.tell("error", told)


def _open(kit: Kit, hf: Holdfast, id: str) -> Session:
    """The session of an agent, made if it is not there yet."""
    if hf.exists(id):
        return kit.open_session(hf, id, lease_ms=LEASE_MS)
    return AgentHome(hf, kit.agent_id, AGENT_TYPE).open_session(id, lease_ms=LEASE_MS)


def _stream(agent: Agent, wish: Turn, session: Session) -> RunStream:
    if wish.resume_token is not None:
        if wish.prompt is not None:
            raise UsageError("a turn is resumed with a value, not with a prompt")
        return agent.resume_stream(wish.resume_token, wish.value, session=session)
    return agent.run_stream(wish.prompt, session=session)


async def _put_off(session: Session) -> None:
    """Say on record that the turn is to be gone on with, now that its end is."""
    with contextlib.suppress(HoldfastError):  # else the next writer says it
        session.append("interrupted", {"reason": _STOPPING})
        await session.aflush()


def _answered(session: Session, result: RunResult) -> Answered:
    waits = result.suspended
    return Answered(
        session_id=session.id,
        output=result.output,
        status="completed" if waits is None else "suspended",
        usage=msgspec.to_builtins(result.usage),
        resume_token=None if waits is None else waits.token,
        resume_as=None if waits is None else waits.resume_as,
        reason=None if waits is None else waits.reason,
    )


def _take_key(session: Session, wish: Turn, key: str) -> tuple[Turn, Answered | None]:
    """A turn that was asked for before: gone on with if it was cut, else its answer."""
    mark = f"turn.{key}"
    begun = session.live_state.keys.get(mark)
    if begun is None:
        session.append("metadata", {"last_turn_key": key}, key=mark)
        return wish, None
    said = [event for event in session.events(begun) if event.type in {"user", "assistant"}]
    if not said:
        return wish, None  # it ended before a word was said
    if session.live_state.unfinished or said[-1].type == "user":
        return Turn(prompt=None), None
    output = said[-1].data.get("content")
    return wish, Answered(
        session_id=session.id, output=output if isinstance(output, str) else "", reason="recorded"
    )


# Turns over HTTP: asked for, streamed, approved, stopped.


async def begin_turn(call: Call) -> Response:
    """The answer of the agent: word by word to who accepts events, else as a whole.

    A client that leaves does not stop the turn; what was said is in the session.
    """
    id = call.id
    await call.service.threads.run(call.hf.info, id)  # there must be one
    running = call.service.turns.begin(call.space, id, call.body, key=call.key)
    heard = running.listen()
    if EVENT_STREAM in call.request.headers.get("accept", ""):
        return StreamingResponse(_told(call, heard), 200, media_type=EVENT_STREAM)
    async for _ in heard:
        pass
    if running.error is not None:
        return problem(running.error)
    return Response(as_json(running.answered), 200, media_type=JSON)


async def approve(call: Call) -> Response:
    """An answer to the question whether a tool may run."""
    tool, said = call.request.path_params["call"], call.body
    call.service.turns.approve(call.space, call.id, tool, approved=said.approved, scope=said.scope)
    return Response(None, 204)


async def cancel(call: Call) -> Response:
    """The end of a turn that goes on. Raises Refused if none does."""
    if not await call.service.turns.cancel(call.space, call.id):
        raise Refused(404, "not_found", "no turn of this session goes on here")
    return Response(None, 204)


async def _told(call: Call, heard: AsyncIterator[Message]) -> AsyncIterator[bytes]:
    """Each message, for as long as the token counts; the turn itself goes on."""
    assert call.token is not None
    async for name, data in heard:
        if not await call.service.is_still_good(call.token):
            status, code, detail, _, _ = problem_fields(Refused(401, "token", "it counts no more"))
            yield sse("error", as_json({"status": status, "code": code, "detail": detail}))
            return
        yield sse(name, as_json(data))
