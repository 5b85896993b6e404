"""MCP servers whose tools an agent may call: started when a run needs them, stopped with the agent.

They live in an event loop of their own, on a thread of their own: runs come from many loops, and a connection belongs
to the loop that made it. Commands and addresses are neither recorded nor shown: variables and headers hold secrets.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import importlib.util
import logging
import os
import re
import threading
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, TextIO, get_args
from weakref import WeakSet

import msgspec

from holdfast.agent._context import plain_text
from holdfast.agent._options import check_lists
from holdfast.agent._tools import Tool
from holdfast.errors import AgentError, UsageError
from holdfast.security import neutralise_line

if TYPE_CHECKING:
    from mcp import Client

_START_S = 30.0
_END_S = 10.0
_NAME_CHARS = 80
_TOOL_NAME_CHARS = 64
_TOOLS_MAX = 512
_RESULT_CHARS_MAX = 256 * 1024
_LAST_LINES = 3
_LAST_LINE_CHARS = 300
_LINE_CHARS_MAX = 64 * 1024
_LAST_WORDS_S = 1.0
_SECRET_CHARS_MIN = 4
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)
Asks = Literal["always", "changes", "never"]


class McpServerWarning(UserWarning):
    """An MCP server is unavailable; the agent goes on without it."""


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server: a ``command`` with its ``args`` and ``env``, or a ``url`` with ``headers``.

    ``type`` is "http" (streamable) for an address unless it is "sse". ``asks`` says which of its tools need
    permission: those that change something according to the server ("changes"), all, or none. With ``tools``
    only these are offered.
    """

    name: str
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    type: str = ""
    asks: Asks = "changes"
    tools: list[str] | None = None

    @property
    def kind(self) -> str:
        """The transport: "stdio", "http" or "sse"."""
        return {"": "http" if self.url else "stdio", "streamable-http": "http"}.get(self.type, self.type)

    @property
    def shown_name(self) -> str:
        """The name as shown to people."""
        return plain_text(self.name)[:_NAME_CHARS] or "without a name"

    def __repr__(self) -> str:
        return f"<McpServer {self.shown_name!r}>"


def check_servers(given: Iterable[Any] | Mapping[str, Any]) -> list[McpServer]:
    """Return the given servers: each a McpServer or a dict of its fields, or all by name. Raises UsageError."""
    if isinstance(given, Mapping):
        given = [{**one, "name": name} if isinstance(one, Mapping) else one for name, one in given.items()]
    check_lists(mcp_servers=given)
    found = [one if isinstance(one, McpServer) else _read_server(one) for one in given]
    for server in found:
        _check(server)
    names = [server.name for server in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two MCP servers have the name {twice[0]!r}")
    return found


def _read_server(given: Any) -> McpServer:
    if not isinstance(given, Mapping):
        raise UsageError(f"an MCP server is a McpServer or a dict, not {type(given).__name__}")
    try:
        return msgspec.convert(dict(given), McpServer)
    except msgspec.ValidationError as error:
        # The error names the member, never a value.
        name = given.get("name", "without a name")
        known = ", ".join(McpServer.__struct_fields__)
        raise UsageError(f"the MCP server {name!r:.80}: {error}", remedy=f"It has: {known}.") from error


def _check(server: McpServer) -> None:
    wrong = None
    if not server.name.strip():
        wrong = "it needs a name"
    elif bool(server.command) == bool(server.url):
        wrong = "it has either a command or a url"
    elif server.kind not in ("stdio", "http", "sse") or (server.kind == "stdio") != bool(server.command):
        wrong = f"type {server.type!r} does not fit; a url takes http or sse"
    elif server.url and not server.url.startswith(("http://", "https://")):
        wrong = "its url begins with http:// or https://"
    elif server.asks not in get_args(Asks):
        wrong = f"asks {server.asks!r} is none of {', '.join(get_args(Asks))}"
    if wrong is not None:
        remedy = 'For instance {"name": "git", "command": "uvx", "args": ["mcp-server-git"]}.'
        raise UsageError(f"the MCP server {server.shown_name}: {wrong}", remedy=remedy)


def can_use_servers() -> bool:
    """Return whether the required package is installed."""
    return importlib.util.find_spec("mcp") is not None


def warn_of_server(text: str) -> None:
    """Warn that the agent goes on without a server."""
    remedy = "Try its command or address by hand; the next run tries it again."
    warnings.warn(f"{text} {remedy}", McpServerWarning, stacklevel=2)


class McpServers:
    """The servers of one agent, or of one session. Safe to use from any thread and any event loop.

    ``tell`` is called for an unavailable server; the others are used all the same. One that failed or stopped
    is started again by the next run. ``check`` is called before each call, and may refuse it.
    """

    def __init__(
        self,
        servers: list[McpServer],
        cwd: str | None = None,
        tell: Callable[[str], None] = warn_of_server,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.given = servers
        self._cwd = cwd
        self._tell = tell
        self._check = check
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._known: dict[str, _Connection] = {}

    def start(self) -> None:
        """Begin to start the servers that are not running."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=[self._loop], name="mcp-servers", daemon=True)
                self._thread.start()
                _running.add(self)
            for server in self.given:
                known = self._known.get(server.name)
                if known is None or known.is_over:
                    self._known[server.name] = _Connection(server, server.cwd or self._cwd, self._loop, self._tell)

    async def tools(self, taken: Collection[str] = ()) -> list[Tool]:
        """Return their tools once each has answered or failed, under names that are not taken."""
        self.start()
        offers: list[_Offer] = []
        for one in list(self._known.values()):
            # Shielded: a turn that is cancelled while a server starts must not spoil it for others.
            told: list[_Offer] = await asyncio.shield(asyncio.wrap_future(one.offered))
            offers += told
            excuse, one.excuse = one.excuse, None
            if excuse is not None:
                self._tell(excuse)
        made: dict[str, Tool] = {}
        for offer in offers[:_TOOLS_MAX]:
            first = name = offer.name_beside(self.given)
            number = 1
            while name in made or name in taken:
                number += 1
                name = f"{first[: _TOOL_NAME_CHARS - 4]}_{number}"
            made[name] = offer.tool(name, self._check)
        return list(made.values())

    def close(self) -> None:
        """Stop them all, and their processes. Does nothing the second time; a later run starts them anew."""
        with self._lock:
            loop, thread, known = self._loop, self._thread, list(self._known.values())
            self._loop, self._thread, self._known = None, None, {}
        if loop is None or thread is None:
            return
        with contextlib.suppress(RuntimeError):  # its thread has ended, as at the end of the process
            asyncio.run_coroutine_threadsafe(_end(known), loop).result(2 * _END_S)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_END_S)

    async def aclose(self) -> None:
        """Do what ``close`` does, without blocking the event loop."""
        await asyncio.to_thread(self.close)


def servers_of(
    given: Iterable[Any] | Mapping[str, Any] | McpServers, tell: Callable[[str], None] = warn_of_server
) -> McpServers | None:
    """Return the servers that an agent was given; None if there are none. Raises UsageError."""
    if isinstance(given, McpServers):
        return given
    found = check_servers(given)
    if found and not can_use_servers():
        raise UsageError("MCP servers need the package mcp", remedy="Install it with: pip install 'holdfast[mcp]'")
    return McpServers(found, tell=tell) if found else None


_running: WeakSet[McpServers] = WeakSet()


@atexit.register
def _close_all() -> None:
    for servers in list(_running):
        servers.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end(known: list[_Connection]) -> None:
    tasks = [one.task for one in known if one.task is not None]
    for one in known:
        one.over.set()
        if one.task is not None and not one.offered.done():
            one.task.cancel()  # it is still starting, and waits for nothing else
    if tasks:
        _, slow = await asyncio.wait(tasks, timeout=_END_S)
        # A server that does not end by itself: its process ends with its task.
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


class _Connection:
    """One server from its start to its end, in one task, as its connection requires."""

    def __init__(
        self, server: McpServer, cwd: str | None, loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]
    ) -> None:
        self.server = server
        self.offered: Future[list[_Offer]] = Future()
        """Its tools; none if it is unavailable."""
        self.excuse: str | None = None
        """The reason why it is unavailable, until it was reported."""
        self.is_over = False
        self._is_lost = False
        """True once its failure was reported."""
        self.over = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._cwd = cwd
        self._loop = loop
        self._tell = tell
        self._last_words = LastWords(server)
        self.offered.set_running_or_notify_cancel()
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self.task = asyncio.ensure_future(self._live())

    async def _live(self) -> None:
        try:
            async with contextlib.AsyncExitStack() as open_things:
                async with asyncio.timeout(_START_S):
                    connected = _connected(self.server, self._cwd, self._last_words)
                    client = await open_things.enter_async_context(connected)
                    offers = await _offers(self, client)
                self.offered.set_result(offers)
                await self.over.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent goes on without it
            if not self.offered.done():
                self.excuse = _excuse(self.server, error) + await asyncio.to_thread(self._last_words.told)
        finally:
            self.is_over = True
            if not self.offered.done():
                self.offered.set_result([])

    async def call(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Call the server from any event loop. Raises AgentError if it has stopped."""
        name = self.server.shown_name
        if self.is_over:
            await self._lose("it is gone")
            raise AgentError(f"the MCP server {name} is gone", remedy="The next run starts it again.")
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))
        except Exception as error:  # noqa: BLE001 - its words may hold an address with secrets
            if _is_refusal(error):
                raise AgentError(f"the MCP server {name} refused the call: {plain_text(str(error))[:500]}") from None
            failed = type(error).__name__
            await self._lose(failed)
            told = f"the MCP server {name} failed ({failed}); whether the call was carried out is not known"
            raise AgentError(told, remedy="The next run starts it again.") from None

    async def _lose(self, failed: str) -> None:
        """Report once that it failed; the next run starts it again."""
        if self._is_lost or self.over.is_set():
            return
        self._is_lost = self.is_over = True
        self._loop.call_soon_threadsafe(self.over.set)
        words = await asyncio.to_thread(self._last_words.told)
        self._tell(f"The MCP server {self.server.shown_name} failed ({failed}).{words}")


def _is_refusal(error: Exception) -> bool:
    """Return whether a running server answered with an error, as opposed to a broken connection."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    return isinstance(error, MCPError) and error.code != CONNECTION_CLOSED


class _Offer:
    """A tool of a running server."""

    def __init__(self, connection: _Connection, client: Client, about: Any) -> None:
        self._connection = connection
        self._client = client
        self._about = about

    def name_beside(self, servers: list[McpServer]) -> str:
        """Return its name, always with its server's: an approval for one server's tool must not apply to another's."""
        server, other = self._connection.server, self._about.name
        name = _fit_name(f"{server.name}_{other}")
        own = len(_fit_name(server.name))
        prefixes = [_fit_name(each.name) for each in servers if each is not server]
        if any(name.startswith(f"{prefix}_") for prefix in prefixes if len(prefix) >= own):
            # It could be mistaken for a tool of a server whose name begins alike.
            mark = hashlib.sha256(f"{server.name}\0{other}".encode()).hexdigest()[:8]
            name = f"{name[: _TOOL_NAME_CHARS - len(mark) - 1]}_{mark}"
        return name[:_TOOL_NAME_CHARS]

    def tool(self, name: str, check: Callable[[], None]) -> Tool:
        """Return the tool for an agent; if every call asks, the server's own description of it is not relied on."""
        server, hints = self._connection.server, self._about.annotations
        trusts = server.asks != "always" and hints is not None
        reads = trusts and hints.read_only_hint is True and hints.destructive_hint is not True

        async def call(**args: Any) -> Any:
            check()
            answer = await self._connection.call(lambda: self._client.call_tool(self._about.name, args))
            text = _text_of(answer.content)
            if answer.is_error:
                raise AgentError(text or "the tool failed without a word")
            return answer.structured_content if answer.structured_content is not None and not text else text

        return Tool(
            call,
            name=name,
            description=plain_text(self._about.description or ""),
            schema=self._about.input_schema or {"type": "object", "properties": {}},
            needs_permission=server.asks == "always" or (server.asks == "changes" and not reads),
            read_only=reads,
            idempotent=trusts and hints.idempotent_hint is True,
            cache_ms=0,
            namespace=f"mcp.{server.shown_name}",
        )


def _fit_name(text: str) -> str:
    name = _UNFIT.sub("_", text).strip("_") or "tool"
    return f"_{name}" if name[0].isdigit() or name[0] == "-" else name


class LastWords:
    """The output of a server's program on standard error, kept off the terminal, where people may be reading.

    Its last lines are reported when it fails, without the values of its variables.
    """

    def __init__(self, server: McpServer) -> None:
        self._hidden = [value for value in server.env.values() if len(value) >= _SECRET_CHARS_MIN]
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._reader: threading.Thread | None = None

    @contextlib.contextmanager
    def sink(self) -> Iterator[TextIO]:
        """Return the file that the program writes to."""
        source, sink = os.pipe()
        self._reader = threading.Thread(target=self._read, args=[source], name="mcp-stderr", daemon=True)
        self._reader.start()
        with os.fdopen(sink, "w") as file:
            yield file

    def _read(self, source: int) -> None:
        with os.fdopen(source, encoding="utf-8", errors="replace") as file:
            while line := file.readline(_LINE_CHARS_MAX):
                if line.strip():
                    self._lines.append(line.strip())

    def told(self) -> str:
        """Return a sentence with its last lines; empty if there are none.

        Waits a moment for the rest of a dying server.
        """
        if self._reader is not None:
            self._reader.join(_LAST_WORDS_S)
        lines = list(self._lines)
        for value in self._hidden:
            lines = [line.replace(value, "…") for line in lines]
        said = " / ".join(line[:_LAST_LINE_CHARS] for line in lines)
        return f" It said last: {neutralise_line(said)}" if said else ""


@contextlib.asynccontextmanager
async def _connected(server: McpServer, cwd: str | None, last_words: LastWords) -> AsyncIterator[Client]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # The library's messages about a server go to the program's logs, not to the terminal.
    log = logging.getLogger("mcp")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    transport: Any
    async with contextlib.AsyncExitStack() as open_things:
        # Closed here once the program has it, so that the output ends when the program does.
        with contextlib.ExitStack() as until_it_runs:
            if server.kind == "stdio":
                if not server.command:
                    raise FileNotFoundError("no command")
                stdio = StdioServerParameters(command=server.command, args=server.args, env=server.env, cwd=cwd)
                transport = stdio_client(stdio, errlog=until_it_runs.enter_context(last_words.sink()))
            elif not server.url.startswith(("http://", "https://")) or server.kind not in ("http", "sse"):
                raise ValueError("no address")
            elif server.kind == "sse":
                from mcp.client.sse import sse_client

                transport = sse_client(server.url, headers=server.headers, httpx_client_factory=_http_client)
            else:
                from mcp.client.streamable_http import streamable_http_client

                http = await open_things.enter_async_context(_http_client(server.headers))
                transport = streamable_http_client(server.url, http_client=http)
            client = await open_things.enter_async_context(Client(transport))
        yield client


def _http_client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """Return a client that sends the headers only to the address that they are for."""
    from mcp.shared._httpx_utils import create_mcp_http_client

    made = create_mcp_http_client(headers, timeout, auth)
    made.follow_redirects = False
    return made


async def _offers(connection: _Connection, client: Client) -> list[_Offer]:
    found: list[_Offer] = []
    wanted = connection.server.tools
    cursor = None
    while len(found) < _TOOLS_MAX:
        page = await client.list_tools(cursor=cursor)
        found += [_Offer(connection, client, one) for one in page.tools if wanted is None or one.name in wanted]
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
    """Return why its tools are missing; never in the words of the error, which may hold secrets."""
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
    return f"The MCP server {server.shown_name} could not be used: {told}."
