"""The configuration of an external agent: which one, how, and what it may request."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import RpcError
from holdfast.errors import Forbidden, HoldfastError, NotFound, UsageError
from holdfast.model import VERSION
from holdfast.session import Resume

_FILE_BYTES_MAX = 16 << 20
_CANCELLED = {"outcome": {"outcome": "cancelled"}}
_KINDS = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always")}


class PermissionQuestion(msgspec.Struct, frozen=True):
    """A tool that the agent wants to use, and what may be answered."""

    tool_call: dict[str, Any]
    options: list[dict[str, Any]]

    @property
    def title(self) -> str:
        """Return the description of the pending call, in the agent's words."""
        return str(self.tool_call.get("title") or self.tool_call.get("kind") or "a tool")

    def option(self, decision: str) -> str | None:
        """Return the id of the narrowest option that says ``allow`` or ``deny``; None if none does."""
        by_kind = {option.get("kind"): str(option.get("optionId")) for option in reversed(self.options)}
        return next((by_kind[kind] for kind in _KINDS[decision] if kind in by_kind), None)


class FileHandler(Protocol):
    """Gives an agent files. Raises HoldfastError for what it does not give."""

    writes: bool

    def read(self, path: str) -> str:
        """Return the text of a file."""

    def write(self, path: str, content: str) -> None:
        """Write a file."""


class TerminalHandler(Protocol):
    """Runs commands for an agent: the ``terminal/*`` methods of the protocol."""

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Run ``create``, ``output``, ``wait_for_exit``, ``kill`` or ``release``, and return its result."""


class Files:
    """The files below one directory, and none besides: no ``..``, no symlink leads out of it.

    They are only read unless ``writes`` is set. What is written replaces a file whole, and can be
    read by its owner alone.
    """

    def __init__(self, root: str, *, writes: bool = False) -> None:
        from holdfast.storage import Folder

        self._folder = Folder(root)
        self.writes = writes

    def read(self, path: str) -> str:
        """Return the text of a file. Raises NotFound, Forbidden, TooLarge."""
        return self._folder.read(path, _FILE_BYTES_MAX).decode("utf-8", "replace")

    def write(self, path: str, content: str) -> None:
        """Write a file; its folder must be there. Raises Forbidden, NotFound, StoreError."""
        from holdfast.storage import place_file

        if not self.writes:
            raise Forbidden("files may only be read here", remedy="Allow writing to the agent.")
        whole = os.path.normpath(os.path.join(self._folder.root, path))
        # An agent may have made a link in the midst of the path since it was last looked at: every step to the folder
        # is taken once without following symlinks.
        relative = os.path.relpath(os.path.dirname(whole), self._folder.root)
        self._folder.names(relative if not relative.startswith(os.pardir) else path)
        if os.path.islink(whole):
            raise Forbidden(f"{path} is a symlink, which is not followed", remedy="Name a file.")
        place_file(whole, [content.encode()], overwrite=True)


class Requests:
    """Answers what agents ask."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    def greeting(self) -> dict[str, Any]:
        """Return the params of ``initialize``: what is offered is only what there is a handler for."""
        files = self._config.files
        offered = {
            "fs": {"readTextFile": files is not None, "writeTextFile": files is not None and files.writes},
            "terminal": self._config.terminal is not None,
        }
        about = {"name": "holdfast", "version": VERSION}
        return {"protocolVersion": 1, "clientCapabilities": offered, "clientInfo": about}

    async def answer(self, method: str, params: Any, cancelled: asyncio.Event) -> Any:
        """Return the result. Raises RpcError."""
        if not isinstance(params, dict):
            raise RpcError(rpc.INVALID_PARAMS, "params must be an object")
        if method == "session/request_permission":
            return await self._permit(params, cancelled)
        if method in ("fs/read_text_file", "fs/write_text_file"):
            return await asyncio.to_thread(self._use_files, method, params)
        terminal = self._config.terminal
        if method.startswith("terminal/") and terminal is not None:
            return await terminal.call(method.removeprefix("terminal/"), params)
        raise RpcError(rpc.METHOD_NOT_FOUND, f"no such method: {method}")

    async def _permit(self, params: dict[str, Any], cancelled: asyncio.Event) -> dict[str, Any]:
        if not isinstance(params.get("options"), list):
            raise RpcError(rpc.INVALID_PARAMS, "options must be a list")
        request = PermissionQuestion(rpc.object_in(params, "toolCall"), rpc.objects_in(params, "options"))
        asking = asyncio.ensure_future(self._decide(request))
        stopping = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            # When the turn ends while somebody decides, no answer counts any more.
            option = None if stopping.done() else asking.result()
        finally:
            asking.cancel()
            stopping.cancel()
        if option not in {one.get("optionId") for one in request.options}:
            return _CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": option}}

    async def _decide(self, request: PermissionQuestion) -> str | None:
        wish = self._config.permission
        if isinstance(wish, str):
            return request.option(wish)
        if inspect.iscoroutinefunction(wish):
            found = await wish(request)
        else:
            found = await asyncio.to_thread(wish, request)  # it may ask a person
            if inspect.isawaitable(found):
                found = await found
        return found if isinstance(found, str) else None

    def _use_files(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        files, path = self._config.files, params.get("path")
        if files is None or (method == "fs/write_text_file" and not files.writes):
            raise RpcError(rpc.METHOD_NOT_FOUND, f"no such method: {method}")
        if not isinstance(path, str) or not os.path.isabs(path):
            raise RpcError(rpc.INVALID_PARAMS, "path must be an absolute path")
        try:
            if method == "fs/read_text_file":
                return {"content": _lines(files.read(path), params)}
            content = params.get("content")
            if not isinstance(content, str):
                raise RpcError(rpc.INVALID_PARAMS, "content must be a text")
            files.write(path, content)
        except NotFound as error:
            raise RpcError(rpc.NOT_FOUND, error.message) from error
        except HoldfastError as error:
            raise RpcError(rpc.INTERNAL, error.message, {"code": error.code}) from error
        return {}


def _lines(text: str, params: Mapping[str, Any]) -> str:
    """Return the lines that were asked for: from ``line`` on (counted from 1), at most ``limit``."""
    line, limit = params.get("line"), params.get("limit")
    if not isinstance(line, int) and not isinstance(limit, int):
        return text
    start = max(1, line if isinstance(line, int) else 1) - 1
    stop = start + max(0, limit) if isinstance(limit, int) else None
    return "".join(text.splitlines(keepends=True)[start:stop])


SNAPSHOT_INTERVAL_S = 300.0

Permission = str | Callable[["PermissionQuestion"], str | Awaitable[str | None] | None]
"""``deny``, ``allow``, or a function that gives the id of the option to take, or None."""

_CUSTOM = ("enable_persistence", "snapshot_interval")


class Provider(msgspec.Struct, frozen=True):
    """An agent that speaks the protocol on its standard input and output."""

    command: tuple[str, ...]
    type: str = ""
    """The name of the agent in sessions; by default the name of its program."""
    env: dict[str, str] = {}
    """Added to this process's environment. Never recorded."""

    def __post_init__(self) -> None:
        if not self.command or not all(isinstance(word, str) and word for word in self.command):
            raise UsageError("an agent's command is a list of words", remedy="Name its program.")
        if not self.type:
            msgspec.structs.force_setattr(self, "type", os.path.basename(self.command[0]))

    @classmethod
    def of(cls, given: Provider | str | Sequence[str]) -> Provider:
        """Return a provider, a command line as in a shell, or the words of one. Raises UsageError."""
        if isinstance(given, Provider):
            return given
        if not isinstance(given, str):
            return cls(tuple(given))
        try:
            return cls(tuple(shlex.split(given)))
        except ValueError as error:
            raise UsageError(f"the agent's command cannot be read: {error}") from error


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of sessions with external agents. Times are seconds."""

    cwd: str | None = None
    """The working directory: absolute; the recorded one on resume, else this process's."""
    mcp_servers: Sequence[Mapping[str, Any]] | None = None
    """Servers in the form of the protocol; None on resume uses the recorded ones, without their secrets."""
    additional_directories: Sequence[str] = ()
    resume: Resume = "auto"
    """``auto``; ``always``: NotFound if nothing is stored; ``never``: UsageError if there is."""
    on_no_load: str = "warn"
    """An agent that cannot go on with its own session: ``warn`` and prime a new one, or ``raise``
    AgentNoLoadSupport."""
    window_tokens: int = 24_000
    """The most tokens of the conversation that a new agent session gets."""

    permission: Permission = "deny"
    files: FileHandler | None = None
    terminal: TerminalHandler | None = None
    on_warning: Callable[[HoldfastError], None] | None = None
    """Called with every warning; without it, Python's ``warnings`` tell it."""

    enable_persistence: bool = False
    snapshot_interval: float = SNAPSHOT_INTERVAL_S
    snapshot_on_exit: bool = True
    snapshot_storage_path: str | None = None
    max_snapshots_per_session: int = 10
    custom: Mapping[str, Any] = {}
    """For one session: ``enable_persistence`` and ``snapshot_interval`` here win over the above."""

    input_buffer: int = 10
    event_buffer: int = 100
    attach_timeout_s: float = 60.0
    """For ``session/resume``, ``session/load`` and ``session/new``."""
    quiet_s: float = 0.3
    """A replay is over when nothing came for this time: some agents replay after their answer."""
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
        """Return whether snapshots are taken: the session's own setting, else the general one."""
        return bool(self.custom.get("enable_persistence", self.enable_persistence))

    @property
    def interval_s(self) -> float:
        """Seconds between automatic snapshots."""
        return float(self.custom.get("snapshot_interval", self.snapshot_interval))

    def recorded(self) -> dict[str, Any]:
        """Return the settings to record in the log."""
        return {
            "enable_persistence": self.persists,
            "snapshot_interval": self.interval_s,
            "snapshot_on_exit": self.snapshot_on_exit,
            "max_snapshots_per_session": self.max_snapshots_per_session,
        }


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} {value!r} is none of {', '.join(allowed)}")
