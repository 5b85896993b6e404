"""One prompt to an agent of the Agent Client Protocol, and its answer on the screen."""

# Loaded late: asyncio takes longer to load than the verbs of ACP that need none of it.
from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.render.page import Span
from holdfast.errors import NotFound, UsageError
from holdfast.library.answers import filled
from holdfast.library.answers.turns import AcpAnswer
from holdfast.model import is_id

if TYPE_CHECKING:
    from holdfast.apps.acp.client import AcpSession, Answer, Permission, PermissionQuestion, PromptTurn


class AcpTalk:
    """One prompt and its answer on the screen."""

    def __init__(self, app: App, permission: str | None) -> None:
        self._app = app
        self._wanted = permission
        self._stopped = 0
        self._refused: list[str] = []

    async def hold(self, text: str, agent: str, session: str | None, cwd: str | None) -> None:
        """Ask, show, and leave. Raises KeyboardInterrupt if the user stopped it."""
        from holdfast.apps.acp.client import ClientConfig, create_or_resume
        from holdfast.apps.watched import watch

        app = self._app
        watch(app.library, has_screen=True)
        config = ClientConfig(
            cwd=cwd,
            permission=self._permission(),
            on_warning=lambda error: app.warn(error.message, error.remedy),
            enable_persistence=True,
        )
        async with await create_or_resume(agent, self._session_id(session), config, library=app.library) as held:
            if not app.as_json:
                how = {"new": "new", "primed": "told what was said so far"}
                way = how.get(held.attached, f"restored by {held.attached}")
                app.err.line(Span(f"session {held.id} ({way})", "faint"))
                app.err.flush()
            turn = await held.send(text)
            self._heed_interrupts(turn)
            answer = await self._show(turn)
            if app.as_json:
                app.out.json(_answer(held, answer, self._refused))
            elif answer.stop_reason not in ("end_turn", "cancelled"):
                app.warn(f"the agent stopped: {answer.stop_reason}")
        if self._stopped:
            raise KeyboardInterrupt

    def _session_id(self, given: str | None) -> str | None:
        try:
            return None if given is None else choose(self._app.library, given)
        except NotFound:
            if given and is_id(given):
                return given
            raise

    def _permission(self) -> Permission:
        # A script must not hang on a question, nor allow tools that nobody saw.
        someone = sys.stdin is not None and sys.stdin.isatty()
        wanted = self._wanted or ("ask" if someone else "deny")
        if wanted == "deny":
            return self._refuse
        if wanted == "allow":
            return wanted
        if not someone:
            told = "nobody can be asked: standard input is no terminal"
            raise UsageError(told, remedy="Choose --permission allow or deny.")
        return self._ask

    async def _refuse(self, request: PermissionQuestion) -> str | None:
        """Refuse a tool, and say so: an answer that lacks it looks like any other."""
        self._refused.append(request.title)
        self._app.out.end_stream()
        self._app.warn(
            f"the agent was refused a tool: {request.title}",
            "Allow its tools with --yes, or be asked at a terminal with --permission ask.",
        )
        return request.option("deny")

    async def _ask(self, request: PermissionQuestion) -> str | None:
        """Ask at the terminal, without a thread that would wait for a line for ever."""
        self._app.out.end_stream()
        self._app.err.line(Span("The agent wants to use a tool: ", "warning"), request.title)
        self._app.err.line("Allow it this time? [y/N]")
        loop = asyncio.get_running_loop()
        typed = asyncio.Event()
        loop.add_reader(sys.stdin, typed.set)
        try:
            await typed.wait()
            line = sys.stdin.readline()
        finally:
            loop.remove_reader(sys.stdin)
        yes = line.strip().lower() in ("y", "yes")
        if not yes:
            self._refused.append(request.title)
        return request.option("allow" if yes else "deny")

    def _heed_interrupts(self, turn: PromptTurn) -> None:
        """Handle Ctrl-C: the first asks the agent to stop, the second does not wait for it."""
        task = asyncio.current_task()

        def stop() -> None:
            self._stopped += 1
            if self._stopped == 1:
                turn.cancel()
            elif task is not None:
                task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)

    async def _show(self, turn: PromptTurn) -> Answer:
        try:
            async for update in turn:
                if update.kind == "agent_message_chunk" and not self._app.as_json:
                    self._app.out.stream(update.text)
                elif update.kind == "tool_call" and not self._app.as_json:
                    self._app.out.end_stream()
                    self._app.err.line(Span(f"→ {update.data.get('title') or 'a tool'}", "faint"))
            return await turn.answer()
        except asyncio.CancelledError:
            if self._stopped:
                raise KeyboardInterrupt from None
            raise
        finally:
            self._app.out.end_stream()


def _answer(session: AcpSession, answer: Answer, refused: list[str]) -> AcpAnswer:
    told = {"output": answer.text, "stop_reason": answer.stop_reason, "usage": answer.usage, "refused": refused}
    told |= {"warnings": [str(warning) for warning in session.warnings]}
    cwd = session.metadata.get("cwd") or os.getcwd()
    return filled(AcpAnswer, session, session_id=session.id, agent=session.agent_info, cwd=cwd, **told)
