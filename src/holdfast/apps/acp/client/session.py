"""One session with an external agent: prompts in, updates out, everything recorded before."""

from __future__ import annotations

import asyncio
import contextlib
import warnings as python_warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from holdfast.apps.acp.client.config import ClientConfig, Provider, Requests
from holdfast.apps.acp.client.store import SessionMetrics, SessionSnapshot, Snapshotter, metrics_of
from holdfast.apps.acp.client.turn import Answer, Handover, PromptTurn, Update
from holdfast.apps.acp.handover import CONVERSATION, Waits, attach, tell_missing, tell_whole_past
from holdfast.apps.acp.link import AgentGone, AgentLink, Breaker, Early
from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError, AgentNoLoadSupport, HoldfastError, StoreError, UsageError
from holdfast.library import Holdfast
from holdfast.session import Session

_TURN = "turn"  # there is one at a time


class AgentWarning(UserWarning):
    """An agent could not do what was asked of it, and something else was done."""


class AcpSession:
    """A conversation with an external agent, on a session of ours.

    Get one from ``create_or_resume``, and use it as an async context manager. Prompts wait in a
    buffer of 10 and are answered one after the other; ``send`` waits while it is full.
    """

    def __init__(
        self,
        library: Holdfast,
        session: Session,
        *,
        provider: Provider,
        config: ClientConfig,
        params: dict[str, Any],
        snapshotter: Snapshotter,
        on_close: Callable[[], None],
    ) -> None:
        self.id = session.id
        self.provider = provider
        self.config = config
        self.warnings: list[HoldfastError] = []
        """Warnings for the user, such as an agent that could not continue its own session."""
        self.attached = ""
        """The way the agent got the session: ``new``, ``resume``, ``load`` or ``primed``."""
        self.breaker = Breaker()
        self._library = library
        self.session = session
        """The session of ours that everything is recorded in."""
        self._params = params
        self._requests = Requests(config)
        self._waits = Waits(config.attach_timeout_s, config.attach_timeout_s, config.quiet_s, config.quiet_timeout_s)
        self._channel: Channel | None = None
        self._early = Early(self._take_early)
        self._snapshotter = snapshotter
        self._on_close = on_close
        self._link = AgentLink(
            partial(AgentProcess.start, provider.command, cwd=params["cwd"], env=provider.env),
            on_frame=self._hear,
            on_batch=self._pass_on,
            on_death=self._mourn,
            on_noise=lambda _: None,
            breaker=self.breaker,
        )
        self._prompts: asyncio.Queue[PromptTurn] = asyncio.Queue(config.input_buffer)
        self._worker: asyncio.Task[None] | None = None
        self._turn: PromptTurn | None = None
        self._handover = Handover(lambda: self._turn)
        self._ending: list[tuple[PromptTurn, Frame]] = []
        self._asked: list[Frame] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._closing = False

    async def ask(self, prompt: str | list[dict[str, Any]]) -> Answer:
        """Send a prompt, text or content blocks, and wait for the answer. Raises AgentError."""
        return await (await self.send(prompt)).answer()

    async def send(self, prompt: str | list[dict[str, Any]], *, wait: bool = True) -> PromptTurn:
        """Send a prompt; iterate it for updates. With a full buffer it waits, or raises AgentError if not ``wait``."""
        if self._closing:
            raise UsageError(f"session {self.id} is closed", session_id=self.id)
        turn = PromptTurn(_blocks(prompt), self.config.event_buffer, self._stop)
        if not wait and self._prompts.full():
            what = f"{self._prompts.maxsize} prompts are waiting for the agent already"
            raise AgentError(what, remedy="Wait for an answer, or send with wait=True.")
        await self._prompts.put(turn)
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())
        return turn

    def cancel(self) -> None:
        """Ask the agent to stop what it does; prompts that wait are still answered."""
        if self._turn is not None:
            self._turn.cancel()

    @property
    def current_task(self) -> Any:
        """Return the current task, as it was last set, in this process or an earlier one."""
        return self.session.live_state.task

    @current_task.setter
    def current_task(self, task: Any) -> None:
        self.session.append("task", {"task": task})

    @property
    def metrics(self) -> SessionMetrics:
        """Tokens, requests and last activity, those of earlier openings among them."""
        return metrics_of(self.session.live_state)

    @property
    def metadata(self) -> dict[str, Any]:
        """The free map of the session; change it with ``annotate``."""
        return self.session.state.metadata

    @property
    def acp_session_id(self) -> str | None:
        """The agent's own id for it, which is not ours."""
        return None if self._channel is None else self._channel.known_id

    @property
    def agent_info(self) -> dict[str, Any]:
        """Return the agent's description of itself: name, version."""
        return dict(rpc.object_in(self._link.hello, "agentInfo"))

    @property
    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities that the agent announces."""
        return dict(self._link.can)

    def annotate(self, **values: Any) -> None:
        """Set members of the metadata; None removes one."""
        self.session.append("metadata", values)

    def snapshot(self) -> SessionSnapshot:
        """Take a snapshot and give it: consistent, whatever is being recorded meanwhile."""
        return self._snapshotter.snapshot(self.session)

    async def start(self) -> None:
        """Start the agent and give it the session. Raises AgentError, AgentNoLoadSupport."""
        await self._ready()
        if self.config.persists:
            self._snapshotter.start_auto_snapshot(self.session, self.config.interval_s)

    async def close(self) -> None:
        """End what is going on, take a last snapshot, end the agent. Harmless the second time."""
        if self._closing:
            return
        self._closing = True
        try:
            await self._end_turns()
            self._snapshotter.stop_auto_snapshot(self.id)
            if self.config.persists and self.config.snapshot_on_exit and self._channel is not None:
                await asyncio.to_thread(self._snapshotter.try_snapshot, self.session)
        finally:
            await self._link.end()
            await (self.session.aclose() if self._channel is None else self._channel.close())
            await asyncio.to_thread(self._on_close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _end_turns(self) -> None:
        self._handover.stop()
        if self._turn is not None:
            await self._turn.aclose()
            with contextlib.suppress(TimeoutError, HoldfastError):
                ended = asyncio.shield(self._turn.ended)
                await asyncio.wait_for(ended, self.config.cancel_timeout_s)
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        if self._channel is not None and self._channel.prompts:
            await self._cut_off("the session was closed")
        closed = AgentError("the session was closed", session_id=self.id)
        if self._turn is not None:
            await self._turn.fail(closed)
        while not self._prompts.empty():
            await self._prompts.get_nowait().fail(closed)

    # -- turns -----------------------------------------------------------------------------------
    async def _work(self) -> None:
        while not self._closing:
            turn = await self._prompts.get()
            if turn.cancelled.is_set():
                await turn.end("cancelled")
                continue
            self._turn = turn
            try:
                await self._run(turn)
            except HoldfastError as error:
                await turn.fail(error)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, whatever it is
                defect = AgentError(f"the prompt failed: {type(error).__name__}: {error}")
                defect.__cause__ = error
                await turn.fail(defect)
            self._turn = None
            if self.config.persists:
                self._snapshotter.snapshot_soon(self.session)

    async def _run(self, turn: PromptTurn) -> None:
        await self._ready()
        channel = self._channel
        assert channel is not None  # made by _ready
        # Wait until the agent's replay is over; what it lacks is sent with the prompt.
        missing = await tell_missing(self._library, channel, self.config.window_tokens, self._waits)
        if missing is not None:
            part = "this conversation" if missing.is_all else "the end of this conversation"
            what = f"{self._link.name} has lost {part}"
            self.warn(AgentError(what, remedy="It is told with the prompt.", session_id=self.id))
        told, channel.told = channel.told, []
        params = {"sessionId": channel.agent_id, "prompt": turn.prompt}
        frame = rpc.request(0, "session/prompt", params)
        for note in told:
            brief = {"told": f"{note[:200]}…", "characters": len(note)}
            channel.note(("frame", {"direction": "holdfast", "frame": brief}))
        channel.hold(channel.notes.client(frame))
        await channel.settle()
        sent = [{"type": "text", "text": note} for note in told] + turn.prompt
        try:
            self._link.ask("session/prompt", {**params, "prompt": sent}, partial(self._answered, turn, frame))
        except AgentGone as error:
            await self._cut_off(error.message)
            return
        channel.prompts[_TURN] = None
        # It may have been cancelled while the agent was started, when there was nobody to tell.
        if turn.cancelled.is_set():
            self._stop(turn)
        await asyncio.wait({turn.ended})

    def _answered(self, turn: PromptTurn, frame: Frame, answer: Frame) -> None:
        if self._channel is None or answer.get("agentGone"):
            return  # told by _mourn
        self._channel.hold(self._channel.notes.answer(frame, answer, "agent"))
        # The end is published with its batch, after everything before it is recorded and handed over.
        self._channel.prompts.clear()
        self._ending.append((turn, answer))

    def _stop(self, turn: PromptTurn) -> None:
        if turn is self._turn and self._channel is not None and self._channel.prompts:
            self._link.tell("session/cancel", {"sessionId": self._channel.agent_id})

    # -- what the agent says ---------------------------------------------------------------------
    def _hear(self, frame: Frame) -> None:
        """Handle one frame, in wire order. Its records are held until the batch is read."""
        channel, update = self._channel, rpc.member(frame, "params", "update")
        is_update = frame["method"] == "session/update" and isinstance(rpc.member(update, "sessionUpdate"), str)
        if channel is None:
            # Before there is a session, an agent has nothing to ask for.
            if "id" in frame:
                error = RpcError(rpc.METHOD_NOT_FOUND, f"no such method: {frame['method']}")
                self._link.send(rpc.error_frame(frame["id"], error))
        elif is_update and "id" not in frame:
            self._hear_update(channel, frame, update)
        else:
            channel.hold(channel.notes.agent(frame))
            if "id" in frame:
                self._asked.append(frame)

    def _hear_update(self, channel: Channel, frame: Frame, update: Frame) -> None:
        id, kind = frame["params"].get("sessionId"), update["sessionUpdate"]
        if channel.agent_id is None and id != channel.known_id:
            self._early.keep(str(id), frame)
        elif channel.agent_id is not None and id != channel.agent_id:
            return  # of a session that is not ours
        elif channel.swallowing and kind in CONVERSATION:
            channel.hear_replay(update)
        else:
            channel.hold(channel.notes.agent(frame))
            self._handover.put(Update(kind, update), channel.said)

    async def _pass_on(self) -> None:
        """Hand over the recorded updates, answer requests, and end the turn."""
        async with self._handover.lock:
            ending, self._ending = self._ending, []
            asked, self._asked = self._asked, []
            channel = self._channel
            if channel is None:
                return
            try:
                await channel.settle()
                if ending or asked:
                    channel.session.record_held()  # someone waits for what comes after it
            except StoreError as error:
                await self._give_up(channel, error)
                return
            await self._handover.give(channel)
            for turn, answer in ending:
                await self._end(turn, answer)
            for frame in asked:
                task = asyncio.ensure_future(self._serve(channel, frame))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)

    async def _give_up(self, channel: Channel, error: StoreError) -> None:
        """Stop the agent: nothing can be recorded, and its further work would go unseen."""
        channel.prompts.clear()
        if self._turn is not None:
            self._link.tell("session/cancel", {"sessionId": channel.agent_id})
            await self._turn.fail(error)

    async def _end(self, turn: PromptTurn, answer: Frame) -> None:
        result = answer.get("result")
        if isinstance(result, dict):
            self.breaker.worked()
            await turn.end(rpc.text_in(result, "stopReason") or "unknown", dict(rpc.object_in(result, "usage")))
        else:
            error = answer.get("error")
            message = rpc.member(error, "message") if isinstance(error, dict) else error
            await turn.fail(self._failed(RpcError(0, f"the agent failed: {message}")))

    async def _serve(self, channel: Channel, frame: Frame) -> None:
        cancelled = self._turn.cancelled if self._turn is not None else asyncio.Event()
        try:
            answer = rpc.response(
                frame["id"], await self._requests.answer(frame["method"], frame.get("params"), cancelled)
            )
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            answer = rpc.error_frame(frame["id"], rpc.as_rpc_error(error))
        channel.hold(channel.notes.answer(frame, answer, "client"))
        try:
            await channel.settle()
        except StoreError as error:
            await self._give_up(channel, error)
        else:
            self._link.send(answer)
            await self._link.drain()

    async def _mourn(self, reason: str) -> None:
        for task in list(self._serving):
            task.cancel()
        channel = self._channel
        if channel is None:
            return
        channel.agent_id, channel.doubtful = None, True
        if channel.prompts:
            await self._cut_off(reason)

    async def _cut_off(self, reason: str) -> None:
        """Record that the turn will never be answered, and notify its waiters."""
        channel, turn = self._channel, self._turn
        if channel is not None:
            channel.cut_off(reason)
            with contextlib.suppress(StoreError):
                await channel.settle()
        self._handover.give_last()
        if turn is not None:
            await turn.fail(self._failed(AgentGone(reason)))

    # -- the agent gets the session --------------------------------------------------------------
    async def _ready(self) -> None:
        """Return once the agent runs and has the session."""
        try:
            if self._channel is None:
                await self._link.greet(self._requests.greeting())
                self._channel = Channel(self._library, self.session, self._link.name, self._params)
                self._channel.look_back()
            else:
                await self._link.ready()
            if self._channel.agent_id is None:
                await self._attach(self._channel)
        except RpcError as error:
            raise self._failed(error) from error
        except TimeoutError as error:
            self.breaker.failed()
            raise AgentError("the agent did not answer in time") from error

    def _failed(self, error: RpcError) -> AgentError:
        if self._link.alive:  # a death counts by itself
            self.breaker.failed()
        remedy = "The session is intact; ask again to start the agent once more."
        if self.breaker.wait_s:
            remedy = f"The session is intact; wait {self.breaker.wait_s:.0f} s, then ask again."
        return AgentError(error.message, remedy=remedy, session_id=self.id)

    async def _attach(self, channel: Channel) -> None:
        known, has_past = channel.known_id, channel.has_past
        can_go_on = bool(self._link.can.get("loadSession")) or self._link.advertises("resume")
        if has_past and not can_go_on:
            self._complain(channel, "it does not say that it can", ())
        names: set[str] = set()
        with self._early.expecting(names):
            taken = await attach(self._link, self._params, self._waits, channel, known)
            if taken.how == "new" and has_past and can_go_on:
                why = "it has no session of its own for this one" if known is None else "it failed"
                self._complain(channel, why, taken.failures)
            self._describe(channel)
            channel.attached(self._link.name, taken)
            names.add(taken.agent_id)
        await channel.settle()
        self.attached = taken.how
        if taken.how == "new" and has_past:
            self.attached = "primed"
            await tell_whole_past(self._library, channel, self.config.window_tokens)

    def _take_early(self, frames: list[Frame]) -> None:
        """Process messages about the session that arrived before its id was known."""
        channel = self._channel
        for frame in frames:
            if channel is not None and channel.agent_id == frame["params"].get("sessionId") is not None:
                channel.hold(channel.notes.agent(frame))

    def _complain(self, channel: Channel, why: str, failures: tuple[str, ...]) -> None:
        """Raise or warn, as configured, because the agent starts a new session."""
        detail = f" ({'; '.join(failures)})" if failures else ""
        error = AgentNoLoadSupport(
            f"{self._link.name} cannot go on with its own session: {why}{detail}",
            remedy="It is given the conversation so far with the next prompt.",
            session_id=self.id,
        )
        if self.config.on_no_load == "raise":
            raise error
        channel.note(("frame", {"direction": "holdfast", "frame": {"warning": error.message}}))
        self.warn(error)

    def warn(self, error: HoldfastError) -> None:
        """Keep a warning, and tell it as the configuration says."""
        self.warnings.append(error)
        if self.config.on_warning is not None:
            self.config.on_warning(error)
        else:
            python_warnings.warn(str(error), AgentWarning, stacklevel=2)

    def _describe(self, channel: Channel) -> None:
        """Record once where the session works and with what; never the values of secrets."""
        state = self.session.live_state
        metadata = channel.description(self.provider.command, self.agent_info)
        if any(state.metadata.get(name) != value for name, value in metadata.items()):
            channel.note(("metadata", metadata))
        config = {"provider": self.provider.type, **self.config.recorded()}
        if any(state.config.get(name) != value for name, value in config.items()):
            channel.note(("config", config))


def _blocks(prompt: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise UsageError("the prompt is empty")
        return [{"type": "text", "text": prompt}]
    if not prompt or not all(isinstance(block, dict) and "type" in block for block in prompt):
        raise UsageError("a prompt is a text, or a list of content blocks")
    return prompt
