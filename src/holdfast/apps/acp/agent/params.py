"""What an editor asks our agent for, checked before anything is done with it."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec

from holdfast.agent import Kit as AgentKit
from holdfast.agent import plain_text
from holdfast.apps.acp.recording.values import clean, prompt_content
from holdfast.apps.wire.frames import INVALID_PARAMS, RpcError

__all__ = [
    "ClientCapabilities",
    "Initialize",
    "ListWish",
    "ModeWish",
    "NewSessionParams",
    "OfSession",
    "OpenSession",
    "PromptWish",
    "read_params",
    "read_prompt",
]

T = TypeVar("T")


class FileCapabilities(msgspec.Struct, frozen=True, rename="camel"):
    """Which of its files an editor lends."""

    read_text_file: bool | None = False
    write_text_file: bool | None = False


class ClientCapabilities(msgspec.Struct, frozen=True):
    """What an editor lends to its agent."""

    fs: FileCapabilities | None = None
    terminal: bool | None = False

    @property
    def reads(self) -> bool:
        """Whether files are read through the editor."""
        return self.fs is not None and bool(self.fs.read_text_file)

    @property
    def writes(self) -> bool:
        """Whether files are written through the editor."""
        return self.fs is not None and bool(self.fs.write_text_file)


class Initialize(msgspec.Struct, frozen=True, rename="camel"):
    """The first request of a connection."""

    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class NewSessionParams(msgspec.Struct, frozen=True, rename="camel"):
    """Where a new session works."""

    cwd: str
    mcp_servers: list[Any] = []

    def __post_init__(self) -> None:
        _check_directory(self.cwd)


class OfSession(msgspec.Struct, frozen=True, rename="camel"):
    """Something about one session."""

    session_id: str


class OpenSession(OfSession, frozen=True, rename="camel"):
    """Where a session goes on, or its fork begins."""

    cwd: str
    mcp_servers: list[Any] = []

    def __post_init__(self) -> None:
        _check_directory(self.cwd)


class ListWish(msgspec.Struct, frozen=True, rename="camel"):
    """Which sessions are listed."""

    cwd: str | None = None
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.cwd is not None:
            _check_directory(self.cwd)


class ModeWish(OfSession, frozen=True, rename="camel"):
    """The mode that a session gets."""

    mode_id: str


class PromptWish(OfSession, frozen=True, rename="camel"):
    """What the user says."""

    prompt: list[dict[str, Any]]


def read_params(params: dict[str, Any], kind: type[T]) -> T:
    """The parameters of a request. Raises RpcError that says what is wrong with them."""
    try:
        return msgspec.convert(params, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"wrong parameters: {str(error)[:300]}") from error


def _check_directory(path: str) -> None:
    if not os.path.isabs(path) or "\0" in path or plain_text(path) != path:
        raise ValueError("cwd is an absolute path")


# -- what the user says ----------------------------------------------------------------------------

_NEEDED = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}


def read_prompt(blocks: list[dict[str, Any]], *, images: bool) -> str | list[dict[str, Any]]:
    """The blocks of a prompt as a text, or in neutral form. Raises RpcError."""
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

# What a user may answer, and what it means: allowed or not, and for how long.
OPTIONS = {
    "allow_once": ("Allow", True, "once"),
    "allow_always": ("Allow for this session", True, "session"),
    "reject_once": ("Reject", False, "once"),
}


def mode_state(current: str) -> dict[str, Any]:
    """The modes as an editor shows them."""
    available = [
        {"id": id, "name": name, "description": about} for id, (name, about) in MODES.items()
    ]
    return {"currentModeId": current, "availableModes": available}


# What our agent is made of, before it has a session.


_WINDOWS = (
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gemini", 1_048_576),
)


@dataclass(frozen=True, kw_only=True)
class Kit(AgentKit):
    """The model and how the agents of an editor work on it."""

    WORDS: ClassVar[str] = (
        "You are a helpful assistant in a code editor. The user sees your answers, what your tools"
        " do, and the files as you change them. Use your tools to look before you answer, change"
        " only what was asked for, and answer briefly and plainly."
    )
    mode: str = ASK


def window_of(kit: Kit, model: str | None) -> int | None:
    """How many tokens a model takes at once; None if that is not known."""
    if kit.small_window is not None or not model:
        return kit.small_window
    return next((size for name, size in _WINDOWS if name in model), None)
