"""The sessions of one proxied connection: opened, given to the agent, replayed, closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

from holdfast.apps.acp.handover import Attached, Waits, attach, tell_missing, tell_whole_past
from holdfast.apps.acp.link import AgentGone, AgentLink, Early
from holdfast.apps.acp.recording.channel import Channel, Ending, open_session
from holdfast.apps.acp.replay import tell_past
from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError
from holdfast.apps.wire.pipes import Pipe
from holdfast.errors import HoldfastError, InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import check_id
from holdfast.session import Session

_OWN = frozenset({"sessionId", "_meta"})


class ProxySessions:
    """Every session that this connection has open, by our id and by the agent's. ``shown`` empties the outbox."""

    def __init__(
        self,
        hf: Holdfast,
        agent: AgentLink,
        editor: Pipe,
        *,
        shown: Callable[[], Awaitable[None]],
        early: Early,
        command: list[str],
        waits: Waits,
        window_tokens: int,
    ) -> None:
        self._hf = hf
        self._agent = agent
        self._editor = editor
        self._shown = shown
        self._early = early
        self._command = command
        self._waits = waits
        self._window_tokens = window_tokens
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.by_id: dict[str, Channel] = {}
        self.by_agent: dict[str, Channel] = {}

    # -- opening ---------------------------------------------------------------------------------
    async def new(self, params: Frame) -> Channel:
        """Return a new session, on both sides. Raises RpcError."""
        if "cwd" not in params:
            raise RpcError(rpc.INVALID_PARAMS, "cwd is missing")
        await self._agent.ready()
        with self._early.expecting(self.by_agent):
            taken = await attach(self._agent, _for_agent(params), self._waits)
            session = await asyncio.to_thread(open_session, self._hf, None, resume="auto")
            channel = self._register(session, params)
            channel.muted = []  # the editor does not know the id yet
            async with self._or_closed(channel):
                about = channel.description(self._command, self._agent.hello.get("agentInfo"))
                channel.note(("metadata", about))
                self._attached(channel, taken)
        async with self._or_closed(channel):
            await channel.settle()
            await channel.session.abarrier()
        return channel

    @contextlib.asynccontextmanager
    async def _or_closed(self, channel: Channel) -> AsyncIterator[None]:
        """Close the session if the block fails."""
        try:
            yield
        except BaseException:
            await self.close(channel, tell_agent=None)
            raise

    def unmute(self, channel: Channel) -> None:
        """Send the editor what was kept back."""
        muted, channel.muted = channel.muted, None
        if muted:
            self._editor.write(b"".join(muted))

    async def get(self, params: Frame, *, looks: bool = True) -> Channel:
        """Return the session that a request names, opened if it is not yet. Raises RpcError.

        ``looks`` is whether the log is looked at for the agent that has the session.
        """
        id = session_id_of(params)
        async with self._alone(id):
            channel = self.by_id.get(id)
            if channel is None:
                session = await asyncio.to_thread(self._open, id)
                channel = self._register(session, self._params_of(session, params))
            # No await for a known session: a request from before it was closed has to enter its queue before that ends.
            if looks and not channel.is_looked_at:
                await asyncio.to_thread(channel.look_back)
        if "cwd" in params:
            channel.params = self._params_of(channel.session, params)
        return channel

    async def find(self, id: str) -> Channel | None:
        """Return the session that a notification names, if it is open or being opened."""
        async with self._alone(id):
            return self.by_id.get(id)

    def _alone(self, id: str) -> asyncio.Lock:
        """Return the lock on which frames about a session wait, in wire order, while it is being opened."""
        return self._opening.setdefault(id, asyncio.Lock())

    def _open(self, id: str) -> Session:
        with _known_session(id):
            return open_session(self._hf, check_id(id), resume="always")

    def _params_of(self, session: Session, params: Frame) -> Frame:
        """Return the parameters for the agent; omitted ones are taken from the record, without secrets."""
        recorded = session.live_state.metadata.get("cwd")
        return {"cwd": os.path.abspath(recorded if isinstance(recorded, str) else "."), "mcpServers": [], **params}

    def _register(self, session: Session, params: Frame) -> Channel:
        channel = Channel(self._hf, session, self._agent.name, params)
        self.by_id[session.id] = channel
        return channel

    # -- the agent's side ------------------------------------------------------------------------
    async def attach(self, channel: Channel) -> None:
        """Return once the agent has the session. Raises RpcError if it cannot get it."""
        async with channel.attaching:
            # A load and a prompt may both find that the agent lacks it; the first gives it.
            if channel.agent_id is not None and self._agent.alive:
                return
            await self._agent.ready()
            known, has_past = channel.known_id, channel.has_past
            if known is not None and self.by_agent.setdefault(known, channel) is not channel:
                known = None  # it counts from one again: that is another conversation now
            with self._early.expecting(self.by_agent):
                try:
                    taken = await attach(self._agent, _for_agent(channel.params), self._waits, channel, known)
                finally:
                    if known is not None and channel.agent_id is None:
                        self.by_agent.pop(known, None)
                self._attached(channel, taken)
            if taken.how == "new" and has_past:
                await self._prime(channel, taken)
            await channel.settle()
            await self._set_again(channel)

    def _attached(self, channel: Channel, taken: Attached) -> None:
        channel.attached(self._agent.name, taken)
        self.by_agent[taken.agent_id] = channel
        channel.commit()

    async def _prime(self, channel: Channel, taken: Attached) -> None:
        """Prepare the past for an agent without it: it is sent with the next prompt, and the user is informed now."""
        messages, is_cut = await tell_whole_past(self._hf, channel, self._window_tokens)
        if messages:
            why = f" ({'; '.join(taken.failures)})" if taken.failures else ""
            part = "the newest part of the conversation" if is_cut else "the conversation"
            about = f"{self._agent.name} could not take this session up again{why}."
            self.warn(channel, f"{about} It is told {part} with your next message.")

    async def _set_again(self, channel: Channel) -> None:
        """Set the modes and options that the user has chosen again for an agent that has lost them."""
        for setting in list(channel.settings.values()):
            try:
                params = {**setting["params"], "sessionId": channel.agent_id}
                await self._agent.request(setting["method"], params, timeout_s=self._waits.resume_s)
            except AgentGone:
                raise
            except (RpcError, TimeoutError, KeyError, TypeError):
                continue  # it may know that mode no more; nothing is lost by it

    async def before_prompt(self, channel: Channel) -> None:
        """Wait for a replay that is still running; after it the agent sends new messages."""
        missing = await tell_missing(self._hf, channel, self._window_tokens, self._waits)
        if missing is not None and missing.is_told:
            about = f"{self._agent.name} has lost the end of this conversation."
            self.warn(channel, f"{about} It is told with your message.")

    def warn(self, channel: Channel, text: str) -> None:
        """Tell the user something that neither side has said."""
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"[holdfast] {text}\n\n"}}
        told = {"sessionId": channel.id, "update": update, "_meta": {"holdfast": {"notice": True}}}
        frame = rpc.notification("session/update", told)
        channel.note(("frame", {"direction": "holdfast", "frame": frame}))
        (self._editor.write if channel.muted is None else channel.muted.append)(rpc.encode(frame))

    # -- the editor's side -----------------------------------------------------------------------
    async def replay(self, channel: Channel, params: Frame) -> Frame:
        """Send the editor what was said; where it began and ended, for the answer."""
        wish = _wish_of(params)  # refused before anything is waited for
        async with channel.replaying:
            await self._shown()  # else it would be told again by the past
            end = channel.session.seq + 1
            channel.muted = []  # before anything is waited for: what comes now comes after the past
            try:
                first, stop = (end, end) if wish.get("type") == "none" else (wish.get("seq", 0), end)
                if wish.get("before") is not None:
                    stop = min(stop, wish["before"])
                if "turns" in wish:
                    first = await asyncio.to_thread(self._begin_of, channel.id, wish["turns"])
                ending = Ending()
                await tell_past(
                    self._hf,
                    channel.session,
                    self._editor,
                    first=first,
                    stop=stop,
                    # A turn that is running has its tool calls open for good reason.
                    close_open=not channel.prompts,
                    marks=bool(wish),
                    watch=ending.take,
                )
                if first == 0 and stop == end:
                    channel.look_back(ending)  # all of it has passed by
                return {"first": first, "last": stop - 1, "earlier": first > 0}
            finally:
                self.unmute(channel)

    def _begin_of(self, id: str, turns: int) -> int:
        """Return where the newest turns begin."""
        newest = self._hf.events(id, types={"user"}, reverse=True, limit=turns)
        return min((event.seq for event in newest), default=0)

    async def fork(self, params: Frame) -> Channel:
        """Return a branch of a session, on both sides. Raises RpcError."""
        parent_id = session_id_of(params)
        at = rpc.member(params, "_meta", "holdfast", "at")
        if at is not None and not _is_count(at):
            raise RpcError(rpc.INVALID_PARAMS, "_meta.holdfast.at is the number of an event")
        with _known_session(parent_id):
            id = await asyncio.to_thread(self._hf.fork, check_id(parent_id), at)
        channel = await self.get({**params, "sessionId": id})
        channel.muted = []  # the editor does not know the id yet
        parent = self.by_id.get(parent_id)
        agent_id = None if parent is None else parent.agent_id
        try:
            async with self._or_closed(channel):
                if at is None and agent_id is not None and self._agent.advertises("fork"):
                    channel.known_id = await self._fork_at_agent(channel, agent_id)
                await self.attach(channel)
        except BaseException:
            with contextlib.suppress(HoldfastError):
                await asyncio.to_thread(self._hf.delete, id)  # nobody was told of it
            raise
        return channel

    async def _fork_at_agent(self, channel: Channel, agent_id: str) -> str | None:
        with self._early.expecting(self.by_agent):
            try:
                wish = {**_for_agent(channel.params), "sessionId": agent_id}
                answer = await self._agent.request("session/fork", wish, timeout_s=self._waits.load_s)
            except AgentGone:
                raise
            except (RpcError, TimeoutError):
                return None
            found = rpc.text_in(answer, "sessionId")
            if not found or found in self.by_agent:
                return None
            channel.listen_to_replay()
            self._attached(channel, Attached(found, "fork", answer))
            return found

    async def close(self, channel: Channel, *, tell_agent: str | None) -> None:
        """Give a session back; ``tell_agent`` is close or delete, where the agent knows it."""
        self.by_id.pop(channel.id, None)
        agent_id = channel.agent_id
        if agent_id is not None:
            self.by_agent.pop(agent_id, None)
            if tell_agent is not None and self._agent.alive and self._agent.advertises(tell_agent):
                about = {"sessionId": agent_id}
                with contextlib.suppress(RpcError, TimeoutError):  # our side is what counts
                    await self._agent.request(f"session/{tell_agent}", about, timeout_s=self._waits.resume_s)
        await channel.close()

    def agent_is_gone(self) -> None:
        """Forget which sessions the agent has, because it ended."""
        self.by_agent.clear()
        for channel in self.by_id.values():
            channel.doubtful = channel.doubtful or channel.agent_id is not None
            channel.agent_id = None


def session_id_of(params: Frame) -> str:
    """Return the session that a request is about. Raises RpcError if it names none."""
    id = rpc.text_in(params, "sessionId")
    if not id:
        raise RpcError(rpc.INVALID_PARAMS, "sessionId is missing")
    return id


@contextlib.contextmanager
def _known_session(id: str) -> Iterator[None]:
    """Report an id without a session in the protocol's words."""
    try:
        yield
    except (NotFound, InvalidId) as error:
        raise RpcError(rpc.NOT_FOUND, f"there is no session {id[:200]!r}") from error


def _for_agent(params: Frame) -> Frame:
    meta = {k: v for k, v in rpc.object_in(params, "_meta").items() if k != "holdfast"}
    found = {"mcpServers": [], **{k: v for k, v in params.items() if k not in _OWN}}
    return {**found, "_meta": meta} if meta else found


def _wish_of(params: Frame) -> Frame:
    """Return from where the editor wants the replay: all, none, from a place on, or its end. Raises RpcError."""
    wish = rpc.member(params, "_meta", "holdfast", "replayFrom")
    if wish is None:
        return {}
    needed = {"start": set[str](), "none": set[str](), "seq": {"seq"}, "tail": {"turns"}}.get(rpc.text_in(wish, "type"))
    if needed is None or not all(_is_count(wish.get(name)) for name in needed):
        told = "_meta.holdfast.replayFrom: type is start, none, seq (with seq) or tail (with turns)"
        raise RpcError(rpc.INVALID_PARAMS, told)
    if wish.get("before") is not None and not _is_count(wish["before"]):
        raise RpcError(rpc.INVALID_PARAMS, "_meta.holdfast.replayFrom.before is the number of an event")
    return {name: wish.get(name) for name in {"type", *needed} | ({"before"} if "seq" in needed else set())}


def _is_count(value: Any) -> bool:
    """Return whether a value can be the number of an event."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
