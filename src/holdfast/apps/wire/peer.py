"""One end of a JSON-RPC connection: asks, answers, and hears notifications in wire order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from holdfast.apps.wire import frames as rpc
from holdfast.apps.wire.frames import Frame, RpcError, TooLong
from holdfast.apps.wire.pipes import Pipe

_LAST_WORDS_S = 30.0  # a busy machine takes its time

Method = Callable[[dict[str, Any]], Awaitable[Any]]
Listener = Callable[[dict[str, Any]], Awaitable[None] | None]


class Peer:
    """Serves the other side, and asks it.

    ``methods`` answer requests, each in a task of its own; ``listeners`` hear notifications, one after the other in
    wire order. What was asked before the other side ended is still answered, but for ``endless`` methods: those are
    cancelled then. ``explain`` gives what the other side is told of what a method raised.
    """

    def __init__(
        self,
        pipe: Pipe,
        *,
        methods: dict[str, Method] | None = None,
        listeners: dict[str, Listener] | None = None,
        endless: Collection[str] = (),
        explain: Callable[[Exception], RpcError] = rpc.as_rpc_error,
    ) -> None:
        self._pipe = pipe
        self._methods = methods or {}
        self._listeners = listeners or {}

        self._endless = endless
        self._explain = explain
        self._numbers = itertools.count(1)
        self._waiting: dict[Any, asyncio.Future[Any]] = {}
        self._serving: dict[Any, asyncio.Task[None]] = {}
        self._lost: Exception | None = None

    async def run(self) -> None:
        """Serve until the other side ends; then everything that waits for an answer fails."""
        try:
            while (lines := await self._pipe.read()) is not None:
                for line in lines:
                    await self._take(line)
                await self._pipe.drain()
        except ConnectionError:
            pass
        finally:
            await self._end()

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> Any:
        """Ask the other side. Raises RpcError with its answer, TimeoutError, ConnectionError."""
        if self._lost is not None:
            raise self._lost
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._send(rpc.request(number, method, params))
            return await asyncio.wait_for(future, timeout_s)
        except (asyncio.CancelledError, TimeoutError):
            if self._lost is None:
                # The other side would go on with work whose answer nobody takes.
                self.notify("$/cancel_request", {"requestId": number})
            raise
        finally:
            self._waiting.pop(number, None)

    def notify(self, method: str, params: Any) -> None:
        """Tell the other side."""
        self._send(rpc.notification(method, params))

    def _send(self, frame: Frame) -> None:
        self._pipe.write(rpc.encode(frame))

    async def _take(self, line: bytes | TooLong) -> None:
        try:
            frame = rpc.parse(line)
        except RpcError as error:
            self._send(rpc.error_frame(None, error))
            return
        method = frame.get("method")
        if method is None:
            future = self._waiting.pop(frame.get("id"), None)
            if future is None or future.done():
                return
            if (failure := rpc.error_in(frame)) is None:
                future.set_result(frame.get("result"))
            else:
                future.set_exception(failure)
        elif "id" in frame:
            self._begin(frame["id"], method, frame.get("params"))
        else:
            await self._hear(method, frame.get("params"))

    def _begin(self, id: Any, method: str, params: Any) -> None:
        # Two requests under one id could not be told apart, nor cancelled.
        if id in self._serving:
            self._send(rpc.error_frame(id, RpcError(rpc.INVALID_REQUEST, f"the id {id!r} is in use")))
            return
        task = asyncio.create_task(self._serve(id, method, params), name=method)
        self._serving[id] = task
        task.add_done_callback(lambda _: self._serving.pop(id, None))

    async def _serve(self, id: Any, method: str, params: Any) -> None:
        try:
            if not isinstance(params, dict | None):
                raise RpcError(rpc.INVALID_PARAMS, "params must be an object")
            if method not in self._methods:
                raise RpcError(rpc.METHOD_NOT_FOUND, f"no such method: {method}")
            answer = rpc.response(id, await self._methods[method](params or {}))
        except asyncio.CancelledError:
            answer = rpc.error_frame(id, RpcError(rpc.CANCELLED, "cancelled"))
        except Exception as error:  # noqa: BLE001 - whatever happens, a request is answered
            answer = rpc.error_frame(id, self._explain(error))
        self._send(answer)
        with contextlib.suppress(ConnectionError):
            await self._pipe.drain()

    async def _hear(self, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            return  # JSON-RPC: a notification is never answered
        if method == "$/cancel_request":
            task = self._serving.get(params.get("requestId"))
            if task is not None:
                task.cancel()
        elif method in self._listeners and (heard := self._listeners[method](params)) is not None:
            await heard

    async def _end(self) -> None:
        self._lost = ConnectionError("the other side of the connection is gone")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._lost)
        await asyncio.sleep(0)  # each has begun, so that it answers that it was cancelled
        last = [one for one in self._serving.values() if one.get_name() not in self._endless]
        if last:
            # A program that sent all it had and reads on, as in a pipe of a shell, is answered.
            await asyncio.wait(last, timeout=_LAST_WORDS_S)
        for task in list(self._serving.values()):
            task.cancel()
        await asyncio.gather(*self._serving.values(), return_exceptions=True)
