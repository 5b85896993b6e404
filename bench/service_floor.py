"""The minimum for a service: a bare handler that appends each request to one file.

``python bench/service_floor.py FILE append|sync`` serves on a free port, and prints it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def main(path: str, kind: str) -> None:
    """Serve until the process is killed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(body: bytes) -> None:
        os.write(descriptor, body)
        if kind == "sync":
            os.fdatasync(descriptor)

    async def handle(request: Request) -> Response:
        body = await request.body()
        if kind == "sync":
            await asyncio.to_thread(append, body)  # a disk must not hold up the loop
        else:
            append(body)
        return Response(b'{"ok":true}', media_type="application/json")

    app = Starlette(routes=[Route("/append", handle, methods=["POST"])])
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:3])
