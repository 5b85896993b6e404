"""Commands of our agent in an editor: prompts that begin with a slash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.agent import fork_seq, offered_commands, read_command
from holdfast.apps.acp.agent.params import MODES
from holdfast.apps.acp.agent.session import Live
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.wire.frames import RpcError
from holdfast.errors import HoldfastError
from holdfast.library import Holdfast

__all__ = ["available_commands", "find_command", "obey"]

_DONE = {"stopReason": "end_turn"}

Act = Callable[[Holdfast, Live, str], Awaitable[str]]


def available_commands() -> dict[str, Any]:
    """The update that tells an editor which commands there are."""
    shown = []
    for name, command in COMMANDS.items():
        hint = {"input": {"hint": command.takes}} if command.takes else {}
        shown.append({"name": name, "description": command.does, **hint})
    return {"sessionUpdate": "available_commands_update", "availableCommands": shown}


def find_command(prompt: Any) -> tuple[str, str] | None:
    """The name of a command and what follows it; None for what is meant for the model."""
    found = read_command(prompt) if isinstance(prompt, str) else None
    return found if found is not None and found[0] in COMMANDS else None


async def obey(hf: Holdfast, live: Live, name: str, rest: str) -> dict[str, Any]:
    """Carry out a command; what its prompt is answered with. Both stand in the log, as frames.

    Raises RpcError while a turn is under way, and whatever ends the turn of "continue".
    """
    if name == "continue":
        return await live.answer(None)
    return await live.occupy(_obey(hf, live, name, rest))


async def _obey(hf: Holdfast, live: Live, name: str, rest: str) -> dict[str, Any]:
    asked = {"method": "session/prompt", "params": {"prompt": f"/{name} {rest}".strip()}}
    live.session.append("frame", clean({"direction": "holdfast", "frame": asked}))
    try:
        act = COMMANDS[name].act
        live.say(await _OWN[name](hf, live, rest) if act is None else act(live.session, rest))
    except (HoldfastError, RpcError) as error:
        live.say(" ".join(filter(None, [f"That did not work: {error}.", _remedy(error)])))
    await live.session.abarrier()
    return dict(_DONE)


def _remedy(error: Exception) -> str:
    return str(getattr(error, "remedy", "") or "")


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


async def _fork(hf: Holdfast, live: Live, rest: str) -> str:
    made = await asyncio.to_thread(hf.fork, live.id, fork_seq(rest))
    return f"Made {made}, a copy of this session. Open it from the list of sessions."


async def _mode(_: Holdfast, live: Live, rest: str) -> str:
    if rest:
        live.set_mode(rest)
    name, about = MODES[live.mode]
    return f"{name}: {about}"


async def _help(_: Holdfast, __: Live, ___: str) -> str:
    return "\n".join(
        f"{f'/{name} {command.takes}'.strip()}: {command.does}"
        for name, command in COMMANDS.items()
    )


_OWN: dict[str, Act] = {"status": _status, "fork": _fork, "mode": _mode, "help": _help}
COMMANDS = offered_commands([*_OWN, "continue"])
