"""Commands of our agent in an editor: prompts that begin with a slash."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.apps.acp.agent.modes import MODES
from holdfast.apps.acp.agent.session import Live
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.wire.frames import RpcError
from holdfast.errors import HoldfastError, UsageError
from holdfast.library import Holdfast

__all__ = ["available_commands", "find_command", "obey"]

_FORM = re.compile(r"/([a-z]+)(?:\s+(.*))?\Z", re.DOTALL)
_MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}
_DONE = {"stopReason": "end_turn"}

Act = Callable[[Holdfast, Live, str], Awaitable[str]]


class Command(NamedTuple):
    """One command: what follows its name, what it does, and the function that answers it."""

    hint: str
    about: str
    act: Act


def available_commands() -> dict[str, Any]:
    """The update that tells an editor which commands there are."""
    shown = []
    for name, command in COMMANDS.items():
        hint = {"input": {"hint": command.hint}} if command.hint else {}
        shown.append({"name": name, "description": command.about, **hint})
    return {"sessionUpdate": "available_commands_update", "availableCommands": shown}


def find_command(prompt: Any) -> tuple[str, str] | None:
    """The name of a command and what follows it; None for what is meant for the model."""
    found = _FORM.match(prompt.strip()) if isinstance(prompt, str) else None
    if found is None or found[1] not in COMMANDS:
        return None
    return found[1], (found[2] or "").strip()


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
        live.say(await COMMANDS[name].act(hf, live, rest))
    except (HoldfastError, RpcError) as error:
        live.say(" ".join(filter(None, [f"That did not work: {error}.", _remedy(error)])))
    await live.session.abarrier()
    return dict(_DONE)


def _remedy(error: Exception) -> str:
    return str(getattr(error, "remedy", "") or "")


async def _title(_: Holdfast, live: Live, rest: str) -> str:
    if rest:
        live.session.title = rest
    return live.session.title or "This session has no title yet."


async def _tag(_: Holdfast, live: Live, rest: str) -> str:
    words = rest.split()
    live.session.tag(*[word for word in words if not word.startswith("-")])
    live.session.untag(*[word[1:] for word in words if word.startswith("-") and len(word) > 1])
    return ", ".join(live.session.tags) or "This session has no tags."


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


async def _todos(_: Holdfast, live: Live, __: str) -> str:
    todos = list(live.session.todos)
    shown = [
        f"{_MARKS.get(str(todo.get('status')), '[?]')} {todo.get('content')}" for todo in todos
    ]
    return "\n".join(shown) or "There are no todos."


async def _memory(_: Holdfast, live: Live, __: str) -> str:
    entries = live.session.memory.entries()
    shown = [f"{key}: {entry.value} ({entry.scope})" for key, entry in entries.items()]
    return "\n".join(shown) or "Nothing is remembered yet."


async def _fork(hf: Holdfast, live: Live, rest: str) -> str:
    if rest and not rest.isdecimal():
        raise UsageError("/fork takes the number of an event, or nothing for now")
    made = await asyncio.to_thread(hf.fork, live.id, int(rest) if rest else None)
    return f"Made {made}, a copy of this session. Open it from the list of sessions."


async def _mode(_: Holdfast, live: Live, rest: str) -> str:
    if rest:
        live.set_mode(rest)
    name, about = MODES[live.mode]
    return f"{name}: {about}"


async def _help(_: Holdfast, __: Live, ___: str) -> str:
    shown = (f"/{name} {command.hint}".strip() for name, command in COMMANDS.items())
    about = (command.about for command in COMMANDS.values())
    return "\n".join(f"{name}: {text}" for name, text in zip(shown, about, strict=True))


COMMANDS: dict[str, Command] = {
    "title": Command("[TEXT]", "show or set the title of this session", _title),
    "tag": Command("[TAG -TAG]", "show, add or take away tags", _tag),
    "status": Command("", "what this session is, and what it used", _status),
    "todos": Command("", "the todo list", _todos),
    "memory": Command("", "what is remembered", _memory),
    "fork": Command("[SEQ]", "make a copy of this session, whole or up to an event", _fork),
    "mode": Command("[ask | read-only | auto]", "show or set how freely the agent works", _mode),
    "continue": Command("", "go on with an answer that was interrupted", _help),  # see obey
    "help": Command("", "this list", _help),
}
