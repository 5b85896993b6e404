"""``holdfast acp``: sessions for editors and their agents, by the Agent Client Protocol."""

from __future__ import annotations

import os
from typing import Any

import click

from holdfast.apps.cli._app import App, Parts
from holdfast.apps.cli._options import AtLeast, json_option, model_option, named_option, option, verb
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.errors import UsageError
from holdfast.library.answers import filled

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
      holdfast acp agent --model anthropic:claude-sonnet-5-5
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
    import asyncio

    from holdfast.apps.cli._acp_talk import AcpTalk
    from holdfast.apps.cli.chat import given_prompt

    text = given_prompt(prompt)
    if yes and permission not in (None, "allow"):
        raise UsageError(f"--yes and --permission {permission} contradict each other")
    asyncio.run(AcpTalk(app, "allow" if yes else permission).hold(text, **wishes))


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
    import asyncio

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
    from holdfast.library.answers.turns import AcpInstalled

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
    """Return the store that the environment names: an editor's own environment is another."""
    from urllib.parse import urlsplit

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
