"""What a backend of one's own has to have, and how it is called."""

from __future__ import annotations

import asyncio
import inspect
import threading
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.errors import HoldfastError, Unavailable

_ODD = "base64:"  # no line of JSON begins so


class AgentStorage(Protocol):
    """What a backend for the state of one agent has to have; each may be a coroutine function."""

    def save(self, state: dict[str, Any]) -> Any:
        """Keep a document of plain JSON values in the place of the one before."""

    def load(self) -> Any:
        """Return the document as it was saved; None if there is none."""

    def exists(self) -> Any:
        """Return whether there is a document."""

    def delete(self) -> Any:
        """Remove the document."""

    def path(self) -> str:
        """Return where a person would look for it."""

    def last_modified(self) -> Any:
        """Return when it was last saved, as a ``datetime``; None if it never was."""


class EventStorage(Protocol):
    """What a backend for events has to have; each may be a coroutine function."""

    def append(self, session_id: str, event: str) -> Any:
        """Add one event, a line of JSON, at the end of a session's."""

    def read(self, session_id: str) -> Any:
        """Return the events of a session in their order, as they were given; empty if none."""

    def exists(self, session_id: str) -> Any:
        """Return whether a session has events."""


def call(method: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of a backend and wait for what it gives, also if it is a coroutine function.

    Raises Unavailable for whatever it raises. Stores are called from any thread, also from that of
    an event loop, so a coroutine gets a loop of its own.
    """
    try:
        found = method(*arguments)
        return _finish(found) if inspect.isawaitable(found) else found
    except HoldfastError:
        raise
    except Exception as error:
        name = getattr(method, "__qualname__", "the storage")
        raise Unavailable(f"{name} failed: {type(error).__name__}: {error}") from error


def _finish(found: Awaitable[Any]) -> Any:
    outcome: list[Any] = []

    def work() -> None:
        async def wait() -> Any:
            return await found

        try:
            outcome.extend((True, asyncio.run(wait())))
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            outcome.extend((False, error))

    thread = threading.Thread(target=work, name="holdfast-backend")
    thread.start()
    thread.join()
    done, value = outcome
    if not done:
        raise value
    return value


def as_text(data: bytes) -> str:
    """Bytes as JSON can hold them: as they are where they are text, for people to read."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ODD + b64encode(data).decode()


def as_bytes(text: str) -> bytes:
    """The bytes that :func:`as_text` was given."""
    return b64decode(text.removeprefix(_ODD)) if text.startswith(_ODD) else text.encode()
