"""``holdfast acp``: sessions for editors and their agents, by the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from holdfast.apps.cli._app import App, Parts
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._options import AtLeast, json_option, model_option, named_option, option, verb
from holdfast.apps.cli.chat import given_prompt
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.errors import NotFound, UsageError
from holdfast.library.answers import filled
from holdfast.library.answers.turns import AcpAnswer, AcpInstalled
from holdfast.model import is_id

if TYPE_CHECKING:
    from holdfast.apps.acp.client import AcpSession, Answer, Permission, PermissionQuestion, PromptTurn

_FOLDER = click.Path(exists=True, file_okay=False, resolve_path=True)
PARTS = {
    "proxy": "Record an editor's agent by proxying it.",
    "agent": "Serve Holdfast's own agent to an editor.",
    "prompt": "Send one prompt to an agent in a persistent session.",
    "doctor": "Test what an agent actually supports.",
    "install": "Configure an editor.",
}
_COLUMNS = (Column("CAN"), Column("ANNOUNCED"), Column("REALLY"), Column("DETAIL", flexible=True))
_STYLES = {"works": "good", "not tried": "faint"}


@verb("acp", cls=Parts, parts=PARTS)
def acp_verb(_: App) -> None:
    """Record and serve agents for editors over the Agent Client Protocol (ACP).

    The proxy sits between an editor and any ACP agent: everything is recorded before it is shown, and sessions
    can be listed, loaded, resumed, forked, closed and deleted whatever the agent supports.

    Examples:
      holdfast acp proxy -- gemini --acp        in place of `gemini --acp`
      holdfast acp agent                        our own agent, for an editor
      holdfast acp prompt --agent "opencode acp" "What does this project do?"
      holdfast acp doctor -- gemini --acp
      holdfast acp install zed
    """


@verb("proxy", acp_verb, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("agent", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@option("--window-tokens N", "How much history to replay to an agent that lost it [default: 24000].", type=AtLeast(1))
def proxy_verb(app: App, agent: tuple[str, ...], *, window_tokens: int | None) -> None:
    """Record an editor's agent by proxying it.

    Put it in front of the agent's command in the editor's configuration. Everything is recorded before it is
    shown; sessions can be listed, loaded, resumed, forked, closed and deleted whatever the agent supports.
    Problems are reported on standard error.

    Examples:
      holdfast acp proxy -- gemini --acp
      holdfast acp proxy -- opencode acp
      holdfast --store ~/sessions acp proxy -- claude-agent-acp
    """
    from holdfast.apps.acp.proxy.server import serve_proxy

    serve_proxy(app.place, list(agent), window_tokens=window_tokens, say=app.warn)


@verb("agent", acp_verb)
@model_option
@named_option("--agent", of="agent", help="The agent to use.")
@option(
    "--mode", "Initial permission mode of a session; the editor can change it.", of="ask read-only auto", default="ask"
)
def agent_verb(app: App, *, model: str | None, agent: str | None, mode: str) -> None:
    """Serve Holdfast's own agent to an editor, on standard input and output.

    Serves any number of sessions at once: new ones, and all those in the store, to list, load, resume, fork,
    close and delete. Reads and writes files and runs commands through the editor where it supports that. The
    model is chosen as by `holdfast chat`.

    Examples:
      holdfast acp agent                     as the command of an agent, in an editor
      holdfast acp agent --model anthropic:claude-sonnet-4-5
      holdfast acp agent --mode read-only
    """
    from holdfast.apps.acp.agent.editor import EditorKit
    from holdfast.apps.acp.agent.server import serve_agent

    kit = EditorKit.configured(app.place, model=model, agent=agent, mode=mode)
    app.tell_guide(kit)
    serve_agent(app.place, kit)


@verb("prompt", acp_verb)
@click.argument("prompt", nargs=-1, required=True)
@option("--agent CMD", "The agent's command line.", required=True)
@named_option(
    "--session", of="session", help="Go on with this session, or begin it; `-` is the newest [default: a new one]."
)
@click.option("--cwd", type=_FOLDER, help="Where the agent works [default: where the session did, or here].")
@click.option("--yes", is_flag=True, help="Same as --permission allow.")
@option(
    "--permission", "When the agent wants to use a tool [default: ask on a terminal, else deny].", of="ask allow deny"
)
@json_option
def prompt_verb(app: App, /, prompt: tuple[str, ...], permission: str | None, *, yes: bool, **wishes: Any) -> None:
    """Send one prompt to an agent over the Agent Client Protocol; `-` reads it from standard input.

    The answer goes to standard output, everything else to standard error. Sessions can be continued whether or
    not the agent supports loading them. Ctrl-C cancels the turn; what was said so far is kept.

    Examples:
      holdfast acp prompt --agent "opencode acp" "What does this project do?"
      holdfast acp prompt --agent "gemini --acp" --session review "And the tests?"
      git diff | holdfast acp prompt --agent "qwen --acp" --yes -
    """
    text = given_prompt(prompt)
    if yes and permission not in (None, "allow"):
        raise UsageError(f"--yes and --permission {permission} contradict each other")
    asyncio.run(_Talk(app, "allow" if yes else permission).hold(text, **wishes))


class _Talk:
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


@verb("doctor", acp_verb, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("agent", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@option("--prompt TEXT", "Ask its model this, to see whether it is kept.")
@click.option("--cwd", type=_FOLDER, help="Where the agent works [default: here].")
@option(
    "--timeout S",
    "How long it may take for each answer.",
    name="timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
)
@json_option
def doctor_verb(app: App, agent: tuple[str, ...], *, prompt: str | None, cwd: str | None, timeout_s: float) -> None:
    """Start an agent, try everything it announces, and what it does not, and say what it does.

    It makes sessions of the agent's own, and removes one if it can. Its model is called only with
    --prompt; nothing is recorded here, and nothing is permitted to it.

    Examples:
      holdfast acp doctor -- gemini --acp
      holdfast acp doctor --prompt "Say hello" -- opencode acp
      holdfast acp doctor --json -- claude-agent-acp
    """
    from holdfast.apps.acp.doctor import examine

    found = asyncio.run(examine(agent, cwd=cwd or os.getcwd(), prompt=prompt, timeout_s=timeout_s))
    if app.as_json:
        app.out.json(found)
        return
    name = found.agent.get("name") or "an agent without a name"
    version = found.agent.get("version") or ""
    app.out.line(
        Span(f"{name} {version}".strip(), "name"),
        f", protocol {found.protocol_version}, ready after {found.start_s:.1f} s",
    )
    rows: list[list[Piece]] = []
    for one in found.findings:
        real = Span(one.real, _STYLES.get(one.real, "warning" if one.advertised else "faint"))
        rows.append([one.name, "yes" if one.advertised else "no", real, one.detail])
    app.out.table(_COLUMNS, rows)
    for sentence in found.verdicts:
        app.out.line("- ", sentence, hang=2)


@verb("install", acp_verb, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.argument("editor", metavar="zed|jetbrains")
@click.argument("agent", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
@option("--name TEXT", "Name in the editor's menu.")
@option("--file PATH", "Path of the settings file, if not the default.", name="path")
@click.option("--print", "only_print", is_flag=True, help="Print the configuration without writing it.")
@json_option
def install_verb(
    app: App, editor: str, agent: tuple[str, ...], *, name: str | None, path: str | None, only_print: bool
) -> None:
    """Configure an editor to use Holdfast's own agent, or the proxy in front of CMD.

    The rest of the file, including comments, is preserved, and a backup is kept beside it. An existing entry of
    the same name is replaced, keeping its variables. HOLDFAST_STORE is written too, if set, since the editor
    may not inherit it.

    Examples:
      holdfast acp install zed                        our own agent, in Zed
      holdfast acp install zed -- gemini --acp        the proxy in front of Gemini
      holdfast acp install jetbrains --print -- opencode acp
    """
    from holdfast.apps.acp.editors import command_line, default_name, plan, write

    words = list(agent)
    command = command_line(words, app.place or _named_store(app))
    found = plan(editor, command, name=name or default_name(words), path=path)
    backup = None if only_print or not found.changes else write(found)
    if app.as_json:
        written = found.changes and not only_print
        app.out.json(filled(AcpInstalled, found, file=found.path, written=written, backup=backup))
    elif only_print:
        app.out.line(Span(f"for {found.path}:", "faint"))
        app.out.json({"agent_servers": {found.name: found.entry}})
    elif not found.changes:
        app.out.line(f"{found.path} has it already.")
    else:
        app.out.line(Span("written: ", "good"), f"{found.name} in {found.path}")
        if backup is not None:
            app.out.line(Span(f"the old one: {backup}", "faint"))


def _named_store(app: App) -> str | None:
    """The store that the environment names: an editor's own environment is another."""
    from holdfast._config import ENVIRONMENT

    store = os.environ.get(ENVIRONMENT, "").strip()
    # Settings of editors are synchronised and shared; a password does not belong there.
    if store and urlsplit(store).password:
        app.warn(
            f"{ENVIRONMENT} has a password in it, which is not written into settings",
            f"Give the editor {ENVIRONMENT} as a variable, or name the store with --store.",
        )
        return None
    return store or None
