"""``holdfast serve``: sessions over HTTP, for programs and people with a token."""

from __future__ import annotations

import click

from holdfast.apps.cli._app import App
from holdfast.apps.cli._failure import EXIT_FINE
from holdfast.apps.cli._help import Parts
from holdfast.apps.cli._options import complete_folder, host_option, port_option, store_option
from holdfast.apps.render.page import Span
from holdfast.errors import UsageError

__all__ = ["command"]

PARTS = {
    "token": "Make, list and revoke the tokens of the service.",
    "space": "List the spaces of the service, and remove one.",
}


class _Parts(Parts):
    parts = PARTS


@click.group(
    "serve",
    cls=_Parts,
    invoke_without_command=True,
    short_help="Serve sessions and an agent over HTTP and WebSocket.",
    epilog="""\b
Examples:
  holdfast serve token create --space alice    a token for a user, shown once
  holdfast serve                               at http://127.0.0.1:8700
  holdfast serve --model openai:gpt-5 --port 9000
  holdfast serve --host 0.0.0.0 --allow-host sessions.example    behind a proxy
""",
)
@port_option(8700)
@host_option(
    "ADDRESS", "The address to listen at; other machines reach only what is not 127.0.0.1."
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another name by which clients may call the server; * for any.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="URL",
    help="A web page, such as https://app.example, that may use it.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1),
    default=100.0,
    show_default=True,
    metavar="N",
    help="Requests of one token each second, in the long run.",
)
@click.option("--model", metavar="NAME", help="The model, such as openai:gpt-5 or local.")
@click.option("--agent", metavar="ID", help="The agent whose sessions the new ones are.")
@click.option("--no-agent", is_flag=True, help="Keep sessions only; nobody answers.")
@click.option(
    "--files",
    metavar="DIR",
    shell_complete=complete_folder,
    help="Let agents of a space read the files in DIR/<space>.",
)
@store_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    port: int,
    host: str,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    rate: float,
    model: str | None,
    agent: str | None,
    no_agent: bool,
    files: str | None,
) -> int:
    """Serve sessions and an agent over HTTP and WebSocket, until the process is asked to end.

    Every client has a token, which opens one space: nothing outside it can be reached. The
    description of the API is at /openapi.json. Turns that run when the server ends are put off,
    and go on when they are asked for again. Who did what is written to standard error.
    """
    if ctx.invoked_subcommand is not None:
        return EXIT_FINE
    if no_agent and (model is not None or agent is not None):
        raise UsageError("without an agent there is no model", remedy="Leave out --no-agent.")
    app: App = ctx.obj
    try:
        from holdfast.apps.http.server import serve
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[web]'",
        ) from error
    from holdfast.agent import Kit

    def ready(address: str) -> None:
        app.err.line(Span("Serving at ", "good"), address)
        app.err.flush()

    kit = None if no_agent else Kit.configured(app.place, model=model, agent=agent)
    serve(
        app.place,
        kit,
        host=host,
        port=port,
        hosts=allow_host,
        origins=allow_origin,
        rate=rate,
        root=files,
        ready=ready,
    )
    return EXIT_FINE
