"""One open session of our agent: what it says is recorded, and then shown to the editor."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.agent import Host, HostedTurn, McpServer, McpServers, Scope, is_child, plain_result
from holdfast.apps.acp.agent.editor import AUTO, MODES, OPTIONS, READ_ONLY, EditorAccess, EditorKit, window_of
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.acp.replay.words import call_update, content_updates, plan_update, result_update
from holdfast.apps.wire.frames import INVALID_PARAMS, INVALID_REQUEST, RpcError, member, notification, text_in
from holdfast.errors import Forbidden, HoldfastError, TooManyIterations, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event, has_marked_keys
from holdfast.session import Session, Waiting, is_due, resolve_blobs, uncancelled

if TYPE_CHECKING:
    from holdfast.agent import Agent, Decision, PermissionRequest, RunResult, RunStream, Suspend
    from holdfast.apps.acp.agent.tools import ToolBox

_CATCH_UP_S = 10.0
_LOOK_S = 1.0
Update = dict[str, Any]
UserAnswer = tuple[bool, Scope, str | None]  # allowed or not, for how long, and why not


class Live:
    """A session with its agent and its mode; its turns are the host's. ``send`` is given its updates, in order."""

    def __init__(
        self,
        hf: Holdfast,
        kit: EditorKit,
        session: Session,
        desk: EditorAccess,
        *,
        host: Host[str, Session],
        send: Callable[[Update], None],
    ) -> None:
        self._hf = hf
        self._out = send
        self._kept: list[Update] | None = None  # updates that wait until the past has been told
        self._whole = asyncio.Event()
        self._whole.set()
        self._replayed = -1
        self.kit = kit
        self.session = session
        self.id = session.id
        self.desk = desk
        self._pending: set[str] = set()  # calls that the editor was shown and that have not ended
        self._shaped: set[str] = set()  # calls of which it was shown more than their result
        self._used: int | None = None
        self._title = session.title
        self._seen = session.seq
        self._told = asyncio.Event()
        self.mode = kit.mode
        self.is_closing = False
        self._again: HostedTurn | None = None
        self._host = host
        self._agent: Agent | None = None
        self._box: ToolBox | None = None
        self._servers: McpServers | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether a turn or a command is running."""
        return self._host.turn(self.id) is not None

    # -- turns -------------------------------------------------------------------------------
    async def answer(self, prompt: str | list[dict[str, Any]] | None) -> dict[str, Any]:
        """Answer a prompt, or go on; how the turn ended. Raises RpcError while another runs, and what ends it."""
        if self._again is not None and self._host.turn(self.id) is self._again:
            await self._again.stop()  # what it asked for is answered by going on without an answer
        before, reason = self.session.seq, "failed"
        turn = self._begin(lambda: self._turn(prompt))
        try:
            ended = await _end_of(turn)
            reason = str(ended["stopReason"])
            return ended
        except asyncio.CancelledError:
            reason = "cancelled"
            raise
        finally:
            # Nothing was done about it: it was stopped at once, or there is no model.
            if prompt is not None and self.session.seq == before:
                said = {"role": "user", "content": prompt}
                with contextlib.suppress(HoldfastError):  # it may be what cannot be recorded
                    self.session.extend([("turn_start", {}), ("user", said), ("turn_end", {"reason": reason})])

    async def occupy(self, work: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Do what only one can do at a time; the end of it if it is stopped. Raises RpcError while another is at it."""
        return await _end_of(self._begin(work))

    def _begin(self, work: Callable[[], Awaitable[dict[str, Any]]]) -> HostedTurn:
        async def shown(_: HostedTurn) -> dict[str, Any]:
            try:
                return await work()
            finally:
                # Inside of the turn: its end is the prompt's answer, after which nothing may come.
                await uncancelled(self._settle())

        if self.is_busy:
            what = f"session {self.id} is answering a prompt already; wait for it, or cancel it"
            raise RpcError(INVALID_REQUEST, what)
        return self._host.begin(self.id, shown)

    def cancel(self) -> None:
        """Stop what is under way; it is on record then that it was stopped."""
        if (turn := self._host.turn(self.id)) is not None:
            turn.cancel()

    async def close(self) -> None:
        """Stop what is under way, and give the session back."""
        self.is_closing = True
        await self._host.cancel(self.id)
        if self._agent is not None:
            await self._agent.aclose()
        if self._servers is not None:
            await self._servers.aclose()
        await asyncio.to_thread(self._host.let_go, self.id, used=True)

    async def use_servers(self, servers: list[McpServer]) -> None:
        """Use these MCP servers from now on; a running turn keeps its own."""
        # A running turn holds the tools of the servers that it began with.
        before = self._servers
        if self.is_busy or servers == ([] if before is None else before.given):
            return
        self._servers = McpServers(servers, self.desk.root, self._excuse, self._check_may_change)
        self._servers.start()
        if before is not None:
            await before.aclose()
        agent, self._agent = self._agent, None  # the next one has the tools of these
        if agent is not None:
            await agent.aclose()

    async def _turn(self, prompt: str | list[dict[str, Any]] | None) -> dict[str, Any]:
        agent = await self._ready()
        going_on = prompt is None and is_due(self.session)
        stream = self._go_on(agent) if going_on else agent.run_stream(prompt, session=self.session)
        used = None
        try:
            while True:
                async with stream as pieces:
                    async for _ in pieces:
                        pass  # what is recorded of it is shown
                if used is not None:
                    pieces.result.usage.add(used)  # of one prompt
                used = pieces.result.usage
                if not await self._ask(pieces.result.waiting, again=False):
                    return end_of(pieces.result)
                stream = self._go_on(agent)
        except TooManyIterations:
            return {"stopReason": "max_turn_requests"}

    async def _ready(self) -> Agent:
        """Return the agent, made if need be, with the tools of the editor and of its servers."""
        if self._agent is None:
            self._agent = await asyncio.to_thread(self._make_agent)
        return self._agent

    def _go_on(self, agent: Agent) -> RunStream:
        """Carry out the answers, wherever they were given."""
        return agent.resume_stream(self.id, answers={}, session=self.session)

    async def ask_again(self, *, is_shown: bool) -> None:
        """Ask for what the session waits for since before it was opened here, and go on with what is answered.

        ``is_shown`` says that the editor has been told of these calls. A prompt ends it.
        """
        # It was opened a moment ago: without a question in its state, no log need be read for one.
        asked = self.session.live_state.asks
        waiting = await asyncio.to_thread(self._hf.waiting, session=self.id) if asked else []
        if is_shown:
            self._pending.update(one.call for one in waiting if one.call)

        async def work() -> dict[str, Any]:
            try:
                await self._ready()  # its tools know what a call would change
                if await self._ask(waiting, again=True):
                    return await self._turn(None)
            except HoldfastError as error:  # no prompt is there that could be answered with it
                self.say(f"[holdfast] The session could not go on: {error}\n\n")
            return {"stopReason": "end_turn"}

        if not self.is_busy and not self.is_closing and (waiting or is_due(self.session)):
            turn = self._again = self._begin(work)
            await turn.wait()

    def _excuse(self, text: str) -> None:
        self.say(f"[holdfast] {text}\n\n")

    def _make_agent(self) -> Agent:
        from holdfast.apps.acp.agent.tools import ToolBox

        box = self._box = ToolBox(
            self.desk, check=self._check_may_change, show_diff=self._show_diff, show_terminal=self._show_terminal
        )
        return self.kit.agent(self._hf, self.session, box.tools, self._permit, self._servers)

    # -- modes and permissions ---------------------------------------------------------------
    def set_mode(self, mode: str) -> None:
        """Switch to another mode. Raises RpcError if there is none with that name."""
        if mode not in MODES:
            known = ", ".join(MODES)
            raise RpcError(INVALID_PARAMS, f"there is no mode {mode[:40]!a}; there are {known}")
        if mode != self.mode:
            self.mode = mode
            # Not replayed: a log from elsewhere must not say how freely the agent works here.
            self._note({"sessionUpdate": "current_mode_update", "currentModeId": mode}, "holdfast")

    def _check_may_change(self) -> None:
        """Check that the mode allows changes, since an approval for the session may be older than the mode."""
        if self.mode == READ_ONLY:
            raise Forbidden("the session is in the mode read-only", remedy="Only read.")

    def _permit(self, _: PermissionRequest) -> Decision | Suspend:
        from holdfast.agent import Decision, Suspend

        if self.mode == AUTO:
            return Decision(allow=True, approved_by="mode auto")
        if self.mode == READ_ONLY:
            return Decision(allow=False, approved_by="mode read-only", reason="the mode is read-only")
        # It waits in the log for the first answer: a question outlives the editor that shows it.
        return Suspend(expires_in_ms=None)

    async def _ask(self, waiting: Sequence[Waiting], *, again: bool) -> bool:
        """Ask the editor's user about calls that wait, one after the other; whether the session can go on."""
        for one in waiting:
            if one.kind != "permission":
                continue
            try:
                outcome = await self._outcome(one)
            except RpcError as error:
                if again:
                    break  # between prompts not every editor can; it waits on
                answer: UserAnswer = (False, "once", f"the editor could not ask: {error.message[:200]}")
            else:
                if outcome is None:
                    continue  # answered elsewhere
                if member(outcome, "outcome") == "cancelled":
                    if again:
                        break
                    raise asyncio.CancelledError
                answer = _chosen(outcome)
            # Somebody else may have been quicker: then that counts.
            with contextlib.suppress(UsageError):
                await asyncio.to_thread(self._give, one.id, *answer)
        return await asyncio.to_thread(is_due, self.session)

    async def _outcome(self, one: Waiting) -> Any:
        """Return the answer of the editor's user; None, and the request withdrawn, if it was answered elsewhere."""
        asking = asyncio.ensure_future(self.desk.ask("session/request_permission", await self._question(one)))
        try:
            while not (await asyncio.wait([asking], timeout=_LOOK_S))[0]:
                # Others answer in the store, which tells nobody.
                if not await asyncio.to_thread(self._is_open, one.id):
                    return None
            return asking.result().get("outcome") or {}
        finally:
            asking.cancel()

    def _is_open(self, id: str) -> bool:
        return any(one.id == id for one in self._hf.waiting(session=self.id))

    def _give(self, id: str, allow: bool, scope: Scope, reason: str | None) -> None:  # noqa: FBT001 - called by a thread, without names
        self._hf.answer(id, allow, via="acp", because=reason, scope=scope, session_id=self.id)

    async def _question(self, one: Waiting) -> dict[str, Any]:
        args = one.args if isinstance(one.args, dict) else {}
        call = {**self._call(one.call or one.id, one.tool, plain_result(args)), "status": "pending"}
        shown = [] if self._box is None else await self._box.preview(one.tool, args)
        call |= {"content": shown} if shown else {}
        params = {"toolCall": call, "options": [{"optionId": id, "name": OPTIONS[id][0], "kind": id} for id in OPTIONS]}
        asked = {"method": "session/request_permission", "params": {"sessionId": self.id} | params}
        self.session.append("frame", clean({"direction": "agent", "frame": asked}))
        # On the medium before anybody is asked: an approval must not outlive the question.
        await self.session.abarrier()
        if call["toolCallId"] not in self._pending:
            self._pending.add(call["toolCallId"])
            self._send({"sessionUpdate": "tool_call", **call})
        elif shown:
            self._send({"sessionUpdate": "tool_call_update", **call})
        return params

    # -- what the editor is shown -------------------------------------------------------------
    @contextlib.contextmanager
    def held_back(self) -> Iterator[int]:
        """Hold new events back while the past is replayed up to the yielded event; they are shown then."""
        self._kept = []
        self._whole.clear()
        self._replayed = self.session.seq
        try:
            yield self._replayed
        finally:
            kept, self._kept = self._kept, None
            for update in kept:
                self._out(update)
            self._whole.set()

    def _send(self, update: Update) -> None:
        if self._kept is None:
            self._out(update)
        else:
            self._kept.append(update)

    def show(self, event: Event) -> None:
        """Show the editor what was recorded."""
        if has_marked_keys(bytes(event.raw)):
            [event] = resolve_blobs([event], self._hf.store.documents(self.session.key))
        try:
            if not is_child(event):
                if isinstance(usage := event.data.get("usage"), dict):
                    figures = (usage.get("input_tokens"), usage.get("output_tokens"))
                    self._used = sum(figure for figure in figures if isinstance(figure, int))
                updates = self._updates(event)
                # Its own messages are not part of the past.
                if event.seq > self._replayed or event.data.get("direction") == "holdfast":
                    for update in updates:
                        self._send(update)
        finally:
            self._seen = max(self._seen, event.seq)
            self._told.set()

    def say(self, text: str) -> None:
        """Tell the user something that is not the model's; it is recorded, and not replayed."""
        for update in content_updates(text, "agent_message_chunk"):
            self._note(update, "holdfast")

    def _note(self, update: Update, direction: str) -> None:
        """Record an update that no other event stands for; then it is shown."""
        frame = notification("session/update", {"sessionId": self.id, "update": update})
        self.session.append("frame", clean({"direction": direction, "frame": frame}))

    def _updates(self, event: Event) -> list[Update]:
        data = event.data
        match event.type:
            case "delta" | "assistant" | "thinking" if "covers_from" not in data:
                kind = "thought" if "thinking" in (event.type, data.get("kind")) else "message"
                return content_updates(data.get("content"), f"agent_{kind}_chunk")
            case "tool_call":
                call = self._call(str(data.get("id")), str(data.get("tool")), data.get("params"))
                id = call["toolCallId"]
                self._pending.add(id)
                return [{"sessionUpdate": "tool_call", **call, "status": _status(data)}]
            case "permission" | "step" if data.get("call") in self._pending and _begins(data):
                return [{"sessionUpdate": "tool_call_update", "toolCallId": data["call"], "status": "in_progress"}]
            case "tool_result":
                id, failed = str(data.get("toolCallId")), data.get("is_error") is True
                self._pending.discard(id)
                made = result_update(id, data.get("result"), failed=failed)
                if id in self._shaped and not failed:
                    made.pop("content", None)  # it would take the place of what is shown
                return [made]
            case "todo_update":
                return [plan_update(data)]
            case "user" | "title" if self.session.title != self._title:
                self._title = self.session.title
                return [{"sessionUpdate": "session_info_update", "title": self._title}]
            case "frame" if data.get("direction") in ("agent", "holdfast"):
                update = member(data, "frame", "params", "update")
                is_one = member(data, "frame", "method") == "session/update" and isinstance(update, dict)
                return [update] if is_one else []
            case _:
                return []

    def _call(self, call_id: str, tool: str, params: Any) -> Update:
        call = call_update({"id": call_id, "tool": tool, "params": params}, call_id)
        del call["sessionUpdate"]
        path = params.get("path") if isinstance(params, dict) else None
        if isinstance(path, str) and path:
            call["locations"] = [{"path": os.path.normpath(os.path.join(self.desk.root, path))}]
        return call

    def _show_diff(self, call_id: str, content: list[dict[str, Any]]) -> None:
        self._shaped.add(call_id)
        shown = {"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": content}
        self._note({**shown, "locations": [{"path": part["path"]} for part in content]}, "agent")

    def _show_terminal(self, call_id: str, content: list[dict[str, Any]]) -> None:
        """Show a terminal; not recorded, because the id means nothing to another editor or later."""
        self._shaped.add(call_id)
        self._send({"sessionUpdate": "tool_call_update", "toolCallId": call_id, "content": content})

    async def _settle(self) -> None:
        """See to it that everything of a turn has been shown before its end is."""
        end = self.session.seq
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                while self._seen < end:
                    self._told.clear()
                    await self._told.wait()
        await self._whole.wait()
        # An editor would show them as running for ever; what waits, waits on.
        waiting = {ask.call for ask in self.session.live_state.asks.values()}
        for call in sorted(self._pending - waiting):
            self._send(result_update(call, "cancelled", failed=True))
        self._pending &= waiting
        self._shaped.clear()
        # How full the context is, if its size is known.
        used, self._used = self._used, None
        window = window_of(self.kit, str(self.session.live_state.config.get("model") or ""))
        if window is not None and used is not None:
            told: Update = {"sessionUpdate": "usage_update", "used": used, "size": window}
            with contextlib.suppress(HoldfastError):
                cost = (await asyncio.to_thread(self._hf.info, self.id)).cost
                if cost is not None:
                    told["cost"] = {"amount": cost, "currency": "USD"}
            self._send(told)


def _status(call: dict[str, Any]) -> str:
    """Return the status to show for a recorded call: one that waits for approval has not begun."""
    return "pending" if call.get("begun") is False else "in_progress"


def _begins(data: dict[str, Any]) -> bool:
    """Return whether a call starts now: it was allowed at once, or is carried out after an answer."""
    return data.get("begin") is True or (data.get("decision") == "allow" and "id" not in data)


def _chosen(outcome: Any) -> UserAnswer:
    """Return the option that the user chose."""
    chosen = text_in(outcome, "optionId")
    if chosen not in OPTIONS:
        return False, "once", "the editor gave no answer that was offered"
    _, allow, scope = OPTIONS[chosen]
    return allow, scope, None if allow else "the user rejected it"


async def _end_of(turn: HostedTurn) -> dict[str, Any]:
    """Return the answer to the prompt of a turn; if its request is cancelled, the turn is."""
    try:
        ended: dict[str, Any] = await turn.finish()
        return ended
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the request itself: the peer says so
        return {"stopReason": "cancelled"}


_STOPS = {"length": "max_tokens", "content_filter": "refusal"}


def end_of(result: RunResult) -> dict[str, Any]:
    """Return the answer to a prompt: why it stopped, and what it used."""
    usage = result.usage
    figures = {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
    figures["totalTokens"] = usage.total_tokens
    cached = {"cachedReadTokens": usage.cache_read_tokens, "cachedWriteTokens": usage.cache_write_tokens}
    figures |= {name: count for name, count in cached.items() if count}
    # It knows a limit of tokens, and one of another kind.
    limited = {None: "end_turn", "tokens": "max_tokens"}.get(result.limit, "max_turn_requests")
    return {"stopReason": _STOPS.get(result.finish_reason or "", limited), "usage": figures}
