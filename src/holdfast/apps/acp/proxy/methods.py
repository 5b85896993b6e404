"""What the proxy serves itself, whatever the agent can do."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from holdfast.apps.acp.link import AgentLink
from holdfast.apps.acp.proxy.sessions import ProxySessions, session_id_of
from holdfast.apps.acp.recording.channel import Channel
from holdfast.apps.acp.session_list import list_sessions
from holdfast.apps.wire.frames import INVALID_PARAMS, Frame, RpcError
from holdfast.errors import InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import VERSION, check_id

__all__ = ["Method", "methods_of"]

Method = Callable[[Frame], Awaitable[Any]]
Stop = Callable[[Channel], Awaitable[None]]


def methods_of(
    hf: Holdfast, agent: AgentLink, sessions: ProxySessions, stop: Stop
) -> dict[str, Method]:
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
            "agentCapabilities": {
                **can,
                "loadSession": True,
                "sessionCapabilities": {**(offered or {}), **ours},
            },
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
        channel = await self._sessions.get(params)
        attaching = asyncio.ensure_future(self._sessions.attach(channel))
        try:
            told = await self._sessions.replay(channel, params) if replays else {}
        except BaseException:
            attaching.cancel()
            raise
        await attaching
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
