"""The slash commands: one table for every place where people talk to an agent.

A command that needs only the session is implemented here. One that concerns a place, its screen or its
list of sessions, is implemented by each place, under the name in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from holdfast.errors import UsageError
from holdfast.replay import as_text, todo_line
from holdfast.session import Session

_FORM = re.compile(r"/([a-z]+)(?:\s+(.*))?\Z", re.DOTALL)
# As people type them who know other chats.
_ALSO = {"clear": "new", "resume": "sessions", "rewind": "back", "branch": "fork", "usage": "cost", "quit": "exit"}


class Command(NamedTuple):
    """One command: its argument, its description, and its function, if a session is enough."""

    takes: str
    does: str
    act: Callable[[Session, str], str] | None = None
    """Gets the session and the text after the name; returns the answer."""


def read_command(line: str) -> tuple[str, str] | None:
    """Return the name of a command and the text after it; None for a path, ``//`` and other text.

    Names that other chats use, such as ``/clear``, are accepted too.
    """
    found = _FORM.match(line.strip())
    return None if found is None else (_ALSO.get(found[1], found[1]), (found[2] or "").strip())


def offered_commands(own: Iterable[str]) -> dict[str, Command]:
    """Return the commands of a place: its own, and those that need only a session."""
    names = set(own)
    assert names <= COMMANDS.keys(), f"not in the table: {names - COMMANDS.keys()}"
    return {name: command for name, command in COMMANDS.items() if name in names or command.act is not None}


def fork_seq(rest: str) -> int | None:
    """Return the event up to which ``/fork`` copies; None for all. Raises UsageError."""
    if rest and not rest.isdecimal():
        raise UsageError(
            "/fork takes the number of an event, or nothing to copy the whole session",
            remedy="`holdfast show ID --events` shows the numbers.",
        )
    return int(rest) if rest else None


def _title(session: Session, rest: str) -> str:
    if rest:
        session.title = rest
    return session.title or "This session has no title yet."


def _tag(session: Session, rest: str) -> str:
    words = rest.split()
    session.tag(*[word for word in words if not word.startswith("-")])
    session.untag(*[word[1:] for word in words if word.startswith("-") and len(word) > 1])
    return ", ".join(session.tags) or "This session has no tags."


def _memory(session: Session, _: str) -> str:
    shown = [
        f"{key}: {as_text(entry.value)}  ({entry.scope}, {entry.priority}) {entry.description or ''}".rstrip()
        for key, entry in session.memory.entries().items()
    ]
    return "\n".join(shown) or "Nothing is remembered yet."


def _todos(session: Session, _: str) -> str:
    return "\n".join(map(todo_line, session.todos)) or "There are no todos."


def usage_text(session: Session, cost: float | None) -> str:
    """Return the tokens of a session by model, and its cost: what providers reported, and in all with list prices."""
    usage = session.live_state.usage
    shown = [_spent(name, tokens) for name, tokens in usage.by_model.items()]
    if cost is not None and any(tokens.cost is None for tokens in usage.by_model.values()):
        shown.append(f"in all, by the list of prices: ${cost:,.4f}")
    return "\n".join(shown) or "No tokens used yet."


def _spent(name: str, tokens: Any) -> str:
    cost = "" if tokens.cost is None else f", ${tokens.cost:,.4f}"
    return f"{name}: {tokens.input_tokens:,} tokens in, {tokens.output_tokens:,} out{cost}"


def _permissions(session: Session, _: str) -> str:
    known = session.live_state.permissions
    shown = [f"allowed: {tool}" for tool in known.allowlist] + [f"blocked: {tool}" for tool in known.blocklist]
    shown += [f"allowed for this session: {tool}" for tool, one in known.approvals.items() if one.scope == "session"]
    return "\n".join(shown) or "No decisions yet: tools that need permission will ask."


def _waiting(session: Session, _: str) -> str:
    asks = {id: ask for id, ask in session.live_state.asks.items() if ask.is_open}
    shown = [f"{id}  {ask.tool or 'the session'}{': ' if ask.reason else ''}{ask.reason}" for id, ask in asks.items()]
    return "\n".join(shown) or "This session is waiting for nothing."


COMMANDS: dict[str, Command] = {
    "sessions": Command("[WORDS]", "choose one of your sessions and continue it"),
    "list": Command("", "your sessions, newest first"),
    "load": Command("ID", "continue another session"),
    "new": Command("", "start a new session"),
    "fork": Command("[SEQ]", "make a copy of this session, whole or up to an event"),
    "back": Command("[TURN]", "go back to an earlier turn; nothing is lost"),
    "undo": Command("", "undo the last /back"),
    "retry": Command("", "ask the last question again"),
    "search": Command("WORDS", "search all sessions"),
    "model": Command("[NAME]", "show or change the model that answers"),
    "cost": Command("", "tokens and cost of this session, by model"),
    "permissions": Command("", "which tools may run, and which may not", _permissions),
    "waiting": Command("", "what this session is waiting for", _waiting),
    "title": Command("[TEXT]", "show or set the title of this session", _title),
    "tag": Command("[TAG -TAG]", "show, add or remove tags", _tag),
    "info": Command("", "about this session"),
    "status": Command("", "about this session, and what it has used"),
    "history": Command("", "the whole conversation"),
    "memory": Command("", "what the agent remembers", _memory),
    "todos": Command("", "the todo list", _todos),
    "mode": Command("[ask | read-only | auto]", "show or set how freely the agent works"),
    "export": Command("[FILE]", "save this session to a file (.md, .html, .holdfast …)"),
    "continue": Command("", "continue an answer that was interrupted"),
    "delete": Command("[ID]", "move a session to the trash"),
    "help": Command("", "this list"),
    "exit": Command("", "leave; the session is kept"),
}
