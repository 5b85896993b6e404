"""What an agent may ask of us: permission, files, terminals."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.apps.wire.frames import (
    INTERNAL,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NOT_FOUND,
    RpcError,
)
from holdfast.errors import Forbidden, HoldfastError, NotFound

if TYPE_CHECKING:
    from holdfast.apps.acp.client.config import ClientConfig

__all__ = ["FileHandler", "Files", "PermissionRequest", "Requests", "TerminalHandler"]

_FILE_BYTES_MAX = 16 << 20
_CANCELLED = {"outcome": {"outcome": "cancelled"}}
_KINDS = {
    "allow": ("allow_once", "allow_always"),
    "deny": ("reject_once", "reject_always"),
}


class PermissionRequest(msgspec.Struct, frozen=True):
    """A tool that the agent wants to use, and what may be answered."""

    tool_call: dict[str, Any]
    options: list[dict[str, Any]]

    @property
    def title(self) -> str:
        """What the tool is about to do, in the agent's words."""
        return str(self.tool_call.get("title") or self.tool_call.get("kind") or "a tool")

    def option(self, decision: str) -> str | None:
        """The id of the narrowest option that says ``allow`` or ``deny``; None if none does."""
        for kind in _KINDS[decision]:
            for option in self.options:
                if option.get("kind") == kind:
                    return str(option.get("optionId"))
        return None


class FileHandler(Protocol):
    """Gives an agent files. Raises HoldfastError for what it does not give."""

    writes: bool

    def read(self, path: str) -> str:
        """The text of a file."""

    def write(self, path: str, content: str) -> None:
        """Write a file."""


class TerminalHandler(Protocol):
    """Runs commands for an agent: the ``terminal/*`` methods of the protocol."""

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """``create``, ``output``, ``wait_for_exit``, ``kill`` or ``release``, and its result."""


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
        """The text of a file. Raises NotFound, Forbidden, TooLarge."""
        return self._folder.read(path, _FILE_BYTES_MAX).decode("utf-8", "replace")

    def write(self, path: str, content: str) -> None:
        """Write a file; its folder must be there. Raises Forbidden, NotFound, StoreError."""
        from holdfast.storage import place_file

        if not self.writes:
            raise Forbidden("files may only be read here", remedy="Allow writing to the agent.")
        whole = os.path.normpath(os.path.join(self._folder.root, path))
        name = os.path.basename(whole)
        self._check_way(os.path.dirname(whole), path)
        if os.path.islink(whole):
            raise Forbidden(f"{path} is a symlink, which is not followed", remedy="Name a file.")
        place_file(os.path.join(os.path.dirname(whole), name), [content.encode()], overwrite=True)

    def _check_way(self, folder: str, path: str) -> None:
        """Every step to the folder is taken once without following symlinks."""
        relative = os.path.relpath(folder, self._folder.root)
        self._folder.names(relative if not relative.startswith(os.pardir) else path)


class Requests:
    """Answers what agents ask."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config

    def capabilities(self) -> dict[str, Any]:
        """What is offered: only what there is a handler for."""
        files = self._config.files
        return {
            "fs": {
                "readTextFile": files is not None,
                "writeTextFile": files is not None and files.writes,
            },
            "terminal": self._config.terminal is not None,
        }

    async def answer(self, method: str, params: Any, cancelled: asyncio.Event) -> Any:
        """The result. Raises RpcError."""
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object")
        if method == "session/request_permission":
            return await self._permit(params, cancelled)
        if method in ("fs/read_text_file", "fs/write_text_file"):
            return await asyncio.to_thread(self._use_files, method, params)
        terminal = self._config.terminal
        if method.startswith("terminal/") and terminal is not None:
            return await terminal.call(method.removeprefix("terminal/"), params)
        raise RpcError(METHOD_NOT_FOUND, f"no such method: {method}")

    async def _permit(self, params: dict[str, Any], cancelled: asyncio.Event) -> dict[str, Any]:
        request = _permission_request(params)
        asking = asyncio.ensure_future(self._decide(request))
        stopping = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            option = None if stopping.done() else asking.result()
        finally:
            asking.cancel()
            stopping.cancel()
        if option not in {one.get("optionId") for one in request.options}:
            return _CANCELLED
        return {"outcome": {"outcome": "selected", "optionId": option}}

    async def _decide(self, request: PermissionRequest) -> str | None:
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
            raise RpcError(METHOD_NOT_FOUND, f"no such method: {method}")
        if not isinstance(path, str) or not os.path.isabs(path):
            raise RpcError(INVALID_PARAMS, "path must be an absolute path")
        try:
            if method == "fs/read_text_file":
                return {"content": _lines(files.read(path), params)}
            content = params.get("content")
            if not isinstance(content, str):
                raise RpcError(INVALID_PARAMS, "content must be a text")
            files.write(path, content)
        except NotFound as error:
            raise RpcError(NOT_FOUND, error.message) from error
        except HoldfastError as error:
            raise RpcError(INTERNAL, error.message, {"code": error.code}) from error
        return {}


def _permission_request(params: dict[str, Any]) -> PermissionRequest:
    call, options = params.get("toolCall"), params.get("options")
    if not isinstance(options, list):
        raise RpcError(INVALID_PARAMS, "options must be a list")
    known = [option for option in options if isinstance(option, dict)]
    return PermissionRequest(call if isinstance(call, dict) else {}, known)


def _lines(text: str, params: Mapping[str, Any]) -> str:
    """The lines that were asked for: from ``line`` on (counted from 1), at most ``limit``."""
    line, limit = params.get("line"), params.get("limit")
    if not isinstance(line, int) and not isinstance(limit, int):
        return text
    start = max(1, line if isinstance(line, int) else 1) - 1
    stop = start + max(0, limit) if isinstance(limit, int) else None
    return "".join(text.splitlines(keepends=True)[start:stop])
