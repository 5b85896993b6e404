"""The commands of a chat: what begins with a slash."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.agent import fork_seq, offered_commands
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._summary import print_conversation, print_header
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago
from holdfast.errors import UsageError
from holdfast.session import Session, now_ms

if TYPE_CHECKING:
    from holdfast.apps.cli._chat import Chat

_LISTED = 20
_LIST = (
    Column(""),
    Column("ID"),
    Column("UPDATED"),
    Column("TITLE", flexible=True),
    Column("MSGS", right=True),
)


def obey(chat: Chat, name: str, rest: str) -> None:
    """Carry out a command. Raises UsageError for one that is not known."""
    if name not in COMMANDS:
        raise UsageError(
            f"there is no command /{name}{suggestion(name, COMMANDS)}",
            remedy="/help lists them. To say something that begins with a slash, write two.",
        )
    if name in OWN:
        OWN[name](chat, rest)
        return
    act = COMMANDS[name].act
    assert act is not None
    for line in act(_session(chat), rest).splitlines():
        chat.app.out.line(line)


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
    seq = fork_seq(rest)
    made = chat.app.library.fork(_session(chat).id, seq)
    chat.talker.switch(made)
    chat.greet()


def _info(chat: Chat, _: str) -> None:
    print_header(chat.app, chat.app.library.info(_session(chat).id), None)
    chat.app.out.line(Span(f"  {chat.talker.choice.explain()}", "faint"))


def _history(chat: Chat, _: str) -> None:
    session = _session(chat)
    print_conversation(chat.app, chat.app.library.events(session.id), full=True)
    chat.app.out.line()


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


OWN: dict[str, Callable[[Chat, str], None]] = {
    "list": _list,
    "load": _load,
    "new": _new,
    "fork": _fork,
    "info": _info,
    "history": _history,
    "export": _export,
    "continue": _continue,
    "delete": _delete,
    "help": _help,
    "exit": _exit,
}
COMMANDS = offered_commands(OWN)
