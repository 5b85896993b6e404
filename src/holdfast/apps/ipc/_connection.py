"""One connection to the bridge: tagged messages or JSON-RPC, as each line itself says."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from holdfast.apps.ipc._messages import (
    ASKS,
    BY_METHOD,
    NOTICES,
    Operation,
    PromptMessage,
    Wish,
    as_refusal,
    refusal,
    told_refusal,
)
from holdfast.apps.ipc._session import Current, Say
from holdfast.apps.wire.frames import (
    CANCELLED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Frame,
    RpcError,
    encode,
    error_frame,
    notification,
    parse_object,
    response,
)
from holdfast.apps.wire.lines import TooLong
from holdfast.apps.wire.pipes import Pipe

LINE_BYTES_MAX = 8 * 1024 * 1024
"""One message to the bridge; what it answers may be longer."""


class Connection:
    """Serves one client: requests in their order, a query beside them.

    Every request is answered, in the way that it was asked; only a JSON-RPC notification is not,
    as JSON-RPC has it.
    """

    def __init__(self, pipe: Pipe, current: Current) -> None:
        self._pipe = pipe
        self._current = current
        self._speaks_rpc = False
        self._queries: set[asyncio.Task[None]] = set()
        self._does: dict[str, Callable[[Any], Awaitable[Struct]]] = {
            "initialize": current.initialize,
            "cancel": current.cancel,
            "tool_approve": current.approve,
            "session_create": current.create,
            "session_save": current.save,
            "session_load": current.load,
            "session_list": current.list,
            "session_delete": current.delete,
            "session_export": current.export,
        }

    async def run(self) -> None:
        """Serve until the client is gone; a query is stopped then, and the session given back."""
        try:
            while (lines := await self._pipe.read()) is not None:
                for line in lines:
                    await self._take(line)
            # A client may close its side and still read: what it asked for is answered, except
            # that nobody can approve a tool any more.
            self._current.deny_tools()
            await asyncio.gather(*self._queries, return_exceptions=True)
        except ConnectionError:
            pass
        finally:
            await self._end()

    async def _take(self, line: bytes | TooLong) -> None:
        try:
            if isinstance(line, TooLong):
                raise refusal(
                    INVALID_REQUEST,
                    "too_large",
                    f"a message has at most {LINE_BYTES_MAX:,} bytes",
                    "Send less at once.",
                )
            frame = parse_object(line)
        except RpcError as error:
            asker: _Asker = _RpcAsker(None) if self._speaks_rpc else _TagAsker(None, None)
            return await self._send(asker.refuse(as_refusal(error)))
        self._speaks_rpc = "method" in frame or "jsonrpc" in frame
        await self._serve(_RpcAsker(frame) if self._speaks_rpc else _TagAsker(frame, None))
        return None

    async def _serve(self, asker: _Asker) -> None:
        try:
            ask, wish = asker.read()
        except RpcError as error:
            return await self._send(asker.refuse(as_refusal(error)))
        if not isinstance(wish, PromptMessage):
            return await self._answer(asker, ask, self._does[ask.tag](wish))
        # Beside the others, so that tools can be approved and the query cancelled.
        task = asyncio.ensure_future(self._answer_query(asker, ask, wish))
        self._queries.add(task)
        task.add_done_callback(self._queries.discard)
        await asyncio.sleep(0)  # it has begun before the next line is looked at
        return None

    async def _answer(self, asker: _Asker, ask: Operation, work: Awaitable[Struct]) -> None:
        try:
            told = asker.tell(ask, to_builtins(await work))
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            told = asker.refuse(as_refusal(error))
        await self._send(told)

    async def _answer_query(self, asker: _Asker, ask: Operation, wish: PromptMessage) -> None:
        with contextlib.suppress(ConnectionError):  # nobody is there to be told
            try:
                await self._answer(asker, ask, self._current.query(wish, self._saying(asker)))
            except asyncio.CancelledError:
                refused = refusal(CANCELLED, "cancelled", "the query was cancelled")
                await self._send(asker.refuse(refused))

    def _saying(self, asker: _Asker) -> Say:
        async def say(tag: str, told: Struct) -> None:
            await self._send(asker.notice(tag, told))

        return say

    async def _send(self, frame: Frame | None) -> None:
        if frame is not None:
            self._pipe.write(encode(frame))
            await self._pipe.drain()

    async def _end(self) -> None:
        await self._current.close()
        for task in self._queries:
            task.cancel()
        await asyncio.gather(*self._queries, return_exceptions=True)
        with contextlib.suppress(ConnectionError):
            await self._pipe.drain()


class _Asker(ABC):
    """How a request was put, which is how it is answered."""

    @abstractmethod
    def read(self) -> tuple[Operation, Wish]:
        """What is asked for. Raises RpcError."""

    @abstractmethod
    def tell(self, ask: Operation, answer: dict[str, Any]) -> Frame | None:
        """The answer; None if none is wanted."""

    @abstractmethod
    def refuse(self, error: RpcError) -> Frame | None:
        """The answer to a request that cannot be served; None if none is wanted."""

    @abstractmethod
    def notice(self, tag: str, told: Struct) -> Frame:
        """Something that is said meanwhile."""


class _TagAsker(_Asker):
    """``{"type": …}``; an ``id`` comes back with the answer and with all that belongs to it."""

    def __init__(self, frame: Frame | None, tag: str | None) -> None:
        self._frame = frame or {}
        self._tag = tag
        given = self._frame.get("id")
        self._id = {"id": given} if "id" in self._frame and _is_id(given) else {}

    def read(self) -> tuple[Operation, Wish]:
        tag = self._frame.get("type")
        if not isinstance(tag, str):
            raise refusal(
                INVALID_REQUEST,
                "invalid_request",
                "a message has a type, which is a text",
                f"One of {', '.join(ASKS)}.",
            )
        self._tag = tag[:64]
        if tag not in ASKS:
            raise refusal(
                METHOD_NOT_FOUND,
                "unknown_type",
                f"there is no type {tag[:64]!a}",
                f"One of {', '.join(ASKS)}.",
            )
        _check_id(self._frame)
        return ASKS[tag], _read_wish(ASKS[tag], self._frame)

    def tell(self, ask: Operation, answer: dict[str, Any]) -> Frame:
        return {"type": ask.answer, **self._id, **answer}

    def refuse(self, error: RpcError) -> Frame:
        return {"type": "error", **self._id, **to_builtins(told_refusal(error, self._tag))}

    def notice(self, tag: str, told: Struct) -> Frame:
        return {"type": tag, **self._id, **to_builtins(told)}


class _RpcAsker(_Asker):
    """A JSON-RPC 2.0 request, or a notification if it has no ``id``."""

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame
        given = None if frame is None else frame.get("id")
        self._id = given if _is_id(given) else None

    def read(self) -> tuple[Operation, Wish]:
        frame = self._frame or {}
        _check_id(frame)
        if frame.get("jsonrpc", "2.0") != "2.0":
            raise refusal(
                INVALID_REQUEST, "invalid_request", "this is JSON-RPC 2.0, and no other", ""
            )
        method, params = frame.get("method"), frame.get("params")
        if not isinstance(method, str):
            raise refusal(INVALID_REQUEST, "invalid_request", "a request has a method, a text", "")
        ask = BY_METHOD.get(method)
        if ask is None:
            known = ", ".join(ask.method for ask in ASKS.values())
            raise refusal(
                METHOD_NOT_FOUND,
                "unknown_method",
                f"there is no method {method[:64]!a}",
                f"One of {known}.",
            )
        if not isinstance(params, (dict, type(None))):
            raise refusal(INVALID_PARAMS, "invalid_params", "params are an object, by name", "")
        return ask, _read_wish(ask, params or {})

    def tell(self, ask: Operation, answer: dict[str, Any]) -> Frame | None:
        return response(self._id, answer) if self._wants_answer else None

    def refuse(self, error: RpcError) -> Frame | None:
        return error_frame(self._id, error) if self._wants_answer else None

    def notice(self, tag: str, told: Struct) -> Frame:
        return notification(NOTICES[tag].method, to_builtins(told))

    @property
    def _wants_answer(self) -> bool:
        """A notification gets none; what is no proper request gets one, since it may want one."""
        frame = self._frame
        return frame is None or "id" in frame or not isinstance(frame.get("method"), str)


def _is_id(value: Any) -> bool:
    return isinstance(value, (str, int, float, type(None))) and not isinstance(value, bool)


def _check_id(frame: Frame) -> None:
    """Raise the refusal of an id that could not come back with the answer."""
    if not _is_id(frame.get("id")):
        raise refusal(INVALID_REQUEST, "invalid_request", "an id is a text, a number or null", "")


def _read_wish(ask: Operation, fields: Frame) -> Wish:
    try:
        return msgspec.convert(fields, ask.takes)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise refusal(
            INVALID_PARAMS, "invalid_params", f"{ask.tag}: {error}", "See the bridge's schema."
        ) from error
