"""The recording proxy on this process's own input and output."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.apps.acp._telling import WINDOW_TOKENS
from holdfast.apps.acp.proxy import Proxy
from holdfast.apps.watched import watch
from holdfast.apps.wire.pipes import AgentProcess, Pipe
from holdfast.apps.wire.serving import serve
from holdfast.library import Holdfast

__all__ = ["serve_proxy"]


def serve_proxy(
    place: str | None,
    command: list[str],
    *,
    window_tokens: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Be the proxy of one agent on standard input and output. Raises as ``holdfast.open``."""
    with Holdfast(place, redaction="mark") as hf:
        watch(hf)

        async def work(pipe: Pipe) -> None:
            proxy = Proxy(
                hf,
                pipe,
                lambda: AgentProcess.start(command),
                command=command,
                window_tokens=window_tokens or WINDOW_TOKENS,
                say=say,
            )
            await proxy.run()

        serve(work)
