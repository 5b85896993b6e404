"""The WebSocket ``/input``: a connection is about one session, whose id is the connection's id.

Without ``session_id`` it is a new session that nobody else knows; with it, that session goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.agent import HostedTurn, Message, Scope
from holdfast.apps.http._call import Refused, audit, problem, told_problem
from holdfast.apps.http._operations import record
from holdfast.apps.http._requests import AnswerRequest, Append, TurnRequest
from holdfast.apps.http._spaces import LEASE_MS
from holdfast.apps.http._stream import Following
from holdfast.apps.http._turns import heard
from holdfast.apps.http.tokens import Token
from holdfast.errors import HoldfastError, NotFound
from holdfast.library import Holdfast
from holdfast.library.answers import encoded
from holdfast.library.answers import turns as answers
from holdfast.library.answers.events import EventRecord
from holdfast.library.answers.failures import ProblemTold
from holdfast.library.answers.sessions import OpenQuestions
from holdfast.model import check_id
from holdfast.session import Answer, Session, Waiting, new_session_id

if TYPE_CHECKING:
    from holdfast.apps.http._service import Service

TYPES = (
    "user_input",
    "input",
    "append",
    "subscribe",
    "tool_approve",
    "waiting",
    "answer",
    "steer",
    "cancel",
)  # what a client may send
EVENTS: dict[str, type[msgspec.Struct]] = {
    "session.connected": answers.Connected,
    "session.subscribed": answers.Subscribed,
    "session.event": EventRecord,
    "session.appended": answers.Recorded,
    "session.waiting": OpenQuestions,
    "session.answered": Answer,
    "session.cancelled": answers.TurnStopped,
    "input.received": answers.Recorded,
    "agent.piece": answers.TurnPiece,
    "agent.tool_request_approval": answers.ToolQuestion,
    "agent.tool_request_settled": answers.ToolSettled,
    "agent.response": answers.TurnAnswer,
    "agent.interrupted": answers.TurnEnded,
    "agent.cancelled": answers.TurnEnded,
    "server.stopping": answers.ServerStopping,
    "error": ProblemTold,
}
"""The messages from the server, and their payloads."""

_PROTOCOL = "holdfast"
_MADE = re.compile(r"[0-9a-hjkmnp-tv-z]{26}\Z", re.ASCII)
_COMPONENTS_MAX = 100
_NAME_CHARS_MAX = 200
_LOOK_S = 1.0
_NAMES = {"piece": "agent.piece", "done": "agent.response"}


class Input(msgspec.Struct, frozen=True):
    """A message from a client; which fields count depends on the type. Plain text is ``user_input``."""

    type: str = "user_input"
    input: Any = None
    data: Any = None
    components: list[str] = []
    event: str = ""
    key: str | None = None
    run: str | None = None
    tool_id: str = ""
    approved: bool = False
    scope: Scope = "once"
    id: str = ""
    decision: str = ""
    args: dict[str, Any] | None = None
    result: Any = None
    because: str | None = None
    interrupt: bool = False


async def serve_input(service: Service, socket: WebSocket) -> None:
    """Serve one connection until either side ends it."""
    token: Token | None = None
    try:
        service.check_open()
        token = await service.admit(socket)
        service.check_streams(token.space)
        id = await _session_id(service, socket, token)
    except (HoldfastError, Refused) as error:
        # Before the handshake a refusal is plain HTTP, which a client can read.
        await socket.send_denial_response(problem(error))
        return
    offered = socket.scope.get("subprotocols", ())
    await socket.accept(_PROTOCOL if _PROTOCOL in offered else None)
    audit("input_connect", socket, token, session=id)
    with service.counted_stream(token.space):
        await _Input(service, socket, token, id).run()
    audit("input_end", socket, token, session=id)


async def _session_id(service: Service, socket: WebSocket, token: Token) -> str:
    """Return a new id; or the one that is asked for, if it can be nobody else's by accident."""
    if strange := set(socket.query_params) - {"session_id"}:
        # A misspelt one would begin a new session where another was to go on.
        raise Refused(400, "usage", f"there is no parameter {min(strange)[:40]!a}")
    wanted = socket.query_params.get("session_id")
    if wanted is None:
        return new_session_id()
    check_id(wanted)
    async with service.spaces.use(token.space) as hf:
        # An id that we made and of which nothing is on record yet cannot be guessed.
        if not _MADE.match(wanted) and not await service.threads.run(hf.exists, wanted):
            raise NotFound(f"there is no session {wanted}", session_id=wanted)
    return wanted


class _Input:
    """One client on one session."""

    def __init__(self, service: Service, socket: WebSocket, token: Token, id: str) -> None:
        self._service = service
        self._socket = socket
        self._token = token
        self._id = id
        self._components: frozenset[str] = frozenset()
        self._sending = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_following = False

    async def run(self) -> None:
        """Greet, then answer messages until the client is gone or the server stops."""
        stopping = asyncio.ensure_future(self._service.stopping.wait())
        reading = asyncio.ensure_future(self._read_all())
        refused = asyncio.ensure_future(self._until_revoked())
        try:
            ends = [stopping, reading, refused]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await self._say_why(is_stopping=stopping.done())
        finally:
            for task in (stopping, reading, refused, *self._tasks):
                task.cancel()
            await asyncio.gather(stopping, refused, *self._tasks, return_exceptions=True)
            with contextlib.suppress(asyncio.CancelledError):
                await reading  # a mistake of ours is not passed over

    async def _until_revoked(self) -> None:
        """Disconnect the client when its token is revoked, even if it only listens."""
        while await self._service.is_still_good(self._token):  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(_LOOK_S)

    async def _say_why(self, *, is_stopping: bool) -> None:
        if is_stopping:
            await self._send("server.stopping", answers.ServerStopping(session_id=self._id))
            await self._socket.close(1012)  # the server restarts
            return
        await self._send("error", told_problem(Refused(401, "token", "the token counts no more")))
        await self._socket.close(1008)  # a rule of ours

    async def _read_all(self) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._send("session.connected", await self._greeting())
            with self._service.turns.heard_by(self._token.space, self._id, self._hear):
                await self._read_on()

    def _hear(self, turn: HostedTurn) -> None:
        """Send this session's answers to every client connected to it, even if another client or app asked."""
        self._do(self._pass_on(heard(turn)))

    async def _read_on(self) -> None:
        for one in await self._waiting():
            if one.kind == "permission":
                await self._send("agent.tool_request_approval", answers.ToolQuestion.of(one))
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            # A connection lives longer than many a token.
            if not await self._service.is_still_good(self._token):
                await self._say_why(is_stopping=False)
                return
            await self._take(message)

    async def _greeting(self) -> answers.Connected:
        """Return the first message for a client that connects or reconnects."""
        id = self._id
        async with self._service.spaces.use(self._token.space) as hf:
            found = await self._service.threads.run(lambda: hf.info(id) if hf.exists(id) else None)
        if found is None:
            return answers.Connected(
                session_id=id, subscribed_components=[], restored=False, last_seq=-1, status="idle"
            )
        last, status = found.event_count - 1, found.status
        return answers.Connected(session_id=id, subscribed_components=[], restored=True, last_seq=last, status=status)

    async def _take(self, message: Any) -> None:
        """Handle one message; an error is reported, and the connection continues."""
        try:
            if message.get("text") is None:
                raise Refused(400, "usage", "messages are text")
            self._service.count(self._token)
            said = _understood(message["text"])
            if said is not None:
                await self._answer(said)
        except (HoldfastError, Refused) as error:
            await self._send("error", told_problem(error))

    async def _answer(self, said: Input) -> None:
        if said.type == "subscribe":
            await self._subscribe(said.components)
            return
        if said.type == "waiting":
            await self._send("session.waiting", OpenQuestions(waiting=await self._waiting()))
            return
        # Everything but to subscribe puts something on record.
        if not self._token.may("write"):
            raise Refused(403, "scope", "this token may read only")
        if said.type in {"user_input", "input"}:
            await self._user_input(said.input if said.input is not None else said.data)
        elif said.type == "append":
            await self._append(said)
        elif said.type == "tool_approve":
            turns, place, by = self._service.turns, (self._token.space, self._id), self._token.who
            await turns.approve(*place, said.tool_id, approved=said.approved, scope=said.scope, by=by)
        elif said.type == "answer":
            await self._answer_question(said)
        elif said.type == "steer":
            text = said.input if said.input is not None else said.data
            if not isinstance(text, str):
                raise Refused(422, "invalid_data", "a word to a working agent is a text")
            self._do(self._steer(text, interrupt=said.interrupt))
        elif said.type == "cancel":
            stopped = await self._service.spaces.host.cancel((self._token.space, self._id))
            await self._send("session.cancelled", answers.TurnStopped(session_id=self._id, stopped=stopped))
        else:
            detail = f"{said.type[:40]!a} is no type of message"
            raise Refused(400, "usage", detail, f"One of {', '.join(TYPES)}.")

    async def _steer(self, text: str, *, interrupt: bool) -> None:
        """Steer the running turn beside other messages, waiting for an agent that is still being created."""
        try:
            await self._service.turns.steer(self._token.space, self._id, text, interrupt=interrupt)
        except (HoldfastError, Refused) as error:
            await self._send("error", told_problem(error))

    async def _waiting(self) -> list[Waiting]:
        """Return the open questions of this session."""
        id = self._id
        async with self._service.spaces.use(self._token.space) as hf:
            return await self._service.threads.run(lambda: hf.waiting(session=id) if hf.exists(id) else [])

    async def _answer_question(self, said: Input) -> None:
        wish = {"decision": said.decision, "args": said.args, "result": said.result, "because": said.because}
        try:
            read = msgspec.convert({**wish, "scope": said.scope}, AnswerRequest)
        except msgspec.ValidationError as error:
            raise Refused(422, "invalid_data", f"the answer is wrong: {error}") from error
        who: dict[str, Any] = {"by": self._token.who, "via": "http", "because": read.because, "scope": read.scope}
        async with self._service.spaces.use(self._token.space) as hf:
            run = self._service.threads.run
            counts = await run(lambda: hf.answer(said.id, read.given, session_id=self._id, **who))
        await self._send("session.answered", counts)
        await self._service.turns.wake(self._token.space, self._id)

    async def _subscribe(self, components: list[str]) -> None:
        """Send what is recorded from now on, of these types; ``*`` is all of them."""
        wanted = self._components | frozenset(components)
        if len(wanted) > _COMPONENTS_MAX or any(len(one) > _NAME_CHARS_MAX for one in components):
            raise Refused(413, "too_large", f"at most {_COMPONENTS_MAX} types of events")
        self._components = wanted
        if not self._is_following and self._components:
            self._is_following = True
            self._do(self._follow((await self._greeting()).last_seq + 1))
        answer = answers.Subscribed(session_id=self._id, subscribed_components=sorted(self._components))
        await self._send("session.subscribed", answer)

    async def _follow(self, start: int) -> None:
        while not self._service.stopping.is_set():
            following = Following(self._service, self._token, self._id, start)
            async with contextlib.aclosing(following.events()) as events:
                async for event in events:
                    if event is None:
                        continue
                    start = event.seq + 1
                    if "*" in self._components or event.type in self._components:
                        await self._send("session.event", event)
            await asyncio.sleep(0.2)  # nothing is on record yet

    async def _user_input(self, given: Any) -> None:
        """Let the agent answer a user message, or record it if there is no agent."""
        if given is None or (isinstance(given, str) and not given.strip()):
            return
        if not isinstance(given, str):
            raise Refused(400, "usage", "input is a text")
        if not self._service.turns.can_answer:
            wish = Append(type="user", data={"role": "user", "content": given})
            await self._record("input.received", wish)
            return
        self._service.turns.begin(self._token.space, self._id, TurnRequest(prompt=given))

    async def _pass_on(self, told: AsyncIterator[Message]) -> None:
        async for name, data in told:
            await self._send(_NAMES.get(name, name if name == "error" else f"agent.{name}"), data)

    async def _append(self, said: Input) -> None:
        given = {"type": said.event, "data": said.data or {}, "key": said.key, "run": said.run}
        try:
            wish = msgspec.convert(given, Append)
        except msgspec.ValidationError as error:
            raise Refused(422, "invalid_data", f"the event is wrong: {error}") from error
        await self._record("session.appended", wish)

    async def _record(self, name: str, wish: Append) -> None:
        """Put an event on record, and say so when it is safe."""
        async with self._service.spaces.session(self._token.space, self._id, _open) as session:
            (event,) = await self._service.threads.run(record, session, [wish], None)
            await session.aflush()
        await self._send(name, answers.Recorded(session_id=self._id, seq=event.seq, key=wish.key))

    def _do(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, event: str, payload: msgspec.Struct) -> None:
        assert isinstance(payload, EVENTS[event]), f"{event} is not in the description"
        text = encoded({"event": event, "payload": payload}).decode()
        # Several tasks of one connection send; frames of two messages must not mix.
        async with self._sending:
            await self._socket.send_text(text)


def _understood(text: str) -> Input | None:
    """Return a message of a known shape, plain text as what a user says; None for an empty one."""
    if not text.strip():
        return None
    # People type into a plain WebSocket; what is no object is what they say.
    if not text.lstrip().startswith("{"):
        return Input(input=text)
    try:
        return msgspec.json.decode(text, type=Input)
    except msgspec.ValidationError as error:
        raise Refused(400, "usage", f"the message is wrong: {error}") from error
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Input(input=text)


def _open(hf: Holdfast, id: str) -> Session:
    return hf.session(id, lease_ms=LEASE_MS)
