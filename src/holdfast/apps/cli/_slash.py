"""The slash commands of a chat: those that are about its screen and its sessions."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from holdfast.agent import can_go_on, fork_seq, is_child, offered_commands, usage_text
from holdfast.apps.cli._choice import choose
from holdfast.apps.cli._failure import suggestion
from holdfast.apps.cli._summary import print_conversation, print_header
from holdfast.apps.render.page import Column, Piece, Span
from holdfast.apps.render.words import ago, counted
from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import as_text
from holdfast.session import Session, now_ms

if TYPE_CHECKING:
    from holdfast.apps.cli._chat import Chat

_TURNS_SHOWN = 10
_PREVIEW_CHARS = 150
_HITS = 200
_FOUND_SHOWN = 20
_LAST_WORDS = 3
_NOTHING_SAID, _SAY_FIRST = "nothing has been said yet", "It takes at least one message."


class Choice(NamedTuple):
    """One row of a menu: its label, a remark, and a preview made when it is looked at."""

    words: str
    about: str
    preview: Callable[[], list[str]] | None = None


_LISTED = 20
_KEYS = (
    "What you type while the agent works reaches it before its next step; Esc interrupts it at once.",
    "Ctrl-C stops an answer, Ctrl-D leaves, Ctrl-R searches what you typed.",
)
_LIST = (Column(""), Column("ID"), Column("UPDATED"), Column("TITLE", flexible=True), Column("MSGS", right=True))


def obey(chat: Chat, name: str, rest: str) -> None:
    """Carry out a command. Raises UsageError for one that is not known."""
    if name not in COMMANDS:
        remedy = "/help lists the commands. To say something that begins with a slash, type two."
        close = suggestion(f"/{name}", [f"/{one}" for one in COMMANDS])
        raise UsageError(f"there is no command /{name}{close}", remedy=remedy)
    if rest and not COMMANDS[name].takes:
        raise UsageError(f"/{name} takes no arguments", remedy=f"Type /{name} alone.")
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
        first, *more = wrap(command.does, max(chat.app.out.columns - len(shown) - 2, 20))
        chat.app.out.line(Span(f"  {shown}", "name"), first)
        for line in more:
            chat.app.out.line(" " * (len(shown) + 2) + line)
    for line in _KEYS:
        chat.app.out.line(Span(f"  {line}", "faint"), hang=2)


def _list(chat: Chat, _: str) -> None:
    rows = chat.app.library.list(limit=_LISTED, agent_id=chat.talker.agent_id)
    if not rows:
        chat.app.out.line("There are no sessions yet.")
        return
    now, current = now_ms(), chat.session_id
    table: list[list[Piece]] = []
    for row in rows:
        mark, when = "*" if row.session_id == current else "", Span(ago(row.updated_at, now), "faint")
        table.append([mark, chat.app.name(row.session_id), when, row.title or "", str(row.message_count)])
    chat.app.out.table(_LIST, table)


def _load(chat: Chat, rest: str) -> None:
    if not rest:
        raise UsageError("/load needs the id of a session", remedy="/list shows them.")
    chat.talker.switch(choose(chat.app.library, rest))
    chat.greet()


def _sessions(chat: Chat, rest: str) -> None:
    """Choose one of the newest sessions, by its title and its last words."""
    words = rest.casefold()
    found = chat.app.library.list(limit=200, agent_id=chat.talker.agent_id)
    rows = [row for row in found if words in f"{row.title} {row.session_id}".casefold()]
    rows = rows if chat.draws else rows[:_TURNS_SHOWN]
    if not rows:
        chat.app.out.line("No session matches.")
        return
    now = now_ms()
    shown = [
        Choice(
            row.title or row.session_id,
            f"{ago(row.updated_at, now)}, {counted(row.message_count, 'message')}",
            partial(_last_words, chat, row.session_id),
        )
        for row in rows
    ]
    chosen = chat.choose("Which session?", shown)
    if chosen is not None:
        _load(chat, rows[chosen].session_id)


def _last_words(chat: Chat, id: str) -> list[str]:
    """Return the last things that were said in a session, the newest last; at least one line."""
    said = list(chat.app.library.events(id, types=["user", "assistant"], reverse=True, limit=_LAST_WORDS))
    signs = {"user": "› ", "assistant": ""}
    lines = [signs[event.type] + " ".join(as_text(event.data.get("content")).split()) for event in reversed(said)]
    return lines or [""]


def _search(chat: Chat, rest: str) -> None:
    from holdfast.apps.render.search import gather, parents_in

    if not rest:
        raise UsageError("/search needs words to look for", remedy="For example: /search Lisbon")
    hits = chat.app.library.search(rest, limit=_HITS)
    found = gather(hits, parents_in(chat.app.library))[:_FOUND_SHOWN]
    if not found:
        chat.app.out.line("Nothing was found.")
        return
    shown = []
    for one in found:
        words = [" ".join(hit.snippet.text.split()) for hit in one.hits[:_LAST_WORDS]]
        when = ago(max(hit.timestamp for hit in one.hits), now_ms())
        about = f"{counted(len(one.hits), 'hit')}, {when}"
        shown.append(Choice(one.title or one.session_id, about, partial(list, words)))
    chosen = chat.choose("Continue which one?", shown)
    if chosen is not None:
        _load(chat, found[chosen].session_id)


def _asked(chat: Chat) -> list[Event]:
    """Return the user's messages in this session, newest first."""
    said = chat.app.library.events(_session(chat).id, types=["user"], reverse=True)
    return [event for event in said if is_asked(event)]


def is_asked(event: Event) -> bool:
    """Return whether a message began a turn: not one from agent to agent, nor a message to a working agent."""
    return not is_child(event) and event.data.get("synthetic") is not True and event.data.get("steer") is None


def _back(chat: Chat, rest: str) -> None:
    """Go back to before something that the user said; the session stays as it is, and this goes on beside it."""
    asked = _asked(chat)
    if not asked:
        raise UsageError(_NOTHING_SAID, remedy=_SAY_FIRST)
    if not rest:
        now = now_ms()
        shown = [
            Choice(" ".join(as_text(event.data.get("content")).split())[:_PREVIEW_CHARS], ago(event.timestamp, now))
            for event in (asked if chat.draws else asked[:_TURNS_SHOWN])
        ]
        chosen = chat.choose("Back to before which one?", shown)
        if chosen is None:
            return
        rest = str(chosen + 1)
    if not rest.isdecimal() or not 1 <= int(rest) <= len(asked):
        remedy = "/back alone shows the turns to choose from."
        raise UsageError(f"/back takes a number from 1, the last turn, to {len(asked)}, the first", remedy=remedy)
    _go_before(chat, asked[int(rest) - 1])
    chat.greet()


def _go_before(chat: Chat, event: Event) -> None:
    library, left = chat.app.library, _session(chat).id
    starts = library.events(left, stop=event.seq, types=["turn_start"], reverse=True, limit=1)
    at = next((start.seq for start in starts if start.run == event.run), event.seq) - 1
    if at < 1:
        chat.talker.begin()
    else:
        chat.talker.switch(library.restore(left, at))
    chat.gone_back.append(left)


def _undo(chat: Chat, _: str) -> None:
    if not chat.gone_back:
        raise UsageError("there is no /back to undo", remedy="/back goes back to an earlier turn.")
    chat.talker.switch(chat.gone_back.pop())
    chat.greet()


def _retry(chat: Chat, _: str) -> None:
    """Ask the last question again: in place if it has no answer yet, else from before it."""
    session, asked = _session(chat), _asked(chat)
    if can_go_on(session):
        chat.say(None)
        return
    if not asked:
        raise UsageError(_NOTHING_SAID, remedy=_SAY_FIRST)
    _go_before(chat, asked[0])
    chat.say(asked[0].data["content"])


def _model(chat: Chat, rest: str) -> None:
    if rest:
        chat.talker.use_model(rest)
    choice = chat.talker.choice
    chat.app.out.line(choice.explain_briefly() if rest else choice.explain())


def _cost(chat: Chat, _: str) -> None:
    for line in usage_text(_session(chat), chat.cost()).splitlines():
        chat.app.out.line(line)


def _new(chat: Chat, _: str) -> None:
    chat.talker.begin()
    chat.talker.tell_session()


def _fork(chat: Chat, rest: str) -> None:
    """Go on in a fork; with a number, from that event on."""
    seq = fork_seq(rest)
    chat.talker.switch(chat.app.library.fork(_session(chat).id, seq))
    chat.greet()


def _info(chat: Chat, _: str) -> None:
    print_header(chat.app, chat.app.library.info(_session(chat).id), None)
    chat.app.out.line(Span(f"  {chat.talker.choice.explain()}", "faint"), hang=2)


def _history(chat: Chat, _: str) -> None:
    print_conversation(chat.app, chat.app.library.events(_session(chat).id), full=True)
    chat.app.out.line()


def _export(chat: Chat, rest: str) -> None:
    """Export as ``/export [FILE]``: the file's name gives the format; the default name is the session's id."""
    from holdfast.apps.cli.export import format_by_name

    session = _session(chat)
    names = (f"{session.id}{number}.md" for number in ("", *(f"-{one}" for one in range(2, 1_000))))
    path = rest or next(name for name in names if not os.path.lexists(name))
    if os.path.lexists(path):
        raise UsageError(f"{path} exists already", remedy="Choose another name.")
    chat.app.library.export(session.id, format_by_name(path), to=path)
    chat.app.out.line("Saved as ", Span(path, "name"))


def _delete(chat: Chat, rest: str) -> None:
    wanted = choose(chat.app.library, rest) if rest else _session(chat).id
    if not chat.confirm(f"Move session {chat.app.name(wanted).text} to the trash?"):
        chat.app.out.line("Nothing was deleted.")
        return
    # A session that is open cannot be deleted.
    if wanted == chat.session_id:
        chat.talker.begin()
    chat.app.library.delete(wanted)
    chat.app.out.line("Deleted ", Span(wanted, "name"))
    chat.app.out.line(Span(f"  Bring it back with: holdfast undelete {wanted}", "faint"))


def _exit(chat: Chat, _: str) -> None:
    chat.is_over = True


def _session(chat: Chat) -> Session:
    session = chat.talker.session
    if session is None:
        raise UsageError("there is no session yet", remedy="It starts with your first message.")
    return session


OWN: dict[str, Callable[[Chat, str], None]] = {
    "sessions": _sessions,
    "search": _search,
    "back": _back,
    "undo": _undo,
    "retry": _retry,
    "model": _model,
    "cost": _cost,
    "list": _list,
    "load": _load,
    "new": _new,
    "fork": _fork,
    "info": _info,
    "history": _history,
    "export": _export,
    "continue": lambda chat, _: chat.say(None),
    "delete": _delete,
    "help": _help,
    "exit": _exit,
}
COMMANDS = offered_commands(OWN)
