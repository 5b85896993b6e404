"""``holdfast acp agent``: our own agent, served to an editor on standard input and output.

One process serves many sessions at once. What the agent says and does is recorded first, and what
is recorded is shown.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import asdict

from holdfast.agent import Host, McpServer, can_use_servers, fork_seq, offered_commands, read_command, usage_text
from holdfast.apps.acp.agent import editor
from holdfast.apps.acp.agent.session import Live
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.acp.replay import list_sessions, tell_past
from holdfast.apps.wire.frames import INVALID_PARAMS, NOT_FOUND, RpcError, as_rpc_error, rpc_code, text_in
from holdfast.apps.wire.peer import Peer
from holdfast.apps.wire.pipes import Pipe, serve
from holdfast.errors import HoldfastError, InvalidId, NotFound
from holdfast.library import Holdfast
from holdfast.model import VERSION, Event, Notice, check_id
from holdfast.session import Session

Act = Callable[[Holdfast, Live, str], Awaitable[str]]


def available_commands() -> dict[str, Any]:
    """Return the update that tells an editor which commands there are."""
    shown = [
        {"name": name, "description": command.does, **({"input": {"hint": command.takes}} if command.takes else {})}
        for name, command in COMMANDS.items()
    ]
    return {"sessionUpdate": "available_commands_update", "availableCommands": shown}


async def obey(hf: Holdfast, live: Live, name: str, rest: str) -> dict[str, Any]:
    """Carry out a command; what its prompt is answered with. Both stand in the log, as frames.

    Raises RpcError while a turn is under way, and whatever ends the turn of "continue".
    """

    async def work() -> dict[str, Any]:
        asked = {"method": "session/prompt", "params": {"prompt": f"/{name} {rest}".strip()}}
        live.session.append("frame", clean({"direction": "holdfast", "frame": asked}))
        try:
            act = COMMANDS[name].act
            live.say(await _OWN[name](hf, live, rest) if act is None else act(live.session, rest))
        except (HoldfastError, RpcError) as error:
            live.say(" ".join(filter(None, [f"That did not work: {error}.", getattr(error, "remedy", "")])))
        await live.session.abarrier()
        return {"stopReason": "end_turn"}

    return await (live.answer(None) if name == "continue" else live.occupy(work))


async def _status(hf: Holdfast, live: Live, _: str) -> str:
    await live.session.aflush()
    row = await asyncio.to_thread(hf.info, live.id)
    lines = [
        f"Session {row.session_id}: {row.message_count} messages, {row.event_count} events",
        f"Title: {row.title or '(none)'}",
        f"Tags: {', '.join(row.tags) or '(none)'}",
        f"Tokens: {'about ' if row.tokens_estimated else ''}{row.total_tokens:,}"
        + ("" if row.cost is None else f", ${row.cost:.4f}"),
        f"Mode: {live.mode}",
        f"Kept at: {await asyncio.to_thread(hf.location, live.id)}",
    ]
    return "\n".join(filter(None, [*lines, live.kit.about]))


async def _cost(hf: Holdfast, live: Live, _: str) -> str:
    await live.session.aflush()
    return usage_text(live.session, (await asyncio.to_thread(hf.info, live.id)).cost)


async def _fork(hf: Holdfast, live: Live, rest: str) -> str:
    made = await asyncio.to_thread(hf.fork, live.id, fork_seq(rest))
    return f"Made {made}, a copy of this session. Open it from the list of sessions."


async def _mode(_: Holdfast, live: Live, rest: str) -> str:
    if rest:
        live.set_mode(rest)
    name, about = editor.MODES[live.mode]
    return f"{name}: {about}"


async def _help(_: Holdfast, __: Live, ___: str) -> str:
    return "\n".join(f"{f'/{name} {command.takes}'.strip()}: {command.does}" for name, command in COMMANDS.items())


_OWN: dict[str, Act] = {"status": _status, "cost": _cost, "fork": _fork, "mode": _mode, "help": _help}
COMMANDS = offered_commands([*_OWN, "continue"])

Params = dict[str, Any]

_NO_SERVERS = "[holdfast] This model calls no tools, so these MCP servers are not used: {}.\n\n"


class AgentServer:
    """Our agent at one end of a connection. ``run`` serves it until the editor is gone."""

    def __init__(self, hf: Holdfast, kit: editor.EditorKit, pipe: Pipe) -> None:
        self._hf = hf
        self._kit = kit
        self._pipe = pipe
        self._capabilities = editor.ClientCapabilities()
        self._host: Host[str, Session] = Host(idle_ms=None)
        self._live: dict[str, Live] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # The parameters and the handler of each method.
        methods: dict[str, tuple[Any, Callable[[Any], Awaitable[Any]]]] = {
            "initialize": (editor.Initialize, self._initialize),
            "authenticate": (Params, self._authenticate),
            "session/new": (editor.NewSessionParams, partial(self._begin, None)),
            "session/load": (editor.OpenSession, partial(self._open, replays=True)),
            "session/resume": (editor.OpenSession, partial(self._open, replays=False)),
            "session/fork": (editor.OpenSession, self._fork),
            "session/list": (editor.ListWish, lambda wish: asyncio.to_thread(list_sessions, hf, asdict(wish))),
            "session/close": (editor.OfSession, self._close),
            "session/delete": (editor.OfSession, self._delete),
            "session/prompt": (editor.PromptWish, self._prompt),
            "session/set_mode": (editor.ModeWish, self._set_mode),
        }
        self._peer = Peer(
            pipe,
            methods={name: partial(_answer, *known) for name, known in methods.items()},
            listeners={"session/cancel": self._cancel},
            endless={"session/prompt"},
            explain=_explained,
        )

    async def run(self) -> None:
        """Serve until the editor is gone; turns are stopped then, and sessions closed."""
        loop = asyncio.get_running_loop()

        def show(session_id: str, event: Event) -> None:
            if session_id in self._live:
                self._live[session_id].show(event)

        def listen(session_id: str, what: Event | Notice) -> None:
            # From whatever thread: everything is shown in the loop, in the order of the log.
            if isinstance(what, Event) and session_id in self._live:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(show, session_id, what)

        stop = self._hf.subscribe(listen)
        try:
            await self._peer.run()
        finally:
            stop()
            for live in list(self._live.values()):
                with contextlib.suppress(HoldfastError):  # the others are closed all the same
                    await self._let_go(live)
            await self._host.aclose()  # also what a request opened that ended before it was answered

    async def _initialize(self, wish: editor.Initialize) -> Any:
        self._capabilities = wish.client_capabilities or editor.ClientCapabilities()
        return {
            "protocolVersion": 1,  # the one that there is, whatever was asked for
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": not self._kit.is_plain, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": can_use_servers(), "sse": can_use_servers()},
                "sessionCapabilities": {name: {} for name in ("list", "resume", "fork", "close", "delete")},
            },
            "agentInfo": {"name": "holdfast", "title": "Holdfast", "version": VERSION},
            "authMethods": [],
        }

    async def _authenticate(self, _: Params) -> Any:
        return {}  # nobody has to

    async def _begin(self, id: str | None, wish: editor.NewSessionParams) -> Any:
        """Return a session that is new to the editor: where it works is on record."""

        def opened() -> Session:
            # Kept on the thread: a request that is given up meanwhile loses no open session.
            session = self._kit.open_session(self._hf, id)
            self._host.keep(session.id, session)
            return session

        session = await asyncio.to_thread(opened)
        try:
            if session.live_state.metadata.get("cwd") != wish.cwd:
                session.append("metadata", {"cwd": wish.cwd})
            await session.abarrier()
        except BaseException:
            await asyncio.to_thread(self._host.let_go, session.id)
            raise
        live = self._take(session, wish)
        await self._give_servers(live, wish)
        return {"sessionId": session.id, "modes": editor.mode_state(live.mode)}

    async def _open(self, wish: editor.OpenSession, *, replays: bool) -> Any:
        # Two loads of one session must not both open it, nor one meet it half closed.
        async with self._alone(wish.session_id):
            live = self._live.get(wish.session_id)
            if live is None:
                make = partial(self._kit.open_session, self._hf, wish.session_id)
                async with self._host.ause(wish.session_id, make) as session:
                    live = self._take(session, wish)
            await self._give_servers(live, wish)
            if replays:  # all that was said and done, from the log, without holding up others
                close_open = not live.is_busy and not live.session.live_state.asks  # what waits is asked about again
                with live.held_back() as last:
                    await tell_past(self._hf, live.session, self._pipe, stop=last + 1, close_open=close_open)
        # After the answer: editors put questions away when they begin to load.
        asyncio.get_running_loop().call_soon(self._ask_again, live, replays)
        return {"modes": editor.mode_state(live.mode)}

    def _ask_again(self, live: Live, is_shown: bool) -> None:  # noqa: FBT001 - called by the loop, without names
        task = asyncio.ensure_future(live.ask_again(is_shown=is_shown))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _fork(self, wish: editor.OpenSession) -> Any:
        return await self._begin(await asyncio.to_thread(self._hf.fork, check_id(wish.session_id)), wish)

    async def _close(self, wish: editor.OfSession) -> Any:
        async with self._alone(wish.session_id):
            await self._let_go(self._find(wish.session_id))
        return {}

    async def _delete(self, wish: editor.OfSession) -> Any:
        async with self._alone(check_id(wish.session_id)):
            live = self._live.get(wish.session_id)
            if live is not None:
                await self._let_go(live)
            with contextlib.suppress(NotFound):  # it is gone, as was asked for
                await asyncio.to_thread(self._hf.delete, wish.session_id)
        return {}

    async def _set_mode(self, wish: editor.ModeWish) -> Any:
        self._find(wish.session_id).set_mode(wish.mode_id)
        return {}

    async def _prompt(self, wish: editor.PromptWish) -> Any:
        live = self._find(wish.session_id)
        content = editor.read_prompt(wish.prompt, images=not self._kit.is_plain)
        command = read_command(content) if isinstance(content, str) else None
        if command is not None and command[0] in COMMANDS:
            return await obey(self._hf, live, *command)
        return await live.answer(content)

    def _cancel(self, params: Params) -> None:
        live = self._live.get(text_in(params, "sessionId"))
        if live is not None:
            # A prompt that came just before it has to have begun.
            asyncio.get_running_loop().call_soon(live.cancel)

    def _take(self, session: Session, wish: editor.NewSessionParams) -> Live:
        def send(update: dict[str, Any]) -> None:
            self._peer.notify("session/update", {"sessionId": session.id, "update": update})

        desk = editor.EditorAccess(self._peer, self._capabilities, session.id, wish.cwd)
        live = self._live[session.id] = Live(self._hf, self._kit, session, desk, host=self._host, send=send)
        # After the answer: an editor does not know the session before.
        asyncio.get_running_loop().call_soon(send, available_commands())
        return live

    async def _give_servers(self, live: Live, wish: editor.NewSessionParams) -> None:
        """Start the editor's MCP servers; nothing of them is recorded except failures, by name."""
        servers = read_servers(wish.mcp_servers)
        if self._kit.is_plain and servers:
            names = ", ".join(server.shown_name for server in servers)
            asyncio.get_running_loop().call_soon(live.say, _NO_SERVERS.format(names))
        else:
            await live.use_servers(servers)

    def _find(self, session_id: str) -> Live:
        live = self._live.get(session_id)
        if live is None or live.is_closing:
            what = f"session {session_id[:128]!a} is not open here; load or resume it first"
            raise RpcError(NOT_FOUND, what, {"sessionId": session_id})
        return live

    async def _let_go(self, live: Live) -> None:
        try:
            await live.close()  # what it says until then is shown
        finally:
            self._live.pop(live.id, None)

    def _alone(self, session_id: str) -> asyncio.Lock:
        """Return a lock under which sessions are opened, closed or deleted one at a time."""
        return self._locks.setdefault(session_id, asyncio.Lock())


def read_servers(given: list[Any]) -> list[McpServer]:
    """Return the servers that an editor describes, of which every call asks; what describes none is passed over."""
    found = []
    for one in given:
        with contextlib.suppress(msgspec.ValidationError, RecursionError):
            told = msgspec.convert(one, editor.DescribedServer)
            pairs = {"env": told.env, "headers": told.headers}
            maps = {name: {pair.name: pair.value for pair in each} for name, each in pairs.items()}
            found.append(McpServer(**{**asdict(told), **maps}, asks="always"))
    return found


async def _answer(kind: Any, method: Callable[[Any], Awaitable[Any]], params: Params) -> Any:
    """Read the parameters of a request, and answer it. Raises RpcError that says what is wrong with them."""
    try:
        wish = msgspec.convert(params, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"wrong parameters: {str(error)[:300]}") from error
    return await method(wish)


def _explained(error: Exception) -> RpcError:
    """Tell what the editor did wrong by the protocol's own codes."""
    if not isinstance(error, HoldfastError):
        return as_rpc_error(error)
    told = error.message
    if not isinstance(error, NotFound | InvalidId):  # an editor shows nothing but this
        told = f"{told.rstrip('.')}. {error.remedy}".strip()
    return RpcError(rpc_code(error), told, {"code": error.code})


def serve_agent(place: str | None, kit: editor.EditorKit) -> None:
    """Serve as an agent on standard input and output. Raises as ``holdfast.open``."""
    from holdfast.apps.watched import watch

    with Holdfast(place, redaction="mark") as hf:
        watch(hf)
        serve(lambda pipe: AgentServer(hf, kit, pipe).run())
