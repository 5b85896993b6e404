"""The sessions of one proxied connection: opened, given to the agent, replayed, closed."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from holdfast.apps.acp.handover import WINDOW_TOKENS, Attached, Waits, attach, tell_missing, tell_whole_past
from holdfast.apps.acp.link import AgentGone, AgentLink, Early
from holdfast.apps.acp.recording.channel import Channel, Ending, open_session
from holdfast.apps.acp.replay import tell_past
from holdfast.apps.wire.frames import INVALID_PARAMS, NOT_FOUND, Frame, RpcError, encode, notification
from holdfast.apps.wire.pipes import Target
from holdfast.errors import HoldfastError, InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import check_id
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.apps.acp.proxy.server import Proxy

_OWN = frozenset({"sessionId", "_meta"})


class ProxySessions:
    """Every session that this connection has open, by our id and by the agent's."""

    def __init__(
        self,
        hf: Holdfast,
        agent: AgentLink,
        editor: Proxy,
        *,
        early: Early,
        command: list[str],
        waits: Waits,
        window_tokens: int = WINDOW_TOKENS,
    ) -> None:
        self._hf = hf
        self._agent = agent
        self._editor = editor
        self._early = early
        self._command = command
        self._waits = waits
        self._window_tokens = window_tokens
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.by_id: dict[str, Channel] = {}
        self.by_agent: dict[str, Channel] = {}

    # -- opening ---------------------------------------------------------------------------------

    async def new(self, params: Frame) -> Channel:
        """A new session, on both sides. Raises RpcError."""
        await self._agent.ready()
        with self._early.expecting(self.by_agent):
            taken = await attach(
                self._agent,
                _for_agent(params),
                known_id=None,
                replayed=lambda: 0,
                expects_replay=False,
                waits=self._waits,
            )
            session = await asyncio.to_thread(open_session, self._hf, None, resume="auto")
            channel = self._register(session, params)
            channel.muted = []  # the editor does not know the id yet
            async with self._or_closed(channel):
                info = self._agent.hello.get("agentInfo")
                channel.note(("metadata", channel.description(self._command, info)))
                self._attached(channel, taken)
        async with self._or_closed(channel):
            await channel.settle()
            await channel.session.abarrier()
        return channel

    @contextlib.asynccontextmanager
    async def _or_closed(self, channel: Channel) -> AsyncIterator[None]:
        """A session that cannot be had as it was asked for is not kept open."""
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
        """The session that a request names, opened if it is not yet. Raises RpcError.

        ``looks`` is whether the log is looked at for the agent that has the session.
        """
        id = session_id_of(params)
        async with self._alone(id):
            channel = self.by_id.get(id)
            if channel is None:
                session = await asyncio.to_thread(self._open, id)
                channel = self._register(session, self._params_of(session, params))
            # Nothing is awaited for a session that is known: whoever asked before it was closed has
            # to come into its queue before that ends.
            if looks and not channel.is_looked_at:
                await asyncio.to_thread(channel.look_back)
        if "cwd" in params:
            channel.params = self._params_of(channel.session, params)
        return channel

    async def find(self, id: str) -> Channel | None:
        """The session that a notification names, if it is open or being opened."""
        async with self._alone(id):
            return self.by_id.get(id)

    def _alone(self, id: str) -> asyncio.Lock:
        """Frames about a session that is being opened wait for it, in wire order."""
        return self._opening.setdefault(id, asyncio.Lock())

    def _open(self, id: str) -> Session:
        try:
            return open_session(self._hf, check_id(id), resume="always")
        except (NotFound, InvalidId) as error:
            raise RpcError(NOT_FOUND, f"there is no session {id[:200]!r}") from error

    def _params_of(self, session: Session, params: Frame) -> Frame:
        """What the agent needs; what the request leaves out was recorded, secrets apart."""
        recorded = session.live_state.metadata.get("cwd")
        found = {"cwd": os.path.abspath(recorded if isinstance(recorded, str) else "."), **params}
        if "mcpServers" not in found:
            found["mcpServers"] = []
        return found

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
            known = channel.known_id
            if known is not None and self.by_agent.get(known, channel) is not channel:
                known = None  # it counts from one again: that is another conversation now
            if known is not None:
                self._swallow(channel, known)
            has_past = bool(channel.session.live_state.message_count)
            with self._early.expecting(self.by_agent):
                try:
                    taken = await attach(
                        self._agent,
                        _for_agent(channel.params),
                        known_id=known,
                        replayed=lambda: channel.swallowed,
                        expects_replay=has_past,
                        doubtful=channel.doubtful,
                        waits=self._waits,
                    )
                finally:
                    if known is not None and channel.agent_id is None:
                        self.by_agent.pop(known, None)
                self._attached(channel, taken)
            if taken.how == "new" and has_past:
                await self._prime(channel, taken)
            await channel.settle()
            await self._set_again(channel)

    def _swallow(self, channel: Channel, agent_id: str) -> None:
        """What the agent says under this id is its replay, until the next prompt."""
        channel.listen_to_replay()
        self.by_agent[agent_id] = channel

    def _attached(self, channel: Channel, taken: Attached) -> None:
        channel.attached(self._agent.name, taken)
        self.by_agent[taken.agent_id] = channel
        channel.commit()

    async def _prime(self, channel: Channel, taken: Attached) -> None:
        """The agent has nothing of the past: it is told with the next prompt; the user is, now."""
        past = await tell_whole_past(self._hf, channel, self._window_tokens)
        if not past.messages:
            return
        why = f" ({'; '.join(taken.failures)})" if taken.failures else ""
        part = "the newest part of the conversation" if past.is_cut else "the conversation"
        self.warn(
            channel,
            f"{self._agent.name} could not take this session up again{why}. It is told {part} with your next message.",
        )

    async def _set_again(self, channel: Channel) -> None:
        """Modes and options that the user has chosen hold for an agent that forgot them, too."""
        for setting in list(channel.settings.values()):
            try:
                await self._agent.request(
                    setting["method"],
                    {**setting["params"], "sessionId": channel.agent_id},
                    timeout_s=self._waits.resume_s,
                )
            except AgentGone:
                raise
            except (RpcError, TimeoutError, KeyError, TypeError):
                continue  # it may know that mode no more; nothing is lost by it

    async def before_prompt(self, channel: Channel) -> None:
        """A replay that is still coming is waited for; from now on the agent speaks anew."""
        missing = await tell_missing(self._hf, channel, self._window_tokens, self._waits)
        if missing is not None and missing.is_told:
            self.warn(
                channel, f"{self._agent.name} has lost the end of this conversation. It is told with your message."
            )

    def warn(self, channel: Channel, text: str) -> None:
        """Tell the user something that neither side has said."""
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"[holdfast] {text}\n\n"}}
        frame = notification(
            "session/update", {"sessionId": channel.id, "update": update, "_meta": {"holdfast": {"notice": True}}}
        )
        channel.note(("frame", {"direction": "holdfast", "frame": frame}))
        if channel.muted is None:
            self._editor.send(frame)
        else:
            channel.muted.append(encode(frame))

    # -- the editor's side -----------------------------------------------------------------------

    async def replay(self, channel: Channel, params: Frame) -> Frame:
        """Send the editor what was said; where it began and ended, for the answer."""
        wish_of(params)  # refused before anything is waited for
        async with channel.replaying:
            await self._editor.shown()  # else it would be told again by the past
            last = channel.session.seq
            channel.muted = []  # before anything is waited for: what comes now comes after the past
            try:
                return await replay_as_wished(self._hf, channel, self._editor, params, last)
            finally:
                self.unmute(channel)

    async def fork(self, params: Frame) -> Channel:
        """A branch of a session, on both sides. Raises RpcError."""
        parent_id = session_id_of(params)
        at = our_meta(params).get("at")
        if at is not None and not is_count(at):
            raise RpcError(INVALID_PARAMS, "_meta.holdfast.at is the number of an event")
        try:
            id = await asyncio.to_thread(self._hf.fork, check_id(parent_id), at)
        except (NotFound, InvalidId) as error:
            raise RpcError(NOT_FOUND, f"there is no session {parent_id[:200]!r}") from error
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
                answer = await self._agent.request(
                    "session/fork", {**_for_agent(channel.params), "sessionId": agent_id}, timeout_s=self._waits.load_s
                )
            except AgentGone:
                raise
            except (RpcError, TimeoutError):
                return None
            found = answer.get("sessionId") if isinstance(answer, dict) else None
            if not isinstance(found, str) or found in self.by_agent:
                return None
            self._swallow(channel, found)
            self._attached(channel, Attached(found, "fork", answer))
            return found

    async def close(self, channel: Channel, *, tell_agent: str | None) -> None:
        """Give a session back; ``tell_agent`` is close or delete, where the agent knows it."""
        self.by_id.pop(channel.id, None)
        agent_id = channel.agent_id
        if agent_id is not None:
            self.by_agent.pop(agent_id, None)
            if tell_agent is not None and self._agent.alive and self._agent.advertises(tell_agent):
                try:
                    await self._agent.request(
                        f"session/{tell_agent}", {"sessionId": agent_id}, timeout_s=self._waits.resume_s
                    )
                except (RpcError, TimeoutError):
                    pass  # our side is what counts
        await channel.close()

    def agent_is_gone(self) -> None:
        """No session is with the agent any more."""
        self.by_agent.clear()
        for channel in self.by_id.values():
            channel.doubtful = channel.doubtful or channel.agent_id is not None
            channel.agent_id = None


def session_id_of(params: Frame) -> str:
    """The session that a request is about. Raises RpcError if it names none."""
    id = params.get("sessionId")
    if not isinstance(id, str) or not id:
        raise RpcError(INVALID_PARAMS, "sessionId is missing")
    return id


def _for_agent(params: Frame) -> Frame:
    given = params.get("_meta")
    meta = {k: v for k, v in given.items() if k != "holdfast"} if isinstance(given, dict) else {}
    found = {k: v for k, v in params.items() if k not in _OWN}
    found.setdefault("mcpServers", [])
    return {**found, "_meta": meta} if meta else found


# The past of a session as an editor asks for it: all, none, from a place on, or its end.


async def replay_as_wished(hf: Holdfast, channel: Channel, editor: Target, params: Frame, last: int) -> Frame:
    """Send what was said up to an event; where it began and ended, for the answer."""
    wish = wish_of(params)
    first, stop = _range(wish, last)
    if wish is not None and wish["type"] == "tail":
        first = await asyncio.to_thread(_begin_of, hf, channel.id, wish["turns"])
    ending = Ending()
    await tell_past(
        hf,
        channel.session,
        editor,
        first=first,
        stop=stop,
        # A turn that is running has its tool calls open for good reason.
        close_open=not channel.prompts,
        marks=wish is not None,
        watch=ending.take,
    )
    if first == 0 and stop == last + 1:
        channel.look_back(ending)  # all of it has passed by
    return {"first": first, "last": stop - 1, "earlier": first > 0}


def _range(wish: Frame | None, last: int) -> tuple[int, int]:
    kind = "start" if wish is None else wish["type"]
    if kind == "none":
        return last + 1, last + 1
    if kind == "seq":
        stop = wish.get("before") if wish else None
        return wish["seq"] if wish else 0, last + 1 if stop is None else min(stop, last + 1)
    return 0, last + 1


def _begin_of(hf: Holdfast, id: str, turns: int) -> int:
    """Where the newest turns begin."""
    newest = hf.events(id, types={"user"}, reverse=True, limit=turns)
    return min((event.seq for event in newest), default=0)


def our_meta(params: Frame) -> Frame:
    """What a request says to us and not to the agent."""
    meta = params.get("_meta")
    found = meta.get("holdfast") if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def wish_of(params: Frame) -> Frame | None:
    """From where the editor wants the replay; None if it did not say. Raises RpcError."""
    wish = our_meta(params).get("replayFrom")
    if wish is None:
        return None
    kind = wish.get("type") if isinstance(wish, dict) else None
    needed = {"start": (), "none": (), "seq": ("seq",), "tail": ("turns",)}.get(str(kind))
    if needed is None or not all(is_count(wish.get(name)) for name in needed):
        raise RpcError(
            INVALID_PARAMS, "_meta.holdfast.replayFrom: type is start, none, seq (with seq) or tail (with turns)"
        )
    if wish.get("before") is not None and not is_count(wish["before"]):
        raise RpcError(INVALID_PARAMS, "_meta.holdfast.replayFrom.before is the number of an event")
    found: Frame = wish
    return found


def is_count(value: Any) -> bool:
    """Whether a value can be the number of an event."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
