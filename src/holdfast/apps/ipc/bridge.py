"""One connection to the bridge: tagged messages or JSON-RPC, as each line itself says."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, to_builtins

from holdfast.agent import Kit
from holdfast.apps.ipc import messages
from holdfast.apps.ipc._session import Current, Say
from holdfast.apps.watched import watch
from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError, TooLong
from holdfast.apps.wire.pipes import Pipe, serve, until_asked_to_end
from holdfast.library import Holdfast
from holdfast.storage import PrivateSocket

Query = Callable[[Say], Awaitable[Struct]]
LINE_BYTES_MAX = 8 * 1024 * 1024  # one message to the bridge; what it answers may be longer


class Connection:
    """Serves one client: requests in their order, a query beside them.

    Every request is answered, in the way that it was asked; only a JSON-RPC notification is not, as JSON-RPC has it.
    """

    def __init__(self, pipe: Pipe, current: Current) -> None:
        self._pipe = pipe
        self._current = current
        self._speaks_rpc = False
        self._queries: set[asyncio.Task[None]] = set()
        self._does: dict[str, Callable[[Any], Awaitable[Struct]]] = {
            "initialize": current.initialize,
            "cancel": current.cancel,
            "steer": current.steer,
            "tool_approve": current.approve,
            "session_create": current.create,
            "session_save": current.save,
            "session_load": current.load,
            "session_list": current.list,
            "session_delete": current.delete,
            "waiting_list": current.waiting,
            "waiting_answer": current.answer,
            "session_export": current.export,
        }

    async def run(self) -> None:
        """Serve until the client is gone; a query is stopped then, and the session given back."""
        try:
            while (lines := await self._pipe.read()) is not None:
                for line in lines:
                    await self._take(line)
            # A client may close its side and still read: what it asked for is answered. It can approve nothing any
            # more, so that calls that wait are left to the inbox.
            self._current.hold_no_more()
            await asyncio.gather(*self._queries, return_exceptions=True)
        except ConnectionError:
            pass
        # However it ended: a session that stays open here is locked for everybody else.
        finally:
            # First, so that turns end in good order, and with them the queries that wait for them.
            await self._current.close()
            for task in self._queries:
                task.cancel()
            await asyncio.gather(*self._queries, return_exceptions=True)
            with contextlib.suppress(ConnectionError):
                await self._pipe.drain()

    async def _take(self, line: bytes | TooLong) -> None:
        try:
            if isinstance(line, TooLong):
                what = f"a message has at most {LINE_BYTES_MAX:,} bytes"
                raise messages.refusal(rpc.INVALID_REQUEST, "too_large", what, "Send less at once.")
            frame = rpc.parse_object(line)
        # An unreadable frame does not say how to answer it; do it as for the line before, then.
        except RpcError as error:
            asker: _Asker = _RpcAsker(None) if self._speaks_rpc else _TagAsker({})
            await self._send(asker.refuse(messages.as_refusal(error)))
            return
        self._speaks_rpc = "method" in frame or "jsonrpc" in frame
        await self._serve(_RpcAsker(frame) if self._speaks_rpc else _TagAsker(frame))

    async def _serve(self, asker: _Asker) -> None:
        try:
            ask, wish = asker.read()
        except RpcError as error:
            await self._send(asker.refuse(messages.as_refusal(error)))
            return
        # Beside the others, so that tools can be approved and the query cancelled; also a word to an agent that is
        # still being made.
        if isinstance(wish, messages.PromptMessage):
            task = asyncio.ensure_future(self._answer_query(asker, ask, partial(self._current.query, wish)))
        elif isinstance(wish, messages.Resume):
            task = asyncio.ensure_future(self._answer_query(asker, ask, partial(self._current.resume, wish)))
        else:
            answering = self._answer(asker, ask, self._does[ask.tag](wish))
            if not isinstance(wish, messages.Steer):
                await answering
                return
            task = asyncio.ensure_future(answering)
        self._queries.add(task)
        task.add_done_callback(self._queries.discard)
        await asyncio.sleep(0)  # it has begun before the next line is looked at

    async def _answer(self, asker: _Asker, ask: messages.Operation, work: Awaitable[Struct]) -> None:
        try:
            told = asker.tell(ask, to_builtins(await work))
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            told = asker.refuse(messages.as_refusal(error))
        await self._send(told)

    async def _answer_query(self, asker: _Asker, ask: messages.Operation, work: Query) -> None:
        with contextlib.suppress(ConnectionError):  # nobody is there to be told
            try:
                answering = work(lambda tag, told: self._send(asker.notice(tag, told)))
                await self._answer(asker, ask, answering)
            except asyncio.CancelledError:
                await self._send(asker.refuse(messages.refusal(rpc.CANCELLED, "cancelled", "the query was cancelled")))

    async def _send(self, frame: Frame | None) -> None:
        if frame is not None:
            self._pipe.write(rpc.encode(frame))
            await self._pipe.drain()


class _TagAsker:
    """``{"type": …}``; an ``id`` comes back with the answer and with all that belongs to it."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._tag: str | None = None
        self._id = {"id": frame["id"]} if "id" in frame and _is_id(frame["id"]) else {}

    def read(self) -> tuple[messages.Operation, messages.Wish]:
        tag, known = self._frame.get("type"), f"One of {', '.join(messages.ASKS)}."
        if not isinstance(tag, str):
            told = "a message has a type, which is a text"
            raise messages.refusal(rpc.INVALID_REQUEST, "invalid_request", told, known)
        self._tag = tag[:64]
        if tag not in messages.ASKS:
            raise messages.refusal(rpc.METHOD_NOT_FOUND, "unknown_type", f"there is no type {tag[:64]!a}", known)
        _check_id(self._frame)
        return messages.ASKS[tag], _read_wish(messages.ASKS[tag], self._frame)

    def tell(self, ask: messages.Operation, answer: dict[str, Any]) -> Frame:
        return {"type": ask.answer, **self._id, **answer}

    def refuse(self, error: RpcError) -> Frame:
        return {"type": "error", **self._id, **to_builtins(messages.told_refusal(error, self._tag))}

    def notice(self, tag: str, told: Struct) -> Frame:
        return {"type": tag, **self._id, **to_builtins(told)}


class _RpcAsker:
    """A JSON-RPC 2.0 request, or a notification if it has no ``id``."""

    def __init__(self, frame: Frame | None) -> None:
        self._frame = frame
        given = None if frame is None else frame.get("id")
        self._id = given if _is_id(given) else None

    def read(self) -> tuple[messages.Operation, messages.Wish]:
        frame = self._frame or {}
        method, params = frame.get("method"), frame.get("params")
        _check_id(frame)
        if frame.get("jsonrpc", "2.0") != "2.0":
            raise messages.refusal(rpc.INVALID_REQUEST, "invalid_request", "this is JSON-RPC 2.0, and no other")
        if not isinstance(method, str):
            raise messages.refusal(rpc.INVALID_REQUEST, "invalid_request", "a request has a method, a text")
        ask = messages.BY_METHOD.get(method)
        if ask is None:
            known = ", ".join(ask.method for ask in messages.ASKS.values())
            told = f"there is no method {method[:64]!a}"
            raise messages.refusal(rpc.METHOD_NOT_FOUND, "unknown_method", told, f"One of {known}.")
        if not isinstance(params, (dict, type(None))):
            raise messages.refusal(rpc.INVALID_PARAMS, "invalid_params", "params are an object, by name")
        return ask, _read_wish(ask, params or {})

    def tell(self, ask: messages.Operation, answer: dict[str, Any]) -> Frame | None:
        return rpc.response(self._id, answer) if self._wants_answer else None

    def refuse(self, error: RpcError) -> Frame | None:
        return rpc.error_frame(self._id, error) if self._wants_answer else None

    def notice(self, tag: str, told: Struct) -> Frame:
        return rpc.notification(messages.NOTICES[tag].method, to_builtins(told))

    @property
    def _wants_answer(self) -> bool:
        """A notification gets none; what is no proper request gets one, since it may want one."""
        frame = self._frame
        return frame is None or "id" in frame or not isinstance(frame.get("method"), str)


# The form of a request determines that of its answer: `read` gives the request, `tell`, `refuse` and `notice` make the
# frames for it, or None where no answer is wanted.
_Asker = _TagAsker | _RpcAsker


def _is_id(value: Any) -> bool:
    # In Python a bool is an int; in JSON it is neither text nor number.
    return isinstance(value, (str, int, float, type(None))) and not isinstance(value, bool)


def _check_id(frame: Frame) -> None:
    """Raise the refusal of an id that could not come back with the answer."""
    if not _is_id(frame.get("id")):
        raise messages.refusal(rpc.INVALID_REQUEST, "invalid_request", "an id is a text, a number or null")


def _read_wish(ask: messages.Operation, fields: Frame) -> messages.Wish:
    try:
        return msgspec.convert(fields, ask.takes)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        told, remedy = f"{ask.tag}: {error}", "See the bridge's schema."
        raise messages.refusal(rpc.INVALID_PARAMS, "invalid_params", told, remedy) from error


# The bridge itself: on a private socket for any number of clients, or on standard input.
_CLIENTS_MAX = 128


def default_address() -> str:
    """Return the default address of this user's socket."""
    # Not the stand-in for it in /tmp, which anyone could have made before.
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and os.path.isdir(runtime):
        return os.path.join(runtime, "holdfast", "bridge.sock")
    from platformdirs import user_state_dir

    return os.path.join(user_state_dir("holdfast", appauthor=False), "bridge", "bridge.sock")


class Bridge:
    """Serves clients of one store, each with a current session of its own."""

    def __init__(self, hf: Holdfast, kit: Kit) -> None:
        self._hf = hf
        self._kit = kit
        self._clients: set[asyncio.Task[None]] = set()

    async def listen(self, place: PrivateSocket) -> None:
        """Serve clients of a socket until cancelled; then disconnect all of them."""
        server = await asyncio.start_unix_server(self._accept, sock=place.socket)
        try:
            # Not serve_forever: from Python 3.12 on it waits, when cancelled, for the clients that are let go of below.
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for task in list(self._clients):
                task.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Each client may hold a session, an agent and 8 MiB of a message.
        if len(self._clients) >= _CLIENTS_MAX:
            writer.write(_FULL)
            writer.close()
            return
        pipe = Pipe(reader, writer, line_bytes_max=LINE_BYTES_MAX)
        task = asyncio.ensure_future(Connection(pipe, Current(self._hf, self._kit)).run())
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)
        task.add_done_callback(lambda _: pipe.close())


_FULL = (
    b'{"type":"error","code":"busy","message":"the bridge has too many clients",'
    b'"remedy":"Close another connection first."}\n'
)


def serve_stdio(place: str | None, kit: Kit) -> None:
    """Serve one client on standard input and output. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        serve(lambda pipe: Connection(pipe, Current(hf, kit)).run(), line_bytes_max=LINE_BYTES_MAX)


def serve_socket(place: str | None, kit: Kit, address: str, *, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve clients at a socket, whose address is passed to ``ready``, until asked to end.

    Raises as PrivateSocket does.
    """

    async def listen() -> None:
        ready(listening.path)
        await Bridge(hf, kit).listen(listening)

    with Holdfast(place, redaction="mark") as hf, PrivateSocket(address) as listening:
        watch(hf)
        asyncio.run(until_asked_to_end(listen()))
