"""The editor of our agent: what it asks for, what it lends, and what its user may decide."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from holdfast.agent import Kit, Scope, plain_text
from holdfast.apps.acp.recording.values import clean, prompt_content
from holdfast.apps.wire.frames import INVALID_PARAMS, RpcError, object_in
from holdfast.apps.wire.peer import Peer
from holdfast.errors import Forbidden, HoldfastError, TooLarge, UsageError
from holdfast.storage import Folder


class FileCapabilities(msgspec.Struct, frozen=True, rename="camel"):
    """The files that an editor lets its agent use."""

    read_text_file: bool | None = False
    write_text_file: bool | None = False


class ClientCapabilities(msgspec.Struct, frozen=True):
    """The capabilities that an editor offers to its agent."""

    fs: FileCapabilities | None = None
    terminal: bool | None = False

    @property
    def reads(self) -> bool:
        """Return whether files are read through the editor."""
        return self.fs is not None and bool(self.fs.read_text_file)

    @property
    def writes(self) -> bool:
        """Return whether files are written through the editor."""
        return self.fs is not None and bool(self.fs.write_text_file)


class Initialize(msgspec.Struct, frozen=True, rename="camel"):
    """The first request of a connection."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class NewSessionParams(msgspec.Struct, frozen=True, rename="camel"):
    """The folder and servers of a new session."""

    cwd: str
    mcp_servers: list[Any] = []

    def __post_init__(self) -> None:
        _check_directory(self.cwd)


class _Pair(msgspec.Struct, frozen=True):
    name: str
    value: str


class DescribedServer(msgspec.Struct, frozen=True):
    """An MCP server as an editor describes it: a command, or by ``type`` an address."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[_Pair] = []
    url: str = ""
    headers: list[_Pair] = []


class OfSession(msgspec.Struct, frozen=True, rename="camel"):
    """Something about one session."""

    session_id: str


class OpenSession(NewSessionParams, frozen=True, kw_only=True, rename="camel"):
    """The session to load or fork, with its folder and servers."""

    session_id: str


class ListWish(msgspec.Struct, frozen=True, rename="camel"):
    """A request for a list of sessions."""

    cwd: str | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.cwd is not None:
            _check_directory(self.cwd)


class ModeWish(OfSession, frozen=True, rename="camel"):
    """The mode that a session gets."""

    mode_id: str


class PromptWish(OfSession, frozen=True, rename="camel"):
    """The prompt of a user."""

    prompt: list[dict[str, Any]]


def _check_directory(path: str) -> None:
    if not os.path.isabs(path) or "\0" in path or plain_text(path) != path:
        raise ValueError("cwd is an absolute path")


_NEEDED = {"text": ("text",), "image": ("data", "mimeType"), "resource_link": ("uri", "name"), "resource": ()}


def read_prompt(blocks: list[dict[str, Any]], *, images: bool) -> str | list[dict[str, Any]]:
    """Return the blocks of a prompt as a text, or in neutral form. Raises RpcError."""
    for block in blocks:
        _check_block(block, images=images)
    content: str | list[dict[str, Any]] = clean({"content": prompt_content(blocks)})["content"]
    if not content or (isinstance(content, str) and not content.strip()):
        raise RpcError(INVALID_PARAMS, "a prompt cannot be empty")
    return content


def _check_block(block: dict[str, Any], *, images: bool) -> None:
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _NEEDED or (kind == "image" and not images):
        raise RpcError(INVALID_PARAMS, f"this agent takes no {str(kind)[:40]!a} blocks")
    _check_members(kind, block, _NEEDED[kind])
    if kind == "image":
        try:
            base64.b64decode(block["data"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RpcError(INVALID_PARAMS, f"an image's data is not base64: {error}") from error
    if kind == "resource":
        resource = block.get("resource")
        if not isinstance(resource, dict):
            raise RpcError(INVALID_PARAMS, "a resource block needs its resource")
        _check_members(kind, resource, ("uri", "blob" if "blob" in resource else "text"))


def _check_members(kind: str, block: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(block.get(name), str):
            raise RpcError(INVALID_PARAMS, f"a {kind} block needs {name}, which is a text")


# How freely our agent works: asking first, changing nothing, or by itself.
ASK = "ask"
READ_ONLY = "read-only"
AUTO = "auto"
MODES = {
    ASK: ("Ask", "Asks before it changes files or runs commands."),
    READ_ONLY: ("Read only", "Reads, and is refused whatever would need a permission."),
    AUTO: ("Auto", "Changes files and runs commands without asking."),
}

# A user's possible answers, and their meaning: allowed or not, and for how long.
OPTIONS: dict[str, tuple[str, bool, Scope]] = {
    "allow_once": ("Allow", True, "once"),
    "allow_always": ("Allow for this session", True, "session"),
    "reject_once": ("Reject", False, "once"),
}


def mode_state(current: str) -> dict[str, Any]:
    """Return the modes as an editor shows them."""
    available = [{"id": id, "name": name, "description": about} for id, (name, about) in MODES.items()]
    return {"currentModeId": current, "availableModes": available}


_WINDOWS = (("claude", 200_000), ("gpt-5", 400_000), ("gpt-4.1", 1_047_576), ("gpt-4o", 128_000), ("gemini", 1_048_576))


@dataclass(frozen=True, kw_only=True)
class EditorKit(Kit):
    """The model and how the agents of an editor work on it."""

    WORDS: ClassVar[str] = (
        "You are a helpful assistant in a code editor. The user sees your answers, what your tools"
        " do, and the files as you change them. Use your tools to look before you answer, change"
        " only what was asked for, and answer briefly and plainly."
    )
    mode: str = ASK


def window_of(kit: EditorKit, model: str | None) -> int | None:
    """Return the context window of a model in tokens; None if unknown."""
    if kit.small_window is not None or not model:
        return kit.small_window
    return next((size for name, size in _WINDOWS if name in model), None)


_FILE_CHARS_MAX = 1024 * 1024
_OUTPUT_BYTES_MAX = 256 * 1024
_GRACE_S = 5.0

Finished = dict[str, Any]  # how a command ended: ``exit_code``, ``signal``, ``output``, ``truncated``, ``timed_out``


class EditorAccess:
    """Access to the files and terminals of an editor for one session: below ``root``, and nothing else."""

    def __init__(self, peer: Peer, capabilities: ClientCapabilities, session_id: str, root: str) -> None:
        self._peer = peer
        self._session_id = session_id
        self.capabilities = capabilities
        self.root = root
        self._folder = Folder(root)

    def path(self, given: str) -> str:
        """Return the absolute path of something below the root. Raises Forbidden for anything else."""
        if not given or "\0" in given:
            raise UsageError("a path is a text without NUL")
        whole = os.path.normpath(os.path.join(self.root, given))
        real, root = os.path.realpath(whole), self._folder.root
        if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
            raise Forbidden(f"{given} is outside of {self.root}", remedy="Name a path inside the project.")
        return whole

    async def read(self, given: str) -> str:
        """Return the text of a file: as the editor has it, with what is not saved yet, if it lends it."""
        path = self.path(given)
        if not self.capabilities.reads:
            data = await asyncio.to_thread(self._folder.read, self._relative(path), _FILE_CHARS_MAX)
            try:
                return data.decode()
            except UnicodeDecodeError:
                raise UsageError(f"{given} is not text: {len(data):,} bytes") from None
        content = (await self.ask("fs/read_text_file", {"path": path})).get("content")
        if not isinstance(content, str):
            raise UsageError(f"the editor gave no text for {given}")
        if len(content) > _FILE_CHARS_MAX:
            raise TooLarge(f"{given} has more than {_FILE_CHARS_MAX:,} characters")
        return plain_text(content)

    async def read_if_there(self, given: str) -> str | None:
        """Return the text of a file; None if it is not there, or cannot be read, for whatever reason."""
        try:
            # Editors show their users what fails, so nothing is asked for that is not there.
            return await self.read(given) if self._is_there(given) else None
        except (HoldfastError, RpcError):
            return None

    async def names(self, given: str) -> list[str]:
        """Return the entries of a directory; the names of directories end with a slash."""
        found = await asyncio.to_thread(self._folder.names, self._relative(self.path(given)))
        return [entry.name + "/" * entry.is_directory for entry in found]

    async def write(self, given: str, content: str) -> None:
        """Let the editor write a file."""
        await self.ask("fs/write_text_file", {"path": self.path(given), "content": content})

    async def start(self, line: str, directory: str) -> str:
        """Let the editor run a line of shell in a terminal; the terminal's id."""
        where = {"cwd": self.path(directory), "outputByteLimit": _OUTPUT_BYTES_MAX}
        found = (await self.ask("terminal/create", {"command": "sh", "args": ["-c", line], **where})).get("terminalId")
        if not isinstance(found, str):
            raise UsageError("the editor opened no terminal")
        return found

    async def finish(self, terminal: str, timeout_s: float) -> Finished:
        """Wait for what runs in a terminal and release it; what takes too long, or is waited for no more, is ended."""
        this = {"terminalId": terminal}
        timed_out = False
        try:
            try:
                status = await asyncio.wait_for(self.ask("terminal/wait_for_exit", this), timeout_s)
            except TimeoutError:
                timed_out = True
                await self.ask("terminal/kill", this)
                status = {}
            answer = await self.ask("terminal/output", this)
        # Whoever gives up must not leave a command running in the user's terminal.
        except BaseException:
            await self._end(terminal, kill=True)
            raise
        await self._end(terminal, kill=False)
        status = object_in(answer.get("exitStatus") or status)
        found: Finished = {"exit_code": status.get("exitCode"), "output": plain_text(str(answer.get("output", "")))}
        more = {"signal": status.get("signal"), "truncated": bool(answer.get("truncated")), "timed_out": timed_out}
        return found | {name: value for name, value in more.items() if value}

    async def _end(self, terminal: str, *, kill: bool) -> None:
        for method in ("terminal/kill", "terminal/release") if kill else ("terminal/release",):
            with contextlib.suppress(RpcError, ConnectionError, TimeoutError):
                # Shielded from the cancellation that may be the reason for it.
                await asyncio.wait_for(self.ask(method, {"terminalId": terminal}), _GRACE_S)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the editor something about this session; what came back."""
        return object_in(await self._peer.request(method, {"sessionId": self._session_id, **params}))

    def _is_there(self, given: str) -> bool:
        return os.path.exists(self.path(given))

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.root)
