"""The agent of a session: started, given the session, and told what it has lost."""

from __future__ import annotations

import warnings as python_warnings
from typing import Any

from holdfast.apps.acp.catch_up import tell_missing, tell_whole_past
from holdfast.apps.acp.client.config import ClientConfig, Provider
from holdfast.apps.acp.client.requests import Requests
from holdfast.apps.acp.handover import Waits, attach
from holdfast.apps.acp.link import AgentLink, Breaker, Early
from holdfast.apps.acp.recording.channel import Channel, known_agent_id, was_left_open
from holdfast.apps.wire.frames import Frame, RpcError
from holdfast.apps.wire.pipes import AgentProcess
from holdfast.errors import AgentError, AgentNoLoadSupport, HoldfastError
from holdfast.library import Holdfast
from holdfast.model import VERSION
from holdfast.session import Session

__all__ = ["AgentWarning", "Attaching"]

_PROTOCOL = 1


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
        self._early = Early(self._take_early)
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
        if known is not None:
            channel.listen_to_replay()
        if has_past and not self._can_go_on():
            self._complain(channel, "it does not say that it can", ())
        names: set[str] = set()
        with self._early.expecting(names):
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
            self._describe(channel)
            channel.attached(self._link.name, taken)
            names.add(taken.agent_id)
        await channel.settle()
        self.attached = taken.how
        if taken.how == "new" and has_past:
            self.attached = "primed"
            await tell_whole_past(self._library, channel, self.config.window_tokens)

    def _take_early(self, frames: list[Frame]) -> None:
        """What the agent said of the session before we knew how it calls it."""
        channel = self._channel
        if channel is None or channel.agent_id is None:
            return
        for frame in frames:
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
        metadata = channel.description(self.provider.command, self.agent_info)
        if any(state.metadata.get(name) != value for name, value in metadata.items()):
            channel.note(("metadata", metadata))
        config = {"provider": self.provider.type, **self.config.recorded()}
        if any(state.config.get(name) != value for name, value in config.items()):
            channel.note(("config", config))

    async def _end_replay(self, channel: Channel) -> None:
        """Wait until the agent's replay is through; what it lacks is told with the prompt."""
        missing = await tell_missing(self._library, channel, self.config.window_tokens, self._waits)
        if missing is not None:
            part = "this conversation" if missing.is_all else "the end of this conversation"
            self.warn(
                AgentError(
                    f"{self._link.name} has lost {part}",
                    remedy="It is told with the prompt.",
                    session_id=self.id,
                )
            )
