"""``holdfast acp prompt``: one prompt to an external agent, on a session that stays."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.agent import plain_text
from holdfast.apps.cli._app import App
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import complete_id, json_option, store_option
from holdfast.apps.cli._talk_options import standard_input
from holdfast.apps.render.page import Span
from holdfast.errors import HoldfastError, NotFound, UsageError
from holdfast.library.answers.turns import AcpAnswer
from holdfast.model import is_id

if TYPE_CHECKING:
    from holdfast.apps.acp.client import (
        AcpSession,
        Answer,
        ClientConfig,
        Permission,
        PermissionQuestion,
        PromptTurn,
        Update,
    )

_STDIN = "-"
_SHOWN = ("tool_call",)


class _Wishes(NamedTuple):
    """What the command line says."""

    agent: str
    session: str | None
    cwd: str | None
    permission: str | None
    yes: bool
    as_json: bool


@click.command(
    "prompt",
    short_help="Ask an agent one thing, on a session that stays.",
    epilog="""\b
Examples:
  holdfast acp prompt --agent "opencode acp" "What does this project do?"
  holdfast acp prompt --agent "gemini --acp" --session review "And the tests?"
  git diff | holdfast acp prompt --agent "qwen --acp" --yes -
""",
)
@click.argument("prompt", nargs=-1, required=True)
@click.option("--agent", required=True, metavar="CMD", help="The agent's command, as in a shell.")
@click.option(
    "--session",
    metavar="ID",
    shell_complete=complete_id,
    help="Go on with this session, or begin it; `-` is the newest [default: a new one].",
)
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Where the agent works [default: where the session did, or here].",
)
@click.option("--yes", is_flag=True, help="The same as --permission allow.")
@click.option(
    "--permission",
    type=click.Choice(("ask", "allow", "deny")),
    help="When the agent wants to use a tool [default: ask on a terminal, else deny].",
)
@json_option
@store_option
@click.pass_obj
def command(app: App, /, prompt: tuple[str, ...], **wishes: Any) -> None:
    """Ask an agent one thing, by the Agent Client Protocol; `-` reads it from standard input.

    The answer goes to standard output, everything else to standard error. A session goes on
    whether or not the agent can load it. Ctrl-C cancels the turn; what was said so far is kept.
    """
    chosen = _Wishes(**wishes)
    text = plain_text(standard_input().read() if prompt == (_STDIN,) else " ".join(prompt))
    if not text.strip():
        raise UsageError("the prompt is empty", remedy="Give some words, or text on stdin with -.")
    talk = _Talk(app, chosen)
    asyncio.run(talk.hold(text))


class _Talk:
    """One prompt and its answer on the screen."""

    def __init__(self, app: App, wishes: _Wishes) -> None:
        self._app = app
        self._wishes = wishes
        self._stopped = 0
        self._refused: list[str] = []

    async def hold(self, text: str) -> None:
        """Ask, show, and leave. Raises KeyboardInterrupt if the user stopped it."""
        from holdfast.apps.acp.client import create_or_resume
        from holdfast.apps.watched import watch

        wishes = self._wishes
        watch(self._app.library, has_screen=True)
        session = await create_or_resume(
            wishes.agent, self._session_id(), self._config(), library=self._app.library
        )
        async with session:
            if not wishes.as_json:
                self._tell_session(session)
            turn = await session.send(text)
            self._heed_interrupts(turn)
            answer = await self._show(turn)
            if wishes.as_json:
                self._app.out.json(_answer(session, answer, self._refused))
            elif answer.stop_reason not in ("end_turn", "cancelled"):
                self._app.warn(f"the agent stopped: {answer.stop_reason}")
        if self._stopped:
            raise KeyboardInterrupt

    def _session_id(self) -> str | None:
        given = self._wishes.session
        if given is None:
            return None
        try:
            return choose(self._app.library, given)
        except NotFound:
            if is_id(given):
                return given
            raise

    def _config(self) -> ClientConfig:
        from holdfast.apps.acp.client import ClientConfig

        return ClientConfig(
            cwd=self._wishes.cwd,
            permission=self._permission(),
            on_warning=self._warn,
            enable_persistence=True,
        )

    def _permission(self) -> Permission:
        wishes = self._wishes
        if wishes.yes and wishes.permission not in (None, "allow"):
            raise UsageError(f"--yes and --permission {wishes.permission} contradict each other")
        someone = sys.stdin is not None and sys.stdin.isatty()
        wanted = "allow" if wishes.yes else wishes.permission or ("ask" if someone else "deny")
        if wanted == "deny":
            return self._refuse
        if wanted == "allow":
            return wanted
        if not someone:
            raise UsageError(
                "nobody can be asked: standard input is no terminal",
                remedy="Choose --permission allow or deny.",
            )
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

    def _warn(self, error: HoldfastError) -> None:
        self._app.warn(error.message, error.remedy)

    def _tell_session(self, session: AcpSession) -> None:
        how = {"new": "new", "primed": "told what was said so far"}.get(
            session.attached, f"restored by {session.attached}"
        )
        self._app.err.line(Span(f"session {session.id} ({how})", "faint"))
        self._app.err.flush()

    def _heed_interrupts(self, turn: PromptTurn) -> None:
        """The first Ctrl-C asks the agent to stop, the second does not wait for it."""
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
                if not self._wishes.as_json:
                    self._show_update(update)
            return await turn.answer()
        except asyncio.CancelledError:
            if self._stopped:
                raise KeyboardInterrupt from None
            raise
        finally:
            self._app.out.end_stream()

    def _show_update(self, update: Update) -> None:
        if update.kind == "agent_message_chunk":
            self._app.out.stream(update.text)
        elif update.kind in _SHOWN:
            self._app.out.end_stream()
            self._app.err.line(Span(f"→ {update.data.get('title') or 'a tool'}", "faint"))


def _answer(session: AcpSession, answer: Answer, refused: list[str]) -> AcpAnswer:
    return AcpAnswer(
        session_id=session.id,
        acp_session_id=session.acp_session_id,
        agent=session.agent_info,
        attached=session.attached,
        output=answer.text,
        stop_reason=answer.stop_reason,
        usage=answer.usage,
        warnings=[str(warning) for warning in session.warnings],
        refused=refused,
        cwd=session.metadata.get("cwd") or os.getcwd(),
    )
