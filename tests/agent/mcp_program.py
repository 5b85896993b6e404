"""An MCP server made with the library for that: on standard input and output, or by HTTP on a port that it prints.

Its arguments are "stdio" or "http", and a file that gets a line for each of its calls.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

how, place = sys.argv[1:]
server = MCPServer("box")


def note(name: str) -> None:
    """Keep that a tool was called."""
    with Path(place).open("a") as file:
        file.write(f"{name} {os.getpid()}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(what: str) -> str:
    """Look at something."""
    note("look")
    return f"{what} is here; {os.environ.get('BOX_WORD', 'no word')}"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look_again(what: str) -> str:
    """Look at something once more."""
    return f"{what} is still here"


@server.tool()
def put(what: str) -> str:
    """Put something into the box."""
    note("put")
    return f"{what} is in the box"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def spoil() -> str:
    """Fail."""
    raise ToolError("it is locked")


@server.tool()
def strike() -> str:
    """Kill whoever asked, in the middle of a call."""
    note("strike")
    os.kill(os.getppid(), signal.SIGKILL)
    return "struck"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def die() -> str:
    """End the server in the middle of a call."""
    note("die")
    print(f"the lid fell, {os.environ.get('BOX_WORD')}", file=sys.stderr, flush=True)  # noqa: T201 - as programs do
    os._exit(3)


if how == "stdio":
    server.run("stdio")
else:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - what the test waits for
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run([listener])
