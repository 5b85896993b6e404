"""The MCP servers that an editor gives our agent: started, asked for their tools, and ended.

Nothing of how they are reached is recorded or told: their variables and headers hold secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import sys
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.agent import plain_text
from holdfast.errors import AgentError

if TYPE_CHECKING:
    from mcp import Client

    from holdfast.agent import Tool

_START_S = 30.0
_END_S = 10.0
_NAME_CHARS = 80
_TOOL_NAME_CHARS = 64
_TOOLS_MAX = 512
_RESULT_CHARS_MAX = 256 * 1024
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


class _Pair(msgspec.Struct, frozen=True):
    name: str
    value: str


class McpServer(msgspec.Struct, frozen=True):
    """One as an editor describes it: a command, or by ``type`` an address."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[_Pair] = []
    url: str = ""
    headers: list[_Pair] = []

    @property
    def shown_name(self) -> str:
        """What people are told that it is called."""
        return plain_text(self.name)[:_NAME_CHARS] or "without a name"

    def __repr__(self) -> str:
        return f"<McpServer {self.shown_name!r}>"


class Servers:
    """The servers of one session, each with a task that it lives in.

    ``say`` tells the user of one that could not be had; the others are used all the same.
    """

    def __init__(self, servers: list[McpServer], cwd: str, say: Callable[[str], None]) -> None:
        self.given = servers
        self._cwd = cwd
        self._say = say
        self._over = asyncio.Event()
        self._tools: list[asyncio.Future[list[_Offer]]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to start them all."""
        for server in self.given:
            offered: asyncio.Future[list[_Offer]] = asyncio.get_running_loop().create_future()
            self._tools.append(offered)
            self._tasks.append(asyncio.ensure_future(self._live(server, offered)))

    async def tools(self, check: Callable[[], None]) -> list[Tool]:
        """Their tools, once each has told them or failed; ``check`` is called before each call."""
        # Shielded: a turn that is cancelled while a server starts must not spoil it for others.
        offers = [offer for offered in self._tools for offer in await asyncio.shield(offered)]
        made: dict[str, Tool] = {}
        for offer in offers[:_TOOLS_MAX]:
            name = offer.name
            number = 1
            while name in made:
                number += 1
                name = f"{offer.name[: _TOOL_NAME_CHARS - 4]}_{number}"
            made[name] = offer.tool(name, check)
        return list(made.values())

    async def close(self) -> None:
        """End them all, and whatever processes they are."""
        self._over.set()
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=_END_S)
            # One that does not end by itself: its process ends with its task.
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    async def _live(self, server: McpServer, offered: asyncio.Future[list[_Offer]]) -> None:
        """From start to end in one task, as its connection demands."""
        try:
            async with contextlib.AsyncExitStack() as open_things:
                async with asyncio.timeout(_START_S):
                    client = await open_things.enter_async_context(_connected(server, self._cwd))
                    offers = await _offers(server, client)
                offered.set_result(offers)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, the session goes on without it
            if not offered.done():
                self._say(_excuse(server, error))
        finally:
            if not offered.done():
                offered.set_result([])


class _Offer:
    """A tool of a server that is there."""

    def __init__(self, server: McpServer, client: Client, about: Any) -> None:
        self._server = server
        self._client = client
        self._about = about
        name = _UNFIT.sub("_", f"{server.name}_{about.name}").strip("_") or "tool"
        self.name = (name if not name[0].isdigit() and name[0] != "-" else f"_{name}")[:_TOOL_NAME_CHARS]

    def tool(self, name: str, check: Callable[[], None]) -> Tool:
        """The tool for our agent. What a server says of its harmlessness is not relied on."""
        from holdfast.agent import Tool

        async def call(**args: Any) -> Any:
            check()
            try:
                answer = await self._client.call_tool(self._about.name, args)
            except Exception as error:  # noqa: BLE001 - its words may hold an address with secrets
                failed = type(error).__name__
                raise AgentError(f"the MCP server {self._server.shown_name} failed ({failed})") from None
            text = _text_of(answer.content)
            if answer.is_error:
                raise AgentError(text or "the tool failed without a word")
            return answer.structured_content if answer.structured_content is not None and not text else text

        return Tool(
            call,
            name=name,
            description=plain_text(self._about.description or ""),
            schema=self._about.input_schema or {"type": "object", "properties": {}},
            needs_permission=True,
            namespace=f"mcp.{self._server.shown_name}",
        )


def read_servers(given: list[Any]) -> list[McpServer]:
    """The servers that an editor describes; what is no description of one is passed over."""
    found = []
    for one in given:
        with contextlib.suppress(msgspec.ValidationError, RecursionError):
            found.append(msgspec.convert(one, McpServer))
    return found


def can_use_servers() -> bool:
    """Whether the package for it is installed."""
    return importlib.util.find_spec("mcp") is not None


@contextlib.asynccontextmanager
async def _connected(server: McpServer, cwd: str) -> AsyncIterator[Client]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    headers = {pair.name: pair.value for pair in server.headers}
    transport: Any
    async with contextlib.AsyncExitStack() as open_things:
        if server.type == "stdio":
            if not server.command:
                raise FileNotFoundError("no command")
            env = {pair.name: pair.value for pair in server.env}
            stdio = StdioServerParameters(command=server.command, args=server.args, env=env, cwd=cwd)
            transport = stdio_client(stdio, errlog=sys.__stderr__ or sys.stderr)
        elif not server.url.startswith(("http://", "https://")) or server.type not in ("http", "sse"):
            raise ValueError("no address")
        elif server.type == "sse":
            from mcp.client.sse import sse_client

            transport = sse_client(server.url, headers=headers, httpx_client_factory=_http_client)
        else:
            from mcp.client.streamable_http import streamable_http_client

            http = await open_things.enter_async_context(_http_client(headers))
            transport = streamable_http_client(server.url, http_client=http)
        yield await open_things.enter_async_context(Client(transport))


def _http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """One that takes the headers nowhere but to the address that they are for."""
    from mcp.shared._httpx_utils import create_mcp_http_client

    made = create_mcp_http_client(headers, timeout, auth)
    made.follow_redirects = False
    return made


async def _offers(server: McpServer, client: Client) -> list[_Offer]:
    found: list[_Offer] = []
    cursor = None
    while len(found) < _TOOLS_MAX:
        page = await client.list_tools(cursor=cursor)
        found += [_Offer(server, client, about) for about in page.tools]
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _text_of(blocks: list[Any]) -> str:
    parts = []
    for block in blocks:
        texts = (getattr(block, "text", None), getattr(getattr(block, "resource", None), "text", None))
        named = f"[{getattr(block, 'type', 'something')}, which cannot be shown]"
        parts.append(next((text for text in texts if isinstance(text, str)), named))
    whole = plain_text("\n".join(parts))
    if len(whole) <= _RESULT_CHARS_MAX:
        return whole
    return f"{whole[:_RESULT_CHARS_MAX]}\n[… {len(whole) - _RESULT_CHARS_MAX:,} characters more]"


def _excuse(server: McpServer, error: BaseException) -> str:
    """Why there are no tools of it; never in the words of the error, which may hold secrets."""
    if isinstance(error, BaseExceptionGroup) and error.exceptions:
        return _excuse(server, error.exceptions[0])
    why = {
        ImportError: "the package mcp is not installed (holdfast[mcp])",
        FileNotFoundError: "there is no such command",
        PermissionError: "its command may not be run",
        TimeoutError: f"it did not answer within {_START_S:.0f} seconds",
        ValueError: "its address cannot be used",
    }
    told = next((text for kind, text in why.items() if isinstance(error, kind)), None)
    told = told or f"it failed ({type(error).__name__})"
    return f"[holdfast] The MCP server {server.shown_name} could not be used: {told}.\n\n"
