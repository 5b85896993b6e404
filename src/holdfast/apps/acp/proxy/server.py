"""``holdfast acp proxy``: between an editor and any agent, keeping every session.

A prompt is recorded before the agent sees it, and an update before the editor does. Our session
ids are outside, the agent's inside. Sessions can be listed, loaded, resumed, forked, closed and
deleted whatever the agent can do, and stay when it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast.apps.acp.handover import CONVERSATION, WINDOW_TOKENS, Waits
from holdfast.apps.acp.link import AgentLink, Early
from holdfast.apps.acp.proxy.outbox import EditorOutbox, read_chunk
from holdfast.apps.acp.proxy.sessions import ProxySessions, session_id_of
from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.acp.replay import list_sessions
from holdfast.apps.acp.replay.words import undone_update
from holdfast.apps.watched import watch
from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError, TooLong
from holdfast.apps.wire.pipes import AgentProcess, Pipe, serve
from holdfast.errors import HoldfastError, InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import VERSION, check_id

_STOP_S = 2.0
_LAST_WORDS_S = 30.0  # on a busy machine an agent takes its time to start
_LOOK_S = 0.02
_SETTINGS = frozenset({"session/set_mode", "session/set_config_option", "session/set_model"})


class Proxy:
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
            on_noise=lambda line: say(f"the agent printed what is no frame: {line[:200].decode('utf-8', 'replace')}"),
        )
        self._early = Early(self._deliver_early)
        self._sessions = ProxySessions(
            hf,
            self._agent,
            editor,
            shown=self._outbox.shown,
            early=self._early,
            command=command,
            waits=waits or Waits(),
            window_tokens=window_tokens,
        )
        self._numbers = itertools.count(1)
        # Requests to the editor: the agent's frame and its session.
        self._asked: dict[str, tuple[Frame, Channel | None]] = {}
        # The editor's requests: the number under which the agent was asked, None if we answer.
        self._serving: dict[Any, int | None] = {}
        # The editor's requests that were not passed to the agent yet.
        self._queued: dict[Any, Frame] = {}
        # Requests that can be answered at once: everything but prompts.
        self._short: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = asyncio.Event()
        # The requests that do not simply go to the agent. Each takes params and gives a result.
        self._methods: dict[str, Callable[[Frame], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "session/new": partial(self._make, self._sessions.new),
            "session/load": partial(self._load, replays=True),
            "session/resume": partial(self._load, replays=False),
            "session/fork": partial(self._make, self._sessions.fork),
            "session/list": lambda params: asyncio.to_thread(list_sessions, hf, params),
            "session/close": partial(self._close, how="close"),
            "session/delete": partial(self._close, how="delete"),
        }

    async def run(self) -> None:
        """Serve until the editor is gone; then sessions and agent are closed."""
        reading = asyncio.ensure_future(self._read())
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({reading, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            losing.cancel()
            self._outbox.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._agent.end()
            for channel in list(self._sessions.by_id.values()):
                with contextlib.suppress(HoldfastError):
                    await self._sessions.close(channel, tell_agent=None)
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await reading

    async def _read(self) -> None:
        while (lines := await self._editor.read()) is not None:
            for line in lines:
                self._from_editor(line)
            await self._agent.drain()
            await self._editor.drain()
        # A program that sent all it had and reads on, as in a pipe of a shell, is answered; only prompts take as long
        # as they like.
        until = time.monotonic() + _LAST_WORDS_S
        while not self._short.isdisjoint(self._serving) and not self._editor.is_lost:
            if time.monotonic() > until:
                break
            await asyncio.sleep(_LOOK_S)
        await self._outbox.shown()

    # -- what is answered here -------------------------------------------------------------------
    async def _initialize(self, params: Frame) -> Frame:
        """Return the agent's capabilities, extended by those of the proxy."""
        self._sessions.agent_is_gone()  # one that was initialised before is started again
        hello = await self._agent.greet(params)
        can = self._agent.can
        ours: Frame = {name: {} for name in ("list", "resume", "fork", "close", "delete")}
        offered = {**(can.get("sessionCapabilities") or {}), **ours}
        return {
            **hello,
            "agentCapabilities": {**can, "loadSession": True, "sessionCapabilities": offered},
            "_meta": {**(hello.get("_meta") or {}), "holdfast": {"version": VERSION, "agent": can}},
        }

    async def _make(self, make: Callable[[Frame], Awaitable[Channel]], params: Frame) -> Frame:
        """Return a session on both sides."""
        _check_cwd(params)
        channel = await make(params)
        return {**channel.answer, "sessionId": channel.id}

    async def _load(self, params: Frame, *, replays: bool) -> Frame:
        """Load a session: the past is replayed, or not, while the agent gets it back."""
        _check_cwd(params)
        channel = await self._sessions.get(params, looks=False)
        # Before the agent is asked: the replay of the whole past also shows which agent has the session. Else the log
        # would have to be read twice.
        told = await self._sessions.replay(channel, params) if replays else {}
        await asyncio.to_thread(channel.look_back)
        await self._sessions.attach(channel)
        meta = {**(channel.answer.get("_meta") or {}), "holdfast": told}
        return {**channel.answer, "_meta": meta} if told else channel.answer

    async def _close(self, params: Frame, *, how: str) -> Frame:
        """Give a session back; the log stays, or goes into the trash. One that is not there is gone already."""
        id = session_id_of(params)
        channel = self._sessions.by_id.get(id)
        if channel is not None:
            await self._stop(channel)
            await self._sessions.close(channel, tell_agent=how)
        if how == "delete":
            with contextlib.suppress(NotFound, InvalidId):
                await asyncio.to_thread(self._hf.delete, check_id(id))
        return {}

    # -- the agent's frames, in wire order -------------------------------------------------------
    def _words_of_agent(self, line: bytes) -> bool:
        """Take a line that is nothing but a piece of a message: nearly all are, so it is quick."""
        chunk = read_chunk(line)
        channel = None if chunk is None else self._sessions.by_agent.get(chunk.session_id)
        if chunk is None or channel is None or channel.swallowing:
            return False
        addressed = channel.addressed(line)
        if addressed is None:
            return False
        update = chunk.update
        channel.say(update.content.text, update.kind, update.message_id)
        self._outbox.put(channel, addressed)
        return True

    def _from_agent(self, frame: Frame) -> None:
        params = rpc.object_in(frame, "params")
        agent_id = params.get("sessionId")
        if agent_id is None:
            self._pass_out(None, frame)
            return
        channel = self._sessions.by_agent.get(str(agent_id))
        if channel is None:
            if not self._early.keep(str(agent_id), frame) and "id" in frame:
                unknown = RpcError(rpc.NOT_FOUND, f"there is no session {str(agent_id)[:200]!r}")
                self._agent.send(rpc.error_frame(frame["id"], unknown))
            return
        is_update = channel.swallowing and frame["method"] == "session/update"
        if is_update and rpc.member(params, "update", "sessionUpdate") in CONVERSATION:
            channel.hear_replay(params["update"])
            return
        channel.hold(channel.notes.agent(frame))
        self._pass_out(channel, {**frame, "params": {**params, "sessionId": channel.id}})

    def _pass_out(self, channel: Channel | None, frame: Frame) -> None:
        if "id" in frame:
            # An id of our own, since a restarted agent counts from one again.
            number = f"holdfast-{next(self._numbers)}"
            # The agent's id of its session is what the notes know.
            self._asked[number] = (frame, channel)
            frame = {**frame, "id": number}
        self._outbox.put(channel, frame)

    def _agent_answered(self, channel: Channel | None, asked: Frame, answer: Frame) -> None:
        id, method, has_worked = asked["id"], asked["method"], "error" not in answer
        if id not in self._serving:
            return  # it was answered without the agent: the session was closed meanwhile
        del self._serving[id]
        if channel is not None:
            is_prompt = id in channel.prompts
            channel.prompts.pop(id, None)
            if not answer.pop("agentGone", False):
                channel.hold(channel.notes.answer(asked, answer, "agent"))
            elif is_prompt:
                for call in channel.cut_off(answer["error"]["message"]):
                    told = {"sessionId": channel.id, "update": undone_update(call.id, call.stage)}
                    self._outbox.put(channel, rpc.notification("session/update", told))
            if has_worked:
                self._agent.breaker.worked()
            if has_worked and method in _SETTINGS:  # what the user has set holds for an agent that forgets it, too
                params = {k: v for k, v in asked["params"].items() if k != "sessionId"}
                channel.settings[f"{method} {params.get('configId', '')}".strip()] = {
                    "method": method,
                    "params": params,
                }
                channel.note(("metadata", {"acp_settings": dict(channel.settings)}))
        elif method == "authenticate" and has_worked:
            self._agent.login = asked.get("params") or {}
        kept = {k: v for k, v in answer.items() if k in ("result", "error")}
        self._outbox.put(channel, {"jsonrpc": "2.0", "id": id, **kept})

    def _deliver_early(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._from_agent(frame)
        self._spawn(self._show())

    # -- the editor's frames ---------------------------------------------------------------------
    def _send(self, frame: Frame) -> None:
        self._editor.write(rpc.encode(frame))

    def _from_editor(self, line: bytes | TooLong) -> None:
        try:
            frame = rpc.parse(line)
        except RpcError as error:
            self._send(rpc.error_frame(None, error))
            return
        method, params = frame.get("method"), frame.get("params")
        if method is None:
            self._editor_answered(frame)
        elif params is not None and not isinstance(params, dict):
            if "id" in frame:
                self._send(rpc.error_frame(frame["id"], RpcError(rpc.INVALID_PARAMS, "params must be an object")))
        elif "id" in frame:
            self._editor_asks(frame, method, params or {})
        else:
            self._editor_tells(frame, method, params or {})

    def _editor_asks(self, frame: Frame, method: str, params: Frame) -> None:
        id = frame["id"]
        if id in self._serving:
            self._send(rpc.error_frame(id, RpcError(rpc.INVALID_REQUEST, f"the id {id!r} is in use")))
            return
        self._serving[id] = None
        self._short.intersection_update(self._serving)
        if method != "session/prompt":
            self._short.add(id)
        handler = self._methods.get(method)
        if handler is not None:
            self._spawn(self._serve(id, handler(params)))
        elif "sessionId" in params or method == "session/prompt":  # an odd id is refused: nobody would record it
            self._queued[id] = frame
            self._spawn(self._enqueue(frame, params))
        else:
            self._spawn(self._pass_on(frame, params))

    async def _serve(self, id: Any, work: Awaitable[Any]) -> None:
        """Answer with what the work gives, or with why it did not."""
        try:
            answer = rpc.response(id, await work)
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            answer = rpc.error_frame(id, rpc.as_rpc_error(error))
        self._serving.pop(id, None)
        self._send(answer)
        made = self._sessions.by_id.get(answer.get("result", {}).get("sessionId"))
        # The editor has the id only now; what the agent said of the session meanwhile follows it.
        if made is not None:
            self._sessions.unmute(made)
        with contextlib.suppress(ConnectionError):
            await self._editor.drain()

    async def _enqueue(self, frame: Frame, params: Frame) -> None:
        """Queue a request about a session after all others about it."""
        try:
            channel = await self._sessions.get({"sessionId": params.get("sessionId")})
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
        id, is_prompt, is_due = frame["id"], frame["method"] == "session/prompt", False
        try:
            await self._sessions.attach(channel)
            is_due = self._begin(frame)
            if not is_due:
                return
            channel.hold(channel.notes.client(frame))
            if is_prompt:
                await self._sessions.before_prompt(channel)
            await channel.settle()
            params = {**frame["params"], "sessionId": channel.agent_id}
            if is_prompt:
                told, channel.told = channel.told, []
                if told and isinstance(params.get("prompt"), list):
                    blocks = [{"type": "text", "text": text} for text in told]
                    channel.note(("frame", {"direction": "holdfast", "frame": {"prompt": blocks}}))
                    channel.commit()
                    params["prompt"] = [*blocks, *params["prompt"]]
                channel.prompts[id] = None
            self._serving[id] = self._agent.ask(frame["method"], params, partial(self._agent_answered, channel, frame))
            await self._agent.drain()
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            # One that was cancelled in the queue has had its answer.
            if not is_due and not self._begin(frame):
                return
            channel.prompts.pop(id, None)
            self._refuse(frame, error)
            if is_prompt and channel.broken is None and not channel.prompts:
                channel.note(("turn_end", {"reason": "failed", "error": str(error)}))
                with contextlib.suppress(HoldfastError):
                    channel.commit()

    async def _pass_on(self, frame: Frame, params: Frame) -> None:
        """Pass on a request that concerns no session."""
        try:
            await self._agent.ready()
            answered = partial(self._agent_answered, None, frame)
            self._serving[frame["id"]] = self._agent.ask(frame["method"], params, answered)
        except RpcError as error:
            self._refuse(frame, error)

    def _refuse(self, frame: Frame, error: Exception) -> None:
        self._serving.pop(frame["id"], None)
        self._send(rpc.error_frame(frame["id"], rpc.as_rpc_error(error)))

    def _editor_tells(self, frame: Frame, method: str, params: Frame) -> None:
        if method == "$/cancel_request":
            id = params.get("requestId")
            queued, number = self._queued.pop(id, None), self._serving.get(id)
            if queued is not None:
                self._refuse(queued, RpcError(rpc.CANCELLED, "cancelled"))
            elif number is not None:
                self._agent.tell("$/cancel_request", {"requestId": number})
        elif "sessionId" in params:
            self._spawn(self._enqueue_told(frame, str(params["sessionId"])))
        elif not method.startswith("session/"):
            self._agent.tell(method, params)

    async def _enqueue_told(self, frame: Frame, id: str) -> None:
        """Queue a notification after earlier requests, even if the session is still being opened for them."""
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
        """End the turn after a failure of the store; the next request opens the session again."""
        if channel.broken is not None:
            return
        channel.broken = error
        self._say(f"session {channel.id}: {error}")
        if channel.agent_id is not None:
            self._agent.tell("session/cancel", {"sessionId": channel.agent_id})
        self._end_prompts(channel, lambda asked: rpc.error_frame(asked, rpc.as_rpc_error(error)))
        with contextlib.suppress(HoldfastError):
            await self._sessions.close(channel, tell_agent=None)

    def _end_prompts(self, channel: Channel, answer: Callable[[Any], Frame]) -> None:
        """Answer what the agent will not, or too late."""
        prompts, channel.prompts = channel.prompts, {}
        for id in prompts:
            self._serving.pop(id, None)
            self._send(answer(id))

    async def _stop(self, channel: Channel) -> None:
        """End the turn of a session that is to be closed: the agent may say how it ended."""
        await channel.caught_up(_STOP_S)
        if not channel.prompts:
            await self._outbox.shown()
            return
        self._agent.tell("session/cancel", {"sessionId": channel.agent_id})
        patience = time.monotonic() + _STOP_S
        while channel.prompts and time.monotonic() < patience:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(_STOP_S / 100)
        if channel.prompts:
            await self._outbox.shown()
            channel.note(("turn_end", {"reason": "cancelled"}))
            self._end_prompts(channel, lambda asked: rpc.response(asked, {"stopReason": "cancelled"}))

    # -- life ------------------------------------------------------------------------------------
    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _check_cwd(params: Frame) -> None:
    """Refuse a relative path, which each side would resolve differently; the protocol requires absolute ones."""
    cwd = params.get("cwd")
    if "cwd" in params and not (isinstance(cwd, str) and os.path.isabs(cwd) and "\0" not in cwd):
        raise RpcError(rpc.INVALID_PARAMS, "cwd is an absolute path")


def serve_proxy(
    place: str | None,
    command: list[str],
    *,
    window_tokens: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve as the proxy of one agent on standard input and output. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        launch, window = partial(AgentProcess.start, command), window_tokens or WINDOW_TOKENS
        serve(lambda pipe: Proxy(hf, pipe, launch, command=command, window_tokens=window, say=say).run())
