"""One open session of our agent: what it says is recorded, and then shown to the editor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from holdfast.agent import plain_result
from holdfast.apps.acp.agent.editor import EditorAccess
from holdfast.apps.acp.agent.mcp_servers import McpServer, Servers
from holdfast.apps.acp.agent.params import AUTO, MODES, OPTIONS, READ_ONLY, Kit
from holdfast.apps.acp.agent.screen import EditorScreen, Update
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.wire.frames import INVALID_PARAMS, INVALID_REQUEST, RpcError
from holdfast.errors import Forbidden, HoldfastError, TooManyIterations
from holdfast.library import Holdfast
from holdfast.session import Session

if TYPE_CHECKING:
    from holdfast.agent import Agent, Decision, PermissionRequest, RunResult, Tool
    from holdfast.apps.acp.agent.tools import ToolBox


__all__ = ["Live"]


class Live(EditorScreen):
    """A session with its agent, its mode, and at most one turn at a time.

    ``send`` is given the updates of this session, in order, for the editor.
    """

    def __init__(
        self,
        hf: Holdfast,
        kit: Kit,
        session: Session,
        desk: EditorAccess,
        send: Callable[[Update], None],
    ) -> None:
        super().__init__(hf, kit, session, desk, send)
        self.mode = kit.mode
        self.is_closing = False
        self._agent: Agent | None = None
        self._box: ToolBox | None = None
        self._servers: Servers | None = None
        self._work: asyncio.Task[dict[str, Any]] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False

    @property
    def is_busy(self) -> bool:
        """Whether a turn or a command is under way."""
        return not self._idle.is_set()

    # -- turns -------------------------------------------------------------------------------

    async def answer(self, prompt: str | list[dict[str, Any]] | None) -> dict[str, Any]:
        """Answer a prompt, or go on with what was interrupted; how the turn ended.

        Raises RpcError while another is answered, and what ends the turn.
        """
        self._check_free()
        before, reason = self.session.seq, "failed"
        try:
            ended = await self.occupy(self._turn(prompt))
            reason = str(ended["stopReason"])
            return ended
        except asyncio.CancelledError:
            reason = "cancelled"
            raise
        finally:
            if prompt is not None and self.session.seq == before:
                self._keep(prompt, reason)

    def _keep(self, prompt: str | list[dict[str, Any]], reason: str) -> None:
        """Record a prompt that nothing was done about: stopped at once, or there is no model."""
        said = {"role": "user", "content": prompt}
        with contextlib.suppress(HoldfastError):  # it may be what cannot be recorded
            self.session.extend(
                [("turn_start", {}), ("user", said), ("turn_end", {"reason": reason})]
            )

    async def occupy(self, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Do something that only one can do at a time. Raises RpcError while another is at it.

        What is stopped by ``cancel`` gives the stop reason "cancelled".
        """
        try:
            self._check_free()
        except RpcError:
            work.close()  # it will not be awaited
            raise
        self._stopping = False
        self._idle.clear()
        self._work = asyncio.ensure_future(work)
        try:
            return await self._finish(self._work)
        finally:
            self._work = None
            self._idle.set()

    async def _finish(self, work: asyncio.Task[dict[str, Any]]) -> dict[str, Any]:
        try:
            return await work
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return {"stopReason": "cancelled"}
        finally:
            await self._settle()

    def _check_free(self) -> None:
        if self.is_busy:
            raise RpcError(
                INVALID_REQUEST,
                f"session {self.id} is answering a prompt already; wait for it, or cancel it",
            )

    def cancel(self) -> None:
        """Stop what is under way; it is on record then that it was stopped."""
        if self._work is not None:
            self._stopping = True
            self._work.cancel()

    async def close(self) -> None:
        """Stop what is under way, and give the session back."""
        self.is_closing = True
        self.cancel()
        await self._idle.wait()
        if self._agent is not None:
            await self._agent.aclose()
        if self._servers is not None:
            await self._servers.close()
        await self.session.aclose()

    async def use_servers(self, servers: list[McpServer]) -> None:
        """Have these MCP servers from now on; those of before are ended.

        A turn that is under way goes on with those that it has, and so do the next ones.
        """
        before = self._servers
        if self.is_busy or servers == ([] if before is None else before.given):
            return
        self._servers = Servers(servers, self.desk.root, self.say)
        self._servers.start()
        if before is not None:
            await before.close()
        agent, self._agent = self._agent, None  # the next one has the tools of these
        if agent is not None:
            await agent.aclose()

    async def _turn(self, prompt: str | list[dict[str, Any]] | None) -> dict[str, Any]:
        if self._agent is None:
            servers = self._servers
            more = [] if servers is None else await servers.tools(self._check_may_change)
            self._agent = await asyncio.to_thread(self._make_agent, more)
        try:
            async with self._agent.run_stream(prompt, session=self.session) as stream:
                async for _ in stream:
                    pass  # what is recorded of it is shown
        except TooManyIterations:
            return {"stopReason": "max_turn_requests"}
        return end_of(stream.result)

    def _make_agent(self, more: list[Tool]) -> Agent:
        from holdfast.apps.acp.agent.tools import ToolBox, with_more

        box = self._box = ToolBox(
            self.desk,
            check=self._check_may_change,
            show_diff=self._show_diff,
            show_terminal=self._show_terminal,
        )
        return self.kit.agent(
            self._hf, self.session, lambda: with_more(box.tools(), more), self._permit
        )

    # -- modes and permissions ---------------------------------------------------------------

    def set_mode(self, mode: str) -> None:
        """Work in another mode from now on. Raises RpcError if there is none of that name."""
        if mode not in MODES:
            known = ", ".join(MODES)
            raise RpcError(INVALID_PARAMS, f"there is no mode {mode[:40]!a}; there are {known}")
        if mode != self.mode:
            self.mode = mode
            # Not replayed: a log from elsewhere must not say how freely the agent works here.
            self._note({"sessionUpdate": "current_mode_update", "currentModeId": mode}, "holdfast")

    def _check_may_change(self) -> None:
        """An approval for the session may be older than the mode."""
        if self.mode == READ_ONLY:
            raise Forbidden("the session is in the mode read-only", remedy="Only read.")

    async def _permit(self, request: PermissionRequest) -> Decision:
        from holdfast.agent import Decision

        if self.mode == AUTO:
            return Decision(allow=True, approved_by="mode auto")
        if self.mode == READ_ONLY:
            return Decision(
                allow=False, approved_by="mode read-only", reason="the mode is read-only"
            )
        call = self._call(request.call_id, request.tool, plain_result(request.args))
        call |= {"status": "pending"}
        shown = [] if self._box is None else await self._box.preview(request.tool, request.args)
        call |= {"content": shown} if shown else {}
        options = [{"optionId": id, "name": OPTIONS[id][0], "kind": id} for id in OPTIONS]
        params = {"toolCall": call, "options": options}
        asked = {"method": "session/request_permission", "params": {"sessionId": self.id} | params}
        question = {"tool": request.tool, "call": request.call_id, "decision": "ask"}
        framed = clean({"direction": "agent", "frame": asked})
        self.session.extend([("frame", framed), ("permission", question)])
        await self.session.abarrier()
        self._send({"sessionUpdate": "tool_call", **call})
        self._pending.add(request.call_id)
        try:
            answer = await self.desk.permission(params)
        except RpcError as error:
            return Decision(allow=False, reason=f"the editor could not ask: {error.message[:200]}")
        return self._decision(request, answer.get("outcome"))

    def _decision(self, request: PermissionRequest, outcome: Any) -> Decision:
        from holdfast.agent import Decision

        outcome = outcome if isinstance(outcome, dict) else {}
        if outcome.get("outcome") == "cancelled":
            given = {"tool": request.tool, "call": request.call_id, "decision": "cancelled"}
            self.session.append("permission", given)
            self._stopping = True
            raise asyncio.CancelledError
        chosen = outcome.get("optionId")
        if not isinstance(chosen, str) or chosen not in OPTIONS:
            return Decision(allow=False, reason="the editor gave no answer that was offered")
        _, allow, scope = OPTIONS[chosen]
        return Decision(allow=allow, scope=scope, reason=None if allow else "the user rejected it")


# How a turn of our agent ended, in the protocol's words.


_STOPS = {"length": "max_tokens", "content_filter": "refusal"}


def end_of(result: RunResult) -> dict[str, Any]:
    """The answer to a prompt: why it stopped, and what it used."""
    usage = result.usage
    figures = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
    }
    if usage.cache_read_tokens:
        figures["cachedReadTokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        figures["cachedWriteTokens"] = usage.cache_write_tokens
    reason = _STOPS.get(result.finish_reason or "", "end_turn")
    return {"stopReason": reason, "usage": figures}
