"""The editor as its agent sees it: it lends files and terminals, and is asked for permission."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from holdfast.agent import plain_text
from holdfast.apps.acp.agent.params import ClientCapabilities
from holdfast.apps.wire.frames import RpcError
from holdfast.apps.wire.peer import Peer
from holdfast.errors import Forbidden, HoldfastError, TooLarge, UsageError
from holdfast.storage import Folder

__all__ = ["EditorAccess", "Finished"]

_FILE_CHARS_MAX = 1024 * 1024
_OUTPUT_BYTES_MAX = 256 * 1024
_GRACE_S = 5.0

Finished = dict[str, Any]
"""How a command ended: ``exit_code``, ``signal``, ``output``, ``truncated``, ``timed_out``."""


class EditorAccess:
    """What one session can reach through its editor: below ``root``, and nothing else."""

    def __init__(
        self, peer: Peer, capabilities: ClientCapabilities, session_id: str, root: str
    ) -> None:
        self._peer = peer
        self._session_id = session_id
        self.capabilities = capabilities
        self.root = root
        self._folder = Folder(root)

    def path(self, given: str) -> str:
        """The absolute path of something below the root. Raises Forbidden for anything else."""
        if not given or "\0" in given:
            raise UsageError("a path is a text without NUL")
        whole = os.path.normpath(os.path.join(self.root, given))
        real, root = os.path.realpath(whole), self._folder.root
        if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            raise Forbidden(
                f"{given} is outside of {self.root}", remedy="Name a path inside the project."
            )
        return whole

    async def read(self, given: str) -> str:
        """The text of a file: as the editor has it, with what is not saved yet, if it lends it."""
        path = self.path(given)
        if not self.capabilities.reads:
            data = await asyncio.to_thread(self._folder.read, self._relative(path), _FILE_CHARS_MAX)
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise UsageError(f"{given} is not text: {len(data):,} bytes") from None
        answer = await self._ask("fs/read_text_file", {"path": path})
        content = answer.get("content")
        if not isinstance(content, str):
            raise UsageError(f"the editor gave no text for {given}")
        if len(content) > _FILE_CHARS_MAX:
            raise TooLarge(f"{given} has more than {_FILE_CHARS_MAX:,} characters")
        return plain_text(content)

    async def read_if_there(self, given: str) -> str | None:
        """The text of a file; None if it is not there, or cannot be read, for whatever reason."""
        try:
            # Editors show their users what fails, so nothing is asked for that is not there.
            return await self.read(given) if self._is_there(given) else None
        except (HoldfastError, RpcError):
            return None

    async def names(self, given: str) -> list[str]:
        """What is in a directory; the names of directories end with a slash."""
        found = await asyncio.to_thread(self._folder.names, self._relative(self.path(given)))
        return [entry.name + "/" * entry.is_directory for entry in found]

    async def write(self, given: str, content: str) -> None:
        """Let the editor write a file."""
        await self._ask("fs/write_text_file", {"path": self.path(given), "content": content})

    async def start(self, line: str, directory: str) -> str:
        """Let the editor run a line of shell in a terminal; the terminal's id."""
        wish = {
            "command": "sh",
            "args": ["-c", line],
            "cwd": self.path(directory),
            "outputByteLimit": _OUTPUT_BYTES_MAX,
        }
        found = (await self._ask("terminal/create", wish)).get("terminalId")
        if not isinstance(found, str):
            raise UsageError("the editor opened no terminal")
        return found

    async def finish(self, terminal: str, timeout_s: float) -> Finished:
        """Wait for what runs in a terminal; after the time it is ended. The terminal is released.

        The same if the wait is cancelled: nothing goes on running.
        """
        this = {"terminalId": terminal}
        timed_out = False
        try:
            try:
                status = await asyncio.wait_for(
                    self._ask("terminal/wait_for_exit", this), timeout_s
                )
            except TimeoutError:
                timed_out = True
                await self._ask("terminal/kill", this)
                status = {}
            answer = await self._ask("terminal/output", this)
        except BaseException:
            await self._end(terminal, kill=True)
            raise
        await self._end(terminal, kill=False)
        status = answer.get("exitStatus") or status
        found: Finished = {"exit_code": None, "output": plain_text(str(answer.get("output", "")))}
        if isinstance(status, dict):
            found["exit_code"] = status.get("exitCode")
            found |= {"signal": status["signal"]} if status.get("signal") else {}
        found |= {"truncated": True} if answer.get("truncated") else {}
        return found | ({"timed_out": True} if timed_out else {})

    async def permission(self, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the user; what came back."""
        return await self._ask("session/request_permission", params)

    async def _end(self, terminal: str, *, kill: bool) -> None:
        for method in ("terminal/kill", "terminal/release") if kill else ("terminal/release",):
            with contextlib.suppress(RpcError, ConnectionError, TimeoutError):
                # Shielded from the cancellation that may be the reason for it.
                await asyncio.wait_for(self._ask(method, {"terminalId": terminal}), _GRACE_S)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._peer.request(method, {"sessionId": self._session_id, **params})
        return answer if isinstance(answer, dict) else {}

    def _is_there(self, given: str) -> bool:
        return os.path.exists(self.path(given))

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.root)
