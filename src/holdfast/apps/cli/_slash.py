"""The commands of a chat: what begins with a slash."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._summary import print_conversation, print_header
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago
from holdfast.errors import UsageError
from holdfast.replay import as_text
from holdfast.session import Session, now_ms

if TYPE_CHECKING:
    from holdfast.apps.cli._chat import Chat

_FORM = re.compile(r"/([a-z]+)(?:\s+(.*))?\Z", re.DOTALL)
_LISTED = 20
_LIST = (
    Column(""),
    Column("ID"),
    Column("UPDATED"),
    Column("TITLE", flexible=True),
    Column("MSGS", right=True),
)
_MARKS = {"completed": "[x]", "in_progress": "[>]", "pending": "[ ]"}


class Command(NamedTuple):
    """One command: what follows its name, what it does, and the function that does it."""

    takes: str
    does: str
    act: Callable[[Chat, str], None]


def is_command(line: str) -> bool:
    """Whether a line is meant as a command: ``/word``, and not a path or ``//``."""
    return _FORM.match(line.strip()) is not None


def obey(chat: Chat, line: str) -> None:
    """Carry out a command. Raises UsageError for one that is not known."""
    found = _FORM.match(line.strip())
    assert found is not None
    name, rest = found[1], (found[2] or "").strip()
    if name not in COMMANDS:
        raise UsageError(
            f"there is no command /{name}{suggestion(name, COMMANDS)}",
            remedy="/help lists them. To say something that begins with a slash, write two.",
        )
    COMMANDS[name].act(chat, rest)


def _help(chat: Chat, _: str) -> None:
    width = max(len(f"{name} {command.takes}") for name, command in COMMANDS.items()) + 2
    for name, command in COMMANDS.items():
        shown = f"/{name} {command.takes}".ljust(width + 1)
        chat.app.out.line(Span(f"  {shown}", "name"), command.does)
    chat.app.out.line(
        Span("  Ctrl-C stops an answer, Ctrl-D leaves, Ctrl-R searches what you typed.", "faint")
    )


def _list(chat: Chat, _: str) -> None:
    rows = chat.app.library.list(limit=_LISTED, agent_id=chat.talker.agent_id)
    if not rows:
        chat.app.out.line("There are no sessions yet.")
        return
    now, current = now_ms(), chat.session_id
    table: list[list[Piece]] = [
        [
            "*" if row.session_id == current else "",
            Span(row.session_id, "name"),
            Span(ago(row.updated_at, now), "faint"),
            row.title or "",
            str(row.message_count),
        ]
        for row in rows
    ]
    chat.app.out.table(_LIST, table)


def _load(chat: Chat, rest: str) -> None:
    if not rest:
        raise UsageError("/load needs the id of a session", remedy="/list shows them.")
    chat.talker.switch(choose(chat.app.library, rest))
    chat.greet()


def _new(chat: Chat, _: str) -> None:
    chat.talker.begin()
    chat.talker.tell_session()


def _fork(chat: Chat, rest: str) -> None:
    """Go on in a fork; with a number, from that event on."""
    if rest and not rest.isdecimal():
        raise UsageError(
            "/fork takes the number of an event, or nothing for now",
            remedy="`holdfast show ID --events` shows the numbers.",
        )
    made = chat.app.library.fork(_session(chat).id, int(rest) if rest else None)
    chat.talker.switch(made)
    chat.greet()


def _title(chat: Chat, rest: str) -> None:
    session = _session(chat)
    if rest:
        session.title = rest
    chat.app.out.line(Span(session.title or "(no title)", "strong"))


def _tag(chat: Chat, rest: str) -> None:
    session = _session(chat)
    words = rest.split()
    session.tag(*[word for word in words if not word.startswith("-")])
    session.untag(*[word[1:] for word in words if word.startswith("-") and len(word) > 1])
    chat.app.out.line(", ".join(session.tags) or "(no tags)")


def _info(chat: Chat, _: str) -> None:
    print_header(chat.app, chat.app.library.info(_session(chat).id), None)
    chat.app.out.line(Span(f"  {chat.talker.choice.explain()}", "faint"))


def _history(chat: Chat, _: str) -> None:
    session = _session(chat)
    print_conversation(chat.app, chat.app.library.events(session.id), full=True)
    chat.app.out.line()


def _memory(chat: Chat, _: str) -> None:
    entries = _session(chat).memory.entries()
    for key, entry in entries.items():
        note = f"  ({entry.scope}, {entry.priority}) {entry.description or ''}".rstrip()
        chat.app.out.line(Span(key, "name"), ": ", as_text(entry.value), Span(note, "faint"))
    if not entries:
        chat.app.out.line("Nothing is remembered yet.")


def _todos(chat: Chat, _: str) -> None:
    todos = list(_session(chat).todos)
    for todo in todos:
        status = str(todo.get("status"))
        chat.app.out.line(f"{_MARKS.get(status, '[?]')} ", str(todo.get("content")))
    if not todos:
        chat.app.out.line("There are no todos.")


def _export(chat: Chat, rest: str) -> None:
    """``/export [FILE]``: the format by the file's name; without one, a file named after the id."""
    from holdfast.apps.cli.export import format_by_name

    session = _session(chat)
    path = rest or f"{session.id}.md"
    chat.app.library.export(session.id, format_by_name(path), to=path)
    chat.app.out.line("wrote ", Span(path, "name"))


def _delete(chat: Chat, rest: str) -> None:
    wanted = choose(chat.app.library, rest) if rest else _session(chat).id
    if not chat.confirm(f"Put session {wanted} into the trash?"):
        chat.app.out.line("Nothing was deleted.")
        return
    if wanted == chat.session_id:
        chat.talker.begin()
    chat.app.library.delete(wanted)
    chat.app.out.line("deleted ", Span(wanted, "name"))
    chat.app.out.line(Span(f"  Bring it back with: holdfast undelete {wanted}", "faint"))


def _continue(chat: Chat, _: str) -> None:
    chat.say(None)


def _exit(chat: Chat, _: str) -> None:
    chat.is_over = True


def _session(chat: Chat) -> Session:
    session = chat.talker.session
    if session is None:
        raise UsageError(
            "there is no session yet", remedy="It begins with the first thing you say."
        )
    return session


COMMANDS: dict[str, Command] = {
    "list": Command("", "your sessions, newest first", _list),
    "load": Command("ID", "go on with another session", _load),
    "new": Command("", "begin a new session", _new),
    "fork": Command("[SEQ]", "go on in a copy of this session, from here or from an event", _fork),
    "title": Command("[TEXT]", "show or set the title", _title),
    "tag": Command("[TAG -TAG]", "show, add or take away tags", _tag),
    "info": Command("", "what this session is", _info),
    "history": Command("", "everything that was said", _history),
    "memory": Command("", "what is remembered", _memory),
    "todos": Command("", "the todo list", _todos),
    "export": Command("[FILE]", "write this session to a file (.md, .html, .holdfast …)", _export),
    "continue": Command("", "go on with an answer that was interrupted", _continue),
    "delete": Command("[ID]", "put a session into the trash", _delete),
    "help": Command("", "this list", _help),
    "exit": Command("", "leave; the session stays", _exit),
}
