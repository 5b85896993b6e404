"""``holdfast acp proxy``: between an editor and any agent, keeping every session.

A prompt is recorded before the agent sees it, and an update before the editor does. Our session
ids are outside, the agent's inside. Sessions can be listed, loaded, resumed, forked, closed and
deleted whatever the agent can do, and stay when it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast.apps.acp.handover import WINDOW_TOKENS, Waits
from holdfast.apps.acp.link import AgentLink, Early
from holdfast.apps.acp.proxy.agent_side import AgentSide, EditorOutbox, fail_turn, with_what_is_told
from holdfast.apps.acp.proxy.sessions import ProxySessions, session_id_of
from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.acp.replay import list_sessions
from holdfast.apps.watched import watch
from holdfast.apps.wire.frames import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Frame,
    RpcError,
    TooLong,
    encode,
    error_frame,
    parse,
    response,
)
from holdfast.apps.wire.peer import as_rpc_error
from holdfast.apps.wire.pipes import AgentProcess, Pipe, serve
from holdfast.errors import HoldfastError, InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import VERSION, check_id

Method = Callable[[Frame], Awaitable[Any]]
Stop = Callable[[Channel], Awaitable[None]]


def methods_of(hf: Holdfast, agent: AgentLink, sessions: ProxySessions, stop: Stop) -> dict[str, Method]:
    """The requests that do not simply go to the agent; ``stop`` ends the turn of a session."""
    served = _Served(hf, agent, sessions, stop)
    return {
        "initialize": served.initialize,
        "session/new": served.new,
        "session/load": partial(served.load, replays=True),
        "session/resume": partial(served.load, replays=False),
        "session/fork": served.fork,
        "session/list": served.list,
        "session/close": served.close,
        "session/delete": served.delete,
    }


class _Served:
    """Each takes the params of a request and gives its result. Raises RpcError, HoldfastError."""

    def __init__(self, hf: Holdfast, agent: AgentLink, sessions: ProxySessions, stop: Stop) -> None:
        self._hf = hf
        self._agent = agent
        self._sessions = sessions
        self._stop = stop

    async def initialize(self, params: Frame) -> Frame:
        """What the agent says of itself, and what we can besides."""
        self._sessions.agent_is_gone()  # one that was greeted before is started anew
        hello = await self._agent.greet(params)
        can = self._agent.can
        offered = can.get("sessionCapabilities")
        ours: Frame = {name: {} for name in ("list", "resume", "fork", "close", "delete")}
        meta = {**(hello.get("_meta") or {}), "holdfast": {"version": VERSION, "agent": can}}
        return {
            **hello,
            "agentCapabilities": {**can, "loadSession": True, "sessionCapabilities": {**(offered or {}), **ours}},
            "_meta": meta,
        }

    async def new(self, params: Frame) -> Frame:
        """A session on both sides."""
        if "cwd" not in params:
            raise RpcError(INVALID_PARAMS, "cwd is missing")
        _check_cwd(params)
        channel = await self._sessions.new(params)
        return {**channel.answer, "sessionId": channel.id}

    async def load(self, params: Frame, *, replays: bool) -> Frame:
        """A session again: the past is told, or not, while the agent gets it back."""
        _check_cwd(params)
        channel = await self._sessions.get(params, looks=False)
        # Before the agent is asked: where all of the past is told, it is seen in passing which
        # agent has the session. Else the log would have to be read twice.
        told = await self._sessions.replay(channel, params) if replays else {}
        await asyncio.to_thread(channel.look_back)
        await self._sessions.attach(channel)
        meta = {**(channel.answer.get("_meta") or {}), "holdfast": told}
        return {**channel.answer, "_meta": meta} if told else channel.answer

    async def fork(self, params: Frame) -> Frame:
        """A branch on both sides."""
        _check_cwd(params)
        channel = await self._sessions.fork(params)
        return {**channel.answer, "sessionId": channel.id}

    async def list(self, params: Frame) -> Frame:
        """One page of all sessions."""
        return await asyncio.to_thread(list_sessions, self._hf, params)

    async def close(self, params: Frame) -> Frame:
        """Give a session back; the log stays."""
        channel = self._sessions.by_id.get(session_id_of(params))
        if channel is not None:
            await self._stop(channel)
            await self._sessions.close(channel, tell_agent="close")
        return {}

    async def delete(self, params: Frame) -> Frame:
        """Into the trash; one that is not there is gone already."""
        id = session_id_of(params)
        channel = self._sessions.by_id.get(id)
        if channel is not None:
            await self._stop(channel)
            await self._sessions.close(channel, tell_agent="delete")
        with contextlib.suppress(NotFound, InvalidId):
            await asyncio.to_thread(self._hf.delete, check_id(id))
        return {}


def _check_cwd(params: Frame) -> None:
    """The protocol wants an absolute path: what is relative means another place to each side."""
    cwd = params.get("cwd")
    if "cwd" in params and not (isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd):
        raise RpcError(INVALID_PARAMS, "cwd is an absolute path")


# The proxy itself.


_STOP_S = 2.0
_LAST_WORDS_S = 30.0  # on a busy machine an agent takes its time to start
_LOOK_S = 0.02


class Proxy(AgentSide):
    """One editor, one agent, and the sessions between them."""

    def __init__(
        self,
        hf: Holdfast,
        editor: Pipe,
        launch: Callable[[], Awaitable[AgentProcess]],
        *,
        command: list[str],
        waits: Waits | None = None,
        window_tokens: int = WINDOW_TOKENS,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._hf = hf
        self._editor = editor
        self._say = say
        self._outbox = EditorOutbox(editor, self._break)
        self._agent = AgentLink(
            launch,
            on_line=self._words_of_agent,
            on_frame=self._from_agent,
            on_batch=self._show,
            on_death=self._agent_died,
            on_noise=self._noise,
        )
        self._early = Early(self._deliver_early)
        self._sessions = ProxySessions(
            hf,
            self._agent,
            self,
            early=self._early,
            command=command,
            waits=waits or Waits(),
            window_tokens=window_tokens,
        )
        # What the editor asked and the agent was not yet.
        self._queued: dict[Any, Frame] = {}
        # What it asked and what can be answered at once: everything but prompts.
        self._short: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = asyncio.Event()
        self._methods = methods_of(hf, self._agent, self._sessions, self._stop)

    async def run(self) -> None:
        """Serve until the editor is gone; then sessions and agent are closed."""
        reading = asyncio.ensure_future(self._read())
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({reading, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            losing.cancel()
            await self._end()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await reading

    async def _read(self) -> None:
        while (lines := await self._editor.read()) is not None:
            for line in lines:
                self._from_editor(line)
            await self._agent.drain()
            await self._editor.drain()
        # A program that sent all it had and reads on, as in a pipe of a shell, is answered; only
        # prompts take as long as they like.
        until = time.monotonic() + _LAST_WORDS_S
        while self._is_asked() and time.monotonic() < until:  # noqa: ASYNC110 - answers come from many places
            await asyncio.sleep(_LOOK_S)
        await self._outbox.shown()

    def _is_asked(self) -> bool:
        """Whether an answer is due, and somebody there to read it."""
        return not self._editor.is_lost and any(id in self._serving for id in self._short)

    # -- the editor's frames ---------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Send the editor a frame."""
        self._editor.write(encode(frame))

    def write(self, data: bytes) -> None:
        """Send the editor whole lines."""
        self._editor.write(data)

    def offer(self, data: bytes) -> bool:
        """Send the editor whole lines, from any thread, as far as it takes them at once."""
        return self._editor.offer(data)

    async def drain(self) -> None:
        """Wait until the editor has taken enough."""
        await self._editor.drain()

    async def shown(self) -> None:
        """Return once the editor has been shown all that is recorded."""
        await self._outbox.shown()

    def _from_editor(self, line: bytes | TooLong) -> None:
        try:
            if isinstance(line, TooLong):
                raise RpcError(INVALID_REQUEST, "the line is too long")
            frame = parse(line)
        except RpcError as error:
            self.send(error_frame(None, error))
            return
        method, params = frame.get("method"), frame.get("params")
        if method is None:
            self._editor_answered(frame)
        elif params is not None and not isinstance(params, dict):
            if "id" in frame:
                wrong = RpcError(INVALID_PARAMS, "params must be an object")
                self.send(error_frame(frame["id"], wrong))
        elif "id" in frame:
            self._editor_asks(frame, method, params or {})
        else:
            self._editor_tells(frame, method, params or {})

    def _editor_asks(self, frame: Frame, method: str, params: Frame) -> None:
        id = frame["id"]
        if id in self._serving:
            self.send(error_frame(id, RpcError(INVALID_REQUEST, f"the id {id!r} is in use")))
            return
        self._serving[id] = None
        self._short = {one for one in self._short if one in self._serving}
        if method != "session/prompt":
            self._short.add(id)
        handler = self._methods.get(method)
        if handler is not None:
            self._spawn(self._serve(id, handler(params)))
        elif isinstance(params.get("sessionId"), str):
            self._queued[id] = frame
            self._spawn(self._enqueue(frame, params))
        else:
            self._spawn(self._pass_on(frame, params))

    async def _serve(self, id: Any, work: Awaitable[Any]) -> None:
        """Answer with what the work gives, or with why it did not."""
        try:
            answer = response(id, await work)
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            answer = error_frame(id, as_rpc_error(error))
        self._serving.pop(id, None)
        self.send(answer)
        made = answer.get("result", {}).get("sessionId")
        # The editor has the id only now; what the agent said of the session meanwhile follows it.
        if made in self._sessions.by_id:
            self._sessions.unmute(self._sessions.by_id[made])
        with contextlib.suppress(ConnectionError):
            await self._editor.drain()

    async def _enqueue(self, frame: Frame, params: Frame) -> None:
        """A request about a session: after all others about it."""
        try:
            channel = await self._sessions.get({"sessionId": params["sessionId"]})
        except (RpcError, HoldfastError) as error:
            if self._begin(frame):
                self._refuse(frame, error)
            return
        channel.enqueue(partial(self._ask_agent, channel, frame))

    def _begin(self, frame: Frame) -> bool:
        """Take a request out of the queue; False if it was cancelled there, and answered."""
        is_due = self._queued.get(frame["id"]) is frame
        if is_due:
            del self._queued[frame["id"]]
        return is_due

    async def _ask_agent(self, channel: Channel, frame: Frame) -> None:
        try:
            await self._sessions.attach(channel)
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            # One that was cancelled in the queue has had its answer.
            if self._begin(frame):
                self._not_asked(channel, frame, error)
            return
        if not self._begin(frame):
            return
        is_prompt = frame["method"] == "session/prompt"
        try:
            channel.hold(channel.notes.client(frame))
            if is_prompt:
                await self._sessions.before_prompt(channel)
            await channel.settle()
            params = {**frame["params"], "sessionId": channel.agent_id}
            if is_prompt:
                params = with_what_is_told(channel, params)
                channel.prompts[frame["id"]] = None
            self._serving[frame["id"]] = self._agent.ask(
                frame["method"], params, partial(self._agent_answered, channel, frame)
            )
            await self._agent.drain()
        except Exception as error:  # noqa: BLE001 - as above
            self._not_asked(channel, frame, error)

    def _not_asked(self, channel: Channel, frame: Frame, error: Exception) -> None:
        channel.prompts.pop(frame["id"], None)
        self._refuse(frame, error)
        if frame["method"] == "session/prompt":
            fail_turn(channel, str(error))

    async def _pass_on(self, frame: Frame, params: Frame) -> None:
        """A request that is about no session."""
        try:
            await self._agent.ready()
            self._serving[frame["id"]] = self._agent.ask(
                frame["method"], params, partial(self._agent_answered, None, frame)
            )
        except RpcError as error:
            self._refuse(frame, error)

    def _refuse(self, frame: Frame, error: Exception) -> None:
        self._serving.pop(frame["id"], None)
        self.send(error_frame(frame["id"], as_rpc_error(error)))

    def _editor_tells(self, frame: Frame, method: str, params: Frame) -> None:
        if method == "$/cancel_request":
            self._cancel(params.get("requestId"))
            return
        if "sessionId" in params:
            self._spawn(self._enqueue_told(frame, str(params["sessionId"])))
        elif not method.startswith("session/"):
            self._agent.tell(method, params)

    def _cancel(self, id: Any) -> None:
        queued, number = self._queued.pop(id, None), self._serving.get(id)
        if queued is not None:
            self._refuse(queued, RpcError(CANCELLED, "cancelled"))
        elif number is not None:
            self._agent.tell("$/cancel_request", {"requestId": number})

    async def _enqueue_told(self, frame: Frame, id: str) -> None:
        """After the requests before it, even if the session is only being opened for them."""
        channel = await self._sessions.find(id)
        if channel is not None:
            channel.enqueue(partial(self._tell_agent, channel, frame))

    async def _tell_agent(self, channel: Channel, frame: Frame) -> None:
        with contextlib.suppress(HoldfastError):
            channel.hold(channel.notes.client(frame))
            await channel.settle()
        if channel.agent_id is not None:
            self._agent.tell(frame["method"], {**frame["params"], "sessionId": channel.agent_id})

    def _editor_answered(self, frame: Frame) -> None:
        asked = self._asked.pop(str(frame.get("id")), None)
        if asked is None:
            return  # of an agent that is gone, or of nobody
        request, channel = asked
        answer = {**frame, "id": request["id"]}
        if channel is None:
            self._agent.send(answer)
        else:
            channel.enqueue(partial(self._give_answer, channel, request, answer))

    async def _give_answer(self, channel: Channel, request: Frame, answer: Frame) -> None:
        try:
            channel.hold(channel.notes.answer(request, answer, "client"))
            await channel.settle()
        except HoldfastError as error:
            await self._break(channel, error)
            return
        self._agent.send(answer)

    # -- what is shown ---------------------------------------------------------------------------

    async def _show(self) -> None:
        try:
            await self._outbox.settle()
        except ConnectionError:
            self._lost.set()  # it may keep our input open all the same

    def _noise(self, line: bytes) -> None:
        self._say(f"the agent printed what is no frame: {line[:200].decode('utf-8', 'replace')}")

    # -- when something breaks -------------------------------------------------------------------

    async def _agent_died(self, reason: str) -> None:
        self._say(reason)
        self._sessions.agent_is_gone()
        self._early.forget()
        self._asked.clear()
        await self._show()
        self._spawn(self._bring_back())

    async def _bring_back(self) -> None:
        """Start the agent again and give it its sessions; what fails is tried at the next need."""
        for channel in list(self._sessions.by_id.values()):
            with contextlib.suppress(RpcError, HoldfastError, TimeoutError):
                await self._sessions.attach(channel)

    async def _break(self, channel: Channel, error: HoldfastError) -> None:
        """The store took nothing: the turn ends here, and the next request opens it anew."""
        if channel.broken is not None:
            return
        channel.broken = error
        self._say(f"session {channel.id}: {error}")
        if channel.agent_id is not None:
            self._agent.tell("session/cancel", {"sessionId": channel.agent_id})
        self._end_prompts(channel, lambda asked: error_frame(asked, as_rpc_error(error)))
        with contextlib.suppress(HoldfastError):
            await self._sessions.close(channel, tell_agent=None)

    def _end_prompts(self, channel: Channel, answer: Callable[[Any], Frame]) -> None:
        """Answer what the agent will not, or too late."""
        prompts, channel.prompts = channel.prompts, {}
        for id in prompts:
            self._serving.pop(id, None)
            self.send(answer(id))

    async def _stop(self, channel: Channel) -> None:
        """End the turn of a session that is to be closed: the agent may say how it ended."""
        await channel.caught_up(_STOP_S)
        if not channel.prompts:
            await self.shown()
            return
        self._agent.tell("session/cancel", {"sessionId": channel.agent_id})
        patience = time.monotonic() + _STOP_S
        while channel.prompts and time.monotonic() < patience:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(_STOP_S / 100)
        if channel.prompts:
            await self.shown()
            channel.note(("turn_end", {"reason": "cancelled"}))
            self._end_prompts(channel, lambda asked: response(asked, {"stopReason": "cancelled"}))

    # -- life ------------------------------------------------------------------------------------

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end(self) -> None:
        self._outbox.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._agent.end()
        for channel in list(self._sessions.by_id.values()):
            with contextlib.suppress(HoldfastError):
                await self._sessions.close(channel, tell_agent=None)


# The recording proxy on this process's own input and output.


def serve_proxy(
    place: str | None,
    command: list[str],
    *,
    window_tokens: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Be the proxy of one agent on standard input and output. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)

        async def work(pipe: Pipe) -> None:
            proxy = Proxy(
                hf,
                pipe,
                lambda: AgentProcess.start(command),
                command=command,
                window_tokens=window_tokens or WINDOW_TOKENS,
                say=say,
            )
            await proxy.run()

        serve(work)
