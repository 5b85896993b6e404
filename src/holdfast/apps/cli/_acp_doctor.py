"""``holdfast acp doctor``: what an agent really can do."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._options import json_option, store_option
from holdfast.apps.render.page import Column, Span

if TYPE_CHECKING:
    from holdfast.apps.acp.doctor import Examination

_COLUMNS = (Column("CAN"), Column("ANNOUNCED"), Column("REALLY"), Column("DETAIL", flexible=True))
_STYLES = {"works": "good", "not tried": "faint"}


@click.command(
    "doctor",
    short_help="Say what an agent really can do.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  holdfast acp doctor -- gemini --acp
  holdfast acp doctor --prompt "Say hello" -- opencode acp
  holdfast acp doctor --json -- claude-agent-acp
""",
)
@click.argument("agent", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--prompt", metavar="TEXT", help="Ask its model this, to see whether it is kept.")
@click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="Where the agent works [default: here].",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="S",
    help="How long it may take for each answer.",
)
@json_option
@store_option
@click.pass_obj
def command(
    app: App,
    agent: tuple[str, ...],
    *,
    prompt: str | None,
    cwd: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Start an agent, try everything it announces, and what it does not, and say what it does.

    It makes sessions of the agent's own, and removes one if it can. Its model is called only with
    --prompt; nothing is recorded here, and nothing is permitted to it.
    """
    from holdfast.apps.acp.doctor import examine

    found = asyncio.run(examine(agent, cwd=cwd or os.getcwd(), prompt=prompt, timeout_s=timeout_s))
    if as_json:
        app.out.json(found)
        return
    _show(app, found)


def _show(app: App, found: Examination) -> None:
    name = found.agent.get("name") or "an agent without a name"
    version = found.agent.get("version") or ""
    app.out.line(
        Span(f"{name} {version}".strip(), "name"),
        f", protocol {found.protocol_version}, ready after {found.start_s:.1f} s",
    )
    app.out.table(
        _COLUMNS,
        [
            [
                one.name,
                "yes" if one.advertised else "no",
                Span(one.real, _STYLES.get(one.real, "warning" if one.advertised else "faint")),
                one.detail,
            ]
            for one in found.findings
        ],
    )
    for sentence in found.verdicts:
        app.out.line("- ", sentence, hang=2)
