"""Which agent a session is held with, and how."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import UsageError
from holdfast.session import Resume

if TYPE_CHECKING:
    from holdfast.apps.acp.client.requests import FileHandler, PermissionRequest, TerminalHandler
    from holdfast.errors import HoldfastError

__all__ = ["ClientConfig", "Permission", "Provider", "has_hidden"]

INPUT_BUFFER = 10
EVENT_BUFFER = 100
SNAPSHOT_INTERVAL_S = 300.0
SNAPSHOTS_KEPT = 10

Permission = str | Callable[["PermissionRequest"], str | Awaitable[str | None] | None]
"""``deny``, ``allow``, or a function that gives the id of the option to take, or None."""

_CUSTOM = ("enable_persistence", "snapshot_interval")


class Provider(msgspec.Struct, frozen=True):
    """An agent that speaks the protocol on its standard input and output."""

    command: tuple[str, ...]
    type: str = ""
    """What it is called in sessions; the name of its program if nothing is given."""
    env: dict[str, str] = {}
    """Added to this process's environment. Never recorded."""

    def __post_init__(self) -> None:
        if not self.command or not all(isinstance(word, str) and word for word in self.command):
            raise UsageError("an agent's command is a list of words", remedy="Name its program.")
        if not self.type:
            msgspec.structs.force_setattr(self, "type", os.path.basename(self.command[0]))

    @classmethod
    def of(cls, given: Provider | str | Sequence[str]) -> Provider:
        """A provider, a command line as in a shell, or the words of one. Raises UsageError."""
        if isinstance(given, Provider):
            return given
        if not isinstance(given, str):
            return cls(tuple(given))
        try:
            return cls(tuple(shlex.split(given)))
        except ValueError as error:
            raise UsageError(f"the agent's command cannot be read: {error}") from error


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions with external agents behave. Times are seconds."""

    cwd: str | None = None
    """The working directory: absolute; the recorded one on resume, else this process's."""
    mcp_servers: Sequence[Mapping[str, Any]] | None = None
    """As the protocol has them; None on resume takes the recorded ones, which have no secrets."""
    additional_directories: Sequence[str] = ()
    resume: Resume = "auto"
    """``auto``; ``always``: NotFound if nothing is stored; ``never``: UsageError if there is."""
    on_no_load: str = "warn"
    """An agent that cannot go on with its own session: ``warn`` and prime a new one, or ``raise``
    AgentNoLoadSupport."""
    window_tokens: int = 24_000
    """How much of the past a new agent session is told at most."""

    permission: Permission = "deny"
    files: FileHandler | None = None
    terminal: TerminalHandler | None = None
    on_warning: Callable[[HoldfastError], None] | None = None
    """Called with every warning; without it, Python's ``warnings`` tell it."""

    enable_persistence: bool = False
    snapshot_interval: float = SNAPSHOT_INTERVAL_S
    snapshot_on_exit: bool = True
    snapshot_storage_path: str | None = None
    max_snapshots_per_session: int = SNAPSHOTS_KEPT
    custom: Mapping[str, Any] = {}
    """For one session: ``enable_persistence`` and ``snapshot_interval`` here win over the above."""

    input_buffer: int = INPUT_BUFFER
    event_buffer: int = EVENT_BUFFER
    attach_timeout_s: float = 60.0
    """For ``session/resume``, ``session/load`` and ``session/new``."""
    quiet_s: float = 0.3
    """A replay is over when nothing came for so long: some agents replay after their answer."""
    quiet_timeout_s: float = 30.0
    cancel_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        _one_of("resume", self.resume, ("auto", "always", "never"))
        _one_of("on_no_load", self.on_no_load, ("warn", "raise"))
        if isinstance(self.permission, str):
            _one_of("permission", self.permission, ("allow", "deny"))
        if self.cwd is not None and not os.path.isabs(self.cwd):
            raise UsageError(f"cwd must be an absolute path, not {self.cwd!r}")
        for name in ("input_buffer", "event_buffer", "max_snapshots_per_session"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in self.custom:
            _one_of("a custom key", name, _CUSTOM)
        if self.persists and self.interval_s <= 0:
            raise UsageError(f"snapshot_interval must be more than 0, not {self.interval_s}")

    @property
    def persists(self) -> bool:
        """Whether snapshots are taken: what the session's own key says, else the general one."""
        return bool(self.custom.get("enable_persistence", self.enable_persistence))

    @property
    def interval_s(self) -> float:
        """Seconds between automatic snapshots."""
        return float(self.custom.get("snapshot_interval", self.snapshot_interval))

    def recorded(self) -> dict[str, Any]:
        """What of it belongs into the log."""
        return {
            "enable_persistence": self.persists,
            "snapshot_interval": self.interval_s,
            "snapshot_on_exit": self.snapshot_on_exit,
            "max_snapshots_per_session": self.max_snapshots_per_session,
        }


def has_hidden(server: Mapping[str, Any]) -> bool:
    """Whether a recorded server cannot be started again from what was recorded."""
    return bool(server.get("env") or server.get("headers"))


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} {value!r} is none of {', '.join(allowed)}")
