"""The bridge itself: on a private socket for any number of clients, or on standard input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable

from holdfast.agent import Kit
from holdfast.apps.ipc._connection import LINE_BYTES_MAX, Connection
from holdfast.apps.ipc._messages import schema
from holdfast.apps.ipc._session import Current
from holdfast.apps.watched import watch
from holdfast.apps.wire.pipes import ENDING, Pipe, PipeWriter, serve
from holdfast.library import Holdfast
from holdfast.storage import PrivateSocket

__all__ = ["Bridge", "default_address", "schema", "serve_socket", "serve_stdio"]

_CLIENTS_MAX = 128


def default_address() -> str:
    """Where the socket of this user is, unless another place is asked for."""
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

    async def serve(self, pipe: Pipe) -> None:
        """One client, until it is gone."""
        await Connection(pipe, Current(self._hf, self._kit)).run()

    async def listen(self, place: PrivateSocket) -> None:
        """Clients at a socket, until this is cancelled; then all of them are let go of."""
        server = await asyncio.start_unix_server(self._accept, sock=place.socket)
        try:
            await server.serve_forever()
        finally:
            server.close()
            for task in list(self._clients):
                task.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= _CLIENTS_MAX:
            writer.write(_FULL)
            writer.close()
            return
        task = asyncio.ensure_future(self._serve_client(reader, writer))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pipe = Pipe(reader, PipeWriter(writer), line_bytes_max=LINE_BYTES_MAX)
        try:
            await self.serve(pipe)
        finally:
            pipe.close()


_FULL = (
    b'{"type":"error","code":"busy","message":"the bridge has too many clients",'
    b'"remedy":"Close another connection first."}\n'
)


def serve_stdio(place: str | None, kit: Kit) -> None:
    """Serve one client on standard input and output. Raises as ``holdfast.open``."""

    async def work(pipe: Pipe) -> None:
        # What a library prints must not come between the messages.
        with contextlib.redirect_stdout(sys.stderr):
            await Bridge(hf, kit).serve(pipe)

    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        serve(work, line_bytes_max=LINE_BYTES_MAX)


def serve_socket(
    place: str | None, kit: Kit, address: str, *, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Serve clients at a socket until the process is asked to end. Raises as PrivateSocket does.

    ``ready`` is told the address once clients can come.
    """
    with Holdfast(place, redaction="mark") as hf, PrivateSocket(address) as listening:
        watch(hf)
        asyncio.run(_listen(Bridge(hf, kit), listening, ready))


async def _listen(bridge: Bridge, listening: PrivateSocket, ready: Callable[[str], None]) -> None:
    running = asyncio.ensure_future(bridge.listen(listening))
    loop = asyncio.get_running_loop()
    for number in ENDING:
        loop.add_signal_handler(number, running.cancel)
    ready(listening.path)
    with contextlib.suppress(asyncio.CancelledError):
        await running
