"""The agent of a session: started, given the session, and told what it has lost."""

from __future__ import annotations

import asyncio
import time
import warnings as python_warnings
from typing import Any

from holdfast.apps.acp._attaching import Waits, attach, be_quiet
from holdfast.apps.acp._breaker import Breaker
from holdfast.apps.acp._channel import Channel, known_agent_id, was_left_open
from holdfast.apps.acp._client_config import ClientConfig, Provider
from holdfast.apps.acp._client_requests import Requests
from holdfast.apps.acp._link import AgentLink
from holdfast.apps.acp._missing import Heard, missing_end
from holdfast.apps.acp._recording import mask_servers
from holdfast.apps.acp._telling import transcript_note
from holdfast.apps.wire.frames import Frame, RpcError
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError, AgentNoLoadSupport, HoldfastError
from holdfast.library import Holdfast
from holdfast.model import VERSION
from holdfast.session import Session

__all__ = ["AgentWarning", "Attaching"]

_PROTOCOL = 1
_EARLY_MAX = 1000


class AgentWarning(UserWarning):
    """An agent could not do what was asked of it, and something else was done."""


class Attaching:
    """The part of a session that sees to it that the agent runs and has the session."""

    def __init__(
        self,
        library: Holdfast,
        session: Session,
        *,
        provider: Provider,
        config: ClientConfig,
        params: dict[str, Any],
    ) -> None:
        self.id = session.id
        self.provider = provider
        self.config = config
        self.warnings: list[HoldfastError] = []
        """What the user should know: that an agent could not go on by itself, for example."""
        self.attached = ""
        """How the agent got the session: ``new``, ``resume``, ``load`` or ``primed``."""
        self.breaker = Breaker()
        self._library = library
        self._session = session
        self._params = params
        self._requests = Requests(config)
        self._waits = Waits(
            config.attach_timeout_s,
            config.attach_timeout_s,
            config.quiet_s,
            config.quiet_timeout_s,
        )
        self._channel: Channel | None = None
        self._early: list[Frame] = []
        self._heard: Heard | None = None
        self._link: AgentLink

    @property
    def acp_session_id(self) -> str | None:
        """The agent's own id for it, which is not ours."""
        return None if self._channel is None else self._channel.known_id

    @property
    def agent_info(self) -> dict[str, Any]:
        """What the agent says of itself: name, version."""
        info = self._link.hello.get("agentInfo")
        return dict(info) if isinstance(info, dict) else {}

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the agent says that it can do."""
        return dict(self._link.can)

    async def _launch(self) -> AgentProcess:
        return await AgentProcess.start(
            self.provider.command, cwd=self._params["cwd"], env=self.provider.env
        )

    async def _ready(self) -> None:
        """Return once the agent runs and has the session."""
        try:
            if self._channel is None:
                await self._link.greet(
                    {
                        "protocolVersion": _PROTOCOL,
                        "clientCapabilities": self._requests.capabilities(),
                        "clientInfo": {"name": "holdfast", "version": VERSION},
                    }
                )
            else:
                await self._link.ready()
            channel = self._channel or self._open_channel()
            if channel.agent_id is None:
                await self._attach(channel)
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

    def _open_channel(self) -> Channel:
        channel = Channel(self._library, self._session, self._link.name, self._params)
        if self._session.restored:
            channel.known_id = known_agent_id(self._library, self.id, self._link.name)
            channel.doubtful = was_left_open(self._library, self.id)
        self._channel = channel
        return channel

    async def _attach(self, channel: Channel) -> None:
        known, has_past = channel.known_id, bool(self._session.live_state.message_count)
        channel.swallowing, channel.heard_at = known is not None, time.monotonic()
        self._heard = Heard()
        if has_past and not self._can_go_on():
            self._complain(channel, "it does not say that it can", ())
        taken = await attach(
            self._link,
            self._params,
            known_id=known,
            replayed=lambda: channel.swallowed,
            expects_replay=has_past,
            doubtful=channel.doubtful,
            waits=self._waits,
        )
        if taken.how == "new" and has_past and self._can_go_on():
            why = "it has no session of its own for this one" if known is None else "it failed"
            self._complain(channel, why, taken.failures)
        channel.swallowing, channel.doubtful = taken.how == "load", False
        if taken.how != "load":
            self._heard = None  # there is no replay that would have to be whole
        channel.agent_id = channel.known_id = taken.agent_id
        self._describe(channel)
        link = {"kind": "acp", "id": taken.agent_id, "agent": self._link.name, "how": taken.how}
        channel.note(("link", link))
        self._take_early(channel)
        await channel.settle()
        self.attached = taken.how
        if taken.how == "new" and has_past:
            self.attached = "primed"
            await self._prime(channel)

    def _keep_early(self, frame: Frame) -> None:
        """Some agents tell of their commands before we know how they call the session."""
        if len(self._early) < _EARLY_MAX:
            self._early.append(frame)

    def _take_early(self, channel: Channel) -> None:
        early, self._early = self._early, []
        for frame in early:
            if frame["params"].get("sessionId") == channel.agent_id:
                channel.hold(channel.notes.agent(frame))

    def _can_go_on(self) -> bool:
        return bool(self._link.can.get("loadSession")) or self._link.advertises("resume")

    def _complain(self, channel: Channel, why: str, failures: tuple[str, ...]) -> None:
        """Raise or warn, as the configuration says: the agent begins anew."""
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
        state = self._session.live_state
        about: Frame = {
            "agent": self.agent_info,
            "command": list(self.provider.command),
            "mcpServers": mask_servers(list(self._params["mcpServers"])),
        }
        if self._params.get("additionalDirectories"):
            about["additionalDirectories"] = list(self._params["additionalDirectories"])
        metadata = {"cwd": self._params["cwd"], "acp": about}
        if any(state.metadata.get(name) != value for name, value in metadata.items()):
            channel.note(("metadata", metadata))
        config = {"provider": self.provider.type, **self.config.recorded()}
        if any(state.config.get(name) != value for name, value in config.items()):
            channel.note(("config", config))

    async def _prime(self, channel: Channel) -> None:
        messages, cut = await self._past()
        if messages:
            channel.told.insert(0, transcript_note(messages, cut=cut))

    async def _end_replay(self, channel: Channel) -> None:
        """Wait until the agent's replay is through; what it lacks is told with the prompt."""
        if channel.swallowing:
            await be_quiet(lambda: channel.heard_at, self._waits)
            channel.swallowing = False
        heard, self._heard = self._heard, None
        if heard is None:
            return
        messages, cut = await self._past()
        lost = missing_end(messages, heard)
        if lost:
            whole = len(lost) == len(messages)
            note = transcript_note(lost, cut=whole and cut, end_only=not whole)
            channel.told.insert(0, note)
            part = "this conversation" if whole else "the end of this conversation"
            self.warn(
                AgentError(
                    f"{self._link.name} has lost {part}",
                    remedy="It is told with the prompt.",
                    session_id=self.id,
                )
            )

    async def _past(self) -> tuple[list[Frame], bool]:
        """What an agent can be told, and whether something is left out before it."""
        recovery = await asyncio.to_thread(
            self._library.recover, self.id, "neutral", "mark", self.config.window_tokens
        )
        cut = recovery.left_out is not None and bool(recovery.left_out.messages)
        return recovery.messages, cut
